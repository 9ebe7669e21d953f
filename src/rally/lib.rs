//! Rally's task files, as scenarios, and runs in the formats of Rally's reports.
//!
//! A task file (version 1 or 2, YAML or JSON, a Jinja2 template or not) becomes the document of a scenario. Every part
//! of it has its place in the task file, so that all faults are shown there. What is not supported is a fault.
//!
//! What comes from outside is bounded before it is used. This module must not read files, start programs or send
//! anything; its callers do.

pub mod args;
mod contexts;
pub mod hooks;
mod included;
pub mod json;
pub mod junit;
mod nodes;
mod report;
mod runner;
mod scenarios;
mod schema;
mod task;
pub mod template;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use base::masking::{self, names_secret};
use config::scenario::Scenario;
use config::{Document, RejectedFile, from_node, schema as config_schema};
use measure::log::{RallySubtask, RallyTask, RallyWorkload};
use text::diagnostics::{Fault, SourceText, SourceVisibility};
use text::yaml::{self, YamlNode, YamlValue};

use hooks::Hook;
use nodes::{NodeFactory, to_json};
use scenarios::ScenarioEnvironment;
use task::{NamedSettings, Subtask, TaskWorkload};
use template::RenderedTask;

pub use scenarios::{ArgumentFiles, names as scenario_names};

/// What stands for a value that must not be shown.
const HIDDEN: &str = "***";

/// A task file as a scenario.
pub struct Task {
    pub document: Document<Scenario>,
    /// What Rally's reports repeat of the file.
    pub record: RallyTask,
    /// The hooks of each workload.
    pub hooks: Vec<Vec<Hook>>,
    /// Where its requests go, if the file says it: scheme and authority, each once.
    pub origins: Vec<String>,
    /// The first scenario whose requests go to services of a cloud's catalog, if there is one.
    pub needs_cloud: Option<String>,
    /// What the user should know: sentences without a full stop.
    pub warnings: Vec<String>,
    /// Leads from the rendered text back to the file.
    pub rendered: RenderedTask,
}

/// Whether a text is a task file rather than one of `bench`'s own: it has subtasks, or lists under names of scenarios.
#[must_use]
pub fn is_task(text: &str) -> bool {
    const OURS: [&str; 6] = ["iteration", "runner", "workloads", "targets", "deployment", "openstack"];
    if let (Some(root), _) = yaml::parse_all(&SourceText::new("", text)) {
        if OURS.iter().any(|key| root.get(key).is_some()) {
            return false;
        }
        let is_list = |node: &YamlNode| matches!(node.kind, YamlValue::List(_) | YamlValue::Null);
        if root
            .entries()
            .iter()
            .any(|(key, node)| key.name == "subtasks" || is_scenario(&key.name) && is_list(node))
        {
            return true;
        }
    }
    // A template need not be YAML.
    let plain = included::without_tags(text);
    if plain.trim_start().starts_with('{') {
        return is_task_in_json(&plain);
    }
    let key = |line: &str| {
        let (name, rest) = line.trim().split_once(':')?;
        let name = name.split("{{").next().unwrap_or_default();
        let name = name.trim().trim_matches(['"', '\'']).to_owned();
        Some((name, rest.trim().is_empty() || rest.trim_start().starts_with('[')))
    };
    let mut keys = plain.lines().filter_map(key);
    keys.any(|(name, opens_list)| opens_list && (name == "subtasks" || is_scenario(&name)))
        // A file that only chooses which others make the task.
        || included::includes_files(text) && plain.lines().all(|line| matches!(line.trim(), "" | "---"))
}

/// The same for JSON, which may be on one line: `"subtasks": […` or `"Dummy.dummy": […`.
fn is_task_in_json(text: &str) -> bool {
    let mut parts = text.split('"').skip(1).step_by(2).zip(text.split('"').skip(2).step_by(2));
    parts.any(|(name, after)| {
        let opens_list =
            after.trim_start().strip_prefix(':').is_some_and(|rest| rest.trim_start().starts_with('['));
        opens_list && (name == "subtasks" || is_scenario(name))
    })
}

/// Whether a name is like `Dummy.dummy`.
fn is_scenario(name: &str) -> bool {
    let is_word = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_alphanumeric() || c == '_');
    name.split_once('.').is_some_and(|(class, method)| {
        is_word(class) && is_word(method) && class.starts_with(|c: char| c.is_uppercase())
    })
}

