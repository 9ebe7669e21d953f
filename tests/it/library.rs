//! The harness as a library: a run inside this process, its results, its events and its errors.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench::harness::ab::{AbOptions, PreparedAb, SideOptions};
use bench::harness::options::{Environment, FigureFiles, ReportOptions};
use bench::harness::stored::{CheckOptions, CompareOptions, RunComparison, check, compare, report};
use bench::harness::{
    Conclusion, Event, HarnessErrorKind, Interrupt, LoadOptions, RunOptions, Sink, YamlFile, event, run,
};
use bench::measure::log::decodes;
use bench::results::model::Outcome;

use crate::server::ScriptedServer;

const GET: &str = "iteration: [ { action: a, get: '/x?{{ trace_id }}' } ]";

/// A scenario and a deployment as texts, whose files are made below `out`.
fn options(out: &Path, url: &str, scenario: &str) -> RunOptions {
    let mut options = RunOptions::new(YamlFile::text("my.yaml", format!("title: t\n{scenario}\n")));
    let deployment = format!("targets: {{ default: \"{url}\" }}");
    options.deployment = Some(YamlFile::text("my-deployment.yaml", deployment));
    options.out = out.to_path_buf();
    options
}

/// The names of events, those of progress left out.
fn recorded() -> (Sink, Arc<Mutex<Vec<String>>>) {
    let names = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&names);
    let sink: Sink = Arc::new(move |event: &Event<'_>| {
        let name = match event {
            Event::Started { plan, directory } => {
                assert!(directory.is_dir());
                format!("started {}", plan.title)
            }
            Event::NotProfiling(_) => "not profiling".to_owned(),
            Event::Warning(text) => format!("warning {text}"),
            Event::WorkloadBegan(began) => format!("began {}", began.name),
            Event::WorkloadEnded(ended) => {
                format!("ended {} of {:?}, {} failed", ended.ended, ended.times, ended.failed)
            }
            Event::Stopping { .. } => "stopping".to_owned(),
            Event::PairEnded { pairs, pairs_max, .. } => format!("pair {pairs} of {pairs_max}"),
            _ => return,
        };
        sink.lock().unwrap().push(name);
    });
    (sink, names)
}

#[test]
fn a_scenario_runs_without_a_process_and_gives_results_verdict_files_and_events() {
    let server = ScriptedServer::answering_after(Duration::from_millis(1));
    let out = tempfile::tempdir().unwrap();
    let scenario = format!(
        "runner: {{ constant: {{ times: 40, concurrency: 4 }} }}\n{GET}\nsla: {{ failure_rate: {{ max: 0 }} }}"
    );
    let mut options = options(out.path(), &server.url(), &scenario);
    options.report.junit = Some(out.path().join("junit.xml"));
    let (events, names) = recorded();
    let finished = run(options, &Interrupt::new(), &events).unwrap();
    assert_eq!(finished.conclusion, Conclusion::Good);
    assert_eq!(finished.results.verdict.outcome, Outcome::Pass);
    assert_eq!(finished.results.workloads[0].iterations.total, 40);
    assert_eq!(server.seen().len(), 40);
    let directory = finished.directory.clone().unwrap();
    for file in ["run.log", "results.json", "report.html", "report.md", "badge.txt", "../junit.xml"] {
        assert!(directory.join(file).is_file(), "{file}");
    }
    let expected = ["started t", "not profiling", "began t", "ended 40 of Some(40), 0 failed"];
    assert_eq!(*names.lock().unwrap(), expected);

    // The same run, from its directory alone.
    let again = report(&directory, &ReportOptions::default(), &event::silent()).unwrap();
    assert_eq!(again.results.run.id, finished.results.run.id);
    let sla = YamlFile::text("sla.yaml", "sla: { max_seconds_per_iteration: 0.000001 }");
    let stricter = CheckOptions {
        run_dir: directory.clone(),
        sla: Some(sla),
        junit: None,
        figures: FigureFiles::default(),
    };
    assert_eq!(check(&stricter).unwrap().conclusion, Conclusion::GateFailed);
    let compared = compare(&CompareOptions {
        base: directory.clone(),
        new: directory,
        rerun: None,
        allow_different: false,
        metrics: Vec::new(),
    });
    assert!(matches!(compared.unwrap(), RunComparison::TwoRuns(two) if !two.rows.is_empty()));
}

