//! Reads the text of a threshold: `p(99) < 250ms`, `rate(errors) <= 0.1%`, `p95(action "list users") < 100ms`.
//!
//! Every error has its place in the text and a remedy.

mod conditions;
mod shares;

use std::ops::Range;

use shares::{overhead, share};

use super::selector::{PointCondition, Selector};
use super::{
    ASYNCHRONOUS, Clock, CountedOutcome, DurationSelection, Figure, Metric, MetricCondition, MetricSubject,
    Operator, RequestPhase, Statistic, Unit,
};
use base::units::parse_duration;
use text::similar::did_you_mean;

/// What is wrong with a text, where, and what to write instead.
#[derive(Clone, Debug, PartialEq)]
pub struct Mistake {
    /// The range of the faulty bytes.
    pub at: Range<usize>,
    /// What is wrong: a clause in lower case.
    pub message: String,
    /// What to do.
    pub help: String,
}

/// The length limit of a threshold.
const LENGTH_MAX: usize = 1000;
const EXAMPLES: &str =
    "such as p(99) < 250ms, rate(errors) <= 0.1%, p95(action \"NAME\") < 100ms or count(trace \"db\") <= 12";
const METRICS: [&str; 14] = [
    "p95",
    "p99",
    "avg",
    "min",
    "max",
    "med",
    "rate",
    "count",
    "errors",
    "depth",
    "throughput",
    "overhead",
    "share",
    "p",
];
const WORDS: [&str; 19] = [
    "measure",
    "action",
    "tag",
    "function",
    ASYNCHRONOUS,
    "trace",
    "calls",
    "where",
    "depth",
    "response",
    "service",
    "lag",
    "unprofiled",
    "errors",
    "dropped",
    "aborted",
    "resent",
    "iterations",
    "completed",
];

/// Reads a condition.
///
/// # Errors
/// The first error.
pub fn parse(text: &str) -> Result<MetricCondition, Mistake> {
    if text.len() > LENGTH_MAX {
        return Err(mistake(0..text.len(), "a threshold longer than 1000 characters", "shorten it"));
    }
    let mut cursor = Cursor { text, at: 0 };
    let (metric, metric_at) = cursor.metric()?;
    let (operator, operator_at) = cursor.operator()?;
    let limit = cursor.limit(&metric, operator)?;
    let exact = matches!(metric.unit(), Unit::Percent | Unit::Number)
        && !matches!(metric, Metric::Overhead(_) | Metric::Share(_) | Metric::Number(..));
    if operator == Operator::Equal && !exact {
        return Err(mistake(operator_at, "measured values are never exactly equal", "write <= or >="));
    }
    if operator == Operator::Equal && matches!(metric, Metric::Trace(Statistic::Percentile(_), ..)) {
        return Err(mistake(metric_at, "a percentile is compared with <, <=, > or >=", "write <= or >="));
    }
    Ok(MetricCondition { metric, operator, limit })
}

/// Reads a metric without a comparison.
///
/// # Errors
/// The first error.
pub fn parse_metric(text: &str) -> Result<Metric, Mistake> {
    if text.len() > LENGTH_MAX {
        return Err(mistake(0..text.len(), "a metric longer than 1000 characters", "shorten it"));
    }
    let mut cursor = Cursor { text, at: 0 };
    let (metric, _) = cursor.metric()?;
    cursor.skip_blanks();
    if !cursor.rest().is_empty() {
        let at = cursor.at..text.len();
        return Err(mistake(at, "text after the metric", "write only the metric, without a comparison"));
    }
    Ok(metric)
}

fn mistake(at: Range<usize>, message: impl Into<String>, help: impl Into<String>) -> Mistake {
    Mistake { at, message: message.into(), help: help.into() }
}

struct Cursor<'t> {
    text: &'t str,
    at: usize,
}

/// A part of the text in parentheses.
enum Piece {
    Word(String),
    Quoted(String),
    Number(f64),
    Where(Vec<PointCondition>),
}

