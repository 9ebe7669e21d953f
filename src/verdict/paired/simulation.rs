//! Simulated builds, compared as in `bench ab`: rounds of a fixed length, six users, random noise.

use super::*;
use results::model::Outcome;
use statistics::order::{at_rank, rank};

const USERS: usize = 6;

/// A simulated build and its load.
#[derive(Clone, Debug)]
pub(super) struct Build {
    /// The median of the lognormal iteration times.
    pub(super) median_ms: f64,
    /// The length of a first round.
    pub(super) round_ms: f64,
    /// The share of iterations that hang until they are cut off.
    pub(super) hangs: f64,
    /// The share of iterations that fail at once.
    pub(super) fails: f64,
}

impl Default for Build {
    fn default() -> Self {
        Self { median_ms: 10.0, round_ms: 500.0, hangs: 0.0, fails: 0.0 }
    }
}

/// The measurements of one side of a pair so far.
#[derive(Default)]
struct SideMeasurements {
    ok_ms: Vec<f64>,
    failed: u64,
    cut_off: u64,
}

impl SideMeasurements {
    fn round(&self, series: &[PercentileSeries]) -> Round {
        let mut sorted = self.ok_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let (ok, others) = (sorted.len() as u64, self.failed + self.cut_off);
        let value = |series: &PercentileSeries| {
            let rank = rank(ok + others, series.percentile);
            let value = rank.and_then(|rank| at_rank(&sorted, rank));
            (value.unwrap_or(f64::INFINITY), ok + self.failed)
        };
        Round { ended: vec![(ok, others)], values: series.iter().map(value).collect(), counts: Vec::new() }
    }
}

struct Noise(fastrand::Rng);

impl Noise {
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.0.f64() - 0.5).sum()
    }
}

fn measure(build: &Build, factor: f64, slow: f64, noise: &mut Noise, side: &mut SideMeasurements) {
    for _ in 0..USERS {
        let mut at_ms = 0.0;
        while at_ms < build.round_ms * factor {
            if noise.0.f64() < build.hangs {
                side.cut_off += 1;
                break;
            }
            if noise.0.f64() < build.fails {
                side.failed += 1;
                at_ms += 1.0;
                continue;
            }
            let ms = build.median_ms * slow * (0.3 * noise.normal()).exp();
            side.ok_ms.push(ms);
            at_ms += ms;
        }
    }
}

/// The verdict on B by p50 and p95, with at most 20 pairs.
pub(super) fn compare(a: &Build, b: &Build, seed: u64) -> Outcome {
    let series: Vec<PercentileSeries> = [50.0, 95.0]
        .map(|percentile| PercentileSeries {
            workload: 0,
            action: None,
            phase: None,
            percentile,
            gated: true,
        })
        .to_vec();
    let mut noise = Noise(fastrand::Rng::with_seed(seed));
    let mut trial = Trial::new(Rules { margin: 0.1, looks: [10, 20] }, series.clone());
    let mut factor = 1.0;
    loop {
        let shared = 0.1 * noise.normal();
        let (slow_a, slow_b) =
            ((shared + 0.03 * noise.normal()).exp(), (shared + 0.03 * noise.normal()).exp());
        let (mut of_a, mut of_b, mut length) =
            (SideMeasurements::default(), SideMeasurements::default(), 0.0);
        loop {
            measure(a, factor, slow_a, &mut noise, &mut of_a);
            measure(b, factor, slow_b, &mut noise, &mut of_b);
            length += factor;
            let span = RoundLengths { pair: length, round: factor, may_lengthen: true };
            match trial.offer(&of_a.round(&series), &of_b.round(&series), span) {
                PairDecision::Longer { factor: longer, .. } => factor = longer,
                PairDecision::Taken | PairDecision::LeftOut(_) => break,
            }
        }
        if let Some(decision) = trial.decide() {
            return decision.outcome;
        }
    }
}
