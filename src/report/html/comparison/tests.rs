//! What the pages of comparisons hold, and that a hostile text in them stays text.
//!
//! `BENCH_WRITE_SAMPLE_COMPARISON=DIR cargo test comparison` writes them to look at.

use super::*;
use crate::compare::{PointDifference, RunRef, TracePoints};
use crate::pairs::{CountedPoint, CountedTrace, FurtherRounds, PairCount, RoundInfo};
use analysis::call_changes::CallChange;
use analysis::points::PointRow;
use base::visible::is_deceptive;
use results::model::{Counts, Outcome, ScenarioInfo};
use verdict::compare::FailuresRow;
use verdict::history::{HistoryFailures, HistoryRow};
use verdict::paired::{
    CountRow, Decision, Failures, PercentileSeries, PercentileSeriesRow, SlaRow, SlaSide, WorkloadNames,
};

/// A percentile in twelve pairs; in one of them B has none.
fn row(
    action: Option<usize>,
    percentile: f64,
    gated: bool,
    middle_ms: f64,
    outcome: Outcome,
) -> PercentileSeriesRow {
    let slower = if outcome == Outcome::Fail { 1.19 } else { 1.01 };
    let pair_ms = |n: usize| {
        let noise = |n: usize| ((n * n * 31 + n * 17) % 29) as f64 / 290.0 - 0.05;
        let b = (n != 5).then(|| middle_ms * slower * (1.0 + noise(n + 3)));
        (Some(middle_ms * (1.0 + noise(n))), b)
    };
    PercentileSeriesRow {
        series: PercentileSeries { workload: 0, action, phase: None, percentile, gated },
        a_ms: Some(middle_ms),
        b_ms: Some(middle_ms * slower),
        ratio: Some(slower),
        low: Some(slower - 0.05),
        high: Some(slower + 0.06),
        alpha: 0.0025,
        sd: Some(0.03),
        detectable: Some(1.14),
        needed: None,
        wilcoxon_p: Some(0.0012),
        outcome: if gated { outcome } else { Outcome::None },
        samples: 400,
        pairs: (0..12).map(pair_ms).collect(),
    }
}

fn point(words: &dyn Fn(&str) -> String, slow: bool, name: &str, difference_ms: f64) -> PointRow {
    PointRow {
        slow,
        service: words("keystone/public"),
        name: words(name),
        a_self_ms: 12.0,
        b_self_ms: 12.0 + difference_ms,
        a_calls: 2.0,
        b_calls: 2.0,
        difference_ms,
        low_ms: difference_ms - 1.5,
        high_ms: difference_ms + 1.4,
    }
}

/// A count that failed, with the points and the traces that show it.
fn counted(words: &dyn Fn(&str) -> String) -> PairCount {
    let trace =
        |file: &str, count| Some(CountedTrace { trace_id: uuid::Uuid::nil(), file: words(file), count });
    let row = CountRow {
        workload: 0,
        metric: words("count(trace \"db\")"),
        a: Some(2.0),
        b: Some(22.0),
        low: Some(20.0),
        high: Some(20.0),
        exact: true,
        alpha: 0.001,
        outcome: Outcome::Fail,
        reason: None,
        traces: [90, 90],
        pairs: vec![(Some(2.0), Some(22.0)); 3],
    };
    let point = CountedPoint {
        service: words("keystone/public"),
        name: words("db SELECT 1"),
        a_calls: 2.0,
        b_calls: 22.0,
    };
    PairCount {
        row,
        points: vec![point],
        a_trace: trace("0001-a/traces/1.json", 2),
        b_trace: trace("0001-b/traces/2.json", 22),
    }
}

/// A kind of point that B calls more often.
fn more_calls(words: &dyn Fn(&str) -> String) -> CallChange {
    CallChange {
        service: words("keystone/public"),
        name: words("db SELECT 1"),
        a_calls: 2.0,
        b_calls: 22.0,
        low: 20.0,
        high: 20.0,
        exact: true,
    }
}

/// One of the scenario's criteria.
fn of_sla(words: &dyn Fn(&str) -> String, outcome: Outcome) -> SlaRow {
    SlaRow {
        workload: words("list-users"),
        criterion: words("thresholds"),
        condition: words("p99 < 250ms"),
        severity: results::model::Severity::Fail,
        a: SlaSide {
            rounds: 12,
            passed: 12,
            outcome: Outcome::Pass,
            observed: words("240 ms"),
            ..SlaSide::default()
        },
        b: SlaSide {
            rounds: 12,
            failed: 11,
            passed: 1,
            outcome,
            observed: words("260 ms"),
            ..SlaSide::default()
        },
    }
}

