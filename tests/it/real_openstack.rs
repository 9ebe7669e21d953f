//! Scenarios and contexts in a real OpenStack cloud that OSProfiler traces into a real redis.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bench::base::secret::Secret;
use bench::osprofiler::driver::Collector;
use bench::osprofiler::report::TraceTree;
use serde_json::Value;

use crate::signals::{end, signal, start};
use crate::support::{Bench, service};

/// How long something in the cloud may take on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(300);

/// What `tests/real/openstack.sh` started.
struct OpenStackCloud {
    redis_url: String,
    deployment: String,
    /// One at a time: the cloud is as slow as its machine, and each counts what is left.
    _alone: MutexGuard<'static, ()>,
}

impl OpenStackCloud {
    fn of_environment() -> Option<Self> {
        static CLOUD: Mutex<()> = Mutex::new(());
        let url = service("BENCH_TEST_OPENSTACK_URL", "the Keystone of a cloud: tests/real/openstack.sh")?;
        let redis_url = service("BENCH_TEST_OPENSTACK_REDIS_URL", "the redis that it is traced into")?;
        service("BENCH_TEST_OPENSTACK_PASSWORD", "the password of its admin")?;
        service("BENCH_TEST_OPENSTACK_HMAC_KEY", "its HMAC key")?;
        let deployment = format!(
            "auth:
  keystone:
    auth_url: {url}
    username: admin
    password: {{ env: BENCH_TEST_OPENSTACK_PASSWORD }}
    project_name: admin
profiler: {{ hmac_key: {{ env: BENCH_TEST_OPENSTACK_HMAC_KEY }}, connection_string: \"{redis_url}\" }}
"
        );
        let alone = CLOUD.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Self { redis_url, deployment, _alone: alone })
    }

    /// A folder with the cloud's deployment.
    fn bench(&self) -> Bench {
        let bench = Bench::new();
        bench.write("deployment.yaml", &self.deployment);
        bench
    }

    fn tree(&self, trace_id: &str) -> TraceTree {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let collector = Collector::connect(&Secret::new(&self.redis_url)).await.unwrap();
            TraceTree::build(&collector.records(trace_id).await.unwrap())
        })
    }

    /// Asserts that a run has left nothing, as `bench cleanup` sees it.
    fn assert_clean(&self, bench: &Bench, run: &str) {
        std::thread::sleep(Duration::from_secs(1));
        let listed = bench.run(&["cleanup", "-d", "deployment.yaml", "--older-than", "1s"]).expect_code(0);
        assert!(!listed.stdout.contains(run), "{listed:?}");
    }
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios/openstack").join(format!("{name}.yaml"))
}

/// The beginning of the run's id, which is in the names of all that it makes.
fn run_of(results: &Value) -> String {
    results["run"]["id"].as_str().unwrap()[..8].to_owned()
}

#[test]
fn real_openstack_runs_shipped_scenarios() {
    let Some(cloud) = OpenStackCloud::of_environment() else { return };
    for name in [
        "Authenticate.validate_glance",
        "KeystoneBasic.create_and_delete_role",
        "GlanceImages.create_and_delete_image",
        "NeutronNetworks.create_and_list_subnets",
        "NovaFlavors.create_and_get_flavor",
        "NovaKeypair.create_and_list_keypairs",
        "NovaServers.boot_and_delete_server",
        "NovaServers.list_servers",
        "Placement.list_allocation_candidates",
    ] {
        let bench = cloud.bench();
        let mut command =
            bench.command(&["run", "-d", "deployment.yaml", "-n", "2", "-c", "1", "--no-probe"]);
        let ended = Bench::end(command.arg(shipped(name)));
        assert_eq!(ended.code, Some(0), "{name}\n{}\n{}", ended.stdout, ended.stderr);
        let results = bench.results();
        assert_eq!(results["workloads"][0]["iterations"]["ok"], 2, "{name}");
        for slow in results["slowest"].as_array().unwrap() {
            assert_eq!(slow["trace"], "complete", "{name}: {slow}");
        }
        cloud.assert_clean(&bench, &run_of(&results));
    }
}

/// With a token that no service has seen, each of them asks Keystone about it.
const BOOT: &str = "
title: boot
deployment: deployment.yaml
probe: false
runner: { serial: { times: 1 } }
iteration:
  - action: log in
    post: /auth/tokens
    target: keystone
    json:
      auth:
        identity:
          methods: [password]
          password: { user: { name: admin, domain: { id: default }, password: '{{ auth.password }}' } }
        scope: { project: { name: admin, domain: { id: default } } }
    extract: { fresh: { header: X-Subject-Token } }
  - action: find flavor
    get: /flavors
    target: nova
    headers: { X-Auth-Token: '{{ fresh }}' }
    extract: { flavor: { json: '$.flavors[0].id' } }
  - action: find image
    get: /images
    target: glance
    query: { status: active, limit: 1 }
    extract: { image: { json: '$.images[0].id' } }
  - action: boot
    post: /servers
    target: nova
    headers: { X-Auth-Token: '{{ fresh }}' }
    json: { server: { name: '{{ run }}-{{ trace_id }}', flavorRef: '{{ flavor }}', imageRef: '{{ image }}' } }
    extract: { server: { json: $.server.id } }
  - action: wait until ACTIVE
    get: '/servers/{{ server }}'
    target: nova
    extract: { status: { json: $.server.status } }
    poll: { until: status == 'ACTIVE', fail_if: status == 'ERROR', interval: 500ms, deadline: 4m }
