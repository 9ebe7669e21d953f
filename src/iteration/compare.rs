//! Checks a value against a condition of the plan.
//!
//! Messages name what was expected but not what was found: that may differ each time, and equal messages are counted
//! together.

use std::borrow::Cow;
use std::fmt::{self, Display};

use http::HeaderName;
use serde_json::Value as Json;

use base::masking::names_secret;
use base::visible::on_one_line;
use config::condition::JsonType;
use measure::errors::{FailureClass, FailureEvidence};
use plan::compare::{Inequality, Operand, Test, ValueCondition};
use plan::condition::Path;
use text::digits::{self, Decimal};
use text::template::{TemplateError, Variables};

use super::excerpt::{quote, short};
use measure::observation::CheckOutcome;
use text::named_secrets::without_named_secrets;

/// The most characters of what a check expects.
const EXPECTED_CHARS_MAX: usize = 120;

/// The result of a check; a failure has a class and a message.
pub(super) type Verdict = Result<(), Fault>;

/// A failure of a request, as its class and its message.
pub(super) type Fault = (FailureClass, String);

/// What a condition is about.
pub(super) enum Subject<'a> {
    Header(&'a HeaderName),
    Body,
    /// The value at a path.
    Path(&'a Path),
    Variable(&'a str),
    /// The number of messages.
    Messages,
    /// The length of something.
    Length(&'a Self),
}

impl Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "the header {name}"),
            Self::Body => f.write_str("the body"),
            Self::Path(path) => write!(f, "the value at {path}"),
            Self::Variable(name) => write!(f, "the variable {name}"),
            Self::Messages => f.write_str("the number of messages"),
            Self::Length(of) => write!(f, "the length of {of}"),
        }
    }
}

impl Subject<'_> {
    /// Its name alone, where the kind shows from it.
    fn short(&self) -> String {
        match self {
            Self::Path(path) => path.to_string(),
            Self::Body | Self::Header(_) | Self::Variable(_) | Self::Messages | Self::Length(_) => {
                self.to_string()
            }
        }
    }

    fn missing(&self) -> String {
        match self {
            Self::Header(name) => format!("the answer has no header {name}"),
            Self::Body => "there is no body".to_owned(),
            Self::Path(path) => format!("there is no value at {path}"),
            Self::Variable(name) => format!("there is no variable {name}"),
            Self::Messages => "the answer has no messages".to_owned(),
            Self::Length(of) => format!("{of} has no length"),
        }
    }

    fn there(&self) -> String {
        match self {
            Self::Header(name) => format!("the answer has a header {name}"),
            Self::Path(path) => format!("there is a value at {path}"),
            Self::Variable(name) => format!("there is a variable {name}"),
            Self::Body | Self::Messages | Self::Length(_) => format!("there is {self}"),
        }
    }
}

/// What was found.
#[derive(Clone, Copy)]
pub(super) enum ActualValue<'a> {
    Nothing,
    /// A text that has no type, such as a header's: it equals the number that it spells.
    Text(&'a str),
    /// A value.
    Json(&'a Json),
}

impl<'a> ActualValue<'a> {
    fn as_str(self) -> Option<&'a str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Json(value) => value.as_str(),
            Self::Nothing => None,
        }
    }
}

/// Checks what was found.
pub(super) fn check(
    condition: &ValueCondition,
    subject: &Subject<'_>,
    found: ActualValue<'_>,
    variables: &Variables,
) -> Verdict {
    for test in &condition.tests {
        let holds = holds(test, found, variables).map_err(template)?;
        if !holds {
            return Err((FailureClass::Check, message(test, subject, found, variables).map_err(template)?));
        }
    }
    Ok(())
}

