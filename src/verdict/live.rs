//! Thresholds that end the load early: judged on the coordinator's thread, by what the workers have sent.
//!
//! Looking often finds a chance excess sooner or later, so a look is taken only when there is a tenth more to see, and
//! each look spends a part of the accepted error: over all of them it stays below 5 %. Work is bounded: a look adds
//! up slices, never samples.

use super::threshold::{ALPHA, Judge, Judged, settled};
use crate::base::ids::{ControlShare, IdSpace};
use crate::measure::recorder::Batch;
use crate::plan::threshold::{Metric, Operator, Statistic, Threshold};
use crate::plan::{Plan, sla::Sla};
use crate::results::counting::WorkloadCounts;
use crate::results::model::Outcome;
use crate::runner::stop::{Stop, StopReason};
use crate::runner::{Observer, Progress};

/// A look is taken when there are so many times as many samples as at the last.
const GROWTH: f64 = 1.1;
/// Windows are looked at when so many iterations more have ended.
const WINDOW_STEP: u64 = 50;

/// Watches a load, and ends it when a threshold that may is certain not to hold.
pub struct LiveGate<'a> {
    inner: &'a mut dyn Observer,
    stop: Stop,
    ids: IdSpace,
    control: ControlShare,
    workloads: Vec<Watched>,
    broken: Option<(usize, usize)>,
}

struct Watched {
    thresholds: Vec<(usize, Threshold)>,
    counts: WorkloadCounts,
    looks: u32,
    seen: u64,
}

impl<'a> LiveGate<'a> {
    /// Watches the thresholds of a plan that say `abort_on_fail`; `inner` sees everything first.
    pub fn new(plan: &Plan, ids: IdSpace, stop: &Stop, inner: &'a mut dyn Observer) -> Self {
        let watched = |workload: &crate::plan::Workload| {
            let names: Vec<&str> = workload.actions().map(|action| &*action.name).collect();
            Watched::new(&workload.sla, &names)
        };
        let workloads = plan.workloads.iter().map(watched).collect();
        Self { inner, stop: stop.clone(), ids, control: plan.control, workloads, broken: None }
    }

    /// The workload and the threshold, by their numbers, that ended the load.
    #[must_use]
    pub fn broken(&self) -> Option<(usize, usize)> {
        self.broken
    }

    /// What a reader of the results must know.
    #[must_use]
    pub fn note(&self, plan: &Plan) -> Option<String> {
        let (workload, threshold) = self.broken?;
        let workload = plan.workloads.get(workload)?;
        let threshold = workload.sla.thresholds.get(threshold)?;
        Some(format!("the load was ended by the threshold `{threshold}` of {}", workload.name))
    }
}

impl Watched {
    fn new(sla: &Sla, actions: &[&str]) -> Self {
        let ending = |threshold: &Threshold| threshold.abort_after_ns.is_some();
        let thresholds = sla.thresholds.iter().cloned().enumerate().filter(|(_, one)| ending(one)).collect();
        let only = Sla { thresholds: sla.thresholds.clone(), ..Sla::default() };
        Self { thresholds, counts: WorkloadCounts::new(&only, actions, ending), looks: 0, seen: 0 }
    }

    /// The number of a threshold that certainly does not hold, `elapsed_ns` after the workload's start.
    fn broken(&mut self, ended: u64, elapsed_ns: u64) -> Option<usize> {
        if self.thresholds.is_empty()
            || self.thresholds.iter().all(|(_, one)| one.abort_after_ns > Some(elapsed_ns))
        {
            return None;
        }
        let windowed = self.thresholds.iter().any(|(_, one)| one.window_ns.is_some());
        #[expect(clippy::cast_precision_loss, reason = "a count")]
        let grown = ended as f64 >= self.seen as f64 * GROWTH && ended > self.seen;
        if !(grown || windowed && ended >= self.seen + WINDOW_STEP) {
            return None;
        }
        self.seen = ended;
        self.looks += 1;
        self.counts.seal();
        // 1/(1·2) + 1/(2·3) + … = 1.
        let alpha = ALPHA / (f64::from(self.looks) * f64::from(self.looks + 1));
        let due = self.thresholds.iter().filter(|(_, one)| one.abort_after_ns <= Some(elapsed_ns));
        due.filter_map(|(number, threshold)| {
            let (series, limit) = self.counts.of(threshold)?;
            let judged = Judge { threshold, series, limit, alpha }.judge();
            (judged.outcome == Outcome::Fail && is_final(threshold, &judged)).then_some(*number)
        })
        .next()
    }
}

