//! The stored traces of a run: why each was fetched, and how many iterations it stands for.

use std::collections::HashMap;
use std::path::Path;

use crate::error::HarnessError;
use collect::files::TraceRecords;
use measure::log::RunLog;
use osprofiler::report::TraceTree;
use report::document::StyledLine;
use report::explanation::PointLabel;
use report::trace::fetched::FetchedTrace;
use results::aggregate::Aggregate;
use results::choice::IterationClass;
use results::directory::RunDirectory;
use results::functions::without;
use results::head;
use results::model::Explanation;
use results::strata::{Strata, StratifiedIteration, Weighting};

use super::TraceSource;

/// What is asked for: one trace, or the traces of a run to choose from.
pub enum TraceSelection {
    /// One trace, with why its iteration was slow, if its run says that.
    One(TraceRecords, Option<Box<Explanation>>),
    /// The traces of a run, longest first.
    Several(Vec<FetchedTrace>),
}

/// How many iterations each trace stands for, by its id, and what sums of these are of.
pub(super) type Weights = (HashMap<String, f64>, Weighting);

const PROBE: &str = "probe: sent before the load";

impl TraceSource {
    /// The single trace that is requested, or a list of the traces of a single run.
    ///
    /// # Errors
    /// When it cannot be found or read, or when there are several that are not of one run.
    pub fn one_or_several(&self) -> Result<TraceSelection, HarnessError> {
        let named = self.named()?;
        let ([run], true) = (named.runs.as_slice(), named.files.is_empty()) else {
            return self.one().map(|trace| TraceSelection::One(trace, None));
        };
        let mut traces = self.load()?;
        // A run without results, or with damaged ones, explains nothing.
        let results = head::read(&RunDirectory::open(run).results()).ok();
        let explained = |trace: &TraceRecords| results.as_ref()?.explanation(trace.base_id.parse().ok()?);
        if traces.len() == 1 && (!named.ids.is_empty() || !RunDirectory::open(run).probe_trace().is_file()) {
            let trace = traces.remove(0);
            let explanation = explained(&trace).cloned().map(Box::new);
            return Ok(TraceSelection::One(trace, explanation));
        }
        let strata = strata(run).unwrap_or_default();
        let known: HashMap<String, &StratifiedIteration> =
            strata.sampled.iter().map(|one| (one.trace_id.to_string(), one)).collect();
        let of = |trace: &TraceRecords| {
            let cause = explained(trace).map(|seen| PointLabel::from(seen).in_short()).unwrap_or_default();
            let row = row(trace, known.get(&trace.base_id).copied());
            let probe = results.as_ref().and_then(|results| results.probe.as_ref());
            let is_probe = probe.is_some_and(|probe| probe.trace_id.to_string() == trace.base_id);
            FetchedTrace { cause, reason: if is_probe { PROBE } else { row.reason }, ..row }
        };
        traces.extend(self.probe_of(run, &[])?);
        let mut rows: Vec<FetchedTrace> = traces.iter().map(of).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.took_us));
        Ok(TraceSelection::Several(rows))
    }

    /// How many iterations each of the requested traces stands for, by its id; absent if they are not all traces of
    /// runs with a log.
    pub(super) fn weights(&self) -> Result<Option<Weights>, HarnessError> {
        let named = self.named()?;
        if named.runs.is_empty() || !named.files.is_empty() || !named.ids.is_empty() {
            return Ok(None);
        }
        let (mut weights, mut all) = (HashMap::new(), Weighting::default());
        for run in &named.runs {
            let Some(strata) = strata(run) else { return Ok(None) };
            weights.extend(strata.weights().into_iter().map(|(id, weight)| (id.to_string(), weight)));
            all.add(&strata.weighting());
        }
        Ok((all.traces() > 0).then_some((weights, all)))
    }
}

/// The stored traces of a run with a log.
fn strata(run: &Path) -> Option<Strata> {
    let directory = RunDirectory::open(run);
    let log = RunLog::open(&directory.log()).ok()?;
    let stored = directory.stored_traces();
    let aggregate = Aggregate::of(log, stored.clone()).ok()?;
    Some(Strata::of(&aggregate, |id| stored.contains(&id)))
}

fn row(trace: &TraceRecords, sampled: Option<&StratifiedIteration>) -> FetchedTrace {
    let tree = without(TraceTree::build(&trace.records));
    let took_us = sampled.map_or_else(|| tree.length_us(), |one| one.chosen.sample.response_ns() / 1_000);
    let reason = match sampled {
        None => "not an iteration of the load",
        Some(one) => match (one.chosen.side, one.chosen.top) {
            (IterationClass::Slow, true) => "slow: of the slowest 1 %",
            (IterationClass::Slow, false) => "slow: of the slowest 5 %",
            (IterationClass::Typical, _) => "typical: between p10 and p50",
            (IterationClass::Failed, _) => "failed",
            (IterationClass::Other, _) if one.is_slowest => "slow: one of the slowest",
            (IterationClass::Other, _) if one.chosen.random => "random sample",
            (IterationClass::Other, _) => "kept",
        },
    };
    FetchedTrace {
        trace_id: trace.base_id.clone(),
        took_us,
        reason,
        points: tree.points.len(),
        cause: StyledLine::default(),
        errors: tree.points.iter().filter(|point| point.error.is_some()).count(),
    }
}
