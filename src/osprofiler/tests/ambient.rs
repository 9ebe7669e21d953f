//! The current profiler: explicit points, scopes, what ends them, and whose they are.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{MemoryNotifier, identity, outline, stop_info, trace};
use crate::http_client;
use crate::notifier::{self, Notifier, Reporter};
use crate::profiler::{self, TraceExtension};
use crate::record::TraceRecord;
use crate::report::TraceTree;
use crate::trace::TraceHandle;
use base::secret::Secret;

/// The process's notifier is one for all tests: each test that sets it waits for the others.
static PROCESS: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn key() -> Secret {
    Secret::new("K")
}

#[test]
fn without_a_profiler_nothing_happens() {
    let unasked = || -> Value { unreachable!("nobody sees this") };
    assert!(profiler::get().is_none());
    profiler::start("a", unasked);
    profiler::stop(unasked);
    profiler::clean();
    assert_eq!(profiler::trace_sync("a", unasked, || 7), 7);
    assert_eq!(profiler::try_trace_sync("a", unasked, || Err::<(), _>("no")), Err("no"));
    assert!(http_client::headers().is_none());
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let work = async { profiler::trace("a", unasked, async { 7 }).await };
    assert_eq!(runtime.block_on(work.in_current_trace()), 7);
}

#[test]
fn a_profiler_writes_osprofilers_records() {
    let _alone = PROCESS.blocking_lock();
    let notifier = Arc::new(MemoryNotifier::default());
    notifier::set(Some(Reporter::new(identity(), Arc::clone(&notifier) as Arc<dyn Notifier>)));
    let base = Uuid::from_u128(1).to_string();
    {
        let guard = profiler::init(&key(), Some(&base), Some("parent"));
        assert_eq!((guard.trace().base_id(), guard.trace().id()), (base.as_str(), "parent"));
        profiler::stop(());
        profiler::start("my-op", json!({"a": 1}));
        // As in OSProfiler, the first one stays.
        let second = profiler::init(&Secret::new("other"), None, None);
        assert_eq!(second.trace().base_id(), base);
        drop(second);
        profiler::start("db", ());
        let headers = http_client::headers().unwrap();
        assert_eq!(headers[0].0, "X-Trace-Info");
        profiler::stop(json!({"etype": "E", "message": "m"}));
        profiler::stop(());
        profiler::stop(());
    }
    assert!(profiler::get().is_none());
    notifier::set(None);
    let records = notifier.records();
    let names: Vec<&str> = records.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names, ["my-op-start", "db-start", "db-stop", "my-op-stop"]);
    assert_eq!(Value::Object((*records[0].info).clone()), json!({"a": 1, "host": "vm"}));
    assert_eq!(records[0].parent_id, "parent");
    assert_eq!(records[1].parent_id, records[0].trace_id);
    assert_eq!(records[2].trace_id, records[1].trace_id);
    assert_eq!(records[3].parent_id, "parent");
    assert_eq!((records[0].project.as_deref(), records[0].service.as_deref()), (Some("demo"), Some("api")));
    for record in &records {
        let json = serde_json::to_vec(record).unwrap();
        assert_eq!(&TraceRecord::decode(&json).unwrap(), record);
    }
    let tree = TraceTree::build(&records);
    assert_eq!(tree.points[1].error.as_ref().unwrap().etype, "E");
}

#[test]
fn without_a_notifier_traces_are_passed_on() {
    let _alone = PROCESS.blocking_lock();
    let _guard = profiler::init(&key(), None, Some(""));
    let current = profiler::get().unwrap();
    assert_eq!((current.base_id(), current.base_id().len()), (current.id(), 36));
    profiler::start("a", ());
    let [(_, info), (_, hmac)] = http_client::headers().unwrap();
    let keys = crate::verifying::ServerKeys::parse("K");
    let context = keys.verify(info.as_bytes(), hmac.as_bytes()).unwrap();
    assert_eq!(context.base_id, current.base_id());
    assert_eq!(context.parent_id, profiler::get().unwrap().id());
    profiler::clean();
    assert!(profiler::get().is_none() && http_client::headers().is_none());
    // An unsigned trace sends no headers.
    let unsigned = TraceHandle::init(&Secret::new(""), None, None);
    assert!(unsigned.run(http_client::headers).is_none());
}

