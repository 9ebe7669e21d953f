//! A first scenario with its deployment, for a URL, an OpenAPI document or the embedded demo.

use std::path::{Path, PathBuf};

use crate::import::{openapi, starter};

use super::error::HarnessError;
use super::import::{Imported, reader, refused, stem, write};
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
pub fn init(options: &InitOptions) -> Result<Imported, HarnessError> {
    let (draft, name) = match options.subject.as_deref() {
        None => (starter::demo(), "demo".to_owned()),
        Some(url) if UrlRun::is_url(url) => (starter::from_url(url).map_err(refused)?, "load".to_owned()),
        Some(path) => {
            let path = Path::new(path);
            let mut draft =
                openapi::from_reader(reader(path)?, &openapi::Options::default()).map_err(refused)?;
            starter::finish(&mut draft, "500ms");
            (draft, stem(path).unwrap_or_else(|| "load".to_owned()))
        }
    };
    write(&draft, options.output.as_deref(), &name, options.force)
}
