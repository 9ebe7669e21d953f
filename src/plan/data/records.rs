//! Finds the records in CSV, JSON and JSON Lines, in one pass over a stream with bounded memory.
//!
//! Only the boundaries are found here. [`super::csv`] and serde_json read the records themselves.

use std::io::{self, Read};

use config::data::Format;

/// The longest record, in bytes.
pub(super) const RECORD_BYTES_MAX: usize = 1 << 20;
const QUOTES: &str = "add the closing quote; write a value that has a quote in it as \"5\"\" pipe\"";
const CHUNK_BYTES: usize = 128 * 1024;

/// What is wrong with a file of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Problem {
    /// The line, counted from 1; `None` for the whole file.
    pub(super) line: Option<u64>,
    pub(super) what: String,
    pub(super) help: String,
}

impl Problem {
    pub(super) fn at(line: u64, what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { line: Some(line), what: what.into(), help: help.into() }
    }

    pub(super) fn file(what: impl Into<String>, help: impl Into<String>) -> Self {
        Self { line: None, what: what.into(), help: help.into() }
    }

    fn read(error: &io::Error) -> Self {
        Self::file(format!("it cannot be read: {error}"), "check the file")
    }
}

/// A record without the line ending or comma after it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RawRecord<'b> {
    /// Its first byte's place in the file.
    pub(super) offset: u64,
    /// Its first line.
    pub(super) line: u64,
    pub(super) bytes: &'b [u8],
}

/// Where a reader of a JSON list is.
#[derive(Clone, Copy, PartialEq)]
enum ListPosition {
    Before,
    /// Before the first value, where the list may also end.
    First,
    Value,
    AfterValue,
    Ended,
}

/// Reads the records of a stream.
pub(super) struct Records<R> {
    input: R,
    format: Format,
    buffer: Vec<u8>,
    /// Where the unread part of the buffer begins.
    at: usize,
    /// The place of the buffer's first byte in the file.
    offset: u64,
    line: u64,
    ended: bool,
    list: ListPosition,
    /// True if the stream is a part of a file, so that its last record need not be followed by anything.
    part: bool,
    /// How many bytes to read at a time.
    chunk: usize,
}

/// A record in the buffer.
struct RecordExtent {
    start: usize,
    end: usize,
    /// Where the next one begins.
    next: usize,
}

impl<R: Read> Records<R> {
    /// Of a whole file.
    pub(super) fn new(input: R, format: Format) -> Self {
        let (buffer, list) = (Vec::new(), ListPosition::Before);
        Self {
            input,
            format,
            buffer,
            at: 0,
            offset: 0,
            line: 1,
            ended: false,
            list,
            part: false,
            chunk: CHUNK_BYTES,
        }
    }

    /// Of a part of a file that begins with a record and has `bytes` bytes.
    pub(super) fn within(input: R, format: Format, bytes: usize) -> Self {
        Self { list: ListPosition::Value, part: true, chunk: bytes.max(1), ..Self::new(input, format) }
    }