/// What was found, for people: bounded and without secrets. `None` for nothing and for a body, which is quoted elsewhere.
pub(super) fn shown(subject: &Subject<'_>, found: ActualValue<'_>, variables: &Variables) -> Option<String> {
    let name = match subject {
        Subject::Header(name) => name.as_str().to_owned(),
        Subject::Path(path) => path.to_string(),
        Subject::Variable(name) => (*name).to_owned(),
        Subject::Messages => "messages".to_owned(),
        Subject::Body | Subject::Length(_) => return None,
    };
    let text = match found {
        ActualValue::Nothing => return None,
        ActualValue::Text(text) => text.to_owned(),
        ActualValue::Json(value) => without_named_secrets(&digits::to_text(value)),
    };
    Some(if names_secret(&name) { "***".to_owned() } else { on_one_line(&quote(&text, variables)) })
}

/// A check that was not met: its subject, what it expects and what was found; bounded and without secrets.
pub(super) fn unmet(
    condition: &ValueCondition,
    subject: &Subject<'_>,
    found: ActualValue<'_>,
    variables: &Variables,
) -> FailureEvidence {
    let expected = expected(condition, found, variables).ok();
    FailureEvidence {
        subject: Some(subject.short()),
        expected: expected.map(|text| on_one_line(&text).chars().take(EXPECTED_CHARS_MAX).collect()),
        found: shown(subject, found, variables),
        body: None,
    }
}

fn template(error: TemplateError) -> (FailureClass, String) {
    (FailureClass::Template, error.0)
}

/// A check with what it expects and what it found, for people.
pub(super) fn outcome(
    condition: &ValueCondition,
    subject: &Subject<'_>,
    found: ActualValue<'_>,
    variables: &Variables,
) -> CheckOutcome {
    let holds = check(condition, subject, found, variables);
    CheckOutcome {
        what: subject.to_string(),
        expected: expected(condition, found, variables).unwrap_or_else(|error| error.0),
        found: match found {
            ActualValue::Nothing => Some("nothing".to_owned()),
            _ => shown(subject, found, variables),
        },
        holds: holds.is_ok(),
    }
}

/// What a condition expects, in words that follow the name of a value.
fn expected(
    condition: &ValueCondition,
    found: ActualValue<'_>,
    variables: &Variables,
) -> Result<String, TemplateError> {
    phrases(condition, true, is_text(found), variables)
}

fn is_text(found: ActualValue<'_>) -> bool {
    matches!(found, ActualValue::Text(_))
}

