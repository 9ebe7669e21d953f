//! What a plan will do, in figures and words: its steps as a tree, how many requests it sends, the shape of its load,
//! where its variables come from, and how many samples its thresholds need.
//!
//! Nothing here shows the value of a variable, a header or a body.

use std::collections::BTreeMap;
use std::time::Duration;

use base::units::write_duration;
use config::Document;
use config::reference::Reference;
use config::scenario::{Scenario, variable_reference};
use measure::protocol::Protocol;
use text::digits;
use text::template::CompiledText;

use super::action::Action;
use super::step::PlanStep;
use super::step::flow::{FlowStep, Pause};
use super::{Plan, WorkloadPlan};
use terms::runner::Model;
use terms::threshold::{CountedOutcome, Figure, Metric, MetricCondition, Statistic};

/// How many points of a load's shape are computed.
pub const SHAPE_POINTS: usize = 60;
/// A threshold's bound is wrong with at most this probability; see `verdict`.
const WRONG: f64 = 0.05;

/// A line of a tree of steps.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepLine {
    /// How many steps it is within.
    pub depth: usize,
    /// The action's name, or what the step does.
    pub name: String,
    /// The request: method and URL as written; empty for other steps.
    pub request: String,
    /// What it sends, checks and extracts.
    pub details: Vec<String>,
}

/// How many requests something sends: at least, and at most if that is bounded. Redirects and polls are not counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requests {
    /// At least.
    pub least: u64,
    /// At most.
    pub most: Option<u64>,
}

/// The load over time: iterations per second of an open model, or users of a closed one.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// What the values count.
    pub unit: &'static str,
    /// At equal distances, in order.
    pub values: Vec<f64>,
    /// How long it lasts.
    pub lasts: Duration,
}

/// A workload, explained.
#[derive(Clone, Debug)]
pub struct WorkloadExplanation {
    pub steps: Vec<StepLine>,
    /// Requests of one iteration.
    pub requests: Requests,
    /// The planned number of iterations, with the warm-up; `None` if only the clock bounds them.
    pub iterations: Option<u64>,
    /// The load in words.
    pub load: String,
    /// The load over time, if it is planned.
    pub shape: Option<Shape>,
    /// Each criterion with what it needs.
    pub criteria: Vec<(String, String)>,
}

/// Explains a workload.
#[must_use]
pub fn workload(workload: &WorkloadPlan) -> WorkloadExplanation {
    WorkloadExplanation {
        steps: steps(&workload.steps),
        requests: requests(&workload.steps),
        iterations: workload.planned(),
        load: load(workload),
        shape: shape(workload),
        criteria: criteria(workload),
    }
}

/// The steps as lines of a tree.
#[must_use]
pub fn steps(steps: &[PlanStep]) -> Vec<StepLine> {
    let mut lines = Vec::new();
    add_steps(steps, 0, &mut lines);
    lines
}

fn add_steps(steps: &[PlanStep], depth: usize, lines: &mut Vec<StepLine>) {
    let line = |name: String| StepLine { depth, name, ..StepLine::default() };
    for step in steps {
        match step {
            PlanStep::Action(action) => lines.push(StepLine { depth, ..of_action(action) }),
            PlanStep::Think(pause) => lines.push(line(format!("think {}", pause_words(*pause)))),
            PlanStep::Flow(flow) => {
                lines.push(line(flow_words(flow)));
                let lists = flow.within();
                let several = lists.iter().filter(|list| !list.is_empty()).count() > 1;
                for (number, list) in lists.into_iter().enumerate().filter(|(_, list)| !list.is_empty()) {
                    if several {
                        let name = branch_words(flow, number);
                        lines.push(StepLine { depth: depth + 1, name, ..StepLine::default() });
                    }
                    add_steps(list, depth + 1 + usize::from(several), lines);
                }
            }
        }
    }
}

fn of_action(action: &Action) -> StepLine {
    let (request, mut details) = action.call.explained(&action.label);
    if action.poll.is_some() {
        details.push("repeated until a condition holds".to_owned());
    }
    if !action.extracts.is_empty() {
        let extracted = action.extracts.iter().map(|extract| &*extract.variable);
        details.push(format!("extracts {}", extracted.collect::<Vec<_>>().join(", ")));
    }
    if !action.measures.is_empty() {
        let measured = action.measures.iter().map(|measure| &*measure.name);
        details.push(format!("measures {}", measured.collect::<Vec<_>>().join(", ")));
    }
    StepLine { depth: 0, name: action.name.to_string(), request, details }
}