type Pieces = std::iter::Peekable<std::vec::IntoIter<(Range<usize>, Piece)>>;

impl<'t> Cursor<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip_blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Takes the characters for which `belongs` is true. Returns their place and text.
    fn take(&mut self, belongs: impl Fn(char) -> bool) -> (Range<usize>, &'t str) {
        let rest = self.rest();
        let length = rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        let start = self.at;
        self.at += length;
        (start..self.at, &rest[..length])
    }

    /// The place of the next character, for messages about something missing.
    fn here(&self) -> Range<usize> {
        self.at..self.at + self.rest().chars().next().map_or(0, char::len_utf8)
    }

    fn metric(&mut self) -> Result<(Metric, Range<usize>), Mistake> {
        self.skip_blanks();
        let (name_at, name) = self.take(|c| c.is_alphanumeric() || matches!(c, '.' | '_'));
        if name.is_empty() {
            let message =
                if self.rest().is_empty() { "an empty threshold" } else { "a metric is missing here" };
            return Err(mistake(self.here(), message, format!("write one, {EXAMPLES}")));
        }
        self.skip_blanks();
        let mut pieces = if self.rest().starts_with('(') { self.pieces()? } else { Vec::new() };
        let at = name_at.start..self.at;
        let metric = match name {
            "throughput" => alone(Metric::Throughput, &pieces)?,
            "rate" => event(name, name_at, pieces, Metric::Rate)?,
            "count" => count(name_at, pieces)?,
            "errors" => per_trace(name, name_at, pieces, Figure::Errors)?,
            "depth" => per_trace(name, name_at, pieces, Figure::Depth)?,
            "overhead" => overhead(name_at, pieces)?,
            "share" => share(name_at, pieces)?,
            _ => {
                let statistic = statistic(name, name_at, &mut pieces)?;
                subject(statistic, pieces)?
            }
        };
        Ok((metric, at))
    }

    /// The parts between the parentheses.
    fn pieces(&mut self) -> Result<Vec<(Range<usize>, Piece)>, Mistake> {
        let open = self.here();
        self.at += 1;
        let mut pieces = Vec::new();
        loop {
            self.skip_blanks();
            match self.rest().chars().next() {
                None => return Err(mistake(open, "a parenthesis that is not closed", "close it with `)`")),
                Some(')') => {
                    self.at += 1;
                    return Ok(pieces);
                }
                Some(',') => self.at += 1,
                Some(quote @ ('"' | '\'')) => {
                    let (at, text) = self.quoted_text(quote)?;
                    pieces.push((at, Piece::Quoted(text)));
                }
                Some(c) if c.is_alphanumeric() || c == '_' || c == '.' => {
                    let (at, word) = self.take(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
                    let piece = match word {
                        "where" => Piece::Where(self.conditions(&at)?),
                        _ => word.parse().map_or_else(|_| Piece::Word(word.to_owned()), Piece::Number),
                    };
                    pieces.push((at, piece));
                }
                Some(c) => {
                    let help = "put names in quotes, such as action \"list users\"";
                    return Err(mistake(self.here(), format!("`{c}` has no meaning here"), help));
                }
            }
        }
    }

    fn quoted_text(&mut self, quote: char) -> Result<(Range<usize>, String), Mistake> {
        let start = self.at;
        let mut content = String::new();
        let mut characters = self.rest().char_indices().skip(1);
        while let Some((offset, c)) = characters.next() {
            if c == quote {
                self.at = start + offset + 1;
                return Ok((start..self.at, content));
            }
            match (c, quote) {
                ('\\', '"') => content.extend(characters.next().map(|(_, c)| c)),
                _ => content.push(c),
            }
        }
        Err(mistake(start..self.text.len(), "a quote that is not closed", format!("close it with {quote}")))
    }

    fn operator(&mut self) -> Result<(Operator, Range<usize>), Mistake> {
        self.skip_blanks();
        let (at, found) = self.take(|c| matches!(c, '<' | '>' | '=' | '!' | '≤' | '≥'));
        let help = match found {
            "<" => return Ok((Operator::Below, at)),
            "<=" | "≤" => return Ok((Operator::AtMost, at)),
            ">" => return Ok((Operator::Above, at)),
            ">=" | "≥" => return Ok((Operator::AtLeast, at)),
            "==" => return Ok((Operator::Equal, at)),
            "=" => "write ==, or <= or >=",
            "=<" => "write <=",
            "=>" => "write >=",
            "" => {
                let help = "write <, <=, >, >= or == and the limit, such as < 250ms";
                let message = match self.rest().chars().next() {
                    Some(c) => format!("a comparison is missing before `{c}`"),
                    None => "the comparison is missing".to_owned(),
                };
                return Err(mistake(self.here(), message, help));
            }
            _ => "write <, <=, >, >= or ==",
        };
        Err(mistake(at, format!("`{found}` is not a comparison"), help))
    }

    /// The limit and its unit: the rest of the text.
    fn limit(&mut self, metric: &Metric, operator: Operator) -> Result<f64, Mistake> {
        self.skip_blanks();
        let start = self.at;
        let text = self.rest().trim_end();
        let at = start..start + text.len();
        self.at = self.text.len();
        let mut cursor = Cursor { text, at: 0 };
        let signed = metric.measure().is_some() && text.starts_with('-');
        cursor.at += usize::from(signed);
        let unsigned = cursor.take(|c| c.is_ascii_digit() || c == '.').1;
        let number = &text[..usize::from(signed) + unsigned.len()];
        let unit = text[number.len()..].trim_start();
        let Ok(value) = number.parse::<f64>() else {
            let message = if text.is_empty() {
                "the limit is missing".to_owned()
            } else {
                format!("`{text}` is not a limit")
            };
            return Err(mistake(at, message, with_unit(metric.unit())));
        };
        let value = match metric.unit() {
            Unit::Time if unit.is_empty() && value > 0.0 => {
                let help = format!("write {number}ms or {number}s (k6's plain numbers are milliseconds)");
                return Err(mistake(at, format!("`{number}` has no unit"), help));
            }
            Unit::Time if unit.is_empty() => value,
            Unit::Time => duration_ns(text, &at)?,
            Unit::Percent if unit == "%" || unit.is_empty() && value == 0.0 => value,
            Unit::Percent if unit.is_empty() => {
                let share = value * 100.0;
                let help = format!("write {number}%, or {share}% if {number} is a share of 1");
                return Err(mistake(at, format!("`{number}` has no unit"), help));
            }
            Unit::PerSecond if unit == "/s" => value,
            Unit::Number if unit.is_empty() => value,
            other => return Err(mistake(at, format!("`{text}` does not fit {metric}"), with_unit(other))),
        };
        possible(metric, operator, value, at)
    }
}

