//! The runs of a directory over time.

use std::path::{Path, PathBuf};

use base::parallel;
use report::compare::PointDifference;
use report::trend::{
    FORMAT, LeftOutRun, TrendChange, TrendDocument, TrendGroup, TrendLevel, TrendSeries, TrendedRun, VERSION,
};
use results::directory::RunDirectory;
use results::head;
use results::model::{Results, Time};
use verdict::compare::{differences, no_base, unfit};
use verdict::trend::{LevelChange, level_changes, median, runs_min};

use super::compare::changed_points;
use crate::error::HarnessError;
use crate::runs;

/// The percentiles that are looked at.
const PERCENTILES: [f64; 3] = [50.0, 95.0, 99.0];

/// A run that can be compared.
struct ReadRun {
    name: String,
    path: PathBuf,
    results: Results,
}

/// The percentiles of the runs in a directory, and where they changed. Nothing is written.
///
/// # Errors
/// The directory cannot be read.
pub fn trend(directory: &Path) -> Result<TrendDocument, HarnessError> {
    let named = runs::runs_in(directory)?;
    let read = parallel::map(named, |(path, name)| {
        let results = head::read(&RunDirectory::open(&path).results());
        let reason = |results: &Results| unfit(results).or_else(|| no_base(results));
        match results {
            Ok(results) => match reason(&results) {
                None => Ok(ReadRun { name, path, results }),
                Some(reason) => Err(LeftOutRun { name, reason: format!("it {reason}") }),
            },
            Err(reason) => Err(LeftOutRun { name, reason: format!("results.json: {reason}") }),
        }
    });
    let mut left_out = Vec::new();
    // The newest comes first.
    let mut groups: Vec<Vec<ReadRun>> = Vec::new();
    for run in read {
        match run {
            Ok(run) => {
                let is_its =
                    |group: &&mut Vec<ReadRun>| differences(&group[0].results, &run.results).is_empty();
                match groups.iter_mut().find(is_its) {
                    Some(group) => group.push(run),
                    None => groups.push(vec![run]),
                }
            }
            Err(run) => left_out.push(run),
        }
    }
    groups.iter_mut().for_each(|group| group.reverse());
    let described = (0..groups.len()).map(|number| {
        let title = |group: &Vec<ReadRun>| group[0].results.scenario.title.clone();
        let before = groups[..number].iter().find(|other| title(other) == title(&groups[number]));
        let differs = before
            .map_or_else(Vec::new, |before| differences(&before[0].results, &groups[number][0].results));
        TrendGroup { differs, ..described(&groups[number]) }
    });
    Ok(TrendDocument {
        format: FORMAT.to_owned(),
        version: VERSION,
        bench_version: env!("CARGO_PKG_VERSION").to_owned(),
        directory: directory.display().to_string(),
        groups: described.collect(),
        left_out,
    })
}

fn described(runs: &[ReadRun]) -> TrendGroup {
    let newest = &runs[runs.len() - 1].results;
    let mut series = Vec::new();
    for workload in &newest.workloads {
        for percentile in PERCENTILES {
            let value = |run: &ReadRun| {
                let of = run.results.workloads.iter().find(|one| one.name == workload.name)?;
                match of.response_time.of_all_at(percentile)? {
                    Time::Ms(ms) => Some(ms),
                    Time::None => None,
                }
            };
            let values_ms = runs.iter().map(value).collect();
            series.push(TrendSeries { workload: workload.name.clone(), percentile, values_ms });
        }
    }
    // The same runs give the same changes.
    let seed = runs.len() as u64;
    let mut changes: Vec<TrendChange> = Vec::new();
    for one in &series {
        for level in level_changes(&one.values_ms, series.len(), seed) {
            let is_same = |change: &&TrendChange| {
                (change.level.earliest, change.level.latest) == (level.earliest, level.latest)
            };
            let known = changes.iter().find(is_same);
            let points = known.map_or_else(|| points(runs, &level), |change| change.points.clone());
            let (workload, percentile) = (one.workload.clone(), one.percentile);
            changes.push(TrendChange { workload, percentile, level, points });
        }
    }
    changes.sort_by_key(|change| change.level.at);
    TrendGroup {
        levels: levels(&series, &changes, runs.len()),
        scenario: newest.scenario.title.clone(),
        deployment: newest.deployment.name.clone(),
        host: newest.environment.host.clone(),
        differs: Vec::new(),
        runs_min: runs_min(series.len()),
        runs: runs
            .iter()
            .map(|run| TrendedRun { name: run.name.clone(), started_at: run.results.run.started_at.clone() })
            .collect(),
        series,
        changes,
    }
}

/// The levels between the changes of any percentile of each workload, whose series follow each other.
fn levels(series: &[TrendSeries], changes: &[TrendChange], runs: usize) -> Vec<TrendLevel> {
    let mut all = Vec::new();
    for of_workload in series.chunks(PERCENTILES.len()) {
        let [p50, p95, p99] = of_workload else { continue };
        let of = changes.iter().filter(|change| change.workload == p50.workload);
        let mut begins: Vec<usize> = of.map(|change| change.level.at).chain([0]).collect();
        begins.sort_unstable();
        begins.dedup();
        for (number, &from) in begins.iter().enumerate() {
            let to = begins.get(number + 1).copied().unwrap_or(runs);
            let at = |series: &TrendSeries| median(&series.values_ms[from..to]);
            all.push(TrendLevel {
                workload: p50.workload.clone(),
                from,
                runs: to - from,
                p50_ms: at(p50),
                p95_ms: at(p95),
                p99_ms: at(p99),
            });
        }
    }
    all
}

/// The kinds of trace points that changed between the last run that is certainly of the old level and the first that is
/// certainly of the new one.
fn points(runs: &[ReadRun], level: &LevelChange) -> Vec<PointDifference> {
    let before = level.earliest.checked_sub(1).and_then(|at| runs.get(at));
    let both = before.zip(runs.get(level.latest));
    both.map_or_else(Vec::new, |(before, after)| changed_points(&before.path, &after.path))
}
