//! The structure of a task file, whatever its version: subtasks with workloads, every part with its place.

use serde_json::Value;

use config::check::check;
use text::diagnostics::{Fault, SourceText};
use text::similar::did_you_mean;
use text::yaml::{YamlKey, YamlNode, YamlValue};
use text::yaml_place::{at, key_span};

use super::nodes::{NodeFactory, as_text, without_nulls};
use super::schema;

/// The most workloads of a task.
const WORKLOADS_MAX: usize = 1000;

pub(super) struct ParsedTask {
    pub(super) title: String,
    pub(super) description: String,
    pub(super) tags: Vec<String>,
    pub(super) subtasks: Vec<Subtask>,
    /// What the user should know: sentences without a full stop.
    pub(super) warnings: Vec<String>,
}

pub(super) struct Subtask {
    pub(super) title: String,
    pub(super) description: String,
    pub(super) workloads: Vec<TaskWorkload>,
}

/// A name and what belongs to it: `constant: {times: 5}`.
#[derive(Clone)]
pub(super) struct NamedSettings {
    pub(super) key: YamlKey,
    pub(super) settings: YamlNode,
}

pub(super) struct TaskWorkload {
    pub(super) scenario: NamedSettings,
    pub(super) description: Option<String>,
    pub(super) runner: Option<NamedSettings>,
    pub(super) sla: Option<YamlNode>,
    /// By the names that they have in the file.
    pub(super) contexts: Vec<NamedSettings>,
    pub(super) hooks: Vec<TaskHook>,
}

pub(super) struct TaskHook {
    pub(super) description: String,
    pub(super) action: NamedSettings,
    pub(super) trigger: NamedSettings,
}

/// Reads a task; adds its faults of structure.
pub(super) fn read(root: &YamlNode, source: &SourceText, faults: &mut Vec<Fault>) -> ParsedTask {
    let before = faults.len();
    let mut reader = TaskReader { source, faults, warnings: Vec::new() };
    let mut task = match root.get("version") {
        None if root.get("subtasks").is_some() => reader.v2(root),
        None => reader.v1(root),
        Some(version) if as_text(version).is_some_and(|version| version == "2") => reader.v2(root),
        Some(version) if as_text(version).is_some_and(|version| version == "1") => {
            let fault = Fault::error(key_span(root, "version"), "a task of version 1 has no key `version`");
            reader.faults.push(fault.help("remove the key, or write version 2"));
            reader.nothing()
        }
        Some(version) => {
            let message = format!("a task cannot have version {}", as_text(version).unwrap_or_default());
            reader.faults.push(Fault::error(version.span.clone(), message).help("write `version: 2`"));
            reader.nothing()
        }
    };
    let count: usize = task.subtasks.iter().map(|subtask| subtask.workloads.len()).sum();
    if count > WORKLOADS_MAX {
        let message = format!("more than {WORKLOADS_MAX} workloads");
        reader.faults.push(Fault::error(root.span.clone(), message).help("split the task"));
        task.subtasks.clear();
    } else if count == 0 && reader.faults.len() == before {
        let fault = Fault::error(at(root, &["subtasks"]).span.clone(), "the task has no workload");
        reader.faults.push(fault.help("add a subtask with a `scenario`"));
    }
    task.warnings = reader.warnings;
    task
}

struct TaskReader<'a> {
    source: &'a SourceText,
    faults: &'a mut Vec<Fault>,
    warnings: Vec<String>,
}

impl TaskReader<'_> {
    /// True if a node has the structure that a schema says.
    fn fits(&mut self, node: &YamlNode, schema: &Value) -> bool {
        let found = check(node, schema, &self.source.shown);
        let fits = found.is_empty();
        self.faults.extend(found);
        fits
    }

    fn nothing(&self) -> ParsedTask {
        let (title, description) = (String::new(), String::new());
        ParsedTask { title, description, tags: Vec::new(), subtasks: Vec::new(), warnings: Vec::new() }
    }

    fn v2(&mut self, root: &YamlNode) -> ParsedTask {
        let task = ParsedTask {
            title: text(root, "title"),
            description: text(root, "description"),
            ..self.nothing()
        };
        if !self.fits(&without_nulls(root), &schema::V2) {
            // The subtasks may have faults, too, if they can be read.
            at(root, &["subtasks"]).items().iter().for_each(|node| drop(self.subtask(node)));
            return task;
        }
        let tags = at(root, &["tags"]).items().iter().filter_map(as_text).collect();
        let subtasks = at(root, &["subtasks"]).items().iter().filter_map(|node| self.subtask(node)).collect();
        ParsedTask { tags, subtasks, ..task }
    }

    fn subtask(&mut self, node: &YamlNode) -> Option<Subtask> {
        let node = &without_nulls(node);
        let (title, description) = (text(node, "title"), text(node, "description"));
        if let Some(list) = node.get("workloads") {
            if !self.fits(node, &schema::SUBTASK_OF_MANY) {
                return None;
            }
            if matches!(node.get("run_in_parallel").map(|node| &node.kind), Some(YamlValue::Bool(true))) {
                self.warnings.push(format!(
                    "`run_in_parallel` of the subtask {title} has no effect, as in Rally: its workloads run one after another"
                ));
            }
            let workloads =
                list.items().iter().filter_map(|node| workload_v2(&without_nulls(node))).collect();
            return Some(Subtask { title, description, workloads });
        }
        if !self.fits(node, &schema::SUBTASK) {
            return None;
        }
        let workload = workload_v2(node)?;
        Some(Subtask { title, description, workloads: vec![TaskWorkload { description: None, ..workload }] })
    }

    fn v1(&mut self, root: &YamlNode) -> ParsedTask {
        let task = ParsedTask { title: "Task (adopted from task format v1)".to_owned(), ..self.nothing() };
        if !self.fits(root, &schema::V1) {
            return task;
        }
        let subtask = |(key, list): &(YamlKey, YamlNode)| {
            let workloads = list.items().iter().map(|node| workload_v1(key, node)).collect();
            Subtask { title: key.name.clone(), description: String::new(), workloads }
        };
        ParsedTask { subtasks: root.entries().iter().map(subtask).collect(), ..task }
    }
}

