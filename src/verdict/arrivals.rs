//! How metrics count arrivals that failed, never started (dropped) or were cut off at the end of the run.
//!
//! One rule: such an arrival never makes a figure look better. An arrival that failed or never started has no valid
//! time. It breaks every limit on a time, upper or lower, even if it failed quickly. An arrival that was cut off took
//! at least the time until then: it is over the limits that it had passed. For the other limits it counts against a
//! PASS, but not towards a FAIL.
//!
//! | metric | failed | never started | cut off |
//! |---|---|---|---|
//! | percentiles of a time | break the limit | same; ignored for service time | over the limits passed, else unknown |
//! | `max`, `avg` below, `min` above a limit | one breaks it | as above | over the limits passed, else INCONCLUSIVE |
//! | `max` above, `min` below a limit | do not help | do not help | `max`: as above |
//! | times of `lag` | count like any other | break the limit | count like any other, if started |
//! | `throughput`, `count(iterations)` above a limit | do not count | do not count | do not count |
//! | the same below a limit | count | do not count | do not count |
//! | `rate(errors)`, `count(errors)` | counted | ignored | ignored |
//! | `rate(resent)`, `count(resent)` | in the total | ignored | ignored |
//! | `rate`, `count` of `dropped` and of `aborted` | in the total | in the total | in the total |
//! | `avg(trace …)` and similar, `overhead` | ignored | ignored | ignored |
//! | Rally's `failure_rate` | counted | ignored | ignored |
//! | Rally's `max_seconds_per_iteration` | by their time, as in Rally | ignored | over the limits passed |
//! | Rally's other limits on times | ignored, as in Rally | ignored | ignored |
//! | `bench ab`, `bench compare` | slower than every success | the same | the same |
//!
//! A criterion that has nothing to judge is INVALID: Rally's limits on times if nothing succeeded, counts of errors if
//! nothing finished, everything if nothing was due. A test runs every metric against every kind of run.

use super::threshold::Judge;
use results::counting::{Series, Slice};
use results::model::Outcome;
use terms::threshold::{Metric, Operator, Statistic};

