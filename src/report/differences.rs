//! What slow iterations have more often than typical ones anywhere in their traces, in words. Nothing here may compute a
//! statistic.

use super::document::Line;
use crate::results::model::{AttributeDifference, AttributeValue, Comparison};

/// At most this many differences are sentences; tables show all.
const SENTENCES_MAX: usize = 3;
/// Sentences shorten values; tables show all of them.
const VALUE_CHARS_MAX: usize = 100;

/// A sentence for each of the largest differences.
#[must_use]
pub fn sentences(comparison: &Comparison) -> Vec<Line> {
    let found = comparison.differences.iter().flat_map(|differences| &differences.found);
    found.take(SENTENCES_MAX).map(sentence).collect()
}

fn sentence(difference: &AttributeDifference) -> Line {
    let mut line = Line::from("Slow ones more often ");
    line.line(having(&difference.value));
    line.text(format!(
        " ({} against {}; at least {:.0} points more)",
        percent(difference.slow_share),
        percent(difference.typical_share),
        (difference.low * 100.0).floor()
    ));
    for (number, same) in difference.same.iter().enumerate() {
        line.text(if number == 0 { ", and with it " } else { ", " }).line(named(same));
    }
    if difference.same_more > 0 {
        line.text(format!(" and {} more", difference.same_more));
    }
    line.text(".").done()
}

/// `have k8s.pod.name=api-7`, `call db SELECT …`.
fn having(value: &AttributeValue) -> Line {
    let verb = match value.attribute.as_str() {
        "point" => "call ",
        "service" => "reach the service ",
        "error" => "have a point that fails with ",
        "event" => "have the event ",
        _ => "have ",
    };
    let mut line = Line::from(verb);
    let own = matches!(value.attribute.as_str(), "point" | "service" | "error" | "event");
    if own {
        return line.code(in_short(&value.value)).done();
    }
    line.line(named(value)).done()
}

/// An attribute with its value and, where it matters, its point.
fn named(value: &AttributeValue) -> Line {
    let mut line = Line::default();
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
        let at = value.point.as_ref().map_or_else(String::new, |point| format!(" at {point}"));
        format!("{} = {}{at}", value.attribute, value.value)
    };
    let mut values: Vec<String> =
        std::iter::once(&difference.value).chain(&difference.same).map(value).collect();
    if difference.same_more > 0 {
        values.push(format!("and {} more", difference.same_more));
    }
    let points = |share: f64| format!("{:+.0}", share * 100.0);
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
    use crate::report::document::terminal;

    #[test]
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
                difference(value("event", "retry", None), vec![], 0),
                format!("have the event `retry`{shares}."),
            ),
        ] {
            let line = terminal::line(&sentence(&seen), terminal::Style::default());
            assert_eq!(line, format!("Slow ones more often {expected}"));
            assert_eq!(row(&seen)[1..], ["92 %", "8 %", "+61 to +95 points"]);
        }
    }
}
