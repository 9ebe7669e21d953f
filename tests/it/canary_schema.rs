//! A canary in every place of a deployment and a scenario that can hold a secret, taken from their schemas. It must not
//! appear in anything that bench writes, prints, pushes or publishes, whether the run succeeds or fails.
//!
//! New keys of a schema are covered automatically: a new reference gets a canary, and a new text makes
//! [`every_text_of_a_scenario_is_a_place_for_a_secret_or_is_known_to_be_none`] fail until it has a row.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::Path;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use bench::config::schema;
use serde_json::{Map, Value, json};

use crate::backend::Backend;
use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};
use crate::support::{Bench, CommandOutput, free_address};
use crate::websockets;

/// The value of a reference in a deployment that does not take any text; all others get a plain canary.
fn form(place: &str) -> CanaryForm {
    match place {
        "Target" | "Keystone.auth_url" => CanaryForm::Url,
        // Nothing is received there; what is to be passed on is nothing.
        "Profiler.receive" => CanaryForm::Here,
        "Profiler.forward" => CanaryForm::Url,
        "Dns.servers[]" => CanaryForm::Address,
        "Addresses[]" | "Proxies.except[]" => CanaryForm::Ip,
        "Proxies.http" | "Proxies.https" => CanaryForm::Proxy,
        "ServerNames.*" => CanaryForm::Host,
        "OAuth2.token_url" => CanaryForm::TokenUrl,
        "CommandLine" => CanaryForm::Program,
        "TokenCommand.header" => CanaryForm::Host,
        "TokenCommand.pointer" => CanaryForm::Pointer,
        "OAuth2.client_id" | "OAuth2.scope" | "OAuth2.audience" => CanaryForm::Text,
        "Deployment.targets_allowed[]" => CanaryForm::Host,
        "Profiler.connection_string" => CanaryForm::Connection,
        // Names are not secrets: they are not hidden, only not shown without need.
        "Basic.username" | "Keystone.username" | "Keystone.project_name" => CanaryForm::Text,
        "Keystone.application_credential_id" => CanaryForm::Text,
        "Keystone.user_domain_name" | "Keystone.project_domain_name" => CanaryForm::Text,
        _ => CanaryForm::Secret,
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum CanaryForm {
    Secret,
    Text,
    Url,
    Address,
    Here,
    Host,
    Ip,
    Proxy,
    TokenUrl,
    Program,
    Pointer,
    Connection,
}

/// The texts of a scenario's schema: steps that put a secret there, or none for what the author writes to be shown.
#[expect(clippy::too_many_lines, reason = "a table")]
fn scenario_texts() -> BTreeMap<&'static str, Vec<Value>> {
    let odd = json!({"status": 418});
    let shown = || Vec::new();
    let mut texts = BTreeMap::from([
        ("Scenario.title", shown()),
        ("DeploymentPlace", shown()),
        // It is read as a deployment file is; one_document.rs has a secret in it.
        ("DeploymentPlace.*", shown()),
        ("Workload.name", shown()),
        ("Step.action", shown()),
        ("Step.target", shown()),
        ("Step.tags.*", shown()),
        ("Threshold", shown()),
        ("ThresholdMap.threshold", shown()),
        // Patterns, paths and constants, not templates.
        ("Comparisons.matches", shown()),
        ("MeasurePlace.json", shown()),
        ("MeasurePlace.pointer", shown()),
        ("MeasurePlace.header", shown()),
        ("MeasurePlace.cookie", shown()),
        ("MeasurePlace.regex", shown()),
        ("Extract.json", shown()),
        ("Extract.pointer", shown()),
        ("Extract.header", shown()),
        ("Extract.cookie", shown()),
        ("Step.file", shown()),
        ("Step.grpc", shown()),
        ("Grpc.protos[]", shown()),
        ("Grpc.import_paths[]", shown()),
        ("Grpc.descriptors", shown()),
        (
            "Step.message",
            vec![
                json!({"grpc": "shop.v1.Orders/Get", "message": {"id": "{{ S }}", "delayMs": "{{ S }}"}}),
                json!({"grpc": "shop.v1.Orders/Get", "message": {"id": "{{ S }}"}, "metadata": {"x-a": "{{ S }}"}}),
            ],
        ),
        (
            "Step.messages",
            vec![
                json!({"grpc": "shop.v1.Orders/Chat", "messages": [{"id": "{{ S }}"}, {"state": "{{ S }}"}]}),
            ],
        ),
        ("Step.subprotocols[]", shown()),
        ("CloseDetails.reason", shown()),
        (
            "Step.websocket",
            vec![
                json!({"websocket": "/a/{{ S }}?k={{ S }}"}),
                json!({"websocket": "/socket/{{ S }}", "headers": {"x-canary": "{{ S }}"}, "steps": [{"receive": true, "timeout": "50ms"}]}),
            ],
        ),
        (
            "SentMessage",
            vec![
                json!({"websocket": "/socket", "steps": [{"send": "{{ S }}", "receive": true, "expect": {"body": {"equals": "x"}}}]}),
                json!({"websocket": "/socket", "steps": [{"send": "{{ S }}"}, {"action": "b", "receive": {"count": 3}}]}),
            ],
        ),
        (
            "MessageContent.text",
            vec![
                json!({"websocket": "/socket", "steps": [{"send": {"text": "{{ S }}"}, "receive": {"text": "no"}, "timeout": "50ms"}]}),
            ],
        ),
        (
            "MessageContent.json",
            vec![
                json!({"websocket": "/socket", "steps": [{"send": {"json": {"k": "{{ S }}"}}, "receive": true, "expect": {"json": {"$.k": "no"}}}]}),
            ],
        ),
        (
            "MessageContent.binary",
            vec![
                json!({"websocket": "/socket", "steps": [{"send": {"binary": "{{ S }}"}, "receive": true}]}),
            ],
        ),
        ("StreamEnd", shown()),
        ("EndEvent.event", shown()),
        ("StreamDetails.tokens", shown()),
        ("FilePart.file", shown()),
        ("FilePart.type", shown()),
        ("FilePart.filename", shown()),
        (
            "Step.request",
            vec![json!({"request": "PURGE /redirect/{{ S }}?k={{ S }}", "redirects": 2, "expect": odd})],
        ),
        ("Multipart.*", vec![json!({"post": "/a", "multipart": {"k": "{{ S }}"}, "expect": odd})]),
        (
            "Multipart.*[]",
            vec![json!({"post": "/a", "multipart": {"k": ["{{ S }}"]}, "gzip": true, "expect": odd})],
        ),
        (
            "Values[]",
            vec![json!({"get": "/redirect", "query": {"k": ["{{ S }}", "{{ S }}"]}, "redirects": 3})],
        ),
        ("Extract.regex", shown()),
        ("Extract.default", shown()),
        // A file's name and a character; the values of rows are hidden by their columns' names, see `data`.
        ("Data", shown()),
        ("DataMap.file", shown()),
        ("DataMap.delimiter", shown()),
        ("DataMap.rows[]", shown()),
        // Every other row refers to one.
        ("Variable", shown()),
        // Names.
        ("Step.as", shown()),
        ("Step.group", shown()),
        ("Step.together", shown()),
        ("Step.include", shown()),
        // Names, formats and attributes of what is made in a cloud; passwords are made up.
        ("Users.project_domain", shown()),
        ("Users.user_domain", shown()),
        ("Flavor.name", shown()),
        ("Flavor.extra_specs.*", shown()),
        ("Network.start_cidr", shown()),
        ("Network.network_create_args.*", shown()),
        ("Network.dns_nameservers[]", shown()),
        ("Router.external_gateway_info.*", shown()),
        ("Images.image_url", shown()),
        ("Images.disk_format", shown()),
        ("Images.container_format", shown()),
        ("Images.visibility", shown()),
        ("Volumes.type", shown()),
        (
            "LinesOfstring[]",
            vec![
                json!({"get": "/content-type", "headers": {"X-Canary": ["{{ S }}", "b"]}, "expect": {"json": {"$.a": 1}}}),
            ],
        ),
        (
            "LinesOfstring",
            vec![
                json!({"get": "/content-type", "headers": {"X-Canary": "{{ S }}"}, "expect": {"json": {"$.a": 1}}}),
                json!({"get": "/a", "headers": {"X-Canary": "{{ S }}\u{1}"}}),
            ],
        ),
        ("Step.json", vec![json!({"post": "/a", "json": {"a": ["x{{ S }}"]}, "expect": odd})]),
        ("Step.body", vec![json!({"post": "/a", "body": "{{ S }}", "expect": odd})]),
        (
            "Values",
            vec![
                json!({"get": "/redirect", "query": {"k": "{{ S }}"}, "redirects": 3}),
                json!({"post": "/a", "form": {"k": "{{ S }}"}, "expect": odd}),
            ],
        ),
        (
            "Condition",
            vec![
                json!({"get": "/a", "extract": {"e": {"json": "$.echo"}}, "expect": {"variables": {"e": "{{ S }}"}}}),
                json!({"get": "/a", "expect": {"json": {"$.echo": "{{ S }}"}}}),
                json!({"get": "/a", "expect": {"json": {"$.echo": ["{{ S }}", 1]}}}),
            ],
        ),
        (
            "TextCondition",
            vec![
                json!({"get": "/a", "expect": {"headers": {"Content-Type": "{{ S }}"}}}),
                json!({"get": "/a", "expect": {"body": "{{ S }}"}}),
            ],
        ),
        (
            "Comparisons.equals",
            vec![
                json!({"get": "/a", "expect": {"body": {"equals": "{{ S }}"}}}),
                // So long that the message cuts it.
                json!({"get": "/a", "expect": {"body": {"equals": format!("{}{{{{ S }}}}", "x".repeat(70))}}}),
                json!({"get": "/a", "expect": {"json": {"$.echo": {"equals": {"deep": ["{{ S }}", 1]}}}}}),
            ],
        ),
        (
            "Comparisons.contains",
            vec![
                json!({"get": "/a", "expect": {"headers": {"Content-Type": {"contains": "a {{ S | upper | lower }}"}}}}),
            ],
        ),
        (
            "Comparisons.ne",
            vec![json!({"get": "/a", "expect": {"json": {"$.echo": {"not": {"ne": "{{ S }}"}}}}})],
        ),
        (
            "Comparisons.one_of[]",
            vec![json!({"get": "/a", "expect": {"json": {"$.echo": {"one_of": ["a", "{{ S }}"]}}}})],
        ),
    ]);
    for (place, key) in [
        ("Comparisons.eq", "eq"),
        ("Comparisons.gt", "gt"),
        ("Comparisons.ge", "ge"),
        ("Comparisons.lt", "lt"),
        ("Comparisons.le", "le"),
        ("Comparisons.length", "length"),
    ] {
        let comparison = json!({ key: "{{ S }}" });
        texts.insert(place, vec![json!({"get": "/a", "expect": {"headers": {"Content-Type": comparison}}})]);
    }
    texts.extend(flow_texts());
    for (place, method) in [
        ("Step.get", "get"),
        ("Step.head", "head"),
        ("Step.post", "post"),
        ("Step.put", "put"),
        ("Step.patch", "patch"),
        ("Step.delete", "delete"),
        ("Step.options", "options"),
    ] {
        let step = Map::from_iter([
            (method.to_owned(), json!("/redirect/{{ S }}?k={{ S }}")),
            ("redirects".to_owned(), json!(2)),
            ("expect".to_owned(), odd.clone()),
        ]);
        texts.insert(place, vec![Value::Object(step)]);
    }
    texts
}

/// The same for the steps that decide what comes next.
fn flow_texts() -> [(&'static str, Vec<Value>); 7] {
    let group = |steps: Value| json!({"group": "g", "steps": steps});
    let get = json!({"get": "/a"});
    [
        ("Count", vec![json!({"repeat": "{{ S }}", "steps": [get]})]),
        (
            "Expression",
            vec![
                json!({"if": "{{ S }}", "then": [{"get": "/a", "expect": {"body": "{{ S }}"}}]}),
                json!({"if": "{{ S .a.b }}", "then": [get]}),
                json!({"while": "{{ S != 'x' }}", "max": 3, "steps": [get]}),
                json!({"get": "/a", "poll": {"until": "{{ S == 'x' }}", "interval": "1ms", "deadline": "5ms"}}),
                json!({"get": "/a", "poll": {"until": "{{ S == 'x' }}", "fail_if": "{{ S != 'x' }}"}}),
                json!({"get": "/a", "expect": {"body": "{{ S }}"}, "poll": {"interval": "1ms", "deadline": "5ms"}}),
            ],
        ),
        (
            "Items",
            vec![
                json!({"for_each": "{{ S }}", "steps": [get]}),
                json!({"for_each": ["{{ S }}"], "steps": [get, {"fail": "{{ item }}"}]}),
            ],
        ),
        ("Step.log", vec![group(json!([get, {"log": "it is {{ S }}"}, {"fail": "no"}]))]),
        ("Step.fail", vec![group(json!([get, {"fail": "it is {{ S }}"}]))]),
        (
            "Step.set.*",
            vec![
                group(json!([{"set": {"k": "x{{ S }}"}}, get, {"fail": "{{ k }}"}])),
                group(json!([{"set": {"k": ["{{ S }}", {"deep": "{{ S }}"}]}}, get, {"fail": "{{ k }}"}])),
                group(json!([
                    {"set": {"k": "{{ S }}"}},
                    {"together": "t", "steps": [{"get": "/a", "expect": {"body": {"equals": "{{ k }}"}}}]},
                ])),
            ],
        ),
        ("Step.with.*", vec![json!({"include": "steps.yaml", "with": {"k": "{{ S }}"}})]),
    ]
}

/// The file that one of the steps above includes.
const STEPS: &str =
    "steps: [{ get: \"/a\", headers: { X-Canary: \"{{ k }}\" } }, { fail: \"it is {{ k }}\" }]\n";

/// Steps that show what is known by another way than a variable: credentials, and what answers hold.
fn further_steps(auth: &str) -> Vec<Vec<Value>> {
    let equals = |text: &str| json!({"get": "/a", "expect": {"body": {"equals": text}}});
    let mut steps = vec![
        vec![json!({"get": "/issue", "extract": {"t": {"header": "X-Subject-Token"}}}), equals("{{ t }}")],
        vec![json!({"get": "/issue", "extract": {"c": {"header": "Set-Cookie"}}}), equals("{{ c }}")],
        vec![
            json!({"get": "/issue", "extract": {"v": {"json": "$.a", "secret": true}}}),
            equals("{{ v.b }}"),
        ],
        vec![
            json!({"get": "/issue", "extract": {"token": {"regex": "pin=([^;]*);"}}}),
            equals("{{ token }}"),
        ],
        vec![
            json!({"get": "/issue", "extract": {"v": {"cookie": "s"}}}),
            json!({"get": "/content-type", "headers": {"X-Canary": "{{ v }}"}, "expect": {"json": {"$.a": 1}}}),
        ],
        vec![equals("{{ given }}")],
        vec![
            json!({"get": "/content-type", "headers": {"X-Auth-Token": canary(90)}, "expect": {"json": {"$.a": 1}}}),
        ],
        vec![json!({"post": "/body-type", "json": {"password": canary(91)}, "expect": {"json": {"$.a": 1}}})],
    ];
    match auth {
        "basic" => steps.push(vec![equals("{{ auth.password }}")]),
        "bearer" => steps.push(vec![equals("{{ auth.token }}")]),
        "oauth2" => {
            steps.push(vec![equals("{{ auth.client_secret }}")]);
            steps.push(vec![equals("{{ auth.token }}")]);
        }
        "command" => steps.push(vec![equals("{{ auth.token }}")]),
        "keystone" => {
            steps.push(vec![equals("{{ auth.password }}")]);
            steps.push(vec![equals("{{ auth.token }}")]);
        }
        "keystone:token" => steps.push(vec![equals("{{ auth.token }}")]),
        "keystone:credential" => {
            steps.push(vec![equals("{{ auth.application_credential_secret }}")]);
            steps.push(vec![equals("{{ auth.token }}")]);
        }
        new => panic!("a new kind of `auth`, {new}: add a step that would show its secret"),
    }
    steps
}

/// Two words that no encoding but Base64 changes, around characters that every encoding changes.
pub(crate) fn canary(number: usize) -> String {
    format!("c4n4r{number:02}x \"%+/\\ z{number:02}r4n4c")
}

#[track_caller]
pub(crate) fn assert_hidden(what: &str, bytes: &[u8]) {
    // What all canaries have in common, so that one search finds any.
    let marks = ["c4n4r".to_owned(), "r4n4c".to_owned()].into_iter();
    let marks = marks.chain(["c4n4r", "r4n4c"].into_iter().flat_map(base64));
    for mark in marks {
        let found = memchr::memmem::find(bytes, mark.as_bytes());
        if let Some(at) = found {
            let around = &bytes[at.saturating_sub(200)..(at + 100).min(bytes.len())];
            panic!("{what} shows a secret ({mark}):\n{}", String::from_utf8_lossy(around));
        }
    }
}

/// What is in the Base64 of any text around this one, whatever comes before it.
fn base64(text: &str) -> Vec<String> {
    let from = |before: usize| {
        let padded = [vec![0; before], text.as_bytes().to_vec()].concat();
        let encoded = base64::engine::general_purpose::STANDARD_NO_PAD.encode(&padded);
        encoded[(before * 8).div_ceil(6)..padded.len() * 8 / 6].to_owned()
    };
    (0..3).map(from).collect()
}

/// Searches every file below a folder.
#[track_caller]
pub(crate) fn assert_folder_hidden(folder: &Path) -> usize {
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files += assert_folder_hidden(&path);
        } else {
            assert_hidden(&path.display().to_string(), &std::fs::read(&path).unwrap());
            files += 1;
        }
    }
    files
}

