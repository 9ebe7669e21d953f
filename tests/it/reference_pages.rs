//! The tables of keys in `scenarios/reference*.md` and `deployments/reference.md` are generated from the schemas, and every
//! key has an example that `bench validate` accepts.
//!
//! `BENCH_UPDATE_REFERENCE=1 cargo test --all-features --test it -- reference_pages` rewrites the tables.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::support::Bench;

const BEGIN: &str = "<!-- made from the schema: begin -->\n";
const END: &str = "<!-- made from the schema: end -->\n";

/// The examples of a kind of file, from `tests/vectors/reference/`.
fn examples(kind: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/vectors/reference/{kind}.yaml"));
    serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn schema(kind: &str) -> Value {
    serde_json::from_str(&Bench::new().run(&["schema", kind]).expect_code(0).stdout).unwrap()
}

/// What a section describes: the whole file by its title, or a definition of the schema.
fn described<'a>(schema: &'a Value, section: &str) -> &'a Value {
    let definition = &schema["definitions"][section];
    if definition.is_null() { schema } else { definition }
}

/// The keys of an object, in their order; those of each form where it has several.
fn keys(object: &Value) -> Vec<(&String, &Value)> {
    let forms = ["oneOf", "anyOf"].into_iter().filter_map(|of| object[of].as_array()).flatten();
    let own = [object].into_iter().chain(forms);
    own.filter_map(|form| form["properties"].as_object()).flatten().collect()
}

/// The example of a key and its neighbours, unless that is the section's.
fn example(entry: &Value) -> (&str, Option<&Value>) {
    match entry {
        Value::String(text) => (text, None),
        entry => (entry["example"].as_str().unwrap(), entry.get("with")),
    }
}

/// The page that has the section of this title. Pages are short enough to be read.
fn page_of(kind: &str, title: &str) -> &'static str {
    const PAGES: [(&str, &[&str]); 4] = [
        ("reference-contexts.md", &["`contexts", "An entry of `contexts"]),
        ("reference-load.md", &["`capacity", "`runner", "`rps", "`warm_up", "`end", "An entry of `stages"]),
        ("reference-steps.md", &["A step", "`poll", "`think", "An entry of `choice", "`multipart"]),
        (
            "reference-checks.md",
            &[
                "`expect",
                "Comparisons",
                "`extract",
                "`measure",
                "`stream",
                "`until",
                "`send`",
                "`receive`",
                "`close`",
            ],
        ),
    ];
    let has = |(_, titles): &&(&str, &[&str])| titles.iter().any(|begin| title.starts_with(begin));
    match kind {
        "scenario" => PAGES.iter().find(has).map_or("reference.md", |(page, _)| page),
        _ => "reference.md",
    }
}

/// Schema, sections and the page that is written.
#[derive(Clone, Copy)]
struct ReferencePageSource<'a> {
    kind: &'a str,
    schema: &'a Value,
    sections: &'a Map<String, Value>,
    page: &'a str,
}

/// A table for each section of a page.
fn tables(reference: ReferencePageSource<'_>) -> String {
    let ReferencePageSource { schema, sections, .. } = reference;
    let mut page = String::new();
    let here = |title: &str| page_of(reference.kind, title) == reference.page;
    for (name, section) in sections.iter().filter(|(_, section)| here(&text(&section["title"]))) {
        writeln!(
            page,
            "\n### {}\n\n| key | value | meaning | example |\n|---|---|---|---|",
            text(&section["title"])
        )
        .unwrap();
        for (key, value) in keys(described(schema, name)) {
            let meaning = text(&value["description"]);
            let (example, _) = example(&section["keys"][key]);
            let cells = [format!("`{key}`"), values(reference, value), meaning, format!("`{example}`")];
            let cells = cells.map(|cell| cell.replace('|', "\\|").replace('\n', " "));
            writeln!(page, "| {} |", cells.join(" | ")).unwrap();
        }
    }
    if !here("Kinds of values") {
        return page;
    }
    page.push_str("\n### Kinds of values\n\n| value | what it is |\n|---|---|\n");
    for (name, definition) in schema["definitions"].as_object().unwrap() {
        if let Some(short) = scalar(name) {
            writeln!(page, "| {short} | {} |", text(&definition["description"])).unwrap();
        }
    }
    page
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Short names of values that the last table explains.
fn scalar(definition: &str) -> Option<&'static str> {
    Some(match definition {
        "Duration" => "duration",
        "DurationOrSeconds" => "seconds",
        "Size" => "size",
        "Share" => "share",
        "Slowdown" => "percentage",
        "DeploymentPlace" => "path or map",
        "Proxy" => "proxy",
        "CommandLine" => "command",
        "Target" => "target",
        "Reference" => "text or reference",
        "SecretReference" => "secret or reference",
        "LinesOfstring" => "text or reference, or a list",
        "LinesOfSecretReference" => "secret or reference, or a list",
        "Variable" => "any value",
        "Condition" => "condition",
        "Expression" => "expression",
        "Count" => "count",
        "Think" => "pause",
        "TextCondition" => "condition on a text",
        "Status" => "status",
        "Threshold" => "threshold",
        _ => return None,
    })
}

