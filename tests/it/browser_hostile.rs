//! Hostile texts in every place where outside text reaches a page: none of them may run.
//!
//! `tests/vectors/hostile.json` is the corpus. Each text replaces all strings of a run's results and traces: titles,
//! names, URLs, statements, hosts, headers and error texts. A real Chromium opens the page; the test opens, hovers and
//! clicks everything on it. Nothing may have run or loaded, and the content security policy may have blocked nothing.

use bench::analysis::call_changes::CallChange;
use bench::analysis::points::PointRow;
use bench::osprofiler::record::TraceRecord;
use bench::osprofiler::report::TraceTree;
use bench::report::compare::{PointDifference, RunRef, TracePoints, TwoRuns};
use bench::report::html::{self, ReportTraces, TraceDisplay};
use bench::report::pairs::{CountedPoint, CountedTrace, Pair, PairCount, PairDocument, RoundInfo, Side};
use bench::results::IterationColumns;
use bench::results::functions::Functions;
use bench::results::model::{Counts, Outcome, Results, ScenarioInfo, Severity};
use bench::results::trace::StoredTrace;
use bench::verdict::compare::{FailuresRow, RatioRow};
use bench::verdict::paired::{
    CountRow, Decision, PercentileSeries, PercentileSeriesRow, SlaRow, SlaSide, WorkloadNames,
};
use serde_json::{Map, Value, json};

use crate::browser::Browser;
use crate::server::ScriptedServer;
use crate::support::Bench;

/// Strings that do not come from outside: enumerations, and ids that the model has as UUIDs.
const KEPT: [&str; 17] = [
    "basis",
    "own_time",
    "place",
    "format",
    "outcome",
    "severity",
    "no_finding",
    "trace",
    "trace_id",
    "trace_ids",
    "worst_trace_id",
    "id",
    "id_seed",
    "fetched",
    "histogram",
    "state",
    "kind",
];

fn payloads() -> Vec<String> {
    let text = include_str!("../vectors/hostile.json");
    let payloads: Vec<String> = serde_json::from_str(text).unwrap();
    assert!(payloads.len() > 70);
    payloads
}

/// The same for pages that take long. What works in the middle of a text comes six at a time: tags, and what ends a
/// string or begins an expression. What must be the whole text, or its beginning, stays alone.
fn grouped() -> Vec<String> {
    let (tags, others): (Vec<String>, Vec<String>) =
        payloads().into_iter().partition(|text| text.contains('<'));
    let (ends, mut texts): (Vec<String>, Vec<String>) =
        others.into_iter().partition(|text| text.contains(['"', '\'', '`', '{', '\\', '&']));
    texts.extend([tags, ends].iter().flat_map(|list| list.chunks(6)).map(<[String]>::concat));
    texts
}

/// Replaces every string, the names of targets, variables and settings too.
fn poison(value: &mut Value, text: &str) {
    match value {
        Value::String(old) => text.clone_into(old),
        Value::Array(items) => items.iter_mut().for_each(|item| poison(item, text)),
        Value::Object(fields) => {
            for (name, field) in fields.iter_mut() {
                let status_of_the_run = name == "status" && field.is_string();
                if KEPT.contains(&name.as_str()) || status_of_the_run || name == "generator" {
                    continue;
                }
                poison(field, text);
                if ["targets", "set", "runner"].contains(&name.as_str()) {
                    *field = json!({ text: text, "settings": { text: text } });
                    if name != "runner" {
                        *field = json!({ text: text });
                    }
                }
            }
        }
        _ => {}
    }
}

