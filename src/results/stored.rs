//! Reads stored runs for comparison: from their log, or from a `results.json` alone.
//!
//! Such a file is not trusted. It is refused, with the reason, if it does not contain results, has another version, or
//! has figures that are impossible or contradict its list of iterations. Nothing here compares.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::aggregate::Aggregate;
use super::build;
use super::directory::RunDirectory;
use super::head::{self, Iterations};
use super::histogram::histogram;
use super::listed::{self, ListedIterations};
use super::model::{Distribution, FORMAT, Results, VERSION};
use super::record;
use measure::latency::{Latency, Percentiles};
use measure::log::{LogError, RunLog, Visitor};
use measure::rows::{Rows, SampleRow};
use statistics::binomial::{BATCHES, BinomialCount, Share};
use text::files::open_regular;

/// Why a run cannot be compared. Completes "failed to …".
#[derive(Debug, thiserror::Error)]
pub enum StoredError {
    /// The file is not a log, or has another version.
    #[error(transparent)]
    Log(#[from] LogError),
    /// An error of the system.
    #[error("cannot read {path}: {source}; check the path")]
    Io {
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The file contains something else.
    #[error(
        "{path} does not contain results of bench: {reason}; give the directory of a run, or its results.json"
    )]
    Foreign {
        /// The file.
        path: String,
        reason: String,
    },
    /// The file has another version.
    #[error(
        "{path} has version {found} of the results; this bench reads version {VERSION}: use the bench that wrote it"
    )]
    Version {
        /// The file.
        path: String,
        /// Its version.
        found: u64,
    },
    /// A number in the file is impossible.
    #[error("{path}: {reason}; the file was changed or damaged: make it again with `bench report`")]
    Impossible {
        /// The file.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

pub struct StoredRun {
    /// The path, as given.
    pub path: PathBuf,
    /// Its results; without a verdict if they were made from the log.
    pub results: Results,
    /// The contents of the log; absent for a `results.json` alone.
    pub aggregate: Option<Aggregate>,
    /// The figures from the iterations of a `results.json` alone, by workload; absent if it lists none.
    pub listed: Option<BTreeMap<u16, ListedIterations>>,
}

/// A figure of a stored run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// In milliseconds; infinite if the percentile is among iterations that failed, never started or were cut off.
    Ms(f64),
    /// The run has no samples.
    NoSamples,
    /// The run states the figure, but it cannot be checked.
    Unproven,
}

/// All samples, the failed ones, and how many more have no time.
struct LatencyPopulation<'a> {
    all: &'a Latency,
    failed: &'a Latency,
    never: u64,
}

/// Response times by rank: failures are longer than every success, and have no time.
pub struct FailuresLast {
    well: Percentiles,
    /// Of all, with those that have no time.
    pub count: u64,
}

impl FailuresLast {
    /// The time of a rank, counted from 1, in milliseconds; infinite for a failure, `None` after the last.
    #[must_use]
    pub fn at_rank_ms(&self, rank: u64) -> Option<f64> {
        let known = (1..=self.count).contains(&rank);
        known.then(|| self.well.at_rank(rank).map_or(f64::INFINITY, |ns| ns as f64 / 1e6))
    }
}

/// Whether a path is a run (and not a directory of runs).
#[must_use]
pub fn is_run(path: &Path) -> bool {
    path.is_file() || RunDirectory::open(path).log().is_file() || RunDirectory::open(path).results().is_file()
}

impl StoredRun {
    /// Reads a run directory, or a `results.json`.
    ///
    /// # Errors
    /// What the path is instead, or what is wrong with it.
    pub fn open(path: &Path) -> Result<Self, StoredError> {
        let directory = RunDirectory::open(path);
        if directory.log().is_file() {
            let aggregate = Aggregate::of(RunLog::open(&directory.log())?, directory.stored_traces())?;
            let results = build::build(&aggregate);
            return Ok(Self { path: path.to_path_buf(), results, aggregate: Some(aggregate), listed: None });
        }
        let file = if path.is_dir() { directory.results() } else { path.to_path_buf() };
        let results = Self::results_of(&file)?;
        let impossible = |reason| StoredError::Impossible { path: file.display().to_string(), reason };
        let listed = listed::read(reader(&file)?).map_err(impossible)?;
        if let Some(listed) = &listed {
            listed::hold(&results, listed).map_err(impossible)?;
        }
        Ok(Self { path: path.to_path_buf(), results, aggregate: None, listed })
    }

