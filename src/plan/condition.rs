//! Checks on a response and values to take from it, compiled.

use std::sync::Arc;
use std::time::Duration;

use regex::Regex;
use serde_json_path::JsonPath;

use crate::base::diagnostics::Fault;
use crate::base::masking::names_secret;
use crate::base::template::{Text, Value};
use crate::base::yaml::Node;
use crate::base::yaml_place::{at, key_span};
use crate::config::expect::{self, StatusRange};

use super::compiler::Compiler;
use super::headers::header;
use super::json::JsonTemplate;

/// Checks on a response.
#[derive(Default)]
pub struct Expect {
    /// The accepted statuses. If empty, all below 400 are accepted.
    pub status: Vec<StatusRange>,
    /// Conditions on headers.
    pub headers: Vec<(http::HeaderName, TextCheck)>,
    /// Conditions on the body.
    pub body: Vec<TextCheck>,
    /// Conditions on values in a JSON body.
    pub json: Vec<(JsonPath, JsonCheck)>,
    /// The check fails if the request takes longer.
    pub latency: Option<Duration>,
}

/// A condition on a text.
pub enum TextCheck {
    /// The whole text equals this.
    Equals(Text),
    /// The text contains this.
    Contains(Text),
    /// This regular expression matches somewhere in the text.
    Matches(Regex),
}

/// A condition on a JSON value.
pub enum JsonCheck {
    /// The value equals this.
    Equals(JsonTemplate),
    /// A value exists (true) or does not exist (false).
    Exists(bool),
}

/// A value to take from a response.
pub struct Extract {
    /// The variable's name.
    pub variable: Arc<str>,
    /// The value's place in the response.
    pub place: Place,
    /// The value if nothing is found.
    pub default: Option<Value>,
    /// Whether messages must not show the value.
    pub secret: bool,
}

/// The place of a value in a response.
pub enum Place {
    /// A JSONPath in a JSON body.
    Json(JsonPath),
    /// A JSON pointer in a JSON body.
    Pointer(String),
    /// A header.
    Header(http::HeaderName),
    /// A regular expression on the body.
    Regex(Regex),
}

impl Expect {
    /// True if a check needs the body.
    #[must_use]
    pub fn needs_body(&self) -> bool {
        !self.body.is_empty() || !self.json.is_empty()
    }
}

impl Place {
    /// True if the place is in the body.
    #[must_use]
    pub fn needs_body(&self) -> bool {
        !matches!(self, Self::Header(_))
    }
}

const REGEX_BYTES_MAX: usize = 1 << 20;
const JSON_PATH_BYTES_MAX: usize = 1000;
const JSON_PATH_FILTERS_MAX: usize = 5;
const JSON_PATH_CALLS_MAX: usize = 20;

impl Compiler<'_> {
    pub(super) fn expect(&mut self, config: Option<&expect::Expect>, node: &Node) -> Expect {
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
                    let checks = self.text_checks(condition, true, place);
                    expect.headers.extend(checks.into_iter().map(|check| (name.clone(), check)));
                }
                Err(complaint) => {
                    let span = key_span(at(node, &["headers"]), name);
                    self.faults.push(Fault::of(span, complaint));
                }
            }
        }
        if let Some(condition) = &config.body {
            expect.body = self.text_checks(condition, false, at(node, &["body"]));
        }
        for (path, value) in config.json.iter().flatten() {
            let place = at(node, &["json", path]);
            let span = key_span(at(node, &["json"]), path);
            let (path, check) = (self.json_path(path, span), self.json_check(value, place));
            expect.json.extend(path.zip(check));
        }
        expect
    }

    fn text_checks(&mut self, config: &expect::TextCondition, whole: bool, node: &Node) -> Vec<TextCheck> {
        let mut checks = Vec::new();
        if let Some(text) = &config.plain {
            let check = if whole { TextCheck::Equals } else { TextCheck::Contains };
            checks.extend(self.text(text, node).map(check));
        }
        if let Some(text) = &config.equals {
            checks.extend(self.text(text, at(node, &["equals"])).map(TextCheck::Equals));
        }
        if let Some(text) = &config.contains {
            checks.extend(self.text(text, at(node, &["contains"])).map(TextCheck::Contains));
        }
        if let Some(text) = &config.matches {
            checks.extend(self.regex(text, at(node, &["matches"])).map(TextCheck::Matches));
        }
        checks
    }

    fn json_check(&mut self, value: &serde_json::Value, node: &Node) -> Option<JsonCheck> {
        if let Some(exists) =
            value.as_object().filter(|map| map.len() == 1).and_then(|map| map.get("exists")?.as_bool())
        {
            return Some(JsonCheck::Exists(exists));
        }
        self.json(value, node).map(JsonCheck::Equals)
    }

    pub(super) fn extract(&mut self, name: &str, config: &expect::Extract, node: &Node) -> Option<Extract> {
        let places = [&config.json, &config.pointer, &config.header, &config.regex];
        if places.iter().filter(|place| place.is_some()).count() != 1 {
            let fault =
                Fault::error(node.span.clone(), format!("`{name}` needs exactly one place in the response"));
            self.faults.push(fault.help("write one of json, pointer, header, regex"));
            return None;
        }
        let place = if let Some(path) = &config.json {
            Place::Json(self.json_path(path, at(node, &["json"]).span.clone())?)
        } else if let Some(pointer) = &config.pointer {
            if !pointer.is_empty() && !pointer.starts_with('/') {
                let fault =
                    Fault::error(at(node, &["pointer"]).span.clone(), "a JSON pointer starts with a slash");
                self.faults.push(fault.help(format!("write /{}", pointer.replace('.', "/"))));
            }
            Place::Pointer(pointer.clone())
        } else if let Some(name) = &config.header {
            match header(name, "") {
                Ok((name, _)) => Place::Header(name),
                Err(complaint) => {
                    self.faults.push(Fault::of(at(node, &["header"]).span.clone(), complaint));
                    return None;
                }
            }
        } else {
            Place::Regex(self.regex(config.regex.as_deref().unwrap_or_default(), at(node, &["regex"]))?)
        };
        let default = config.default.as_ref().map(Value::from_serialize);
        let secret = config.secret.unwrap_or_else(|| {
            names_secret(name) || matches!(&place, Place::Header(header) if names_secret(header.as_str()))
        });
        Some(Extract { variable: Arc::from(name), place, default, secret })
    }

    fn json_path(&mut self, text: &str, span: std::ops::Range<usize>) -> Option<JsonPath> {
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
        let parsed = JsonPath::parse(text);
        parsed
            .map_err(|error| {
                let fault = Fault::error(span, format!("`{text}` is not a JSONPath: {}", error.message()));
                self.faults
                    .push(fault.help("write it as in RFC 9535, such as $.token.user.id or $.users[0].name"));
            })
            .ok()
    }

    fn regex(&mut self, text: &str, node: &Node) -> Option<Regex> {
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
