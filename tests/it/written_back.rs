//! A scenario or deployment that was read can be written as YAML, and reading that YAML gives the same value.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bench::config::{self, deployment::Deployment, scenario::Scenario, schema};
use bench::text::yaml;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// Reads, writes and reads again; gives what was written.
#[track_caller]
fn same_again<T: DeserializeOwned + Serialize + std::fmt::Debug>(text: &str, schema: &Value) -> String {
    let read = |text: &str| -> T {
        let source = yaml::source("t.yaml", text.as_bytes()).unwrap();
        match config::read(source, schema) {
            Ok(document) => document.value,
            Err(rejected) => panic!("{:?} of\n{text}", rejected.faults),
        }
    };
    let first = read(text);
    let written = config::write(&first).unwrap();
    let second = read(&written);
    assert_eq!(format!("{second:?}"), format!("{first:?}"), "{text}\n{written}");
    assert_eq!(config::write(&second).unwrap(), written);
    written
}

/// Texts that YAML may take for something else.
const TEXTS: [&str; 34] = [
    "x",
    "a b",
    "yes",
    "no",
    "on",
    "off",
    "true",
    "null",
    "~",
    "012",
    "0x1f",
    "0o7",
    "1e3",
    ".5",
    "1_000",
    "12:30",
    "5",
    "-1.5",
    ".inf",
    "2026-01-01",
    "a: b",
    "a #b",
    "# c",
    "- a",
    "* a",
    "&a",
    "!t",
    "{{ x }}",
    "[a",
    " lead",
    "trail ",
    "two\nlines\n",
    "\ttab",
    "é\u{1F600}\"'\\",
];
const KEYS: [&str; 8] = ["a", "X-Y", "a b", "on", "1", "$.a", "null", "{{ x }}"];

/// Makes values that a schema describes: each choice is the next of `choices`.
struct SchemaValueMaker<'a> {
    root: &'a Value,
    choices: std::slice::Iter<'a, u32>,
    /// The keys that were made, by the name of their type.
    keys: BTreeSet<String>,
}

impl<'a> SchemaValueMaker<'a> {
    fn choose(&mut self, among: usize) -> usize {
        usize::try_from(*self.choices.next().unwrap_or(&0)).unwrap() % among
    }

