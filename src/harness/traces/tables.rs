//! Many traces at once: lists, rankings by time, and counts of calls.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use crate::error::HarnessError;
use crate::event::warn;
use analysis::call_stats::{CallStats, Function};
use analysis::ranking::Ranking;
use analysis::statement;
use analysis::tree_diff::{TreeDiff, tree_diff};
use analysis::weighted;
use collect::files::{TraceFileKind, TraceRecords};
use osprofiler::driver::{TraceQuery, TraceSummary};
use osprofiler::profile_log;
use osprofiler::report::{Gaps, TraceTree};
use report::trace::pstats;
use results::functions::{Functions, without};
use results::rpc::with_queues;
use results::strata::Weighting;
use text::files::write_output;

use super::{TraceSource, failed, open};

/// How points are grouped into rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// By the points' names, such as `db`.
    Name,
    /// By their names and what they did: a statement, a method and path, without literals and ids.
    Detail,
}

/// Where profiles for Python's pstats go.
#[derive(Clone, Debug, Default)]
pub struct StatsProfiles {
    /// The file for a profile of all traces together.
    pub all: Option<PathBuf>,
    /// The directory for a profile of each trace, `ID.prof`.
    pub each: Option<PathBuf>,
}

impl TraceSource {
    /// The difference of two traces: two arguments that name one each, or a directory with two ids.
    ///
    /// # Errors
    /// When they cannot be found or read, or are not two.
    pub fn diff(&self) -> Result<TreeDiff, HarnessError> {
        let mut traces = match self.given.as_slice() {
            [a, b] => {
                let one = |given: &String| Self { given: vec![given.clone()], ..self.clone() }.one();
                vec![one(a)?, one(b)?]
            }
            _ => self.load()?,
        };
        // In the order in which they are named.
        let place = |trace: &TraceRecords| {
            self.given.iter().position(|given| trace.base_id.starts_with(given.as_str()))
        };
        if self.given.len() > 2 {
            traces.sort_by_key(place);
        }
        let [a, b] = traces.as_slice() else {
            let text = format!("two traces can be compared, and there are {}", traces.len());
            let help = "name two: two ids, two files, or a run's directory with two ids";
            return Err(HarnessError::usage(text).remedy(help));
        };
        let tree = |trace: &TraceRecords| with_queues(trace.tree());
        Ok(tree_diff((&a.base_id, &tree(a)), (&b.base_id, &tree(b))))
    }

    /// The newest traces, and whether there are more; by default the collector's.
    ///
    /// # Errors
    /// When something cannot be found or read.
    pub fn list(&self, errors_only: bool, limit: usize) -> Result<(Vec<TraceSummary>, bool), HarnessError> {
        // One more shows whether there are more.
        let query = TraceQuery { errors_only, limit: limit.saturating_add(1) };
        let mut traces = if self.given.is_empty() {
            let (runtime, collector) = self.connect()?;
            runtime.block_on(collector.list(&query)).map_err(|error| failed(&error))?
        } else {
            let mut traces: Vec<TraceSummary> = self.load()?.iter().map(summary).collect();
            traces.retain(|trace| !errors_only || trace.failed == Some(true));
            traces.sort_by(|one, other| other.timestamp.cmp(&one.timestamp));
            traces
        };
        let more = traces.len() > limit;
        traces.truncate(limit);
        Ok((traces, more))
    }

    /// The file to write, if the last argument names it as it does for Mistral's script: behind exactly one log. A file
    /// that exists is always read, and what can be the beginning of a trace's id is taken as one.
    pub fn take_output(&mut self) -> Option<PathBuf> {
        let [log, last] = self.given.as_slice() else { return None };
        let is_id = last.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
        let log = Path::new(log);
        if is_id || Path::new(last).exists() || !log.is_file() {
            return None;
        }
        let is_log = open(log).is_ok_and(|opened| matches!(opened.kind, TraceFileKind::Log));
        is_log.then(|| self.given.pop())?.map(Into::into)
    }

