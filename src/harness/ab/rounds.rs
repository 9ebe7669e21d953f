//! The rounds of a comparison: how a round runs, and when a pair of rounds is complete.

use crate::error::{HarnessError, HarnessErrorKind};
use crate::event::Event;
use crate::options::{LoadOptions, RunOptions};
use crate::run::{self, RoundEnded};
use analysis::points::{PairTraces, Points};
use base::ids::mix;
use plan::SEED_MAX;
use report::pairs::{FurtherRounds, Pair, RoundInfo};
use results::aggregate::{Aggregate, WorkloadStats};
use results::choice::IterationClass;
use results::model::RunStatus;
use verdict::FAILS_ALIKE;
use verdict::paired::{PairDecision, Round, RoundLengths};

use super::arms::Arm;
use super::service::BuildProcess;
use super::{AbOptions, AbStopCause, Comparison, TRACES_COUNTED, TRACES_OF_ROUND, counts};

/// The rounds of a pair that ran.
#[derive(Default)]
struct RoundPair {
    a: Vec<RoundEnded>,
    b: Vec<RoundEnded>,
    /// The lengths of its rounds.
    lengths: Vec<f64>,
    /// Why B did not run.
    b_missing: Option<String>,
}

impl RoundPair {
    /// Why the pair does not count, if so.
    fn invalid(&self) -> Option<String> {
        let rounds = || self.a.iter().chain(&self.b);
        let of_run = rounds().flat_map(|round| &round.results.verdict.invalid).next().cloned();
        of_run.or_else(|| rounds().find_map(|round| failed_of_bench(&round.aggregate)))
    }

    fn span(&self) -> RoundLengths {
        let finished = |round: &RoundEnded| round.results.run.status == RunStatus::Finished;
        RoundLengths {
            pair: self.lengths.iter().sum(),
            round: self.lengths.last().copied().unwrap_or(1.0),
            may_lengthen: self.a.iter().chain(&self.b).all(finished),
        }
    }
}

/// That iterations of a round failed at a limit of bench or of its machine: that is no difference between the builds.
fn failed_of_bench(aggregate: &Aggregate) -> Option<String> {
    let failed = |stats: &WorkloadStats| (aggregate.failed_of_bench(stats), stats.iterations.total);
    let counts = aggregate.workloads.iter().map(failed);
    let (count, total) = counts.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    (count as f64 > FAILS_ALIKE * total as f64).then(|| {
        format!(
            "{count} of {total} iterations failed at a limit of bench or of this machine (class `client`, `body_limit` or \
             `bench`)"
        )
    })
}

impl Comparison {
    /// Runs a pair, with further and longer rounds of both sides while either has too few iterations.
    pub(super) fn pair(&mut self, b_first: bool) -> Result<(), AbStopCause> {
        let number = self.pairs.len() + 1;
        let mut pair = RoundPair::default();
        let left_out = loop {
            self.rounds(number, b_first != (pair.lengths.len() % 2 == 1), &mut pair)?;
            if let Some(reason) = pair.invalid() {
                self.trial.discard();
                break Some(reason);
            }
            let aggregates = |rounds: &[RoundEnded]| {
                let aggregates: Vec<&Aggregate> = rounds.iter().map(|round| &round.aggregate).collect();
                let counts = counts::of_rounds(rounds, &self.counted);
                Round { counts, ..Round::of(&aggregates, &self.series) }
            };
            let a = aggregates(&pair.a);
            let b = match &pair.b_missing {
                None => aggregates(&pair.b),
                Some(reason) => {
                    self.notes.push(format!("B did not run in pair {number}: {reason}"));
                    Round::nothing_ran(self.job.names.len(), &self.series)
                }
            };
            match self.trial.offer(&a, &b, pair.span()) {
                PairDecision::Taken => break None,
                PairDecision::LeftOut(reason) => break Some(reason),
                PairDecision::Longer { factor, why } => {
                    let note = format!("pair {number}: {why}");
                    self.events.event(&Event::RoundsLonger(&note));
                    self.heard.push(note.clone());
                    self.notes.push(note);
                    self.factor = factor;
                }
            }
        };
        self.keep(number, b_first, &pair, left_out);
        Ok(())
    }