/// A run's results with something at every key that can be absent, its iterations and its traces.
fn everything(bench: &Bench) -> (Value, IterationColumns, Vec<StoredTrace>) {
    let scenario =
        std::fs::read_to_string("scenarios/demo.yaml").unwrap().replace("times: 2000", "times: 40");
    let deployment = concat!(env!("CARGO_MANIFEST_DIR"), "/deployments/demo.yaml");
    bench.write("demo.yaml", scenario);
    bench.run(&["run", "demo.yaml", "-d", deployment, "-q"]).expect_code(0);
    let mut results = bench.results();
    let rows = results.as_object_mut().unwrap().remove("iterations").unwrap();
    let mut columns = IterationColumns { total: 40, ..IterationColumns::default() };
    for (number, row) in rows.as_array().unwrap().iter().enumerate() {
        columns.workload.push(0);
        columns.start_us.push((row["start_s"].as_f64().unwrap() * 1e6) as u64);
        columns.duration_ms.push(row["duration_ms"].as_f64().unwrap() as f32);
        columns.outcome.push(u8::from(number % 7 == 0));
        columns.trace_id.push(*row["trace_id"].as_str().unwrap().parse::<uuid::Uuid>().unwrap().as_bytes());
    }
    let folder = bench.run_directory().join("traces");
    let traces: Vec<StoredTrace> = std::fs::read_dir(folder)
        .unwrap()
        .take(3)
        .map(|entry| serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap())
        .collect();
    let id = traces[0].trace_id;
    let fill = |results: &mut Value, path: &str, value: Value| {
        *results.pointer_mut(path).unwrap_or_else(|| panic!("no {path}")) = value;
    };
    let contrast = json!({"attribute": "x", "value": "x", "slow_share": 0.9, "typical_share": 0.1});
    let kind = |is_cause: bool| {
        json!({"service": "x", "name": "x", "detail": "x", "parent": "x", "outside": false, "delta_ms": 9.0, "share": 0.7,
            "share_low": 0.5, "share_high": 0.9, "slow_calls": 4.0, "typical_calls": 1.0, "more_calls_ms": 8.0,
            "slower_calls_ms": 1.0, "effect": 0.9, "exceeding": 0.9, "guilty": is_cause, "worst_trace_id": id, "contrasts": [contrast]})
    };
    let node = |depth: u32| {
        json!({"depth": depth, "service": "x", "name": "x", "detail": "x", "slow_ms": 10.0 - f64::from(depth),
            "typical_ms": 2.0, "slow_calls": 1.0, "typical_calls": 1.0})
    };
    let workload = results["workloads"][0].as_object_mut().unwrap();
    workload.insert("comparison".into(), json!({"slow_percent": 1, "slow": 20, "typical": 40, "left_out": 0, "slow_ms": 10.0,
        "typical_ms": 2.0, "no_finding": null, "kinds": [kind(true), kind(true), kind(false)], "clocks_moved": 0,
        "clocks_inconsistent": 0, "tree": [node(0), node(1), node(2), node(1)]}));
    let at = json!({"percentile": 50.0, "profiled_ms": 2.0, "control_ms": 1.0, "difference_ms": 1.0, "low_ms": 0.5, "high_ms": 1.5});
    workload.insert(
        "observer_effect".into(),
        json!({"control_percent": 10.0, "profiled": 36, "control": 4, "percentiles": [at]}),
    );
    let error = json!({"class": "x", "action": "x", "message": "x", "count": 3, "trace_ids": [id]});
    workload.insert("errors".into(), json!([error, error]));
    let other = results["workloads"][0].clone();
    results["workloads"].as_array_mut().unwrap().push(other);
    let criterion = json!({"workload": "x", "criterion": "x", "condition": "x", "observed": "x", "outcome": "FAIL",
        "severity": "warn", "reason": "x", "measured": {"unit": "x", "limit": 1.0, "value": 2.0, "low": 1.5, "high": 3.0},
        "aborted": true, "samples": 40, "trace_ids": [id]});
    fill(&mut results, "/verdict/criteria", json!([criterion, criterion]));
    fill(&mut results, "/verdict/invalid", json!(["x"]));
    fill(&mut results, "/run/error", json!("x"));
    fill(&mut results, "/profiling/reason", json!("x"));
    fill(&mut results, "/profiling/collector_error", json!("x"));
    fill(&mut results, "/notes", json!(["x"]));
    fill(&mut results, "/scenario/set", json!({"x": "x"}));
    let cause = json!({"name": "x", "detail": "x", "service": "x", "host": "x", "calls": 2, "self_ms": 1.0, "share": 0.5, "path": ["x", "x"]});
    let finding = json!({"name": "x", "detail": "x", "service": "x", "path": ["x"], "iterations": 2, "of": 3, "median_self_ms": 1.0,
        "median_share": 0.5, "median_calls": 2.0, "trace_ids": [id]});
    fill(&mut results, "/findings", json!([finding]));
    for slow in results["slowest"].as_array_mut().unwrap() {
        slow["culprit"] = cause.clone();
        slow["error"] = json!("x");
    }
    (results, columns, traces)
}

