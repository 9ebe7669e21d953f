//! A simulated service for tests: arrivals at equal distances, several servers, one line, lognormal work.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::search::LevelOutcome;
use crate::servers::QueuedCall;
use statistics::binomial;

/// What is simulated.
pub(crate) struct QueueRules {
    pub(crate) servers: usize,
    pub(crate) mean_work_us: f64,
    /// The standard deviation of the logarithm of the work.
    pub(crate) sigma: f64,
    pub(crate) seed: u64,
}

/// The calls of a service at this rate, in the order of their arrival.
pub(crate) fn calls(
    rules: &QueueRules,
    level: usize,
    rate_per_s: f64,
    seconds: f64,
    random: bool,
) -> Vec<QueuedCall> {
    let mut drawn = fastrand::Rng::with_seed(rules.seed.wrapping_mul(1_000_003).wrapping_add(level as u64));
    let mut free: BinaryHeap<Reverse<i64>> = (0..rules.servers).map(|_| Reverse(0)).collect();
    let mut due_us = 0.0;
    let mut calls = Vec::new();
    while due_us < seconds * 1e6 {
        let ready_us = due_us as i64;
        let Some(Reverse(free_us)) = free.pop() else { break };
        let start_us = ready_us.max(free_us);
        let normal = (-2.0 * (1.0 - drawn.f64()).ln()).sqrt() * (std::f64::consts::TAU * drawn.f64()).cos();
        let work_us = rules.mean_work_us * (rules.sigma * normal - rules.sigma * rules.sigma / 2.0).exp();
        let end_us = start_us + work_us as i64;
        free.push(Reverse(end_us));
        calls.push(QueuedCall { ready_us, start_us, end_us });
        let gap = if random { -(1.0 - drawn.f64()).ln() } else { 1.0 };
        due_us += gap * 1e6 / rate_per_s;
    }
    calls
}

/// Whether 99 % of the calls of a level end within a time of their arrival.
pub(crate) fn judged(
    rules: &QueueRules,
    level: usize,
    rate_per_s: f64,
    seconds: f64,
    limit_us: i64,
) -> LevelOutcome {
    // Enough to judge a p99.
    let seconds = seconds.max(600.0 / rate_per_s);
    let calls = calls(rules, level, rate_per_s, seconds, false);
    let late = calls.iter().filter(|call| call.end_us - call.ready_us > limit_us).count();
    let (low, high) = binomial::bounds(late as f64, calls.len() as f64, 0.05);
    match (low > 0.01, high < 0.01) {
        (true, _) => LevelOutcome::Breaks,
        (_, true) => LevelOutcome::Holds,
        _ => LevelOutcome::Unclear,
    }
}