/// The values that a key allows, in words.
fn values(reference: ReferencePageSource<'_>, value: &Value) -> String {
    let ReferencePageSource { kind, schema, sections, page } = reference;
    if let Some(path) = value["$ref"].as_str() {
        let name = path.trim_start_matches("#/definitions/");
        return match (sections.get(name), scalar(name)) {
            (Some(section), _) => {
                let title = text(&section["title"]);
                let other = page_of(kind, &title);
                let file = if other == page { "" } else { other };
                format!("[map]({file}#{})", anchor(&title))
            }
            (None, Some(short)) => short.to_owned(),
            (None, None) => values(reference, described(schema, name)),
        };
    }
    if let Some(all) = value["allOf"].as_array() {
        return values(reference, &all[0]);
    }
    if let Some(all) = value["enum"].as_array() {
        return one_of(all.iter().map(|value| format!("`{}`", value.to_string().trim_matches('"'))));
    }
    if let Some(forms) = value["anyOf"].as_array().or(value["oneOf"].as_array()) {
        return one_of(
            forms.iter().filter(|form| form["type"] != "null").map(|form| values(reference, form)),
        );
    }
    let types = match &value["type"] {
        Value::Array(types) => types.clone(),
        Value::Null => return "any value".to_owned(),
        single => vec![single.clone()],
    };
    let types = types.iter().filter_map(Value::as_str).filter(|name| *name != "null");
    one_of(types.map(|name| match name {
        "boolean" => "`true`, `false`".to_owned(),
        "string" => "text".to_owned(),
        "integer" => format!("whole number{}", limits(value)),
        "number" => format!("number{}", limits(value)),
        "array" => format!("list of: {}", values(reference, &value["items"])),
        _ if value["additionalProperties"].is_object() => {
            format!("map of names to: {}", values(reference, &value["additionalProperties"]))
        }
        _ => "map".to_owned(),
    }))
}

fn limits(value: &Value) -> String {
    match (value["minimum"].as_f64(), value["exclusiveMinimum"].as_f64(), value["maximum"].as_f64()) {
        (Some(low), _, Some(high)) => format!(" from {low} to {high}"),
        (Some(low), _, None) => format!(" from {low}"),
        (None, Some(low), _) => format!(" above {low}"),
        _ => String::new(),
    }
}

fn one_of(values: impl Iterator<Item = String>) -> String {
    let mut seen = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen.join(" or ")
}

/// GitHub's anchor of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|char| char.is_alphanumeric() || [' ', '-', '_'].contains(char));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// The whole document of an example.
fn document(examples: &Value, section: &Value, entry: &Value) -> Value {
    let (example, with) = example(entry);
    let own = entry.get("document").or(section.get("document"));
    let mut document = own.unwrap_or(&examples["document"]).clone();
    let place = entry.get("at").unwrap_or(&section["at"]);
    let place = at(&mut document, place.as_str().unwrap());
    if let Some(base) = with.or(section.get("base")) {
        *place = base.clone();
    }
    let added: Map<String, Value> =
        serde_yaml::from_str(example).unwrap_or_else(|error| panic!("{example}: {error}"));
    place.as_object_mut().unwrap().extend(added);
    document
}

/// The place that a JSON pointer names; what is missing on the way is made.
fn at<'a>(document: &'a mut Value, pointer: &str) -> &'a mut Value {
    pointer.split('/').skip(1).fold(document, |place, step| {
        if step == "0" {
            if !place.is_array() {
                *place = json!([{}]);
            }
            return &mut place[0];
        }
        if !place.is_object() {
            *place = json!({});
        }
        &mut place[step]
    })
}

