//! What recording costs: `cargo bench --bench recording [ITERATIONS]`, ten million without a number.
//!
//! Realistic samples, their times to the nanosecond with noise, go through a worker's recorder and the
//! log to results, report and exports, as in a run. Printed, never judged: machines differ.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and may stop")]

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use bench::measure::log::{End, LogWriter};
use bench::measure::recorder::{Batch, Recorder};
use bench::report::html;
use bench::results::aggregate::Aggregate;
use bench::results::directory::{RunDirectory, write_at_once};
use bench::results::export::{ExportFormat, ExportTable, export};
use bench::results::{IterationColumns, build, json};
use uuid::Uuid;

#[path = "simulated.rs"]
mod simulated;

use simulated::{RATE, Random, header, peak_rss_mb, sample};

const ITERATIONS: u64 = 10_000_000;
const WORKERS: u32 = 2;
/// How many are recorded between two looks at the clock.
const THOUSAND: u64 = 1000;
/// Samples made beforehand, used over and over with other numbers and starts.
const PREPARED: usize = 1 << 12;

fn main() {
    let iterations = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(ITERATIONS);
    let folder = tempfile::tempdir().unwrap();
    for (name, open) in [("closed load", false), ("open load", true)] {
        let directory = RunDirectory::create(folder.path(), name, Uuid::new_v4(), 0, None).unwrap();
        println!("{name}, {iterations} iterations of one action");
        record(&directory, iterations, open);
        if open {
            continue;
        }
        everything_else(&directory);
    }
}

fn record(directory: &RunDirectory, iterations: u64, open: bool) {
    let mut log = LogWriter::create(&directory.log()).unwrap();
    log.header(&serde_json::from_value(header(WORKERS)).unwrap()).unwrap();
    let (sender, batches) = sync_channel::<Batch>(64);
    let started = Instant::now();
    let workers: Vec<_> = (0..WORKERS)
        .map(|worker| {
            let recorder = Recorder::new(0, worker, WORKERS, sender.clone());
            std::thread::spawn(move || work(recorder, worker, iterations, open))
        })
        .collect();
    drop(sender);
    let mut writing = Duration::ZERO;
    while let Ok(batch) = batches.recv() {
        let began = Instant::now();
        log.samples(&batch.samples).unwrap();
        log.flush().unwrap();
        writing += began.elapsed();
    }
    log.end(&End::default()).unwrap();
    let wall = started.elapsed();
    // The median: on a machine that does other things as well, some were interrupted.
    let mut thousands: Vec<_> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
    thousands.sort_unstable();
    let recording = thousands[thousands.len() / 2].as_nanos() as f64 / THOUSAND as f64;
    let bytes = log.length_bytes();
    let each = |time: Duration| time.as_nanos() as f64 / iterations as f64;
    println!("  a worker's cost       {recording:8.1} ns an iteration");
    println!("  the coordinator's     {:8.1} ns an iteration", each(writing));
    println!("  written in            {:8.2} s", wall.as_secs_f64());
    println!(
        "  run.log               {:8.1} MB, {:.2} bytes an iteration",
        bytes as f64 / 1e6,
        bytes as f64 / iterations as f64
    );
    println!("  peak RSS              {:8.1} MB", peak_rss_mb());
}

/// Records its share; gives the time that each thousand took, without waiting for the coordinator.
fn work(mut recorder: Recorder, worker: u32, iterations: u64, open: bool) -> Vec<Duration> {
    let mut random = Random(u64::from(worker));
    let mut prepared: Vec<_> = (0..PREPARED).map(|_| sample(&mut random, open)).collect();
    let mut thousands = Vec::new();
    let numbers: Vec<u64> = (0..THOUSAND).map(|index| index * u64::from(WORKERS)).collect();
    let mut first = u64::from(worker);
    let mut at = 0;
    let (mut jitter_ns, mut chunks) = (0, 0);
    while first < iterations {
        // The clock is read once for many samples, or it would be most of what is measured.
        let chunk = numbers.iter().map(|number| first + number).take_while(|number| *number < iterations);
        let chunk: Vec<(u64, usize)> = chunk
            .map(|number| {
                at = (at + 1) % PREPARED;
                let lag_ns = prepared[at].start_ns.saturating_sub(prepared[at].due_ns);
                if !open {
                    // A closed load starts when it starts.
                    jitter_ns = random.next() % 50_000;
                }
                prepared[at].number = number;
                prepared[at].due_ns = number * 1_000_000_000 / RATE + jitter_ns;
                prepared[at].start_ns = prepared[at].due_ns + lag_ns;
                (number, at)
            })
            .collect();
        let began = Instant::now();
        for (_, at) in &chunk {
            recorder.record(&prepared[*at]);
        }
        thousands.push(began.elapsed());
        // As fast as the coordinator takes it, so that nothing is dropped: batches are made above.
        chunks += 1;
        if chunks % 2 == 0 {
            recorder.flush(true);
        }
        first += THOUSAND * u64::from(WORKERS);
    }
    recorder.flush(true);
    thousands
}

fn everything_else(directory: &RunDirectory) {
    let log = directory.log();
    let (results, columns) = timed("results", || {
        let aggregate = Aggregate::read(&log).unwrap();
        let results = build::build(&aggregate);
        let mut columns = IterationColumns::default();
        let write = |output: &mut (dyn Write + Send)| {
            columns = json::write(&results, &aggregate, &HashSet::new(), output)?;
            Ok(())
        };
        write_at_once(&directory.results(), write).unwrap();
        ((results, columns), directory.results())
    });
    timed("report", || {
        let traces = html::ReportTraces { stored: &[], shown: &html::TraceDisplay::Embed };
        write_at_once(&directory.report(), |output| html::render(&results, &columns, traces, output))
            .unwrap();
        ((), directory.report())
    });
    let formats: &[(&str, ExportFormat)] = &[
        ("csv", ExportFormat::Csv),
        ("jsonl", ExportFormat::Jsonl),
        #[cfg(feature = "parquet")]
        ("parquet", ExportFormat::Parquet),
    ];
    for (name, format) in formats {
        for table in [ExportTable::Iterations, ExportTable::Actions] {
            timed(&format!("{name}, {table:?}"), || {
                let path = directory.path().join("export");
                let written = |output: &mut (dyn Write + Send)| {
                    export(&log, table, *format, output).map(drop).map_err(std::io::Error::other)
                };
                write_at_once(&path, written).unwrap();
                ((), path)
            });
        }
    }
}

/// Prints how long a step took and what it wrote, and removes the file.
fn timed<T>(name: &str, step: impl FnOnce() -> (T, std::path::PathBuf)) -> T {
    let began = Instant::now();
    let (result, path) = step();
    println!(
        "  {name:20}  {:8.2} s, {:.1} MB; peak RSS {:.1} MB",
        began.elapsed().as_secs_f64(),
        bytes_of(&path) as f64 / 1e6,
        peak_rss_mb()
    );
    std::fs::remove_file(path).unwrap();
    result
}

fn bytes_of(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}
