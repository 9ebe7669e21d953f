//! The report of a run in a real Chromium: it opens, responds to pointer and keyboard, finds traces, and fits screens.

use std::path::PathBuf;
use std::sync::OnceLock;

use bench::report::html::{self, ReportTraces, TraceDisplay};
use bench::results::IterationColumns;
use bench::results::model::Results;
use serde_json::{Value, json};

use crate::browser::Browser;
use crate::support::Bench;

const ENTER: &str = "\u{e007}";
const ESCAPE: &str = "\u{e00c}";
const DOWN: &str = "\u{e015}";
const RIGHT: &str = "\u{e014}";
const END: &str = "\u{e010}";

/// A run of the demo, made once; gives its directory. The folder is left to the process's end.
fn run() -> &'static (Bench, PathBuf) {
    static RUN: OnceLock<(Bench, PathBuf)> = OnceLock::new();
    RUN.get_or_init(|| {
        let bench = Bench::new();
        let root = env!("CARGO_MANIFEST_DIR");
        let scenario = std::fs::read_to_string(format!("{root}/scenarios/demo.yaml")).unwrap();
        bench.write("demo.yaml", scenario.replace("times: 2000", "times: 500"));
        let deployment = format!("{root}/deployments/demo.yaml");
        bench.run(&["run", "demo.yaml", "-d", &deployment, "-q"]).expect_code(0);
        let directory = bench.run_directory();
        (bench, directory)
    })
}

fn opened() -> Option<Browser> {
    let browser = Browser::start()?;
    browser.open(&run().1.join("report.html"));
    Some(browser)
}

/// The ids that have their trace in the file, as the page says.
fn kept(browser: &Browser) -> Vec<String> {
    let ids = browser
        .run("return JSON.parse(document.querySelector('#charts').textContent).traces.ids.map(([id]) => id)");
    serde_json::from_value(ids).unwrap()
}

#[test]
fn the_first_screen_leads_to_the_worst_trace_in_one_click() {
    let Some(browser) = opened() else { return };
    let seen = browser.run(
        "const top = document.querySelector('#timeline').getBoundingClientRect(), headline = document.querySelector('h1').innerText; \
         return [document.querySelector('.verdict').textContent, document.querySelector('.finding').textContent.length > 20, \
         document.querySelectorAll('.tiles dd').length >= 6, document.querySelectorAll('#load path').length >= 1, top.top < innerHeight, headline.split(/\\s+/).length <= 14]",
    );
    assert_eq!(seen, json!(["PASS", true, true, true, true, true]));
    browser.run("const go = document.querySelector('header .go'); go.focus(); go.click()");
    let lines = browser.wait("return document.querySelectorAll('#viewer[open] .wf li').length");
    assert!(lines.as_u64().unwrap() > 5, "{lines}");
    // What explains the trace is marked and in view.
    let marked = browser.run(
        "const worst = document.querySelector('#viewer .worst'), box = worst?.getBoundingClientRect(); \
         return [worst !== null, document.querySelectorAll('#viewer .worst').length, !!box && box.top >= 0 && box.bottom <= innerHeight, document.querySelectorAll('#viewer .to-cause').length]",
    );
    assert_eq!(marked, json!([true, 1, true, 1]));
    let id = browser.run("return document.querySelector('header .go').dataset.trace");
    assert_eq!(browser.run("return location.hash"), json!(format!("#trace={}", id.as_str().unwrap())));
    browser.press(&[ESCAPE]);
    browser.wait("return !document.querySelector('#viewer').open");
    assert_eq!(browser.run("return document.activeElement.className"), "go needs-script");
    assert_eq!(browser.console(), json!([]));
}