/// True when no later sample can mend a FAIL: what is too little so far says nothing.
fn is_final(threshold: &Threshold, judged: &Judged) -> bool {
    let condition = &threshold.condition;
    let seen = judged.measured.as_ref();
    let settled = |grows| seen.is_some_and(|seen| settled(grows, condition.operator, seen.value, seen.limit));
    match &condition.metric {
        Metric::Count(..) | Metric::Time(Statistic::Max, _) => settled(true),
        Metric::Time(Statistic::Min, _) => settled(false),
        // Of shares, only none and all are asked for exactly; one sample ends either for good.
        Metric::Rate(..) => match condition.operator {
            Operator::Equal => condition.limit <= 0.0 || condition.limit >= 100.0,
            Operator::Above => condition.limit > 0.0,
            Operator::Below => condition.limit < 100.0,
            Operator::AtMost | Operator::AtLeast => true,
        },
        _ => condition.operator != Operator::Equal,
    }
}

impl Observer for LiveGate<'_> {
    fn begin(&mut self, plan: &Plan, workload: usize) {
        self.inner.begin(plan, workload);
    }

    fn batch(&mut self, batch: &Batch) {
        self.inner.batch(batch);
        let Some(watched) = self.workloads.get_mut(usize::from(batch.workload)) else { return };
        if watched.thresholds.is_empty() || self.broken.is_some() {
            return;
        }
        for row in batch.samples.iter() {
            let unprofiled = self.ids.is_control(row.head.workload, row.head.number, self.control);
            watched.counts.add(row, unprofiled);
        }
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.inner.progress(progress);
        let Some(watched) = self.workloads.get_mut(progress.workload) else { return };
        if self.broken.is_some() || self.stop.is_stopping() {
            return;
        }
        let elapsed_ns = crate::base::clock::saturating_nanos(progress.elapsed);
        if let Some(threshold) = watched.broken(progress.total.ended() + progress.total.dropped, elapsed_ns) {
            self.broken = Some((progress.workload, threshold));
            self.stop.stop(StopReason::Threshold);
        }
    }

    fn end(&mut self, progress: &Progress<'_>) {
        self.inner.end(progress);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::rows::Rows;
    use crate::measure::sample::{Ended, IterationSample};

    /// Whether the load ends by a threshold, when of so many iterations that take 20 ms each fifth has failed, or none.
    #[test]
    fn the_load_ends_only_by_what_no_later_sample_can_mend() {
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
            let condition = crate::plan::threshold::parse(text).unwrap();
            let threshold = Threshold {
                condition,
                window_ns: None,
                min_samples: None,
                abort_after_ns: Some(0),
                warn: false,
            };
            let sla = Sla { thresholds: vec![threshold], ..Sla::default() };
            let mut watched = Watched::new(&sla, &[]);
            let mut rows = Rows::default();
            for number in 0..1_000 {
                rows.push(&IterationSample {
                    number,
                    due_ns: number * 1_000_000,
                    start_ns: number * 1_000_000,
                    duration_ns: 20_000_000,
                    ended: if failing && number % 5 == 0 { Ended::Failed } else { Ended::Ok },
                    ..IterationSample::default()
                });
            }
            rows.iter().for_each(|row| watched.counts.add(row, false));
            assert_eq!(watched.broken(1_000, 1).is_some(), ends, "{text}, failing: {failing}");
        }
    }
}
