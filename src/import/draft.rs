//! A scenario and a deployment that are being made, and their text.

use serde_json::{Map, Value, json};

use text::yaml;
use text::yaml_text::{self, Comments};

use super::ImportError;
use super::multipart::{self, FormField};
use super::secrets::Variables;
use super::sniff;

/// What to write. Its secrets are references to environment variables.
#[derive(Debug, Default)]
pub struct Draft {
    /// The scenario's title.
    pub(super) title: String,
    /// The deployment's name.
    pub(super) name: String,
    /// Comments at the top of the scenario, one line each.
    pub(super) about: Vec<String>,
    /// Targets by name; the first is the default.
    pub(super) targets: Vec<(String, String)>,
    /// Further keys of the deployment: `tls`, `auth`, `headers`.
    pub(super) deployment: Map<String, Value>,
    /// Comments on the deployment's keys.
    pub(super) deployment_comments: Comments,
    /// The scenario's variables.
    pub(super) variables: Variables,
    /// The environment variables of the deployment.
    pub(super) environment: Vec<String>,
    /// The scenario's `http`.
    pub(super) http: Map<String, Value>,
    /// The steps of an iteration.
    pub(super) steps: Vec<DraftStep>,
    /// The runner, if another one than a single iteration.
    pub(super) runner: Option<(Value, String)>,
    /// The scenario's `sla`, if another one than that nothing fails, and the comment on it.
    pub(super) sla: Option<(Value, String)>,
    /// Paths from the scenario of files that the input only mentions.
    pub(super) stand_ins: Vec<String>,
    /// The scenario's end: comments.
    pub(super) ideas: String,
    /// What the user should know: what was left out, what needs a look.
    pub(super) notes: Vec<String>,
}

/// A step, with the comment above it.
#[derive(Clone, Debug, Default)]
pub(super) struct DraftStep {
    pub(super) keys: Map<String, Value>,
    pub(super) comment: String,
}

/// Both files, and what to say about them.
#[derive(Clone, Debug)]
pub struct ImportOutput {
    pub scenario: String,
    pub deployment: String,
    /// How many requests an iteration sends.
    pub requests: usize,
    /// The environment variables to set before a run.
    pub environment: Vec<String>,
    /// Paths from the scenario of files to send that the input only mentions. Each must be there, with any content.
    pub stand_ins: Vec<String>,
    /// What the user should know: one sentence each, without a full stop.
    pub notes: Vec<String>,
}

const SLA: &str = "Add thresholds, such as `thresholds: [p95 < 300ms]`.";
const ONE_ITERATION: &str = "One iteration, to see that it works. Then, for example:\n\
    { constant: { times: 1000, concurrency: 10 } } or { rps: { rps: 20, duration: 1m } }";

impl Draft {
    /// The text of both files; the scenario names its deployment `deployment_file`.
    ///
    /// # Errors
    /// There is no request, or the scenario is longer than a scenario may be.
    pub fn write(&self, deployment_file: &str) -> Result<ImportOutput, ImportError> {
        if self.steps.is_empty() {
            let what = match self.notes.join("; ") {
                none if none.is_empty() => "there is no request to import".to_owned(),
                notes => format!("there is no request to import: {notes}"),
            };
            return Err(ImportError::new(what, "take another input, or options that leave out less"));
        }
        let scenario = self.scenario(deployment_file)?;
        if scenario.len() > yaml::BYTES_MAX {
            let what =
                format!("the scenario would have {} bytes, more than {}", scenario.len(), yaml::BYTES_MAX);
            return Err(ImportError::new(what, "import fewer requests"));
        }
        let mut environment = self.environment.clone();
        environment.extend(self.variables.environment());
        environment.sort();
        environment.dedup();
        let requests = self.steps.iter().filter(|step| !step.keys.contains_key("think")).count();
        let deployment = self.deployment()?;
        let stand_ins = self.stand_ins.clone();
        let notes = self.notes.iter().cloned().chain(self.variables.note(sniff::shown)).collect();
        Ok(ImportOutput { scenario, deployment, requests, environment, stand_ins, notes })
    }

