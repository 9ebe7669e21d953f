//! Durations and sizes in human-readable form: `250ms`, `1.5s`, `2m`, `64KiB`.
//!
//! Here, a number without a unit is never a duration. Rally's keys are plain numbers of seconds; their
//! fields parse them separately.

use std::time::Duration;

use super::complaint::Complaint;

const UNITS: [(&str, f64); 6] =
    [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0)];
const HOUR_S: f64 = 3600.0;
/// A value is written with at most this many digits more than usual.
const MORE_DIGITS_MAX: usize = 9;
/// The longest duration in a scenario (a longer one is probably a typing error, and sums must not overflow).
pub const DURATION_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
/// The largest size in a scenario: 1 TiB.
pub const BYTES_MAX: f64 = 1_099_511_627_776.0;

/// Parses a duration: `250ms`, `1.5s`, `2m`, `1h30m`, `0s`.
///
/// # Errors
/// No unit, unknown unit, negative, or over 30 days; the remedy explains how to write a duration.
pub fn parse_duration(text: &str) -> Result<Duration, Complaint> {
    let help = "write a number with a unit, such as 250ms, 1.5s, 2m or 1h";
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(Complaint::new("an empty duration", help));
    }
    let (mut total_s, mut before) = (0.0, f64::INFINITY);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, tail) = rest.split_at(digits);
        let value: f64 =
            number.parse().map_err(|_| Complaint::new(format!("`{text}` is not a duration"), help))?;
        let tail = tail.trim_start();
        let letters = tail.find(|c: char| !c.is_alphabetic()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let factor = if unit == "h" { Some(HOUR_S) } else { UNITS.iter().find(|u| u.0 == unit).map(|u| u.1) };
        let factor = factor.ok_or_else(|| {
            if unit.is_empty() {
                Complaint::new(format!("`{text}` has no unit"), help)
            } else {
                Complaint::new(format!("`{unit}` is not a unit of time"), "use ns, us, ms, s, m or h")
            }
        })?;
        if factor >= before {
            let remedy = "write one; the parts of a duration go from large units to small ones, as in 1m30s";
            return Err(Complaint::new(format!("`{text}` is not one duration"), remedy));
        }
        before = factor;
        total_s += value * factor;
        rest = tail.trim_start();
    }
    if total_s > DURATION_MAX.as_secs_f64() {
        return Err(Complaint::new(format!("`{text}` is longer than 30 days"), "write a shorter duration"));
    }
    Ok(Duration::from_secs_f64(total_s))
}

/// Writes a duration for [`parse_duration`], in the largest unit that gives a whole number: `90s`, `2m`.
#[must_use]
pub fn write_duration(duration: Duration) -> String {
    const UNITS_NS: [(u128, &str); 6] = [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1_000, "us"),
        (1, "ns"),
    ];
    let nanos = duration.as_nanos();
    let whole = UNITS_NS.iter().find(|(unit, _)| nanos > 0 && nanos.is_multiple_of(*unit));
    whole.map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", nanos / unit))
}

/// Writes a size for [`parse_bytes`], in the largest unit that gives a whole number: `64KiB`, `1000`.
#[must_use]
pub fn write_bytes(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = units.into_iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit));
    whole.map_or_else(|| bytes.to_string(), |(unit, name)| format!("{}{name}", bytes / unit))
}

/// Parses a size in bytes: `512`, `64kB`, `64KiB`, `1.5MiB`, `2GB`.
///
/// # Errors
/// Unknown unit, negative, or over 1 TiB; the remedy explains how to write a size.
pub fn parse_bytes(text: &str) -> Result<u64, Complaint> {
    const SIZES: [(&str, f64); 8] = [
        ("", 1.0),
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ];
    let help = "write a size such as 512, 64KiB, 10MB or 1GiB";
    let trimmed = text.trim();
    let digits = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(digits);
    let value: f64 = number.parse().map_err(|_| Complaint::new(format!("`{text}` is not a size"), help))?;
    let known = SIZES.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit.trim()));
    let (_, factor) =
        known.ok_or_else(|| Complaint::new(format!("`{}` is not a unit of size", unit.trim()), help))?;
    let bytes = (value * factor).round();
    if bytes > BYTES_MAX {
        return Err(Complaint::new(format!("`{text}` is more than 1 TiB"), "write a smaller size"));
    }
    Ok(bytes as u64)
}

/// Parses a percentage with its sign: `10%`, `2.5 %`.
///
/// # Errors
/// No sign, no number, or not between `least` and `most`; the remedy explains how to write a percentage.
pub fn parse_percent(text: &str, least: f64, most: f64) -> Result<f64, Complaint> {
    let help = "write a number with its sign, such as 10%";
    let Some(number) = text.trim().strip_suffix('%') else {
        return Err(Complaint::new(format!("`{text}` is not a percentage"), help));
    };
    let value: f64 =
        number.trim().parse().map_err(|_| Complaint::new(format!("`{text}` is not a percentage"), help))?;
    if !(least..=most).contains(&value) {
        return Err(Complaint::new(
            format!("`{text}` is out of range"),
            format!("write {least}% to {most}%"),
        ));
    }
    Ok(value)
}

