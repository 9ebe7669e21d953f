//! Thresholds that end the load early, judged while it runs from what has been measured so far.
//!
//! Frequent evaluation finds a random excess sooner or later. So each evaluation waits until there are 10 % more
//! samples, and spends a part of the accepted error; the total stays below 5 %. Work is bounded for any number of
//! thresholds. An evaluation adds up slices, never samples; it judges only windows that have changed; and it waits if
//! it would take more than its share of the load's time.

use super::threshold::{ALPHA, Judge, RangeOutcome, settled};
use base::clock::Nanos;
use measure::ids::RunIds;
use measure::rows::Rows;
use results::counting::WorkloadCounts;
use results::model::Outcome;
use statistics::binomial::BATCHES;
use terms::threshold::{Metric, Operator, Statistic, Threshold};
use terms::{sla::Sla, tags::ActionNames};

/// The next evaluation needs this many times the samples of the last.
const GROWTH: f64 = 1.1;
/// Windows are evaluated again after this many more iterations.
const WINDOW_STEP: u64 = 50;
/// Evaluations may take one nanosecond in this many of the load.
const TIME_SHARE: u64 = 20;
/// The cost of judging a range, in counters read. Reading a counter takes about a nanosecond.
const JUDGE_COST: u64 = 500;

/// The `abort_on_fail` thresholds of a plan, and what was measured so far.
pub struct LiveThresholds {
    ids: RunIds,
    workloads: Vec<WatchedWorkload>,
}

struct WatchedWorkload {
    thresholds: Vec<StoppingThreshold>,
    counts: WorkloadCounts,
    /// How many iterations were counted.
    ended: u64,
    /// Of thresholds on the whole run, and of those with windows.
    evaluations: [Evaluations; 2],
    /// The cost of all evaluations so far, in counters.
    spent: u64,
}

/// A threshold that may end the load.
struct StoppingThreshold {
    number: usize,
    threshold: Threshold,
    /// Whether it was evaluated before.
    evaluated: bool,
}

#[derive(Clone, Copy, Default)]
struct Evaluations {
    count: u32,
    /// How many iterations had ended at the last evaluation.
    ended_at_last: u64,
}

impl LiveThresholds {
    /// The thresholds that say `abort_on_fail`, of each workload's criteria and the names of its actions.
    #[must_use]
    pub fn new<'a>(workloads: impl IntoIterator<Item = (&'a Sla, ActionNames)>, ids: RunIds) -> Self {
        Self {
            ids,
            workloads: workloads.into_iter().map(|(sla, names)| WatchedWorkload::new(sla, names)).collect(),
        }
    }

    /// Counts these iterations.
    pub fn count(&mut self, rows: &Rows) {
        for row in rows.iter() {
            let watched = self.workloads.get_mut(usize::from(row.head.workload));
            let Some(watched) = watched.filter(|watched| !watched.thresholds.is_empty()) else { continue };
            watched.ended += u64::from(!row.head.warm_up);
            watched.counts.add(row, self.ids.is_control(row.head));
        }
    }

    /// The number of a workload's threshold that is certain to fail, `elapsed_ns` after the workload's start.
    pub fn broken(&mut self, workload: usize, elapsed_ns: Nanos) -> Option<usize> {
        let watched = self.workloads.get_mut(workload)?;
        watched.broken(watched.ended, elapsed_ns)
    }
}

impl WatchedWorkload {
    fn new(sla: &Sla, names: ActionNames) -> Self {
        let ending = |threshold: &Threshold| threshold.abort_after_ns.is_some();
        let thresholds = sla.thresholds.iter().cloned().enumerate().filter(|(_, one)| ending(one));
        let thresholds = thresholds
            .map(|(number, threshold)| StoppingThreshold { number, threshold, evaluated: false })
            .collect();
        let only = Sla { thresholds: sla.thresholds.clone(), ..Sla::default() };
        let counts = WorkloadCounts::new(&only, names, ending);
        Self { thresholds, counts, ended: 0, evaluations: [Evaluations::default(); 2], spent: 0 }
    }

