//! `bench ab`: two builds in alternating rounds, against the demo and against commands.

use serde_json::Value;

use crate::schema::assert_described;
use crate::server::ScriptedServer;
use crate::support::Bench;

const SCENARIO: &str = r#"
title: Turns
deployment: a.yaml
runner: { constant: { times: 30, concurrency: 3 } }
iteration:
  - action: look
    get: /
    expect: { status: 200 }
"#;

/// A scenario of 30 short iterations on the demo, and a demo that is slowed down.
fn folder() -> Bench {
    let bench = Bench::new();
    bench.write("a.yaml", "name: first\ndemo: {}\n");
    bench.write("b.yaml", "name: second\ndemo: { slowdown: 1000% }\n");
    bench.write("scenario.yaml", SCENARIO);
    bench
}

fn ab_json(bench: &Bench) -> Value {
    let value =
        serde_json::from_slice(&std::fs::read(bench.run_directory().join("ab.json")).unwrap()).unwrap();
    assert_described("ab", &value);
    value
}

#[test]
fn a_build_that_takes_many_times_as_long_fails() {
    let bench = folder();
    bench.write(
        "scenario.yaml",
        SCENARIO.replace("get: /", "post: /v3/auth/tokens\n    json: { auth: { identity: { password: { user: { name: user-1, password: demo } } } } }").replace("status: 200", "status: 201"),
    );
    let arguments =
        ["ab", "scenario.yaml", "-d", "a.yaml", "-d", "b.yaml", "--metric", "p50", "--pairs", "10"];
    let options = ["--metric", "p50(wait action \"look\")", "--junit", "ab.xml"];
    let mut command = bench.command(&[&arguments[..], &options].concat());
    let ended = Bench::end(command.env("GITHUB_ACTIONS", "true")).expect_code(2);
    assert!(
        ended.stdout.contains("::error title=FAIL Turns%3A p50%3A B is not 10 %25 slower::"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("Turns%3A look wait p50%3A B is not"), "{}", ended.stdout);
    let junit = std::fs::read_to_string(bench.path().join("ab.xml")).unwrap();
    assert!(junit.contains("tests=\"3\"") && junit.contains("failures=\"2\""), "{junit}");
    assert!(
        ended.stdout.contains("FAIL · Turns: B (second, slowed down by 1000%) against A (first)"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("p50: B is slower by more than the margin of 10 %"), "{}", ended.stdout);
    assert!(ended.stderr.contains("pair 5 (of 10 at most): B/A p50"), "{}", ended.stderr);
    let results = ab_json(&bench);
    assert_eq!((&results["format"], &results["outcome"]), (&"bench-ab".into(), &"FAIL".into()));
    let pairs = results["pairs"].as_array().unwrap();
    assert!(pairs.len() == 5 || pairs.len() == 10, "it ends at a look");
    // Of each two pairs, one begins with B.
    for two in pairs.chunks_exact(2) {
        assert_ne!(two[0]["b_first"], two[1]["b_first"]);
    }
    let gated: Vec<&Value> =
        results["rows"].as_array().unwrap().iter().filter(|row| row["gated"] == true).collect();
    let phases: Vec<&Value> = gated.iter().map(|row| &row["phase"]).collect();
    assert_eq!(phases, [&Value::Null, &"wait".into()]);
    assert!(
        gated[0]["low"].as_f64().unwrap() > 1.1 && gated[0]["pairs"].as_array().unwrap().len() == pairs.len()
    );
    // The queries' own time is what grew, in typical iterations' traces too.
    let point = &results["points"].as_array().unwrap()[0];
    assert!(point["name"].as_str().unwrap().starts_with("db "), "{point}");
    assert!(point["difference_ms"].as_f64().unwrap() > 0.0 && point["a_calls"].as_f64().unwrap() >= 1.0);
    // Each round is a run: its report can be made, with 30 measured iterations and the warm-up aside.
    let round = bench.run_directory().join("0001-a");
    bench.run(&["report", round.to_str().unwrap(), "--quiet"]).expect_code(0);
    let run: Value = serde_json::from_slice(&std::fs::read(round.join("results.json")).unwrap()).unwrap();
    assert_eq!(run["workloads"][0]["iterations"]["total"], 30);
    assert_eq!(run["workloads"][0]["warm_up"]["total"], 3);
    let markdown = std::fs::read_to_string(bench.run_directory().join("ab.md")).unwrap();
    assert!(markdown.starts_with("### FAIL · Turns") && markdown.contains("| p50 |"), "{markdown}");
    let page = std::fs::read_to_string(bench.run_directory().join("ab.html")).unwrap();
    assert!(
        page.contains("<span class=\"verdict\">FAIL</span>")
            && page.contains("<h1>B is slower than A: ")
            && page.contains("p50 takes "),
        "{page}"
    );
    assert!(page.matches("class=\"pair").count() >= pairs.len(), "a point for each pair: {page}");
}

/// Two targets of one deployment: /good answers, and /bad fails each tenth time.
#[test]
fn a_build_that_fails_more_fails_the_comparison() {
    let server = ScriptedServer::start(|seen, wire| {
        let bad = seen.path.starts_with("/bad") && seen.nth % 10 == 0;
        let half = seen.path.starts_with("/half") && seen.nth % 2 == 0;
        let down = seen.path.starts_with("/down");
        wire.answer(
            if bad || half || down { "503 Service Unavailable" } else { "200 OK" },
            "text/plain",
            "ok",
        )
    });
    let bench = folder();
    let url = server.url();
    bench.write(
        "targets.yaml",
        format!("name: both\ntargets: {{ good: \"{url}/good\", bad: \"{url}/bad\", half: \"{url}/half\", down: \"{url}/down\", default: \"{url}\" }}\n"),
    );
    let compare_by = |metric: &str, a: &str, b: &str| {
        bench.run(&[
            "ab",
            "scenario.yaml",
            "-d",
            "targets.yaml",
            "--target-a",
            a,
            "--target-b",
            b,
            "--metric",
            metric,
            "--margin",
            "1000",
        ])
    };
    let compare = |a: &str, b: &str| compare_by("p50", a, b);
    let ended = compare("good", "bad").expect_code(2);
    assert!(ended.stdout.contains("FAIL · Turns: B (bad) against A (good)"), "{}", ended.stdout);
    assert!(ended.stdout.contains("B fails significantly more often than A"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("B is slower"), "{}", ended.stdout);
    let ended = compare("bad", "good").expect_code(0);
    assert!(ended.stdout.contains("PASS"), "failing less is not a fault: {}", ended.stdout);
    // A quick failure is not a good time.
    let ended = compare_by("p66", "half", "half").expect_code(0);
    assert!(ended.stdout.contains("INCONCLUSIVE"), "{}", ended.stdout);
    assert!(
        ended.stdout.contains("p66: no ratio, because in 20 pairs it falls among the failed iterations"),
        "{}",
        ended.stdout
    );
    let ended = compare("good", "down").expect_code(2);
    assert!(ended.stdout.contains("no iteration of B succeeded in 3 pairs"), "{}", ended.stdout);
    let ended = compare("down", "good").expect_code(3);
    assert!(ended.stdout.contains("no iteration succeeded in a round of A"), "{}", ended.stdout);
}

/// Both sides get longer rounds, from the first pair on, and what was measured before is kept.
#[test]
fn rounds_too_short_for_the_percentile_are_lengthened() {
    let bench = folder();
    let further = ["--metric", "p90", "--margin", "1000", "--pairs", "10", "--no-profile"];
    let arguments = [&["ab", "scenario.yaml", "-d", "a.yaml", "-d", "a.yaml"], &further[..]].concat();
    let ended = bench.run(&arguments).expect_code(0);
    let told =
        "pair 1: p90 needs 100 samples in every round, and A had 30: rounds of both are 4.2 times as long";
    // It is said when it happens, and kept in the files.
    assert!(ended.stderr.contains(told) && !ended.stdout.contains(told), "{ended:?}");
    let markdown = std::fs::read_to_string(bench.run_directory().join("ab.md")).unwrap();
    assert!(markdown.contains(told), "{markdown}");
    assert!(!ended.stdout.contains("INVALID"), "{}", ended.stdout);
    let pairs = ab_json(&bench)["pairs"].clone();
    for side in ["a", "b"] {
        assert_eq!(pairs[0][side]["iterations"], 30);
        assert_eq!(pairs[0]["further"][0][side]["iterations"], 126);
        assert_eq!(pairs[1][side]["iterations"], 126);
        assert_eq!(pairs[1][side]["length"], 4.2);
    }
    assert_eq!(pairs[1]["further"].as_array().unwrap().len(), 0);
    let directory = pairs[0]["further"][0]["b"]["directory"].as_str().unwrap();
    assert!(bench.run_directory().join(directory).join("run.log").is_file(), "{directory}");
}

#[test]
fn rounds_that_cannot_be_long_enough_are_told_at_once() {
    let bench = folder();
    let arguments =
        ["ab", "scenario.yaml", "-d", "a.yaml", "-d", "a.yaml", "--metric", "p99", "--no-profile"];
    let ended = bench.run(&arguments).expect_code(3);
    let told =
        "p99 needs 1000 samples in every round, and A had 30, too few even with rounds 10 times as long";
    assert!(ended.stdout.contains(told), "{}", ended.stdout);
    assert!(ended.stdout.contains("make rounds longer (--round)"), "{}", ended.stdout);
    assert_eq!(ab_json(&bench)["pairs"].as_array().unwrap().len(), 1);
}

/// A's timed rounds hold enough iterations and B's too few, because it is slower: that is a FAIL and not INVALID.
#[test]
fn a_slower_build_in_timed_rounds_fails() {
    let server = ScriptedServer::start(|seen, wire| {
        let slow = if seen.path.starts_with("/slow") { 90 } else { 40 };
        wire.pause(std::time::Duration::from_millis(slow));
        wire.answer("200 OK", "text/plain", "ok")
    });
    let bench = folder();
    let url = server.url();
    bench.write(
        "targets.yaml",
        format!(
            "name: both\ntargets: {{ fast: \"{url}/fast\", slow: \"{url}/slow\", default: \"{url}\" }}\n"
        ),
    );
    let timed = "runner: { constant_for_duration: { duration: 400ms, concurrency: 6 } }";
    bench.write(
        "scenario.yaml",
        SCENARIO.replace("runner: { constant: { times: 30, concurrency: 3 } }", timed),
    );
    let arguments = ["ab", "scenario.yaml", "-d", "targets.yaml", "--target-a", "fast", "--target-b", "slow"];
    let further = ["--metric", "p80", "--pairs", "10"];
    let ended = bench.run(&[&arguments[..], &further[..]].concat()).expect_code(2);
    assert!(ended.stdout.contains("p80: B is slower by more than the margin of 10 %"), "{}", ended.stdout);
    assert!(ended.stderr.contains("B had "), "{}", ended.stderr);
}

/// JSON that is deeper than bench reads says nothing of the build that sends it.
#[test]
fn a_limit_of_bench_is_no_difference_between_builds() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let server = ScriptedServer::start(move |seen, wire| {
        let body = if seen.path.starts_with("/deep") { deep.as_str() } else { "[]" };
        wire.answer("200 OK", "application/json", body)
    });
    let bench = folder();
    let url = server.url();
    bench.write(
        "targets.yaml",
        format!(
            "name: both\ntargets: {{ flat: \"{url}/flat\", deep: \"{url}/deep\", default: \"{url}\" }}\n"
        ),
    );
    bench.write("scenario.yaml", SCENARIO.replace("status: 200", "json: { $: { exists: true } }"));
    let arguments = ["ab", "scenario.yaml", "-d", "targets.yaml", "--target-a", "flat", "--target-b", "deep"];
    let further = ["--metric", "p50", "--pairs", "10", "--no-profile"];
    let ended = bench.run(&[&arguments[..], &further[..]].concat()).expect_code(3);
    assert!(ended.stdout.contains("failed at a limit of bench or of this machine"), "{}", ended.stdout);
    assert!(!ended.stdout.contains("FAIL ·"), "{}", ended.stdout);
}

#[test]
fn what_cannot_be_compared_is_refused_before_anything_runs() {
    let bench = folder();
    bench.write("off.yaml", "name: off\ndemo: {}\nprofiler: { enabled: false }\n");
    for (arguments, code, message) in [
        (vec![], 64, "what is A, what is B?"),
        (vec!["-d", "a.yaml"], 64, "what is A, what is B?"),
        (vec!["-d", "a.yaml", "-d", "a.yaml", "-d", "a.yaml"], 64, "more than two deployments"),
        (
            vec!["-d", "a.yaml", "-d", "a.yaml", "--target-a", "x", "--target-b", "y"],
            64,
            "give one deployment",
        ),
        (vec!["-d", "a.yaml", "--target-a", "x"], 64, "--target-b"),
        (vec!["-d", "a.yaml", "--target-a", "x", "--target-b", "y"], 64, "has no target `x`"),
        (vec!["-d", "a.yaml", "--base-cmd", "true"], 64, "--new-cmd"),
        (vec!["-d", "a.yaml", "-d", "none.yaml"], 65, "cannot read none.yaml"),
        (vec!["-d", "a.yaml", "-d", "off.yaml"], 65, "one side is profiled and the other is not"),
        (
            vec!["-d", "a.yaml", "-d", "a.yaml", "--metric", "p95(action \"x\")"],
            64,
            "no action is named `x`; the actions are `look`",
        ),
        (
            vec!["-d", "a.yaml", "-d", "a.yaml", "--metric", "p95(action \"loook\")"],
            64,
            "did you mean `look`?",
        ),
        (vec!["-d", "a.yaml", "-d", "a.yaml", "--metric", "p9O"], 64, "`p9O` is not a percentile: write p95"),
        (
            vec!["-d", "a.yaml", "-d", "a.yaml", "--metric", "p50", "--metric", "p95(action \"x\")"],
            64,
            "no action is named `x`",
        ),
        (vec!["-d", "a.yaml", "-d", "a.yaml", "--metric", "95"], 64, "write p95"),
        (vec!["-d", "a.yaml", "-d", "a.yaml", "--metric", "p100"], 64, "between 0 and 100"),
        (vec!["-d", "a.yaml", "-d", "a.yaml", "--margin=-1"], 64, "a percentage from 0 to"),
        (vec!["-d", "a.yaml", "-d", "a.yaml", "--margin", "NaN"], 64, "a percentage from 0 to"),
        (vec!["-d", "a.yaml", "-d", "a.yaml", "--pairs", "3"], 64, "10..=1000"),
        (vec!["-d", "a.yaml", "-d", "a.yaml", "--round", "30"], 64, "unit"),
        (
            vec![
                "-d", "a.yaml", "-d", "a.yaml", "--metric", "p50", "--metric", "p90", "--metric", "p95",
                "--metric", "p99",
            ],
            64,
            "at most 3",
        ),
    ] {
        let all: Vec<&str> = ["ab", "scenario.yaml"].into_iter().chain(arguments.iter().copied()).collect();
        let ended = bench.run(&all).expect_code(code);
        assert!(ended.stderr.contains(message), "{arguments:?}: {}", ended.stderr);
    }
    assert!(!bench.path().join("runs").exists(), "nothing ran");
}

/// The stages of a ramp define the length of its round.
#[test]
fn a_length_does_not_fit_a_ramp() {
    let bench = folder();
    let ramp = "runner: { ramping: { stages: [ { duration: 1s, concurrency: 2 } ] } }";
    bench.write(
        "scenario.yaml",
        SCENARIO.replace("runner: { constant: { times: 30, concurrency: 3 } }", ramp),
    );
    let ended =
        bench.run(&["ab", "scenario.yaml", "-d", "a.yaml", "-d", "a.yaml", "--round", "1s"]).expect_code(64);
    assert!(ended.stderr.contains("remove --round"), "{}", ended.stderr);
}

#[cfg(unix)]
mod commands {
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    use super::{SCENARIO, ab_json};
    use crate::rewind;
    use crate::support::{Bench, CommandOutput, free_address};

    /// An HTTP server in a few lines of Python; `None` where there is no Python.
    fn folder(port: u16) -> Option<Bench> {
        let there = std::process::Command::new("python3").arg("--version").output();
        if !there.is_ok_and(|output| output.status.success()) {
            println!("skipped: no python3");
            return None;
        }
        let bench = Bench::new();
        bench.write(
            "server.py",
            r#"
import http.server, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        time.sleep(float(sys.argv[2]) / 1000)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *arguments): pass
http.server.ThreadingHTTPServer.request_queue_size = 50
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"#,
        );
        bench.write("a.yaml", format!("name: server\ntargets: {{ default: \"http://127.0.0.1:{port}\" }}\n"));
        bench.write("scenario.yaml", SCENARIO);
        Some(bench)
    }

    fn nothing_answers(port: u16) {
        let asked = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_ok() {
            assert!(asked.elapsed() < Duration::from_secs(10), "a server was left behind");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn compare(bench: &Bench, base: &str, new: &str, further: &[&str]) -> CommandOutput {
        let arguments =
            ["ab", "scenario.yaml", "--base-cmd", base, "--new-cmd", new, "--metric", "p50", "--pairs", "10"];
        bench.run(&arguments.iter().chain(further).copied().collect::<Vec<_>>())
    }

    #[test]
    fn commands_are_started_and_ended_with_all_that_they_started() {
        let port = free_address().port();
        let Some(bench) = folder(port) else { return };
        // The server is a grandchild: a shell starts it and waits.
        let (fast, slow) =
            (format!("python3 server.py {port} 2; true"), format!("python3 server.py {port} 40; true"));
        let ready = format!("http://127.0.0.1:{port}/");
        let ended = compare(&bench, &fast, &slow, &["--ready", &ready]).expect_code(2);
        assert!(ended.stdout.contains("FAIL"), "{}", ended.stdout);
        assert_eq!(ab_json(&bench)["b"]["command"], slow.as_str());
        nothing_answers(port);
    }

    #[test]
    fn a_command_that_does_not_start_is_told_with_what_it_printed() {
        let port = free_address().port();
        let Some(bench) = folder(port) else { return };
        let ended = compare(&bench, "echo no such library; exit 3", "echo no such library; exit 3", &[])
            .expect_code(69);
        assert!(ended.stderr.contains("the command ended (exit status: 3) before"), "{}", ended.stderr);
        assert!(ended.stderr.contains("no such library"), "{}", ended.stderr);
        assert!(std::fs::read_dir(bench.path().join("runs")).unwrap().next().is_none(), "nothing ran");
    }

    /// What answers is no proof that the build runs: somebody else may have its port.
    #[test]
    fn a_command_that_ends_is_not_measured_even_if_something_answers() {
        let port = free_address().port();
        let Some(bench) = folder(port) else { return };
        // The server is what stays; the command itself ends while bench waits for it, or during the round.
        let command = format!("python3 server.py {port} 1 & sleep 2; echo no such port; exit 3");
        let ended = compare(&bench, &command, &command, &["--round", "5s"]).expect_code(69);
        assert!(ended.stderr.contains("the command ended (exit status: 3)"), "{}", ended.stderr);
        assert!(ended.stderr.contains("no such port"), "{}", ended.stderr);
        assert!(!ended.stdout.contains("PASS"), "{}", ended.stdout);
        assert!(std::fs::read_dir(bench.path().join("runs")).unwrap().next().is_none(), "nothing was judged");
        nothing_answers(port);
    }

    /// It ran once, and A runs each time: that is B's own doing.
    #[test]
    fn a_build_that_starts_no_more_fails() {
        let port = free_address().port();
        let Some(bench) = folder(port) else { return };
        let good = format!("python3 server.py {port} 1");
        let once = format!("test -e ran && exit 3; touch ran; exec python3 server.py {port} 1");
        rewind::file(bench.path().join("ran"));
        let ended = compare(&bench, &good, &once, &["--margin", "1000"]).expect_code(2);
        assert!(ended.stdout.contains("B fails significantly more often than A"), "{}", ended.stdout);
        assert!(ended.stdout.contains("B did not run in pair 2: "), "{}", ended.stdout);
        nothing_answers(port);
    }

    #[test]
    fn what_runs_already_is_not_measured() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let Some(bench) = folder(listener.local_addr().unwrap().port()) else { return };
        let ended = compare(&bench, "sleep 5", "sleep 5", &[]).expect_code(69);
        assert!(ended.stderr.contains("answers before the command was started"), "{}", ended.stderr);
    }

    /// Even SIGKILL leaves no server behind.
    #[test]
    fn an_end_by_force_leaves_nothing_behind() {
        let port = free_address().port();
        let Some(bench) = folder(port) else { return };
        let command = format!("python3 server.py {port} 2");
        let mut child = bench
            .command(&[
                "ab",
                "scenario.yaml",
                "--base-cmd",
                &command,
                "--new-cmd",
                &command,
                "--round",
                "30s",
            ])
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let started = Instant::now();
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(started.elapsed() < Duration::from_secs(60), "the server did not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        nothing_answers(port);
    }

    #[test]
    fn an_interrupt_ends_it_with_what_is_there() {
        let bench = super::folder();
        let arguments =
            ["ab", "scenario.yaml", "-d", "a.yaml", "-d", "a.yaml", "--metric", "p50", "--pairs", "1000"];
        let mut command = bench.command(&arguments);
        let child = command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let started = Instant::now();
        let runs = bench.path().join("runs");
        let second_pair = || {
            let entries = std::fs::read_dir(&runs).into_iter().flatten().flatten();
            entries.into_iter().any(|entry| {
                entry.path().join("0002-a").join("run.log").exists()
                    && entry.path().join("0002-b").join("run.log").exists()
            })
        };
        while !second_pair() {
            assert!(started.elapsed() < Duration::from_secs(60), "no second pair");
            std::thread::sleep(Duration::from_millis(10));
        }
        let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let ended = CommandOutput::from(child.wait_with_output().unwrap()).expect_code(105);
        assert!(
            ended.stdout.contains("INCONCLUSIVE") && ended.stdout.contains("interrupted after"),
            "{}",
            ended.stdout
        );
        assert_eq!(ab_json(&bench)["finished"], false);
    }
}

/// Log in, then look a user up; in B every look-up runs a statement more.
fn folder_with_a_statement_more() -> Bench {
    let bench = Bench::new();
    bench.write("a.yaml", "name: cached\ndemo: { slow_percent: 0 }\n");
    bench.write("b.yaml", "name: uncached\ndemo: { slow_percent: 100, slow_query: 1ms }\n");
    let demo = std::fs::read_to_string("scenarios/demo.yaml").unwrap();
    let demo = demo.replace("times: 2000, concurrency: 10", "times: 40, concurrency: 2");
    bench.write("scenario.yaml", demo.replace("../deployments/demo.yaml", "a.yaml"));
    bench
}

#[test]
fn a_statement_more_fails_after_three_short_pairs() {
    let bench = folder_with_a_statement_more();
    let metric = "count(trace \"db\")";
    let arguments = ["ab", "scenario.yaml", "-d", "a.yaml", "-d", "b.yaml", "--metric", metric];
    let ended = bench.run(&[&arguments[..], &["--pairs", "10", "--junit", "ab.xml"]].concat()).expect_code(2);
    assert!(ended.stderr.contains("pair 3 (of 10 at most): count(trace \"db\") "), "{}", ended.stderr);
    assert!(!ended.stderr.contains("pair 4"), "{}", ended.stderr);
    let results = ab_json(&bench);
    assert_eq!((&results["outcome"], results["pairs"].as_array().unwrap().len()), (&"FAIL".into(), 3));
    let count = &results["counts"][0];
    assert_eq!((&count["metric"], &count["outcome"]), (&metric.into(), &"FAIL".into()), "{count}");
    assert_eq!((&count["exact"], &count["low"], &count["high"]), (&true.into(), &1.0.into(), &1.0.into()));
    let point = &count["points"][0];
    let name = point["name"].as_str().unwrap();
    assert!(name.starts_with("db SELECT") && name.contains("assignment"), "{point}");
    assert_eq!((&point["a_calls"], &point["b_calls"]), (&0.0.into(), &1.0.into()));
    // The same statement is what changed in the mean trace.
    assert_eq!(results["calls"][0]["name"], point["name"], "{}", results["calls"]);
    // Both traces can be opened.
    for side in ["a_trace", "b_trace"] {
        let file = bench.run_directory().join(count[side]["file"].as_str().unwrap());
        let shown = bench.run(&["trace", "show", file.to_str().unwrap()]).expect_code(0);
        assert!(shown.stdout.contains("db"), "{}", shown.stdout);
    }
    let junit = std::fs::read_to_string(bench.path().join("ab.xml")).unwrap();
    let page = std::fs::read_to_string(bench.run_directory().join("ab.html")).unwrap();
    let markdown = std::fs::read_to_string(bench.run_directory().join("ab.md")).unwrap();
    for (text, quotes) in [(&ended.stdout, "\""), (&junit, "&quot;"), (&page, "&#34;"), (&markdown, "\"")] {
        let metric = metric.replace('"', quotes);
        assert!(
            text.contains(&metric) || text.contains(&metric.replace("&#34;", "&quot;")),
            "{metric}: {text}"
        );
        for part in
            ["B has more than A", "0 → 1 calls", "assignment", count["b_trace"]["file"].as_str().unwrap()]
        {
            assert!(text.replace("&#x2f;", "/").contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn the_same_statements_pass_and_no_traces_are_invalid() {
    let bench = folder_with_a_statement_more();
    bench.write("same.yaml", "name: same\ndemo: { slow_percent: 0 }\n");
    let ab = |second: &str, metric: &str| {
        let arguments = ["ab", "scenario.yaml", "-d", "a.yaml", "-d", second, "--pairs", "10"];
        bench.run(&[&arguments[..], &["--metric", metric, "--metric", "errors(trace)"]].concat())
    };
    let ended = ab("same.yaml", "count(trace \"db\" where service = \"identity\")").expect_code(0);
    assert!(ended.stdout.contains("B has as many as A"), "{}", ended.stdout);
    // A misspelled name is no zero.
    let ended = ab("same.yaml", "count(trace \"dbb\")").expect_code(3);
    assert!(
        ended.stdout.contains("no trace point is named \"dbb\"; the points seen are:"),
        "{}",
        ended.stdout
    );
    let ended = ab("same.yaml", "count(trace where sevice = \"x\")").expect_code(64);
    assert!(ended.stderr.contains("did you mean `service`?"), "{}", ended.stderr);
    bench.write("plain.yaml", "targets: { default: 'http://127.0.0.1:9' }\n");
    let arguments = ["ab", "scenario.yaml", "-d", "plain.yaml", "-d", "plain.yaml"];
    let ended = bench.run(&[&arguments[..], &["--metric", "count(trace)"]].concat()).expect_code(65);
    assert!(ended.stderr.contains("cannot count trace points: nothing of A is profiled"), "{}", ended.stderr);
}

#[test]
fn b_must_keep_the_scenarios_own_criteria() {
    let bench = folder();
    // Response times of A and B are alike within the margin, and neither keeps this.
    bench.write(
        "scenario.yaml",
        format!(
            "{SCENARIO}sla: {{ max_seconds_per_iteration: 0.000001, thresholds: [rate(errors) <= 50%] }}\n"
        ),
    );
    let arguments = ["ab", "scenario.yaml", "-d", "a.yaml", "-d", "a.yaml", "--metric", "p50"];
    let ended =
        bench.run(&[&arguments[..], &["--pairs", "10", "--margin", "1000", "--junit", "ab.xml"]].concat());
    let ended = ended.expect_code(2);
    let results = ab_json(&bench);
    let sla = results["sla"].as_array().unwrap();
    let outcomes: Vec<_> = sla
        .iter()
        .map(|row| (row["a"]["outcome"].as_str().unwrap(), row["b"]["outcome"].as_str().unwrap()))
        .collect();
    assert_eq!(outcomes, [("FAIL", "FAIL"), ("PASS", "PASS")], "{sla:?}");
    // On a busy machine, the times need all pairs.
    let says = |rounds: &str| {
        ended.stdout.contains(&format!("B fails the scenario's criterion in {rounds} rounds"))
            && ended.stdout.contains(&format!("and so does A ({rounds} rounds fail)"))
    };
    assert!(says("5 of 5") || says("10 of 10"), "{}", ended.stdout);
    let junit = std::fs::read_to_string(bench.path().join("ab.xml")).unwrap();
    assert!(junit.contains("failures=\"1\"") && junit.contains("max_seconds_per_iteration"), "{junit}");
}