/// Rejects limits that are impossible or always met.
fn possible(metric: &Metric, operator: Operator, value: f64, at: Range<usize>) -> Result<f64, Mistake> {
    let has_negatives = matches!(metric, Metric::Overhead(_) | Metric::Number(..));
    if operator == Operator::Below && value == 0.0 && !has_negatives {
        return Err(mistake(at, "nothing is below zero", "write a larger limit, or <= 0"));
    }
    if matches!(metric, Metric::Rate(..) | Metric::Share(_)) {
        if value > 100.0 {
            return Err(mistake(at, format!("{value} % is more than 100 %"), "write 0% to 100%"));
        }
        if operator == Operator::Above && value == 100.0 {
            return Err(mistake(at, "nothing is above 100 %", "write >= 100%"));
        }
    }
    Ok(value)
}

fn with_unit(unit: Unit) -> &'static str {
    match unit {
        Unit::Time => "write a number with a unit of time, such as 250ms or 1.5s",
        Unit::Percent => "write a percentage, such as 0.1%",
        Unit::PerSecond => "write a rate per second, such as 100/s",
        Unit::Number => "write a plain number, such as 12",
    }
}

fn duration_ns(text: &str, at: &Range<usize>) -> Result<f64, Mistake> {
    match parse_duration(text) {
        Ok(duration) => Ok(duration.as_nanos() as f64),
        Err(complaint) => Err(mistake(at.clone(), complaint.what, complaint.remedy)),
    }
}

