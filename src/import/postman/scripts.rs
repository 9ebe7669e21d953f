//! What is read of scripts: a value that is kept from an answer, and a status that is asked for.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

/// What a test amounts to.
#[derive(Debug, Default, PartialEq)]
pub(super) struct TestScript {
    /// The status that it asks for.
    pub(super) status: Option<u16>,
    /// Variables, and the JSONPaths of their values in the answer.
    pub(super) kept: Vec<(String, String)>,
    /// True if it does more.
    pub(super) is_partial: bool,
}

/// Nothing longer is looked at.
const BYTES_MAX: usize = 64 << 10;

/// The scripts of an item that are not empty; of this kind, or all.
pub(super) fn texts(item: &Value, kind: Option<&str>) -> Vec<String> {
    let events = item.get("event").and_then(Value::as_array).into_iter().flatten();
    let own = events
        .filter(|event| kind.is_none_or(|kind| event.get("listen").and_then(Value::as_str) == Some(kind)));
    let text = |event: &Value| match event.get("script")?.get("exec")? {
        Value::String(text) => Some(text.clone()),
        Value::Array(lines) => Some(lines.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")),
        _ => None,
    };
    own.filter_map(text).filter(|text| !text.trim().is_empty()).collect()
}

#[expect(clippy::unwrap_used, reason = "constants, covered by tests")]
static STATUS: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?x) pm\.response\.to\.have\.status\(\s*(\d{3})\s*\)
        | (?:pm\.expect\(\s*pm\.response\.code\s*\)\.to\.(?:be\.)?(?:eql|equal|eq)\(\s*(\d{3})\s*\))
        | tests\[[^\]]*\]\s*=\s*responseCode\.code\s*={2,3}\s*(\d{3})",
    )
    .unwrap()
});
#[expect(clippy::unwrap_used, reason = "constants, covered by tests")]
static KEPT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#"(?x) (?:pm\.(?:environment|collectionVariables|globals|variables)\.set
            | postman\.set(?:Environment|Global)Variable) \(\s* ["']([^"']{1,100})["'] \s*,\s*
        ( pm\.response\.json\(\) | [A-Za-z_$][\w$]* ) ( (?: \.[A-Za-z_$][\w$]* | \[\d{1,6}\] )+ ) \s*\)"#,
    )
    .unwrap()
});
#[expect(clippy::unwrap_used, reason = "constants, covered by tests")]
static PARSED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(?:var|let|const)?\s*([A-Za-z_$][\w$]*)\s*=\s*(?:pm\.response\.json\(\)|JSON\.parse\(\s*responseBody\s*\))",
    )
    .unwrap()
});

/// What a test amounts to.
pub(super) fn found(text: &str) -> TestScript {
    if text.len() > BYTES_MAX {
        return TestScript { is_partial: true, ..TestScript::default() };
    }
    let parsed: Vec<&str> = PARSED.captures_iter(text).filter_map(|one| Some(one.get(1)?.as_str())).collect();
    let mut script = TestScript::default();
    for one in KEPT.captures_iter(text) {
        let (base, path) = (&one[2], &one[3]);
        if base == "pm.response.json()" || parsed.contains(&base) {
            script.kept.push((one[1].to_owned(), format!("${path}")));
        }
    }
    let status = STATUS.captures(text);
    let status = status.and_then(|one| one.iter().skip(1).flatten().next()?.as_str().parse().ok());
    script.status = status.filter(|status| (100..600).contains(status));
    // Other checks and statements are recognised by what calls them.
    let checks = ["pm.expect(", "pm.response.to.", "pm.sendRequest(", "tests["];
    let calls: usize = checks.iter().map(|check| text.matches(check).count()).sum();
    let sets = text.matches(".set(").count() + text.matches("Variable(").count();
    let understood = usize::from(script.status.is_some());
    script.is_partial = calls > understood || sets > script.kept.len() || understood + script.kept.len() == 0;
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_and_what_is_asked_for() {
        let kept = |name: &str, path: &str| (name.to_owned(), path.to_owned());
        for (text, expected) in [
            (
                "pm.test('ok', () => { pm.response.to.have.status(201); });\nconst body = pm.response.json();\n\
                 pm.environment.set(\"order id\", body.order.items[0].id);",
                TestScript {
                    status: Some(201),
                    kept: vec![kept("order id", "$.order.items[0].id")],
                    is_partial: false,
                },
            ),
            (
                "var jsonData = JSON.parse(responseBody);\npostman.setEnvironmentVariable('token', jsonData.token);",
                TestScript { status: None, kept: vec![kept("token", "$.token")], is_partial: false },
            ),
            (
                "pm.collectionVariables.set('t', pm.response.json().t); pm.expect(x).to.eql(1);",
                TestScript { status: None, kept: vec![kept("t", "$.t")], is_partial: true },
            ),
            (
                "pm.expect(pm.response.code).to.equal(204)",
                TestScript { status: Some(204), kept: Vec::new(), is_partial: false },
            ),
            (
                "tests['s'] = responseCode.code === 200;",
                TestScript { status: Some(200), kept: Vec::new(), is_partial: false },
            ),
            ("pm.environment.set('t', other.t)", TestScript { is_partial: true, ..TestScript::default() }),
            ("console.log(1)", TestScript { is_partial: true, ..TestScript::default() }),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }
}
