//! Iterations that broke a threshold, worst first.

use std::ops::Range;

use measure::latency::SampleId;
use results::largest::EXEMPLARS_MAX;
use terms::threshold::{CountedOutcome, Metric, Statistic};

use super::threshold::Judge;

impl Judge<'_> {
    /// Those of a range, at most five.
    pub(super) fn examples(&self, range: Range<usize>) -> Vec<SampleId> {
        let condition = &self.threshold.condition;
        let whole = self.threshold.window_ns.is_none();
        let slices = &self.series.slices()[range];
        let failed = |examples: &mut Vec<SampleId>| match whole {
            true => examples.extend(self.series.failed()),
            false => examples.extend(slices.iter().filter_map(|slice| slice.failing)),
        };
        let mut examples = Vec::new();
        match &condition.metric {
            Metric::Rate(CountedOutcome::Errors, _) | Metric::Count(CountedOutcome::Errors, _) => {
                failed(&mut examples)
            }
            Metric::Number(..) if condition.operator.bounds_above() => {
                examples.extend(self.large_numbers(slices))
            }
            Metric::Time(statistic, _) if condition.operator.bounds_above() => {
                let mut longest: Vec<_> = match whole {
                    true => self.series.longest().to_vec(),
                    false => slices.iter().filter_map(|slice| Some((slice.max_ns, slice.longest?))).collect(),
                };
                longest.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
                let over = |ns: u64| ns as f64 >= condition.limit;
                examples.extend(longest.iter().filter(|(ns, _)| over(*ns)).map(|(_, id)| *id));
                if *statistic != Statistic::Min {
                    failed(&mut examples);
                }
            }
            _ => {}
        }
        let mut unique = Vec::new();
        examples.retain(|id| {
            !unique.contains(id) && {
                unique.push(*id);
                true
            }
        });
        examples.truncate(EXEMPLARS_MAX);
        examples
    }
}
