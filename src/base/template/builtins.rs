//! minijinja's filters and tests, each with a guard that measures its input and output.
//!
//! Filters whose output can be much larger than their input are charged before they run.

use minijinja::value::{Kwargs, Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value, filters, tests};

use super::allowance::{self, Size};
use super::encodings;

/// Measures a value that an operator is about to traverse, and returns it.
pub(super) const READ: &str = "#read";
/// Measures a value that an operator has produced, and returns it.
pub(super) const MADE: &str = "#made";
/// Measures a value that can only be counted by traversing it, and returns it.
pub(super) const COUNTED: &str = "#counted";
/// The operator `*`.
pub(super) const TIMES: &str = "#times";

/// Adds all of them to an environment that has none.
pub(super) fn install(environment: &mut Environment<'static>) {
    macro_rules! guard {
        ($add:ident: $($name:literal => $function:expr),* $(,)?) => {
            $(environment.$add($name, guarded($name, Value::from_function($function)));)*
        };
    }
    guard!(add_filter:
        "safe" => filters::safe, "escape" => filters::escape, "e" => filters::escape,
        "lower" => filters::lower, "upper" => filters::upper, "title" => filters::title,
        "capitalize" => filters::capitalize, "replace" => filters::replace, "length" => filters::length,
        "count" => filters::length, "dictsort" => filters::dictsort, "items" => filters::items,
        "reverse" => filters::reverse, "trim" => filters::trim, "join" => filters::join,
        "split" => filters::split, "lines" => filters::lines, "default" => filters::default,
        "d" => filters::default, "round" => filters::round, "abs" => filters::abs, "int" => filters::int,
        "float" => filters::float, "attr" => filters::attr, "first" => filters::first,
        "last" => filters::last, "min" => filters::min, "max" => filters::max, "sort" => filters::sort,
        "list" => filters::list, "string" => filters::string, "bool" => filters::bool,
        "batch" => filters::batch, "slice" => filters::slice, "sum" => filters::sum,
        "indent" => filters::indent, "select" => filters::select, "reject" => filters::reject,
        "selectattr" => filters::selectattr, "rejectattr" => filters::rejectattr, "map" => filters::map,
        "groupby" => filters::groupby, "unique" => filters::unique, "chain" => filters::chain,
        "zip" => filters::zip, "pprint" => filters::pprint, "format" => filters::format,
        "tojson" => filters::tojson,
        "hash" => encodings::hash, "sha256" => encodings::sha256, "md5" => encodings::md5,
        "hmac" => encodings::hmac, "base64encode" => encodings::base64encode,
        "base64decode" => encodings::base64decode, "urlencode" => encodings::urlencode,
    );
    guard!(add_test:
        "eq" => tests::is_eq, "equalto" => tests::is_eq, "==" => tests::is_eq, "ne" => tests::is_ne,
        "!=" => tests::is_ne, "lt" => tests::is_lt, "lessthan" => tests::is_lt, "<" => tests::is_lt,
        "le" => tests::is_le, "<=" => tests::is_le, "gt" => tests::is_gt, "greaterthan" => tests::is_gt,
        ">" => tests::is_gt, "ge" => tests::is_ge, ">=" => tests::is_ge, "in" => tests::is_in,
        "startingwith" => tests::is_startingwith, "endingwith" => tests::is_endingwith,
        "lower" => tests::is_lower, "upper" => tests::is_upper,
    );
    guard!(add_test:
        "undefined" => tests::is_undefined, "defined" => tests::is_defined, "none" => tests::is_none,
        "safe" => tests::is_safe, "escaped" => tests::is_safe, "boolean" => tests::is_boolean,
        "odd" => tests::is_odd, "even" => tests::is_even, "divisibleby" => tests::is_divisibleby,
        "number" => tests::is_number, "integer" => tests::is_integer, "int" => tests::is_integer,
        "float" => tests::is_float, "string" => tests::is_string, "sequence" => tests::is_sequence,
        "iterable" => tests::is_iterable, "mapping" => tests::is_mapping, "sameas" => tests::is_sameas,
        "true" => tests::is_true, "false" => tests::is_false, "filter" => tests::is_filter,
        "test" => tests::is_test,
    );
    environment.add_filter(READ, |value: Value| allowance::read(&value).map(|_| value));
    environment.add_filter(MADE, |value: Value| allowance::made(&value).map(|()| value));
    environment.add_filter(COUNTED, counted);
    environment.add_filter(TIMES, times);
}

