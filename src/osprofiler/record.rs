//! A record: the start or stop of a trace point, as OSProfiler's notification and as JSON.
//!
//! The key order is that of OSProfiler's redis driver (observed on 4.4.0). Records come from
//! collectors to which other programs can write: reading is bounded and never panics. This module
//! must not depend on a particular storage.

use std::borrow::Cow;
use std::fmt::{self, Write as _};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

pub use crate::info::Info;
use crate::info::SharedInfo;
use crate::sharing::TextInterner;
use crate::text::Text;
pub use crate::timestamp::Timestamp;
use base::civil::parse_us;

/// A value that can be a point's info.
///
/// `()` is no info. A closure is called only if the info will be recorded, so that it costs nothing
/// otherwise. A JSON value that is not an object becomes one with the key `value`.
pub trait IntoInfo {
    /// The info.
    fn into_info(self) -> Info;
}

impl IntoInfo for () {
    fn into_info(self) -> Info {
        Info::new()
    }
}

impl IntoInfo for Info {
    fn into_info(self) -> Info {
        self
    }
}

impl IntoInfo for Option<Info> {
    fn into_info(self) -> Info {
        self.unwrap_or_default()
    }
}

impl IntoInfo for Value {
    fn into_info(self) -> Info {
        match self {
            Self::Object(info) => info,
            Self::Null => Info::new(),
            value => Info::from_iter([("value".to_owned(), value)]),
        }
    }
}

impl<F: FnOnce() -> I, I: IntoInfo> IntoInfo for F {
    fn into_info(self) -> Info {
        self().into_info()
    }
}

/// Longer records (in bytes of JSON) are refused; a typical record has about 450.
pub const RECORD_LEN_MAX: usize = 4 * 1024 * 1024;

/// Traces with more records are refused: 100,000 points, each with a start and a stop. With typical records of some 450
/// bytes of JSON, such a trace takes about 90 MB in the collector. While it is read and laid out, it takes a few
/// hundred MB of memory.
pub const TRACE_RECORDS_MAX: usize = 200_000;
/// Larger traces (bytes of JSON) are refused. It bounds the memory of a trace whose records are long.
pub const TRACE_BYTES_MAX: usize = TRACE_MIB_MAX * 1024 * 1024;
/// The same in MiB.
pub(crate) const TRACE_MIB_MAX: usize = 128;

/// The ending of the name of a start record.
pub const START_SUFFIX: &str = "-start";
/// The ending of the name of a stop record.
pub const STOP_SUFFIX: &str = "-stop";

/// A notification that a point started or stopped.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceRecord {
    /// The point's name, followed by `-start` or `-stop`.
    pub name: Text,
    /// The trace.
    pub base_id: Text,
    /// The point: the same in both of its records.
    pub trace_id: Text,
    /// The enclosing point, or base_id.
    pub parent_id: Text,
    /// When.
    pub timestamp: Timestamp,
    /// Details. `host` is the reporter's host name.
    #[serde(default)]
    pub info: SharedInfo,
    /// The reporter's project, for instance `keystone`.
    #[serde(default)]
    pub project: Option<Text>,
    /// The reporter's service, for instance `public`.
    #[serde(default)]
    pub service: Option<Text>,
}

/// The service that reports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceIdentity {
    /// For instance `keystone`.
    pub project: String,
    /// For instance `public`.
    pub service: String,
    /// The host's name.
    pub host: String,
}

/// Why stored bytes are not a record.
#[derive(Debug, Error)]
pub enum RecordError {
    /// Over [`RECORD_LEN_MAX`].
    #[error("read a record of {len} bytes: the limit is {RECORD_LEN_MAX}; leave large values out of `info`")]
    TooLong {
        /// Its length.
        len: usize,
    },
    /// Not JSON, or a key is missing or of the wrong type.
    #[error("read a record: it is not one of OSProfiler's; remove what else was written to its key")]
    Malformed(#[source] serde_json::Error),
    /// The timestamp cannot be read.
    #[error("read a record: its timestamp is not of the form 2026-11-20T22:52:01.123456")]
    Timestamp,
}

impl TraceRecord {
    /// The info, to change it: a copy of its own, if it is shared.
    pub fn info_mut(&mut self) -> &mut Info {
        self.info.to_mut()
    }

