//! The schemas that editors use, and the examples that users start from: always those of the program.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::Bench;

/// A file of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn shipped_schemas_are_the_generated_ones() {
    for (kind, path) in [
        ("scenario", "scenarios/scenario.schema.json"),
        ("deployment", "deployments/deployment.schema.json"),
        ("results", "src/results/results.schema.json"),
    ] {
        let generated = Bench::new().run(&["schema", kind]).expect_code(0).stdout;
        let shipped = std::fs::read_to_string(repository(path)).unwrap_or_default();
        assert!(shipped == generated, "{path} is out of date; write it anew: bench schema {kind} > {path}");
        let schema: serde_json::Value = serde_json::from_str(&generated).unwrap();
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#");
        assert_undescribed_properties_are_none(kind, &schema);
    }
}

/// Asserts that `value` is what `bench schema KIND` describes: every key known, every required one there, of its type.
#[track_caller]
pub(crate) fn assert_described(kind: &str, value: &Value) {
    let generated = Bench::new().run(&["schema", kind]).expect_code(0).stdout;
    let schema: Value = serde_json::from_str(&generated).unwrap();
    assert_undescribed_properties_are_none(kind, &schema);
    if let Err(fault) = describes(&schema, &schema, value) {
        panic!("{kind}: {fault}");
    }
}

