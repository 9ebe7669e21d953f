//! The info of a record: a JSON object, kept as the text that it came in.
//!
//! A trace has an info for each record. Most are looked at once or never, and as text an info takes a tenth of the
//! memory that an object of `serde_json` takes. So an info that was read stays text until a caller asks for the object,
//! and equal infos can be one ([`crate::sharing`]). An info that is made here is an object until it is written. Text
//! that would not become an object is refused when it is read, so nothing here fails later.

mod scan;

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock, OnceLock};

use memchr::{memchr, memmem};
use serde::de::{DeserializeSeed, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use self::scan::{CheckedObject, KeyPath};
use super::{columns, statement};
use base::visible::is_plain;

/// The info of a point: a JSON object.
pub type Info = Map<String, Value>;

/// A statement that goes on for longer than this (bytes) is not read to its end for a line.
const STATEMENT_BYTES_MAX: usize = 16 << 10;
/// The most characters of [`SharedInfo::detail`].
pub const DETAIL_LEN_MAX: usize = 200;

/// A point's info, shared by all who hold it.
///
/// It dereferences to the object, which is then kept beside the text. [`SharedInfo::read`] does not keep it.
#[derive(Clone, Default)]
pub struct SharedInfo(Option<Arc<InfoContent>>);

#[derive(Clone)]
struct InfoContent {
    form: Form,
    /// What [`SharedInfo::call`] gave.
    call: OnceLock<Box<str>>,
}

#[derive(Clone)]
enum Form {
    Json { text: Box<RawValue>, read: OnceLock<Box<Info>> },
    Object(Box<Info>),
}

impl Form {
    /// The object if it is at hand, and the text.
    fn parts(&self) -> (Option<&Info>, &str) {
        match self {
            Self::Object(info) => (Some(info), ""),
            Self::Json { text, read } => (read.get().map(|info| &**info), text.get()),
        }
    }

    fn read(&self) -> Cow<'_, Info> {
        match self.parts() {
            (Some(info), _) => Cow::Borrowed(info),
            (None, text) => Cow::Owned(parsed(text)),
        }
    }

    /// See [`SharedInfo::may_have`].
    fn may_have(&self, key: &str) -> bool {
        match self {
            Self::Object(_) => true,
            // A key may be written with escapes.
            Self::Json { text, .. } => {
                let text = text.get();
                memchr(b'\\', text.as_bytes()).is_some() && text.contains("\\u") || has_quoted(text, key)
            }
        }
    }

    fn text_at(&self, keys: &[&str]) -> Option<Cow<'_, str>> {
        let (first, rest) = keys.split_first()?;
        if !self.may_have(first) {
            return None;
        }
        match self.parts() {
            (Some(info), _) => {
                let value = rest.iter().try_fold(info.get(*first)?, |value, key| value.get(key))?;
                value.as_str().map(Cow::Borrowed)
            }
            (None, text) => {
                let mut json = serde_json::Deserializer::from_str(text);
                KeyPath(keys).deserialize(&mut json).ok()?.map(Cow::Owned)
            }
        }
    }
}

/// The text was checked when it came.
fn parsed(text: &str) -> Info {
    serde_json::from_str(text).unwrap_or_default()
}

impl SharedInfo {
    /// The info as text: for what is kept and rarely looked at.
    #[must_use]
    pub fn as_text(info: &Info) -> Self {
        match serde_json::value::to_raw_value(info) {
            _ if info.is_empty() => Self::default(),
            Ok(text) => Self::of_text(text),
            Err(_) => Self::from(info.clone()),
        }
    }

    fn of_text(text: Box<RawValue>) -> Self {
        Self(Some(Arc::new(InfoContent {
            form: Form::Json { text, read: OnceLock::new() },
            call: OnceLock::new(),
        })))
    }

