//! One request with its trace: Mistral's `--profile KEY` for any service.
//!
//! It is a run of a single iteration in a temporary directory, so that credentials, headers, TLS, the collector and the
//! receiver are as in a load.

use std::io::Read;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use crate::error::HarnessError;
use crate::event::Sink;
use crate::interrupt::Interrupt;
use crate::options::{Environment, LoadOptions, RunOptions};
use crate::run;
use crate::single::{Temporary, only_of_the_trace};
use crate::url_run::UrlRun;
use base::secret::Secret;
use plan::overrides::LoadShape;
use results::model::{Profiling, RunStatus, TraceState};
use results::trace::StoredTrace;
use text::files::open_named;

/// The names under which the made deployment looks up its secrets. No variable of a process has a name with a blank.
const KEY: &str = "the key";
const COLLECTOR: &str = "the collector";

/// A request, and where its trace will be.
#[derive(Clone, Debug)]
pub struct TraceRequest {
    /// The request.
    pub request: UrlRun,
    /// The deployment with key, collector and credentials.
    pub deployment: Option<PathBuf>,
    /// Without a deployment: the HMAC key to sign with.
    pub key: Option<Secret>,
    /// Without a deployment: the collector's connection string.
    pub connection: Option<Secret>,
    /// Receive spans at this address, besides.
    pub receive: Option<SocketAddr>,
    /// Where variables of the environment are looked up.
    pub environment: Environment,
}

/// An answered request.
#[derive(Debug)]
pub struct TracedAnswer {
    /// Its trace, with the client's own points; `None` if there is nowhere to look for it.
    pub trace: Option<StoredTrace>,
    /// The trace's id.
    pub trace_id: uuid::Uuid,
    /// Method and URL, the status if there is one, and the time in milliseconds.
    pub answer: RequestOutcome,
    /// How the trace was propagated, and what a collector or receiver said.
    pub profiling: Profiling,
    /// Warnings.
    pub notes: Vec<String>,
    /// Whether a deployment was given.
    pub has_deployment: bool,
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestOutcome {
    /// Method and URL.
    pub what: String,
    /// The status, if there was an answer.
    pub status: Option<u16>,
    /// From the start of the request to the last byte.
    pub duration_ms: f64,
    /// What was wrong with it, if anything.
    pub error: Option<String>,
}

impl TracedAnswer {
    /// True if every point of the trace has arrived.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.trace.as_ref().is_some_and(|trace| trace.state == TraceState::Complete)
    }

    /// What is wrong with the answer or missing of the trace, with what to do.
    #[must_use]
    pub fn fault(&self) -> Option<HarnessError> {
        let failed = self.answer.error.as_ref();
        let failed = failed.map(|error| HarnessError::failed(format!("the request failed: {error}")));
        let missing = match &self.trace {
            Some(_) if self.is_complete() => None,
            None => {
                let help = match self.has_deployment {
                    true => {
                        "add profiler.connection_string or profiler.receive to the deployment, or give --receive"
                    }
                    false => "give -d DEPLOYMENT, --connection-string URL, or --receive",
                };
                Some(HarnessError::failed("there is nowhere to look for the trace").remedy(help))
            }
            Some(trace) => {
                let goes_on = trace.state == TraceState::Partial && self.profiling.collector_error.is_none();
                let error = |why: &str| HarnessError::failed(format!("the trace is not complete{why}"));
                if goes_on {
                    let help = "services may still be at work: show it later with `bench trace show`, or give --wait 30s";
                    Some(error(": some points have no start or no stop").remedy(help))
                } else {
                    let is_of_trace = |note: &&String| note.contains("reached the collector");
                    let note = self.notes.iter().rfind(is_of_trace);
                    let why = self.profiling.collector_error.as_ref().or(note);
                    Some(error(&why.map(|why| format!(": {why}")).unwrap_or_default()))
                }
            }
        };
        match (failed, missing) {
            (Some(failed), Some(missing)) => Some(failed.and(missing)),
            (failed, missing) => failed.or(missing),
        }
    }
}

