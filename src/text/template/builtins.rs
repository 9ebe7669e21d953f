//! minijinja's filters and tests, each with a guard that measures its input and output.
//!
//! Filters whose output can be much larger than their input are charged before they run.

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, State, Value, filters, tests};

use crate::digits::Decimal;

use super::allowance::{self, Size};
use super::arithmetic;
use super::encodings;
use super::formats;
use super::numbers::{self, TextNotation};

/// Measures a value that an operator is about to traverse, and returns it.
pub(super) const READ: &str = "#read";
/// Measures a value that an operator has produced, and returns it.
pub(super) const MADE: &str = "#made";
/// Measures a value that can only be counted by traversing it, and returns it.
pub(super) const COUNTED: &str = "#counted";
/// Measures a value that is about to be compared, and makes its numbers ordinary ones where these are the same.
pub(super) const SAME: &str = "#same";
/// Measures a value that an operator is about to calculate with, and makes it an ordinary number.
pub(super) const OPERAND: &str = "#operand";
/// Measures a value that is about to become a part of a text, and returns it as it shows there.
pub(super) const TEXT: &str = "#text";

/// Adds all of them to an environment that has none.
pub(super) fn install(environment: &mut Environment<'static>, shows: TextNotation) {
    macro_rules! guard {
        ($add:ident, $takes:ident: $($name:literal => $function:expr),* $(,)?) => {
            $({
                let function = Value::from_function($function);
                environment.$add($name, guarded($name, ArgumentCoercion::$takes($name), function, shows));
            })*
        };
    }
    guard!(add_filter, of_filter:
        "safe" => filters::safe, "escape" => filters::escape, "e" => filters::escape,
        "lower" => filters::lower, "upper" => filters::upper, "title" => filters::title,
        "capitalize" => filters::capitalize, "replace" => filters::replace, "length" => filters::length,
        "count" => filters::length, "dictsort" => filters::dictsort, "items" => filters::items,
        "reverse" => filters::reverse, "trim" => filters::trim, "join" => filters::join,
        "split" => filters::split, "lines" => filters::lines, "default" => filters::default,
        "d" => filters::default, "round" => filters::round, "abs" => filters::abs, "int" => int,
        "float" => float, "attr" => filters::attr, "first" => filters::first,
        "last" => filters::last, "min" => filters::min, "max" => filters::max, "sort" => filters::sort,
        "list" => filters::list, "string" => filters::string, "bool" => filters::bool,
        "batch" => filters::batch, "slice" => filters::slice, "sum" => arithmetic::sum,
        "indent" => filters::indent, "select" => filters::select, "reject" => filters::reject,
        "selectattr" => filters::selectattr, "rejectattr" => filters::rejectattr, "map" => filters::map,
        "groupby" => filters::groupby, "unique" => filters::unique, "chain" => filters::chain,
        "zip" => filters::zip, "pprint" => filters::pprint, "format" => filters::format,
        "tojson" => tojson,
        "hash" => encodings::hash, "sha256" => encodings::sha256, "md5" => encodings::md5,
        "hmac" => encodings::hmac, "base64encode" => encodings::base64encode,
        "base64decode" => encodings::base64decode, "urlencode" => encodings::urlencode,
    );
    guard!(add_test, of_test:
        "eq" => tests::is_eq, "equalto" => tests::is_eq, "==" => tests::is_eq, "ne" => tests::is_ne,
        "!=" => tests::is_ne, "lt" => is_lt, "lessthan" => is_lt, "<" => is_lt,
        "le" => is_le, "<=" => is_le, "gt" => is_gt, "greaterthan" => is_gt,
        ">" => is_gt, "ge" => is_ge, ">=" => is_ge, "in" => tests::is_in,
        "startingwith" => tests::is_startingwith, "endingwith" => tests::is_endingwith,
        "lower" => tests::is_lower, "upper" => tests::is_upper,
    );
    guard!(add_test, of_test:
        "undefined" => tests::is_undefined, "defined" => tests::is_defined, "none" => tests::is_none,
        "safe" => tests::is_safe, "escaped" => tests::is_safe, "boolean" => tests::is_boolean,
        "odd" => tests::is_odd, "even" => tests::is_even, "divisibleby" => tests::is_divisibleby,
        "number" => is_number, "integer" => is_integer, "int" => is_integer,
        "float" => is_float, "string" => tests::is_string, "sequence" => tests::is_sequence,
        "iterable" => tests::is_iterable, "mapping" => tests::is_mapping, "sameas" => tests::is_sameas,
        "true" => tests::is_true, "false" => tests::is_false, "filter" => tests::is_filter,
        "test" => tests::is_test,
    );
    environment.add_filter(READ, |value: Value| allowance::read(&value).map(|_| value));
    environment.add_filter(SAME, |value: Value| allowance::read(&value).map(|_| numbers::same_value(value)));
    environment.add_filter(OPERAND, operand);
    environment.add_filter(TEXT, move |value: Value| {
        allowance::read(&value)?;
        Ok::<_, Error>(shows.shown(&value)?.unwrap_or(value))
    });
    environment.add_filter(MADE, |value: Value| allowance::made(&value).map(|()| value));
    environment.add_filter(COUNTED, counted);
    arithmetic::install(environment);
}

