//! What a change would bring, in words. Nothing here computes a statistic.

use super::document::{Block, Cell, Column, DocumentTable, ReportDocument, StyledLine};
use super::texts::{calls, duration};
use results::model::{Fix, FixPrediction, UpperBound, WhatIf};

/// The percentile that is said.
const SAID: f64 = 99.0;

/// A sentence on what the named cause costs; `None` without the percentile.
pub(super) fn without_cause(prediction: &FixPrediction) -> Option<StyledLine> {
    let time = prediction.at(SAID)?;
    let mut line = StyledLine::default();
    match &prediction.fix {
        Fix::WorkAtMost { at_most_ms, .. } if *at_most_ms > 0.0 => {
            let most = duration(*at_most_ms);
            line.text(format!("If the cause took at most {most} in an iteration, as in typical ones"));
        }
        Fix::Calls { at_most, .. } if *at_most > 0 => {
            let calls = if *at_most == 1 { "call" } else { "calls" };
            line.text(format!("With at most {at_most} such {calls} in an iteration"));
        }
        Fix::WorkAtMost { .. } | Fix::Calls { .. } => {
            line.text("Without the cause");
        }
        Fix::Servers { name, today, then } => {
            line.text(format!("With {then} at a time instead of {today}, if "));
            line.code(name.as_str()).text(" took no longer then");
        }
        Fix::Work { times, .. } => {
            line.text(format!("If the cause took {times} times as long"));
        }
    }
    let then = match prediction.upper_bound {
        None => {
            let [then, low, high] = [time.then_ms, time.low_ms, time.high_ms].map(duration);
            format!("about {then} ({low} to {high})")
        }
        Some(UpperBound::ClosedLoad) => format!("at most {} at the same rate", duration(time.high_ms)),
        Some(UpperBound::Sharing | UpperBound::SlowTracesOnly) => {
            format!("at most {}", duration(time.high_ms))
        }
    };
    Some(line.text(format!(", p99 would be {then}.")).done())
}

/// The JSON Schema (draft-07) of [`WhatIf`].
#[must_use]
pub fn schema() -> serde_json::Value {
    ::text::json_schema::draft07::<WhatIf>()
}

/// As JSON.
///
/// # Errors
/// None that is known.
pub fn json(answer: &WhatIf) -> serde_json::Result<serde_json::Value> {
    serde_json::to_value(answer)
}

/// What `bench what-if` says; if it was not asked for a change, also what may be changed.
#[must_use]
pub fn document(answer: &WhatIf, is_asked: bool) -> ReportDocument {
    let mut document = ReportDocument::new(3, "--json");
    match (&answer.prediction, &answer.none_because) {
        (Some(prediction), _) => {
            document.push(Block::Title(title(&prediction.fix)));
            document.push(Block::List(conditions(prediction)));
            document.push(Block::Table(times(prediction)));
        }
        (None, Some(why)) => document.push(Block::Title(format!("No prediction: {why}.").into())),
        (None, None) => {
            document.push(Block::Title(
                "Nothing to predict yet: choose a change, such as --kind NAME --times 0.5".into(),
            ));
        }
    }
    if is_asked {
        return document;
    }
    document.titled(
        "Calls that run so many at a time",
        Some("Change them with --servers".into()),
        pools(answer),
    );
    let hint = "Means of an iteration; own time is without the calls within";
    document.titled("What may be changed, by --kind", Some(hint.into()), kinds(answer));
    document
}

/// What is different.
fn title(fix: &Fix) -> StyledLine {
    let mut line = StyledLine::default();
    match fix {
        Fix::Work { kind, times } if *times <= 0.0 => line.text("Without the time of ").code(kind),
        Fix::Work { kind, times } => line.text("If ").code(kind).text(format!(" took {times} times as long")),
        Fix::WorkAtMost { kind, at_most_ms } if *at_most_ms > 0.0 => line
            .text("If ")
            .code(kind)
            .text(format!(" took at most {} in an iteration", duration(*at_most_ms))),
        Fix::WorkAtMost { kind, .. } => line.text("Without the time of ").code(kind),
        Fix::Calls { kind, at_most: 0 } => line.text("Without ").code(kind),
        Fix::Calls { kind, at_most } => {
            line.text(format!("With at most {at_most} of ")).code(kind).text(" in an iteration")
        }
        Fix::Servers { name, today, then } => {
            line.text(format!("With {then} instead of {today} ")).code(name).text(" at a time")
        }
    };
    line.done()
}