impl Judge<'_> {
    /// True when a single failed or dropped arrival breaks the limit and there is one.
    pub(super) fn is_broken_by_faults(&self, all: &Slice) -> bool {
        self.one_arrival_breaks_it() && self.series.faulty(all) > 0
    }

    /// True for conditions that a single arrival can break: means, an upper limit on the largest time, a lower limit on
    /// the smallest.
    fn one_arrival_breaks_it(&self) -> bool {
        let condition = &self.threshold.condition;
        match &condition.metric {
            Metric::Time(Statistic::Mean, _) => true,
            Metric::Time(Statistic::Max, _) => condition.operator.bounds_above(),
            Metric::Time(Statistic::Min, _) => !condition.operator.bounds_above(),
            _ => false,
        }
    }

    /// Judges the smallest or largest time.
    pub(super) fn extreme(&self, all: &Slice) -> Outcome {
        let condition = &self.threshold.condition;
        let is_max = condition.metric.is_max();
        let holds = |ns: u64| condition.operator.holds(self.value(ns), condition.limit);
        let ok = if is_max { all.ok_max_ns } else { all.min_ns };
        let cut = all.cut_ns.map(|(first, last)| if is_max { last } else { first });
        if self.one_arrival_breaks_it() {
            // The time of a cut-off arrival only grows: it can break `max < …`; above the limit it keeps `min > …`.
            let cut_holds = cut.map(holds);
            match (ok.map(holds), cut_holds) {
                _ if self.series.faulty(all) > 0 => Outcome::Fail,
                (Some(false), _) => Outcome::Fail,
                (_, Some(false)) if is_max => Outcome::Fail,
                (_, Some(kept)) if is_max || !kept => Outcome::Inconclusive,
                _ => Outcome::Pass,
            }
        } else {
            match (ok.is_some_and(holds), cut.map(holds)) {
                (true, _) => Outcome::Pass,
                (_, Some(true)) if is_max => Outcome::Pass,
                (_, Some(possible)) if is_max || possible => Outcome::Inconclusive,
                _ => Outcome::Fail,
            }
        }
    }

    /// The number of iterations in a slice that count as done: for an upper limit all that finished, else only the
    /// successful ones.
    pub(super) fn done(&self, slice: &Slice) -> u64 {
        match self.threshold.condition.operator {
            Operator::Below | Operator::AtMost => slice.completed(),
            Operator::Above | Operator::AtLeast | Operator::Equal => slice.ok,
        }
    }

    /// The number of arrivals in a range that a verdict can use.
    pub(super) fn decided(&self, all: &Slice) -> u64 {
        let faulty = self.series.faulty(all);
        match &self.threshold.condition.metric {
            Metric::Time(Statistic::Mean, _) => all.ok + faulty,
            Metric::Time(..) => {
                let breaks = all.ok + faulty == 0 && self.extreme(all) == Outcome::Fail;
                all.ok + faulty + if breaks { all.aborted } else { 0 }
            }
            Metric::Number(..) => all.ok,
            Metric::Rate(event, _) | Metric::Count(event, _) if event.is_of_ended() => all.completed(),
            metric if metric.counts_done() && self.bounds_above() => all.completed(),
            metric if metric.counts_done() => all.completed() + all.dropped,
            _ => all.total(),
        }
    }

    pub(super) fn bounds_above(&self) -> bool {
        self.threshold.condition.operator.bounds_above()
    }

    /// A remark beside a figure about failed, dropped and cut-off arrivals; empty without any.
    pub(super) fn others(&self, all: &Slice) -> String {
        let counts = self.bounds_above();
        match &self.threshold.condition.metric {
            Metric::Time(statistic, _) => {
                let breaks = self.one_arrival_breaks_it() || matches!(statistic, Statistic::Percentile(_));
                let what = match (breaks, counts) {
                    (false, _) => "which does not count",
                    (_, true) => "which counts as over",
                    (_, false) => "which counts as under",
                };
                words(self.series, all, what)
            }
            metric if metric.counts_done() => {
                let failed = if counts { 0 } else { all.failed };
                let only_failed = Slice { failed, dropped: 0, aborted: 0, ..*all };
                words(self.series, &only_failed, "which does not count")
            }
            _ => String::new(),
        }
    }
}