    /// Reads a record from its JSON.
    ///
    /// # Errors
    /// Too long, no JSON object, a key missing or of a wrong type, or an unreadable timestamp.
    pub fn decode(json: &[u8]) -> Result<Self, RecordError> {
        if json.len() > RECORD_LEN_MAX {
            return Err(RecordError::TooLong { len: json.len() });
        }
        let record: Self = serde_json::from_slice(json).map_err(RecordError::Malformed)?;
        if record.timestamp_us().is_none() {
            return Err(RecordError::Timestamp);
        }
        Ok(record)
    }

    /// The timestamp in microseconds since the Unix epoch; `None` if it cannot be read.
    #[must_use]
    pub fn timestamp_us(&self) -> Option<i64> {
        self.timestamp.us()
    }

    /// The reporter's host name, if it gave one.
    #[must_use]
    pub fn host(&self) -> Option<Cow<'_, str>> {
        self.info.text_at(&["host"])
    }

    /// Fills in the reporting service's identity.
    #[must_use]
    pub fn reported_by(mut self, identity: &ServiceIdentity) -> Self {
        self.info_mut().insert("host".to_owned(), Value::String(identity.host.clone()));
        self.project = Some(identity.project.as_str().into());
        self.service = Some(identity.service.as_str().into());
        self
    }
}

/// For records that are kept: makes their equal names and ids one, and equal infos that came as text. Also gives back
/// room that is not used.
pub fn share(records: &mut Vec<TraceRecord>) {
    share_with(records, &mut TextInterner::default());
}

/// The same for the records of several traces: their iterations do the same, so they share many infos.
pub fn share_with(records: &mut Vec<TraceRecord>, sharing: &mut TextInterner) {
    // No other trace has these ids.
    let mut ids = TextInterner::default();
    for record in records.iter_mut() {
        sharing.share(&mut record.info);
        let TraceRecord { name, base_id, trace_id, parent_id, project, service, .. } = record;
        [base_id, trace_id, parent_id].into_iter().for_each(|id| ids.share_text(id));
        std::iter::once(name).chain(project).chain(service).for_each(|text| sharing.share_text(text));
    }
    records.shrink_to_fit();
}

/// The name of the point whose record has this name.
pub(crate) fn point_name(name: &str) -> &str {
    name.strip_suffix(START_SUFFIX).or_else(|| name.strip_suffix(STOP_SUFFIX)).unwrap_or(name)
}

/// Reads a time in the format of records as microseconds since the Unix epoch.
#[must_use]
pub fn parse_timestamp(text: &str) -> Option<i64> {
    parse_us(text)
}

/// The text of a value, cut to `len_max` bytes; a cut is marked with `…`. Text beyond the limit is
/// never created.
pub(super) fn bounded_text(value: &dyn fmt::Display, len_max: usize) -> String {
    let mut text = BoundedText { text: String::new(), len_max, cut: false };
    // An error of the value's own leaves what it wrote before.
    let _ = write!(text, "{value}");
    if text.cut {
        text.text.push('…');
    }
    text.text
}

struct BoundedText {
    text: String,
    len_max: usize,
    cut: bool,
}

impl fmt::Write for BoundedText {
    fn write_str(&mut self, piece: &str) -> fmt::Result {
        let room = self.len_max - self.text.len();
        if piece.len() <= room {
            self.text.push_str(piece);
            return Ok(());
        }
        self.text.push_str(&piece[..piece.floor_char_boundary(room)]);
        self.cut = true;
        // Ends the value's writing.
        Err(fmt::Error)
    }
}
