//! What the report must hold, and what it must never let through.

use std::io::Read;
use std::sync::Arc;

use flate2::read::GzDecoder;
use serde_json::{Value, json};
use uuid::Uuid;

use super::*;
use crate::document::terminal::TerminalStyle;
use osprofiler::report::PointError;
use results::model::{Distribution, Outcome, RunStatus, TraceState};
use results::trace::StoredTrace;
use sample::{Sample, poison, sample};

fn html(sample: &Sample) -> String {
    let mut page = Vec::new();
    let traces = ReportTraces { stored: &sample.traces, shown: &TraceDisplay::Embed };
    render(&sample.results, &sample.iterations, traces, &mut page).unwrap();
    String::from_utf8(page).unwrap()
}

/// The text between a start tag's end and the next end tag of that name.
fn element<'a>(page: &'a str, start: &str, end: &str) -> &'a str {
    let from = page.find(start).unwrap_or_else(|| panic!("no {start}")) + start.len();
    &page[from..from + page[from..].find(end).unwrap()]
}

fn unpacked(packed: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    GzDecoder::new(STANDARD.decode(packed).unwrap().as_slice()).read_to_end(&mut bytes).unwrap();
    bytes
}

/// `BENCH_WRITE_SAMPLE_REPORT=report.html cargo test report::html` writes the page to look at;
/// `BENCH_SAMPLE_ITERATIONS` says with how many iterations.
#[test]
fn the_page_holds_what_the_results_hold() {
    let rows = std::env::var("BENCH_SAMPLE_ITERATIONS").map_or(20_000, |rows| rows.parse().unwrap());
    let mut sample = sample(rows);
    let broken = sample.results.verdict.criteria.iter_mut().find(|one| one.outcome == Outcome::Fail);
    broken.unwrap().aborted = true;
    let started = std::time::Instant::now();
    let page = html(&sample);
    println!("{rows} iterations: {} bytes in {:?}", page.len(), started.elapsed());
    if let Ok(path) = std::env::var("BENCH_WRITE_SAMPLE_REPORT") {
        std::fs::write(path, &page).unwrap();
    }
    assert!(page.starts_with("<!DOCTYPE html>"));
    // Figures stay with their units.
    assert!(page.contains("\u{a0}ms"));
    let page = page.replace('\u{a0}', " ");
    for expected in [
        "<span class=\"verdict\">FAIL</span>",
        "1 of 3 criteria does not hold, 1 could not be judged.",
        "Keystone under load",
        "by 2 workloads",
        "TLS not verified",
        "<th colspan=\"9\" scope=\"rowgroup\">",
        "<code>db · SELECT … FROM user</code>",
        "<rect class=\"cause\"",
        "SELECT user.id, user.domain_id FROM user WHERE user.id = ?</pre>",
        "<code>host controller-1</code> <span class=\"nw\"><b>100 %</b> of slow</span>",
        "<a class=\"bad\" href=\"#errors\">",
        "bench run scenarios&#x2f;keystone.yaml -d deployments&#x2f;staging.yaml --set limit=50 --times 100",
        "in keystone&#x2f;public on controller-1",
        " % of the response time</span>, <span class=\"nw\">40 calls</span>",
        "under wsgi GET &#x2f;v3&#x2f;users › identity.list_users",
        "POST {{ keystone }}&#x2f;v3&#x2f;auth&#x2f;tokens",
        "no answer within 5.00 s",
        "0 aborted, 40 warm-up iterations not counted (1 failed)) in",
        "3 aborted, 7 dropped: never started, 40 warm-up iterations not counted (1 failed)) in",
        "<th scope=\"row\">Queue time</th>",
        "from when the request was due.",
        "Profiling on: every iteration was traced except ",
        " complete, 1 partial, 1 absent.",
        "<b>create-server:</b> Iterations above p99 take ",
        ", on average); <code>db · SELECT … FROM user</code>",
        "because it is called 40 times instead of ",
        "host controller-1: 100 % instead of ",
        "Kinds that explain less (",
        " ms against a limit of 1.00 ms",
        "ended the load",
        "no samples",
        " at p50 ",
        "no cost can be shown at p99: between ",
        "<h2>Calls</h2>",
        "p50 and p99 over time; the highest p99 of an interval is",
    ] {
        assert!(page.contains(expected), "the page lacks {expected}");
    }
    for slow in &sample.results.slowest {
        assert!(page.contains(&format!("data-trace=\"{}\"", slow.iteration.trace_id)));
    }
    let seen = |slow: &&results::model::SlowIteration| {
        matches!(slow.trace, TraceState::Complete | TraceState::Partial)
    };
    assert!(sample.results.slowest.iter().filter(seen).count() > 2);
    for slow in sample.results.slowest.iter().filter(seen) {
        assert!(page.contains(&format!("data-slot=\"{}\"", slow.iteration.trace_id)));
    }
}

