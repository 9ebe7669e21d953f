//! The filter `format`: Python's `'%s %.1f' % (…)`.
//!
//! Source: Python, "printf-style String Formatting".

use minijinja::value::ValueKind;
use minijinja::{Error, Value};

use super::numbers::{self, TextNotation};

/// A conversion of a format: the name of its value, if it has one, and its type, such as `s`; `*` is a width.
type Conversion<'f> = (Option<&'f str>, char);

/// The format and its values as minijinja's filter takes them: texts as they show, and numbers to calculate with where
/// the format rounds them.
pub(super) fn prepared(format: &Value, values: &[Value], shows: TextNotation) -> Result<Vec<Value>, Error> {
    let conversions = conversions(format.as_str().unwrap_or_default());
    let is_text = |kind: char| matches!(kind, 's' | 'r' | 'a');
    let one = |value: &Value, kind: char| match value.kind() {
        ValueKind::Bool if !is_text(kind) => Ok(Value::from(i64::from(value.is_true()))),
        ValueKind::Bool | ValueKind::None | ValueKind::Seq => {
            Ok::<_, Error>(shows.shown(value)?.unwrap_or_else(|| value.clone()))
        }
        ValueKind::Plain if is_text(kind) && numbers::digits_of(value).is_some() => {
            Ok(Value::from(value.to_string()))
        }
        ValueKind::Plain | ValueKind::Number => {
            let value = numbers::operand(value.clone())?;
            // Python cuts off a fraction here.
            let is_whole = matches!(kind, 'd' | 'i' | 'u');
            let cut = f64::try_from(value.clone()).ok().filter(|real| is_whole && real.is_finite());
            match cut.filter(|_| !value.is_integer()) {
                // The next double above is no whole number of 128 bits.
                Some(real) if real.abs() >= i128::MAX as f64 => {
                    Err(numbers::would_change(&value.to_string()))
                }
                Some(real) => Ok(Value::from(real as i128)),
                None => Ok(value),
            }
        }
        _ => Ok(value.clone()),
    };
    let of_name = |name: &Value| {
        let has_name = |of: &&Conversion<'_>| of.0.is_some() && of.0 == name.as_str();
        conversions.iter().find(has_name).map_or('s', |found| found.1)
    };
    let mut prepared = vec![format.clone()];
    for (index, value) in values.iter().enumerate() {
        prepared.push(match value.kind() {
            ValueKind::Map if conversions.iter().any(|found| found.0.is_some()) => {
                let pair = |key: Value| Ok((key.clone(), one(&value.get_item(&key)?, of_name(&key))?));
                value.try_iter()?.map(pair).collect::<Result<Value, Error>>()?
            }
            _ => one(value, conversions.get(index).map_or('s', |found| found.1))?,
        });
    }
    Ok(prepared)
}

/// The conversions of a format, in the order in which they take values.
fn conversions(format: &str) -> Vec<Conversion<'_>> {
    let (mut found, mut rest) = (Vec::new(), format);
    while let Some(at) = rest.find('%') {
        rest = &rest[at + 1..];
        let named = rest.strip_prefix('(').and_then(|named| named.split_once(')'));
        let name = named.map(|(name, after)| {
            rest = after;
            name
        });
        for (at, c) in rest.char_indices() {
            match c {
                '#' | '0'..='9' | '-' | ' ' | '+' | '.' | 'h' | 'l' | 'L' => continue,
                '*' => {
                    found.push((None, c));
                    continue;
                }
                '%' => {}
                kind => found.push((name, kind)),
            }
            rest = &rest[at + c.len_utf8()..];
            break;
        }
    }
    found
}

/// An upper bound for the sum of all widths and precisions in a format.
pub(super) fn widths(format: &str, arguments: &[Value]) -> u64 {
    let written = format.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let written = written.map(|digits| digits.parse().unwrap_or(u64::MAX));
    // A `*` takes a width from the arguments.
    let given = arguments.iter().skip(1).filter(|_| format.contains('*'));
    let given = given.filter_map(|value| i64::try_from(value.clone()).ok()).map(i64::unsigned_abs);
    written.chain(given).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conversions_are_found_in_the_order_of_their_values() {
        for (format, expected) in [
            ("", ""),
            ("100%", ""),
            ("%s and %%s %d", "s d"),
            ("%5.2f%-*s%.*f%ld%ü", "f * s * f d ü"),
            ("%(a)s %(b)05.1f", "a:s b:f"),
        ] {
            let found = conversions(format).into_iter();
            let found =
                found.map(|(name, kind)| name.map_or(kind.to_string(), |name| format!("{name}:{kind}")));
            assert_eq!(found.collect::<Vec<_>>().join(" "), expected, "{format}");
        }
    }
}
