//! The operators of numbers, texts and lists: bounded, and without a number that is changed before it is used.
//!
//! minijinja makes a whole number one of 64 bits with a fraction if the other one has a fraction, or to divide it:
//! 9007199254740993 is 9007199254740992 then, in silence. Here it is an error.

use minijinja::value::{Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, Value};

use super::{allowance, numbers};

/// The operator `*`.
pub(super) const TIMES: &str = "#times";
/// The operator `+`.
pub(super) const PLUS: &str = "#plus";
/// The operator `-`.
pub(super) const MINUS: &str = "#minus";
/// The operator `//`.
pub(super) const WHOLES: &str = "#wholes";
/// The operator `%`.
pub(super) const REST: &str = "#rest";
/// The operator `**`.
pub(super) const POWER: &str = "#power";
/// The operator `<`.
pub(super) const LESS: &str = "#less";
/// The operator `<=`.
pub(super) const AT_MOST: &str = "#at_most";
/// The operator `/`.
pub(super) const DIVIDED: &str = "#divided";
/// `a < b <= c != d`: values, and the name of the operator between each two.
pub(super) const CHAIN: &str = "#chain";

/// A double holds every whole number up to this one.
const WHOLE_MAX: u64 = 1 << 53;

/// Adds the operators.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_filter(TIMES, times);
    environment.add_filter(PLUS, plus);
    environment.add_filter(LESS, |left: &Value, right: &Value| holds("<", left, right));
    environment.add_filter(AT_MOST, |left: &Value, right: &Value| holds("<=", left, right));
    environment.add_filter(CHAIN, chain);
    environment.add_filter(MINUS, |left: &Value, right: &Value| {
        calculated("-", left, right, i128::checked_sub, |left, right| left - right)
    });
    environment.add_filter(DIVIDED, |left: &Value, right: &Value| {
        // Whole numbers are divided as those with a fraction.
        calculated("/", &fraction(left)?, &fraction(right)?, |_, _| None, |left, right| left / right)
    });
    environment.add_filter(WHOLES, |left: &Value, right: &Value| {
        let wholes = |left, right| Some(i128::checked_div(left, right)? - i128::from(is_below(left, right)));
        calculated("//", left, right, wholes, |left, right| ((left - rest(left, right)) / right).round())
    });
    environment.add_filter(REST, |left: &Value, right: &Value| {
        let wholes = |left, right| {
            let rest = i128::checked_rem(left, right)?;
            Some(if is_below(left, right) { rest + right } else { rest })
        };
        calculated("%", left, right, wholes, rest)
    });
    environment.add_filter(POWER, power);
}

/// Whether a whole number is less than the next multiple of another one towards zero: Python rounds down.
fn is_below(left: i128, right: i128) -> bool {
    (left < 0) != (right < 0) && left % right != 0
}

/// The rest of a division that is rounded down, as in Python.
fn rest(left: f64, right: f64) -> f64 {
    let rest = left % right;
    if rest != 0.0 && (rest < 0.0) != (right < 0.0) { rest + right } else { rest }
}

fn power(left: &Value, right: &Value) -> Result<Value, Error> {
    let is_negative = whole(right).is_some_and(|right| right < 0);
    let left = if is_negative { fraction(left)? } else { left.clone() };
    let wholes = |left: i128, right| u32::try_from(right).ok().and_then(|right| left.checked_pow(right));
    calculated("**", &left, right, wholes, f64::powf)
}

/// A number as one of 64 bits with a fraction, if it has the same value; other values as they are.
fn fraction(value: &Value) -> Result<Value, Error> {
    if is_scalar(value) { real(value).map(Value::from) } else { Ok(value.clone()) }
}

/// Whether a number is whole, and the same with 64 bits and a fraction.
pub(super) fn is_small(value: &Value) -> bool {
    value.is_integer()
        && i128::try_from(value.clone()).is_ok_and(|whole| whole.unsigned_abs() <= u128::from(WHOLE_MAX))
}

