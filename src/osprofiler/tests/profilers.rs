//! The load generator's profiler and trace handles: who is whose parent, whatever happens at the same time.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use uuid::Uuid;

use super::{MemoryNotifier, trace};
use crate::derived::DerivedProfiler;
use crate::report::TraceTree;
use crate::signing::Signer;
use crate::web::onward_headers;
use base::ids::IdSpace;
use base::secret::Secret;

#[test]
fn ids_move_as_in_osprofiler() {
    let ids = IdSpace::from_seed(Uuid::nil());
    let base = ids.base_id(0, 7);
    let mut profiler = DerivedProfiler::new(ids, 0, 7);
    assert_eq!((profiler.base_id(), profiler.parent_id(), profiler.id()), (base, base, base));
    profiler.stop();
    assert_eq!((profiler.id(), profiler.depth()), (base, 0));
    let first = profiler.start();
    assert_eq!(first, ids.point_id(0, 7, 1));
    assert_eq!((profiler.parent_id(), profiler.id()), (base, first));
    let second = profiler.start();
    assert_eq!((profiler.parent_id(), profiler.id()), (first, second));
    let signer = Signer::new(&Secret::new("K")).unwrap();
    let headers = profiler.headers(&signer.for_base(base));
    let (info, hmac) = signer.sign_text(&base.to_string(), &second.to_string());
    assert_eq!((headers.trace_info(), headers.hmac()), (info.as_str(), hmac.as_str()));
    profiler.stop();
    assert_eq!(profiler.id(), first);
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
            .map(|n| DerivedProfiler::new(ids, 2, n))
            .collect();
        let mut models: HashMap<usize, Vec<Uuid>> = HashMap::new();
        let mut seen: HashSet<Uuid> = profilers.iter().map(DerivedProfiler::base_id).collect();
        prop_assert_eq!(seen.len(), 1000);
        for (index, action) in steps {
            let profiler = &mut profilers[index];
            let model = models.entry(index).or_default();
            if action < 3 {
                let id = profiler.start();
                prop_assert!(seen.insert(id), "{} came twice", id);
                model.push(id);
            } else {
                profiler.stop();
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
    assert_eq!(
        (tree.points[0].trace_id.as_str(), tree.points[2].trace_id.as_str()),
        (a.as_str(), b.as_str())
    );
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
    let task = tokio::spawn(async move {
        panicking.scope("panic", None, |_| async { std::panic::resume_unwind(Box::new("x")) }).await
    });
    assert!(task.await.is_err());
    let errors: Vec<_> = TraceTree::build(&notifier.records())
        .points
        .into_iter()
        .map(|point| (String::from(point.name), point.error.map(|error| (error.etype, error.message))))
        .collect();
    let text = |etype: &str, message: &str| Some((etype.to_owned(), message.to_owned()));
    assert_eq!(
        errors,
        [
            ("slow".to_owned(), None),
            ("bad".to_owned(), text("ValueError", "no")),
            ("panic".to_owned(), text("panic", "x")),
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