    /// True if its figures can be checked against its iterations.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.aggregate.is_some() || self.listed.is_some()
    }

    /// A percentile of response times of a workload's iterations, or of an action's requests. Those that failed, never
    /// started or were cut off count as longer than all others.
    #[must_use]
    pub fn percentile(&self, workload: &str, action: Option<&str>, percentile: f64) -> Figure {
        match self.times(workload, action) {
            Ok(LatencyPopulation { all, failed, never }) => {
                let value_ns = all.percentile_failures_last_ns(failed, never, percentile);
                Figure::Ms(value_ns.map_or(f64::INFINITY, |ns| ns as f64 / 1e6))
            }
            Err(figure) => figure,
        }
    }

    /// Response times by rank, in which those that failed, never started or were cut off come last. `None` if they cannot
    /// be told from others, or there are no samples.
    #[must_use]
    pub fn failures_last(&self, workload: &str, action: Option<&str>) -> Option<FailuresLast> {
        let LatencyPopulation { all, failed, never } = self.times(workload, action).ok()?;
        Some(FailuresLast { well: all.without(failed), count: all.count() + never })
    }

    /// What a figure of a workload or of an action is made of, or which figure there is instead.
    fn times(&self, workload: &str, action: Option<&str>) -> Result<LatencyPopulation<'_>, Figure> {
        let Some(number) = self.results.workloads.iter().position(|other| other.name == workload) else {
            return Err(Figure::NoSamples);
        };
        let counts = self.results.workloads[number].iterations;
        let stats = self.aggregate.as_ref().and_then(|aggregate| aggregate.workloads.get(number));
        let listed =
            self.listed.as_ref().and_then(|listed| listed.get(&u16::try_from(number).unwrap_or(u16::MAX)));
        let (all, failed, cut_off) = match (action, stats, listed) {
            (None, Some(stats), _) => (&stats.response, &stats.failed_response, counts.aborted),
            (None, None, Some(listed)) => (&listed.response, &listed.failed_response, counts.aborted),
            (Some(action), Some(stats), _) => {
                let actions = &self.results.workloads[number].actions;
                let place = actions.iter().position(|other| other.name == action);
                let Some(action) = place.and_then(|place| stats.actions.get(place)) else {
                    return Err(Figure::NoSamples);
                };
                (&action.response, &action.failed_response, action.requests.aborted)
            }
            // The file lists iterations but not their requests.
            _ => return Err(Figure::Unproven),
        };
        if all.count() == 0 {
            return Err(Figure::NoSamples);
        }
        Ok(LatencyPopulation { all, failed, never: counts.dropped + cut_off })
    }

    /// Why its record is incomplete, if it is: such a run must not be compared.
    #[must_use]
    pub fn record_fault(&self) -> Option<String> {
        let faults = match (&self.aggregate, &self.results.record) {
            (Some(aggregate), _) => record::faults(aggregate),
            (None, Some(known)) => record::of_record(known),
            (None, None) => Vec::new(),
        };
        faults.into_iter().next()
    }

    /// Reads a `results.json`.
    ///
    /// # Errors
    /// What the file is instead, or what is wrong with it.
    pub fn results_of(file: &Path) -> Result<Results, StoredError> {
        let results = read(file)?;
        check(&results)
            .map_err(|reason| StoredError::Impossible { path: file.display().to_string(), reason })?;
        Ok(results)
    }
}

fn reader(path: &Path) -> Result<BufReader<File>, StoredError> {
    let failed = |source| StoredError::Io { path: path.display().to_string(), source };
    Ok(BufReader::with_capacity(1 << 16, open_regular(path).map_err(failed)?))
}

fn read(path: &Path) -> Result<Results, StoredError> {
    let name = path.display().to_string();
    let foreign = |reason: String| StoredError::Foreign { path: name.clone(), reason };
    // There may be millions of iterations: they are read one by one, not kept.
    let keys = head::keys(reader(path)?, Iterations::Passed).map_err(|error| foreign(error.to_string()))?;
    if keys.get("format").and_then(Value::as_str) != Some(FORMAT) {
        return Err(foreign(format!("its `format` is not `{FORMAT}`")));
    }
    match keys.get("version").and_then(Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(found) => return Err(StoredError::Version { path: name, found }),
        None => return Err(foreign("it has no `version`".to_owned())),
    }
    head::results(keys).map_err(|error| foreign(error.to_string()))
}