fn failed() -> Failures {
    let (a, b, p_greater) = (4, 5, Some(0.4));
    Failures { workload: 0, a, a_share: 0.0008, b, b_share: 0.001, p_greater, outcome: Outcome::Pass }
}

/// The rounds of a pair.
fn pair(words: &dyn Fn(&str) -> String, number: usize) -> Pair {
    let round = |side: &str, number: usize| RoundInfo {
        directory: words(&format!("{number:04}-{side}")),
        started_at: words("2025-11-20T12:00:00Z"),
        iterations: 400,
        failed: 1,
        duration_s: 30.0,
        length: 1.0,
    };
    let further = (number == 2).then(|| FurtherRounds { a: round("a2", 3), b: round("b2", 3) });
    Pair {
        b_first: number.is_multiple_of(3),
        left_out: (number == 4).then(|| words("the load generator itself was the limit")),
        a: round("a", number + 1),
        b: round("b", number + 1),
        further: further.into_iter().collect(),
    }
}

/// A comparison of two builds; with a text, the text is in every place.
pub(crate) fn paired(text: Option<&str>, outcome: Outcome) -> PairDocument {
    let words = |own: &str| text.unwrap_or(own).to_owned();
    let side = |name: &str| Side {
        name: words(name),
        deployment: words("deployments/staging.yaml"),
        target: None,
        command: Some(words("./target/release/api --port 8080")),
    };
    PairDocument {
        format: "bench-ab".to_owned(),
        version: 1,
        bench_version: "0.1.0".to_owned(),
        decision: Decision { outcome, reasons: text.map(str::to_owned).into_iter().collect() },
        finished: true,
        scenario: ScenarioInfo {
            title: words("Log in, then list users"),
            file: words("scenarios/keystone.yaml"),
            sha256: words(&"6d2c0b5f".repeat(8)),
            set: std::collections::BTreeMap::new(),
            options: Vec::new(),
            text: None,
        },
        a: side("main"),
        b: side("feature/tokens"),
        margin_percent: 10.0,
        looks: [10, 20],
        alpha: 0.0025,
        order_seed: 7,
        seed: None,
        pairs: (0..13).map(|number| pair(&words, number)).collect(),
        workloads: vec![WorkloadNames {
            workload: words("list-users"),
            actions: vec![words("log in"), words("list")],
        }],
        rows: vec![
            row(None, 50.0, true, 88.0, outcome),
            row(None, 95.0, true, 190.0, outcome),
            row(Some(0), 95.0, false, 120.0, outcome),
            row(Some(1), 95.0, false, 60.0, outcome),
        ],
        counts: vec![counted(&words)],
        sla: vec![of_sla(&words, outcome)],
        failures: vec![failed()],
        points: vec![
            point(&words, false, "db SELECT role.id FROM assignment WHERE actor_id = ?", 14.2),
            point(&words, false, "wsgi GET /v3/users", 0.4),
            point(&words, false, "redis", -2.1),
            point(&words, true, "db SELECT role.id FROM assignment WHERE actor_id = ?", 31.0),
        ],
        functions: vec![
            point(&words, false, "src/reply.rs:41(escape_cells)", 12.5),
            point(&words, false, "src/reply.rs:12(render)", -0.5),
        ],
        calls: vec![more_calls(&words)],
        notes: vec![words("the first pair is left out: the build was still compiling its templates")],
    }
}

fn run_ref(words: &dyn Fn(&str) -> String, path: &str) -> RunRef {
    RunRef {
        path: words(path),
        run_id: uuid::Uuid::from_u128(7),
        started_at: words("2025-11-20T12:00:00Z"),
        scenario: words("Log in, then list users"),
        deployment: words("staging"),
        bench_version: words("0.1.0"),
    }
}

