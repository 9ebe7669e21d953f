//! A record as a row of the table `data`, and back; the same for all databases.
//!
//! `data` is a JSON column into which the Python driver puts JSON *text*, so that it is encoded twice;
//! [`encode`] does the same, [`decode`] also reads what was encoded once. Rows come from databases that
//! any program may write to: decoding is bounded and never panics.

use serde_json::{Map, Value};

use super::dialect::COLUMNS;
use super::statement::Cells;
use crate::info::SharedInfo;
use crate::record::{Info, RECORD_LEN_MAX, RecordError, START_SUFFIX, STOP_SUFFIX, TraceRecord};

/// What a column of strings holds, in characters.
const COLUMN_LEN_MAX: usize = 255;
const TIMESTAMP_LEN_MAX: usize = 26;

/// Where base_id is among [`COLUMNS`].
pub(super) const BASE_ID: usize = 1;

/// The values of [`COLUMNS`].
pub(super) fn encode(record: &TraceRecord) -> Vec<Option<String>> {
    let text = |text: &str| Some(fitting(text, COLUMN_LEN_MAX));
    vec![
        Some(fitting(&record.timestamp.to_string(), TIMESTAMP_LEN_MAX)),
        text(&record.base_id),
        text(&record.parent_id),
        text(&record.trace_id),
        record.project.as_deref().and_then(text),
        record.host().as_deref().and_then(text),
        record.service.as_deref().and_then(text),
        Some(fitting_name(&record.name)),
        Some(encode_data(&record.info)),
    ]
}

/// `base_id` as its column holds it.
pub(super) fn stored_id(base_id: &str) -> String {
    fitting(base_id, COLUMN_LEN_MAX)
}

/// Reads the values of [`COLUMNS`].
pub(super) fn decode(cells: &[Option<String>]) -> Result<TraceRecord, RecordError> {
    let mut record = Map::new();
    let mut info = Info::new();
    let mut host = None;
    for (column, cell) in COLUMNS.into_iter().zip(cells) {
        match column {
            "data" => info = decode_data(cell.as_deref().unwrap_or_default())?,
            "host" => host.clone_from(cell),
            _ => {
                record.insert(column.to_owned(), cell.clone().map_or(Value::Null, Value::String));
            }
        }
    }
    if let (false, Some(host)) = (info.contains_key("host"), host) {
        info.insert("host".to_owned(), Value::String(host));
    }
    let mut record: TraceRecord =
        serde_json::from_value(Value::Object(record)).map_err(RecordError::Malformed)?;
    record.info = SharedInfo::as_text(&info);
    record.timestamp_us().map(|_| record).ok_or(RecordError::Timestamp)
}

/// The number that a cell holds.
pub(super) fn number(cells: &Cells, index: usize) -> i64 {
    cells.get(index).and_then(Option::as_deref).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn encode_data(info: &Info) -> String {
    let mut data = Map::new();
    data.insert("info".to_owned(), Value::Object(info.clone()));
    Value::String(Value::Object(data).to_string()).to_string()
}

/// An empty column has no info.
fn decode_data(text: &str) -> Result<Info, RecordError> {
    if text.len() > RECORD_LEN_MAX {
        return Err(RecordError::TooLong { len: text.len() });
    }
    if text.is_empty() {
        return Ok(Info::new());
    }
    let mut data: Value = serde_json::from_str(text).map_err(RecordError::Malformed)?;
    if let Value::String(inner) = &data {
        data = serde_json::from_str(inner).map_err(RecordError::Malformed)?;
    }
    match data.get_mut("info").map(Value::take) {
        Some(Value::Object(info)) => Ok(info),
        _ => Ok(Info::new()),
    }
}

/// Cut to `len_max` characters, and without NUL, which PostgreSQL does not store.
fn fitting(text: &str, len_max: usize) -> String {
    text.chars().take(len_max).map(|c| if c == '\0' { '\u{fffd}' } else { c }).collect()
}

/// A name keeps its end, which tells a start from a stop.
fn fitting_name(name: &str) -> String {
    let suffix = [START_SUFFIX, STOP_SUFFIX].into_iter().find(|suffix| name.ends_with(suffix)).unwrap_or("");
    let base = &name[..name.len() - suffix.len()];
    fitting(base, COLUMN_LEN_MAX - suffix.len()) + suffix
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn data_written_by_the_python_driver_is_read() {
        let vectors: Value =
            serde_json::from_str(include_str!("../../../../tests/vectors/sqlalchemy-driver.json")).unwrap();
        for database in ["postgresql-15", "mariadb-10.11"] {
            let rows = vectors["databases"][database]["rows"].as_array().unwrap();
            assert!(!rows.is_empty());
            for row in rows {
                let text = row["data_as_text"].as_str().unwrap();
                let info = decode_data(text).unwrap();
                assert_eq!(info["host"], "vm", "{text}");
                assert_eq!(decode_data(&encode_data(&info)).unwrap(), info);
                // What MySQL's own JSON type makes of a single encoding.
                let once: Value = serde_json::from_str(text).unwrap();
                assert_eq!(decode_data(once.as_str().unwrap()).unwrap(), info);
            }
        }
    }

    #[test]
    fn what_does_not_fit_a_column_is_cut() {
        let name = format!("{}-stop", "é".repeat(300));
        assert_eq!(fitting_name(&name).chars().count(), 255);
        assert!(fitting_name(&name).ends_with("é-stop"));
        assert_eq!(fitting_name("-start"), "-start");
        assert_eq!(fitting("a\0b", 9), "a\u{fffd}b");
        assert_eq!(stored_id(&"x".repeat(300)).len(), 255);
    }

    proptest! {
        #[test]
        fn decoding_never_panics(
            cells in proptest::collection::vec(proptest::option::of(".{0,20}"), 0..12),
            text: String,
            inner in "[\\[{\"a:1}\\]]{0,12}",
        ) {
            let _ = decode(&cells);
            let _ = decode_data(&text);
            let _ = decode_data(&Value::String(inner).to_string());
        }

        #[test]
        fn what_is_encoded_is_decoded(name in "[^\0]{0,40}", statement: String, project in proptest::option::of("[^\0]{0,9}")) {
            let mut info = Info::new();
            info.insert("db".to_owned(), Value::String(statement));
            let record = TraceRecord {
                name: format!("{name}-start").into(),
                base_id: "b".into(),
                trace_id: "t".into(),
                parent_id: "p".into(),
                timestamp: "2026-11-20T22:52:01.123456".into(),
                info: info.into(),
                project: project.map(Into::into),
                service: None,
            };
            prop_assert_eq!(decode(&encode(&record)).unwrap(), record);
        }
    }
}
