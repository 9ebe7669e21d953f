//! What `bench slurm` and `bench k8s` print: refused where it would not run, and run as it is written.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize as _;
use serde_json::Value;

use crate::server::Server;
use crate::support::{Bench, Ended, Running, adds_up};

const SCENARIO: &str = "title: t
deployment: ../deployments/shop.yaml
data: { users: { file: users.csv } }
runner: { constant: { times: 90, concurrency: 3 } }
iteration: [{ action: post, post: /, body: '{{ users.id }}' }]
sla: { failure_rate: { max: 0 } }
";

/// A scenario with a deployment elsewhere, data, and a secret in a variable.
fn folder(url: &str) -> Bench {
    let bench = Bench::new();
    for name in ["scenarios", "deployments"] {
        std::fs::create_dir(bench.path().join(name)).unwrap();
    }
    bench.write("scenarios/order.yaml", SCENARIO);
    bench.write("scenarios/users.csv", "id\n1\n2\n\u{e4}\n");
    let deployment =
        format!("targets: {{ default: \"{url}\" }}\nprofiler: {{ hmac_key: {{ env: SHOP_KEY }} }}\n");
    bench.write("deployments/shop.yaml", deployment);
    bench
}

fn print(bench: &Bench, arguments: &[&str]) -> Ended {
    Bench::end(bench.command(arguments).env("SHOP_KEY", "v3ry-s3cr3t"))
}

const KUBERNETES: [&str; 10] = [
    "k8s",
    "scenarios/order.yaml",
    "--shards",
    "3",
    "--image",
    "bench:1",
    "--name",
    "order-7",
    "--include",
    "scenarios/users.csv",
];

fn objects(text: &str) -> Vec<Value> {
    serde_yaml::Deserializer::from_str(text).map(|one| Value::deserialize(one).unwrap()).collect()
}

fn of_kind<'a>(objects: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = objects.iter().find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// Starts what a Job's pod runs: its files, arguments and variables are those of the manifest, its volumes are here.
fn pod(bench: &Bench, objects: &[Value], job: &str, index: Option<usize>) -> Running {
    let spec = &of_kind(objects, "Job", job)["spec"]["template"]["spec"];
    let container = &spec["containers"][0];
    let files = bench.path().join(format!("pod-{job}-{}", index.unwrap_or_default()));
    let volume = spec["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == "load").unwrap();
    let map = of_kind(objects, "ConfigMap", volume["configMap"]["name"].as_str().unwrap());
    for item in volume["configMap"]["items"].as_array().unwrap() {
        let path = files.join(item["path"].as_str().unwrap());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, map["data"][item["key"].as_str().unwrap()].as_str().unwrap()).unwrap();
    }
    let runs = bench.path().join("volume");
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.env_clear().current_dir(&files).stdout(Stdio::piped()).stderr(Stdio::piped());
    let words = container["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    command.args(
        words.map(|word| {
            word.replacen("/runs", runs.to_str().unwrap(), usize::from(word.starts_with("/runs")))
        }),
    );
    for variable in container["env"].as_array().unwrap() {
        let secret = &variable["valueFrom"]["secretKeyRef"];
        let value = match secret["key"].as_str() {
            Some(key) => {
                ["v3ry-s3cr3t"].into_iter().find(|_| secret["name"] == "bench" && key == "SHOP_KEY").unwrap()
            }
            None => variable["value"].as_str().unwrap(),
        };
        command.env(variable["name"].as_str().unwrap(), value);
    }
    if let Some(index) = index {
        command.env("JOB_COMPLETION_INDEX", index.to_string()).env("HOSTNAME", format!("{job}-{index}"));
    }
    Running::start(&mut command)
}

#[test]
fn the_pods_of_the_manifests_make_the_load_and_merge_it() {
    let server = Server::start(|_, wire| wire.answer("200 OK", "application/json", "{}"));
    let bench = folder(&server.url());
    let printed = print(&bench, &KUBERNETES).expect_code(0).stdout;
    assert!(!printed.contains("v3ry-s3cr3t"), "{printed}");
    assert!(
        printed.contains("kubectl create secret generic bench --from-literal=SHOP_KEY=\"$SHOP_KEY\""),
        "{printed}"
    );
    let objects = objects(&printed);
    let load = &of_kind(&objects, "Job", "order-7")["spec"];
    assert_eq!((&load["completions"], &load["completionMode"]), (&3.into(), &"Indexed".into()));
    let resources = &load["template"]["spec"]["containers"][0]["resources"];
    assert_eq!(
        resources,
        &serde_json::json!({ "requests": { "cpu": "1" } }),
        "no limit that would throttle it"
    );
    assert!(printed.contains("a whole processor for each worker"), "{printed}");
    // The job that merges begins when the others do, and waits for them.
    let merging = pod(&bench, &objects, "order-7-merge", None);
    let shards: Vec<Running> = (0..3).map(|index| pod(&bench, &objects, "order-7", Some(index))).collect();
    for shard in shards {
        shard.end().expect_code(0);
    }
    let merged = merging.end().expect_code(0);
    assert!(merged.stderr.contains("have not ended"), "{}", merged.stderr);
    assert!(merged.stderr.contains("warning: no traces were fetched"), "{}", merged.stderr);
    let folder = bench.path().join("volume/order-7");
    let run = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path().join("results.json"));
    let results: Value =
        serde_json::from_slice(&std::fs::read(run.filter(|path| path.exists()).last().unwrap()).unwrap())
            .unwrap();
    adds_up(&results);
    assert_eq!((results["iterations"].as_array().unwrap().len(), server.seen().len()), (90, 90));
    assert_eq!(results["verdict"]["outcome"], "PASS");
}