/// Checks for figures that no run can have.
fn check(results: &Results) -> Result<(), String> {
    for workload in &results.workloads {
        let actions = workload.actions.iter().map(|action| (&action.name, &action.response_time));
        let own = [(&workload.name, &workload.response_time), (&workload.name, &workload.service_time)];
        for (name, distribution) in own.into_iter().chain(actions) {
            possible(distribution).map_err(|reason| format!("`{name}`: {reason}"))?;
        }
    }
    Ok(())
}

fn possible(distribution: &Distribution) -> Result<(), String> {
    let figures = [distribution.min_ms, distribution.mean_ms, distribution.stddev_ms, distribution.max_ms];
    let of_all =
        distribution.of_all.iter().flat_map(|all| &all.percentiles).filter_map(|known| known.value_ms);
    let completed = distribution.percentiles.iter().map(|known| known.value_ms);
    let all = figures.into_iter().chain(completed).chain(of_all);
    if let Some(wrong) = all.clone().find(|value| !value.is_finite() || *value < 0.0) {
        return Err(format!("{wrong} ms is not a duration"));
    }
    histogram(distribution).map(drop)
}

/// A limit whose exceedances are counted, batch by batch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The workload's index.
    pub workload: usize,
    /// The action's index; absent for iterations.
    pub action: Option<usize>,
    /// Response times above it exceed it, in nanoseconds.
    pub above_ns: u64,
}

/// The design effect of a run's samples for each limit: by what factor they count as fewer because neighbours are
/// alike; at least 1. From the variance of the exceedances in [`BATCHES`] contiguous batches (Heidelberger and Lewis,
/// 1984).
///
/// # Errors
/// The log cannot be read again.
pub fn design_effects(aggregate: &Aggregate, limits: &[Limit]) -> Result<Vec<f64>, LogError> {
    let totals = aggregate.workloads.iter().map(|workload| workload.response.count().max(1)).collect();
    let mut exceedances = Exceedances {
        limits,
        seen: vec![0; aggregate.workloads.len()],
        totals,
        counts: vec![[BinomialCount::default(); BATCHES]; limits.len()],
    };
    aggregate.log.visit(&mut [&mut exceedances])?;
    Ok(exceedances.counts.iter().map(|batches| Share::of_batches(batches).effect()).collect())
}

/// The visitor that counts samples over a limit, batch by batch.
struct Exceedances<'a> {
    limits: &'a [Limit],
    /// For each workload, the number of samples in total, and so far.
    totals: Vec<u64>,
    seen: Vec<u64>,
    /// One entry for each limit.
    counts: Vec<[BinomialCount; BATCHES]>,
}

impl Exceedances<'_> {
    fn add(&mut self, row: SampleRow<'_>) {
        let workload = usize::from(row.head.workload);
        if row.head.warm_up || !row.head.ended.is_measured() || workload >= self.totals.len() {
            return;
        }
        let batch = (self.seen[workload] * BATCHES as u64 / self.totals[workload]) as usize;
        let batch = batch.min(BATCHES - 1);
        self.seen[workload] += 1;
        let counts = self.limits.iter().zip(&mut self.counts);
        for (limit, counts) in counts.filter(|(limit, _)| limit.workload == workload) {
            let part = &mut counts[batch];
            let mut add = |response_ns: u64| {
                part.n += 1;
                part.k += u64::from(response_ns > limit.above_ns);
            };
            match limit.action {
                None => add(row.head.response_ns()),
                Some(action) => row
                    .actions
                    .iter()
                    .filter(|sample| usize::from(sample.action) == action && sample.ended.is_measured())
                    .for_each(|sample| add(sample.duration_ns.saturating_add(row.head.queue_time_ns()))),
            }
        }
    }
}

impl Visitor for Exceedances<'_> {
    fn rows(&mut self, rows: &Rows) -> io::Result<()> {
        rows.iter().for_each(|row| self.add(row));
        Ok(())
    }
}
