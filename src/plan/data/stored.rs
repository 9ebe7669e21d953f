//! The rows of a file: checked once before the load, then read one at a time.
//!
//! A small file is kept in memory as it is, and a row is parsed when an iteration takes it. Of a large file, only the
//! places of its rows are kept ([`super::index`]); a row is read from the page cache.

use std::fs::{File, Metadata};
use std::io::{Read, Seek as _};
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use base::masking::names_secret;
use config::data::Format;
use text::digits;
use text::files::open_regular;
use text::template::{self, Value};

use super::FeederRow;
use super::csv::{self, Columns};
use super::index::{Index, RowLocation};
use super::records::{Problem, Records};

/// A file up to this size is kept in memory.
const KEPT_BYTES_MAX: u64 = 8 << 20;
/// How deep a JSON row may be nested, as deep as templates can follow.
const DEPTH_MAX: usize = 64;

/// The rows of a file.
#[derive(Debug)]
pub(super) struct RowFile {
    source: RowStorage,
    reader: RowReader,
    index: Index,
}

#[derive(Debug)]
enum RowStorage {
    Kept(Vec<u8>),
    File { file: File, stamp: Stamp },
}

/// What changes when a file is written to.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stamp {
    bytes: u64,
    modified: Option<SystemTime>,
}

impl Stamp {
    fn of(found: &Metadata) -> Self {
        Self { bytes: found.len(), modified: found.modified().ok() }
    }
}

const CHANGED: &str = "the file has changed while it was in use";

impl RowFile {
    /// Opens a file and checks every row of it. Without a delimiter, CSV's own is found in its first line.
    pub(super) fn open(path: &Path, format: Format, delimiter: Option<char>) -> Result<Self, Problem> {
        Self::open_keeping(path, format, delimiter, KEPT_BYTES_MAX)
    }

    fn open_keeping(
        path: &Path,
        format: Format,
        delimiter: Option<char>,
        kept_max: u64,
    ) -> Result<Self, Problem> {
        let unreadable =
            |error: std::io::Error| Problem::file(format!("cannot be read: {error}"), "name a readable file");
        let mut file = open_regular(path).map_err(unreadable)?;
        let stamp = Stamp::of(&file.metadata().map_err(unreadable)?);
        if stamp.bytes <= kept_max {
            let mut bytes = Vec::new();
            (&mut file).take(kept_max + 1).read_to_end(&mut bytes).map_err(unreadable)?;
            let (reader, index) = checked(bytes.as_slice(), format, delimiter)?;
            return Ok(Self { source: RowStorage::Kept(bytes), reader, index });
        }
        let (reader, index) = checked(&mut file, format, delimiter)?;
        file.rewind().map_err(unreadable)?;
        if Stamp::of(&file.metadata().map_err(unreadable)?) != stamp {
            return Err(Problem::file(CHANGED, "run again when it is complete"));
        }
        Ok(Self { source: RowStorage::File { file, stamp }, reader, index })
    }

    pub(super) fn rows(&self) -> u64 {
        self.index.rows()
    }

    /// The names of a CSV file's columns.
    pub(super) fn columns(&self) -> Option<&[Arc<str>]> {
        match &self.reader {
            RowReader::Csv { columns, .. } => Some(&columns.names),
            RowReader::Json(_) => None,
        }
    }

    /// Reads and parses row `number`.
    pub(super) fn row(&self, number: u64) -> Result<FeederRow, String> {
        let place = self.index.place(number).ok_or_else(|| format!("there is no row {number}"))?;
        match &self.source {
            RowStorage::Kept(bytes) => {
                let range = place.start as usize..place.end as usize;
                self.parse(bytes.get(range).unwrap_or_default(), place)
            }
            RowStorage::File { file, stamp } => {
                let length = usize::try_from(place.end - place.start).map_err(|error| error.to_string())?;
                let mut bytes = vec![0; length];
                read_at(file, &mut bytes, place.start).map_err(|error| match error.kind() {
                    std::io::ErrorKind::UnexpectedEof => CHANGED.to_owned(),
                    _ => format!("the file cannot be read: {error}"),
                })?;
                // After the reading, so that a change before it is seen.
                let found = file.metadata().map_err(|error| format!("the file cannot be read: {error}"))?;
                if Stamp::of(&found) != *stamp {
                    return Err(CHANGED.to_owned());
                }
                self.parse(&bytes, place)
            }
        }
    }