/// A definition of a schema, with what a reference in it leads to.
pub(crate) fn resolve<'s>(schema: &'s Value, node: &'s Value) -> (Option<&'s str>, &'s Value) {
    match node["$ref"].as_str() {
        Some(reference) => {
            let name = reference.rsplit('/').next().unwrap();
            (Some(name), &schema["definitions"][name])
        }
        None => (None, node),
    }
}

/// The places below a definition that hold any text, in the words of [`form`] and [`scenario_texts`].
fn texts(node: &Value, path: &str, found: &mut BTreeSet<String>) {
    if node == &json!(true) {
        found.insert(path.to_owned());
        return;
    }
    let Some(map) = node.as_object() else { return };
    if let Some(reference) = node["$ref"].as_str() {
        if reference.ends_with("Reference") {
            found.insert(path.to_owned());
        }
        return;
    }
    let bound = ["enum", "pattern", "format", "const"].iter().any(|key| map.contains_key(*key));
    let is_text = match &node["type"] {
        Value::String(kind) => kind == "string",
        Value::Array(kinds) => kinds.contains(&json!("string")),
        _ => !["anyOf", "allOf", "oneOf", "properties"].iter().any(|key| map.contains_key(*key)) && !bound,
    };
    if is_text && !bound {
        found.insert(path.to_owned());
    }
    // A key that only builds of tests have is in no scenario that anybody else writes.
    let published = |(_, node): &(&String, &Value)| node["x-unpublished"].is_null();
    for (key, node) in node["properties"].as_object().into_iter().flatten().filter(published) {
        texts(node, &format!("{path}.{key}"), found);
    }
    if node["additionalProperties"].is_object() || node["additionalProperties"] == json!(true) {
        texts(&node["additionalProperties"], &format!("{path}.*"), found);
    }
    if !node["items"].is_null() {
        texts(&node["items"], &format!("{path}[]"), found);
    }
    for key in ["anyOf", "allOf", "oneOf"] {
        node[key].as_array().into_iter().flatten().for_each(|node| texts(node, path, found));
    }
}

