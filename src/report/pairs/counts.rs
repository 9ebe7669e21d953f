//! Counts of trace points in a comparison by paired rounds: what B calls more often than A.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::PairDocument;
use crate::document::{Badge, Cell, Column, DocumentTable, StyledLine};
use crate::words::{bounds, with_sign};
use analysis::call_changes::CallChange;
use results::model::{Criterion, Outcome, Severity};
use verdict::paired::{CountRow, WorkloadNames};

/// What the table of changed calls means.
pub(crate) const CHANGES_HINT: &str = "Calls per trace of typical iterations; they do not affect the verdict";

/// A count with the points and the traces that show its difference.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Counted")]
pub struct PairCount {
    /// Its figures and its outcome.
    #[serde(flatten)]
    pub row: CountRow,
    /// The kinds of selected points that differ most.
    pub points: Vec<CountedPoint>,
    /// A trace of A whose count is near the mean.
    pub a_trace: Option<CountedTrace>,
    /// The same of B.
    pub b_trace: Option<CountedTrace>,
}

/// A kind of selected point.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct CountedPoint {
    /// The project and service that reported it.
    pub service: String,
    /// Its name and its statement or path.
    pub name: String,
    /// Its mean number of calls per iteration of A.
    pub a_calls: f64,
    /// The same of B.
    pub b_calls: f64,
}

/// A trace that shows a count.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct CountedTrace {
    /// Its id.
    pub trace_id: Uuid,
    /// Its file, within the comparison's directory.
    pub file: String,
    /// Its count.
    pub count: u64,
}

/// The reasons of each judged count.
pub(super) fn explanation(paired: &PairDocument) -> Vec<StyledLine> {
    let mut lines = Vec::new();
    // Why a count is INVALID is a reason of the decision.
    for counted in paired.counts.iter().filter(|counted| counted.row.outcome != Outcome::Invalid) {
        lines.push(sentence(counted, &paired.workloads));
        if counted.row.outcome != Outcome::Fail {
            continue;
        }
        for point in counted.points.iter().filter(|point| point.b_calls > point.a_calls) {
            let mut line =
                StyledLine::from(format!("{} → {} calls: ", figure(point.a_calls), figure(point.b_calls)));
            lines.push(line.code(format!("{} {}", point.service, point.name)).done());
        }
        if let (Some(a), Some(b)) = (&counted.a_trace, &counted.b_trace) {
            let mut line = StyledLine::from(format!("Traces: A with {} ", a.count));
            line.code(a.file.as_str()).text(format!(", B with {} ", b.count)).code(b.file.as_str());
            lines.push(line.done());
        }
    }
    lines
}

fn sentence(counted: &PairCount, names: &[WorkloadNames]) -> StyledLine {
    let row = &counted.row;
    let mut line = StyledLine::default();
    if names.len() > 1 {
        line.text(names.get(row.workload).map_or("", |names| names.workload.as_str())).text(" ");
    }
    line.code(row.metric.as_str()).text(format!(": {}.", observed(row))).done()
}

/// The observation in words, without the metric.
fn observed(row: &CountRow) -> String {
    let (Some(a), Some(b), Some(low), Some(high)) = (row.a, row.b, row.low, row.high) else {
        return row.reason.clone().unwrap_or_else(|| "too few pairs with traces".to_owned());
    };
    if let Some(reason) = &row.reason {
        return reason.clone();
    }
    let judged = match row.outcome {
        Outcome::Fail => "B has more than A",
        Outcome::Pass if row.exact && low.abs() <= 0.0 => "B has as many as A",
        Outcome::Pass => "B has no more than A, within the margin",
        _ => "inconclusive",
    };
    let certainty = if row.exact {
        format!("exactly {} in every trace", signed(low))
    } else {
        format!("between {} and {} more", signed(low), signed(high))
    };
    format!("{judged}: {} against {} per iteration, {certainty}", figure(b), figure(a))
}

