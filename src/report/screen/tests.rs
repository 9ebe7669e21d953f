//! The first screen of every kind of run, as a table.

use std::path::Path;

use serde_json::json;

use super::*;
use crate::html::sample;
use results::model::{CallQueue, CriterionMeasurement, OfferedLoad, Percentile, TraceState};

fn error(class: &str, action: &str, message: &str, count: u64) -> ErrorClass {
    ErrorClass {
        class: class.to_owned(),
        action: Some(action.to_owned()),
        message: message.to_owned(),
        subject: None,
        expected: None,
        found: None,
        body: None,
        count,
        trace_ids: vec![Uuid::from_u128(7)],
    }
}

fn check(count: u64) -> ErrorClass {
    ErrorClass {
        subject: Some("$.server.status".to_owned()),
        expected: Some("is `\"ACTIVE\"`".to_owned()),
        found: Some("`\"BUILD\"`".to_owned()),
        body: Some("{\"server\": {\"status\": \"BUILD\"}}".to_owned()),
        ..error("check", "boot", "the value at $.server.status is not `\"ACTIVE\"`", count)
    }
}

/// A run of one workload with this outcome, in which nothing is to say of slow iterations.
fn run(outcome: Outcome, ok: u64, errors: Vec<ErrorClass>) -> Results {
    let mut results = sample::sample(200).results;
    results.workloads.truncate(1);
    results.verdict.criteria.clear();
    results.verdict.invalid.clear();
    results.verdict.outcome = outcome;
    results.findings.clear();
    results.run.status = RunStatus::Finished;
    let failed = errors.iter().map(|error| error.count).sum();
    let workload = &mut results.workloads[0];
    workload.iterations = Counts { total: ok + failed, ok, failed, ..Counts::default() };
    (workload.errors, workload.comparison) = (errors, None);
    results
}

fn criterion(condition: &str, outcome: Outcome, observed: &str) -> Criterion {
    let name = if condition.starts_with("failure rate") { "failure_rate" } else { "thresholds" };
    Criterion {
        workload: "list-users".to_owned(),
        criterion: name.to_owned(),
        condition: condition.to_owned(),
        observed: observed.to_owned(),
        outcome,
        severity: Severity::Fail,
        reason: None,
        measured: None,
        aborted: false,
        samples: 200,
        trace_ids: Vec::new(),
    }
}

fn measured(unit: &str, limit: f64, value: f64) -> Option<CriterionMeasurement> {
    Some(CriterionMeasurement { unit: unit.to_owned(), limit, value, low: None, high: None })
}

fn with(mut results: Results, criteria: Vec<Criterion>) -> Results {
    results.verdict.criteria = criteria;
    results
}

fn without_traces_of(mut results: Results) -> Results {
    results.profiling.fetched = [(TraceState::Absent, 10)].into();
    results.profiling.collector_error = None;
    let mut probe = results::model::Probe {
        trace_id: Uuid::nil(),
        workload: "list-users".to_owned(),
        outcome: results::model::IterationOutcome::Ok,
        duration_ms: 1.0,
        failure: None,
        body: None,
        trace: TraceState::Absent,
        points: 0,
        services: Vec::new(),
        waited_s: 5.0,
        missing: None,
    };
    probe.missing = Some("the services reject this key".to_owned());
    results.probe = Some(probe);
    results
}

fn failed_to_start() -> Results {
    let mut results = run(Outcome::None, 0, Vec::new());
    results.run.status = RunStatus::Failed;
    results.run.error = Some("setup failed: log in: answered 401, expected 201".to_owned());
    results
}

fn generator_was_the_limit() -> Results {
    let mut results = run(Outcome::Invalid, 200, Vec::new());
    let why = "bench itself was the limit: worker 0 was saturated for 3.0 of 4.0 s; use more workers";
    results.verdict.invalid = vec![why.to_owned()];
    results
}

