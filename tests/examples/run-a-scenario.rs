//! Runs a scenario from a program of your own: `cargo run --example run-a-scenario`.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "an example says what it does")]

use std::error::Error;
use std::sync::Arc;

use bench::harness::{Conclusion, Event, Interrupt, RunOptions, Sink, YamlFile, run};

const SCENARIO: &str = "
title: Log in
runner:
  constant: { times: 200, concurrency: 4 }
iteration:
  - action: log in
    post: /v3/auth/tokens
    json: { auth: { identity: { methods: [password], password: {
      user: { name: user-7, domain: { id: default }, password: demo } } } } }
    expect: { status: 201 }
sla:
  failure_rate: { max: 0 }
";

/// The embedded demo; for a service of your own, `targets: { default: 'http://127.0.0.1:8080' }`.
const DEPLOYMENT: &str = "demo: {}";

fn main() -> Result<(), Box<dyn Error>> {
    let mut options = RunOptions::new(YamlFile::text("scenario.yaml", SCENARIO));
    options.deployment = Some(YamlFile::text("deployment.yaml", DEPLOYMENT));
    options.out = std::env::temp_dir();

    // Called while the run goes on, from several threads.
    let events: Sink = Arc::new(|event: &Event<'_>| match event {
        Event::Warning(text) => eprintln!("warning: {text}"),
        Event::WorkloadProgress(progress) => eprintln!("{} of {:?}", progress.ended, progress.times),
        _ => {}
    });
    // A clone of it, given to another thread, ends the run in order.
    let interrupt = Interrupt::new();

    let finished = run(options, &interrupt, &events)?;

    for workload in &finished.results.workloads {
        println!("{}: {} iterations", workload.name, workload.iterations.total);
    }
    for slow in finished.results.slowest.iter().take(3) {
        println!("{} ms, trace {}", slow.iteration.ran_ms(), slow.iteration.trace_id);
    }
    println!("{:?}; the report is in {:?}", finished.conclusion, finished.directory);
    match finished.outcome()? {
        Conclusion::Good => Ok(()),
        other => Err(format!("the run ended as {other:?}").into()),
    }
}