/// A mean count, with two decimals unless it is whole.
pub(crate) fn figure(value: f64) -> String {
    let text = format!("{value:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn signed(value: f64) -> String {
    with_sign(value, figure)
}

/// The bounds of a difference, or itself where every trace has it.
fn between(low: Option<f64>, high: Option<f64>, is_exact: bool) -> String {
    match low.filter(|_| is_exact) {
        Some(value) => format!("exactly {}", signed(value)),
        None => bounds(low, high, signed),
    }
}

/// One outcome for each count.
pub(super) fn criteria(paired: &PairDocument) -> Vec<Criterion> {
    let of = |counted: &PairCount| {
        let row = &counted.row;
        let mut observed = observed(row);
        if row.outcome == Outcome::Fail {
            for point in counted.points.iter().filter(|point| point.b_calls > point.a_calls) {
                let (a, b) = (figure(point.a_calls), figure(point.b_calls));
                observed = format!("{observed}; {a} → {b} calls: {} {}", point.service, point.name);
            }
            for (side, trace) in [("A", &counted.a_trace), ("B", &counted.b_trace)] {
                let file = trace.as_ref().map(|trace| format!("; a trace of {side}: {}", trace.file));
                observed.push_str(&file.unwrap_or_default());
            }
        }
        Criterion {
            workload: paired
                .workloads
                .get(row.workload)
                .map_or_else(String::new, |names| names.workload.clone()),
            criterion: "ab".to_owned(),
            condition: format!("{}: B has no more than A", row.metric),
            trace_ids: [&counted.a_trace, &counted.b_trace]
                .into_iter()
                .flatten()
                .map(|one| one.trace_id)
                .collect(),
            observed,
            outcome: row.outcome,
            severity: Severity::Fail,
            reason: row.reason.clone(),
            measured: None,
            aborted: false,
            samples: row.traces[0].min(row.traces[1]),
        }
    };
    paired.counts.iter().map(of).collect()
}

/// One row for each count.
pub(crate) fn table(paired: &PairDocument) -> DocumentTable {
    let mut table = DocumentTable::new(vec![
        Column::name(""),
        Column::figure("A"),
        Column::figure("B"),
        Column::figure("confidence bounds"),
        Column::figure("traces"),
        Column::words(""),
    ]);
    let shown = |value: Option<f64>| value.map_or_else(Cell::empty, |value| figure(value).into());
    for PairCount { row, .. } in &paired.counts {
        let workload = paired.workloads.get(row.workload).filter(|_| paired.workloads.len() > 1);
        let workload = workload.map_or_else(String::new, |names| format!("{} ", names.workload));
        table.row([
            format!("{workload}{}", row.metric).into(),
            shown(row.a),
            shown(row.b),
            between(row.low, row.high, row.exact).into(),
            format!("{} / {}", row.traces[0], row.traces[1]).into(),
            Badge::verdict(row.outcome).into(),
        ]);
    }
    table
}

/// The kinds of points that B calls more or less often.
pub(crate) fn changes(paired: &PairDocument) -> DocumentTable {
    let mut table = DocumentTable::new(vec![
        Column::name(""),
        Column::figure("calls A"),
        Column::figure("calls B"),
        Column::figure("confidence bounds"),
        Column::words(""),
    ]);
    for change in &paired.calls {
        table.row([
            format!("{} {}", change.service, change.name).into(),
            figure(change.a_calls).into(),
            figure(change.b_calls).into(),
            between(Some(change.low), Some(change.high), change.exact).into(),
            word(change).into(),
        ]);
    }
    table
}

fn word(change: &CallChange) -> &'static str {
    match (change.a_calls <= 0.0, change.b_calls <= 0.0) {
        (true, _) => "new",
        (_, true) => "gone",
        _ => "",
    }
}

/// The counts so far, for a line of progress.
pub(super) fn progress(rows: &[CountRow]) -> Vec<String> {
    let last = |row: &CountRow| {
        let (a, b) = row.pairs.last().copied().unwrap_or_default();
        let shown = |value: Option<f64>| value.map_or_else(|| "no traces".to_owned(), figure);
        format!("{} {} against {}", row.metric, shown(b), shown(a))
    };
    rows.iter().map(last).collect()
}
