//! Whether `bench ab` can be trusted: `cargo bench --bench gates [-- --short]`.
//!
//! On the embedded demo, 200 comparisons of it with itself, of which at most 2 may FAIL, and 50 of it with one whose
//! work takes 25 % longer, of which at least 45 must. Every comparison is a whole `bench ab` with rounds of its own:
//! none shares a round with another, and nothing runs beside it. Rounds are short (230 iterations, 20 of them to warm
//! up), since p95 needs no more, and what is proved is the verdict and not the demo's speed.
//!
//! Before that, thresholds are held against times whose distribution is known exactly: well below and above a limit they
//! have to say so, and at the limit itself neither PASS nor FAIL may come more often than one time in twenty.
//!
//! `--short` runs two comparisons of each kind and fails on a wrong verdict only, with 100 instead of 2,000 runs of each
//! threshold. `--minutes N` ends it early and says how many ran; `--thresholds` compares nothing. `$BENCH_PROGRAM` may
//! name another build of `bench` to prove.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and may stop")]

mod thresholds;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use serde_json::Value;

const SCENARIO: &str = r#"
title: gates
deployment: a.yaml
variables: { user: user-7 }
runner: { constant: { times: 210, concurrency: 5 } }
warm_up: { times: 20 }
iteration:
  - action: log in
    post: /v3/auth/tokens
    json: { auth: { identity: { password: { user: { name: "{{ user }}", password: demo } } } } }
    expect: { status: 201 }
    extract: { token: { header: X-Subject-Token } }
  - action: look up
    get: /v3/users/{{ user }}
    headers: { X-Auth-Token: "{{ token }}" }
    expect: { status: 200 }
"#;

/// How often each verdict came.
#[derive(Default)]
struct Tally {
    fail: u32,
    pass: u32,
    inconclusive: u32,
    invalid: u32,
    pairs: u64,
    ratios: Vec<f64>,
}

impl Tally {
    fn total(&self) -> u32 {
        self.fail + self.pass + self.inconclusive + self.invalid
    }

    fn show(&mut self, what: &str) {
        self.ratios.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let index = (self.ratios.len() as f64 * share) as usize;
            self.ratios.get(index.min(self.ratios.len().saturating_sub(1))).copied().unwrap_or(f64::NAN)
        };
        println!(
            "{what}: {} comparisons: {} FAIL, {} PASS, {} INCONCLUSIVE, {} INVALID; {:.1} pairs on the mean; p50 B/A \
             {:.3} (from {:.3} to {:.3})",
            self.total(),
            self.fail,
            self.pass,
            self.inconclusive,
            self.invalid,
            self.pairs as f64 / f64::from(self.total().max(1)),
            at(0.5),
            at(0.0),
            at(1.0)
        );
    }
}

fn compare(folder: &Path, slower: bool, tally: &mut Tally) {
    let out = folder.join("out");
    let b = if slower { "b.yaml" } else { "a.yaml" };
    let program = std::env::var_os("BENCH_PROGRAM").unwrap_or_else(|| env!("CARGO_BIN_EXE_bench").into());
    let ended = Command::new(program)
        .current_dir(folder)
        .args(["ab", "scenario.yaml", "-d", "a.yaml", "-d", b, "--no-profile", "--quiet", "--out", "out"])
        .output()
        .unwrap();
    let entry = std::fs::read_dir(&out).ok().and_then(|mut entries| entries.next());
    let Some(directory) = entry.map(|entry| entry.unwrap().path()) else {
        panic!("no result: {}", String::from_utf8_lossy(&ended.stderr));
    };
    let result: Value = serde_json::from_slice(&std::fs::read(directory.join("ab.json")).unwrap()).unwrap();
    let count = match result["outcome"].as_str().unwrap() {
        "FAIL" => &mut tally.fail,
        "PASS" => &mut tally.pass,
        "INCONCLUSIVE" => &mut tally.inconclusive,
        _ => &mut tally.invalid,
    };
    *count += 1;
    tally.pairs += result["pairs"].as_array().unwrap().len() as u64;
    let gated = result["rows"].as_array().unwrap().iter().filter(|row| row["gated"] == true);
    let figures: Vec<String> = gated
        .map(|row| {
            if row["percentile"] == 50.0 {
                tally.ratios.extend(row["ratio"].as_f64());
            }
            let figure = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
            format!(
                "p{} {:.3} ({:.3} to {:.3}, sd {:.3})",
                row["percentile"],
                figure("ratio"),
                figure("low"),
                figure("high"),
                figure("sd")
            )
        })
        .collect();
    println!(
        "{} {:<12} {:>2} pairs  {}",
        if slower { "+25%" } else { "A/A " },
        result["outcome"].as_str().unwrap(),
        result["pairs"].as_array().unwrap().len(),
        figures.join(", ")
    );
    std::fs::remove_dir_all(out).unwrap();
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u32>().ok()
    };
    let short = arguments.iter().any(|argument| argument == "--short");
    let (equal_max, slower_max) = if short { (2, 2) } else { (200, 50) };
    let limit =
        number("--minutes").map_or(Duration::MAX, |minutes| Duration::from_secs(u64::from(minutes) * 60));
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.yaml"), "name: demo\ndemo: {}\n").unwrap();
    std::fs::write(folder.path().join("b.yaml"), "name: slower\ndemo: { slowdown: 25% }\n").unwrap();
    std::fs::write(folder.path().join("scenario.yaml"), SCENARIO).unwrap();
    let started = Instant::now();
    let as_stated = thresholds::prove(folder.path(), if short { 100 } else { 2000 });
    if arguments.iter().any(|argument| argument == "--thresholds") {
        return ended(as_stated);
    }
    let (mut equal, mut slower) = (Tally::default(), Tally::default());
    while equal.total() < equal_max || slower.total() < slower_max {
        if started.elapsed() >= limit {
            break;
        }
        // Both kinds go on together, so that what ends early has some of each.
        let next_slower =
            slower.total() * equal_max < equal.total() * slower_max || equal.total() >= equal_max;
        compare(folder.path(), next_slower, if next_slower { &mut slower } else { &mut equal });
    }
    equal.show("A/A ");
    slower.show("+25%");
    println!("{:.0} s", started.elapsed().as_secs_f64());
    let good = if short || equal.total() < equal_max || slower.total() < slower_max {
        equal.fail == 0 && slower.pass == 0
    } else {
        equal.fail <= 2 && slower.fail >= 45
    };
    ended(good && as_stated)
}

fn ended(good: bool) -> ExitCode {
    println!("{}", if good { "as promised" } else { "NOT as promised" });
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