/// ` (3 failed, 2 never started, which counts as over; 1 cut off, may have taken longer)`.
fn words(series: &Series, all: &Slice, what: &str) -> String {
    let dropped = if series.counts_dropped() { all.dropped } else { 0 };
    let counted = [(all.failed, "failed"), (dropped, "never started")];
    let counted: Vec<String> = counted
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let mut parts = Vec::new();
    if !counted.is_empty() {
        parts.push(format!("{}, {what}", counted.join(", ")));
    }
    if all.aborted > 0 {
        parts.push(format!("{} cut off, may have taken longer", all.aborted));
    }
    if parts.is_empty() { String::new() } else { format!(" ({})", parts.join("; ")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{judged, judged_run, threshold};
    use super::*;
    use measure::sample::{ActionSample, CompletionStatus, IterationSample};

    const MS: u64 = 1_000_000;
    /// The iterations of a run: enough for p99 and for a mean.
    const COUNT: u64 = 600;

    /// The kinds of run, in the order of the columns below.
    const KINDS: [(&str, Other); 14] = [
        ("all succeeded", None),
        ("one failed at once", Some((Share::One, CompletionStatus::Failed, 0))),
        ("half failed at once", Some((Share::Half, CompletionStatus::Failed, 0))),
        ("all failed at once", Some((Share::All, CompletionStatus::Failed, 0))),
        ("all failed by a timeout", Some((Share::All, CompletionStatus::Failed, 30_000 * MS))),
        ("one never started", Some((Share::One, CompletionStatus::Dropped, 0))),
        ("half never started", Some((Share::Half, CompletionStatus::Dropped, 0))),
        ("none started", Some((Share::All, CompletionStatus::Dropped, 0))),
        ("one cut off early", Some((Share::One, CompletionStatus::Aborted, MS / 2))),
        ("one cut off late", Some((Share::One, CompletionStatus::Aborted, 30_000 * MS))),
        ("half cut off early", Some((Share::Half, CompletionStatus::Aborted, MS / 2))),
        ("all cut off early", Some((Share::All, CompletionStatus::Aborted, MS / 2))),
        ("all cut off late", Some((Share::All, CompletionStatus::Aborted, 30_000 * MS))),
        ("nothing was due", Some((Share::None, CompletionStatus::Ok, 0))),
    ];

    /// How many end differently, how, and after what time.
    type Other = Option<(Share, CompletionStatus, u64)>;

    #[derive(Clone, Copy, PartialEq)]
    enum Share {
        None,
        One,
        Half,
        All,
    }

    /// Iterations of 10 ms with one request each, 20 ms apart. Some of them end differently.
    fn run(kind: Other) -> Vec<IterationSample> {
        let (share, ended, ns) = kind.unwrap_or((Share::One, CompletionStatus::Ok, 10 * MS));
        if share == Share::None {
            return Vec::new();
        }
        let of = |number: u64| {
            let other = match share {
                Share::None => false,
                Share::One => number == 77,
                Share::Half => number % 2 == 1,
                Share::All => true,
            };
            let (ended, duration_ns) = if other { (ended, ns) } else { (CompletionStatus::Ok, 10 * MS) };
            let due_ns = number * 20 * MS;
            let request = ActionSample { duration_ns, ended, ..ActionSample::default() };
            let actions = if ended == CompletionStatus::Dropped { Vec::new() } else { vec![request] };
            IterationSample {
                number,
                due_ns,
                start_ns: due_ns,
                duration_ns,
                ended,
                actions,
                ..Default::default()
            }
        };
        (0..COUNT).map(of).collect()
    }

    fn letter(outcome: Outcome) -> char {
        match outcome {
            Outcome::Pass => 'P',
            Outcome::Fail => 'F',
            Outcome::Inconclusive => 'i',
            Outcome::Invalid => '-',
            Outcome::None => '?',
        }
    }

    /// The results of a metric in every kind of run: a letter and a shown line for each.
    fn found(name: &str, judge: impl Fn(&[IterationSample]) -> (Outcome, String)) -> (String, String) {
        let (mut letters, mut lines) = (String::new(), format!("{name}\n"));
        for (place, (kind, which)) in KINDS.iter().enumerate() {
            let (outcome, observed) = judge(&run(*which));
            if [5, 8, 13].contains(&place) {
                letters.push(' ');
            }
            letters.push(letter(outcome));
            lines.extend(["  ", kind, ": ", &format!("{outcome:?}"), ": ", &observed, "\n"]);
        }
        (letters, lines)
    }

    /// PASS, FAIL, inconclusive (i) or invalid (-) for each kind of run, and the shown text.
    #[test]
    fn every_metric_is_held_to_every_kind_of_run() {
        let mut shown = String::new();
        // All succeeded. Failed: one, half, all, all slowly. Never started: one, half, all. Cut off: one early, one
        // late, half early, all early, all late. Nothing due.
        for (text, expected) in [
            ("p95 < 1s", "PPFFF PFF PPi-F -"),
            ("p99 <= 1s", "PPFFF PFF PPi-F -"),
            ("p95 > 1ms", "PPPFF PPF PPP-P -"),
            ("p95(service) < 1s", "PPFFF PP- PPi-F -"),
            ("p95(lag) < 1s", "PPPPP PFF PPPPP -"),
            ("p95(action \"first\") < 1s", "PPFFF PP- PPi-F -"),
            ("p95(response action \"first\") < 1s", "PPFFF PFF PPi-F -"),
            ("p95(service) > 1ms", "PPPFF PP- PPP-P -"),
            ("avg < 1s", "PFFFF FFF iii-- -"),
            ("avg > 1ms", "PFFFF FFF iii-- -"),
            ("avg(service) < 1s", "PFFFF Pi- iii-- -"),
            ("max < 1s", "PFFFF FFF iFi-F -"),
            ("max(service) < 1s", "PFFFF PP- iFi-F -"),
            ("max > 1ms", "PPPFF PPF PPP-- -"),
            ("max > 1s", "FFFFF FFF iPi-- -"),
            ("min > 1ms", "PFFFF FFF iPi-- -"),
            ("min < 1s", "PPPFF PPF PPP-F -"),
            ("max(lag) < 1s", "PPPPP FFF PPPPP -"),
            ("avg(lag) < 1s", "PPPPP FFF PPPPP -"),
            ("max(action \"first\") < 1s", "PFFFF PP- iFi-F -"),
            ("throughput >= 10/s", "PPPFF PPF PiP-- -"),
            ("throughput <= 100/s", "PPPPP PP- PPP-- -"),
            ("count(iterations) >= 300", "PPPFF PPF PPP-- -"),
            ("count(iterations) <= 600", "PPPPP PP- PPP-- -"),
            ("count(iterations) == 600", "PFFFF FFF FFF-- -"),
            ("rate(errors) < 1%", "PPFFF PP- PPP-- -"),
            ("rate(errors) <= 0%", "PFFFF PP- PPP-- -"),
            ("rate(errors) == 0%", "PFFFF PP- PPP-- -"),
            ("count(errors) == 0", "PFFFF PP- PPP-- -"),
            ("rate(errors action \"first\") < 1%", "PPFFF PP- PPP-- -"),
            ("rate(dropped) < 1%", "PPPPP PFF PPPPP -"),
            ("count(dropped) == 0", "PPPPP FFF PPPPP -"),
            ("rate(resent) < 1%", "PPPPP PP- PPP-- -"),
            ("rate(aborted) < 1%", "PPPPP PPP PPFFF -"),
            ("count(aborted) == 0", "PPPPP PPP FFFFF -"),
        ] {
            let (letters, lines) = found(text, |samples| {
                let judged = judged(&threshold(text), samples);
                (judged.outcome, judged.observed)
            });
            assert_eq!(letters, expected, "{text}\n{lines}");
            shown += &lines;
        }
        for (sla, expected) in [
            (json!({ "failure_rate_max": 1.0 }), "PPFFF PP- PPP-- -"),
            (json!({ "failure_rate_min": 1.0 }), "FFPPP FF- FFF-- -"),
            (json!({ "max_seconds_per_iteration": 1.0 }), "PPP-F PP- PFP-F -"),
            (json!({ "max_avg_duration": 1.0 }), "PPP-- PP- PPP-- -"),
            (json!({ "max_avg_duration_per_atomic": { "first": 1.0 } }), "PPP-- PP- PPP-- -"),
            (json!({ "outliers": { "max": 0, "min_iterations": 10, "sigmas": 4.0 } }), "PPP-- PP- PPP-- -"),
            (json!({ "max_degradation": 10.0 }), "PPP-- PP- PPP-- -"),
        ] {
            let (letters, lines) = found(&sla.to_string(), |samples| {
                let verdict = judged_run(&sla, samples);
                (verdict.criteria[0].outcome, verdict.criteria[0].observed.clone())
            });
            assert_eq!(letters, expected, "{sla}\n{lines}");
            shown += &lines;
        }
        let known = include_str!("../../tests/vectors/gate/arrivals.txt");
        assert!(shown == known, "the shown text differs from tests/vectors/gate/arrivals.txt:\n{shown}");
    }
}