/// What of a schema this program's own use; anything else in one would be passed over.
fn describes(root: &Value, schema: &Value, value: &Value) -> Result<(), String> {
    let fault = |what: &str| Err(format!("{what}: {value:.200} against {schema:.200}"));
    if let Some(name) = schema["$ref"].as_str() {
        return describes(root, root.pointer(name.trim_start_matches('#')).unwrap(), value);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        let Some(choices) = schema[key].as_array() else { continue };
        let fitting = choices.iter().filter(|choice| describes(root, choice, value).is_ok()).count();
        let wanted = if key == "allOf" { choices.len() } else { 1 };
        if fitting < wanted {
            return fault(key);
        }
    }
    if schema["enum"].as_array().is_some_and(|known| !known.contains(value)) {
        return fault("not one of the known");
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let is = |name: &Value| name == kind || kind == "integer" && name == "number";
    if !(schema["type"].is_null()
        || is(&schema["type"])
        || schema["type"].as_array().is_some_and(|all| all.iter().any(is)))
    {
        return fault(kind);
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        let items = &schema["items"];
        describes(root, if items.is_array() { &items[index] } else { items }, item)?;
    }
    if let (Some(keys), Some(properties)) = (value.as_object(), schema["properties"].as_object()) {
        for (key, value) in keys {
            let known = properties.get(key).unwrap_or(&schema["additionalProperties"]);
            if known.is_null() {
                return fault(&format!("`{key}` is not described"));
            }
            describes(root, known, value)?;
        }
        for key in schema["required"].as_array().into_iter().flatten() {
            if !keys.contains_key(key.as_str().unwrap()) {
                return fault(&format!("{key} is missing"));
            }
        }
    }
    Ok(())
}

#[test]
fn a_value_that_is_not_described_is_found() {
    let schema = serde_json::json!({"type": "object", "required": ["a"], "properties": {
        "a": {"type": ["integer", "null"]}, "b": {"type": "array", "items": {"$ref": "#/definitions/B"}}},
        "definitions": {"B": {"enum": ["x", "y"]}}});
    for (text, good) in [
        (r#"{"a": 1}"#, true),
        (r#"{"a": null, "b": ["x"]}"#, true),
        (r#"{"a": 1.5}"#, false),
        (r#"{"b": []}"#, false),
        (r#"{"a": 1, "b": ["z"]}"#, false),
        (r#"{"a": 1, "c": 1}"#, false),
        ("[]", false),
    ] {
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(describes(&schema, &schema, &value).is_ok(), good, "{text}");
    }
}

#[test]
fn a_runs_results_are_as_described() {
    let bench = Bench::new();
    let root = env!("CARGO_MANIFEST_DIR");
    let deployment = format!("{root}/deployments/demo.yaml");
    bench.run(&["run", &format!("{root}/scenarios/demo.yaml"), "-d", &deployment, "-q"]).expect_code(0);
    assert_described("results", &bench.results());
}

/// Editors show the descriptions while somebody writes.
#[track_caller]
fn assert_undescribed_properties_are_none(kind: &str, schema: &Value) {
    match schema {
        Value::Object(map) => {
            let properties = map.get("properties").and_then(Value::as_object);
            for (name, property) in
                properties.into_iter().flatten().filter(|(_, property)| property.is_object())
            {
                let described = property.get("description").is_some() || property.get("$ref").is_some();
                assert!(described, "{kind}: `{name}` has no description");
            }
            map.values().for_each(|below| assert_undescribed_properties_are_none(kind, below));
        }
        Value::Array(items) => {
            items.iter().for_each(|below| assert_undescribed_properties_are_none(kind, below))
        }
        _ => {}
    }
}

/// The YAML files that are shipped, each with the schema that its first line has to name.
fn shipped() -> Vec<(PathBuf, &'static str)> {
    let mut files = Vec::new();
    for (folder, schema) in [("scenarios", "scenario.schema.json"), ("deployments", "deployment.schema.json")]
    {
        for entry in std::fs::read_dir(repository(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                files.push((path, schema));
            }
        }
    }
    assert!(files.len() >= 4, "{files:?}");
    files
}

#[test]
fn shipped_files_name_their_schema_and_are_valid() {
    for (path, schema) in shipped() {
        let text = std::fs::read_to_string(&path).unwrap();
        let modeline = format!("# yaml-language-server: $schema={schema}\n");
        assert!(text.starts_with(&modeline), "{}: the first line must be {modeline}", path.display());
        let bench = Bench::new();
        bench.write("clouds.yaml", CLOUDS);
        let mut command = bench.command(&["validate", path.to_str().unwrap()]);
        for (name, value) in OPENRC {
            command.env(name, value);
        }
        let ended = Bench::end(&mut command).expect_code(0);
        assert_eq!(ended.stderr, "", "{}", path.display());
    }
}

const CLOUDS: &str = "clouds: { mine: { auth: { auth_url: http://127.0.0.1:5000, username: u, password: pw-of-clouds, project_name: p } } }\n";

const OPENRC: [(&str, &str); 8] = [
    ("OS_CLOUD", "mine"),
    ("OS_CLIENT_CONFIG_FILE", "clouds.yaml"),
    ("OS_AUTH_URL", "http://127.0.0.1:5000"),
    ("OS_USERNAME", "admin"),
    ("OS_PASSWORD", "pw"),
    ("OS_PROJECT_NAME", "admin"),
    ("OSPROFILER_HMAC_KEY", "a key"),
    ("OSPROFILER_CONNECTION_STRING", "redis://127.0.0.1:6379"),
];

/// Without its variables the Keystone deployment says which ones it needs, all at once.
#[test]
fn the_keystone_deployment_says_what_it_needs() {
    let bench = Bench::new();
    let path = repository("deployments/keystone.yaml");
    let mut command = bench.command(&["validate", path.to_str().unwrap()]);
    for (name, _) in OPENRC {
        command.env_remove(name);
    }
    let ended = Bench::end(&mut command).expect_code(65);
    for name in ["OS_AUTH_URL", "OS_PASSWORD", "OSPROFILER_HMAC_KEY", "OSPROFILER_CONNECTION_STRING"] {
        assert!(ended.stderr.contains(&format!("set it: export {name}=…")), "{name}: {}", ended.stderr);
    }
    assert!(ended.stderr.ends_with(": 4 faults\n"), "{}", ended.stderr);
}

/// Every key that the two formats have, in one file each.
const DEPLOYMENT: &str = include_str!("../vectors/everything/deployment.yaml");

const SCENARIO: &str = include_str!("../vectors/everything/scenario.yaml");

#[test]
fn a_file_with_every_key_is_valid() {
    let bench = Bench::new();
    for name in ["ca.pem", "client.pem", "client.key"] {
        bench.write(name, "not read before the load");
    }
    bench.write("secret.txt", "hunter2\nsecond line\n");
    bench.write("people.tsv", "name\tsize\nada\t1\n");
    bench.write("proxy.txt", "http://proxy.example:3128");
    bench.write("upload.bin", "content");
    bench.write("shop.proto", include_str!("../grpc/shop.proto"));
    bench.write("steps.yaml", "steps: [{ action: greet, get: \"/{{ who }}\" }]\n");
    bench.write("everything.yaml", DEPLOYMENT);
    bench.write("scenario.yaml", SCENARIO);
    let mut command = bench.command(&["validate", "everything.yaml", "scenario.yaml"]);
    let ended = Bench::end(command.env("PASSWORD_OF_EVERYTHING", "pw")).expect_code(0);
    insta::assert_snapshot!(ended.stdout, @r"
    everything.yaml: a valid deployment with 3 targets
    scenario.yaml: a valid scenario with 8 workloads and 67 actions
    ");
    assert_eq!(ended.stderr, "");
}

/// The example has every key that the schema knows, so that none is left untested.
#[test]
fn the_example_with_every_key_misses_none() {
    for (kind, text) in [("scenario", SCENARIO), ("deployment", DEPLOYMENT)] {
        let printed = Bench::new().run(&["schema", kind]).expect_code(0).stdout;
        let schema: serde_json::Value = serde_json::from_str(&printed).unwrap();
        let definitions = schema["definitions"].as_object().into_iter().flatten().map(|(_, value)| value);
        for object in definitions.chain([&schema]) {
            for name in object["properties"].as_object().into_iter().flatten().map(|(name, _)| name) {
                let elsewhere = [
                    "none",
                    "basic",
                    "bearer",
                    "oauth2",
                    "command",
                    "token_url",
                    "client_id",
                    "client_secret",
                    "scope",
                    "audience",
                    "style",
                    "run",
                    "header",
                    "lifetime",
                    "pointer",
                    "timeout",
                    "cloud",
                    "user_id",
                    "user_domain_id",
                    "application_credential_id",
                    "application_credential_name",
                    "application_credential_secret",
                    "project_id",
                    "project_domain_id",
                    "domain_name",
                    "domain_id",
                    "system_scope",
                    "demo",
                    "slow_percent",
                    "slow_query",
                    "slowdown",
                    "pool",
                    "token",
                    "descriptors",
                    "iteration",
                    "runner",
                    "sla",
                ];
                let there = text.contains(&format!("{name}:"));
                assert!(
                    there || elsewhere.contains(&name.as_str()),
                    "{kind}: `{name}` is not in the example"
                );
            }
        }
    }
}
