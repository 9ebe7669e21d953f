//! Reads the text of one file, and a deployment.

use std::io::Read as _;
use std::path::Path;

use config::RejectedFile;
use plan::deployment::{self, Auth, ResolvedDeployment};
use plan::references::Env;
use text::diagnostics::SourceText;
use text::files::open_named;
use text::shell;
use text::yaml;

use super::error::HarnessError;
use super::inline_deployment;
use super::options::{Environment, YamlFile};

/// The text of a file, as YAML source.
pub(super) fn source(file: &YamlFile) -> Result<SourceText, HarnessError> {
    let name = file.path().display().to_string();
    let mut bytes = Vec::new();
    match file.given_text() {
        Some(text) => bytes.extend_from_slice(text.as_bytes()),
        None => {
            // One byte over the limit is enough to know that a file is too long.
            let limit = yaml::BYTES_MAX as u64 + 1;
            let read = open_named(file.path()).and_then(|file| file.take(limit).read_to_end(&mut bytes));
            read.map_err(|error| {
                let what = unspoken(&name).unwrap_or_else(|| format!("cannot read {name}: {error}"));
                HarnessError::input(what).remedy(meant(&name))
            })?;
        }
    }
    yaml::source(&name, &bytes).map_err(|faulty| {
        let (source, fault) = *faulty;
        HarnessError::faults(RejectedFile { source, faults: vec![fault] })
    })
}

/// What is wrong with a URL of a scheme that bench does not speak; `None` for other names.
fn unspoken(name: &str) -> Option<String> {
    let (scheme, _) = name.split_once("://")?;
    let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c));
    let scheme = scheme.to_ascii_lowercase();
    let is_other = is_scheme && !matches!(scheme.as_str(), "http" | "https");
    is_other.then(|| format!("bench sends requests of HTTP and HTTPS; it does not speak {scheme}"))
}

/// What to do about a file that cannot be read: it may be meant as a URL.
fn meant(name: &str) -> String {
    let (scheme, rest) = name.split_once("://").unwrap_or(("", name));
    let host = rest.split('/').next().unwrap_or_default();
    let port = host.rsplit_once(':').map(|(_, port)| port);
    let has_port =
        port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    if scheme.is_empty() && !has_port && host != "localhost" && !host.starts_with("www.") {
        let is_demo = Path::new(name).file_name().is_some_and(|last| last == "demo.yaml");
        let demo = if is_demo { "; `bench run demo` needs no file" } else { "" };
        return format!("check the path{demo}");
    }
    let path = if unspoken(name).is_some() { "" } else { "check the path; " };
    let url = shell::word(&format!("http://{rest}"));
    format!("{path}a URL begins with http://, https://, grpc:// or ws://, as in `bench run {url}`")
}

/// The deployment in a file: the file itself, or what a scenario holds under `deployment:`.
fn own_deployment(file: &YamlFile) -> Result<SourceText, HarnessError> {
    let read = source(file)?;
    // A faulty file is reported as a deployment.
    let root = yaml::parse_all(&read).0;
    match root.and_then(|root| inline_deployment::deployment(file.path(), &read.text, &root)) {
        Some(inline) => source(&inline),
        None => Ok(read),
    }
}

/// A deployment, resolved.
///
/// # Errors
/// All faults of the file.
pub fn deployment(file: &YamlFile, environment: &Environment) -> Result<ResolvedDeployment, HarnessError> {
    let look_up = |name: &str| environment.get(name);
    let env = Env::new(&look_up).leaving_open(environment.is_offline());
    let read = deployment::load(file.path(), own_deployment(file)?, env).map_err(HarnessError::faults)?;
    can_log_in(&read, cfg!(feature = "openstack"))?;
    Ok(read)
}

/// Refuses a deployment that logs in to Keystone, in a build that cannot.
fn can_log_in(deployment: &ResolvedDeployment, has_openstack: bool) -> Result<(), HarnessError> {
    match deployment.auth {
        Auth::Keystone(_) if !has_openstack => {
            let file = deployment.file.display();
            Err(HarnessError::usage(format!("{file}: this build of bench cannot log in to Keystone"))
                .remedy("build it with the feature `openstack`"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_openstack_refuses_a_login_to_keystone() {
        let keystone = "auth: {keystone: {auth_url: http://127.0.0.1:1/v3, username: u, password: p, project_name: p}}\n";
        for (auth, refused) in [("", false), ("auth: {bearer: {token: t}}\n", false), (keystone, true)] {
            let source =
                SourceText::new("d.yaml", format!("targets: {{default: 'http://127.0.0.1:1'}}\n{auth}"));
            let read = deployment::load(Path::new("d.yaml"), source, Env::new(&|_| None)).ok().unwrap();
            assert_eq!(can_log_in(&read, false).is_err(), refused, "{auth}");
            assert!(can_log_in(&read, true).is_ok(), "{auth}");
        }
    }
}