    /// Trace points ranked by time, as Mistral's script does; `all` also counts what the script leaves out.
    ///
    /// # Errors
    /// When something cannot be found or read.
    pub fn rank(
        &self,
        by: Grouping,
        all: bool,
        is_weighted: bool,
    ) -> Result<(Ranking, Option<Weighting>), HarnessError> {
        let named = self.named()?;
        let (mut ranking, mut lacking) = (Ranking::default(), TraceDeficits::default());
        let mut weighting = None;
        let only_files = named.ids.is_empty() && named.runs.is_empty() && !named.files.is_empty();
        if !only_files {
            let (parts, seen) = self.weighed(is_weighted)?;
            let mut ranked: Vec<(Ranking, f64)> = Vec::new();
            for (weight, traces) in &parts {
                let mut part = Ranking::default();
                traces.iter().for_each(|trace| rank_trace(&mut part, trace, by, &mut lacking));
                ranked.push((part, *weight));
            }
            // Equal totals keep the order of their first appearance.
            ranking = match (ranked.pop(), &seen) {
                (Some((part, _)), None) => part,
                (last, _) => {
                    ranked.extend(last);
                    weighted::ranking(ranked.iter().map(|(part, weight)| (part, *weight)))
                }
            };
            weighting = seen;
        }
        for path in named.files.iter().filter(|_| only_files) {
            let opened = open(path)?;
            match opened.kind {
                TraceFileKind::Log => rank_log(path, opened.reader, all, &mut ranking)?,
                TraceFileKind::Json => {
                    let traces = self.read(path, opened, &[])?.traces;
                    traces.iter().for_each(|trace| rank_trace(&mut ranking, trace, by, &mut lacking));
                }
            }
        }
        warn(&self.events, &left_out(&ranking));
        warn(&self.events, &lacking.text().into_iter().collect::<Vec<_>>());
        Ok((ranking, weighting))
    }

    /// Calls of trace points as Python's pstats counts them; writes profiles if requested.
    ///
    /// # Errors
    /// When something cannot be found, read or written.
    pub fn stats(
        &self,
        by: Grouping,
        profiles: &StatsProfiles,
        is_weighted: bool,
    ) -> Result<(CallStats, Option<Weighting>), HarnessError> {
        let (parts, weighting) = self.weighed(is_weighted)?;
        let (mut counted, mut number, mut lacking) = (Vec::new(), 0, TraceDeficits::default());
        for (weight, traces) in &parts {
            let mut part = CallStats::default();
            for trace in traces {
                let tree = without(trace.tree());
                lacking.add(&tree);
                count(&mut part, &tree, by);
                if let Some(directory) = &profiles.each {
                    let mut one = CallStats::default();
                    count(&mut one, &tree, by);
                    let name = format!("{}.prof", file_name(&trace.base_id, number));
                    write_profile(&directory.join(name), &one)?;
                }
                number += 1;
            }
            counted.push((part, *weight));
        }
        warn(&self.events, &lacking.text().into_iter().collect::<Vec<_>>());
        let all = weighted::call_stats(counted.iter().map(|(part, weight)| (part, *weight)));
        if let Some(path) = &profiles.all {
            write_profile(path, &all)?;
        }
        Ok((all, weighting))
    }

    /// The functions that were reported with the traces; writes a profile of all for Python's pstats if requested.
    ///
    /// # Errors
    /// When something cannot be found, read or written.
    pub fn functions(&self, profile: Option<&Path>) -> Result<Functions, HarnessError> {
        let mut all = Functions::default();
        for trace in self.load()? {
            let Functions { profiles, unreadable } = Functions::of(&trace.records);
            all.profiles.extend(profiles);
            all.unreadable += unreadable;
        }
        if let Some(path) = profile {
            let bytes = osprofiler::functions::pstats::encode(&all.sum(false));
            written(path, |out| out.write_all(&bytes))?;
        }
        Ok(all)
    }

    /// The requested traces by how many iterations each stands for; all together, once each, if that is not known or not
    /// wanted.
    fn weighed(&self, is_weighted: bool) -> Result<WeightedTraces, HarnessError> {
        let traces = self.load()?;
        let known = if is_weighted { self.weights()? } else { None };
        let Some((weights, weighting)) = known else { return Ok((vec![(1.0, traces)], None)) };
        let mut parts: Vec<(f64, Vec<TraceRecords>)> = Vec::new();
        for trace in traces {
            // A trace that is not of the load, such as one sent before it, stands for nothing.
            let weight = weights.get(&trace.base_id).copied().unwrap_or(0.0);
            match parts.iter_mut().find(|(known, _)| known.total_cmp(&weight).is_eq()) {
                Some((_, part)) => part.push(trace),
                None => parts.push((weight, vec![trace])),
            }
        }
        Ok((parts, Some(weighting)))
    }
}

/// Traces with how many iterations each of them stands for.
type WeightedTraces = (Vec<(f64, Vec<TraceRecords>)>, Option<Weighting>);

