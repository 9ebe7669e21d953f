//! `bench trace list|show|rank|stats` through the binary: formats, sources, bad input; compared with Python's `pstats`
//! and Graphviz where they are installed.

use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Bench, CommandOutput};

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors");
const REAL_TRACES: [&str; 4] = ["get-v3", "post-project-409-dberror", "post-tokens", "placement-get-rps"];

fn vector(name: &str) -> String {
    format!("{VECTORS}/{name}")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(vector(name)).unwrap()
}

/// Records of one point: (name, id, parent, start, end if it has one), in microseconds.
fn point(name: &str, id: &str, parent: &str, start: u32, end: Option<u32>, info: &Value) -> Vec<Value> {
    let record = |suffix: &str, at: u32, info: &Value| {
        json!({
            "name": format!("{name}-{suffix}"), "base_id": "base", "trace_id": id, "parent_id": parent,
            "timestamp": format!("2026-11-20T22:52:{:02}.{:06}", at / 1_000_000, at % 1_000_000),
            "info": info, "project": "p", "service": "s",
        })
    };
    let mut records = vec![record("start", start, info)];
    records.extend(end.map(|end| record("stop", end, &json!({"host": "vm"}))));
    records
}

fn small(bench: &Bench) {
    let records = [
        point(
            "wsgi",
            "1",
            "base",
            0,
            Some(10_000),
            &json!({"request": {"method": "GET", "path": "/users/42"}}),
        ),
        point("db", "2", "1", 1_000, Some(4_000), &json!({"db": {"statement": "SELECT 1"}})),
        point("db", "3", "1", 5_000, Some(6_000), &json!({"db": {"statement": "SELECT 2"}})),
        point("rpc", "4", "1", 7_000, None, &json!({"host": "vm"})),
    ];
    bench.write("small.json", Value::Array(records.concat()).to_string());
}