type Guarded = dyn Fn(&State, Rest<Value>) -> Result<Value, Error> + Send + Sync;

fn guarded(name: &'static str, function: Value) -> Box<Guarded> {
    Box::new(move |state, arguments| {
        let mut size = Size::default();
        for argument in arguments.iter() {
            let read = allowance::read(argument)?;
            size.values += read.values;
            size.bytes += read.bytes;
            size.depth = size.depth.max(read.depth);
        }
        charge_before(name, &arguments, size)?;
        let value = function.call(state, &arguments)?;
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
        "format" => allowance::charge_text(widths(text(0), arguments)),
        _ => Ok(()),
    }
}

/// An upper bound for the sum of all widths and precisions in a format.
fn widths(format: &str, arguments: &[Value]) -> u64 {
    let written = format.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let written = written.map(|digits| digits.parse().unwrap_or(u64::MAX));
    // A `*` takes a width from the arguments.
    let given = arguments.iter().skip(1).filter(|_| format.contains('*'));
    let given = given.filter_map(|value| i64::try_from(value.clone()).ok()).map(i64::unsigned_abs);
    written.chain(given).fold(0, u64::saturating_add)
}

fn counted(value: Value) -> Result<Value, Error> {
    if value.kind() == ValueKind::Iterable {
        allowance::read(&value)?;
    }
    Ok(value)
}

fn times(left: &Value, right: &Value) -> Result<Value, Error> {
    let invalid = |what: &str| Error::new(ErrorKind::InvalidOperation, what.to_owned());
    let is_scalar = |value: &Value| matches!(value.kind(), ValueKind::Number | ValueKind::Bool);
    if is_scalar(left) && is_scalar(right) {
        return product(left, right).ok_or_else(|| invalid(&format!("unable to calculate {left} * {right}")));
    }
    let (many, count) = if is_scalar(left) { (right, left) } else { (left, right) };
    let count = count.as_usize().ok_or_else(|| {
        invalid(&format!(
            "`*` needs a number, or a text or a list and a whole number, not {} and {}",
            left.kind(),
            right.kind()
        ))
    })?;
    let size = allowance::read(many)?;
    let times = |each: u64| each.saturating_mul(count as u64);
    match many.as_str() {
        Some(text) => {
            allowance::charge_text(times(size.bytes))?;
            Ok(Value::from(text.repeat(count)))
        }
        None if matches!(many.kind(), ValueKind::Seq | ValueKind::Iterable) => {
            allowance::charge_values(times(size.values))?;
            allowance::charge_text(times(size.bytes))?;
            let items: Vec<Value> = many.try_iter()?.collect();
            let length = items.len() * count;
            Ok(Value::from(items.into_iter().cycle().take(length).collect::<Vec<_>>()))
        }
        None => Err(invalid(&format!("`*` does not work with {} and {}", left.kind(), right.kind()))),
    }
}

fn product(left: &Value, right: &Value) -> Option<Value> {
    let whole = |value: &Value| {
        let is_whole = value.is_integer() || value.kind() == ValueKind::Bool;
        if is_whole { i128::try_from(value.clone()).ok() } else { None }
    };
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        let product = left.checked_mul(right)?;
        return Some(i64::try_from(product).map_or_else(|_| Value::from(product), Value::from));
    }
    Some(Value::from(f64::try_from(left.clone()).ok()? * f64::try_from(right.clone()).ok()?))
}