fn unknown_metric(name: &str, at: Range<usize>) -> Mistake {
    let of_number = name.rsplit_once('.').filter(|(_, statistic)| METRICS.contains(statistic));
    let help = match did_you_mean(name, METRICS) {
        _ if let Some((measure, statistic)) = of_number => {
            format!("write {statistic}(measure \"{measure}\") if `measure` takes `{measure}` from answers")
        }
        Some(known) => format!("did you mean `{known}`?"),
        None => format!(
            "known metrics: p(95) and similar, avg, min, max, med, rate, count, throughput, overhead; {EXAMPLES}"
        ),
    };
    mistake(at, format!("unknown metric `{name}`"), help)
}

fn statistic(
    name: &str,
    at: Range<usize>,
    pieces: &mut Vec<(Range<usize>, Piece)>,
) -> Result<Statistic, Mistake> {
    let percent = match name {
        "avg" | "mean" => return Ok(Statistic::Mean),
        "min" => return Ok(Statistic::Min),
        "max" => return Ok(Statistic::Max),
        "med" | "median" => return Ok(Statistic::Percentile(50.0)),
        "p" => match pieces.first() {
            Some((number_at, Piece::Number(percent))) => {
                let (percent, number_at) = (*percent, number_at.clone());
                pieces.remove(0);
                return percentile(percent, number_at);
            }
            _ => return Err(mistake(at, "`p` without its percentile", "write p(95) or p95")),
        },
        _ => name.strip_prefix('p').and_then(|number| number.parse::<f64>().ok()),
    };
    percent.map_or_else(|| Err(unknown_metric(name, at.clone())), |percent| percentile(percent, at.clone()))
}

fn percentile(percent: f64, at: Range<usize>) -> Result<Statistic, Mistake> {
    if percent > 0.0 && percent < 100.0 {
        return Ok(Statistic::Percentile(percent));
    }
    let help = "percentiles are between 0 and 100; write min or max for the ends";
    Err(mistake(at, format!("there is no {percent}th percentile"), help))
}

/// The durations or trace points to which a statistic applies.
fn subject(statistic: Statistic, pieces: Vec<(Range<usize>, Piece)>) -> Result<Metric, Mistake> {
    let (mut times, mut clock, mut trace) = (DurationSelection::default(), None, None);
    let mut pieces = pieces.into_iter().peekable();
    while let Some((at, piece)) = pieces.next() {
        let word = match piece {
            Piece::Word(word) => word,
            Piece::Where(_) => return Err(misplaced_where(at)),
            _ => {
                let help = "write action \"NAME\", trace \"NAME\" or calls \"NAME\"";
                return Err(mistake(at, "a name without `action`, `trace` or `calls` before it", help));
            }
        };
        let figure = match word.as_str() {
            "trace" => Some(Figure::Time),
            "calls" => Some(Figure::Calls),
            "errors" => Some(Figure::Errors),
            "depth" => Some(Figure::Depth),
            _ => None,
        };
        match (word.as_str(), figure) {
            (_, Some(figure)) => {
                let points = selector(&word, figure, at, &mut pieces)?;
                trace = Some(Metric::Trace(statistic, figure, points));
            }
            ("response", _) => clock = Some(Clock::Response),
            ("service", _) => clock = Some(Clock::Service),
            ("lag", _) => clock = Some(Clock::QueueTime),
            (word, _) if let Some(phase) = RequestPhase::named(word) => clock = Some(Clock::Phase(phase)),
            ("unprofiled", _) => times.unprofiled = true,
            (ASYNCHRONOUS, _) => trace = Some(Metric::Asynchronous(statistic)),
            ("measure", _) => {
                trace = Some(Metric::Number(statistic, name(&word, at, &mut pieces)?));
            }
            ("action" | "tag", _) => {
                let named = named(&word, at, &mut pieces)?;
                times.subject = Some(only(times.subject.take(), named)?);
            }
            _ => return Err(unknown_word(&word, at)),
        }
    }
    if let Some(trace) = trace {
        return if times == DurationSelection::default() && clock.is_none() {
            Ok(trace)
        } else {
            Err(mistake(
                0..0,
                "a trace point, a number or asynchronous work cannot be combined with an action or a clock",
                "write only that",
            ))
        };
    }
    let usual = if times.subject.is_some() { Clock::Service } else { Clock::Response };
    times.clock = clock.unwrap_or(usual);
    Ok(Metric::Time(statistic, times))
}

