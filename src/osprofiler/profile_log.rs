//! Mistral's profile log: two lines a point, the duration on the stop's line.
//!
//! ```text
//! 2020-02-27T08:04:25.954502          BASE_ID PARENT_ID TRACE_ID workflow-set-state-start
//! 2020-02-27T08:04:25.961298 0.006782 BASE_ID PARENT_ID TRACE_ID workflow-set-state-stop
//! ```
//!
//! A start has ten blanks where the stop has its seconds; a stop of more than half a second ends in
//! `  <- !!!`; JSON of what the point says may follow (observed on Mistral 23). Logs come from
//! anywhere: a line without a record is recognised and never stops the reading. No file is opened here.

use std::collections::{HashMap, VecDeque};
use std::io::{self, BufRead, Read as _};

use serde_json::Value;

use super::info::SharedInfo;
use super::record::{Info, START_SUFFIX, STOP_SUFFIX, TraceRecord, parse_timestamp};

/// Longer lines are not looked at.
pub const LINE_LEN_MAX: usize = 4 * 1024 * 1024;
/// A point of more than this is marked, as Mistral does.
const SLOW_US: u64 = 500_000;
const SLOW_MARK: &str = "<- !!!";
const NO_DURATION: &str = "          ";
/// The limit on points without a stop so far. Beyond it, the oldest are forgotten, so a log can grow forever.
const OPEN_MAX: usize = 20_000;

/// A line of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileLogLine<'a> {
    /// UTC or local time of the writer, with microseconds, without a zone.
    pub timestamp: &'a str,
    /// On stop lines: seconds.
    pub duration_s: Option<f64>,
    /// The seconds, as written; empty on start lines.
    pub duration_text: &'a str,
    /// The trace.
    pub base_id: &'a str,
    /// The enclosing point.
    pub parent_id: &'a str,
    /// The point.
    pub trace_id: &'a str,
    /// The point's name without `-start` or `-stop`; may hold blanks.
    pub name: &'a str,
    /// The JSON behind it, if there is any.
    pub info: Option<&'a str>,
}

/// Why a line is none of the log's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is blank.
    #[error("is blank")]
    Blank,
    /// It does not begin with a time.
    #[error("does not begin with a time such as 2020-02-27T08:04:25.789433")]
    Timestamp,
    /// An id or the name is missing.
    #[error("ends before the name of its point")]
    Short,
    /// The duration is not a number of seconds.
    #[error("has a duration that is not a number of seconds")]
    Duration,
    /// The bytes are not text.
    #[error("is not UTF-8")]
    Utf8,
    /// Over [`LINE_LEN_MAX`].
    #[error("is longer than 4 MiB")]
    TooLong,
    /// The name has neither ending, or not the one that goes with the duration.
    #[error("names a point that ends neither in -start nor, with a duration, in -stop")]
    Name,
}

impl<'a> ProfileLogLine<'a> {
    /// Reads a line, without its line break.
    ///
    /// # Errors
    /// Says what it lacks.
    pub fn parse(line: &'a str) -> Result<Self, LineError> {
        let mut rest = line;
        let timestamp = word(&mut rest).ok_or(LineError::Blank)?;
        if parse_timestamp(timestamp).is_none() {
            return Err(LineError::Timestamp);
        }
        let blanks = rest.len() - rest.trim_start().len();
        let mut base_id = word(&mut rest).ok_or(LineError::Short)?;
        let (mut duration_s, mut duration_text) = (None, "");
        // What follows at once is a duration; a start's gap is wide.
        if blanks < NO_DURATION.len() {
            let seconds: f64 = base_id.parse().map_err(|_| LineError::Duration)?;
            if !(seconds.is_finite() && seconds >= 0.0) {
                return Err(LineError::Duration);
            }
            (duration_s, duration_text) = (Some(seconds), base_id);
            base_id = word(&mut rest).ok_or(LineError::Short)?;
        }
        let parent_id = word(&mut rest).ok_or(LineError::Short)?;
        let trace_id = word(&mut rest).ok_or(LineError::Short)?;
        let (name, info) = name_and_info(rest.trim(), duration_s.is_some())?;
        Ok(Self { timestamp, duration_s, duration_text, base_id, parent_id, trace_id, name, info })
    }

