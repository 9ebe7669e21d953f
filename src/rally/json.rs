//! A run in the shape of Rally's JSON report (format 1.2), with every iteration and its atomic actions.
//!
//! It is written in a single pass over the run log, in memory that does not grow with the number of iterations. The trace
//! id of an iteration is where Rally's OSProfiler plugin puts it; the collector's address is without its password, which
//! Rally's is not.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use serde_json::{Value, json};

use super::report::{TaskPart, TaskReport, detail, holds, time};
use measure::errors::{Failure, NumberedFailure};
use measure::ids::RunIds;
use measure::log::{HookRun, LogError, RallyWorkload, RunLog, Visitor};
use measure::rows::{Rows, SampleRow};
use measure::sample::{ActionSample, CompletionStatus};
use results::model::{Counts, Distribution, Results, Workload};

/// The version of Rally's format.
const FORMAT: &str = "1.2";
/// How deep atomic actions may be nested.
const DEPTH_MAX: usize = 64;

/// Writes the report of a run.
///
/// # Errors
/// [`LogError::Visitor`] if the output cannot be written.
pub fn write(
    log: &RunLog,
    results: &Results,
    hooks: &[HookRun],
    output: &mut (dyn Write + Send),
) -> Result<(), LogError> {
    let task = TaskReport::new(&log.header, results, hooks);
    let mut writer = Writer::new(task, log.ids(), output);
    writer.begin().map_err(LogError::Visitor)?;
    log.visit(&mut [&mut writer])?;
    writer.finish().map_err(LogError::Visitor)
}

/// The programs that hooks started in a run.
///
/// # Errors
/// The log cannot be read.
pub fn hooks(log: &RunLog) -> Result<Vec<HookRun>, LogError> {
    Ok(log.visit(&mut [])?.end.map(|end| end.hooks).unwrap_or_default())
}

struct Writer<'a> {
    task: TaskReport<'a>,
    ids: RunIds,
    output: &'a mut (dyn Write + Send),
    failures: HashMap<u32, Failure>,
    /// For each workload, the place of each of its iterations' rows: the subtask and the position in it.
    places: Vec<(usize, usize)>,
    /// The workload whose rows are being written.
    open: Option<usize>,
    /// How many workloads were begun.
    begun: usize,
    seen: RallyIterationTotals,
}

/// What was seen of a workload's iterations.
#[derive(Default)]
struct RallyIterationTotals {
    rows: u64,
    failed: u64,
    least_ns: Option<u64>,
    most_ns: Option<u64>,
    began_ns: Option<u64>,
    /// The action around each action, by their indexes.
    parents: BTreeMap<u16, Option<u16>>,
}

impl<'a> Writer<'a> {
    fn new(task: TaskReport<'a>, ids: RunIds, output: &'a mut (dyn Write + Send)) -> Self {
        let subtasks = task.task.subtasks.iter().enumerate();
        let places = subtasks
            .flat_map(|(index, subtask)| (0..subtask.workloads.len()).map(move |position| (index, position)))
            .collect();
        let (failures, seen) = (HashMap::new(), RallyIterationTotals::default());
        Self { task, ids, output, failures, places, open: None, begun: 0, seen }
    }

    fn begin(&mut self) -> io::Result<()> {
        let (header, task) = (self.task.header, &self.task.task);
        let (began, ended) = self.task.span_s();
        let info = json!({
            "rally_version": format!("bench {}", header.environment.bench_version),
            "generated_at": time(ended),
            "format_version": FORMAT,
        });
        let criteria = self.task.results.verdict.criteria.iter();
        let pass = criteria.filter(|c| c.severity == results::model::Severity::Fail).all(holds);
        let facts = json!({
            "uuid": header.run_id,
            "title": task.title,
            "description": task.description,
            "status": self.task.status(),
            "tags": task.tags,
            "env_uuid": "n/a",
            "env_name": header.deployment.name,
            "created_at": time(began),
            "updated_at": time(ended),
            "pass_sla": pass,
        });
        write!(self.output, "{{\"info\": {info}, \"tasks\": [")?;
        open_object(self.output, &facts)?;
        write!(self.output, ", \"subtasks\": [")
    }

    /// Ends everything that is open, after workloads without rows.
    fn finish(&mut self) -> io::Result<()> {
        self.advance(self.places.len())?;
        self.close()?;
        if self.begun > 0 {
            write!(self.output, "]}}")?;
        }
        writeln!(self.output, "]}}]}}")
    }

