//! `HttpRequests.*`: a request, and a random one of several.
//!
//! As in Rally 5.1 (rally/plugins/task/scenarios/requests), which hands its arguments to Python's `requests`.

use std::collections::BTreeSet;

use text::diagnostics::{Fault, SourceVisibility};
use text::yaml::{YamlNode, YamlValue as NodeKind};

use super::{
    ExpandedScenario, GeneratedScenario, Parameter, ParameterKind, ScenarioArguments, check_all, entry,
    optional, required,
};
use crate::nodes::{NodeFactory, as_number, as_text, escaped, meant_literally, without_nulls};

/// The name of the atomic action of both.
const ACTION: &str = "requests.check_request";
/// How many redirects Python's `requests` follows at most.
const REDIRECTS_MAX: i64 = 30;
/// The time limit of a request without `timeout`, in seconds: that of an iteration. Python's `requests` has none.
const TIMEOUT_S: f64 = 600.0;
const STATUS: ParameterKind = ParameterKind::Integer(100, 999);
/// The most requests to choose from.
const REQUESTS_MAX: usize = 500;

const CHECKED: [Parameter; 12] = [
    required("url", ParameterKind::Text),
    required("method", ParameterKind::Text),
    required("status_code", STATUS),
    optional("params", ParameterKind::Map),
    optional("data", ParameterKind::Any),
    optional("json", ParameterKind::Any),
    optional("headers", ParameterKind::Map),
    optional("cookies", ParameterKind::Map),
    optional("timeout", ParameterKind::Number(86_400.0)),
    optional("allow_redirects", ParameterKind::Flag),
    optional("verify", ParameterKind::Flag),
    optional("stream", ParameterKind::Flag),
];

/// One of several requests; the status may be that of all.
const CHOSEN: [Parameter; 12] = [
    required("url", ParameterKind::Text),
    required("method", ParameterKind::Text),
    optional("status_code", STATUS),
    optional("params", ParameterKind::Map),
    optional("data", ParameterKind::Any),
    optional("json", ParameterKind::Any),
    optional("headers", ParameterKind::Map),
    optional("cookies", ParameterKind::Map),
    optional("timeout", ParameterKind::Number(86_400.0)),
    optional("allow_redirects", ParameterKind::Flag),
    optional("verify", ParameterKind::Flag),
    optional("stream", ParameterKind::Flag),
];

pub(super) const SCENARIOS: [GeneratedScenario; 2] = [
    GeneratedScenario {
        name: "HttpRequests.check_request",
        about: "Sends a request and compares the status of the answer",
        parameters: &CHECKED,
        takes_others: false,
        expand: check_request,
    },
    GeneratedScenario {
        name: "HttpRequests.check_random_request",
        about: "Sends a random one of several requests and compares the status of the answer",
        parameters: &[required("requests", ParameterKind::Maps), required("status_code", STATUS)],
        takes_others: false,
        expand: check_random_request,
    },
];

fn check_request(arguments: &ScenarioArguments<'_>, faults: &mut Vec<Fault>) -> ExpandedScenario {
    let (step, origin) = request(arguments.map, ACTION, entry(arguments.map, "status_code"), faults);
    ExpandedScenario {
        steps: vec![step],
        origins: origin.into_iter().collect(),
        ..ExpandedScenario::default()
    }
}

fn check_random_request(arguments: &ScenarioArguments<'_>, faults: &mut Vec<Fault>) -> ExpandedScenario {
    let list = entry(arguments.map, "requests");
    if list.items().len() > REQUESTS_MAX {
        let fault = Fault::error(list.span.clone(), format!("more than {REQUESTS_MAX} requests"));
        faults.push(fault.help("split the list into several workloads"));
        return ExpandedScenario::default();
    }
    let (mut names, mut origins, mut alternatives) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for node in list.items() {
        let node = without_nulls(node);
        let found =
            check_all(&node, CHOSEN.iter().map(Parameter::schema), false, &SourceVisibility::default());
        if !found.is_empty() {
            faults.extend(found);
            continue;
        }
        let status = node.get("status_code").unwrap_or_else(|| entry(arguments.map, "status_code"));
        let name = name_of(&node, &mut names);
        let (step, origin) = request(&node, &name, status, faults);
        origins.extend(origin);
        let at = NodeFactory::of(&node);
        alternatives.push(at.map([("steps", at.list(vec![step]))]));
    }
    let at = NodeFactory::of(list);
    let steps = vec![at.group(ACTION, vec![at.map([("choice", at.list(alternatives))])])];
    ExpandedScenario { steps, origins: origins.into_iter().collect(), ..ExpandedScenario::default() }
}

/// A name for one of several requests that no other has.
fn name_of(node: &YamlNode, names: &mut BTreeSet<String>) -> String {
    let word = |key: &str| node.get(key).and_then(as_text).unwrap_or_default();
    let url = word("url");
    let path =
        url.split_once("://").map_or(url.as_str(), |(_, rest)| rest.find('/').map_or("/", |at| &rest[at..]));
    let base: String = format!("{} {path}", word("method").to_uppercase()).chars().take(150).collect();
    let mut numbers = 2..;
    let mut name = base.clone();
    while !names.insert(name.clone()) {
        name = format!("{base} ({})", numbers.next().unwrap_or(0));
    }
    name
}