    /// The record of the line. JSON that is not an object is kept under `text`.
    #[must_use]
    pub fn record(&self) -> TraceRecord {
        let suffix = if self.duration_s.is_some() { STOP_SUFFIX } else { START_SUFFIX };
        TraceRecord {
            name: format!("{}{suffix}", self.name).into(),
            base_id: self.base_id.into(),
            trace_id: self.trace_id.into(),
            parent_id: self.parent_id.into(),
            timestamp: self.timestamp.into(),
            info: self.info.map(|json| SharedInfo::as_text(&info(json))).unwrap_or_default(),
            project: None,
            service: None,
        }
    }
}

fn info(json: &str) -> Info {
    match serde_json::from_str(json) {
        Ok(Value::Object(mut info)) => {
            // The log holds a statement without the envelope that other collectors keep.
            if let Some(statement) = info.remove("statement") {
                info.insert("db".to_owned(), serde_json::json!({ "statement": statement }));
            }
            info
        }
        _ => Info::from_iter([("text".to_owned(), Value::String(json.to_owned()))]),
    }
}

/// The next word; what is left begins with the blanks behind it.
fn word<'a>(rest: &mut &'a str) -> Option<&'a str> {
    let text = rest.trim_start();
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let (word, behind) = text.split_at(end);
    *rest = behind;
    (!word.is_empty()).then_some(word)
}

/// Takes `NAME-stop  <- !!! {…}` apart. The name ends at the last ending before the JSON, because it may
/// hold blanks.
fn name_and_info(text: &str, stops: bool) -> Result<(&str, Option<&str>), LineError> {
    if text.is_empty() {
        return Err(LineError::Short);
    }
    let ending = if stops { STOP_SUFFIX } else { START_SUFFIX };
    let mut from = 0;
    while let Some(at) = text[from..].find(ending).map(|at| at + from) {
        let behind = text[at + ending.len()..].trim_start();
        let behind =
            if stops { behind.strip_prefix(SLOW_MARK).unwrap_or(behind).trim_start() } else { behind };
        let separate = text[at + ending.len()..].chars().next().is_none_or(char::is_whitespace);
        if separate && (behind.is_empty() || behind.starts_with('{')) {
            return Ok((&text[..at], (!behind.is_empty()).then_some(behind)));
        }
        from = at + ending.len();
    }
    Err(LineError::Name)
}

/// Gives every line of a log with its number, from 1, to `each`; a longer line than [`LINE_LEN_MAX`] never
/// is in memory whole.
///
/// # Errors
/// What reading says.
pub fn each_line(
    log: impl BufRead,
    mut each: impl FnMut(u64, Result<ProfileLogLine<'_>, LineError>),
) -> io::Result<()> {
    each_text(log, |number, text| each(number, text.and_then(ProfileLogLine::parse)))
}

/// As [`each_line`], without looking into the lines; a line break may be at the end of each.
pub(crate) fn each_text(
    mut log: impl BufRead,
    mut each: impl FnMut(u64, Result<&str, LineError>),
) -> io::Result<()> {
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        let read = log.by_ref().take(LINE_LEN_MAX as u64 + 1).read_until(b'\n', &mut bytes)?;
        if read == 0 {
            break;
        }
        if read > LINE_LEN_MAX && bytes.last() != Some(&b'\n') {
            log.skip_until(b'\n')?;
            each(number, Err(LineError::TooLong));
            continue;
        }
        each(number, std::str::from_utf8(&bytes).map_err(|_| LineError::Utf8));
    }
    Ok(())
}

/// Turns records into lines; it remembers starts until their stops come.
#[derive(Clone, Debug, Default)]
pub struct LogWriter {
    open: HashMap<String, i64>,
    /// The same in the order of their starts; those that stopped are still there.
    started: VecDeque<String>,
}