/// The trace points after `trace`, `calls`, `errors` or `depth`.
fn selector(word: &str, figure: Figure, at: Range<usize>, pieces: &mut Pieces) -> Result<Selector, Mistake> {
    let bare = matches!(pieces.peek(), None | Some((_, Piece::Where(_))));
    let name = if bare { None } else { Some(name(word, at.clone(), pieces)?) };
    let conditions = match pieces.next_if(|(_, piece)| matches!(piece, Piece::Where(_))) {
        Some((_, Piece::Where(conditions))) => conditions,
        _ => Vec::new(),
    };
    let selector = Selector { name, conditions };
    if selector.is_all() && figure == Figure::Time {
        return Err(mistake(at, format!("`{word}` without its name"), format!("write {word} \"NAME\"")));
    }
    Ok(selector)
}

fn misplaced_where(at: Range<usize>) -> Mistake {
    mistake(
        at,
        "`where` without trace points before it",
        "write it after trace, such as count(trace where error)",
    )
}

fn name(
    word: &str,
    at: Range<usize>,
    pieces: &mut impl Iterator<Item = (Range<usize>, Piece)>,
) -> Result<String, Mistake> {
    match pieces.next() {
        Some((_, Piece::Quoted(name))) if !name.is_empty() => Ok(name),
        Some((at, Piece::Word(first))) => {
            let (mut end, mut name) = (at.end, first);
            for (at, piece) in pieces {
                match piece {
                    Piece::Word(further) => name = format!("{name} {further}"),
                    Piece::Number(further) => name = format!("{name} {further}"),
                    Piece::Quoted(_) | Piece::Where(_) => break,
                }
                end = at.end;
            }
            let message = format!("the name {name} is not in quotes");
            Err(mistake(at.start..end, message, format!("write {word} \"{name}\"")))
        }
        _ => Err(mistake(at, format!("`{word}` without its name"), format!("write {word} \"NAME\""))),
    }
}

/// The requests after `action` or `tag`, with their place.
fn named(
    word: &str,
    at: Range<usize>,
    pieces: &mut impl Iterator<Item = (Range<usize>, Piece)>,
) -> Result<(Range<usize>, MetricSubject), Mistake> {
    let name = name(word, at.clone(), pieces)?;
    if word == "action" {
        return Ok((at, MetricSubject::Action(name)));
    }
    match name.split_once('=') {
        Some((tag, value)) if !tag.is_empty() && !value.is_empty() => Ok((at, MetricSubject::Tag(name))),
        _ => {
            let tag = name.trim_matches('=');
            let help = format!("write tag \"{}=VALUE\"", if tag.is_empty() { "NAME" } else { tag });
            Err(mistake(at, "a tag without its name or its value", help))
        }
    }
}

/// A metric is about one action or one tag.
fn only(
    known: Option<MetricSubject>,
    (at, new): (Range<usize>, MetricSubject),
) -> Result<MetricSubject, Mistake> {
    let Some(known) = known else { return Ok(new) };
    Err(mistake(at, format!("both {known} and {new}"), "write one threshold for each"))
}