/// Formats a duration with three significant digits and a suitable unit: `431 µs`, `12.3 ms`, `1.20 s`.
#[must_use]
pub fn format_ns(nanos: u64) -> String {
    whole_digits(nanos).unwrap_or_else(|| format_ns_to(nanos, 0))
}

/// [`format_ns`] with whole numbers only: a trace can have hundreds of thousands of times, and formatting a fraction
/// costs more. `None` where the two could differ: between two digits, and above what a fraction can hold.
fn whole_digits(nanos: u64) -> Option<String> {
    const EXACT_MAX: u64 = 1 << 53;
    let fits = |scale: u64| 2 * nanos < 1_999 * scale;
    let (unit, scale) = match nanos {
        0..=999 => return Some(format!("{nanos} ns")),
        EXACT_MAX.. => return None,
        _ if fits(1_000) => ("µs", 1_000),
        _ if fits(1_000_000) => ("ms", 1_000_000),
        _ => ("s", 1_000_000_000),
    };
    let (decimals, parts) = match 1_000 * u128::from(nanos) / u128::from(scale) {
        99_950.. => (0, 1),
        9_995.. => (1, 10),
        _ => (2, 100),
    };
    let step = scale / parts;
    let (shown, rest) = (nanos / step, nanos % step);
    if 2 * rest == step {
        return None;
    }
    let shown = shown + u64::from(2 * rest > step);
    Some(match decimals {
        0 => format!("{shown} {unit}"),
        _ => format!("{}.{:0decimals$} {unit}", shown / parts, shown % parts),
    })
}

/// [`format_ns`] with this many more digits.
#[must_use]
pub fn format_ns_to(nanos: u64, more: usize) -> String {
    let value = nanos as f64;
    for (unit, scale) in [("ns", 1.0), ("µs", 1e3), ("ms", 1e6)] {
        if value < scale * 999.5 {
            let whole = unit == "ns";
            return format!("{} {unit}", digits(value / scale, whole, if whole { 0 } else { more }));
        }
    }
    format!("{} s", digits(value / 1e9, false, more))
}

/// A value beside its limit, with as many digits as it takes to tell them apart: 8.02 calls are over a limit of 8, and
/// must not be written as 8.0. `shown` writes a value with the given number of extra digits.
#[must_use]
pub fn beside_limit(value: f64, limit: f64, shown: impl Fn(f64, usize) -> String) -> String {
    let is_alike = |more: usize| without_zeros(&shown(value, more)) == without_zeros(&shown(limit, more));
    let differ = value.is_finite() && limit.is_finite() && value != limit;
    let more = (0..=MORE_DIGITS_MAX).find(|more| !is_alike(*more)).filter(|_| differ);
    shown(value, more.unwrap_or(0))
}

/// The significant digits of a number that is not whole.
const NUMBER_DIGITS: usize = 4;

/// Formats a number without a unit: all digits of a whole number, else four significant ones: `1234567`, `19.9`,
/// `0.001235`, `1.5e20`.
#[must_use]
pub fn format_number(value: f64) -> String {
    number_to(value, 0)
}

/// The same beside a limit; see [`beside_limit`].
#[must_use]
pub fn number_beside(value: f64, limit: f64) -> String {
    beside_limit(value, limit, number_to)
}

