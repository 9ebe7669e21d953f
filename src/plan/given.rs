//! Values of variables on the command line: `NAME=VALUE`, `NAME=@FILE`, `NAME=env:VARIABLE`, `NAME==VALUE`.

use std::path::Path;

use base::complaint::Complaint;
use base::masking::{self, MASK, names_secret};
use base::secret::Secret;
use config::reference::Reference;

use super::references::{self, Env};

/// The value of a variable, as given on the command line.
#[derive(Clone, Debug)]
pub struct CommandLineValue {
    value: Secret,
    /// True if the command line refers to the value instead of containing it.
    referred: bool,
}

impl CommandLineValue {
    /// Parses a name and its value. A file is relative to the current directory; its first line is the value.
    ///
    /// # Errors
    /// What is missing, and what to write.
    pub fn parse(text: &str, env: Env<'_>) -> Result<(String, Self), Complaint> {
        let (name, written) = text
            .split_once('=')
            .map(|(name, written)| (name.trim(), written))
            .filter(|(name, _)| !name.is_empty())
            .ok_or_else(|| {
                Complaint::new(
                    "no name and value",
                    "write NAME=VALUE, such as user=admin; or NAME=@FILE, NAME=env:VARIABLE",
                )
            })?;
        let reference = if let Some(literal) = written.strip_prefix('=') {
            Reference::Inline(Secret::new(literal))
        } else if let Some(path) = written.strip_prefix('@') {
            Reference::File(path.to_owned())
        } else if let Some(variable) = written.strip_prefix("env:") {
            Reference::Env { name: variable.to_owned(), default: None }
        } else {
            Reference::Inline(Secret::new(written))
        };
        if matches!(written, "@" | "env:") {
            return Err(Complaint::new(
                format!("no name after `{written}`"),
                format!("write {name}=={written} if you mean the text itself"),
            ));
        }
        let value = references::resolve(&reference, Path::new(""), env).map_err(|complaint| {
            let remedy =
                format!("{}, or write {name}=={written} if you mean the text itself", complaint.remedy);
            Complaint::new(complaint.what, remedy)
        })?;
        Ok((name.to_owned(), Self { value, referred: !matches!(reference, Reference::Inline(_)) }))
    }

    /// The value itself, for templates only.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.value.expose()
    }

    /// True if other users of this machine could read the value from the command line.
    #[must_use]
    pub fn stands_on_the_command_line(&self) -> bool {
        !self.referred
    }

    /// Whether outputs must hide the value. `declared`: the scenario declares the variable as a reference to a secret.
    #[must_use]
    pub fn is_secret(&self, name: &str, declared: bool) -> bool {
        declared || self.referred || names_secret(name)
    }

    /// The value, as results may show it.
    #[must_use]
    pub fn shown(&self, name: &str, declared: bool) -> String {
        match self.is_secret(name, declared) {
            true => MASK.to_owned(),
            false => masking::masked(self.expose()).into_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "SET" => Some("of the environment".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        }
    }

    #[test]
    fn a_value_is_written_or_referred_to() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret.txt");
        std::fs::write(&file, "of a file\nnot this\n").unwrap();
        let of_file = format!("n=@{}", file.display());
        for (text, value, referred) in [
            ("n=admin", "admin", false),
            (" n =a=b", "a=b", false),
            ("n=", "", false),
            ("n=me@host", "me@host", false),
            ("n==@file", "@file", false),
            ("n==env:SET", "env:SET", false),
            ("n===x", "=x", false),
            ("n=env:SET", "of the environment", true),
            (of_file.as_str(), "of a file", true),
        ] {
            let (name, given) = CommandLineValue::parse(text, Env::new(&env))
                .unwrap_or_else(|problem| panic!("{text}: {problem}"));
            assert_eq!((&*name, given.expose(), given.referred), ("n", value, referred), "{text}");
            assert_eq!(given.shown("n", false), if referred { MASK } else { value }, "{text}");
            assert_eq!(given.shown("n", true), MASK, "{text}");
            assert_eq!(given.shown("api_token", false), MASK, "{text}");
            assert!(value.is_empty() || !format!("{given:?}").contains(value), "{given:?}");
        }
    }

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        for (text, problem) in [
            ("n", "write NAME=VALUE"),
            ("=x", "write NAME=VALUE"),
            ("n=@", "write n==@ if you mean the text itself"),
            ("n=env:", "write n==env: if you mean the text itself"),
            (
                "n=env:NOT_SET",
                "the environment variable NOT_SET is not set; set it: export NOT_SET=…, or write n==env:NOT_SET",
            ),
            ("n=env:EMPTY", "is empty"),
            ("n=@no/such/file", "cannot read no/such/file"),
        ] {
            let found = CommandLineValue::parse(text, Env::new(&env)).unwrap_err().to_string();
            assert!(found.contains(problem), "{text}: {found}");
        }
    }
}
