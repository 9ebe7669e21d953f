//! A load on one URL without any file: the scenario and the deployment that it amounts to.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use base::complaint::Complaint;
use base::masking::hide_as_written;
use base::secret::redacted_url;
use config;
use config::runner::{Constant, Runner};
use grpc::schema::split_name;
use import::secrets::{Variables, is_secret_name, secret};
use plan::overrides::LoadShape;
use text::digits;
use text::files;
use text::yaml_text::Comments;

use super::error::HarnessError;
use super::options::YamlFile;

/// The name of the deployment that is saved beside a scenario.
const OWN_DEPLOYMENT: &str = "deployment.yaml";
/// The methods with keys of their own in a scenario's steps.
const METHODS: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];

/// A shorter secret in a URL is an ordinary word that also occurs in reports, and is not hidden there.
const HIDDEN_BYTES_MIN: usize = 8;
/// The longest name of an action, in characters.
const NAME_CHARS_MAX: usize = 200;

/// How many iterations there are unless something else is wanted.
const TIMES_DEFAULT: u64 = 200;
/// How many run at the same time unless something else is wanted.
const CONCURRENCY_DEFAULT: u32 = 50;

/// A request to repeat. URL, headers and body may contain templates, as in a scenario.
#[derive(Clone, Debug, Default)]
pub struct UrlRun {
    /// The URL.
    pub url: String,
    /// The method; if absent, GET, or POST with a body.
    pub method: Option<String>,
    /// Names and values of headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<String>,
    /// How long the request may take; if absent, as long as a scenario's.
    pub timeout: Option<Duration>,
    /// Whether certificates are accepted unverified.
    pub insecure: bool,
    /// The `profiler` of the deployment that is made, with its keys; secrets are references.
    pub profiler: Map<String, Value>,
    /// How long services may go on after the answer, if that is waited for.
    pub wait: Option<Duration>,
}

/// What a [`UrlRun`] amounts to, for [`super::RunOptions`].
#[derive(Clone, Debug)]
pub struct UrlPlan {
    /// The scenario.
    pub scenario: YamlFile,
    /// The deployment.
    pub deployment: YamlFile,
    /// The base URL that replaces the default target of a deployment that the caller gave.
    pub target: Option<String>,
    /// The environment variables from which the saved scenario takes its secrets; none of them is written.
    pub environment: Vec<String>,
}