fn pause_words(pause: Pause) -> String {
    match pause {
        Pause::Fixed(length) => write_duration(length),
        Pause::Uniform(least, most) => format!("{} to {}", write_duration(least), write_duration(most)),
        Pause::Exponential { mean, max } => {
            format!("{} on average, at most {}", write_duration(mean), write_duration(max))
        }
    }
}

fn flow_words(flow: &FlowStep) -> String {
    match flow {
        FlowStep::Group(group) if group.together.is_some() => {
            format!("together {}, at the same time", group.name)
        }
        FlowStep::Group(group) => format!("group {}", group.name),
        FlowStep::If { .. } => "if a condition holds".to_owned(),
        FlowStep::Repeat { times, .. } => match literal(times) {
            Some(times) => format!("repeat {times} times"),
            None => "repeat a computed number of times".to_owned(),
        },
        FlowStep::ForEach { variable, .. } => format!("for each {variable}"),
        FlowStep::While { rounds_max, .. } => format!("while a condition holds, at most {rounds_max} times"),
        FlowStep::Choice(_) => "one of these, by chance".to_owned(),
        FlowStep::Dialogue { steps } => {
            let is_grpc = matches!(steps.first(), Some(PlanStep::Action(open)) if open.call.protocol() == Protocol::Grpc);
            let what = if is_grpc { "in a gRPC call" } else { "over a WebSocket" };
            format!("{what}, which is closed in the end")
        }
        FlowStep::Pace(until) => {
            format!("pace: wait until {} after the iteration's start", write_duration(*until))
        }
        FlowStep::Fail(_) => "fail the iteration".to_owned(),
        FlowStep::StopIteration => "end the iteration".to_owned(),
        FlowStep::Set(variables) => {
            let names: Vec<&str> = variables.iter().map(|(name, _)| &**name).collect();
            format!("set {}", names.join(", "))
        }
        FlowStep::Log(_) => "log a message".to_owned(),
        FlowStep::Include { .. } => "the steps of another file".to_owned(),
    }
}

fn branch_words(flow: &FlowStep, number: usize) -> String {
    match flow {
        FlowStep::If { .. } if number == 0 => "then".to_owned(),
        FlowStep::If { .. } => "else".to_owned(),
        FlowStep::Choice(choices) => {
            let total: f64 = choices.iter().map(|(weight, _)| weight).sum();
            let weight = choices.get(number).map_or(0.0, |(weight, _)| *weight);
            format!("with {:.0} %", if total > 0.0 { weight / total * 100.0 } else { 0.0 })
        }
        _ => format!("{}", number + 1),
    }
}

fn literal(text: &CompiledText) -> Option<u64> {
    if let CompiledText::Literal(text) = text { text.trim().parse().ok() } else { None }
}

/// How many requests an iteration with these steps sends.
#[must_use]
pub fn requests(steps: &[PlanStep]) -> Requests {
    let count = count(steps);
    Requests { least: count.least.min(count.early.unwrap_or(u64::MAX)), most: count.most }
}

#[derive(Clone, Copy)]
struct Count {
    least: u64,
    most: Option<u64>,
    /// The least if the iteration ends within.
    early: Option<u64>,
}

const NONE: Count = Count { least: 0, most: Some(0), early: None };

fn count(steps: &[PlanStep]) -> Count {
    steps.iter().fold(NONE, |before, step| {
        let of_step = match step {
            PlanStep::Action(action) => {
                Count { least: 1, most: action.poll.is_none().then_some(1), early: None }
            }
            PlanStep::Think(_) => NONE,
            PlanStep::Flow(flow) => count_flow(flow),
        };
        let early = of_step.early.map(|early| before.least.saturating_add(early));
        Count {
            least: before.least.saturating_add(of_step.least),
            most: before.most.zip(of_step.most).map(|(one, other)| one.saturating_add(other)),
            early: before.early.into_iter().chain(early).min(),
        }
    })
}

