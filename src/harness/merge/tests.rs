//! Runs that are split any way and merged again are the runs that they were; what is no run is named.

use std::collections::HashSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::event::silent;
use crate::read_again;
use measure::errors::{Failure, FailureClass, NumberedFailure};
use measure::log::{End, IterationCounts};
use measure::rows::Rows;
use measure::sample::{ActionSample, CompletionStatus, IterationSample};
use results::json;

const WORKLOADS: u16 = 2;

/// Iterations of a run, in the order in which they ended.
fn runs() -> impl Strategy<Value = Vec<IterationSample>> {
    let iteration =
        (0..WORKLOADS, 0_u64..4, 0_u64..3, 1_u64..9, prop::option::weighted(0.2, 1_u32..4), any::<bool>());
    prop::collection::vec(iteration, 1..120).prop_map(|drawn| {
        let mut next = [0; WORKLOADS as usize];
        let sample =
            |(workload, wait, lag, lasts, error, aborted): (u16, u64, u64, u64, Option<u32>, bool)| {
                let number = next[usize::from(workload)];
                next[usize::from(workload)] += 1;
                let due_ns = (number + 2 * wait) * 10_000_000;
                let ended = match error {
                    None => CompletionStatus::Ok,
                    Some(3) if aborted => CompletionStatus::Aborted,
                    Some(_) => CompletionStatus::Failed,
                };
                // Equal durations are as likely as different ones.
                let duration_ns = lasts * 1_000_000;
                let action = ActionSample {
                    duration_ns,
                    outcome: Some(200),
                    requests: 1,
                    point: 2,
                    parent: 1,
                    ended,
                    ..ActionSample::default()
                };
                IterationSample {
                    workload,
                    number,
                    warm_up: number < 3,
                    due_ns,
                    start_ns: due_ns + lag * 1_000_000,
                    duration_ns,
                    ended,
                    error: error.filter(|_| ended == CompletionStatus::Failed).unwrap_or(0),
                    actions: vec![action],
                    ..IterationSample::default()
                }
            };
        let mut all: Vec<IterationSample> = drawn.into_iter().map(sample).collect();
        all.sort_by_key(|one| one.start_ns + one.duration_ns);
        all
    })
}

pub(super) fn header(shard: Option<(u32, u32)>) -> Value {
    let id = uuid::Uuid::from_u128(7);
    let workload = |name: &str| {
        json!({
            "name": name, "runner": {"constant": {}},
            "sla": {
                "failure_rate_min": null, "failure_rate_max": 10.0, "max_seconds_per_iteration": 0.005,
                "max_avg_duration": 0.004, "max_avg_duration_per_atomic": {"get": 0.003},
                "outliers": {"max": 1, "min_iterations": 5, "sigmas": 1.0}, "max_degradation": 20.0,
                "thresholds": [
                    {"condition": "p90 < 5ms"}, {"condition": "p50(action \"get\") < 5ms", "window_ns": 50_000_000},
                    {"condition": "rate(errors) < 10%"}, {"condition": "throughput > 1/s"},
                ],
            },
            "actions": [["get", "GET /"]],
        })
    };
    let mut header = json!({
        "run_id": id, "id_seed": id, "started_unix_ns": 1_000_000_000_u64,
        "scenario": {"title": "t", "file": "f.yaml", "sha256": "ab", "set": {}},
        "deployment": {"name": "d", "file": "d.yaml", "targets": {}, "tls_verified": true, "auth": "none"},
        "profiling_off": null, "collector": null, "control": 10.0,
        "environment": {"bench_version": "1", "os": "o", "host": "h", "cpus": 2, "workers": 1},
        "notes": [], "workloads": [workload("one"), workload("two")],
    });
    if let Some((index, count)) = shard {
        header["shard"] = json!({"index": index, "count": count, "job": "j"});
    }
    header
}

/// Texts of faults; each process numbers them in its own way.
fn failures(first: u32) -> Vec<NumberedFailure> {
    let texts = ["refused", "500 instead of 200", "no answer"];
    let failure =
        |text: &str| Failure { class: FailureClass::Check, message: text.to_owned(), ..Failure::default() };
    (0..3)
        .map(|number| NumberedFailure { number: first + number, failure: failure(texts[number as usize]) })
        .collect()
}

