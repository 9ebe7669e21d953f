//! A first scenario with its deployment, for a URL, a gRPC service, an OpenAPI document or the embedded demo.

use std::path::{Path, PathBuf};

use client::tls::TlsOptions;
use client::url::BaseUrl;
use grpc::message;
use grpc::schema::Method;
use import::starter::GrpcMethod;
use import::{Draft, openapi, starter};

use super::built_in;
use super::error::HarnessError;
use super::housekeeping::runtime;
use super::import::{ImportedFiles, beside, reader, refused, stem, write, write_demo};
use super::reflection;
use super::url_run::UrlRun;

/// What to make a first scenario for.
#[derive(Clone, Debug, Default)]
pub struct InitOptions {
    /// A URL, the path of an OpenAPI document, or `demo` for what `bench run demo` runs; if absent, a smaller load of the demo
    /// with ideas.
    pub subject: Option<String>,
    /// The scenario's file, or a directory for it (default: the current directory).
    pub output: Option<PathBuf>,
    /// Replace files that exist.
    pub force: bool,
}

/// Writes the files.
///
/// # Errors
/// The subject cannot be read or understood, or the files exist or cannot be written.
pub fn init(options: &InitOptions) -> Result<ImportedFiles, HarnessError> {
    let subject = options.subject.as_deref();
    if subject.is_some_and(|subject| built_in::named(&subject.into()).is_some()) {
        return write_demo(options.output.as_deref(), options.force);
    }
    let (draft, name) = match subject {
        None => (starter::demo(), "demo".to_owned()),
        Some(url) if UrlRun::is_grpc(url) => (of_grpc(url)?, "load".to_owned()),
        Some(url) if UrlRun::is_url(url) => (starter::from_url(url).map_err(refused)?, "load".to_owned()),
        Some(path) if is_url_without_scheme(path) => {
            let error = HarnessError::input(format!("there is no file {path}"));
            return Err(error.remedy(format!("for the URL, write http://{path}")));
        }
        Some(path) => {
            let path = Path::new(path);
            let mut draft =
                openapi::from_reader(reader(path)?, &openapi::Options::default(), &|name| beside(path, name))
                    .map_err(refused)?;
            starter::finish(&mut draft, "500ms");
            (draft, stem(path).unwrap_or_else(|| "load".to_owned()))
        }
    };
    write(&draft, options.output.as_deref(), &name, options.force)
}

/// Asks a gRPC service for its methods.
fn of_grpc(url: &str) -> Result<Draft, HarnessError> {
    let base = BaseUrl::parse(url)
        .map_err(|complaint| HarnessError::usage(complaint.what).remedy(complaint.remedy))?;
    let runtime = runtime()?;
    let schema = runtime.block_on(reflection::schema_of(
        &base.origin,
        &TlsOptions { verify: true, ca: None, identity: None },
    ))?;
    let one = |method: &Method| GrpcMethod {
        name: method.path().trim_start_matches('/').to_owned(),
        message: message::example(&method.input()),
        takes_several: method.is_client_streaming(),
    };
    let services = schema.services();
    let methods: Vec<GrpcMethod> =
        services.iter().flat_map(|service| schema.methods(service)).map(|method| one(&method)).collect();
    starter::from_grpc(&base.to_string(), &methods).map_err(refused)
}

/// Whether a text that names no file looks like `host:8080/path` or `host.example/path`.
fn is_url_without_scheme(text: &str) -> bool {
    let authority = text.split('/').next().unwrap_or_default();
    let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
    let is_host = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-".contains(c));
    let is_local_file = Path::new(text).exists() || host.starts_with('.');
    let has_port = port.parse::<u16>().is_ok();
    let has_dot_and_path = port.is_empty() && host.contains('.') && text.contains('/');
    is_host && !is_local_file && (has_port || host == "localhost" || has_dot_and_path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_its_scheme_is_told_from_a_path() {
        for (text, expected) in [
            ("localhost:18911/items", true),
            ("localhost/items", true),
            ("api.example.com/v1", true),
            ("10.0.0.1:80", true),
            ("openapi.yaml", false),
            ("specs/openapi.yaml", false),
            ("./a:1", false),
            ("../a/b", false),
            ("/tmp/a:1", false),
            ("a b:1", false),
        ] {
            assert_eq!(is_url_without_scheme(text), expected, "{text}");
        }
    }
}
