//! The embedded demo, as a run's deployment or on its own.

use std::path::{Path, PathBuf};

use base::secret::Secret;
use client::url::BaseUrl;
use demo::{Demo, Summary};
use plan::deployment::{DEFAULT_TARGET, ResolvedDeployment};

use super::error::HarnessError;

/// Starts the demo if the deployment asks for it, and makes it the target.
pub(super) fn start_if_wanted(
    deployment: &mut ResolvedDeployment,
    folder: &Path,
) -> Result<Option<Demo>, HarnessError> {
    let Some(options) = deployment.demo else { return Ok(None) };
    let demo = start(options, folder)?;
    let url = BaseUrl::parse(demo.url()).map_err(HarnessError::failed)?;
    attach(deployment, url, demo.hmac_key().clone(), demo.connection_string());
    Ok(Some(demo))
}

/// Replaces the demo while a scenario is only validated.
pub(super) fn stand_in(deployment: &mut ResolvedDeployment) {
    if let (Some(_), Ok(url)) = (deployment.demo, BaseUrl::parse("http://127.0.0.1:9")) {
        attach(deployment, url, Secret::new("unused"), Secret::new("sqlite://unused"));
    }
}

fn attach(deployment: &mut ResolvedDeployment, url: BaseUrl, key: Secret, connection: Secret) {
    if !deployment.targets.iter().any(|(name, _)| name == DEFAULT_TARGET) {
        deployment.targets.push((DEFAULT_TARGET.to_owned(), url));
    }
    if deployment.hmac_keys.is_empty() {
        deployment.hmac_keys.push(key);
    }
    deployment.connection_string.get_or_insert(connection);
}

/// The demo on its own, as a target for other tools. Dropping it stops it.
pub struct StandaloneDemo {
    demo: Demo,
    // Dropped after the demo, which writes to it.
    _temporary: Option<TemporaryFolder>,
}

/// A directory that is deleted on drop.
struct TemporaryFolder(PathBuf);

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Best effort: it is a temporary directory.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl StandaloneDemo {
    /// Starts it. Its collector is in `folder`, or in a temporary directory; `deployment` is written with its URL, key
    /// and collector.
    ///
    /// # Errors
    /// When the system does not allow it.
    pub fn start(folder: Option<&Path>, deployment: Option<&Path>) -> Result<Self, HarnessError> {
        let temporary = folder.is_none().then(|| {
            TemporaryFolder(std::env::temp_dir().join(format!("bench-demo-{}", uuid::Uuid::new_v4())))
        });
        let folder = folder.or(temporary.as_ref().map(|folder| folder.0.as_path())).unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)
            .map_err(|error| failed(format!("{} cannot be made: {error}", folder.display())))?;
        let demo = start(plan::deployment::EmbeddedDemoOptions::default(), folder)?;
        if let Some(path) = deployment {
            write_deployment(path, &demo)?;
        }
        Ok(Self { demo, _temporary: temporary })
    }

    /// The running demo, with its URL, key and collector.
    #[must_use]
    pub fn demo(&self) -> &Demo {
        &self.demo
    }

    /// Stops it; returns counts of what it served.
    #[must_use]
    pub fn stop(self) -> Summary {
        self.demo.stop()
    }
}

fn write_deployment(path: &Path, demo: &Demo) -> Result<(), HarnessError> {
    let text = format!(
        "name: demo\ntargets:\n  default: {}\nprofiler:\n  hmac_key: {}\n  connection_string: {}\n",
        serde_json::Value::from(demo.url()),
        serde_json::Value::from(demo.hmac_key().expose()),
        serde_json::Value::from(demo.connection_string().expose()),
    );
    text::files::write_output(path, |output| output.write_all(text.as_bytes())).map_err(|error| {
        HarnessError::failed(format!("cannot write the deployment file {}: {error}", path.display()))
            .remedy("choose another path")
    })
}

fn start(options: plan::deployment::EmbeddedDemoOptions, folder: &Path) -> Result<Demo, HarnessError> {
    Demo::start(options, folder).map_err(|error| {
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let words: Vec<String> = causes.map(ToString::to_string).collect();
        failed(format!("failed to {}; its files are in {}", words.join(": "), folder.display()))
    })
}

fn failed(error: impl std::fmt::Display) -> HarnessError {
    HarnessError::failed(format!("the demo cannot start: {error}"))
}
