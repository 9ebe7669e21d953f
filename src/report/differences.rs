//! What slow iterations have more often than typical ones anywhere in their traces, in words. Nothing here may compute a
//! statistic.

use super::document::StyledLine;
use super::texts::{duration, with_sign};
use analysis::client_features::{ADDRESS, ANSWER, CONNECTION, REQUESTS, RESENT, ROW, STATUS, TIMES};
use analysis::feature::{CLIENT, is_bound};
use results::model::{
    AttributeDifference, AttributeValue, Comparison, Correlation, FirstIterations, Rhythm, SlowPlaces,
};

/// At most this many differences are sentences; tables show all.
const SENTENCES_MAX: usize = 3;
/// Sentences shorten values; tables show all of them.
const VALUE_CHARS_MAX: usize = 100;

/// Where in the run slow ones are, and a sentence for each of the largest differences.
#[must_use]
pub fn sentences(comparison: &Comparison) -> Vec<StyledLine> {
    let found = comparison.differences.iter().flat_map(|differences| &differences.found);
    lines(comparison.places.as_ref(), found, comparison.typical_ms)
}

/// The same from its parts.
pub(super) fn lines<'a>(
    places: Option<&SlowPlaces>,
    found: impl Iterator<Item = &'a AttributeDifference>,
    typical_ms: f64,
) -> Vec<StyledLine> {
    let places = places.into_iter().flat_map(|places| {
        let first = places.first.as_ref().map(|first| first_ones(first, typical_ms));
        first.into_iter().chain(places.rhythm.as_ref().map(rhythm))
    });
    places.chain(found.take(SENTENCES_MAX).map(sentence)).collect()
}

/// `The first 4 of 300 iterations are slow ones (…)`.
fn first_ones(first: &FirstIterations, typical_ms: f64) -> StyledLine {
    let FirstIterations { slow, among, of, slow_ms, warm_up, .. } = first;
    let which = match slow == among {
        true => format!("The first {among} of {of} iterations are slow ones"),
        false => format!("{slow} of the first {among} of {of} iterations are slow ones"),
    };
    let mut line = StyledLine::from(format!(
        "{which} ({} on average, typical ones {}): cold caches, connections or tokens? ",
        duration(*slow_ms),
        duration(typical_ms)
    ));
    line.code(format!("warm_up: {{ times: {} }}", among + warm_up)).text(" leaves them out.").done()
}

/// `Slow ones come every 10.0 s (88 % of them; 30 % would by chance): …`.
fn rhythm(rhythm: &Rhythm) -> StyledLine {
    let shares = format!("{} of them; {} by chance", percent(rhythm.share), percent(rhythm.share_by_chance));
    match (rhythm.every_iterations, rhythm.every_s) {
        (Some(2), _) => format!(
            "Slow ones are every second iteration ({shares}): a row of the data, or one of two hosts or connections?"
        ),
        (Some(every), _) => format!(
            "Slow ones are every {} iteration ({shares}): a row of the data, or one of several hosts or connections \
             in turn?",
            ordinal(every)
        ),
        (None, every_s) => format!(
            "Slow ones come every {} ({shares}): garbage collection, a periodic job or a timer?",
            duration(every_s.unwrap_or(0.0) * 1e3)
        ),
    }
    .into()
}

