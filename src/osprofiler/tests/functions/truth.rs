//! Every sample in a task's function belongs to that task, and shares are right within the sampling error.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt as _;

use super::burning::{TASKS, cpu_ns, other, planted, rounds_per_ms};
use super::{seen, turn};
use crate::functions::carried;
use crate::functions::model::FunctionProfile;
use crate::functions::settings::{Functions, HZ_MAX, PERF_HZ_MAX, Settings};
use crate::functions::waits::WaitExtension as _;
use crate::profiler::{self, TraceExtension as _, inherited};
use crate::report::TraceTree;
use crate::tests::{MemoryNotifier, trace};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Delivers what is over.
fn deliver(functions: &Functions) {
    assert!(functions.flush());
}

/// The profiles that travelled with the trace, by the operation's name.
fn travelled(notifier: &MemoryNotifier) -> BTreeMap<String, FunctionProfile> {
    let records = notifier.records();
    let carried = records.iter().filter_map(|record| carried::decode(&record.info).unwrap());
    carried.map(|profile| (profile.operation.clone(), profile)).collect()
}

#[test]
fn eight_tasks_take_turns_on_two_threads() {
    let _turn = turn();
    eight_tasks(Settings::new().signed_or_named_tasks().hz(HZ_MAX).start().unwrap(), 200);
}

/// Run it with `RUSTFLAGS=-Cforce-frame-pointers=yes`; without them, and where the kernel refuses, it is said what is missing.
#[cfg(feature = "functions-perf")]
#[test]
fn eight_tasks_are_told_apart_a_thousand_times_a_second() {
    let _turn = turn();
    match Settings::new().signed_or_named_tasks().hz(PERF_HZ_MAX).start() {
        // More than a timer could give.
        Ok(functions) => eight_tasks(functions, 1_000),
        Err(error) => {
            let missing = ["kernel.perf_event_paranoid to 2", "`-C force-frame-pointers=yes`"];
            assert!(missing.iter().any(|what| error.to_string().contains(what)), "{error}");
        }
    }
}