fn overload(criterion: Criterion) -> Results {
    let mut results = with(run(Outcome::Fail, 4_000, Vec::new()), vec![criterion]);
    results.workloads[0].iterations.dropped = 12;
    results.workloads[0].queue_time.max_ms = 3_200.0;
    results.workloads[0].offered = Some(OfferedLoad {
        asked_per_s: Some(400.0),
        served_per_s: 375.2,
        users_max: Some(40),
        busy_max: 40,
        queued_max: 1_200,
        all_busy: true,
        series: None,
    });
    results
}

fn cause(outcome: Outcome) -> Results {
    let mut results = sample::sample(200).results;
    results.verdict.criteria.clear();
    results.verdict.invalid.clear();
    results.verdict.outcome = outcome;
    let comparison = results.workloads.iter_mut().find_map(|workload| workload.comparison.as_mut()).unwrap();
    comparison.kinds[0].is_cause = true;
    for workload in &mut results.workloads {
        workload.iterations.failed = 0;
    }
    results
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn a_headline_of_ten_words_and_a_sentence_say_why() {
    let failure_rate = || criterion("failure rate at most 0.1 %", Outcome::Fail, "15.000 % (30 of 200)");
    let p99 = Criterion {
        measured: measured("ms", 250.0, 412.5),
        ..criterion("p(99) < 250ms", Outcome::Fail, "412 ms (390 ms to 430 ms)")
    };
    let throughput = Criterion {
        measured: measured("1/s", 400.0, 375.2),
        ..criterion("throughput >= 400/s", Outcome::Fail, "375.2/s")
    };
    let rows = [
        (
            "every iteration failed, without a criterion",
            run(Outcome::None, 0, vec![error("status", "log in", "answered 401, expected 201", 30)]),
            ReasonKind::AllFailed,
            "All 30 iterations failed: log in answered 401",
            "log in answered 401, expected 201, every time.",
        ),
        (
            "every iteration failed, so a limit on times has nothing to judge",
            with(
                run(
                    Outcome::Invalid,
                    0,
                    vec![error("timeout", "list", "timed out after 2.00 s while connecting", 3)],
                ),
                vec![criterion("p(99) < 250ms", Outcome::Invalid, "no samples")],
            ),
            ReasonKind::AllFailed,
            "All 3 iterations failed: list timed out",
            "list timed out after 2.00 s while connecting, every time.",
        ),
        (
            "errors break the criterion",
            with(
                run(Outcome::Fail, 170, vec![check(28), error("connect", "boot", "refused", 2)]),
                vec![failure_rate()],
            ),
            ReasonKind::Errors,
            "30 of 200 failed: $.server.status is BUILD",
            "In boot, $.server.status is BUILD, expected ACTIVE, in 28 of 200 iterations (14 %). 2 failed in one other \
             way. Broken: failure rate at most 0.1 %.",
        ),
        (
            "errors break a limit on times too",
            with(run(Outcome::Fail, 190, vec![check(10)]), vec![p99.clone()]),
            ReasonKind::Errors,
            "10 of 200 failed: $.server.status is BUILD",
            "In boot, $.server.status is BUILD, expected ACTIVE, in 10 of 200 iterations (5.0 %). Broken: p(99) < 250ms.",
        ),
        (
            "many errors that nothing judges",
            run(Outcome::None, 190, vec![error("status", "create", "answered 500", 10)]),
            ReasonKind::Errors,
            "10 of 200 failed: create answered 500",
            "create answered 500, expected a status below 400, in 10 of 200 iterations (5.0 %).",
        ),
        (
            "few errors that a criterion allows",
            with(
                run(Outcome::Pass, 198, vec![error("status", "create", "answered 500", 2)]),
                vec![criterion("failure rate at most 5 %", Outcome::Pass, "1.000 % (2 of 200)")],
            ),
            ReasonKind::Nothing,
            "200 iterations, 2 failed",
            "",
        ),
        (
            "a limit on times",
            with(run(Outcome::Fail, 200, Vec::new()), vec![p99]),
            ReasonKind::Time,
            "p(99) is 412 ms, limit 250 ms",
            "p(99) < 250ms is broken: 412 ms, 65 % over the limit.",
        ),
        (
            "Rally's limit on times",
            with(
                run(Outcome::Fail, 200, Vec::new()),
                vec![Criterion {
                    criterion: "max_seconds_per_iteration".to_owned(),
                    ..criterion("no iteration longer than 5 s", Outcome::Fail, "longest 6.200 s")
                }],
            ),
            ReasonKind::Time,
            "Broken: no iteration longer than 5 s",
            "no iteration longer than 5 s is broken: longest 6.200 s.",
        ),
        (
            "an overload",
            overload(throughput),
            ReasonKind::Criterion,
            "throughput is 375/s, limit 400/s",
            "throughput >= 400/s is broken: 375/s, 6.2 % under the limit. All 40 virtual users were busy \
             (max_concurrency); 375/s of 400/s served; up to 1200 iterations waited, for up to 3.20 s (queue time); 12 \
             were dropped.",
        ),
        (
            "the load generator was the limit",
            generator_was_the_limit(),
            ReasonKind::Invalid,
            "No verdict: bench itself was the limit",
            "Bench itself was the limit: worker 0 was saturated for 3.0 of 4.0 s; use more workers.",
        ),
        (
            "no data",
            with(
                run(Outcome::Invalid, 200, Vec::new()),
                vec![Criterion {
                    reason: Some("no trace has a point db; check the selector".to_owned()),
                    ..criterion("p(95)(trace db) < 10ms", Outcome::Invalid, "no samples")
                }],
            ),
            ReasonKind::Invalid,
            "No data for p(95)(trace db)",
            "p(95)(trace db) < 10ms: no samples; no trace has a point db; check the selector.",
        ),
        (
            "too few samples",
            with(
                run(Outcome::Inconclusive, 20, Vec::new()),
                vec![Criterion {
                    reason: Some("20 of about 299 samples; run longer".to_owned()),
                    ..criterion("p(99) < 250ms", Outcome::Inconclusive, "240 ms")
                }],
            ),
            ReasonKind::Inconclusive,
            "Undecided: p(99) < 250ms",
            "p(99) < 250ms: 240 ms; 20 of about 299 samples; run longer.",
        ),
        (
            "no trace came",
            without_traces_of(run(Outcome::Pass, 200, Vec::new())),
            ReasonKind::NoTraces,
            "No trace came; only the client's times are known",
            "None of the 10 traces that bench asked for came, so nothing is known of the services: the services reject this key.",
        ),
        (
            "a limit on times, and no trace came",
            without_traces_of(with(
                run(Outcome::Fail, 200, Vec::new()),
                vec![
                    criterion("no iteration longer than 5 s", Outcome::Fail, "longest 6.200 s"),
                    Criterion {
                        measured: measured("ms", 20.0, 144.0),
                        ..criterion("p95 < 20ms", Outcome::Fail, "144 ms (140 ms to 144 ms)")
                    },
                ],
            )),
            ReasonKind::Criterion,
            "Broken: no iteration longer than 5 s",
            "no iteration longer than 5 s is broken: longest 6.200 s. Broken too: p95 < 20ms (144 ms, 7.2 times the \
             limit).",
        ),
        (
            "setup failed",
            failed_to_start(),
            ReasonKind::Run,
            "Setup failed, so nothing ran",
            "Setup failed: log in: answered 401, expected 201.",
        ),
        (
            "nothing ran",
            {
                let mut none = run(Outcome::None, 0, Vec::new());
                none.run.status = RunStatus::Interrupted;
                none
            },
            ReasonKind::NothingRan,
            "No iteration ran",
            "It was interrupted before the first iteration ended.",
        ),
    ];
    for (what, results, kind, headline, sentence) in rows {
        let screen = of(&results);
        assert_eq!((screen.reason.kind, screen.reason.headline.as_str()), (kind, headline), "{what}");
        if kind == ReasonKind::Nothing {
            assert!(!screen.reason.sentence.is_empty(), "{what}");
        } else {
            assert_eq!(screen.reason.sentence, sentence, "{what}");
        }
        assert!(headline.split_whitespace().count() <= HEADLINE_WORDS_MAX, "{what}");
        assert_eq!(
            (plain(&screen.headline), plain(&screen.sentence)),
            (screen.reason.headline, screen.reason.sentence)
        );
    }
}

/// A run that nothing judges and in which nothing is slow for a known reason.
fn quiet(total: u64) -> Results {
    let mut results = run(Outcome::None, total, Vec::new());
    results.workloads[0].client_comparison = None;
    results.profiling.fetched.clear();
    results.profiling.collector = Some("redis://traces".to_owned());
    results
}

/// A run whose slow iterations take longer in one kind of point, at least this share of the difference.
fn unclear(low: f64) -> Results {
    let comparison = json!({
        "slow_percent": 10, "slow": 20, "typical": 50, "slow_ms": 40.0, "typical_ms": 20.0, "left_out": 0,
        "no_finding": "unclear", "clocks_moved": 0, "clocks_inconsistent": 0,
        "kinds": [{
            "service": "identity", "name": "db", "detail": "SELECT * FROM assignment", "parent": "rpc get_roles",
            "outside": false, "delta_ms": 16.0, "share": 0.8, "share_low": low, "share_high": 1.0, "slow_calls": 1.0,
            "typical_calls": 1.0, "more_calls_ms": 0.0, "slower_calls_ms": 16.0, "effect": 0.5, "exceeding": 0.3,
            "guilty": false, "worst_trace_id": null,
        }],
    });
    let mut results = quiet(200);
    results.workloads[0].comparison = Some(serde_json::from_value(comparison).unwrap());
    results
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn a_run_with_nothing_to_say_says_what_is_known() {
    let busy = |asked, users| {
        let mut results = overload(criterion("p(99) < 250ms", Outcome::Pass, "90 ms"));
        results.verdict.outcome = Outcome::None;
        let offered = results.workloads[0].offered.as_mut().unwrap();
        (offered.asked_per_s, offered.users_max) = (asked, users);
        results
    };
    let fetched = |states: &[(TraceState, u64)]| {
        let mut results = quiet(200);
        results.profiling.fetched = states.iter().copied().collect();
        results
    };
    let no_trace = "No trace came; only the client's times are known";
    let rows = [
        ("nothing failed", quiet(200), "200 iterations, none failed", None),
        ("a single one", quiet(1), "1 iteration, none failed", None),
        (
            "times",
            {
                let mut results = quiet(200);
                let at = |percentile, value_ms| Percentile { percentile, value_ms };
                let times = &mut results.workloads[0].response_time;
                (times.count, times.of_all) = (200, None);
                times.percentiles = vec![at(50.0, 7.7), at(99.0, 86.0)];
                results
            },
            "p50 7.70 ms, p99 86.0 ms, none failed",
            None,
        ),
        (
            "a part that is large",
            unclear(0.46),
            "Slow iterations: perhaps db · SELECT … FROM assignment",
            Some("at least 46 %"),
        ),
        ("a part that may be small", unclear(0.1), "200 iterations, none failed", Some("at least 10 %")),
        (
            "a few failed",
            run(Outcome::None, 999, vec![error("status", "create", "answered 500", 1)]),
            "1000 iterations, 1 failed",
            None,
        ),
        (
            "no trace",
            fetched(&[(TraceState::Absent, 60)]),
            no_trace,
            Some("None of the 60 traces that bench asked for came, so nothing is known of the services: "),
        ),
        (
            "no collector",
            {
                let mut results = quiet(200);
                (results.profiling.collector, results.profiling.received) = (None, None);
                results.profiling.enabled = true;
                results
            },
            "200 iterations, none failed",
            Some("add profiler.connection_string or profiler.receive."),
        ),
        (
            "busy users",
            busy(Some(400.0), Some(40)),
            "All 40 virtual users were busy",
            Some("375/s of 400/s served"),
        ),
        ("one busy user", busy(Some(400.0), Some(1)), "The only virtual user was busy", None),
        (
            "busy users that kept up in the end",
            {
                let mut results = busy(Some(375.2), Some(40));
                results.workloads[0].iterations.dropped = 0;
                results
            },
            "All 40 virtual users were busy for a time",
            None,
        ),
    ];
    for (what, results, headline, sentence) in rows {
        let reason = of(&results).reason;
        assert_eq!(reason.headline, headline, "{what}");
        assert!(sentence.is_none_or(|part| reason.sentence.contains(part)), "{what}: {}", reason.sentence);
    }
    // One complete trace is enough to say nothing of traces that did not come.
    let some = fetched(&[(TraceState::Absent, 60), (TraceState::Complete, 1)]);
    assert_ne!(of(&some).reason.headline, no_trace);
}

/// The first other criteria that are broken are named, the rest counted; warnings are not among them.
#[test]
fn other_broken_criteria_are_counted() {
    let p99 = |severity| Criterion {
        severity,
        measured: measured("ms", 250.0, 412.5),
        ..criterion("p(99) < 250ms", Outcome::Fail, "412 ms")
    };
    for (failed, warned, expected) in [
        (1, 0, "65 % over the limit."),
        (1, 2, "65 % over the limit."),
        (2, 0, "65 % over the limit. Broken too: p(99) < 250ms (412 ms, 65 % over the limit)."),
        (4, 1, ", p(99) < 250ms (412 ms, 65 % over the limit)."),
        (6, 1, ", p(99) < 250ms (412 ms, 65 % over the limit), and 2 more."),
    ] {
        let mut all = vec![p99(Severity::Fail); failed];
        all.extend(vec![p99(Severity::Warn); warned]);
        let reason = of(&with(run(Outcome::Fail, 200, Vec::new()), all)).reason;
        assert!(reason.sentence.ends_with(expected), "{failed} and {warned}: {}", reason.sentence);
    }
}

/// What is slow is said of runs that nothing else is to say of, and of limits on times; never first after errors.
#[test]
fn the_cause_of_slow_iterations_follows_what_is_worse() {
    let screen = of(&cause(Outcome::Pass));
    assert_eq!(screen.reason.kind, ReasonKind::Slow);
    assert!(screen.reason.headline.starts_with("Slow iterations wait for "), "{}", screen.reason.headline);
    assert!(screen.reason.sentence.contains("longer than typical ones"), "{}", screen.reason.sentence);
    let mut results = cause(Outcome::Fail);
    let p99 = criterion("p(99) < 250ms", Outcome::Fail, "412 ms");
    let slow = results.workloads.iter().find(|workload| workload.comparison.is_some()).unwrap().name.clone();
    results.verdict.criteria =
        vec![Criterion { workload: slow, measured: measured("ms", 250.0, 412.0), ..p99 }];
    let by_time = of(&results).reason;
    assert_eq!(by_time.kind, ReasonKind::Time);
    assert!(by_time.sentence.contains("longer than typical ones"), "{}", by_time.sentence);
    for workload in &mut results.workloads {
        workload.iterations = Counts { total: 200, ok: 100, failed: 100, ..Counts::default() };
    }
    let by_errors = of(&results).reason;
    assert_eq!(by_errors.kind, ReasonKind::Errors);
    assert!(!by_errors.sentence.contains("typical"), "{}", by_errors.sentence);
}

/// The errors, their excerpt and the criterion are above everything about time, in every output.
#[test]
fn a_run_that_failed_by_errors_begins_with_them() {
    use crate::document::{markdown, terminal};
    let mut results = cause(Outcome::Fail);
    results.workloads[0].iterations = Counts { total: 30, ok: 20, failed: 10, ..Counts::default() };
    results.workloads[0].errors = vec![check(10)];
    let text = terminal::text(
        &crate::run::summary(&results, Some(Path::new("runs/x")), &[]),
        terminal::TerminalStyle::default(),
    );
    let document = markdown::text(&crate::run::report(&results));
    for shown in [&text, &document] {
        let at = |part: &str| shown.find(part).unwrap_or_else(|| panic!("{part}: {shown}"));
        assert!(at("FAIL") < at("10 of 30 failed"), "{shown}");
        assert!(at("10 of 30 failed") < at("expected `ACTIVE`"), "{shown}");
        assert!(at("expected `ACTIVE`") < at("longer than typical ones"), "{shown}");
        assert!(at("\"status\": \"BUILD\"") < at("longer than typical ones"), "{shown}");
    }
}

#[test]
fn a_headline_is_cut_after_ten_words_and_keeps_its_markup() {
    let mut line = StyledLine::from("one two three ");
    line.code("four five six seven eight").text(" nine ten eleven twelve");
    let cut = in_words(line.clone(), 10);
    assert_eq!(plain(&cut), "one two three four five six seven eight nine ten…");
    assert_eq!(plain(&in_words(line.clone(), 5)), "one two three four five…");
    assert!(matches!(in_words(line.clone(), 5).spans.last(), Some(StyledSpan::Code(_))));
    assert_eq!(in_words(line.clone(), 12), line);
}

#[test]
fn what_slow_iterations_wait_for_reads_as_a_sentence() {
    for (name, expected) in [
        (StyledLine::from(QUEUE_TIME), "Slow iterations wait for a free virtual user"),
        (
            StyledLine::from("time outside the traced services"),
            "Slow iterations lose time outside the traced services",
        ),
        (StyledLine::from("time between requests"), "Slow iterations lose time between requests"),
        (
            StyledLine::default().code("db · SELECT … FROM user").done(),
            "Slow iterations wait for db · SELECT … FROM user",
        ),
    ] {
        assert_eq!(plain(&waiting_for(name)), expected);
    }
}

/// Where the cause is time before calls that wait for their turn, the queue is what a reader must know.
#[test]
fn a_queue_behind_the_cause_is_the_headline() {
    let queue = |caller: &str, enters, share| CallQueue {
        service: "shop".to_owned(),
        caller: caller.to_owned(),
        name: if enters { "GET /cart and more" } else { "db" }.to_owned(),
        enters,
        servers: 5,
        busy: 0.9,
        waits_ms: 7.0,
        works_ms: 10.0,
        share,
        iterations: 600,
    };
    let outside = "Slow iterations lose time outside the traced services";
    for (queue, is_outside, expected) in [
        (queue("identity", false, 0.4), false, "Slow iterations queue: db runs 5 at a time"),
        (queue("bench", true, 0.4), true, "Slow iterations queue: GET /cart… serves 5 at a time"),
        (queue("identity", false, 0.1), false, "Slow iterations wait for db · SELECT … FROM assignment"),
        (queue("other", false, 0.4), false, "Slow iterations wait for db · SELECT … FROM assignment"),
        (queue("identity", false, 0.4), true, outside),
    ] {
        let mut results = unclear(0.7);
        results.workloads[0].queues = vec![queue];
        let seen = results.workloads[0].comparison.as_mut().unwrap();
        (seen.kinds[0].is_cause, seen.kinds[0].outside, seen.no_finding) = (true, is_outside, None);
        let reason = of(&results).reason;
        assert_eq!(reason.headline, expected);
        assert_eq!(
            reason.sentence.contains("5 at a time"),
            expected.contains("queue:"),
            "{}",
            reason.sentence
        );
    }
}

#[test]
fn only_limits_on_asynchronous_work_are_about_it() {
    for (condition, expected) in [
        ("p95(asynchronous) < 5s", true),
        ("avg(asynchronous) < 5s", true),
        ("p95(action \"pay (asynchronous)\") < 5s", false),
        ("p(95) < 5s", false),
    ] {
        let one = criterion(condition, Outcome::Fail, "");
        assert_eq!(is_of_work(&one), expected, "{condition}");
    }
}