/// What a filter or a test makes of its values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ArgumentCoercion {
    /// A text: any other value becomes the text that shows it.
    Text,
    /// A text, or pairs of texts: any other value becomes the text that shows it.
    Query,
    /// A list whose items become texts.
    Joins,
    /// Values that become parts of a text.
    Formats,
    /// Numbers to calculate with.
    Numbers,
    /// A list of numbers to calculate with.
    Items,
    /// Values to put in order, which are returned as they are.
    Ordered,
    /// The same, and they must have an order.
    Sorted,
    /// Values to compare.
    Same,
    /// Anything, as it is.
    Any,
}

impl ArgumentCoercion {
    fn of_filter(name: &str) -> Self {
        match name {
            "base64decode" | "base64encode" | "capitalize" | "e" | "escape" | "hash" | "hmac" | "indent"
            | "lines" | "lower" | "md5" | "replace" | "sha256" | "split" | "string" | "title" | "trim"
            | "upper" => Self::Text,
            "urlencode" => Self::Query,
            "join" => Self::Joins,
            "format" => Self::Formats,
            "abs" | "round" => Self::Numbers,
            "sum" => Self::Items,
            "min" | "max" | "sort" => Self::Sorted,
            "unique" | "groupby" | "dictsort" => Self::Ordered,
            _ => Self::Any,
        }
    }

    /// Tests have names of their own: the filter `string` makes a text, and the test `string` asks for one.
    fn of_test(name: &str) -> Self {
        match name {
            "startingwith" | "endingwith" | "lower" | "upper" => Self::Text,
            "odd" | "even" | "divisibleby" => Self::Numbers,
            "eq" | "equalto" | "==" | "ne" | "!=" | "in" | "sameas" => Self::Same,
            _ => Self::Any,
        }
    }

    /// The arguments as it takes them; `None` if they are as they should be.
    fn prepared(self, arguments: &[Value], shows: TextNotation) -> Result<Option<Vec<Value>>, Error> {
        let Some(first) = arguments.first() else { return Ok(None) };
        let is_text = first.as_str().is_some() || first.is_undefined() || first.kind() == ValueKind::Bytes;
        let has_digits = || arguments.iter().any(|argument| numbers::digits_of(argument).is_some());
        let all = || arguments.iter().cloned();
        let first = match self {
            Self::Text if !is_text => shows.shown(first)?.unwrap_or_else(|| Value::from(first.to_string())),
            Self::Query if !is_text => match first.kind() {
                ValueKind::Map => pairs(first, shows)?,
                ValueKind::Seq | ValueKind::Iterable if has_pairs(first) => pairs(first, shows)?,
                _ => shows.shown(first)?.unwrap_or_else(|| Value::from(first.to_string())),
            },
            Self::Joins if !is_text => {
                let Ok(items) = first.try_iter() else { return Ok(None) };
                let shown = items.map(|item| Ok(shows.shown(&item)?.unwrap_or(item)));
                Value::from(shown.collect::<Result<Vec<_>, Error>>()?)
            }
            Self::Formats => return formats::prepared(first, &arguments[1..], shows).map(Some),
            Self::Items if first.kind() == ValueKind::Seq => {
                let items: Vec<Value> = first.try_iter()?.collect();
                if items.iter().all(|item| numbers::digits_of(item).is_none()) {
                    return Ok(None);
                }
                Value::from(items.into_iter().map(numbers::operand).collect::<Result<Vec<_>, Error>>()?)
            }
            Self::Ordered | Self::Sorted => match numbers::comparable(first)? {
                Some(comparable) => comparable,
                None => return Ok(None),
            },
            Self::Numbers if has_digits() => {
                return all().map(numbers::operand).collect::<Result<Vec<_>, Error>>().map(Some);
            }
            Self::Same => return Ok(Some(all().map(numbers::same_value).collect())),
            _ => return Ok(None),
        };
        Ok(Some(std::iter::once(first).chain(arguments[1..].iter().cloned()).collect()))
    }
}

