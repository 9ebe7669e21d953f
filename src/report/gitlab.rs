//! A run as GitLab's merge requests show load tests: `artifacts:reports:load_performance`, which has the form of k6's
//! summary.
//!
//! GitLab shows `http_reqs.rate` (RPS), `p(90)` and `p(95)` of `http_req_waiting` (TTFB), and the share of
//! `checks.passes`, beside those of the target branch. Times are in milliseconds.

use serde_json::{Map, Value, json};

use results::request_figures::{PERCENTILES, RequestFigures};

/// The names of [`PERCENTILES`] in k6's summary.
const NAMES: [&str; PERCENTILES.len()] = ["med", "p(90)", "p(95)", "p(99)"];

/// The file's content, with a final line feed.
#[must_use]
pub fn load_performance(figures: &RequestFigures) -> String {
    let mut metrics = Map::new();
    let mut add = |name: &str, value: Value| drop(metrics.insert(name.to_owned(), value));
    add("http_reqs", json!({ "count": figures.sent, "rate": figures.rate_per_s }));
    add("iterations", json!({ "count": figures.iterations, "rate": figures.iterations_per_s }));
    for (name, times) in
        [("http_req_duration", &figures.duration_ms), ("http_req_waiting", &figures.waiting_ms)]
    {
        if let Some(times) = times {
            let times = NAMES.iter().zip(times).map(|(name, ms)| ((*name).to_owned(), json!(ms)));
            add(name, Value::Object(times.collect()));
        }
    }
    // Without a request, GitLab would show no number.
    let all = figures.ok + figures.failed;
    if all > 0 {
        let value = figures.ok as f64 / all as f64;
        add("checks", json!({ "passes": figures.ok, "fails": figures.failed, "value": value }));
    }
    format!("{:#}\n", json!({ "metrics": metrics }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the widget of GitLab's merge requests reads (`normalizeLoadPerformanceMetrics` of its page, and its manual).
    #[test]
    fn gitlab_finds_its_four_figures() {
        let times = Some([1.0, 9.5, 12.25, 20.0]);
        let figures = RequestFigures {
            sent: 200,
            rate_per_s: 66.5,
            ok: 199,
            failed: 1,
            iterations: 100,
            iterations_per_s: 33.25,
            duration_ms: times,
            waiting_ms: times,
        };
        let read: Value = serde_json::from_str(&load_performance(&figures)).unwrap();
        let metrics = &read["metrics"];
        assert_eq!(metrics["http_reqs"]["rate"], 66.5);
        assert_eq!(metrics["http_req_waiting"]["p(90)"], 9.5);
        assert_eq!(metrics["http_req_waiting"]["p(95)"], 12.25);
        assert_eq!((&metrics["checks"]["passes"], &metrics["checks"]["fails"]), (&json!(199), &json!(1)));
        let none: Value = serde_json::from_str(&load_performance(&RequestFigures::default())).unwrap();
        assert!(none["metrics"].get("checks").is_none() && none["metrics"].get("http_req_waiting").is_none());
    }
}