/// Writes a log: its iterations in blocks of this many, its faults numbered from `first`.
pub(super) fn write(
    path: &Path,
    header: &Value,
    began: Option<ShardStart>,
    all: &[IterationSample],
    block: usize,
    first: u32,
    ends: bool,
) {
    std::fs::create_dir_all(path).unwrap();
    let mut log = LogWriter::create(&RunDirectory::open(path).log()).unwrap();
    log.header(&serde_json::from_value(header.clone()).unwrap()).unwrap();
    began.iter().for_each(|began| log.began(began).unwrap());
    log.failures(&failures(first)).unwrap();
    for block in all.chunks(block) {
        let mut rows = Rows::default();
        for one in block {
            let error = if one.error == 0 { 0 } else { one.error - 1 + first };
            rows.push(&IterationSample { error, ..one.clone() });
        }
        log.samples(&rows).unwrap();
        log.seal().unwrap();
    }
    let issued = |workload: u16| {
        let issued = all.iter().filter(|one| one.workload == workload).count() as u64;
        IterationCounts { planned: Some(issued), issued, not_started: Some(0), ..IterationCounts::default() }
    };
    let end = End { issued: (0..WORKLOADS).map(issued).collect(), ..End::default() };
    if ends {
        log.end(&end).unwrap();
    } else {
        log.seal().unwrap();
    }
}

