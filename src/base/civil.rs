//! Times of day in UTC as texts without a zone: `2026-11-20T22:52:01.123456`.
//!
//! Only the years 1 to 9999 have such a text. No calendar but the Gregorian, and no leap second: the
//! 60th counts as the 59th.

use std::ops::Deref;

const DAY_S: i64 = 86_400;
/// Days from 0000-03-01, where the count below begins, to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;
/// Days of four hundred years, after which the calendar repeats.
const ERA_DAYS: i64 = 146_097;

/// Microseconds since 1970 of such a time; the fraction and the seconds may be left out.
#[must_use]
pub fn parse_us(text: &str) -> Option<i64> {
    let (date, time) = text.split_once('T')?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (time, fraction) = time.split_once('.').map_or((time, None), |(time, digits)| (time, Some(digits)));
    let [hour, minute, second] = match time.len() {
        5 if fraction.is_none() => {
            let [hour, minute] = numbers(time, ':', [2, 2])?;
            [hour, minute, 0]
        }
        _ => numbers(time, ':', [2, 2, 2])?,
    };
    let in_range = (1..=9999).contains(&year)
        && (1..=12).contains(&month)
        && (1..=month_days(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    if !in_range {
        return None;
    }
    let seconds = days(year, month, day) * DAY_S + hour * 3_600 + minute * 60 + second.min(59);
    Some(seconds * 1_000_000 + fraction.map_or(Some(0), micros)?)
}

/// How long the text of a time is, in bytes.
pub const TEXT_LEN: usize = 26;

/// The text of a time.
pub struct TimeText([u8; TEXT_LEN]);

impl Deref for TimeText {
    type Target = str;

    fn deref(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The text of a time in microseconds since 1970, which must not be after the year 9999.
#[must_use]
pub fn format_us(unix_us: u64) -> TimeText {
    let (seconds, micros) = (unix_us / 1_000_000, unix_us % 1_000_000);
    let (days, second_of_day) = (seconds / DAY_S.unsigned_abs(), seconds % DAY_S.unsigned_abs());
    let (year, month, day) = date(i64::try_from(days).unwrap_or(i64::MAX));
    let [year, month, day] = [year, month, day].map(i64::unsigned_abs);
    let mut text = *b"0000-00-00T00:00:00.000000";
    for (number, digits) in [
        (year, 0..4),
        (month, 5..7),
        (day, 8..10),
        (second_of_day / 3_600, 11..13),
        (second_of_day % 3_600 / 60, 14..16),
        (second_of_day % 60, 17..19),
        (micros, 20..26),
    ] {
        let mut rest = number;
        for digit in text[digits].iter_mut().rev() {
            *digit = b"0123456789"[(rest % 10) as usize];
            rest /= 10;
        }
    }
    TimeText(text)
}

/// The parts between the separators, each of this many digits.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next().filter(|part| part.len() == digits && is_digits(part))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Digits of a fraction of a second as microseconds; what is finer is cut off.
fn micros(digits: &str) -> Option<i64> {
    if !(1..=9).contains(&digits.len()) || !is_digits(digits) {
        return None;
    }
    let padded = digits.bytes().chain(std::iter::repeat(b'0'));
    Some(padded.take(6).fold(0, |micros, digit| micros * 10 + i64::from(digit - b'0')))
}

fn month_days(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days from 1970-01-01. Years are counted from March, so that a leap day is the last day of its year.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    // March to July, and August to December, have 153 days each.
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - EPOCH_DAYS
}

/// Year, month and day of a number of days from 1970-01-01, which is not negative.
fn date(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS;
    let (era, day) = (days / ERA_DAYS, days % ERA_DAYS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (year * 365 + year / 4 - year / 100);
    let month = (day * 5 + 2) / 153;
    let day = day - (month * 153 + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (era * 400 + year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const END_9999_US: u64 = 253_402_300_799_999_999;

    /// The calendar of another library.
    fn theirs(text: &str) -> Option<i64> {
        let time: jiff::civil::DateTime = text.parse().ok()?;
        jiff::tz::TimeZone::UTC.to_timestamp(time).ok().map(|time| time.as_microsecond())
    }

    #[test]
    fn texts_are_read() {
        for (text, expected) in [
            ("1970-01-01T00:00:00.000001", Some(1)),
            ("1970-01-01T00:00", Some(0)),
            ("1969-12-31T23:59:59.999999", Some(-1)),
            ("2026-11-20T22:52:01.123456", Some(1_795_215_121_123_456)),
            ("2026-11-20T22:52:01", Some(1_795_215_121_000_000)),
            ("2026-11-20T22:52:01.1", Some(1_795_215_121_100_000)),
            ("2026-11-20T22:52:01.123456789", Some(1_795_215_121_123_456)),
            ("2000-02-29T00:00:00", Some(951_782_400_000_000)),
            ("1900-02-29T00:00:00", None),
            ("2026-13-01T00:00:00", None),
            ("2026-11-31T00:00:00", None),
            ("2026-11-20T24:00:00", None),
            ("2026-11-20 22:52:01", None),
            ("2026-11-20T22:52:01Z", None),
            ("2026-11-20T22:52:01.", None),
            ("2026-11-20T+2:52:01", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(parse_us(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_time_reads_as_it_was_written(us in 0..=END_9999_US) {
            let text = format_us(us);
            prop_assert_eq!(parse_us(&text), Some(us as i64));
            prop_assert_eq!(theirs(&text), Some(us as i64));
        }

        #[test]
        fn what_is_read_is_what_others_read(
            text in "[0-9]{4}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-6][0-9](:[0-6][0-9](\\.[0-9]{1,6})?)?"
        ) {
            // Where only the year 0 is told apart.
            prop_assert!(parse_us(&text) == theirs(&text) || text.starts_with("0000"), "{}", text);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[0-9T:. Z+-]{0,30}|.{0,30}") {
            if let Some(us) = parse_us(&text) {
                prop_assert_eq!(Some(us), theirs(&text));
            }
        }
    }
}
