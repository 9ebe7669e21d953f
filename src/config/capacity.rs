//! The part of a scenario for a search of how much load the service takes: `bench capacity`.

use std::time::Duration;

use base::complaint::Complaint;
use base::units::{parse_duration, write_duration};
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};

use super::runner::RateText;
use crate::notation::{schema, text_form};

/// What `bench capacity` searches, and how far. Its options override it; other commands do not read it.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// The rate that the service must bear: PASS if it does, FAIL if it does not (default: there is no verdict).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_least: Option<RateText>,
    /// No higher rate is tried (default 1000/s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rate: Option<RateText>,
    /// The rate to begin with (default: half of what one user gets).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<RateText>,
    /// How long the search may take (default 5m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<SearchTime>,
    /// How long a level lasts at least (default 10s); at a low rate it lasts longer, for enough iterations.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<SearchTime>,
}

/// The length of a search or of its levels: a second or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchTime(pub Duration);

impl SearchTime {
    /// The `format` in the schema.
    pub const FORMAT: &'static str = "bench-search-time";

    /// Reads a text such as `10s`.
    ///
    /// # Errors
    /// What is wrong, and how to write it.
    pub fn parse(text: &str) -> Result<Self, Complaint> {
        match parse_duration(text)? {
            length if length < Duration::from_secs(1) => Err(Complaint::new(
                format!("`{}` is too short", text.trim()),
                "write at least a second, such as 10s",
            )),
            length => Ok(Self(length)),
        }
    }
}

text_form!(SearchTime, |text: &str| Self::parse(text), |value: &Self| write_duration(value.0));

schema!(SearchTime, "SearchTime", |_| json_schema!({
    "description": "A duration of a second or more: 10s, 5m.",
    "type": "string",
    "format": Self::FORMAT,
    "pattern": "^\\s*([0-9.]+\\s*(ns|us|µs|ms|s|m|h)\\s*)+$"
}));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_times_are_read_or_refused_with_a_remedy() {
        for (text, expected) in [
            ("400", Ok(400.0)),
            (" 2.5/s", Ok(2.5)),
            ("0", Err("is no rate")),
            ("many", Err("is no rate")),
            ("2000000", Err("is no rate")),
        ] {
            let found = RateText::parse(text);
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.0, expected),
                (Err(complaint), Err(words)) => assert!(complaint.what.contains(words), "{complaint}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
        assert_eq!(SearchTime::parse("2m").unwrap().0, Duration::from_secs(120));
        assert!(SearchTime::parse("1ms").unwrap_err().what.contains("too short"));
        assert!(SearchTime::parse("soon").is_err());
    }
}