impl UrlRun {
    /// True for a text that is a URL rather than the path of a file.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        matches!(scheme.as_deref(), Some("http" | "https" | "grpc" | "grpcs" | "ws" | "wss"))
    }

    /// True if it is a WebSocket.
    fn is_websocket(text: &str) -> bool {
        text.get(..2).is_some_and(|scheme| scheme.eq_ignore_ascii_case("ws")) && Self::is_url(text)
    }

    /// True if it is a gRPC call.
    #[must_use]
    pub fn is_grpc(text: &str) -> bool {
        text.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("grpc")) && Self::is_url(text)
    }

    /// The scenario and the deployment; the latter is `deployment`, if there is one. With `save`, both are also written:
    /// the scenario to that file, without its secrets, and a deployment that was made here beside it.
    ///
    /// # Errors
    /// The URL is malformed, the method is unknown, the load contradicts itself, or a file cannot be written.
    pub fn plan(
        &self,
        shape: &LoadShape,
        deployment: Option<&Path>,
        save: Option<&Path>,
    ) -> Result<UrlPlan, HarnessError> {
        let (origin, path) = split(&self.url)?;
        hide_options(&path);
        let beside = save.map(|save| deployment_beside(save, deployment));
        let scenario = written(&self.scenario(&path, shape, beside.as_deref())?)?;
        let made = written(&self.deployment(origin))?;
        let mut environment = Vec::new();
        if let Some(save) = save {
            let own = deployment.is_none().then(|| save.with_file_name(OWN_DEPLOYMENT));
            let mut secrets = Secrets::default();
            let (request, path) = self.without(&path, &mut secrets);
            let mut saved = request.scenario(&path, shape, beside.as_deref())?;
            environment = secrets.0.environment();
            if !environment.is_empty() {
                saved["variables"] = Value::Object(secrets.0.written(&mut Comments::default()));
            }
            write_new(save, &format!("{}{}", secrets.comment(), written(&saved)?))?;
            own.map_or(Ok(()), |own| write_new(&own, &made))?;
        }
        Ok(UrlPlan {
            scenario: YamlFile::text("scenario of the URL", scenario),
            deployment: deployment
                .map_or_else(|| YamlFile::text("deployment of the URL", made), YamlFile::from),
            target: deployment.map(|_| origin.to_owned()),
            environment,
        })
    }

    /// The request and its path with templates in place of secrets, which stay in `secrets`.
    fn without(&self, path: &str, secrets: &mut Secrets) -> (Self, String) {
        let path = match path.split_once('?') {
            Some((path, options)) => format!("{path}?{}", secrets.in_options(options)),
            None => path.to_owned(),
        };
        let headers = self.headers.iter().map(|(name, value)| (name.clone(), secrets.in_header(name, value)));
        let headers = headers.collect();
        let body = self.body.as_deref().map(|body| secrets.in_body(body));
        (Self { headers, body, ..self.clone() }, path)
    }

    pub(super) fn scenario(
        &self,
        path: &str,
        shape: &LoadShape,
        deployment: Option<&str>,
    ) -> Result<Value, HarnessError> {
        if Self::is_grpc(&self.url) {
            return self.around(redacted_url(&self.url), self.call(path)?, shape, deployment);
        }
        if Self::is_websocket(&self.url) {
            return self.around(redacted_url(&self.url), self.socket(path)?, shape, deployment);
        }
        let method = self.method.as_deref().unwrap_or(if self.body.is_some() { "POST" } else { "GET" });
        let key = method.to_ascii_lowercase();
        let known = METHODS.contains(&key.as_str());
        // Methods are case-sensitive, but `get` never means another one.
        let upper = method.to_ascii_uppercase();
        if !known && !is_method(&upper) {
            return Err(HarnessError::usage(format!("`{method}` is not a method that bench sends"))
                .remedy("use a word such as GET, POST or PURGE"));
        }
        let mut step = match known {
            true => Map::from_iter([(key, Value::from(path))]),
            false => Map::from_iter([("request".to_owned(), Value::from(format!("{upper} {path}")))]),
        };
        if let Some((path, _)) = path.split_once('?') {
            // The name stands in every result, and an option may be a secret.
            let name = format!("{upper} {path}");
            step.insert("action".to_owned(), name.chars().take(NAME_CHARS_MAX).collect::<String>().into());
        }
        if !self.headers.is_empty() {
            step.insert("headers".to_owned(), lines(&self.headers));
        }
        if let Some(body) = &self.body {
            step.insert("body".to_owned(), body.clone().into());
        }
        let title = format!("{} {}", method.to_ascii_uppercase(), redacted_url(&self.url));
        self.around(title, step, shape, deployment)
    }

    /// The step of a gRPC call.
    fn call(&self, path: &str) -> Result<Map<String, Value>, HarnessError> {
        if self.method.is_some() {
            return Err(HarnessError::usage("`--method` is of HTTP, and this is a gRPC call")
                .remedy("leave it out: the method stands in the URL"));
        }
        let name = path.trim_start_matches('/');
        if name.is_empty() {
            return Err(HarnessError::usage("this URL names no method").remedy(format!(
                "write it as {}/package.Service/Method; `bench init` lists them",
                self.url
            )));
        }
        let complaint = |complaint: Complaint| {
            HarnessError::usage(complaint.what)
                .remedy("write the URL as grpc://host:port/package.Service/Method")
        };
        split_name(name).map_err(complaint)?;
        let mut step = Map::from_iter([("grpc".to_owned(), Value::from(name))]);
        if let Some(body) = &self.body {
            let message = digits::parse(body.as_bytes()).map_err(|error| {
                HarnessError::usage(format!("the message is not JSON: {error}"))
                    .remedy("write it as --data '{\"id\": 1}', and a stream of messages as a list")
            })?;
            let key = if message.is_array() { "messages" } else { "message" };
            step.insert(key.to_owned(), message);
        }
        if !self.headers.is_empty() {
            step.insert("metadata".to_owned(), lines(&self.headers));
        }
        Ok(step)
    }

    /// The step of a WebSocket: it sends the body, if there is one, and waits for a message.
    fn socket(&self, path: &str) -> Result<Map<String, Value>, HarnessError> {
        if self.method.is_some() {
            return Err(HarnessError::usage("`--method` is of HTTP, and this is a WebSocket")
                .remedy("leave it out; `--data` is the message to send"));
        }
        let mut step = Map::from_iter([("websocket".to_owned(), Value::from(path))]);
        if let Some((path, _)) = path.split_once('?') {
            // As above, an option may be a secret.
            let name = format!("websocket {path}");
            step.insert("action".to_owned(), name.chars().take(NAME_CHARS_MAX).collect::<String>().into());
        }
        if !self.headers.is_empty() {
            step.insert("headers".to_owned(), lines(&self.headers));
        }
        if let Some(body) = &self.body {
            step.insert("steps".to_owned(), json!([{ "send": { "text": body }, "receive": true }]));
        }
        Ok(step)
    }

    /// The scenario of a single step.
    fn around(
        &self,
        title: String,
        mut step: Map<String, Value>,
        shape: &LoadShape,
        deployment: Option<&str>,
    ) -> Result<Value, HarnessError> {
        let usual = Runner::Constant(Constant {
            times: Some(TIMES_DEFAULT),
            concurrency: Some(CONCURRENCY_DEFAULT),
            timeout: None,
            max_cpu_count: None,
        });
        let runner = shape
            .replace(&usual)
            .map_err(|complaint| HarnessError::usage(complaint.what).remedy(complaint.remedy))?;
        if let Some(timeout) = self.timeout {
            step.insert("timeout".to_owned(), format!("{}s", timeout.as_secs_f64()).into());
        }
        let mut scenario = json!({ "title": title, "runner": runner, "iteration": [step] });
        if let Some(deployment) = deployment {
            scenario["deployment"] = deployment.into();
        }
        if let Some(lasts) = shape.warm_up {
            scenario["warm_up"] = format!("{}s", lasts.as_secs_f64()).into();
        }
        if !shape.thresholds.is_empty() {
            scenario["sla"] = json!({ "thresholds": shape.thresholds });
        }
        if let Some(wait) = self.wait {
            let deadline = format!("{}ms", wait.as_millis());
            scenario["end"] = json!({ "asynchronous": { "deadline": deadline } });
        }
        Ok(scenario)
    }

    pub(super) fn deployment(&self, origin: &str) -> Value {
        let host = origin.split_once("://").map_or(origin, |(_, host)| host);
        let mut deployment = json!({ "name": host, "targets": { "default": origin } });
        if self.insecure {
            deployment["tls"] = json!({ "verify": false });
        }
        if !self.profiler.is_empty() {
            deployment["profiler"] = Value::Object(self.profiler.clone());
        }
        deployment
    }
}

