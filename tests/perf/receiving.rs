//! Which traces the receiver keeps at full volume, and what that costs:
//! `cargo bench --bench receiving -- [--iterations N]`, ten million without a number.
//!
//! Iterations of 20 spans of about 300 bytes arrive in virtual time at 20,000 a second: spans before the end of their
//! iteration, up to ten seconds after it, never, or twice. Afterwards the run's log is read, traces are chosen as for a
//! report, and each chosen trace must be there with all of its spans that were sent; so must the slowest and a share
//! of the failed iterations. Ends with an error if one is not, or if memory or disk were over their bounds. Processor
//! time is printed, never judged.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and may stop")]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::time::{Duration, Instant};

use bench::measure::ids::RunIds;
use bench::measure::log::{End, Header, LogWriter};
use bench::measure::rows::Rows;
use bench::measure::sample::{CompletionStatus, IterationSample};
use bench::receive::Taker;
use bench::receive::spool::sampling::SamplingQuota;
use bench::receive::spool::segments::Folder;
use bench::receive::spool::stored::StoredSpans;
use bench::receive::spool::{Spool, SpoolCounts, SpoolLimits};
use bench::results::aggregate::Aggregate;
use bench::results::choice::{IterationClass, choose};
use bench::terms::control::ControlShare;
use serde_json::json;
use uuid::Uuid;

const ITERATIONS: u64 = 10_000_000;
const SPANS: u32 = 20;
const SLOWEST: usize = 1_000;
/// Iterations a second of virtual time.
const RATE: u64 = 20_000;
/// The steps of virtual time; iterations of ten make a batch.
const TICK_NS: u64 = 10_000_000;
const BATCH_TICKS: u64 = 10;
/// An iteration takes at most five seconds, and its spans come at most ten seconds later.
const TICKS_AHEAD: usize = 1_510;
const MEMORY_MAX: u64 = 256 << 20;
const DISK_MAX: u64 = 1_000_000_000;

/// A number from a seed (SplitMix64).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Between 0 and 1; the same for the same numbers.
fn unit(number: u64, purpose: u64) -> f64 {
    (mix(number ^ mix(purpose)) >> 11) as f64 / (1_u64 << 53) as f64
}

fn start_ns(number: u64) -> u64 {
    number * 1_000_000_000 / RATE
}

/// Some tens of milliseconds, one in fifty much longer, up to five seconds.
fn duration_ns(number: u64) -> u64 {
    let normal = (0..6).map(|purpose| unit(number, purpose)).sum::<f64>() - 3.0;
    let tail = if unit(number, 6) < 0.02 { 3.0 + 30.0 * unit(number, 7) } else { 1.0 };
    ((40e6 * (0.5 * normal).exp() * tail) as u64).min(5_000_000_000)
}

fn ended(number: u64) -> CompletionStatus {
    if unit(number, 8) < 0.001 { CompletionStatus::Failed } else { CompletionStatus::Ok }
}

/// When a span comes, how often, and its size in bytes: one of ten before the end of its iteration, the others after
/// it; one of a hundred never, one of a hundred twice.
fn span(number: u64, index: u32) -> (u64, u32, usize) {
    let purpose = 100 + u64::from(index);
    let (when, fate) = (unit(number, purpose), unit(number, purpose + 100));
    let (start_ns, duration_ns) = (start_ns(number), duration_ns(number));
    let at_ns = match index {
        0 | 1 => start_ns + (when * duration_ns as f64) as u64,
        _ => start_ns + duration_ns + (when * when * 10e9) as u64,
    };
    let times = if fate < 0.01 { 0 } else { 1 + u32::from(fate > 0.99) };
    (at_ns, times, 200 + (mix(number ^ purpose) % 200) as usize)
}

/// A calendar: what comes in each tick.
struct Calendar<T> {
    ticks: Vec<Vec<T>>,
    at: usize,
}

impl<T> Calendar<T> {
    fn new() -> Self {
        Self { ticks: (0..TICKS_AHEAD).map(|_| Vec::new()).collect(), at: 0 }
    }

    fn add(&mut self, now_ns: u64, at_ns: u64, event: T) {
        let ahead = (at_ns.saturating_sub(now_ns) / TICK_NS) as usize;
        let tick = (self.at + ahead.min(TICKS_AHEAD - 1)) % TICKS_AHEAD;
        self.ticks[tick].push(event);
    }

    fn next(&mut self) -> Vec<T> {
        let events = std::mem::take(&mut self.ticks[self.at]);
        self.at = (self.at + 1) % TICKS_AHEAD;
        events
    }
}

