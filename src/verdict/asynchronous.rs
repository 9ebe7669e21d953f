//! Times to the end of asynchronous work: their figures, and thresholds on them. A random sample of iterations judges,
//! never the slow ones. One that had not ended at the deadline counts with at least the time for which it was waited
//! for. So it is over every limit that the deadline allows.

use super::threshold::{ALPHA, ThresholdResult};
use super::traces::{MISSING_MAX, of_figures};
use super::words::time;
use base::clock::Nanos;
use measure::latency::SampleId;
use results::model::{Asynchronous, AsynchronousAt, AsynchronousSample, Outcome};
use statistics::binomial::{BinomialCount, Share};
use statistics::order::{at_percentile, at_rank};
use terms::threshold::{Statistic, Threshold};

/// The percentiles in results.
const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// The random sample of a workload with `end: asynchronous`.
#[derive(Clone, Debug, Default)]
pub struct AsynchronousTraceSample {
    /// For how long after the last response spans were waited for.
    pub deadline_ns: Nanos,
    /// How many iterations the sample has.
    pub of: u64,
    /// Those with a trace that was read after its deadline.
    pub works: Vec<AsynchronousIteration>,
}

/// An iteration with its asynchronous work.
#[derive(Clone, Copy, Debug)]
pub struct AsynchronousIteration {
    /// The iteration.
    pub id: SampleId,
    /// From its start to the end of its last span; at least that, if it is running.
    pub ns: Nanos,
    /// True if it had probably not ended when its trace was read.
    pub is_running: bool,
    /// True if the trace has spans below a link.
    pub is_linked: bool,
}

impl AsynchronousTraceSample {
    fn running(&self) -> usize {
        self.works.iter().filter(|work| work.is_running).count()
    }

    /// The figures for results; `ran` is the number of all successful iterations.
    #[must_use]
    pub fn figures(&self, ran: u64) -> Asynchronous {
        let mut works = self.works.clone();
        // Of equal times, those that are only a lower bound last.
        works.sort_by_key(|work| (work.ns, work.is_running));
        let share = Share::independent(BinomialCount { k: 0, n: works.len() as u64 });
        let ms = |work: &AsynchronousIteration| work.ns as f64 / 1e6;
        let at = |percentile: f64| {
            let work = at_percentile(&works, percentile)?;
            let bounds = share.order_bounds(percentile, ALPHA);
            let bound = |rank: Option<u64>| at_rank(&works, rank?).map(|work| ms(&work));
            let (low_ms, high_ms) = (bound(bounds.low), bound(bounds.high));
            Some(AsynchronousAt {
                percentile,
                value_ms: ms(&work),
                low_ms,
                high_ms,
                is_running: work.is_running,
            })
        };
        Asynchronous {
            deadline_s: self.deadline_ns as f64 / 1e9,
            sample: AsynchronousSample::Random,
            traced: works.len() as u64,
            of: self.of,
            of_iterations: ran,
            running: self.running() as u64,
            linked: works.iter().filter(|work| work.is_linked).count() as u64,
            percentiles: PERCENTILES.into_iter().filter_map(at).collect(),
            max_ms: works.last().map(ms),
            late: None,
        }
    }
}

/// Judges a threshold by the sample of its workload; `None` for a workload whose iterations end with their responses.
/// `ran` is the number of all successful iterations.
#[must_use]
pub fn judge(
    threshold: &Threshold,
    statistic: Statistic,
    sample: Option<&AsynchronousTraceSample>,
    ran: u64,
    profiled: bool,
) -> ThresholdResult {
    let invalid =
        |observed: String, samples: u64, reason: String| ThresholdResult::invalid(observed, samples, reason);
    let nothing = |reason: &str| invalid("not measured".to_owned(), 0, reason.to_owned());
    let Some(sample) = sample else { return nothing("the workload does not say `end: asynchronous`") };
    let (have, of) = (sample.works.len() as u64, sample.of);
    match () {
        () if !profiled => return nothing("the run was not profiled"),
        () if ran == 0 => return nothing("no iteration succeeded"),
        () if of == 0 => {
            return nothing("no random sample of traces was read; run with a receiver or a collector");
        }
        () => {}
    }
    if 1.0 - have as f64 / of as f64 > MISSING_MAX {
        let reason = format!(
            "only {have} of {of} sampled iterations have a trace that was read after the deadline; check the receiver \
             or the collector, and wait for the end of the run"
        );
        return invalid(format!("{have} of {of} traces"), have, reason);
    }
    let wanted = threshold.min_samples.unwrap_or(1);
    if have < wanted {
        let reason =
            format!("min_samples is {wanted}, and {have} traces were sampled; raise trace: {{limit}}");
        return invalid(format!("{have} traces"), have, reason);
    }
    if threshold.condition.limit > sample.deadline_ns as f64 {
        let reason = format!(
            "the limit is beyond the deadline of {}, after which nothing was waited for",
            time(sample.deadline_ns)
        );
        return invalid(format!("{have} traces"), have, reason);
    }
    let figures: Vec<(f64, SampleId)> = sample.works.iter().map(|work| (work.ns as f64, work.id)).collect();
    with_running(of_figures(threshold, statistic, &figures, ran), threshold, statistic, sample, ran)
}