    /// The object, without keeping it.
    #[must_use]
    pub fn read(&self) -> Cow<'_, Info> {
        self.0.as_ref().map_or_else(|| Cow::Borrowed(empty()), |inner| inner.form.read())
    }

    /// The object, to change it: a copy of its own, if it is shared.
    pub fn to_mut(&mut self) -> &mut Info {
        let new = || Arc::new(InfoContent { form: Form::Object(Box::default()), call: OnceLock::new() });
        let inner = Arc::make_mut(self.0.get_or_insert_with(new));
        inner.call = OnceLock::new();
        if let Form::Json { .. } = inner.form {
            inner.form = Form::Object(Box::new(inner.form.read().into_owned()));
        }
        match &mut inner.form {
            Form::Object(info) => info,
            Form::Json { .. } => unreachable!("it has just become an object"),
        }
    }

    /// The text that it came in, if it came as text.
    #[must_use]
    pub fn text(&self) -> Option<&str> {
        match &self.0.as_ref()?.form {
            Form::Json { text, .. } => Some(text.get()),
            Form::Object(_) => None,
        }
    }

    /// Where it is in memory, which tells those that are one and the same from others; `None` for an empty one.
    #[must_use]
    pub fn address(&self) -> Option<usize> {
        self.0.as_ref().map(|inner| Arc::as_ptr(inner).addr())
    }

    /// Whether two are one and the same.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.address() == other.address()
    }

    /// False if it certainly lacks a key (of ASCII without quotes) at any depth, which needs no object.
    #[must_use]
    pub fn may_have(&self, key: &str) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.form.may_have(key))
    }

    /// Whether it has this key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.may_have(key) && self.read().contains_key(key)
    }

    /// Whether it has a value other than null for this key.
    #[must_use]
    pub fn has(&self, key: &str) -> bool {
        self.may_have(key) && self.read().get(key).is_some_and(|value| !value.is_null())
    }

    /// A copy of the value of a key.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<Value> {
        if self.may_have(key) { self.read().get(key).cloned() } else { None }
    }

    /// The text at the end of these keys.
    #[must_use]
    pub fn text_at(&self, keys: &[&str]) -> Option<Cow<'_, str>> {
        self.0.as_ref()?.form.text_at(keys)
    }

    /// What the point did, on one line of at most [`DETAIL_LEN_MAX`] characters. It is the statement of a database
    /// point (without long lists of columns), the method and path of a request, or the name of a function; else empty.
    #[must_use]
    pub fn detail(&self) -> String {
        self.0.as_ref().map(|inner| detail(&inner.form)).unwrap_or_default()
    }

    /// The kind of call: [`SharedInfo::detail`] with literals and ids replaced, so that calls of one kind are alike.
    #[must_use]
    pub fn call(&self) -> &str {
        let Some(inner) = &self.0 else { return "" };
        inner.call.get_or_init(|| {
            let detail = detail(&inner.form);
            let is_db = inner.form.may_have("db") && inner.form.read().contains_key("db");
            let call = if is_db { statement::sql(&detail) } else { statement::path(&detail) };
            call.into()
        })
    }
}

fn empty() -> &'static Info {
    static EMPTY: LazyLock<Info> = LazyLock::new(Info::new);
    &EMPTY
}

/// Whether a text has this in quotes.
fn has_quoted(text: &str, key: &str) -> bool {
    let text = text.as_bytes();
    memmem::find_iter(text, key)
        .any(|at| text[..at].ends_with(b"\"") && text[at + key.len()..].starts_with(b"\""))
}

fn detail(info: &Form) -> String {
    let text_at = |keys: &[&str]| info.text_at(keys);
    let request = |key: &str, path: &str| {
        let says = |what: &str| text_at(&[key, what]).unwrap_or_default();
        request_line(&says("method"), path, &says("query"))
    };
    let detail = if let Some(statement) = text_at(&["db", "statement"]) {
        let one_line: Vec<&str> = beginning(&statement).split_whitespace().collect();
        columns::shortened(&one_line.join(" "))
    } else if let Some(path) = text_at(&["request", "path"]) {
        request("request", &path)
    } else if let Some(path) = text_at(&["requests", "path"]) {
        let host = text_at(&["requests", "hostname"]).unwrap_or_default();
        request("requests", &format!("{host}{path}"))
    } else {
        text_at(&["function", "name"]).or_else(|| text_at(&["name"])).unwrap_or_default().into_owned()
    };
    one_line(&detail)
}

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(STATEMENT_BYTES_MAX)]
}

