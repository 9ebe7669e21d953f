//! Functions that make values: random ones from [`super::draws`], numbers and dates.

use jiff::civil::Date;
use jiff::{Timestamp, ToSpan as _, tz::TimeZone};
use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Environment, Error, Value};

use super::allowance::{self, invalid};
use super::draws::{below, draw, fraction, number};
use super::fakes;
use super::numbers;

/// The functions that templates may call, with their descriptions.
pub const FUNCTIONS: [(&str, &str); 16] = [
    ("counter(start)", "a number that counts up from `start` (default 1) with each pass through the steps"),
    (
        "date(format, offset)",
        "the current date in UTC, as `%Y-%m-%d` or in another format, moved by an offset such as `-7d` or `2h`",
    ),
    ("dict(…)", "a map from keyword arguments"),
    (
        "fake(kind)",
        "a made-up `name`, `email`, `street`, `city` or other text; an unknown kind lists all kinds",
    ),
    ("namespace(…)", "a map whose values `{% set %}` can change, also within a loop"),
    ("now()", "seconds since the Unix epoch, with a fraction"),
    ("random_bool(probability)", "true or false; true with this probability (default 0.5)"),
    ("random_choice(list)", "an item of a list"),
    (
        "random_date(from, to, format)",
        "a day between two days, both included, as `%Y-%m-%d` or in another format",
    ),
    ("random_float(low, high)", "a random number from `low` up to but not including `high`"),
    ("random_hex(length)", "a text of this many hexadecimal digits"),
    ("random_int(low, high)", "a random whole number, both bounds included"),
    (
        "random_string(length, alphabet)",
        "a text of this many letters and digits, or characters of the alphabet",
    ),
    ("range(start, end, step)", "a list of whole numbers; `end` is not included"),
    ("uuid()", "a random UUID"),
    (
        "weighted_choice(weights)",
        "a key of a map such as `{'read': 9, 'write': 1}`, as often as its weight says",
    ),
];

/// Functions whose values depend on the draws or on the number.
pub(super) const DRAWING: [&str; 11] = [
    "counter",
    "fake",
    "random_bool",
    "random_choice",
    "random_date",
    "random_float",
    "random_hex",
    "random_int",
    "random_string",
    "uuid",
    "weighted_choice",
];

const ALPHANUMERIC: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const DATE_FORMAT: &str = "%Y-%m-%d";
/// The longest date that a format may give.
const DATE_CHARS_MAX: usize = 200;

/// Adds all of them.
pub(super) fn install(environment: &mut Environment<'static>) {
    environment.add_function("uuid", uuid);
    environment.add_function("random_int", random_int);
    environment.add_function("random_float", random_float);
    environment.add_function("random_bool", random_bool);
    environment.add_function("random_string", random_string);
    environment.add_function("random_hex", |length: Value| {
        random_string(length, Some("0123456789abcdef".to_owned()))
    });
    environment.add_function("random_choice", random_choice);
    environment.add_function("weighted_choice", weighted_choice);
    environment.add_function("random_date", random_date);
    environment.add_function("date", date);
    environment.add_function("fake", fakes::fake);
    environment.add_function("counter", |start: Option<Value>| {
        let start = start.map_or(Ok(1), |start| u64::try_from(numbers::operand(start)?))?;
        Ok::<_, Error>(start.saturating_add(number()))
    });
    environment.add_function("now", || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.unwrap_or_default().as_secs_f64()
    });
}

fn uuid() -> String {
    let bits = u128::from(draw()) << 64 | u128::from(draw());
    uuid::Builder::from_random_bytes(bits.to_be_bytes()).into_uuid().to_string()
}

fn random_int(low: Value, high: Value) -> Result<i64, Error> {
    let whole = |value| i64::try_from(numbers::operand(value)?);
    let (low, high) = (whole(low)?, whole(high)?);
    if low > high {
        return Err(invalid("random_int(low, high) needs low <= high"));
    }
    let count = high.abs_diff(low);
    let offset = if count == u64::MAX { draw() } else { below(count + 1) };
    Ok(low.wrapping_add_unsigned(offset))
}