    fn parse(&self, bytes: &[u8], place: RowLocation) -> Result<FeederRow, String> {
        let told = |problem: Problem| problem.what;
        if place.skip == 0 {
            return self.reader.row(self.reader.alone(bytes), 1).map_err(told);
        }
        let mut records = Records::within(bytes, self.reader.format(), bytes.len());
        for _ in 0..place.skip {
            records.next().map_err(told)?;
        }
        let record = records.next().map_err(told)?.ok_or(CHANGED)?;
        self.reader.row(record.bytes, record.line).map_err(told)
    }
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(not(unix))]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    // The handles of a file share its position here, so each reading opens its own.
    use std::os::windows::fs::FileExt as _;
    let mut done = 0;
    while done < bytes.len() {
        match file.seek_read(&mut bytes[done..], offset + done as u64)? {
            0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            read => done += read,
        }
    }
    Ok(())
}

/// Parses a record.
#[derive(Debug)]
enum RowReader {
    Csv { columns: Arc<Columns>, delimiter: char },
    Json(Format),
}

impl RowReader {
    fn format(&self) -> Format {
        match self {
            Self::Csv { .. } => Format::Csv,
            Self::Json(format) => *format,
        }
    }

    /// The record at the start of `bytes`, without what separates it from the next one.
    fn alone<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let mut record = match self {
            Self::Csv { .. } => bytes,
            Self::Json(_) => bytes.trim_ascii_end(),
        };
        let separates = |byte: &u8| matches!(byte, b'\n' | b'\r');
        while let Some((_, rest)) = record.split_last().filter(|(last, _)| separates(last)) {
            record = rest;
        }
        match self {
            Self::Json(Format::Json) => record.strip_suffix(b",").unwrap_or(record).trim_ascii_end(),
            _ => record,
        }
    }

    fn row(&self, record: &[u8], line: u64) -> Result<FeederRow, Problem> {
        match self {
            Self::Csv { columns, delimiter } => {
                let mut scratch = Vec::new();
                let fields = csv::fields(utf8(record, line)?, *delimiter, line, &mut scratch)?;
                same_number(fields.len(), columns.names.len(), line)?;
                let fields: Vec<Value> = fields.into_iter().map(Value::from).collect();
                let secrets = columns.secret.iter().map(|number| fields[*number].clone()).collect();
                let value = Value::from_object(csv::CsvRow { columns: Arc::clone(columns), fields });
                Ok(FeederRow { value, secrets })
            }
            Self::Json(_) => parse_json(record, line).map(|value| json_row(&value)),
        }
    }

    /// The same without making values.
    fn check(&self, record: &[u8], line: u64) -> Result<(), Problem> {
        match self {
            Self::Csv { columns, delimiter } => {
                let mut scratch = Vec::new();
                let fields = csv::fields(utf8(record, line)?, *delimiter, line, &mut scratch)?;
                same_number(fields.len(), columns.names.len(), line)
            }
            Self::Json(_) => parse_json(record, line).map(drop),
        }
    }
}

/// A row of JSON. Of a map, the values of members that are named like a secret are secrets.
pub(super) fn json_row(value: &serde_json::Value) -> FeederRow {
    let members = value.as_object().into_iter().flatten();
    let secrets = members.filter(|(name, _)| names_secret(name));
    let secrets = secrets.map(|(_, value)| template::from_json(value)).collect();
    FeederRow { value: template::from_json(value), secrets }
}

fn utf8(record: &[u8], line: u64) -> Result<&str, Problem> {
    std::str::from_utf8(record).map_err(|error| {
        let before = record[..error.valid_up_to()].iter().filter(|byte| **byte == b'\n').count() as u64;
        Problem::at(line + before, "it is not valid UTF-8", "save the file as UTF-8")
    })
}