/// The trace with every text of its records replaced, and all shapes of info that a detail is taken from.
fn poisoned_trace(trace: &StoredTrace, text: &str) -> StoredTrace {
    let info = json!({text: text, "host": text, "name": text, "request": {"method": text, "path": text, "query": text},
        "db": {"statement": text, "params": {text: text}}});
    let stop =
        json!({text: [text], "etype": text, "message": text, "host": text, "x": {"headers": {text: text}}});
    let object = |value: &Value| -> Map<String, Value> { value.as_object().cloned().unwrap() };
    let records = trace.records.iter().map(|record| {
        let stopped = record.name.ends_with("-stop");
        TraceRecord {
            name: format!("{text}{}", if stopped { "-stop" } else { "-start" }).into(),
            info: object(if stopped { &stop } else { &info }).into(),
            project: Some(text.into()),
            service: Some(text.into()),
            ..record.clone()
        }
    });
    StoredTrace::new(trace.trace_id, records.collect(), 0, None)
}

/// Opens, hovers and clicks whatever there is.
const TOUCH: &str = "
    for (const more of document.querySelectorAll('details')) more.open = true;
    for (const host of document.querySelectorAll('.plot, .flame, .small-plot, .flame .cell')) {
      const box = host.getBoundingClientRect();
      const target = host.querySelector('canvas + canvas') ?? host;
      for (let n = 1; n < 8; n++) target.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: box.left + box.width * n / 8, clientY: box.top + box.height / 2 }));
      for (const key of ['End', 'ArrowLeft', 'ArrowDown', 'ArrowRight', 'Enter', 'Escape']) host.dispatchEvent(new KeyboardEvent('keydown', { bubbles: true, key }));
    }
    for (const button of document.querySelectorAll('button')) button.click();
    const find = document.querySelector('#find');
    if (find) { find.value = 'a'; find.dispatchEvent(new Event('input')); }
    return true;";

/// What must all be nothing.
const SEEN: &str = "
    for (const button of document.querySelectorAll('.wf .open')) if (button.getAttribute('aria-expanded') !== 'true') button.click();
    const all = [...document.querySelectorAll('*')];
    return {
      ran: window.hacked ?? null,
      elements: all.filter((e) => /^(img|iframe|object|embed|video|audio|base|form|math|marquee|frame|portal|animate|set|foreignobject)$/i.test(e.localName)).length,
      scripts: document.scripts.length > 4 || document.querySelectorAll('style').length > 1 || document.querySelectorAll('meta').length > 5 || document.querySelectorAll('link').length > 1,
      handlers: all.filter((e) => [...e.attributes].some((a) => /^on/i.test(a.name))).length,
      links: [...document.links].filter((a) => !/^(file|about):/.test(a.protocol) || a.target).length,
      loaded: performance.getEntriesByType('resource').filter((r) => !r.name.startsWith('data:')).length,
    };";

fn nothing() -> Value {
    json!({"ran": null, "elements": 0, "scripts": false, "handlers": 0, "links": 0, "loaded": 0})
}