/// `3rd`, `10th`.
fn ordinal(number: u64) -> String {
    let ending = match (number % 10, number % 100) {
        (1, hundredth) if hundredth != 11 => "st",
        (2, hundredth) if hundredth != 12 => "nd",
        (3, hundredth) if hundredth != 13 => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

fn sentence(difference: &AttributeDifference) -> StyledLine {
    let mut line = StyledLine::from("Slow ones more often ");
    line.line(having(&difference.value));
    line.text(format!(
        " ({} against {}; at least {:.0} points more)",
        percent(difference.slow_share),
        percent(difference.typical_share),
        (difference.low * 100.0).floor()
    ));
    if let Some(Correlation { rho, low, high }) = difference.correlation {
        let [rho, low, high] = [rho, low, high].map(|value| with_sign(value, |size| format!("{size:.2}")));
        line.text(format!("; its rank correlation with the time is {rho} ({low} to {high})"));
    }
    for (number, same) in difference.same.iter().enumerate() {
        line.text(if number == 0 { ", and with it " } else { ", " }).line(named(same));
    }
    if difference.same_more > 0 {
        line.text(format!(" and {} more", difference.same_more));
    }
    line.text(".").done()
}

/// `have k8s.pod.name=api-7`, `call db SELECT …`.
pub(super) fn having(value: &AttributeValue) -> StyledLine {
    let verb = match value.attribute.as_str() {
        "point" => "call ",
        "service" => "reach the service ",
        "error" => "have a point that fails with ",
        "event" => "have the event ",
        _ => "have ",
    };
    let mut line = StyledLine::from(verb);
    if value.attribute.starts_with(CLIENT) {
        return of_client(value);
    }
    let own = matches!(value.attribute.as_str(), "point" | "service" | "error" | "event");
    if own {
        return line.code(in_short(&value.value)).done();
    }
    if is_bound(&value.value) {
        return line.code(in_short(&value.attribute)).text(" of ").text(in_short(&value.value)).done();
    }
    line.line(named(value)).done()
}

/// `open a new connection`, `get an answer of at least 64 KiB in action list`.
fn of_client(value: &AttributeValue) -> StyledLine {
    let text = &value.value;
    match (value.attribute.as_str(), &value.point) {
        (ADDRESS, _) => return StyledLine::from("get their answers from ").code(text).done(),
        (ROW, Some(data)) => {
            return StyledLine::from(format!("use row {text} of ")).code(in_short(data)).done();
        }
        _ => {}
    }
    let mut line = StyledLine::from(match value.attribute.as_str() {
        CONNECTION => "open a new connection".to_owned(),
        RESENT => match text.as_str() {
            "connection" => "have to ask again for a connection".to_owned(),
            "request" => "have to send segments of a request again".to_owned(),
            _ => "get segments of an answer out of order".to_owned(),
        },
        ANSWER => format!("get an answer of {text}"),
        STATUS => format!("get the status {text}"),
        REQUESTS => format!("send {text} requests"),
        TIMES => format!("run {text} times"),
        other => format!("have {other} {text}"),
    });
    if let Some(action) = &value.point {
        let word = if value.attribute == TIMES { " action " } else { " in action " };
        line.text(word).code(in_short(action));
    }
    line.done()
}

/// An attribute with its value and, where it matters, its point.
fn named(value: &AttributeValue) -> StyledLine {
    let mut line = StyledLine::default();
    if value.attribute.starts_with(CLIENT) {
        return line.text("they ").line(of_client(value)).done();
    }
    if value.attribute == "point" {
        return line.code(in_short(&value.value)).done();
    }
    line.code(in_short(&format!("{}={}", value.attribute, value.value)));
    if let Some(point) = &value.point {
        line.text(" at ").code(in_short(point));
    }
    line.done()
}

/// The texts of a table's row: the values, the shares, and the bounds of their difference.
#[must_use]
pub fn row(difference: &AttributeDifference) -> [String; 4] {
    let value = |value: &AttributeValue| {
        if let (ROW, Some(data)) = (value.attribute.as_str(), &value.point) {
            return format!("row {} of {data}", value.value);
        }
        let at = value.point.as_ref().map_or_else(String::new, |point| format!(" at {point}"));
        format!("{} = {}{at}", value.attribute, value.value)
    };
    let mut values: Vec<String> =
        std::iter::once(&difference.value).chain(&difference.same).map(value).collect();
    if difference.same_more > 0 {
        values.push(format!("and {} more", difference.same_more));
    }
    let points = |share: f64| with_sign(share * 100.0, |size| format!("{size:.0}"));
    [
        values.join("; "),
        percent(difference.slow_share),
        percent(difference.typical_share),
        format!("{} to {} points", points(difference.low), points(difference.high)),
    ]
}

/// What was compared, as a hint below a table.
#[must_use]
pub fn basis(comparison: &Comparison) -> String {
    let Some(differences) = &comparison.differences else { return String::new() };
    let more = match differences.more {
        0 => String::new(),
        more => format!(" {more} further differences are not listed."),
    };
    let left_out = match differences.left_out {
        0 => String::new(),
        count => format!(" {count} attributes with too many values were left out."),
    };
    format!(
        "The share of {} slow and of {} typical traces that have the value at any point. Of {} sets of values, those are \
         listed that differ by more than chance explains, with at most 5 % of them wrong; bounds are of 95 %. They do not \
         say why.{more}{left_out}",
        differences.slow, differences.typical, differences.tested
    )
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn in_short(text: &str) -> String {
    let cut = text.char_indices().nth(VALUE_CHARS_MAX).map(|(at, _)| format!("{}…", text[..at].trim_end()));
    cut.unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::terminal;

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table")]
    fn differences_are_sentences() {
        let value = |attribute: &str, value: &str, point: Option<&str>| AttributeValue {
            attribute: attribute.into(),
            value: value.into(),
            point: point.map(Into::into),
        };
        let difference = |value, same, same_more| AttributeDifference {
            value,
            slow_share: 0.923,
            typical_share: 0.08,
            low: 0.612,
            high: 0.95,
            chance: 1e-9,
            correlation: None,
            same,
            same_more,
        };
        let shares = " (92 % against 8 %; at least 61 points more)";
        for (seen, expected) in [
            (
                difference(value("pod", "api-7", None), vec![value("node", "n7", None)], 2),
                format!("have `pod=api-7`{shares}, and with it `node=n7` and 2 more."),
            ),
            (
                difference(value("cache", "miss", Some("rpc")), Vec::new(), 0),
                format!("have `cache=miss` at `rpc`{shares}."),
            ),
            (
                difference(value("point", "db SELECT 1", None), vec![value("point", "db UPDATE t", None)], 0),
                format!("call `db SELECT 1`{shares}, and with it `db UPDATE t`."),
            ),
            (
                difference(value("service", "tax", None), vec![], 0),
                format!("reach the service `tax`{shares}."),
            ),
            (
                difference(value(CONNECTION, "new", None), vec![], 0),
                format!("open a new connection{shares}."),
            ),
            (
                difference(value(RESENT, "request", None), vec![value(RESENT, "connection", None)], 0),
                format!(
                    "have to send segments of a request again{shares}, and with it they have to ask again for a connection."
                ),
            ),
            (
                difference(value(RESENT, "answer", None), vec![], 0),
                format!("get segments of an answer out of order{shares}."),
            ),
            (
                difference(
                    value(ANSWER, "at least 64 KiB", Some("list")),
                    vec![value(STATUS, "206", Some("list"))],
                    0,
                ),
                format!(
                    "get an answer of at least 64 KiB in action `list`{shares}, and with it they get the status 206 in action \
                     `list`."
                ),
            ),
            (
                difference(value(ADDRESS, "10.0.0.3", None), vec![value(ROW, "3", Some("ids"))], 0),
                format!("get their answers from `10.0.0.3`{shares}, and with it they use row 3 of `ids`."),
            ),
            (
                difference(value(ROW, "17", Some("users")), vec![], 0),
                format!("use row 17 of `users`{shares}."),
            ),
            (
                difference(value("event", "retry", None), vec![], 0),
                format!("have the event `retry`{shares}."),
            ),
        ] {
            let line = terminal::line(&sentence(&seen), terminal::TerminalStyle::default());
            assert_eq!(line, format!("Slow ones more often {expected}"));
            assert_eq!(row(&seen)[1..], ["92 %", "8 %", "+61 to +95 points"]);
        }
    }

    #[test]
    fn places_are_sentences() {
        let first = |slow, among, warm_up| FirstIterations {
            slow,
            among,
            of: 300,
            slow_ms: 412.0,
            warm_up,
            chance: 0.003,
        };
        let text = |line: &StyledLine| terminal::line(line, terminal::TerminalStyle::default());
        let end = "iterations are slow ones (412 ms on average, typical ones 88.0 ms): cold caches, connections or tokens?";
        for (seen, expected) in [
            (first(4, 4, 0), format!("The first 4 of 300 {end} `warm_up: {{ times: 4 }}` leaves them out.")),
            (
                first(5, 6, 20),
                format!("5 of the first 6 of 300 {end} `warm_up: {{ times: 26 }}` leaves them out."),
            ),
        ] {
            assert_eq!(text(&first_ones(&seen, 88.0)), expected);
        }
        let every = |every_s, every_iterations| {
            text(&rhythm(&Rhythm {
                every_s,
                every_iterations,
                share: 0.88,
                share_by_chance: 0.3,
                chance: 1e-9,
            }))
        };
        let shares = "(88 % of them; 30 % by chance)";
        let by_number = "a row of the data, or one of several hosts or connections in turn?";
        assert_eq!(
            every(Some(10.0), None),
            format!("Slow ones come every 10.0 s {shares}: garbage collection, a periodic job or a timer?")
        );
        for (number, ordinal) in [(3, "3rd"), (4, "4th"), (13, "13th"), (21, "21st"), (112, "112th")] {
            let expected = format!("Slow ones are every {ordinal} iteration {shares}: {by_number}");
            assert_eq!(every(None, Some(number)), expected);
        }
    }
}