fn is_accepted(kind: &str) {
    let bench = Bench::new();
    bench.write(
        "d.yaml",
        "targets: { default: 'http://127.0.0.1:1', billing: 'http://127.0.0.1:2' }\n\
         auth: { keystone: { auth_url: 'http://127.0.0.1:1/v3', username: a, password: { env: OS_PASSWORD }, project_name: a } }\n",
    );
    bench.write("staging.yaml", "targets: { default: 'http://127.0.0.1:1' }");
    bench.write("users.csv", "name\nada\n");
    bench.write("clouds.yaml", "clouds: { devstack: { auth: { auth_url: 'http://keystone:5000', username: a, password: p, project_name: a } } }\n");
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::new(["h".to_owned()]).unwrap().self_signed(&key).unwrap();
    bench.write("staging-ca.pem", certificate.pem());
    bench.write("client.pem", certificate.pem());
    bench.write("client.key", key.serialize_pem());
    bench.write("osprofiler-key", "key-of-the-file");
    bench.write("photo.png", "an image");
    bench.write("shop.proto", include_str!("../grpc/shop.proto"));
    bench.write("shop.binpb", include_bytes!("../grpc/shop.binpb"));
    bench.write("log-in.yaml", "defaults: { user: ada }\nsteps: [{ get: \"/log-in/{{ user }}\" }]\n");
    bench.write("staging-token", "token-of-the-file");
    let (examples, schema) = (examples(kind), schema(kind));
    let sections = examples["sections"].as_object().unwrap();
    let mut files = Vec::new();
    for (name, section) in sections {
        let known: BTreeSet<&String> =
            keys(described(&schema, name)).into_iter().map(|(key, _)| key).collect();
        let shown: BTreeSet<&String> = section["keys"].as_object().unwrap().keys().collect();
        assert_eq!(known, shown, "{kind}: each key of {name} has an example");
        for (key, entry) in section["keys"].as_object().unwrap() {
            let file = format!("{name}-{key}.yaml");
            bench.write(&file, serde_yaml::to_string(&document(&examples, section, entry)).unwrap());
            files.push(file);
        }
    }
    let with_keys =
        schema["definitions"].as_object().unwrap().iter().filter(|(_, object)| !keys(object).is_empty());
    let missing: Vec<&String> = with_keys
        .map(|(name, _)| name)
        .filter(|name| scalar(name).is_none() && !sections.contains_key(*name))
        .collect();
    assert!(missing.is_empty(), "{kind}: {missing:?} have no section in tests/vectors/reference/{kind}.yaml");
    let mut arguments = vec!["validate"];
    if kind == "scenario" {
        arguments.extend(["-d", "d.yaml"]);
    }
    arguments.extend(files.iter().map(String::as_str));
    let mut command = bench.command(&arguments);
    command.env("PROXY_URL", "http://proxy.example:3128");
    for variable in [
        "CLIENT_SECRET",
        "SHOP_PASSWORD",
        "STAGING_TOKEN",
        "OS_PASSWORD",
        "OS_TOKEN",
        "OS_APPLICATION_CREDENTIAL_SECRET",
        "NEW_KEY",
        "OSPROFILER_HMAC_KEY",
    ] {
        command.env(variable, "value-of-the-environment");
    }
    command
        .env("OS_AUTH_URL", "http://keystone:5000/v3")
        .env("OSPROFILER_CONNECTION_STRING", "redis://collector");
    Bench::end(&mut command).expect_code(0);
}

fn is_made_from_the_schema(kind: &str, pages: &[&str]) {
    let (schema, examples) = (schema(kind), examples(kind));
    let sections = examples["sections"].as_object().unwrap();
    for name in pages {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("{kind}s/{name}"));
        let page = std::fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("the place of the tables");
        let (_, after) = rest.split_once(END).expect("the end of the tables");
        let reference = ReferencePageSource { kind, schema: &schema, sections, page: name };
        let made = format!("{before}{BEGIN}{}\n{END}{after}", tables(reference));
        if std::env::var_os("BENCH_UPDATE_REFERENCE").is_some() {
            std::fs::write(&path, &made).unwrap();
        } else {
            assert!(
                made == page,
                "{} is out of date: BENCH_UPDATE_REFERENCE=1 cargo test --all-features --test it -- reference_pages",
                path.display()
            );
        }
    }
}

#[test]
fn every_key_of_a_scenario_has_an_example_that_is_accepted() {
    is_accepted("scenario");
}

#[test]
fn every_key_of_a_deployment_has_an_example_that_is_accepted() {
    is_accepted("deployment");
}

#[test]
fn the_reference_of_scenarios_is_made_from_their_schema() {
    is_made_from_the_schema(
        "scenario",
        &[
            "reference.md",
            "reference-load.md",
            "reference-steps.md",
            "reference-checks.md",
            "reference-contexts.md",
        ],
    );
}

#[test]
fn the_reference_of_deployments_is_made_from_their_schema() {
    is_made_from_the_schema("deployment", &["reference.md"]);
}
