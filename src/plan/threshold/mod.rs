//! A threshold: what is measured, how it is compared, with what.
//!
//! In files and in the run log a threshold is its text. Nothing here judges.

mod contradiction;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use crate::base::clock::{Nanos, saturating_nanos};

pub use contradiction::find as contradictions;
pub use parse::{Mistake, parse};

/// A condition with how it is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    /// The condition.
    pub condition: Condition,
    /// It must hold in every stretch of this length.
    pub window_ns: Option<Nanos>,
    /// With fewer samples it is INVALID.
    pub min_samples: Option<u64>,
    /// How long after its workload's start the load may be ended by it; absent when it never ends the load.
    pub abort_after_ns: Option<Nanos>,
    /// True when the run does not fail by it.
    pub warn: bool,
}

/// What must hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// What is measured.
    pub metric: Metric,
    /// How it is compared.
    pub operator: Operator,
    /// With what: nanoseconds of times, percent of shares, plain numbers otherwise.
    pub limit: f64,
}

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub enum Metric {
    /// Durations of iterations or of an action's requests.
    Time(Statistic, Times),
    /// The share of iterations, or of an action's requests, that ended in a way.
    Rate(Event, Option<String>),
    /// Their number.
    Count(Event, Option<String>),
    /// Completed iterations a second.
    Throughput,
    /// The time that services spend in points of a name, an iteration.
    TraceTime(Statistic, String),
    /// How many points of a name there are, an iteration.
    TraceCalls(Statistic, String),
    /// What profiling itself adds at a percentile of service time, in percent.
    Overhead(f64),
}

/// One number of many.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// The value that this share of samples, in percent, does not exceed; between 0 and 100.
    Percentile(f64),
    /// The arithmetic mean.
    Mean,
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

/// Which durations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Times {
    /// Of this action's requests; of iterations when absent.
    pub action: Option<String>,
    /// From when to when.
    pub clock: Clock,
    /// Only of iterations that were left unprofiled for comparison.
    pub unprofiled: bool,
}

/// From when to when a duration counts.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Clock {
    /// From when an iteration was due to its end; the default of iterations.
    #[default]
    Response,
    /// From the real start to the end; the default of actions.
    Service,
    /// From when an iteration was due to its start.
    Lag,
}

/// How something ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Event {
    /// With a fault.
    Errors,
    /// It was due and never started.
    Dropped,
    /// It was cut off by the end of the run.
    Aborted,
    /// It came to its end, well or not.
    Completed,
}

impl Event {
    /// True when only what came to its end can be one.
    #[must_use]
    pub fn is_of_ended(self) -> bool {
        self == Self::Errors
    }
}

/// How a value is compared with the limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Operator {
    /// `<`
    Below,
    /// `<=`
    AtMost,
    /// `>`
    Above,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
}

impl Operator {
    /// True when small values are good.
    #[must_use]
    pub fn bounds_above(self) -> bool {
        matches!(self, Self::Below | Self::AtMost)
    }

    /// Compares exactly.
    #[must_use]
    #[expect(clippy::float_cmp, reason = "an exact number is meant where it is compared with ==")]
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Below => value < limit,
            Self::AtMost => value <= limit,
            Self::Above => value > limit,
            Self::AtLeast => value >= limit,
            Self::Equal => value == limit,
        }
    }

    /// As it is written.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            Self::Below => "<",
            Self::AtMost => "<=",
            Self::Above => ">",
            Self::AtLeast => ">=",
            Self::Equal => "==",
        }
    }
}

impl Metric {
    /// The action that it is of.
    #[must_use]
    pub fn action(&self) -> Option<&str> {
        match self {
            Self::Time(_, times) => times.action.as_deref(),
            Self::Rate(_, action) | Self::Count(_, action) => action.as_deref(),
            _ => None,
        }
    }

    /// True when it is measured in fetched traces.
    #[must_use]
    pub fn needs_traces(&self) -> bool {
        matches!(self, Self::TraceTime(..) | Self::TraceCalls(..))
    }