/// Hides the secrets among the options of a path with them.
pub(super) fn hide_options(path: &str) {
    let options = path.split_once('?').map_or("", |(_, options)| options);
    let secrets = options.split('&').filter_map(secret_option).map(|(_, secret)| secret);
    secrets.filter(|secret| secret.len() >= HIDDEN_BYTES_MIN).for_each(hide_as_written);
}

/// The secrets of a request that is saved, each with the variable that stands for it.
#[derive(Default)]
struct Secrets(Variables);

impl Secrets {
    fn in_header(&mut self, name: &str, value: &str) -> String {
        let template = if value.contains("{{") { None } else { secret(&mut self.0, name, value) };
        template.unwrap_or_else(|| value.to_owned())
    }

    /// The options of a URL, or the fields of a form. A value stays encoded as it was.
    fn in_options(&mut self, options: &str) -> String {
        let pairs = options.split('&').map(|pair| match secret_option(pair) {
            Some((name, secret)) => format!("{name}={{{{ {} }}}}", self.0.secret(name, secret)),
            None => pair.to_owned(),
        });
        pairs.collect::<Vec<String>>().join("&")
    }

    fn in_body(&mut self, body: &str) -> String {
        match digits::parse(body.as_bytes()) {
            Ok(json) => {
                let mut text = body.to_owned();
                self.in_members(&json, &mut text);
                text
            }
            Err(_) if !body.contains(char::is_whitespace) => self.in_options(body),
            Err(_) => body.to_owned(),
        }
    }

