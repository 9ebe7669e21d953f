//! Resolved deployments: references, Rally's documents, warnings, and whether iterations are profiled.

use std::path::Path;

use bench::base::secret::Secret;
use bench::plan::Plan;
use bench::plan::deployment::{self, Auth, ResolvedDeployment};
use bench::plan::keystone::Credentials;
use bench::plan::references::Env;
use bench::plan::scenario::{self, PlanOptions};
use bench::text::yaml;

use crate::support::Bench;

fn env(name: &str) -> Option<String> {
    match name {
        "KEY" => Some("key from the environment".to_owned()),
        "URL" => Some("http://env:1".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

/// The deployment of a file, or the messages of its faults.
fn load(path: &Path, text: &str) -> Result<ResolvedDeployment, Vec<String>> {
    let source = yaml::source(&path.display().to_string(), text.as_bytes()).unwrap();
    deployment::load(path, source, Env::new(&env))
        .map_err(|rejected| rejected.faults.into_iter().map(|fault| fault.message).collect())
}

/// The same for a file that only its owner can read.
fn resolved(text: &str) -> Result<ResolvedDeployment, Vec<String>> {
    let bench = Bench::new();
    bench.write("secret.txt", "  key from a file  \r\nnot this line\n");
    let path = bench.write("d.yaml", text);
    permit(&path, 0o600);
    load(&path, text)
}

#[cfg(unix)]
fn permit(path: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn exposed(secret: Option<&Secret>) -> Option<&str> {
    secret.map(Secret::expose)
}

#[test]
fn references_are_resolved() {
    for (reference, expected) in [
        ("inline", Ok(Some("inline"))),
        ("\"12345\"", Ok(Some("12345"))),
        ("{ env: KEY }", Ok(Some("key from the environment"))),
        ("{ env: KEY, default: other }", Ok(Some("key from the environment"))),
        ("{ env: NOT_SET, default: other }", Ok(Some("other"))),
        ("{ env: EMPTY, default: other }", Ok(Some("other"))),
        ("{ env: NOT_SET, default: \"\" }", Ok(None)),
        ("{ file: secret.txt }", Ok(Some("  key from a file"))),
        ("{ env: NOT_SET }", Err("the environment variable NOT_SET is not set")),
        ("{ env: EMPTY }", Err("the environment variable EMPTY is empty")),
    ] {
        let text = format!("targets: {{ default: 'http://h' }}\nprofiler: {{ hmac_key: {reference} }}\n");
        let deployment = resolved(&text);
        let found = deployment.as_ref().map(|deployment| exposed(deployment.hmac_key()));
        assert_eq!(found.map_err(|faults| faults.join(", ")), expected.map_err(str::to_owned), "{reference}");
    }
}

/// What templates see of a login.
fn values(credentials: &Credentials) -> String {
    let values = credentials.values().into_iter().map(|(name, value)| format!("{name}={value}"));
    values.collect::<Vec<_>>().join(" ")
}

#[test]
fn targets_default_to_the_origin_of_the_auth_url() {
    let keystone = "auth: { keystone: { auth_url: 'http://h:5000/identity', username: u, password: p, project_name: q } }\n";
    let deployment = resolved(keystone).unwrap();
    assert_eq!(deployment.targets.len(), 1);
    assert_eq!(deployment.targets[0].1.to_string(), "http://h:5000");
    let Auth::Keystone(credentials) = &deployment.auth else { panic!("{}", deployment.auth.kind()) };
    assert_eq!(credentials.auth_url.to_string(), "http://h:5000/identity/v3");
    assert_eq!(
        values(credentials),
        "username=u user_domain_name=Default password=p project_name=q project_domain_name=Default"
    );
    let both = format!("{keystone}targets: {{ default: {{ env: URL }}, x: 'https://x/' }}");
    let targets: Vec<_> =
        resolved(&both).unwrap().targets.iter().map(|(name, url)| format!("{name}={url}")).collect();
    assert_eq!(targets, ["default=http://env:1", "x=https://x"]);
}

#[test]
fn the_first_key_signs_and_all_are_kept() {
    let text = "targets: { default: 'http://h' }\nprofiler: { hmac_keys: [a, { env: KEY }] }\n";
    let deployment = resolved(text).unwrap();
    assert_eq!(exposed(deployment.hmac_key()), Some("a"));
    let keys: Vec<_> = deployment.hmac_keys.iter().map(Secret::expose).collect();
    assert_eq!(keys, ["a", "key from the environment"]);
}

/// What Rally itself was given when the reports among the vectors were made.
const ENV_SPEC: &str = include_str!("../vectors/rally/keystone-env-spec.json");

#[test]
fn rally_s_environment_spec_is_read_as_it_is() {
    let deployment = resolved(ENV_SPEC).unwrap();
    let Auth::Keystone(credentials) = &deployment.auth else { panic!("{}", deployment.auth.kind()) };
    assert_eq!(credentials.auth_url.to_string(), "http://127.0.0.1:25000/v3");
    assert!(
        values(credentials)
            .starts_with("username=admin user_domain_name=Default password=adminpw project_name=admin"),
        "{}",
        values(credentials)
    );
    assert_eq!(deployment.targets[0].1.to_string(), "http://127.0.0.1:25000");
    assert_eq!(exposed(deployment.hmac_key()), Some("SECRET_KEY"));
    assert_eq!(exposed(deployment.connection_string.as_ref()), Some("redis://127.0.0.1:26379"));
    assert!(deployment.tls.verify && deployment.profiler_enabled);
    assert_eq!(deployment.warnings.len(), 1, "{:?}", deployment.warnings);
    assert!(deployment.warnings[0].contains("well-known default SECRET_KEY"));
}

#[test]
fn rally_s_deployments_are_read_as_json_and_as_yaml() {
    let old_names = r#"{"openstack": {"auth_url": "http://h:5000/v2.0/", "region_name": "RegionOne",
        "endpoint": null, "endpoint_type": null, "https_insecure": true, "https_cacert": "", "https_key": "",
        "profiler_hmac_key": null, "profiler_conn_str": null,
        "admin": {"username": "a", "password": "p", "tenant_name": "demo"},
        "api_info": {"keystone": {"version": 3}}}}"#;
    let deployment = resolved(old_names).unwrap();
    let Auth::Keystone(credentials) = &deployment.auth else { panic!("{}", deployment.auth.kind()) };
    assert_eq!(credentials.auth_url.to_string(), "http://h:5000/v3");
    assert!(values(credentials).contains("project_name=demo "), "{}", values(credentials));
    assert_eq!(deployment.lookup.region.as_deref(), Some("RegionOne"));
    assert!(!deployment.tls.verify);
    assert!(deployment.hmac_key().is_none() && deployment.connection_string.is_none());

    let users_only = "openstack:\n  auth_url: https://h/identity/v3\n  users:\n    - username: u\n      \
        password: {env: KEY}\n      project_name: p\n      domain_name: ''\n    - {username: v, password: w, project_name: p}\n";
    let deployment = resolved(users_only).unwrap();
    let Auth::Keystone(credentials) = &deployment.auth else { panic!("{}", deployment.auth.kind()) };
    assert!(
        values(credentials)
            .starts_with("username=u user_domain_name=Default password=key from the environment"),
        "{}",
        values(credentials)
    );
    assert_eq!(deployment.targets[0].1.to_string(), "https://h");
}

#[test]
fn every_fault_of_a_rally_document_is_reported_at_once() {
    let text = r#"{"openstack": {"auth_url": "nowhere", "https_insecure": "no", "profiler_hmac_ky": "k",
        "admin": {"username": {"env": "NOT_SET"}, "password": {"file": "none"}, "project": "x"}}}"#;
    let mut faults = resolved(text).err().unwrap();
    faults.sort();
    let expected = [
        "`https_insecure` must be true or false, but is the text `no`",
        "cannot read",
        "not a URL",
        "the environment variable NOT_SET is not set",
        "unknown key `profiler_hmac_ky` in `openstack`",
        "unknown key `project` in `admin`",
    ];
    assert_eq!(faults.len(), expected.len(), "{faults:#?}");
    for (fault, expected) in faults.iter().zip(expected) {
        assert!(fault.contains(expected), "{faults:#?}");
    }
}

