//! Checks an answer against the scenario's expectations and extracts variables from it.

use std::borrow::Cow;
use std::cell::{OnceCell, RefCell};
use std::time::Duration;

use serde_json::Value as Json;

use base::units::format_ns;
use client::cookies::Jar;
use client::error::ClientError;
use config::expect::StatusRange;
use measure::errors::{FailureClass, FailureEvidence};
use plan::action::Action;
use plan::call::ProtocolCall;
use plan::compare::ValueCondition;
use plan::condition::{Expect, Extract, Path, ResponseLocation};
use text::charset;
use text::digits;
use text::template::{self, Value, Variables, allowance};

use super::compare::{self, ActualValue, Fault, Subject, Verdict};
use super::excerpt::{self, short};
use super::pass::CallState;
use super::reply::Reply;
use measure::observation::CheckOutcome;
use measure::protocol::Protocol;

/// The class of what is beyond a limit of `bench`: no fault of the service.
const LIMIT: FailureClass = FailureClass::Client;
/// How deep the JSON of an answer may be nested, which is serde_json's limit.
const JSON_DEPTH_MAX: usize = 127;

/// What a protocol says of an answer that is not accepted, if it knows more than the outcome.
pub(super) type Refusal = fn(&Reply) -> Option<Fault>;

/// What is kept of an answer after it was judged.
pub(super) struct KeptOfAnswer<'a> {
    /// What was seen in it, if it failed.
    pub(super) seen: &'a mut Option<Box<FailureEvidence>>,
    /// Every check, if the iteration is observed.
    pub(super) outcomes: &'a mut Option<Vec<CheckOutcome>>,
    /// The numbers that were taken from it, if it did not fail.
    pub(super) numbers: &'a mut Vec<(u16, Option<f64>)>,
}

impl<'a> KeptOfAnswer<'a> {
    /// What the state of a call keeps.
    #[inline]
    pub(super) fn of(state: &'a mut CallState, outcomes: &'a mut Option<Vec<CheckOutcome>>) -> Self {
        Self { seen: &mut state.seen, outcomes, numbers: &mut state.numbers }
    }
}

/// An answer with its body parsed at most once.
pub(super) struct ParsedReply<'a> {
    answer: &'a Reply,
    cookies: Option<&'a Jar>,
    refusal: Refusal,
    /// An error comes with its class.
    json: OnceCell<Result<Json, Fault>>,
    /// The same with the digits of numbers that 64 bits do not keep.
    exact: OnceCell<Option<Json>>,
    /// The same with numbers that doubles tell apart.
    apart: OnceCell<Option<Json>>,
    text: OnceCell<String>,
    /// JSON that was not in UTF-8, in it; only looked at where the body is not JSON.
    recoded: OnceCell<Option<String>>,
    /// The check that was not met, without a body.
    unmet: RefCell<FailureEvidence>,
}

impl<'a> ParsedReply<'a> {
    pub(super) fn new(answer: &'a Reply, cookies: Option<&'a Jar>, refusal: Refusal) -> Self {
        Self {
            answer,
            cookies,
            refusal,
            json: OnceCell::new(),
            exact: OnceCell::new(),
            apart: OnceCell::new(),
            text: OnceCell::new(),
            recoded: OnceCell::new(),
            unmet: RefCell::default(),
        }
    }

    /// Checks the answer, and takes the action's variables and numbers from it.
    pub(super) fn verdict(
        &self,
        action: &Action,
        duration: Duration,
        variables: &mut Variables,
        kept: KeptOfAnswer<'_>,
    ) -> Verdict {
        let KeptOfAnswer { seen, outcomes, numbers } = kept;
        // Other users may have rendered on this thread in the meantime.
        allowance::renew();
        if let Some(outcomes) = outcomes.as_mut() {
            outcomes.extend(self.outcomes(action, duration, variables));
        }
        let verdict = self
            .check(action, duration, variables)
            .and_then(|()| self.extract(&action.extracts, variables))
            .and_then(|()| self.check_variables(&action.expect, variables));
        if let Some(outcomes) = outcomes.as_mut() {
            outcomes.extend(Self::outcomes_of_variables(&action.expect, variables));
        }
        if let Some(outcomes) = outcomes.as_mut().filter(|_| verdict.is_ok()) {
            outcomes.extend(action.measures.iter().map(|one| {
                let expected = match self.number(&one.place) {
                    Some(number) => format!("is {number}"),
                    None => "finds no number in this answer".to_owned(),
                };
                // It fails nothing.
                CheckOutcome { what: format!("measure `{}`", one.name), expected, found: None, holds: true }
            }));
        }
        match verdict {
            Ok(()) => numbers.extend(action.measures.iter().map(|one| (one.index, self.number(&one.place)))),
            Err(_) => *seen = self.seen(variables),
        }
        verdict
    }