impl LogWriter {
    /// Appends a record's line, or nothing for a record without a readable time. Line breaks in names and
    /// ids become blanks: a line is one line.
    pub fn append(&mut self, record: &TraceRecord, out: &mut String) {
        use std::fmt::Write as _;
        let Some(time_us) = record.timestamp_us() else { return };
        let key = format!("{}/{}", record.base_id, record.trace_id);
        let mut duration_us = None;
        if record.name.ends_with(STOP_SUFFIX) {
            let start_us = self.open.remove(&key).unwrap_or(time_us);
            duration_us = Some(time_us.saturating_sub(start_us).max(0).unsigned_abs());
        } else {
            self.started.push_back(key.clone());
            self.open.insert(key, time_us);
            while self.started.len() > OPEN_MAX {
                let oldest = self.started.pop_front();
                oldest.and_then(|oldest| self.open.remove(&oldest));
            }
        }
        let duration = duration_us.map_or_else(|| NO_DURATION.to_owned(), |us| format!(" {} ", seconds(us)));
        let id = |text: &str| text.replace(char::is_whitespace, "_");
        let _ = write!(
            out,
            "{}{duration}{} {} {} {}",
            record.timestamp,
            id(&record.base_id),
            id(&record.parent_id),
            id(&record.trace_id),
            record.name.replace(|c: char| c.is_control(), " ").trim(),
        );
        if duration_us.is_some_and(|us| us > SLOW_US) {
            let _ = write!(out, "  {SLOW_MARK}");
        }
        if !record.info.is_empty() {
            let _ = write!(out, " {}", Value::Object(record.info.read().into_owned()));
        }
        out.push('\n');
    }
}