    /// Begins workloads until there are this many; each ends when the next one begins.
    fn advance(&mut self, count: usize) -> io::Result<()> {
        while self.begun < count.min(self.places.len()) {
            self.close()?;
            let (subtask, position) = self.places[self.begun];
            if position == 0 {
                self.begin_subtask(subtask)?;
            } else {
                write!(self.output, ", ")?;
            }
            self.begin_workload(subtask, position)?;
            self.open = Some(self.begun);
            self.begun += 1;
        }
        Ok(())
    }

    fn begin_subtask(&mut self, index: usize) -> io::Result<()> {
        if index > 0 {
            write!(self.output, "]}}, ")?;
        }
        let Some((first, subtask)) = self.task.subtasks().nth(index) else { return Ok(()) };
        let spans = || {
            let figures = self.task.results.workloads.iter().skip(first).take(subtask.workloads.len());
            figures.map(|figures| self.task.span_of(figures))
        };
        let facts = json!({
            "uuid": self.task.id(TaskPart::Subtask, index),
            "title": subtask.title,
            "description": subtask.description,
            "status": self.task.status(),
            "created_at": time(spans().map(|(began, _)| began).min().unwrap_or(self.task.span_s().0)),
            "updated_at": time(spans().map(|(_, ended)| ended).max().unwrap_or(self.task.span_s().1)),
            "sla": {},
        });
        open_object(self.output, &facts)?;
        write!(self.output, ", \"workloads\": [")
    }

    fn begin_workload(&mut self, subtask: usize, position: usize) -> io::Result<()> {
        let Some(workload) = self.task.task.subtasks.get(subtask).and_then(|s| s.workloads.get(position))
        else {
            return Ok(());
        };
        let index = self.begun;
        let facts = json!({
            "uuid": self.task.id(TaskPart::Workload, index),
            "description": workload.description,
            "runner": { workload.runner_type.as_str(): workload.runner },
            "hooks": self.hooks(index, workload),
            "scenario": { workload.scenario.as_str(): workload.args },
            "contexts": workload.contexts,
            "contexts_results": [],
            "position": position,
            "sla": workload.sla,
        });
        open_object(self.output, &facts)?;
        write!(self.output, ", \"data\": [")
    }

    fn hooks(&self, index: usize, workload: &RallyWorkload) -> Vec<Value> {
        let hooks = workload.hooks.as_array().map(Vec::as_slice).unwrap_or_default();
        let began = self.task.header.started_unix_ns;
        let result = |run: &HookRun, command: &Value| {
            let code = run.exit_code.map_or_else(|| "none".to_owned(), |code| code.to_string());
            let text = |text: &str| if text.is_empty() { "(empty)".to_owned() } else { text.to_owned() };
            let mut result = json!({
                "status": if run.exit_code == Some(0) { "success" } else { "failed" },
                "started_at": seconds(began, run.start_ns),
                "finished_at": seconds(began, run.start_ns.saturating_add(run.duration_ns)),
                "triggered_by": { "event_type": run.event, "value": run.value },
                "output": { "additive": [], "complete": [{
                    "title": "System call",
                    "chart_plugin": "TextArea",
                    "description": format!("Args: {}", command.as_str().unwrap_or_default()),
                    "data": [
                        format!("RetCode: {code}"),
                        format!("StdOut: {}", text(&run.output)),
                        format!("StdErr: {}", text(&run.error_output)),
                    ],
                }] },
            });
            if run.exit_code != Some(0) {
                let why = run.error.clone().unwrap_or_else(|| format!("Subprocess returned {code}"));
                result["error"] = json!({ "etype": "n/a", "msg": why, "details": text(&run.error_output) });
            }
            result
        };
        let report = |(number, hook): (usize, &Value)| {
            let runs = self.task.hooks.iter();
            let runs =
                runs.filter(|run| (usize::from(run.workload), usize::from(run.hook)) == (index, number));
            let results: Vec<Value> = runs.map(|run| result(run, &hook["action"]["sys_call"])).collect();
            let mut summary: BTreeMap<&str, u64> = BTreeMap::new();
            for status in results.iter().filter_map(|result| result["status"].as_str()) {
                *summary.entry(status).or_default() += 1;
            }
            json!({ "config": hook, "results": results, "summary": summary })
        };
        hooks.iter().enumerate().map(report).collect()
    }