/// The step that sends a request, and the origin of its URL.
fn request(
    map: &YamlNode,
    name: &str,
    status: &YamlNode,
    faults: &mut Vec<Fault>,
) -> (YamlNode, Option<String>) {
    let (at, url_node) = (NodeFactory::of(map), entry(map, "url"));
    let url = as_text(url_node).unwrap_or_default();
    let origin = origin(&url);
    if origin.is_none() {
        let fault = Fault::error(url_node.span.clone(), format!("`{url}` is not a complete URL"));
        faults.push(fault.help("write it as http://host:port/path"));
    }
    let method = as_text(entry(map, "method")).unwrap_or_default();
    let (key, line) = match method.to_ascii_lowercase().as_str() {
        "get" => ("get", escaped(&url)),
        "head" => ("head", escaped(&url)),
        "post" => ("post", escaped(&url)),
        "put" => ("put", escaped(&url)),
        "patch" => ("patch", escaped(&url)),
        "delete" => ("delete", escaped(&url)),
        "options" => ("options", escaped(&url)),
        _ => ("request", format!("{} {}", method.to_uppercase(), escaped(&url))),
    };
    let follows = !matches!(map.get("allow_redirects").map(|node| &node.kind), Some(NodeKind::Bool(false)));
    let timeout_s = map.get("timeout").and_then(as_number).unwrap_or(TIMEOUT_S);
    let timeout = map.get("timeout").map_or_else(|| at.clone(), NodeFactory::of).seconds(timeout_s);
    let mut step = vec![
        ("action", at.text(name)),
        (key, NodeFactory::of(url_node).text(line)),
        ("timeout", timeout),
        ("redirects", at.int(if follows { REDIRECTS_MAX } else { 0 })),
        ("auth", at.bool(false)),
        ("expect", NodeFactory::of(status).map([("status", status.clone())])),
    ];
    step.extend(query(map, faults));
    step.extend(headers(map, faults));
    step.extend(body(map, faults));
    if let Some(verify) = map.get("verify").filter(|node| matches!(node.kind, NodeKind::Bool(false))) {
        let fault = Fault::error(verify.span.clone(), "`verify: false` of a single request is not supported");
        faults.push(fault.help("remove it, and give a deployment with `tls: { verify: false }` by -d FILE"));
    }
    (at.map(step), origin)
}

/// Scheme and authority of a URL.
fn origin(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let known = matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https");
    (known && !authority.is_empty()).then(|| format!("{scheme}://{authority}"))
}

type OptionalStepEntry = Option<(&'static str, YamlNode)>;

fn query(map: &YamlNode, faults: &mut Vec<Fault>) -> OptionalStepEntry {
    let params = without_nulls(map.get("params")?);
    (!params.entries().is_empty()).then(|| ("query", values(&params, faults)))
}

/// A map of texts or lists of texts, as `query` and `form` have them.
fn values(map: &YamlNode, faults: &mut Vec<Fault>) -> YamlNode {
    let value = |node: &YamlNode, faults: &mut Vec<Fault>| match &node.kind {
        NodeKind::List(items) => {
            let items = items.iter().map(|item| literal_text(item, faults)).collect();
            NodeFactory::of(node).list(items)
        }
        _ => literal_text(node, faults),
    };
    let entries = map.entries().iter().map(|(key, node)| (key.name.as_str(), value(node, faults)));
    NodeFactory::of(map).map(entries.collect::<Vec<_>>())
}

fn literal_text(node: &YamlNode, faults: &mut Vec<Fault>) -> YamlNode {
    let Some(text) = as_text(node) else {
        let fault = Fault::error(node.span.clone(), format!("{} where a text is expected", node.describe()));
        faults.push(fault.help("write a text or a number"));
        return NodeFactory::of(node).text("");
    };
    // Python writes truth values this way.
    let text = match node.kind {
        NodeKind::Bool(true) => "True".to_owned(),
        NodeKind::Bool(false) => "False".to_owned(),
        _ => text,
    };
    NodeFactory::of(node).literal(&text)
}

fn headers(map: &YamlNode, faults: &mut Vec<Fault>) -> OptionalStepEntry {
    let mut entries = Vec::new();
    let written = map.get("headers").map(without_nulls);
    for (key, node) in written.iter().flat_map(|headers| headers.entries()) {
        entries.push((key.name.as_str(), literal_text(node, faults)));
    }
    let cookies = map.get("cookies").map(without_nulls);
    if let Some(cookies) = cookies.as_ref().filter(|cookies| !cookies.entries().is_empty()) {
        let pair = |(key, node): &(text::yaml::YamlKey, YamlNode)| {
            format!("{}={}", key.name, as_text(node).unwrap_or_default())
        };
        let line = cookies.entries().iter().map(pair).collect::<Vec<_>>().join("; ");
        entries.push(("Cookie", NodeFactory::of(cookies).literal(&line)));
    }
    let place = written.as_ref().or(cookies.as_ref()).map_or_else(|| NodeFactory::of(map), NodeFactory::of);
    (!entries.is_empty()).then(|| ("headers", place.map(entries)))
}

fn body(map: &YamlNode, faults: &mut Vec<Fault>) -> OptionalStepEntry {
    match (map.get("data"), map.get("json")) {
        (None, None) => None,
        // Of both, Python's `requests` sends `data`.
        (Some(data), _) => match &data.kind {
            NodeKind::Map(_) => {
                let data = without_nulls(data);
                (!data.entries().is_empty()).then(|| ("form", values(&data, faults)))
            }
            _ => Some(("body", literal_text(data, faults))),
        },
        (None, Some(json)) => Some(("json", meant_literally(json))),
    }
}