fn random_float(low: Value, high: Value) -> Result<f64, Error> {
    let (low, high) = (numbers::nearest(low)?, numbers::nearest(high)?);
    let found = low + fraction() * (high - low);
    if low < high && found.is_finite() {
        return Ok(found.clamp(low, high));
    }
    Err(invalid("random_float(low, high) needs finite numbers with low < high"))
}

fn random_bool(probability: Option<Value>) -> Result<bool, Error> {
    let probability = probability.map_or(Ok(0.5), numbers::nearest)?;
    if (0.0..=1.0).contains(&probability) {
        return Ok(fraction() < probability);
    }
    Err(invalid("random_bool(probability) needs a number from 0 to 1"))
}

fn random_string(length: Value, alphabet: Option<String>) -> Result<String, Error> {
    let length = u64::try_from(numbers::operand(length)?)?;
    let alphabet = alphabet.as_deref().unwrap_or(ALPHANUMERIC);
    // A character has at most four bytes, and a draw takes longer than a byte.
    allowance::charge_text(length.saturating_mul(4))?;
    allowance::charge(length.saturating_add(alphabet.len() as u64))?;
    if alphabet.is_ascii() {
        let letters = alphabet.as_bytes();
        if letters.is_empty() {
            return Err(invalid("random_string(length, alphabet) needs at least one character"));
        }
        return Ok((0..length).map(|_| char::from(letters[below(letters.len() as u64) as usize])).collect());
    }
    let letters: Vec<char> = alphabet.chars().collect();
    Ok((0..length).map(|_| letters[below(letters.len() as u64) as usize]).collect())
}

fn random_choice(list: &Value) -> Result<Value, Error> {
    allowance::read(list)?;
    let count = list.len().filter(|count| *count > 0 && list.kind() == ValueKind::Seq);
    let count = count.ok_or_else(|| invalid("random_choice(list) needs a list that is not empty"))?;
    list.get_item(&Value::from(below(count as u64)))
}

fn weighted_choice(weights: &Value) -> Result<Value, Error> {
    let wrong = || {
        invalid(
            "weighted_choice(weights) needs a map of positive weights such as {'read': 9, 'write': 1}, or a list of pairs",
        )
    };
    allowance::read(weights)?;
    let is_map = weights.kind() == ValueKind::Map;
    let mut choices = Vec::new();
    for item in weights.try_iter()? {
        let (choice, weight) = match is_map {
            true => (item.clone(), weights.get_item(&item)?),
            false => (item.get_item_by_index(0)?, item.get_item_by_index(1)?),
        };
        let weight = numbers::nearest(weight).ok().filter(|weight| weight.is_finite() && *weight >= 0.0);
        choices.push((choice, weight.ok_or_else(wrong)?));
    }
    let total: f64 = choices.iter().map(|(_, weight)| weight).sum();
    if !(total > 0.0 && total.is_finite()) {
        return Err(wrong());
    }
    let mut left = fraction() * total;
    let possible = choices.into_iter().filter(|(_, weight)| *weight > 0.0);
    let mut last = Value::UNDEFINED;
    for (choice, weight) in possible {
        if left < weight {
            return Ok(choice);
        }
        left -= weight;
        last = choice;
    }
    // Rounding may leave a little over.
    Ok(last)
}

fn random_date(from: &str, to: &str, format: Option<&str>) -> Result<String, Error> {
    let day = |text: &str| {
        text.parse::<Date>()
            .map_err(|_| invalid(format!("random_date: `{text}` is not a day such as 2024-12-31")))
    };
    let (from, to) = (day(from)?, day(to)?);
    let days = (to - from).get_days();
    let Ok(days) = u64::try_from(days) else {
        return Err(invalid("random_date(from, to) needs from <= to"));
    };
    let day = i64::try_from(below(days + 1)).unwrap_or(0);
    let found = from.checked_add(day.days()).map_err(|error| invalid(error.to_string()))?;
    written(format, |format| jiff::fmt::strtime::format(format, found))
}

