//! Wall-clock times as text.

/// Parses an RFC 3339 time, such as [`rfc3339`] writes, as nanoseconds since 1970; `None` if it is not valid.
#[must_use]
pub fn from_rfc3339(text: &str) -> Option<i128> {
    text.parse::<jiff::Timestamp>().ok().map(|time| time.as_nanosecond())
}

/// A wall-clock time as RFC 3339 in UTC with milliseconds, `2026-11-20T22:52:01.123Z`.
#[must_use]
pub fn rfc3339(unix_ns: u64) -> String {
    let timestamp = jiff::Timestamp::from_nanosecond(i128::from(unix_ns)).unwrap_or_default();
    format!("{timestamp:.3}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wall_clock_times_are_printed_in_utc_with_milliseconds() {
        for (unix_ns, expected) in
            [(0, "1970-01-01T00:00:00.000Z"), (1_582_790_665_789_433_000, "2020-02-27T08:04:25.789Z")]
        {
            assert_eq!(rfc3339(unix_ns), expected);
        }
    }
}
