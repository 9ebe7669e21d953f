//! What trace points cost where nothing is traced: `cargo bench --bench tracing [ROUNDS]`.
//!
//! The same work with and without points in it, in turns in one process: without a profiler, which
//! must be free, and with one, for comparison. Printed, never judged: machines differ.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and may stop")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use bench::osprofiler::instrument::{InstrumentLayer, TracedSpanFilter};
use bench::osprofiler::notifier::Notifier;
use bench::osprofiler::profiler;
use bench::osprofiler::record::{ServiceIdentity, TraceRecord};
use bench::osprofiler::trace::TraceHandle;
use serde_json::json;
use tracing_subscriber::layer::SubscriberExt as _;
use uuid::Uuid;

const ROUNDS: u32 = 2_000;
/// Calls in a round.
const CALLS: u32 = 500;

type BenchmarkCall = fn(u64) -> u64;

/// About a microsecond: less than any function that somebody would want to trace.
#[inline(never)]
fn work(seed: u64) -> u64 {
    let mut value = black_box(seed);
    for _ in 0..400 {
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    }
    value
}

fn bare(seed: u64) -> u64 {
    work(seed)
}

fn explicit(seed: u64) -> u64 {
    profiler::start("work", || json!({"seed": seed}));
    let value = work(seed);
    profiler::stop(());
    value
}

fn closure(seed: u64) -> u64 {
    profiler::trace_sync("work", || json!({"seed": seed}), || work(seed))
}

#[tracing::instrument]
fn instrumented(seed: u64) -> u64 {
    work(seed)
}

fn future(seed: u64) -> u64 {
    let scope = profiler::trace("work", move || json!({"seed": seed}), async move { work(seed) });
    poll(scope)
}

fn bare_future(seed: u64) -> u64 {
    poll(async move { work(seed) })
}

fn poll<F: Future>(future: F) -> F::Output {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(output) => output,
        std::task::Poll::Pending => panic!("nothing here waits"),
    }
}

fn round_ns(calls: u32, call: BenchmarkCall) -> f64 {
    let started = Instant::now();
    for seed in 0..u64::from(calls) {
        black_box(call(seed));
    }
    started.elapsed().as_nanos() as f64 / f64::from(calls)
}

/// The fastest of many short rounds that take turns: what else the machine does can only add.
fn fastest_ns(rounds: u32, calls: u32, all: &[(&str, BenchmarkCall)]) -> Vec<f64> {
    let mut fastest = vec![f64::INFINITY; all.len()];
    for _ in 0..rounds {
        for (fastest, (_, call)) in fastest.iter_mut().zip(all) {
            *fastest = fastest.min(round_ns(calls, *call));
        }
    }
    fastest
}

fn print(title: &str, rounds: u32, calls: u32, all: &[(&str, BenchmarkCall)]) {
    println!("{title}: fastest of {rounds} rounds of {calls} calls");
    let fastest = fastest_ns(rounds, calls, all);
    for ((name, _), ns) in all.iter().zip(&fastest) {
        let base = fastest[0];
        println!("  {name:<28} {ns:>9.1} ns a call, {:>+8.1} ns, ratio {:.4}", ns - base, ns / base);
    }
}

fn main() {
    let rounds = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(ROUNDS);
    let all: [(&str, BenchmarkCall); 7] = [
        ("the work", bare),
        ("the work again (noise)", bare),
        ("start and stop", explicit),
        ("trace_sync", closure),
        ("the work in a future", bare_future),
        ("trace around that", future),
        ("#[instrument]", instrumented),
    ];
    print("without a subscriber, not traced", rounds, CALLS, &all);
    let subscriber = tracing_subscriber::registry().with(InstrumentLayer::new()).with(TracedSpanFilter);
    tracing::subscriber::set_global_default(subscriber).unwrap();
    print("with the layer, not traced", rounds, CALLS, &all);
    let discard: Arc<dyn Notifier> = Arc::new(|record: TraceRecord| drop(black_box(record)));
    let identity =
        ServiceIdentity { project: "perf".into(), service: "tracing".into(), host: "localhost".into() };
    let trace = TraceHandle::start(Uuid::new_v4(), None, Arc::new(identity), discard);
    trace.run(|| print("with the layer, traced (two records a call)", rounds / 20, CALLS, &all));
}