/// Of this thread: what else the machine does must not count.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[derive(Default)]
struct Cost {
    taking: Duration,
    spans: u64,
    deciding: Duration,
    /// Waiting for the disk, which in real time would have been as fast as this load.
    waiting: Duration,
}

fn main() {
    let words = std::env::args().skip(1);
    let iterations = words.filter_map(|word| word.parse().ok()).next().unwrap_or(ITERATIONS);
    let folder = tempfile::tempdir().unwrap();
    let ids = RunIds::random(ControlShare::NONE);
    let wanted = SamplingQuota { traces: (200, 100), slowest: SLOWEST, in_a_row: (0, 0) };
    let disk = Box::new(Folder::make(folder.path()).unwrap());
    let spool = Spool::start(ids, 1, wanted, SpoolLimits::default(), disk).unwrap();
    println!("{iterations} iterations of {SPANS} spans, {} s of virtual time", iterations / RATE);
    let began = Instant::now();
    let cost = arrive(&spool, ids, iterations);
    let wall = began.elapsed();
    let at_end = Instant::now();
    let (stored, counts) = spool.finish().unwrap();
    let finishing = at_end.elapsed();
    let rss = peak_rss_bytes();
    print(iterations, &cost, wall, finishing, &counts, rss);
    let files: u64 = std::fs::read_dir(folder.path().join("spans"))
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum();
    println!("files                    {:10.1} MB", files as f64 / 1e6);
    assert!(counts.memory_peak_bytes <= MEMORY_MAX && rss <= MEMORY_MAX, "memory over its bound");
    assert!(files <= DISK_MAX && counts.disk_peak_bytes <= DISK_MAX, "disk over its bound");
    assert_eq!(counts.kept_spans + counts.let_go.not_chosen + counts.let_go.losses(), counts.spans);
    check(&stored, ids, iterations, folder.path());
}

/// Lets all spans and batches arrive in the order of virtual time.
fn arrive(spool: &Spool, ids: RunIds, iterations: u64) -> Cost {
    let mut cost = Cost::default();
    let (mut spans, mut ends) = (Calendar::new(), Calendar::new());
    let (mut rows, mut now_ns, mut number, mut tick) = (Rows::default(), 0_u64, 0_u64, 0_u64);
    let payload = vec![7; 400];
    let last_ns = start_ns(iterations) + TICKS_AHEAD as u64 * TICK_NS;
    while now_ns <= last_ns {
        while number < iterations && start_ns(number) < now_ns + TICK_NS {
            ends.add(now_ns, start_ns(number) + duration_ns(number), number as u32);
            for index in 0..SPANS {
                let (at_ns, times, _) = span(number, index);
                (0..times).for_each(|again| {
                    spans.add(now_ns, at_ns + u64::from(again) * 50_000_000, (number as u32, index as u8));
                });
            }
            number += 1;
        }
        let due = spans.next();
        let ready: Vec<(u128, usize)> = due
            .iter()
            .map(|(number, index)| {
                let number = u64::from(*number);
                (ids.trace_id((0, number)).as_u128(), span(number, u32::from(*index)).2)
            })
            .collect();
        let began = processor_time();
        for (trace_id, length) in &ready {
            if spool.wants(*trace_id) {
                spool.take(*trace_id, 1, &payload[..*length]);
            }
        }
        cost.taking += processor_time() - began;
        cost.spans += ready.len() as u64;
        ends.next().into_iter().for_each(|number| rows.push(&sample(u64::from(number))));
        tick += 1;
        now_ns += TICK_NS;
        if tick % BATCH_TICKS == 0 {
            let began = processor_time();
            spool.batch(&rows);
            cost.deciding += processor_time() - began;
            rows.clear();
            let began = Instant::now();
            while spool.counts().queued_bytes > 16 << 20 {
                std::thread::sleep(Duration::from_millis(1));
            }
            cost.waiting += began.elapsed();
        }
    }
    cost
}

fn sample(number: u64) -> IterationSample {
    IterationSample {
        number,
        due_ns: start_ns(number),
        start_ns: start_ns(number),
        duration_ns: duration_ns(number),
        ended: ended(number),
        error: u32::from(ended(number) == CompletionStatus::Failed),
        ..IterationSample::default()
    }
}