    /// The number of a threshold that certainly fails, `elapsed_ns` after the workload's start.
    fn broken(&mut self, ended: u64, elapsed_ns: u64) -> Option<usize> {
        [false, true].into_iter().find_map(|windows| self.evaluate(windows, ended, elapsed_ns))
    }

    /// Evaluates thresholds with windows, or those without, if there are enough new samples and enough time.
    fn evaluate(&mut self, windows: bool, ended: u64, elapsed_ns: u64) -> Option<usize> {
        let due: Vec<usize> = (0..self.thresholds.len())
            .filter(|at| {
                let one = &self.thresholds[*at].threshold;
                one.window_ns.is_some() == windows && one.abort_after_ns <= Some(elapsed_ns)
            })
            .collect();
        let Evaluations { count, ended_at_last } = self.evaluations[usize::from(windows)];
        let grown = ended as f64 >= ended_at_last as f64 * GROWTH && ended > ended_at_last;
        if due.is_empty() || !(grown || windows && ended >= ended_at_last + WINDOW_STEP) {
            return None;
        }
        let cost = self.cost(windows, &due);
        if self.spent.saturating_add(cost) > elapsed_ns / TIME_SHARE {
            return None;
        }
        self.spent += cost;
        let count = count.saturating_add(1);
        self.evaluations[usize::from(windows)] = Evaluations { count, ended_at_last: ended };
        self.counts.seal_only(windows);
        let broken = due.iter().copied().find(|at| self.is_broken(&self.thresholds[*at], alpha_of(count)));
        due.iter().for_each(|at| self.thresholds[*at].evaluated = true);
        broken.map(|at| self.thresholds[at].number)
    }

    fn is_broken(&self, ending: &StoppingThreshold, alpha: f64) -> bool {
        let threshold = &ending.threshold;
        let Some((series, limit)) = self.counts.of(threshold) else { return false };
        let found = Judge { threshold, series, limit, alpha }.outcome(!ending.evaluated);
        found.is_some_and(|found| found.outcome == Outcome::Fail && is_final(threshold, found))
    }

    /// The cost of an evaluation.
    fn cost(&self, windows: bool, due: &[usize]) -> u64 {
        let of_threshold = |at: &usize| {
            let StoppingThreshold { threshold, evaluated, .. } = &self.thresholds[*at];
            let Some((series, _)) = self.counts.of(threshold) else { return 0 };
            let slices = series.slices().len();
            match (windows, &threshold.condition.metric) {
                (true, _) => {
                    let from = if *evaluated { series.changed().saturating_sub(BATCHES - 1) } else { 0 };
                    (slices + 1).saturating_sub(BATCHES + from) as u64 * JUDGE_COST
                }
                (false, Metric::Throughput) => JUDGE_COST * (1 + slices as u64 / 100),
                (false, _) => JUDGE_COST,
            }
        };
        self.counts.seal_cost(windows) + due.iter().map(of_threshold).sum::<u64>()
    }
}

/// The part of the accepted error that the evaluation of this number may take. 1/(1·2) + 1/(2·3) + … = 1.
pub(super) fn alpha_of(count: u32) -> f64 {
    ALPHA / (f64::from(count) * (f64::from(count) + 1.0))
}