/// Reads a rendered task file. `fallback_title` is for a file without a title, and `files` are those that
/// arguments name.
///
/// # Errors
/// All its faults, at their places in the file as it was written.
pub fn read(
    rendered: RenderedTask,
    fallback_title: &str,
    files: &ArgumentFiles<'_>,
) -> Result<Task, RejectedFile> {
    let (root, mut faults) = yaml::parse_all_as(&rendered.source, yaml::Schema::Python);
    let mut source = rendered.source.clone();
    let Some(root) = root else { return Err(rendered.at_home(RejectedFile { source, faults })) };
    source.shown = shown(&root);
    let task = task::read(&root, &source, &mut faults);
    let mut translator = Translator {
        shown: &source.shown,
        files,
        faults: &mut faults,
        names: BTreeSet::new(),
        next: BTreeMap::new(),
        number: 0,
        hooks: Vec::new(),
        origins: Vec::new(),
        setup: SharedStepLists::default(),
        teardown: SharedStepLists::default(),
        needs_cloud: None,
        warnings: Vec::new(),
    };
    let title = Some(task.title.trim()).filter(|title| !title.is_empty()).unwrap_or(fallback_title);
    let at = NodeFactory(yaml_start(&root));
    let (mut workloads, mut subtasks) = (Vec::new(), Vec::new());
    for subtask in &task.subtasks {
        subtasks.push(translator.subtask(subtask, &mut workloads));
    }
    let Translator { hooks, origins, setup, teardown, needs_cloud, mut warnings, .. } = translator;
    let mut keys = vec![("title", at.literal_title(title)), ("workloads", at.list(workloads))];
    keys.extend([("setup", setup), ("teardown", teardown)].into_iter().filter_map(|(key, once)| {
        Some((key, at.list(once.steps()))).filter(|(_, list)| !list.items().is_empty())
    }));
    let scenario = at.map(keys);
    if !faults.is_empty() {
        return Err(rendered.at_home(RejectedFile { source, faults }));
    }
    let document = from_node::<Scenario>(source, scenario, faults, &config_schema::SCENARIO)
        .map_err(|rejected| rendered.at_home(rejected))?;
    warnings.extend(task.warnings);
    warnings.extend(rendered.warnings.iter().cloned());
    let record =
        RallyTask { title: title.to_owned(), description: task.description, tags: task.tags, subtasks };
    Ok(Task { document, record, hooks, origins, needs_cloud, warnings, rendered })
}

fn yaml_start(root: &YamlNode) -> std::ops::Range<usize> {
    root.entries().first().map_or(root.span.clone(), |(key, _)| key.span.clone())
}