    fn value(&mut self, schema: &'a Value, name: &str, depth: usize) -> Value {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.trim_start_matches("#/definitions/");
            return self.value(&self.root["definitions"][name], name, depth);
        }
        if let Some(all) = schema["allOf"].as_array() {
            return self.value(&all[0], name, depth);
        }
        if let Some(any) = schema["anyOf"].as_array() {
            // A secret that is written out is never written.
            let forms: Vec<&Value> =
                any.iter().filter(|form| form["type"] != "null" && form["writeOnly"] != true).collect();
            let chosen = self.choose(forms.len());
            return self.value(forms[chosen], name, depth);
        }
        if schema["not"]["type"] == "object" {
            return Value::from(self.choose(1000));
        }
        if let Some(values) = schema["enum"].as_array() {
            return values[self.choose(values.len())].clone();
        }
        let kinds = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().filter(|kind| *kind != "null").collect(),
            Value::Null => return self.anything(depth),
            kind => vec![kind],
        };
        match kinds[self.choose(kinds.len())].as_str().unwrap() {
            "boolean" => (self.choose(2) == 0).into(),
            "integer" => {
                self.number(schema).floor().abs().max(schema["minimum"].as_f64().unwrap_or(0.0)).into_int()
            }
            "number" => self.number(schema).into(),
            "string" => self.text(schema).into(),
            "array" => {
                let count = self.choose(3).max(schema["minItems"].as_u64().unwrap_or(0) as usize);
                (0..count).map(|_| self.value(&schema["items"], name, depth + 1)).collect()
            }
            _ => self.map(schema, name, depth),
        }
    }

    fn map(&mut self, schema: &'a Value, name: &str, depth: usize) -> Value {
        let mut map = Map::new();
        let properties = schema["properties"].as_object();
        let one = (schema["maxProperties"] == 1)
            .then(|| self.choose(properties.map_or(1, |properties| properties.len())));
        let required = |key: &str| {
            schema["required"].as_array().is_some_and(|required| required.iter().any(|name| name == key))
        };
        for (number, (key, property)) in properties.into_iter().flatten().enumerate() {
            let rare = 1 + depth.min(4);
            let wanted = match one {
                Some(one) => number == one,
                // Steps have steps: without an end, each would have all keys once the choices are used up.
                None => required(key) || depth < 10 && self.choices.len() > 0 && self.choose(rare) == 0,
            };
            // The default of a reference to a secret is a secret that is written out.
            let secret = key == "default" && property["writeOnly"] == true;
            if wanted && !secret {
                self.keys.insert(format!("{name}.{key}"));
                map.insert(key.clone(), self.value(property, &format!("{name}.{key}"), depth + 1));
            }
        }
        if let further @ Value::Object(_) = &schema["additionalProperties"] {
            let most = self.choose(3) + schema["minProperties"].as_u64().unwrap_or(0) as usize;
            for _ in 0..most {
                let key = KEYS[self.choose(KEYS.len())];
                map.insert(key.to_owned(), self.value(further, name, depth + 1));
            }
        }
        if map.is_empty()
            && schema["minProperties"].as_u64() >= Some(1)
            && let Some((key, property)) = properties.and_then(|properties| properties.iter().next())
        {
            map.insert(key.clone(), self.value(property, name, depth + 1));
        }
        Value::Object(map)
    }

    fn number(&mut self, schema: &Value) -> f64 {
        let least =
            schema["minimum"].as_f64().or(schema["exclusiveMinimum"].as_f64().map(|above| above + 0.25));
        let most = schema["maximum"].as_f64().unwrap_or(1e6);
        let numbers = [0.0, 1.0, 2.5, 7.0, 100.0, 0.1, 1234.5, 99_999.0, most];
        numbers[self.choose(numbers.len())].clamp(least.unwrap_or(0.0), most)
    }

    fn text(&mut self, schema: &Value) -> String {
        let known: &[&str] = match (schema["format"].as_str(), schema["pattern"].as_str()) {
            (Some("bench-duration"), _) => {
                &["0s", "250ms", "1.5s", "2m", "1h30m", "10us", "1ns", "720h", "0.1s"]
            }
            (Some("bench-search-time"), _) => &["1s", "10s", "1.5s", "1h30m"],
            (Some("bench-rate"), _) => &["400", "2.5/s", "400 /s"],
            (Some("bench-share"), _) => &["10%", "0.1%", "90 %", "33.3%"],
            (Some("bench-slowdown"), _) => &["0%", "25%", "1000%", "0.5%"],
            (Some(new), _) => panic!("a new format of text, {new}: add examples"),
            (None, Some(pattern)) if pattern.contains("[bB]") => {
                &["512", "64KiB", "10MB", "1.5MiB", "1GiB", "0"]
            }
            (None, Some(new)) => panic!("a new pattern of text, {new}: add examples"),
            (None, None) if schema["maxLength"] == 1 => &[",", ";", "\t", "|"],
            (None, None) => &TEXTS,
        };
        known[self.choose(known.len())].to_owned()
    }

    /// Data that no schema describes.
    fn anything(&mut self, depth: usize) -> Value {
        let kinds = if depth > 6 { 4 } else { 6 };
        match self.choose(kinds) {
            0 => (self.choose(2) == 0).into(),
            1 => json!(self.choose(1_000_000)),
            2 => json!(1.5),
            3 => TEXTS[self.choose(TEXTS.len())].into(),
            4 => (0..self.choose(3)).map(|_| self.anything(depth + 1)).collect(),
            _ => {
                let count = self.choose(3);
                (0..count)
                    .map(|_| (KEYS[self.choose(KEYS.len())].to_owned(), self.anything(depth + 1)))
                    .collect::<Map<_, _>>()
                    .into()
            }
        }
    }
}

trait IntoInt {
    fn into_int(self) -> Value;
}

impl IntoInt for f64 {
    fn into_int(self) -> Value {
        (self as u64).into()
    }
}

