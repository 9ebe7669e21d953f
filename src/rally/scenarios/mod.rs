//! Rally's scenarios as steps of `bench`'s own language.
//!
//! Names, arguments and defaults are Rally's, and so are the names of atomic actions: they are names of actions or groups
//! here. A scenario or an argument that is not here is a fault of the task file.

mod dummy;
mod http;
mod openstack;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use config::check::check;
use text::diagnostics::{Fault, SourceVisibility};
use text::yaml::YamlNode;
use text::yaml_place::at;

use super::nodes::{NodeFactory, as_number, as_text, without_nulls};
use super::task::{NamedSettings, known};
use openstack::ShippedScenario;

/// The files that arguments of scenarios name.
pub struct ArgumentFiles<'a> {
    /// The text of one, or why it cannot be read.
    pub read: &'a dyn Fn(&str) -> Result<String, String>,
    /// The path of one: absolute, or relative to the task.
    pub find: &'a dyn Fn(&str) -> String,
}

/// A scenario that a task may have.
#[derive(Clone, Copy)]
pub(super) enum SupportedScenario {
    /// Its steps are made here.
    Made(&'static GeneratedScenario),
    /// It is one of the files in `scenarios/openstack`.
    Shipped(&'static ShippedScenario),
}

/// What a scenario may depend on besides its arguments.
pub(super) struct ScenarioEnvironment<'a> {
    /// The number of the workload in its task.
    pub(super) number: usize,
    /// The name of the workload.
    pub(super) name: &'a str,
    /// The place of the scenario's name.
    pub(super) place: std::ops::Range<usize>,
    /// The contexts of the workload.
    pub(super) contexts: &'a [NamedSettings],
    /// The files that arguments name.
    pub(super) files: &'a ArgumentFiles<'a>,
}

impl ScenarioEnvironment<'_> {
    fn context(&self, name: &str) -> Option<&NamedSettings> {
        self.contexts.iter().find(|context| context.key.name.split('@').next() == Some(name))
    }

    /// Whether the workload has a context of this name.
    fn has_context(&self, name: &str) -> bool {
        self.context(name).is_some()
    }

    /// Whether a context makes a flavor of this name.
    fn makes_flavor(&self, name: &str) -> bool {
        let flavors = self.context("flavors").map(|context| context.settings.items()).unwrap_or_default();
        flavors.iter().any(|flavor| flavor.get("name").and_then(as_text).is_some_and(|own| own == name))
    }
}

/// A scenario whose steps are made from its arguments.
pub(super) struct GeneratedScenario {
    pub(super) name: &'static str,
    /// What it does, in a line.
    pub(super) about: &'static str,
    parameters: &'static [Parameter],
    /// True if it takes any other argument, too, and ignores it.
    takes_others: bool,
    expand: fn(&ScenarioArguments<'_>, &mut Vec<Fault>) -> ExpandedScenario,
}

/// A parameter of a scenario.
struct Parameter {
    name: &'static str,
    kind: ParameterKind,
    required: bool,
}

const fn optional(name: &'static str, kind: ParameterKind) -> Parameter {
    Parameter { name, kind, required: false }
}

const fn required(name: &'static str, kind: ParameterKind) -> Parameter {
    Parameter { name, kind, required: true }
}

/// The values of a parameter.
#[derive(Clone, Copy)]
enum ParameterKind {
    /// A number that is at least 0 and at most this.
    Number(f64),
    /// A whole number between these.
    Integer(i64, i64),
    Text,
    Flag,
    Map,
    /// A map without entries.
    Empty,
    Maps,
    List,
    /// Any value; what can be used is checked later.
    Any,
}

impl ParameterKind {
    fn schema(self) -> Value {
        match self {
            Self::Number(most) => json!({ "type": "number", "minimum": 0, "maximum": most }),
            Self::Integer(least, most) => json!({ "type": "integer", "minimum": least, "maximum": most }),
            Self::Text => json!({ "type": "string" }),
            Self::Flag => json!({ "type": "boolean" }),
            Self::Map => json!({ "type": "object" }),
            Self::Empty => json!({ "type": "object", "maxProperties": 0 }),
            Self::List => json!({ "type": "array" }),
            Self::Maps => json!({ "type": "array", "minItems": 1, "items": { "type": "object" } }),
            Self::Any => json!({}),
        }
    }
}

/// A scenario with its arguments, as steps.
#[derive(Default)]
pub(super) struct ExpandedScenario {
    /// The steps of an iteration.
    pub(super) steps: Vec<YamlNode>,
    /// Steps before the load, each with a name: those with the same name, unless it is empty, are run once for all
    /// workloads.
    pub(super) setup: Vec<(String, Vec<YamlNode>)>,
    /// The same for steps after the load.
    pub(super) teardown: Vec<(String, Vec<YamlNode>)>,
    /// True if its requests go to services of a cloud's catalog.
    pub(super) needs_cloud: bool,
    /// Where its requests go, if the task says it: scheme and authority.
    pub(super) origins: Vec<String>,
    /// What the user should know: sentences without a full stop.
    pub(super) warnings: Vec<String>,
}

/// The arguments of a scenario.
struct ScenarioArguments<'n> {
    /// The place of the scenario's name.
    at: NodeFactory,
    map: &'n YamlNode,
}

impl ScenarioArguments<'_> {
    fn number(&self, name: &str, default: f64) -> f64 {
        self.map.get(name).and_then(as_number).unwrap_or(default)
    }

    fn integer(&self, name: &str, default: i64) -> i64 {
        self.number(name, default as f64) as i64
    }

    fn text(&self, name: &str) -> String {
        self.map.get(name).and_then(as_text).unwrap_or_default()
    }

    /// The place of an argument, or of the scenario if it was left out.
    fn place(&self, name: &str) -> NodeFactory {
        self.map.get(name).map_or_else(|| self.at.clone(), NodeFactory::of)
    }
}