#[test]
fn an_interrupt_ends_a_run_in_order_and_two_runs_do_not_disturb_each_other() {
    let server = ScriptedServer::answering_after(Duration::from_millis(5));
    let endless = format!("runner: {{ constant: {{ times: 1000000, concurrency: 2 }} }}\n{GET}");
    let short = format!("runner: {{ serial: {{ times: 20 }} }}\n{GET}");
    let out = tempfile::tempdir().unwrap();
    let (interrupt, (events, names)) = (Interrupt::new(), recorded());
    std::thread::scope(|scope| {
        let endless = options(out.path(), &server.url(), &endless);
        let endless = scope.spawn(|| run(endless, &interrupt, &events).unwrap());
        let short = options(out.path(), &server.url(), &short);
        let short = run(short, &Interrupt::new(), &event::silent()).unwrap();
        server.wait_for(100);
        interrupt.interrupt();
        let endless = endless.join().unwrap();
        assert_eq!(short.conclusion, Conclusion::Good);
        assert_eq!(endless.conclusion, Conclusion::Interrupted);
        let total = |finished: &bench::harness::FinishedRun| finished.results.workloads[0].iterations.total;
        assert_eq!(total(&short), 20);
        assert_eq!(usize::try_from(total(&endless)).unwrap() + 20, server.seen().len(), "none is lost");
        assert!(endless.directory.unwrap().join("report.html").is_file());
    });
    assert!(names.lock().unwrap().contains(&"stopping".to_owned()));
}

/// A change to options that are good, the kind of error that it leads to, and some of its words.
type OptionFaultRow = (fn(&mut RunOptions), HarnessErrorKind, &'static [&'static str]);

const FAULTS: [OptionFaultRow; 6] = [
    (
        |options| options.scenario = "there-is-none.yaml".into(),
        HarnessErrorKind::Input,
        &["cannot read there-is-none.yaml", "check the path"],
    ),
    (
        |options| options.scenario = YamlFile::text("my.yaml", "title: t\nruner: {}\n"),
        HarnessErrorKind::Input,
        &["my.yaml:2", "did you mean `runner`?", "my.yaml: "],
    ),
    (
        |options| {
            options.load = LoadOptions { environment: Environment::new(|_| None), ..LoadOptions::default() };
            let text = "targets: { default: 'http://127.0.0.1:9' }\nprofiler: { hmac_key: { env: HOME } }";
            options.deployment = Some(YamlFile::text("d.yaml", text));
        },
        HarnessErrorKind::Input,
        &["d.yaml:2", "HOME"],
    ),
    (|options| options.publish = true, HarnessErrorKind::Usage, &["cannot --publish"]),
    (
        |options| {
            let text = "targets: { default: 'http://127.0.0.1:9' }";
            options.deployment = Some(YamlFile::text("d.yaml", text));
        },
        HarnessErrorKind::Unreachable,
        &["127.0.0.1:9"],
    ),
    (|options| options.out = "/dev/null/runs".into(), HarnessErrorKind::Failed, &["/dev/null/runs", "--out"]),
];

#[test]
fn an_error_has_a_kind_and_says_what_helps() {
    let server = ScriptedServer::answering_after(Duration::ZERO);
    let out = tempfile::tempdir().unwrap();
    let serial = format!("runner: {{ serial: {{ times: 1 }} }}\n{GET}");
    for (change, kind, words) in FAULTS {
        let mut options = options(out.path(), &server.url(), &serial);
        change(&mut options);
        let error = run(options, &Interrupt::new(), &event::silent()).expect_err(words[0]);
        assert_eq!(error.kind(), kind, "{error}");
        for word in words {
            assert!(error.to_string().contains(word), "{word}: {error}");
        }
        let first = error.reports(false).next().unwrap();
        assert!(first.is_rendered || !first.text.starts_with("error"), "a front end says that: {error}");
    }
    let interrupted = Interrupt::new();
    interrupted.interrupt();
    let error = run(options(out.path(), &server.url(), &serial), &interrupted, &event::silent());
    assert_eq!(error.unwrap_err().kind(), HarnessErrorKind::Interrupted);
    assert_eq!(server.seen().len(), 0, "nothing was sent");
    assert_eq!(std::fs::read_dir(out.path()).unwrap().count(), 0, "no directory is left behind");
}