pub(crate) fn runs(text: Option<&str>) -> TwoRuns {
    let words = |own: &str| text.unwrap_or(own).to_owned();
    let row = |action: Option<&str>, percentile, ratio: f64, bounds: Option<f64>| RatioRow {
        workload: words("list-users"),
        action: action.map(words),
        percentile,
        base_ms: 88.0,
        new_ms: 88.0 * ratio,
        ratio: Some(ratio),
        low: bounds.map(|by| ratio - by),
        high: bounds.map(|by| ratio + by),
        base_samples: (2_000, 1_800.0),
        new_samples: (2_000, 1_700.0),
    };
    let kind = |name: &str, by_ms: f64, bounds: bool| PointDifference {
        service: words("keystone/public"),
        name: words(name),
        base_self_ms: 20.0,
        new_self_ms: 20.0 + by_ms,
        base_calls: 2.0,
        new_calls: 2.0,
        low_ms: bounds.then_some(by_ms - 1.0),
        high_ms: bounds.then_some(by_ms + 1.0),
    };
    let points = || TracePoints {
        base_traces: 40,
        new_traces: 38,
        kinds: vec![
            kind("db SELECT role.id FROM assignment WHERE actor_id = ?", 9.0, true),
            kind("redis", -3.0, false),
        ],
    };
    let counts =
        |failed| Counts { total: 2_000, ok: 2_000 - failed, failed, aborted: 0, dropped: 0, resent: 0 };
    TwoRuns {
        format: "bench-compare".to_owned(),
        version: 1,
        base: run_ref(&words, "runs/2025-11-19-main"),
        new: run_ref(&words, "runs/2025-11-20-feature-tokens"),
        differences: vec![words("processors: 8 and 4")],
        rows: vec![
            row(None, 50.0, 1.12, Some(0.04)),
            row(None, 95.0, 1.02, Some(0.07)),
            row(None, 99.9, 1.4, None),
            row(Some("log in"), 95.0, 0.9, Some(0.03)),
        ],
        failures: vec![FailuresRow { workload: words("list-users"), base: counts(3), new: counts(9) }],
        typical_points: points(),
        slow_points: points(),
        notes: vec![words("made by different versions of bench: 0.1.0 and 0.1.1")],
    }
}

pub(crate) fn judged(text: Option<&str>) -> AgainstHistory {
    let words = |own: &str| text.unwrap_or(own).to_owned();
    let row = |action: Option<&str>, percentile, new_ms, outcome, reason: &str| HistoryRow {
        workload: words("list-users"),
        action: action.map(words),
        percentile,
        runs: 12,
        past_ms: 88.0,
        sd: 0.023,
        bound_ms: 96.0,
        new_ms,
        confirming_ms: Some(new_ms),
        outcome,
        reason: words(reason),
    };
    AgainstHistory {
        format: "bench-history".to_owned(),
        version: 1,
        outcome: Outcome::Inconclusive,
        new: run_ref(&words, "runs/2025-11-20-feature-tokens"),
        confirming: Some(run_ref(&words, "runs/2025-11-20-again")),
        past: (0..12).map(|_| run_ref(&words, "runs/2025-11-01-main")).collect(),
        rows: vec![
            row(
                None,
                50.0,
                107.0,
                Outcome::Inconclusive,
                "longer than past runs; a second run has to confirm it",
            ),
            row(Some("log in"), 95.0, 90.0, Outcome::Pass, "as past runs"),
        ],
        failures: vec![HistoryFailures {
            workload: words("list-users"),
            runs: 12,
            past_share: 0.001,
            bound_share: 0.004,
            new: 3,
            new_share: 0.0015,
            confirming_share: None,
            outcome: Outcome::Pass,
            reason: words("no more often than past runs"),
        }],
        notes: vec![words("the weaker gate")],
    }
}

/// All pages, by name.
fn pages(text: Option<&str>) -> Vec<(&'static str, String)> {
    let page = |write: &dyn Fn(&mut Vec<u8>) -> io::Result<()>| {
        let mut page = Vec::new();
        write(&mut page).unwrap();
        String::from_utf8(page).unwrap()
    };
    vec![
        ("ab-fail", page(&|out| ab(&paired(text, Outcome::Fail), out))),
        ("ab-pass", page(&|out| ab(&paired(text, Outcome::Pass), out))),
        ("ab-inconclusive", page(&|out| ab(&paired(text, Outcome::Inconclusive), out))),
        ("two-runs", page(&|out| two_runs(&runs(text), out))),
        ("history", page(&|out| history(&judged(text), out))),
    ]
}

