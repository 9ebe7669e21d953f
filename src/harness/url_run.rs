//! A load on one URL without any file: the scenario and the deployment that it amounts to.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::base::files;
use crate::base::secret::redacted_url;
use crate::config;
use crate::config::runner::{Constant, Runner};
use crate::plan::overrides::LoadShape;

use super::error::HarnessError;
use super::options::YamlFile;

/// The name of the deployment that is saved beside a scenario.
const OWN_DEPLOYMENT: &str = "deployment.yaml";
/// The methods with keys of their own in a scenario's steps.
const METHODS: [&str; 7] = ["get", "head", "post", "put", "patch", "delete", "options"];

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
}

impl UrlRun {
    /// True for a text that is a URL rather than the path of a file.
    #[must_use]
    pub fn is_url(text: &str) -> bool {
        let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
        matches!(scheme.as_deref(), Some("http" | "https"))
    }

    /// The scenario and the deployment; the latter is `deployment`, if there is one. With `save`, both are also written:
    /// the scenario to that file, and a deployment that was made here beside it.
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
        let beside = save.map(|save| deployment_beside(save, deployment));
        let scenario = written(&self.scenario(&path, shape, beside.as_deref())?)?;
        let made = written(&self.deployment(origin))?;
        if let Some(save) = save {
            let own = deployment.is_none().then(|| save.with_file_name(OWN_DEPLOYMENT));
            write_new(save, &scenario)?;
            own.map_or(Ok(()), |own| write_new(&own, &made))?;
        }
        Ok(UrlPlan {
            scenario: YamlFile::text("scenario of the URL", scenario),
            deployment: deployment
                .map_or_else(|| YamlFile::text("deployment of the URL", made), YamlFile::from),
            target: deployment.map(|_| origin.to_owned()),
        })
    }

    fn scenario(
        &self,
        path: &str,
        shape: &LoadShape,
        deployment: Option<&str>,
    ) -> Result<Value, HarnessError> {
        let method = self.method.as_deref().unwrap_or(if self.body.is_some() { "POST" } else { "GET" });
        let key = method.to_ascii_lowercase();
        let known = METHODS.contains(&key.as_str());
        // Methods are case-sensitive, but nobody means another one by `get`.
        let upper = method.to_ascii_uppercase();
        if !known && !is_method(&upper) {
            return Err(HarnessError::usage(format!("`{method}` is not a method that bench sends"))
                .remedy("use a word such as GET, POST or PURGE"));
        }
        let mut step = match known {
            true => Map::from_iter([(key, Value::from(path))]),
            false => Map::from_iter([("request".to_owned(), Value::from(format!("{upper} {path}")))]),
        };
        if !self.headers.is_empty() {
            let headers = self.headers.iter().map(|(name, value)| (name.clone(), Value::from(value.clone())));
            step.insert("headers".to_owned(), Value::Object(headers.collect()));
        }
        if let Some(body) = &self.body {
            step.insert("body".to_owned(), body.clone().into());
        }
        let usual = Runner::Constant(Constant {
            times: Some(TIMES_DEFAULT),
            concurrency: Some(CONCURRENCY_DEFAULT),
            timeout: None,
            max_cpu_count: None,
        });
        let runner = shape
            .replace(&usual)
            .map_err(|complaint| HarnessError::usage(complaint.what).remedy(complaint.remedy))?;
        let title = format!("{} {}", method.to_ascii_uppercase(), redacted_url(&self.url));
        let mut scenario = json!({ "title": title, "runner": runner, "iteration": [step] });
        if let Some(deployment) = deployment {
            scenario["deployment"] = deployment.into();
        }
        if let Some(wait) = self.wait {
            let deadline = format!("{}ms", wait.as_millis());
            scenario["end"] = json!({ "asynchronous": { "deadline": deadline } });
        }
        Ok(scenario)
    }

    fn deployment(&self, origin: &str) -> Value {
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

fn is_method(text: &str) -> bool {
    text != "CONNECT" && http::Method::from_bytes(text.as_bytes()).is_ok()
}

fn written(value: &Value) -> Result<String, HarnessError> {
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
fn split(url: &str) -> Result<(&str, String), HarnessError> {
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