fn has_pairs(list: &Value) -> bool {
    list.len() != Some(0)
        && list
            .try_iter()
            .is_ok_and(|mut items| items.all(|item| item.kind() == ValueKind::Seq && item.len() == Some(2)))
}

/// The entries of a map, or the lists in a list, as texts.
fn pairs(value: &Value, shows: TextNotation) -> Result<Value, Error> {
    let text = |value: Value| match value.as_str() {
        Some(_) => Ok(value),
        None => Ok::<_, Error>(shows.shown(&value)?.unwrap_or_else(|| Value::from(value.to_string()))),
    };
    let is_map = value.kind() == ValueKind::Map;
    let pair = |item: Value| match is_map {
        true => Ok(Value::from(vec![text(item.clone())?, text(value.get_item(&item)?)?])),
        false => Ok(Value::from(item.try_iter()?.map(text).collect::<Result<Vec<_>, Error>>()?)),
    };
    Ok(Value::from(value.try_iter()?.map(pair).collect::<Result<Vec<_>, Error>>()?))
}

fn operand(value: Value) -> Result<Value, Error> {
    if value.kind() == ValueKind::Number {
        return Ok(value);
    }
    allowance::read(&value)?;
    numbers::operand(value)
}

fn is_lt(left: &Value, right: &Value) -> Result<bool, Error> {
    arithmetic::holds("<", left, right)
}

fn is_le(left: &Value, right: &Value) -> Result<bool, Error> {
    arithmetic::holds("<=", left, right)
}

fn is_gt(left: &Value, right: &Value) -> Result<bool, Error> {
    arithmetic::holds(">", left, right)
}

fn is_ge(left: &Value, right: &Value) -> Result<bool, Error> {
    arithmetic::holds(">=", left, right)
}

fn is_number(value: &Value) -> bool {
    value.is_number() || numbers::digits_of(value).is_some()
}

fn is_integer(value: &Value) -> bool {
    value.is_integer() || numbers::digits_of(value).is_some_and(|digits| !digits.contains(['.', 'e', 'E']))
}

fn is_float(value: &Value) -> bool {
    is_number(value) && !is_integer(value)
}

/// A whole number: a fraction is cut off.
pub(super) fn int(state: &State, value: &Value) -> Result<Value, Error> {
    let text = value.as_str().or_else(|| numbers::digits_of(value));
    let real = match text {
        None => f64::try_from(value.clone()).ok().filter(|_| value.is_number() && !value.is_integer()),
        Some(text) => match text.trim().parse::<i128>() {
            Ok(whole) => return Ok(Value::from(whole)),
            Err(_) => text.trim().parse::<f64>().ok(),
        },
    };
    let Some(real) = real else { return filters::int(state, value) };
    // Above it, 64 bits no longer hold every whole number.
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if real.abs() <= EXACT_MAX {
        return Ok(Value::from(real as i64));
    }
    let kept = text.is_none_or(|text| numbers::ordinary(text.trim()).is_some());
    if !kept || !real.is_finite() || real.abs() >= i128::MAX as f64 {
        return Err(allowance::invalid(format!("int: {value} cannot be kept as a whole number")));
    }
    Ok(Value::from(real as i128))
}

/// A number with a fraction, if 64 bits keep it.
fn float(state: &State, value: &Value) -> Result<Value, Error> {
    let text = match value.as_str().or_else(|| numbers::digits_of(value)) {
        Some(text) => text.trim().to_owned(),
        None if value.is_integer() => value.to_string(),
        None => return filters::float(state, value),
    };
    if Decimal::parse(&text).is_none() {
        return filters::float(state, value);
    }
    let real = text
        .parse::<f64>()
        .ok()
        .filter(|real| real.is_finite() && Decimal::parse(&real.to_string()) == Decimal::parse(&text));
    real.map(Value::from)
        .ok_or_else(|| allowance::invalid(format!("float: {value} has more digits than 64 bits can keep")))
}