    /// Ends the workload that is open, with what is known only after its rows.
    fn close(&mut self) -> io::Result<()> {
        let Some(index) = self.open.take() else { return Ok(()) };
        let seen = std::mem::take(&mut self.seen);
        let began = self.task.header.started_unix_ns;
        let figures = self.task.results.workloads.get(index);
        let criteria = figures.map(|figures| self.task.criteria(&figures.name)).unwrap_or_default();
        let sla: Vec<Value> = criteria
            .iter()
            .map(|c| json!({ "criterion": c.criterion, "success": holds(c), "detail": detail(c) }))
            .collect();
        let (created, updated) = figures.map_or(self.task.span_s(), |figures| self.task.span_of(figures));
        let lasted_s = figures.map_or(0.0, |figures| figures.duration_s);
        let facts = json!({
            "min_duration": seen.least_ns.map(in_seconds),
            "max_duration": seen.most_ns.map(in_seconds),
            "start_time": seen.began_ns.map(|ns| seconds(began, ns)),
            "load_duration": lasted_s,
            "full_duration": lasted_s,
            "statistics": figures.map_or(json!({}), |figures| statistics(figures, &seen.parents)),
            "failed_iteration_count": seen.failed,
            "total_iteration_count": seen.rows,
            "created_at": time(created),
            "updated_at": time(updated),
            "pass_sla": criteria.iter().all(|c| holds(c)),
            "sla_results": { "sla": sla },
        });
        write!(self.output, "], ")?;
        let text = facts.to_string();
        write!(self.output, "{}", &text[1..])
    }

    fn row(&mut self, row: SampleRow<'_>) -> io::Result<()> {
        let head = row.head;
        let workload = usize::from(head.workload);
        // An iteration of the warm-up, or one that did not run to its end, has no place in Rally's report.
        if head.warm_up || !head.ended.is_measured() || workload >= self.places.len() {
            return Ok(());
        }
        if self.open != Some(workload) {
            if workload < self.begun {
                return Err(io::Error::other(
                    "workloads that ran at the same time have no place in Rally's report",
                ));
            }
            self.advance(workload + 1)?;
        }
        let seen = &mut self.seen;
        seen.least_ns = Some(seen.least_ns.map_or(head.duration_ns, |least| least.min(head.duration_ns)));
        seen.most_ns = Some(seen.most_ns.map_or(head.duration_ns, |most| most.max(head.duration_ns)));
        seen.began_ns = Some(seen.began_ns.map_or(head.start_ns, |began| began.min(head.start_ns)));
        seen.failed += u64::from(head.ended == CompletionStatus::Failed);
        seen.rows += 1;
        for action in row.actions {
            let around =
                || row.actions.iter().find(|other| other.point == action.parent && other.requests == 0);
            seen.parents.entry(action.action).or_insert_with(|| around().map(|around| around.action));
        }
        let began = self.task.header.started_unix_ns;
        let error = match self.failures.get(&head.error).filter(|_| head.ended == CompletionStatus::Failed) {
            Some(failure) => vec![failure.class.to_string(), failure.message.clone(), String::new()],
            None if head.ended == CompletionStatus::Failed => {
                vec!["failed".to_owned(), String::new(), String::new()]
            }
            None => Vec::new(),
        };
        let text = json!({
            "duration": in_seconds(head.duration_ns),
            "timestamp": seconds(began, head.start_ns),
            "idle_duration": 0.0,
            "error": error,
            "output": { "additive": [], "complete": self.trace(row, workload) },
            "atomic_actions": self.atomic_actions(row),
        });
        let comma = if self.seen.rows > 1 { ", " } else { "" };
        write!(self.output, "{comma}\n{text}")
    }

    /// Where Rally's plugin for OSProfiler puts the trace id.
    fn trace(&self, row: SampleRow<'_>, workload: usize) -> Vec<Value> {
        let header = self.task.header;
        if header.profiling_off.is_some() || self.ids.is_control(row.head) {
            return Vec::new();
        }
        vec![json!({
            "title": "OSProfiler Trace-ID",
            "chart_plugin": "OSProfiler",
            "data": {
                "trace_id": [self.ids.trace_id(row.head)],
                "conn_str": header.collector,
                "taskID": header.run_id,
                "workload_uuid": self.task.id(TaskPart::Workload, workload),
                "iteration": row.head.number + 1,
            },
        })]
    }

    /// The actions of an iteration, each with those within it.
    fn atomic_actions(&self, row: SampleRow<'_>) -> Vec<Value> {
        let names = self.task.header.workloads.get(usize::from(row.head.workload));
        let mut within: HashMap<u32, Vec<&ActionSample>> = HashMap::new();
        let is_there =
            |point: u32| row.actions.iter().any(|action| action.point == point && action.requests == 0);
        for action in row.actions {
            let parent = if is_there(action.parent) { action.parent } else { 0 };
            within.entry(parent).or_default().push(action);
        }
        for actions in within.values_mut() {
            actions.sort_by_key(|action| action.offset_ns);
        }
        let start_ns = row.head.start_ns;
        let tree = Tree {
            began: self.task.header.started_unix_ns.saturating_add(start_ns),
            within,
            name: &|action| {
                let named = names.and_then(|names| names.actions.get(usize::from(action)));
                named.map_or("", |(name, _)| name.as_str())
            },
        };
        tree.below(0, 0)
    }
}

