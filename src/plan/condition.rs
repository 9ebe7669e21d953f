//! Checks on a response and values to take from it, compiled.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::Arc;
use std::time::Duration;

use regex::Regex;
use serde_json_path::JsonPath;

use base::masking::names_secret;
use config::condition;
use config::expect::{self, StatusRange};
use text::diagnostics::Fault;
use text::digits;
use text::template::{self, Value};
use text::yaml::YamlNode;
use text::yaml_place::{at, key_span};

use super::compare::{Test, ValueCondition};
use super::headers::header;
use super::texts::TextCompiler;

/// Checks on a response.
#[derive(Default)]
pub struct Expect {
    /// The accepted outcomes. If empty, those that are good in the protocol are accepted.
    pub status: Vec<StatusRange>,
    pub headers: Vec<(http::HeaderName, ValueCondition)>,
    /// A condition on the body.
    pub body: Option<ValueCondition>,
    /// Conditions on values in a JSON body.
    pub json: Vec<(Path, ValueCondition)>,
    /// A condition on the number of messages.
    pub messages: Option<ValueCondition>,
    /// Conditions on variables, checked after the extraction.
    pub variables: Vec<(Arc<str>, ValueCondition)>,
    /// The check fails if the request takes longer.
    pub latency: Option<Duration>,
}

/// A value to take from a response.
pub struct Extract {
    /// The variable's name.
    pub variable: Arc<str>,
    /// The value's place in the response.
    pub place: ResponseLocation,
    /// The value if nothing is found.
    pub default: Option<Value>,
    /// Whether messages must not show the value.
    pub secret: bool,
}

/// A compiled JSONPath.
pub struct Path {
    /// Finds the values.
    pub query: JsonPath,
    /// Whether it compares values.
    pub filters: bool,
}

impl Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.query.fmt(f)
    }
}

/// The place of a value in a response.
pub enum ResponseLocation {
    /// A JSONPath in a JSON body.
    Json(Path),
    /// A JSON pointer in a JSON body.
    Pointer(String),
    Header(http::HeaderName),
    Cookie(String),
    /// A regular expression on the body.
    Regex(Regex),
}

impl Expect {
    /// True if a check needs the body.
    #[inline]
    #[must_use]
    pub fn needs_body(&self) -> bool {
        self.body.is_some() || !self.json.is_empty()
    }
}

impl ResponseLocation {
    /// True if the place is in the body.
    #[inline]
    #[must_use]
    pub fn needs_body(&self) -> bool {
        !matches!(self, Self::Header(_) | Self::Cookie(_))
    }
}

const REGEX_BYTES_MAX: usize = 1 << 20;
const JSON_PATH_BYTES_MAX: usize = 1000;
const JSON_PATH_FILTERS_MAX: usize = 5;
const JSON_PATH_CALLS_MAX: usize = 20;