/// The terminal tells the same of the same run.
#[test]
fn the_summary_tells_waiting_from_service_and_what_was_aside() {
    let sample = sample(2_000);
    let mut text = Vec::new();
    let directory = std::path::Path::new("runs/x");
    crate::terminal::summary(&sample.results, Some(directory), &[], TerminalStyle::default(), &mut text)
        .unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains(", 7 dropped: never started, 40 warm-up iterations not counted (1 failed); "),
        "{text}"
    );
    let times = |name: &str| {
        let line =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name}: {text}"));
        line.trim_end().to_owned()
    };
    for (name, counted) in [
        (" iteration ", true),
        ("  from its start ", false),
        ("  queue time ", false),
        ("   list ", true),
        ("    from due ", false),
    ] {
        let words = times(name);
        let mut counts =
            words[name.len()..].split_whitespace().take(2).map(|word| word.parse::<u64>().is_ok());
        assert_eq!(counts.all(|is_count| is_count), counted, "{words}");
    }
    let mut on_time = sample.results;
    on_time.workloads.iter_mut().for_each(|workload| workload.queue_time = Distribution::default());
    let mut text = Vec::new();
    crate::terminal::summary(&on_time, Some(directory), &[], TerminalStyle::default(), &mut text).unwrap();
    assert!(
        !String::from_utf8(text).unwrap().contains("\n  queue time"),
        "one row where both times are the same"
    );
}

#[test]
fn the_policy_admits_exactly_the_embedded_style_and_script() {
    let page = html(&sample(100));
    let policy = element(&page, "http-equiv=\"Content-Security-Policy\" content=\"", "\"");
    assert!(policy.starts_with("default-src 'none'; "), "{policy}");
    assert!(!policy.contains("unsafe"), "{policy}");
    for (directive, start, end) in
        [("script-src", "<script>", "</script>"), ("style-src", "<style>", "</style>")]
    {
        assert_eq!(page.matches(start).count(), 1);
        let hash = STANDARD.encode(Sha256::digest(element(&page, start, end)));
        assert!(policy.contains(&format!("{directive} 'sha256-{hash}'")), "{directive}: {policy}");
    }
    assert!(!page.contains(" style=\""), "an inline style is against the policy");
}

#[test]
fn nothing_is_loaded_from_anywhere() {
    let files = [
        ("page.html", PAGE),
        ("trace.html", trace::PAGE),
        ("comparison.html", comparison::PAGE),
        ("document.html", document::MACROS),
        ("style.css", STYLE),
        ("common.js", COMMON),
        ("waterfall.js", WATERFALL),
        ("trace.js", trace::SCRIPT),
    ];
    for (name, source) in files.into_iter().chain(SCRIPT) {
        let own = source.replace("http://www.w3.org/2000/svg", "").replace("href=\"data:,\"", "");
        for forbidden in
            ["http://", "https://", "src=", "url(", "@import", "import(", "fetch(", "innerHTML", "eval("]
        {
            assert!(!own.contains(forbidden), "{name} holds {forbidden}");
        }
        assert!(!own.contains("href=\"/"), "{name}");
        assert!(!source.contains("</script") || name.ends_with(".html"));
    }
}

