//! Checks an answer against the scenario's expectations and extracts variables from it.

use std::cell::OnceCell;
use std::time::Duration;

use serde_json::Value as Json;

use crate::base::masking::masked_with;
use crate::base::template::{Value, Variables};
use crate::base::units::format_ns;
use crate::client::Answer;
use crate::plan::action::Action;
use crate::plan::condition::{Expect, Extract, JsonCheck, Place, TextCheck};

/// The result of a check; a failure has a class and a message.
pub(super) type Verdict = Result<(), (&'static str, String)>;

/// A message quotes at most this many characters.
const QUOTE_CHARS: usize = 80;

/// An answer with its body parsed at most once.
pub(super) struct Judged<'a> {
    answer: &'a Answer,
    json: OnceCell<Result<Json, String>>,
    text: OnceCell<String>,
}

impl<'a> Judged<'a> {
    pub(super) fn new(answer: &'a Answer) -> Self {
        Self { answer, json: OnceCell::new(), text: OnceCell::new() }
    }

    /// Checks the answer against the action's expectations.
    pub(super) fn check(&self, action: &Action, duration: Duration, variables: &Variables) -> Verdict {
        let expect = &action.expect;
        self.check_status(expect)?;
        if let Some(limit) = expect.latency.filter(|limit| duration > *limit) {
            let limit = format_ns(crate::base::clock::saturating_nanos(limit));
            return Err(("latency", format!("slower than {limit}")));
        }
        for (name, check) in &expect.headers {
            let value =
                self.answer.header(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
            match value {
                None => return Err(("check", format!("the answer has no header {name}"))),
                Some(value) => check_text(&format!("the header {name}"), &value, check, variables)?,
            }
        }
        for check in &expect.body {
            check_text("the body", self.text(), check, variables)?;
        }
        self.check_json(expect, variables)
    }

    fn check_status(&self, expect: &Expect) -> Verdict {
        let status = self.answer.status.as_u16();
        if expect.status.is_empty() {
            return if status < 400 { Ok(()) } else { Err(("status", format!("answered {status}"))) };
        }
        if expect.status.iter().any(|range| (range.from..=range.to).contains(&status)) {
            return Ok(());
        }
        let ranges: Vec<String> = expect
            .status
            .iter()
            .map(|range| {
                if range.from == range.to {
                    range.from.to_string()
                } else {
                    format!("{}xx", range.from / 100)
                }
            })
            .collect();
        Err(("status", format!("answered {status}, expected {}", ranges.join(" or "))))
    }

    fn check_json(&self, expect: &Expect, variables: &Variables) -> Verdict {
        if expect.json.is_empty() {
            return Ok(());
        }
        let json = self.json().map_err(|message| ("check", message))?;
        for (path, check) in &expect.json {
            let found = path.query(json).first();
            match (check, found) {
                (JsonCheck::Exists(true), Some(_)) | (JsonCheck::Exists(false), None) => {}
                (JsonCheck::Exists(false), Some(_)) => {
                    return Err(("check", format!("there is a value at {path}")));
                }
                (_, None) => return Err(("check", format!("there is no value at {path}"))),
                (JsonCheck::Equals(expected), Some(found)) => {
                    let expected =
                        expected.evaluate(variables).map_err(|error| ("template", error.to_string()))?;
                    if !same(found, &expected) {
                        // The message leaves out the found value, because it may differ each time.
                        return Err((
                            "check",
                            format!("the value at {path} is not {}", quote(&expected.to_string(), variables)),
                        ));
                    }
                }
            }
        }
        Ok(())
    }

    /// Extracts the action's variables.
    pub(super) fn extract(&self, extracts: &[Extract], variables: &mut Variables) -> Verdict {
        for extract in extracts {
            let found = match self.find(&extract.place) {
                Ok(found) => found,
                Err(_) if extract.default.is_some() => None,
                Err(message) => {
                    return Err(("extract", format!("cannot extract {}: {message}", extract.variable)));
                }
            };
            match found.or_else(|| extract.default.clone()) {
                Some(value) if extract.secret => variables.set_secret(&extract.variable, value),
                Some(value) => variables.set(&extract.variable, value),
                None => {
                    let place = describe(&extract.place);
                    return Err((
                        "extract",
                        format!("cannot extract {}: nothing at {place}", extract.variable),
                    ));
                }
            }
        }
        Ok(())
    }

    fn find(&self, place: &Place) -> Result<Option<Value>, String> {
        Ok(match place {
            Place::Header(name) => self
                .answer
                .header(name)
                .map(|value| Value::from(String::from_utf8_lossy(value.as_bytes()).into_owned())),
            Place::Json(path) => path.query(self.json()?).first().map(Value::from_serialize),
            Place::Pointer(pointer) => self.json()?.pointer(pointer).map(Value::from_serialize),
            Place::Regex(regex) => regex.captures(self.text()).map(|captures| {
                let group = captures.get(1).or_else(|| captures.get(0));
                Value::from(group.map_or("", |group| group.as_str()))
            }),
        })
    }

    fn text(&self) -> &str {
        self.text.get_or_init(|| String::from_utf8_lossy(&self.answer.body).into_owned())
    }

    fn json(&self) -> Result<&Json, String> {
        let parsed = self.json.get_or_init(|| {
            serde_json::from_slice(&self.answer.body).map_err(|error| {
                let header =
                    |name| self.answer.header(name).map(|value| String::from_utf8_lossy(value.as_bytes()));
                let content_type = header(http::header::CONTENT_TYPE).unwrap_or("none".into());
                // Some servers compress even without a request for it.
                let encoding = header(http::header::CONTENT_ENCODING)
                    .map_or_else(String::new, |encoding| format!(", content encoding: {encoding}"));
                format!("the body is not JSON (content type: {content_type}{encoding}): {error}")
            })
        });
        parsed.as_ref().map_err(Clone::clone)
    }
}

fn check_text(what: &str, text: &str, check: &TextCheck, variables: &Variables) -> Verdict {
    let render = |template: &crate::base::template::Text| {
        let mut expected = String::new();
        template.render(variables, &mut expected).map_err(|error| ("template", error.to_string()))?;
        Ok(expected)
    };
    match check {
        TextCheck::Equals(expected) => {
            let expected = render(expected)?;
            if text == expected {
                Ok(())
            } else {
                Err(("check", format!("{what} is not {}", quote(&expected, variables))))
            }
        }
        TextCheck::Contains(expected) => {
            let expected = render(expected)?;
            if text.contains(&expected) {
                Ok(())
            } else {
                Err(("check", format!("{what} does not contain {}", quote(&expected, variables))))
            }
        }
        TextCheck::Matches(regex) => {
            if regex.is_match(text) {
                Ok(())
            } else {
                Err(("check", format!("{what} does not match {}", short(regex.as_str()))))
            }
        }
    }
}

/// Quotes a rendered text without its secrets. Masks before cutting.
fn quote(text: &str, variables: &Variables) -> String {
    // The quotes let masking find a short secret that is the whole text.
    let quoted = format!("`{text}`");
    let shown = masked_with(&quoted, &variables.secrets());
    short(&shown[1..shown.len() - 1])
}

fn short(text: &str) -> String {
    let short: String = text.chars().take(QUOTE_CHARS).collect();
    if short.len() < text.len() { format!("`{short}…`") } else { format!("`{short}`") }
}

fn describe(place: &Place) -> String {
    match place {
        Place::Json(path) => path.to_string(),
        Place::Pointer(pointer) => pointer.clone(),
        Place::Header(name) => format!("the header {name}"),
        Place::Regex(regex) => format!("a match of {}", short(regex.as_str())),
    }
}

/// JSON equality that treats 1 and 1.0 as the same number.
fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}
