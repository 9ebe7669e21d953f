//! Documents whose numbers differ as doubles wherever they differ at all: filters of JSONPath compare doubles.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

use super::{Decimal, is_held_by_a_double, of_number};

/// The document with another double for each number that a double does not hold, so that doubles are in the order of the
/// numbers that they stand for. `None` if doubles hold all of them.
///
/// A number that a double holds stays what it is, so that it equals a literal, unless there is no double between it and
/// its neighbours.
#[must_use]
pub fn told_apart(exact: &Value) -> Option<Value> {
    let mut numbers = Vec::new();
    collect(exact, &mut numbers);
    if numbers.iter().all(|digits| is_held_by_a_double(digits)) {
        return None;
    }
    let (below, above): (Vec<&str>, Vec<&str>) =
        numbers.iter().map(String::as_str).partition(|digits| digits.starts_with('-'));
    let mut doubles = BTreeMap::new();
    assign(above, &mut doubles, 1.0);
    assign(below, &mut doubles, -1.0);
    Some(replaced(exact, &doubles))
}

fn collect(value: &Value, numbers: &mut Vec<String>) {
    match (of_number(value), value) {
        (Some(digits), _) => numbers.push(digits.into_owned()),
        (None, Value::Array(items)) => items.iter().for_each(|item| collect(item, numbers)),
        (None, Value::Object(map)) => map.values().for_each(|item| collect(item, numbers)),
        (None, _) => {}
    }
}

/// Chooses a double for each of these numbers of one sign, from zero outwards.
fn assign<'n>(numbers: Vec<&'n str>, doubles: &mut BTreeMap<&'n str, f64>, sign: f64) {
    let mut sizes: Vec<(Decimal<'n>, &'n str)> = numbers
        .into_iter()
        .filter_map(|digits| Some((Decimal::parse(digits.trim_start_matches('-'))?, digits)))
        .collect();
    sizes.sort_by(|a, b| a.0.cmp(&b.0));
    let mut last: Option<(Decimal<'n>, f64)> = None;
    for (size, digits) in sizes {
        let double = match last {
            Some((same, double)) if same == size => double,
            Some((_, smaller)) => near(size, digits).max(smaller.next_up()),
            None => near(size, digits),
        };
        last = Some((size, double));
        doubles.insert(digits, sign * double);
    }
}

/// The nearest double, or the next one to it if that stands for another number.
fn near(size: Decimal<'_>, digits: &str) -> f64 {
    let nearest = digits.parse::<f64>().map_or(f64::MAX, |double| double.abs().min(f64::MAX));
    let shown = nearest.to_string();
    match Decimal::parse(&shown).map(|shown| size.cmp(&shown)) {
        Some(std::cmp::Ordering::Greater) => nearest.next_up(),
        Some(std::cmp::Ordering::Less) => nearest.next_down(),
        _ => nearest,
    }
}

fn replaced(value: &Value, doubles: &BTreeMap<&str, f64>) -> Value {
    match (of_number(value), value) {
        (Some(digits), _) => {
            let double = doubles.get(&*digits).copied().unwrap_or_default().clamp(f64::MIN, f64::MAX);
            let is_kept = value.as_f64().is_some_and(|kept| kept == double);
            let number = if is_kept { None } else { Number::from_f64(double) };
            number.map_or_else(|| value.clone(), Value::Number)
        }
        (None, Value::Array(items)) => items.iter().map(|item| replaced(item, doubles)).collect(),
        (None, Value::Object(map)) => {
            Value::Object(map.iter().map(|(key, item)| (key.clone(), replaced(item, doubles))).collect())
        }
        (None, other) => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::digits;

    fn doubles(json: &str) -> Option<Vec<f64>> {
        let told = told_apart(&digits::parse(json.as_bytes()).unwrap())?;
        Some(told.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect())
    }

    #[test]
    fn what_doubles_hold_stays() {
        assert_eq!(doubles("[1, 1.50, -0.1, 9007199254740991, 0.30000000000000004]"), None);
        let both = doubles("[0.3, 0.3000000000000000000001, -9007199254740993, 7, 1E400]").unwrap();
        assert_eq!((both[0], both[3]), (0.3, 7.0));
        assert!(both[1] > 0.3 && both[4] > 1e308 && both[2] < -9_007_199_254_740_991.0, "{both:?}");
    }

    proptest! {
        #[test]
        fn doubles_are_in_the_order_of_their_numbers(
            near in prop::collection::vec(-40_i64..40, 2..40),
            base in prop::sample::select(vec![0_i64, 1 << 53, -(1 << 53), i64::MAX - 40, i64::MIN + 40]),
            zeros in 0_usize..20,
        ) {
            let written = |n: &i64| format!("{}.0{}", base + n, "0".repeat(zeros));
            let json = format!("[{}, 9007199254740993]", near.iter().map(written).collect::<Vec<_>>().join(","));
            let found = doubles(&json).unwrap();
            for (a, x) in near.iter().zip(&found) {
                for (b, y) in near.iter().zip(&found) {
                    prop_assert_eq!(a.cmp(b), x.total_cmp(y), "{} {}: {:?}", a, b, found);
                }
            }
        }
    }
}