#[test]
fn iterations_and_traces_survive_packing() {
    let sample = sample(50);
    let page = html(&sample);
    let (columns, count) =
        (unpacked(element(&page, "id=\"iterations\">", "</script>")), sample.iterations.len());
    assert_eq!(columns.len(), 8 + count * 31);
    // The planes of bytes of the row that starts first.
    let first = (0..count).min_by_key(|row| sample.iterations.start_us[*row]).unwrap();
    let word = |column: usize| {
        u32::from_le_bytes([0, 1, 2, 3].map(|plane| columns[8 + (4 * column + plane) * count]))
    };
    assert_eq!(columns[..8], [u32::try_from(count).unwrap().to_le_bytes(), 1_u32.to_le_bytes()].concat());
    assert_eq!(u64::from(word(0)), sample.iterations.start_us[first]);
    for (column, expected) in
        [(1, sample.iterations.duration_ms[first]), (2, sample.iterations.waited_ms[first])]
    {
        let seen = f32::from_bits(word(column));
        assert!((seen - expected).abs() <= expected * 1e-5, "{seen} instead of {expected}");
    }
    let ids = 8 + 15 * count;
    assert_eq!(columns[ids..ids + 16], sample.iterations.trace_id[first]);
    let traces: Value =
        serde_json::from_slice(&unpacked(element(&page, "id=\"traces\">", "</script>"))).unwrap();
    let partial = sample.traces.iter().find(|trace| trace.state == TraceState::Partial).unwrap();
    let traces = traces.as_array().unwrap();
    let points = |trace: &&Value| trace["total"] == partial.tree.points.len() && trace["state"] == "partial";
    let shown = traces.iter().find(points).unwrap()["points"].as_array().unwrap();
    assert_eq!(shown.len(), partial.tree.points.len());
    assert_eq!(shown.iter().filter(|point| point["duration_us"].is_null()).count(), 1);
}

#[test]
fn traces_are_shown_as_asked() {
    let sample = sample(30);
    let page = |shown: &TraceDisplay| {
        let mut page = Vec::new();
        let traces = ReportTraces { stored: &sample.traces, shown };
        render(&sample.results, &sample.iterations, traces, &mut page).unwrap();
        String::from_utf8(page).unwrap()
    };
    let id = sample.traces[0].trace_id;
    let packed = |page: &str| unpacked(element(page, "id=\"traces\">", "</script>")).len();
    let embedded = page(&TraceDisplay::Embed);
    assert!(embedded.contains("class=\"id here\"") && packed(&embedded) > 1_000);
    let text = page(&TraceDisplay::Text);
    assert!(
        !text.contains("class=\"id here\"")
            && packed(&text) < 10
            && text.contains(&format!("data-trace=\"{id}\""))
    );
    let pages = page(&TraceDisplay::Pages("../b%20c/".to_owned()));
    assert!(pages.contains(&format!("href=\"..&#x2f;b%20c&#x2f;{id}.html\"")) && packed(&pages) < 10);
    for page in [embedded, text, pages] {
        assert!(page.contains("<h2>Calls</h2>"));
    }
}

#[test]
fn a_sample_says_of_how_many() {
    let mut sample = sample(50);
    sample.iterations.total = 4_200_000;
    let expected = format!("A sample of {} of 4,200,000 iterations.", sample.iterations.len());
    assert!(html(&sample).contains(&expected));
}

#[test]
fn a_run_that_did_not_finish_says_so_first() {
    let mut sample = sample(50);
    for (status, title) in [
        (RunStatus::Interrupted, "Interrupted"),
        (RunStatus::TimedOut, "Timed out"),
        (RunStatus::Failed, "The run failed"),
        (RunStatus::Recovered, "Recovered"),
    ] {
        sample.results.run.status = status;
        sample.results.run.error = Some("disk full".to_owned());
        let page = html(&sample);
        let banner = page.find(&format!("<strong>{title}.</strong>")).unwrap();
        assert!(banner < page.find("id=\"slowest\"").unwrap());
        assert!(page.contains("disk full"));
    }
}

