//! What CI systems read besides the exit code: the files of `scenarios/ci.md`, and those that `bench` writes for GitLab.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::support::Bench;

fn page() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/ci.md")).unwrap()
}

/// The blocks of code of a kind.
fn blocks(page: &str, kind: &str) -> Vec<String> {
    let start = format!("\n```{kind}\n");
    let blocks = page.split(&start).skip(1).map(|rest| rest.split("\n```").next().unwrap().to_owned());
    blocks.collect()
}

/// The files that a reader copies are YAML, with what their CI systems look for, and use inputs that there are.
#[test]
fn the_workflows_of_the_page_are_whole_files() {
    let action = Path::new(env!("CARGO_MANIFEST_DIR")).join(".github/actions/bench/action.yml");
    let action: Value = serde_yaml::from_str(&std::fs::read_to_string(action).unwrap()).unwrap();
    let (mut workflows, mut pipelines) = (0, 0);
    for text in blocks(&page(), "yaml") {
        let file: Value = serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        if text.starts_with("# .gitlab-ci.yml") {
            pipelines += 1;
            let job = &file["performance"];
            assert!(job["script"].is_array() && job["after_script"].is_array(), "{text}");
            let reports = &job["artifacts"]["reports"];
            for (report, option) in [
                ("junit", "--junit"),
                ("load_performance", "--gitlab-performance"),
                ("metrics", "--metrics-file"),
            ] {
                let name = reports[report].as_str().unwrap();
                assert!(text.contains(&format!("{option} {name}")), "{report}: {text}");
            }
            continue;
        }
        workflows += 1;
        // YAML 1.1 reads `on` as a truth value.
        assert!(file.get("on").or_else(|| file.get("true")).is_some() && file["name"].is_string(), "{text}");
        assert_eq!(file["permissions"]["pull-requests"], "write", "{text}");
        let jobs = file["jobs"].as_object().unwrap().values();
        let steps = jobs.flat_map(|job| job["steps"].as_array().unwrap());
        let ours: Vec<&Value> =
            steps.filter(|step| step["uses"].as_str().is_some_and(|uses| uses.contains("/bench/"))).collect();
        assert_eq!(ours.len(), 1, "{text}");
        assert!(ours[0]["uses"].as_str().unwrap().contains("/.github/actions/bench@"), "{text}");
        for name in ours[0]["with"].as_object().unwrap().keys() {
            assert!(action["inputs"].get(name).is_some(), "{name} is no input of the action");
        }
    }
    assert_eq!((workflows, pipelines), (2, 1));
    let named: BTreeSet<&String> = action["inputs"].as_object().unwrap().keys().collect();
    let page = page();
    let missing: Vec<_> = named.iter().filter(|name| !page.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "the page lacks inputs: {missing:?}");
    for output in action["outputs"].as_object().unwrap().keys() {
        assert!(page.contains(&format!("`{output}`")), "the page lacks the output {output}");
    }
}

/// Every option that the page shows is one of its command.
#[test]
fn the_commands_of_the_page_have_their_options() {
    let (bench, page) = (Bench::new(), page());
    let mut seen = 0;
    for kind in ["yaml", "console", "groovy"] {
        let joined = blocks(&page, kind).join("\n").replace("\n      --", " --");
        for (at, _) in joined.match_indices("bench ") {
            let line = joined[at..].lines().next().unwrap().trim_end_matches(['\'', '"']);
            let line = line.split(" # ").next().unwrap().split(';').next().unwrap();
            let mut words = line.split_whitespace().skip(1);
            let Some(command) = words.next().filter(|word| ["run", "ab", "comment"].contains(word)) else {
                continue;
            };
            let help = bench.run(&[command, "--help"]).expect_code(0).stdout;
            for option in words.filter(|word| word.starts_with("--")) {
                seen += 1;
                let name = option.split('=').next().unwrap();
                assert!(
                    help.contains(&format!("{name} "))
                        || help.contains(&format!("{name}["))
                        || help.contains(&format!("{name}\n")),
                    "{command} has no {name}: {line}"
                );
            }
        }
    }
    assert!(seen > 10, "{seen}");
}

/// GitLab's widgets read these keys (`http_reqs.rate`, `http_req_waiting`, `checks`) and lines of a name and a number.
#[test]
fn gitlab_gets_the_figures_of_a_run() {
    let bench = Bench::new();
    bench.write("demo.yaml", "demo: {}\n");
    bench.write(
        "scenario.yaml",
        "title: t\ndeployment: demo.yaml\nrunner: { constant: { times: 50, concurrency: 2 } }\niteration:\n\
         \x20 - group: all\n\x20   steps:\n\x20     - { action: \"look #1\", get: /, expect: { status: 200 } }\n\
         \x20     - { action: again, get: /nothing, expect: { status: 404 } }\n",
    );
    let files = ["--gitlab-performance", "load.json", "--metrics-file", "metrics.txt"];
    bench.run(&[&["run", "scenario.yaml", "--quiet"][..], &files].concat()).expect_code(0);
    let read = |name: &str| std::fs::read_to_string(bench.path().join(name)).unwrap();
    let (load, text) = (read("load.json"), read("metrics.txt"));
    let metrics: Value = serde_json::from_str(&load).unwrap();
    let metrics = &metrics["metrics"];
    assert_eq!(metrics["http_reqs"]["count"], 100, "{load}");
    assert_eq!(
        (&metrics["checks"]["passes"], &metrics["checks"]["fails"]),
        (&100.into(), &0.into()),
        "{load}"
    );
    let seconds = bench.results()["run"]["duration_s"].as_f64().unwrap();
    let rate = metrics["http_reqs"]["rate"].as_f64().unwrap();
    assert!((rate * seconds / 100.0 - 1.0).abs() < 0.05, "{rate} in {seconds} s");
    // The group, which sends nothing, would have waited for nothing.
    let waiting = |name: &str| metrics["http_req_waiting"][name].as_f64().unwrap();
    let duration = |name: &str| metrics["http_req_duration"][name].as_f64().unwrap();
    assert!(waiting("med") > 0.0 && waiting("p(90)") <= waiting("p(95)"), "{load}");
    assert!(waiting("p(95)") <= duration("p(95)"), "{load}");
    assert!(text.contains("bench_iterations_total{workload=\"t\",outcome=\"ok\"} 50\n"), "{text}");
    assert!(text.contains("action=\"look _1\",quantile=\"0.95\"} 0."), "{text}");
    assert!(text.ends_with("# EOF\n"), "{text}");
    // The same of the stored run.
    let run = bench.run_directory();
    bench.run(&[&["check", run.to_str().unwrap()][..], &files].concat()).expect_code(0);
    assert_eq!((read("load.json"), read("metrics.txt")), (load, text));
}