    /// Runs a round of each side.
    fn rounds(&self, number: usize, b_first: bool, pair: &mut RoundPair) -> Result<(), AbStopCause> {
        let part = pair.lengths.len();
        for is_b in [b_first, !b_first] {
            match self.round(number, part, is_b) {
                Ok(ended) if is_b => pair.b.push(ended),
                Ok(ended) => pair.a.push(ended),
                // B ran before, and A still does: that is a finding.
                Err(AbStopCause::Failed(error))
                    if is_b && self.trial.pairs() > 0 && error.kind() == HarnessErrorKind::Unreachable =>
                {
                    pair.b_missing = Some(error.to_string());
                }
                Err(ended) => return Err(ended),
            }
        }
        pair.lengths.push(self.factor);
        Ok(())
    }

    /// Stores what reports show of a pair.
    fn keep(&mut self, number: usize, b_first: bool, pair: &RoundPair, left_out: Option<String>) {
        let info = |round: &RoundEnded, part: usize, is_b| {
            info(round, &round_name(number, part, is_b), pair.lengths.get(part).copied().unwrap_or(1.0))
        };
        let of = |part: usize| FurtherRounds {
            a: pair.a.get(part).map(|round| info(round, part, false)).unwrap_or_default(),
            b: pair.b.get(part).map(|round| info(round, part, true)).unwrap_or_default(),
        };
        let FurtherRounds { a, b } = of(0);
        let further = (1..pair.lengths.len()).map(of).collect();
        if let (None, Some(first)) = (&self.scenario, pair.a.first()) {
            self.scenario = Some(first.results.scenario.clone());
        }
        self.pairs.push(Pair { b_first, left_out: left_out.clone(), a, b, further });
        if let Some(reason) = left_out {
            self.notes.push(format!("pair {number} is left out: {reason}"));
            return;
        }
        for (is_b, rounds) in [(false, &pair.a), (true, &pair.b)] {
            for (part, round) in rounds.iter().enumerate() {
                self.criteria[usize::from(is_b)].push(round.results.verdict.criteria.clone());
                self.counts_shown.add(round, &round_name(number, part, is_b), is_b, &self.counted);
            }
        }
        for (a, b) in pair.a.iter().zip(&pair.b) {
            self.traces.push(PairTraces { a: points(a), b: points(b) });
            let both = PairTraces { a: functions(a), b: functions(b) };
            if [&both.a, &both.b].iter().any(|side| side.iter().any(|one| one.kinds().next().is_some())) {
                self.functions.push(both);
            }
            let notes = a.results.notes.iter().chain(&b.results.notes);
            for note in notes.chain(a.results.profiling.reason.iter()) {
                if !self.notes.contains(note) && self.notes.len() < 20 {
                    self.notes.push(note.clone());
                }
            }
        }
    }