/// What traces lack besides starts and stops, which the tables count themselves.
#[derive(Default)]
struct TraceDeficits {
    traces: u64,
    not_whole: u64,
    sums: TraceTree,
}

impl TraceDeficits {
    fn add(&mut self, tree: &TraceTree) {
        self.traces += 1;
        self.not_whole += u64::from(tree.unreadable > 0 || tree.gaps != Gaps::default());
        self.sums.unreadable += tree.unreadable;
        self.sums.gaps.add(&tree.gaps);
    }

    fn text(&self) -> Option<String> {
        let what: Vec<String> =
            self.sums.unreadable_text().into_iter().chain(self.sums.gaps.texts()).collect();
        (self.not_whole > 0).then(|| {
            let traces = match (self.traces, self.not_whole) {
                (1, _) => "the trace is".to_owned(),
                (all, 1) => format!("1 of {all} traces is"),
                (all, some) => format!("{some} of {all} traces are"),
            };
            format!("{traces} not complete: {}; times may be counted at the wrong points", what.join(", "))
        })
    }
}

/// What a ranking leaves out.
fn left_out(ranking: &Ranking) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some((number, error)) = ranking.first_malformed {
        let lines = match ranking.malformed {
            1 => "1 line is".to_owned(),
            lines => format!("{lines} lines are"),
        };
        warnings.push(format!(
            "{lines} not part of a profile log and left out; the first: line {number} {error}"
        ));
    }
    if ranking.too_long > 0 {
        let points = ranking.too_long;
        warnings.push(format!(
            "{points} points of 1000 s and more were left out, as Mistral's script does; count them with --all"
        ));
    }
    if ranking.incomplete > 0 {
        let points = ranking.incomplete;
        warnings.push(format!("{points} points lack their start or their stop and were left out"));
    }
    warnings
}

fn summary(trace: &TraceRecords) -> TraceSummary {
    let tree = without(TraceTree::build(&trace.records));
    TraceSummary {
        base_id: trace.base_id.clone(),
        timestamp: trace
            .records
            .iter()
            .map(|record| &record.timestamp)
            .min()
            .map(ToString::to_string)
            .unwrap_or_default(),
        records: Some(trace.records.len() as u64),
        name: tree
            .points
            .first()
            .map(|point| format!("{} {}", point.name, point.detail()).trim_end().to_owned()),
        failed: Some(tree.points.iter().any(|point| point.error.is_some())),
    }
}

fn rank_trace(ranking: &mut Ranking, trace: &TraceRecords, by: Grouping, lacking: &mut TraceDeficits) {
    let tree = without(trace.tree());
    lacking.add(&tree);
    ranking.add_trace(&tree, |index| {
        let point = &tree.points[index];
        match by {
            Grouping::Name => point.name.to_string(),
            Grouping::Detail => format!("{} {}", point.name, statement::kind(point)).trim_end().to_owned(),
        }
    });
}

/// A log may be of any size: its lines are counted as they are read.
fn rank_log(
    path: &Path,
    log: Box<dyn BufRead>,
    all: bool,
    ranking: &mut Ranking,
) -> Result<(), HarnessError> {
    let counted = profile_log::each_line(log, |number, line| ranking.add_line(number, line, all));
    counted.map_err(|error| HarnessError::input(format!("cannot read {}: {error}", path.display())))
}

fn count(stats: &mut CallStats, tree: &TraceTree, by: Grouping) {
    stats.add(tree, |index| {
        let point = &tree.points[index];
        let name = match by {
            Grouping::Name => point.name.to_string(),
            Grouping::Detail => statement::name_and_kind(point),
        };
        Function { place: point.reporter(), name }
    });
}

fn write_profile(path: &Path, stats: &CallStats) -> Result<(), HarnessError> {
    written(path, |out| pstats::write(stats, out))
}

fn written(
    path: &Path,
    write: impl FnOnce(&mut (dyn std::io::Write + Send)) -> std::io::Result<()>,
) -> Result<(), HarnessError> {
    let written =
        path.parent().map_or(Ok(()), std::fs::create_dir_all).and_then(|()| write_output(path, write));
    written.map_err(|error| HarnessError::failed(format!("cannot write {}: {error}", path.display())))
}

/// An id comes from outside: only characters that are safe in a file name remain.
fn file_name(base_id: &str, number: usize) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let usable = !base_id.is_empty() && base_id.len() <= 100 && base_id.chars().all(safe);
    if usable { base_id.to_owned() } else { format!("trace-{number}") }
}
