//! The rules of `src/lib.rs` and of the module docs about what must not happen, as words that no file of a module may
//! contain. Unit tests within the files are not checked.

use crate::tidy::{code, is_test, source_files};

/// A room (or a file), and what it must not name.
const NEVER: [(&str, &[&str]); 23] = [
    // Knows of load tests.
    ("base/", &["workload", "Workload", "iteration", "Iteration", "ControlShare"]),
    ("text/", &["workload", "Workload", "iteration", "Iteration", "ControlShare"]),
    // Knows of scenarios.
    ("client/", &["workload", "Workload", "Scenario", "Keystone", "OpenStack", "X-Auth-Token"]),
    // Resolves: what a file names is read by `plan`.
    ("config/", &["std::fs", "std::net", "std::env", "open_regular", "Engine"]),
    // Does I/O beyond the files that the YAML names.
    ("plan/", &["tokio", "TcpStream", "File::create", "fs::write", "std::process", "reqwest"]),
    // Reads or writes files, sends anything or looks at the environment.
    (
        "import/",
        &["std::fs", "std::net", "std::env", "tokio", "std::process", "reqwest", "print!", "println!"],
    ),
    // Locks or sends per sample.
    ("measure/", &["Mutex", "RwLock", "tokio"]),
    // Decides when to start.
    ("iteration/", &["terms::shape", "interval("]),
    // Knows what an iteration does.
    ("runner/", &["plan::action", "client::Request", "hyper", "http::", "reqwest", "HeaderMap"]),
    // Prints.
    ("results/", &["print!", "println!", "stdout", "stderr"]),
    // Runs during the load.
    ("collect/", &["Observer"]),
    // Asks for traces, knows what an iteration does, or prints.
    ("receive/", &["Collector", "print!", "println!", "stdout", "stderr"]),
    // Does I/O.
    ("analysis/", &["std::fs", "std::net", "std::io", "tokio", "File::"]),
    // Makes load, or does I/O.
    ("capacity/", &["std::fs", "std::net", "std::io", "std::time", "tokio", "File::", "print!"]),
    // Prints or exits, or reads anything.
    ("verdict/", &["std::fs", "std::io", "std::process", "tokio", "print!", "println!", "Exit"]),
    // Reads a clock, a terminal or a file, or judges a run that is over.
    ("live/", &["std::fs", "std::io", "Instant", "SystemTime", "crossterm", "Aggregate", "RunLog"]),
    // Computes statistics.
    ("report/", &["measure::latency::Latency", "percentile_ns", "value_at_quantile"]),
    // Writes anywhere but where its caller says.
    ("report/", &["std::fs", "std::env", "stdout", "stderr", "print!", "println!"]),
    // Prints, exits, or knows of arguments.
    ("harness/", &["print!", "println!", "io::stdout", "io::stderr", "process::exit", "clap", "Exit::"]),
    // Contains logic: it reads no run and computes nothing of one.
    ("cli/", &["RunLog", "Aggregate", ".workloads", ".iterations", "percentile", "from_json", "TcpStream"]),
    // Reads files, starts programs, sends anything or looks at the environment.
    (
        "rally/",
        &["std::fs", "std::net", "std::env", "tokio", "std::process", "reqwest", "print!", "println!"],
    ),
    // Aggregates.
    ("results/export/", &["Latency", "Histogram", "Aggregate"]),
    // Judges.
    ("results/counting.rs", &["Outcome", "Verdict"]),
];

/// Words that only these files may have: one place knows how.
const ONLY_IN: [(&str, &[&str]); 5] = [
    // The format of the run log.
    ("LogReader", &["measure/log/"]),
    ("BENCHLOG", &["measure/log/"]),
    // Each pass over a log: two for a report, and one more where a cause is named.
    (
        ".visit(&mut [",
        &[
            "results/aggregate.rs",
            "results/due_times.rs",
            "results/json.rs",
            "results/phase_times.rs",
            "results/stored.rs",
            "results/export/mod.rs",
            "results/find.rs",
            "rally/json.rs",
        ],
    ),
    // An iteration's ids.
    ("IdSpace", &["measure/ids.rs", "base/ids.rs", "osprofiler/"]),
    (".base_id(", &["osprofiler/", "iteration/pass.rs", "iteration/call/http.rs", "iteration/user.rs"]),
];

#[test]
fn no_room_does_what_the_map_says_it_must_not() {
    let mut faults = Vec::new();
    for (room, words) in NEVER {
        let mut files = 0;
        for (name, text) in source_files() {
            if !name.starts_with(room) || is_test(&name) {
                continue;
            }
            files += 1;
            let code = code(&text);
            let named = words.iter().filter(|word| code.contains(*word));
            faults.extend(named.map(|word| format!("src/{name} has `{word}`")));
        }
        assert!(files > 0, "there is no {room}");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn what_one_place_knows_is_named_there_only() {
    let mut faults = Vec::new();
    for (word, places) in ONLY_IN {
        let mut named = 0;
        for (name, text) in source_files() {
            if is_test(&name) || !code(&text).contains(word) {
                continue;
            }
            named += 1;
            if !places.iter().any(|place| name.starts_with(place)) {
                faults.push(format!("src/{name} has `{word}`"));
            }
        }
        assert!(named > 0, "nothing has `{word}` any more");
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