/// What results.json has of a run: all before its iterations, and these by their numbers.
fn results(path: &Path) -> (String, Vec<String>) {
    let (_, aggregate, results, _) = read_again::read_again(path, |_| Ok(())).unwrap();
    let mut text = Vec::new();
    json::write(&results, &aggregate, &HashSet::new(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let (head, iterations) = text.split_once("\"iterations\": [").unwrap();
    let mut iterations: Vec<String> =
        iterations.lines().map(|line| line.trim_end_matches(',').to_owned()).collect();
    iterations.sort_unstable();
    (head.to_owned(), iterations)
}

fn options(directories: Vec<PathBuf>, out: &Path, partial: bool) -> MergeOptions {
    MergeOptions {
        directories,
        out: out.to_path_buf(),
        partial,
        wait: Duration::ZERO,
        report: ReportOptions::default(),
    }
}

/// Writes the shards of a run; each process began `skew_ns` later than the one before, so its own clock is that much behind.
fn split(folder: &Path, all: &[IterationSample], count: u32, blocks: &[usize]) -> Vec<PathBuf> {
    let shard = |index: u32| {
        let path = folder.join(format!("shards/{index}"));
        let skew_ns = u64::from(count - 1 - index) * 5_000_000;
        let own = all.iter().filter(|one| one.number % u64::from(count) == u64::from(index));
        let own = own.map(|one| IterationSample {
            due_ns: one.due_ns + skew_ns,
            start_ns: one.start_ns + skew_ns,
            ..one.clone()
        });
        let mut header = header(Some((index, count)));
        header["started_unix_ns"] = json!(1_000_000_000 - skew_ns);
        let began = ShardStart { began_ns: skew_ns, ..ShardStart::default() };
        write(
            &path,
            &header,
            Some(began),
            &own.collect::<Vec<_>>(),
            blocks[index as usize % blocks.len()],
            index * 10 + 1,
            true,
        );
        path
    };
    (0..count).map(shard).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_run_that_was_split_is_the_same_when_it_is_merged(
        all in runs(),
        count in 2_u32..5,
        blocks in prop::collection::vec(1_usize..40, 1..4),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let shards = split(folder.path(), &all, count, &blocks);
        let out = folder.path().join("out");
        let merged = merge(&options(shards, &out, false), &silent()).unwrap();
        let (head, iterations) = results(&merged.directory.unwrap());
        // One process would have had all times on the clock of the first one.
        let skew_ns = u64::from(count - 1) * 5_000_000;
        let moved = |one: &IterationSample| IterationSample {
            due_ns: one.due_ns + skew_ns,
            start_ns: one.start_ns + skew_ns,
            ..one.clone()
        };
        let whole = folder.path().join("whole");
        let mut header = header(None);
        header["started_unix_ns"] = json!(1_000_000_000 - skew_ns);
        header["environment"]["workers"] = json!(count);
        write(&whole, &header, None, &all.iter().map(moved).collect::<Vec<_>>(), blocks[0], 1, true);
        let (expected_head, expected) = results(&whole);
        let (found, wanted) = (without_shards(&head), without_shards(&expected_head));
        let difference = found.lines().zip(wanted.lines()).enumerate().find(|(_, (found, wanted))| found != wanted);
        prop_assert_eq!(difference, None);
        prop_assert_eq!(found, wanted);
        prop_assert_eq!(iterations, expected);
    }
}

/// The head of results.json without what only a merged run has.
fn without_shards(head: &str) -> String {
    let head = head.trim_end().trim_end_matches(',');
    let mut value: Value = serde_json::from_str(&format!("{head}\n}}")).unwrap();
    let fields = value.as_object_mut().unwrap();
    fields.shift_remove("shards");
    // Planned counts of a whole run come from its end, too.
    serde_json::to_string_pretty(&value).unwrap()
}

#[test]
fn a_list_that_would_be_too_long_is_a_sample_with_all_that_is_special() {
    let folder = tempfile::tempdir().unwrap();
    let sample = |number: u64| IterationSample {
        number,
        // One is slow, two others fail.
        duration_ns: if number == 55 { 900_000_000 } else { 1_000_000 },
        ended: if [7, 13].contains(&number) { CompletionStatus::Failed } else { CompletionStatus::Ok },
        error: u32::from([7, 13].contains(&number)),
        ..IterationSample::default()
    };
    let all: Vec<IterationSample> = (0..1000).map(sample).collect();
    write(folder.path(), &header(None), None, &all, 100, 1, true);
    let (_, aggregate, results, _) = read_again::read_again(folder.path(), |_| Ok(())).unwrap();
    let listed = |most: u64| {
        let mut text = Vec::new();
        json::write_at_most(most, &results, &aggregate, &HashSet::new(), &mut text).unwrap();
        let read: Value = serde_json::from_slice(&text).unwrap();
        let rows = read["iterations"].as_array().unwrap();
        let numbers: Vec<u64> = rows.iter().map(|row| row["number"].as_u64().unwrap()).collect();
        (numbers, read["iterations_omitted"].as_u64().unwrap())
    };
    assert_eq!(listed(1000), ((0..1000).collect(), 0));
    let (numbers, omitted) = listed(10);
    assert_eq!(numbers.len() as u64 + omitted, 1000);
    for wanted in [0, 100, 900, 7, 13, 55] {
        assert!(numbers.contains(&wanted), "{wanted}: {numbers:?}");
    }
    assert!(numbers.len() < 30 && numbers.is_sorted(), "{numbers:?}");
}

/// What is done to the shards of a run, and what is said of them.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn shards_that_are_no_run_are_named() {
    type RunChange = fn(&Path);
    let rewritten = |path: &Path, change: &dyn Fn(&mut Value), ends: bool| {
        std::fs::remove_dir_all(path).unwrap();
        let mut header = header(Some((1, 3)));
        change(&mut header);
        write(path, &header, None, &[], 1, 1, ends);
    };
    let rows: [(&str, RunChange, &str, Option<&str>); 15] = [
        ("whole", |_| {}, "", Some("")),
        (
            "missing",
            |path| std::fs::remove_dir_all(path.join("1")).unwrap(),
            "1 of 3 shards are missing: 1",
            Some("partial: 1 of 3"),
        ),
        (
            "twice",
            |path| write(&path.join("4"), &header(Some((1, 3))), None, &[], 1, 1, true),
            "shard 1 is there 2 times",
            None,
        ),
        (
            "killed and run again",
            |path| write(&path.join("4"), &header(Some((1, 3))), None, &[], 1, 1, false),
            "",
            Some("shard 1 was begun 2 times"),
        ),
        ("no end", |_| {}, "has no end", Some("partial: shard 1")),
        ("a whole run", |_| {}, "no shard in", None),
        ("another job", |_| {}, "the job differs, `j` and `k`", None),
        ("another number", |_| {}, "the number of shards differs", None),
        ("another scenario", |_| {}, "the text of the scenario (SHA-256) differs", None),
        ("another seed", |_| {}, "the seed of the data differs, `none` and `5`", None),
        ("another version", |_| {}, "the version of bench differs, `1` and `2`", None),
        ("other workloads", |_| {}, "what they ran differs", None),
        ("other ids of iterations", |_| {}, "what they ran differs", None),
        ("a whole run beside them", |_| {}, "", Some("")),
        (
            "another file",
            |path| std::fs::write(path.join("1/run.log"), "hello, this is no log").unwrap(),
            "is not a run log",
            None,
        ),
    ];
    for (what, change, refused, partial) in rows {
        let folder = tempfile::tempdir().unwrap();
        let all: Vec<IterationSample> = (0..9)
            .map(|number| IterationSample { number, duration_ns: 1_000_000, ..IterationSample::default() })
            .collect();
        let mut shards = split(folder.path(), &all, 3, &[2]);
        let parent = folder.path().join("shards");
        change(&parent);
        match what {
            "no end" => rewritten(&shards[1], &|_| {}, false),
            "a whole run" => {
                rewritten(&shards[1], &|header| drop(header.as_object_mut().unwrap().remove("shard")), true);
                shards = vec![shards[1].join("..").join("1").join("..").join("nothing")];
                std::fs::create_dir_all(&shards[0]).unwrap();
            }
            "another job" => rewritten(&shards[1], &|header| header["shard"]["job"] = json!("k"), true),
            "another number" => rewritten(&shards[1], &|header| header["shard"]["count"] = json!(4), true),
            "another scenario" => {
                rewritten(&shards[1], &|header| header["scenario"]["sha256"] = json!("cd"), true)
            }
            "another seed" => rewritten(&shards[1], &|header| header["data_seed"] = json!(5), true),
            "another version" => {
                rewritten(&shards[1], &|header| header["environment"]["bench_version"] = json!("2"), true)
            }
            "other workloads" => {
                rewritten(&shards[1], &|header| header["workloads"][1]["name"] = json!("three"), true)
            }
            "other ids of iterations" => {
                rewritten(&shards[1], &|header| header["id_seed"] = json!(uuid::Uuid::from_u128(8)), true);
            }
            "a whole run beside them" => {
                write(&parent.join("merged"), &header(None), None, &[], 1, 1, true);
                shards = vec![parent.clone()];
            }
            _ => {}
        }
        if what == "missing" {
            shards.remove(1);
        } else if parent.join("4").exists() {
            shards.push(parent.join("4"));
        }
        let out = folder.path().join("out");
        match merge(&options(shards.clone(), &out, false), &silent()) {
            Ok(merged) => {
                assert_eq!(refused, "", "{what}");
                let wanted = partial.unwrap();
                assert!(
                    wanted.is_empty() || merged.results.notes.iter().any(|note| note.contains(wanted)),
                    "{what}: {:?}",
                    merged.results.notes
                );
                assert_eq!(merged.results.shards.len(), 3, "{what}");
            }
            Err(error) => {
                assert!(!refused.is_empty() && error.to_string().contains(refused), "{what}: {error}");
                if what == "no end" {
                    assert!(error.to_string().contains(&shards[1].display().to_string()), "{error}");
                }
                assert!(
                    !out.exists() || std::fs::read_dir(&out).unwrap().next().is_none(),
                    "{what}: something was written"
                );
            }
        }
        if let Some(note) = partial.filter(|_| !refused.is_empty()) {
            let merged = merge(&options(shards, &out, true), &silent()).unwrap();
            assert!(
                merged.results.notes.iter().any(|said| said.contains(note)),
                "{what}: {:?}",
                merged.results.notes
            );
            assert_eq!(merged.conclusion, crate::Conclusion::Failed, "{what}");
        }
    }
}

/// Shards that began at different times, with and without a shared clock, and the note about it.
#[test]
fn shards_that_began_apart_are_named() {
    let second = 1_000_000_000;
    for (began_ns, shared, said) in [
        ([5, 6, 7].map(|ms| ms * 1_000_000), true, None),
        ([0, second, 0], true, None),
        ([4 * second, 9 * second, 5 * second], true, Some("shard 1 began 5.00 s after shard 0: their loads")),
        (
            [4 * second, 5 * second, 2 * second],
            false,
            Some(
                "shard 1 began 3.00 s after shard 2, or the clocks of their machines differ by that: their loads",
            ),
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let shard = |(index, began_ns): (u32, &u64)| {
            let path = folder.path().join(index.to_string());
            let clock_correction_ns = (shared || index != 1).then_some(0);
            let began = ShardStart { began_ns: *began_ns, clock_correction_ns, ..ShardStart::default() };
            write(&path, &header(Some((index, 3))), Some(began), &[], 1, 1, true);
            path
        };
        let shards =
            chosen::choose(&(0..).zip(&began_ns).map(shard).collect::<Vec<_>>(), false).unwrap().shards;
        let clocks = Clocks::of(&shards);
        // Logs of one zero: no times are moved beyond the corrections, which are 0.
        assert_eq!(clocks.shifts_ns, [0; 3]);
        assert_eq!(clocks.began_ns(1, shards[1].log.began), began_ns[1]);
        let note = clocks.note(&shards);
        assert_eq!(note.is_some(), said.is_some(), "{note:?}");
        assert!(said.is_none_or(|said| note.as_deref().unwrap().contains(said)), "{note:?}");
    }
}

#[test]
fn missing_spans_are_counted() {
    assert_eq!(without_spans(7, 7), None);
    assert!(
        without_spans(4, 7)
            .unwrap()
            .starts_with("3 of the 7 iterations whose traces are wanted have no spans")
    );
}