    /// Checks the answer against the action's expectations.
    fn check(&self, action: &Action, duration: Duration, variables: &Variables) -> Verdict {
        let expect = &action.expect;
        self.check_outcome(action)?;
        if let Some(limit) = expect.latency.filter(|limit| duration > *limit) {
            let limit = format_ns(base::clock::saturating_nanos(limit));
            return Err((FailureClass::Latency, format!("slower than {limit}")));
        }
        for (name, condition) in &expect.headers {
            let value = self.answer.header(name);
            let found = value.as_deref().map_or(ActualValue::Nothing, ActualValue::Text);
            self.compare(condition, &Subject::Header(name), found, variables)?;
        }
        if let Some(condition) = &expect.body {
            self.check_body(condition, variables)?;
        }
        if let Some(condition) = &expect.messages {
            let number = self.answer.messages.map(Json::from);
            self.compare(condition, &Subject::Messages, found_in(number.as_ref()), variables)?;
        }
        self.check_json(expect, variables)
    }

    fn check_outcome(&self, action: &Action) -> Verdict {
        let (expect, status) = (&action.expect, self.answer.outcome);
        if action.accepts(status) {
            return Ok(());
        }
        if let Some(fault) = (self.refusal)(self.answer) {
            return Err(fault);
        }
        let written = action.call.protocol().names().written;
        let answered = self.answer.said.clone().unwrap_or_else(|| written(status));
        let expected = match (expect.status.is_empty(), action.call.protocol()) {
            (true, Protocol::Grpc) => "OK".to_owned(),
            (true, _) => return Err((FailureClass::Status, format!("answered {answered}"))),
            (false, _) => accepted(expect, written),
        };
        Err((FailureClass::Status, format!("answered {answered}, expected {expected}")))
    }

    /// Checks the text of the body.
    pub(super) fn check_body(&self, condition: &ValueCondition, variables: &Variables) -> Verdict {
        self.compare(condition, &Subject::Body, ActualValue::Text(self.text()), variables)
    }

    fn check_json(&self, expect: &Expect, variables: &Variables) -> Verdict {
        self.check_paths(&expect.json, variables)
    }

    /// Checks values in the JSON of the body.
    pub(super) fn check_paths(&self, paths: &[(Path, ValueCondition)], variables: &Variables) -> Verdict {
        if paths.is_empty() {
            return Ok(());
        }
        let json = self.json()?;
        for (path, condition) in paths {
            let found = self.at_path(json, path).map_or(ActualValue::Nothing, ActualValue::Json);
            self.compare(condition, &Subject::Path(path), found, variables)?;
        }
        Ok(())
    }

    /// The whole number at a path in the JSON of the body, if there is one.
    pub(super) fn whole_number(&self, path: &Path) -> Option<u64> {
        self.at_path(self.json().ok()?, path)?.as_u64()
    }

    /// Checks variables after the extraction.
    fn check_variables(&self, expect: &Expect, variables: &Variables) -> Verdict {
        for (name, condition) in &expect.variables {
            let value = value_of(name, variables);
            self.compare(condition, &Subject::Variable(name), found_in(value.as_ref()), variables)?;
        }
        Ok(())
    }

    fn compare(
        &self,
        condition: &ValueCondition,
        subject: &Subject<'_>,
        found: ActualValue<'_>,
        variables: &Variables,
    ) -> Verdict {
        let verdict = compare::check(condition, subject, found, variables);
        if verdict.is_err() {
            self.unmet.replace(compare::unmet(condition, subject, found, variables));
        }
        verdict
    }

    /// Every check of the answer, for people. Templates in checks see the variables before the extraction.
    fn outcomes(&self, action: &Action, duration: Duration, variables: &Variables) -> Vec<CheckOutcome> {
        let (expect, mut all) = (&action.expect, Vec::new());
        let written = action.call.protocol().names().written;
        let is_message = matches!(&action.call, ProtocolCall::Dialogue(call) if !call.reads_to_the_status());
        let expected = match (expect.status.is_empty(), action.call.protocol()) {
            // A message has none.
            (true, _) if is_message => None,
            (true, Protocol::Grpc) => Some("is OK".to_owned()),
            (true, _) => Some("is below 400".to_owned()),
            (false, _) => Some(format!("is {}", accepted(expect, written))),
        };
        all.extend(expected.map(|expected| CheckOutcome {
            what: "the status".to_owned(),
            expected,
            found: Some(written(self.answer.outcome)),
            holds: action.accepts(self.answer.outcome),
        }));
        all.extend(expect.latency.map(|limit| {
            let words = |time| format_ns(base::clock::saturating_nanos(time));
            CheckOutcome {
                what: "the time".to_owned(),
                expected: format!("is at most {}", words(limit)),
                found: Some(words(duration)),
                holds: duration <= limit,
            }
        }));
        for (name, condition) in &expect.headers {
            let value = self.answer.header(name);
            let found = value.as_deref().map_or(ActualValue::Nothing, ActualValue::Text);
            all.push(compare::outcome(condition, &Subject::Header(name), found, variables));
        }
        if let Some(condition) = &expect.body {
            all.push(compare::outcome(condition, &Subject::Body, ActualValue::Text(self.text()), variables));
        }
        if let Some(condition) = &expect.messages {
            let number = self.answer.messages.map(Json::from);
            all.push(compare::outcome(condition, &Subject::Messages, found_in(number.as_ref()), variables));
        }
        let json = if expect.json.is_empty() { Ok(&Json::Null) } else { self.json() };
        for (path, condition) in &expect.json {
            let found = json.as_ref().ok().and_then(|json| self.at_path(json, path));
            let found = found.map_or(ActualValue::Nothing, ActualValue::Json);
            let mut checked = compare::outcome(condition, &Subject::Path(path), found, variables);
            if let Err((_, error)) = &json {
                (checked.found, checked.holds) = (Some(error.clone()), false);
            }
            all.push(checked);
        }
        all
    }