fn request_line(method: &str, path: &str, query: &str) -> String {
    if query.is_empty() { format!("{method} {path}") } else { format!("{method} {path}?{query}") }
}

/// Blanks and control characters become single blanks; a cut is marked.
fn one_line(text: &str) -> String {
    let is_line = is_plain(text) && !text.contains("  ") && !text.starts_with(' ') && !text.ends_with(' ');
    if is_line && text.len() <= DETAIL_LEN_MAX {
        return text.to_owned();
    }
    let mut line = String::with_capacity(text.len().min(DETAIL_LEN_MAX));
    let mut len = 0;
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|word| !word.is_empty());
    for word in words {
        let blank = (len > 0).then_some(' ');
        for character in blank.into_iter().chain(word.chars()) {
            if len == DETAIL_LEN_MAX {
                line.pop();
                line.push('…');
                return line;
            }
            line.push(character);
            len += 1;
        }
    }
    line
}

impl Deref for SharedInfo {
    type Target = Info;

    fn deref(&self) -> &Info {
        match self.0.as_ref().map(|inner| &inner.form) {
            None => empty(),
            Some(Form::Object(info)) => info,
            Some(Form::Json { text, read }) => read.get_or_init(|| Box::new(parsed(text.get()))),
        }
    }
}

impl From<Info> for SharedInfo {
    fn from(info: Info) -> Self {
        let inner = || Arc::new(InfoContent { form: Form::Object(Box::new(info)), call: OnceLock::new() });
        Self(Some(inner()))
    }
}

impl PartialEq for SharedInfo {
    fn eq(&self, other: &Self) -> bool {
        let is_same_text = || self.text().is_some_and(|text| Some(text) == other.text());
        self.is_same(other) || is_same_text() || self.read() == other.read()
    }
}

impl fmt::Debug for SharedInfo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.read().fmt(formatter)
    }
}

impl Serialize for SharedInfo {
    /// Text is written as it came, which only `serde_json` can do.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_ref().map(|inner| &inner.form) {
            Some(Form::Json { text, .. }) => text.serialize(serializer),
            _ => self.read().serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SharedInfo {
    /// Reads it with `serde_json`; other formats have no text to keep.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        let is_empty = match serde_json::from_str(raw.get()) {
            Ok(CheckedObject { is_empty }) => is_empty,
            Err(error) => return Err(D::Error::custom(error)),
        };
        Ok(match raw.get() {
            _ if is_empty => Self::default(),
            // Files with a record on each line hold it too.
            text if text.contains(['\n', '\r']) => Self::as_text(&parsed(text)),
            _ => Self::of_text(raw),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    use crate::record::{TraceRecord, share};

    fn record(info: &str) -> Result<TraceRecord, serde_json::Error> {
        serde_json::from_str(&format!(
            r#"{{"name": "a-start", "base_id": "b", "trace_id": "t", "parent_id": "b",
                "timestamp": "2026-11-20T22:52:01.123456", "info": {info}}}"#
        ))
    }