#[test]
fn a_tree_in_text_shows_when_and_what() {
    let bench = Bench::new();
    small(&bench);
    let shown = bench.run(&["trace", "show", "small.json"]).expect_code(0).stdout;
    insta::assert_snapshot!(shown, @r"
    trace base: 4 points over 10.0 ms, 1 of them incomplete; p/s

    0                10.0 ms      took    itself  point
    ███░░░░░░░██░░░█████████   10.0 ms   6.00 ms  wsgi GET /users/42  [p/s]
      ████████                 3.00 ms   3.00 ms  ├ db SELECT 1
                ███            1.00 ms   1.00 ms  ├ db SELECT 2
                    ?                ?         ?  └ rpc  (no stop)
    ");
}

#[test]
fn tables_say_what_their_traces_lack() {
    let bench = Bench::new();
    let root = point("wsgi", "1", "base", 0, Some(10_000), &json!({}));
    let child = |parent: &str| point("db", "2", parent, 1_000, Some(2_000), &json!({}));
    for (parent, lacks) in [("1", false), ("9", true)] {
        bench.write("t.json", Value::Array([root.clone(), child(parent)].concat()).to_string());
        for command in ["stats", "rank"] {
            let said = bench.run(&["trace", command, "t.json"]).expect_code(0).stderr;
            assert_eq!(
                said.contains("the trace is not complete: the parent of 1 point is missing"),
                lacks,
                "{command}: {said}"
            );
        }
    }
}

#[test]
fn two_traces_stand_against_each_other() {
    let bench = Bench::new();
    let trace = |id: &str, pod: &str, calls: u32| {
        let root = json!({"request": {"method": "GET", "path": "/users/42"}, "resource": {"pod": pod}});
        let end = Some(1_000 * (calls + 2));
        let mut records = point("wsgi", "1", id, 0, end, &root);
        for call in 0..calls {
            let start = 1_000 * (call + 1);
            let statement = json!({"db": {"statement": format!("SELECT a FROM t WHERE id = {call}")}});
            records.extend(point("db", &format!("c{call}"), "1", start, Some(start + 1_000), &statement));
        }
        records.iter_mut().for_each(|record| record["base_id"] = id.into());
        Value::Array(records)
    };
    bench.write("few.json", trace("few", "api-1", 2).to_string());
    bench.write("many.json", trace("many", "api-7", 22).to_string());
    let shown = bench.run(&["trace", "diff", "few.json", "many.json"]).expect_code(0).stdout;
    insta::assert_snapshot!(shown, @r"
    A: trace `few`, 3 points over 4.00 ms
    B: trace `many`, 23 points over 24.0 ms

    Points: Points of one kind under the same path; own time is without that of points below
     point                                below                 calls A  calls B   time A   time B    own A    own B  difference
     p/s db SELECT a FROM t WHERE id = ?  wsgi GET /users/{id}        2       22  2.00 ms  22.0 ms  2.00 ms  22.0 ms    +20.0 ms
     p/s wsgi GET /users/{id}                                         1        1  4.00 ms  24.0 ms  2.00 ms  2.00 ms        0 ms

    Attributes that differ
     point                     attribute  only in A  only in B
     p/s wsgi GET /users/{id}  pod        api-1      api-7
    ");
    let found: Value = serde_json::from_str(
        &bench.run(&["trace", "diff", "few.json", "many.json", "--json"]).expect_code(0).stdout,
    )
    .unwrap();
    let first = &found["points"][0];
    assert_eq!((&first["a"]["calls"], &first["b"]["calls"]), (&2.into(), &22.into()), "{found}");
    assert_eq!(
        (&first["name"], &first["path"]),
        (&"db SELECT a FROM t WHERE id = ?".into(), &json!(["wsgi GET /users/{id}"]))
    );
    assert_eq!(first["self_difference_us"], 20_000);
    let pod = json!({"attribute": "pod", "a": ["api-1"], "b": ["api-7"]});
    assert_eq!(found["points"][1]["attributes"], json!([pod]));
    // The same trace differs nowhere, and the order is that of the arguments.
    let same = bench.run(&["trace", "diff", "few.json", "few.json"]).expect_code(0).stdout;
    assert!(same.contains("Both have the same points"), "{same}");
    let turned = bench.run(&["trace", "diff", "many.json", "few.json"]).expect_code(0).stdout;
    assert!(turned.contains("−20.0 ms"), "{turned}");
    for (arguments, code, said) in [
        (&["few.json"][..], 64, "two traces can be compared, and there are 1; name two: two ids, two files"),
        (&["few.json", "none.json"], 65, "there is no file none.json"),
        (&[], 64, "no trace is given"),
    ] {
        let ended = bench.run(&[&["trace", "diff"], arguments].concat()).expect_code(code);
        assert!(ended.stderr.contains(said), "{arguments:?}: {}", ended.stderr);
    }
}

#[test]
fn a_trace_with_records_that_cannot_be_read_is_not_called_complete() {
    let bench = Bench::new();
    let good = point("wsgi", "1", "base", 0, Some(10_000), &json!({}));
    let garbage = [good[0].clone(), json!({"name": "db-start"}), good[1].clone(), json!(7)];
    bench.write("bad.json", Value::from(garbage.to_vec()).to_string());
    let run = |records: &[Value], unreadable: u64| json!({"trace_id": "4ad01ef1-4ad5-4f1b-9d2b-2c2a1d5e5a10", "state": "partial", "records": records, "unreadable": unreadable});
    bench.write("stored.json", run(&good, 3).to_string());
    bench.write("whole.json", run(&good, 0).to_string());
    for (file, state, count, said) in [
        ("bad.json", "partial", 2, "not complete: 2 records cannot be read"),
        ("stored.json", "partial", 3, "not complete: 3 records cannot be read"),
        ("whole.json", "complete", 0, "10.0 ms, complete"),
    ] {
        let text = bench.run(&["trace", "show", file]).expect_code(0).stdout;
        assert!(text.contains(said), "{file}: {text}");
        bench.run(&["trace", "show", file, "--json", "-o", "own.json"]).expect_code(0);
        for shown in ["own.json", file] {
            let json = bench.run(&["trace", "show", shown, "--json"]).expect_code(0).stdout;
            let json: Value = serde_json::from_str(&json).unwrap();
            assert_eq!(
                (&json["state"], &json["unreadable"]),
                (&json!(state), &json!(count)),
                "{shown} of {file}"
            );
        }
        let page = bench.run(&["trace", "show", file, "--html"]).expect_code(0).stdout;
        assert_eq!(page.contains("of this trace cannot be read"), count > 0, "{file}");
    }
}

#[test]
fn osprofilers_own_json_is_given_to_the_byte() {
    let bench = Bench::new();
    for name in REAL_TRACES {
        let report: Value = serde_json::from_str(&read(&format!("traces/{name}.report.json"))).unwrap();
        for source in ["redis-raw", "report"] {
            let file = vector(&format!("traces/{name}.{source}.json"));
            let shown = bench.run(&["trace", "show", &file, "--json", "--compat"]).expect_code(0).stdout;
            // ASCII only, two blanks a level, as Python's json.dumps(indent=2) has it.
            assert_eq!(shown, format!("{report:#}\n"), "{name} {source}");
        }
    }
    small(&bench);
    let records =
        std::fs::read_to_string(bench.path().join("small.json")).unwrap().replace("SELECT 1", "é😀");
    bench.write("unicode.json", records);
    let shown = bench.run(&["trace", "show", "unicode.json", "--json", "--compat"]).expect_code(0).stdout;
    assert!(shown.contains(r"\u00e9\ud83d\ude00"), "{shown}");
}

#[test]
fn our_json_is_a_source_again_and_says_what_is_missing() {
    let bench = Bench::new();
    small(&bench);
    bench.run(&["trace", "show", "small.json", "--json", "-o", "own.json"]).expect_code(0);
    let own: Value = serde_json::from_slice(&std::fs::read(bench.path().join("own.json")).unwrap()).unwrap();
    assert_eq!(
        (&own["state"], &own["points"], &own["incomplete"]),
        (&json!("partial"), &json!(4), &json!(1))
    );
    assert_eq!(own["stats"]["db"], json!({"count": 2, "duration_us": 4_000}));
    let rpc = &own["children"][0]["children"][2]["info"];
    assert_eq!((&rpc["missing"], &rpc["duration_us"]), (&json!("stop"), &Value::Null));
    for form in ["--text", "--dot", "--json"] {
        let direct = bench.run(&["trace", "show", "small.json", form]).expect_code(0).stdout;
        assert_eq!(bench.run(&["trace", "show", "own.json", form]).expect_code(0).stdout, direct, "{form}");
    }
}

#[test]
fn the_ranking_equals_mistrals_to_the_byte() {
    let bench = Bench::new();
    for name in ["1-seed-doc", "3-log_to_file"] {
        let log = vector(&format!("mistral/{name}.log"));
        let ranked = bench.run(&["trace", "rank", &log]).expect_code(0).stdout;
        assert_eq!(ranked, read(&format!("mistral/{name}.report.txt")), "{name}");
        bench.run(&["trace", "rank", &log, "-o", "report.txt"]).expect_code(0);
        let written = |name: &str| std::fs::read_to_string(bench.path().join(name)).unwrap();
        assert_eq!(written("report.txt"), ranked);
        // As the guide calls the script: the second file is written if there is none.
        let guide = format!("{name}.txt");
        assert_eq!(bench.run(&["trace", "rank", &log, &guide]).expect_code(0).stdout, "");
        assert_eq!(written(&guide), ranked);
        let again = bench.run(&["trace", "rank", &log, &guide]).expect_code(0);
        assert!(again.stdout == ranked && again.stderr.contains("not part of a profile log"), "{again:?}");
        // The shortest time is a column of its own, and the others stay.
        let with_min = bench.run(&["trace", "rank", &log, "--min"]).expect_code(0).stdout;
        for (line, plain) in with_min.lines().zip(ranked.lines()).skip(2) {
            let (cells, plain): (Vec<&str>, Vec<&str>) =
                (line.split_whitespace().collect(), plain.split_whitespace().collect());
            let of = |cell: &str| cell.parse::<f64>().unwrap();
            assert!(of(cells[1]) <= of(cells[3]) && of(cells[3]) <= of(cells[2]), "{line}");
            assert_eq!([&cells[..1], &cells[2..]].concat(), plain);
        }
        assert_eq!(with_min.lines().count(), ranked.lines().count());
        assert!(
            with_min.starts_with("Total time | Min time | Max time | Avg time | Occurrences | Trace name\n")
        );
    }
    // What can be an id chooses among the log's traces, and what follows no log is no file to write.
    let log = vector("mistral/1-seed-doc.log");
    let chosen = bench.run(&["trace", "rank", &log, "f12e"]).expect_code(0);
    assert!(chosen.stdout.starts_with("Total time | Max time"), "{chosen:?}");
    assert_ne!(bench.run(&["trace", "rank", &log, "abcd"]).code, Some(0));
    assert_ne!(bench.run(&["trace", "rank", "no.log", "report.out"]).code, Some(0));
    assert!(["f12e", "abcd", "report.out"].iter().all(|name| !bench.path().join(name).exists()));
    let vectors: Value = serde_json::from_str(&read("mistral/degenerate.json")).unwrap();
    // Other than there, these are not lines of a log, and are reported.
    let garbage = ["syslog prefix", "duration nan", "duration inf", "name shorter than the 5 cut characters"];
    for run in vectors["runs"].as_array().unwrap() {
        let case = run["case"].as_str().unwrap();
        bench.write("a.log", run["input"].as_str().unwrap());
        let ranked = bench.run(&["trace", "rank", "a.log"]).expect_code(0);
        if run["rc"] == 0 && !garbage.contains(&case) {
            assert_eq!(ranked.stdout, run["report"].as_str().unwrap(), "{case}");
        } else {
            assert!(
                ranked.stderr.contains("1 line is not part of a profile log"),
                "{case}: {}",
                ranked.stderr
            );
        }
    }
}

#[test]
fn a_log_of_any_bytes_is_ranked_as_far_as_it_can_be_read() {
    let bench = Bench::new();
    let mut log = read("mistral/1-seed-doc.log").into_bytes();
    let good = bench.run(&["trace", "rank", &vector("mistral/1-seed-doc.log")]).stdout;
    log.extend(b"\xff\xfe not text\n\n2026 half a line\n");
    log.extend(vec![b'x'; 5 << 20]);
    bench.write("a.log", log);
    let ranked = bench.run(&["trace", "rank", "a.log"]).expect_code(0);
    assert_eq!(ranked.stdout, good);
    assert!(ranked.stderr.contains("4 lines are not part of a profile log"), "{}", ranked.stderr);
    assert!(ranked.stderr.contains("the first: line 14 is not UTF-8"), "{}", ranked.stderr);
    // The same log as traces.
    let listed = bench.run(&["trace", "list", "a.log"]).expect_code(0);
    assert!(
        listed.stdout.contains("f12e75d5-5d59-4cbc-b74d-357f19290dd7  2020-02-27 08:04:25       13"),
        "{}",
        listed.stdout
    );
    let stats = bench.run(&["trace", "stats", "a.log", "--by", "name", "--sort", "ncalls"]).expect_code(0);
    assert!(stats.stdout.contains("(workflow-set-state)"), "{}", stats.stdout);
}

/// Python reads the profiles. Its `pstats` needs a Python 3 only.
#[test]
fn python_reads_the_profiles() {
    const SCRIPT: &str = "import sys, json, pstats
s = pstats.Stats(sys.argv[1])
print(json.dumps([s.total_calls, s.prim_calls, round(s.total_tt, 6),
    sorted([list(k), list(v[:4]), sorted([list(c), list(n)] for c, n in v[4].items())] for k, v in s.stats.items())]))";
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: no python3");
        return;
    }
    let bench = Bench::new();
    small(&bench);
    let python = |file: &str| -> Value {
        let mut command = Command::new("python3");
        let ended = CommandOutput::from(
            command.args(["-c", SCRIPT, file]).current_dir(bench.path()).output().unwrap(),
        );
        serde_json::from_str(&ended.expect_code(0).stdout).unwrap()
    };
    bench.run(&["trace", "stats", "small.json", "--prof", "a.prof"]).expect_code(0);
    let wsgi = json!(["p/s", 0, "wsgi GET /users/{id}"]);
    let expected = json!([
        3,
        3,
        0.01,
        [
            [["p/s", 0, "db SELECT ?"], [2, 2, 0.004, 0.004], [[wsgi, [2, 2, 0.004, 0.004]]]],
            [wsgi, [1, 1, 0.006, 0.01], []],
        ]
    ]);
    assert_eq!(python("a.prof"), expected);

    let file = vector("traces/post-tokens.report.json");
    bench.run(&["trace", "stats", &file, "small.json", "--prof-dir", "profiles"]).expect_code(0);
    assert_eq!(python("profiles/base.prof"), expected);
    let report: Value = serde_json::from_str(&read("traces/post-tokens.report.json")).unwrap();
    let id = report["children"][0]["parent_id"].as_str().unwrap();
    let read = python(&format!("profiles/{id}.prof"));
    assert_eq!(read[0], 74);
}

#[test]
fn pipes_are_read_once_and_deep_reports_whole() {
    let bench = Bench::new();
    let log = vector("mistral/1-seed-doc.log");
    let direct = bench.run(&["trace", "rank", &log]).expect_code(0).stdout;
    let piped = Command::new("bash")
        .args(["-c", "exec \"$0\" trace rank <(cat \"$1\")", env!("CARGO_BIN_EXE_bench"), &log])
        .output()
        .unwrap();
    assert_eq!(CommandOutput::from(piped).expect_code(0).stdout, direct);

    let chain: Vec<Value> = (1..=200)
        .flat_map(|n: u32| point("a", &n.to_string(), &(n - 1).to_string(), n, Some(1_000 - n), &json!({})))
        .collect();
    bench.write("chain.json", Value::Array(chain).to_string());
    let text = bench.run(&["trace", "show", "chain.json"]).expect_code(0).stdout;
    bench.run(&["trace", "show", "chain.json", "--json", "--compat", "-o", "report.json"]).expect_code(0);
    assert_eq!(bench.run(&["trace", "show", "report.json"]).expect_code(0).stdout, text);
}

#[test]
fn long_names_are_functions_of_their_own() {
    let bench = Bench::new();
    let statement = |tail: char| json!({"db": {"statement": "x".repeat(150)}, "host": tail.to_string()});
    let records: Vec<Value> = ["a", "b", "c"]
        .iter()
        .flat_map(|tail| {
            point(&format!("{}{tail}", "n".repeat(1_200)), tail, "base", 0, Some(9), &statement('x'))
        })
        .collect();
    bench.write("long.json", Value::Array(records).to_string());
    bench.run(&["trace", "stats", "long.json", "--prof", "a.prof"]).expect_code(0);
    let profile = std::fs::read(bench.path().join("a.prof")).unwrap();
    let cuts = profile.windows("… ".len()).filter(|window| *window == "… ".as_bytes()).count();
    assert_eq!(cuts, 3);
}

#[test]
fn graphviz_draws_the_graph() {
    if Command::new("dot").arg("-V").output().is_err() {
        println!("skipped: no dot of Graphviz");
        return;
    }
    let bench = Bench::new();
    let hostile = json!({"db": {"statement": "SELECT \"x\\\" -> [label=evil]\n<b>&amp;\u{202e}"}});
    bench.write("hostile.json", Value::Array(point("a\"b\\", "1", "base", 0, Some(9), &hostile)).to_string());
    for file in [vector("traces/placement-get-rps.report.json"), "hostile.json".to_owned()] {
        bench.run(&["trace", "show", &file, "--dot", "-o", "a.dot"]).expect_code(0);
        let ended = Command::new("dot").args(["-Tsvg", "a.dot"]).current_dir(bench.path()).output().unwrap();
        let ended = CommandOutput::from(ended).expect_code(0);
        assert!(ended.stderr.is_empty() && ended.stdout.contains("<svg"), "{}", ended.stderr);
    }
}

#[test]
fn faults_say_what_to_do() {
    let bench = Bench::new();
    bench.write("empty.json", "{}");
    bench.write("broken.json", "{\"records\": [\n}");
    bench.write(
        "records.json",
        json!([{"name": "x"}, 3, point("a", "1", "b", 0, None, &json!({}))[0]]).to_string(),
    );
    bench.write("deployment.yaml", "targets: { default: http://127.0.0.1:9 }\n");
    std::fs::create_dir(bench.path().join("folder")).unwrap();
    small(&bench);
    for (arguments, code, part) in [
        (&["show", "nope"][..], 64, "error: no collector is given; give -d DEPLOYMENT"),
        (&["show", "nope.json"], 65, "error: there is no file nope.json"),
        (&["show", "folder"], 65, "folder is not a run's directory"),
        (&["show", "empty.json"], 65, "cannot find a trace in its JSON"),
        (&["show", "broken.json"], 65, "broken.json: cannot read its JSON: expected value at line 2"),
        (
            &["show", "small.json", "zzz"],
            65,
            "no trace begins with zzz, ask the collector for it with -d DEPLOYMENT; there are:\n  base",
        ),
        (
            &["show", "records.json"],
            0,
            "warning: records.json: 2 records could not be read; the first: record 0: missing field",
        ),
        (&["show", "small.json", "--compat"], 64, "--json"),
        (&["show", "x", "-d", "deployment.yaml"], 65, "deployment.yaml names no collector; add it under"),
        (
            &["show", "x", "--connection-string", "redis://:hunter2@127.0.0.1:1"],
            69,
            "failed to connect to the collector redis://127.0.0.1:1",
        ),
        (&["list", "--connection-string", "file:///no/such.log"], 65, "there is no file /no/such.log"),
        (&["list", "--connection-string", "sqlite:///no/such.db"], 65, "there is no file /no/such.db"),
        (&["show", "x", "--connection-string", "redis://:hunter2#@h"], 64, "redis://***"),
        (&["show", "x", "--connection-string", "foo:hunter2@h://x"], 64, "no scheme://"),
        (&["list", "--connection-string", "gopher://h"], 64, "use a collector with"),
        (&["stats"], 64, "no trace is given"),
        (&["rank"], 64, "no trace is given"),
        (&["rank", "small.json", "-o", "no/such/folder"], 1, "cannot write no/such/folder"),
    ] {
        let mut command = vec!["trace"];
        command.extend(arguments);
        let ended = bench.run(&command).expect_code(code);
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
        assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
    }
}

#[test]
fn huge_and_deep_traces_are_shown_within_bounds() {
    let bench = Bench::new();
    let deep: Vec<Value> = (0..10_000)
        .flat_map(|n: u32| {
            point("a", &n.to_string(), &n.saturating_sub(1).to_string(), n, Some(20_000 - n), &json!({}))
        })
        .collect();
    let wide: Vec<Value> = (1..=20_000)
        .flat_map(|n: u32| point("b", &n.to_string(), "base", 2 * n, Some(2 * n + 1), &json!({})))
        .collect();
    for (name, records, points) in [("deep.json", deep, 10_000), ("wide.json", wide, 20_000)] {
        bench.write(name, Value::Array(records).to_string());
        let text = bench.run(&["trace", "show", name, "--all"]).expect_code(0).stdout;
        assert!(text.contains(&format!("{points} points")) && text.lines().count() == points + 3, "{name}");
        let text = bench.run(&["trace", "show", name]).expect_code(0).stdout;
        assert!(text.contains(&format!("{points} points")) && text.lines().count() <= points + 3, "{name}");
        let json = bench.run(&["trace", "show", name, "--json"]).expect_code(0).stdout;
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["points"], points);
        bench.run(&["trace", "show", name, "--json", "--compat"]).expect_code(0);
        let html = bench.run(&["trace", "show", name, "--html"]).expect_code(0).stdout;
        assert!(html.len() < 3_000_000, "{}", html.len());
        bench.run(&["trace", "stats", name]).expect_code(0);
        bench.run(&["trace", "rank", name]).expect_code(0);
    }
}