    /// Every check of variables after the extraction, for people.
    fn outcomes_of_variables(expect: &Expect, variables: &Variables) -> Vec<CheckOutcome> {
        let one = |(name, condition): &(std::sync::Arc<str>, ValueCondition)| {
            let value = value_of(name, variables);
            compare::outcome(condition, &Subject::Variable(name), found_in(value.as_ref()), variables)
        };
        expect.variables.iter().map(one).collect()
    }

    /// What was seen in an answer that failed.
    pub(super) fn seen(&self, variables: &Variables) -> Option<Box<FailureEvidence>> {
        let mut secrets = variables.secrets();
        secrets.extend(self.cookies.iter().flat_map(|jar| jar.secrets()));
        let body = excerpt::excerpt(&self.answer.body, self.answer.body_bytes, &secrets);
        let seen = FailureEvidence { body, ..self.unmet.take() };
        (seen != FailureEvidence::default()).then(|| Box::new(seen))
    }

    /// Extracts the action's variables.
    fn extract(&self, extracts: &[Extract], variables: &mut Variables) -> Verdict {
        for extract in extracts {
            let found = match self.find(&extract.place) {
                Ok(found) => found,
                Err((class, _)) if extract.default.is_some() && class != LIMIT => None,
                Err((class, message)) => {
                    let class = if class == LIMIT { LIMIT } else { FailureClass::Extract };
                    return Err((class, format!("cannot extract {}: {message}", extract.variable)));
                }
            };
            match found.or_else(|| extract.default.clone()) {
                Some(value) if extract.secret => variables.set_secret(&extract.variable, value),
                Some(value) => variables.set(&extract.variable, value),
                None => {
                    let place = describe(&extract.place);
                    return Err((
                        FailureClass::Extract,
                        format!("cannot extract {}: nothing at {place}", extract.variable),
                    ));
                }
            }
        }
        Ok(())
    }

    /// The number at a place; `None` if something else or nothing is there.
    fn number(&self, place: &ResponseLocation) -> Option<f64> {
        let found = template::to_json(&self.find(place).ok()??).ok()?;
        match found {
            Json::Number(number) => number.as_f64(),
            Json::String(text) => text.trim().parse().ok().filter(|number: &f64| number.is_finite()),
            _ => None,
        }
    }

    fn find(&self, place: &ResponseLocation) -> Result<Option<Value>, Fault> {
        Ok(match place {
            ResponseLocation::Header(name) => {
                self.answer.header(name).map(|value| Value::from(value.into_owned()))
            }
            ResponseLocation::Cookie(name) => self.cookies.and_then(|jar| jar.value(name)).map(Value::from),
            ResponseLocation::Json(path) => self.at_path(self.json()?, path).map(template::from_json),
            ResponseLocation::Pointer(pointer) => {
                self.at_pointer(self.json()?, pointer).map(template::from_json)
            }
            ResponseLocation::Regex(regex) => match regex.captures(self.text()) {
                None => None,
                Some(captures) => {
                    let group = usize::from(regex.captures_len() > 1);
                    let found = captures.get(group).ok_or_else(|| {
                        let place = describe(place);
                        (
                            FailureClass::Extract,
                            format!("{place} matches, but its group takes no part in the match"),
                        )
                    })?;
                    Some(Value::from(found.as_str()))
                }
            },
        })
    }

    /// The value at a path, with its digits.
    fn at_path<'j>(&'j self, json: &'j Json, path: &Path) -> Option<&'j Json> {
        if path.filters
            && let Some(apart) = self.told_apart(json)
        {
            let place = path.query.query_located(apart).first()?.location().to_json_pointer();
            return self.exact().unwrap_or(json).pointer(&place);
        }
        let found = path.query.query(json).first()?;
        let exact = if digits::may_be_rounded(found) { self.exact() } else { None };
        let Some(exact) = exact else { return Some(found) };
        let located = path.query.query_located(json);
        exact.pointer(&located.first()?.location().to_json_pointer())
    }