    fn in_members(&mut self, json: &Value, text: &mut String) {
        match json {
            Value::Array(items) => items.iter().for_each(|item| self.in_members(item, text)),
            Value::Object(members) => {
                for (name, value) in members {
                    let literal = value.to_string();
                    match value.as_str() {
                        Some(secret) if is_secret(name, secret) && text.contains(&literal) => {
                            let template = format!("{{{{ {} | tojson }}}}", self.0.secret(name, secret));
                            *text = text.replace(&literal, &template);
                        }
                        _ => self.in_members(value, text),
                    }
                }
            }
            _ => {}
        }
    }

    /// What the saved file says about them; empty if there are none.
    fn comment(&self) -> String {
        match self.0.environment().join(", ") {
            names if names.is_empty() => names,
            names => format!("# Secrets of the request are not written here. Set before a run: {names}\n"),
        }
    }
}

fn is_secret(name: &str, value: &str) -> bool {
    is_secret_name(name) && !value.is_empty() && !value.contains("{{")
}

/// Name and value, if this option of a URL is a secret.
fn secret_option(pair: &str) -> Option<(&str, &str)> {
    pair.split_once('=').filter(|(name, value)| is_secret(name, value))
}

fn is_method(text: &str) -> bool {
    text != "CONNECT" && http::Method::from_bytes(text.as_bytes()).is_ok()
}

pub(super) fn written(value: &Value) -> Result<String, HarnessError> {
    config::write(value).map_err(|error| HarnessError::failed(format!("cannot write YAML: {error}")))
}

/// How the saved scenario refers to its deployment.
fn deployment_beside(save: &Path, deployment: Option<&Path>) -> String {
    let Some(deployment) = deployment else { return OWN_DEPLOYMENT.to_owned() };
    let folder = save.parent().filter(|folder| !folder.as_os_str().is_empty());
    let path = match folder {
        Some(_) => std::path::absolute(deployment).unwrap_or_else(|_| deployment.to_path_buf()),
        None => deployment.to_path_buf(),
    };
    path.to_string_lossy().into_owned()
}

/// Headers as a scenario has them: a list for a name with several values.
fn lines(headers: &[(String, String)]) -> Value {
    let mut lines = Map::new();
    for (name, value) in headers {
        let known = lines.keys().find(|known| known.eq_ignore_ascii_case(name)).cloned();
        match lines.entry(known.unwrap_or_else(|| name.clone())).or_insert(Value::Array(Vec::new())) {
            Value::Array(values) => values.push(value.clone().into()),
            other => *other = value.clone().into(),
        }
    }
    for (_, values) in &mut lines {
        if let Value::Array(several) = values
            && several.len() == 1
        {
            *values = several.remove(0);
        }
    }
    Value::Object(lines)
}

/// Writes a file that must not exist yet.
fn write_new(path: &Path, text: &str) -> Result<(), HarnessError> {
    if path.exists() {
        return Err(HarnessError::usage(format!("{} exists already", path.display()))
            .remedy("give --save another name"));
    }
    files::write_output(path, |output| output.write_all(text.as_bytes()))
        .map_err(HarnessError::cannot(format!("write {}", path.display())))
}

/// Scheme and authority, and the rest, which begins with a slash.
pub(super) fn split(url: &str) -> Result<(&str, String), HarnessError> {
    let malformed = |what: &str| {
        Err(HarnessError::usage(format!("this is not a URL that can be loaded: {what}"))
            .remedy("write it as http://host:port/path"))
    };
    let after = url.find("://").map_or(0, |at| at + 3);
    let authority = url[after..].split(['/', '?', '#']).next().unwrap_or_default();
    if authority.is_empty() {
        return malformed("it has no host");
    }
    if authority.contains('@') {
        return Err(HarnessError::usage("a URL with credentials would be readable in every result")
            .remedy("give a deployment with `auth` by -d FILE, or a header by -H"));
    }
    let (origin, rest) = url.split_at(after + authority.len());
    let rest = rest.split('#').next().unwrap_or_default();
    let slash = if rest.starts_with('/') { "" } else { "/" };
    Ok((origin, format!("{slash}{rest}")))
}