/// Whether `left < right` or `left <= right`: numbers by all of their digits, truth values as 0 and 1.
///
/// # Errors
/// As in Python, the two cannot be put in order.
pub(super) fn holds(operator: &str, left: &Value, right: &Value) -> Result<bool, Error> {
    let (mut left, mut right) = pair(operator, left, right)?;
    // Lists are in the order of the first items that differ.
    while Class::of(&left) == Class::List {
        let differs = |(one, other): &(Value, Value)| {
            numbers::same_value(one.clone()) != numbers::same_value(other.clone())
        };
        (left, right) = match left.try_iter()?.zip(right.try_iter()?).find(differs) {
            Some((one, other)) => pair(operator, &one, &other)?,
            None => (Value::from(left.try_iter()?.count()), Value::from(right.try_iter()?.count())),
        };
    }
    let (left, right) = numbers::comparable_pair(&left, &right)?.unwrap_or((left, right));
    Ok(match operator {
        "<" => left < right,
        "<=" => left <= right,
        ">" => left > right,
        _ => left >= right,
    })
}

/// Two values that can be put in order.
fn pair(operator: &str, left: &Value, right: &Value) -> Result<(Value, Value), Error> {
    for value in [left, right] {
        if value.is_undefined() {
            return Err(Error::from(ErrorKind::UndefinedError));
        }
        allowance::read(value)?;
    }
    let (kind, other) = (Class::of(left), Class::of(right));
    if kind != other || kind == Class::Other {
        return Err(invalid(format!(
            "`{operator}` cannot put {} and {} in order",
            named(left),
            named(right)
        )));
    }
    let one = |value: &Value| match value.kind() {
        ValueKind::Bool => Value::from(i64::from(value.is_true())),
        _ => value.clone(),
    };
    Ok((one(left), one(right)))
}

/// Values that have an order among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Number,
    Text,
    Bytes,
    List,
    Other,
}

impl Class {
    fn of(value: &Value) -> Self {
        match value.kind() {
            ValueKind::Number | ValueKind::Bool => Self::Number,
            ValueKind::String => Self::Text,
            ValueKind::Bytes => Self::Bytes,
            ValueKind::Seq | ValueKind::Iterable => Self::List,
            _ if numbers::digits_of(value).is_some() => Self::Number,
            _ => Self::Other,
        }
    }
}

/// What a message calls a value.
fn named(value: &Value) -> String {
    match Class::of(value) {
        Class::Text => format!("the text '{}'", few(value.as_str().unwrap_or_default())),
        Class::Number => few(&value.to_string()),
        Class::List => "a list".to_owned(),
        Class::Bytes => "bytes".to_owned(),
        Class::Other if value.is_none() => "nothing".to_owned(),
        Class::Other => format!("a {}", value.kind()),
    }
}

fn few(text: &str) -> String {
    /// The most characters of a value that a message shows.
    const SHOWN_MAX: usize = 40;
    match text.char_indices().nth(SHOWN_MAX) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// `a < b <= c != d in e`: each two must be so.
fn chain(state: &State<'_, '_>, first: &Value, others: Rest<Value>) -> Result<bool, Error> {
    let mut left = first;
    for [operator, right] in others.as_chunks::<2>().0 {
        let same = |value: &Value| numbers::same_value(value.clone());
        let is_so = match operator.as_str().unwrap_or_default() {
            "==" => same(left) == same(right),
            "!=" => same(left) != same(right),
            "in" => minijinja::tests::is_in(state, &same(left), &same(right))?,
            "not in" => !minijinja::tests::is_in(state, &same(left), &same(right))?,
            order => holds(order, left, right)?,
        };
        if !is_so {
            return Ok(false);
        }
        left = right;
    }
    Ok(true)
}

/// Refuses a list whose items cannot be put in order: texts beside numbers.
pub(super) fn sortable(name: &str, list: &Value) -> Result<(), Error> {
    let Ok(items) = list.try_iter() else { return Ok(()) };
    let mut first = None;
    for item in items {
        let class = Class::of(&item);
        match &first {
            None => first = Some((class, item)),
            Some((other, _)) if *other == class => {}
            Some((_, other)) => {
                let (one, other) = (named(other), named(&item));
                return Err(invalid(format!("{name} cannot put {one} and {other} in order")));
            }
        }
    }
    Ok(())
}

/// The sum of numbers, by all digits of whole ones.
pub(super) fn sum(list: &Value) -> Result<Value, Error> {
    list.try_iter()?.try_fold(Value::from(0), |sum, item| {
        calculated("+", &sum, &item, i128::checked_add, |left, right| left + right)
    })
}

fn is_scalar(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Number | ValueKind::Bool)
}