/// Every way in which a scope can end, with what its stop says.
#[tokio::test]
async fn scopes_say_how_they_ended() {
    let notifier = Arc::new(MemoryNotifier::default());
    let early = || async {
        Err::<(), _>("nothing")?;
        unreachable!()
    };
    let work = async {
        profiler::trace("good", json!({"a": 1}), async {}).await;
        let _: Result<(), &str> = profiler::try_trace("early", (), early()).await;
        let endless = profiler::trace("cancelled", (), std::future::pending::<()>());
        assert!(tokio::time::timeout(Duration::from_millis(2), endless).await.is_err());
        let panicking = profiler::trace("panic", (), async { resume_unwind(Box::new("boom")) });
        let panicking = tokio::spawn(panicking);
        assert!(panicking.await.unwrap_err().is_panic());
        profiler::trace_sync("sync", (), || ());
        let _ = profiler::try_trace_sync("sync-error", (), || Err::<(), _>(std::fmt::Error));
        let text = String::from("so");
        let panic = catch_unwind(|| profiler::trace_sync("sync-panic", (), || resume_unwind(Box::new(text))));
        assert_eq!(*panic.unwrap_err().downcast::<String>().unwrap(), "so");
        profiler::trace("forgotten", (), async { profiler::start("open", ()) }).await;
        // Never polled: never a point.
        drop(profiler::trace("unused", (), async {}));
    };
    let root = trace(&notifier, None);
    work.in_trace(root).await;
    let records = notifier.records();
    for (name, expected) in [
        ("good", json!({})),
        ("early", json!({"etype": "&str", "message": "nothing"})),
        ("cancelled", json!({"cancelled": true})),
        ("panic", json!({"etype": "panic", "message": "boom"})),
        ("sync", json!({})),
        ("sync-error", json!({"etype": "core::fmt::Error", "message": std::fmt::Error.to_string()})),
        ("sync-panic", json!({"etype": "panic", "message": "so"})),
        ("forgotten", json!({})),
        ("open", json!({"unstopped": true})),
    ] {
        let Value::Object(mut info) = stop_info(&records, name) else { panic!() };
        assert_eq!(info.remove("host"), Some("vm".into()));
        assert!(info.remove("busy_us").unwrap().is_u64() && info.remove("idle_us").unwrap().is_u64());
        assert_eq!(Value::Object(info), expected, "{name}");
    }
    assert_eq!(records.len(), 18);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_time_is_told_from_idle_time() {
    let notifier = Arc::new(MemoryNotifier::default());
    let work = async {
        profiler::start("started", ());
        profiler::trace("outer", (), async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            profiler::trace("inner", (), async { std::thread::sleep(Duration::from_millis(10)) }).await;
        })
        .await;
        profiler::stop(());
        profiler::trace_sync("sync", (), || std::thread::sleep(Duration::from_millis(3)));
    };
    tokio::spawn(work.in_trace(trace(&notifier, None))).await.unwrap();
    let records = notifier.records();
    let times = |name: &str| {
        let info = stop_info(&records, name);
        (info["busy_us"].as_u64().unwrap(), info["idle_us"].as_u64().unwrap())
    };
    for name in ["started", "outer"] {
        let (busy_us, idle_us) = times(name);
        // How much longer anything takes is the machine's affair.
        assert!(busy_us >= 10_000 && idle_us >= 15_000, "{name}: {busy_us} {idle_us}");
    }
    assert!(times("inner").0 >= 10_000 && times("outer").0 >= times("inner").0);
    assert!(times("sync").0 >= 3_000 && times("sync").1 == 0);
    let points = TraceTree::build(&records).points;
    for point in points {
        let (busy_us, idle_us) = times(&point.name);
        let duration_us = point.duration_us.unwrap();
        assert!(duration_us.abs_diff(busy_us + idle_us) <= 2, "{}", point.name);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn children_inherit_wherever_they_run() {
    let notifier = Arc::new(MemoryNotifier::default());
    let work = async {
        profiler::start("parent", ());
        let spawned = tokio::spawn(
            async {
                tokio::task::yield_now().await;
                profiler::trace("task", (), tokio::task::yield_now()).await;
                // Not its own to stop.
                profiler::stop(());
            }
            .in_current_trace(),
        );
        // A scope made here belongs here, though it is spawned.
        let scope = tokio::spawn(profiler::trace("scope", (), async { profiler::start("below", ()) }));
        let inherited = profiler::inherited(|| profiler::trace_sync("blocking", (), || ()));
        let blocking = tokio::task::spawn_blocking(inherited);
        let thread = profiler::get().unwrap();
        let thread = std::thread::spawn(move || {
            assert!(profiler::get().is_none());
            thread.run(|| profiler::trace_sync("thread", (), || ()));
            assert!(profiler::get().is_none());
        });
        let alone = tokio::spawn(async { profiler::get().is_none() });
        spawned.await.unwrap();
        scope.await.unwrap();
        blocking.await.unwrap();
        thread.join().unwrap();
        assert!(alone.await.unwrap(), "a task that was given nothing has nothing");
        profiler::stop(());
        profiler::trace("after", (), async {}).await;
    };
    work.in_trace(trace(&notifier, None)).await;
    let mut lines = outline(&notifier.records());
    assert_eq!((lines.remove(0), lines.pop()), ("parent".into(), Some("after".into())));
    lines.sort();
    assert_eq!(lines, ["    below", "  blocking", "  scope", "  task", "  thread"]);
}

/// The tasks of a thread's runtime do not see the profiler of the thread, nor of the future that
/// polls them.
#[tokio::test]
async fn tasks_polled_meanwhile_are_not_traced() {
    let local = tokio::task::LocalSet::new();
    let notifier = Arc::new(MemoryNotifier::default());
    let check = async {
        let task = tokio::task::spawn_local(async { profiler::get().is_none() });
        let other = tokio::spawn(async { profiler::get().is_none() });
        assert!(task.await.unwrap() && other.await.unwrap());
        assert!(profiler::get().is_some());
    };
    local.run_until(check.in_trace(trace(&notifier, None))).await;
    trace(&notifier, None).run(|| assert!(profiler::get().is_some()));

    let _alone = PROCESS.lock().await;
    let _guard = profiler::init(&key(), None, None);
    assert!(profiler::get().is_some());
    assert!(tokio::spawn(async { profiler::get().is_none() }).await.unwrap());
    assert!(profiler::get().is_some());
}

#[tokio::test]
async fn futures_side_by_side_have_their_own_stacks() {
    let notifier = Arc::new(MemoryNotifier::default());
    let one = |name: &'static str, first_ms: u64| async move {
        profiler::start(name, ());
        tokio::time::sleep(Duration::from_millis(first_ms)).await;
        profiler::trace("inner", (), tokio::time::sleep(Duration::from_millis(5))).await;
        profiler::stop(());
    };
    let work = async {
        tokio::join!(one("a", 6).in_current_trace(), one("b", 1).in_current_trace());
    };
    work.in_trace(trace(&notifier, None)).await;
    assert_eq!(outline(&notifier.records()), ["a", "  inner", "b", "  inner"]);
}

#[test]
fn unstopped_points_are_bounded_and_their_stops_match() {
    let notifier = Arc::new(MemoryNotifier::default());
    trace(&notifier, None).run(|| {
        for _ in 0..1_500 {
            profiler::start("x", ());
        }
        for _ in 0..1_500 {
            profiler::stop(());
        }
        profiler::stop(());
        profiler::trace_sync("last", (), || ());
    });
    let records = notifier.records();
    assert_eq!(records.len(), 2 * 1_000 + 2);
    assert!(records.iter().all(|record| !record.info.contains_key("unstopped")));
}

#[test]
fn a_notifier_can_neither_fail_its_work_nor_report_on_itself() {
    let seen = Arc::new(MemoryNotifier::default());
    let inner = Arc::clone(&seen);
    let notifier = move |record: TraceRecord| {
        assert!(profiler::get().is_none());
        profiler::trace_sync("notifying", (), || ());
        inner.notify(record);
        resume_unwind(Box::new("it always does"));
    };
    let root = TraceHandle::start(Uuid::new_v4(), None, identity(), Arc::new(notifier));
    root.run(|| {
        profiler::start("a", ());
        profiler::trace_sync("b", (), || ());
        profiler::untraced(|| profiler::start("hidden", ()));
        let _ = catch_unwind(AssertUnwindSafe(|| profiler::untraced(|| resume_unwind(Box::new(())))));
        profiler::stop(());
    });
    assert_eq!(seen.names(), ["a-start", "b-start", "b-stop", "a-stop"]);
}