#[cfg(unix)]
#[test]
fn what_somebody_should_look_at_is_a_warning() {
    let target = "targets: { default: 'http://h' }\n";
    for (rest, mode, expected) in [
        ("profiler: { hmac_key: inline }", 0o600, &[][..]),
        ("profiler: { hmac_key: inline }", 0o640, &["others can read it"]),
        ("profiler: { hmac_key: inline }", 0o604, &["others can read it"]),
        ("profiler: { hmac_key: { env: KEY } }", 0o644, &[]),
        (
            "profiler: { hmac_key: SECRET_KEY }",
            0o644,
            &["others can read it", "well-known default SECRET_KEY"],
        ),
        ("profiler: { hmac_key: { env: NOT_SET, default: SECRET_KEY } }", 0o600, &["well-known default"]),
        ("profiler: { hmac_key: { env: NOT_SET, default: inline } }", 0o644, &["others can read it"]),
        ("profiler: { hmac_key: { env: NOT_SET, default: '' } }", 0o644, &[]),
        ("profiler: { connection_string: 'redis://:pw@h' }", 0o644, &["others can read it"]),
        ("profiler: { connection_string: 'redis://h' }", 0o644, &[]),
        ("auth: { bearer: { token: inline } }", 0o644, &["others can read it"]),
        ("auth: { basic: { username: u, password: inline } }", 0o644, &["others can read it"]),
        ("headers: { X-Auth-Token: inline }", 0o644, &["others can read it"]),
        ("headers: { User-Agent: inline }", 0o644, &[]),
        ("tls: { verify: false }", 0o644, &[]),
    ] {
        let bench = Bench::new();
        let text = format!("{target}{rest}\n");
        let path = bench.write("d.yaml", &text);
        permit(&path, mode);
        let warnings = load(&path, &text).unwrap().warnings;
        assert_eq!(warnings.len(), expected.len(), "{rest} {mode:o}: {warnings:?}");
        for (warning, expected) in warnings.iter().zip(expected) {
            assert!(warning.contains(expected), "{rest} {mode:o}: {warnings:?}");
        }
    }
}