fn all_texts(schema: &Value, root: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    texts(schema, root, &mut found);
    for (name, node) in schema["definitions"].as_object().unwrap() {
        texts(node, name, &mut found);
    }
    found
}

#[test]
fn every_text_of_a_scenario_is_a_place_for_a_secret_or_is_known_to_be_none() {
    let found = all_texts(&schema::SCENARIO, "Scenario");
    let known: BTreeSet<String> = scenario_texts().into_keys().map(str::to_owned).collect();
    let (new, gone): (Vec<_>, Vec<_>) =
        (found.difference(&known).collect(), known.difference(&found).collect());
    assert!(new.is_empty(), "new texts in the scenario's schema, without a row in scenario_texts(): {new:?}");
    assert!(gone.is_empty(), "rows of scenario_texts() that are in the schema no more: {gone:?}");
    let found = all_texts(&schema::DEPLOYMENT, "Deployment");
    let written: BTreeSet<String> = found.into_iter().filter(|place| !is_reference(place)).collect();
    let known = [
        "Deployment.name",
        "LinesOfSecretReference.default",
        "LinesOfSecretReference.env",
        "LinesOfSecretReference.file",
        "Tls.ca",
        "Tls.cert",
        "Tls.key",
    ]
    .into_iter()
    .map(str::to_owned);
    // Some have the forms of a reference among their own.
    let references = ["Reference", "SecretReference", "Proxy", "CommandLine", "Target"].into_iter();
    let forms =
        references.flat_map(|name| ["", ".default", ".env", ".file"].map(|key| format!("{name}{key}")));
    let forms = forms.filter(|form| !is_reference(form));
    assert_eq!(
        written,
        known.chain(forms).collect(),
        "a new text of the deployment: may it hold a secret? Then make it a Reference"
    );
}

