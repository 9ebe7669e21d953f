//! The figures of numbers that actions take from their answers.

use measure::ids::RunIds;
use measure::latency::SampleId;
use measure::numbers::{MeasuredNumber, NumberDistribution};

use super::distributions::PERCENTILES;
use super::model::{MeasuredNumbers, NumberPercentile};

/// The numbers of one name.
#[derive(Clone, Debug, Default)]
pub struct NumberStats {
    numbers: NumberDistribution,
    without_number: u64,
}

impl NumberStats {
    /// Adds an iteration's numbers to those of a workload, by the numbers of their names.
    pub(super) fn add(stats: &mut Vec<Self>, numbers: &[MeasuredNumber], id: SampleId) {
        for number in numbers {
            let at = usize::from(number.measure);
            if at >= stats.len() {
                stats.resize(at + 1, Self::default());
            }
            match number.value() {
                Some(value) => stats[at].numbers.record(value, id),
                None => stats[at].without_number += 1,
            }
        }
    }

    /// The figures of each name, also of one that no answer had.
    pub(super) fn models(stats: &[Self], names: &[String], ids: &RunIds) -> Vec<MeasuredNumbers> {
        let none = Self::default();
        let each = names.iter().enumerate();
        each.map(|(at, name)| stats.get(at).unwrap_or(&none).model(name, ids)).collect()
    }

    fn model(&self, name: &str, ids: &RunIds) -> MeasuredNumbers {
        let at = |&percentile: &f64| {
            let (value, sample) = match percentile {
                100.0 => self.numbers.max()?,
                _ => self.numbers.percentile(percentile)?,
            };
            Some(NumberPercentile { percentile, value, trace_id: ids.trace_id(sample) })
        };
        MeasuredNumbers {
            name: name.to_owned(),
            count: self.numbers.count(),
            without_number: self.without_number,
            min: self.numbers.min(),
            mean: self.numbers.mean(),
            max: self.numbers.max().map(|(value, _)| value),
            percentiles: PERCENTILES.iter().filter_map(at).collect(),
        }
    }
}