teardown:
  - action: find servers
    get: /servers
    target: nova
    query: { name: '^{{ run }}' }
    extract: { servers: { json: $.servers } }
  - for_each: '{{ servers }}'
    as: server
    steps: [ { action: delete, delete: '/servers/{{ server.id }}', target: nova } ]
";

#[test]
fn real_openstack_has_one_trace_of_a_boot_over_all_services() {
    let Some(cloud) = OpenStackCloud::of_environment() else { return };
    let bench = cloud.bench();
    bench.write("scenario.yaml", BOOT);
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let id = results["iterations"][0]["trace_id"].as_str().unwrap();
    let tree = cloud.tree(id);
    let services: BTreeSet<&str> = tree.points.iter().filter_map(|point| point.service.as_deref()).collect();
    for expected in [
        "public",
        "placement",
        "api",
        "neutron-server",
        "osapi_compute",
        "nova-conductor",
        "nova-scheduler",
        "nova-compute",
    ] {
        assert!(services.contains(expected), "no {expected} in {services:?}\n{}", ended.stdout);
    }
    let open = tree.points.iter().filter(|point| point.duration_us.is_none()).count();
    assert_eq!(open, 0, "of {} points", tree.points.len());
    println!("{} points of {} services", tree.points.len(), services.len());
    cloud.assert_clean(&bench, &run_of(&results));
}

const CONTEXTS: &str = "
title: contexts
deployment: deployment.yaml
probe: false
profile: false
contexts:
  users: { tenants: 2, users_per_tenant: 1, user_choice_method: round_robin }
  quotas: { nova: { instances: 1000 }, neutron: { port: 1000 } }
  flavors: [ { name: tiny, ram: 64, disk: 1, extra_specs: { a: b } } ]
  images: { disk_format: raw, container_format: bare }
  network: { start_cidr: 10.9.0.0/24 }
runner: { constant: { times: 10000, concurrency: 1 } }
iteration:
  - action: boot
    post: /servers
    target: nova
    json:
      server:
        name: 'server-{{ iteration }}'
        flavorRef: '{{ context.flavor.tiny }}'
        imageRef: '{{ context.tenant.images[0].id }}'
        networks: [ { uuid: '{{ context.tenant.networks[0].id }}' } ]
    extract: { server: { json: $.server.id } }
  - action: wait
    get: '/servers/{{ server }}'
    target: nova
    extract: { status: { json: $.server.status } }
    poll: { until: status == 'ACTIVE', fail_if: status == 'ERROR', interval: 500ms, deadline: 4m }
  - log: server {{ server }} is there
";

#[test]
#[cfg(unix)]
fn real_openstack_is_cleaned_of_the_contexts_of_a_run_that_was_killed() {
    let Some(cloud) = OpenStackCloud::of_environment() else { return };
    let bench = cloud.bench();
    bench.write("scenario.yaml", CONTEXTS);
    let child = start(&bench);
    let until = Instant::now() + PATIENCE;
    let servers = |bench: &Bench| {
        let listed = bench.run(&["cleanup", "-d", "deployment.yaml", "--older-than", "1s"]);
        listed.stdout.lines().filter(|line| line.starts_with("server ")).count()
    };
    while servers(&bench) < 2 {
        assert!(Instant::now() < until, "no two servers after {PATIENCE:?}");
        std::thread::sleep(Duration::from_secs(1));
    }
    signal(&child, "KILL");
    assert_eq!(end(child).code, None);
    let directory = bench.run_directory();
    let record: Value =
        serde_json::from_slice(&std::fs::read(directory.join("contexts.json")).unwrap()).unwrap();
    let prefix = record["prefix"].as_str().unwrap();
    let listed = bench.run(&["cleanup", "-d", "deployment.yaml", "--older-than", "1s"]).expect_code(0);
    for (what, count) in
        [("project", 2), ("user", 2), ("flavor", 1), ("image", 2), ("network", 2), ("router", 2)]
    {
        let beginning = format!("{what} {prefix}-");
        let found = listed.stdout.lines().filter(|line| line.starts_with(&beginning)).count();
        assert_eq!(found, count, "{what}: {listed:?}");
    }
    let cleaned = bench.run(&["cleanup", directory.to_str().unwrap(), "--yes"]).expect_code(0);
    assert!(cleaned.stderr.contains(", 0 are left"), "{cleaned:?}");
    cloud.assert_clean(&bench, prefix);
}
