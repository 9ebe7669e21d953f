//! Stored runs side by side, or one against the runs before it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::error::{HarnessError, HarnessErrorKind};
use crate::outcome::Conclusion;
use analysis::points::Points;
use report::compare::{
    AgainstHistory, HISTORY, PointDifference, RunRef, TWO_RUNS, TracePoints, TwoRuns, VERSION,
};
use results::choice::{self, ChosenIteration, IterationClass};
use results::client_points::REPORTER;
use results::directory::RunDirectory;
use results::model::{Outcome, Results};
use results::stored::{StoredError, StoredRun, is_run};
use verdict::Evidence;
use verdict::compare::{WeighedRun, differences, failures, no_base, no_data, ratios};
use verdict::history::{self, RUNS_MAX};
use verdict::paired::{PercentileMetric, check_action};
use verdict::separation::{ConfirmingRun, separation};

/// The largest number of past runs examined for comparable ones.
const EXAMINED_MAX: usize = 200;
const DIFFERENCES_SHOWN: usize = 20;
/// How many of the latest runs are looked at for what sets them apart.
const EXAMPLES_MAX: usize = 5;

/// Which runs to compare, and how.
#[derive(Clone, Debug)]
pub struct CompareOptions {
    /// The base: a run's directory, a results.json, or a directory of past runs.
    pub base: PathBuf,
    /// The new run.
    pub new: PathBuf,
    /// A second new run, to confirm what the first one shows against past runs.
    pub rerun: Option<PathBuf>,
    /// Compare runs even if scenario, deployment, options or machine differ.
    pub allow_different: bool,
    /// The percentiles to judge against past runs; p50 and p95 if empty.
    pub metrics: Vec<PercentileMetric>,
}

/// The result of comparing stored runs.
pub enum RunComparison {
    /// Two runs side by side, without a verdict.
    TwoRuns(TwoRuns),
    /// A run against the runs before it.
    AgainstHistory(AgainstHistory),
}

impl RunComparison {
    /// How it ended: comparing two runs always ends well, whatever the figures.
    #[must_use]
    pub fn conclusion(&self) -> Conclusion {
        match self {
            Self::TwoRuns(_) => Conclusion::Good,
            Self::AgainstHistory(judged) => match judged.outcome {
                Outcome::Fail => Conclusion::GateFailed,
                Outcome::Inconclusive => Conclusion::Inconclusive,
                Outcome::Pass | Outcome::Invalid | Outcome::None => Conclusion::Good,
            },
        }
    }
}

/// Compares stored runs.
///
/// # Errors
/// When a run cannot be compared.
pub fn compare(options: &CompareOptions) -> Result<RunComparison, HarnessError> {
    let new = open(&options.new)?;
    if options.base.is_dir() && !is_run(&options.base) {
        return against_history(options, &new).map(RunComparison::AgainstHistory);
    }
    if options.rerun.is_some() {
        let text = "a second new run confirms what the first shows against a directory of past runs; two runs are only compared";
        return Err(HarnessError::usage(text));
    }
    if !options.metrics.is_empty() {
        let text =
            "--metric is for a run against a directory of past runs; for two runs, all percentiles are shown";
        return Err(HarnessError::usage(text));
    }
    two_runs(options, &open(&options.base)?, &new).map(RunComparison::TwoRuns)
}

/// Opens a run; it must be valid and have data to compare.
fn open(path: &Path) -> Result<StoredRun, HarnessError> {
    let run = read(path).map_err(unreadable)?;
    if let Some(fault) = run.record_fault() {
        let text = format!("{} cannot be compared: it is INVALID: {fault}", path.display());
        return Err(HarnessError::new(HarnessErrorKind::NoVerdict, text));
    }
    match no_data(&run.results) {
        None => Ok(run),
        Some(reason) => Err(HarnessError::input(format!("{} cannot be compared: {reason}", path.display()))),
    }
}

fn unreadable(error: StoredError) -> HarnessError {
    match error {
        StoredError::Log(error) => HarnessError::of_log(error),
        error => HarnessError::input(error),
    }
}

fn read(path: &Path) -> Result<StoredRun, StoredError> {
    let mut run = StoredRun::open(path)?;
    if let Some(aggregate) = &run.aggregate {
        let evidence =
            Evidence { aggregate, workloads: &run.results.workloads, sampled: &[], asynchronous: &[] };
        let verdict = verdict::judge(&evidence);
        run.results.verdict = verdict;
    }
    Ok(run)
}

