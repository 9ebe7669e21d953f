//! The steps of an iteration, compiled.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::Method;

use crate::base::diagnostics::Fault;
use crate::base::yaml::Node;
use crate::base::yaml_place::{item, key_span};
use crate::config::step;

use super::action::Action;
use super::compiler::Compiler;

/// One step of an iteration.
pub enum Step {
    /// A request.
    Action(Box<Action>),
    /// A pause.
    Think(Duration),
}

/// The actions among `steps`.
pub fn actions(steps: &[Step]) -> impl Iterator<Item = &Action> {
    actions_of(steps.iter())
}

/// The actions among the steps of several lists.
pub(super) fn actions_of<'s>(steps: impl Iterator<Item = &'s Step>) -> impl Iterator<Item = &'s Action> {
    steps.filter_map(|step| match step {
        Step::Action(action) => Some(&**action),
        Step::Think(_) => None,
    })
}

impl Compiler<'_> {
    /// Compiles a list of steps. Later steps can use the values that earlier steps extract.
    pub(super) fn steps(&mut self, steps: &[step::Step], node: &Node) -> Vec<Step> {
        let mut compiled = Vec::new();
        let mut names = BTreeSet::new();
        let mut index = 0;
        for (number, step) in steps.iter().enumerate() {
            let node = item(node, number);
            let Some(step) = self.step(step, index, node) else { continue };
            if let Step::Action(action) = &step {
                index = index.saturating_add(1);
                if !names.insert(Arc::clone(&action.name)) {
                    let fault =
                        Fault::error(place_of_name(node), format!("a second action named `{}`", action.name));
                    self.faults.push(
                        fault.help("give each action its own name: it identifies the action in every table"),
                    );
                }
            }
            compiled.push(step);
        }
        compiled
    }

    fn step(&mut self, step: &step::Step, index: u16, node: &Node) -> Option<Step> {
        let requests = methods(step);
        match (requests.as_slice(), step.think) {
            ([(key, method, url)], None) => {
                self.action(step, (key, method, url), index, node).map(|a| Step::Action(Box::new(a)))
            }
            ([], Some(think)) => {
                if node.entries().len() > 1 {
                    self.faults.push(
                        Fault::error(key_span(node, "think"), "a step with `think` has other keys, too")
                            .help("make it a step of its own: `- think: …`"),
                    );
                }
                Some(Step::Think(think.0))
            }
            ([], None) => {
                let fault = Fault::error(node.span.clone(), "a step without a request");
                self.faults
                    .push(fault.help("add one of get, head, post, put, patch, delete, options, or think"));
                None
            }
            (_, Some(_)) => {
                let fault = Fault::error(key_span(node, "think"), "a step with both `think` and a request");
                self.faults.push(fault.help("make it a step of its own: `- think: …`"));
                None
            }
            ([first, second, ..], None) => {
                let message = format!("a step with two requests, `{}` and `{}`", first.0, second.0);
                let span = key_span(node, first.0).start.max(key_span(node, second.0).start);
                let later = if key_span(node, first.0).start == span { first.0 } else { second.0 };
                let fault = Fault::error(key_span(node, later), message);
                self.faults.push(fault.help("make one step of each"));
                None
            }
        }
    }
}

/// The place of an action's name, or of the request if it has no name.
fn place_of_name(node: &Node) -> std::ops::Range<usize> {
    let name = node.get("action").or_else(|| node.entries().first().map(|(_, value)| value));
    name.unwrap_or(node).span.clone()
}

fn methods(step: &step::Step) -> Vec<(&'static str, Method, &str)> {
    let all = [
        ("get", Method::GET, &step.get),
        ("head", Method::HEAD, &step.head),
        ("post", Method::POST, &step.post),
        ("put", Method::PUT, &step.put),
        ("patch", Method::PATCH, &step.patch),
        ("delete", Method::DELETE, &step.delete),
        ("options", Method::OPTIONS, &step.options),
    ];
    all.into_iter().filter_map(|(key, method, url)| url.as_deref().map(|url| (key, method, url))).collect()
}
