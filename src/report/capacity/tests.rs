//! What the reports of a search say, and that a hostile name in them stays text.

use super::*;
use crate::document::terminal::TerminalStyle;
use ::capacity::limit::LimitKind;
use ::capacity::servers::ServerPool;
use measure::generator::LocalProcess;

fn level(rate_per_s: Option<f64>, outcome: Option<LevelOutcome>, p99_ms: f64) -> LevelInfo {
    LevelInfo {
        directory: "0001".to_owned(),
        rate_per_s,
        served_per_s: rate_per_s.unwrap_or(150.0),
        outcome,
        reason: (outcome == Some(LevelOutcome::Breaks)).then(|| "p99 < 500ms: 700 ms".to_owned()),
        iterations: 1_000,
        failed: 2,
        p50_ms: Some(p99_ms / 4.0),
        p95_ms: Some(p99_ms / 2.0),
        p99_ms: Some(p99_ms),
        duration_s: 10.0,
        recovered_after_s: None,
        not_recovered: false,
    }
}

fn found(words: impl Fn(&str) -> String) -> CapacityDocument {
    CapacityDocument {
        format: FORMAT.to_owned(),
        version: VERSION,
        bench_version: "0.1.0".to_owned(),
        outcome: Outcome::None,
        reasons: Vec::new(),
        finished: true,
        scenario: ScenarioInfo {
            title: words("Order"),
            file: words("order.yaml"),
            sha256: words(&"6d2c0b5f".repeat(8)),
            set: std::collections::BTreeMap::new(),
            options: Vec::new(),
            text: None,
        },
        deployment: words("staging"),
        conditions: vec![words("p99 < 500ms")],
        bounds: CapacityBounds { holds_per_s: Some(412.0), breaks_per_s: Some(430.0), settled: true },
        at_least_per_s: None,
        highest_per_s: 1_000.0,
        levels: vec![
            level(None, None, 20.0),
            level(Some(290.0), Some(LevelOutcome::Holds), 30.0),
            LevelInfo {
                recovered_after_s: Some(4.0),
                ..level(Some(430.0), Some(LevelOutcome::Breaks), 700.0)
            },
            level(Some(412.0), Some(LevelOutcome::Unclear), 510.0),
            level(Some(412.0), Some(LevelOutcome::Holds), 400.0),
        ],
        limit: Some(Limit {
            kind: LimitKind::Waits,
            service: words("shop"),
            name: words("db"),
            at_ease_ms: 0.5,
            overloaded_ms: 300.0,
            share: 0.94,
            servers: Some(ServerPool {
                count: 5,
                plateau: 0.9,
                busy: 0.97,
                waits_ms: 290.0,
                works_ms: 11.0,
                calls: 900,
            }),
        }),
        no_limit: None,
        fails: None,
        processor: None,
        recovery: None,
        compared: None,
        notes: vec![words("a note")],
    }
}

fn plain(found: &CapacityDocument) -> String {
    terminal(found, &[], TerminalStyle { columns: None, colour: false })
}

#[test]
fn a_terminal_shows_the_answer_its_limit_and_the_levels() {
    let expected = [
        "no gate · Order on staging: holds at 412/s, breaks at 430/s",
        "",
        "What stops it: `db` calls run 5 at a time in shop, busy 97 % of the time; the others wait (500 µs → 300 ms an \
         iteration, 94 % of what grew).",
        "After overload it recovered within 4 s (the longest, after 430/s).",
        "Each level had to meet `p99 < 500ms`.",
        "",
        "Levels: Response times count from when iterations were due, so a backlog shows; the first level has one user",
        "    asked  served               p50      p95      p99  failed  iterations  why",
        " one user   150/s           5.00 ms  10.0 ms  20.0 ms  0.20 %        1000",
        "    290/s   290/s  holds    7.50 ms  15.0 ms  30.0 ms  0.20 %        1000",
        "    412/s   412/s  unclear   128 ms   255 ms   510 ms  0.20 %        1000",
        "    412/s   412/s  holds     100 ms   200 ms   400 ms  0.20 %        1000",
        "    430/s   430/s  breaks    175 ms   350 ms   700 ms  0.20 %        1000  p99 < 500ms: 700 ms",
        "",
        "note: a note",
    ];
    assert_eq!(plain(&found(str::to_owned)), expected.join("\n"));
}

