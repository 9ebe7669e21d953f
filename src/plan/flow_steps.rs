//! Compiles the steps that decide what comes next, and reports their faults.

use std::sync::Arc;
use std::time::Duration;

use ::config::step;
use ::config::step::flow::{self as config, Assignments, Think};
use base::masking::{self, names_secret};
use measure::protocol::Protocol;
use text::diagnostics::Fault;
use text::template::CompiledText;
use text::yaml::YamlNode;
use text::yaml_place::{at, item, key_span};

use super::action::{Action, PollPolicy};
use super::call::ProtocolCall;
use super::compiler::Compiler;
use super::headers::is_written_secret;
use super::json::JsonTemplate;
use super::nesting::NestedDialogue;
use super::step::flow::{FlowStep, LogText, Pause, StepGroup};
use super::step::{PlanStep, visit};
use super::tag_steps::tags;

/// The pause between two attempts of a poll without `interval`.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The limit of a poll without `deadline`.
const POLL_DEADLINE: Duration = Duration::from_secs(60);
/// The most rounds of a `while` without `max`.
const ROUNDS_MAX: u32 = 1000;
/// The longest exponential pause without `max`, in means.
const MEANS_MAX: u32 = 10;

/// A list of steps within a step.
type NestedSteps<'a> = Option<&'a [step::Step]>;