#[test]
fn a_point_shows_its_id_and_opens_its_waterfall() {
    let Some(browser) = opened() else { return };
    // Where the pointer finds a point whose trace is in the file; in whole pixels of the window, as a pointer moves.
    let place = browser.run(
        "document.querySelector('#scatter').scrollIntoView({ block: 'center' }); \
         const canvas = document.querySelectorAll('#scatter canvas')[1], box = canvas.getBoundingClientRect(), tip = document.querySelector('#scatter .tip'); \
         const top = Math.ceil(box.top), left = Math.ceil(box.left); \
         for (let y = top + 4; y < box.bottom; y += 4) for (let x = left + 72; x < box.right; x += 4) { \
           canvas.dispatchEvent(new PointerEvent('pointermove', { bubbles: true, clientX: x, clientY: y })); \
           if (!tip.hidden && tip.textContent.includes('opens its trace')) return [x, y]; } return null",
    );
    let (x, y) = (place[0].as_f64().unwrap(), place[1].as_f64().unwrap());
    browser.point(x, y, false);
    let lines = browser
        .run("return [...document.querySelectorAll('#scatter .tip div')].map((line) => line.textContent)");
    // The last two lines are the id and what a click does.
    let lines_shown = lines.as_array().unwrap();
    let id = lines_shown[lines_shown.len() - 2].as_str().unwrap().to_owned();
    assert!(kept(&browser).contains(&id), "{lines}");
    browser.point(x, y, true);
    let title = browser.wait("return document.querySelector('#viewer[open] .wf li') && document.querySelector('#viewer-acts .id').textContent");
    assert_eq!(title, json!(id));
    assert_eq!(browser.console(), json!([]));
}

#[test]
fn a_trace_is_found_by_the_beginning_of_its_id() {
    let Some(browser) = opened() else { return };
    let id = kept(&browser)[1].clone();
    let typed: Vec<String> = id[..8].chars().map(String::from).collect();
    let mut keys = vec!["/"];
    keys.extend(typed.iter().map(String::as_str));
    browser.press(&keys);
    assert_eq!(browser.run("return document.querySelector('#find').value"), json!(id[..8]));
    assert_eq!(browser.run("return document.querySelector('#found').textContent"), "1 found");
    browser.press(&[DOWN, ENTER]);
    let title = browser.wait("return document.querySelector('#viewer[open] .wf li') && document.querySelector('#viewer-acts .id').textContent");
    assert_eq!(title, json!(id));
    browser.press(&[ESCAPE]);
    browser.run("document.querySelector('#find').focus()");
    browser.press(&[ESCAPE, "z", "z"]);
    assert_eq!(browser.run("return document.querySelector('#found').textContent"), "not an id");
    assert_eq!(browser.console(), json!([]));
}

#[test]
fn an_address_with_a_trace_id_opens_it_and_one_that_is_not_here_says_how_to_get_it() {
    let Some(browser) = opened() else { return };
    let kept = kept(&browser);
    browser.run(&format!("location.hash = '#trace={}'", kept[0]));
    browser.wait("return document.querySelector('#viewer[open] .wf li')");
    let (bench, directory) = run();
    let exported = bench.run(&["export", &directory.to_string_lossy(), "--jsonl"]).expect_code(0);
    let rows = exported.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let ids = rows.map(|mut row| row["trace_id"].take());
    let other = ids.filter_map(|id| id.as_str().map(str::to_owned)).find(|id| !kept.contains(id)).unwrap();
    browser.run(&format!("location.hash = '#trace={other}'"));
    let told = browser.wait("return document.querySelector('#viewer-body pre')?.textContent");
    // The command is true as well.
    let command: Vec<&str> = told.as_str().unwrap().split(' ').collect();
    assert_eq!(command[..4], ["bench", "trace", "show", &other], "{told}");
    let shown = bench.run(&command[1..]).expect_code(0).stdout;
    assert!(shown.contains("wsgi"), "{shown}");
    assert_eq!(browser.console(), json!([]));
}

#[test]
fn everything_can_be_reached_with_the_keyboard() {
    let Some(browser) = opened() else { return };
    browser.run("document.querySelector('#scatter').focus()");
    browser.press(&[END]);
    let last = browser.run("return document.querySelector('#scatter-said').textContent");
    assert!(last.as_str().unwrap().contains("started at"), "{last}");
    browser.press(&[DOWN, "+", "+"]);
    assert_eq!(browser.run("return document.querySelector('#reset').disabled"), json!(false));
    browser.press(&[ENTER]);
    browser.wait("return document.querySelector('#viewer').open");
    browser.press(&[ESCAPE]);
    browser.wait("return !document.querySelector('#viewer').open");
    // A comparison needs more traces than a short run may have.
    if browser.run("return document.querySelector('.flame') !== null") == json!(true) {
        browser.run("document.querySelector('.flame').focus()");
        browser.press(&[DOWN, DOWN, RIGHT, ENTER]);
        let (said, crumbs) = (
            browser.run("return document.querySelector('[data-said]').textContent"),
            browser.run("return document.querySelectorAll('[data-crumbs] button').length"),
        );
        assert!(said.as_str().unwrap().contains("of the difference"), "{said}");
        assert!(crumbs.as_u64().unwrap() > 1);
        browser.press(&[ESCAPE, ESCAPE, ESCAPE]);
        assert_eq!(browser.run("return document.querySelectorAll('[data-crumbs] button').length"), 1);
    }
    browser.run("document.querySelector('[data-chart=histogram]').focus()");
    browser.press(&[RIGHT, RIGHT, ENTER]);
    browser.wait("return document.querySelector('#viewer').open");
    // What has a role has a name, and what can be clicked can be focused.
    let nameless = browser.run(
        "return [...document.querySelectorAll('[role=img], [role=group], [role=search], button, input')].filter((e) => \
         !(e.getAttribute('aria-label') || e.textContent.trim() || e.title || e.labels?.length || e.role === 'search')).map((e) => e.outerHTML.slice(0, 80))",
    );
    assert_eq!(nameless, json!([]));
    assert_eq!(browser.console(), json!([]));
}