impl TextCompiler<'_> {
    pub(super) fn expect(&mut self, config: Option<&expect::Expect>, node: &YamlNode) -> Expect {
        let Some(config) = config else { return Expect::default() };
        let mut expect = Expect {
            status: config.status.as_ref().map(|status| status.0.clone()).unwrap_or_default(),
            latency: config.latency.map(|latency| latency.0),
            ..Expect::default()
        };
        for (name, condition) in config.headers.iter().flatten() {
            let place = at(node, &["headers", name]);
            match header(name, "") {
                Ok((name, _)) => {
                    expect.headers.push((name, self.expectation(&condition.0, Test::Equals, place)));
                }
                Err(complaint) => {
                    let span = key_span(at(node, &["headers"]), name);
                    self.faults.push(Fault::of(span, complaint));
                }
            }
        }
        if let Some(condition) = &config.body {
            expect.body = Some(self.expectation(&condition.0, Test::Contains, at(node, &["body"])));
        }
        if let Some(condition) = &config.messages {
            expect.messages = Some(self.expectation(condition, Test::Equals, at(node, &["messages"])));
        }
        for (key, paths) in [("json", &config.json), ("message", &config.message)] {
            expect.json.extend(self.json_conditions(paths.as_ref(), at(node, &[key])));
        }
        expect
    }

    /// Conditions on values in JSON, by their paths.
    pub(super) fn json_conditions(
        &mut self,
        paths: Option<&BTreeMap<String, condition::Condition>>,
        node: &YamlNode,
    ) -> Vec<(Path, ValueCondition)> {
        let mut conditions = Vec::new();
        for (path, value) in paths.into_iter().flatten() {
            let (place, span) = (at(node, &[path]), key_span(node, path));
            let (path, condition) =
                (self.json_path(path, span), self.expectation(value, Test::Equals, place));
            conditions.extend(path.map(|path| (path, condition)));
        }
        conditions
    }

    /// Compiles the conditions on variables, which may be those that the action itself extracts.
    pub(super) fn expect_variables(
        &mut self,
        config: Option<&expect::Expect>,
        node: &YamlNode,
    ) -> Vec<(Arc<str>, ValueCondition)> {
        let node = at(node, &["variables"]);
        let mut conditions = Vec::new();
        for (name, condition) in config.and_then(|config| config.variables.as_ref()).into_iter().flatten() {
            self.known_variable(name, key_span(node, name));
            let condition = self.expectation(condition, Test::Equals, at(node, &[name]));
            conditions.push((Arc::from(name.as_str()), condition));
        }
        conditions
    }

    pub(super) fn extract(
        &mut self,
        name: &str,
        config: &expect::Extract,
        node: &YamlNode,
    ) -> Option<Extract> {
        let places = [&config.json, &config.pointer, &config.header, &config.cookie, &config.regex];
        if places.iter().filter(|place| place.is_some()).count() != 1 {
            let fault =
                Fault::error(node.span.clone(), format!("`{name}` needs exactly one place in the response"));
            self.faults.push(fault.help("write one of json, pointer, header, cookie, regex"));
            return None;
        }
        let place = if let Some(path) = &config.json {
            ResponseLocation::Json(self.json_path(path, at(node, &["json"]).span.clone())?)
        } else if let Some(pointer) = &config.pointer {
            if !pointer.is_empty() && !pointer.starts_with('/') {
                let fault =
                    Fault::error(at(node, &["pointer"]).span.clone(), "a JSON pointer starts with a slash");
                self.faults.push(fault.help(format!("write /{}", pointer.replace('.', "/"))));
            }
            ResponseLocation::Pointer(pointer.clone())
        } else if let Some(name) = &config.header {
            match header(name, "") {
                Ok((name, _)) => ResponseLocation::Header(name),
                Err(complaint) => {
                    self.faults.push(Fault::of(at(node, &["header"]).span.clone(), complaint));
                    return None;
                }
            }
        } else if let Some(name) = &config.cookie {
            ResponseLocation::Cookie(name.clone())
        } else {
            ResponseLocation::Regex(
                self.regex(config.regex.as_deref().unwrap_or_default(), at(node, &["regex"]))?,
            )
        };
        let default = config.default.as_ref().map(template::from_json);
        let secret = config.secret.unwrap_or_else(|| {
            let names_secret_place = match &place {
                ResponseLocation::Header(header) => names_secret(header.as_str()),
                ResponseLocation::Cookie(_) => true,
                _ => false,
            };
            names_secret(name) || names_secret_place
        });
        Some(Extract { variable: Arc::from(name), place, default, secret })
    }

    pub(super) fn json_path(&mut self, text: &str, span: std::ops::Range<usize>) -> Option<Path> {
        // The parser takes exponential time for nested filters, and stack space for each bracket.
        let count = |c: char| text.matches(c).count();
        if text.len() > JSON_PATH_BYTES_MAX
            || count('?') > JSON_PATH_FILTERS_MAX
            || count('(') > JSON_PATH_CALLS_MAX
        {
            let fault = Fault::error(span, "this JSONPath is too complex");
            self.faults.push(fault.help(format!(
                "use at most {JSON_PATH_BYTES_MAX} bytes, {JSON_PATH_FILTERS_MAX} filters and {JSON_PATH_CALLS_MAX} parentheses"
            )));
            return None;
        }
        if let Some(number) = rounded_literal(text) {
            let what = format!(
                "a number in a JSONPath is read as a double, which does not tell {number} from others"
            );
            self.faults.push(Fault::error(span, what).help(
                "take the list with `extract`, and choose the item with `for_each` and `if`: they compare exactly",
            ));
            return None;
        }
        let parsed = JsonPath::parse(text);
        parsed
            .map_err(|error| {
                let fault = Fault::error(span, format!("`{text}` is not a JSONPath: {}", error.message()));
                self.faults
                    .push(fault.help("write it as in RFC 9535, such as $.token.user.id or $.users[0].name"));
            })
            .ok()
            .map(|query| Path { query, filters: text.contains('?') })
    }

    pub(super) fn regex(&mut self, text: &str, node: &YamlNode) -> Option<Regex> {
        let built = regex::RegexBuilder::new(text).size_limit(REGEX_BYTES_MAX).build();
        built
            .map_err(|error| {
                let message = error.to_string();
                let last = message
                    .lines()
                    .last()
                    .unwrap_or_default()
                    .trim()
                    .trim_start_matches("error: ")
                    .to_owned();
                let fault = Fault::error(node.span.clone(), format!("not a regular expression: {last}"));
                self.faults
                    .push(fault.help(
                        "put a backslash before each of . * + ? ( ) [ ] { } | that is meant literally",
                    ));
            })
            .ok()
    }
}

/// The first number in the filters of a JSONPath that would be compared as another one, or with another one.
fn rounded_literal(path: &str) -> Option<&str> {
    let (_, mut rest) = path.split_once('?')?;
    let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | 'e' | 'E' | '+' | '-');
    let mut before = ' ';
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' | '\'' => {
                let mut escaped = false;
                let ends = |(_, other): &(usize, char)| {
                    let ends = !escaped && *other == c;
                    escaped = !escaped && *other == '\\';
                    ends
                };
                rest[1..].char_indices().find(ends).map_or(rest.len(), |(end, _)| end + 2)
            }
            '0'..='9' if !(before.is_alphanumeric() || before == '_') => {
                let end = rest.find(|c: char| !is_of_number(c)).unwrap_or(rest.len());
                if !digits::is_held_by_a_double(&rest[..end]) {
                    return Some(&rest[..end]);
                }
                end
            }
            _ => c.len_utf8(),
        };
        before = rest[..length].chars().next_back().unwrap_or(' ');
        rest = &rest[length..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_a_json_path_would_change_are_found() {
        for (path, expected) in [
            ("$.items[?@.id == 9007199254740993]", Some("9007199254740993")),
            ("$.items[?@.id==2733382000000000000].a", Some("2733382000000000000")),
            ("$[?@.a > 0.1234567890123456789]", Some("0.1234567890123456789")),
            ("$[?@.a == '9007199254740993' && @.b9007199254740993 == 1.5e3]", None),
            ("$[?@['it\\'s 9007199254740993'] <= -17]", None),
            ("$.items[9007199254740991]", None),
            ("$['9007199254740993']", None),
        ] {
            assert_eq!(rounded_literal(path), expected, "{path}");
        }
    }
}
