//! The embedded demo: as a run's deployment, and alone.

use std::path::Path;

use crate::base::secret::Secret;
use crate::client::url::BaseUrl;
use crate::demo::Demo;
use crate::plan::deployment::{DEFAULT_TARGET, Deployment};

use super::exit::{Exit, Stopped};
use super::housekeeping::Signals;
use super::output;

/// Starts the demo if the deployment asks for it, and makes it the deployment's target.
pub(super) fn start_if_wanted(deployment: &mut Deployment, folder: &Path) -> Result<Option<Demo>, Stopped> {
    let Some(options) = deployment.demo else { return Ok(None) };
    let demo = start(options, folder)?;
    let url =
        BaseUrl::parse(demo.url()).map_err(|error| Stopped::new(Exit::Failed, format!("error: {error}")))?;
    attach(deployment, url, demo.hmac_key().clone(), demo.connection_string());
    Ok(Some(demo))
}

/// Stands in for the demo while a scenario is only checked.
pub(super) fn stand_in(deployment: &mut Deployment) {
    if let (Some(_), Ok(url)) = (deployment.demo, BaseUrl::parse("http://127.0.0.1:9")) {
        attach(deployment, url, Secret::new("unused"), Secret::new("sqlite://unused"));
    }
}

fn attach(deployment: &mut Deployment, url: BaseUrl, key: Secret, connection: Secret) {
    if !deployment.targets.iter().any(|(name, _)| name == DEFAULT_TARGET) {
        deployment.targets.push((DEFAULT_TARGET.to_owned(), url));
    }
    if deployment.hmac_key.is_none() {
        deployment.hmac_key = Some(key.clone());
        deployment.hmac_keys = vec![key];
    }
    deployment.connection_string.get_or_insert(connection);
}

/// Serves the demo until it is interrupted.
pub(super) fn serve(deployment: Option<&Path>, dir: Option<&Path>) -> Result<Exit, Stopped> {
    let temporary = std::env::temp_dir().join(format!("bench-demo-{}", uuid::Uuid::new_v4()));
    let folder = dir.unwrap_or(&temporary);
    std::fs::create_dir_all(folder)
        .map_err(|error| failed(format!("{} cannot be made: {error}", folder.display())))?;
    let served = serve_from(folder, deployment);
    if dir.is_none() {
        // Best effort: it is a temporary directory.
        let _ = std::fs::remove_dir_all(folder);
    }
    served
}

fn serve_from(folder: &Path, deployment: Option<&Path>) -> Result<Exit, Stopped> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
    // From here on a signal ends the demo in order: its temporary directory goes too.
    let mut signals = runtime.block_on(async { Signals::listen() }).map_err(failed)?;
    let demo = start(crate::plan::deployment::Demo::default(), folder)?;
    if let Some(path) = deployment {
        write_deployment(path, &demo)?;
    }
    output::print(&format!(
        "{}\n\nurl        {}\nhmac key   {}\ncollector  {}",
        demo.describe().join("\n"),
        demo.url(),
        demo.hmac_key().expose(),
        demo.connection_string().expose()
    ));
    if let Some(path) = deployment {
        output::print(&format!("deployment {}", path.display()));
    }
    output::print("\nCtrl-C ends it.");
    runtime.block_on(signals.next());
    let summary = demo.stop();
    output::print(&format!(
        "served {} requests, {} of them traced, {} with a wrong signature; {} records stored, {} dropped",
        summary.requests,
        summary.traced,
        summary.rejected_signatures,
        summary.records_written,
        summary.records_dropped
    ));
    Ok(Exit::Ok)
}

fn write_deployment(path: &Path, demo: &Demo) -> Result<(), Stopped> {
    let text = format!(
        "name: demo\ntargets:\n  default: {}\nprofiler:\n  hmac_key: {}\n  connection_string: {}\n",
        serde_json::Value::from(demo.url()),
        serde_json::Value::from(demo.hmac_key().expose()),
        serde_json::Value::from(demo.connection_string().expose()),
    );
    crate::base::files::write_output(path, |output| output.write_all(text.as_bytes())).map_err(|error| {
        let text = format!(
            "error: cannot write the deployment file {}: {error}; choose another path",
            path.display()
        );
        Stopped::new(Exit::Failed, text)
    })
}

fn start(options: crate::plan::deployment::Demo, folder: &Path) -> Result<Demo, Stopped> {
    Demo::start(options, folder).map_err(|error| {
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let words: Vec<String> = causes.map(ToString::to_string).collect();
        failed(format!("failed to {}; its files are in {}", words.join(": "), folder.display()))
    })
}

fn failed(error: impl std::fmt::Display) -> Stopped {
    Stopped::new(Exit::Failed, format!("error: the demo cannot start: {error}"))
}