#[test]
fn it_is_dark_in_the_dark_and_fits_a_phone_and_paper() {
    let Some(browser) = opened() else { return };
    let background = || browser.run("return getComputedStyle(document.body).backgroundColor");
    let scheme = |scheme: &str, media: &str| {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        browser.chromium("Emulation.setEmulatedMedia", &json!({"media": media, "features": features}));
    };
    scheme("light", "");
    assert_eq!(background(), "rgb(255, 255, 255)");
    scheme("dark", "");
    assert_eq!(background(), "rgb(20, 24, 28)");
    scheme("dark", "print");
    assert_eq!(background(), "rgb(255, 255, 255)");
    assert_eq!(browser.run("return getComputedStyle(document.querySelector('nav')).display"), "none");
    scheme("light", "");
    for (width, height) in [(390, 844), (320, 568), (820, 1180)] {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": true});
        browser.chromium("Emulation.setDeviceMetricsOverride", &size);
        browser.open(&run().1.join("report.html"));
        assert_eq!(browser.run("return document.documentElement.scrollWidth"), json!(width));
        if width == 390 {
            let height = browser.run("return document.documentElement.scrollHeight").as_u64().unwrap();
            // On a busy machine nothing may stand out, and several kinds of points and groups are shown instead.
            let stands_out =
                browser.run("return document.querySelector('.is-cause') !== null") == json!(true);
            let most = PHONE_HEIGHT_MAX + if stands_out { 0 } else { 700 };
            assert!(height <= most, "{height}");
        }
        assert_eq!(browser.run(CUT_LINKS), json!([]), "{width}");
        assert_eq!(browser.run(WIDE_LABELS), json!([]), "{width}");
        browser
            .run("document.querySelector('#find').value = ''; document.querySelector('header .go').click()");
        browser.wait("return document.querySelector('#viewer[open] .wf li')");
        assert_eq!(
            browser.run("return document.querySelector('#viewer').scrollWidth <= innerWidth"),
            json!(true)
        );
        browser.press(&[ESCAPE]);
    }
    assert_eq!(browser.console(), json!([]));
}

/// The demo's report on a phone, in px.
const PHONE_HEIGHT_MAX: u64 = 4_300;
/// Entries of the navigation that cannot be seen.
const CUT_LINKS: &str = "return [...document.querySelectorAll('nav a')].filter((one) => { const box = one.getBoundingClientRect(); \
    return box.left < 0 || box.right > innerWidth }).map((one) => one.textContent)";
/// Labels of the flame graph that are wider than their boxes.
const WIDE_LABELS: &str = "return [...document.querySelectorAll('.cell text')].filter((one) => \
    one.getComputedTextLength() > Number(one.previousElementSibling.getAttribute('width'))).map((one) => one.textContent)";
