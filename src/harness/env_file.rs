//! Files of variables: `.env` beside a scenario, and those of `--env-file`.
//!
//! What is read here may be secret: a message has the line's number and never its text. That is why this is not a crate for
//! such files: they quote the line.

use std::collections::HashMap;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::environment::Environment;
use crate::error::HarnessError;
use base::secret::Secret;
use text::files::open_named;

/// The name of the file beside a scenario.
const NAME: &str = ".env";
/// Such a file is not larger than this, in bytes.
const BYTES_MAX: u64 = 1 << 20;

/// The variables of files, beneath those of this process.
#[derive(Default)]
pub struct EnvFiles {
    values: HashMap<String, Secret>,
    /// What is wrong with the file beside the scenario, whose other lines count.
    pub warnings: Vec<String>,
}

impl EnvFiles {
    /// Reads these files; of a variable in several, the last one counts. Without any, reads the file `.env` in the scenario's
    /// folder if there is one.
    ///
    /// # Errors
    /// A file that was named cannot be read, or has a line that is no variable.
    pub fn read(named: &[PathBuf], scenario: Option<&Path>) -> Result<Self, HarnessError> {
        let mut files = Self::default();
        for path in named {
            let faults = files.take(path).map_err(|error| {
                HarnessError::usage(format!("cannot read {}: {error}", path.display()))
                    .remedy("name a file of lines NAME=VALUE")
            })?;
            if let Some(fault) = faults.into_iter().next() {
                return Err(HarnessError::input(fault).remedy("write NAME=VALUE, or put # before a comment"));
            }
        }
        let beside = scenario.filter(|_| named.is_empty()).map(|file| file.with_file_name(NAME));
        if let Some(path) = beside.filter(|path| path.is_file()) {
            match files.take(&path) {
                Ok(faults) => files.warnings = faults,
                Err(error) => files.warnings.push(format!("{} cannot be read: {error}", path.display())),
            }
        }
        Ok(files)
    }

    /// Takes the variables of a file; says which lines are none.
    fn take(&mut self, path: &Path) -> std::io::Result<Vec<String>> {
        let mut text = String::new();
        open_named(path)?.take(BYTES_MAX + 1).read_to_string(&mut text)?;
        if text.len() as u64 > BYTES_MAX {
            return Err(std::io::Error::other("it is larger than 1 MiB"));
        }
        let mut faults = Vec::new();
        for variable in variables(&text) {
            match variable {
                Ok((name, value)) => drop(self.values.insert(name.to_owned(), Secret::new(value))),
                Err((line, what)) => faults.push(format!("{}:{line}: {what}", path.display())),
            }
        }
        Ok(faults)
    }

    /// Where variables are looked up: in this process's environment, then in the files.
    #[must_use]
    pub fn environment(self) -> Environment {
        let values = self.values;
        let process = Environment::default();
        Environment::new(move |name| {
            process.get(name).or_else(|| values.get(name).map(|value| value.expose().to_owned()))
        })
    }
}

/// A variable, or a line's number and what is wrong with it.
type Variable<'t> = Result<(&'t str, String), (usize, &'static str)>;

/// The variables of a file: `NAME=VALUE`, perhaps after `export`. A value in single quotes is taken as it is; in double
/// quotes, a backslash escapes; both may go on over lines. Elsewhere ` #` begins a comment. Nothing is put in for `$NAME`.
fn variables(text: &str) -> Vec<Variable<'_>> {
    let mut found = Vec::new();
    let mut rest = text.trim_start_matches('\u{feff}');
    let mut line = 0;
    while !rest.is_empty() {
        line += 1;
        let (this, after) = rest.split_once('\n').unwrap_or((rest, ""));
        let written = this.trim();
        let mut next = after;
        if !written.is_empty() && !written.starts_with('#') {
            let variable = written.strip_prefix("export ").map_or(written, str::trim_start);
            match variable.split_once('=') {
                Some((name, value)) if is_name(name.trim_end()) => {
                    let value = value.trim_start();
                    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
                    let read = match quote {
                        // The value begins here, in all that is left of the text.
                        Some(quote) => {
                            let at = value.as_ptr() as usize - rest.as_ptr() as usize + 1;
                            quoted(&rest[at..], quote)
                        }
                        None => Some((plain(value), after)),
                    };
                    match read {
                        Some((value, after)) => {
                            found.push(Ok((name.trim_end(), value)));
                            next = after;
                        }
                        None => found.push(Err((line, "a quote that is not closed"))),
                    }
                }
                Some(_) => found.push(Err((line, "this is not the name of a variable"))),
                None => found.push(Err((line, "a line without `=`"))),
            }
        }
        // A value of several lines ends at a later one.
        let skipped = after.len() - next.len();
        line += after[..skipped].matches('\n').count();
        rest = next;
    }
    found
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
}

/// A value without quotes, up to a comment.
fn plain(value: &str) -> String {
    let end = [" #", "\t#"].iter().filter_map(|comment| value.find(comment)).min();
    value[..end.unwrap_or(value.len())].trim_end().to_owned()
}

/// The text up to the closing quote, and what follows that line.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' if quote == '"' => match characters.next()?.1 {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                't' => value.push('\t'),
                other => value.push(other),
            },
            c if c == quote => {
                let rest = &text[at + 1..];
                return Some((value, rest.split_once('\n').map_or("", |(_, after)| after)));
            }
            c => value.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_read_and_faults_have_their_line() {
        let text = "\u{feff}# comment\nA=1\nexport B = two words # comment\r\n\nC='a # b $A \\n'\nD=\"x\\ny\\\"z\"  # c\n\
                    E=\"one\ntwo\"\nF=\nG=a#b\nno\n1X=2\nH=h=h\nI='open\n";
        let found = variables(text);
        let expected: Vec<Variable<'_>> = vec![
            Ok(("A", "1".to_owned())),
            Ok(("B", "two words".to_owned())),
            Ok(("C", "a # b $A \\n".to_owned())),
            Ok(("D", "x\ny\"z".to_owned())),
            Ok(("E", "one\ntwo".to_owned())),
            Ok(("F", String::new())),
            Ok(("G", "a#b".to_owned())),
            Err((11, "a line without `=`")),
            Err((12, "this is not the name of a variable")),
            Ok(("H", "h=h".to_owned())),
            Err((14, "a quote that is not closed")),
        ];
        assert_eq!(found, expected);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(?s)[A='\"\\\\#\n =$x]{0,40}") {
            let _ = variables(&text);
        }
    }

    #[test]
    fn a_message_has_no_value() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.env");
        std::fs::write(&path, "GOOD=1\nhunter2 hunter2\n").unwrap();
        let error = EnvFiles::read(std::slice::from_ref(&path), None).err().unwrap().to_string();
        assert!(error.contains("own.env:2: a line without `=`") && !error.contains("hunter2"), "{error}");
        std::fs::rename(&path, folder.path().join(".env")).unwrap();
        let files = EnvFiles::read(&[], Some(&folder.path().join("order.yaml"))).unwrap();
        assert!(files.warnings[0].ends_with(".env:2: a line without `=`"), "{:?}", files.warnings);
        assert_eq!(files.environment().get("GOOD").as_deref(), Some("1"));
    }
}