/// What the prediction rests on, and what it is not.
fn conditions(prediction: &FixPrediction) -> Vec<StyledLine> {
    let FixPrediction { upper_bound, iterations, traced, fix, .. } = prediction;
    let rests_on = match upper_bound {
        Some(UpperBound::SlowTracesOnly) => format!("{iterations} iterations; {traced} of them have traces"),
        _ => format!(
            "{iterations} iterations replayed at the times when they were due, by the traces of {traced}"
        ),
    };
    let mut lines = vec![StyledLine::from(match upper_bound {
        Some(_) => format!("{rests_on}."),
        None => format!("{rests_on}. A new run is within the interval with 90 % confidence."),
    })];
    lines.extend(upper_bound.map(|bound| {
        StyledLine::from(match bound {
            UpperBound::ClosedLoad => {
                "These are upper bounds, for the same rate: users wait for their own iterations, which hides what waits for \
                 what. An open load (`rps`) tells more."
            }
            UpperBound::Sharing => {
                "These are upper bounds: iterations take longer while others are under way, by something that no trace \
                 shows, such as a processor. Faster ones would help the others, too."
            }
            UpperBound::SlowTracesOnly => {
                "These are upper bounds: only slow and typical iterations have traces, and what is not known stays as it is. \
                 `trace: {fetch: all}` tells more, and so does an open load with received spans."
            }
        })
    }));
    if matches!(fix, Fix::Servers { .. }) {
        lines.push("This assumes that each call takes as long then as now.".into());
    }
    lines
}

fn times(prediction: &FixPrediction) -> DocumentTable {
    let is_bound = prediction.upper_bound.is_some();
    let then = if is_bound { "then, at most" } else { "then, about" };
    let mut columns = vec![Column::name(""), Column::figure("today"), Column::figure(then)];
    if !is_bound {
        columns.push(Column::figure("interval"));
    }
    let mut table = DocumentTable::new(columns);
    for one in &prediction.percentiles {
        let name = Cell::Line(format!("p{}", one.percentile).into());
        let text = |ms: f64| Cell::Line(duration(ms).into());
        match is_bound {
            true => table.row([name, text(one.today_ms), text(one.high_ms)]),
            false => {
                let interval = format!("{} to {}", duration(one.low_ms), duration(one.high_ms));
                table.row([name, text(one.today_ms), text(one.then_ms), Cell::Line(interval.into())]);
            }
        }
    }
    table
}

fn pools(answer: &WhatIf) -> DocumentTable {
    let mut table = DocumentTable::new(vec![Column::name("calls"), Column::figure("at a time")]);
    for pool in &answer.pools {
        table.row([Cell::code(&pool.name), Cell::Line(pool.servers.to_string().into())]);
    }
    table
}

/// Rare calls are worth seeing.
fn calls_of(mean: f64) -> String {
    if mean > 0.0 && mean < 0.1 { format!("{mean:.2}") } else { calls(mean) }
}

fn kinds(answer: &WhatIf) -> DocumentTable {
    let columns = ["calls", "own time"].map(Column::figure);
    let columns = [Column::name("points"), Column::name("service")].into_iter().chain(columns);
    let mut table = DocumentTable::new(columns.collect());
    for kind in &answer.kinds {
        table.row([
            Cell::code(&kind.name),
            Cell::code(&kind.service),
            Cell::Line(calls_of(kind.calls).into()),
            Cell::Line(duration(kind.own_ms).into()),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::terminal;
    use results::model::PredictedTime;

    #[test]
    fn a_prediction_is_said_with_its_interval() {
        let kind = || "db SELECT a".to_owned();
        let p99 =
            PredictedTime { percentile: 99.0, today_ms: 92.7, then_ms: 17.2, low_ms: 14.1, high_ms: 21.04 };
        let said = |fix: Fix, upper_bound| {
            let prediction =
                FixPrediction { fix, percentiles: vec![p99], upper_bound, iterations: 2_000, traced: 700 };
            let style = terminal::TerminalStyle { columns: None, colour: false };
            terminal::line(&without_cause(&prediction).unwrap(), style)
        };
        for (fix, bound, expected) in [
            (
                Fix::WorkAtMost { kind: kind(), at_most_ms: 0.0 },
                None,
                "Without the cause, p99 would be about 17.2 ms (14.1 ms to 21.0 ms).",
            ),
            (
                Fix::WorkAtMost { kind: kind(), at_most_ms: 5.2 },
                Some(UpperBound::ClosedLoad),
                "If the cause took at most 5.20 ms in an iteration, as in typical ones, p99 would be at most 21.0 ms at the \
                 same rate.",
            ),
            (
                Fix::Calls { kind: kind(), at_most: 1 },
                Some(UpperBound::SlowTracesOnly),
                "With at most 1 such call in an iteration, p99 would be at most 21.0 ms.",
            ),
            (
                Fix::Servers { name: "db".to_owned(), today: 5, then: 10 },
                None,
                "With 10 at a time instead of 5, if `db` took no longer then, p99 would be about 17.2 ms (14.1 ms to 21.0 ms).",
            ),
        ] {
            assert_eq!(said(fix, bound), expected);
        }
    }
}
