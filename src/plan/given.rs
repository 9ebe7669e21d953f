//! Values that the command line gives variables: `NAME=VALUE`, `NAME=@FILE`, `NAME=env:VARIABLE`, `NAME==VALUE`.

use std::path::Path;

use crate::base::complaint::Complaint;
use crate::base::masking::{self, MASK, names_secret};
use crate::base::secret::Secret;
use crate::config::reference::Reference;

use super::references::{self, Env};

/// A variable's value as the command line gives it.
#[derive(Clone, Debug)]
pub struct Given {
    value: Secret,
    /// True when the command line says where the value is, not what it is.
    referred: bool,
}

impl Given {
    /// A name and the value that it gets. A file is relative to the current directory; its first line counts.
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
                format!("nothing is named after `{written}`"),
                format!("write {name}=={written} if the text is meant"),
            ));
        }
        let value = references::resolve(&reference, Path::new(""), env).map_err(|complaint| {
            let remedy =
                format!("{}, or write {name}=={written} if the text itself is meant", complaint.remedy);
            Complaint::new(complaint.what, remedy)
        })?;
        Ok((name.to_owned(), Self { value, referred: !matches!(reference, Reference::Inline(_)) }))
    }

    /// The value itself, for templates only.
    #[must_use]
    pub fn expose(&self) -> &str {
        self.value.expose()
    }

    /// True when others on this machine could read it from the command line.
    #[must_use]
    pub fn stands_on_the_command_line(&self) -> bool {
        !self.referred
    }

    /// Whether it is in no output. `declared`: the scenario declares the variable as a reference to a secret.
    #[must_use]
    pub fn is_secret(&self, name: &str, declared: bool) -> bool {
        declared || self.referred || names_secret(name)
    }

    /// The value as results may have it.
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
            let (name, given) =
                Given::parse(text, &env).unwrap_or_else(|problem| panic!("{text}: {problem}"));
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
            ("n=@", "write n==@ if the text is meant"),
            ("n=env:", "write n==env: if the text is meant"),
            (
                "n=env:NOT_SET",
                "the environment variable NOT_SET is not set; set it: export NOT_SET=…, or write n==env:NOT_SET",
            ),
            ("n=env:EMPTY", "is empty"),
            ("n=@no/such/file", "cannot read no/such/file"),
        ] {
            let found = Given::parse(text, &env).unwrap_err().to_string();
            assert!(found.contains(problem), "{text}: {found}");
        }
    }
}