fn two_runs(options: &CompareOptions, base: &StoredRun, new: &StoredRun) -> Result<TwoRuns, HarnessError> {
    let differences = differences(&base.results, &new.results);
    if !differences.is_empty() && !options.allow_different {
        let shown = differences.iter().take(DIFFERENCES_SHOWN);
        let lines: Vec<String> =
            shown.map(|text| format!("  {}\n", base::visible::on_one_line(text))).collect();
        let text = format!(
            "these runs are not comparable:\n{}compare runs that differ in the build only, or add --allow-different",
            lines.concat()
        );
        return Err(HarnessError::input(text));
    }
    let weigh = |run| WeighedRun::new(run).map_err(HarnessError::input);
    let rows = ratios(&weigh(base)?, &weigh(new)?).map_err(HarnessError::input)?;
    if rows.is_empty() {
        return Err(HarnessError::input(
            "the two runs have no workload of the same name with samples in both",
        ));
    }
    let (base_points, new_points) = (points(base), points(new));
    let mut notes = Vec::new();
    if base.results.environment.bench_version != new.results.environment.bench_version {
        let versions = [base, new].map(|run| run.results.environment.bench_version.as_str());
        notes.push(format!("made by different versions of bench: {} and {}", versions[0], versions[1]));
    }
    for run in [base, new].iter().filter(|run| run.aggregate.is_none()) {
        let path = run.path.display();
        notes.push(format!(
            "{path} has no log: its samples are taken as independent, and intervals may be too narrow"
        ));
        if !run.is_proven() {
            notes.push(format!("{path} lists no iterations: its figures cannot be checked"));
        }
    }
    Ok(TwoRuns {
        format: TWO_RUNS.to_owned(),
        version: VERSION,
        base: RunRef::new(&base.path, &base.results),
        new: RunRef::new(&new.path, &new.results),
        differences,
        rows,
        failures: failures(&base.results, &new.results),
        typical_points: trace_points(&base_points[0], &new_points[0]),
        slow_points: trace_points(&base_points[1], &new_points[1]),
        notes,
    })
}

/// The kinds of services' trace points whose own time in typical iterations certainly differs between two runs, the largest
/// difference first; none if a run cannot be read or has no traces.
pub(super) fn changed_points(base: &Path, new: &Path) -> Vec<PointDifference> {
    let (Ok(base), Ok(new)) = (read(base), read(new)) else { return Vec::new() };
    let ([base, _], [new, _]) = (points(&base), points(&new));
    let is_certain = |point: &PointDifference| {
        point.service != REPORTER
            && (point.low_ms.is_some_and(|low| low > 0.0) || point.high_ms.is_some_and(|high| high < 0.0))
    };
    let mut kinds: Vec<PointDifference> =
        trace_points(&base, &new).kinds.into_iter().filter(is_certain).collect();
    let by_ms = |point: &PointDifference| (point.new_self_ms - point.base_self_ms).abs();
    kinds.sort_by(|one, other| by_ms(other).total_cmp(&by_ms(one)));
    kinds
}

fn trace_points(base: &Points, new: &Points) -> TracePoints {
    let both = base.traces() > 0 && new.traces() > 0;
    let kinds = if both { new.against(base) } else { Vec::new() };
    TracePoints {
        base_traces: base.traces(),
        new_traces: new.traces(),
        kinds: kinds.into_iter().map(PointDifference::from).collect(),
    }
}

/// The points of the stored traces of typical and of slow iterations.
fn points(run: &StoredRun) -> [Points; 2] {
    let mut both = [Points::default(), Points::default()];
    let Some(aggregate) = &run.aggregate else { return both };
    let chosen = choice::choose(aggregate);
    let sides: HashMap<Uuid, IterationClass> = chosen
        .iter()
        .map(|ChosenIteration { sample, side, .. }| (aggregate.trace_id(sample), *side))
        .collect();
    let directory = RunDirectory::open(&run.path);
    let mut ordered: Vec<_> = sides.into_iter().collect();
    ordered.sort_by_key(|(id, _)| *id);
    for (id, side) in ordered {
        let place = match side {
            IterationClass::Typical => 0,
            IterationClass::Slow => 1,
            IterationClass::Failed | IterationClass::Other => continue,
        };
        if let Some(trace) = directory.stored_trace(id) {
            let tree = &trace.tree;
            if tree.has_all_times() {
                both[place].add(tree);
            }
        }
    }
    both
}

/// The metrics to judge a run by against past runs.
fn metrics(options: &CompareOptions, new: &StoredRun) -> Result<Vec<PercentileMetric>, HarnessError> {
    let metrics: Vec<PercentileMetric> = match options.metrics.as_slice() {
        [] => ["p50", "p95"].iter().filter_map(|text| text.parse().ok()).collect(),
        given => given.to_vec(),
    };
    for action in metrics.iter().filter_map(|metric| metric.action.as_deref()) {
        let known = new.results.workloads.iter().flat_map(|workload| &workload.actions);
        let known: Vec<&str> = known.map(|action| action.name.as_str()).collect();
        check_action(action, &known).map_err(HarnessError::usage)?;
    }
    Ok(metrics)
}