fn print(iterations: u64, cost: &Cost, wall: Duration, finishing: Duration, counts: &SpoolCounts, rss: u64) {
    let each = |time: Duration, of: u64| time.as_nanos() as f64 / of.max(1) as f64;
    let mb = |bytes: u64| bytes as f64 / 1e6;
    println!(
        "the receiver's cost      {:10.1} ns a span ({} spans)",
        each(cost.taking, cost.spans),
        cost.spans
    );
    println!("the coordinator's cost   {:10.1} ns an iteration", each(cost.deciding, iterations));
    println!("waited for the disk      {:10.2} s of {:.1} s", cost.waiting.as_secs_f64(), wall.as_secs_f64());
    println!("finished in              {:10.2} s", finishing.as_secs_f64());
    println!("memory as counted, peak  {:10.1} MB", mb(counts.memory_peak_bytes));
    println!("peak RSS                 {:10.1} MB, the simulation included", mb(rss));
    println!("disk, peak               {:10.1} MB", mb(counts.disk_peak_bytes));
    println!(
        "traces kept              {:10} with {} spans, {} partial",
        counts.kept_traces, counts.kept_spans, counts.partial_traces
    );
    println!("let go                   {:?}, halved {} times", counts.let_go, counts.halved);
}

/// Compares what is stored with what was sent of the iterations that matter.
fn check(stored: &StoredSpans, ids: RunIds, iterations: u64, folder: &std::path::Path) {
    let mut slowest = BinaryHeap::new();
    let mut failed = Vec::new();
    let path = folder.join("run.log");
    let mut log = LogWriter::create(&path).unwrap();
    log.header(&header(ids)).unwrap();
    let mut rows = Rows::default();
    for number in 0..iterations {
        rows.push(&sample(number));
        if rows.len() == 4_096 {
            log.samples(&rows).unwrap();
            rows.clear();
        }
        slowest.push(Reverse((duration_ns(number), number)));
        if slowest.len() > SLOWEST {
            slowest.pop();
        }
        if ended(number) == CompletionStatus::Failed {
            failed.push((ids.draw((0, number)), number));
        }
    }
    log.samples(&rows).unwrap();
    log.end(&End::default()).unwrap();
    drop(log);
    failed.sort_unstable();
    let began = Instant::now();
    let checked = |numbers: &mut dyn Iterator<Item = u64>| {
        let mut count = 0;
        for number in numbers {
            check_trace(stored, ids, number);
            count += 1;
        }
        count
    };
    let slow = checked(&mut slowest.into_iter().map(|Reverse((_, number))| number));
    println!("the slowest              {slow:10} complete");
    let failed = checked(&mut failed.into_iter().take(50).map(|(_, number)| number));
    println!("random failed ones       {failed:10} complete");
    let chosen = choose(&Aggregate::read(&path).unwrap());
    for side in [IterationClass::Slow, IterationClass::Typical, IterationClass::Failed, IterationClass::Other]
    {
        let of_side = checked(&mut chosen.iter().filter(|one| one.side == side).map(|one| one.sample.number));
        println!("chosen from the log      {of_side:10} complete, {side:?}");
    }
    let read = chosen.iter().map(|one| ids.trace_id(&one.sample).as_u128()).collect::<HashSet<u128>>();
    println!(
        "traces of the choice     {:10} read and compared in {:.2} s",
        read.len(),
        began.elapsed().as_secs_f64()
    );
}

/// All spans that were sent of a trace are there: each by its size.
fn check_trace(stored: &StoredSpans, ids: RunIds, number: u64) {
    let sent = (0..SPANS).map(|index| span(number, index));
    let mut sent: Vec<usize> = sent.flat_map(|(_, times, length)| (0..times).map(move |_| length)).collect();
    let trace = stored.trace(ids.trace_id((0, number)).as_u128()).unwrap();
    let mut found: Vec<usize> = trace.iter().map(Vec::len).collect();
    sent.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, sent, "iteration {number} is not complete");
}

fn header(ids: RunIds) -> Header {
    let header = json!({
        "run_id": Uuid::new_v4(), "id_seed": ids.seed(), "started_unix_ns": 0,
        "scenario": {"title": "receiving", "file": "", "sha256": "", "set": {}},
        "deployment": {"name": "none", "file": "", "targets": {}, "tls_verified": true, "auth": "none"},
        "profiling_off": null, "collector": null, "traces_wanted": [200, 100],
        "environment": {"bench_version": "", "os": "", "cpus": 2, "workers": 1},
        "notes": [], "workloads": [{"name": "w", "runner": {}, "sla": {}, "actions": []}],
    });
    serde_json::from_value(header).unwrap()
}

/// The most memory that this process ever had; 0 where the system does not say.
fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}