    /// The next record; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<RawRecord<'_>>, Problem> {
        loop {
            self.skip_marks()?;
            let found = match self.format {
                Format::Csv => self.csv()?,
                Format::Jsonl => self.line(),
                Format::Json => self.value()?,
            };
            let Some(RecordExtent { start, end, next }) = found else {
                if self.ended {
                    return self.at_end().map(|()| None);
                }
                self.fill()?;
                continue;
            };
            if end - start > RECORD_BYTES_MAX {
                return Err(self.too_long());
            }
            let line = self.line + newlines(&self.buffer[self.at..start]);
            self.line += newlines(&self.buffer[self.at..next]);
            self.at = next;
            let blank = self.format != Format::Json
                && self.buffer[start..end].iter().all(|byte| matches!(byte, b' ' | b'\t'));
            // A line without anything is no row; one with blanks is none in JSON Lines.
            if start == end || blank && self.format == Format::Jsonl {
                continue;
            }
            let bytes = &self.buffer[start..end];
            if bytes.contains(&0) {
                let help = "is this a text file? save it as UTF-8";
                return Err(Problem::at(line, "it contains a NUL byte", help));
            }
            return Ok(Some(RawRecord { offset: self.offset + start as u64, line, bytes }));
        }
    }

    /// Reads more.
    fn fill(&mut self) -> Result<(), Problem> {
        if self.buffer.len() - self.at > RECORD_BYTES_MAX + self.chunk {
            return Err(self.too_long());
        }
        self.buffer.drain(..self.at);
        self.offset += self.at as u64;
        self.at = 0;
        let length = self.buffer.len();
        self.buffer.resize(length + self.chunk, 0);
        let read = loop {
            match self.input.read(&mut self.buffer[length..]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        let read = read.map_err(|error| Problem::read(&error))?;
        self.buffer.truncate(length + read);
        self.ended = read == 0;
        Ok(())
    }

    /// Passes over a byte order mark, and refuses the other encodings that have one.
    fn skip_marks(&mut self) -> Result<(), Problem> {
        if self.offset != 0 || self.at != 0 || self.part {
            return Ok(());
        }
        while self.buffer.len() < 3 && !self.ended {
            self.fill()?;
        }
        if self.buffer.starts_with(b"\xef\xbb\xbf") {
            self.at = 3;
        } else if self.buffer.starts_with(b"\xff\xfe") || self.buffer.starts_with(b"\xfe\xff") {
            return Err(Problem::file("it is UTF-16", "save it as UTF-8"));
        }
        Ok(())
    }

    fn csv(&self) -> Result<Option<RecordExtent>, Problem> {
        let (mut quoted, mut from) = (false, self.at);
        while let Some(found) = memchr::memchr2(b'"', b'\n', &self.buffer[from..]) {
            let place = from + found;
            from = place + 1;
            match self.buffer[place] {
                b'"' => quoted = !quoted,
                _ if !quoted => return Ok(Some(self.ended_by(place))),
                _ => {}
            }
        }
        if self.ended && quoted {
            return Err(Problem::at(self.line, "a quoted value has no end", QUOTES));
        }
        Ok(self.rest())
    }

    fn line(&self) -> Option<RecordExtent> {
        match memchr::memchr(b'\n', &self.buffer[self.at..]) {
            Some(found) => Some(self.ended_by(self.at + found)),
            None => self.rest(),
        }
    }

    /// The record that ends with the line feed at `place`.
    fn ended_by(&self, place: usize) -> RecordExtent {
        let end = if self.buffer[self.at..place].ends_with(b"\r") { place - 1 } else { place };
        RecordExtent { start: self.at, end, next: place + 1 }
    }

    /// The record without a line ending at the end of the file.
    fn rest(&self) -> Option<RecordExtent> {
        let end = self.buffer.len();
        let trimmed = if self.buffer[self.at..].ends_with(b"\r") { end - 1 } else { end };
        (self.ended && self.at < end).then_some(RecordExtent { start: self.at, end: trimmed, next: end })
    }

    /// The next value of a JSON list.
    fn value(&mut self) -> Result<Option<RecordExtent>, Problem> {
        loop {
            let blanks = self.buffer[self.at..].iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let start = self.at + blanks;
            let Some(first) = self.buffer.get(start).copied() else { return Ok(None) };
            let line = self.line + newlines(&self.buffer[self.at..start]);
            let next = match (self.list, first) {
                (ListPosition::Before, b'[') => ListPosition::First,
                (ListPosition::Before, _) => {
                    return Err(Problem::at(
                        line,
                        "it is not a list",
                        "write [{…}, {…}], or choose `format: jsonl`",
                    ));
                }
                (ListPosition::First | ListPosition::AfterValue, b']') => ListPosition::Ended,
                (ListPosition::AfterValue, b',') => ListPosition::Value,
                (ListPosition::AfterValue, _) => {
                    return Err(Problem::at(line, "a comma or `]` is missing", "add it"));
                }
                (ListPosition::Ended, _) => {
                    return Err(Problem::at(
                        line,
                        "there is something after the end of the list",
                        "remove it",
                    ));
                }
                (ListPosition::First | ListPosition::Value, _) => {
                    let whole = self.buffer[start..].trim_ascii_end().len();
                    let known = end_of_value(&self.buffer[start..]);
                    let Some(end) = known.or((self.part && self.ended).then_some(whole)) else {
                        (self.at, self.line) = (start, line);
                        return Ok(None);
                    };
                    if end == 0 {
                        return Err(Problem::at(line, "a value is missing", "add it, or remove the comma"));
                    }
                    self.list = ListPosition::AfterValue;
                    return Ok(Some(RecordExtent { start, end: start + end, next: start + end }));
                }
            };
            (self.list, self.at, self.line) = (next, start + 1, line);
        }
    }

    fn at_end(&self) -> Result<(), Problem> {
        match (self.format, self.list) {
            (Format::Json, ListPosition::Before) if self.offset == 0 && self.buffer.is_empty() => Ok(()),
            (Format::Json, ListPosition::Ended) => Ok(()),
            (Format::Json, _) => Err(Problem::at(self.line, "the list has no end", "add `]`")),
            _ => Ok(()),
        }
    }

    fn too_long(&self) -> Problem {
        let help = match self.format {
            Format::Csv => "is a closing quote missing?",
            _ => "is this the right file?",
        };
        Problem::at(self.line, "a row is longer than 1 MiB", help)
    }
}

/// The length of the JSON value at the start of `bytes`; `None` if more bytes are needed to tell. Only brackets and
/// texts are looked at.
fn end_of_value(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => {
                at = end_of_text(bytes, at + 1)?;
                continue;
            }
            b'[' | b'{' => depth += 1,
            b']' | b'}' | b',' if depth == 0 => {
                return Some(bytes[..at].trim_ascii_end().len());
            }
            b']' | b'}' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
    None
}

/// The place after the quote that closes a text.
fn end_of_text(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let found = at + memchr::memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[found] == b'"' {
            return Some(found + 1);
        }
        at = found + 2;
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives a byte or two at a time.
    struct Slow<'b>(&'b [u8], usize);

    impl Read for Slow<'_> {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let count = self.1.min(self.0.len()).min(into.len());
            into[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    /// The records with their offsets and lines.
    fn all(text: &[u8], format: Format, at_once: usize) -> Result<Vec<(u64, u64, String)>, String> {
        let mut records = Records::new(Slow(text, at_once), format);
        let mut found = Vec::new();
        loop {
            match records.next() {
                Ok(Some(RawRecord { offset, line, bytes })) => {
                    found.push((offset, line, String::from_utf8_lossy(bytes).into_owned()));
                }
                Ok(None) => return Ok(found),
                Err(problem) => return Err(format!("{}: {}", problem.line.unwrap_or(0), problem.what)),
            }
        }
    }

    #[test]
    fn records_are_found_in_every_format_however_the_stream_is_cut() {
        use Format::{Csv, Json, Jsonl};
        type Found<'r> = Result<&'r [(u64, u64, &'r str)], &'r str>;
        let rows: &[(Format, &str, Found)] = &[
            (Csv, "", Ok(&[])),
            (Csv, "a,b\n1,2", Ok(&[(0, 1, "a,b"), (4, 2, "1,2")])),
            (Csv, "\u{feff}a\r\n\r\n1\r\n", Ok(&[(3, 1, "a"), (8, 3, "1")])),
            (Csv, "a\n\"x\n\"\"y\"\nz\n", Ok(&[(0, 1, "a"), (2, 2, "\"x\n\"\"y\""), (10, 4, "z")])),
            (Csv, "a\n\"x\n", Err("2: a quoted value has no end")),
            (Csv, "a\n\0", Err("2: it contains a NUL byte")),
            (Jsonl, "{}\n \n1\n", Ok(&[(0, 1, "{}"), (5, 3, "1")])),
            (Json, "", Ok(&[])),
            (Json, " [ ] \n", Ok(&[])),
            (
                Json,
                "[ {\"a\":\"]\\\",\"} ,\n[1,{}],\n 7 ]",
                Ok(&[(2, 1, "{\"a\":\"]\\\",\"}"), (17, 2, "[1,{}]"), (26, 3, "7")]),
            ),
            (Json, "{}", Err("1: it is not a list")),
            (Json, "\n[1", Err("2: the list has no end")),
            (Json, "[1,]", Err("1: a value is missing")),
            (Json, "[,1]", Err("1: a value is missing")),
            (Json, "[1] x", Err("1: there is something after the end of the list")),
            (Json, "[\"a\" \"b\"\n, 2]", Ok(&[(1, 1, "\"a\" \"b\""), (11, 2, "2")])),
        ];
        for (format, text, expected) in rows {
            let expected = match expected {
                Ok(rows) => Ok(rows.iter().map(|(o, l, text)| (*o, *l, (*text).to_owned())).collect()),
                Err(problem) => Err((*problem).to_owned()),
            };
            for at_once in [1, 2, 1000] {
                assert_eq!(all(text.as_bytes(), *format, at_once), expected, "{text:?} by {at_once}");
            }
        }
        assert_eq!(all(b"\xff\xfea\0", Csv, 1000), Err("0: it is UTF-16".to_owned()));
    }

    #[test]
    fn a_record_that_is_too_long_is_refused_before_it_is_held() {
        let long = "x".repeat(RECORD_BYTES_MAX + 1);
        for (format, text) in [
            (Format::Csv, format!("a\n{long}\n")),
            (Format::Jsonl, format!("1\n\"{long}\"")),
            (Format::Json, format!("[1,\n\"{long}\"]")),
            (Format::Csv, format!("a\n\"{}", long.repeat(4))),
        ] {
            let found = all(text.as_bytes(), format, 1 << 16);
            assert_eq!(found, Err("2: a row is longer than 1 MiB".to_owned()), "{format:?}");
        }
    }
}