/// JSON that may stand in HTML, as minijinja's filter makes it, with the digits of numbers.
fn tojson(value: &Value, indent: Option<Value>, named: Kwargs) -> Result<Value, Error> {
    let indent = match indent {
        Some(indent) => Some(indent),
        None => named.get("indent")?,
    };
    named.assert_all_used()?;
    let indent = match indent {
        Some(indent) if indent.kind() == ValueKind::Bool => indent.is_true().then_some(2),
        Some(indent) => Some(usize::try_from(indent)?),
        None => None,
    };
    let failed = |error: serde_json::Error| allowance::invalid(format!("tojson: {error}"));
    let json = match indent {
        None => serde_json::to_string(&numbers::AsJson(value)).map_err(failed)?,
        Some(indent) => {
            let (mut output, indent) = (Vec::new(), " ".repeat(indent));
            let formatter = serde_json::ser::PrettyFormatter::with_indent(indent.as_bytes());
            let mut serializer = serde_json::Serializer::with_formatter(&mut output, formatter);
            serde::Serialize::serialize(&numbers::AsJson(value), &mut serializer).map_err(failed)?;
            String::from_utf8(output).map_err(|error| allowance::invalid(error.to_string()))?
        }
    };
    let escapes = [("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026"), ("'", "\\u0027")];
    let safe = escapes.iter().fold(json, |json, (from, to)| json.replace(from, to));
    Ok(Value::from_safe_string(safe))
}

type GuardedFunction = dyn Fn(&State, Rest<Value>) -> Result<Value, Error> + Send + Sync;

fn guarded(
    name: &'static str,
    takes: ArgumentCoercion,
    function: Value,
    shows: TextNotation,
) -> Box<GuardedFunction> {
    Box::new(move |state, arguments| {
        let mut size = Size::default();
        for argument in arguments.iter() {
            let read = allowance::read(argument)?;
            size.values += read.values;
            size.bytes += read.bytes;
            size.depth = size.depth.max(read.depth);
        }
        if let (ArgumentCoercion::Sorted, Some(list)) = (takes, arguments.first()) {
            arithmetic::sortable(name, list)?;
        }
        let prepared = takes.prepared(&arguments, shows)?;
        let arguments = prepared.as_deref().unwrap_or(&arguments);
        charge_before(name, arguments, size)?;
        let value = match function.call(state, arguments) {
            // A filter that does not know what an object is may know an ordinary number.
            Err(_) if arguments.iter().any(|argument| numbers::digits_of(argument).is_some()) => {
                let ordinary: Vec<_> = arguments.iter().cloned().map(numbers::same_value).collect();
                function.call(state, &ordinary)?
            }
            called => called?,
        };
        allowance::made(&value)?;
        Ok(value)
    })
}

/// Charges for output of a filter beyond the size of its input.
fn charge_before(name: &str, arguments: &[Value], size: Size) -> Result<(), Error> {
    let text = |index: usize| arguments.get(index).and_then(Value::as_str).unwrap_or_default();
    let number = |index: usize, keyword: &str| {
        let named = arguments.last().cloned().and_then(|last| Kwargs::try_from(last).ok());
        let named = named.and_then(|named| named.get::<Value>(keyword).ok());
        let value = arguments.get(index).filter(|value| value.is_number()).cloned().or(named);
        value.and_then(|value| value.as_usize()).unwrap_or(0) as u64
    };
    match name {
        "replace" => {
            let (from, to) = (text(1), text(2).len() as u64);
            let places = if from.is_empty() { size.bytes + 1 } else { text(0).matches(from).count() as u64 };
            allowance::charge_text(places.saturating_mul(to))
        }
        "indent" => {
            let lines = text(0).split('\n').count() as u64 + 1;
            allowance::charge_text(lines.saturating_mul(number(1, "width")))
        }
        "join" => allowance::charge_text(size.values.saturating_mul(text(1).len() as u64)),
        "batch" | "slice" => allowance::charge_values(number(1, "count")),
        "tojson" => {
            let indents = size.values.saturating_mul(size.depth as u64);
            allowance::charge_text(indents.saturating_mul(number(1, "indent")))
        }
        "pprint" => allowance::charge_text(size.values.saturating_mul(4 * size.depth as u64)),
        "sort" | "dictsort" | "groupby" | "unique" => allowance::charge(size.values.saturating_mul(16)),
        "format" => allowance::charge_text(formats::widths(text(0), arguments)),
        _ => Ok(()),
    }
}

fn counted(value: Value) -> Result<Value, Error> {
    if value.kind() == ValueKind::Iterable {
        allowance::read(&value)?;
    }
    Ok(value)
}