fn whole(value: &Value) -> Option<i128> {
    let is_whole = value.is_integer() || value.kind() == ValueKind::Bool;
    if is_whole { i128::try_from(value.clone()).ok() } else { None }
}

/// The number of 64 bits with a fraction, which must have the same value.
fn real(value: &Value) -> Result<f64, Error> {
    let Some(whole) = whole(value) else {
        // Above 2^127 a number is whole, but no whole number of 128 bits.
        return if value.is_integer() {
            Err(numbers::would_change(&value.to_string()))
        } else {
            f64::try_from(value.clone())
        };
    };
    let real = whole as f64;
    // A cast stops at the largest whole number.
    let is_kept = real.abs() < i128::MAX as f64 && real as i128 == whole;
    if is_kept { Ok(real) } else { Err(numbers::would_change(&whole.to_string())) }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

fn calculated(
    operator: &str,
    left: &Value,
    right: &Value,
    wholes: impl Fn(i128, i128) -> Option<i128>,
    reals: impl Fn(f64, f64) -> f64,
) -> Result<Value, Error> {
    if !is_scalar(left) || !is_scalar(right) {
        return Err(invalid(format!("`{operator}` does not work with {} and {}", left.kind(), right.kind())));
    }
    if let (Some(left), Some(right)) = (whole(left), whole(right)) {
        let made = wholes(left, right)
            .ok_or_else(|| invalid(format!("unable to calculate {left} {operator} {right}")))?;
        return Ok(i64::try_from(made).map_or_else(|_| Value::from(made), Value::from));
    }
    let (left, right) = (real(left)?, real(right)?);
    let made = reals(left, right);
    if !made.is_finite() && left.is_finite() && right.is_finite() {
        return Err(invalid(format!("unable to calculate {left} {operator} {right}")));
    }
    Ok(Value::from(made))
}

fn plus(left: &Value, right: &Value) -> Result<Value, Error> {
    let is_list = |value: &Value| matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable);
    let made = match (left.as_str(), right.as_str()) {
        (Some(left), Some(right)) => Value::from([left, right].concat()),
        _ if is_list(left) && is_list(right) => {
            Value::from(left.try_iter()?.chain(right.try_iter()?).collect::<Vec<_>>())
        }
        _ => return calculated("+", left, right, i128::checked_add, |left, right| left + right),
    };
    allowance::made(&made)?;
    Ok(made)
}

fn times(left: &Value, right: &Value) -> Result<Value, Error> {
    let (left, right) = (&numbers::operand(left.clone())?, &numbers::operand(right.clone())?);
    if is_scalar(left) && is_scalar(right) {
        return calculated("*", left, right, i128::checked_mul, |left, right| left * right);
    }
    let (many, count) = if is_scalar(left) { (right, left) } else { (left, right) };
    let count = count.as_usize().ok_or_else(|| {
        invalid(format!(
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
        None => Err(invalid(format!("`*` does not work with {} and {}", left.kind(), right.kind()))),
    }
}
