//! A row of CSV (RFC 4180), and its value in templates. Values are texts.

use std::sync::Arc;

use minijinja::value::{Enumerator, Object, ObjectRepr};

use base::masking::names_secret;
use text::template::Value;

use super::records::Problem;

/// The columns of a file.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) names: Vec<Arc<str>>,
    /// The numbers of the columns that are named like a secret.
    pub(super) secret: Vec<usize>,
}

impl Columns {
    /// From the fields of the header line.
    pub(super) fn from_header(fields: &[&str], line: u64) -> Result<Self, Problem> {
        let mut names: Vec<Arc<str>> = Vec::with_capacity(fields.len());
        for (number, name) in fields.iter().enumerate() {
            let name = name.trim();
            if name.is_empty() {
                let what = format!("column {} has no name in the header", number + 1);
                return Err(Problem::at(line, what, "give it a name: the first line names the columns"));
            }
            if names.iter().any(|known| &**known == name) {
                let what = format!("two columns are named `{name}`");
                return Err(Problem::at(line, what, "rename one"));
            }
            names.push(Arc::from(name));
        }
        let secret = (0..names.len()).filter(|number| names_secret(&names[*number])).collect();
        Ok(Self { names, secret })
    }
}

/// The delimiter of a first line `sep=;`, which spreadsheets write and read.
pub(super) fn stated_delimiter(first: &str) -> Option<char> {
    let mut stated = first.strip_prefix("sep=").or_else(|| first.strip_prefix("\"sep="))?.chars();
    let delimiter = stated.next().filter(|delimiter| !matches!(delimiter, '"' | '\n' | '\r'))?;
    matches!(stated.as_str(), "" | "\"").then_some(delimiter)
}

/// What separates the names of a header. Where a comma is the decimal sign, spreadsheets write `;`.
pub(super) fn delimiter_of(header: &str) -> char {
    // Every other part is within quotes.
    let outside = || header.split('"').step_by(2);
    let count = |delimiter: &char| outside().map(|part| part.matches(*delimiter).count()).sum::<usize>();
    let others = [';', '\t', '|'].into_iter().filter(|other| count(other) > 0);
    match count(&',') {
        0 => others.max_by_key(count).unwrap_or(','),
        _ => ',',
    }
}

/// The fields of a record. `scratch` takes those that contain escaped quotes.
pub(super) fn fields<'r>(
    record: &'r str,
    delimiter: char,
    line: u64,
    scratch: &'r mut Vec<String>,
) -> Result<Vec<&'r str>, Problem> {
    enum CsvField<'r> {
        Plain(&'r str),
        Unescaped(usize),
    }
    let quotes = |what: &str| {
        Problem::at(
            line,
            what,
            "put the whole value in quotes, and write each quote in it twice: \"a \"\"b\"\"\"",
        )
    };
    let (mut parts, mut rest) = (Vec::new(), record);
    loop {
        let after = if let Some(quoted) = rest.strip_prefix('"') {
            let (length, escaped) =
                quoted_length(quoted).ok_or_else(|| quotes("a quoted value has no end"))?;
            let text = &quoted[..length];
            parts.push(if escaped {
                scratch.push(text.replace("\"\"", "\""));
                CsvField::Unescaped(scratch.len() - 1)
            } else {
                CsvField::Plain(text)
            });
            &quoted[length + 1..]
        } else {
            let end = rest.find(delimiter).unwrap_or(rest.len());
            let text = &rest[..end];
            if text.contains('"') {
                return Err(quotes("a quote inside a value without quotes"));
            }
            if text.contains('\r') {
                return Err(quotes("a carriage return inside a value without quotes"));
            }
            parts.push(CsvField::Plain(text));
            &rest[end..]
        };
        match after.strip_prefix(delimiter) {
            Some(next) => rest = next,
            None if after.is_empty() => break,
            None => return Err(quotes("a text after the closing quote of a value")),
        }
    }
    let scratch: &'r Vec<String> = scratch;
    Ok(parts
        .into_iter()
        .map(|part| match part {
            CsvField::Plain(text) => text,
            CsvField::Unescaped(at) => &scratch[at],
        })
        .collect())
}

/// The length up to the closing quote, and whether there are escaped quotes before it.
fn quoted_length(text: &str) -> Option<(usize, bool)> {
    let (mut from, mut escaped) = (0, false);
    loop {
        let place = from + text[from..].find('"')?;
        if !text[place + 1..].starts_with('"') {
            return Some((place, escaped));
        }
        escaped = true;
        from = place + 2;
    }
}

/// A row as a map from column to text.
#[derive(Debug)]
pub(super) struct CsvRow {
    pub(super) columns: Arc<Columns>,
    pub(super) fields: Vec<Value>,
}

impl Object for CsvRow {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.as_str()?;
        let at = self.columns.names.iter().position(|column| &**column == name)?;
        self.fields.get(at).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Values(self.columns.names.iter().map(|name| Value::from(Arc::clone(name))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_rfc_4180_says() {
        let rows: &[(&str, Result<&[&str], &str>)] = &[
            ("a,b", Ok(&["a", "b"])),
            ("", Ok(&[""])),
            (",", Ok(&["", ""])),
            (" a , b ", Ok(&[" a ", " b "])),
            ("\"a,b\",c", Ok(&["a,b", "c"])),
            ("\"a\"\"b\"\"\",\"\"", Ok(&["a\"b\"", ""])),
            ("\"x\ny\",\"ä\r\n\"", Ok(&["x\ny", "ä\r\n"])),
            ("\"\"\"\"", Ok(&["\""])),
            ("a\"b,c", Err("a quote inside")),
            ("\"a\"b,c", Err("after the closing quote")),
            ("\"a", Err("has no end")),
            ("a\rb", Err("a carriage return")),
        ];
        for (record, expected) in rows {
            match (fields(record, ',', 3, &mut Vec::new()), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, *expected, "{record:?}"),
                (Err(problem), Err(part)) => {
                    assert!(
                        problem.what.contains(part) && problem.line == Some(3),
                        "{record:?}: {problem:?}"
                    );
                }
                (found, _) => panic!("{record:?}: {found:?}"),
            }
        }
        assert_eq!(fields("a;b,c", ';', 1, &mut Vec::new()).unwrap(), ["a", "b,c"]);
    }

    #[test]
    fn columns_need_different_names_and_secret_ones_are_known() {
        for (header, expected) in [
            (&["id", " password "][..], Ok(vec![1])),
            (&["id", ""], Err("column 2 has no name in the header")),
            (&["id", "id"], Err("two columns are named `id`")),
        ] {
            let found = Columns::from_header(header, 1).map(|columns| columns.secret);
            assert_eq!(found.map_err(|problem| problem.what), expected.map_err(str::to_owned), "{header:?}");
        }
    }
}
