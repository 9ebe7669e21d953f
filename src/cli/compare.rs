//! `bench compare`: stored runs side by side, or one against the runs before it.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::analysis::points::Points;
use crate::base::files::write_output;
use crate::base::ids::IdSpace;
use crate::report::compare::{self, AgainstHistory, PointDifference, RunRef, TracePoints, TwoRuns, VERSION};
use crate::results::choice::{self, Chosen, Side};
use crate::results::counting::Counted;
use crate::results::directory::RunDirectory;
use crate::results::model::{Outcome, Results};
use crate::results::stored::{StoredError, StoredRun, is_run};
use crate::verdict::Evidence;
use crate::verdict::apart::{Second, apart};
use crate::verdict::compare::{Weighed, differences, failures, no_data, ratios};
use crate::verdict::history::{self, RUNS_MAX};
use crate::verdict::paired::{Metric, is_known};

use super::exit::{Exit, Stopped};

/// How many past runs are looked at to find those that can be compared.
const EXAMINED_MAX: usize = 200;
const DIFFERENCES_SHOWN: usize = 20;

/// Compare runs that are over: two side by side, or a new one against the runs before it.
///
/// Two runs: ratios of every percentile with 95 % intervals, by iteration, action and trace point. They describe these
/// two runs and give no verdict, since one run of each cannot tell a slower build from a slower hour; `bench ab` can.
///
/// A directory of 10 or more past runs as BASE: a new run is held against what one more of them would stay below.
/// What takes longer fails it only with a second new run that confirms it (RERUN), and where past runs vary by 5 % or
/// less; else it is INCONCLUSIVE. The second run begins 10 minutes or more after the first has ended, or a run of the
/// base lies between the two: what slows one minute slows both runs in it. So does what fails more often than in past runs, if confirmed. Runs that are not comparable with the new one are passed over.
#[derive(Debug, clap::Args)]
pub(super) struct CompareArguments {
    /// The run that is compared with: its directory, its results.json, or a directory of past runs.
    base: PathBuf,
    /// The new run.
    new: PathBuf,
    /// A second new run that is to confirm what the first one shows against past runs: another run, 10 minutes or more
    /// later, or with a past run between the two.
    rerun: Option<PathBuf>,
    /// Compare runs of different scenarios, deployments, options or machines all the same.
    #[arg(long)]
    allow_different: bool,
    /// A percentile that is held against past runs, such as p99 or 'p95(action "log in")' (default: p50 and p95).
    #[arg(long, value_name = "PERCENTILE")]
    metric: Vec<Metric>,
    /// Exit with 4 when the verdict is INCONCLUSIVE.
    #[arg(long)]
    strict: bool,
    /// Print JSON.
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print Markdown.
    #[arg(long)]
    markdown: bool,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(arguments: &CompareArguments) -> Result<Exit, Stopped> {
    let new = open(&arguments.new)?;
    if arguments.base.is_dir() && !is_run(&arguments.base) {
        return against_history(arguments, &new);
    }
    if arguments.rerun.is_some() {
        let text = "a second new run confirms what the first shows against a directory of past runs; two runs are only compared";
        return Err(Stopped::new(Exit::Usage, format!("error: {text}")));
    }
    if !arguments.metric.is_empty() {
        let text =
            "--metric is for a run against a directory of past runs; two runs are shown by all percentiles";
        return Err(Stopped::new(Exit::Usage, format!("error: {text}")));
    }
    two_runs(arguments, &open(&arguments.base)?, &new)
}

/// A run with its verdict and something to compare.
fn open(path: &Path) -> Result<StoredRun, Stopped> {
    let run = read(path).map_err(|error| input(&error.to_string()))?;
    if let Some(fault) = run.record_fault() {
        let text = format!("error: {} cannot be compared: it is INVALID: {fault}", path.display());
        return Err(Stopped::new(Exit::Invalid, text));
    }
    match no_data(&run.results) {
        None => Ok(run),
        Some(reason) => Err(input(&format!("{} cannot be compared: {reason}", path.display()))),
    }
}

fn read(path: &Path) -> Result<StoredRun, StoredError> {
    let mut run = StoredRun::open(path)?;
    if let Some(aggregate) = &run.aggregate {
        let counted = Counted::read(aggregate)?;
        let evidence =
            Evidence { aggregate, counted: &counted, workloads: &run.results.workloads, sampled: &[] };
        let verdict = crate::verdict::judge(&evidence);
        run.results.verdict = verdict;
    }
    Ok(run)
}

fn input(text: &str) -> Stopped {
    Stopped::new(Exit::Input, format!("error: {text}"))
}

fn two_runs(arguments: &CompareArguments, base: &StoredRun, new: &StoredRun) -> Result<Exit, Stopped> {
    let differences = differences(&base.results, &new.results);
    if !differences.is_empty() && !arguments.allow_different {
        let shown = differences.iter().take(DIFFERENCES_SHOWN);
        let lines: Vec<String> =
            shown.map(|text| format!("  {}\n", crate::report::terminal::clean(text))).collect();
        let text = format!(
            "error: these runs are not of the same thing:\n{}compare runs that differ in the build only, or add --allow-different",
            lines.concat()
        );
        return Err(Stopped::new(Exit::Input, text));
    }
    let weigh = |run| Weighed::new(run).map_err(|error| input(&error.to_string()));
    let rows = ratios(&weigh(base)?, &weigh(new)?).map_err(|error| input(&error))?;
    if rows.is_empty() {
        return Err(input("the two runs have no workload of the same name with samples in both"));
    }
    let (base_points, new_points) = (points(base)?, points(new)?);
    let mut notes = Vec::new();
    if base.results.environment.bench_version != new.results.environment.bench_version {
        let versions = [base, new].map(|run| run.results.environment.bench_version.as_str());
        notes.push(format!("made by different versions of bench: {} and {}", versions[0], versions[1]));
    }
    for run in [base, new].iter().filter(|run| run.aggregate.is_none()) {
        let path = run.path.display();
        notes.push(format!(
            "{path} is without its log: its samples are taken as independent, and intervals may be too narrow"
        ));
        if !run.is_proven() {
            notes.push(format!("{path} lists no iterations: what it states cannot be held against anything"));
        }
    }
    let compared = TwoRuns {
        format: "bench-compare",
        version: VERSION,
        base: RunRef::new(&base.path, &base.results),
        new: RunRef::new(&new.path, &new.results),
        differences,
        rows,
        failures: failures(&base.results, &new.results),
        typical_points: trace_points(&base_points[0], &new_points[0]),
        slow_points: trace_points(&base_points[1], &new_points[1]),
        notes,
    };
    let shown = if arguments.json {
        serde_json::to_string_pretty(&compared).map_err(Stopped::cannot("write JSON"))? + "\n"
    } else if arguments.markdown {
        compare::markdown(&compared)
    } else {
        compare::terminal(&compared) + "\n"
    };
    output(arguments, &shown)?;
    Ok(Exit::Ok)
}

fn output(arguments: &CompareArguments, text: &str) -> Result<(), Stopped> {
    let Some(path) = &arguments.output else {
        let for_people = !(arguments.json || arguments.markdown);
        return if for_people { super::output::show(text) } else { super::output::deliver(text) };
    };
    write_output(path, |output| output.write_all(text.as_bytes())).map_err(|error| {
        Stopped::new(Exit::Failed, format!("error: cannot write {}: {error}", path.display()))
    })
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
fn points(run: &StoredRun) -> Result<[Points; 2], Stopped> {
    let mut both = [Points::default(), Points::default()];
    let Some(aggregate) = &run.aggregate else { return Ok(both) };
    let chosen = choice::choose(aggregate).map_err(|error| input(&error.to_string()))?;
    let ids = IdSpace::from_seed(aggregate.header.id_seed);
    let sides: HashMap<Uuid, Side> = chosen
        .iter()
        .map(|Chosen { sample, side, .. }| (ids.base_id(sample.workload, sample.number), *side))
        .collect();
    let directory = RunDirectory::open(&run.path);
    let mut ordered: Vec<_> = sides.into_iter().collect();
    ordered.sort_by_key(|(id, _)| *id);
    for (id, side) in ordered {
        let place = match side {
            Side::Typical => 0,
            Side::Slow => 1,
            Side::Failed | Side::Other => continue,
        };
        if let Some(trace) = directory.stored_trace(id) {
            let tree = trace.tree();
            if tree.is_whole() {
                both[place].add(&tree);
            }
        }
    }
    Ok(both)
}

/// What a run is held against past runs by.
fn metrics(arguments: &CompareArguments, new: &StoredRun) -> Result<Vec<Metric>, Stopped> {
    let metrics: Vec<Metric> = match arguments.metric.as_slice() {
        [] => ["p50", "p95"].iter().filter_map(|text| text.parse().ok()).collect(),
        given => given.to_vec(),
    };
    for action in metrics.iter().filter_map(|metric| metric.action.as_deref()) {
        let known = new.results.workloads.iter().flat_map(|workload| &workload.actions);
        let known: Vec<&str> = known.map(|action| action.name.as_str()).collect();
        is_known(action, &known).map_err(|text| Stopped::new(Exit::Usage, format!("error: {text}")))?;
    }
    Ok(metrics)
}

/// The past runs that can be compared, latest first, and how many others there are.
fn past_runs(
    arguments: &CompareArguments,
    new: &StoredRun,
    rerun: Option<&StoredRun>,
) -> Result<(Vec<StoredRun>, usize), Stopped> {
    let ids = |results: &Results| [results.run.id, results.run.id_seed];
    let mut known: HashSet<Uuid> =
        std::iter::once(new).chain(rerun).flat_map(|run| ids(&run.results)).collect();
    let (mut past, mut passed_over) = (Vec::<StoredRun>::new(), 0_usize);
    for path in runs_of(&arguments.base)? {
        if past.len() >= RUNS_MAX {
            break;
        }
        match read(&path) {
            // A copy of a run tells nothing new, and would make past runs look alike.
            Ok(run) if ids(&run.results).iter().any(|id| known.contains(id)) => {}
            Ok(run)
                if run.record_fault().is_none()
                    && fits(&run.results, &new.results, arguments.allow_different) =>
            {
                known.extend(ids(&run.results));
                past.push(run);
            }
            _ => passed_over += 1,
        }
    }
    Ok((past, passed_over))
}

fn against_history(arguments: &CompareArguments, new: &StoredRun) -> Result<Exit, Stopped> {
    let metrics = metrics(arguments, new)?;
    let rerun = arguments.rerun.as_deref().map(open).transpose()?;
    if let Some(different) =
        rerun.as_ref().and_then(|rerun| differences(&new.results, &rerun.results).into_iter().next())
    {
        return Err(input(&format!("the second new run is not of the same thing as the first: {different}")));
    }
    let (past, passed_over) = past_runs(arguments, new, rerun.as_ref())?;
    let runs: Vec<&StoredRun> = past.iter().collect();
    let results: Vec<&Results> = past.iter().map(|run| &run.results).collect();
    let second = rerun.as_ref().map(|run| {
        let apart = apart(&new.results, &run.results, &results);
        Second { run, apart }
    });
    let rows = history::judge(&runs, new, second.as_ref(), &metrics, 0.1).map_err(|error| input(&error))?;
    let failures = history::judge_failures(&runs, new, second.as_ref());
    let outcomes = rows.iter().map(|row| row.outcome).chain(failures.iter().map(|row| row.outcome));
    let outcome = worst(&outcomes.collect::<Vec<_>>());
    let mut notes = vec![
        "the weaker gate: what is slower than the hours before may be the hour; bench ab tells them apart"
            .to_owned(),
    ];
    if passed_over > 0 {
        notes.push(format!(
            "{passed_over} past runs were passed over: not of the same thing, not finished, or not readable"
        ));
    }
    let unproven = past.iter().filter(|run| !run.is_proven()).count();
    if unproven > 0 {
        notes.push(format!(
            "{unproven} past runs have neither a log nor a list of iterations, and count for nothing"
        ));
    }
    let judged = AgainstHistory {
        format: "bench-history",
        version: VERSION,
        outcome,
        new: RunRef::new(&new.path, &new.results),
        confirming: rerun.as_ref().map(|rerun| RunRef::new(&rerun.path, &rerun.results)),
        past: past.iter().map(|run| RunRef::new(&run.path, &run.results)).collect(),
        rows,
        failures,
        notes,
    };
    let shown = if arguments.json {
        serde_json::to_string_pretty(&judged).map_err(Stopped::cannot("write JSON"))? + "\n"
    } else if arguments.markdown {
        compare::history_markdown(&judged)
    } else {
        compare::history_terminal(&judged) + "\n"
    };
    output(arguments, &shown)?;
    Ok(match outcome {
        Outcome::Fail => Exit::Gate,
        Outcome::Inconclusive if arguments.strict => Exit::Inconclusive,
        _ => Exit::Ok,
    })
}

fn worst(outcomes: &[Outcome]) -> Outcome {
    let order = [Outcome::Fail, Outcome::Inconclusive];
    order.into_iter().find(|outcome| outcomes.contains(outcome)).unwrap_or(Outcome::Pass)
}

fn fits(past: &Results, new: &Results, allow_different: bool) -> bool {
    no_data(past).is_none() && (allow_different || differences(past, new).is_empty())
}

/// The runs in a directory, latest first: their names begin with their time.
fn runs_of(directory: &Path) -> Result<Vec<PathBuf>, Stopped> {
    let entries = std::fs::read_dir(directory)
        .map_err(|error| input(&format!("cannot read {}: {error}; check the path", directory.display())))?;
    let is_past =
        |path: &PathBuf| is_run(path) && (path.is_dir() || path.extension().is_some_and(|end| end == "json"));
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(is_past).collect();
    if paths.is_empty() {
        let text = format!(
            "{} is no run and holds none; give a run's directory, or one that holds runs or their results.json files",
            directory.display()
        );
        return Err(input(&text));
    }
    paths.sort();
    paths.reverse();
    paths.truncate(EXAMINED_MAX);
    Ok(paths)
}