struct Tree<'a> {
    /// The start of the iteration, in nanoseconds of the Unix epoch.
    began: u64,
    within: HashMap<u32, Vec<&'a ActionSample>>,
    name: &'a dyn Fn(u16) -> &'a str,
}

impl Tree<'_> {
    fn below(&self, point: u32, depth: usize) -> Vec<Value> {
        let actions = self.within.get(&point).filter(|_| depth < DEPTH_MAX);
        let actions = actions.map(Vec::as_slice).unwrap_or_default().iter();
        let value = |action: &&ActionSample| {
            let is_group = action.requests == 0 && action.point != 0 && action.point != point;
            let mut value = json!({
                "name": (self.name)(action.action),
                "children": if is_group { self.below(action.point, depth + 1) } else { Vec::new() },
                "started_at": seconds(self.began, action.offset_ns),
                "finished_at": seconds(self.began, action.offset_ns.saturating_add(action.duration_ns)),
            });
            if action.ended != CompletionStatus::Ok {
                value["failed"] = true.into();
            }
            value
        };
        actions.map(value).collect()
    }
}

impl Visitor for Writer<'_> {
    fn failures(&mut self, failures: &[NumberedFailure]) {
        self.failures.extend(failures.iter().map(|entry| (entry.number, entry.failure.clone())));
    }

    fn rows(&mut self, rows: &Rows) -> io::Result<()> {
        rows.iter().try_for_each(|row| self.row(row))
    }
}

/// Writes an object without its end.
fn open_object(output: &mut (dyn Write + Send), facts: &Value) -> io::Result<()> {
    let text = facts.to_string();
    write!(output, "\n{}", &text[..text.len() - 1])
}

fn in_seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Seconds of the Unix epoch.
fn seconds(began_unix_ns: u64, offset_ns: u64) -> f64 {
    began_unix_ns.saturating_add(offset_ns) as f64 / 1e9
}

/// Rally's table of durations.
fn statistics(workload: &Workload, parents: &BTreeMap<u16, Option<u16>>) -> Value {
    let total = |name: &str, children: Vec<Value>| {
        row(name, name, 1, data(&workload.service_time, &workload.iterations), children)
    };
    let nothing = Distribution { count: workload.service_time.count, ..Distribution::default() };
    let idle = row("idle_duration", "idle_duration", 1, data(&nothing, &workload.iterations), Vec::new());
    let atomics: Vec<Value> = of_actions(workload, parents, None, 0);
    json!({ "durations": { "total": total("total", vec![total("duration", Vec::new()), idle]), "atomics": atomics } })
}

fn of_actions(
    workload: &Workload,
    parents: &BTreeMap<u16, Option<u16>>,
    parent: Option<u16>,
    depth: usize,
) -> Vec<Value> {
    if depth >= DEPTH_MAX {
        return Vec::new();
    }
    let of_parent = parents.iter().filter(|(action, around)| **around == parent && Some(**action) != parent);
    let rows = of_parent.filter_map(|(action, _)| {
        let figures = workload.actions.get(usize::from(*action))?;
        let iterations = figures.iterations.unwrap_or(figures.requests.total).max(1);
        let times = figures.requests.total.div_ceil(iterations);
        let shown = if times > 1 { format!("{} (x{times})", figures.name) } else { figures.name.clone() };
        let children = of_actions(workload, parents, Some(*action), depth + 1);
        Some(row(&figures.name, &shown, times, data(&figures.service_time, &figures.requests), children))
    });
    rows.collect()
}

fn row(name: &str, shown: &str, count: u64, data: Value, children: Vec<Value>) -> Value {
    json!({ "name": name, "display_name": shown, "count_per_iteration": count, "data": data, "children": children })
}

fn data(times: &Distribution, counts: &Counts) -> Value {
    let ended = counts.ok + counts.failed;
    let success = if ended == 0 { 0.0 } else { counts.ok as f64 * 100.0 / ended as f64 };
    // As in Rally: to the millisecond.
    let rounded = |ms: f64| ms.round() / 1000.0;
    let at = |percentile: f64| rounded(times.at(percentile).unwrap_or(0.0));
    json!({
        "iteration_count": ended,
        "min": rounded(times.min_ms),
        "median": at(50.0),
        "90%ile": at(90.0),
        "95%ile": at(95.0),
        "max": rounded(times.max_ms),
        "avg": rounded(times.mean_ms),
        "success": format!("{success:.1}%"),
    })
}
