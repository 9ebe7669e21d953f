//! A threshold: a metric, a comparison and a limit.
//!
//! In files and in the run log, a threshold is stored as text. This module must not judge thresholds.

mod contradiction;
mod parse;
pub mod selector;
mod subject;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use base::clock::{Nanos, saturating_nanos};

pub use contradiction::find as contradictions;
pub use parse::{Mistake, parse, parse_metric};
use selector::Selector;
pub use subject::MetricSubject;

/// The word for asynchronous work in a threshold.
const ASYNCHRONOUS: &str = "asynchronous";

/// A condition and its options.
#[derive(Clone, Debug, PartialEq)]
pub struct Threshold {
    pub condition: MetricCondition,
    /// The condition must hold in every window of this length.
    pub window_ns: Option<Nanos>,
    /// With fewer samples, the verdict is INVALID.
    pub min_samples: Option<u64>,
    /// How long after its workload's start the threshold may end the load; absent if it never does.
    pub abort_after_ns: Option<Nanos>,
    /// True if the threshold only warns and cannot fail the run.
    pub warn: bool,
}

/// A condition on a metric.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricCondition {
    pub metric: Metric,
    /// The comparison.
    pub operator: Operator,
    /// The limit: in nanoseconds for times, in percent for shares, otherwise a plain number.
    pub limit: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Metric {
    /// Durations of iterations or of requests.
    Time(Statistic, DurationSelection),
    /// The share of iterations, or of requests, that ended in this way.
    Rate(CountedOutcome, Option<MetricSubject>),
    /// The number of iterations, or of requests, that ended in this way.
    Count(CountedOutcome, Option<MetricSubject>),
    /// Completed iterations per second.
    Throughput,
    /// A figure of each iteration's trace, over the trace points that services report.
    Trace(Statistic, Figure, Selector),
    /// The time from an iteration's start to the end of the last span of its trace.
    Asynchronous(Statistic),
    /// The overhead of profiling at a percentile of service time, in percent.
    Overhead(f64),
    /// The numbers that actions take from their answers under this name.
    Number(Statistic, String),
    /// The share of processor time in a function and what it calls, of all that services sampled, in percent.
    Share(String),
}

/// A figure of the selected points of one trace.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Figure {
    /// The time in them. A selected point within another adds none.
    Time,
    /// How many there are.
    Calls,
    /// How many of them failed.
    Errors,
    /// The largest depth of one: 1 for an outermost point, 0 without any.
    Depth,
}

impl Figure {
    /// The word before the points in a metric with a statistic: `max(calls "db")`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Time => "trace",
            Self::Calls => "calls",
            Self::Errors => "errors",
            Self::Depth => "depth",
        }
    }
}

/// A statistic of many values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Statistic {
    /// The value that this percentage of samples does not exceed; between 0 and 100.
    Percentile(f64),
    /// The arithmetic mean.
    Mean,
    /// The smallest value.
    Min,
    /// The largest value.
    Max,
}

/// Which durations to use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DurationSelection {
    /// The requests whose durations are used; if absent, the iterations' are.
    pub subject: Option<MetricSubject>,
    /// The start and the end of the duration.
    pub clock: Clock,
    /// True to use only iterations that were left unprofiled for comparison.
    pub unprofiled: bool,
}

/// The start and the end of a duration.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Clock {
    /// From the iteration's due time to the end; the default for iterations.
    #[default]
    Response,
    /// From the actual start to the end; the default for requests.
    Service,
    /// From the iteration's due time to its start.
    QueueTime,
    /// The phase of a request; only of requests that had it.
    Phase(RequestPhase),
}

/// A phase of a request over a connection.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum RequestPhase {
    /// Resolving the host's name.
    Resolve,
    /// The TCP handshake.
    Connect,
    /// The TLS handshake.
    Tls,
    /// Writing the request.
    Send,
    /// From the request's last byte to the answer's first.
    Wait,
    /// From the answer's first byte to its last.
    Receive,
    /// From sending to the first message of a stream.
    First,
    /// Between the messages of a stream, each gap a value of its own.
    Gap,
}

impl RequestPhase {
    /// All of them, in their order.
    pub const ALL: [Self; 8] = [
        Self::Resolve,
        Self::Connect,
        Self::Tls,
        Self::Send,
        Self::Wait,
        Self::Receive,
        Self::First,
        Self::Gap,
    ];

    /// The text of it in a threshold.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::Send => "send",
            Self::Wait => "wait",
            Self::Receive => "receive",
            Self::First => "first",
            Self::Gap => "gap",
        }
    }

    /// True for the phases that only a stream of messages has.
    #[must_use]
    pub fn is_of_streams(self) -> bool {
        matches!(self, Self::First | Self::Gap)
    }

    /// The phase with this name.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.word() == word)
    }
}

/// How an iteration or a request ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum CountedOutcome {
    /// It failed.
    Errors,
    /// It was due but never started.
    Dropped,
    /// It was cut off by the end of the run.
    Aborted,
    /// It came to its end, and sent a request once more, because the connection of the first attempt had ended.
    Resent,
    /// It ended, whether it succeeded or failed.
    Completed,
}