fn count_flow(flow: &FlowStep) -> Count {
    let any_of = |lists: &mut dyn Iterator<Item = Count>| {
        lists.reduce(|one, other| Count {
            least: one.least.min(other.least),
            most: one.most.zip(other.most).map(|(one, other)| one.max(other)),
            early: one.early.into_iter().chain(other.early).min(),
        })
    };
    let times = |steps: &[PlanStep], least: u64, most: Option<u64>| {
        let round = count(steps);
        let whole = |most: Option<u64>| round.most.zip(most).map(|(one, times)| one.saturating_mul(times));
        let none_at_all = round.most == Some(0);
        Count {
            least: round.least.saturating_mul(least),
            most: if none_at_all { Some(0) } else { whole(most) },
            early: round.early,
        }
    };
    match flow {
        FlowStep::If { then, otherwise, .. } => {
            any_of(&mut [count(then), count(otherwise)].into_iter()).unwrap_or(NONE)
        }
        FlowStep::Choice(choices) => {
            any_of(&mut choices.iter().map(|(_, steps)| count(steps))).unwrap_or(NONE)
        }
        FlowStep::Repeat { times: text, steps, .. } => {
            let known = literal(text);
            times(steps, known.unwrap_or(0), known)
        }
        FlowStep::ForEach { items, steps, .. } => {
            let list = items.literal().and_then(|json| digits::parse(json.as_bytes()).ok());
            let known = list.and_then(|list| list.as_array().map(|list| list.len() as u64));
            times(steps, known.unwrap_or(0), known)
        }
        FlowStep::While { rounds_max, steps, .. } => times(steps, 0, Some(u64::from(*rounds_max))),
        FlowStep::Fail(_) | FlowStep::StopIteration => Count { early: Some(0), ..NONE },
        flow => flow.within().into_iter().map(count).fold(NONE, |one, other| Count {
            least: one.least.saturating_add(other.least),
            most: one.most.zip(other.most).map(|(one, other)| one.saturating_add(other)),
            early: one.early.into_iter().chain(other.early).min(),
        }),
    }
}

fn load(workload: &WorkloadPlan) -> String {
    let runner = &workload.runner;
    match &runner.model {
        Model::Closed(closed) => {
            let users = closed.users.users_max();
            let at_a_time = if closed.users.is_level() {
                format!("{users} at a time")
            } else {
                format!("up to {users} at a time")
            };
            match (runner.times(), runner.duration()) {
                (Some(times), _) => format!("{times} iterations, {at_a_time}"),
                (None, Some(lasts)) => format!("{at_a_time} for {}", write_duration(lasts)),
                (None, None) => at_a_time,
            }
        }
        Model::Open(open) => {
            let limit =
                open.concurrency_max.map(|most| format!(", at most {most} at a time")).unwrap_or_default();
            let (total, lasts) = (open.arrivals.total(), write_duration(whole(open.arrivals.lasts())));
            format!("{total} iterations within {lasts}, however long each takes{limit}")
        }
    }
}

/// Seconds are precise enough for a length of time that is computed.
fn whole(lasts: Duration) -> Duration {
    if lasts < Duration::from_secs(10) {
        return Duration::from_millis(u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX));
    }
    Duration::from_secs(lasts.as_secs_f64().round() as u64)
}

fn shape(workload: &WorkloadPlan) -> Option<Shape> {
    let (unit, lasts) = match &workload.runner.model {
        Model::Closed(_) => ("users", workload.runner.duration()?),
        Model::Open(open) => ("iterations/s", open.arrivals.lasts()),
    };
    let values = (0..SHAPE_POINTS).map(|point| {
        // In the middle of each column.
        let elapsed = lasts.mul_f64((point as f64 + 0.5) / SHAPE_POINTS as f64);
        match &workload.runner.model {
            Model::Closed(closed) => f64::from(closed.users.users(elapsed)),
            Model::Open(open) => open.arrivals.rate_per_s(elapsed),
        }
    });
    Some(Shape { unit, values: values.collect(), lasts: whole(lasts) })
}