    /// The body with numbers that filters tell apart, if they would not otherwise.
    fn told_apart(&self, json: &Json) -> Option<&Json> {
        let exact = || if digits::may_be_rounded(json) { self.exact() } else { None };
        self.apart.get_or_init(|| digits::told_apart(exact().unwrap_or(json))).as_ref()
    }

    /// The value at a JSON pointer, with its digits.
    fn at_pointer<'j>(&'j self, json: &'j Json, pointer: &str) -> Option<&'j Json> {
        let found = json.pointer(pointer)?;
        let exact = if digits::may_be_rounded(found) { self.exact() } else { None };
        exact.map_or(Some(found), |exact| exact.pointer(pointer))
    }

    /// The body with the digits of its numbers, if 64 bits do not keep the digits of one of them.
    fn exact(&self) -> Option<&Json> {
        self.exact.get_or_init(|| digits::exact_document(self.json_body()).ok().flatten()).as_ref()
    }

    fn text(&self) -> &str {
        self.text.get_or_init(|| {
            let content_type = self.answer.header(http::header::CONTENT_TYPE);
            charset::text(&self.answer.body, content_type.as_deref()).into_owned()
        })
    }

    /// The body in UTF-8 and without a mark.
    fn json_body(&self) -> &[u8] {
        self.recoded.get().and_then(Option::as_ref).map_or(&self.answer.body, |text| text.as_bytes())
    }

    /// Reads the body again if it is not in UTF-8, and says whether it is not.
    fn is_recoded(&self) -> bool {
        let recoded = self.recoded.get_or_init(|| {
            let content_type = self.answer.header(http::header::CONTENT_TYPE);
            charset::json_text(&self.answer.body, content_type.as_deref()).map(Cow::into_owned)
        });
        recoded.is_some()
    }

    fn json(&self) -> Result<&Json, Fault> {
        let parsed = self.json.get_or_init(|| {
            let parsed = digits::rounded_document(&self.answer.body);
            // Hardly any JSON is in another set, so the rest need not be looked at.
            let parsed = parsed.or_else(|error| match self.is_recoded() {
                true => digits::rounded_document(self.json_body()),
                false => Err(error),
            });
            parsed.map_err(|error| {
                // The crate has no other sign for it; see the test.
                if error.to_string().starts_with("recursion limit exceeded") {
                    let place = format!("line {} column {}", error.line(), error.column());
                    let reason = format!("the JSON has more than {JSON_DEPTH_MAX} levels, at {place}");
                    return (LIMIT, ClientError::Limit(reason).to_string());
                }
                if self.answer.event.is_some() {
                    return (FailureClass::Check, format!("the event is not JSON: {error}"));
                }
                let content_type = self.answer.header(http::header::CONTENT_TYPE).unwrap_or("none".into());
                // Some servers compress even without a request for it.
                let encoding = self.answer.header(http::header::CONTENT_ENCODING);
                let encoding =
                    encoding.map_or_else(String::new, |encoding| format!(", content encoding: {encoding}"));
                let message =
                    format!("the body is not JSON (content type: {content_type}{encoding}): {error}");
                (FailureClass::Check, message)
            })
        });
        parsed.as_ref().map_err(Clone::clone)
    }
}

/// The accepted statuses.
fn accepted(expect: &Expect, written: fn(u16) -> String) -> String {
    let range = |range: &StatusRange| match range.from == range.to {
        true => written(range.from),
        false => format!("{}xx", range.from / 100),
    };
    expect.status.iter().map(range).collect::<Vec<_>>().join(" or ")
}

/// The value of a variable as JSON.
pub(super) fn value_of(name: &str, variables: &Variables) -> Option<Json> {
    variables.get(name).map(|value| template::to_json(&value).unwrap_or_default())
}

/// A variable's value. A text may be a header's, which has no type.
pub(super) fn found_in(value: Option<&Json>) -> ActualValue<'_> {
    match value {
        Some(Json::String(text)) => ActualValue::Text(text),
        Some(value) => ActualValue::Json(value),
        None => ActualValue::Nothing,
    }
}

fn describe(place: &ResponseLocation) -> String {
    match place {
        ResponseLocation::Json(path) => path.to_string(),
        ResponseLocation::Pointer(pointer) => pointer.clone(),
        ResponseLocation::Header(name) => format!("the header {name}"),
        ResponseLocation::Cookie(name) => format!("the cookie {name}"),
        ResponseLocation::Regex(regex) => format!("a match of {}", short(regex.as_str())),
    }
}