/// What is changed, and what is said.
type Row<'a> = (&'a str, &'a str, fn(&Path), i32, &'a str);

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_would_not_run_elsewhere_is_refused() {
    let nothing: fn(&Path) = |_| {};
    let whole = KUBERNETES.join(" ");
    let rows: [Row<'_>; 13] = [
        ("a missing file", &KUBERNETES[..8].join(" "), nothing, 65, "--include FILE"),
        (
            "a secret in a file",
            &whole,
            |path| {
                let text = "targets: { default: \"http://127.0.0.1:9\" }\nprofiler: { hmac_key: s3cr3t }";
                std::fs::write(path.join("deployments/shop.yaml"), text).unwrap();
            },
            65,
            "holds a secret itself, `profiler.hmac_key` in line 2",
        ),
        (
            "files that are too large",
            &whole,
            |path| std::fs::write(path.join("scenarios/users.csv"), "id\n1\n".repeat(300_000)).unwrap(),
            65,
            "a ConfigMap holds 1 MiB",
        ),
        (
            "a fault",
            &whole,
            |path| {
                std::fs::write(path.join("scenarios/order.yaml"), SCENARIO.replace("runner", "rnner"))
                    .unwrap()
            },
            65,
            "unknown key `rnner`",
        ),
        (
            "no name",
            "k8s scenarios/order.yaml --shards 3 --image i --name Order_7",
            nothing,
            64,
            "lower-case letters",
        ),
        ("no image", "k8s scenarios/order.yaml --shards 3", nothing, 64, "--image"),
        ("one shard", "slurm scenarios/order.yaml --shards 1", nothing, 64, "1"),
        ("no file", "slurm nowhere.yaml --shards 3", nothing, 65, "nowhere.yaml"),
        (
            "no option",
            "slurm scenarios/order.yaml --shards 3 --sbatch x",
            nothing,
            64,
            "--sbatch=--partition=fast",
        ),
        (
            "an option of its own",
            "slurm scenarios/order.yaml --shards 3 -- --out x",
            nothing,
            64,
            "--out: that is what",
        ),
        (
            "an unknown option",
            "slurm scenarios/order.yaml --shards 3 -- --nothing",
            nothing,
            64,
            "after `--`: unexpected argument",
        ),
        (
            "another variable",
            "slurm scenarios/order.yaml --shards 3 -- --set x=1",
            nothing,
            65,
            "no such variable",
        ),
        ("no time", "slurm scenarios/order.yaml --shards 3 --wait soon", nothing, 64, "soon"),
    ];
    for (what, arguments, change, code, words) in rows {
        let bench = folder("http://127.0.0.1:9");
        change(bench.path());
        let ended = print(&bench, &arguments.split(' ').collect::<Vec<_>>());
        assert!(ended.stderr.contains(words), "{what}: {}", ended.stderr);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(code), ""), "{what}: {}", ended.stderr);
    }
}

/// Whatever its place is, a secret in a deployment is named and never printed.
#[test]
fn a_deployment_that_holds_a_secret_is_refused() {
    for (line, key) in [
        ("headers: { Authorization: 'Bearer s3cr3t-s3cr3t' }", "headers.Authorization"),
        ("headers: { X-Api-Key: s3cr3t-s3cr3t }", "headers.X-Api-Key"),
        (
            "profiler: { connection_string: 'redis://:s3cr3t-s3cr3t@127.0.0.1:9' }",
            "profiler.connection_string",
        ),
        ("proxy: 'http://u:s3cr3t-s3cr3t@127.0.0.1:9'", "proxy"),
        ("auth: { bearer: { token: { env: NOPE, default: s3cr3t-s3cr3t } } }", "auth.bearer.token"),
    ] {
        let bench = folder("http://127.0.0.1:9");
        let text = format!("name: d\ntargets: {{ default: 'http://127.0.0.1:9' }}\n{line}\n");
        bench.write("deployments/shop.yaml", text);
        let ended = print(&bench, &KUBERNETES).expect_code(65);
        let words = format!("holds a secret itself, `{key}` in line 3");
        for part in [words.as_str(), "{env: NAME}"] {
            assert!(ended.stderr.contains(part), "{line}: {}", ended.stderr);
        }
        assert!(!(ended.stdout + &ended.stderr).contains("s3cr3t-s3cr3t"), "{line}");
    }
}

#[test]
fn a_missing_directory_of_temporary_files_stays_missing() {
    let bench = folder("http://127.0.0.1:9");
    let missing = bench.path().join("missing");
    let mut command = bench.command(&KUBERNETES);
    let ended = Bench::end(command.env("SHOP_KEY", "v3ry-s3cr3t").env("TMPDIR", &missing)).expect_code(1);
    assert!(ended.stderr.contains("TMPDIR") && ended.stdout.is_empty(), "{}", ended.stderr);
    assert!(!missing.exists());
}

#[test]
fn real_kubernetes_schemas_accept_the_manifests() {
    let Some(validate) =
        crate::support::service("BENCH_TEST_KUBERNETES_VALIDATE", "the program of tests/real/kubernetes.sh")
    else {
        return;
    };
    let bench = folder("http://127.0.0.1:9");
    for more in [&[][..], &["--claim", "shared"], &["--size", "1Ti", "--", "--workers", "2"]] {
        let arguments = [&KUBERNETES[..], more].concat();
        bench.write("manifests.yaml", print(&bench, &arguments).expect_code(0).stdout);
        // The oldest one that is still supported somewhere, and two newer ones.
        for version in ["1.27.0", "1.31.0", "1.34.0"] {
            let mut command = Command::new(&validate);
            command.args(["--strict", "-k", version, "manifests.yaml"]).current_dir(bench.path());
            Ended::from(command.output().unwrap()).expect_code(0);
        }
    }
}
