//! What building the signed headers costs: ids, info, HMAC, traceparent, laid out as they are sent.

#![expect(clippy::print_stdout, reason = "it is a program that prints")]

use std::hint::black_box;
use std::time::Instant;

use bench::base::ids::IdSpace;
use bench::base::secret::Secret;
use bench::client::headers::HeaderBlock;
use bench::osprofiler::signing::{Signer, traceparent};
use http::HeaderName;

const ROUNDS: usize = 15;
const ITERATIONS: u64 = 100_000;

fn main() {
    let signer = Signer::new(&Secret::new("perf-key")).expect("a key");
    for (label, points, goal_ns) in
        [("a fresh base_id for each request", 1, 230.0), ("one base_id for ten requests", 10, 160.0)]
    {
        let mut rounds: Vec<f64> = (0..ROUNDS).map(|_| nanoseconds(&signer, points)).collect();
        rounds.sort_by(f64::total_cmp);
        let median_ns = rounds[ROUNDS / 2];
        let verdict = if median_ns <= goal_ns { "ok" } else { "MISSED" };
        println!("header building, {label:34} {median_ns:6.0} ns a request   goal {goal_ns:.0}  {verdict}");
    }
}

fn nanoseconds(signer: &Signer, points: u32) -> f64 {
    let names = ["x-trace-info", "x-trace-hmac", "traceparent"].map(HeaderName::from_static);
    let ids = IdSpace::random();
    let mut block = HeaderBlock::default();
    let started = Instant::now();
    for iteration in 0..ITERATIONS {
        let base_id = ids.base_id(0, iteration);
        let signer = signer.for_base(base_id);
        for point in 1..=points {
            let point_id = ids.point_id(0, iteration, point);
            let signed = signer.sign(point_id);
            let (info, hmac) = signed.as_bytes();
            block.clear();
            block.push_valid(&names[0], info);
            block.push_valid(&names[1], hmac);
            block.push_valid(&names[2], traceparent(base_id, point_id).as_bytes());
            black_box(&block);
        }
    }
    started.elapsed().as_nanos() as f64 / (ITERATIONS * u64::from(points)) as f64
}