#[track_caller]
fn opened_and_touched(browser: &Browser, path: &std::path::Path, text: &str) {
    browser.open(path);
    touched(browser, text);
}

#[track_caller]
fn touched(browser: &Browser, text: &str) {
    browser.run(TOUCH);
    // The dialog of the trace that was opened last has unpacked it.
    browser.wait("return !document.querySelector('#viewer-body')?.textContent.includes('Unpacking')");
    assert_eq!(browser.run(SEEN), nothing(), "{text:?}");
    assert_eq!(browser.console(), json!([]), "{text:?}");
}

#[test]
fn nothing_of_a_hostile_run_runs() {
    let Some(browser) = Browser::start() else { return };
    let bench = Bench::new();
    let (results, columns, traces) = everything(&bench);
    for (number, text) in grouped().iter().enumerate() {
        let mut hurt = results.clone();
        poison(&mut hurt, text);
        let hurt: Results = serde_json::from_value(hurt).unwrap();
        let stored: Vec<StoredTrace> = traces.iter().map(|trace| poisoned_trace(trace, text)).collect();
        let mut page = Vec::new();
        html::render(
            &hurt,
            &columns,
            ReportTraces { stored: &stored, shown: &TraceDisplay::Embed },
            &mut page,
        )
        .unwrap();
        let path = bench.write(&format!("{number}.html"), page);
        opened_and_touched(&browser, &path, text);
        let shown = browser.run("return document.querySelectorAll('.wf li').length > 3 && document.querySelectorAll('.cell').length > 3");
        assert_eq!(shown, json!(true), "{text:?}: waterfall and flame graph are there");
    }
}

#[test]
fn nothing_of_a_hostile_trace_runs() {
    let Some(browser) = Browser::start() else { return };
    let bench = Bench::new();
    let record = |name: String, id: &str, base: &str, us: u32, info: &Value, place: &str| {
        let record = json!({"name": name, "base_id": base, "trace_id": id, "parent_id": base,
            "timestamp": format!("2026-11-20T22:52:01.{us:06}"), "info": info, "project": place, "service": place});
        TraceRecord::decode(record.to_string().as_bytes()).unwrap()
    };
    for (number, text) in payloads().iter().enumerate() {
        let info = json!({text: text, "host": text, "request": {"method": text, "path": text, "query": text}, "db": {"statement": text}});
        let stop = json!({"etype": text, "message": text, "host": text});
        let records = [
            record(format!("{text}-start"), text, text, 0, &info, text),
            record(format!("{text}-stop"), text, text, 900, &stop, text),
            record(format!("{text}-start"), "2", text, 100, &info, text),
        ];
        let mut page = Vec::new();
        html::trace::write(text, &TraceTree::build(&records), None, &Functions::default(), None, &mut page)
            .unwrap();
        let path = bench.write(&format!("{number}.html"), page);
        opened_and_touched(&browser, &path, text);
        assert_eq!(browser.run("return document.querySelectorAll('.wf li').length"), 3, "{text:?}");
    }
}

/// The pages of comparisons have no script: all texts at once in every place.
#[test]
fn nothing_of_a_hostile_comparison_runs() {
    let Some(browser) = Browser::start() else { return };
    let bench = Bench::new();
    let text = payloads().concat();
    let mut page = Vec::new();
    html::comparison::ab(&hostile_pairs(&text), &mut page).unwrap();
    browser.load(&bench.write("ab.html", page));
    touched(&browser, &text);
    assert_eq!(
        browser.run("return document.querySelectorAll('circle.pair, .failed-pair').length > 3"),
        json!(true)
    );
    let mut page = Vec::new();
    html::comparison::two_runs(&hostile_runs(&text), &mut page).unwrap();
    browser.load(&bench.write("two.html", page));
    touched(&browser, &text);
    assert_eq!(browser.run("return document.scripts.length"), 0);
}