fn all_hold(
    condition: &ValueCondition,
    found: ActualValue<'_>,
    variables: &Variables,
) -> Result<bool, TemplateError> {
    for test in &condition.tests {
        if !holds(test, found, variables)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn holds(test: &Test, found: ActualValue<'_>, variables: &Variables) -> Result<bool, TemplateError> {
    Ok(match (test, found) {
        (Test::Exists(wanted), ActualValue::Nothing) => !wanted,
        (Test::Exists(wanted), _) => *wanted,
        (Test::Not(condition), _) => !all_hold(condition, found, variables)?,
        (_, ActualValue::Nothing) => false,
        (Test::Equals(operand), _) => equals(operand, found, variables)?,
        (Test::Differs(operand), _) => !equals(operand, found, variables)?,
        (Test::OneOf(operands), _) => {
            for operand in operands {
                if equals(operand, found, variables)? {
                    return Ok(true);
                }
            }
            false
        }
        (Test::Compares(side, operand), _) => compares(*side, operand, found, variables)?,
        (Test::Length(condition), _) => match length(found) {
            Some(length) => all_hold(condition, ActualValue::Json(&length), variables)?,
            None => false,
        },
        (Test::Type(types), ActualValue::Json(value)) => types.iter().any(|kind| is_of(value, *kind)),
        (Test::Type(types), ActualValue::Text(_)) => types.contains(&JsonType::String),
        (Test::Contains(operand), _) => contains(operand, found, variables)?,
        (Test::Matches(regex), _) => text_of(found).is_some_and(|text| regex.is_match(&text)),
    })
}

fn equals(operand: &Operand, found: ActualValue<'_>, variables: &Variables) -> Result<bool, TemplateError> {
    match found {
        ActualValue::Nothing => Ok(false),
        ActualValue::Json(value) => Ok(digits::same(value, &*operand.value(variables)?)),
        ActualValue::Text(text) => {
            let is_number = matches!(operand, Operand::Fixed(value) if digits::of_number(value).is_some());
            Ok(text == operand.text(variables)?
                || is_number
                    && digits::spelled(text).is_some_and(|number| {
                        operand.value(variables).is_ok_and(|expected| digits::same(&number, &expected))
                    }))
        }
    }
}

fn compares(
    side: Inequality,
    operand: &Operand,
    found: ActualValue<'_>,
    variables: &Variables,
) -> Result<bool, TemplateError> {
    let Some(found) = number_of(found) else { return Ok(false) };
    let expected = operand.value(variables)?;
    let Some(expected) = number_of(ActualValue::Json(&expected)) else {
        let what = "a comparison needs a number, but its template became another value";
        return Err(TemplateError(what.to_owned()));
    };
    Ok(digits::order(&found, &expected).is_some_and(|order| match side {
        Inequality::Above => order.is_gt(),
        Inequality::AtLeast => order.is_ge(),
        Inequality::Below => order.is_lt(),
        Inequality::AtMost => order.is_le(),
    }))
}

/// A number, or the number that a text spells.
fn number_of(found: ActualValue<'_>) -> Option<Cow<'_, Json>> {
    match found {
        ActualValue::Json(number) if digits::of_number(number).is_some() => Some(Cow::Borrowed(number)),
        _ => found.as_str().and_then(digits::spelled).map(Cow::Owned),
    }
}

fn length(found: ActualValue<'_>) -> Option<Json> {
    let length = match found {
        ActualValue::Json(Json::Array(items)) => items.len(),
        ActualValue::Json(value @ Json::Object(map)) if digits::digits(value).is_none() => map.len(),
        _ => found.as_str()?.chars().count(),
    };
    Some(Json::from(length))
}

fn is_of(value: &Json, kind: JsonType) -> bool {
    match kind {
        JsonType::String => value.is_string(),
        JsonType::Number => digits::of_number(value).is_some(),
        JsonType::Integer => {
            value.is_i64()
                || value.is_u64()
                || digits::of_number(value)
                    .is_some_and(|number| Decimal::parse(&number).is_some_and(|number| number.is_whole()))
        }
        JsonType::Boolean => value.is_boolean(),
        JsonType::Array => value.is_array(),
        JsonType::Object => value.is_object() && digits::digits(value).is_none(),
        JsonType::Null => value.is_null(),
    }
}

fn contains(operand: &Operand, found: ActualValue<'_>, variables: &Variables) -> Result<bool, TemplateError> {
    Ok(match found {
        ActualValue::Json(Json::Array(items)) => {
            let expected = operand.value(variables)?;
            items.iter().any(|item| digits::same(item, &expected))
        }
        ActualValue::Json(value @ Json::Object(map)) => {
            digits::digits(value).is_none() && map.contains_key(&*operand.text(variables)?)
        }
        _ => match found.as_str() {
            Some(text) => text.contains(&*operand.text(variables)?),
            None => false,
        },
    })
}

/// A text, or a number or boolean as one.
fn text_of(found: ActualValue<'_>) -> Option<Cow<'_, str>> {
    match found {
        ActualValue::Json(Json::Bool(value)) => Some(Cow::Owned(value.to_string())),
        ActualValue::Json(value) if digits::of_number(value).is_some() => digits::of_number(value),
        _ => found.as_str().map(Cow::Borrowed),
    }
}

/// Why a comparison fails.
fn message(
    test: &Test,
    subject: &Subject<'_>,
    found: ActualValue<'_>,
    variables: &Variables,
) -> Result<String, TemplateError> {
    Ok(match (test, found) {
        (Test::Exists(false), _) => subject.there(),
        (Test::Not(condition), ActualValue::Nothing) => {
            format!("{}, but {}", subject.missing(), phrases(condition, false, false, variables)?)
        }
        (_, ActualValue::Nothing) => subject.missing(),
        (Test::Compares(..), _) if number_of(found).is_none() => format!("{subject} is not a number"),
        (Test::Length(condition), _) => {
            let of = Subject::Length(subject);
            match length(found) {
                None => of.missing(),
                Some(length) => {
                    let found = ActualValue::Json(&length);
                    let mut failing =
                        condition.tests.iter().filter_map(|test| match holds(test, found, variables) {
                            Ok(true) => None,
                            Ok(false) => Some(message(test, &of, found, variables)),
                            Err(error) => Some(Err(error)),
                        });
                    failing.next().unwrap_or_else(|| Ok(of.to_string()))?
                }
            }
        }
        _ => format!("{subject} {}", phrase(test, false, is_text(found), variables)?),
    })
}

/// A condition, or its opposite, in words that follow the name of a value.
fn phrases(
    condition: &ValueCondition,
    is: bool,
    text: bool,
    variables: &Variables,
) -> Result<String, TemplateError> {
    let phrases = condition.tests.iter().map(|test| phrase(test, is, text, variables));
    Ok(phrases.collect::<Result<Vec<_>, _>>()?.join(if is { " and " } else { " or " }))
}

fn phrase(test: &Test, is: bool, text: bool, variables: &Variables) -> Result<String, TemplateError> {
    let (be, does) = if is { ("is", "") } else { ("is not", "does not ") };
    // Texts without a type are quoted as they are, others as JSON.
    let quoted = |operand: &Operand| -> Result<String, TemplateError> {
        Ok(match text {
            true => quote(&operand.text(variables)?, variables),
            false => quote(&digits::to_text(&*operand.value(variables)?), variables),
        })
    };
    let s = if is { "s" } else { "" };
    Ok(match test {
        Test::Equals(operand) => format!("{be} {}", quoted(operand)?),
        Test::Differs(operand) => format!("{} {}", if is { "is not" } else { "is" }, quoted(operand)?),
        Test::Compares(side, operand) => {
            let side = match side {
                Inequality::Above => "more than",
                Inequality::AtLeast => "at least",
                Inequality::Below => "less than",
                Inequality::AtMost => "at most",
            };
            format!("{be} {side} {}", quote(&operand.text(variables)?, variables))
        }
        Test::Not(condition) => phrases(condition, !is, text, variables)?,
        Test::Length(condition) => {
            format!("has a length that {}", phrases(condition, is, false, variables)?)
        }
        Test::Type(types) => {
            format!("{be} {}", types.iter().map(|kind| type_words(*kind)).collect::<Vec<_>>().join(" or "))
        }
        Test::Contains(operand) => format!("{does}contain{s} {}", quoted_part(operand, variables)?),
        Test::Matches(regex) => {
            format!("{does}match{} {}", if is { "es" } else { "" }, short(regex.as_str()))
        }
        Test::OneOf(operands) => {
            let list = operands.iter().map(quoted).collect::<Result<Vec<_>, _>>()?.join(", ");
            format!("{} {list}", if is { "is one of" } else { "is none of" })
        }
        Test::Exists(wanted) => (if *wanted == is { "exists" } else { "does not exist" }).to_owned(),
    })
}

/// A part is quoted as it is, whether it is one of a text or a text in a list.
fn quoted_part(operand: &Operand, variables: &Variables) -> Result<String, TemplateError> {
    Ok(quote(&operand.text(variables)?, variables))
}

fn type_words(kind: JsonType) -> &'static str {
    match kind {
        JsonType::String => "a string",
        JsonType::Number => "a number",
        JsonType::Integer => "an integer",
        JsonType::Boolean => "a boolean",
        JsonType::Array => "an array",
        JsonType::Object => "an object",
        JsonType::Null => "null",
    }
}

#[cfg(test)]
#[path = "compare/tests.rs"]
mod tests;
