//! Compiles texts with templates, and reports names in them that nothing defines.

use std::collections::{BTreeMap, BTreeSet};

use client::url::BaseUrl;
use grpc::message::PlacePart;
use text::diagnostics::Fault;
use text::similar::did_you_mean;
use text::template::{self, CompiledText, Engine};
use text::template_names;
use text::yaml::YamlNode;

use super::json::JsonTemplate;

/// Built-in variables that every template can use.
pub const BUILT_IN: [&str; 4] = ["auth", "iteration", "trace_id", "workload"];

/// The name of the run, which templates can use unless the scenario has a variable of this name. What a scenario makes
/// in a service is named after the run, so that it can be found again.
pub const RUN: &str = "run";

const TEMPLATE_HELP: &str = "templates are Jinja2: {{ name }}, {{ a.b }}, {% if … %}";

/// Compiles texts, conditions and extractions, and collects their faults.
pub(super) struct TextCompiler<'a> {
    pub(super) engine: Engine,
    pub(super) names: VariableNames<'a>,
    /// True once a text draws random numbers, or rows are taken in random order.
    pub(super) uses_seed: bool,
    pub(super) faults: Vec<Fault>,
}

/// What the names in texts may be.
#[derive(Default)]
pub(super) struct VariableNames<'a> {
    /// Variables that can be used at this place.
    pub(super) known: BTreeSet<String>,
    /// Further names that no variable may have.
    pub(super) reserved: &'static [&'static str],
    /// The names of the scenario's data.
    pub(super) data_names: BTreeSet<String>,
    /// The columns of those whose rows are maps.
    pub(super) data_columns: BTreeMap<String, BTreeSet<String>>,
    /// The names among these that were used since the workload began.
    pub(super) data_used: BTreeSet<String>,
    /// The whole document and its words, if only a part of it could be read. A name that occurs in the other part must
    /// not be reported as missing.
    pub(super) whole: Option<(&'a YamlNode, BTreeSet<String>)>,
}

impl<'a> TextCompiler<'a> {
    pub(super) fn new(names: VariableNames<'a>) -> Self {
        Self { engine: Engine::new(), names, uses_seed: false, faults: Vec::new() }
    }
}