/// A count that failed.
fn counted(text: &str) -> PairCount {
    let trace = || Some(CountedTrace { trace_id: uuid::Uuid::nil(), file: text.to_owned(), count: 1 });
    let row = CountRow {
        workload: 0,
        metric: text.to_owned(),
        a: Some(0.0),
        b: Some(1.0),
        low: Some(1.0),
        high: Some(1.0),
        exact: true,
        alpha: 0.001,
        outcome: Outcome::Fail,
        reason: Some(text.to_owned()),
        traces: [5, 5],
        pairs: Vec::new(),
    };
    let point = CountedPoint { service: text.to_owned(), name: text.to_owned(), a_calls: 0.0, b_calls: 1.0 };
    PairCount { row, points: vec![point], a_trace: trace(), b_trace: trace() }
}

fn more_calls(text: &str) -> CallChange {
    CallChange {
        service: text.to_owned(),
        name: text.to_owned(),
        a_calls: 0.0,
        b_calls: 1.0,
        low: 1.0,
        high: 1.0,
        exact: true,
    }
}

fn of_sla(text: &str) -> SlaRow {
    SlaRow {
        workload: text.to_owned(),
        criterion: text.to_owned(),
        condition: text.to_owned(),
        severity: Severity::Fail,
        a: SlaSide::default(),
        b: SlaSide { outcome: Outcome::Fail, observed: text.to_owned(), ..SlaSide::default() },
    }
}

fn slower_point(slow: bool, text: &str) -> PointRow {
    PointRow {
        slow,
        service: text.to_owned(),
        name: text.to_owned(),
        a_self_ms: 1.0,
        b_self_ms: 2.0,
        a_calls: 1.0,
        b_calls: 1.0,
        difference_ms: 1.0,
        low_ms: 0.5,
        high_ms: 1.5,
    }
}

fn hostile_pairs(text: &str) -> PairDocument {
    let round =
        || RoundInfo { directory: text.to_owned(), started_at: text.to_owned(), ..RoundInfo::default() };
    let side = || Side {
        name: text.to_owned(),
        deployment: format!("{text}."),
        target: Some(text.to_owned()),
        command: Some(format!("{text} ")),
    };
    let row = |action| PercentileSeriesRow {
        series: PercentileSeries { workload: 0, action, phase: None, percentile: 95.0, gated: true },
        a_ms: Some(1.0),
        b_ms: Some(2.0),
        ratio: Some(2.0),
        low: Some(1.5),
        high: Some(2.5),
        alpha: 0.005,
        sd: Some(0.1),
        detectable: Some(1.2),
        needed: None,
        wilcoxon_p: Some(0.01),
        outcome: Outcome::Fail,
        samples: 400,
        pairs: vec![(Some(1.0), Some(2.0)), (Some(1.0), None), (None, Some(1.0))],
    };
    let pair = |left_out| Pair { b_first: true, left_out, a: round(), b: round(), further: Vec::new() };
    PairDocument {
        format: "bench-ab".to_owned(),
        version: 1,
        bench_version: "1".to_owned(),
        decision: Decision { outcome: Outcome::Fail, reasons: vec![text.to_owned()] },
        finished: true,
        scenario: ScenarioInfo {
            title: text.to_owned(),
            file: text.to_owned(),
            sha256: text.to_owned(),
            set: std::collections::BTreeMap::new(),
            options: Vec::new(),
            text: None,
        },
        a: side(),
        b: side(),
        margin_percent: 10.0,
        looks: [5, 10],
        alpha: 0.005,
        order_seed: 1,
        seed: None,
        pairs: vec![pair(None), pair(Some(text.to_owned()))],
        workloads: vec![
            WorkloadNames { workload: text.to_owned(), actions: vec![text.to_owned()] },
            WorkloadNames { workload: text.to_owned(), actions: Vec::new() },
        ],
        rows: vec![row(None), row(Some(0))],
        counts: vec![counted(text)],
        sla: vec![of_sla(text)],
        failures: Vec::new(),
        points: vec![slower_point(false, text), slower_point(true, text)],
        functions: Vec::new(),
        calls: vec![more_calls(text)],
        notes: vec![text.to_owned()],
    }
}