fn choices() -> impl Strategy<Value = Vec<u32>> {
    proptest::collection::vec(any::<u32>(), 0..2000)
}

/// A document that a schema describes, and the keys in it.
fn made(root: &Value, choices: &[u32]) -> (String, BTreeSet<String>) {
    let mut made = SchemaValueMaker { root, choices: choices.iter(), keys: BTreeSet::new() };
    let name = root["title"].as_str().unwrap();
    // JSON is YAML.
    (made.value(root, name, 0).to_string(), made.keys)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_scenario_that_was_read_is_the_same_once_written_and_read(choices in choices()) {
        same_again::<Scenario>(&made(&schema::SCENARIO, &choices).0, &schema::SCENARIO);
    }

    #[test]
    fn any_deployment_that_was_read_is_the_same_once_written_and_read(choices in choices()) {
        same_again::<Deployment>(&made(&schema::DEPLOYMENT, &choices).0, &schema::DEPLOYMENT);
    }
}

/// The property holds for every key only if every key is made.
#[test]
fn every_key_of_the_schemas_is_among_the_generated_ones() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    for root in [&*schema::SCENARIO, &*schema::DEPLOYMENT] {
        let name = root["title"].as_str().unwrap();
        let definitions = root["definitions"].as_object().unwrap().iter();
        let all = definitions.map(|(name, node)| (name.as_str(), node)).chain([(name, root)]);
        let mut missing: BTreeSet<String> = all
            .flat_map(|(name, node)| {
                node["properties"]
                    .as_object()
                    .into_iter()
                    .flatten()
                    .map(move |(key, _)| format!("{name}.{key}"))
            })
            .collect();
        assert!(missing.len() > 20, "{missing:?}");
        for _ in 0..2000 {
            let tree = choices().new_tree(&mut runner).unwrap();
            let (_, keys) = made(root, &tree.current());
            missing.retain(|key| !keys.contains(key));
            if missing.is_empty() {
                break;
            }
        }
        assert!(missing.is_empty(), "no generated {name} has {missing:?}");
    }
}

/// The YAML files below a folder.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "yaml") {
            found.push(path);
        }
    }
}

#[test]
fn every_shipped_file_and_every_one_of_the_tests_is_the_same_once_written_and_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    for folder in ["scenarios", "deployments", "tests"] {
        files(&root.join(folder), &mut found);
    }
    let mut count = 0;
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        let source = yaml::source("t.yaml", text.as_bytes()).unwrap();
        let Ok(node) = yaml::parse(&source) else { continue };
        if node.get("title").is_some() && config::read::<Scenario>(source.clone(), &schema::SCENARIO).is_ok()
        {
            same_again::<Scenario>(&text, &schema::SCENARIO);
            count += 1;
        } else if let Ok(read) = config::read::<Deployment>(source, &schema::DEPLOYMENT)
            && config::write(&read.value).is_ok()
        {
            same_again::<Deployment>(&text, &schema::DEPLOYMENT);
            count += 1;
        }
    }
    assert!(count >= 6, "{count}");
}

#[test]
fn what_is_written_is_what_a_person_would_write() {
    let text = "\
title: Issue tokens
deployment: d.yaml
variables:
  token:
    env: TOKEN
runner:
  constant:
    times: 20
    concurrency: 2
warm_up: 10s
iteration:
  - action: issue token
    post: /v3/auth/tokens
    json:
      auth: '{{ token }}'
    expect:
      status: 2xx
    extract:
      id:
        header: X-Subject-Token
  - think: 100ms
sla:
  failure_rate:
    max: 0.0
  thresholds:
    - p(99) < 250ms
";
    assert_eq!(same_again::<Scenario>(text, &schema::SCENARIO), text);
    let secret = "auth: { bearer: { token: hunter2 } }";
    let source = yaml::source("t.yaml", secret.as_bytes()).unwrap();
    let Ok(document) = config::read::<Deployment>(source, &schema::DEPLOYMENT) else { panic!("{secret}") };
    assert!(config::write(&document.value).unwrap_err().to_string().contains("{env: NAME}"));
}