fn is_reference(place: &str) -> bool {
    let mut keys = place.split('.').flat_map(|key| match key.strip_suffix("[]") {
        Some(key) => vec![key, "[]"],
        None => vec![key],
    });
    let root: &'static Value = &schema::DEPLOYMENT;
    let node: &'static Value = match keys.next() {
        Some("Deployment") | None => root,
        Some(definition) => &root["definitions"][definition],
    };
    let node = keys.fold(node, |node, key| {
        let forms = node["anyOf"].as_array().into_iter().flatten();
        let below = |form: &'static Value| match key {
            "*" => &form["additionalProperties"],
            "[]" => &form["items"],
            key => &form["properties"][key],
        };
        [node].into_iter().chain(forms).map(below).find(|below| !below.is_null()).unwrap()
    });
    node.to_string().contains("Reference\"")
}

/// The addresses of what a deployment leads to.
pub(crate) struct Peers {
    pub(crate) service: String,
    pub(crate) connection: Box<dyn Fn(&str) -> String>,
}

/// A deployment with a canary at every reference of its schema, and each canary's environment variable.
pub(crate) struct CanaryDeployment {
    pub(crate) document: Value,
    environment: Vec<(String, String)>,
    files: Vec<(String, String)>,
}

impl CanaryDeployment {
    /// `auth` is the one kind that is used.
    pub(crate) fn new(auth: &str, peers: &Peers) -> Self {
        let mut made = Self { document: Value::Null, environment: Vec::new(), files: Vec::new() };
        let root = &*schema::DEPLOYMENT;
        made.document = made.fill(root, "Deployment", auth, peers).unwrap();
        made
    }

