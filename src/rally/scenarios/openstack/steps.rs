//! Steps of our files as steps of a task: included ones in their place, every part at a place in the task.

use std::collections::BTreeSet;

use text::diagnostics::SourceText;
use text::yaml::{self, YamlKey, YamlNode, YamlValue};
use text::yaml_place::at;

use super::files;
use crate::nodes::{NodeFactory, as_text};

/// A node with everything in it at one place.
pub(super) fn moved(node: &YamlNode, place: &NodeFactory) -> YamlNode {
    let kind = match &node.kind {
        YamlValue::List(items) => YamlValue::List(moved_all(items.clone(), place)),
        YamlValue::Map(entries) => {
            let entry = |(key, node): &(YamlKey, YamlNode)| {
                (YamlKey { name: key.name.clone(), span: place.0.clone() }, moved(node, place))
            };
            YamlValue::Map(entries.iter().map(entry).collect())
        }
        other => other.clone(),
    };
    YamlNode { kind, span: place.0.clone() }
}

/// The same for several nodes.
pub(super) fn moved_all(nodes: Vec<YamlNode>, place: &NodeFactory) -> Vec<YamlNode> {
    nodes.iter().map(|node| moved(node, place)).collect()
}

/// The steps of a file.
fn of_file(path: &str) -> Vec<YamlNode> {
    let file = files::steps(path);
    let root = yaml::parse(&SourceText::new(file.name, file.text)).ok();
    root.map(|root| at(&root, &["steps"]).items().to_vec()).unwrap_or_default()
}

/// The files that a list of steps includes, with their steps.
pub(super) fn included(list: &YamlNode) -> impl Iterator<Item = (String, Vec<YamlNode>)> {
    let paths = list.items().iter().filter_map(|step| step.get("include").and_then(as_text));
    paths.map(|path| {
        let steps = of_file(&path);
        (path, steps)
    })
}

/// A list of steps in which the steps of included files have taken the place of their `include`. `forces`: servers are
/// deleted by force. `seen`: the names of actions so far; a name that comes again gets a number, as in Rally.
pub(super) fn inlined(
    list: &YamlNode,
    place: &NodeFactory,
    forces: bool,
    seen: &mut BTreeSet<String>,
) -> Vec<YamlNode> {
    let mut steps = Vec::new();
    for step in list.items() {
        match step.get("include").and_then(as_text) {
            Some(path) => {
                let by_force = forces && path == files::DELETE_SERVER;
                let path = if by_force { files::FORCE_DELETE_SERVER } else { path.as_str() };
                steps.extend(moved_all(of_file(path), place));
            }
            None => steps.push(moved(step, place)),
        }
    }
    steps.iter_mut().for_each(|step| number(step, seen));
    steps
}

/// Gives every action and group below a node a name of its own.
fn number(node: &mut YamlNode, seen: &mut BTreeSet<String>) {
    each_step(node, &mut |entries| {
        for (key, value) in
            entries.iter_mut().filter(|(key, _)| matches!(key.name.as_str(), "action" | "group"))
        {
            let Some(name) = as_text(value) else { continue };
            let mut unique = name.clone();
            let mut numbers = 2..;
            while !seen.insert(unique.clone()) {
                unique = format!("{name} ({})", numbers.next().unwrap_or(0));
            }
            *value = NodeFactory(key.span.clone()).text(unique);
        }
    });
}

/// What a step has, by key.
type StepEntries = Vec<(YamlKey, YamlNode)>;

/// Calls `change` with the entries of a step and of all steps within it, the outer ones first.
pub(super) fn each_step(node: &mut YamlNode, change: &mut dyn FnMut(&mut StepEntries)) {
    let YamlValue::Map(entries) = &mut node.kind else { return };
    change(entries);
    for (key, value) in entries {
        if let ("steps" | "then" | "else", YamlValue::List(items)) = (key.name.as_str(), &mut value.kind) {
            items.iter_mut().for_each(|step| each_step(step, change));
        }
    }
}

fn has(entries: &[(YamlKey, YamlNode)], name: &str) -> bool {
    entries.iter().any(|(key, _)| key.name == name)
}

fn entry(place: &NodeFactory, name: &str, node: YamlNode) -> (YamlKey, YamlNode) {
    (YamlKey { name: name.to_owned(), span: place.0.clone() }, node)
}

/// Lets the deployment's own user send every request of a step, also if iterations are users of a context.
pub(super) fn as_admin(step: &mut YamlNode, place: &NodeFactory) {
    each_step(step, &mut |entries| {
        if has(entries, "target") && !has(entries, "auth") {
            entries.push(entry(place, "auth", place.text("admin")));
        }
    });
}

/// Lets iterations log in as the user of the context that they are.
pub(super) fn log_in_as_user(steps: &mut [YamlNode], place: &NodeFactory) {
    const LOGIN: [(&str, &str); 4] = [
        ("login_name", "{{ user.name }}"),
        ("login_password", "{{ user.password }}"),
        ("login_domain", "{{ dict(id=user.domain_id) }}"),
        ("login_project", "{{ dict(id=user.project_id) }}"),
    ];
    let sets = steps.iter_mut().find(|step| at(step, &["set"]).get(LOGIN[0].0).is_some());
    if let Some(step) = sets {
        *step = place.map([("set", place.map(LOGIN.map(|(name, text)| (name, place.text(text)))))]);
    }
}

/// Adds a parameter to the query of the first request of a list.
pub(super) fn add_query(steps: &mut [YamlNode], name: &str, value: &YamlNode) {
    let place = NodeFactory::of(value);
    let mut done = false;
    for step in steps {
        each_step(step, &mut |entries| {
            if done || !has(entries, "get") {
                return;
            }
            done = true;
            match entries.iter_mut().find(|(key, _)| key.name == "query") {
                Some((_, YamlNode { kind: YamlValue::Map(query), .. })) => {
                    query.retain(|(key, _)| key.name != name);
                    query.push(entry(&place, name, value.clone()));
                }
                _ => entries.push(entry(&place, "query", place.map([(name, value.clone())]))),
            }
        });
    }
}

/// Replaces the file that requests upload.
pub(super) fn replace_file(steps: &mut [YamlNode], file: &YamlNode) {
    for step in steps {
        each_step(step, &mut |entries| {
            for (_, value) in entries.iter_mut().filter(|(key, _)| key.name == "file") {
                if as_text(value).as_deref() == Some(files::IMAGE) {
                    value.clone_from(file);
                }
            }
        });
    }
}

/// Replaces the pause.
pub(super) fn replace_pause(steps: &mut [YamlNode], pause: &YamlNode) {
    for step in steps {
        each_step(step, &mut |entries| {
            for (_, value) in entries.iter_mut().filter(|(key, _)| key.name == "think") {
                value.clone_from(pause);
            }
        });
    }
}