impl CountedOutcome {
    /// True if only something that ended can count as this event.
    #[must_use]
    pub fn is_of_ended(self) -> bool {
        matches!(self, Self::Errors | Self::Resent)
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
    /// True if the limit is an upper limit.
    #[must_use]
    pub fn bounds_above(self) -> bool {
        matches!(self, Self::Below | Self::AtMost)
    }

    /// Compares exactly.
    #[must_use]
    #[expect(clippy::float_cmp, reason = "== compares exactly, as the user asked")]
    pub fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Below => value < limit,
            Self::AtMost => value <= limit,
            Self::Above => value > limit,
            Self::AtLeast => value >= limit,
            Self::Equal => value == limit,
        }
    }

    /// The text of it in a threshold.
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
    /// The requests that the metric is about, if any.
    #[must_use]
    pub fn subject(&self) -> Option<&MetricSubject> {
        match self {
            Self::Time(_, times) => times.subject.as_ref(),
            Self::Rate(_, subject) | Self::Count(_, subject) => subject.as_ref(),
            _ => None,
        }
    }

    /// True for a time of streams.
    #[must_use]
    pub fn is_of_streams(&self) -> bool {
        matches!(self, Self::Time(_, DurationSelection { clock: Clock::Phase(phase), .. }) if phase.is_of_streams())
    }

    /// The name of the numbers that the metric is about, if it is about numbers from answers.
    #[must_use]
    pub fn measure(&self) -> Option<&str> {
        match self {
            Self::Number(_, name) => Some(name),
            _ => None,
        }
    }

    /// True if the metric needs fetched traces.
    #[must_use]
    pub fn needs_traces(&self) -> bool {
        matches!(self, Self::Trace(..) | Self::Asynchronous(_) | Self::Share(_))
    }

    /// True if the metric is known only when the load is over.
    #[must_use]
    pub fn is_known_late(&self) -> bool {
        matches!(self, Self::Overhead(_)) || self.needs_traces()
    }

    /// True if the metric needs iterations that were left unprofiled for comparison.
    #[must_use]
    pub fn needs_control(&self) -> bool {
        matches!(self, Self::Overhead(_)) || matches!(self, Self::Time(_, times) if times.unprofiled)
    }

    /// True for the largest time or number.
    #[must_use]
    pub fn is_max(&self) -> bool {
        matches!(self, Self::Time(Statistic::Max, _) | Self::Number(Statistic::Max, _))
    }

    /// True if the metric counts completed iterations.
    #[must_use]
    pub fn counts_done(&self) -> bool {
        matches!(self, Self::Throughput | Self::Count(CountedOutcome::Completed, _))
    }

    /// The unit of the metric's limit.
    #[must_use]
    pub fn unit(&self) -> Unit {
        match self {
            Self::Time(..) | Self::Trace(_, Figure::Time, _) | Self::Asynchronous(_) => Unit::Time,
            Self::Rate(..) | Self::Overhead(_) | Self::Share(_) => Unit::Percent,
            Self::Throughput => Unit::PerSecond,
            Self::Count(..) | Self::Trace(..) | Self::Number(..) => Unit::Number,
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

impl fmt::Display for MetricCondition {
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
        let of = |subject: &Option<MetricSubject>| {
            subject.as_ref().map_or_else(String::new, |subject| format!(" {subject}"))
        };
        match self {
            Self::Time(statistic, times) => {
                let words = times.to_string();
                if words.is_empty() { write!(f, "{statistic}") } else { write!(f, "{statistic}({words})") }
            }
            Self::Rate(event, subject) => write!(f, "rate({event}{})", of(subject)),
            Self::Count(event, subject) => write!(f, "count({event}{})", of(subject)),
            Self::Throughput => f.write_str("throughput"),
            Self::Trace(statistic, figure, points) => {
                let (head, word) = match (figure, statistic) {
                    (Figure::Calls, Statistic::Mean) => ("count".to_owned(), "trace"),
                    (Figure::Errors | Figure::Depth, Statistic::Mean) => (figure.word().to_owned(), "trace"),
                    _ => (statistic.to_string(), figure.word()),
                };
                let blank = if points.is_all() { "" } else { " " };
                write!(f, "{head}({word}{blank}{points})")
            }
            Self::Asynchronous(statistic) => write!(f, "{statistic}({ASYNCHRONOUS})"),
            Self::Overhead(percentile) => write!(f, "overhead(p{percentile})"),
            Self::Number(statistic, name) => write!(f, "{statistic}(measure {})", quoted(name)),
            Self::Share(function) => write!(f, "share(function {})", quoted(function)),
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

impl fmt::Display for DurationSelection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = if self.subject.is_some() { Clock::Service } else { Clock::Response };
        let mut words = Vec::new();
        if self.unprofiled {
            words.push("unprofiled".to_owned());
        }
        if self.clock != usual {
            words.push(self.clock.word().to_owned());
        }
        words.extend(self.subject.as_ref().map(MetricSubject::to_string));
        f.write_str(&words.join(" "))
    }
}

impl Clock {
    /// The text of it in a threshold.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Service => "service",
            Self::QueueTime => "lag",
            Self::Phase(phase) => phase.word(),
        }
    }
}

impl fmt::Display for CountedOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Errors => "errors",
            Self::Dropped => "dropped",
            Self::Aborted => "aborted",
            Self::Resent => "resent",
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

/// A duration in seconds, without unnecessary digits.
struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs_f64())
    }
}

/// A text in quotes, as a threshold has it.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// How long the load runs before a threshold may end it, if the threshold has no `delay`.
#[must_use]
pub fn usual_delay_ns() -> Nanos {
    saturating_nanos(Duration::from_secs(10))
}
