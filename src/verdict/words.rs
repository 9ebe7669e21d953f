//! Formatting of the values that criteria show.

use base::units::{beside_limit, format_ns, format_ns_to};
use terms::threshold::{Clock, DurationSelection, Metric, RequestPhase};

/// `12.3 ms`.
pub(super) fn time(nanos: u64) -> String {
    format_ns(nanos)
}

/// The same beside a limit, with the digits that tell them apart.
pub(super) fn time_beside(nanos: f64, limit_ns: f64) -> String {
    beside_limit(nanos.max(0.0).round(), limit_ns, |ns, more| format_ns_to(ns as u64, more))
}

/// A share in percent beside a limit, likewise.
pub(super) fn percent_beside(value: f64, limit: f64) -> String {
    beside_limit(value, limit, |value, more| match more {
        0 => percent(value),
        more => format!("{value:.*} %", 2 + more),
    })
}

/// A plain number in at most two decimals, or more beside a limit.
pub(super) fn number_beside(value: f64, limit: f64) -> String {
    beside_limit(value, limit, |value, more| {
        let scale = 10_f64.powi(i32::try_from(2 + more).unwrap_or(2));
        format!("{}", (value * scale).round() / scale)
    })
}

/// Nanoseconds as milliseconds.
pub(super) fn milliseconds(nanos: f64) -> f64 {
    nanos / 1e6
}

/// `0.0123 %`, `1.23 %`, `12.3 %`.
pub(super) fn percent(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude < 1e-9 {
        return "0 %".to_owned();
    }
    let decimals = if magnitude < 0.1 {
        4
    } else if magnitude < 9.995 {
        2
    } else {
        1
    };
    let text = format!("{value:.decimals$}");
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

/// The bounds of a value that are known: ` (1 to 2)`, ` (at least 1)`, ` (at most 2)`, or nothing.
pub(super) fn between(low: Option<String>, high: Option<String>) -> String {
    match (low, high) {
        (Some(low), Some(high)) => format!(" ({low} to {high})"),
        (Some(low), None) => format!(" (at least {low})"),
        (None, Some(high)) => format!(" (at most {high})"),
        (None, None) => String::new(),
    }
}

/// Why a metric has no samples, where nothing failed and nothing was cut off.
pub(super) fn unmeasured(metric: &Metric) -> &'static str {
    let Metric::Time(_, DurationSelection { clock: Clock::Phase(phase), .. }) = metric else {
        return match metric {
            Metric::Number(..) => "no answer had this number",
            _ => "nothing ran that this metric measures",
        };
    };
    match phase {
        RequestPhase::Tls => {
            "no request began with a TLS handshake: connections are kept, or are not encrypted"
        }
        RequestPhase::Resolve | RequestPhase::Connect => "no request opened a connection: they are kept",
        RequestPhase::Send | RequestPhase::Wait | RequestPhase::Receive => "no request was sent",
        RequestPhase::First => "no stream was answered",
        RequestPhase::Gap => "no stream had two messages",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_has_the_digits_that_it_needs() {
        for (value, shown) in [
            (0.0, "0 %"),
            (1e-10, "0 %"),
            (0.0123, "0.0123 %"),
            (0.0999, "0.0999 %"),
            (0.1, "0.1 %"),
            (0.123_45, "0.12 %"),
            (-1.234, "-1.23 %"),
            (9.994, "9.99 %"),
            (9.995, "10 %"),
            (12.34, "12.3 %"),
            (100.0, "100 %"),
        ] {
            assert_eq!(percent(value), shown, "{value}");
        }
    }
}