    fn fill(&mut self, node: &Value, path: &str, auth: &str, peers: &Peers) -> Option<Value> {
        let (name, node) = resolve(&schema::DEPLOYMENT, node);
        if matches!(name, Some("Reference" | "SecretReference")) {
            return Some(self.reference(path, peers));
        }
        let path = name.unwrap_or(path);
        if ["CommandLine", "Target"].contains(&path) {
            return Some(self.reference(path, peers));
        }
        if let Some(branches) = node["anyOf"].as_array().or_else(|| node["allOf"].as_array()) {
            return branches.iter().find_map(|branch| self.fill(branch, path, auth, peers));
        }
        let mut map = Map::new();
        for (key, node) in node["properties"].as_object().into_iter().flatten() {
            if path == "Auth" && Some(key.as_str()) != auth.split(':').next() || is_left_out(path, key, auth)
            {
                continue;
            }
            let filled = self.fill(node, &format!("{path}.{key}"), auth, peers);
            map.extend(filled.map(|value| (key.clone(), value)));
        }
        if node["additionalProperties"].is_object() {
            let is_target = path.ends_with(".targets") || path == "ServerNames";
            let key = if is_target { "default" } else { "X-Canary" };
            let filled = self.fill(&node["additionalProperties"], &format!("{path}.*"), auth, peers);
            map.extend(filled.map(|value| (key.to_owned(), value)));
        }
        if !node["items"].is_null() {
            return Some(json!([self.fill(&node["items"], &format!("{path}[]"), auth, peers)?]));
        }
        (!map.is_empty()).then_some(Value::Object(map))
    }

    fn reference(&mut self, place: &str, peers: &Peers) -> Value {
        let number = self.environment.len() + self.files.len();
        let value = match form(place) {
            CanaryForm::Secret | CanaryForm::Text => canary(number),
            CanaryForm::Url => peers.service.clone(),
            CanaryForm::Address => "127.0.0.1:9".to_owned(),
            CanaryForm::Here => "127.0.0.1:0".to_owned(),
            CanaryForm::Host => "allowed.example".to_owned(),
            CanaryForm::Ip => "127.0.0.1".to_owned(),
            CanaryForm::Proxy => format!("http://u:{}@127.0.0.1:9", encoded(&canary(number))),
            CanaryForm::TokenUrl => format!("{}/oauth2", peers.service),
            CanaryForm::Program => format!("printf '%s' '{}'", json!({"token": canary(77)})),
            CanaryForm::Pointer => "/token".to_owned(),
            CanaryForm::Connection => (peers.connection)(&canary(number)),
        };
        if number.is_multiple_of(2) {
            self.environment.push((format!("C_{number}"), value));
            json!({"env": format!("C_{number}")})
        } else {
            self.files.push((format!("c_{number}.txt"), value));
            json!({"file": format!("c_{number}.txt")})
        }
    }