/// Each kind of limit, and each reason for naming none, has its sentence.
#[test]
fn what_stops_a_service_is_said() {
    let limit = |kind, count: Option<u32>| {
        let known = found(str::to_owned).limit.unwrap();
        let servers = count.map(|count| ServerPool { count, ..known.servers.unwrap() });
        CapacityDocument { limit: Some(Limit { kind, servers, ..known }), ..found(str::to_owned) }
    };
    let none = |reason| CapacityDocument { limit: None, no_limit: Some(reason), ..found(str::to_owned) };
    let failing = CapacityDocument {
        fails: Some(OverloadFailure {
            class: "status".to_owned(),
            message: "HTTP 429".to_owned(),
            share: 0.12,
        }),
        ..none(NoLimit::Analysis(NoLimitReason::NothingGrew))
    };
    for (found, words) in [
        (limit(LimitKind::Waits, Some(5)), "`db` calls run 5 at a time in shop, busy 97 % of the time"),
        (limit(LimitKind::Waits, Some(1)), "`db` calls run one at a time in shop"),
        (limit(LimitKind::Waits, None), "shop waits before its calls of `db`"),
        (limit(LimitKind::Entry, Some(4)), "`db` requests enter 4 at a time in shop"),
        (limit(LimitKind::Entry, None), "outside the trace points of services"),
        (limit(LimitKind::Work, None), "`db` in shop takes longer itself"),
        (none(NoLimit::NoTraces), "there are no traces"),
        (none(NoLimit::NoTime), "the time was over"),
        (none(NoLimit::Analysis(NoLimitReason::Spread)), "spread over several places"),
        (none(NoLimit::Analysis(NoLimitReason::TooFewTraces)), "fewer than 20 complete traces"),
        (failing, "Where it breaks, 12 % of iterations fail: `HTTP 429`."),
    ] {
        let text = plain(&found);
        assert!(text.contains(words), "{words}: {text}");
        assert_eq!(
            text.matches("What stops it").count() + text.matches("Where it breaks").count(),
            1,
            "{text}"
        );
    }
    // A processor that is full is a limit by itself, and ends the list of what it may be.
    let process = |seconds| LocalProcess {
        port: 80,
        pid: 7,
        name: "node".to_owned(),
        threads: 11,
        seen_s: 6.0,
        cpu_s: seconds + 0.1,
        thread_cpu_s: seconds,
        run_queue_s: 0.0,
    };
    let full = |found| CapacityDocument { processor: Some([process(2.7), process(5.88)]), ..found };
    let said = "Where it breaks, one processor is full: `node` (process 7), which listens at port 80, computes for 98 % of the \
                time in one thread; at half the rate that holds for 45 %.";
    let text = plain(&full(limit(LimitKind::Work, None)));
    assert!(text.contains(said) && text.contains("takes longer itself (500 µs → 300 ms"), "{text}");
    assert!(!text.contains("a lock or"), "{text}");
    let text = plain(&full(none(NoLimit::NoTraces)));
    assert!(text.contains(said) && !text.contains("no traces"), "{text}");
    // What an interrupted search does not know needs no advice.
    let cut = CapacityDocument { finished: false, ..none(NoLimit::NoTime) };
    assert!(!plain(&cut).contains("What stops it") && plain(&cut).contains("interrupted"));
}

#[test]
fn a_service_that_does_not_recover_is_a_finding() {
    let mut lost = found(str::to_owned);
    lost.levels[2].recovered_after_s = Some(30.0);
    lost.levels[2].not_recovered = true;
    assert!(plain(&lost).contains("It did not recover: 30 s after the level at 430/s"), "{}", plain(&lost));
    assert!(
        plain(&found(str::to_owned))
            .contains("After overload it recovered within 4 s (the longest, after 430/s).")
    );
}

/// The document is what the schema says, and is read again as it was written.
#[test]
fn the_document_is_read_again() {
    let written = serde_json::to_string(&found(str::to_owned)).unwrap();
    let read: CapacityDocument = serde_json::from_str(&written).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), written);
    for reason in [NoLimit::NoBounds, NoLimit::NoTime, NoLimit::Analysis(NoLimitReason::Spread)] {
        let text = serde_json::to_string(&reason).unwrap();
        assert_eq!(serde_json::from_str::<NoLimit>(&text).unwrap(), reason, "{text}");
    }
}

#[test]
fn hostile_names_stay_text_on_the_page() {
    let hostile = |text: &str| format!("<script>alert(1)</script>{text}\u{202e}");
    let mut page = Vec::new();
    crate::html::capacity::capacity(&found(hostile), &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    assert!(!page.contains("<script") && !page.contains('\u{202e}'));
    assert!(page.contains("&lt;script&gt;") && page.contains("class=\"knee\""));
    // Of a rate that was tried twice, the line goes through the last level only.
    let line = page.split("class=\"curve p99\" points=\"").nth(1).unwrap().split('"').next().unwrap();
    assert_eq!(line.split(' ').count(), 3, "{line}");
}

/// How a service comes back from an overload, or does not.
#[test]
fn how_it_recovers_while_a_load_goes_on_is_said() {
    let after = |all: &[(f64, Option<f64>)]| {
        let tries = all.iter().map(|&(rate_per_s, recovered_after_s)| RecoveryTry {
            directory: "0009".to_owned(),
            rate_per_s,
            recovered_after_s,
        });
        let recovery = OverloadRecovery { overload_per_s: 537.5, overload_s: 4.0, tries: tries.collect() };
        plain(&CapacityDocument { recovery: Some(recovery), ..found(str::to_owned) })
    };
    let metastable =
        "After 4 s at 538/s it does not recover while 309/s go on, which it bears otherwise (seen twice); ";
    for (tries, expected) in [
        (
            &[(309.0, Some(0.3))][..],
            "After 4 s at 538/s it recovers within a second, while 309/s go on.".to_owned(),
        ),
        (&[(309.0, Some(2.1))], "After 4 s at 538/s it recovers within 3 s, while 309/s go on.".to_owned()),
        (
            &[(309.0, None), (309.0, None), (206.0, None), (103.0, Some(1.5))],
            format!(
                "{metastable}the load has to fall to 103/s, where it recovers within 2 s. Something keeps it overloaded"
            ),
        ),
        (&[(309.0, None)], format!("{} how far the load", metastable.replace("twice); ", "once);"))),
        (
            &[(309.0, None), (309.0, None), (206.0, None), (103.0, None), (41.0, None)],
            format!("{metastable}nor while 41.0/s go on, the lowest load that was tried."),
        ),
    ] {
        let text = after(tries);
        assert!(text.contains(&expected), "{expected}: {text}");
    }
}