/// True when no later sample can change a FAIL. A value that is still growing and too small so far decides nothing.
pub(super) fn is_final(threshold: &Threshold, found: RangeOutcome) -> bool {
    let condition = &threshold.condition;
    let settled = |grows| settled(grows, condition.operator, found.value, condition.limit);
    match &condition.metric {
        Metric::Count(..) | Metric::Time(Statistic::Max, _) | Metric::Number(Statistic::Max, _) => {
            settled(true)
        }
        Metric::Time(Statistic::Min, _) | Metric::Number(Statistic::Min, _) => settled(false),
        // Only the shares 0 and 1 have exact conditions, and a single sample settles either.
        Metric::Rate(..) => match condition.operator {
            Operator::Equal => condition.limit <= 0.0 || condition.limit >= 100.0,
            Operator::Above => condition.limit > 0.0,
            Operator::Below => condition.limit < 100.0,
            Operator::AtMost | Operator::AtLeast => true,
        },
        _ => condition.operator != Operator::Equal,
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::super::tests::threshold;
    use super::*;
    use measure::sample::{CompletionStatus, IterationSample};

    /// All iterations take 20 ms; every fifth fails, or none.
    #[test]
    fn a_threshold_ends_the_load_only_when_no_later_sample_can_change_its_fail() {
        for (text, failing, ends) in [
            ("count(errors) == 0", true, true),
            ("count(errors) == 0", false, false),
            ("count(errors) == 100000", true, false),
            ("count(errors) < 10", true, true),
            ("count(errors) > 100000", true, false),
            ("min < 10ms", false, false),
            ("min > 30ms", false, true),
            ("max > 30ms", false, false),
            ("max < 10ms", false, true),
            ("rate(errors) > 0%", false, false),
            ("rate(errors) == 0%", true, true),
            ("rate(errors) == 50%", true, false),
            ("rate(errors) <= 0%", true, true),
            ("rate(errors) < 1%", true, true),
            ("p50 < 10ms", false, true),
            ("p50 < 30ms", false, false),
        ] {
            let condition = terms::threshold::parse(text).unwrap();
            let threshold = Threshold {
                condition,
                window_ns: None,
                min_samples: None,
                abort_after_ns: Some(0),
                warn: false,
            };
            let sla = Sla { thresholds: vec![threshold], ..Sla::default() };
            let mut watched = WatchedWorkload::new(&sla, ActionNames::default());
            let mut rows = Rows::default();
            for number in 0..1_000 {
                rows.push(&IterationSample {
                    number,
                    due_ns: number * 1_000_000,
                    start_ns: number * 1_000_000,
                    duration_ns: 20_000_000,
                    ended: if failing && number % 5 == 0 {
                        CompletionStatus::Failed
                    } else {
                        CompletionStatus::Ok
                    },
                    ..IterationSample::default()
                });
            }
            rows.iter().for_each(|row| watched.counts.add(row, false));
            assert_eq!(watched.broken(1_000, 1_000_000_000).is_some(), ends, "{text}, failing: {failing}");
        }
    }

    /// Evaluations never take more than their share of the load's time, for any number of thresholds. A broken
    /// threshold still ends the load.
    #[test]
    fn thousands_of_thresholds_cost_a_share_of_the_load() {
        for window_ns in [None, Some(200_000_000)] {
            let threshold = |number: usize| Threshold {
                condition: terms::threshold::parse(&format!("p{} < {}ms", number % 99 + 1, 50 + number))
                    .unwrap(),
                window_ns,
                min_samples: None,
                abort_after_ns: Some(0),
                warn: false,
            };
            let sla = Sla { thresholds: (0..5_000).map(threshold).collect(), ..Sla::default() };
            let mut watched = WatchedWorkload::new(&sla, ActionNames::default());
            let (mut ended, mut broken_at) = (0, None);
            // 2.6 seconds, a batch every 100 ms; after the first second every iteration is slow.
            for tenth in 0..26_u64 {
                let mut rows = Rows::default();
                for number in ended..ended + 100 {
                    let start_ns = number * 1_000_000;
                    rows.push(&IterationSample {
                        number,
                        due_ns: start_ns,
                        start_ns,
                        duration_ns: if tenth < 10 { 20_000_000 } else { 9_000_000_000 },
                        ..IterationSample::default()
                    });
                }
                ended += 100;
                rows.iter().for_each(|row| watched.counts.add(row, false));
                let elapsed_ns = (tenth + 1) * 100_000_000;
                if watched.broken(ended, elapsed_ns).is_some() {
                    broken_at.get_or_insert(tenth);
                }
                assert!(watched.spent <= elapsed_ns / TIME_SHARE, "{} of {elapsed_ns}", watched.spent);
            }
            assert!(watched.spent > 0);
            assert!(broken_at.is_none_or(|tenth| tenth >= 10), "{window_ns:?}: {broken_at:?}");
            assert!(broken_at.is_some() || window_ns.is_some(), "a slow service was not noticed");
        }
    }

    /// When thresholds are evaluated, what that costs, and when one ends the load: whole series, kept in `tests/pages`.
    #[test]
    fn evaluations_are_told_with_their_costs() {
        let mut page = String::new();
        for text in [
            "p90 < 30ms",
            "rate(errors) < 30%",
            "throughput > 2000/s",
            "count(errors) <= 40",
            "avg < 15ms",
            "rate(errors) > 0%",
            "rate(errors) > 1%",
            "rate(errors) == 0%",
            "rate(errors) == 100%",
        ] {
            for window_ns in [None, Some(400_000_000)] {
                let condition = terms::threshold::parse(text).unwrap();
                let abort_after_ns = Some(300_000_000);
                let threshold =
                    Threshold { condition, window_ns, min_samples: None, abort_after_ns, warn: false };
                let sla = Sla { thresholds: vec![threshold], ..Sla::default() };
                let mut watched = WatchedWorkload::new(&sla, ActionNames::default());
                writeln!(page, "{text}, windows {window_ns:?}").unwrap();
                for tenth in 0..20_u64 {
                    let mut rows = Rows::default();
                    for number in tenth * 150..(tenth + 1) * 150 {
                        // The service gets slow and fails from the second second on.
                        let is_bad = tenth >= 10 && number % 3 == 0;
                        rows.push(&IterationSample {
                            number,
                            due_ns: number * 666_000,
                            start_ns: number * 666_000,
                            duration_ns: if is_bad { 35_000_000 } else { 9_000_000 + number * 1_000 },
                            ended: if is_bad && number % 2 == 0 {
                                CompletionStatus::Failed
                            } else {
                                CompletionStatus::Ok
                            },
                            ..IterationSample::default()
                        });
                    }
                    rows.iter().for_each(|row| watched.counts.add(row, false));
                    let broken = watched.broken((tenth + 1) * 150, (tenth + 1) * 100_000_000);
                    let of = |one: Evaluations| (one.count, one.ended_at_last);
                    let evaluations = watched.evaluations.map(of);
                    writeln!(
                        page,
                        "    {tenth}: {evaluations:?}, spent {}, broken {broken:?}",
                        watched.spent
                    )
                    .unwrap();
                }
            }
        }
        text::compare_page!("live", &page);
    }

    /// A later success would keep `rate(errors) < 100%`, and a later failure `rate(errors) > 0%`.
    #[test]
    fn shares_that_a_later_sample_changes_are_not_final() {
        for (text, value, expected) in [
            ("rate(errors) < 100%", 1.0, false),
            ("rate(errors) < 99%", 1.0, true),
            ("rate(errors) > 0%", 0.0, false),
            ("rate(errors) > 1%", 0.0, true),
            ("rate(errors) == 0%", 0.5, true),
            ("rate(errors) == 100%", 0.5, true),
            ("rate(errors) == 50%", 0.4, false),
            ("rate(errors) <= 0%", 0.5, true),
            ("rate(errors) >= 100%", 0.5, true),
            ("count(errors) == 5", 6.0, true),
            ("count(errors) == 5", 4.0, false),
        ] {
            assert_eq!(is_final(&threshold(text), RangeOutcome::failed(value)), expected, "{text}, {value}");
        }
    }

    #[test]
    fn all_evaluations_together_take_the_accepted_error() {
        let parts: Vec<f64> = (1..=4).map(|count| alpha_of(count) / ALPHA).collect();
        for (part, expected) in parts.iter().zip([2.0, 6.0, 12.0, 20.0]) {
            assert!((part - 1.0 / expected).abs() < 1e-12, "{parts:?}");
        }
        let all: f64 = (1..=100_000).map(alpha_of).sum();
        assert!(all <= ALPHA && all > 0.9999 * ALPHA, "{all}");
    }

    /// The second threshold is due only when its bad windows have passed, and were evaluated for the first one.
    #[test]
    fn the_first_evaluation_of_a_threshold_sees_all_windows() {
        let ending = |text: &str, after_ns| Threshold {
            window_ns: Some(200_000_000),
            abort_after_ns: Some(after_ns),
            ..threshold(text)
        };
        let thresholds = vec![ending("p50 < 1s", 0), ending("p50 < 15ms", 2_000_000_000)];
        let mut watched = WatchedWorkload::new(&Sla { thresholds, ..Sla::default() }, ActionNames::default());
        let (mut ended, mut evaluations) = (0, 0);
        for tenth in 0..30_u64 {
            let mut rows = Rows::default();
            for number in ended..ended + 100 {
                rows.push(&IterationSample {
                    number,
                    due_ns: number * 1_000_000,
                    start_ns: number * 1_000_000,
                    duration_ns: if (5..10).contains(&tenth) { 20_000_000 } else { 5_000_000 },
                    ..IterationSample::default()
                });
            }
            ended += 100;
            rows.iter().for_each(|row| watched.counts.add(row, false));
            assert!(watched.counts.seal_cost(true) > 0);
            let broken = watched.broken(ended, (tenth + 1) * 100_000_000);
            // An evaluation waits for 50 more iterations, so each batch has one.
            assert_eq!(watched.evaluations[1].count, evaluations + 1, "{tenth}");
            evaluations += 1;
            assert_eq!(broken, (tenth >= 19).then_some(1), "{tenth}");
            // Fewer than that, and than a tenth of all, are not enough.
            if tenth < 5 {
                continue;
            }
            assert_eq!(watched.broken(ended + 49, (tenth + 1) * 100_000_000), None);
            assert_eq!(watched.evaluations[1].count, evaluations, "{tenth}");
            if tenth == 15 {
                assert_eq!(watched.broken(ended + WINDOW_STEP, (tenth + 1) * 100_000_000), None);
                evaluations += 1;
                assert_eq!(watched.evaluations[1].count, evaluations);
            }
            if broken.is_some() {
                return;
            }
        }
        panic!("the load was not ended");
    }

    /// An evaluation does not judge past windows again.
    #[test]
    fn evaluating_windows_costs_only_what_has_changed() {
        let threshold = Threshold {
            condition: terms::threshold::parse("p50 < 1s").unwrap(),
            window_ns: Some(1_000_000_000),
            min_samples: None,
            abort_after_ns: Some(0),
            warn: false,
        };
        let sla = Sla { thresholds: vec![threshold], ..Sla::default() };
        let mut watched = WatchedWorkload::new(&sla, ActionNames::default());
        let mut costs = Vec::new();
        for second in 0..40_u64 {
            let mut rows = Rows::default();
            for number in 0..1_000 {
                let start_ns = second * 1_000_000_000 + number * 1_000_000;
                let number = second * 1_000 + number;
                rows.push(&IterationSample {
                    number,
                    due_ns: start_ns,
                    start_ns,
                    duration_ns: 100_000,
                    ..IterationSample::default()
                });
            }
            rows.iter().for_each(|row| watched.counts.add(row, false));
            let before = watched.spent;
            assert_eq!(watched.broken((second + 1) * 1_000, u64::MAX), None);
            costs.push(watched.spent - before);
        }
        assert!(costs[39] <= costs[5] * 2, "{costs:?}");
    }
}
