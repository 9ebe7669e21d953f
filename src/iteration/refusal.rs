//! What an OpenStack service says when it refuses a request, and whether a quota is the reason.
//!
//! Every service has its own form: `{"badRequest": {"message": …}}` (Nova, Cinder), `{"NeutronError": {"message": …}}`,
//! `{"error": {"message": …}}` (Keystone), `{"faultstring": …}` (Mistral), a page of HTML or a line (Glance).

use serde_json::Value;

/// A longer answer is not a refusal.
const BODY_BYTES_MAX: usize = 64 << 10;
const WORDS_MAX: usize = 300;

/// The service's message: one line, of bounded length; `None` if there is none.
#[must_use]
pub fn words(body: &[u8]) -> Option<String> {
    let body = body.get(..BODY_BYTES_MAX.min(body.len()))?;
    let found = match serde_json::from_slice::<Value>(body) {
        Ok(json) => message(&json).map(str::to_owned),
        Err(_) => Some(without_tags(&String::from_utf8_lossy(body))),
    };
    let line: String = found?.split_whitespace().collect::<Vec<_>>().join(" ");
    let line: String = line.chars().filter(|c| !c.is_control()).take(WORDS_MAX).collect();
    (!line.is_empty()).then_some(line)
}

fn message(json: &Value) -> Option<&str> {
    let map = json.as_object()?;
    let within = || map.values().find_map(|inner| inner.get("message").and_then(Value::as_str));
    let own = ["message", "faultstring", "NeutronError", "detail"];
    let own = || own.iter().find_map(|key| map.get(*key).and_then(Value::as_str));
    let first_of_list = || json.pointer("/errors/0/detail").and_then(Value::as_str);
    within().or_else(own).or_else(first_of_list)
}

fn without_tags(text: &str) -> String {
    let text =
        text.split_once("<body").map_or(text, |(_, body)| body.split_once('>').map_or(body, |(_, b)| b));
    let mut words = String::new();
    let mut depth = 0_usize;
    for c in text.chars() {
        match c {
            '<' => depth += 1,
            '>' if depth > 0 => {
                depth -= 1;
                words.push(' ');
            }
            _ if depth == 0 => words.push(c),
            _ => {}
        }
    }
    words
}

/// The service's message if it refuses because a quota is used up.
#[must_use]
pub fn over_quota(status: u16, body: &[u8]) -> Option<String> {
    // Nova answers 403, Cinder and Glance 413, Neutron 409; others 400 or 429.
    if ![400, 403, 409, 413, 429].contains(&status) || body.len() > BODY_BYTES_MAX {
        return None;
    }
    let text = String::from_utf8_lossy(body).to_lowercase();
    let names_it = text.contains("quota") && text.contains("exceed");
    if !names_it && !["overquota", "over quota", "limitexceeded"].iter().any(|says| text.contains(says)) {
        return None;
    }
    Some(words(body).unwrap_or_else(|| "no message".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_is_understood() {
        for (body, expected) in [
            (
                r#"{"badRequest": {"code": 400, "message": "Can not find requested image"}}"#,
                Some("Can not find requested image"),
            ),
            (r#"{"NeutronError": {"type": "X", "message": "No.", "detail": ""}}"#, Some("No.")),
            (r#"{"error": {"message": "Not found.", "code": 404}}"#, Some("Not found.")),
            (r#"{"faultstring": "Workflow not found", "debuginfo": null}"#, Some("Workflow not found")),
            (r#"{"errors": [{"status": 400, "detail": "Bad\nclass"}]}"#, Some("Bad class")),
            (
                "<html><head><title>403 Forbidden</title></head><body><h1>403</h1> No <br />way.</body></html>",
                Some("403 No way."),
            ),
            ("plain\r\nwords", Some("plain words")),
            ("{}", None),
            ("", None),
            ("[]", None),
            ("7", None),
        ] {
            assert_eq!(words(body.as_bytes()).as_deref(), expected, "{body}");
        }
        let long = format!(r#"{{"error": {{"message": "{}"}}}}"#, "ü".repeat(9_000));
        assert_eq!(words(long.as_bytes()).unwrap_or_default().chars().count(), WORDS_MAX);
    }

    #[test]
    fn quotas_are_told_from_other_refusals() {
        for (status, body, expected) in [
            (
                403,
                r#"{"forbidden": {"code": 403, "message": "Quota exceeded for instances: Requested 1, but already used 2 of 2 instances"}}"#,
                Some("Quota exceeded for instances: Requested 1, but already used 2 of 2 instances"),
            ),
            (
                413,
                r#"{"overLimit": {"code": 413, "message": "VolumeLimitExceeded: Maximum number of volumes allowed (1) exceeded for quota 'volumes'."}}"#,
                Some(
                    "VolumeLimitExceeded: Maximum number of volumes allowed (1) exceeded for quota 'volumes'.",
                ),
            ),
            (
                409,
                r#"{"NeutronError": {"type": "OverQuota", "message": "Quota exceeded for resources: ['network'].", "detail": ""}}"#,
                Some("Quota exceeded for resources: ['network']."),
            ),
            (
                413,
                "Request Entity Too Large: the image exceeds quota",
                Some("Request Entity Too Large: the image exceeds quota"),
            ),
            (403, r#"{"forbidden": {"code": 403, "message": "Policy doesn't allow it"}}"#, None),
            (409, r#"{"NeutronError": {"type": "InUse", "message": "Network is in use."}}"#, None),
            (500, r#"{"error": {"message": "Quota exceeded"}}"#, None),
            (403, "", None),
        ] {
            assert_eq!(over_quota(status, body.as_bytes()).as_deref(), expected, "{body}");
        }
    }
}
