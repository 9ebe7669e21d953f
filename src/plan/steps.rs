//! Compiles the steps of an iteration, whatever their kind.

use std::sync::Arc;

use config::step;
use text::diagnostics::Fault;
use text::yaml::YamlNode;
use text::yaml_place::{item, key_span};

use super::compiler::Compiler;
use super::nesting::Nesting;
use super::step::PlanStep;
use super::step::flow;

/// The most actions and groups of a workload.
pub(super) const ACTIONS_MAX: u16 = 1000;
/// How deep steps may be nested.
const DEPTH_MAX: usize = 20;

impl Compiler<'_> {
    /// Compiles the steps of setup, teardown or an iteration. Later steps can use the values that earlier steps extract.
    pub(super) fn steps(&mut self, steps: &[step::Step], node: &YamlNode) -> Vec<PlanStep> {
        self.nesting = Nesting::default();
        self.block(steps, node)
    }

    /// Compiles a list of steps at any depth.
    pub(super) fn block(&mut self, steps: &[step::Step], node: &YamlNode) -> Vec<PlanStep> {
        if self.nesting.depth >= DEPTH_MAX {
            let fault =
                Fault::error(node.span.clone(), format!("steps are nested more than {DEPTH_MAX} deep"));
            self.texts.faults.push(fault.help("nest them less deeply"));
            return Vec::new();
        }
        self.nesting.depth += 1;
        let compiled = steps
            .iter()
            .enumerate()
            .filter_map(|(number, step)| self.step(step, item(node, number)))
            .collect();
        self.nesting.depth -= 1;
        compiled
    }

    /// The name of an action or a group, and its number.
    pub(super) fn register(&mut self, name: &str, node: &YamlNode) -> (Arc<str>, u16) {
        let name: Arc<str> = match &self.nesting.prefix {
            Some(prefix) => Arc::from(format!("{prefix}: {name}")),
            None => Arc::from(name),
        };
        let index = self.nesting.count;
        self.nesting.count = index.saturating_add(1);
        if self.nesting.count == ACTIONS_MAX + 1 {
            let fault = Fault::error(place_of_name(node), format!("more than {ACTIONS_MAX} actions"));
            self.texts
                .faults
                .push(fault.help("split the iteration, or run the same steps with `repeat` or `for_each`"));
        }
        if !self.nesting.names.insert(Arc::clone(&name)) {
            let fault = Fault::error(place_of_name(node), format!("a second action named `{name}`"));
            let help = match self.files.open.is_empty() {
                true => "give each action its own name: it identifies the action in every table",
                false => "include the file `as` another name each time: `as: first` gives `first: …`",
            };
            self.texts.faults.push(fault.help(help));
        }
        (name, index)
    }

    /// Compiles a step of those that run at the same time.
    pub(super) fn nested_step(&mut self, step: &step::Step, node: &YamlNode) -> Option<PlanStep> {
        self.block(std::slice::from_ref(step), node).pop()
    }

    fn step(&mut self, step: &step::Step, node: &YamlNode) -> Option<PlanStep> {
        let requests = self.calls(step, node);
        let kinds = flow::kinds(step);
        match (requests.as_slice(), kinds.as_slice()) {
            ([call], []) => {
                flow::companions(call.key, node, &mut self.texts.faults);
                let action = self.action(step, call, node);
                if step.websocket.is_some() || step.grpc.is_some() && step.steps.is_some() {
                    self.dialogue(action, step, node)
                } else {
                    action.map(|action| PlanStep::Action(Box::new(action)))
                }
            }
            ([], [kind]) => {
                flow::companions(kind, node, &mut self.texts.faults);
                self.flow(step, kind, node)
            }
            ([], []) => {
                let fault = Fault::error(node.span.clone(), "a step without a request");
                self.texts.faults.push(fault.help(format!(
                    "add one of get, head, post, put, patch, delete, options, request, grpc, websocket, or one of {}",
                    flow::KINDS.map(|(kind, _)| kind).join(", ")
                )));
                None
            }
            ([], [first, second, ..]) => {
                let message = format!("a step with both `{first}` and `{second}`");
                let fault = Fault::error(later(node, first, second).1, message);
                self.texts.faults.push(fault.help("make one step of each"));
                None
            }
            ([_, ..], [kind, ..]) => {
                let message = format!("a step with both `{kind}` and a request");
                let fault = Fault::error(key_span(node, kind), message);
                self.texts.faults.push(fault.help(format!("make it a step of its own: `- {kind}: …`")));
                None
            }
            ([first, second, ..], []) => {
                let message = format!("a step with two requests, `{}` and `{}`", first.key, second.key);
                let fault = Fault::error(later(node, first.key, second.key).1, message);
                self.texts.faults.push(fault.help("make one step of each"));
                None
            }
        }
    }
}

/// Which of two keys comes later in the file, with its place.
fn later<'k>(node: &YamlNode, one: &'k str, other: &'k str) -> (&'k str, std::ops::Range<usize>) {
    let (place, second) = (key_span(node, one), key_span(node, other));
    if place.start > second.start { (one, place) } else { (other, second) }
}

/// The place of an action's name, or of the request if it has no name.
fn place_of_name(node: &YamlNode) -> std::ops::Range<usize> {
    let name = node.get("action").or_else(|| node.entries().first().map(|(_, value)| value));
    name.unwrap_or(node).span.clone()
}