#[test]
fn the_pages_say_what_the_comparisons_hold() {
    let pages = pages(None);
    if let Ok(folder) = std::env::var("BENCH_WRITE_SAMPLE_COMPARISON") {
        for (name, page) in &pages {
            std::fs::write(std::path::Path::new(&folder).join(format!("{name}.html")), page).unwrap();
        }
    }
    let holds = |wanted: &str, parts: &[&str]| {
        let (_, page) = pages.iter().find(|(name, _)| *name == wanted).unwrap();
        let page = page.replace('\u{a0}', " ");
        for part in parts {
            assert!(page.contains(part), "{wanted} lacks {part}: {page}");
        }
        // The verdict and its reason come before every figure.
        let at = |part: &str| page.find(part).unwrap_or_else(|| panic!("{wanted}: {part}"));
        assert!(
            at("class=\"verdict\"") < at("class=\"finding\"") && at("class=\"finding\"") < at("<main"),
            "{wanted}"
        );
    };
    holds(
        "ab-fail",
        &[
            "<h1>B is slower than A: p95 takes 19 % longer.</h1>",
            "Each ratio between its 99.5 % confidence bounds.",
            "mean and its 99.5 % confidence bounds",
            "<td class=\"n bounds\" data-l=\"confidence bounds\">1.140 to 1.250</td>",
            "data-l=\"longer by, 95 % bounds\">+12.7 ms to +15.6 ms</td>",
            "data-l=\"confidence bounds\">exactly +20</td>",
            "p50: B is slower by more than the margin of 10 %: B&#x2f;A is 1.190",
            "<dt>p95 · B&#x2f;A</dt><dd><b>1.190</b> 1.140 to 1.250</dd>",
            "Pair 4: B&#x2f;A",
            // The fifth pair was left out, so that the sixth counting one is the seventh of all.
            "Pair 7: no ratio, failed against",
            "<h2>Trace points of typical iterations</h2>",
            "+14.200 ms, from +12.700 ms to +15.600 ms",
            "<h2>Functions that take more in B</h2>",
            "escape_cells",
            "the load generator itself was the limit",
            "<code>0003-a2</code>",
            "Rounds of each pair (13)",
        ],
    );
    // It takes less in B.
    assert!(pages.iter().all(|(name, page)| *name != "ab-fail" || !page.contains("(render)")));
    holds("ab-pass", &["<span class=\"verdict\">PASS</span>", "p50: B is less than 10 % slower"]);
    holds(
        "two-runs",
        &[
            "<span class=\"verdict\">No verdict</span>",
            "Use <code>bench ab</code> for that.",
            "<strong>differs:</strong> processors: 8 and 4",
            "of 40 and 38 fetched traces",
            "<h1>In the new run: p50 12 % higher.</h1>",
            "data-l=\"95 % bounds\">1.080 to 1.160</td>",
            "1.400, without bounds",
        ],
    );
    holds(
        "history",
        &[
            "<span class=\"verdict\">INCONCLUSIVE</span>",
            "a second run has to confirm it.",
            "1.216, from 1.000 to 1.091",
            "list-users p50: longer than past runs; a second run has to confirm it.",
            "Past runs (12)",
        ],
    );
}

#[test]
fn nothing_runs_and_nothing_is_loaded() {
    for (name, page) in pages(None) {
        let policy = page.split("http-equiv=\"Content-Security-Policy\" content=\"").nth(1).unwrap();
        let policy = policy.split('"').next().unwrap();
        assert_eq!(policy, style_policy(), "{name}");
        assert!(!policy.contains("script") && !policy.contains("unsafe"), "{policy}");
        for forbidden in ["<script", " style=\"", "http://", "https://", "src=", "url(", "@import", " on"] {
            let found =
                page.match_indices(forbidden).map(|(at, _)| page[at..].chars().take(40).collect::<String>());
            // An attribute that begins with `on` would be a handler; words may.
            let found: Vec<String> =
                found.filter(|text| forbidden != " on" || text[..12.min(text.len())].contains('=')).collect();
            assert_eq!(found, Vec::<String>::new(), "{name}");
        }
    }
}

#[test]
fn hostile_text_stays_text_on_every_page() {
    let tags = |page: &str| -> Vec<String> {
        let tags = page.split('<').skip(1).map(|rest| rest.split('>').next().unwrap_or(rest));
        // What a drawing says of itself is a text in an attribute.
        tags.map(|tag| tag.split(" aria-label=").next().unwrap_or(tag).to_owned()).collect()
    };
    let texts: Vec<String> =
        serde_json::from_str(include_str!("../../../../tests/vectors/hostile.json")).unwrap();
    let harmless = pages(Some("x"));
    for text in texts.iter().filter(|text| !text.is_empty()).cloned().chain([texts.concat()]) {
        for ((name, page), (_, plain)) in pages(Some(&text)).iter().zip(&harmless) {
            assert_eq!(tags(page), tags(plain), "{name}: {text:?}");
            assert!(!page.contains(is_deceptive), "{name}: {text:?}");
            assert!(!page.contains("\" on") && !page.contains("' on"), "{name}: {text:?}");
        }
    }
}
