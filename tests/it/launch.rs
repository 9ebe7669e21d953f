//! What `bench slurm` and `bench k8s` print: refused where it would not run, and run as it is written.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::Deserialize as _;
use serde_json::Value;

use crate::server::ScriptedServer;
use crate::support::{Bench, ChildGuard, CommandOutput, adds_up};

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

fn print(bench: &Bench, arguments: &[&str]) -> CommandOutput {
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
fn pod(bench: &Bench, objects: &[Value], job: &str, index: Option<usize>) -> ChildGuard {
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
    ChildGuard::start(&mut command)
}

#[test]
fn the_pods_of_the_manifests_make_the_load_and_merge_it() {
    let server = ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/json", "{}"));
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
    let shards: Vec<ChildGuard> = (0..3).map(|index| pod(&bench, &objects, "order-7", Some(index))).collect();
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
type LaunchRefusalRow<'a> = (&'a str, &'a str, fn(&Path), i32, &'a str);

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_would_not_run_elsewhere_is_refused() {
    let nothing: fn(&Path) = |_| {};
    let whole = KUBERNETES.join(" ");
    let rows: [LaunchRefusalRow<'_>; 15] = [
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
            "an option for a URL",
            "slurm scenarios/order.yaml --shards 3 -- -H X-Api-Key:s3cr3t-4711",
            nothing,
            64,
            "--header is for a URL",
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
        ("no files", "k8s demo --shards 3 --image i", nothing, 64, "write them with `bench init demo`"),
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
            CommandOutput::from(command.output().unwrap()).expect_code(0);
        }
    }
}

/// Runs the words of a shell command with these variables; returns what it printed and its exit code.
fn shell(bench: &Bench, shell: &str, words: &[&str], variables: &[(&str, &str)]) -> ChildGuard {
    let mut command = Command::new(shell);
    command.args(words).current_dir(bench.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let path = format!("{}:{}", bench.path().join("bin").display(), std::env::var("PATH").unwrap());
    ChildGuard::start(command.env("PATH", path).envs(variables.iter().copied()))
}

/// Names that a shell would obey if it read them as anything but one word.
const HOSTILE: [&str; 9] = [
    "o$(touch PWN)",
    "o`touch PWN`",
    "it's; touch PWN; '",
    "a\" ; touch PWN ; \"b",
    "two words\\",
    "-rf",
    "$HOME*~ # x",
    "line\ntouch PWN\n#",
    "\u{e4}END",
];

/// The script is run as `sbatch` and the node would: nothing but the program starts, and the verdict arrives.
#[cfg(unix)]
#[test]
fn the_script_for_slurm_takes_every_name_as_it_is() {
    use std::os::unix::fs::PermissionsExt as _;
    // What sbatch does with a script and its arguments, as far as the script can tell.
    const SBATCH: &str = "#!/bin/sh\nwhile [ \"${1#--}\" != \"$1\" ]; do shift; done\nprintf '%s\\0' \"$@\" > merge.arguments\n";
    let has_shellcheck = Command::new("shellcheck").arg("--version").output().is_ok();
    if !has_shellcheck {
        println!("skipped: shellcheck, which tests/real/peers.sh installs");
    }
    for (number, name) in HOSTILE.into_iter().enumerate() {
        let server = ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/json", "{}"));
        let bench = folder(&server.url());
        std::fs::create_dir(bench.path().join("bin")).unwrap();
        let sbatch = bench.write("bin/sbatch", SBATCH);
        std::fs::set_permissions(sbatch, std::fs::Permissions::from_mode(0o755)).unwrap();
        // A name without a slash is looked for in the PATH.
        for place in [bench.path().join(name), bench.path().join("bin").join(name)] {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_bench"), place).unwrap();
        }
        let scenario = format!("scenarios/{name}.yaml");
        bench.write(&scenario, format!("{SCENARIO}variables: {{ note: x }}\n"));
        let (out, program) = (format!("--out={name}.runs"), format!("--program={name}"));
        let own =
            ["slurm", &scenario, "--shards", "2", &out, &program, "--", "--set", &format!("note={name}")];
        let script = print(&bench, &own).expect_code(0).stdout;
        bench.write("load.sbatch", &script);
        if has_shellcheck {
            let checked = Command::new("shellcheck").arg("load.sbatch").current_dir(bench.path()).output();
            CommandOutput::from(checked.unwrap()).expect_code(0);
        }
        let with = if number % 2 == 0 { "bash" } else { "sh" };
        let tasks: Vec<ChildGuard> = ["0", "1"]
            .into_iter()
            .map(|task| {
                let variables = [
                    ("SHOP_KEY", "v3ry-s3cr3t"),
                    ("SLURM_JOB_ID", "7"),
                    ("SLURM_ARRAY_JOB_ID", "7"),
                    ("SLURM_ARRAY_TASK_ID", task),
                    ("SLURM_ARRAY_TASK_COUNT", "2"),
                    ("SLURM_ARRAY_TASK_MIN", "0"),
                    ("SLURM_ARRAY_TASK_MAX", "1"),
                ];
                shell(&bench, with, &["load.sbatch"], &variables)
            })
            .collect();
        for task in tasks {
            task.end().expect_code(0);
        }
        let arguments = std::fs::read(bench.path().join("merge.arguments")).unwrap();
        let arguments = String::from_utf8(arguments).unwrap();
        let words: Vec<&str> = arguments.split_terminator('\0').collect();
        let merged = shell(&bench, with, &words, &[("SHOP_KEY", "v3ry-s3cr3t")]).end();
        assert!(merged.stdout.contains("PASS"), "{name:?}: {} {}", merged.stdout, merged.stderr);
        assert_eq!((merged.code, server.seen().len()), (Some(0), 90), "{name:?}: {}", merged.stderr);
        assert!(bench.path().join(format!("{name}.runs/slurm-7/merge.sh")).exists(), "{name:?}");
        assert!(!bench.path().join("PWN").exists(), "{name:?}\n{script}");
    }
}

/// What Kubernetes hands to a container for an argument: `$$` is a dollar sign, and `$(NAME)` a variable.
fn expanded(argument: &str) -> String {
    let (mut shown, mut rest) = (String::new(), argument);
    while let Some(at) = rest.find('$') {
        shown.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        match after.chars().next() {
            Some('$') => (shown, rest) = (shown + "$", &after[1..]),
            Some('(') if after.contains(')') => {
                (shown, rest) = (shown + "expanded", after.split_once(')').unwrap().1)
            }
            _ => (shown, rest) = (shown + "$", after),
        }
    }
    shown + rest
}

#[cfg(unix)]
#[test]
fn the_manifests_take_every_name_as_it_is() {
    for name in HOSTILE.into_iter().chain(["a$$b", "$(BENCH_JOB)"]) {
        let bench = folder("http://127.0.0.1:9");
        let scenario = format!("scenarios/{name}.yaml");
        bench.write(&scenario, format!("{SCENARIO}variables: {{ note: x }}\n"));
        let note = format!("note={name}");
        let mut own: Vec<&str> = KUBERNETES.to_vec();
        own[1] = &scenario;
        own.extend(["--", "--set", &note]);
        let printed = print(&bench, &own).expect_code(0).stdout;
        let objects = objects(&printed);
        let container = &of_kind(&objects, "Job", "order-7")["spec"]["template"]["spec"]["containers"][0];
        let words: Vec<String> = container["args"]
            .as_array()
            .unwrap()
            .iter()
            .map(|word| expanded(word.as_str().unwrap()))
            .collect();
        assert_eq!(words[1], scenario, "{name:?}");
        assert!(words.contains(&note), "{name:?}: {words:?}");
        assert!(printed.lines().take_while(|line| line.starts_with('#')).count() >= 5, "{printed}");
    }
}

/// What is wrong, the deployment and what is added to the scenario, further arguments, the exit code and what is said.
type SecretRefusalRow<'a> = (&'a str, &'a str, &'a str, &'a [&'a str], i32, &'a str);

