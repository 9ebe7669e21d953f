//! Numbers and states as the screen writes them.

use base::clock::Nanos;
use base::units::format_ns;
use verdict::standing::{CriterionStanding, StandingState};

use super::canvas::Tone;
use crate::snapshot::{AskedLoad, LoadSnapshot};

/// `608/s`, `12.3/s`, `15.2 k/s`.
pub(super) fn rate(per_s: f64) -> String {
    match per_s {
        10_000.0.. => format!("{:.1}k/s", per_s / 1e3),
        99.95.. => format!("{per_s:.0}/s"),
        _ => format!("{per_s:.1}/s"),
    }
}

/// A count: `608`, `15.2k`, `3.1M`.
pub(super) fn count(count: u64) -> String {
    match count {
        0..=99_999 => count.to_string(),
        100_000..=999_999 => format!("{:.0}k", count as f64 / 1e3),
        _ => format!("{:.1}M", count as f64 / 1e6),
    }
}

/// `1:05`, `1:00:00`.
pub(super) fn clock(ns: Nanos) -> String {
    let seconds = ns / 1_000_000_000;
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

pub(super) fn time(ns: Option<Nanos>) -> String {
    ns.map_or_else(|| "–".to_owned(), format_ns)
}

/// How much of the plan is done, from 0 to 1; `None` if it has no end.
pub(super) fn progress(load: &LoadSnapshot) -> Option<f64> {
    let part = match (load.times, load.duration_ns) {
        (Some(times), _) => (load.ended + load.dropped) as f64 / times.max(1) as f64,
        (None, Some(duration)) => load.elapsed_ns as f64 / duration.max(1) as f64,
        (None, None) => return None,
    };
    Some(part.clamp(0.0, 1.0))
}

/// `0:12 of 0:20`, `0:12, 340 of 2000`.
pub(super) fn position(load: &LoadSnapshot) -> String {
    let elapsed = clock(load.elapsed_ns);
    match (load.times, load.duration_ns) {
        (Some(times), _) => format!("{elapsed}, {} of {}", count(load.ended + load.dropped), count(times)),
        // The last arrival may be due a little before the end that the scenario names.
        (None, Some(duration)) => {
            let whole = duration.div_ceil(1_000_000_000).saturating_mul(1_000_000_000);
            format!("{} of {}", clock(load.elapsed_ns.min(whole)), clock(whole))
        }
        (None, None) => elapsed,
    }
}

/// What the plan asks for.
pub(super) fn asked(asked: AskedLoad) -> Option<String> {
    match asked {
        AskedLoad::Nothing => None,
        AskedLoad::PerSecond(per_s) => Some(format!("{} asked for", rate(per_s))),
        AskedLoad::Users(1) => Some("1 user".to_owned()),
        AskedLoad::Users(users) => Some(format!("{users} users")),
    }
}

/// How a criterion stands, in a few words.
pub(super) fn standing(criterion: &CriterionStanding) -> (String, Tone) {
    let (text, tone) = match criterion.state {
        StandingState::Unmeasured => ("no data yet", Tone::Faint),
        StandingState::Holding => ("holds so far", Tone::Good),
        StandingState::Unclear => ("not clear yet", Tone::Doubtful),
        StandingState::Breaking => ("broken so far", Tone::Bad),
        StandingState::Broken => ("is broken", Tone::Bad),
        StandingState::Later => ("after the load", Tone::Faint),
    };
    (text.to_owned(), tone)
}

/// `clear in about 40 s`.
pub(super) fn forecast(criterion: &CriterionStanding) -> String {
    let seconds = criterion.clear_in_s.filter(|seconds| seconds.is_finite() && *seconds >= 0.0);
    seconds.map_or_else(String::new, |seconds| {
        // Not more exact than it is: in steps of a second, or of two digits.
        let rounded = match seconds {
            ..10.0 => seconds.ceil(),
            ..100.0 => (seconds / 5.0).ceil() * 5.0,
            _ => (seconds / 60.0).ceil() * 60.0,
        };
        match rounded {
            ..=99.0 => format!("clear in about {rounded:.0} s"),
            _ => format!("clear in about {:.0} min", rounded / 60.0),
        }
    })
}

/// A time since the start, in seconds.
pub(super) fn since(ns: Nanos) -> String {
    format!("at {:.1} s", ns as f64 / 1e9)
}
