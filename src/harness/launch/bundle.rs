//! The files and the variables that a load needs on other machines.
//!
//! What else is needed is found by reading the files again where nothing but the bundle is.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::base::secret::Secret;
use crate::client::keystone::Identity;
use crate::harness::environment::Environment;
use crate::harness::error::HarnessError;
use crate::harness::files;
use crate::plan::deployment::Auth;
use crate::plan::references::UNKNOWN;

use super::LaunchOptions;

/// A load as it is on another machine.
pub(super) struct Bundle {
    /// Each file's path there, relative to the directory of all, and its bytes.
    pub(super) files: Vec<(String, Vec<u8>)>,
    /// The scenario there.
    pub(super) scenario: String,
    /// The deployment there.
    pub(super) deployment: String,
    /// The variables of the environment that the files refer to.
    pub(super) variables: BTreeSet<String>,
}

/// A directory that is removed at the end.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl Bundle {
    /// The scenario, its deployment and these further files.
    ///
    /// # Errors
    /// All faults of the files, here or where only the bundle is.
    pub(super) fn of(launch: &LaunchOptions, include: &[PathBuf]) -> Result<Self, HarnessError> {
        let plan = launch.check()?;
        if let Some(key) = inline_secret(&plan.deployment.file)? {
            return Err(HarnessError::input(format!(
                "{} holds a secret itself, `{key}`: everybody who may read these files could read it",
                plan.deployment.file.display()
            ))
            .remedy("write it as {env: NAME}, and give it to the other machines apart from the files"));
        }
        let all = [&launch.scenario, &plan.deployment.file].into_iter().chain(include);
        let absolute = all.map(|path| found(path)).collect::<Result<Vec<PathBuf>, _>>()?;
        let common = common_folder(&absolute);
        let mut files = Vec::new();
        for path in &absolute {
            let there = path.strip_prefix(&common).unwrap_or(path).to_string_lossy().into_owned();
            let bytes = std::fs::read(path)
                .map_err(|error| HarnessError::input(format!("cannot read {}: {error}", path.display())))?;
            if files.iter().all(|(known, _)| *known != there) {
                files.push((there, bytes));
            }
        }
        let place = |path: &Path| path.strip_prefix(&common).unwrap_or(path).to_string_lossy().into_owned();
        let (scenario, deployment) = (place(&absolute[0]), place(&absolute[1]));
        let mut bundle = Self { files, scenario, deployment, variables: BTreeSet::new() };
        bundle.variables = bundle.try_alone(launch)?;
        Ok(bundle)
    }

    /// Reads the files where there are no others; returns the variables that were looked up and found.
    fn try_alone(&self, launch: &LaunchOptions) -> Result<BTreeSet<String>, HarnessError> {
        let folder = Temporary(std::env::temp_dir().join(format!("bench-bundle-{}", uuid::Uuid::new_v4())));
        for (name, bytes) in &self.files {
            let path = folder.0.join(name);
            let written = path.parent().map_or(Ok(()), std::fs::create_dir_all);
            written
                .and_then(|()| std::fs::write(&path, bytes))
                .map_err(HarnessError::cannot("try the files on their own"))?;
        }
        let seen: Arc<Mutex<BTreeSet<String>>> = Arc::default();
        let (own, outer) = (Arc::clone(&seen), launch.load.environment.clone());
        let environment = Environment::new(move |name| {
            let value = outer.get(name)?;
            own.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned());
            Some(value)
        });
        let mut alone = launch.clone();
        alone.scenario = folder.0.join(&self.scenario);
        alone.deployment = Some(folder.0.join(&self.deployment));
        alone.load.environment = environment;
        let checked = alone.check();
        checked.map_err(|error| {
            let said = error.to_string().replace(&format!("{}/", folder.0.display()), "");
            HarnessError::input(format!("on the other machines, a file will be missing: {said}"))
                .remedy("add each such file with --include FILE; name it in the scenario by a relative path")
        })?;
        drop(alone);
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(seen)
    }
}

/// The key of a secret that is written into a deployment itself.
fn inline_secret(file: &Path) -> Result<Option<&'static str>, HarnessError> {
    // Offline, what is elsewhere stays unknown.
    let known = files::deployment(&file.into(), &Environment::offline())?;
    let is_inline = |secret: &Secret| secret.expose() != UNKNOWN && !secret.expose().is_empty();
    let of_auth = match &known.auth {
        Auth::Basic { password, .. } => Some(password),
        Auth::Bearer { token } => Some(token),
        Auth::OAuth2(grant) => Some(&grant.client_secret),
        Auth::Keystone(login) => match &login.identity {
            Identity::Password { password, .. } => Some(password),
            Identity::Token(token) => Some(token),
            Identity::ApplicationCredential { secret, .. } => Some(secret),
        },
        Auth::None | Auth::Command(_) => None,
    };
    let keys = known.hmac_keys.iter().find(|key| is_inline(key)).map(|_| "profiler.hmac_key");
    Ok(keys.or(of_auth.filter(|secret| is_inline(secret)).map(|_| "auth")))
}

fn found(path: &Path) -> Result<PathBuf, HarnessError> {
    std::fs::canonicalize(path)
        .map_err(|error| HarnessError::input(format!("cannot read {}: {error}", path.display())))
}

/// The innermost directory that has all of them.
fn common_folder(paths: &[PathBuf]) -> PathBuf {
    let mut common = paths.first().and_then(|path| path.parent()).unwrap_or(Path::new("/")).to_path_buf();
    while !paths.iter().all(|path| path.starts_with(&common)) {
        if !common.pop() {
            break;
        }
    }
    common
}