#[test]
fn variables_of_the_environment_come_from_where_the_caller_says() {
    let server = ScriptedServer::answering_after(Duration::ZERO);
    let out = tempfile::tempdir().unwrap();
    let mut options =
        options(out.path(), &server.url(), &format!("runner: {{ serial: {{ times: 1 }} }}\n{GET}"));
    let deployment = format!(
        "targets: {{ default: \"{}\" }}\nheaders: {{ X-Key: {{ env: ONLY_IN_THIS_TEST }} }}",
        server.url()
    );
    options.deployment = Some(YamlFile::text("d.yaml", deployment));
    options.load.environment = Environment::new(|name| (name == "ONLY_IN_THIS_TEST").then(|| "k3y".into()));
    let finished = run(options, &Interrupt::new(), &event::silent()).unwrap();
    assert_eq!(finished.conclusion, Conclusion::Good);
    assert_eq!(server.seen()[0].headers["x-key"], "k3y");
}

#[test]
fn two_builds_are_compared_without_a_process() {
    let (a, b) = (
        ScriptedServer::answering_after(Duration::ZERO),
        ScriptedServer::answering_after(Duration::from_millis(20)),
    );
    let out = tempfile::tempdir().unwrap();
    let side = |url: &str| SideOptions {
        deployment: Some(YamlFile::text("d.yaml", format!("targets: {{ default: \"{url}\" }}"))),
        ..SideOptions::default()
    };
    let scenario = format!("title: t\nrunner: {{ constant: {{ times: 120, concurrency: 4 }} }}\n{GET}\n");
    let mut options = AbOptions::new(YamlFile::text("my.yaml", scenario), side(&a.url()), side(&b.url()));
    options.out = out.path().to_path_buf();
    options.pairs = 10;
    let (events, names) = recorded();
    let compared = PreparedAb::new(options, &events).unwrap().run(&Interrupt::new()).unwrap();
    assert_eq!(compared.conclusion, Conclusion::GateFailed, "{:?}", compared.paired.decision.reasons);
    assert!(compared.directory.join("ab.json").is_file());
    assert!(names.lock().unwrap().contains(&"pair 1 of 10".to_owned()));
}

/// Whatever a report needs of the log it makes in two passes: one before the verdict, one that lists the iterations.
#[test]
fn the_log_is_decoded_twice_for_a_report_and_once_for_a_verdict() {
    let server = ScriptedServer::answering_after(Duration::from_millis(1));
    let out = tempfile::tempdir().unwrap();
    let scenario = format!(
        "runner: {{ constant: {{ times: 300, concurrency: 4 }} }}
{GET}
sla:
  failure_rate: {{ max: 50 }}
  outliers: {{ max: 300 }}
  performance_degradation: {{ max_degradation: 100000000 }}
  thresholds:
    - p(95) < 1h
    - {{ threshold: rate(errors) <= 100%, window: 100ms }}
"
    );
    let options = options(out.path(), &server.url(), &scenario);
    let decoded = |what: &dyn Fn()| {
        let before = decodes();
        what();
        decodes() - before
    };
    let before = decodes();
    let directory = run(options, &Interrupt::new(), &event::silent()).unwrap().directory.unwrap();
    assert_eq!(decodes() - before, 2, "of the run's own end");
    let again = || drop(report(&directory, &ReportOptions::default(), &event::silent()).unwrap());
    assert_eq!(decoded(&again), 2, "of a report");
    let options =
        CheckOptions { run_dir: directory.clone(), sla: None, junit: None, figures: FigureFiles::default() };
    assert_eq!(decoded(&|| drop(check(&options).unwrap())), 1, "of a check");
}
