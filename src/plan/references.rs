//! Resolves references to the environment and to files.

use std::io::Read as _;
use std::path::Path;

use base::complaint::Complaint;
use base::secret::Secret;
use config::reference::Reference;
use text::files::open_named;

/// How references are resolved. Passed in by the only module that may read the environment.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    look_up: &'a dyn Fn(&str) -> Option<String>,
    offline: bool,
}

impl<'a> Env<'a> {
    /// Environment variables are looked up with this function.
    pub fn new(look_up: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { look_up, offline: false }
    }

    /// The same, or if `offline`, nothing is resolved: every reference counts as resolved, to an unknown value.
    #[must_use]
    pub fn leaving_open(self, offline: bool) -> Self {
        Self { offline, ..self }
    }

    /// A variable that programs read by themselves; `None` if nothing is resolved.
    #[must_use]
    pub fn variable(self, name: &str) -> Option<String> {
        if self.offline { None } else { (self.look_up)(name) }
    }

    /// True if no reference is resolved.
    #[must_use]
    pub fn is_offline(self) -> bool {
        self.offline
    }

    /// True if the value of this reference stays unknown.
    #[must_use]
    pub fn leaves_open(self, reference: &Reference) -> bool {
        self.offline && !matches!(reference, Reference::Inline(_))
    }
}

/// What stands for an unknown value: it can be a URL, a name or a key.
pub const UNKNOWN: &str = "http://unknown.invalid";

const SECRET_FILE_BYTES_MAX: u64 = 64 * 1024;

/// Resolves a reference; a file is relative to `folder`.
///
/// # Errors
/// What is missing and how to provide it.
pub fn resolve(reference: &Reference, folder: &Path, env: Env<'_>) -> Result<Secret, Complaint> {
    match reference {
        _ if env.leaves_open(reference) => Ok(Secret::new(UNKNOWN)),
        Reference::Inline(secret) => Ok(secret.clone()),
        Reference::Env { name, default } => match ((env.look_up)(name), default) {
            (Some(value), _) if !value.is_empty() => Ok(Secret::new(value)),
            (_, Some(default)) => Ok(Secret::new(default.clone())),
            (Some(_), None) => Err(Complaint::new(
                format!("the environment variable {name} is empty"),
                format!("give it a value: export {name}=…"),
            )),
            (None, None) => Err(Complaint::new(
                format!("the environment variable {name} is not set"),
                format!("set it: export {name}=…"),
            )),
        },
        Reference::File(path) => read_secret(&folder.join(path)),
    }
}

/// The first line of a file.
fn read_secret(path: &Path) -> Result<Secret, Complaint> {
    let problem = |what: &str| {
        Complaint::new(
            format!("cannot read {}: {what}", path.display()),
            "name a readable file whose first line is the value",
        )
    };
    let file = open_named(path).map_err(|error| problem(&error.to_string()))?;
    // Reading one byte more than the limit detects longer files, even an endless device.
    let mut text = String::new();
    file.take(SECRET_FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|error| problem(&error.to_string()))?;
    if text.len() as u64 > SECRET_FILE_BYTES_MAX {
        return Err(problem("it is larger than 64 KiB"));
    }
    match text.lines().next().map(str::trim_end) {
        Some(line) if !line.is_empty() => Ok(Secret::new(line)),
        _ => Err(problem("its first line is empty")),
    }
}
