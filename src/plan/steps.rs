//! Compiles the steps of an iteration, whatever their kind.

use std::sync::Arc;

use http::Method;

use base::complaint::Complaint;
use config::step;
use text::diagnostics::Fault;
use text::yaml::Node;
use text::yaml_place::{at, item, key_span};

use super::compiler::Compiler;
use super::nesting::Nesting;
use super::step::Step;
use super::step::flow;

/// The most actions and groups of a workload.
pub(super) const ACTIONS_MAX: u16 = 1000;
/// How deep steps may be nested.
const DEPTH_MAX: usize = 20;

impl Compiler<'_> {
    /// Compiles the steps of setup, teardown or an iteration. Later steps can use the values that earlier steps extract.
    pub(super) fn steps(&mut self, steps: &[step::Step], node: &Node) -> Vec<Step> {
        self.nesting = Nesting::default();
        self.block(steps, node)
    }

    /// Compiles a list of steps at any depth.
    pub(super) fn block(&mut self, steps: &[step::Step], node: &Node) -> Vec<Step> {
        if self.nesting.depth >= DEPTH_MAX {
            let fault =
                Fault::error(node.span.clone(), format!("steps are nested more than {DEPTH_MAX} deep"));
            self.faults.push(fault.help("nest them less deeply"));
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
    pub(super) fn register(&mut self, name: &str, node: &Node) -> (Arc<str>, u16) {
        let name: Arc<str> = match &self.nesting.prefix {
            Some(prefix) => Arc::from(format!("{prefix}: {name}")),
            None => Arc::from(name),
        };
        let index = self.nesting.count;
        self.nesting.count = index.saturating_add(1);
        if self.nesting.count == ACTIONS_MAX + 1 {
            let fault = Fault::error(place_of_name(node), format!("more than {ACTIONS_MAX} actions"));
            self.faults
                .push(fault.help("split the iteration, or run the same steps with `repeat` or `for_each`"));
        }
        if !self.nesting.names.insert(Arc::clone(&name)) {
            let fault = Fault::error(place_of_name(node), format!("a second action named `{name}`"));
            let help = match self.nesting.files.is_empty() {
                true => "give each action its own name: it identifies the action in every table",
                false => "include the file `as` another name each time: `as: first` gives `first: …`",
            };
            self.faults.push(fault.help(help));
        }
        (name, index)
    }

    /// Compiles a step of those that run at the same time.
    pub(super) fn nested_step(&mut self, step: &step::Step, node: &Node) -> Option<Step> {
        self.block(std::slice::from_ref(step), node).pop()
    }

    fn step(&mut self, step: &step::Step, node: &Node) -> Option<Step> {
        let requests = self.methods(step, node);
        let kinds = flow::kinds(step);
        match (requests.as_slice(), kinds.as_slice()) {
            ([(key, method, url)], []) => {
                flow::companions(key, node, &mut self.faults);
                self.action(step, (key, method, url), node).map(|a| Step::Action(Box::new(a)))
            }
            ([], [kind]) => {
                flow::companions(kind, node, &mut self.faults);
                self.flow(step, kind, node)
            }
            ([], []) => {
                let fault = Fault::error(node.span.clone(), "a step without a request");
                self.faults.push(fault.help(format!(
                    "add one of get, head, post, put, patch, delete, options, request, or one of {}",
                    flow::KINDS.map(|(kind, _)| kind).join(", ")
                )));
                None
            }
            ([], [first, second, ..]) => {
                let message = format!("a step with both `{first}` and `{second}`");
                let fault = Fault::error(later(node, first, second).1, message);
                self.faults.push(fault.help("make one step of each"));
                None
            }
            ([_, ..], [kind, ..]) => {
                let message = format!("a step with both `{kind}` and a request");
                let fault = Fault::error(key_span(node, kind), message);
                self.faults.push(fault.help(format!("make it a step of its own: `- {kind}: …`")));
                None
            }
            ([first, second, ..], []) => {
                let message = format!("a step with two requests, `{}` and `{}`", first.0, second.0);
                let fault = Fault::error(later(node, first.0, second.0).1, message);
                self.faults.push(fault.help("make one step of each"));
                None
            }
        }
    }
}

/// Which of two keys comes later in the file, with its place.
fn later<'k>(node: &Node, one: &'k str, other: &'k str) -> (&'k str, std::ops::Range<usize>) {
    let (place, second) = (key_span(node, one), key_span(node, other));
    if place.start > second.start { (one, place) } else { (other, second) }
}

/// The place of an action's name, or of the request if it has no name.
fn place_of_name(node: &Node) -> std::ops::Range<usize> {
    let name = node.get("action").or_else(|| node.entries().first().map(|(_, value)| value));
    name.unwrap_or(node).span.clone()
}

impl Compiler<'_> {
    /// The requests of a step, as key, method and path or URL.
    fn methods<'s>(&mut self, step: &'s step::Step, node: &Node) -> Vec<(&'static str, Method, &'s str)> {
        let mut methods = methods(step);
        if let Some(written) = &step.request {
            let (method, url) = method_and_url(written).unwrap_or_else(|complaint| {
                self.faults.push(Fault::of(at(node, &["request"]).span.clone(), complaint));
                // Its other faults can be found with any method.
                (Method::GET, "/")
            });
            methods.push(("request", method, url));
        }
        methods
    }
}

/// Reads `PURGE /path`.
fn method_and_url(written: &str) -> Result<(Method, &str), Complaint> {
    const REMEDY: &str = "write the method and the path, such as `PURGE /cache`";
    let Some((method, url)) = written.trim().split_once([' ', '\t']) else {
        return Err(Complaint::new(format!("`{written}` is not a method with a path"), REMEDY));
    };
    let url = url.trim_start();
    if url.contains([' ', '\t']) && !url.starts_with(['/', '{']) && !url.contains("://") {
        return Err(Complaint::new(format!("`{written}` has more than one word before its path"), REMEDY));
    }
    match Method::from_bytes(method.as_bytes()) {
        Ok(Method::CONNECT) => Err(Complaint::new(
            "CONNECT opens a tunnel, which bench does not send as a request",
            "use another method; the deployment's `proxy` makes tunnels",
        )),
        Ok(known) => Ok((known, url)),
        Err(_) => Err(Complaint::new(format!("`{method}` is not a method"), REMEDY)),
    }
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
