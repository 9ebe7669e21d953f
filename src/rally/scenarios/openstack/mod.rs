//! Rally's scenarios for OpenStack: the files in `scenarios/openstack`, with Rally's arguments in place of their variables.
//!
//! Each file is the only source of what its scenario does, whether it runs by itself or in a task. Names, arguments and
//! atomic actions are those of rally-openstack 4.1.

mod arguments;
mod compute;
mod files;
mod identity;
mod lookup;
mod network;
mod steps;
mod storage;
mod workflow;

use std::collections::BTreeSet;

use text::diagnostics::{Fault, SourceText, SourceVisibility};
use text::yaml::{self, YamlNode, YamlValue as NodeKind};
use text::yaml_place::at;

use super::{ExpandedScenario, ParameterKind, ScenarioEnvironment, check_arguments};
use crate::nodes::{NodeFactory, meant_literally, without_nulls};
use crate::task::NamedSettings;

use arguments::{ArgumentMapping, Changes};
use files::EmbeddedFile;

/// A scenario that is a file.
pub(crate) struct ShippedScenario {
    /// The name of the file, without its ending.
    name: &'static str,
    /// Whether only administrators may do what it does.
    admin: bool,
    /// Its arguments, in groups that several scenarios share.
    arguments: &'static [&'static [Argument]],
}

/// An argument, and what becomes of it.
struct Argument {
    name: &'static str,
    kind: ParameterKind,
    required: bool,
    becomes: ArgumentMapping,
}

const fn may(name: &'static str, kind: ParameterKind, becomes: ArgumentMapping) -> Argument {
    Argument { name, kind, required: false, becomes }
}

const fn must(name: &'static str, kind: ParameterKind, becomes: ArgumentMapping) -> Argument {
    Argument { name, kind, required: true, becomes }
}

const fn user(name: &'static str, arguments: &'static [&'static [Argument]]) -> ShippedScenario {
    ShippedScenario { name, admin: false, arguments }
}

const fn admin(name: &'static str, arguments: &'static [&'static [Argument]]) -> ShippedScenario {
    ShippedScenario { name, admin: true, arguments }
}

/// All of them.
pub(super) fn all() -> impl Iterator<Item = &'static ShippedScenario> + Clone {
    let tables: [&'static [ShippedScenario]; 5] = [
        &identity::SCENARIOS,
        &compute::SCENARIOS,
        &network::SCENARIOS,
        &storage::SCENARIOS,
        &workflow::SCENARIOS,
    ];
    tables.into_iter().flatten()
}

impl ShippedScenario {
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// What it does, as the comment at the beginning of its file says: a sentence without a full stop.
    pub(crate) fn about(&self) -> String {
        let lines =
            self.file().text.lines().skip_while(|line| !line.starts_with("# ") || line.contains("$schema"));
        let comment: Vec<&str> = lines
            .map_while(|line| line.strip_prefix("# "))
            .take_while(|line| !line.starts_with(' '))
            .collect();
        let comment = comment.join(" ");
        comment.strip_suffix('.').unwrap_or(&comment).to_owned()
    }

    fn file(&self) -> EmbeddedFile {
        files::scenario(self.name)
    }

    fn arguments(&self) -> impl Iterator<Item = &'static Argument> + Clone {
        self.arguments.iter().flat_map(|group| group.iter())
    }

    /// The steps of the scenario with these arguments; adds the faults of the arguments.
    pub(super) fn expand(
        &self,
        named: &NamedSettings,
        around: &ScenarioEnvironment<'_>,
        shown: &SourceVisibility,
        faults: &mut Vec<Fault>,
    ) -> Option<ExpandedScenario> {
        let before = faults.len();
        let schema = self.arguments().map(|argument| (argument.name, argument.kind, argument.required));
        let place = beginning(&around.place);
        let given = without_nulls(&named.settings);
        faults.extend(check_arguments(named, &given, schema, false, shown));
        self.refuse_nulls(named, faults);
        let root = parsed(&self.file())?;
        let mut changes = Changes::new(place.clone(), variables(&root, &place));
        if faults.len() > before {
            return None;
        }
        for (argument, node) in self.arguments().filter_map(|a| Some((a, given.get(a.name)?))) {
            changes.apply(argument.becomes, (argument.name, node), around, faults);
        }
        changes.finish(around, faults);
        (faults.len() == before).then(|| self.assembled(&root, changes, around))
    }

    /// Reports arguments whose absence means something else than the file does.
    fn refuse_nulls(&self, named: &NamedSettings, faults: &mut Vec<Fault>) {
        for argument in
            self.arguments().filter(|argument| matches!(argument.becomes, ArgumentMapping::Given(_)))
        {
            let Some(node) = named.settings.get(argument.name) else { continue };
            if matches!(node.kind, NodeKind::Null) {
                let message = format!("`{}: null` is not supported", argument.name);
                faults.push(Fault::error(node.span.clone(), message).help("give it a value, or remove it"));
            }
        }
    }

    fn assembled(
        &self,
        root: &YamlNode,
        mut changes: Changes,
        around: &ScenarioEnvironment<'_>,
    ) -> ExpandedScenario {
        let mut expanded = ExpandedScenario { needs_cloud: true, ..ExpandedScenario::default() };
        let place = beginning(&around.place);
        let users = around.has_context("users");
        let mut seen = BTreeSet::new();
        let mut body = steps::inlined(at(root, &["iteration"]), &place, changes.forces, &mut seen);
        if users && !self.admin {
            steps::log_in_as_user(&mut body, &place);
        }
        if self.admin && !around.contexts.is_empty() {
            body.iter_mut().for_each(|step| steps::as_admin(step, &place));
        }
        for (name, included) in steps::included(at(root, &["setup"])) {
            match name.as_str() {
                // The arguments say which.
                files::FIND_FLAVOR => changes.forget("flavor"),
                files::FIND_IMAGE => changes.forget("image"),
                files::FIND_SELF if users => changes.is_user = true,
                _ => expanded.setup.push((name, steps::moved_all(included, &place))),
            }
        }
        for (name, included) in steps::included(at(root, &["teardown"])) {
            expanded.teardown.push((name, steps::moved_all(included, &place)));
        }
        changes.into_steps(body, &mut expanded);
        expanded
    }
}

/// Where everything stands that comes from our files: the beginning of the scenario's name. The name itself is public, and
/// what a file has in a request's body is not.
fn beginning(name: &std::ops::Range<usize>) -> NodeFactory {
    NodeFactory(name.start..name.start)
}

/// The variables of a file: values that are meant literally.
fn variables(root: &YamlNode, place: &NodeFactory) -> Vec<(String, YamlNode)> {
    let entries = root.get("variables").map(YamlNode::entries).unwrap_or_default().iter();
    entries.map(|(key, node)| (key.name.clone(), meant_literally(&steps::moved(node, place)))).collect()
}

/// A file of ours; tests see to it that there are no faults.
fn parsed(file: &EmbeddedFile) -> Option<YamlNode> {
    yaml::parse(&SourceText::new(file.name, file.text)).ok()
}

#[cfg(test)]
mod tests;
