//! `bench run URL`: a load without any file, and the options that replace a scenario's load.

use crate::rewind;
use crate::server::ScriptedServer;
use crate::support::Bench;

fn server() -> ScriptedServer {
    ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/json", "{}"))
}

/// The command with `URL` replaced.
fn arguments(words: &str, url: &str) -> Vec<String> {
    words.split(' ').map(|word| word.replace("URL", url).replace('_', " ")).collect()
}

fn run(bench: &Bench, words: &str, url: &str) -> crate::support::CommandOutput {
    let words = arguments(words, url);
    bench.run(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn a_url_is_loaded_with_the_options_of_other_load_tools() {
    for (words, times, runner, request) in [
        ("run URL/orders", 200, "constant", "GET /orders"),
        ("run URL", 200, "constant", "GET /"),
        ("run URL?a=b#part -n 3", 3, "constant", "GET /?a=b"),
        ("run -n 7 -c 2 URL/x", 7, "constant", "GET /x"),
        ("run URL/x -n 20 -q 2000", 20, "rps", "GET /x"),
        ("run URL/x -n 20 --rate 2000 -c 3", 20, "rps", "GET /x"),
        ("run URL/x -n 2 -m delete", 2, "constant", "DELETE /x"),
        ("run URL/x -n 2 --data hello", 2, "constant", "POST /x hello"),
        ("run URL/x -n 2 -m PUT -T text/plain --data hello", 2, "constant", "PUT /x hello text/plain"),
        ("run URL/x -n 2 -H X-Tenant:_blue --quiet", 2, "constant", "GET /x blue"),
        ("run URL/{{iteration}} -n 1", 1, "constant", "GET /0"),
        ("URL/x -n 3", 3, "constant", "GET /x"),
        ("run URL/x --iterations 4 --vus 2 -t 5s", 4, "constant", "GET /x"),
        ("run URL/x --requests 20 --rps 2000 --connections 3", 20, "rps", "GET /x"),
    ] {
        let (server, bench) = (server(), Bench::new());
        run(&bench, words, &server.url()).expect_code(0);
        let results = bench.results();
        let workload = &results["workloads"][0];
        assert_eq!(workload["iterations"]["total"], times, "{words}");
        assert!(workload["runner"].get(runner).is_some(), "{words}: {}", workload["runner"]);
        let seen = server.seen();
        // One connection is made before the load to see whether the service is there; it asks nothing.
        assert_eq!(seen.len(), times, "{words}");
        let header = |name: &str| seen[0].headers.get(name).cloned();
        let mut parts = vec![seen[0].method.clone(), seen[0].path.clone()];
        parts.extend(Some(String::from_utf8(seen[0].body.clone()).unwrap()).filter(|body| !body.is_empty()));
        parts.extend(header("content-type").into_iter().chain(header("x-tenant")));
        assert_eq!(parts.join(" "), request, "{words}");
    }
}

#[test]
fn a_time_bounds_a_load_on_a_url() {
    let (server, bench) = (server(), Bench::new());
    run(&bench, "run URL/x -z 300ms -c 2", &server.url()).expect_code(0);
    let runner = bench.results()["workloads"][0]["runner"]["constant_for_duration"].clone();
    assert_eq!(runner["concurrency"], 2, "{runner}");
    assert!(!server.seen().is_empty());
}

/// A load that is made again saves its files again.
fn saved_anew(bench: &Bench) {
    for name in ["mine.yaml", "deployment.yaml"] {
        rewind::file(bench.path().join(name));
    }
}

#[test]
fn what_was_run_is_saved_as_files_that_run() {
    let (server, bench) = (server(), Bench::new());
    let words =
        "run URL/x?y=1 -n 4 -c 2 -H X-Tenant:_blue --data {\"a\":1} -T application/json --save mine.yaml";
    saved_anew(&bench);
    run(&bench, words, &server.url()).expect_code(0);
    bench.run(&["validate", "mine.yaml"]).expect_code(0);
    let first = server.seen();
    bench.run(&["run", "mine.yaml"]).expect_code(0);
    let second = server.seen().split_off(first.len());
    assert_eq!((first.len(), second.len()), (4, 4));
    for (one, other) in first.iter().zip(&second) {
        let parts = |seen: &crate::server::ScriptedRequest| {
            (seen.method.clone(), seen.path.clone(), seen.body.clone(), seen.headers["x-tenant"].clone())
        };
        assert_eq!(parts(one), parts(other));
    }
    // Nothing is overwritten.
    let again = run(&bench, words, &server.url()).expect_code(64);
    assert!(again.stderr.contains("mine.yaml exists already"), "{}", again.stderr);
}

/// Names of actions stand in every result, badge and summary.
#[test]
fn options_of_a_url_are_in_no_name_and_no_file() {
    let (server, bench) = (server(), Bench::new());
    let url = format!("{}/x?access_token=s3cr3t-4711&page=2", server.url());
    let ended = bench.run(&["run", &url, "-n", "2"]).expect_code(0);
    assert_eq!(server.seen()[0].path, "/x?access_token=s3cr3t-4711&page=2");
    assert_eq!(bench.results()["workloads"][0]["actions"][0]["name"], "GET /x");
    assert!(!(ended.stdout + &ended.stderr).contains("s3cr3t-4711"));
    for entry in std::fs::read_dir(bench.run_directory()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = if path.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        assert!(!String::from_utf8_lossy(&bytes).contains("s3cr3t-4711"), "{}", path.display());
    }
}

#[test]
fn secrets_of_a_request_are_not_saved() {
    let (server, bench) = (server(), Bench::new());
    let url = format!("{}/x?access_token=s3cr3t-1&page=2", server.url());
    let body = r#"{"user": "ann", "password": "s3cr3t-2"}"#;
    let (bearer, token) = ("Authorization: Bearer s3cr3t-3", "X-Auth-Token: s3cr3t-4");
    let words = ["run", &url, "-n", "1", "-H", bearer, "-H", token, "--data", body, "--save", "mine.yaml"];
    saved_anew(&bench);
    bench.run(&words).expect_code(0);
    let saved = std::fs::read_to_string(bench.path().join("mine.yaml")).unwrap();
    assert!(!saved.contains("s3cr3t"), "{saved}");
    let variables = [
        ("ACCESS_TOKEN", "s3cr3t-1"),
        ("PASSWORD", "s3cr3t-2"),
        ("API_TOKEN", "s3cr3t-3"),
        ("X_AUTH_TOKEN", "s3cr3t-4"),
    ];
    for (name, _) in variables {
        assert!(saved.contains(&format!("env: {name}")), "{name}: {saved}");
    }
    // With them, it sends the same.
    Bench::end(bench.command(&["run", "mine.yaml", "-n", "1"]).envs(variables)).expect_code(0);
    let seen = server.seen();
    let parts = |seen: &crate::server::ScriptedRequest| {
        let headers = ["authorization", "x-auth-token"].map(|name| seen.headers[name].clone());
        (seen.path.clone(), seen.body.clone(), headers)
    };
    assert_eq!((seen.len(), parts(&seen[0])), (2, parts(&seen[1])));
}

/// `-d` gives credentials, key and everything else; the URL is its default target.
#[test]
fn a_deployment_goes_with_a_url() {
    let (server, bench) = (server(), Bench::new());
    bench.write(
        "d.yaml",
        "targets: { default: 'http://127.0.0.1:1' }\nauth: { bearer: { token: t0ken-t0ken } }\n\
         profiler: { hmac_key: s3cret-key }\n",
    );
    run(&bench, "run URL/x -n 2 -d d.yaml", &server.url()).expect_code(0);
    for seen in server.seen() {
        assert_eq!(seen.headers["authorization"], "Bearer t0ken-t0ken");
        assert!(seen.headers.contains_key("x-trace-hmac"));
    }
}

#[test]
fn the_load_of_a_scenario_can_be_replaced() {
    for (runner, words, expected, times) in [
        ("{ serial: { times: 9 } }", "-n 4", "serial", Some(4)),
        ("{ constant: { times: 9, concurrency: 2 } }", "-c 3", "constant", Some(9)),
        ("{ constant: { times: 9 } }", "--duration 200ms", "constant_for_duration", None),
        ("{ constant: { times: 9 } }", "--rate 1000", "rps", Some(9)),
        ("{ ramping: { stages: [ { duration: 60s, rps: 5 } ] } }", "-n 5 --rate 500", "rps", Some(5)),
    ] {
        let (server, bench) = (server(), Bench::new());
        bench.load(&server.url(), "", &format!("runner: {runner}\niteration: [ {{ get: / }} ]"));
        run(&bench, &format!("run scenario.yaml {words}"), "").expect_code(0);
        let workload = &bench.results()["workloads"][0];
        assert!(workload["runner"].get(expected).is_some(), "{runner} {words}: {}", workload["runner"]);
        if let Some(times) = times {
            assert_eq!(workload["iterations"]["total"], times, "{runner} {words}");
        }
    }
}

#[test]
fn options_that_cannot_be_are_refused_with_what_to_write() {
    let bench = Bench::new();
    bench.load("http://127.0.0.1:1", "", "runner: { serial: { times: 1 } }\niteration: [ { get: / } ]");
    for (words, part) in [
        ("run", "nothing to run; name a scenario"),
        ("run http://", "it has no host"),
        ("run http://u:hunter2@h/", "give a deployment with `auth`"),
        ("run http://h/ -m CONNECT", "`CONNECT` is not a method"),
        ("run http://h/ -q", "write -q 100, or --quiet"),
        ("run http://h/ -q fast", "`fast` is not a rate"),
        ("run http://h/ -n 5 -z 3s", "give --times or --duration, or add --rate"),
        ("run http://h/ -H novalue", "write it as 'Name: value'"),
        ("run http://h/ --data @nothing.json", "cannot read nothing.json"),
        ("run http://h/ -z 0s", "a time above zero"),
        ("run http://h/ --rate 0", "a number of iterations per second"),
        ("run scenario.yaml -H a:b", "--header is for a URL"),
        ("run scenario.yaml -q 5", "with a scenario, -q takes no value"),
        ("run scenario.yaml -n 0", "is not in 1.."),
    ] {
        let ended = run(&bench, words, "").expect_code(64);
        assert!(ended.stderr.contains(part), "{words}: no {part} in {}", ended.stderr);
        assert!(!ended.stderr.contains("hunter2"), "{}", ended.stderr);
        assert!(!bench.path().join("runs").exists(), "{words}: nothing ran");
    }
    // What `-q` means in front of a scenario stays.
    let ended = run(&bench, "run -q scenario.yaml", "");
    assert!(ended.stderr.contains("127.0.0.1:1"), "{}", ended.stderr);
}

#[test]
fn the_report_names_the_command_that_was_typed() {
    for (words, expected) in [
        ("run URL/x -n 3 -c 2", "URL/x -c 2 -n 3"),
        ("run URL/x?a=1 -n 2 -m DELETE", "'URL/x?a=1' -m DELETE -c 50 -n 2"),
        ("run URL/x -n 4 --rate 500", "URL/x -c 50 -n 4 --rate 500"),
        (
            "run URL/x -n 2 -H Accept:_text/plain --data hello",
            "URL/x -H 'Accept: text/plain' --data hello -c 50 -n 2",
        ),
        ("run URL/x -n 2 -H X-Auth-Token:_hunter2hunter2", "URL/x -H 'X-Auth-Token: ***' -c 50 -n 2"),
    ] {
        let (server, bench) = (server(), Bench::new());
        run(&bench, words, &server.url()).expect_code(0);
        let report = std::fs::read_to_string(bench.run_directory().join("report.html")).unwrap();
        let report =
            report.replace("&#x2f;", "/").replace("&#x27;", "'").replace("&#39;", "'").replace("&#x3d;", "=");
        let expected = format!("bench run {}", expected.replace("URL", &server.url()));
        let seen: Vec<&str> = report.lines().filter(|line| line.contains("bench run")).collect();
        assert!(report.contains(&expected), "{expected}: {seen:#?}");
        assert!(!report.contains("hunter2") && !report.contains("of the URL' -d"), "{words}");
    }
}

/// The command that a report offers makes the same load.
#[test]
fn the_command_of_a_report_runs_it_again() {
    let scenario = "title: t\nvariables: { name: a }\nrunner: { constant: { times: 9, concurrency: 2 } }\n\
        iteration: [ { get: \"/{{ name }}/{{ random_int(1, 9) }}\" } ]\ndeployment: d.yaml\n";
    let task = "{% set n = n or 3 %}\nHttpRequests.check_request:\n  - args: { url: \"URL/x\", method: GET, status_code: 200 }\n    \
        runner: { type: serial, times: {{ n }} }\n";
    for words in [
        "run s.yaml",
        "run s.yaml -c 3",
        "run s.yaml -n 4 -c 1 --workers 1 --no-probe",
        "run s.yaml -z 0.2s --no-profile",
        "run s.yaml -n 5 --rate 500.5 --set name=it's --seed 7",
        "run -n 6 -q s.yaml",
        "run task.yaml --task-args {\"n\":_2}",
        "run task.yaml --task-args-file args.yaml -c 2",
        "run URL/x -n 3 -c 2 --no-profile --workers 1",
        "run URL/x -n 3 --rate 500",
        "run s.yaml -z 300ms --warm-up 50ms --threshold rate(errors)_<_99% --threshold p95_<_9s",
        "run URL/x -z 300ms -t 2s --warm-up 50ms --threshold rate(errors)_<_99%",
    ] {
        let (server, bench) = (server(), Bench::new());
        bench.write("d.yaml", format!("targets: {{ default: \"{}\" }}\n", server.url()));
        bench.write("s.yaml", scenario);
        bench.write("task.yaml", task.replace("URL", &server.url()));
        bench.write("args.yaml", "n: 4\n");
        run(&bench, words, &server.url()).expect_code(0);
        let (first, directory) = (bench.results(), bench.run_directory());
        let report = std::fs::read_to_string(directory.join("report.html")).unwrap();
        let (_, rest) = report.split_once("<pre id=\"command\">").unwrap();
        let (command, _) = rest.split_once("</pre>").unwrap();
        let command = [
            ("&#x2f;", "/"),
            ("&#x27;", "'"),
            ("&#39;", "'"),
            ("&quot;", "\""),
            ("&#x3d;", "="),
            ("&lt;", "<"),
        ]
        .iter()
        .fold(command.to_owned(), |text, (from, to)| text.replace(from, to));
        std::fs::remove_dir_all(&directory).unwrap();
        // A shell reads it.
        let words_of = std::process::Command::new("sh")
            .args(["-c", &format!("bench() {{ printf '%s\\n' \"$@\"; }}; {command}")])
            .output()
            .unwrap();
        let words_of = String::from_utf8(words_of.stdout).unwrap();
        bench.run(&words_of.lines().collect::<Vec<_>>()).expect_code(0);
        let second = bench.results();
        for place in [
            "/workloads/0/runner",
            "/scenario",
            "/environment/workers",
            "/profiling/enabled",
            "/probe/status",
        ] {
            assert_eq!(first.pointer(place), second.pointer(place), "{words}: {command}: {place}");
        }
        let seed = |results: &serde_json::Value| results["run"]["seed"].clone();
        assert!(!words.contains("--seed") || seed(&first) == 7 && seed(&second) == 7, "{words}: {command}");
    }
}

#[test]
fn a_scenario_of_whole_urls_needs_no_deployment() {
    let (server, bench) = (server(), Bench::new());
    let scenario = |url: &str| {
        format!("title: t\nrunner: {{ serial: {{ times: 2 }} }}\niteration: [{{ get: \"{url}/x\" }}]\n")
    };
    bench.write("s.yaml", scenario(&server.url()));
    bench.run(&["validate", "s.yaml"]).expect_code(0);
    bench.run(&["run", "s.yaml"]).expect_code(0);
    assert_eq!(server.seen().len(), 2);
    bench.write("path.yaml", scenario(""));
    let ended = bench.run(&["run", "path.yaml"]).expect_code(65);
    assert!(ended.stderr.contains("no deployment is named"), "{}", ended.stderr);
}

#[test]
fn what_bench_does_not_speak_is_said() {
    let bench = Bench::new();
    for url in ["h3://h/x", "ftp://h/x", "redis://h"] {
        let ended = bench.run(&["run", url]).expect_code(65);
        let scheme = url.split(':').next().unwrap();
        assert!(
            ended.stderr.contains(&format!(
                "does not speak {scheme}; a URL begins with http://, https://, grpc:// or ws://"
            )),
            "{}",
            ended.stderr
        );
    }
    for (url, message) in
        [("grpc://h:1", "this URL names no method"), ("grpc://h:1/Get", "`Get` is not a method of a service")]
    {
        let ended = bench.run(&["run", url]).expect_code(64);
        assert!(ended.stderr.contains(message), "{}", ended.stderr);
    }
}

#[test]
fn a_quiet_run_says_that_all_failed() {
    let server = ScriptedServer::start(|_, wire| wire.answer("500 Oh", "application/json", "{}"));
    let bench = Bench::new();
    let ended = run(&bench, "run URL/x -n 3 --quiet", &server.url()).expect_code(0);
    assert!(ended.stdout.contains("ALL 3 ITERATIONS FAILED"), "{}", ended.stdout);
}

#[test]
fn a_load_without_an_answer_says_what_it_waits_for() {
    let server = ScriptedServer::start(|_, wire| {
        std::thread::sleep(std::time::Duration::from_secs(6));
        wire.answer("200 OK", "application/json", "{}")
    });
    let ended = run(&Bench::new(), "run URL/x -n 1 -c 1", &server.url()).expect_code(0);
    let expected = "no iteration has ended yet: waiting for 1 iteration since ";
    assert!(ended.stderr.contains(expected) && ended.stderr.contains("; each may take "), "{}", ended.stderr);
}

/// What is wrong with a file has one code, whichever command finds it.
#[test]
fn a_fault_of_a_file_has_the_same_code_in_run_and_validate() {
    let bench = Bench::new();
    bench.write("d.yaml", "targets: { default: http://127.0.0.1:1 }\n");
    let good = "title: t\ndeployment: d.yaml\nrunner: { serial: { times: 1 } }\niteration: [{ get: /x }]\n";
    for (name, text) in [
        ("yaml.yaml", "title: [".to_owned()),
        ("key.yaml", format!("{good}runnr: 1\n")),
        ("variable.yaml", format!("{good}variables: {{ a: {{ env: BENCH_TEST_UNSET }} }}\n")),
        ("deployment.yaml", good.replace("d.yaml", "none.yaml")),
        ("sla.yaml", format!("{good}sla: {{ thresholds: [p95 < 1] }}\n")),
        ("include.yaml", good.replace("[{ get: /x }]", "[{ include: none.yaml }]")),
        ("data.yaml", format!("{good}data: {{ users: {{ file: none.csv }} }}\n")),
        ("task.yaml", "Dummy.dummy: [{ args: { sleep: x } }]\n".to_owned()),
        ("folder/none.yaml", String::new()),
    ] {
        if !text.is_empty() {
            bench.write(name, text);
        }
        let codes = ["validate", "run"].map(|command| bench.run(&[command, name]).code);
        assert_eq!(codes[0], codes[1], "{name}");
        assert_ne!(codes[0], Some(0), "{name}");
    }
}

#[test]
fn a_threshold_of_the_command_line_is_a_gate() {
    let own = "title: t\nrunner: { serial: { times: 5 } }\niteration: [{ get: /x }]\ndeployment: d.yaml\n\
        sla: { thresholds: [rate(dropped) == 0] }\n";
    for (words, code, criteria) in [
        ("run URL/x -n 60 --threshold rate(errors)_<_50%", 0, vec!["rate(errors) < 50%"]),
        ("run URL/x -n 60 --threshold max_<_1us", 2, vec!["max < 1us"]),
        (
            "run s.yaml --threshold max_<_1us --threshold rate(errors)_<=_99%",
            2,
            vec!["rate(dropped) == 0%", "max < 1us", "rate(errors) <= 99%"],
        ),
        ("ab s.yaml --threshold max_<_1us", 64, vec![]),
    ] {
        let (server, bench) = (server(), Bench::new());
        bench.write("d.yaml", format!("targets: {{ default: \"{}\" }}\n", server.url()));
        bench.write("s.yaml", own);
        run(&bench, words, &server.url()).expect_code(code);
        if code == 64 {
            continue;
        }
        let results = bench.results();
        let judged = results["verdict"]["criteria"].as_array().unwrap().iter();
        let judged: Vec<&str> = judged.map(|one| one["condition"].as_str().unwrap()).collect();
        assert_eq!(judged, criteria, "{words}");
    }
}

#[test]
fn a_condition_that_cannot_be_read_is_refused_with_its_form() {
    let bench = Bench::new();
    for (words, part) in [
        ("run http://127.0.0.1:1/ --threshold p95", "write"),
        ("run http://127.0.0.1:1/ --threshold p95_<_blue", "blue"),
        ("run http://127.0.0.1:1/ --warm-up 0s", "above zero"),
        ("run s.yaml --timeout 2s", "--timeout is for a URL"),
    ] {
        let ended = run(&bench, words, "").expect_code(64);
        assert!(ended.stderr.contains(part), "{words}: {}", ended.stderr);
    }
}
