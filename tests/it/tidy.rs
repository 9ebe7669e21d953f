//! The rules of the code base as tests: module docs, file sizes, one owner per protocol. Which crate may use which is
//! `walls.rs`.

use std::path::{Path, PathBuf};

const LINES_MAX: usize = 600;

/// Crates and functions that only these files may name.
const OWNERS: [(&str, &[&str]); 18] = [
    ("rustls_native_certs::", &["base/certificates.rs"]),
    ("simple_dns::", &["client/dns.rs"]),
    ("reqwest::", &["client/plain.rs", "osprofiler/driver/http.rs", "osprofiler/reqwest.rs"]),
    ("httparse::", &["client/framing.rs"]),
    ("hyper::server", &["demo/server.rs", "harness/local_server.rs", "receive/server.rs"]),
    ("lapin::", &["osprofiler/driver/messaging.rs"]),
    ("bson::", &["osprofiler/driver/mongodb.rs"]),
    (
        "redis::",
        &[
            "osprofiler/driver/kinds.rs",
            "osprofiler/driver/redis/legacy.rs",
            "osprofiler/driver/redis/list.rs",
            "osprofiler/driver/redis/mod.rs",
            "osprofiler/driver/redis/url.rs",
        ],
    ),
    (
        "sqlx::",
        &[
            "osprofiler/driver/sql/engine.rs",
            "osprofiler/driver/sql/mysql.rs",
            "osprofiler/driver/sql/postgres.rs",
            "osprofiler/driver/sql/sqlite.rs",
            "osprofiler/sqlx.rs",
        ],
    ),
    ("saphyr_parser::", &["text/yaml.rs"]),
    ("annotate_snippets::", &["text/diagnostics.rs"]),
    // Durations must not come from the wall clock.
    (
        "SystemTime::now",
        &[
            "base/clock.rs",
            "text/template/generators.rs",
            "demo/identity.rs",
            "harness/live.rs",
            // Shards agree on a time.
            "harness/shards/start.rs",
            "runner/machine.rs",
        ],
    ),
    ("std::process::exit", &["cli/signals.rs"]),
    // Any other writer would wait for readers, and bypass the cleaning of text.
    ("io::stdout", &["cli/output/mod.rs", "cli/output/lane.rs"]),
    ("io::stderr", &["cli/output/mod.rs", "cli/output/lane.rs"]),
    ("indicatif::", &["cli/output/bars.rs"]),
    ("crossterm::", &["cli/screen/mod.rs", "cli/screen/terminal.rs"]),
    // Code that starts a program must also end it, except for the browser that shows a report.
    ("Command::new", &["text/programs.rs", "harness/ab/service.rs", "harness/runs/open.rs", "build.rs"]),
];

/// Words that only these files or modules may contain, because the map in `src/lib.rs` forbids them in the others.
const ONLY_IN: [(&str, &[&str]); 7] = [
    // Only the command line reads arguments and reports their faults.
    ("clap::", &["cli/"]),
    ("env::args", &["main.rs"]),
    ("tokio::signal", &["cli/"]),
    ("env::var", &["cli/", "harness/environment.rs", "harness/host.rs", "build.rs"]),
    // One place turns errors into messages, one into exit codes, and one turns events into warnings.
    ("\"error: ", &["cli/exit.rs", "plan/condition.rs"]),
    ("&format!(\"warning: ", &["cli/progress.rs"]),
    ("Exit::Failed", &["cli/exit.rs", "cli/output/mod.rs", "cli/trace/headers.rs"]),
];

pub(crate) fn source_files() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut pending = vec![root.clone()];
    let mut files = Vec::new();
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&root).unwrap().to_string_lossy().replace('\\', "/");
                files.push((name, std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(files.len() > 50, "found {} source files only", files.len());
    files
}

/// The text before the file's tests, without comments.
pub(crate) fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

pub(crate) fn is_test(name: &str) -> bool {
    name.contains("/tests") || name.ends_with("sample.rs")
}

/// A service that uses trace points must not know of a load tester.
#[test]
fn osprofiler_knows_nothing_of_bench() {
    let words = ["bench::", "workload", "scenario", "load test", "load generator"];
    let mut faults = Vec::new();
    for (name, text) in source_files() {
        if name.starts_with("osprofiler/") {
            let code = code(&text);
            faults.extend(
                words.iter().filter(|word| code.contains(*word)).map(|word| format!("{name}: {word}")),
            );
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_file_says_what_it_is_for_and_is_small() {
    for (name, text) in source_files() {
        assert!(text.starts_with("//!"), "src/{name} has no module docs");
        let lines = code(&text).lines().count();
        assert!(
            is_test(&name) || lines <= LINES_MAX,
            "src/{name} has {lines} lines; does it still have a single purpose?"
        );
    }
}

#[test]
fn each_protocol_has_one_owner() {
    for (what, owners) in OWNERS {
        for (name, text) in source_files() {
            let names_it = code(&text).contains(what);
            assert!(
                !names_it || is_test(&name) || owners.contains(&name.as_str()),
                "src/{name} names {what}"
            );
        }
    }
}

#[test]
fn words_that_belong_to_a_few_files_are_in_these_only() {
    let files = source_files();
    for (word, places) in ONLY_IN {
        let mut found = Vec::new();
        for (name, _) in files.iter().filter(|(name, text)| !is_test(name) && code(text).contains(word)) {
            assert!(places.iter().any(|place| name.starts_with(place)), "src/{name} has {word}");
            found.push(name);
        }
        assert!(!found.is_empty(), "no file contains {word}: is the rule still needed?");
    }
}

/// Every `module::test` in the lists of faults and of security, as its file and the name of the test.
fn tests_named() -> Vec<(String, String)> {
    let list = |name| std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap();
    let text = list("tests/faults.md") + &list("tests/security.md");
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let quoted = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    let named = quoted.filter_map(|text| {
        let (file, test) = text.rsplit_once("::")?;
        let file = match file.strip_suffix(".rs") {
            Some(_) => format!("src/{file}"),
            None if file == "mutations" => "tests/fuzz/mutations.rs".to_owned(),
            None => format!("tests/it/{file}.rs"),
        };
        Some((file, test.to_owned()))
    });
    named.collect()
}

#[test]
fn every_test_in_the_lists_of_faults_and_security_is_there() {
    let named = tests_named();
    assert!(named.len() > 90, "{}", named.len());
    for (file, test) in named {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(&file);
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(
            text.contains(&format!("fn {test}(")),
            "tests/faults.md or tests/security.md names {file}::{test}, which does not exist"
        );
    }
}