/// Figures that a line could end in, and those with a hyphen for a minus sign. What can be copied stays as it is.
const LOOSE_FIGURES: &str = r"
    const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), found = [];
    while (walk.nextNode()) {
        const { data, parentElement } = walk.currentNode;
        if (parentElement.closest('code, pre, script, style, q')) continue;
        if (/\d (ms|µs|%)|(^|[\s(])-\d[\d.]*\s(ms|µs|s|%)/.test(data)) found.push(data.trim().slice(0, 80));
    }
    return found";

#[test]
fn the_scenario_and_the_command_can_be_copied_without_secrets() {
    let Some(browser) = opened() else { return };
    browser
        .run("navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }");
    let copied = |of: &str| {
        browser.run(&format!("document.querySelector('[data-copy-of={of}]').click()"));
        browser.wait("return window.copied").as_str().unwrap().to_owned()
    };
    let written = std::fs::read_to_string(run().0.path().join("demo.yaml")).unwrap();
    let expected = written.replace("password: demo", "password: \"***\"");
    assert_ne!(written, expected);
    assert_eq!(copied("scenario"), expected);
    browser.run("window.copied = null");
    assert!(copied("command").starts_with("bench run demo.yaml -d "));
    let order = browser.run(
        "return [...document.querySelectorAll('#environment h3')].slice(0, 3).map((one) => one.textContent)",
    );
    assert_eq!(order, json!(["Run it again", "The scenario", "All settings"]));
    let results = std::fs::read_to_string(run().1.join("results.json")).unwrap();
    assert!(!results.contains("password: demo"));
    assert_eq!(browser.run(LOOSE_FIGURES), json!([]));
    assert_eq!(browser.console(), json!([]));
}

/// Kinds of runs, made from one: errors, nothing traced, nothing judged; what is left out leaves no gap.
fn kinds() -> Vec<(&'static str, Value, Vec<&'static str>)> {
    let text = std::fs::read(run().1.join("results.json")).unwrap();
    let mut pass: Value = serde_json::from_slice(&text).unwrap();
    pass.as_object_mut().unwrap().remove("iterations");
    pass["reason"].take();
    pass.as_object_mut().unwrap().remove("reason");
    let mut errors = pass.clone();
    let total = errors["workloads"][0]["iterations"]["total"].clone();
    errors["workloads"][0]["iterations"] =
        json!({"total": total, "ok": 0, "failed": total, "aborted": 0, "dropped": 0});
    errors["workloads"][0]["errors"] = json!([{
        "class": "check", "action": "look up", "message": "expected ACTIVE".repeat(20), "found": "BUILD",
        "body": "x".repeat(200), "count": total, "trace_ids": [uuid::Uuid::from_u128(1), uuid::Uuid::from_u128(2)],
    }]);
    errors["verdict"]["outcome"] = "FAIL".into();
    let mut bare = pass.clone();
    bare["verdict"] = json!({"outcome": "NONE", "invalid": [], "criteria": []});
    bare["profiling"]["enabled"] = false.into();
    bare["findings"] = json!([]);
    bare["explanations"] = json!([]);
    for workload in bare["workloads"].as_array_mut().unwrap() {
        workload.as_object_mut().unwrap().remove("comparison");
    }
    let mut slow = pass.clone();
    slow["verdict"]["outcome"] = "FAIL".into();
    slow["verdict"]["criteria"][0] = json!({"workload": slow["workloads"][0]["name"], "criterion": "thresholds",
        "condition": "p(99) < 1ms", "observed": "150 ms", "outcome": "FAIL", "severity": "fail", "samples": total,
        "trace_ids": [], "aborted": false, "reason": null,
        "measured": {"unit": "ms", "limit": 1.0, "value": 150.0, "low": 140.0, "high": 160.0}});
    // Traces were asked for and none came: only the client knows something.
    let mut lost = bare.clone();
    lost["profiling"]["enabled"] = true.into();
    lost["profiling"]["fetched"] = json!({"absent": 60});
    lost["profiling"]["collector_error"] = REFUSED.into();
    lost["probe"].take();
    lost.as_object_mut().unwrap().remove("probe");
    lost["notes"] = json!([]);
    lost["workloads"][0]["client_comparison"] = json!({
        "slow_percent": 5, "slow": 30, "typical": 40, "slow_ms": 320.0, "typical_ms": 20.0,
        "parts": [{
            "service": "bench", "name": "action", "detail": "look up", "parent": "iteration t", "outside": false,
            "delta_ms": 290.0, "share": 0.97, "share_low": 0.93, "share_high": 1.0, "slow_calls": 1.0,
            "typical_calls": 1.0, "more_calls_ms": 0.0, "slower_calls_ms": 290.0, "effect": 1.0,
            "exceeding": 1.0, "guilty": true, "worst_trace_id": null,
        }],
    });
    let mut overload = pass.clone();
    overload["workloads"][0]["start_lag"] = overload["workloads"][0]["response_time"].clone();
    overload["scenario"].as_object_mut().unwrap().remove("text");
    let (all, rest) = (["timeline", "criteria"], ["slowest", "w0"]);
    vec![
        ("pass", pass, [&all[..], &rest].concat()),
        ("errors", errors, [&["errors"], &all[..], &rest].concat()),
        ("bare", bare, [&["timeline"], &rest[..]].concat()),
        ("lost", lost, [&["timeline"], &rest[..]].concat()),
        ("slow", slow, [&all[..], &rest].concat()),
        ("overload", overload, [&all[..], &rest].concat()),
    ]
}

/// Why no trace came.
const REFUSED: &str = "redis at collector:6379 refused the connection for the whole run";
/// Headings of groups of the slowest iterations that stand over no row.
const EMPTY_GROUPS: &str = "const shown = (one) => one.getClientRects().length > 0; \
    return [...document.querySelectorAll('.slow .group')].filter((head) => { \
    const next = head.closest('tbody').nextElementSibling; return shown(head) && !(next && shown(next) && next.querySelector('.row')) }).length";
/// Sentences that stand more than once on the page.
const REPEATED: &str = r"
    const said = new Set(), again = [];
    for (const one of document.querySelectorAll('h1, .finding, .banner, .notes li, .hint, .said, .meta, .words, .message'))
        if (one.getClientRects().length)
        for (const sentence of one.textContent.split(/[.;]\s+/).map((text) => text.trim()).filter((text) => text.length > 30))
            said.has(sentence) ? again.push(sentence) : said.add(sentence);
    return again";

/// What stands once on a page: the answer of a failed check, why no trace came, the sentence of the client's comparison.
fn stands_once(browser: &Browser, name: &str, answer: &str) {
    let count = |text: &str| {
        let text = json!(text);
        browser.run(&format!(
            "return document.body.innerText.replaceAll('\\u00a0', ' ').split({text}).length - 1"
        ))
    };
    assert_eq!(browser.run(REPEATED), json!([]), "{name}");
    match name {
        "errors" => {
            assert_eq!(count(answer), 1);
            assert_eq!(
                browser.run("return document.querySelectorAll('#errors a[href=\"#answer\"]').length"),
                1
            );
        }
        "lost" => {
            assert_eq!(count(REFUSED), 1);
            assert_eq!(count("By the client's own times"), 1);
            let card = browser.run("return document.querySelector('.card h2').textContent");
            assert!(card.as_str().unwrap().starts_with("waiting for the answer in action look up"), "{card}");
        }
        _ => {}
    }
}

#[test]
fn every_kind_of_report_has_its_order_and_fits_a_phone() {
    let Some(browser) = Browser::start() else { return };
    for (name, value, expected) in kinds() {
        let results: Results = serde_json::from_value(value).unwrap();
        let mut page = Vec::new();
        let traces = ReportTraces { stored: &[], shown: &TraceDisplay::Embed };
        html::render(&results, &IterationColumns::default(), traces, &mut page).unwrap();
        let path = run().0.write(&format!("{name}.html"), page);
        for width in [390, 1280] {
            let size = json!({"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 400});
            browser.chromium("Emulation.setDeviceMetricsOverride", &size);
            browser.open(&path);
            let wide = browser.run("return document.documentElement.scrollWidth").as_i64().unwrap();
            assert!(wide <= width, "{name}: {wide} of {width}");
            // Percentiles are in sight without scrolling sideways.
            let hidden = browser.run(
                "return [...document.querySelectorAll('td[data-l=p99], td[data-l=p95]')].filter((cell) => cell.getBoundingClientRect().right > innerWidth).length",
            );
            assert_eq!(hidden, 0, "{name}");
            assert_eq!(browser.run(CUT_LINKS), json!([]), "{name}");
            assert_eq!(browser.run(LOOSE_FIGURES), json!([]), "{name}");
            assert_eq!(browser.run(EMPTY_GROUPS), 0, "{name}");
            let tall = browser.run("return document.documentElement.scrollHeight").as_u64().unwrap();
            assert!(width > 400 || tall <= PHONE_HEIGHT_MAX, "{name}: {tall}");
        }
        stands_once(&browser, name, &"x".repeat(200));
        // Without any trace nothing says where to find one.
        assert_eq!(browser.run("return document.querySelectorAll('.slow .here, #slowest .mark').length"), 0);
        let sections = browser.run(
            "return [...document.querySelectorAll('main > section')].map((one) => one.id).filter((id) => !/^(why|calls|environment)/.test(id))",
        );
        assert_eq!(sections, json!(expected), "{name}");
        // The entries of the navigation lead somewhere.
        let lost = browser.run(
            "return [...document.querySelectorAll('nav a')].filter((one) => !document.querySelector(one.getAttribute('href'))).length",
        );
        assert_eq!(lost, 0, "{name}");
    }
    assert_eq!(browser.console(), json!([]));
}

/// As in Rally: ids only, waterfalls inside, or a page for each.
#[test]
fn traces_are_ids_or_inside_or_on_pages_of_their_own() {
    let Some(browser) = opened() else { return };
    let (bench, directory) = run();
    let id = kept(&browser)[0].clone();
    // The other tests read this run's report.
    let copy = bench.path().join("copy");
    copied(directory, &copy);
    let again = |mode: &str| bench.run(&["report", "copy", "-q", "--traces", mode]).expect_code(0);
    let embedded = std::fs::metadata(directory.join("report.html")).unwrap().len();
    again("text");
    assert!(std::fs::metadata(copy.join("report.html")).unwrap().len() < embedded);
    browser.open(&copy.join("report.html"));
    browser.run(&format!("location.hash = '#trace={id}'"));
    let told = browser.wait("return document.querySelector('#viewer-body pre')?.textContent");
    assert_eq!(told, json!(format!("bench trace show . {id}")));
    assert_eq!(browser.run("return document.querySelectorAll('.id.here').length"), 0);
    again("some pages");
    assert_eq!(std::fs::read_dir(bench.path().join("some pages")).unwrap().count(), kept(&browser).len());
    browser.open(&copy.join("report.html"));
    let to = browser
        .run("const link = document.querySelector('.slow a.id'); link.click(); return link.dataset.trace");
    let title = browser.wait("return document.documentElement.dataset.drawn && document.querySelector('body.tracepage') && document.title");
    assert!(title.as_str().unwrap().contains(to.as_str().unwrap()), "{title}");
    again("embed");
    assert_eq!(std::fs::metadata(copy.join("report.html")).unwrap().len() / 1_000, embedded / 1_000);
    bench.run(&["report", "copy", "-q", "--traces", "copy/run.log/x"]).expect_code(1);
    assert_eq!(browser.console(), json!([]));
}

fn copied(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.path().is_dir() {
            copied(&entry.path(), &to.join(entry.file_name()));
        } else {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn a_hundred_thousand_points_are_drawn_and_found() {
    let Some(browser) = Browser::start() else { return };
    let (bench, directory) = run();
    let text = std::fs::read(directory.join("results.json")).unwrap();
    let mut value: Value = serde_json::from_slice(&text).unwrap();
    value.as_object_mut().unwrap().remove("iterations");
    let results: Results = serde_json::from_value(value).unwrap();
    let total = 100_000_u64;
    let mut columns = IterationColumns { total, ..IterationColumns::default() };
    let mut random = fastrand::Rng::with_seed(5);
    for number in 0..total {
        columns.workload.push(0);
        columns.start_us.push(number * 600);
        columns.duration_ms.push(20.0 * (random.f32() * 3.0 - 1.0).exp());
        columns.outcome.push(u8::from(random.u32(0..100) == 0));
        columns.trace_id.push(random.u128(..).to_le_bytes());
    }
    let mut page = Vec::new();
    let traces = ReportTraces { stored: &[], shown: &TraceDisplay::Embed };
    html::render(&results, &columns, traces, &mut page).unwrap();
    assert!(page.len() < 3_000_000, "{}", page.len());
    let path = bench.write("many.html", page);
    browser.open(&path);
    let took = browser.run("const { unpackedMs, scatterMs, drawnMs } = document.documentElement.dataset; return { unpackedMs, scatterMs, drawnMs }");
    println!("100,000 points: {took}");
    let id = uuid::Uuid::from_bytes(columns.trace_id[77_777]).to_string();
    browser.run(&format!(
        "const field = document.querySelector('#find'); field.focus(); field.value = {}; field.dispatchEvent(new Event('input'))",
        json!(id[..13])
    ));
    assert_eq!(browser.run("return document.querySelector('#matches .id').textContent"), json!(id));
    // Zooming in on a tenth of the run draws again.
    browser.run("document.querySelector('#scatter').focus()");
    browser.press(&[END, "+", "+", "+"]);
    assert_eq!(browser.run("return document.querySelector('#reset').disabled"), json!(false));
    let inked = browser.run(
        "const canvas = document.querySelector('#scatter canvas'); const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height); \
         let inked = 0; for (let n = 3; n < data.length; n += 4) if (data[n]) inked++; return inked",
    );
    assert!(inked.as_u64().unwrap() > 10_000, "{inked}");
    assert_eq!(browser.console(), json!([]));
}
