//! Whether `bench ab` can be trusted: `cargo bench --bench gates [-- --short]`.
//!
//! On the embedded demo, 200 comparisons of it with itself, of which at most 2 may FAIL, and 50 of it with one whose
//! work takes 25 % longer, of which at least 45 must. Every comparison is a whole `bench ab` with its own rounds:
//! none shares a round with another. Rounds are short (230 iterations, 20 of them to warm
//! up), since p95 needs no more, and what is proved is the verdict and not the demo's speed.
//!
//! Before that, thresholds are held against times whose distribution is known exactly: well below and above a limit they
//! have to say so, and at the limit itself neither PASS nor FAIL may come more often than one time in twenty.
//!
//! `--short` runs two comparisons of each kind and fails on a wrong or no verdict only, with 100 instead of 2,000 runs of each
//! threshold. `--minutes N` ends it early and reports the number that ran; `--jobs N` runs this many
//! at a time, which costs little where rounds mostly wait; `--thresholds` and `--comparisons` leave out the other. `$BENCH_PROGRAM` may name another build of `bench` to prove.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and may stop")]

mod thresholds;

use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
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

/// What one comparison came to.
struct GateComparison {
    outcome: String,
    pairs: u64,
    p50_ratio: Option<f64>,
    line: String,
}

fn compare(folder: &Path, slower: bool) -> GateComparison {
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
    let gated: Vec<&Value> =
        result["rows"].as_array().unwrap().iter().filter(|row| row["gated"] == true).collect();
    let figures: Vec<String> = gated
        .iter()
        .map(|row| {
            let figure = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
            let (percentile, ratio, sd) = (figure("percentile"), figure("ratio"), figure("sd"));
            format!("p{percentile} {ratio:.3} ({:.3} to {:.3}, sd {sd:.3})", figure("low"), figure("high"))
        })
        .collect();
    std::fs::remove_dir_all(out).unwrap();
    let outcome = result["outcome"].as_str().unwrap().to_owned();
    let pairs = result["pairs"].as_array().unwrap().len() as u64;
    let kind = if slower { "+25%" } else { "A/A " };
    GateComparison {
        line: format!("{kind} {outcome:<12} {pairs:>2} pairs  {}", figures.join(", ")),
        p50_ratio: gated.iter().find(|row| row["percentile"] == 50.0).and_then(|row| row["ratio"].as_f64()),
        outcome,
        pairs,
    }
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.yaml"), "name: demo\ndemo: {}\n").unwrap();
    std::fs::write(folder.path().join("b.yaml"), "name: slower\ndemo: { slowdown: 25% }\n").unwrap();
    std::fs::write(folder.path().join("scenario.yaml"), SCENARIO).unwrap();
    folder
}

/// The comparisons: of equal builds, and of a slower one.
#[derive(Default)]
struct Proof {
    equal: Tally,
    slower: Tally,
    /// How many were begun.
    begun: (u32, u32),
}

impl Proof {
    /// Which kind is next, so that what ends early has some of each; `None` when all were begun.
    fn next(&mut self, (equal_max, slower_max): (u32, u32)) -> Option<bool> {
        let (equal, slower) = self.begun;
        if equal >= equal_max && slower >= slower_max {
            return None;
        }
        let next_slower = equal >= equal_max || slower * equal_max < equal * slower_max;
        *(if next_slower { &mut self.begun.1 } else { &mut self.begun.0 }) += 1;
        Some(next_slower)
    }

    fn add(&mut self, slower: bool, compared: GateComparison) {
        println!("{}", compared.line);
        let tally = if slower { &mut self.slower } else { &mut self.equal };
        match compared.outcome.as_str() {
            "FAIL" => tally.fail += 1,
            "PASS" => tally.pass += 1,
            "INCONCLUSIVE" => tally.inconclusive += 1,
            _ => tally.invalid += 1,
        }
        tally.pairs += compared.pairs;
        tally.ratios.extend(compared.p50_ratio);
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u32>().ok()
    };
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let short = has("--short");
    let limit =
        number("--minutes").map_or(Duration::MAX, |minutes| Duration::from_secs(u64::from(minutes) * 60));
    let started = Instant::now();
    let as_stated =
        has("--comparisons") || thresholds::prove(folder().path(), if short { 100 } else { 2000 });
    if has("--thresholds") {
        return ended(as_stated);
    }
    let wanted = if short { (2, 2) } else { (200, 50) };
    let proof = Mutex::new(Proof::default());
    std::thread::scope(|scope| {
        for _ in 0..number("--jobs").unwrap_or(1) {
            scope.spawn(|| {
                let folder = folder();
                while started.elapsed() < limit {
                    let next = proof.lock().unwrap().next(wanted);
                    let Some(slower) = next else { break };
                    let compared = compare(folder.path(), slower);
                    proof.lock().unwrap().add(slower, compared);
                }
            });
        }
    });
    let Proof { mut equal, mut slower, .. } = proof.into_inner().unwrap();
    equal.show("A/A ");
    slower.show("+25%");
    println!("{:.0} s", started.elapsed().as_secs_f64());
    let good = if short || (equal.total(), slower.total()) != wanted {
        equal.fail == 0 && slower.pass == 0 && equal.invalid + slower.invalid == 0
    } else {
        equal.fail <= 2 && slower.fail >= 45
    };
    ended(good && as_stated)
}

fn ended(good: bool) -> ExitCode {
    println!("{}", if good { "as promised" } else { "NOT as promised" });
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
