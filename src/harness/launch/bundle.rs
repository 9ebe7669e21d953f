//! The files and the variables that a load needs on other machines.
//!
//! What else is needed is found by reading the files again where nothing but the bundle is.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::environment::Environment;
use crate::error::HarnessError;
use crate::files;
use crate::single::Temporary;
use base::masking::names_secret;
use base::secret::Secret;
use import::secrets::{is_secret_name, split_scheme};
use plan::deployment::Auth;
use plan::keystone::Identity;
use plan::references::UNKNOWN;
use text::files::{create_private, owner_only, read_regular};
use text::yaml::{self, YamlNode, YamlValue};

use super::{LaunchOptions, clear};

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

/// A secret that a deployment holds itself.
#[derive(Debug)]
struct Inline {
    /// Its key, with those above it.
    key: String,
    /// The line that it begins in, if that is known.
    line: Option<usize>,
}

impl Bundle {
    /// The scenario, its deployment and these further files.
    ///
    /// # Errors
    /// All faults of the files, here or where only the bundle is.
    pub(super) fn of(launch: &LaunchOptions, include: &[PathBuf]) -> Result<Self, HarnessError> {
        let plan = launch.check()?;
        if let Some(inline) = inline_secret(&plan.deployment.file)? {
            return Err(inline.refused(&plan.deployment.file));
        }
        if let Some(inline) = scenario_secret(&launch.scenario)? {
            return Err(inline.refused(&launch.scenario));
        }
        let all = [&launch.scenario, &plan.deployment.file].into_iter().chain(include);
        let absolute = all.map(|path| found(path)).collect::<Result<Vec<PathBuf>, _>>()?;
        let common = common_folder(&absolute);
        let mut files = Vec::new();
        for path in &absolute {
            let there = path.strip_prefix(&common).unwrap_or(path).to_string_lossy().into_owned();
            let bytes = read_regular(path)
                .map_err(|error| HarnessError::input(format!("cannot read {}: {error}", path.display())))?;
            if files.iter().all(|(known, _)| *known != there) {
                files.push((there, bytes));
            }
        }
        // No program may take a name for an option.
        let place = |path: &Path| {
            let place = path.strip_prefix(&common).unwrap_or(path).to_string_lossy();
            if place.starts_with('-') { format!("./{place}") } else { place.into_owned() }
        };
        let (scenario, deployment) = (place(&absolute[0]), place(&absolute[1]));
        let mut bundle = Self { files, scenario, deployment, variables: BTreeSet::new() };
        let values = bundle.try_alone(launch)?;
        if let Some(odd) = values.keys().find(|name| !is_variable(name)) {
            return Err(HarnessError::input(format!("no pod can have the variable `{odd}`"))
                .remedy("name it with letters, digits and underscores"));
        }
        let secrets: Vec<String> = values.values().cloned().collect();
        for (name, bytes) in &bundle.files {
            clear::refuse_file(name, bytes, &secrets)?;
            // The deployment was looked at before; what a scenario includes may have secrets, as the scenario may.
            let is_yaml = Path::new(name)
                .extension()
                .is_some_and(|end| end.eq_ignore_ascii_case("yaml") || end.eq_ignore_ascii_case("yml"));
            let text = std::str::from_utf8(bytes).ok().filter(|_| is_yaml && *name != bundle.deployment);
            if let Some(inline) = text.and_then(Inline::in_scenario) {
                return Err(inline.refused(Path::new(name)));
            }
        }
        bundle.variables = values.into_keys().collect();
        Ok(bundle)
    }

    /// Reads the files where there are no others; returns the variables that were looked up and found.
    fn try_alone(&self, launch: &LaunchOptions) -> Result<BTreeMap<String, String>, HarnessError> {
        let folder = Temporary::make("bundle")?;
        for (name, bytes) in &self.files {
            write_private(&folder.path().join(name), bytes)
                .map_err(HarnessError::cannot("try the files on their own"))?;
        }
        let seen: Arc<Mutex<BTreeMap<String, String>>> = Arc::default();
        let (own, outer) = (Arc::clone(&seen), launch.load.environment.clone());
        let environment = Environment::new(move |name| {
            let value = outer.get(name)?;
            own.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), value.clone());
            Some(value)
        });
        let mut alone = launch.clone();
        alone.scenario = folder.path().join(&self.scenario);
        alone.deployment = Some(folder.path().join(&self.deployment));
        alone.load.environment = environment;
        let checked = alone.check();
        checked.map_err(|error| {
            let said = error.to_string().replace(&format!("{}/", folder.path().display()), "");
            HarnessError::input(format!("on the other machines, a file will be missing: {said}"))
                .remedy("add each such file with --include FILE; name it in the scenario by a relative path")
        })?;
        drop(alone);
        let seen = seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(seen)
    }
}

/// Writes a file that only its owner can read, and the directories above it: what is copied may not be for others.
fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    owner_only(&mut builder);
    path.parent().map_or(Ok(()), |folder| builder.create(folder))?;
    create_private(path)?.write_all(bytes)
}

impl Inline {
    /// The secret at this byte of a text.
    fn at(key: String, text: &str, at: usize) -> Self {
        Self { key, line: Some(1 + text.get(..at).unwrap_or_default().matches('\n').count()) }
    }

    /// The first secret that is written into a scenario, or into a file that one includes.
    fn in_scenario(text: &str) -> Option<Self> {
        clear::in_scenario(text).map(|(key, at)| Self::at(key, text, at))
    }

    fn refused(&self, file: &Path) -> HarnessError {
        let line = self.line.map_or_else(String::new, |line| format!(" in line {line}"));
        let text = format!(
            "{} holds a secret itself, `{}`{line}: everybody who may read these files could read it",
            file.display(),
            self.key
        );
        HarnessError::input(text)
            .remedy("write it as {env: NAME} or {file: PATH}, and give its value to each machine")
    }
}