impl Compiler<'_> {
    /// Compiles a step of the kind that the key `kind` says.
    pub(super) fn flow(
        &mut self,
        step: &step::Step,
        kind: &'static str,
        node: &YamlNode,
    ) -> Option<PlanStep> {
        let place = at(node, &[kind]);
        let flow = match kind {
            "think" => return Some(PlanStep::Think(self.pause(step.think?, place)?)),
            "pace" => {
                self.above_zero(step.pace.map(|pace| pace.0), place, "pace");
                FlowStep::Pace(step.pace?.0)
            }
            "if" => self.condition_step(step, node)?,
            "repeat" => self.repeat(step, node)?,
            "for_each" => self.for_each(step, node)?,
            "while" => FlowStep::While {
                condition: self.condition(&step.while_.as_ref()?.0, place)?,
                rounds_max: step.max.unwrap_or(ROUNDS_MAX),
                steps: self.within(step.steps.as_deref(), kind, node),
            },
            "choice" => self.choice(step.choice.as_deref()?, place)?,
            "group" | "together" => self.group(step, kind, node)?,
            "set" => FlowStep::Set(self.assignments(step.set.as_ref()?, place)),
            "log" => FlowStep::Log(LogText {
                text: self.texts.text(step.log.as_deref()?, place)?,
                printed: std::sync::atomic::AtomicU32::new(0),
            }),
            "fail" => FlowStep::Fail(self.texts.text(step.fail.as_deref()?, place)?),
            "stop_iteration" => {
                if step.stop_iteration == Some(false) {
                    let fault = Fault::error(place.span.clone(), "`stop_iteration: false` does nothing");
                    self.texts.faults.push(fault.help("write true, or remove the step"));
                }
                FlowStep::StopIteration
            }
            _ => self.include(step, node)?,
        };
        Some(PlanStep::Flow(Box::new(flow)))
    }

    /// Compiles the `poll` of an action.
    pub(super) fn poll(&mut self, config: &config::Poll, node: &YamlNode) -> Option<Box<PollPolicy>> {
        let condition = |compiler: &mut Self, text: Option<&config::Condition>, key: &str| match text {
            Some(text) => compiler.condition(&text.0, at(node, &[key])).map(Some),
            None => Some(None),
        };
        let until = condition(self, config.until.as_ref(), "until");
        let fail_if = condition(self, config.fail_if.as_ref(), "fail_if");
        let interval = config.interval.map_or(POLL_INTERVAL, |interval| interval.0);
        let deadline = config.deadline.map_or(POLL_DEADLINE, |deadline| deadline.0);
        self.above_zero(Some(interval), at(node, &["interval"]), "interval");
        self.above_zero(Some(deadline), at(node, &["deadline"]), "deadline");
        Some(Box::new(PollPolicy { until: until?, fail_if: fail_if?, interval, deadline }))
    }

    fn pause(&mut self, think: Think, node: &YamlNode) -> Option<Pause> {
        self.texts.uses_seed |= !matches!(think, Think::Fixed(_));
        match think {
            Think::Fixed(pause) => Some(Pause::Fixed(pause.0)),
            Think::Uniform(config::UniformThink { min, max }) if min.0 > max.0 => {
                let fault = Fault::error(at(node, &["min"]).span.clone(), "`min` is more than `max`");
                self.texts.faults.push(fault.help("exchange them"));
                None
            }
            Think::Uniform(config::UniformThink { min, max }) => Some(Pause::Uniform(min.0, max.0)),
            Think::Exponential(config::ExponentialThink { mean, max }) => {
                self.above_zero(Some(mean.0), at(node, &["mean"]), "mean");
                let max = max.map_or(mean.0.saturating_mul(MEANS_MAX), |max| max.0);
                if max < mean.0 {
                    let fault = Fault::error(at(node, &["max"]).span.clone(), "`max` is less than `mean`");
                    self.texts.faults.push(fault.help("give the longest pause, or remove `max`"));
                }
                Some(Pause::Exponential { mean: mean.0, max })
            }
        }
    }

    /// An expression that is true or false, with or without its braces.
    fn condition(&mut self, text: &str, node: &YamlNode) -> Option<CompiledText> {
        let compiled = match text.contains("{{") || text.contains("{%") {
            true => self.texts.text(text, node)?,
            false => self.texts.text(&format!("{{{{ {} }}}}", text.trim()), node)?,
        };
        if matches!(compiled, CompiledText::Template(_)) {
            let fault = Fault::error(node.span.clone(), "a condition is a single expression");
            self.texts
                .faults
                .push(fault.help("write it without text around it: \"{{ status == 'ACTIVE' }}\""));
            return None;
        }
        Some(compiled)
    }

    /// The steps below a key; there must be some.
    fn within(&mut self, steps: NestedSteps<'_>, kind: &str, node: &YamlNode) -> Vec<PlanStep> {
        self.list(steps, "steps", kind, node)
    }

    fn list(&mut self, steps: NestedSteps<'_>, key: &str, kind: &str, node: &YamlNode) -> Vec<PlanStep> {
        let place = at(node, &[key]);
        match steps {
            Some([]) => {
                let fault = Fault::error(place.span.clone(), format!("`{key}` is empty"));
                self.texts.faults.push(fault.help("add a step"));
                Vec::new()
            }
            Some(steps) => self.block(steps, place),
            None if self.texts.names.whole.is_some() => Vec::new(),
            None => {
                let fault = Fault::error(key_span(node, kind), format!("`{kind}` without `{key}`"));
                self.texts.faults.push(fault.help(format!("add `{key}:` with a list of steps")));
                Vec::new()
            }
        }
    }

    fn condition_step(&mut self, step: &step::Step, node: &YamlNode) -> Option<FlowStep> {
        let condition = self.condition(&step.condition.as_ref()?.0, at(node, &["if"]));
        let then = match (&step.then, &step.otherwise) {
            // `else` alone is enough.
            (None, Some(_)) => Vec::new(),
            (then, _) => self.list(then.as_deref(), "then", "if", node),
        };
        let otherwise = match &step.otherwise {
            Some(steps) => self.list(Some(steps), "else", "if", node),
            None => Vec::new(),
        };
        Some(FlowStep::If { condition: condition?, then, otherwise })
    }

    fn repeat(&mut self, step: &step::Step, node: &YamlNode) -> Option<FlowStep> {
        let times = self.texts.text(&step.repeat.as_ref()?.0, at(node, &["repeat"]));
        let variable = self.loop_variable(step.as_.as_deref(), node);
        let steps = self.with_variable(variable.as_ref(), |compiler| {
            compiler.within(step.steps.as_deref(), "repeat", node)
        });
        if let Some(CompiledText::Literal(text)) = &times
            && text.trim().parse::<u32>().is_err()
        {
            let place = at(node, &["repeat"]).span.clone();
            let fault = Fault::error(place, format!("`{text}` is not a number of rounds"));
            self.texts.faults.push(fault.help("write a whole number, or a template such as \"{{ pages }}\""));
        }
        Some(FlowStep::Repeat { times: times?, variable, steps })
    }

    fn for_each(&mut self, step: &step::Step, node: &YamlNode) -> Option<FlowStep> {
        let place = at(node, &["for_each"]);
        let items = self.texts.json(&step.for_each.as_ref()?.0, place);
        if let Some(text) = step.for_each.as_ref()?.0.as_str()
            && !text.contains("{{")
        {
            let fault = Fault::error(place.span.clone(), "`for_each` needs a list");
            self.texts
                .faults
                .push(fault.help(format!("write [a, b], or a template such as \"{{{{ {text} }}}}\"")));
        }
        let variable = match self.loop_variable(step.as_.as_deref(), node) {
            Some(variable) => variable,
            None if step.as_.is_some() => return None,
            None => Arc::from("item"),
        };
        let steps = self.with_variable(Some(&variable), |compiler| {
            compiler.within(step.steps.as_deref(), "for_each", node)
        });
        Some(FlowStep::ForEach { items: items?, variable, steps })
    }

    fn loop_variable(&mut self, name: Option<&str>, node: &YamlNode) -> Option<Arc<str>> {
        let name = name?;
        let before = self.texts.faults.len();
        self.texts.variable_name(name, at(node, &["as"]).span.clone());
        (self.texts.faults.len() == before).then(|| Arc::from(name))
    }

    /// Compiles what can use a variable that others cannot.
    fn with_variable<T>(&mut self, name: Option<&Arc<str>>, compile: impl FnOnce(&mut Self) -> T) -> T {
        let added = name.is_some_and(|name| self.texts.names.known.insert((**name).to_owned()));
        let compiled = compile(self);
        if let Some(name) = name.filter(|_| added) {
            self.texts.names.known.remove(&**name);
        }
        compiled
    }

    fn choice(&mut self, alternatives: &[config::Alternative], node: &YamlNode) -> Option<FlowStep> {
        self.texts.uses_seed = true;
        let mut compiled = Vec::new();
        let mut sum = 0.0;
        for (number, alternative) in alternatives.iter().enumerate() {
            let node = item(node, number);
            let weight = alternative.weight.unwrap_or(1.0);
            sum += weight;
            // An alternative without steps does nothing, which some iterations may.
            let steps = self.block(&alternative.steps, at(node, &["steps"]));
            compiled.push((weight, steps));
        }
        if sum <= 0.0 {
            let fault = Fault::error(node.span.clone(), "all weights of this choice are zero");
            self.texts.faults.push(fault.help("give at least one of them a weight above 0"));
            return None;
        }
        Some(FlowStep::Choice(compiled))
    }

    fn group(&mut self, step: &step::Step, kind: &'static str, node: &YamlNode) -> Option<FlowStep> {
        let name = step.group.as_ref().or(step.together.as_ref())?;
        let (name, index) = self.register(name, at(node, &[kind]));
        let known = self.texts.names.known.clone();
        let tags = tags(&self.nesting.tags, step, node, &mut self.texts.faults);
        let around = std::mem::replace(&mut self.nesting.tags, tags);
        let steps = if kind == "together" {
            // Each of them has connections of its own.
            let socket = self.nesting.dialogue.take();
            let steps = self.side_by_side(step, node);
            self.nesting.dialogue = socket;
            steps
        } else {
            self.within(step.steps.as_deref(), kind, node)
        };
        self.nesting.tags = around;
        if steps.is_empty() {
            return None;
        }
        let together = (kind == "together").then(|| steps.iter().map(sets).collect());
        self.texts.names.known.extend(known);
        Some(FlowStep::Group(StepGroup { name, index, steps, together }))
    }

    /// The steps of a dialogue, behind the action that opens it.
    pub(super) fn dialogue(
        &mut self,
        open: Option<Action>,
        step: &step::Step,
        node: &YamlNode,
    ) -> Option<PlanStep> {
        let key = if step.grpc.is_some() { "grpc" } else { "websocket" };
        if let Some(around) = &self.nesting.dialogue {
            let what = |key| if key == "grpc" { "a gRPC call with steps" } else { "a WebSocket" };
            let around = if around.key() == key { "another one" } else { what(around.key()) };
            let message = format!("{} within {around}", what(key));
            let fault = Fault::error(key_span(node, key), message);
            self.texts.faults.push(fault.help("end the first one before: put this step behind it"));
        }
        let dialogue = match &open {
            Some(open) => Some(opened(&open.call, step.gzip == Some(true))),
            // Steps within a faulty one are looked at, too.
            None => self.targets.first().map(|base| NestedDialogue {
                base: base.clone(),
                protocol: if key == "grpc" { Protocol::Grpc } else { Protocol::WebSocket },
                method: None,
                gzip: false,
            }),
        };
        let around = std::mem::replace(&mut self.nesting.dialogue, dialogue);
        let within = step.steps.as_deref().map(|steps| self.block(steps, at(node, &["steps"])));
        self.nesting.dialogue = around;
        let mut steps = vec![PlanStep::Action(Box::new(open?))];
        steps.extend(within.into_iter().flatten());
        Some(PlanStep::Flow(Box::new(FlowStep::Dialogue { steps })))
    }

    /// Steps that run at the same time: none can use what another one extracts.
    fn side_by_side(&mut self, step: &step::Step, node: &YamlNode) -> Vec<PlanStep> {
        let place = at(node, &["steps"]);
        let Some(steps) = step.steps.as_deref().filter(|steps| !steps.is_empty()) else {
            return self.within(step.steps.as_deref(), "together", node);
        };
        let before = self.texts.names.known.clone();
        let mut after = before.clone();
        let mut compiled = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            self.texts.names.known.clone_from(&before);
            compiled.extend(self.nested_step(step, item(place, number)));
            after.append(&mut self.texts.names.known);
        }
        self.texts.names.known = after;
        compiled
    }

    pub(super) fn assignments(
        &mut self,
        written: &Assignments,
        node: &YamlNode,
    ) -> Vec<(Arc<str>, JsonTemplate)> {
        let mut compiled = Vec::new();
        for (name, value) in written {
            self.texts.variable_name(name, key_span(node, name));
            if let Some(text) = value.as_str().filter(|text| names_secret(name) && is_written_secret(text)) {
                masking::hide(text);
            }
            let value = self.texts.json(value, at(node, &[name]));
            compiled.extend(value.map(|value| (Arc::from(name.as_str()), value)));
        }
        self.texts.names.known.extend(written.keys().cloned());
        compiled
    }
}

/// The dialogue that a call opens. `gzip`: whether its messages are compressed.
fn opened(call: &ProtocolCall, gzip: bool) -> NestedDialogue {
    let (protocol, method) = match call {
        ProtocolCall::Grpc(call) => (Protocol::Grpc, call.method.clone()),
        _ => (Protocol::WebSocket, None),
    };
    NestedDialogue { base: call.base().clone(), protocol, method, gzip }
}

/// The variables that a step and the steps within it may set.
fn sets(step: &PlanStep) -> Vec<Arc<str>> {
    let mut names = Vec::new();
    visit(std::slice::from_ref(step), &mut |step| match step {
        PlanStep::Action(action) => {
            names.extend(action.extracts.iter().map(|extract| Arc::clone(&extract.variable)))
        }
        PlanStep::Flow(flow) => match &**flow {
            FlowStep::Set(values) | FlowStep::Include { with: values, .. } => {
                names.extend(values.iter().map(|(name, _)| Arc::clone(name)));
            }
            _ => {}
        },
        PlanStep::Think(_) => {}
    });
    names
}
