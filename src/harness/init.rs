//! A first scenario with its deployment, for a URL, an OpenAPI document or the embedded demo.

use std::path::{Path, PathBuf};

use import::{openapi, starter};

use super::error::HarnessError;
use super::import::{ImportedFiles, beside, reader, refused, stem, write};
use super::url_run::UrlRun;

/// What to make a first scenario for.
#[derive(Clone, Debug, Default)]
pub struct InitOptions {
    /// A URL, or the path of an OpenAPI document; if absent, the demo.
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
    let (draft, name) = match options.subject.as_deref() {
        None => (starter::demo(), "demo".to_owned()),
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
