//! The scenarios for OpenStack: each is valid, runs in a small cloud by itself and in a task of Rally's, has Rally's
//! atomic actions, and leaves nothing.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::fake_openstack::FakeOpenStack;
use crate::openstack_rows::{self, RallyScenarioRow};
use crate::support::{Bench, CommandOutput};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/openstack")
}

/// The names of all files, without their ending.
fn shipped() -> Vec<String> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name());
    let names = entries.filter_map(|name| Some(name.to_str()?.strip_suffix(".yaml")?.to_owned()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn path_of(name: &str) -> String {
    folder().join(format!("{name}.yaml")).display().to_string()
}

#[test]
fn every_scenario_is_valid_and_is_one_of_rally() {
    let names = shipped();
    let bench = Bench::new();
    let paths: Vec<String> = names.iter().map(|name| path_of(name)).collect();
    let arguments: Vec<&str> =
        ["validate", "--offline"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    let ended = Bench::end(bench.command(&arguments).env_remove("OS_CLOUD")).expect_code(0);
    assert_eq!(ended.stdout.lines().filter(|line| line.contains(".yaml: ")).count(), names.len());
    let mut of_rally: Vec<&str> = bench::rally::scenario_names().collect();
    of_rally.retain(|name| !name.starts_with("Dummy.") && !name.starts_with("HttpRequests."));
    of_rally.sort_unstable();
    // Rally has none for Placement.
    let files: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| !name.starts_with("Placement.")).collect();
    assert_eq!(files, of_rally);
    for name in &names {
        let text = std::fs::read_to_string(path_of(name)).unwrap();
        assert!(text.starts_with("# yaml-language-server: $schema=../scenario.schema.json\n"), "{name}");
        assert!(text.contains(&format!("\ntitle: {name}\n")), "{name}");
    }
}

#[test]
fn a_file_runs_by_itself() {
    // Variables, and the rows of actions and groups.
    let rows: [(&str, &[&str], &[&str]); 6] = [
        (
            "NovaServers.snapshot_server",
            &[],
            &[
                "nova.boot_server",
                "create server",
                "wait until ACTIVE",
                "nova.snapshot_server",
                "create snapshot",
                "glance.wait_for_image",
                "nova.wait_for_server",
                "nova.delete_server",
                "delete server",
                "wait until deleted",
                "second: nova.boot_server",
                "second: create server",
                "second: wait until ACTIVE",
                "second: nova.delete_server",
                "second: delete server",
                "second: wait until deleted",
                "nova.delete_image",
                "glance_v2.delete_image",
            ],
        ),
        (
            "GlanceImages.create_and_list_image",
            &[],
            &[
                "glance_v2.create_image",
                "create image",
                "glance_v2.upload_data",
                "wait until active",
                "glance_v2.list_images",
            ],
        ),
        (
            "Placement.create_and_delete_resource_provider",
            &[],
            &[
                "placement.create_resource_provider",
                "placement.set_inventories",
                "placement.list_inventories",
                "placement.delete_resource_provider",
            ],
        ),
        (
            "Placement.list_allocation_candidates",
            &["--set", "resources=VCPU:2"],
            &["placement.list_allocation_candidates"],
        ),
        ("Placement.list_resource_providers", &[], &["placement.list_resource_providers"]),
        ("Authenticate.keystone", &[], &["authenticate.keystone"]),
    ];
    for (name, further, actions) in rows {
        let (bench, cloud) = (Bench::new(), FakeOpenStack::start());
        bench.write("deployment.yaml", cloud.deployment());
        let path = path_of(name);
        let arguments =
            [&["run", path.as_str(), "-d", "deployment.yaml", "-n", "2", "-c", "1", "--no-probe"], further]
                .concat();
        bench.run(&arguments).expect_code(0);
        let results = bench.results();
        let workload = &results["workloads"][0];
        assert_eq!(workload["iterations"]["ok"], 2, "{name}: {}", workload["errors"]);
        assert_eq!(rows_of(workload), actions, "{name}");
        assert_eq!(cloud.left(), [""; 0], "{name}");
    }
}

fn rows_of(workload: &Value) -> Vec<&str> {
    workload["actions"].as_array().unwrap().iter().map(|action| action["name"].as_str().unwrap()).collect()
}

const BOOK: &str = "version: '2.0'\nname: theirs\nworkflows:\n  first:\n    tasks:\n      a: { action: 'std.echo output=<% $.x %>{{ y }}' }\n";

fn run_task(bench: &Bench, cloud: &FakeOpenStack, rows: &[RallyScenarioRow]) -> CommandOutput {
    let subtask = |(name, args, _): &RallyScenarioRow| json!({ "title": name, "scenario": { *name: args }, "runner": { "serial": { "times": 2 } } });
    let subtasks: Vec<Value> = rows.iter().map(subtask).collect();
    bench.write("task.json", json!({ "version": 2, "title": "all", "subtasks": subtasks }).to_string());
    bench.write("content.img", "the content of an image");
    bench.write("book.yaml", BOOK);
    bench.write("deployment.yaml", cloud.deployment());
    bench.run(&["run", "task.json", "-d", "deployment.yaml", "--no-probe"])
}

#[test]
fn every_scenario_runs_in_a_task_with_rallys_atomic_actions() {
    let (bench, cloud) = (Bench::new(), FakeOpenStack::start());
    let rows = openstack_rows::all();
    let mut names: Vec<&str> = rows.iter().map(|(name, ..)| *name).collect();
    names.sort_unstable();
    let shipped = shipped();
    let files: Vec<&str> =
        shipped.iter().map(String::as_str).filter(|name| !name.starts_with("Placement.")).collect();
    assert_eq!(names, files);
    let ended = run_task(&bench, &cloud, &rows);
    let results = bench.results();
    for (workload, (name, _, atomics)) in results["workloads"].as_array().unwrap().iter().zip(&rows) {
        assert_eq!(&workload["name"], name);
        assert_eq!(workload["iterations"]["ok"], 2, "{name}: {}", workload["errors"]);
        let all = rows_of(workload);
        let found: Vec<&str> = all.iter().copied().filter(|name| atomics.contains(name)).collect();
        assert_eq!(found, *atomics, "{name} has {all:?}");
    }
    ended.expect_code(0);
    let notes = results["notes"].as_array().unwrap();
    // The deployment has a password.
    let told = |note: &&Value| !note.as_str().unwrap().contains("others can read it");
    assert_eq!(notes.iter().filter(told).collect::<Vec<_>>(), [&json!(null); 0]);
    assert_eq!(cloud.left(), [""; 0]);
    let seen = cloud.server.seen();
    let body = |path: &str, what: &str| {
        let mut bodies = seen.iter().filter(|seen| seen.method == "POST" && seen.path == path);
        let found = bodies.find(|seen| String::from_utf8_lossy(&seen.body).contains(what));
        serde_json::from_slice::<Value>(&found.unwrap_or_else(|| panic!("{path} without {what}")).body)
            .unwrap()
    };
    // What the arguments say is sent, and nothing of it is taken for a template.
    let server = &body("/compute/v2.1/servers", "key_name\":\"k")["server"];
    assert_eq!((&server["key_name"], &server["metadata"]["a"]), (&json!("k{{"), &json!("b")));
    assert_eq!((&server["flavorRef"], &server["imageRef"]), (&json!("f1"), &json!("i1")));
    let name = server["name"].as_str().unwrap();
    assert!(name.starts_with("bench-20") && name.len() > 60, "{name}");
    let mut books = seen.iter().filter(|seen| seen.method == "POST" && seen.path == "/workflow/v2/workbooks");
    let book = books.find_map(|seen| {
        std::str::from_utf8(&seen.body).ok().filter(|text| text.contains("std.echo output=\\u003c% $.x"))
    });
    let book = book.unwrap();
    let (_, first) = book.split_once("\nworkflows:\n  first:\n    ").unwrap();
    let first: Value = serde_json::from_str(first.lines().next().unwrap()).unwrap();
    assert_eq!(first["tasks"]["a"]["action"], "std.echo output=<% $.x %>{{ y }}");
    assert!(book.lines().any(|line| line.starts_with("name: \"bench-")), "{book}");
    let execution = body("/workflow/v2/executions", "first");
    assert_eq!(execution["workflow_name"].as_str().unwrap().rsplit_once('.').unwrap().1, "first");
    let network = &body("/network/v2.0/networks", "router:external")["network"];
    assert_eq!(network["router:external"], false);
    assert_eq!(body("/network/v2.0/subnets", "1.1.0.4/30")["subnet"]["ip_version"], 4);
    let size = &body("/volume/v3/volumes", "size")["volume"]["size"];
    assert!(size.is_number(), "{size}");
    let upload = seen.iter().find(|seen| seen.method == "PUT" && seen.path.ends_with("/file")).unwrap();
    assert_eq!(upload.body, b"the content of an image");
}

#[test]
fn what_a_task_asks_for_wrongly_is_a_fault_at_its_line() {
    let rows = [
        ("NovaServers.boot_server: { flavor: { name: a } }", "`image`"),
        (
            "NovaServers.boot_server: { flavor: { size: 1 }, image: { id: i } }",
            "`size` does not name one flavor",
        ),
        ("NovaServers.boot_server: { flavor: { id: 1 }, image: {} }", "this does not name one image"),
        (
            "NovaServers.boot_server: { flavor: { id: 1 }, image: { name: a, list_kwargs: { visibility: public } } }",
            "`list_kwargs` is not supported for image",
        ),
        ("NovaServers.boot_server: { flavor: { id: 1 }, image: { id: i }, vnc: 1 }", "vnc"),
        (
            "NovaServers.boot_server: { flavor: { id: 1 }, image: { id: i }, nics: [{ net-name: x }] }",
            "`net-name` of a network card",
        ),
        (
            "NovaServers.boot_and_delete_server: { flavor: { id: 1 }, image: { id: i }, min_sleep: 2, max_sleep: 1 }",
            "is more than `max_sleep`",
        ),
        ("NovaServers.resize_server: {}", "the scenario `NovaServers.resize_server` is not supported"),
        (
            "GlanceImages.create_and_list_image: { container_format: bare, disk_format: raw, image_location: 'http://h/x' }",
            "an image that is elsewhere",
        ),
        ("CinderVolumes.create_volume: { size: { min: 3, max: 1 } }", "is not a size"),
        (
            "NeutronNetworks.create_and_list_subnets: { subnet_cidr_start: '2001:db8::/64' }",
            "ranges of IPv4 addresses",
        ),
        (
            "NeutronNetworks.create_and_list_subnets: { subnet_create_args: { cidr: 10.0.0.0/8 } }",
            "`cidr` is not supported here",
        ),
        ("KeystoneBasic.get_entities: { service_name: null }", "`service_name: null` is not supported"),
        ("MistralWorkbooks.create_workbook: { definition: none.yaml }", "none.yaml"),
        ("MistralWorkbooks.create_workbook: { definition: list.yaml }", "list.yaml is not a map"),
        (
            "MistralExecutions.create_execution_from_workbook: { definition: empty.yaml }",
            "the workbook has no workflow",
        ),
    ];
    let bench = Bench::new();
    bench.write("list.yaml", "- a\n");
    bench.write("empty.yaml", "version: '2.0'\n");
    bench.write(
        "deployment.yaml",
        "auth: { keystone: { auth_url: 'http://127.0.0.1:1', username: u, password: p, project_name: p } }\n",
    );
    for (scenario, expected) in rows {
        bench.write(
            "task.yaml",
            format!("version: 2\ntitle: t\nsubtasks:\n- title: s\n  scenario:\n    {scenario}\n"),
        );
        let ended = bench.run(&["validate", "task.yaml", "-d", "deployment.yaml"]).expect_code(65);
        let said = ended.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(expected) && said.contains("task.yaml:6:"), "{scenario}: {}", ended.stderr);
    }
    bench.write(
        "task.yaml",
        "version: 2\ntitle: t\nsubtasks:\n- title: s\n  scenario: { NovaServers.list_servers: {} }\n",
    );
    let ended = bench.run(&["run", "task.yaml"]).expect_code(64);
    assert!(ended.stderr.contains("NovaServers.list_servers needs a cloud"), "{}", ended.stderr);
}

#[test]
fn iterations_are_users_of_contexts_and_use_what_these_make() {
    let (bench, cloud) = (Bench::new(), FakeOpenStack::start());
    let contexts = json!({
        "users": { "tenants": 2, "users_per_tenant": 1, "user_choice_method": "round_robin" },
        "network": { "networks_per_tenant": 2, "router": { "external": false } },
        "flavors": [{ "name": "tiny", "ram": 64 }],
    });
    let server = json!({ "flavor": { "name": "tiny" }, "image": { "id": "i1" }, "auto_assign_nic": true });
    let rows = [
        ("Authenticate.keystone", json!({})),
        ("KeystoneBasic.add_and_remove_user_role", json!({})),
        ("NovaServers.boot_and_delete_server", server),
    ];
    let subtask = |(name, args): &(&str, Value)| {
        let runner = json!({ "serial": { "times": 4 } });
        json!({ "title": name, "scenario": { *name: args }, "runner": runner, "contexts": contexts })
    };
    let subtasks: Vec<Value> = rows.iter().map(subtask).collect();
    bench.write("task.json", json!({ "version": 2, "title": "all", "subtasks": subtasks }).to_string());
    bench.write("deployment.yaml", cloud.deployment());
    let ended = bench.run(&["run", "task.json", "-d", "deployment.yaml", "--no-probe"]).expect_code(0);
    let results = bench.results();
    for workload in results["workloads"].as_array().unwrap() {
        assert_eq!(workload["iterations"]["ok"], 4, "{workload}");
    }
    assert_eq!(cloud.left(), [""; 0], "{}", ended.stderr);
    let seen = cloud.server.seen();
    let bodies = |path: &str| -> Vec<Value> {
        let all = seen.iter().filter(|seen| seen.method == "POST" && seen.path == path);
        all.map(|seen| serde_json::from_slice(&seen.body).unwrap()).collect()
    };
    let servers = bodies("/compute/v2.1/servers");
    let networks: BTreeSet<String> =
        servers.iter().map(|body| body["server"]["networks"][0]["uuid"].to_string()).collect();
    assert!(networks.len() > 1 && networks.iter().all(|id| id.contains("networks-")), "{networks:?}");
    assert!(servers.iter().all(|body| body["server"]["flavorRef"].as_str().unwrap().starts_with("flavors-")));
    let logins = bodies("/identity/v3/auth/tokens");
    let user = |body: &Value| body["auth"]["identity"]["password"]["user"].clone();
    let as_users = logins.iter().filter(|body| user(body)["domain"]["id"] == "default").count();
    assert!(as_users >= 4, "{logins:?}");
}