    fn round(&self, number: usize, part: usize, is_b: bool) -> Result<RoundEnded, AbStopCause> {
        let is_interrupted = || self.interrupt.is_interrupted();
        if is_interrupted() {
            return Err(AbStopCause::Interrupted);
        }
        let arm = if is_b { &self.job.b } else { &self.job.a };
        let directory = self.directory.join(round_name(number, part, is_b));
        let service = arm.start(&self.job, &self.directory, &self.runtime, &self.interrupt);
        let mut service = service.map_err(|error| {
            if is_interrupted() { AbStopCause::Interrupted } else { AbStopCause::Failed(error) }
        })?;
        let wanted = run::Round {
            directory: &directory,
            target: arm.target.as_deref(),
            length: self.options.round,
            factor: self.factor,
            traces: TRACES_OF_ROUND,
            level: None,
            window: 0..0,
            random_traces: if self.counted.is_empty() {
                0
            } else {
                TRACES_COUNTED.saturating_mul(u32::try_from(self.job.names.len()).unwrap_or(u32::MAX))
            },
        };
        let ended = run::round(self.run_options(arm, (number, part)), &wanted, &self.interrupt, &self.events);
        let gone = service.as_mut().and_then(BuildProcess::ended);
        drop(service);
        let was_interrupted = match &ended {
            Ok(ended) => ended.results.run.status == RunStatus::Interrupted,
            Err(error) => error.kind() == HarnessErrorKind::Interrupted,
        };
        if let Some(text) = gone.filter(|_| !was_interrupted) {
            // It is not known what was measured: something else may answer at the same place.
            return Err(AbStopCause::Failed(HarnessError::unreachable(format!(
                "{}: {text}",
                arm.side().name
            ))));
        }
        let ended = ended.map_err(|error| match error.kind() {
            HarnessErrorKind::Interrupted => AbStopCause::Interrupted,
            _ => AbStopCause::Failed(error),
        })?;
        let run = &ended.results.run;
        match run.status {
            // A round that ended early is judged by what ran; iterations that were cut off count as slower than all
            // others.
            RunStatus::Finished | RunStatus::TimedOut | RunStatus::Aborted => Ok(ended),
            RunStatus::Interrupted => Err(AbStopCause::Interrupted),
            RunStatus::Failed | RunStatus::Recovered => {
                let error = run.error.as_deref().unwrap_or("a round did not end");
                let kind =
                    if ended.setup_failed { HarnessErrorKind::Unreachable } else { HarnessErrorKind::Failed };
                Err(AbStopCause::Failed(HarnessError::new(kind, error)))
            }
        }
    }

    /// Both sides of a pair have the same seed, so they send the same requests. Further rounds have another.
    fn run_options(&self, arm: &Arm, (pair, part): (usize, usize)) -> RunOptions {
        let AbOptions { scenario, load, .. } = &self.options;
        let (deployment, load) = (arm.deployment.clone(), load.clone());
        let seed = mix(mix(self.job.seed ^ mix(pair as u64)) ^ part as u64) & SEED_MAX;
        // Once a side.
        let no_probe = load.no_probe || (pair, part) != (1, 0);
        let load = LoadOptions { seed: Some(seed), no_probe, ..load };
        RunOptions { deployment, load, ..RunOptions::new(scenario.clone()) }
    }
}

/// `0003-b`, and of further rounds of the pair `0003-b-2`.
fn round_name(number: usize, part: usize, is_b: bool) -> String {
    let name = format!("{number:04}-{}", if is_b { "b" } else { "a" });
    if part == 0 { name } else { format!("{name}-{}", part + 1) }
}

fn info(round: &RoundEnded, directory: &str, length: f64) -> RoundInfo {
    let counts = || round.results.workloads.iter().map(|workload| workload.iterations);
    RoundInfo {
        directory: directory.to_owned(),
        started_at: round.results.run.started_at.clone(),
        iterations: counts().map(|counts| counts.total).sum(),
        failed: counts().map(|counts| counts.failed).sum(),
        duration_s: round.results.run.duration_s,
        length,
    }
}

/// The functions of typical and of slow traces.
fn functions(round: &RoundEnded) -> [Points; 2] {
    let mut both = [Points::default(), Points::default()];
    for (side, trace) in &round.traces {
        let functions = &trace.functions;
        match side {
            IterationClass::Typical => both[0].add_functions(functions),
            IterationClass::Slow => both[1].add_functions(functions),
            _ => {}
        }
    }
    both
}

/// The points of typical and of slow iterations' traces.
fn points(round: &RoundEnded) -> [Points; 2] {
    let mut both = [Points::default(), Points::default()];
    for (side, trace) in &round.traces {
        let tree = &trace.tree;
        match side {
            IterationClass::Typical if tree.is_whole() => both[0].add(tree),
            IterationClass::Slow if tree.is_whole() => both[1].add(tree),
            _ => {}
        }
    }
    both
}
