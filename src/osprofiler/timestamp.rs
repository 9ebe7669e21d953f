//! The time of a record: a text in the format of records, which takes no more room than a number where it can.
//!
//! What came is given back as it came: a text that [`format_us`] would not write stays a text. Whether a text is a time at
//! all is asked where that matters ([`Timestamp::us`]).

use std::cmp::Ordering;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text::Text;
use base::civil::{TEXT_LEN, format_us, parse_us};

/// UTC with microseconds and without a zone, `2026-11-20T22:52:01.123456`; or whatever else a collector had in its place.
///
/// Timestamps have the order of their texts, which is that of the times where both have this form.
#[derive(Clone, PartialEq, Eq)]
pub struct Timestamp(TimestampForm);

#[derive(Clone, PartialEq, Eq)]
enum TimestampForm {
    /// Microseconds since 1970; its text is that of `format_us`.
    Us(u64),
    /// Never a text that `format_us` writes, so that equal timestamps have one form.
    Text(Text),
}

impl Timestamp {
    /// A wall-clock time, in nanoseconds since 1970.
    #[must_use]
    pub fn from_unix_ns(unix_ns: u64) -> Self {
        // Floored, as Python's clock is: rounding could move a stop before its child's.
        Self(TimestampForm::Us(unix_ns / 1_000))
    }

    /// Microseconds since the Unix epoch; `None` if it is no time.
    #[must_use]
    pub fn us(&self) -> Option<i64> {
        match &self.0 {
            TimestampForm::Us(us) => i64::try_from(*us).ok(),
            TimestampForm::Text(text) => parse_us(text),
        }
    }

    /// How long its text is, in bytes.
    #[must_use]
    pub fn text_len(&self) -> usize {
        match &self.0 {
            TimestampForm::Us(_) => TEXT_LEN,
            TimestampForm::Text(text) => text.len(),
        }
    }

    fn with<T>(&self, use_text: impl FnOnce(&str) -> T) -> T {
        match &self.0 {
            TimestampForm::Us(us) => use_text(&format_us(*us)),
            TimestampForm::Text(text) => use_text(text),
        }
    }
}

impl From<&str> for Timestamp {
    fn from(text: &str) -> Self {
        let us = if text.len() == TEXT_LEN { parse_us(text) } else { None };
        let us = us.and_then(|us| u64::try_from(us).ok()).filter(|us| *format_us(*us) == *text);
        Self(us.map_or_else(|| TimestampForm::Text(text.into()), TimestampForm::Us))
    }
}

impl From<String> for Timestamp {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<Timestamp> for String {
    fn from(timestamp: Timestamp) -> Self {
        timestamp.to_string()
    }
}

impl Default for Timestamp {
    fn default() -> Self {
        Self(TimestampForm::Text(Text::default()))
    }
}

impl Ord for Timestamp {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (TimestampForm::Us(one), TimestampForm::Us(other)) => one.cmp(other),
            _ => self.with(|one| other.with(|other| one.cmp(other))),
        }
    }
}

impl PartialOrd for Timestamp {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|text| formatter.pad(text))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|text| fmt::Debug::fmt(text, formatter))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.with(|text| serializer.serialize_str(text))
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TimestampVisitor;
        impl Visitor<'_> for TimestampVisitor {
            type Value = Timestamp;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Timestamp, E> {
                Ok(text.into())
            }
        }
        deserializer.deserialize_str(TimestampVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_number(text: &str) -> bool {
        matches!(Timestamp::from(text).0, TimestampForm::Us(_))
    }

    #[test]
    fn only_what_is_written_the_same_way_is_a_number() {
        for (text, expected) in [
            ("2026-11-20T22:52:01.123456", true),
            ("1970-01-01T00:00:00.000000", true),
            ("9999-12-31T23:59:59.999999", true),
            ("1969-12-31T23:59:59.999999", false),
            ("2016-12-31T23:59:60.000000", false),
            ("2026-11-20T22:52:01.12345", false),
            ("2026-11-20T22:52:01", false),
            ("2026-11-31T22:52:01.123456", false),
            ("2026-11-20 22:52:01.123456", false),
            ("yesterday", false),
            ("", false),
        ] {
            assert_eq!(is_number(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_timestamp_is_its_text(
            one in "([0-2][0-9]{3}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9]\\.[0-9]{6})|.{0,30}",
            other in "([0-2][0-9]{3}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9]:[0-6][0-9]\\.[0-9]{6})|.{0,30}",
        ) {
            let (made, second) = (Timestamp::from(one.as_str()), Timestamp::from(other.as_str()));
            prop_assert_eq!(made.to_string(), one.as_str());
            prop_assert_eq!(made.text_len(), one.len());
            prop_assert_eq!(made.us(), parse_us(&one));
            prop_assert_eq!(made.cmp(&second), one.cmp(&other));
            prop_assert_eq!(made == second, one == other);
            let json = serde_json::to_string(&made).unwrap();
            prop_assert_eq!(&json, &serde_json::to_string(&one).unwrap());
            prop_assert_eq!(serde_json::from_str::<Timestamp>(&json).unwrap(), made);
        }
    }
}
