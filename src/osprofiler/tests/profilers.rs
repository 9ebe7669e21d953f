//! Profilers and trace handles: who is whose parent, whatever happens at the same time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{MemoryNotifier, identity};
use crate::base::ids::IdSpace;
use crate::base::secret::Secret;
use crate::osprofiler::notifier::Notifier;
use crate::osprofiler::profiler::{DerivedPoints, Profiler, RecordedPoints};
use crate::osprofiler::record::Record;
use crate::osprofiler::report::TraceTree;
use crate::osprofiler::signing::Signer;
use crate::osprofiler::trace::Trace;
use crate::osprofiler::web::onward_headers;

fn trace(notifier: &Arc<MemoryNotifier>, signer: Option<Signer>) -> Trace {
    Trace::start(Uuid::new_v4(), signer, identity(), Arc::clone(notifier) as Arc<dyn Notifier>)
}

#[test]
fn ids_move_as_in_osprofiler() {
    let ids = IdSpace::from_seed(Uuid::nil());
    let base = ids.base_id(0, 7);
    let mut profiler = Profiler::init(base, None, DerivedPoints::new(ids, 0, 7));
    assert_eq!((profiler.base_id(), profiler.parent_id(), profiler.id()), (base, base, base));
    profiler.stop(None);
    assert_eq!((profiler.id(), profiler.depth()), (base, 0));
    let first = profiler.start("a", None);
    assert_eq!(first, ids.point_id(0, 7, 1));
    assert_eq!((profiler.parent_id(), profiler.id()), (base, first));
    let second = profiler.start("b", None);
    assert_eq!((profiler.parent_id(), profiler.id()), (first, second));
    let signer = Signer::new(&Secret::new("K")).unwrap();
    let headers = profiler.headers(&signer.for_base(base));
    let (info, hmac) = signer.sign_text(&base.to_string(), &second.to_string());
    assert_eq!((headers.trace_info(), headers.hmac()), (info.as_str(), hmac.as_str()));
    profiler.stop(None);
    assert_eq!(profiler.id(), first);

    let parent = Uuid::from_u128(9);
    let mut child = Profiler::init(base, Some(parent), DerivedPoints::new(ids, 1, 7));
    assert_eq!((child.parent_id(), child.id()), (base, parent));
    child.start("a", None);
    assert_eq!(child.parent_id(), parent);
}

#[test]
fn a_recording_profiler_writes_osprofilers_records() {
    let notifier = Arc::new(MemoryNotifier::default());
    let points = RecordedPoints::new(identity(), Arc::clone(&notifier) as Arc<dyn Notifier>);
    let base = Uuid::from_u128(1);
    let mut profiler = Profiler::init(base, None, points);
    profiler.start("my-op", json!({"a": 1}).as_object().cloned());
    profiler.start("db", None);
    profiler.stop(json!({"etype": "E", "message": "m"}).as_object().cloned());
    profiler.stop(None);
    let records = notifier.records();
    let names: Vec<&str> = records.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names, ["my-op-start", "db-start", "db-stop", "my-op-stop"]);
    assert_eq!(Value::Object(records[0].info.clone()), json!({"a": 1, "host": "vm"}));
    assert_eq!(records[0].parent_id, base.to_string());
    assert_eq!(records[1].parent_id, records[0].trace_id);
    assert_eq!(records[2].trace_id, records[1].trace_id);
    assert_eq!(records[3].parent_id, base.to_string());
    assert_eq!((records[0].project.as_deref(), records[0].service.as_deref()), (Some("demo"), Some("api")));
    for record in &records {
        let json = serde_json::to_vec(record).unwrap();
        assert_eq!(&Record::decode(&json).unwrap(), record);
    }
    let tree = TraceTree::build(&records);
    assert_eq!(tree.points[1].error.as_ref().unwrap().etype, "E");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// One thousand iterations that take turns in any order, each against a model of its own stack.
    #[test]
    fn interleaved_profilers_never_share_a_stack_or_an_id(
        seed: u128,
        steps in prop::collection::vec((0_usize..1000, 0_u8..5), 20_000)
    ) {
        let ids = IdSpace::from_seed(Uuid::from_u128(seed));
        let mut profilers: Vec<_> = (0..1000_u64)
            .map(|n| Profiler::init(ids.base_id(2, n), None, DerivedPoints::new(ids, 2, n)))
            .collect();
        let mut models: HashMap<usize, Vec<Uuid>> = HashMap::new();
        let mut seen: HashSet<Uuid> = profilers.iter().map(Profiler::base_id).collect();
        prop_assert_eq!(seen.len(), 1000);
        for (index, action) in steps {
            let profiler = &mut profilers[index];
            let model = models.entry(index).or_default();
            if action < 3 {
                let id = profiler.start("x", None);
                prop_assert!(seen.insert(id), "{} came twice", id);
                model.push(id);
            } else {
                profiler.stop(None);
                model.pop();
            }
            let base = profiler.base_id();
            prop_assert_eq!(base, ids.base_id(2, index as u64));
            prop_assert_eq!(profiler.id(), model.last().copied().unwrap_or(base));
            let parent = model.len().checked_sub(2).map_or(base, |above| model[above]);
            prop_assert_eq!(profiler.parent_id(), parent);
        }
    }
}