#[test]
fn a_run_without_iterations_renders() {
    let mut sample = sample(50);
    sample.results.workloads.clear();
    sample.results.slowest.clear();
    sample.results.verdict.criteria.clear();
    sample.results.verdict.outcome = Outcome::None;
    sample.results.profiling.enabled = false;
    sample.results.profiling.reason = Some("no hmac key".to_owned());
    let page = html(&Sample { iterations: IterationColumns::default(), traces: vec![], ..sample });
    for expected in
        ["no gate", "0 iterations in ", "Profiling off: no hmac key", "There are no iterations to draw."]
    {
        assert!(page.contains(expected), "{expected}");
    }
}

/// Strings that break out of one context or another.
const HOSTILE: [&str; 9] = [
    "</script><script>alert(1)</script>",
    "</ScRiPt ><svg/onload=alert(1)>",
    "<img src=x onerror=alert(1)>",
    "</style><script>alert(1)</script>",
    "{{ 7*7 }}{% include 'x' %}",
    "\" onmouseover=\"alert(1)\" x='",
    "<!--<script>",
    "line\u{2028}para\u{2029}nul\0esc\u{1b}[31m rtl\u{202e}gpj.exe bell\u{7} del\u{7f}",
    "&lt;b&gt; &#60;script&#62; javascript:alert(1)",
];

#[test]
fn hostile_strings_stay_text_everywhere() {
    let harmless = html(&sample(30));
    let hostile: String = HOSTILE.concat();
    let Sample { results, iterations, traces } = sample(30);
    let mut json = serde_json::to_value(&results).unwrap();
    let keep = [
        "trace_id",
        "trace_ids",
        "id",
        "id_seed",
        "outcome",
        "status",
        "trace",
        "verdict",
        "fetched",
        "severity",
        "no_finding",
        "place",
        "basis",
        "own_time",
        "kind",
        "worst_trace_id",
        "state",
        "kind",
    ];
    poison(&mut json, &hostile, &keep);
    let mut results: Results = serde_json::from_value(json).unwrap();
    results.scenario.set.insert(hostile.clone(), hostile.clone());
    for criterion in &mut results.verdict.criteria {
        (criterion.workload, criterion.condition) = (hostile.clone(), hostile.clone());
        (criterion.observed, criterion.criterion) = (hostile.clone(), hostile.clone());
    }
    results.run.error = Some(hostile.clone());
    results.profiling.collector_error = Some(hostile.clone());
    let mut hurt = traces;
    for point in &mut Arc::make_mut(&mut hurt[0].tree).points {
        for text in [&mut point.trace_id, &mut point.parent_id, &mut point.name] {
            *text = hostile.as_str().into();
        }
        for text in [&mut point.service, &mut point.project, &mut point.host] {
            *text = Some(hostile.as_str().into());
        }
        point.error = Some(PointError { etype: hostile.clone(), message: hostile.clone() }.into());
        for info in [&mut point.info, &mut point.stop_info] {
            let mut object = serde_json::to_value(&*info).unwrap();
            poison(&mut object, &hostile, &[]);
            object["as a key and text"] = json!({ hostile.clone(): &hostile });
            // As it is read from a file, which is embedded as text where that is harmless.
            *info = serde_json::from_value(object).unwrap();
        }
    }
    let page = html(&Sample { results, iterations, traces: hurt });
    if let Ok(path) = std::env::var("BENCH_WRITE_HOSTILE_REPORT") {
        std::fs::write(path, &page).unwrap();
    }
    for tag in ["<script", "</script", "<style", "</style", "<img", "<svg/", "<!--", "</ScRiPt"] {
        assert_eq!(page.matches(tag).count(), harmless.matches(tag).count(), "{tag}");
    }
    assert!(!page.contains("\" onmouseover=\""), "a quote closed an attribute");
    assert!(page.contains("{{ 7*7 }}") && !page.contains("&gt;49"));
    for c in ['\0', '\u{1b}', '\u{7}', '\u{7f}', '\u{2028}', '\u{2029}', '\u{202e}'] {
        assert!(!page.contains(c), "{c:?} came through");
    }
    assert!(page.contains("‹U+202E›gpj.exe") && page.contains("nul‹U+0000›"));
    let island = element(&page, "id=\"charts\">", "</script>");
    assert!(!island.contains(['<', '>', '&']));
    let charts: Value = serde_json::from_str(island).unwrap();
    assert!(charts["workloads"][0]["name"].as_str().unwrap().starts_with("</script><script>alert(1)"));
}