    /// Remembers the files of a form that the input only mentions.
    pub(super) fn stand_ins(&mut self, fields: &[FormField]) {
        for path in multipart::stand_ins(fields) {
            if !self.stand_ins.iter().any(|known| known == path) {
                self.stand_ins.push(path.to_owned());
            }
        }
    }

    fn scenario(&self, deployment_file: &str) -> Result<String, ImportError> {
        let mut comments = Comments::new();
        let mut document = Map::from_iter([
            ("title".to_owned(), Value::from(self.title.as_str())),
            ("deployment".to_owned(), deployment_file.into()),
        ]);
        let variables = self.variables.written(&mut comments);
        if !variables.is_empty() {
            comments.insert("/variables".into(), "--set NAME=VALUE overrides a variable.".into());
            document.insert("variables".to_owned(), Value::Object(variables));
        }
        if !self.http.is_empty() {
            document.insert("http".to_owned(), Value::Object(self.http.clone()));
        }
        let single = || (json!({ "constant": { "times": 1, "concurrency": 1 } }), ONE_ITERATION.to_owned());
        let (runner, comment) = self.runner.clone().unwrap_or_else(single);
        comments.insert("/runner".into(), comment);
        document.insert("runner".to_owned(), runner);
        let steps = self.steps.iter().enumerate().map(|(index, step)| {
            if !step.comment.is_empty() {
                comments.insert(format!("/iteration/{index}"), step.comment.clone());
            }
            Value::Object(step.keys.clone())
        });
        let steps: Vec<Value> = steps.collect();
        document.insert("iteration".to_owned(), steps.into());
        let usual = || (json!({ "failure_rate": { "max": 0 } }), SLA.to_owned());
        let (sla, comment) = self.sla.clone().unwrap_or_else(usual);
        comments.insert("/sla".into(), comment);
        document.insert("sla".to_owned(), sla);
        let about: String = self.about.iter().map(|line| comment_line(line)).collect();
        Ok(format!("{about}{}{}", text(&Value::Object(document), &comments)?, self.ideas))
    }

    fn deployment(&self) -> Result<String, ImportError> {
        let targets: Map<String, Value> =
            self.targets.iter().map(|(name, url)| (name.clone(), Value::from(url.as_str()))).collect();
        let mut document = Map::from_iter([("name".to_owned(), Value::from(self.name.as_str()))]);
        let has_targets = !targets.is_empty();
        if has_targets {
            document.insert("targets".to_owned(), Value::Object(targets));
        }
        document.extend(self.deployment.clone());
        let mut comments = self.deployment_comments.clone();
        comments.entry("/targets".into()).or_insert_with(|| "Where requests go.".into());
        let text = text(&Value::Object(document), &comments)?;
        // The demo brings its own targets and its own collector.
        Ok(format!("{text}{}", if has_targets { PROFILER } else { "" }))
    }
}

/// Traces are what bench is for, so each new deployment shows how to get them.
const PROFILER: &str = "\
# To get the traces of slow iterations, let the service send OpenTelemetry's spans to this address …
# profiler: { receive: 127.0.0.1:4318 }
# … or name OSProfiler's key and collector:
# profiler: { hmac_key: { env: OSPROFILER_HMAC_KEY }, connection_string: { env: OSPROFILER_CONNECTION_STRING } }
";

fn comment_line(line: &str) -> String {
    format!("# {}\n", base::visible::on_one_line(line))
}

fn text(value: &Value, comments: &Comments) -> Result<String, ImportError> {
    let value = serde_yaml::to_value(value)
        .map_err(|error| ImportError::new(format!("cannot write YAML: {error}"), "report this"))?;
    Ok(yaml_text::to_commented_text(&value, comments))
}