/// Seconds as Python writes them: the shortest form with at least one decimal, `4.7e-05` when small.
fn seconds(us: u64) -> String {
    let (whole, part) = (us / 1_000_000, us % 1_000_000);
    if whole == 0 && (1..100).contains(&part) {
        let digits = part.to_string();
        let exponent = 6 - (digits.len() - 1);
        let (first, others) = digits.split_at(1);
        let others = others.trim_end_matches('0');
        let point = if others.is_empty() { "" } else { "." };
        return format!("{first}{point}{others}e-{exponent:02}");
    }
    let text = format!("{whole}.{part:06}");
    let text = text.trim_end_matches('0');
    if text.ends_with('.') { format!("{text}0") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SEED: &str = include_str!("../../tests/vectors/mistral/1-seed-doc.log");
    const LOG: &str = include_str!("../../tests/vectors/mistral/3-log_to_file.log");

    #[test]
    fn mistrals_own_lines_are_read_and_written_again_to_the_byte() {
        for (log, exact) in [(SEED, false), (LOG, true)] {
            let mut writer = LogWriter::default();
            let mut written = String::new();
            for line in log.lines() {
                let parsed = ProfileLogLine::parse(line).unwrap_or_else(|error| panic!("{line} {error}"));
                let mut record = parsed.record();
                // Mistral's JSON has other separators and keys than a record.
                record.info = Info::new().into();
                writer.append(&record, &mut written);
            }
            for (ours, theirs) in written.lines().zip(log.lines()) {
                let theirs = theirs.split(" {").next().unwrap();
                let line = ProfileLogLine::parse(ours).unwrap();
                match line.duration_s {
                    // The guide's log is of a Mistral that took durations and times by themselves.
                    Some(duration_s) if !exact => {
                        let difference_s =
                            duration_s - ProfileLogLine::parse(theirs).unwrap().duration_s.unwrap();
                        assert!(difference_s.abs() < 1e-4, "{ours} {theirs}");
                    }
                    _ => assert_eq!(ours, theirs),
                }
            }
            assert_eq!(written.lines().count(), log.lines().count());
        }
    }

    #[test]
    fn names_durations_and_statements_are_found() {
        let points: Vec<(Option<f64>, &str, bool)> = LOG
            .lines()
            .map(|line| ProfileLogLine::parse(line).unwrap())
            .map(|line| (line.duration_s, line.name, line.info.is_some()))
            .collect();
        assert_eq!(points[0], (None, "engine-start-workflow", false));
        assert_eq!(points[5], (Some(0.500_001), "engine-start-workflow", false));
        assert_eq!(points[6], (None, "db", true));
        assert_eq!(points[7], (Some(4.7e-5), "db", false));
        assert!(points.iter().any(|(_, name, _)| *name == "a name with spaces"));
        let record = ProfileLogLine::parse(LOG.lines().nth(6).unwrap()).unwrap().record();
        assert_eq!(record.info["db"]["statement"], "SELECT a, b\nFROM t WHERE x = ?");
        assert_eq!(record.name, "db-start");
    }

    #[test]
    fn what_is_no_line_says_why() {
        let ids = "b p t";
        for (line, expected) in [
            (String::new(), LineError::Blank),
            ("  \t ".to_owned(), LineError::Blank),
            (format!("Feb 27 host: 2020-02-27T08:04:25.961298 0.1 {ids} x-stop"), LineError::Timestamp),
            (format!("2020-02-27T08:04:25.961298 nan {ids} x-stop"), LineError::Duration),
            (format!("2020-02-27T08:04:25.961298 -1 {ids} x-stop"), LineError::Duration),
            (format!("2020-02-27T08:04:25.961298 {ids} x-stop"), LineError::Duration),
            (format!("2020-02-27T08:04:25.961298 0.1 {ids}"), LineError::Short),
            ("2020-02-27T08:04:25.961298 0.1".to_owned(), LineError::Short),
            ("2020-02-27T08:04:25.961298".to_owned(), LineError::Short),
            (format!("2020-02-27T08:04:25.961298 0.1 {ids} abc"), LineError::Name),
            (format!("2020-02-27T08:04:25.961298 0.1 {ids} x-start"), LineError::Name),
            (format!("2020-02-27T08:04:25.961298          {ids} x-stop"), LineError::Name),
        ] {
            assert_eq!(ProfileLogLine::parse(&line), Err(expected), "{line}");
        }
    }

    #[test]
    fn seconds_are_written_as_python_writes_them() {
        for (us, expected) in [
            (0, "0.0"),
            (1, "1e-06"),
            (10, "1e-05"),
            (47, "4.7e-05"),
            (99, "9.9e-05"),
            (100, "0.0001"),
            (267, "0.000267"),
            (250_000, "0.25"),
            (999_999_999, "999.999999"),
            (1_234_567_890_000_000, "1234567890.0"),
        ] {
            assert_eq!(seconds(us), expected);
        }
    }

    proptest! {
        #[test]
        fn no_line_is_a_panic(text: String, cut in 0..200usize) {
            let _ = ProfileLogLine::parse(&text).map(|line| line.record());
            let line = LOG.lines().nth(14).unwrap();
            let cut = line.floor_char_boundary(cut);
            let _ = ProfileLogLine::parse(&format!("{}{text}{}", &line[..cut], &line[cut..])).map(|line| line.record());
        }

        #[test]
        fn what_is_written_is_read(name in "[^\\p{C}\\s]([^\\p{C}]{0,20}[^\\p{C}\\s])?", us in 0..10_000_000u32) {
            prop_assume!(!name.contains("-st") && !name.contains('{'));
            let mut records = vec![];
            for (suffix, at) in [("-start", 0), ("-stop", us)] {
                records.push(TraceRecord {
                    name: format!("{name}{suffix}").into(),
                    base_id: "b".into(), trace_id: "t".into(), parent_id: "p".into(),
                    timestamp: format!("2026-11-20T22:52:{:02}.{:06}", at / 1_000_000, at % 1_000_000).into(),
                    info: Info::new().into(), project: None, service: None,
                });
            }
            let (mut writer, mut text) = (LogWriter::default(), String::new());
            records.iter().for_each(|record| writer.append(record, &mut text));
            let read: Vec<TraceRecord> = text.lines().map(|line| ProfileLogLine::parse(line).unwrap().record()).collect();
            prop_assert_eq!(read, records);
        }
    }
}