/// The comparable past runs, latest first, and the number of others.
fn past_runs(
    options: &CompareOptions,
    new: &StoredRun,
    rerun: Option<&StoredRun>,
) -> Result<(Vec<StoredRun>, usize), HarnessError> {
    let ids = |results: &Results| [results.run.id, results.run.id_seed];
    let mut known: HashSet<Uuid> =
        std::iter::once(new).chain(rerun).flat_map(|run| ids(&run.results)).collect();
    let (mut past, mut passed_over) = (Vec::<StoredRun>::new(), 0_usize);
    for path in runs_of(&options.base)? {
        if past.len() >= RUNS_MAX {
            break;
        }
        match read(&path) {
            // A copy of a run adds nothing, and would make past runs look more alike.
            Ok(run) if ids(&run.results).iter().any(|id| known.contains(id)) => {}
            Ok(run)
                if run.record_fault().is_none()
                    && fits(&run.results, &new.results, options.allow_different) =>
            {
                known.extend(ids(&run.results));
                past.push(run);
            }
            _ => passed_over += 1,
        }
    }
    Ok((past, passed_over))
}

fn against_history(options: &CompareOptions, new: &StoredRun) -> Result<AgainstHistory, HarnessError> {
    let metrics = metrics(options, new)?;
    let rerun = options.rerun.as_deref().map(open).transpose()?;
    if let Some(different) =
        rerun.as_ref().and_then(|rerun| differences(&new.results, &rerun.results).into_iter().next())
    {
        return Err(HarnessError::input(format!(
            "the second new run is not comparable with the first: {different}"
        )));
    }
    let (past, passed_over) = past_runs(options, new, rerun.as_ref())?;
    let runs: Vec<&StoredRun> = past.iter().collect();
    let results: Vec<&Results> = past.iter().map(|run| &run.results).collect();
    let second = rerun.as_ref().map(|run| {
        let separation = separation(&new.results, &run.results, &results);
        ConfirmingRun { run, separation }
    });
    let rows = history::judge(&runs, new, second.as_ref(), &metrics, 0.1).map_err(HarnessError::input)?;
    let failures = history::judge_failures(&runs, new, second.as_ref());
    let outcomes = rows.iter().map(|row| row.outcome).chain(failures.iter().map(|row| row.outcome));
    let outcome = Outcome::worst(outcomes.chain([Outcome::Pass]));
    // What an empty table cannot say.
    let nothing = past.is_empty().then(|| nothing_comparable(options, new, passed_over));
    let mut notes: Vec<String> = nothing.into_iter().collect();
    notes.push(
        "this is the weaker gate: a slow hour looks like a slow build; use bench ab to tell them apart"
            .to_owned(),
    );
    if passed_over > 0 && !past.is_empty() {
        notes.push(format!(
            "{passed_over} past runs were skipped: not comparable, not finished, or not readable"
        ));
    }
    let unproven = past.iter().filter(|run| !run.is_proven()).count();
    if unproven > 0 {
        notes.push(format!(
            "{unproven} past runs have neither a log nor a list of iterations, and do not count"
        ));
    }
    Ok(AgainstHistory {
        format: HISTORY.to_owned(),
        version: VERSION,
        outcome,
        new: RunRef::new(&new.path, &new.results),
        confirming: rerun.as_ref().map(|rerun| RunRef::new(&rerun.path, &rerun.results)),
        past: past.iter().map(|run| RunRef::new(&run.path, &run.results)).collect(),
        rows,
        failures,
        notes,
    })
}

/// Why there is no past run to compare with, with what sets the latest of the others apart.
fn nothing_comparable(options: &CompareOptions, new: &StoredRun, passed_over: usize) -> String {
    let (directory, run) = (options.base.display(), new.path.display());
    if passed_over == 0 {
        return format!(
            "{directory} has no run but {run}, so there is nothing to compare it with: run the scenario once more, or name \
             another directory"
        );
    }
    let of = |path: PathBuf| -> Option<String> {
        let past = read(&path).ok()?;
        let is_other = past.results.run.id != new.results.run.id;
        let why = no_base(&past.results).or_else(|| {
            let all = differences(&past.results, &new.results);
            all.first().map(|first| base::visible::on_one_line(first))
        });
        why.filter(|_| is_other).map(|why| format!("; of the latest, {}: {why}", path.display()))
    };
    let examined = runs_of(&options.base).unwrap_or_default().into_iter().take(EXAMPLES_MAX);
    let example = examined.filter_map(of).next().unwrap_or_default();
    format!(
        "none of the {passed_over} other runs in {directory} can be compared with {run}{example}; run the same scenario \
         with the same options, or add --allow-different"
    )
}

fn fits(past: &Results, new: &Results, allow_different: bool) -> bool {
    no_base(past).is_none() && (allow_different || differences(past, new).is_empty())
}

/// The runs in a directory, latest first: their names begin with their time.
fn runs_of(directory: &Path) -> Result<Vec<PathBuf>, HarnessError> {
    let entries = std::fs::read_dir(directory).map_err(|error| {
        HarnessError::input(format!("cannot read {}: {error}", directory.display())).remedy("check the path")
    })?;
    let is_past =
        |path: &PathBuf| is_run(path) && (path.is_dir() || path.extension().is_some_and(|end| end == "json"));
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_past).collect();
    if paths.is_empty() {
        let text = format!(
            "{} is not a run and contains none; give a run's directory, or one that holds runs or their results.json files",
            directory.display()
        );
        return Err(HarnessError::input(text));
    }
    paths.sort();
    paths.reverse();
    paths.truncate(EXAMINED_MAX);
    Ok(paths)
}
