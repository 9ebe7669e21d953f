//! The length of the rounds of a pair: equal for both sides, and longer when either side had too few samples.
//!
//! Short rounds are kept: discarding them because B was slow would make B look faster. Instead, longer rounds of both
//! sides are added to the same pair, and all further rounds have the new length. If B still has too few samples in the
//! longest rounds, or is clearly much slower, the pair counts as it is: it can lead to FAIL, never to PASS.

use super::series::{PercentileSeries, Round};
use super::{Decision, Trial};
use results::model::Outcome;

/// Rounds last at most this many times the first length.
pub const LENGTHEN_MAX: f64 = 10.0;
/// A reserve over the length that the observed rate requires, so that the next round is not short again.
const SPARE: f64 = 1.25;
/// B needs no further samples if it takes this many times what the margin allows, and A completes more than this many
/// times as many iterations.
const MUCH_SLOWER: f64 = 2.0;

/// The lengths of a pair's rounds, in units of a first round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundLengths {
    /// All rounds of one side of the pair together.
    pub pair: f64,
    /// The last of them.
    pub round: f64,
    /// False when something ended a round early: a longer round would end as early.
    pub may_lengthen: bool,
}

/// Whether a pair counts.
#[derive(Clone, Debug, PartialEq)]
pub enum PairDecision {
    /// It counts.
    Taken,
    /// It is discarded, for this reason.
    LeftOut(String),
    /// Both sides need further rounds, and rounds are longer from now on.
    Longer {
        /// The length of a round, in units of a first round.
        factor: f64,
        /// The reason.
        why: String,
    },
}

/// The missing samples of one side of a pair.
struct SampleShortfall<'a> {
    is_b: bool,
    series: &'a PercentileSeries,
    samples: u64,
}

impl SampleShortfall<'_> {
    fn share(&self) -> f64 {
        self.samples as f64 / self.series.samples_min() as f64
    }

    fn words(&self) -> String {
        let side = if self.is_b { "B" } else { "A" };
        let (percentile, needed) = (self.series.percentile, self.series.samples_min());
        format!("p{percentile} needs {needed} samples in every round, and {side} had {}", self.samples)
    }
}

impl Trial {
    /// Adds a pair if its rounds are long enough. `a` and `b` are all rounds of each side so far.
    pub fn offer(&mut self, a: &Round, b: &Round, span: RoundLengths) -> PairDecision {
        // A round without a success has no percentiles; `Trial::decide` handles it.
        let worst = if a.broken() || b.broken() { None } else { self.worst_lack(a, b) };
        let Some(lack) = worst else {
            self.push(a.clone(), b.clone());
            return PairDecision::Taken;
        };
        let wanted = span.pair / lack.share().max(1e-9);
        if !lack.is_b && self.pairs.is_empty() && span.round <= 1.0 && wanted > LENGTHEN_MAX {
            let reason = format!(
                "{}, too few even with rounds {LENGTHEN_MAX} times as long: make rounds longer (--round), or gate a \
                 lower percentile (--metric)",
                lack.words()
            );
            self.given_up = Some(Decision { outcome: Outcome::Invalid, reasons: vec![reason.clone()] });
            return PairDecision::LeftOut(reason);
        }
        if span.may_lengthen && span.round < LENGTHEN_MAX {
            // At least as long as the last round, which lacked samples.
            let factor = (wanted * SPARE).min(LENGTHEN_MAX);
            let factor = (factor * 10.0).ceil() / 10.0;
            let why = format!("{}: rounds of both are {factor} times as long from now on", lack.words());
            return PairDecision::Longer { factor, why };
        }
        if lack.is_b {
            self.push(a.clone(), b.clone());
            PairDecision::Taken
        } else {
            let words = lack.words();
            self.discard();
            PairDecision::LeftOut(words)
        }
    }

    /// The gated percentile that lacks most. A comes first, because B may have caused its own lack.
    fn worst_lack(&self, a: &Round, b: &Round) -> Option<SampleShortfall<'_>> {
        let of = |is_b: bool| {
            let gated = self.series.iter().enumerate().filter(|(_, series)| series.gated);
            let lacks = gated.filter_map(move |(index, series)| {
                let round = if is_b { b } else { a };
                let samples = round.values.get(index)?.1;
                let short =
                    samples < series.samples_min() && !(is_b && is_much_slower(index, a, b, self.margin()));
                short.then_some(SampleShortfall { is_b, series, samples })
            });
            lacks.min_by(|one, other| one.share().total_cmp(&other.share()))
        };
        of(false).or_else(|| of(true))
    }

    fn margin(&self) -> f64 {
        self.rules.margin
    }
}

fn is_much_slower(index: usize, a: &Round, b: &Round, margin: f64) -> bool {
    match (a.values.get(index), b.values.get(index)) {
        (Some((a_ms, a_samples)), Some((b_ms, b_samples))) => {
            *b_ms >= a_ms * (1.0 + margin) * MUCH_SLOWER
                && *b_samples as f64 * MUCH_SLOWER < *a_samples as f64
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A has a hundred samples of 10 ms, and the margin is a tenth: 22 ms are much slower, if B has less than half of them.
    #[test]
    fn much_slower_is_slow_and_few() {
        let round =
            |ms, samples| Round { ended: Vec::new(), values: vec![(ms, samples)], counts: Vec::new() };
        for (ms, samples, expected) in [
            (22.1, 49, true),
            (f64::INFINITY, 0, true),
            (21.9, 49, false),
            (22.1, 50, false),
            (22.1, 60, false),
            (22.1, 100, false),
        ] {
            let (a, b) = (round(10.0, 100), round(ms, samples));
            assert_eq!(is_much_slower(0, &a, &b, 0.1), expected, "{ms} ms, {samples}");
            assert!(!is_much_slower(1, &a, &b, 0.1));
        }
    }
}