    /// True when it needs iterations that were left unprofiled for comparison.
    #[must_use]
    pub fn needs_control(&self) -> bool {
        matches!(self, Self::Overhead(_)) || matches!(self, Self::Time(_, times) if times.unprofiled)
    }

    /// True of the largest time.
    #[must_use]
    pub fn is_max(&self) -> bool {
        matches!(self, Self::Time(Statistic::Max, _))
    }

    /// True of what counts iterations that were done.
    #[must_use]
    pub fn counts_done(&self) -> bool {
        matches!(self, Self::Throughput | Self::Count(Event::Completed, _))
    }

    /// The unit of its limit.
    #[must_use]
    pub fn unit(&self) -> Unit {
        match self {
            Self::Time(..) | Self::TraceTime(..) => Unit::Time,
            Self::Rate(..) | Self::Overhead(_) => Unit::Percent,
            Self::Throughput => Unit::PerSecond,
            Self::Count(..) | Self::TraceCalls(..) => Unit::Number,
        }
    }
}

/// The unit of a limit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Unit {
    /// A duration.
    Time,
    /// A share.
    Percent,
    /// A rate.
    PerSecond,
    /// A plain number.
    Number,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ", self.metric, self.operator.text())?;
        match self.metric.unit() {
            Unit::Time => {
                let scale = [("s", 1e9), ("ms", 1e6), ("us", 1e3)];
                let (unit, scale) =
                    scale.into_iter().find(|(_, scale)| self.limit >= *scale).unwrap_or(("ns", 1.0));
                write!(f, "{}{unit}", self.limit / scale)
            }
            Unit::Percent => write!(f, "{}%", self.limit),
            Unit::PerSecond => write!(f, "{}/s", self.limit),
            Unit::Number => write!(f, "{}", self.limit),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
        let of = |action: &Option<String>| {
            action.as_deref().map_or_else(String::new, |action| format!(" action {}", quoted(action)))
        };
        match self {
            Self::Time(statistic, times) => {
                let words = times.to_string();
                if words.is_empty() { write!(f, "{statistic}") } else { write!(f, "{statistic}({words})") }
            }
            Self::Rate(event, action) => write!(f, "rate({event}{})", of(action)),
            Self::Count(event, action) => write!(f, "count({event}{})", of(action)),
            Self::Throughput => f.write_str("throughput"),
            Self::TraceTime(statistic, point) => write!(f, "{statistic}(trace {})", quoted(point)),
            Self::TraceCalls(Statistic::Mean, point) => write!(f, "count(trace {})", quoted(point)),
            Self::TraceCalls(statistic, point) => write!(f, "{statistic}(calls {})", quoted(point)),
            Self::Overhead(percentile) => write!(f, "overhead(p{percentile})"),
        }
    }
}

impl fmt::Display for Statistic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Percentile(percent) => write!(f, "p{percent}"),
            Self::Mean => f.write_str("avg"),
            Self::Min => f.write_str("min"),
            Self::Max => f.write_str("max"),
        }
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = if self.action.is_some() { Clock::Service } else { Clock::Response };
        let mut words = Vec::new();
        if self.unprofiled {
            words.push("unprofiled".to_owned());
        }
        if self.clock != usual {
            words.push(self.clock.word().to_owned());
        }
        if let Some(action) = &self.action {
            words.push(format!("action \"{}\"", action.replace('\\', "\\\\").replace('"', "\\\"")));
        }
        f.write_str(&words.join(" "))
    }
}

impl Clock {
    /// As it is written.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Service => "service",
            Self::Lag => "lag",
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Errors => "errors",
            Self::Dropped => "dropped",
            Self::Aborted => "aborted",
            Self::Completed => "iterations",
        })
    }
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.condition)?;
        match self.window_ns {
            Some(window_ns) => {
                write!(f, " in every {}", Seconds(Duration::from_nanos(window_ns)))
            }
            None => Ok(()),
        }
    }
}

/// A length in seconds, without needless digits.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs_f64())
    }
}

/// How long the load runs before a threshold may end it, unless it says otherwise.
#[must_use]
pub fn usual_delay_ns() -> Nanos {
    saturating_nanos(Duration::from_secs(10))
}