#[test]
fn a_big_trace_keeps_its_longest_points_and_what_is_above_them() {
    let Sample { results, .. } = sample(30);
    let mut trace = sample::trace(&results.slowest[0], 6_000);
    let points = &mut Arc::make_mut(&mut trace.tree).points;
    points[5_999].error = Some(PointError { etype: "E".to_owned(), message: "late".to_owned() }.into());
    points[5_997].duration_us = Some(50_000_000);
    let shown = points::shown_points(&trace.tree.points, points::POINTS_MAX);
    assert_eq!(shown.len(), points::POINTS_MAX);
    assert!(shown.is_sorted());
    for kept in [0, 1, 5_997, 5_999] {
        assert!(shown.contains(&kept), "{kept}");
    }
}

#[test]
fn a_trace_that_is_one_deep_chain_is_cut_not_walked_forever() {
    let Sample { results, .. } = sample(30);
    let mut trace = sample::trace(&results.slowest[0], 20_000);
    for (depth, point) in (0..).zip(Arc::make_mut(&mut trace.tree).points.iter_mut()) {
        (point.depth, point.error) = (depth, None);
        point.duration_us = Some(1);
    }
    assert_eq!(points::shown_points(&trace.tree.points, points::POINTS_MAX).len(), points::POINTS_MAX);
}

#[test]
fn many_errors_deep_below_cost_no_walk_each() {
    let Sample { results, .. } = sample(30);
    let mut trace = sample::trace(&results.slowest[0], 100_000);
    for (depth, point) in (0..).zip(Arc::make_mut(&mut trace.tree).points.iter_mut()) {
        (point.depth, point.duration_us) = (depth, Some(1));
        let late = || PointError { etype: "E".to_owned(), message: "late".to_owned() }.into();
        point.error = (depth > 10_000).then(late);
    }
    let shown = points::shown_points(&trace.tree.points, points::PAGE_POINTS_MAX);
    assert_eq!(shown, (0..points::PAGE_POINTS_MAX).collect::<Vec<_>>());
}

#[test]
fn of_many_traces_those_of_the_slowest_iterations_are_in_the_file() {
    let Sample { results, traces, .. } = sample(300);
    let one = shown(&traces).next().unwrap().clone();
    let others = (0..refs::EMBEDDED_MAX as u128)
        .map(|number| StoredTrace { trace_id: Uuid::from_u128(number), ..one.clone() });
    let stored: Vec<StoredTrace> = others.chain(traces).collect();
    let seen =
        refs::LinkableTraces::of(&results, ReportTraces { stored: &stored, shown: &TraceDisplay::Embed });
    let here: Vec<Uuid> = seen.traces().map(|trace| trace.trace_id).collect();
    assert_eq!(here.len(), refs::EMBEDDED_MAX);
    assert_eq!(seen.left_out().len(), shown(&stored).count() - here.len());
    let with_traces = results
        .slowest
        .iter()
        .filter(|slow| slow.trace != TraceState::Absent && slow.trace != TraceState::NotFetched);
    assert!(with_traces.clone().count() > 2);
    assert!(with_traces.clone().all(|slow| here.contains(&slow.iteration.trace_id)));
    // Each has its page.
    let pages = TraceDisplay::Pages("pages/".to_owned());
    let seen = refs::LinkableTraces::of(&results, ReportTraces { stored: &stored, shown: &pages });
    assert_eq!(seen.traces().count(), shown(&stored).count());
}
