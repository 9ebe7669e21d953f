//! Targets that are services of a cloud's catalog, ways to log in to Keystone, `clouds.yaml`, and tokens that end.

use serde_json::Value;

use crate::cloud::{CloudBehavior, TokenCloud};
use crate::support::{Bench, CommandOutput};

const TWICE: &str = "runner: { serial: { times: 2 } }";

/// Runs a scenario with these steps in a cloud.
fn run(cloud: &TokenCloud, deployment: &str, steps: &str) -> (Bench, CommandOutput) {
    let bench = Bench::new();
    bench.write("deployment.yaml", deployment);
    let ended = run_in(&bench, "deployment.yaml", steps, &[]);
    assert!(!cloud.url().is_empty());
    (bench, ended)
}

fn run_in(bench: &Bench, deployment: &str, steps: &str, environment: &[(&str, &str)]) -> CommandOutput {
    bench.write("scenario.yaml", format!("title: t\nprobe: false\n{TWICE}\niteration: [ {steps} ]\n"));
    let mut command = bench.command(&["run", "scenario.yaml", "-d", deployment]);
    for name in ["OS_CLOUD", "OS_CLIENT_CONFIG_FILE", "OS_CLIENT_SECURE_FILE", "XDG_CONFIG_HOME"] {
        command.env_remove(name);
    }
    command.env("HOME", bench.path()).envs(environment.iter().copied());
    Bench::end(&mut command)
}

