//! Random programs of points, scopes, spans, tasks, cancellations and panics, run on several
//! threads: their traces are well formed, and their stacks stay apart.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;

use proptest::prelude::*;
use tracing::Instrument as _;
use tracing::instrument::WithSubscriber as _;
use tracing_subscriber::layer::SubscriberExt as _;

use super::{MemoryNotifier, trace};
use crate::instrument::InstrumentLayer;
use crate::profiler::{self, TraceExtension};
use crate::record::TraceRecord;

#[derive(Clone, Debug)]
enum ProgramStep {
    /// `start` and `stop` around steps.
    Explicit(Vec<ProgramStep>),
    Scope(Vec<ProgramStep>),
    Sync(u8),
    Span(Vec<ProgramStep>),
    /// A span that is not a point.
    Filtered(Vec<ProgramStep>),
    /// Tasks that are waited for.
    Tasks(Vec<Vec<ProgramStep>>),
    /// Futures side by side in one task.
    Join(Vec<ProgramStep>, Vec<ProgramStep>),
    Blocking(u8),
    /// A scope that is dropped after this many polls.
    Cancelled(Vec<ProgramStep>, u8),
    /// A scope that panics in the end, in a task of its own.
    Panic(Vec<ProgramStep>),
    SyncPanic(u8),
    /// A scope in which a point is started and never stopped.
    Unstopped(Vec<ProgramStep>),
    /// `stop` without `start`, in a flow of its own.
    ExtraStop,
    Yield,
}

fn steps(with_tasks: bool) -> impl Strategy<Value = Vec<ProgramStep>> {
    let leaf = prop_oneof![
        (0_u8..4).prop_map(ProgramStep::Sync),
        (0_u8..4).prop_map(ProgramStep::SyncPanic),
        Just(ProgramStep::ExtraStop),
        Just(ProgramStep::Yield),
        Just(ProgramStep::Yield),
    ];
    let step = leaf.prop_recursive(5, 40, 4, move |step| {
        let steps = || prop::collection::vec(step.clone(), 0..4);
        let inline = prop_oneof![
            steps().prop_map(ProgramStep::Explicit),
            steps().prop_map(ProgramStep::Scope),
            steps().prop_map(ProgramStep::Span),
            steps().prop_map(ProgramStep::Filtered),
            (steps(), steps()).prop_map(|(a, b)| ProgramStep::Join(a, b)),
            steps().prop_map(ProgramStep::Unstopped),
        ];
        if !with_tasks {
            return inline.boxed();
        }
        prop_oneof![
            3 => inline,
            1 => prop::collection::vec(steps(), 1..4).prop_map(ProgramStep::Tasks),
            1 => (0_u8..4).prop_map(ProgramStep::Blocking),
            1 => steps().prop_map(ProgramStep::Panic),
        ]
        .boxed()
    });
    prop::collection::vec(step, 0..5)
}

fn program() -> impl Strategy<Value = Vec<ProgramStep>> {
    // What is cancelled waits for no tasks: those would go on without their parent.
    let cancelled = (steps(false), 0_u8..6).prop_map(|(steps, polls)| ProgramStep::Cancelled(steps, polls));
    (steps(true), prop::collection::vec(cancelled, 0..3)).prop_map(|(mut steps, cancelled)| {
        steps.extend(cancelled);
        steps
    })
}

/// Names points so that a record tells which point should be its parent.
#[derive(Default)]
struct PointNames(AtomicUsize);

impl PointNames {
    /// The new point's number and name.
    fn next(&self, parent: usize) -> (usize, String) {
        let number = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        (number, format!("{number}:{parent}"))
    }
}

fn sync(names: &PointNames, parent: usize, depth: u8) {
    let (number, name) = names.next(parent);
    profiler::trace_sync(&name, (), || {
        if depth > 0 {
            sync(names, number, depth - 1);
        }
    });
}

/// Runs steps below the point numbered `parent`.
fn run(
    names: Arc<PointNames>,
    steps: Vec<ProgramStep>,
    parent: usize,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        for step in steps {
            one(&names, step, parent).await;
        }
    })
}

async fn one(names: &Arc<PointNames>, step: ProgramStep, parent: usize) {
    let below = |steps: Vec<ProgramStep>| {
        let (number, name) = names.next(parent);
        (name, run(Arc::clone(names), steps, number))
    };
    match step {
        ProgramStep::Explicit(steps) => {
            let (name, work) = below(steps);
            profiler::start(&name, ());
            work.await;
            profiler::stop(());
        }
        ProgramStep::Scope(steps) => {
            let (name, work) = below(steps);
            profiler::trace(name, (), work).await;
        }
        ProgramStep::Sync(depth) => sync(names, parent, depth),
        ProgramStep::Span(steps) => {
            let (name, work) = below(steps);
            work.instrument(tracing::info_span!("span", osprofiler.name = name)).await;
        }
        ProgramStep::Filtered(steps) => {
            run(Arc::clone(names), steps, parent).instrument(tracing::trace_span!("filtered")).await;
        }
        ProgramStep::Yield => tokio::task::yield_now().await,
        ProgramStep::Tasks(_) | ProgramStep::Join(..) | ProgramStep::Blocking(_) => {
            concurrent(names, step, parent).await
        }
        ProgramStep::Cancelled(..)
        | ProgramStep::Panic(_)
        | ProgramStep::SyncPanic(_)
        | ProgramStep::Unstopped(_)
        | ProgramStep::ExtraStop => {
            irregular(names, step, parent).await;
        }
    }
}