fn same_number(found: usize, expected: usize, line: u64) -> Result<(), Problem> {
    if found == expected {
        return Ok(());
    }
    let columns = |count: usize| if count == 1 { "1 column".to_owned() } else { format!("{count} columns") };
    let what = format!("it has {}, but the header has {}", columns(found), columns(expected));
    Err(Problem::at(line, what, "add or remove values; put one that contains the delimiter in quotes"))
}

fn parse_json(record: &[u8], line: u64) -> Result<serde_json::Value, Problem> {
    let text = utf8(record, line)?;
    let value = digits::parse(text.as_bytes()).map_err(|error| {
        let line = line + (error.line() as u64).saturating_sub(1);
        // serde_json appends the place within the record.
        let what = error.to_string();
        let what = what.split(" at line ").next().unwrap_or_default().to_owned();
        Problem::at(line, format!("it is not JSON: {what}"), "correct it")
    })?;
    if depth_exceeds(&value, DEPTH_MAX) {
        let what = format!("it is nested more than {DEPTH_MAX} levels deep");
        return Err(Problem::at(line, what, "flatten it"));
    }
    Ok(value)
}

/// serde_json itself bounds the depth that this follows.
fn depth_exceeds(value: &serde_json::Value, most: usize) -> bool {
    match value {
        serde_json::Value::Array(items) => {
            most == 0 || items.iter().any(|item| depth_exceeds(item, most - 1))
        }
        serde_json::Value::Object(_) if digits::digits(value).is_some() => false,
        serde_json::Value::Object(map) => most == 0 || map.values().any(|item| depth_exceeds(item, most - 1)),
        _ => false,
    }
}

/// Checks all rows and notes where they are.
fn checked(input: impl Read, format: Format, delimiter: Option<char>) -> Result<(RowReader, Index), Problem> {
    let mut records = Records::new(input, format);
    let reader = match format {
        Format::Csv => {
            let empty = || no_rows("the file is empty");
            let first = records.next()?.ok_or_else(empty)?;
            // A line that Excel writes and reads.
            let stated = csv::stated_delimiter(utf8(first.bytes, first.line)?);
            let header = if stated.is_some() { records.next()?.ok_or_else(empty)? } else { first };
            let (mut scratch, line) = (Vec::new(), header.line);
            let text = utf8(header.bytes, line)?;
            let delimiter = delimiter.or(stated).unwrap_or_else(|| csv::delimiter_of(text));
            let names = csv::fields(text, delimiter, line, &mut scratch)?;
            RowReader::Csv { columns: Arc::new(Columns::from_header(&names, line)?), delimiter }
        }
        Format::Json | Format::Jsonl => RowReader::Json(format),
    };
    let mut index = Index::default();
    while let Some(record) = records.next()? {
        reader.check(record.bytes, record.line)?;
        index.push(record.offset, record.offset + record.bytes.len() as u64);
    }
    match (index.rows(), format) {
        (0, Format::Csv) => Err(no_rows("the file has a header, but no rows")),
        (0, _) => Err(no_rows("the file has no rows")),
        _ => Ok((reader, index)),
    }
}