/// A secret that the files refer to is not copied with them, and a secret in the scenario or an argument is refused.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn what_is_known_as_a_secret_is_never_printed() {
    let rows: [SecretRefusalRow<'_>; 7] = [
        (
            "the file of a secret",
            "targets: { default: \"http://127.0.0.1:9\" }\nprofiler: { hmac_key: { file: key.txt } }\n",
            SCENARIO,
            &["--include", "deployments/key.txt"],
            65,
            "is the file of a secret",
        ),
        (
            "the file of a token",
            "targets: { default: \"http://127.0.0.1:9\" }\nauth: { bearer: { token: { file: key.txt } } }\n",
            SCENARIO,
            &["--include", "deployments/key.txt"],
            65,
            "is the file of a secret",
        ),
        (
            "a copy of a variable's value",
            "targets: { default: \"http://127.0.0.1:9\" }\nprofiler: { hmac_key: { env: SHOP_KEY } }\n# v3ry-s3cr3t\n",
            SCENARIO,
            &[],
            65,
            "deployments/shop.yaml holds a secret in line 3",
        ),
        (
            "a variable",
            "",
            "variables: { password: v3ry-s3cr3t }\n",
            &[],
            65,
            "`variables.password` in line ",
        ),
        (
            "a header",
            "",
            "users: [{ action: get, get: /, headers: { X-Api-Key: v3ry-s3cr3t } }]\n",
            &[],
            65,
            "`iteration.headers.X-Api-Key` in line ",
        ),
        (
            "an argument",
            "",
            "variables: { token: { env: SHOP_KEY } }\n",
            &["--", "--set", "token=v3ry-s3cr3t"],
            64,
            "gives a secret",
        ),
        (
            "a column",
            "",
            "",
            &["--include", "scenarios/people.csv"],
            0,
            "# In clear, for everybody who may read the ConfigMap: password in scenarios/people.csv",
        ),
    ];
    for (what, deployment, scenario, more, code, words) in rows {
        let bench = folder("http://127.0.0.1:9");
        bench.write("deployments/key.txt", "v3ry-s3cr3t\n");
        bench.write("scenarios/people.csv", "name,password\nu,p\n");
        if !deployment.is_empty() {
            bench.write("deployments/shop.yaml", deployment);
        }
        if scenario != SCENARIO {
            let text = match scenario.strip_prefix("users: ") {
                Some(steps) => SCENARIO
                    .replace("iteration: [{", &format!("iteration: {}, {{", &steps[..steps.len() - 2])),
                None => format!("{SCENARIO}{scenario}"),
            };
            bench.write("scenarios/order.yaml", text);
        }
        let ended = print(&bench, &[&KUBERNETES, more].concat());
        let all = ended.stdout.clone() + &ended.stderr;
        assert!(all.contains(words), "{what}: {all}");
        assert!(!all.contains("v3ry-s3cr3t"), "{what}: {all}");
        assert_eq!(ended.code, Some(code), "{what}: {all}");
    }
}
