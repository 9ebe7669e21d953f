//! Contexts: what a run makes in a cloud before its load, and that nothing of it is left afterwards.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::signals::{end, signal, start};
use crate::stateful_cloud::StatefulCloud;
use crate::support::{Bench, CommandOutput};

const LIST: &str = "iteration: [ { action: list, get: '/servers?user={{ user.name }}', target: nova } ]";

fn load(bench: &Bench, cloud: &StatefulCloud, rest: &str) {
    bench.write("deployment.yaml", cloud.deployment());
    bench.write("scenario.yaml", format!("title: t\nprobe: false\ndeployment: deployment.yaml\n{rest}\n"));
}

fn run(cloud: &StatefulCloud, rest: &str) -> (Bench, CommandOutput) {
    let bench = Bench::new();
    load(&bench, cloud, rest);
    let ended = bench.run(&["run", "scenario.yaml"]);
    (bench, ended)
}

/// On one line, for messages that are wrapped.
fn said(ended: &CommandOutput) -> String {
    let framed = ended.stderr.replace(['│', '|'], " ");
    framed.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn notes(results: &Value) -> String {
    results["notes"].to_string()
}

#[test]
fn iterations_are_users_with_tokens_and_projects_of_their_own() {
    let cloud = StatefulCloud::start();
    let (bench, ended) = run(
        &cloud,
        "contexts: { users: { tenants: 2, users_per_tenant: 2, user_choice_method: round_robin } }
runner: { constant: { times: 12, concurrency: 3 } }
iteration:
  - { get: '/servers?user={{ user.name }}&project={{ user.project_id }}', target: nova, query: { name: '{{ user.project_name }}' } }
  - { get: '/volumes', target: cinder, query: { user: '{{ context.user.name }}', project: '{{ context.tenant.id }}' } }
  - { get: '/snapshots', target: cinder }
  - { get: '/flavors?user=admin', target: nova, auth: admin }
",
    );
    ended.expect_code(0);
    let requests = cloud.requests();
    let queried = |path: &str, key: &str| {
        let pairs = path.split_once('?').map_or("", |(_, query)| query).split('&');
        pairs.filter_map(|pair| pair.split_once('=')).find(|(name, _)| *name == key).unwrap().1.to_owned()
    };
    let of = |beginning: &str| -> Vec<&(String, String, String)> {
        requests.iter().filter(|(_, path, _)| path.starts_with(beginning)).collect()
    };
    let servers = of("/compute/v2.1/servers?user=");
    assert_eq!(servers.len(), 12);
    for (_, path, user) in &servers {
        assert_eq!(&queried(path, "user"), user, "the token is that of the user");
        assert!(user.starts_with("bench-2") && queried(path, "name").starts_with("bench-2"), "{path}");
    }
    let mut users: Vec<&String> = servers.iter().map(|(_, _, user)| user).collect();
    users.sort();
    users.dedup();
    assert_eq!(users.len(), 4, "{users:?}");
    for user in &users {
        assert_eq!(servers.iter().filter(|(_, _, other)| other == *user).count(), 3, "in turn: {users:?}");
    }
    // The project in Cinder's URLs is the user's.
    for (_, path, user) in requests.iter().filter(|(_, path, _)| path.contains("/volumes?user=")) {
        let project = queried(path, "project");
        assert!(path.starts_with(&format!("/volume/v3/{project}/volumes")) && project != "p1", "{path}");
        assert_eq!(queried(path, "user"), **user);
    }
    let snapshots = requests.iter().filter(|(_, path, user)| path.ends_with("/snapshots") && user != "admin");
    assert_eq!(snapshots.filter(|(_, path, _)| !path.contains("/p1/")).count(), 12);
    assert!(of("/compute/v2.1/flavors?user=admin").iter().all(|(_, _, user)| user == "admin"));
    assert_eq!(cloud.names(), [""; 0]);
    let password = "Aa1-";
    let results = std::fs::read_to_string(bench.run_directory().join("results.json")).unwrap();
    assert!(!results.contains(password) && !bench.run_directory().join("contexts.json").exists());
}

#[test]
fn everything_that_contexts_can_have_is_made_and_deleted() {
    let cloud = StatefulCloud::start();
    cloud.put("networks", "p1", "public");
    cloud.put("workbooks", "p1", "mine");
    let (_, ended) = run(
        &cloud,
        "contexts:
  users: { tenants: 2 }
  quotas: { nova: { instances: -1 }, neutron: { network: 5 }, cinder: { volumes: 7 } }
  flavors: [ { name: tiny, ram: 64, extra_specs: { a: b } } ]
  images: { images_per_tenant: 2 }
  network: { start_cidr: 10.9.0.0/24, networks_per_tenant: 2, subnets_per_network: 2 }
  volumes: { size: 1, volumes_per_tenant: 2 }
runner: { serial: { times: 2 } }
iteration:
  - action: boot
    post: /servers
    target: nova
    json:
      server:
        name: '{{ context.prefix }}-server-{{ iteration }}'
        flavorRef: '{{ context.flavor.tiny }}'
        other: '{{ context.flavors[0].id }}'
        imageRef: '{{ context.tenant.images[1].id }}'
        volume: '{{ context.tenant.volumes[1].id }}'
        networks: [ { uuid: '{{ context.tenant.networks[1].id }}' } ]
        cidr: '{{ context.tenant.networks[1].subnets[1].cidr }}'
    expect: { status: 2xx, json: { $.server.flavorRef: { ne: '' } } }
  - { action: workbook, post: /workbooks, target: mistral, json: { name: wb } }
  - { action: execution, post: /executions, target: mistral, json: { workflow_name: w } }
  - { action: foreign name, post: /servers, target: nova, json: { server: { name: x } } }
  - { action: in the own project, post: /servers, target: nova, auth: admin, json: { server: { name: '{{ context.prefix }}-s' } } }
",
    );
    let ended = ended.expect_code(0);
    assert_eq!(cloud.names(), ["networks public", "workbooks mine"], "{}", ended.stderr);
    let quotas: Vec<String> =
        cloud.quotas().iter().map(|(service, set)| format!("{service} {set}")).collect();
    for expected in [
        r#"compute {"quota_set":{"instances":-1}}"#,
        r#"network {"quota":{"network":5}}"#,
        r#"volume {"quota_set":{"volumes":7}}"#,
    ] {
        assert_eq!(quotas.iter().filter(|quota| *quota == expected).count(), 2, "{quotas:?}");
    }
    let posted = |path: &str| {
        cloud.server.seen().into_iter().filter(|s| s.method == "POST" && s.path == path).collect::<Vec<_>>()
    };
    for (path, count) in [
        ("/identity/v3/projects", 2),
        ("/identity/v3/users", 2),
        ("/compute/v2.1/flavors", 1),
        ("/image/v2/images", 4),
        ("/network/v2.0/networks", 4),
        ("/network/v2.0/subnets", 8),
        ("/network/v2.0/routers", 4),
    ] {
        let seen = posted(path);
        assert_eq!(seen.len(), count, "{path}");
        for seen in seen {
            assert!(String::from_utf8_lossy(&seen.body).contains("\"bench-2"), "{path}");
        }
    }
    let mut ranges: Vec<String> = posted("/network/v2.0/subnets")
        .iter()
        .map(|seen| serde_json::from_slice::<Value>(&seen.body).unwrap()["subnet"]["cidr"].to_string())
        .collect();
    ranges.sort();
    ranges.dedup();
    assert_eq!(ranges.len(), 8, "{ranges:?}");
}

#[test]
fn without_users_things_are_made_in_the_deployments_own_project() {
    let cloud = StatefulCloud::start();
    for name in ["mine", "bench-mark", "bench-20200101T000000Z-0badcafe-server-1"] {
        cloud.put("servers", "p1", name);
    }
    let before = cloud.names();
    let (_, ended) = run(
        &cloud,
        "contexts: { network: {}, flavors: [ { name: f, ram: 1 } ] }
runner: { serial: { times: 1 } }
iteration: [ { post: /servers, target: nova, json: { server: { name: '{{ context.prefix }}-s', net: '{{ context.tenant.networks[0].id }}' } } } ]",
    );
    ended.expect_code(0);
    assert_eq!(cloud.names(), before, "foreign names and those of other runs stay");
    assert!(cloud.requests().iter().all(|(_, _, user)| user == "admin"));
}

#[test]
fn what_fails_while_contexts_are_made_leaves_nothing() {
    let cloud = StatefulCloud::start();
    cloud.refuse(|method, path| {
        let is_network = (method, path) == ("POST", "/network/v2.0/networks");
        let words = json!({ "NeutronError": { "type": "OverQuota", "message": "Quota exceeded for resources: ['network']." } });
        is_network.then_some(("409 Conflict", words))
    });
    let contexts = "contexts: { users: { tenants: 2 }, images: {}, network: {} }";
    let (bench, ended) = run(&cloud, &format!("{contexts}\nrunner: {{ serial: {{ times: 5 }} }}\n{LIST}"));
    let ended = ended.expect_code(1);
    let error = bench.results()["run"]["error"].to_string();
    for part in [
        "setup failed: contexts: quota exceeded: POST",
        "/network/v2.0/networks answered 409: Quota exceeded",
    ] {
        assert!(error.contains(part), "{error}");
    }
    assert!(said(&ended).contains("nothing is left"), "{}", said(&ended));
    assert_eq!(cloud.names(), [""; 0]);
    assert!(!cloud.requests().iter().any(|(_, path, _)| path.contains("user=")), "no load");
    assert!(!bench.run_directory().join("contexts.json").exists());
}

#[test]
fn what_cannot_be_deleted_is_listed_and_cleanup_tries_again() {
    let cloud = StatefulCloud::start();
    cloud.refuse(|method, path| {
        let is_volume = method == "DELETE" && path.contains("/volumes/");
        is_volume.then(|| ("400 Bad Request", json!({ "badRequest": { "message": "Volume is in use" } })))
    });
    let contexts = "contexts: { users: {}, volumes: { size: 1 } }";
    let (bench, ended) = run(&cloud, &format!("{contexts}\nrunner: {{ serial: {{ times: 2 }} }}\n{LIST}"));
    let ended = ended.expect_code(0);
    let (said, noted) = (said(&ended), notes(&bench.results()));
    for text in [&said, &noted] {
        assert!(text.contains("not deleted: volume bench-2") && text.contains("Volume is in use"), "{text}");
        assert!(text.contains("bench cleanup") && text.contains("tries again"), "{text}");
    }
    // What holds it stays, so that it can be found.
    let kinds = |cloud: &StatefulCloud| cloud.things().into_iter().map(|thing| thing.of).collect::<Vec<_>>();
    assert_eq!(kinds(&cloud), ["projects", "users", "volumes", "security-groups"]);
    let directory = bench.run_directory();
    let again = |bench: &Bench| bench.run(&["cleanup", directory.to_str().unwrap(), "--yes"]);
    let failed = again(&bench).expect_code(1);
    assert!(
        failed.stdout.contains("volume bench-2") && failed.stdout.contains("Volume is in use"),
        "{failed:?}"
    );
    cloud.allow();
    again(&bench).expect_code(0);
    assert_eq!(cloud.names(), [""; 0]);
    let nothing = again(&bench).expect_code(0);
    assert!(nothing.stderr.contains("deleted 0 things, 0 are left"), "{nothing:?}");
}

/// Waits until a user has sent this many requests.
fn wait_for_users(cloud: &StatefulCloud, requests: usize) {
    let until = Instant::now() + Duration::from_secs(60);
    while cloud.requests().iter().filter(|(_, path, _)| path.contains("?user=bench-")).count() < requests {
        assert!(Instant::now() < until, "no load within a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
#[cfg(unix)]
fn an_interrupt_deletes_and_a_kill_is_cleaned_up_later() {
    for (name, code) in [("INT", Some(105)), ("KILL", None)] {
        let (cloud, bench) = (StatefulCloud::start(), Bench::new());
        let contexts = "contexts: { users: { tenants: 2 }, network: {} }";
        load(
            &bench,
            &cloud,
            &format!("{contexts}\nrunner: {{ constant: {{ times: 1000000, concurrency: 2 }} }}\n{LIST}"),
        );
        let child = start(&bench);
        wait_for_users(&cloud, 10);
        signal(&child, name);
        let ended = end(child);
        assert_eq!(ended.code, code, "{ended:?}");
        if code.is_none() {
            assert!(!cloud.names().is_empty());
            let directory = bench.run_directory();
            bench.run(&["cleanup", directory.to_str().unwrap(), "--yes"]).expect_code(0);
            assert!(!directory.join("contexts.json").exists());
        }
        assert_eq!(cloud.names(), [""; 0], "{name}");
    }
}

#[test]
#[cfg(unix)]
fn the_tokens_of_users_are_renewed_before_they_expire() {
    let (cloud, bench) = (StatefulCloud::with_tokens_of(2), Bench::new());
    let contexts = "contexts: { users: {} }";
    let runner = "runner: { constant: { times: 1000000, concurrency: 2 } }";
    load(&bench, &cloud, &format!("{contexts}\n{runner}\n{LIST}"));
    let child = start(&bench);
    let until = Instant::now() + Duration::from_secs(60);
    while cloud.tokens_used() < 3 {
        assert!(Instant::now() < until, "{} tokens within a minute", cloud.tokens_used());
        std::thread::sleep(Duration::from_millis(10));
    }
    signal(&child, "INT");
    end(child).expect_code(105);
    assert_eq!(bench.results()["workloads"][0]["iterations"]["failed"], 0);
    assert_eq!(cloud.names(), [""; 0]);
}

#[test]
#[cfg(unix)]
fn an_interrupt_while_contexts_are_made_leaves_nothing() {
    let (cloud, bench) = (StatefulCloud::start(), Bench::new());
    let contexts = "contexts: { users: {}, volumes: { size: 1 } }";
    // The volume never becomes available.
    cloud.refuse(|method, path| {
        (method == "GET" && path.contains("/volumes/id-"))
            .then(|| ("200 OK", json!({ "volume": { "status": "creating" } })))
    });
    load(&bench, &cloud, &format!("{contexts}\nrunner: {{ serial: {{ times: 5 }} }}\n{LIST}"));
    let child = start(&bench);
    let until = Instant::now() + Duration::from_secs(60);
    while !cloud.names().iter().any(|name| name.starts_with("volumes ")) {
        assert!(Instant::now() < until, "no volume within a minute");
        std::thread::sleep(Duration::from_millis(10));
    }
    signal(&child, "INT");
    end(child).expect_code(105);
    assert_eq!(cloud.names(), [""; 0]);
}

#[test]
fn leftovers_of_old_runs_are_found_by_their_names_and_nothing_else_is_touched() {
    let (cloud, bench) = (StatefulCloud::start(), Bench::new());
    bench.write("d.yaml", cloud.deployment());
    let old = "bench-20200101T000000Z-0badcafe";
    let young = format!("bench-{}Z-0badcafe", jiff::Timestamp::now().strftime("%Y%m%dT%H%M%S"));
    for (of, project, name) in [
        ("projects", "", format!("{old}-project-1")),
        ("users", "", format!("{old}-user-1")),
        ("flavors", "", format!("{old}-tiny")),
        ("servers", "p1", format!("{old}-server-1")),
        ("os-keypairs", "p1", format!("{old}-key-1")),
        ("security-groups", "p1", format!("{old}-group-1")),
    ] {
        cloud.put(of, project, &name);
    }
    // What is in a project of bench is of bench, whatever its name.
    let project = cloud.things()[0].id.clone();
    cloud.put("servers", &project, "web");
    let foreign = [
        ("projects", "", "bench".to_owned()),
        ("projects", "", "bench-mark".to_owned()),
        ("users", "", "bench-user".to_owned()),
        ("users", "", format!("{young}-user-1")),
        ("servers", "p1", format!("{young}-server-1")),
        ("servers", "p1", "bench-20200101-server".to_owned()),
        ("servers", "other", format!("{old}-server-of-another-project")),
        ("flavors", "", "m1.tiny".to_owned()),
        ("networks", "p1", "private".to_owned()),
    ];
    let expected: Vec<String> = {
        let other = StatefulCloud::start();
        foreign.iter().for_each(|(of, project, name)| other.put(of, project, name));
        other.names()
    };
    foreign.iter().for_each(|(of, project, name)| cloud.put(of, project, name));
    let before = cloud.names();
    let listed = bench.run(&["cleanup", "-d", "d.yaml", "--older-than", "1d"]).expect_code(0);
    // Neutron makes a group when those of a project are listed.
    let mut names = cloud.names();
    names.retain(|name| name != "security-groups default");
    assert_eq!(names, before);
    assert_eq!(listed.stdout.lines().count(), 7, "{listed:?}");
    assert!(listed.stderr.contains("7 things would be deleted; --yes"), "{listed:?}");
    let deleted = bench.run(&["cleanup", "-d", "d.yaml", "--older-than", "1d", "--yes"]).expect_code(0);
    assert_eq!(cloud.names(), expected, "{deleted:?}");
    assert!(deleted.stderr.contains("deleted 7 things, 0 are left"), "{deleted:?}");
}

#[test]
fn a_quota_that_is_used_up_is_named_as_such() {
    let cloud = StatefulCloud::start();
    cloud.refuse(|method, path| {
        let words = "Quota exceeded for instances: Requested 1, but already used 2 of 2 instances";
        let refused = json!({ "forbidden": { "code": 403, "message": words } });
        ((method, path) == ("POST", "/compute/v2.1/servers")).then_some(("403 Forbidden", refused))
    });
    let (bench, ended) = run(
        &cloud,
        "contexts: { users: {} }
runner: { serial: { times: 3 } }
iteration: [ { post: /servers, target: nova, json: { server: { name: x } } } ]",
    );
    let ended = ended.expect_code(0);
    let error = &bench.results()["workloads"][0]["errors"][0];
    assert_eq!((&error["class"], &error["count"]), (&json!("quota"), &json!(3)), "{error}");
    let message = error["message"].as_str().unwrap();
    assert!(message.starts_with("quota exceeded (answered 403): Quota exceeded for instances"), "{message}");
    assert!(ended.stdout.contains("quota exceeded"), "{}", ended.stdout);
}

#[test]
fn faults_in_contexts_are_shown_at_their_places() {
    let steps = "iteration: [ { get: /x, target: nova } ]";
    for (contexts, rest, parts) in [
        (
            "contexts: { quotas: { nova: { cores: 1 } } }",
            steps,
            &["scenario.yaml:4:13", "`quotas` without `users`"][..],
        ),
        (
            "contexts: { users: {}, quotas: { nva: {} } }",
            steps,
            &["no quotas of `nva`", "did you mean `nova`?"],
        ),
        (
            "contexts: { network: { start_cidr: 10.0.0.1/24 } }",
            steps,
            &["not a range of IPv4 addresses", "10.2.0.0/24"],
        ),
        ("contexts: { images: { image_url: gone.img } }", steps, &["cannot read", "gone.img", "or a URL"]),
        (
            "contexts: { flavors: [ { name: a, ram: 1 }, { name: a, ram: 2 } ] }",
            steps,
            &["a second flavor named `a`"],
        ),
        (
            "contexts: { users: { tenants: 1000, users_per_tenant: 1000 } }",
            steps,
            &["1000000 users are more than 10000"],
        ),
        ("contexts: { user: {} }", steps, &["did you mean `users`?"]),
        (
            "contexts: { users: {} }\nvariables: { user: admin }",
            steps,
            &["`user` is a variable of `contexts`"],
        ),
        (
            "contexts: { volumes: { size: 1 } }",
            "iteration: [ { get: '/{{ user.name }}', target: nova } ]",
            &["unknown variable `user`"],
        ),
        (
            "contexts: { users: {} }",
            "iteration: [ { get: /x, target: nova, auth: root } ]",
            &["`auth` cannot be `root`", "admin"],
        ),
    ] {
        let cloud = StatefulCloud::start();
        let (_, ended) = run(&cloud, &format!("{contexts}\nrunner: {{ serial: {{ times: 1 }} }}\n{rest}"));
        let said = said(&ended);
        assert_eq!(ended.code, Some(65), "{contexts}: {said}");
        assert!(parts.iter().all(|part| said.contains(part)), "{contexts}: {said}");
        assert!(cloud.server.seen().is_empty());
    }
    let bench = Bench::new();
    bench.write("deployment.yaml", "targets: { default: 'http://127.0.0.1:1' }");
    let scenario =
        "title: t\ncontexts: { users: {} }\nrunner: { serial: { times: 1 } }\niteration: [ { get: / } ]\n";
    bench.write("scenario.yaml", scenario);
    let ended = bench.run(&["run", "scenario.yaml", "-d", "deployment.yaml"]).expect_code(65);
    assert!(said(&ended).contains("the deployment has no Keystone"), "{ended:?}");
    for arguments in
        [&["cleanup"][..], &["cleanup", "-d", "deployment.yaml"], &["cleanup", "x", "--older-than", "1d"]]
    {
        bench.run(arguments).expect_code(64);
    }
    bench.run(&["cleanup", "none"]).expect_code(65);
    bench.run(&["cleanup", "-d", "deployment.yaml", "--older-than", "1d"]).expect_code(65);
}

#[test]
fn workloads_can_have_contexts_of_their_own() {
    let cloud = StatefulCloud::start();
    let (_, ended) = run(
        &cloud,
        "contexts: { users: { tenants: 1 } }
workloads:
  - { name: a, runner: { serial: { times: 2 } }, iteration: [ { get: '/servers?user={{ user.name }}&of=a', target: nova } ] }
  - { name: b, runner: { serial: { times: 2 } }, iteration: [ { get: '/servers?user={{ user.name }}&of=b', target: nova } ] }
  - { name: c, contexts: { users: { tenants: 2, user_choice_method: round_robin } }, runner: { serial: { times: 2 } },
      iteration: [ { get: '/servers?user={{ user.name }}&of=c', target: nova } ] }
",
    );
    ended.expect_code(0);
    let users = |of: &str| {
        let requests =
            cloud.requests().into_iter().filter(|(_, path, _)| path.ends_with(&format!("&of={of}")));
        let mut users: Vec<String> = requests.map(|(_, _, user)| user).collect();
        users.sort();
        users.dedup();
        users
    };
    assert_eq!((users("a").len(), users("c").len()), (1, 2));
    assert!(users("a") == users("b") && !users("c").contains(&users("a")[0]));
    assert_eq!(cloud.names(), [""; 0]);
}

#[test]
fn an_explanation_says_what_will_be_made_and_nothing_is_sent() {
    let (cloud, bench) = (StatefulCloud::start(), Bench::new());
    let steps = "runner: { serial: { times: 1 } }\niteration: [ { get: /x, target: nova } ]";
    for (contexts, expected) in [
        (
            "contexts: { users: { tenants: 2, users_per_tenant: 3 }, flavors: [ { name: f, ram: 1 } ], network: {}, images: { images_per_tenant: 2 } }",
            "2 projects with 3 users each, 1 flavor; in each project 1 network, 2 images",
        ),
        ("contexts: { volumes: { size: 1 } }", "in the deployment's project 1 volume"),
        ("contexts: { users: {} }", "1 project with 1 user each"),
    ] {
        load(&bench, &cloud, &format!("{contexts}\n{steps}"));
        let ended = bench.run(&["validate", "--explain", "scenario.yaml"]).expect_code(0);
        let words = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("contexts {expected}")), "{}", ended.stdout);
    }
    assert!(cloud.server.seen().is_empty());
}

#[test]
fn services_that_pass_over_filters_or_do_not_say_whose_things_are_lose_nothing() {
    let precious = |owner: Value| {
        let mut volume = json!({ "id": "id-precious", "name": "precious" });
        if !owner.is_null() {
            volume["os-vol-tenant-attr:tenant_id"] = owner;
        }
        json!({ "volumes": [volume] })
    };
    for (owner, code) in [(json!("p1"), 0), (Value::Null, 1)] {
        let (cloud, bench) = (StatefulCloud::start(), Bench::new());
        bench.write("d.yaml", cloud.deployment());
        cloud.put("projects", "", "bench-20200101T000000Z-0badcafe-project-1");
        cloud.put("volumes", "p1", "precious");
        let answer = precious(owner.clone());
        // As Cinder does for those who are administrators of Keystone only.
        cloud.refuse(move |method, path| {
            (method == "GET" && path.ends_with("/volumes/detail")).then(|| ("200 OK", answer.clone()))
        });
        let ended = bench.run(&["cleanup", "-d", "d.yaml", "--older-than", "1d", "--yes"]).expect_code(code);
        assert!(cloud.names().contains(&"volumes precious".to_owned()), "{owner}: {ended:?}");
        assert!(!cloud.server.seen().iter().any(|seen| seen.path.contains("precious")), "{owner}");
        let says_so = ended.stderr.contains("does not say whose they are");
        assert_eq!(says_so, code == 1, "{owner}: {ended:?}");
    }
}