fn made() -> impl Iterator<Item = &'static GeneratedScenario> + Clone {
    dummy::SCENARIOS.iter().chain(&http::SCENARIOS)
}

/// The names of all scenarios that a task may have.
pub fn names() -> impl Iterator<Item = &'static str> {
    made().map(|scenario| scenario.name).chain(openstack::all().map(ShippedScenario::name))
}

/// The scenario that a workload names; adds a fault if there is none.
pub(super) fn find(named: &NamedSettings, faults: &mut Vec<Fault>) -> Option<SupportedScenario> {
    let made = made().map(|scenario| (scenario.name, SupportedScenario::Made(scenario)));
    let shipped = openstack::all().map(|scenario| (scenario.name(), SupportedScenario::Shipped(scenario)));
    // Of all the names, only the names of its class are helpful.
    let class = named.key.name.split('.').next().unwrap_or_default();
    let of_class = shipped.clone().filter(|(name, _)| name.split('.').next() == Some(class));
    match of_class.clone().next() {
        Some(_) => known(named, "the scenario", of_class, faults),
        None => {
            let before = faults.len();
            let found = known(named, "the scenario", made.clone().chain(shipped.clone()), faults);
            let names = made.map(|(name, _)| name).chain(shipped.map(|(name, _)| name));
            if let Some(fault) = faults.get_mut(before).filter(|fault| is_list(fault)) {
                fault.help =
                    Some(format!("supported are some of {}; `bench help rally` lists them", classes(names)));
            }
            found
        }
    }
}

/// Whether a fault's help lists everything.
fn is_list(fault: &Fault) -> bool {
    fault.help.as_ref().is_some_and(|help| help.starts_with("supported are "))
}

/// The classes of scenarios, each once.
fn classes<'n>(names: impl Iterator<Item = &'n str>) -> String {
    let classes: BTreeSet<&str> = names.filter_map(|name| name.split('.').next()).collect();
    classes.into_iter().map(|class| format!("{class}.*")).collect::<Vec<_>>().join(", ")
}

impl SupportedScenario {
    /// What it does, in a sentence without a full stop.
    pub(super) fn about(self) -> String {
        match self {
            Self::Made(scenario) => scenario.about.to_owned(),
            Self::Shipped(scenario) => scenario.about(),
        }
    }

    /// Its steps with these arguments; adds the faults of the arguments.
    pub(super) fn expand(
        self,
        named: &NamedSettings,
        around: &ScenarioEnvironment<'_>,
        shown: &SourceVisibility,
        faults: &mut Vec<Fault>,
    ) -> Option<ExpandedScenario> {
        match self {
            Self::Made(scenario) => scenario.expand(named, shown, faults),
            Self::Shipped(scenario) => scenario.expand(named, around, shown, faults),
        }
    }
}

impl GeneratedScenario {
    fn expand(
        &self,
        named: &NamedSettings,
        shown: &SourceVisibility,
        faults: &mut Vec<Fault>,
    ) -> Option<ExpandedScenario> {
        let arguments = without_nulls(&named.settings);
        let before = faults.len();
        let schema = self.parameters.iter().map(Parameter::schema);
        faults.extend(check_arguments(named, &arguments, schema, self.takes_others, shown));
        if faults.len() > before {
            return None;
        }
        let expanded = (self.expand)(
            &ScenarioArguments { at: NodeFactory(named.key.span.clone()), map: &arguments },
            faults,
        );
        (faults.len() == before).then_some(expanded)
    }
}

impl Parameter {
    fn schema(&self) -> (&'static str, ParameterKind, bool) {
        (self.name, self.kind, self.required)
    }
}

/// All faults of a scenario's arguments.
fn check_arguments(
    named: &NamedSettings,
    arguments: &YamlNode,
    schema: impl Iterator<Item = (&'static str, ParameterKind, bool)> + Clone,
    takes_others: bool,
    shown: &SourceVisibility,
) -> Vec<Fault> {
    let found = check_all(arguments, schema, takes_others, shown);
    // A map of arguments is shown by the scenario's name.
    let at_name = found.into_iter().map(|fault| match &fault.span {
        Some(span) if *span == arguments.span => Fault { span: Some(named.key.span.clone()), ..fault },
        _ => fault,
    });
    at_name.collect()
}

/// All faults of a map of arguments; each has a name, values, and may be required.
fn check_all(
    map: &YamlNode,
    parameters: impl Iterator<Item = (&'static str, ParameterKind, bool)> + Clone,
    takes_others: bool,
    shown: &SourceVisibility,
) -> Vec<Fault> {
    let properties = parameters.clone().map(|(name, kind, _)| (name.to_owned(), kind.schema()));
    let needed: Vec<&str> = parameters.filter(|(_, _, required)| *required).map(|(name, ..)| name).collect();
    let schema = json!({
        "type": "object",
        "properties": properties.collect::<Map<_, _>>(),
        "required": needed,
        "additionalProperties": takes_others,
    });
    let mut faults = check(map, &schema, shown);
    for fault in &mut faults {
        fault.message = fault.message.replace("the document", "the scenario's arguments");
    }
    faults
}

/// The place of an entry of a map, or of the map.
fn entry<'n>(map: &'n YamlNode, name: &str) -> &'n YamlNode {
    at(map, &[name])
}
