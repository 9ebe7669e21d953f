//! Numbers among the attributes of services: rows, queue depths, requests in flight. Nearly every trace has another value,
//! so values say nothing and bounds do: a number is at least, or below, one of the deciles of all traces.
//!
//! The deciles do not depend on which traces are slow, so that they can be tested as any other value. How closely a
//! number goes with the time that a trace takes is told by Spearman's rank correlation with its bounds. It is over the
//! traces that are compared: slow and typical ones, not the ones between.

use std::collections::BTreeMap;

use super::feature::{AT_LEAST, BELOW, Feature};
use super::features;
use base::parallel;
use osprofiler::report::TraceTree;
use results::model::{AttributeValue, Correlation};

/// Fewer different values are told one by one.
const DISTINCT_MIN: usize = 4;
/// Fewer traces have no correlation.
const TRACES_MIN: usize = 20;
/// The standard error of Fisher's transformation of Spearman's coefficient, times the root of n - 3 (Fieller, Hartley and
/// Pearson, 1957), and the normal deviate of 95 %.
const SPREAD: f64 = 1.06;
const DEVIATE: f64 = 1.96;
/// Bounds are the first to the ninth tenth of all values.
const TENTHS: usize = 10;

/// The numbers of traces: of each attribute, the trace's index and the largest value in it.
pub(super) struct Numbers(BTreeMap<String, Vec<(usize, f64)>>);

impl Numbers {
    pub(super) fn of(trees: &[&TraceTree]) -> Self {
        let mut all: BTreeMap<String, Vec<(usize, f64)>> = BTreeMap::new();
        for (trace, numbers) in parallel::map(trees.to_vec(), features::numbers).into_iter().enumerate() {
            for (attribute, number) in numbers {
                all.entry(attribute).or_default().push((trace, number));
            }
        }
        all.retain(|_, values| {
            let mut distinct: Vec<f64> = values.iter().map(|(_, number)| *number).collect();
            distinct.sort_by(f64::total_cmp);
            distinct.dedup();
            distinct.len() >= DISTINCT_MIN
        });
        Self(all)
    }

    /// The bounds of every attribute, each with the traces that keep it.
    pub(super) fn bounds(&self) -> impl Iterator<Item = (Feature, Vec<usize>)> {
        self.0.iter().flat_map(|(attribute, values)| {
            let mut sorted: Vec<f64> = values.iter().map(|(_, number)| *number).collect();
            sorted.sort_by(f64::total_cmp);
            let mut bounds: Vec<f64> =
                (1..TENTHS).map(|tenth| sorted[tenth * sorted.len() / TENTHS]).collect();
            bounds.dedup();
            bounds.into_iter().zip(1..).flat_map(move |(bound, level)| {
                let of = |word: &str, level: u32, keeps: &dyn Fn(f64) -> bool| {
                    let value = format!("{word}{bound}");
                    let feature = Feature { level, ..Feature::new(attribute, value) };
                    let traces = values.iter().filter(|(_, number)| keeps(*number)).map(|(trace, _)| *trace);
                    (feature, traces.collect())
                };
                let tenths = u32::try_from(TENTHS).unwrap_or(u32::MAX);
                [
                    of(AT_LEAST, level, &|number| number >= bound),
                    of(BELOW, tenths.saturating_sub(level), &|number| number < bound),
                ]
            })
        })
    }

    /// How closely an attribute goes with how long the traces take.
    pub(super) fn correlation(&self, value: &AttributeValue, trees: &[&TraceTree]) -> Option<Correlation> {
        let values = self.0.get(&value.attribute).filter(|values| values.len() >= TRACES_MIN)?;
        let lengths: Vec<f64> = values.iter().map(|(trace, _)| trees[*trace].length_us() as f64).collect();
        let numbers: Vec<f64> = values.iter().map(|(_, number)| *number).collect();
        let rho = spearman(&numbers, &lengths)?;
        let reach = DEVIATE * SPREAD / (values.len() as f64 - 3.0).sqrt();
        let at = |by: f64| (rho.clamp(-0.999_999, 0.999_999).atanh() + by).tanh();
        Some(Correlation { rho, low: at(-reach), high: at(reach) })
    }
}

/// Spearman's coefficient: Pearson's of the ranks, where equal values share theirs; `None` if a side has only one value.
fn spearman(one: &[f64], other: &[f64]) -> Option<f64> {
    let (one, other) = (ranks(one), ranks(other));
    let mean = (one.len() as f64 + 1.0) / 2.0;
    let sum = |of: &dyn Fn(usize) -> f64| (0..one.len()).map(of).sum::<f64>();
    let both = sum(&|at| (one[at] - mean) * (other[at] - mean));
    let squares = sum(&|at| (one[at] - mean).powi(2)) * sum(&|at| (other[at] - mean).powi(2));
    (squares > 0.0).then(|| (both / squares.sqrt()).clamp(-1.0, 1.0))
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
    let mut ranks = vec![0.0; values.len()];
    let mut from = 0;
    while from < order.len() {
        let alike = order[from..].iter().take_while(|&&at| values[at] == values[order[from]]).count();
        let rank = from as f64 + (alike as f64 + 1.0) / 2.0;
        order[from..from + alike].iter().for_each(|&at| ranks[at] = rank);
        from += alike;
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn correlations_match_scipy() {
        // scipy.stats.spearmanr
        for (one, other, expected) in [
            (&[1.0, 2.0, 3.0, 4.0, 5.0][..], &[5.0, 6.0, 7.0, 8.0, 7.0][..], Some(0.820_782_681_668_123_3)),
            (&[1.0, 2.0, 3.0], &[30.0, 20.0, 10.0], Some(-1.0)),
            (&[1.0, 1.0, 1.0], &[1.0, 2.0, 3.0], None),
            (&[1.0, 2.0, 2.0, 9.0], &[1.0, 4.0, 4.0, 100.0], Some(1.0)),
        ] {
            let found = spearman(one, other);
            let is_it = found.zip(expected).is_some_and(|(found, expected)| (found - expected).abs() < 1e-12);
            assert!(is_it || found == expected, "{one:?}: {found:?}");
        }
    }
}