fn date(format: Option<&str>, offset: Option<&str>, named: Kwargs) -> Result<String, Error> {
    let (named_format, named_offset): (Option<String>, Option<String>) =
        (named.get("format")?, named.get("offset")?);
    named.assert_all_used()?;
    let (format, offset) = (format.or(named_format.as_deref()), offset.or(named_offset.as_deref()));
    let now = Timestamp::now();
    let seconds = offset.map_or(Ok(0), offset_s)?;
    let moved = now.checked_add(seconds.seconds());
    let moved = moved.map_err(|_| invalid("date: the offset is too large"))?.to_zoned(TimeZone::UTC);
    written(format, |format| jiff::fmt::strtime::format(format, &moved))
}

fn written(
    format: Option<&str>,
    write: impl Fn(&str) -> Result<String, jiff::Error>,
) -> Result<String, Error> {
    let format = format.unwrap_or(DATE_FORMAT);
    // Widths in a format could make the text as long as they say.
    if format.len() > DATE_CHARS_MAX
        || format.split(|c: char| !c.is_ascii_digit()).any(|width| width.len() > 2)
    {
        return Err(invalid("the format of a date is too long"));
    }
    write(format).map_err(|error| invalid(format!("the format of the date: {error}")))
}

/// The seconds of an offset such as `-7d`, `2h` or `90s`.
fn offset_s(text: &str) -> Result<i64, Error> {
    let wrong = || invalid(format!("date: `{text}` is not an offset such as -7d, 2h, 30m or 90s"));
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400), ('w', 604_800)];
    let last = text.chars().last().ok_or_else(wrong)?;
    let (_, unit_s) = units.into_iter().find(|(unit, _)| *unit == last).ok_or_else(wrong)?;
    let count: i64 = text.strip_suffix(last).and_then(|count| count.parse().ok()).ok_or_else(wrong)?;
    count.checked_mul(unit_s).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use crate::template::{Engine, FAKE_KINDS, Variables};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn rendered(text: &str, variables: &Variables) -> Result<String, String> {
        let mut output = String::new();
        let compiled = Engine::new().compile(text).map_err(|error| error.0)?;
        compiled.render(variables, &mut output).map_err(|error| error.0)?;
        Ok(output)
    }

    fn drawing(seed: u64, number: u64) -> Variables {
        let mut variables = Variables::new(Arc::default());
        variables.draw_from(seed, 1, number);
        variables
    }

    #[test]
    fn functions_and_filters_give_what_they_promise() {
        for (text, expected) in [
            ("{{ random_int(4, 4) }}{{ random_int(-1, -1) }}", Ok("4-1")),
            ("{{ random_int(5, 4) }}", Err("needs low <= high")),
            ("{{ random_int(-9223372036854775808, 9223372036854775807) is number }}", Ok("true")),
            ("{{ random_float(2, 2) }}", Err("low < high")),
            ("{{ random_bool(1) }}{{ random_bool(0) }}", Ok("truefalse")),
            ("{{ random_bool(2) }}", Err("from 0 to 1")),
            ("{{ random_string(3, 'x') }}{{ random_string(2, 'ä') }}{{ random_string(0) }}", Ok("xxxää")),
            ("{{ random_string(3, '') }}", Err("at least one character")),
            ("{{ random_string(100000000) }}", Err("longer than 16 MiB")),
            ("{{ random_hex(8) | length }}", Ok("8")),
            ("{{ random_choice(['a']) }}", Ok("a")),
            ("{{ random_choice([]) }}", Err("a list that is not empty")),
            ("{{ random_choice('abc') }}", Err("a list that is not empty")),
            ("{{ weighted_choice({'a': 1, 'b': 0}) }}{{ weighted_choice([['c', 2.5]]) }}", Ok("ac")),
            ("{{ weighted_choice({'a': 0}) }}", Err("positive weights")),
            ("{{ weighted_choice({'a': -1}) }}", Err("positive weights")),
            ("{{ random_date('2024-02-29', '2024-02-29') }}", Ok("2024-02-29")),
            ("{{ random_date('2024-02-29', '2024-02-29', '%d.%m.%y') }}", Ok("29.02.24")),
            ("{{ random_date('2024-02-30', '2024-03-01') }}", Err("is not a day")),
            ("{{ random_date('2024-03-02', '2024-03-01') }}", Err("from <= to")),
            ("{{ date('%Y-%m-%dT%H:%M:%SZ') | length }}", Ok("20")),
            ("{{ date(offset='-7d') < date(offset='2w') }}", Ok("true")),
            ("{{ date('%Y', '7') }}", Err("not an offset")),
            ("{{ date('%9999999Y') }}", Err("too long")),
            ("{{ counter() }} {{ counter(100) }} {{ counter() }}", Ok("6 105 6")),
            ("{{ fake('nosuch') }}", Err("it knows name, first_name")),
            ("{{ 'abc' | sha256 }}", Ok("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")),
            ("{{ 'abc' | md5 }}", Ok("900150983cd24fb0d6963f7d28e17f72")),
            ("{{ 'abc' | hash('sha1') }}", Ok("a9993e364706816aba3e25717850c26c9cd0d89d")),
            ("{{ 'abc' | hash('crc') }}", Err("md5, sha1, sha256 or sha512")),
            // RFC 2202, test case 2.
            (
                "{{ 'what do ya want for nothing?' | hmac('Jefe', 'sha1') }}",
                Ok("effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
            ),
            ("{{ 'a?ü' | base64encode }} {{ 'YT/DvA==' | base64decode }}", Ok("YT/DvA== a?ü")),
            ("{{ 'a?ü' | base64encode(true) }}", Ok("YT_DvA")),
            ("{{ '!' | base64decode }}", Err("base64decode")),
            ("{{ 'a b/ü&' | urlencode }}", Ok("a%20b/%C3%BC%26")),
            ("{% macro m() %}{{ counter() }}{% endmacro %}{{ m() }}", Ok("6")),
        ] {
            match (rendered(text, &drawing(7, 5)), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{text}"),
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn draws_depend_on_seed_number_and_order_only() {
        let text = "{{ uuid() }} {{ random_int(0, 1000000) }} {{ fake('name') }}";
        let all = |variables: &Variables| [0; 3].map(|_| rendered(text, variables).unwrap());
        let first = all(&drawing(1, 1));
        assert_eq!(first, all(&drawing(1, 1)));
        // As when another text is rendered in between on the same thread.
        let (one, other) = (drawing(1, 1), drawing(1, 2));
        let turns =
            first.each_ref().map(|_| (rendered(text, &one).unwrap(), rendered(text, &other).unwrap()));
        assert_eq!(turns.map(|(one, _)| one), first);
        let branches = drawing(1, 1);
        let (left, right) = (branches.branch(0), branches.branch(1));
        let sets =
            [first, all(&drawing(2, 1)), all(&other), all(&left), all(&right), all(&branches.branch(0))];
        let distinct: BTreeSet<&String> = sets.iter().flatten().collect();
        assert_eq!(distinct.len(), 18);
    }

    #[test]
    fn every_kind_of_made_up_text_is_there_and_differs() {
        for kind in FAKE_KINDS {
            let texts: BTreeSet<String> = (0..40)
                .map(|n| rendered(&format!("{{{{ fake('{kind}') }}}}"), &drawing(3, n)).unwrap())
                .collect();
            assert!(texts.len() > 5 && !texts.contains(""), "{kind}: {texts:?}");
        }
    }

    #[test]
    fn choices_are_as_frequent_as_they_should_be() {
        let variables = drawing(9, 0);
        let mut counts = [0_u32; 2];
        for _ in 0..4000 {
            let found = rendered("{{ weighted_choice({'read': 3, 'write': 1}) }}", &variables).unwrap();
            counts[usize::from(found == "write")] += 1;
        }
        // Five standard deviations.
        assert!(counts[1].abs_diff(1000) < 137, "{counts:?}");
    }
}