fn unknown_word(word: &str, at: Range<usize>) -> Mistake {
    let help = match did_you_mean(word, WORDS.into_iter().chain(RequestPhase::ALL.map(RequestPhase::word))) {
        Some(known) => format!("did you mean `{known}`?"),
        None => {
            "known words: response, service, lag, a phase such as wait, first or gap, asynchronous, unprofiled, measure \"NAME\", action \"NAME\", tag \"NAME=VALUE\", trace \"NAME\", calls \"NAME\""
                .to_owned()
        }
    };
    mistake(at, format!("unknown word `{word}`"), help)
}

fn alone(metric: Metric, pieces: &[(Range<usize>, Piece)]) -> Result<Metric, Mistake> {
    match pieces.first() {
        None => Ok(metric),
        Some((at, _)) => {
            Err(mistake(at.clone(), format!("{metric} takes nothing in parentheses"), "remove it"))
        }
    }
}

fn event(
    metric: &str,
    metric_at: Range<usize>,
    pieces: Vec<(Range<usize>, Piece)>,
    make: impl Fn(CountedOutcome, Option<MetricSubject>) -> Metric,
) -> Result<Metric, Mistake> {
    let (mut found, mut subject) = (None, None);
    let mut pieces = pieces.into_iter();
    while let Some((at, piece)) = pieces.next() {
        let Piece::Word(word) = piece else {
            if matches!(piece, Piece::Where(_)) {
                return Err(misplaced_where(at));
            }
            return Err(mistake(
                at,
                "a name without `action`, `trace` or `calls` before it",
                "write action \"NAME\"",
            ));
        };
        match word.as_str() {
            "errors" => found = Some(CountedOutcome::Errors),
            "dropped" => found = Some(CountedOutcome::Dropped),
            "aborted" => found = Some(CountedOutcome::Aborted),
            "resent" => found = Some(CountedOutcome::Resent),
            "iterations" | "completed" if metric == "count" => found = Some(CountedOutcome::Completed),
            "action" | "tag" => {
                let named = named(&word, at, &mut pieces)?;
                subject = Some(only(subject.take(), named)?);
            }
            _ => return Err(unknown_word(&word, at)),
        }
    }
    match (found, &subject) {
        (None, _) => {
            let help =
                format!("write {metric}(errors), {metric}(dropped), {metric}(aborted) or {metric}(resent)");
            Err(mistake(metric_at, format!("`{metric}` of what?"), help))
        }
        (Some(event), Some(_)) if !event.is_of_ended() => Err(mistake(
            metric_at,
            format!("{event} can only be counted for iterations"),
            "remove the action or tag",
        )),
        (Some(event), _) => Ok(make(event, subject)),
    }
}

fn count(at: Range<usize>, mut pieces: Vec<(Range<usize>, Piece)>) -> Result<Metric, Mistake> {
    let of_trace =
        matches!(pieces.first(), Some((_, Piece::Word(word))) if word == "trace" || word == "calls");
    if !of_trace {
        return event("count", at, pieces, Metric::Count);
    }
    if let Some((_, Piece::Word(word))) = pieces.first_mut() {
        "calls".clone_into(word);
    }
    subject(Statistic::Mean, pieces)
}

/// `errors(trace …)` and `depth(trace …)`: the mean of a figure of each trace.
fn per_trace(
    metric: &str,
    at: Range<usize>,
    mut pieces: Vec<(Range<usize>, Piece)>,
    figure: Figure,
) -> Result<Metric, Mistake> {
    let of_trace = matches!(pieces.first(), Some((_, Piece::Word(word))) if word == "trace");
    if !of_trace {
        let other = if figure == Figure::Errors { "; for failed iterations, count(errors)" } else { "" };
        let help = format!("write {metric}(trace) or {metric}(trace \"NAME\"){other}");
        return Err(mistake(at, format!("`{metric}` of what?"), help));
    }
    if let Some((_, Piece::Word(word))) = pieces.first_mut() {
        metric.clone_into(word);
    }
    subject(Statistic::Mean, pieces)
}
