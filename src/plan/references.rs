//! References to the environment and to files, resolved.

use std::path::Path;

use crate::base::secret::Secret;
use crate::config::reference::Reference;

/// The environment, handed in by the only room that may read it.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

const SECRET_FILE_BYTES_MAX: u64 = 64 * 1024;

/// Resolves a reference; a file is relative to `folder`.
///
/// # Errors
/// What is missing and how to provide it.
pub fn resolve(reference: &Reference, folder: &Path, env: Env<'_>) -> Result<Secret, String> {
    match reference {
        Reference::Inline(secret) => Ok(secret.clone()),
        Reference::Env { name, default } => match (env(name), default) {
            (Some(value), _) if !value.is_empty() => Ok(Secret::new(value)),
            (_, Some(default)) => Ok(Secret::new(default.clone())),
            (Some(_), None) => {
                Err(format!("the environment variable {name} is empty; give it a value: export {name}=…"))
            }
            (None, None) => {
                Err(format!("the environment variable {name} is not set; set it: export {name}=…"))
            }
        },
        Reference::File(path) => read_secret(&folder.join(path)),
    }
}

/// The first line of a file.
fn read_secret(path: &Path) -> Result<Secret, String> {
    let problem =
        |what: &str| format!("{what} {}; name a readable file whose first line is the value", path.display());
    let length = std::fs::metadata(path).map_err(|error| problem(&format!("{error}:")))?.len();
    if length > SECRET_FILE_BYTES_MAX {
        return Err(problem("more than 64 KiB in"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| problem(&format!("{error}:")))?;
    match text.lines().next().map(str::trim_end) {
        Some(line) if !line.is_empty() => Ok(Secret::new(line)),
        _ => Err(problem("nothing in")),
    }
}
