//! What the client alone knows of slow iterations, in words: for runs without traces, or with too few.
//!
//! It never says what a service did: of a request's time only the waiting for its answer is known. Nothing here may compute
//! a statistic.

use super::differences;
use super::document::StyledLine;
use super::texts::duration;
use analysis::explanation::QUEUE_TIME;
use analysis::feature::CLIENT;
use results::client_points::{ACTION, GROUP, ITERATION, QUEUE_TIME_POINT};
use results::model::{AttributeDifference, ClientComparison, ComparedKind, Comparison};

/// Where the time of slow iterations went by the client's own figures, what they have in common, and where in the run they
/// are.
#[must_use]
pub fn sentences(seen: &ClientComparison) -> Vec<StyledLine> {
    let found = seen.differences.iter().flat_map(|differences| &differences.found);
    let common = differences::lines(seen.places.as_ref(), found, seen.typical_ms);
    std::iter::once(where_it_went(seen)).chain(common).collect()
}

/// What the client knows beside too few traces: where the time of slow iterations went if a part stands out, and what
/// they have in common by client or traces. The comparison of the traces says already how much longer slow iterations
/// take.
#[must_use]
pub fn beside(traced: &Comparison, seen: Option<&ClientComparison>) -> Vec<StyledLine> {
    let stands_out = seen.filter(|seen| seen.parts.iter().any(|part| part.is_cause));
    let by_client = seen.and_then(|seen| seen.differences.as_ref());
    let is_new = |one: &&AttributeDifference| by_client.is_none() || !one.value.attribute.starts_with(CLIENT);
    let by_services = traced.differences.iter().flat_map(|differences| &differences.found).filter(is_new);
    let found = by_client.into_iter().flat_map(|differences| &differences.found).chain(by_services);
    let (places, typical_ms) = match seen {
        Some(seen) => (seen.places.as_ref(), seen.typical_ms),
        None => (traced.places.as_ref(), traced.typical_ms),
    };
    stands_out.map(where_it_went).into_iter().chain(differences::lines(places, found, typical_ms)).collect()
}

/// `By the client's own times, iterations above p95 take … longer than typical ones (…); waiting for the answer …`.
fn where_it_went(seen: &ClientComparison) -> StyledLine {
    let mut line = StyledLine::from(format!(
        "By the client's own times, iterations above p{} take {} longer than typical ones ({} instead of {}, on average)",
        100_u32.saturating_sub(seen.slow_percent),
        duration(seen.slow_ms - seen.typical_ms),
        duration(seen.slow_ms),
        duration(seen.typical_ms)
    ));
    if let Some(part) = seen.parts.iter().find(|part| part.is_cause) {
        line.text("; ").line(name(part));
        line.text(format!(" explains {} of it (at least {})", percent(part.share), percent(part.share_low)));
    }
    line.text(".").done()
}