async fn concurrent(names: &Arc<PointNames>, step: ProgramStep, parent: usize) {
    match step {
        ProgramStep::Tasks(tasks) => {
            let spawn = |steps| {
                let work = run(Arc::clone(names), steps, parent).in_current_trace();
                tokio::spawn(work.with_current_subscriber())
            };
            let tasks: Vec<_> = tasks.into_iter().map(spawn).collect();
            for task in tasks {
                task.await.unwrap();
            }
        }
        ProgramStep::Join(first, second) => {
            let side = |steps| run(Arc::clone(names), steps, parent).in_current_trace();
            tokio::join!(side(first), side(second));
        }
        ProgramStep::Blocking(depth) => {
            let names = Arc::clone(names);
            let work = profiler::inherited(move || sync(&names, parent, depth));
            tokio::task::spawn_blocking(work).await.unwrap();
        }
        _ => unreachable!("{step:?} is for another function"),
    }
}

async fn irregular(names: &Arc<PointNames>, step: ProgramStep, parent: usize) {
    let below = |steps: Vec<ProgramStep>| {
        let (number, name) = names.next(parent);
        (name, run(Arc::clone(names), steps, number))
    };
    match step {
        ProgramStep::Cancelled(steps, polls) => {
            let (name, work) = below(steps);
            let mut work = Box::pin(profiler::trace(name, (), async {
                work.await;
                std::future::pending::<()>().await;
            }));
            let mut polls = polls + 1;
            std::future::poll_fn(|context| {
                assert!(work.as_mut().poll(context).is_pending());
                context.waker().wake_by_ref();
                polls -= 1;
                if polls == 0 { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
        }
        ProgramStep::Panic(steps) => {
            let (name, work) = below(steps);
            let work = profiler::trace(name, (), async {
                work.await;
                resume_unwind(Box::new("boom"))
            });
            let ended: Result<(), _> = tokio::spawn(work.with_current_subscriber()).await;
            assert!(ended.unwrap_err().is_panic());
        }
        ProgramStep::SyncPanic(depth) => {
            let panicking = || {
                sync(names, parent, depth);
                let (_, name) = names.next(parent);
                profiler::trace_sync(&name, (), || resume_unwind(Box::new("boom")))
            };
            let panicked: Result<(), _> = catch_unwind(AssertUnwindSafe(panicking));
            assert!(panicked.is_err());
        }
        ProgramStep::Unstopped(steps) => {
            let (number, name) = names.next(parent);
            let names = Arc::clone(names);
            let work = async move {
                let (open, name) = names.next(number);
                profiler::start(&name, ());
                run(names, steps, open).await;
            };
            profiler::trace(name, (), work).await;
        }
        ProgramStep::ExtraStop => async { profiler::stop(()) }.in_current_trace().await,
        _ => unreachable!("{step:?} is for another function"),
    }
}

/// Each start has one stop, parents are open while children start, and each point has the parent that
/// its name tells.
fn check(records: &[TraceRecord], root: &str) {
    struct PointLifetime {
        number: String,
        start: usize,
        stop: Option<usize>,
    }
    let mut seen: HashMap<&str, PointLifetime> =
        HashMap::from([(root, PointLifetime { number: "0".into(), start: 0, stop: Some(usize::MAX) })]);
    for (at, record) in records.iter().enumerate() {
        let (name, kind) = record.name.rsplit_once('-').unwrap();
        let (number, parent) = name.split_once(':').unwrap();
        if kind == "start" {
            let above = seen.get(record.parent_id.as_str()).expect("the parent has started");
            assert_eq!(above.number, parent, "{}", record.name);
            assert!(above.stop.is_none_or(|stop| stop > at), "the parent of {} has ended", record.name);
            let new = PointLifetime { number: number.to_owned(), start: at, stop: None };
            assert!(seen.insert(&record.trace_id, new).is_none(), "{} started twice", record.name);
        } else {
            let point = seen.get_mut(record.trace_id.as_str()).expect("it has started");
            assert_eq!((point.number.as_str(), point.stop), (number, None), "{}", record.name);
            assert!(point.start < at);
            point.stop = Some(at);
        }
    }
    assert!(seen.values().all(|point| point.stop.is_some()), "a point is still open");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn programs_leave_well_formed_traces(programs in prop::collection::vec(program(), 1..4)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(3).build().unwrap();
        let subscriber = tracing_subscriber::registry().with(InstrumentLayer::new());
        let dispatch = tracing::Dispatch::new(subscriber);
        // Several traces at once, each with its own records.
        let runs: Vec<_> = programs
            .into_iter()
            .map(|steps| {
                let notifier = Arc::new(MemoryNotifier::default());
                let root = trace(&notifier, None);
                let work = run(Arc::default(), steps, 0).in_trace(root.clone());
                (runtime.spawn(work.with_subscriber(dispatch.clone())), notifier, root)
            })
            .collect();
        for (task, notifier, root) in runs {
            runtime.block_on(task).unwrap();
            check(&notifier.records(), root.id());
        }
    }
}
