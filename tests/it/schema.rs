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
pub(crate) const DEPLOYMENT: &str = r#"
name: everything
targets:
  default: http://127.0.0.1:8080/base
  other: { env: OTHER_URL, default: "https://[::1]:8443" }
  nova: { service: compute, interface: internal, region: RegionOne, version: v2.1, microversion: "2.95", url: "http://127.0.0.1:8774/v2.1" }
catalog: { region: { default: RegionOne, env: OS_REGION_NAME_UNSET }, interface: public }
targets_allowed: [svc.example, "*.cloud.example:8443"]
tls: { verify: false, ca: ca.pem, sni: { default: inner.example }, cert: client.pem, key: client.key }
http: { version: 1.1 }
dns: { servers: [10.0.0.2, "127.0.0.1:5353"], hosts: { api.example: 10.0.0.7, b.example: [10.0.0.8, "::1"] } }
proxy: { http: { env: NO_SUCH_PROXY, default: "http://proxy.example:3128" }, https: { file: proxy.txt }, except: [10.0.0.0/8] }
headers: { User-Agent: somebody, X-Secret: { file: secret.txt } }
auth:
  keystone:
    auth_url: http://127.0.0.1:5000/v3
    username: admin
    password: { env: PASSWORD_OF_EVERYTHING }
    project_name: admin
    user_domain_name: Default
    project_domain_name: Default
profiler:
  enabled: true
  hmac_key: { file: secret.txt }
  hmac_keys: [{ file: secret.txt }, { env: NO_SUCH_KEY, default: "" }]
  connection_string: { env: NO_SUCH_COLLECTOR, default: "redis://127.0.0.1:6379" }
  headers: [osprofiler, w3c, tracestate, baggage]
  receive: 127.0.0.1:4318
  forward: http://127.0.0.1:4319
"#;

pub(crate) const SCENARIO: &str = r#"
title: Everything that a scenario can say
deployment: everything.yaml
variables:
  person: admin
  count: 3
  list: [1, 2]
  secret: { file: secret.txt }
data:
  people: { file: people.tsv, format: csv, delimiter: "\t", order: shuffled, per: user, on_end: repeat }
  sizes: { rows: [1, 2] }
seed: 7
profile: { control: 10% }
probe: { pairs: 20 }
timeout: 1h30m
trace: { fetch: all, limit: 100, settle: 2s }
graceful_stop: 5s
http:
  connections: shared
  max_connections: 10
  redirects: 3
  decompress: true
  max_body: 1MiB
  max_head: 64 kB
  max_headers: 100
  max_trailers: 4096
  resend: safe
  cookies: iteration
contexts: { volumes: { size: 1, volumes_per_tenant: 2, type: lvm } }
setup:
  - action: prepare
    post: /v3/things
    form: { name: "{{ person }}", size: 5, public: true }
    extract: { thing: { pointer: /thing/id, default: none, secret: true } }
teardown:
  - action: tidy up
    delete: /v3/things/{{ thing }}
    expect: { status: [2xx, 404] }