/// Every sample in a task's function is given to it, there are more than `samples_min`, and the shares are right.
fn eight_tasks(functions: Functions, samples_min: u64) {
    let notifier = Arc::<MemoryNotifier>::default();
    let root = trace(&notifier, None);
    let per_ms = rounds_per_ms();
    // Nanoseconds of each function, by task.
    let truth = Arc::new(Mutex::new([[0_u64; 2]; 8]));
    runtime().block_on(async {
        let tasks = (0..8).map(|task| {
            let truth = Arc::clone(&truth);
            let work = async move {
                for _ in 0..50 {
                    for (part, share) in [(0, 3), (1, 1)] {
                        let rounds = per_ms * share * (task as u64 + 1) / 2;
                        let took_ns = cpu_ns(|| {
                            TASKS[task][part](rounds);
                        });
                        truth.lock().unwrap()[task][part] += took_ns;
                        tokio::task::yield_now().await;
                    }
                }
            };
            tokio::spawn(profiler::trace(format!("task{task}"), (), work).in_trace(root.clone()))
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    });
    drop(root);
    deliver(&functions);
    let (report, profiles) = (functions.report(), travelled(&notifier));
    assert_eq!(report.operations, 8, "{report:?}");
    let truth = truth.lock().unwrap();
    let all_ns: u64 = truth.iter().flatten().sum();
    let mut samples = 0;
    let mut counts: Vec<(String, u64)> = Vec::new();
    for (operation, profile) in &profiles {
        for (function, count) in seen(profile).into_iter().filter(|(name, _)| name.starts_with("task")) {
            assert_eq!(
                function[..5],
                operation[..5],
                "{count} samples of {function} were given to {operation}"
            );
            samples += count;
            counts.push((function, count));
        }
    }
    assert!(samples > samples_min, "{samples} of {report:?}");
    // Other work has none of the tasks' functions, since all samples of these are in the operations.
    for (task, parts) in truth.iter().enumerate() {
        for (part, ns) in parts.iter().enumerate() {
            let name = format!("task{task}_{}", ["major", "minor"][part]);
            let count = counts.iter().find(|(function, _)| *function == name).map_or(0, |(_, count)| *count);
            let share = *ns as f64 / all_ns as f64;
            let expected = share * samples as f64;
            let sigma = (samples as f64 * share * (1.0 - share)).sqrt();
            assert!(
                (count as f64 - expected).abs() < 5.0 * sigma + 2.0,
                "{name}: {count}, not {expected:.1}"
            );
        }
    }
    eprintln!("{samples} samples of eight tasks; {report:?}");
}

impl Settings {
    /// The tasks of these tests.
    fn signed_or_named_tasks(self) -> Self {
        (0..8).fold(self, |settings, task| settings.name(&format!("task{task}")))
    }
}

#[test]
fn children_and_blocking_threads_belong_to_the_operation_and_points_have_their_own() {
    let _turn = turn();
    let functions = Settings::new().name("request").hz(HZ_MAX).start().unwrap();
    let notifier = Arc::<MemoryNotifier>::default();
    let root = trace(&notifier, None);
    let per_ms = rounds_per_ms();
    runtime().block_on(async {
        let work = async {
            let child = tokio::spawn(
                async move {
                    for _ in 0..100 {
                        TASKS[0][0](per_ms * 3);
                        tokio::task::yield_now().await;
                    }
                }
                .in_current_trace(),
            );
            let blocking = tokio::task::spawn_blocking(inherited(move || TASKS[1][0](per_ms * 300)));
            let render = async { TASKS[2][0](per_ms * 300) };
            profiler::trace("render", (), render).await;
            child.await.unwrap();
            blocking.await.unwrap();
            // Work of no operation.
            tokio::spawn(async move { TASKS[3][0](per_ms * 100) }).await.unwrap();
        };
        profiler::trace("request", (), work).in_trace(root.clone()).await;
    });
    drop(root);
    deliver(&functions);
    let profile = travelled(&notifier).remove("request").unwrap();
    let seen = seen(&profile);
    for mine in ["task0_major", "task1_major", "task2_major"] {
        assert!(seen.get(mine).is_some_and(|samples| *samples > 0), "{mine}: {seen:?}");
    }
    assert!(!seen.contains_key("task3_major"), "{seen:?}");
    assert!(functions.report().others > 0);
    // By point.
    let tree = TraceTree::build(&notifier.records());
    let id = |name: &str| tree.points.iter().find(|point| point.name == name).unwrap().trace_id.clone();
    for stack in &profile.stacks {
        let point = &profile.points[stack.point.unwrap() as usize];
        let is_in = |name| stack.frames.iter().any(|f| profile.functions[*f as usize].name.ends_with(name));
        let expected = if is_in("task2_major") { "render" } else { "request" };
        if is_in("task2_major") || is_in("task0_major") {
            assert_eq!(*point, id(expected));
        }
    }
    // The point that carries them lasts no time and is the operation's child.
    let carrying = tree.points.iter().find(|point| point.name == carried::POINT_NAME).unwrap();
    assert_eq!((carrying.duration_us, &carrying.parent_id), (Some(0), &id("request")));
}

#[test]
fn a_blocked_thread_has_no_functions_and_a_named_wait_has_its_line() {
    let _turn = turn();
    let functions = Settings::new().name("request").hz(HZ_MAX).start().unwrap();
    let notifier = Arc::<MemoryNotifier>::default();
    let root = trace(&notifier, None);
    let per_ms = rounds_per_ms();
    let line = line!() + 5;
    runtime().block_on(async {
        let other = tokio::task::spawn_blocking(move || TASKS[4][0](per_ms * 300));
        let work = async {
            std::thread::sleep(Duration::from_millis(200));
            tokio::time::sleep(Duration::from_millis(50)).waits().await;
            TASKS[5][0](per_ms * 200)
        };
        profiler::trace("request", (), work).in_trace(root.clone()).await;
        other.await.unwrap();
    });
    drop(root);
    deliver(&functions);
    let profile = travelled(&notifier).remove("request").unwrap();
    let seen = seen(&profile);
    assert!(seen.get("task5_major").is_some_and(|samples| *samples > 0), "{seen:?}");
    assert!(!seen.contains_key("task4_major"), "{seen:?}");
    assert_eq!(profile.waits.len(), 1, "{:?}", profile.waits);
    let wait = &profile.waits[0];
    assert!(wait.file.ends_with("truth.rs") && wait.line == line && wait.count == 1, "{wait:?}");
    assert!(wait.waited_ns >= 45_000_000, "{wait:?}");
}

#[inline(never)]
fn recursive(depth: u64, rounds: u64) -> u64 {
    if depth == 0 { TASKS[6][0](rounds) } else { recursive(depth - 1, rounds) + 1 }
}

#[test]
fn recursion_counts_once_and_stacks_that_are_too_deep_are_nobodys() {
    let _turn = turn();
    let functions = Settings::new().name("flat").name("deep").hz(HZ_MAX).start().unwrap();
    let notifier = Arc::<MemoryNotifier>::default();
    let root = trace(&notifier, None);
    let per_ms = rounds_per_ms();
    root.run(|| {
        profiler::trace_sync("flat", (), || recursive(20, per_ms * 300));
        profiler::trace_sync("deep", (), || {
            TASKS[7][0](per_ms * 100);
            // A thousand frames: deeper than any sampler looks.
            recursive(1_500, per_ms * 300)
        });
    });
    drop(root);
    deliver(&functions);
    let mut profiles = travelled(&notifier);
    let flat = profiles.remove("flat").unwrap();
    let recursive = seen(&flat)["recursive"];
    assert!(recursive > 0 && recursive <= flat.samples(), "{recursive} of {}", flat.samples());
    let deep = profiles.remove("deep").unwrap();
    assert!(!seen(&deep).contains_key("task6_major"), "{:?}", seen(&deep));
    assert!(deep.too_deep > 0 && deep.header().contains("too deep"), "{}", deep.header());
    assert!(functions.report().too_deep >= deep.too_deep);
}

#[test]
fn a_panic_goes_through_and_numbers_are_used_again() {
    let _turn = turn();
    let functions = Settings::new().signed_or_named_tasks().hz(HZ_MAX).start().unwrap();
    let notifier = Arc::<MemoryNotifier>::default();
    let per_ms = rounds_per_ms();
    runtime().block_on(async {
        for round in 0..12_usize {
            let task = round % 3;
            let root = trace(&notifier, None);
            let work = async move {
                TASKS[task][0](per_ms * 60);
                assert!(task != 1, "as planned");
            };
            let work = profiler::trace(format!("task{task}"), (), work).in_trace(root);
            let ended = AssertUnwindSafe(work).catch_unwind().await;
            assert_eq!(ended.is_err(), task == 1);
            deliver(&functions);
        }
    });
    let totals = functions.totals();
    assert_eq!(totals.len(), 3);
    for total in totals {
        assert_eq!(total.operations, 4);
        let seen = seen(&total);
        let burners: Vec<_> = seen.iter().filter(|(name, _)| name.ends_with("_major")).collect();
        assert_eq!(burners.len(), 1, "{}: {seen:?}", total.operation);
        assert!(burners[0].0.starts_with(&total.operation) && *burners[0].1 > 0, "{seen:?}");
    }
    let panicked = notifier.records().iter().filter(|record| record.info.contains_key("etype")).count();
    assert_eq!(panicked, 4);
}

#[test]
fn ten_thousand_short_operations_are_added_up_by_name() {
    let _turn = turn();
    let functions = Settings::new().name("task0").hz(HZ_MAX).start().unwrap();
    let notifier = Arc::<MemoryNotifier>::default();
    let root = trace(&notifier, None);
    let per_ms = rounds_per_ms();
    for _ in 0..10_000 {
        root.run(|| profiler::trace_sync("task0", (), || TASKS[0][0](per_ms / 5)));
    }
    drop(root);
    deliver(&functions);
    let (report, totals) = (functions.report(), functions.totals());
    assert_eq!((report.operations + report.refused, totals.len()), (10_000, 1), "{report:?}");
    // What was refused waited for a reading, since numbers are used again only after one.
    let total = &totals[0];
    assert_eq!(total.operations, report.operations);
    assert!(seen(total).keys().all(|name| !name.starts_with("task") || name == "task0_major"));
    assert!(total.samples() > 0 && report.without_samples > 0, "{report:?}");
    for profile in travelled(&notifier).values() {
        assert!(profile.is_too_short() && profile.header().contains("too short"), "{}", profile.header());
    }
    eprintln!("{} samples of {report:?}", total.samples());
}

#[test]
fn nothing_is_profiled_that_is_not_picked() {
    let _turn = turn();
    let notifier = Arc::<MemoryNotifier>::default();
    let base_id = uuid::Uuid::new_v4();
    let functions = Settings::new().base_id(&base_id.to_string()).hz(HZ_MAX).start().unwrap();
    let start = |base_id| {
        let notifier = Arc::clone(&notifier) as Arc<dyn crate::notifier::Notifier>;
        crate::trace::TraceHandle::start(base_id, None, crate::tests::identity(), notifier)
    };
    let per_ms = rounds_per_ms();
    start(uuid::Uuid::new_v4()).run(|| profiler::trace_sync("one", (), || other(per_ms * 50)));
    deliver(&functions);
    assert_eq!(functions.report().operations, 0);
    // Not even the sampler ran: it saw nothing of that.
    assert_eq!(functions.report().others, 0);
    start(base_id).run(|| profiler::trace_sync("one", (), || planted(per_ms * 50)));
    deliver(&functions);
    assert_eq!(functions.report().operations, 1);
    assert!(seen(&functions.totals()[0]).contains_key("planted"));
}