/// Sends the request, and waits until its trace looks complete.
///
/// # Errors
/// When nothing could be sent: a fault of the options or files, or a service that does not answer.
pub fn request(
    options: &TraceRequest,
    interrupt: &Interrupt,
    events: &Sink,
) -> Result<TracedAnswer, HarnessError> {
    let mut request = options.request.clone();
    if !UrlRun::is_url(&request.url) {
        return Err(HarnessError::usage(format!("`{}` is not a URL", request.url))
            .remedy("write it as http://host:port/path"));
    }
    if options.deployment.is_none() {
        request.profiler = options.profiler();
    }
    let once = LoadShape { concurrency: Some(1), times: Some(1), ..LoadShape::default() };
    let plan = request.plan(&once, options.deployment.as_deref(), None)?;
    let folder = Temporary::make("once")?;
    let run_options = RunOptions {
        deployment: Some(plan.deployment),
        target: plan.target,
        receive: options.receive,
        load: LoadOptions { environment: options.environment(), workers: Some(1), ..LoadOptions::default() },
        out: folder.path().to_path_buf(),
        ..RunOptions::new(plan.scenario)
    };
    let finished = run(run_options, interrupt, &only_of_the_trace(events))?;
    let results = finished.results;
    if results.run.status == RunStatus::Interrupted && results.slowest.is_empty() {
        return Err(HarnessError::new(crate::HarnessErrorKind::Interrupted, "interrupted before the answer"));
    }
    let Some(slowest) = results.slowest.first() else {
        let why = results.run.error.unwrap_or_else(|| "it was not sent".to_owned());
        return Err(HarnessError::failed(format!("no answer to the request: {why}")));
    };
    let trace_id = slowest.iteration.trace_id;
    let action = slowest.actions.first();
    let errors = results.workloads.first().and_then(|workload| workload.errors.first());
    let failure = errors.map(|error| error.message.clone()).or_else(|| slowest.iteration.error.clone());
    let looked = results.profiling.fetch_s.is_some();
    Ok(TracedAnswer {
        trace: finished.traces.into_iter().find(|trace| trace.trace_id == trace_id).filter(|_| looked),
        trace_id,
        answer: RequestOutcome {
            what: results.scenario.title,
            status: action.and_then(|action| action.status),
            duration_ms: slowest.iteration.ran_ms(),
            error: failure,
        },
        profiling: results.profiling,
        notes: results.notes,
        has_deployment: options.deployment.is_some(),
    })
}

impl TraceRequest {
    /// The `profiler` of a deployment.
    fn profiler(&self) -> Map<String, Value> {
        let mut profiler = Map::new();
        if self.key.is_some() {
            profiler.insert("hmac_key".to_owned(), json!({ "env": KEY }));
        }
        if self.connection.is_some() {
            profiler.insert("connection_string".to_owned(), json!({ "env": COLLECTOR }));
        }
        profiler
    }

    fn environment(&self) -> Environment {
        let (key, connection, others) = (self.key.clone(), self.connection.clone(), self.environment.clone());
        Environment::new(move |name| match name {
            KEY => key.as_ref().map(|key| key.expose().to_owned()),
            COLLECTOR => connection.as_ref().map(|url| url.expose().to_owned()),
            name => others.get(name),
        })
    }
}

/// A key is not longer than this, in bytes.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// True for a key that is written out, and not `env:NAME`, `@FILE` or `-`.
#[must_use]
pub fn is_literal(given: &str) -> bool {
    !(given.starts_with("env:") || given.starts_with('@') || given == "-")
}

/// The key that an argument names: `env:NAME`, `@FILE` (its first line), `-` (the first line of `input`), or itself.
///
/// # Errors
/// The variable is not set, the file cannot be read, or the line is empty.
pub fn read_key(given: &str, environment: &Environment, input: impl Read) -> Result<Secret, HarnessError> {
    if is_literal(given) {
        return Ok(Secret::new(given));
    }
    if let Some(name) = given.strip_prefix("env:") {
        let value = environment.get(name).filter(|value| !value.is_empty());
        return value.map(Secret::new).ok_or_else(|| {
            HarnessError::usage(format!("--key env:{name}: the variable is not set"))
                .remedy("set it to the key")
        });
    }
    let mut text = String::new();
    let read = match given.strip_prefix('@') {
        Some(path) => {
            open_named(Path::new(path)).and_then(|file| file.take(KEY_BYTES_MAX).read_to_string(&mut text))
        }
        None => input.take(KEY_BYTES_MAX).read_to_string(&mut text),
    };
    read.map_err(|error| HarnessError::usage(format!("--key {given}: cannot read it: {error}")))?;
    match text.lines().next().map(str::trim).filter(|line| !line.is_empty()) {
        Some(line) => Ok(Secret::new(line)),
        None => Err(HarnessError::usage(format!("--key {given}: its first line has no key"))),
    }
}