fn criteria(workload: &WorkloadPlan) -> Vec<(String, String)> {
    let sla = &workload.sla;
    let mut criteria = Vec::new();
    let mut add = |condition: String| criteria.push((condition, "1 sample".to_owned()));
    if let Some(most) = sla.failure_rate_max {
        add(format!("failure rate at most {most} %"));
    }
    if let Some(least) = sla.failure_rate_min {
        add(format!("failure rate at least {least} %"));
    }
    if let Some(most) = sla.max_seconds_per_iteration {
        add(format!("no iteration longer than {most} s"));
    }
    if let Some(most) = sla.max_avg_duration {
        add(format!("iterations take at most {most} s on average"));
    }
    for (action, most) in &sla.max_avg_duration_per_atomic {
        add(format!("`{action}` takes at most {most} s on average"));
    }
    if let Some(outliers) = &sla.outliers {
        criteria.push((
            format!("at most {} outliers beyond {} standard deviations", outliers.max, outliers.sigmas),
            format!("{} samples", outliers.min_iterations),
        ));
    }
    if let Some(most) = sla.max_degradation {
        criteria.push((
            format!("the longest takes at most {most} % more than the shortest"),
            "2 samples".to_owned(),
        ));
    }
    for threshold in &sla.thresholds {
        let least = [Some(samples(&threshold.condition)), threshold.min_samples].into_iter().flatten().max();
        let needs = match least {
            Some(least) if least > 1 => format!("{least} samples for a PASS"),
            _ => "1 sample".to_owned(),
        };
        criteria.push((threshold.to_string(), needs));
    }
    criteria
}

/// How many samples a PASS needs at least, if all of them meet the condition.
fn samples(condition: &MetricCondition) -> u64 {
    let of_share = |share: f64| (WRONG.ln() / share.ln()).ceil().max(1.0) as u64;
    let of_statistic = |statistic: &Statistic, of_mean: u64| match statistic {
        Statistic::Percentile(percent) => of_share(percent / 100.0),
        Statistic::Mean => of_mean,
        Statistic::Min | Statistic::Max => 1,
    };
    match &condition.metric {
        Metric::Time(statistic, _) | Metric::Number(statistic, _) | Metric::Asynchronous(statistic) => {
            of_statistic(statistic, 400)
        }
        Metric::Rate(CountedOutcome::Errors, _) if condition.limit > 0.0 && condition.limit < 100.0 => {
            of_share(1.0 - condition.limit / 100.0)
        }
        Metric::Trace(Statistic::Mean, Figure::Time, _) => 100,
        Metric::Trace(Statistic::Mean, ..) => 29,
        Metric::Trace(statistic, ..) => of_statistic(statistic, 100),
        Metric::Share(_) => 20,
        _ => 1,
    }
}

/// Where the value of each variable comes from: its name, and words.
#[must_use]
pub fn variables(plan: &Plan, document: &Document<Scenario>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let node = document.root.get("variables");
    for (name, variable) in document.value.variables.iter().flatten() {
        let from = match variable_reference(variable) {
            _ if plan.set.contains_key(name) => "--set".to_owned(),
            Some(Reference::Env { name, .. }) => format!("environment variable {name}"),
            Some(Reference::File(path)) => format!("file {path}"),
            _ => {
                let span = node.and_then(|node| node.get(name)).map_or(0..0, |value| value.span.clone());
                let line = 1 + document.source.text[..span.start].matches('\n').count();
                format!("line {line} of {}", document.source.name)
            }
        };
        found.insert(name.clone(), from);
    }
    let workloads = plan.workloads.iter().flat_map(|workload| workload.lists().map(Vec::as_slice));
    for steps in [plan.setup.as_slice()].into_iter().chain(workloads).chain([plan.teardown.as_slice()]) {
        super::step::visit(steps, &mut |step| match step {
            PlanStep::Action(action) => {
                for extract in &action.extracts {
                    let from = format!("extracted by {}", action.name);
                    found.entry(extract.variable.to_string()).or_insert(from);
                }
            }
            PlanStep::Flow(flow) => {
                let (names, from): (Vec<&str>, _) = match &**flow {
                    FlowStep::Set(set) => (set.iter().map(|(name, _)| &**name).collect(), "set by a step"),
                    FlowStep::Include { with, .. } => {
                        (with.iter().map(|(name, _)| &**name).collect(), "given to an include")
                    }
                    FlowStep::ForEach { variable, .. } => (vec![&**variable], "each item of a list"),
                    FlowStep::Repeat { variable: Some(variable), .. } => {
                        (vec![&**variable], "the number of the round")
                    }
                    _ => (Vec::new(), ""),
                };
                for name in names {
                    found.entry(name.to_owned()).or_insert_with(|| from.to_owned());
                }
            }
            PlanStep::Think(_) => {}
        });
    }
    for feeder in plan.workloads.iter().flat_map(|workload| &workload.data) {
        found.insert(feeder.name().to_string(), "a row of the data".to_owned());
    }
    found
}