fn plan(deployment: &str, scenario: &str, options: &PlanOptions) -> Plan {
    let text =
        format!("title: t\nrunner: {{ serial: {{ times: 1 }} }}\niteration: [{{ get: / }}]\n{scenario}");
    let document = scenario::read(yaml::source("s.yaml", text.as_bytes()).unwrap());
    let document = document.unwrap_or_else(|rejected| panic!("{:?}", rejected.faults));
    let deployment = resolved(&format!("targets: {{ default: 'http://h' }}\n{deployment}")).unwrap();
    scenario::build(Path::new("s.yaml"), &document, deployment, options, Env::new(&env))
        .unwrap_or_else(|faults| panic!("{faults:?}"))
}

#[test]
fn iterations_are_profiled_unless_somebody_switches_it_off() {
    let (on, off) = (PlanOptions::default(), PlanOptions { no_profile: true, ..PlanOptions::default() });
    let key = "profiler: { hmac_key: k }";
    let disabled = "profiler: { hmac_key: k, enabled: false }";
    for (deployment, scenario, options, expected) in [
        (key, "", &on, None),
        (key, "profile: true", &on, None),
        ("profiler: { hmac_key: k, enabled: true }", "", &on, None),
        ("profiler: { hmac_keys: [k] }", "", &on, None),
        (key, "", &off, Some("--no-profile")),
        (key, "profile: false", &on, Some("profile: false")),
        (disabled, "", &on, Some("profiler.enabled: false")),
        (disabled, "profile: true", &on, Some("profiler.enabled: false")),
        ("", "", &on, Some("no HMAC key")),
        ("profiler: { enabled: true }", "", &on, Some("no HMAC key")),
        ("profiler: { hmac_key: { env: NOT_SET, default: '' } }", "", &on, Some("no HMAC key")),
        ("", "profile: false", &off, Some("--no-profile")),
    ] {
        let found = plan(deployment, scenario, options).profiling_off;
        let fits = match (&found, expected) {
            (None, None) => true,
            (Some(found), Some(expected)) => found.contains(expected),
            _ => false,
        };
        assert!(fits, "{deployment}; {scenario}; {options:?}: {found:?}");
    }
}

#[test]
fn variables_come_from_the_file_the_environment_and_the_command_line() {
    let set = [bench::plan::given::CommandLineValue::parse("user=set", Env::new(&|_| None)).unwrap()]
        .into_iter()
        .collect();
    let options = PlanOptions { set, ..PlanOptions::default() };
    let variables = "variables: { user: a, n: 3, key: { env: KEY }, map: { env: { x: 1 } } }";
    let plan = plan("", variables, &options);
    let value = |name: &str| plan.variables.iter().find(|(n, _)| &**n == name).unwrap().1.to_string();
    assert_eq!(value("user"), "set");
    assert_eq!(value("n"), "3");
    assert_eq!(value("key"), "key from the environment");
    assert!(value("map").contains('x'));
}