fn text(node: &YamlNode, key: &str) -> String {
    node.get(key).and_then(as_text).unwrap_or_default()
}

/// The only entry of a map.
fn sole(node: &YamlNode) -> Option<NamedSettings> {
    let (key, settings) = node.entries().first()?;
    Some(NamedSettings { key: key.clone(), settings: or_empty(settings) })
}

/// A value that was left out is an empty map.
fn or_empty(node: &YamlNode) -> YamlNode {
    if matches!(node.kind, YamlValue::Null) { NodeFactory::of(node).map([]) } else { node.clone() }
}

fn contexts(node: Option<&YamlNode>) -> Vec<NamedSettings> {
    let entries = node.map(YamlNode::entries).unwrap_or_default().iter();
    entries.map(|(key, settings)| NamedSettings { key: key.clone(), settings: settings.clone() }).collect()
}

fn workload_v2(node: &YamlNode) -> Option<TaskWorkload> {
    let hook = |node: &YamlNode| {
        let (action, trigger) = (sole(node.get("action")?)?, sole(node.get("trigger")?)?);
        Some(TaskHook { description: text(node, "description"), action, trigger })
    };
    Some(TaskWorkload {
        scenario: sole(node.get("scenario")?)?,
        description: Some(text(node, "description")).filter(|text| !text.is_empty()),
        runner: node.get("runner").and_then(sole),
        sla: node.get("sla").cloned(),
        contexts: contexts(node.get("contexts")),
        hooks: at(node, &["hooks"]).items().iter().filter_map(hook).collect(),
    })
}

fn workload_v1(scenario: &YamlKey, node: &YamlNode) -> TaskWorkload {
    let named = |node: &YamlNode, name: &str, settings: YamlNode| {
        let name_node = at(node, &[name]);
        let key = YamlKey { name: as_text(name_node).unwrap_or_default(), span: name_node.span.clone() };
        NamedSettings { key, settings }
    };
    let runner = node.get("runner").map(|runner| {
        let mut settings = without_nulls(runner);
        if let YamlValue::Map(entries) = &mut settings.kind {
            entries.retain(|(key, _)| key.name != "type");
        }
        named(runner, "type", settings)
    });
    let hook = |node: &YamlNode| {
        let trigger = at(node, &["trigger"]);
        TaskHook {
            description: text(node, "description"),
            action: named(node, "name", at(node, &["args"]).clone()),
            trigger: named(trigger, "name", at(trigger, &["args"]).clone()),
        }
    };
    let hooks = node.get("hooks").map(YamlNode::items).unwrap_or_default();
    TaskWorkload {
        scenario: NamedSettings {
            key: scenario.clone(),
            settings: node.get("args").map_or_else(|| NodeFactory(scenario.span.clone()).map([]), or_empty),
        },
        description: Some(text(node, "description")).filter(|text| !text.is_empty()),
        runner,
        sla: node.get("sla").cloned(),
        contexts: contexts(node.get("context")),
        hooks: hooks.iter().map(hook).collect(),
    }
}

/// The settings of something that has a name among those `known`, with their structure; adds faults otherwise.
pub(super) fn known<'k, T>(
    named: &NamedSettings,
    what: &str,
    known: impl Iterator<Item = (&'k str, T)> + Clone,
    faults: &mut Vec<Fault>,
) -> Option<T> {
    // `users@openstack` is `users` of a platform.
    let name = named.key.name.split('@').next().unwrap_or_default();
    let found = known.clone().find(|(other, _)| *other == name);
    if let Some((_, found)) = found {
        return Some(found);
    }
    let names = || known.clone().map(|(name, _)| name);
    let fault = Fault::error(named.key.span.clone(), format!("{what} `{}` is not supported", named.key.name));
    let help = match did_you_mean(name, names()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("supported are {}", names().collect::<Vec<_>>().join(", ")),
    };
    faults.push(fault.help(help));
    None
}