/// What the client did in a part of an iteration.
pub(super) fn name(part: &ComparedKind) -> StyledLine {
    let action = |text: &str, action: &str| match action {
        "" => StyledLine::from(text),
        action => StyledLine::from(format!("{text} in action ")).code(action).done(),
    };
    let around = part.parent.strip_prefix(ACTION).unwrap_or_default().trim_start();
    match part.name.as_str() {
        QUEUE_TIME_POINT => QUEUE_TIME.into(),
        ITERATION => "time between requests".into(),
        ACTION => action("waiting for the answer", &part.detail),
        GROUP => StyledLine::from("time between the steps of group ").code(&part.detail).done(),
        "resolve" => action("resolving the name", around),
        "connect" => action("opening a connection", around),
        "TLS" => action("the TLS handshake", around),
        "send" => action("sending the request", around),
        "receive" => action("reading the answer", around),
        "redirect" => action("following redirects", around),
        other => action(other, around),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share.clamp(0.0, 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::document::terminal;

    fn seen(name: &str, detail: &str, parent: &str, is_cause: bool) -> ClientComparison {
        serde_json::from_value(json!({
            "slow_percent": 5, "slow": 30, "typical": 40, "slow_ms": 320.0, "typical_ms": 20.0,
            "parts": [{
                "service": "bench", "name": name, "detail": detail, "parent": parent, "outside": false,
                "delta_ms": 290.0, "share": 0.97, "share_low": 0.93, "share_high": 1.0, "slow_calls": 1.0,
                "typical_calls": 1.0, "more_calls_ms": 0.0, "slower_calls_ms": 290.0, "effect": 1.0,
                "exceeding": 1.0, "guilty": is_cause, "worst_trace_id": null,
            }],
            "places": { "first": {
                "slow": 14, "among": 15, "of": 600, "slow_ms": 320.0, "warm_up": 0, "chance": 0.002,
            } },
        }))
        .unwrap()
    }

    #[test]
    fn the_client_says_where_time_went_and_where_slow_ones_are() {
        let head = "By the client's own times, iterations above p95 take 300 ms longer than typical ones (320 ms instead of 20.0 \
                    ms, on average)";
        for (name, detail, parent, is_cause, expected) in [
            (
                "action",
                "buy",
                "iteration t",
                true,
                "; waiting for the answer in action `buy` explains 97 % of it (at least 93 %).",
            ),
            (
                "connect",
                "",
                "action buy",
                true,
                "; opening a connection in action `buy` explains 97 % of it (at least 93 %).",
            ),
            (
                "receive",
                "",
                "action buy",
                true,
                "; reading the answer in action `buy` explains 97 % of it (at least 93 %).",
            ),
            (
                "scheduling delay",
                "",
                "iteration t",
                true,
                "; queue time before the start explains 97 % of it (at least 93 %).",
            ),
            ("iteration", "t", "", true, "; time between requests explains 97 % of it (at least 93 %)."),
            ("action", "buy", "iteration t", false, "."),
        ] {
            let lines = sentences(&seen(name, detail, parent, is_cause));
            let lines: Vec<String> =
                lines.iter().map(|line| terminal::line(line, terminal::TerminalStyle::default())).collect();
            assert_eq!(lines[0], format!("{head}{expected}"));
            assert!(lines[1].starts_with("14 of the first 15 of 600 iterations are slow ones"), "{lines:?}");
            assert_eq!(lines.len(), 2);
        }
    }

    #[test]
    fn beside_too_few_traces_nothing_is_said_twice() {
        let found = |attribute: &str| {
            json!({ "attribute": attribute, "value": "v", "slow_share": 0.9, "typical_share": 0.0, "low": 0.6,
                "high": 1.0, "chance": 1e-9 })
        };
        let differences = |attributes: &[&str]| {
            let found: Vec<_> = attributes.iter().map(|attribute| found(attribute)).collect();
            serde_json::from_value(json!({ "slow": 12, "typical": 24, "tested": 9, "found": found })).unwrap()
        };
        let traced = Comparison {
            typical_ms: 20.0,
            differences: Some(differences(&["client.address", "cache"])),
            ..serde_json::from_value(json!({
                "slow_percent": 5, "slow": 12, "typical": 24, "slow_ms": 320.0, "typical_ms": 20.0, "left_out": 0,
                "no_finding": "few_traces", "kinds": [], "clocks_moved": 0, "clocks_inconsistent": 0, "tree": [],
            }))
            .unwrap()
        };
        let address = "Slow ones more often get their answers from `v`";
        let (first, cache) = ("14 of the first 15", "Slow ones more often have `cache=v`");
        let by_client = "By the client's own times";
        for (seen, expected) in [
            (None, vec![address, cache]),
            (Some(seen("action", "buy", "", false)), vec![first, address, cache]),
            (Some(seen("action", "buy", "", true)), vec![by_client, first, address, cache]),
        ] {
            let seen = seen
                .map(|seen| ClientComparison { differences: Some(differences(&["client.address"])), ..seen });
            let lines: Vec<String> = beside(&traced, seen.as_ref())
                .iter()
                .map(|line| terminal::line(line, terminal::TerminalStyle::default()))
                .collect();
            assert_eq!(lines.len(), expected.len(), "{lines:?}");
            for (line, begins) in lines.iter().zip(expected) {
                assert!(line.starts_with(begins), "{line}");
            }
        }
    }
}