fn hostile_runs(text: &str) -> TwoRuns {
    let run = || RunRef {
        path: text.to_owned(),
        run_id: uuid::Uuid::from_u128(1),
        started_at: text.to_owned(),
        scenario: text.to_owned(),
        deployment: text.to_owned(),
        bench_version: text.to_owned(),
    };
    let kind = PointDifference {
        service: text.to_owned(),
        name: text.to_owned(),
        base_self_ms: 1.0,
        new_self_ms: 2.0,
        base_calls: 1.0,
        new_calls: 1.0,
        low_ms: Some(0.5),
        high_ms: Some(1.5),
    };
    let points = TracePoints { base_traces: 1, new_traces: 1, kinds: vec![kind] };
    let row = RatioRow {
        workload: text.to_owned(),
        action: Some(text.to_owned()),
        percentile: 95.0,
        base_ms: 1.0,
        new_ms: 2.0,
        ratio: Some(2.0),
        low: Some(1.5),
        high: Some(2.5),
        base_samples: (9, 9.0),
        new_samples: (9, 9.0),
    };
    let failures =
        || FailuresRow { workload: text.to_owned(), base: Counts::default(), new: Counts::default() };
    TwoRuns {
        format: "bench-compare".to_owned(),
        version: 1,
        base: run(),
        new: run(),
        differences: vec![text.to_owned()],
        rows: vec![row],
        failures: vec![failures(), failures()],
        typical_points: points.clone(),
        slow_points: points,
        notes: vec![text.to_owned()],
    }
}

/// The same through the program: names of a scenario, and what a service answers.
#[test]
fn nothing_of_a_hostile_service_runs() {
    let Some(browser) = Browser::start() else { return };
    let text =
        payloads()[..60].iter().filter(|text| !text.contains(['\0', '\u{1}'])).cloned().collect::<String>();
    let answer = text.clone();
    let server = ScriptedServer::start(move |_, wire| {
        let flat = answer.replace(['\r', '\n'], " ");
        let body = json!({"message": answer}).to_string();
        wire.send(format!(
            "HTTP/1.1 503 {flat}\r\nX-Hostile: {flat}\r\nContent-Type: {flat}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        crate::server::After::Close
    });
    let bench = Bench::new();
    let yaml = |value: &str| Value::from(value.replace("{{", "{").replace("{%", "{")).to_string();
    // Names have a limit; a few of the texts go into each.
    let long = payloads();
    let names: Vec<&[String]> = long.chunks(3).filter(|names| names.concat().len() < 190).collect();
    let mut names =
        names.into_iter().map(|names| yaml(&names.concat().replace(['\0', '\u{1}', '\u{7}', '\u{1b}'], "")));
    let mut name = || names.next().unwrap();
    let (title, workload, action, deployment, value) = (name(), name(), name(), name(), yaml(&text));
    bench.write(
        "hostile.yaml",
        format!(
            "title: {title}\ndeployment: there.yaml\nvariables: {{ x: {value} }}\nworkloads:\n  - name: {workload}\n    \
             runner: {{ constant: {{ times: 6, concurrency: 2 }} }}\n    sla: {{ failure_rate: {{ max: 1 }} }}\n    iteration:\n      \
             - action: {action}\n        post: /x\n        query: {{ y: \"{{{{ x }}}}\" }}\n        body: \"{{{{ x }}}}\"\n        \
             expect: {{ status: 200 }}\n"
        ),
    );
    bench.write("there.yaml", format!("name: {deployment}\ntargets: {{ default: \"{}\" }}\n", server.url()));
    let ended = bench.run(&["run", "hostile.yaml", "-q"]);
    assert!(ended.code == Some(2), "{ended:?}");
    opened_and_touched(&browser, &bench.run_directory().join("report.html"), "a hostile service");
}