fn no_rows(what: &str) -> Problem {
    Problem::file(what, "add rows")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn written(text: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        file
    }

    fn json(stored: &RowFile) -> Vec<String> {
        (0..stored.rows())
            .map(|row| serde_json::to_string(&stored.row(row).unwrap().value).unwrap())
            .collect()
    }

    #[test]
    fn rows_are_the_same_from_memory_and_from_the_file() {
        let rows: &[(Format, &str, &[&str])] = &[
            (
                Format::Csv,
                "\u{feff}name,note\r\nada,\"a \"\"b\"\",\r\nc\"\r\n\r\nbob,\r\n",
                &[r#"{"name":"ada","note":"a \"b\",\r\nc"}"#, r#"{"name":"bob","note":""}"#],
            ),
            (Format::Csv, "a;b\n1;2,5\n", &[r#"{"a":"1","b":"2,5"}"#]),
            (Format::Csv, "a\tb\n1\t2;3\n", &[r#"{"a":"1","b":"2;3"}"#]),
            (Format::Csv, "\u{feff}sep=;\r\na;b\r\n1;2\r\n", &[r#"{"a":"1","b":"2"}"#]),
            (Format::Csv, "\"a;b\"\n1\n", &[r#"{"a;b":"1"}"#]),
            (Format::Csv, "a;b,c\n1,2\n", &[r#"{"a;b":"1","c":"2"}"#]),
            (Format::Csv, "sep\n=\n", &[r#"{"sep":"="}"#]),
            (Format::Json, "[{\"a\": 1},\n \"x\" , [2 ]\n]\n", &[r#"{"a":1}"#, r#""x""#, "[2]"]),
            (Format::Jsonl, "{\"a\":{\"b\":null}}\n\n7\n\"ä\"", &[r#"{"a":{"b":null}}"#, "7", "\"ä\""]),
        ];
        for (format, text, expected) in rows {
            let file = written(text.as_bytes());
            for kept_max in [0, 1000] {
                let stored = RowFile::open_keeping(file.path(), *format, None, kept_max).unwrap();
                assert_eq!(json(&stored), *expected, "{format:?} {kept_max}");
                assert!(stored.row(stored.rows()).is_err());
            }
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_with_its_line() {
        let deep = format!("1\n{}{}", "[".repeat(70), "]".repeat(70));
        let rows: &[(Format, &[u8], Option<u64>, &str)] = &[
            (Format::Csv, b"", None, "the file is empty"),
            (Format::Csv, b"a,b\n", None, "no rows"),
            (Format::Csv, b"a,b\n1,2\n3\n", Some(3), "it has 1 column, but the header has 2 columns"),
            (Format::Csv, b"a\n\"x\ny\"\n1,2\n", Some(4), "it has 2 columns, but the header has 1 column"),
            (Format::Csv, b"a,a\n1,2\n", Some(1), "two columns are named `a`"),
            (Format::Csv, b"a,\n1,2\n", Some(1), "column 2 has no name"),
            (Format::Csv, b"a\n\xff\n", Some(2), "not valid UTF-8"),
            (Format::Csv, b"a\nx\0y\n", Some(2), "NUL"),
            (Format::Csv, b"a\n\"x\n", Some(2), "has no end"),
            (Format::Json, b"[]", None, "no rows"),
            (Format::Json, b"{\"a\": 1}", Some(1), "not a list"),
            (Format::Json, b"[1,\n{\"a\": x}]", Some(2), "not JSON"),
            (Format::Json, b"[\n{\"a\": 1\n,}]", Some(3), "not JSON"),
            (Format::Jsonl, b"", None, "no rows"),
            (Format::Jsonl, b"1\n{\n2", Some(2), "not JSON"),
            (Format::Jsonl, deep.as_bytes(), Some(2), "nested more than 64 levels"),
        ];
        for (format, text, line, part) in rows {
            let file = written(text);
            let shown = String::from_utf8_lossy(text);
            let problem = RowFile::open(file.path(), *format, None).unwrap_err();
            assert!(problem.line == *line && problem.what.contains(part), "{shown}: {problem:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_path_buf(), folder.path().join("missing")] {
            let problem = RowFile::open(&path, Format::Csv, None).unwrap_err();
            assert!(problem.what.contains("cannot be read"), "{problem:?}");
        }
    }

    #[test]
    fn a_file_that_changes_is_an_error_and_not_another_row() {
        let mut file = written(b"a\n1\n2\n");
        let stored = RowFile::open_keeping(file.path(), Format::Csv, None, 0).unwrap();
        assert!(stored.row(1).is_ok());
        file.write_all(b"3\n").unwrap();
        assert_eq!(stored.row(1).err().as_deref(), Some(CHANGED));
        file.as_file().set_len(3).unwrap();
        assert_eq!(stored.row(1).err().as_deref(), Some(CHANGED));
    }

    #[test]
    fn values_of_columns_that_are_named_like_a_secret_are_secrets() {
        for (format, text) in [
            (Format::Csv, "user,api_token\nada,t0p\n"),
            (Format::Jsonl, "{\"user\": \"ada\", \"api_token\": \"t0p\"}"),
        ] {
            let row = RowFile::open(written(text.as_bytes()).path(), format, None).unwrap().row(0).unwrap();
            assert_eq!(row.secrets, [Value::from("t0p")], "{format:?}");
        }
    }
}
