//! Templates that would not end, or would use up the memory: their action fails, and the run continues.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::server::ScriptedServer;
use crate::support::{Bench, CommandOutput};

/// What a child may take; no case below comes near.
const ADDRESS_SPACE_KIB: u64 = 4 << 20;
const RESIDENT_KIB_MAX: u64 = 1 << 20;

fn service() -> ScriptedServer {
    ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/json", "{}"))
}

fn scenario(template: &str, runner: &str) -> String {
    let json = serde_json::Value::from(template);
    format!(
        "variables: {{ n: 10000000000, list: [1] }}\nrunner: {runner}\niteration:\n  - {{ post: /, json: {{ v: {json} }} }}"
    )
}

/// The command below a limit of memory.
fn limited(bench: &Bench, arguments: &str) -> Command {
    let mut command = bench.command(&[]);
    let program = command.get_program().to_owned();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -v {ADDRESS_SPACE_KIB}; exec \"$0\" {arguments}")).arg(program);
    shell.current_dir(bench.path()).env("NO_COLOR", "1");
    command.env_clear();
    shell
}

#[test]
fn an_action_whose_template_does_not_end_fails_and_names_the_limit() {
    let server = service();
    for (template, limit) in [
        ("{{ list * n }}", "too much"),
        ("{{ 'x' * n }}", "longer than 16 MiB"),
        (
            "{% for a in range(n // 100000) %}{% for b in range(n // 100000) %}{% endfor %}{% endfor %}",
            "1000000 steps",
        ),
        ("{{ list|batch(n, 'x') }}", "too much"),
    ] {
        let bench = Bench::new();
        bench.load(&server.url(), "", &scenario(template, "{ constant: { times: 4, concurrency: 2 } }"));
        let ended =
            CommandOutput::from(limited(&bench, "run scenario.yaml").output().unwrap()).expect_code(0);
        let results = bench.results();
        let error = &results["workloads"][0]["errors"][0];
        assert_eq!(
            (&error["class"], &error["count"]),
            (&"template".into(), &4.into()),
            "{template}: {ended:?}"
        );
        assert!(error["message"].as_str().unwrap().contains(limit), "{template}: {error}");
    }
}

#[test]
fn a_run_of_such_templates_ends_when_it_is_told_to() {
    let (server, bench) = (service(), Bench::new());
    let template =
        "{% for a in range(n // 100000) %}{% for b in range(n // 100000) %}{% endfor %}{% endfor %}";
    bench.load(
        &server.url(),
        "",
        &scenario(template, "{ constant_for_duration: { duration: 10m, concurrency: 4 } }"),
    );
    let child = limited(&bench, "run scenario.yaml")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (code, resident) = terminated(child, &bench.path().join("runs"));
    assert_eq!(code, Some(105));
    assert!(resident.is_none_or(|kib| kib < RESIDENT_KIB_MAX), "{resident:?} KiB");
}

/// Ends the child by SIGTERM once its load runs; gives its exit code and the most memory that it had.
fn terminated(mut child: Child, runs: &Path) -> (Option<i32>, Option<u64>) {
    let started = Instant::now();
    let run = || std::fs::read_dir(runs).ok()?.next()?.ok().map(|run| run.path().join("run.log"));
    let begun = || run().and_then(|log| std::fs::metadata(log).ok()).is_some_and(|log| log.len() > 0);
    while !begun() && started.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(50));
    }
    std::thread::sleep(Duration::from_millis(500));
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let resident = resident.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    let told = Instant::now();
    while matches!(child.try_wait(), Ok(None)) && told.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(50));
    }
    // One that has ended hears nothing of this.
    let _ = child.kill();
    (child.wait().ok().and_then(|status| status.code()), resident)
}