fn number_to(value: f64, more: usize) -> String {
    let (size, digits) = (value.abs(), NUMBER_DIGITS + more);
    if size < 1e15 && value.fract() == 0.0 {
        return format!("{value:.0}");
    }
    let exponent = size.log10().floor();
    if !(-6.0..15.0).contains(&exponent) {
        return format!("{value:.*e}", digits - 1);
    }
    let decimals = (digits as f64 - 1.0 - exponent).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// `8 calls` of `8.00 calls`.
fn without_zeros(text: &str) -> String {
    let (number, unit) = text.split_at(text.find(' ').unwrap_or(text.len()));
    match number.contains('.') {
        true => format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.')),
        false => text.to_owned(),
    }
}

/// Formats a number of bytes with three significant digits: `999 B`, `1.20 kB`, `25.3 MB`.
#[must_use]
pub fn format_bytes(bytes: u64) -> String {
    let value = bytes as f64;
    for (unit, scale) in [("B", 1.0), ("kB", 1e3), ("MB", 1e6)] {
        if value < scale * 999.5 {
            return format!("{} {unit}", three_digits(value / scale, unit == "B"));
        }
    }
    format!("{} GB", three_digits(value / 1e9, false))
}

fn three_digits(value: f64, whole: bool) -> String {
    digits(value, whole, 0)
}

/// Three significant digits, and `more` further ones.
fn digits(value: f64, whole: bool, more: usize) -> String {
    let decimals = if whole || value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    } + more;
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_beside_its_limit_has_the_digits_that_tell_them_apart() {
        let time = |ns: f64, more: usize| format_ns_to(ns as u64, more);
        for (value, limit, expected) in [
            (250e6, 250e6, "250 ms"),
            (251e6, 250e6, "251 ms"),
            (250.04e6, 250e6, "250.04 ms"),
            (249.96e6, 250e6, "249.96 ms"),
            (1_000.4e6, 1e9, "1.0004 s"),
            (999.96e6, 1e9, "0.99996 s"),
            (250_000_001.0, 250e6, "250.000001 ms"),
            (80.0, 80.0, "80 ns"),
        ] {
            assert_eq!(beside_limit(value, limit, time), expected, "{value} and {limit}");
        }
        let calls = |value: f64, more: usize| match value.fract() == 0.0 {
            true => format!("{value:.0} calls"),
            false => format!("{value:.*} calls", 1 + more),
        };
        for (value, expected) in
            [(8.0, "8 calls"), (8.02, "8.02 calls"), (8.2, "8.2 calls"), (7.996, "7.996 calls")]
        {
            assert_eq!(beside_limit(value, 8.0, calls), expected);
        }
        assert_eq!(beside_limit(f64::NAN, 8.0, calls), "NaN calls");
    }

    proptest::proptest! {
        #[test]
        fn whole_numbers_are_written_as_fractions_are(nanos: u64, shift in 0_u32..64, near in 0_u64..3) {
            let nanos = nanos >> shift;
            let round = (nanos / 500 * 500).saturating_add(near).saturating_sub(1);
            for nanos in [nanos, round] {
                proptest::prop_assert_eq!(format_ns(nanos), format_ns_to(nanos, 0));
            }
        }
    }

    #[test]
    fn bytes_are_shown_with_three_digits() {
        for (bytes, expected) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_204, "1.20 kB"),
            (25_300_000, "25.3 MB"),
            (4_000_000_000_000, "4000 GB"),
        ] {
            assert_eq!(format_bytes(bytes), expected);
        }
    }

    #[test]
    fn percentages_are_read_with_their_sign() {
        for (text, expected) in [("10%", 10.0), (" 2.5 %", 2.5), ("0.1%", 0.1), ("90%", 90.0)] {
            assert_eq!(parse_percent(text, 0.1, 90.0), Ok(expected), "{text}");
        }
        for text in ["10", "%", "-1%", "0%", "91%", "1e9%", "NaN%", "inf%", "1,5%", "ten%", ""] {
            assert!(parse_percent(text, 0.1, 90.0).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, expected) in [
            ("0", 0),
            ("512", 512),
            ("1 B", 1),
            ("64kB", 64_000),
            ("64 KiB", 65_536),
            ("1.5mib", 1_572_864),
            ("2GiB", 2 << 30),
        ] {
            assert_eq!(parse_bytes(text), Ok(expected), "{text}");
        }
        for (text, part) in [
            ("", "is not a size"),
            ("-1", "is not a size"),
            ("1.2.3", "is not a size"),
            ("5 bananas", "`bananas` is not a unit of size"),
            ("9999GiB", "more than 1 TiB"),
        ] {
            assert!(parse_bytes(text).unwrap_err().what.contains(part), "{text}");
        }
    }

    #[test]
    fn durations_are_read_with_their_units() {
        for (text, expected_ms) in [
            ("250ms", 250.0),
            ("1.5s", 1500.0),
            ("2m", 120_000.0),
            ("1h30m", 5_400_000.0),
            ("0s", 0.0),
            ("10 ms", 10.0),
            (" 10us ", 0.01),
            ("10µs", 0.01),
            ("1m 30s", 90_000.0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs_f64(expected_ms / 1e3)), "{text}");
        }
    }

    #[test]
    fn durations_and_sizes_are_written_as_they_are_read() {
        for text in ["0s", "250ms", "1500ms", "90s", "2m", "90m", "1h", "720h", "10us", "999ns"] {
            assert_eq!(write_duration(parse_duration(text).unwrap()), text);
        }
        for text in ["0", "512", "1000", "64KiB", "3MiB", "1025MiB", "2GiB"] {
            assert_eq!(write_bytes(parse_bytes(text).unwrap()), text);
        }
    }

    #[test]
    fn invalid_durations_are_explained() {
        for (text, part) in [
            ("", "empty"),
            ("10", "no unit"),
            ("10 parsecs", "`parsecs` is not a unit"),
            ("5 6ms", "has no unit"),
            ("-1s", "not a duration"),
            ("ms", "not a duration"),
            ("1e3s", "`e` is not a unit"),
            ("100ms 200ms", "not one duration"),
            ("200ms 1s", "not one duration"),
            ("1s1s", "not one duration"),
            ("30s1m", "not one duration"),
            ("1..5s", "not a duration"),
            ("99999h", "longer than 30 days"),
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.what.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn durations_are_shown_in_three_digits() {
        for (nanos, expected) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (431_400, "431 µs"),
            (999_600, "1.00 ms"),
            (12_345_678, "12.3 ms"),
            (812_000_000, "812 ms"),
            (1_204_000_000, "1.20 s"),
            (99_960_000_000, "100 s"),
        ] {
            assert_eq!(format_ns(nanos), expected);
        }
    }
}