impl TextCompiler<'_> {
    /// Compiles a text and checks that it uses only known variables.
    pub(super) fn text(&mut self, text: &str, node: &YamlNode) -> Option<CompiledText> {
        let before = self.faults.len();
        self.known_names(text, node);
        match self.engine.compile(text) {
            Ok(compiled) => {
                self.known_variables(&compiled, &|name| template_names::calls(text, name), node);
                Some(compiled)
            }
            // Constant text is evaluated at compile time. Unknown names in it have already been reported.
            Err(_) if self.faults.len() > before => None,
            Err(error) => {
                let fault =
                    Fault::error(node.span.clone(), format!("the template does not compile: {error}"));
                self.faults.push(fault.help(TEMPLATE_HELP));
                None
            }
        }
    }

    pub(super) fn json(&mut self, value: &serde_json::Value, node: &YamlNode) -> Option<JsonTemplate> {
        self.json_with_texts(value, &|_| false, node)
    }

    /// The same, where `is_text` tells the places that have a text in any case.
    pub(super) fn json_with_texts(
        &mut self,
        value: &serde_json::Value,
        is_text: &dyn Fn(&[PlacePart]) -> bool,
        node: &YamlNode,
    ) -> Option<JsonTemplate> {
        let before = self.faults.len();
        self.known_names_in(value, node);
        match JsonTemplate::compile_with_texts(self.engine, value, is_text) {
            Ok(compiled) => {
                for text in compiled.texts() {
                    self.known_variables(text, &|name| calls_in(value, name), node);
                }
                Some(compiled)
            }
            Err(_) if self.faults.len() > before => None,
            Err(error) => {
                let fault = Fault::error(node.span.clone(), format!("a template does not compile: {error}"));
                self.faults.push(fault.help(TEMPLATE_HELP));
                None
            }
        }
    }

    /// Checks that the columns that a text takes from rows exist.
    fn known_columns(&mut self, text: &str, node: &YamlNode) {
        let mut faults = Vec::new();
        for (name, columns) in
            self.names.data_columns.iter().filter(|(name, _)| self.names.known.contains(*name))
        {
            for member in template_names::members(text, name).into_iter().filter(|m| !columns.contains(*m)) {
                let span = find_in_node(node, member);
                let fault = Fault::error(span, format!("`{name}` has no column `{member}`"));
                let known = || columns.iter().map(String::as_str);
                faults.push(fault.help(match did_you_mean(member, known()) {
                    Some(known) => format!("did you mean `{name}.{known}`?"),
                    None => format!("its columns: {}", known().collect::<Vec<_>>().join(", ")),
                }));
            }
        }
        self.faults.extend(faults);
    }

    /// Checks that the filters and tests in a text exist: the engine looks them up only when it evaluates them.
    fn known_names(&mut self, text: &str, node: &YamlNode) {
        self.known_columns(text, node);
        for (kind, name) in template_names::named(text) {
            if self.engine.has(kind, name) {
                continue;
            }
            let span = find_in_node(node, name);
            let fault = Fault::error(span, format!("unknown {} `{name}`", kind.word()));
            self.faults.push(fault.help(match did_you_mean(name, kind.known().iter().copied()) {
                Some(known) => format!("did you mean `{known}`?"),
                None => format!("known {}s: {}", kind.word(), kind.known().join(", ")),
            }));
        }
    }

    fn known_names_in(&mut self, json: &serde_json::Value, node: &YamlNode) {
        match json {
            serde_json::Value::String(text) => self.known_names(text, node),
            serde_json::Value::Array(items) => items.iter().for_each(|item| self.known_names_in(item, node)),
            serde_json::Value::Object(map) => map.values().for_each(|item| self.known_names_in(item, node)),
            _ => {}
        }
    }

    /// `calls`: whether the text calls a function of this name.
    fn known_variables(&mut self, text: &CompiledText, calls: &dyn Fn(&str) -> bool, node: &YamlNode) {
        self.uses_seed |= text.draws();
        for name in text.variables() {
            let span = find_in_node(node, &name);
            if calls(&name) && !self.is_known(&name) {
                self.faults.push(unknown_function(&name, span));
            } else {
                self.known_variable(&name, span);
            }
        }
    }

    fn is_known(&self, name: &str) -> bool {
        self.names.known.contains(name)
            || self.names.whole.as_ref().is_some_and(|(_, words)| words.contains(name))
    }

    /// Checks that a variable exists at this place.
    pub(super) fn known_variable(&mut self, name: &str, span: std::ops::Range<usize>) {
        if self.names.data_names.contains(name) {
            self.names.data_used.insert(name.to_owned());
        }
        if self.is_known(name) {
            return;
        }
        let fault = Fault::error(span, format!("unknown variable `{name}`"));
        if self.names.data_names.contains(name) {
            self.faults.push(fault.help("only iterations take rows; setup and teardown do not"));
            return;
        }
        let known: Vec<&str> = self.names.known.iter().map(String::as_str).collect();
        self.faults.push(fault.help(did_you_mean(name, known.iter().copied()).map_or_else(
            || {
                format!(
                    "set it under `variables`, extract it in an earlier action, or use one of: {}",
                    known.join(", ")
                )
            },
            |known| format!("did you mean `{known}`?"),
        )));
    }

    /// Refuses the deployment's credentials, such as `{{ auth.password }}`, in all texts below `node`, which are sent to a
    /// host that is not a target.
    pub(super) fn refuse_credentials(&mut self, node: &YamlNode, host: &BaseUrl) {
        use text::yaml::YamlValue;
        match &node.kind {
            YamlValue::Text { text, .. } if template_names::uses(text, "auth") => {
                let message = format!(
                    "`auth` has the deployment's credentials, but {host} is not a target of the deployment"
                );
                let help =
                    "add the host to `targets` of the deployment if it may have them, or do not send `auth`";
                self.faults.push(Fault::error(node.span.clone(), message).help(help));
            }
            YamlValue::List(items) => items.iter().for_each(|item| self.refuse_credentials(item, host)),
            YamlValue::Map(entries) => {
                entries.iter().for_each(|(_, node)| self.refuse_credentials(node, host))
            }
            _ => {}
        }
    }

    /// Checks that templates can use a variable's name.
    pub(super) fn variable_name(&mut self, name: &str, span: std::ops::Range<usize>) {
        let valid = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !valid {
            let fault = Fault::error(span, format!("`{name}` is not a name that templates can use"));
            self.faults.push(fault.help("use letters, digits and underscores, a letter first"));
        } else if BUILT_IN.contains(&name) {
            let fault = Fault::error(span, format!("`{name}` is a built-in variable of bench"));
            self.faults.push(fault.help("choose another name"));
        } else if self.names.reserved.contains(&name) {
            let fault = Fault::error(span, format!("`{name}` is a variable of `contexts`"));
            self.faults.push(fault.help("choose another name"));
        } else if self.names.data_names.contains(name) {
            let fault = Fault::error(span, format!("`{name}` is the name of the scenario's data"));
            self.faults.push(fault.help("choose another name"));
        }
    }
}

/// Whether a text in a JSON value calls a function of this name.
fn calls_in(json: &serde_json::Value, name: &str) -> bool {
    match json {
        serde_json::Value::String(text) => template_names::calls(text, name),
        serde_json::Value::Array(items) => items.iter().any(|item| calls_in(item, name)),
        serde_json::Value::Object(map) => map.values().any(|item| calls_in(item, name)),
        _ => false,
    }
}

fn unknown_function(name: &str, span: std::ops::Range<usize>) -> Fault {
    let fault = Fault::error(span, format!("unknown function `{name}`"));
    let known = || template::function_names();
    fault.help(match did_you_mean(name, known()) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("known functions: {}", known().collect::<Vec<_>>().join(", ")),
    })
}

/// The place of the scalar below `node` that mentions `name`, so that a fault in a JSON body points at its text.
fn find_in_node(node: &YamlNode, name: &str) -> std::ops::Range<usize> {
    use text::yaml::YamlValue;
    match &node.kind {
        YamlValue::List(items) => items
            .iter()
            .find(|item| mentions(item, name))
            .map_or(node.span.clone(), |n| find_in_node(n, name)),
        YamlValue::Map(entries) => {
            let found = entries.iter().map(|(_, node)| node).find(|node| mentions(node, name));
            found.map_or(node.span.clone(), |node| find_in_node(node, name))
        }
        _ => node.span.clone(),
    }
}

fn mentions(node: &YamlNode, name: &str) -> bool {
    use text::yaml::YamlValue;
    match &node.kind {
        YamlValue::Text { text, .. } => text.contains('{') && text.contains(name),
        YamlValue::List(items) => items.iter().any(|item| mentions(item, name)),
        YamlValue::Map(entries) => entries.iter().any(|(_, node)| mentions(node, name)),
        _ => false,
    }
}
