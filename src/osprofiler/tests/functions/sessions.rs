//! `start`, `stop`, `dump_stats`, and a directory of profiles.

use std::fs;
use std::sync::Arc;

use super::burning::{TASKS, planted, rounds_per_ms};
use super::{seen, turn};
use crate::functions::directory::{Directory, Format};
use crate::functions::operation::{OperationCandidate, OperationDescription, Operations, Pick};
use crate::functions::session::ProfileSession;
use crate::functions::settings::{FunctionsError, HZ_MAX, PERF_HZ_MAX, Settings};
use crate::profiler;
use crate::signing::Signer;
use crate::tests::{MemoryNotifier, trace};
use base::secret::Secret;

#[test]
fn a_session_has_what_is_put_in_it_and_nothing_else() {
    let _turn = turn();
    assert!(matches!(ProfileSession::start("early"), Err(FunctionsError::NotStarted)));
    let refused = Settings::new().hz(PERF_HZ_MAX + 1).start().unwrap_err().to_string();
    assert!(refused.contains("feature `functions-perf`") && refused.contains("more than 1000"), "{refused}");
    let _functions = Settings::new().hz(HZ_MAX).start().unwrap();
    let per_ms = rounds_per_ms();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("select_destinations.prof");
    let profile = ProfileSession::start("select_destinations").unwrap();
    runtime.block_on(async {
        let inner = async {
            for _ in 0..50 {
                planted(per_ms * 4);
                tokio::task::yield_now().await;
            }
        };
        let outer = async {
            for _ in 0..50 {
                TASKS[0][0](per_ms * 4);
                tokio::task::yield_now().await;
            }
        };
        // Two futures of one task, which take turns.
        tokio::join!(profile.of(inner), outer);
    });
    profile.run(|| TASKS[1][0](per_ms * 100));
    assert!(matches!(profile.dump_stats(&path), Err(FunctionsError::NotStopped)));
    profile.stop();
    profile.dump_stats(&path).unwrap();
    let functions = profile.functions().unwrap();
    let seen = seen(&functions);
    // How many samples there are depends on what else the machine does.
    assert!(seen["planted"] > 0 && seen["task1_major"] > 0 && !seen.contains_key("task0_major"), "{seen:?}");
    assert!(fs::read(&path).unwrap().starts_with(b"{("));
    profile.dump(&path, Format::Speedscope).unwrap();
    assert!(fs::read(&path).unwrap().starts_with(b"{\"$schema\""));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
}

#[test]
fn a_directory_gets_a_file_for_each_operation_until_it_is_full() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let directory = Directory::new(folder.path().join("profiles")).at_most(4, 1 << 20);
    let key = Secret::new("the key for profiles");
    let settings = Settings::new().key(&key).hz(HZ_MAX).directory(directory).without_records();
    let functions = settings.start().unwrap();
    let notifier = Arc::<MemoryNotifier>::default();
    let per_ms = rounds_per_ms();
    let run = |signer| {
        let root = trace(&notifier, signer);
        root.run(|| profiler::trace_sync("request", (), || planted(per_ms * 60)));
        root.base_id().to_owned()
    };
    run(None);
    run(Signer::new(&Secret::new("another key")));
    // Two files each, until there is no room; on a busy machine, one may have no samples, and so no files.
    let mut mine = Vec::new();
    let report = loop {
        mine.push(run(Signer::new(&key)));
        assert!(functions.flush());
        let report = functions.report();
        if report.files_left_out > 0 || mine.len() == 100 {
            break report;
        }
    };
    assert_eq!((report.operations, report.last_error), (mine.len() as u64, None));
    assert!(report.files_left_out > 0);
    let names = fs::read_dir(folder.path().join("profiles")).unwrap();
    let mut names: Vec<String> = names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names.len(), 4);
    for name in names {
        assert!(mine.iter().any(|id| name.starts_with(id.as_str())), "{name}");
    }
    assert!(notifier.names().iter().all(|name| !name.starts_with("functions")));
}

/// What is seen while a reading is made is read next time, so a number must not have another owner by then.
#[test]
fn a_number_is_free_after_the_reading_after_next() {
    struct EmptyPick;
    impl Pick for EmptyPick {
        fn picks(&self, _: &OperationCandidate<'_>) -> bool {
            false
        }
    }
    let _turn = turn();
    let operations = Operations::install(Box::new(EmptyPick), 10, false).unwrap();
    let about = OperationDescription {
        name: "one".to_owned(),
        base_id: "b".to_owned(),
        point_id: "p".to_owned(),
        reporter: None,
        is_session: true,
    };
    let numbered = operations.begin(about).unwrap();
    let owners = || operations.take_owners().owners.len();
    assert_eq!((owners(), owners()), (1, 1), "it is in use");
    drop(numbered);
    assert_eq!((owners(), owners(), owners()), (1, 1, 0));
    operations.uninstall();
    operations.release();
}
