//! What merging shards costs: `cargo bench --bench merging [ITERATIONS]`, a hundred million without a number.
//!
//! Four simulated logs of a load of one action are merged as `bench merge` does it, with results and report. Printed,
//! never judged: machines differ. 10⁹ iterations need 27 GB of disk.

#![expect(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and may stop")]

use std::path::Path;
use std::time::{Duration, Instant};

use bench::harness::event::silent;
use bench::harness::merge::{MergeOptions, merge};
use bench::harness::options::ReportOptions;
use bench::measure::log::{End, IterationCounts, LogWriter, ShardStart};
use bench::measure::rows::Rows;
use bench::results::directory::RunDirectory;
use serde_json::{Value, json};

#[path = "simulated.rs"]
mod simulated;

use simulated::{RATE, Random, header, peak_rss_mb, sample};

const ITERATIONS: u64 = 100_000_000;
const SHARDS: u32 = 4;
/// Iterations of a block of the log.
const BLOCK: u64 = 8_000;
/// Samples made beforehand, used over and over with other numbers and starts.
const PREPARED: usize = 1 << 12;

fn main() {
    let iterations = std::env::args().filter_map(|word| word.parse().ok()).next().unwrap_or(ITERATIONS);
    let folder = tempfile::tempdir().unwrap();
    let header = header(1);
    let began = Instant::now();
    let bytes: u64 = (0..SHARDS).map(|index| write(folder.path(), &header, index, iterations)).sum();
    println!(
        "{iterations} iterations in {SHARDS} logs of {:.2} GB together, written in {:.1} s; peak RSS {:.1} MB",
        bytes as f64 / 1e9,
        began.elapsed().as_secs_f64(),
        peak_rss_mb()
    );
    let options = MergeOptions {
        directories: vec![folder.path().join("shards")],
        out: folder.path().join("merged"),
        partial: false,
        wait: Duration::ZERO,
        report: ReportOptions::default(),
    };
    let began = Instant::now();
    let finished = merge(&options, &silent()).unwrap();
    let (seconds, results) = (began.elapsed().as_secs_f64(), finished.results);
    println!(
        "merged in {seconds:.1} s, {:.0} ns an iteration; peak RSS {:.1} MB; {} iterations in the results",
        seconds * 1e9 / iterations as f64,
        peak_rss_mb(),
        results.workloads[0].iterations.total
    );
}

/// Writes the log of a shard; gives its length.
fn write(folder: &Path, header: &Value, index: u32, iterations: u64) -> u64 {
    let mut header = header.clone();
    header["shard"] = json!({"index": index, "count": SHARDS, "job": "merging"});
    let directory = RunDirectory::make(&folder.join(format!("shards/{index}"))).unwrap();
    let mut log = LogWriter::create(&directory.log()).unwrap();
    log.header(&serde_json::from_value(header).unwrap()).unwrap();
    log.began(&ShardStart::default()).unwrap();
    let mut random = Random(index.into());
    let mut prepared: Vec<_> = (0..PREPARED).map(|_| sample(&mut random, true)).collect();
    let lags: Vec<u64> = prepared.iter().map(|sample| sample.start_ns).collect();
    let own = (u64::from(index)..iterations).step_by(SHARDS as usize);
    let count = own.clone().count() as u64;
    let mut rows = Rows::default();
    for (place, number) in own.enumerate() {
        let sample = &mut prepared[place % PREPARED];
        sample.number = number;
        sample.due_ns = number * 1_000_000_000 / RATE;
        sample.start_ns = sample.due_ns + lags[place % PREPARED];
        rows.push(sample);
        if rows.len() as u64 == BLOCK {
            log.samples(&rows).unwrap();
            log.flush().unwrap();
            rows.clear();
        }
    }
    log.samples(&rows).unwrap();
    let issued = IterationCounts {
        planned: Some(count),
        issued: count,
        not_started: Some(0),
        ..IterationCounts::default()
    };
    log.end(&End { issued: vec![issued], ..End::default() }).unwrap();
    log.length_bytes()
}