/// The verdict with what is known of iterations that had not ended.
fn with_running(
    judged: ThresholdResult,
    threshold: &Threshold,
    statistic: Statistic,
    sample: &AsynchronousTraceSample,
    ran: u64,
) -> ThresholdResult {
    let mut judged = judged;
    judged.observed =
        judged.observed.replacen(" random iterations", &format!(" of {ran} iterations, random"), 1);
    let running = sample.running();
    if running == 0 {
        return judged;
    }
    judged.observed = format!("{}; {running} still running at the deadline", judged.observed);
    // Their real times are larger: a mean or a largest time that seems to keep its limit may not.
    let is_low = matches!(statistic, Statistic::Mean | Statistic::Max);
    if is_low && judged.outcome == Outcome::Pass && threshold.condition.operator.bounds_above() {
        judged.outcome = Outcome::Inconclusive;
        judged.reason = Some(format!("{running} iterations had not ended at the deadline; raise it"));
    }
    judged
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::threshold::{Metric, parse};

    /// Iterations of 1 s, 2 s and so on; the last ones are still running.
    fn sample(number: u64, running: u64, of: u64) -> AsynchronousTraceSample {
        let work = |number: u64, is_running| AsynchronousIteration {
            id: SampleId { workload: 0, number },
            ns: number * 1_000_000_000,
            is_running,
            is_linked: number.is_multiple_of(2),
        };
        AsynchronousTraceSample {
            deadline_ns: 1_000_000_000_000,
            of,
            works: (1..=number).map(|at| work(at, at > number - running)).collect(),
        }
    }

    fn judged(
        text: &str,
        sample: Option<&AsynchronousTraceSample>,
        ran: u64,
        profiled: bool,
    ) -> ThresholdResult {
        let condition = parse(text).unwrap();
        assert_eq!(condition.to_string(), text);
        let Metric::Asynchronous(statistic) = condition.metric else { panic!("{text}") };
        let threshold =
            Threshold { condition, window_ns: None, min_samples: Some(3), abort_after_ns: None, warn: false };
        judge(&threshold, statistic, sample, ran, profiled)
    }

    #[test]
    fn only_a_sample_that_is_nearly_complete_judges() {
        for (what, text, sample, ran, profiled, expected) in [
            ("kept", "p95(asynchronous) < 99s", Some(sample(90, 0, 90)), 1_000, true, Outcome::Pass),
            ("broken", "p50(asynchronous) < 10s", Some(sample(90, 0, 90)), 1_000, true, Outcome::Fail),
            ("close", "p50(asynchronous) < 46s", Some(sample(90, 0, 90)), 1_000, true, Outcome::Inconclusive),
            ("some missing", "p50(asynchronous) < 90s", Some(sample(90, 0, 110)), 1_000, true, Outcome::Pass),
            (
                "many missing",
                "p50(asynchronous) < 90s",
                Some(sample(90, 0, 120)),
                1_000,
                true,
                Outcome::Invalid,
            ),
            ("all missing", "p50(asynchronous) < 90s", Some(sample(0, 0, 90)), 1_000, true, Outcome::Invalid),
            ("no sample", "p50(asynchronous) < 90s", Some(sample(0, 0, 0)), 1_000, true, Outcome::Invalid),
            ("too few", "p50(asynchronous) < 90s", Some(sample(2, 0, 2)), 2, true, Outcome::Invalid),
            ("not asynchronous", "p50(asynchronous) < 90s", None, 1_000, true, Outcome::Invalid),
            ("nothing ran", "p50(asynchronous) < 90s", Some(sample(0, 0, 0)), 0, true, Outcome::Invalid),
            (
                "not profiled",
                "p50(asynchronous) < 90s",
                Some(sample(90, 0, 90)),
                1_000,
                false,
                Outcome::Invalid,
            ),
            ("beyond", "p50(asynchronous) < 2000s", Some(sample(90, 0, 90)), 1_000, true, Outcome::Invalid),
            (
                "max of some",
                "max(asynchronous) < 99s",
                Some(sample(90, 0, 90)),
                1_000,
                true,
                Outcome::Inconclusive,
            ),
            ("max of all", "max(asynchronous) < 99s", Some(sample(90, 0, 90)), 90, true, Outcome::Pass),
            (
                "max, running",
                "max(asynchronous) < 99s",
                Some(sample(90, 1, 90)),
                90,
                true,
                Outcome::Inconclusive,
            ),
            ("mean", "avg(asynchronous) < 99s", Some(sample(150, 0, 150)), 200, true, Outcome::Pass),
            (
                "mean, running",
                "avg(asynchronous) < 99s",
                Some(sample(150, 1, 150)),
                200,
                true,
                Outcome::Inconclusive,
            ),
            ("p, running", "p95(asynchronous) < 99s", Some(sample(90, 3, 90)), 1_000, true, Outcome::Pass),
        ] {
            let judged = judged(text, sample.as_ref(), ran, profiled);
            assert_eq!(judged.outcome, expected, "{what}: {judged:?}");
            let has_reason = matches!(expected, Outcome::Invalid | Outcome::Inconclusive);
            assert_eq!(judged.reason.is_some(), has_reason, "{what}: {judged:?}");
        }
        let judged = judged("p50(asynchronous) < 99s", Some(&sample(90, 3, 90)), 1_000, true);
        assert!(judged.observed.contains("in 90 of 1000 iterations, random"), "{}", judged.observed);
        assert!(judged.observed.ends_with("; 3 still running at the deadline"), "{}", judged.observed);
    }

    #[test]
    fn limits_up_to_the_deadline_and_the_least_samples_are_judged() {
        for (text, of, expected) in [
            ("p50(asynchronous) < 90s", 3, Outcome::Inconclusive),
            ("p50(asynchronous) < 1000s", 90, Outcome::Pass),
        ] {
            let judged = judged(text, Some(&sample(of, 0, of)), 1_000, true);
            assert_eq!(judged.outcome, expected, "{text}: {judged:?}");
        }
        for (of, ran, expected) in [
            (90, 0, "no iteration succeeded"),
            (0, 1_000, "no random sample of traces was read; run with a receiver or a collector"),
        ] {
            let judged = judged("p50(asynchronous) < 90s", Some(&sample(of, 0, of)), ran, true);
            assert_eq!(judged.reason.as_deref(), Some(expected));
        }
    }

    #[test]
    fn figures_say_of_how_many() {
        let figures = sample(100, 10, 110).figures(5_000);
        assert_eq!((figures.traced, figures.of, figures.of_iterations), (100, 110, 5_000));
        assert_eq!((figures.running, figures.linked, figures.max_ms), (10, 50, Some(100_000.0)));
        assert!((figures.deadline_s - 1_000.0).abs() < 1e-9, "{}", figures.deadline_s);
        // The ranks are SciPy's, as in the tests of other percentiles.
        let p95 = figures.at(95.0).unwrap();
        assert_eq!((p95.value_ms, p95.low_ms, p95.high_ms), (95_000.0, Some(91_000.0), Some(99_000.0)));
        assert_eq!((p95.is_running, figures.at(50.0).unwrap().is_running), (true, false));
        assert_eq!(figures.at(99.0).unwrap().high_ms, None);
        let none = sample(0, 0, 5).figures(5);
        assert_eq!((none.traced, none.percentiles.len(), none.max_ms), (0, 0, None));
    }
}