workloads:
  - name: first
    runner: { serial: { times: 5, timeout: 10 } }
    iteration: &iteration
      - action: log in
        post: /v3/auth/tokens
        target: other
        auth: false
        headers: { X-Trace: "{{ trace_id }}" }
        query: { n: "{{ iteration }}", exact: true, limit: 10 }
        json: { user: "{{ auth.username }}", count: "{{ count + 1 }}", list: [1, { a: ~ }] }
        timeout: 5s
        redirects: 0
        decompress: false
        max_body: 65536
        expect:
          status: 201
          headers: { Content-Type: { contains: json }, Server: { matches: "^x" } }
          body: { equals: "{}" }
          json:
            $.ok: true
            "$.a[0]": { exists: false }
            $.n: { eq: 1, ne: 2, gt: 0, ge: "{{ count }}", lt: 1e3, le: 5, one_of: [1, null], not: { type: [string, "null"] } }
          variables: { id: { type: string, length: { ge: 1 } }, number: { length: 3 } }
          latency: 250ms
        extract:
          token: { header: X-Subject-Token }
          id: { json: $.token.user.id }
          number: { regex: "n=([0-9]+)" }
      - think: 100ms
      - { action: get, get: "/{{ id }}/{{ number }}", tags: { team: identity } }
      - { action: head, head: /, headers: { X-Auth-Token: "{{ token }}" } }
      - { action: put, put: /, body: "{{ person }}" }
      - { action: patch, patch: /, file: upload.bin, gzip: true }
      - { action: purge, request: PURGE /cache, cookies: false, extract: { sid: { cookie: session, default: "" } } }
      - { action: upload, post: /, query: { tag: [a, b] }, multipart: { a: 1, f: { file: upload.bin, filename: "{{ person }}", type: image/png } } }
      - { action: options, options: "http://127.0.0.1:8080/x" }
  - name: second
    runner: { constant: { times: 100, concurrency: 10, timeout: 1m, max_cpu_count: 2 } }
    iteration: *iteration
    sla: &sla
      failure_rate: { min: 0, max: 0.5 }
      max_seconds_per_iteration: 4.0
      max_avg_duration: 1
      outliers: { max: 3, min_iterations: 10, sigmas: 4.5 }
      performance_degradation: { max_degradation: 900 }
      thresholds:
        - p(99) < 250ms
        - { threshold: rate(errors) <= 1%, window: 30s, min_samples: 100, severity: warn }
        - { threshold: p50 < 1s, abort_on_fail: true, delay: 5s }
  - name: third
    runner: { constant_for_duration: { duration: 30s, concurrency: 2 } }
    iteration: [{ get: / }]
    sla: { <<: *sla, max_avg_duration: 2 }
  - name: fourth
    start_after: 5s
    runner: { rps: { rps: 5.5, times: 10, max_concurrency: 20, max_queue: 0, timeout: 5, random: poisson, pacing: precise, max_cpu_count: 1 } }
    warm_up: 10s
    iteration: [{ get: / }]
    sla: { max_avg_duration_per_atomic: { GET /: 1 }, thresholds: ['p95(action "GET /") < 1s'] }
  - name: fifth
    runner: { rps: { rps: { start: 1, end: 10, step: 2, duration: 3s }, duration: 60, pacing: timer } }
    warm_up: { times: 100 }
    end: response
    iteration: [{ get: / }]
  - name: sixth
    runner: { ramping: { start: 2, stages: [ { duration: 1m, concurrency: 20 }, { duration: 5, concurrency: 0 } ] } }
    end: asynchronous
    iteration: [{ get: / }]
  - name: seventh
    end: { asynchronous: { deadline: 30s } }
    runner:
      ramping: { stepped: true, stages: [ { duration: 1m, rps: 20 } ], max_concurrency: 10, max_queue: 5, pacing: precise }
    iteration: [{ get: / }]
  - name: eighth
    runner: { serial: { times: 2 } }
    contexts:
      users:
        tenants: 2
        users_per_tenant: 3
        user_choice_method: round_robin
        project_domain: Default
        user_domain: Default
        resource_management_workers: 4
      quotas: { nova: { instances: 10 }, neutron: { port: -1 }, cinder: { volumes: 5 } }
      flavors: [{ name: tiny, ram: 64, vcpus: 1, disk: 1, ephemeral: 0, swap: 0, extra_specs: { "hw:cpu_policy": shared } }]
      network:
        start_cidr: 10.9.0.0/24
        networks_per_tenant: 2
        subnets_per_network: 2
        network_create_args: { mtu: 1400 }
        dns_nameservers: [9.9.9.9]
        router: { external: false, external_gateway_info: { network_id: n } }
      images:
        image_url: upload.bin
        disk_format: raw
        container_format: bare
        images_per_tenant: 2
        visibility: private
        min_ram: 1
        min_disk: 1
    iteration:
      - { include: steps.yaml, as: again, with: { who: "{{ person }}" } }
      - group: browse
        steps:
          - action: wait
            get: /jobs/7
            extract: { state: { json: $.state } }
            poll: { until: "{{ state == 'done' }}", fail_if: "{{ state == 'failed' }}", interval: 1s, deadline: 1m }
          - { together: page, steps: [{ get: /style }, { get: /script }] }
      - if: "{{ count > 2 }}"
        then: [{ set: { page: 1 } }, { log: "{{ count }}" }]
        else: [{ stop_iteration: true }]
      - { repeat: 3, as: round, steps: [{ action: round, get: "/{{ round }}" }] }
      - { for_each: "{{ list }}", as: number, steps: [{ action: number, get: "/{{ number }}" }] }
      - { while: count < 3, max: 5, steps: [{ set: { count: "{{ count + 1 }}" } }] }
      - choice:
          - { weight: 3, steps: [{ think: { min: 1s, max: 3s } }] }
          - { steps: [{ think: { mean: 2s, max: 10s } }, { fail: "no {{ person }}" }] }
      - pace: 10s
parallel: true
"#;

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
    bench.write("steps.yaml", "steps: [{ action: greet, get: \"/{{ who }}\" }]\n");
    bench.write("everything.yaml", DEPLOYMENT);
    bench.write("scenario.yaml", SCENARIO);
    let mut command = bench.command(&["validate", "everything.yaml", "scenario.yaml"]);
    let ended = Bench::end(command.env("PASSWORD_OF_EVERYTHING", "pw")).expect_code(0);
    insta::assert_snapshot!(ended.stdout, @r"
    everything.yaml: a valid deployment with 3 targets
    scenario.yaml: a valid scenario with 8 workloads and 27 actions
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
                    "token",
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
