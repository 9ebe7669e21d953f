//! The operators of numbers, texts and lists: bounded, and without a number that is changed before it is used.
//!
//! minijinja makes a whole number one of 64 bits with a fraction if the other one has a fraction, or to divide it:
//! 9007199254740993 is 9007199254740992 then, in silence. Here it is an error.

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Value};

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
/// Lets through what is about to be divided, or to divide.
pub(super) const REAL: &str = "#real";

/// A double holds every whole number up to this one.
const WHOLE_MAX: u64 = 1 << 53;

/// Adds the operators.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_filter(TIMES, times);
    environment.add_filter(PLUS, plus);
    environment.add_filter(REAL, |value: Value| {
        if value.is_number() {
            real(&value)?;
        }
        Ok::<_, Error>(value)
    });
    environment
        .add_filter(LESS, |left: Value, right: Value| ordered(left, right).map(|(left, right)| left < right));
    environment.add_filter(AT_MOST, |left: Value, right: Value| {
        ordered(left, right).map(|(left, right)| left <= right)
    });
    environment.add_filter(MINUS, |left: &Value, right: &Value| {
        calculated("-", left, right, i128::checked_sub, |left, right| left - right)
    });
    environment.add_filter(WHOLES, |left: &Value, right: &Value| {
        calculated("//", left, right, i128::checked_div_euclid, f64::div_euclid)
    });
    environment.add_filter(REST, |left: &Value, right: &Value| {
        calculated("%", left, right, i128::checked_rem_euclid, |left, right| left % right)
    });
    environment.add_filter(POWER, |left: &Value, right: &Value| {
        let power = |left: i128, right| u32::try_from(right).ok().and_then(|right| left.checked_pow(right));
        calculated("**", left, right, power, f64::powf)
    });
}

/// Whether a number is whole, and the same with 64 bits and a fraction.
pub(super) fn is_small(value: &Value) -> bool {
    value.is_integer()
        && i128::try_from(value.clone()).is_ok_and(|whole| whole.unsigned_abs() <= u128::from(WHOLE_MAX))
}

/// Two values that minijinja puts in order by all of their digits.
fn ordered(left: Value, right: Value) -> Result<(Value, Value), Error> {
    for value in [&left, &right] {
        if value.is_undefined() {
            return Err(Error::from(ErrorKind::UndefinedError));
        }
        allowance::read(value)?;
    }
    Ok(numbers::comparable_pair(&left, &right)?.unwrap_or((left, right)))
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
    Ok(Value::from(reals(real(left)?, real(right)?)))
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