    #[test]
    fn text_stays_as_it_came_until_it_is_changed() {
        let text = r#"{"b": {"c":  "d\u00e9"}, "a": 1.50}"#;
        let mut read = record(text).unwrap();
        assert_eq!(read.info.text(), Some(text));
        assert!(serde_json::to_string(&read).unwrap().contains(text));
        assert_eq!(serde_json::to_value(&read).unwrap()["info"], json!({"b": {"c": "dé"}, "a": 1.5}));
        assert_eq!(read.info, SharedInfo::from(read.info.read().into_owned()));
        assert_eq!(record("{\"a\":\n 1}").unwrap().info.text(), Some(r#"{"a":1}"#), "on one line");
        let before = read.info.clone();
        read.info.to_mut().insert("e".to_owned(), Value::Null);
        assert_eq!(read.info.text(), None);
        assert_eq!((before.len(), read.info.len()), (2, 3));
        assert_eq!(serde_json::to_value(&read.info).unwrap(), json!({"b": {"c": "dé"}, "a": 1.5, "e": null}));
    }

    #[test]
    fn what_no_object_can_hold_is_refused_at_once() {
        let deep = format!("{{\"a\": {}1{}}}", "[".repeat(200), "]".repeat(200));
        let rows = [
            ("[]", "expected a map"),
            ("null", "expected a map"),
            ("\"text\"", "expected a map"),
            (r#"{"a": 1e999}"#, "number out of range"),
            (r#"{"a": "\ud800"}"#, "surrogate"),
            (&deep, "recursion limit"),
        ];
        for (text, expected) in rows {
            let error = record(text).unwrap_err().to_string();
            assert!(error.contains(expected) || error.contains("unexpected end of hex"), "{text}: {error}");
        }
    }

    #[test]
    fn keys_and_texts_are_found_without_an_object() {
        let text = r#"{"db": {"statement": "SELECT 1", "n": 1, "n": "two"}, "\u0065type": "E", "gone": null, "say": "\"x\""}"#;
        let info = record(text).unwrap().info;
        for (key, is_there, has_value) in [
            ("db", true, true),
            ("statement", false, false),
            ("etype", true, true),
            ("gone", true, false),
            ("x", false, false),
        ] {
            assert_eq!((info.contains_key(key), info.has(key)), (is_there, has_value), "{key}");
        }
        let at = |keys: &[&str]| info.text_at(keys).map(Cow::into_owned);
        let check = || {
            assert_eq!(at(&["db", "statement"]).as_deref(), Some("SELECT 1"));
            assert_eq!(at(&["db", "n"]).as_deref(), Some("two"), "the last of equal keys");
            assert_eq!(at(&["etype"]).as_deref(), Some("E"));
            assert_eq!(at(&["say"]).as_deref(), Some("\"x\""));
            assert_eq!([at(&["db"]), at(&["gone"]), at(&["db", "statement", "x"])], [None, None, None]);
        };
        check();
        assert_eq!(info["db"]["n"], "two");
        check();
        assert_eq!((info.detail(), info.call()), ("SELECT 1".to_owned(), "SELECT ?"));
    }

    #[test]
    fn equal_ones_of_a_trace_become_one() {
        let mut records: Vec<TraceRecord> = [r#"{"host":"a"}"#, r#"{"host":"b"}"#, r#"{"host":"a"}"#, "{}"]
            .map(|info| record(info).unwrap())
            .into();
        share(&mut records);
        assert!(records[0].info.is_same(&records[2].info));
        assert!(!records[0].info.is_same(&records[1].info));
        assert!(records[3].info.is_empty());
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<i32>().prop_map(|eighths| Value::from(f64::from(eighths) / 8.0)),
            "[a-c\"\\\\é]{0,4}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
                proptest::collection::vec(("[abc]", inner), 0..3)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn both_forms_say_the_same(
            fields in proptest::collection::vec(("(name|db|request|function|[abc])", any_value()), 0..5),
            keys in proptest::collection::vec("[abc]", 1..4),
        ) {
            let object: Info = fields.into_iter().collect();
            let (made, text) = (SharedInfo::from(object.clone()), SharedInfo::as_text(&object));
            let read: SharedInfo = serde_json::from_str(&serde_json::to_string(&made).unwrap()).unwrap();
            let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
            for one in [&text, &read] {
                prop_assert_eq!(one.text_at(&keys), made.text_at(&keys));
                prop_assert_eq!(one.contains_key(keys[0]), object.contains_key(keys[0]));
                prop_assert_eq!((one.detail(), one.call()), (made.detail(), made.call()));
                prop_assert_eq!(serde_json::to_value(one).unwrap(), Value::Object(object.clone()));
                prop_assert_eq!(one, &made);
            }
        }

        #[test]
        fn what_is_taken_can_be_read(text in r#"\{("a": ?(1e?[0-9]{0,3}|"\\u[d0-9]{4}"|\[*),?){0,3}\}"#) {
            let taken: Result<SharedInfo, _> = serde_json::from_str(&text);
            let object: Result<Info, _> = serde_json::from_str(&text);
            prop_assert_eq!(taken.is_ok(), object.is_ok());
            if let (Ok(taken), Ok(object)) = (taken, object) {
                prop_assert_eq!(taken.read().into_owned(), object);
            }
        }
    }
}