#[tokio::test]
async fn concurrent_children_have_their_own_place() {
    let notifier = Arc::new(MemoryNotifier::default());
    let root = trace(&notifier, None);
    let one = |name: &'static str, first_ms: u64| {
        root.scope(name, None, move |child| async move {
            tokio::time::sleep(Duration::from_millis(first_ms)).await;
            child.scope("inner", None, |_| tokio::time::sleep(Duration::from_millis(10))).await;
            child.id().to_owned()
        })
    };
    let (a, b) = tokio::join!(one("a", 10), one("b", 1));
    assert_ne!(a, b);
    let tree = TraceTree::build(&notifier.records());
    let seen: Vec<_> = tree.points.iter().map(|point| (point.name.as_str(), point.depth)).collect();
    assert_eq!(seen, [("a", 0), ("inner", 1), ("b", 0), ("inner", 1)]);
    for point in tree.points.iter().filter(|point| point.depth == 1) {
        assert!(point.parent_id == a || point.parent_id == b);
    }
    assert_eq!((&tree.points[0].trace_id, &tree.points[2].trace_id), (&a, &b));
    assert!(tree.points.iter().all(|point| point.duration_us >= Some(10_000)));
}

#[tokio::test]
async fn cancelled_and_failed_work_closes_its_point() {
    let notifier = Arc::new(MemoryNotifier::default());
    let root = trace(&notifier, None);
    let endless = root.scope("slow", None, |_| std::future::pending::<()>());
    assert!(tokio::time::timeout(Duration::from_millis(5), endless).await.is_err());
    assert_eq!(notifier.names(), ["slow-start", "slow-stop"]);

    root.scope("bad", None, |child| async move { child.fail("ValueError", "no") }).await;
    let panicking = root.clone();
    let task = tokio::spawn(async move { panicking.scope("panic", None, |_| async { panic!("x") }).await });
    assert!(task.await.is_err());
    let errors: Vec<_> = TraceTree::build(&notifier.records())
        .points
        .into_iter()
        .map(|point| (point.name, point.error.map(|error| (error.etype, error.message))))
        .collect();
    let text = |etype: &str, message: &str| Some((etype.to_owned(), message.to_owned()));
    assert_eq!(
        errors,
        [
            ("slow".to_owned(), None),
            ("bad".to_owned(), text("ValueError", "no")),
            ("panic".to_owned(), text("panic", "the work panicked")),
        ]
    );
}

#[test]
fn onward_requests_are_signed_for_the_open_point() {
    let notifier = Arc::new(MemoryNotifier::default());
    assert_eq!(onward_headers(&trace(&notifier, None)), None);
    let signer = Signer::new(&Secret::new("K")).unwrap();
    let root = trace(&notifier, Some(signer.clone()));
    let scope = root.enter("wsgi", None);
    let expected = signer.sign_text(root.base_id(), scope.trace().id());
    assert_eq!(onward_headers(scope.trace()), Some(expected));
    drop(scope);
    assert_eq!(notifier.names(), ["wsgi-start", "wsgi-stop"]);
}