/// On one line, for messages that are wrapped.
fn said(ended: &CommandOutput) -> String {
    let framed = ended.stderr.replace(['│', '|'], " ");
    framed.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The paths that were asked for, without logins.
fn paths(cloud: &TokenCloud) -> Vec<String> {
    let seen = cloud.server.seen().into_iter().map(|seen| seen.path);
    let mut paths: Vec<String> = seen.filter(|path| !path.contains("/auth/tokens")).collect();
    paths.dedup();
    paths
}

#[test]
fn targets_are_services_of_the_catalog() {
    for (targets, target, expected) in [
        // Listed.
        ("targets: { nova: { service: compute, region: RegionOne } }", "nova", "/one/compute/v2.1/x"),
        ("targets: { n: { service: nova, interface: internal } }", "n", "/inside/compute/v2.1/x"),
        ("targets: { c: { service: block-storage } }", "c", "/volume/v3/p1/x"),
        ("targets: { g: { service: image, version: v1 } }", "g", "/image/v1/x"),
        (
            "catalog: { region: RegionTwo }\ntargets: { nova: { service: compute } }",
            "nova",
            "/two/compute/v2.1/x",
        ),
        // Not listed: by type, alias or project.
        ("catalog: { region: RegionTwo }", "compute", "/two/compute/v2.1/x"),
        ("catalog: { interface: internal }", "nova", "/inside/compute/v2.1/x"),
        ("", "glance", "/image/v2/x"),
        ("", "network", "/network/v2.0/x"),
        ("", "cinder", "/volume/v3/p1/x"),
        ("", "volumev3", "/volume/v3/p1/x"),
        ("", "keystone", "/identity/v3/x"),
    ] {
        let cloud = TokenCloud::start(CloudBehavior::default());
        let deployment = format!("{}\n{targets}\n", cloud.auth());
        let (bench, ended) = run(&cloud, &deployment, &format!("{{ get: /x, target: {target} }}"));
        ended.expect_code(0);
        assert_eq!(paths(&cloud), [expected], "{targets} {target}");
        // The token of the catalog is that of the load.
        assert_eq!((cloud.logins().len(), cloud.tokens_used()), (1, 1), "{targets}");
        let results = bench.results();
        let shown = results["deployment"]["targets"][target].as_str().unwrap();
        assert!(expected.starts_with(&shown[cloud.url().len()..]) && !shown.contains("invalid"), "{shown}");
    }
}

#[test]
fn a_listed_endpoint_needs_no_catalog_and_a_microversion_is_a_header() {
    let cloud = TokenCloud::start(CloudBehavior::default());
    let deployment = format!(
        "{}\ntargets:\n  default: {{ service: compute, url: '{}/own', microversion: \"2.95\" }}\n  v: {{ service: volumev3, microversion: latest }}\n",
        cloud.auth(),
        cloud.url()
    );
    let steps =
        "{ get: /a }, { get: /b, headers: { OpenStack-API-Version: compute 2.1 } }, { get: /c, target: v }";
    run(&cloud, &deployment, steps).1.expect_code(0);
    let header = |path: &str, name: &str| {
        let seen = cloud.server.seen().into_iter().find(|seen| seen.path == path).unwrap();
        seen.headers.get(name).cloned().unwrap_or_default()
    };
    for (path, general, own) in [
        ("/own/a", "compute 2.95", "2.95"),
        // An action's own header counts.
        ("/own/b", "compute 2.1", "2.95"),
        ("/volume/v3/p1/c", "volume latest", ""),
    ] {
        assert_eq!(header(path, "openstack-api-version"), general, "{path}");
        assert_eq!(header(path, "x-openstack-nova-api-version"), own, "{path}");
    }
}

#[test]
fn links_in_answers_lead_to_other_services_with_the_token() {
    let cloud = TokenCloud::start(CloudBehavior::default());
    let steps = "{ get: /a, target: glance, extract: { next: { json: $.self } } }, { get: \"{{ next }}\", target: glance }";
    run(&cloud, &cloud.auth(), steps).1.expect_code(0);
    assert_eq!(paths(&cloud)[..2], ["/image/v2/a", "/one/compute/v2.1/linked"]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_the_catalog_does_not_have_is_an_error_at_its_place() {
    for (deployment, step, code, parts) in [
        (
            "targets:\n  b: { service: baremetal }",
            "{ get: /x, target: b }",
            65,
            &[
                "deployment.yaml:3:17",
                "the cloud's catalog has no service `baremetal`",
                "it has compute, dns, identity, image",
            ][..],
        ),
        (
            "targets:\n  n: { service: compute }",
            "{ get: /x, target: n }",
            65,
            &[
                "deployment.yaml:3:17",
                "`compute` in several regions, such as RegionOne and RegionTwo",
                "add `region: RegionOne`",
            ],
        ),
        (
            "catalog: { region: RegionSix }\ntargets:\n  n: { service: compute }",
            "{ get: /x, target: n }",
            65,
            &[
                "deployment.yaml:4:17",
                "no `compute` in the region `RegionSix`",
                "its regions: RegionOne, RegionTwo",
            ],
        ),
        (
            "targets:\n  n: { service: image, interface: admin }",
            "{ get: /x, target: n }",
            65,
            &["no admin endpoint of `image`", "its interfaces: public"],
        ),
        (
            "",
            "{ get: /x, target: ironic }",
            65,
            &["scenario.yaml:4", "the cloud's catalog has no service `ironic`", "or give the target a `url`"],
        ),
        ("", "{ get: /x, target: compte }", 65, &["no service is named `compte`", "did you mean `compute`?"]),
        (
            "",
            "{ get: /x, target: dns }",
            69,
            &[
                "127.0.0.1:1",
                "the cloud's catalog names it as the endpoint of the target `dns`",
                "`interface`",
            ],
        ),
        (
            "targets: { n: { service: compute, interface: inside } }",
            "{ get: /x, target: n }",
            65,
            &["`inside` is not an interface", "public, internal or admin"],
        ),
        (
            "targets: { n: { service: compute, version: 2.1 } }",
            "{ get: /x, target: n }",
            65,
            &["`version` must be"],
        ),
        (
            "targets: { n: { service: compute, version: latest } }",
            "{ get: /x, target: n }",
            65,
            &["`latest` is not a version in a URL"],
        ),
        (
            "targets: { n: { service: compute, microversion: 2.10 } }",
            "{ get: /x, target: n }",
            65,
            &["`microversion` must be"],
        ),
        (
            "targets: { n: { service: compute, microversion: v2 } }",
            "{ get: /x, target: n }",
            65,
            &["`v2` is not a microversion"],
        ),
        ("targets: { n: { servic: compute } }", "{ get: /x, target: n }", 65, &["did you mean `service`?"]),
    ] {
        let cloud = TokenCloud::start(CloudBehavior::default());
        let (bench, ended) = run(&cloud, &format!("{}\n{deployment}\n", cloud.auth()), step);
        let said = said(&ended);
        assert!(parts.iter().all(|part| said.contains(part)), "{deployment} {step}: {said}");
        assert_eq!(ended.code, Some(code), "{said}");
        assert!(paths(&cloud).is_empty());
        let left = std::fs::read_dir(bench.path().join("runs")).map_or(0, |entries| entries.count());
        assert_eq!(left, 0, "nothing ran: {deployment}");
    }
    let cloud = TokenCloud::start(CloudBehavior::default());
    let (_, ended) = run(&cloud, "targets: { n: { service: compute } }", "{ get: /x, target: n }");
    assert!(said(&ended).contains("only Keystone has a catalog of services"), "{}", said(&ended));
}

#[test]
fn validation_sends_nothing_and_explains_what_will_be_looked_up() {
    let cloud = TokenCloud::start(CloudBehavior::default());
    let bench = Bench::new();
    bench.write("d.yaml", format!("{}\ntargets: {{ n: {{ service: compute }} }}\n", cloud.auth()));
    let iteration = "iteration: [ { get: /x, target: n }, { get: /y, target: cinder } ]";
    bench.write("s.yaml", format!("title: t\n{TWICE}\n{iteration}\n"));
    bench.run(&["validate", "s.yaml", "-d", "d.yaml"]).expect_code(0);
    let explained = bench.run(&["validate", "--explain", "s.yaml", "-d", "d.yaml"]).expect_code(0).stdout;
    assert!(explained.contains("n (in the cloud's catalog), cinder (in the cloud's catalog)"), "{explained}");
    assert!(!explained.contains("invalid") && cloud.server.seen().is_empty(), "{explained}");
}

#[test]
fn every_way_to_log_in_is_that_of_the_identity_api() {
    for (keys, pointer, expected) in [
        ("username: u, password: p, project_name: q", "/scope/project/domain/name", "Default"),
        ("user_id: u7, password: p, project_id: q9", "/scope/project/id", "q9"),
        ("user_id: u7, password: p, project_id: q9", "/identity/password/user/id", "u7"),
        ("username: u, user_domain_id: d, password: p, domain_name: e", "/scope/domain/name", "e"),
        (
            "username: u, user_domain_id: d, password: p, domain_id: e",
            "/identity/password/user/domain/id",
            "d",
        ),
        ("token: T0ken-given, project_name: q", "/identity/token/id", "T0ken-given"),
        ("token: T0ken-given", "/given", "T0ken-given"),
        (
            "application_credential_id: a, application_credential_secret: S3cret-x",
            "/identity/application_credential/secret",
            "S3cret-x",
        ),
        (
            "application_credential_name: a, username: u, application_credential_secret: s",
            "/identity/application_credential/user/name",
            "u",
        ),
    ] {
        let cloud = TokenCloud::start(CloudBehavior::default());
        let auth = format!("auth: {{ keystone: {{ auth_url: '{}/identity', {keys} }} }}", cloud.url());
        let (bench, ended) = run(&cloud, &auth, "{ get: /x, target: glance }");
        let ended = ended.expect_code(0);
        assert_eq!(cloud.logins()[0].pointer(pointer).and_then(Value::as_str), Some(expected), "{keys}");
        let log = std::fs::read_to_string(bench.run_directory().join("results.json")).unwrap();
        let words = format!("{}{}{log}", ended.stdout, ended.stderr);
        assert!(!words.contains("T0ken") && !words.contains("S3cret-x"), "{keys}");
    }
    let cloud = TokenCloud::start(CloudBehavior::default());
    let system = format!(
        "auth: {{ keystone: {{ auth_url: '{}/identity', username: u, password: p, system_scope: all }} }}",
        cloud.url()
    );
    run(&cloud, &system, "{ get: /x, target: glance }").1.expect_code(0);
    assert_eq!(cloud.logins()[0]["scope"]["system"]["all"], true);
}

#[test]
fn logins_that_are_incomplete_contradictory_or_refused_say_what_to_do() {
    for (keys, code, parts) in [
        ("username: u, password: p", 65, &["nothing says what the token is for", "add `project_name:`"][..]),
        ("username: u, project_name: p", 65, &["the user's password is missing", "add `password:`"]),
        ("password: p, project_name: p", 65, &["no user to log in as", "`application_credential_id:`"]),
        (
            "username: u, password: p, token: t, project_name: p",
            65,
            &["`password` together with `token`", "keep one way"],
        ),
        (
            "application_credential_id: a, application_credential_secret: s, project_name: p",
            65,
            &["`project_name` together with `application_credential_id`", "has a project of its own"],
        ),
        ("application_credential_id: a", 65, &["the secret of the application credential is missing"]),
        ("application_credential_name: a, application_credential_secret: s", 65, &["needs its user"]),
        (
            "username: u, password: p, project_name: p, domain_name: d",
            65,
            &["`domain_name` together with `project_name`"],
        ),
        ("username: u, password: p, system_scope: some", 65, &["`system_scope` can only be `all`"]),
        (
            "username: u, password: a-wrong-Pw7, project_name: p",
            69,
            &["answered 401", "check user, password, project"],
        ),
        (
            "application_credential_id: expired, application_credential_secret: s",
            69,
            &["answered 401", "check that the application credential exists and has not expired"],
        ),
        ("token: expired-token", 69, &["answered 401", "has not expired or been revoked"]),
    ] {
        let cloud = TokenCloud::start(CloudBehavior::default());
        let auth = format!("auth:\n  keystone: {{ auth_url: '{}/identity', {keys} }}", cloud.url());
        let (_, ended) = run(&cloud, &auth, "{ get: /x, target: glance }");
        let said = said(&ended);
        assert!(parts.iter().all(|part| said.contains(part)), "{keys}: {said}");
        assert!(code == 69 || said.contains("deployment.yaml:2"), "{said}");
        assert_eq!(ended.code, Some(code), "{keys}: {said}");
    }
}

const CLOUDS: &str = "clouds:
  one:
    region_name: RegionTwo
    auth: { auth_url: 'URL/identity/v3', username: u, project_name: p, project_domain_id: default, user_domain_id: default }
    identity_api_version: 3
  inside:
    interface: internal
    image_endpoint_override: 'URL/my-images'
    compute_default_microversion: '2.79'
    verify: false
    auth_type: v3applicationcredential
    auth: { auth_url: 'URL/identity', application_credential_id: a, application_credential_secret: s }
  odd: { auth_type: v3oidcpassword, auth: { auth_url: 'URL/identity' } }
  empty: { auth: { username: u } }
";

#[test]
fn clouds_and_their_secrets_are_read_as_openstack_s_clients_do() {
    let secure = "clouds: { one: { auth: { password: P4ss-of-secure } } }\n";
    for (place, deployment, cloud_name, target, expected) in [
        (".config/openstack", "cloud: one", "", "compute", "/two/compute/v2.1/x"),
        (".", "cloud: { env: OS_CLOUD }", "inside", "nova", "/inside/compute/v2.1/x"),
        (".", "cloud: inside", "", "image", "/my-images/x"),
        (
            ".",
            "cloud: inside\ncatalog: { interface: public, region: RegionOne }",
            "",
            "compute",
            "/one/compute/v2.1/x",
        ),
        (
            ".",
            "cloud: one\ntargets: { n: { service: nova, region: RegionOne } }",
            "",
            "n",
            "/one/compute/v2.1/x",
        ),
        // The file itself.
        (".", "-", "one", "compute", "/two/compute/v2.1/x"),
    ] {
        let cloud = TokenCloud::start(CloudBehavior::default());
        let bench = Bench::new();
        let folder = bench.path().join(place);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("clouds.yaml"), CLOUDS.replace("URL", &cloud.url())).unwrap();
        std::fs::write(folder.join("secure.yaml"), secure).unwrap();
        bench.write("deployment.yaml", deployment);
        let file = if deployment == "-" { "clouds.yaml" } else { "deployment.yaml" };
        let step = format!("{{ get: /x, target: {target} }}");
        run_in(&bench, file, &step, &[("OS_CLOUD", cloud_name)]).expect_code(0);
        assert_eq!(paths(&cloud), [expected], "{deployment} {target}");
        let one = cloud_name == "one" || deployment.contains("one");
        let secret = if one { "P4ss-of-secure" } else { "\"secret\":\"s\"" };
        assert!(cloud.logins()[0].to_string().contains(secret), "{:?}", cloud.logins());
        let seen = cloud.server.seen();
        let microversion = seen.last().unwrap().headers.get("openstack-api-version").cloned();
        assert_eq!(
            microversion.as_deref() == Some("compute 2.79"),
            !one && target != "image",
            "{microversion:?}"
        );
    }
}

#[test]
fn the_variables_of_an_openrc_file_are_a_cloud() {
    let cloud = TokenCloud::start(CloudBehavior::default());
    let bench = Bench::new();
    bench.write("deployment.yaml", "cloud: { env: OS_CLOUD, default: envvars }");
    let url = format!("{}/identity", cloud.url());
    let set = [
        ("OS_AUTH_URL", url.as_str()),
        ("OS_USERNAME", "admin"),
        ("OS_PASSWORD", "P4ss-of-openrc"),
        ("OS_TENANT_NAME", "admin"),
        ("OS_USER_DOMAIN_NAME", "Default"),
        ("OS_REGION_NAME", "RegionTwo"),
    ];
    let step = "{ get: /x, target: compute }";
    run_in(&bench, "deployment.yaml", step, &set).expect_code(0);
    assert_eq!(paths(&cloud), ["/two/compute/v2.1/x"]);
    assert!(cloud.logins()[0].to_string().contains("P4ss-of-openrc"), "{:?}", cloud.logins());

    let ended = run_in(&bench, "deployment.yaml", step, &set[..2]);
    assert_eq!(ended.code, Some(65));
    let said = said(&ended);
    assert!(said.contains("the variables OS_*: the user's password is missing"), "{said}");
}

#[test]
fn clouds_that_cannot_be_used_are_reported_with_file_and_line() {
    for (deployment, clouds, parts) in [
        (
            "name: x\ncloud: two",
            CLOUDS,
            &["deployment.yaml:2:8", "clouds.yaml:1: there is no cloud `two`", "its clouds: one"][..],
        ),
        ("cloud: on", CLOUDS, &["did you mean `one`?"]),
        ("cloud: odd", CLOUDS, &["clouds.yaml:13: bench cannot log in with `auth_type: v3oidcpassword`"]),
        ("cloud: empty", CLOUDS, &["clouds.yaml:14: the URL of Keystone is missing"]),
        ("cloud: one", CLOUDS, &["clouds.yaml:2: the user's password is missing"]),
        ("cloud: one\nauth: { none: {} }", CLOUDS, &["`auth` together with `cloud`"]),
        ("cloud: one", "clouds: [", &["cannot read", "clouds.yaml: line"]),
        ("cloud: one", "", &["there is no clouds.yaml with the cloud `one`", "set OS_CLIENT_CONFIG_FILE"]),
        (
            "cloud: { env: OS_CLOUD, default: envvars }",
            CLOUDS,
            &["neither OS_CLOUD nor OS_AUTH_URL says where"],
        ),
        (
            "-",
            CLOUDS,
            &["clouds.yaml:1:1", "which of these clouds is meant", "set OS_CLOUD to one of: one, inside"],
        ),
    ] {
        let bench = Bench::new();
        bench.write("deployment.yaml", deployment);
        if !clouds.is_empty() {
            bench.write("clouds.yaml", clouds.replace("URL", "http://127.0.0.1:1"));
        }
        let file = if deployment == "-" { "clouds.yaml" } else { "deployment.yaml" };
        let ended = run_in(&bench, file, "{ get: /x, target: compute }", &[]);
        let said = said(&ended);
        assert!(parts.iter().all(|part| said.contains(part)), "{deployment}: {said}");
        assert_eq!(ended.code, Some(65), "{said}");
    }
}

#[test]
fn a_rally_deployment_has_all_services_of_its_region_and_endpoint_type() {
    for (region, kind, expected) in [
        ("RegionTwo", "public", Ok("/two/compute/v2.1/x")),
        ("", "internal", Ok("/inside/compute/v2.1/x")),
        ("RegionOne", "admin", Err("no admin endpoint of `nova`")),
        ("", "odd", Err("`odd` is not an endpoint type")),
    ] {
        let cloud = TokenCloud::start(CloudBehavior::default());
        let document = serde_json::json!({ "openstack": { "auth_url": format!("{}/identity", cloud.url()),
            "region_name": region, "endpoint_type": kind,
            "admin": { "username": "u", "password": "p", "project_name": "p" } } });
        let (_, ended) = run(&cloud, &document.to_string(), "{ get: /x, target: nova }");
        match expected {
            Ok(path) => {
                ended.expect_code(0);
                assert_eq!(paths(&cloud), [path]);
            }
            Err(part) => assert!(said(&ended).contains(part), "{}", said(&ended)),
        }
    }
}

/// The notes of a run about its token.
fn notes(bench: &Bench) -> String {
    bench.results()["notes"].to_string()
}

#[test]
fn tokens_of_seconds_are_renewed_ahead_and_off_the_clock() {
    let cloud = TokenCloud::start(CloudBehavior { lifetime_s: 2, ..CloudBehavior::default() });
    let bench = Bench::new();
    bench.write("d.yaml", cloud.auth());
    let load = "runner: { constant_for_duration: { duration: 7s, concurrency: 2 } }";
    let steps = "iteration: [ { action: a, get: /x, target: glance }, { think: 20ms } ]";
    bench.write("s.yaml", format!("title: t\nprobe: false\n{load}\n{steps}\n"));
    bench.run(&["run", "s.yaml", "-d", "d.yaml"]).expect_code(0);
    let (logins, used) = (cloud.logins().len(), cloud.tokens_used());
    // Not more than once a second, and not for each request.
    assert!((2..=12).contains(&logins) && used >= 2, "{logins} logins, {used} tokens used");
    let results = bench.results();
    let workload = &results["workloads"][0];
    assert_eq!(workload["iterations"]["failed"], 0, "{workload}");
    // Nothing of a login is in the load's figures.
    let requests = cloud.server.count("/image/v2/x");
    assert_eq!(workload["actions"].as_array().map(Vec::len), Some(1));
    assert_eq!(workload["actions"][0]["requests"]["total"].as_u64(), Some(requests as u64), "{workload}");
    assert!(!notes(&bench).contains("token"), "{}", notes(&bench));
}

#[test]
fn a_storm_of_401_is_named_for_what_it_is() {
    for (options, auth, parts) in [
        (
            CloudBehavior { first_token_ends_after: 20, ..CloudBehavior::default() },
            "",
            &[
                "answered 401 (Unauthorized)",
                "bench logged in again",
                "outside the measured time, and the new token was accepted",
            ][..],
        ),
        (
            CloudBehavior { refuses_all: true, ..CloudBehavior::default() },
            "",
            &["answered 401 (Unauthorized)", "new tokens were refused too", "[keystone_authtoken]"],
        ),
        (
            CloudBehavior { first_token_ends_after: 20, ..CloudBehavior::default() },
            "token: T0ken-given",
            &[
                "answered 401 (Unauthorized)",
                "bench cannot get another one",
                "has not expired or been revoked",
            ],
        ),
    ] {
        let cloud = TokenCloud::start(options.clone());
        let bench = Bench::new();
        let auth = match auth {
            "" => cloud.auth(),
            token => format!("auth: {{ keystone: {{ auth_url: '{}/identity', {token} }} }}", cloud.url()),
        };
        bench.write("d.yaml", auth);
        let load = "runner: { constant_for_duration: { duration: 4s, concurrency: 2 } }";
        let steps = "iteration: [ { get: /x, target: glance }, { think: 20ms } ]";
        bench.write("s.yaml", format!("title: t\nprobe: false\n{load}\n{steps}\n"));
        bench.run(&["run", "s.yaml", "-d", "d.yaml"]);
        let notes = notes(&bench);
        assert!(parts.iter().all(|part| notes.contains(part)), "{options:?}: {notes}");
    }
}