/// Whether every shell and every pod can have a variable of this name.
fn is_variable(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A secret that is written into a scenario itself.
fn scenario_secret(file: &Path) -> Result<Option<Inline>, HarnessError> {
    let source = files::source(&file.into())?;
    Ok(Inline::in_scenario(&source.text))
}

/// A secret that is written into a deployment itself, or into a default.
fn inline_secret(file: &Path) -> Result<Option<Inline>, HarnessError> {
    let source = files::source(&file.into())?;
    let (root, _) = yaml::parse_all(&source);
    if let Some((key, at)) = root.as_ref().and_then(|root| written_secret(root, &[])) {
        return Ok(Some(Inline::at(key, &source.text, at)));
    }
    Ok(resolved_secret(file)?.map(|key| Inline { key: key.to_owned(), line: None }))
}

/// The first text of a document that is or may be a secret: its keys, and where it begins.
fn written_secret(node: &YamlNode, keys: &[&str]) -> Option<(String, usize)> {
    let found = |at: &YamlNode| Some((keys.join("."), at.span.start));
    match &node.kind {
        YamlValue::Map(entries) => entries.iter().find_map(|(key, value)| {
            // The default of a reference stands for the value itself.
            let is_default = key.name == "default" && node.get("env").is_some();
            let own: Vec<&str> =
                keys.iter().copied().chain((!is_default).then_some(key.name.as_str())).collect();
            written_secret(value, &own)
        }),
        YamlValue::List(items) => items.iter().find_map(|item| written_secret(item, keys)),
        YamlValue::Text { text, .. } if is_secret(keys, text) => found(node),
        _ => None,
    }
}

/// Whether the text at these keys is a secret.
fn is_secret(keys: &[&str], text: &str) -> bool {
    // Keys below these are names that users choose.
    const NAMED: [&str; 3] = ["targets", "hosts", "sni"];
    const WITH_USER: [&str; 3] = ["connection_string", "profiler_conn_str", "proxy"];
    let (name, above) = match keys {
        [.., above, name] => (*name, *above),
        [name] => (*name, ""),
        [] => return false,
    };
    if text.is_empty() {
        return false;
    }
    if above == "headers" {
        return is_secret_name(name) || !split_scheme(text).0.is_empty();
    }
    if WITH_USER.contains(&name) || above == "proxy" {
        // A password may hold a slash, and a proxy needs no scheme: wherever it is, an `@` ends the user.
        return text.contains('@') || has_secret_option(text);
    }
    let in_url = text.contains("://") && (authority(text).contains('@') || has_secret_option(text));
    in_url || !NAMED.contains(&above) && names_secret(name)
}

/// Host and port of a URL, with the user before them.
fn authority(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

fn has_secret_option(url: &str) -> bool {
    let options = url.split_once('?').map_or("", |(_, options)| options);
    let mut pairs = options.split(['&', '#']).filter_map(|pair| pair.split_once('='));
    pairs.any(|(name, value)| !value.is_empty() && names_secret(name))
}

/// The key of a secret that is known once the deployment is read, whatever its kind.
fn resolved_secret(file: &Path) -> Result<Option<&'static str>, HarnessError> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use text::diagnostics::SourceText;

    fn found(text: &str) -> Option<String> {
        let root = yaml::parse_all(&SourceText::new("d.yaml", text)).0.unwrap();
        written_secret(&root, &[]).map(|(key, _)| key)
    }

    #[test]
    fn secrets_are_found_wherever_they_are_written() {
        for (text, expected) in [
            ("headers: { Authorization: 'Bearer abc' }", "headers.Authorization"),
            ("headers: { X-Api-Key: abc }", "headers.X-Api-Key"),
            ("headers: { X-Custom: 'Basic abc' }", "headers.X-Custom"),
            ("headers: { Cookie: { env: C, default: abc } }", "headers.Cookie"),
            ("profiler: { hmac_keys: [{ env: A }, abc] }", "profiler.hmac_keys"),
            ("profiler: { connection_string: 'redis://:pw@h:1' }", "profiler.connection_string"),
            ("profiler: { connection_string: 'redis://h:1/0?password=x' }", "profiler.connection_string"),
            ("proxy: 'u:pw@h:1'", "proxy"),
            ("proxy: { https: 'http://u:pw@h:1' }", "proxy.https"),
            ("auth: { bearer: { token: { env: NOPE, default: abc } } }", "auth.bearer.token"),
            ("auth: { keystone: { password: abc } }", "auth.keystone.password"),
            ("openstack: { admin: { username: u, password: abc } }", "openstack.admin.password"),
        ] {
            assert_eq!(found(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn references_and_what_is_public_stay() {
        for text in [
            "headers: { Authorization: { env: TOKEN }, X-Tenant: blue, Accept: text/html }",
            "targets: { token: 'http://h:1/a@b', default: 'http://h:2' }",
            "profiler: { hmac_key: { file: key }, connection_string: 'redis://h:1/0?ssl_cert_reqs=none' }",
            "profiler: { hmac_key: { env: KEY, default: '' }, headers: [osprofiler] }",
            "proxy: { http: 'http://h:1', except: [a.example] }",
            "auth: { command: { run: ./token.sh, pointer: /access_token } }",
            "auth: { command: { run: [token, { env: ARGUMENT }, --quiet] } }",
            "auth: { oauth2: { token_url: 'https://h/token', client_secret: { env: S } } }",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn copies_are_for_their_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scenarios/users.csv");
        write_private(&path, b"id\n1\n").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        assert_eq!(std::fs::read(&path).unwrap(), b"id\n1\n");
    }
}