    /// Puts `value` where the schema has `place`.
    fn with(mut self, place: &[&str], value: Value) -> Self {
        let mut node = &mut self.document;
        for key in place {
            node = &mut node[*key];
        }
        *node = value;
        self
    }

    fn write(&self, bench: &Bench) {
        bench.write("d.yaml", self.document.to_string());
        for (name, text) in &self.files {
            bench.write(name, text);
        }
    }

    fn run(&self, bench: &Bench, arguments: &[&str]) -> CommandOutput {
        let mut command = bench.command(arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.envs((0..100).map(|number| (format!("V_{number}"), canary(number))));
        command.env("GITHUB_STEP_SUMMARY", bench.path().join("summary.md")).env("GITHUB_ACTIONS", "true");
        let ended = Bench::end(&mut command);
        assert_hidden("standard output", ended.stdout.as_bytes());
        assert_hidden("standard error", ended.stderr.as_bytes());
        for name in ["runs", "out", "pages"] {
            let folder = bench.path().join(name);
            if folder.exists() {
                assert_folder_hidden(&folder);
            }
        }
        for name in ["summary.md", "junit.xml"] {
            assert_hidden(name, &std::fs::read(bench.path().join(name)).unwrap_or_default());
        }
        ended
    }
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The kinds of `auth` that hold a reference.
pub(crate) fn kinds_of_auth() -> Vec<String> {
    let kinds = schema::DEPLOYMENT["definitions"]["Auth"]["properties"].as_object().unwrap();
    let holds = |node: &Value| {
        let branches = node["anyOf"].as_array().unwrap();
        let mut found = BTreeSet::new();
        for branch in branches {
            texts(resolve(&schema::DEPLOYMENT, branch).1, "", &mut found);
        }
        !found.is_empty()
    };
    let kinds = kinds.iter().filter(|(_, node)| holds(node)).map(|(kind, _)| kind.clone());
    kinds.chain(["keystone:token", "keystone:credential"].map(str::to_owned)).collect()
}

/// Whether a key is left out because it and another exclude each other.
fn is_left_out(path: &str, key: &str, auth: &str) -> bool {
    let kept: &[&str] = match (path, auth) {
        // A cloud has its own `auth`; a region is for a catalog.
        ("Deployment", _) => return ["cloud", "catalog"].contains(&key),
        ("Keystone", "keystone:token") => &["token", "project_name", "project_domain_name"],
        ("Keystone", "keystone:credential") => {
            &["application_credential_id", "application_credential_secret"]
        }
        ("Keystone", _) => {
            &["username", "password", "user_domain_name", "project_name", "project_domain_name"]
        }
        _ => return false,
    };
    key != "auth_url" && !kept.contains(&key)
}

const PROTO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/grpc/shop.proto");

/// A scenario that fails at every place that can hold a secret, each in its own workload.
fn failing_scenario(auth: &str) -> Value {
    let (mut variables, mut workloads) = (Map::new(), Vec::new());
    variables.insert("given".to_owned(), json!({"env": "V_80", "default": "x"}));
    let runner = json!({"constant": {"times": 2, "concurrency": 1}});
    let mut workload = |name: String, steps: Vec<Value>| {
        workloads.push(
            json!({"name": name, "runner": runner, "iteration": steps, "sla": {"failure_rate": {"max": 0}}}),
        );
    };
    for (number, (place, steps)) in scenario_texts().into_iter().enumerate() {
        for (nth, step) in steps.into_iter().enumerate() {
            let variable = format!("v_{number}");
            let step: Value =
                serde_json::from_str(&step.to_string().replace(" S ", &format!(" {variable} "))).unwrap();
            variables.insert(variable, json!({"env": format!("V_{number}")}));
            workload(format!("{place} {nth}"), vec![step]);
        }
    }
    for (number, steps) in further_steps(auth).into_iter().enumerate() {
        workload(format!("further {number}"), steps);
    }
    workload("last".to_owned(), vec![json!({"get": "/scrape"})]);
    json!({"title": "t", "deployment": "d.yaml", "variables": variables, "workloads": workloads,
        "trace": {"settle": "10ms"}, "grpc": {"protos": [PROTO]}})
}

/// A service that sends back whatever it gets, in every part of an answer.
fn echo(seen: &ScriptedRequest, wire: &mut Wire<'_>, scrape: SocketAddr, scraped: &Mutex<Vec<u8>>) -> After {
    let header = |name: &str| seen.headers.get(name).cloned().unwrap_or_default();
    let path = seen.path.as_str();
    if path.ends_with("/auth/tokens") {
        let answer = "HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 2\r\nX-Subject-Token: ";
        wire.send(format!("{answer}{}\r\n\r\n{{}}", canary(70)));
        return After::Keep;
    }
    if path == "/oauth2" {
        return wire.answer("200 OK", "application/json", json!({"access_token": canary(76)}).to_string());
    }
    if path.starts_with("/redirect") {
        let location = format!("ftp://me:{}@h{path}", encoded(&canary(71)));
        wire.send(format!("HTTP/1.1 302 {path}\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"));
        return After::Keep;
    }
    if path.starts_with("/socket") {
        return websockets::echo_once(seen, wire);
    }
    match path {
        "/content-type" => {
            let text = format!("{}{}", header("x-canary"), header("x-auth-token"));
            wire.answer("200 OK", &text, "no JSON")
        }
        "/body-type" => wire.answer("200 OK", &String::from_utf8_lossy(&seen.body), "no JSON"),
        "/issue" => {
            let body = json!({"a": {"b": canary(72)}, "pin": format!("pin={};", canary(73))}).to_string();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nX-Subject-Token: {}\r\nSet-Cookie: s={}; Path=/\r\n\r\n",
                body.len(),
                canary(74),
                canary(75)
            );
            wire.send(head + &body);
            After::Keep
        }
        "/scrape" => {
            if let Ok(mut stream) = TcpStream::connect(scrape) {
                let _ = stream
                    .write_all(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
                let _ = stream.read_to_end(&mut scraped.lock().unwrap());
            }
            wire.answer("200 OK", "text/plain", "ok")
        }
        _ => wire.answer("200 OK", "application/json", r#"{"echo": 1}"#),
    }
}

#[test]
fn a_run_whose_every_check_fails_shows_no_canary_in_anything_it_writes_pushes_or_publishes() {
    std::thread::scope(|scope| {
        for auth in kinds_of_auth() {
            scope.spawn(move || fails_without_a_canary(&auth));
        }
    });
}

/// Runs the failing scenario with one kind of `auth`, and then all that reads its results.
fn fails_without_a_canary(auth: &str) {
    let free = free_address();
    let scraped = Arc::new(Mutex::new(Vec::new()));
    let shared = Arc::clone(&scraped);
    let service = ScriptedServer::start(move |seen, wire| echo(seen, wire, free, &shared));
    let receiver = ScriptedServer::answering_after(std::time::Duration::ZERO);
    let backend = Backend::start();
    let address = backend.address.clone();
    let connection = Box::new(move |secret: &str| format!("otlp://u:{}@{address}", encoded(secret)));
    let made = CanaryDeployment::new(auth, &Peers { service: service.url(), connection });
    let bench = Bench::new();
    made.write(&bench);
    bench.write("s.yaml", failing_scenario(auth).to_string());
    bench.write("steps.yaml", STEPS);
    made.run(&bench, &["validate", "s.yaml", "d.yaml"]).expect_code(0);
    let otlp = format!("http://u:{}@{}", encoded(&canary(81)), receiver.address());
    let (given, metrics) = (format!("given={}", canary(82)), free.to_string());
    let run = ["run", "s.yaml", "--publish", "--junit", "junit.xml", "--otlp", &otlp, "--metrics", &metrics];
    let statsd = UdpSocket::bind("127.0.0.1:0").unwrap();
    let (write, lines) = (format!("{otlp}/api/v1/write"), format!("{otlp}/write?db=d&p={}", canary(81)));
    let datagrams = statsd.local_addr().unwrap().to_string();
    let pushes = ["--remote-write", &write, "--influx", &lines, "--statsd", &datagrams];
    made.run(&bench, &[&run[..], &pushes, &["--set", &given, "--traces", "pages"]].concat()).expect_code(2);
    for look in [&["--verbose"][..], &["--curl"], &[]] {
        made.run(&bench, &[&["run", "s.yaml", "--once", "--set", &given][..], look].concat()).expect_code(1);
    }
    let results = bench.results();
    let rows = results["iterations"].as_array().unwrap();
    let workloads = results["workloads"].as_array().unwrap();
    for workload in &workloads[..workloads.len() - 1] {
        assert_eq!(workload["iterations"]["failed"], 2, "{auth}: {workload:#}");
    }
    assert_eq!(rows.len(), 2 * workloads.len());
    assert_eq!(results["scenario"]["set"]["given"], "***");
    assert!(results.to_string().contains("***"), "{results:#}");
    assert!(assert_folder_hidden(&bench.run_directory()) >= 4);

    // What was pushed and published, but for the header that authenticates the push.
    let plain = |seen: ScriptedRequest| {
        let is_compressed = seen.headers.get("content-encoding").is_some_and(|coding| coding == "snappy");
        if is_compressed { snap::raw::Decoder::new().decompress_vec(&seen.body).unwrap() } else { seen.body }
    };
    let seen = receiver.seen();
    for path in ["/v1/metrics", "/api/v1/write", "/write?db=d"] {
        assert!(seen.iter().any(|seen| seen.path.starts_with(path)), "{path}");
    }
    let mut pushed: Vec<u8> = seen.into_iter().flat_map(plain).collect();
    let mut datagram = [0; 2_000];
    statsd.set_nonblocking(true).unwrap();
    while let Ok(length) = statsd.recv(&mut datagram) {
        pushed.extend_from_slice(&datagram[..length]);
    }
    assert!(String::from_utf8_lossy(&pushed).contains("|ms") && !backend.spans().is_empty());
    assert_hidden("what was pushed", &pushed);
    assert_hidden("what was published", format!("{:?}", backend.spans()).as_bytes());
    let scraped = std::mem::take(&mut *scraped.lock().unwrap());
    assert!(String::from_utf8_lossy(&scraped).contains("# TYPE"), "{}", String::from_utf8_lossy(&scraped));
    assert_hidden("what was scraped", &scraped);

    let directory = bench.run_directory();
    let directory = directory.to_str().unwrap();
    made.run(&bench, &["report", directory, "--junit", "junit.xml"]).expect_code(2);
    made.run(&bench, &["export", "--csv", directory]).expect_code(0);
    made.run(&bench, &["compare", directory, directory]);
    made.run(&bench, &["comment", directory]);
    made.run(&bench, &["trace", "list", directory]);
    made.run(&bench, &["trace", "headers", "-d", "d.yaml"]).expect_code(0);
}

#[test]
fn what_does_not_answer_or_refuses_shows_no_canary() {
    for (number, auth) in kinds_of_auth().into_iter().enumerate() {
        // It sends back what it gets: passwords in the words of its refusal.
        let refusing = ScriptedServer::start(|seen, wire| {
            let said =
                format!("{} {:?}", String::from_utf8_lossy(&seen.body), seen.headers.get("authorization"));
            let body = json!({"error": {"message": secrets_of(&said)}}).to_string();
            wire.answer("401 no", "application/json", body)
        });
        let closed = free_address();
        type Connection = Box<dyn Fn(&str) -> String>;
        let collectors: [(Connection, i32); 3] = [
            (Box::new(move |secret| format!("redis://u:{}@{closed}/1?password={0}", encoded(secret))), 69),
            (Box::new(move |secret| format!("jaeger://u:{}@{closed}?x={0}", encoded(secret))), 69),
            (Box::new(move |secret| format!("mysql://u:{}@{closed}/d", encoded(secret))), 69),
        ];
        // One of them for each kind: what a collector says does not depend on how services are asked.
        for (connection, code) in collectors.into_iter().skip(number % 3).take(1) {
            let made = CanaryDeployment::new(&auth, &Peers { service: refusing.url(), connection });
            let bench = Bench::new();
            made.write(&bench);
            bench.write("s.yaml", failing_scenario(&auth).to_string());
            bench.write("steps.yaml", STEPS);
            made.run(&bench, &["run", "s.yaml"]).expect_code(code);
            let plain = made.run(&bench, &["run", "s.yaml", "--no-profile"]);
            let login = auth.starts_with("keystone") || auth == "oauth2";
            assert_eq!(plain.code, Some(if login { 69 } else { 2 }), "{auth}: {}", plain.stderr);
        }
    }
}

/// The canaries among what was sent that are secrets: names are not.
fn secrets_of(sent: &str) -> String {
    let json = sent.find('{').map_or("", |at| &sent[at..]);
    let read = serde_json::Deserializer::from_str(json).into_iter::<Value>().next();
    let body = read.and_then(Result::ok).unwrap_or_default();
    let places = [
        "/auth/identity/password/user/password",
        "/auth/identity/token/id",
        "/auth/identity/application_credential/secret",
    ];
    let secret = places.iter().find_map(|place| body.pointer(place)?.as_str());
    let header = &sent[sent.rfind("Some(").unwrap_or(sent.len())..];
    format!("{} {header}", secret.unwrap_or_default())
}

#[test]
fn a_reference_in_the_wrong_form_is_refused_without_its_value() {
    let connection = || Box::new(|_: &str| "file://profile.log".to_owned());
    let peers = || Peers { service: "http://127.0.0.1:1".to_owned(), connection: connection() };
    let wrong = canary(60);
    let userinfo = format!("http://u:{}@h", encoded(&wrong));
    for (place, value) in [
        (&["targets", "default"][..], &*wrong),
        (&["targets", "default"], &userinfo),
        (&["auth", "keystone", "auth_url"], &wrong),
        (&["auth", "keystone", "auth_url"], &userinfo),
        (&["dns", "servers"], &wrong),
        (&["targets_allowed"], &wrong),
        (&["profiler", "connection_string"], &wrong),
        (&["profiler", "connection_string"], &userinfo),
        (&["profiler", "connection_string"], &format!("foo://{}", encoded(&wrong))),
        (&["profiler", "connection_string"], &format!("redis://:{}@h:abc/x", encoded(&wrong))),
        (&["profiler", "connection_string"], &format!("redis://h/{}", encoded(&wrong))),
        (&["headers", "X-Canary"], &format!("{wrong}\u{1}")),
        (&["auth", "keystone", "password"], ""),
    ] {
        for reference in [json!({"env": "WRONG"}), json!({"file": "wrong.txt"})] {
            let reference = if place == ["dns", "servers"] || place == ["targets_allowed"] {
                json!([reference])
            } else {
                reference
            };
            let bench = Bench::new();
            let mut made = CanaryDeployment::new("keystone", &peers()).with(place, reference);
            made.environment.push(("WRONG".to_owned(), value.to_owned()));
            made.files.push(("wrong.txt".to_owned(), value.to_owned()));
            made.write(&bench);
            let ended = made.run(&bench, &["validate", "d.yaml"]).expect_code(65);
            assert!(ended.stderr.contains("d.yaml:"), "{place:?}: {}", ended.stderr);
        }
    }
}