impl NodeFactory {
    /// A title: in one line.
    fn literal_title(&self, title: &str) -> YamlNode {
        self.text(title.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

/// Steps that run once for all workloads: lists of them, with names.
#[derive(Default)]
struct SharedStepLists(Vec<(String, Vec<YamlNode>)>);

impl SharedStepLists {
    /// Adds named lists of steps, each before those that follow it; a list with a name that is there is not added again.
    fn add(&mut self, lists: Vec<(String, Vec<YamlNode>)>) {
        let mut at = self.0.len();
        for (name, steps) in lists.into_iter().rev() {
            match self.0.iter().position(|(known, _)| !name.is_empty() && *known == name) {
                Some(found) => at = found,
                None => self.0.insert(at, (name, steps)),
            }
        }
    }

    fn steps(self) -> Vec<YamlNode> {
        self.0.into_iter().flat_map(|(_, steps)| steps).collect()
    }
}

/// Makes workloads of a task into workloads of a scenario.
struct Translator<'a> {
    shown: &'a SourceVisibility,
    files: &'a ArgumentFiles<'a>,
    faults: &'a mut Vec<Fault>,
    names: BTreeSet<String>,
    /// The number after the last one that a workload of each scenario has in its name.
    next: BTreeMap<String, u32>,
    /// How many workloads there were.
    number: usize,
    hooks: Vec<Vec<Hook>>,
    origins: Vec<String>,
    setup: SharedStepLists,
    teardown: SharedStepLists,
    needs_cloud: Option<String>,
    warnings: Vec<String>,
}

impl Translator<'_> {
    fn subtask(&mut self, subtask: &Subtask, workloads: &mut Vec<YamlNode>) -> RallySubtask {
        let mut records = Vec::new();
        for workload in &subtask.workloads {
            if let Some((node, record)) = self.workload(workload) {
                workloads.push(node);
                records.push(record);
            }
        }
        let (title, description) = (subtask.title.clone(), subtask.description.clone());
        RallySubtask { title, description, workloads: records }
    }

    fn workload(&mut self, workload: &TaskWorkload) -> Option<(YamlNode, RallyWorkload)> {
        let NamedSettings { key, settings } = &workload.scenario;
        let at = NodeFactory(key.span.clone());
        let scenario = scenarios::find(&workload.scenario, self.faults);
        let name = self.name(&key.name);
        self.number += 1;
        let around = ScenarioEnvironment {
            number: self.number,
            name: &name,
            place: key.span.clone(),
            contexts: &workload.contexts,
            files: self.files,
        };
        let expanded =
            scenario.and_then(|found| found.expand(&workload.scenario, &around, self.shown, self.faults));
        let runner = runner::runner(workload.runner.as_ref(), &at, self.shown, self.faults);
        let hooks = hooks::read(&workload.hooks, self.faults);
        let contexts = contexts::contexts(&workload.contexts, &at, self.files, self.shown, self.faults);
        // As in Rally: without criteria, nothing may fail.
        let none_fails = || at.map([("failure_rate", at.map([("max", at.int(0))]))]);
        let sla = workload.sla.clone().map_or_else(none_fails, |sla| nodes::without_nulls(&sla));
        let (expanded, runner) = (expanded?, runner?);
        for origin in expanded.origins {
            if !self.origins.contains(&origin) {
                self.origins.push(origin);
            }
        }
        self.setup.add(expanded.setup);
        self.teardown.add(expanded.teardown);
        if expanded.needs_cloud && self.needs_cloud.is_none() {
            self.needs_cloud = Some(key.name.clone());
        }
        let of_scenario = |warning: String| format!("{}: {warning}", key.name);
        self.warnings.extend(expanded.warnings.into_iter().map(of_scenario));
        let written = |named: &NamedSettings| (named.key.name.clone(), to_json(&named.settings));
        let hook = |hook: &task::TaskHook| {
            let (action, trigger) = (written(&hook.action), written(&hook.trigger));
            let one = |(name, settings)| Value::Object([(name, settings)].into_iter().collect());
            serde_json::json!({ "description": hook.description, "action": one(action), "trigger": one(trigger) })
        };
        let (runner_type, runner_settings) =
            workload.runner.as_ref().map_or_else(|| ("serial".to_owned(), serde_json::json!({})), written);
        let record = RallyWorkload {
            scenario: key.name.clone(),
            description: workload
                .description
                .clone()
                .unwrap_or_else(|| scenario.map_or_else(String::new, |found| format!("{}.", found.about()))),
            args: without_secrets(to_json(settings), false),
            runner_type,
            runner: runner_settings,
            contexts: Value::Object(workload.contexts.iter().map(written).collect()),
            sla: to_json(&sla),
            hooks: workload.hooks.iter().map(hook).collect(),
        };
        self.hooks.push(hooks);
        let mut keys = vec![
            ("name", at.text(name)),
            ("runner", runner),
            ("iteration", at.list(expanded.steps)),
            ("sla", sla),
        ];
        keys.extend(contexts.map(|contexts| ("contexts", contexts)));
        Some((at.map(keys), record))
    }

    /// A name that no other workload has.
    fn name(&mut self, scenario: &str) -> String {
        let next = self.next.entry(scenario.to_owned()).or_insert(2);
        let mut name = scenario.to_owned();
        while !self.names.insert(name.clone()) {
            name = format!("{scenario} ({next})");
            *next += 1;
        }
        name
    }
}

/// The parts of a task that messages may show: everything but what may be secret.
fn shown(root: &YamlNode) -> SourceVisibility {
    fn visit(node: &YamlNode, secret: bool, shown: &mut SourceVisibility) {
        match &node.kind {
            YamlValue::List(items) => items.iter().for_each(|item| visit(item, secret, shown)),
            YamlValue::Map(entries) => {
                for (key, value) in entries {
                    if !secret {
                        shown.public.push(key.span.clone());
                    }
                    visit(value, secret || hides(&key.name), shown);
                }
            }
            _ if secret => shown.secret.push(node.span.clone()),
            _ => shown.public.push(node.span.clone()),
        }
    }
    let mut parts = SourceVisibility::default();
    visit(root, false, &mut parts);
    parts
}

/// Whether what has this name may be secret.
fn hides(name: &str) -> bool {
    const BODIES: [&str; 6] = ["headers", "cookies", "json", "data", "params", "auth"];
    BODIES.contains(&name) || names_secret(name)
}

/// Values without those that their names tell to be secret.
fn without_secrets(value: Value, secret: bool) -> Value {
    match value {
        Value::Object(map) => {
            let entry = |(key, value): (String, Value)| {
                let secret = secret || names_secret(&key);
                (key, without_secrets(value, secret))
            };
            Value::Object(map.into_iter().map(entry).collect())
        }
        Value::Array(items) => items.into_iter().map(|item| without_secrets(item, secret)).collect(),
        _ if secret => Value::from(HIDDEN),
        Value::String(text) => Value::String(masking::masked(&text).into_owned()),
        other => other,
    }
}

#[cfg(test)]
mod tests;
