//! `results.json`: the results and, as the last keys, every iteration, streamed from the log, and how many are left out.

use std::collections::{BTreeSet, HashSet};
use std::io::{self, Write};

use uuid::Uuid;

use crate::measure::ids::RunIds;
use crate::measure::latency::SampleId;
use crate::measure::log::Visitor;
use crate::measure::rows::{IterationHead, Rows};
use crate::measure::sample::Ended;

use super::aggregate::Aggregate;
use super::build::iteration_row;
use super::columns::{IterationColumns, OUTCOME_ABORTED, OUTCOME_FAILED, OUTCOME_OK};
use super::model::Results;

/// The most iterations that a report draws; of more, it draws an even sample and all special ones.
const DRAWN_MAX: u64 = 100_000;
const DRAWN_FAILED_MAX: u64 = 10_000;
/// The most iterations that `results.json` lists: some gigabytes. Of more, it lists an even sample and all special ones.
const LISTED_MAX: u64 = 10_000_000;
/// As many that failed are special.
const LISTED_FAILED_MAX: u64 = 1_000_000;

/// The JSON Schema (draft-07) of `results.json`.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = crate::config::schema::draft07::<Results>();
    let rows = crate::config::schema::draft07::<Vec<super::model::IterationRow>>();
    schema["properties"]["iterations"] = serde_json::json!({
        "description": "Every iteration, in the order in which the log has them. Of more than 10,000,000, an even sample, and \
            those that were slow, that failed (up to 1,000,000), and whose traces are stored; the log has all.",
        "type": "array",
        "items": rows["items"],
    });
    schema["properties"]["iterations_omitted"] = serde_json::json!({
        "description": "How many iterations the list leaves out; absent in results of earlier builds, which left out none.",
        "type": "integer",
        "minimum": 0,
    });
    if let Some(required) = schema["required"].as_array_mut() {
        required.push("iterations".into());
    }
    for (name, definition) in rows["definitions"].as_object().into_iter().flatten() {
        schema["definitions"][name] = definition.clone();
    }
    schema
}

/// Writes `results.json` in memory that does not grow with the number of iterations. In the same pass, it collects the
/// iterations to draw. Both lists are of all iterations, or of an even sample plus all slow ones, those in `kept` (with a
/// trace), and failed ones up to a limit.
///
/// # Errors
/// Any error of the system.
pub fn write(
    results: &Results,
    aggregate: &Aggregate,
    kept: &HashSet<Uuid>,
    output: &mut dyn Write,
) -> io::Result<IterationColumns> {
    write_at_most(LISTED_MAX, results, aggregate, kept, output)
}

/// As [`write()`], with another limit.
pub(crate) fn write_at_most(
    listed_max: u64,
    results: &Results,
    aggregate: &Aggregate,
    kept: &HashSet<Uuid>,
    output: &mut dyn Write,
) -> io::Result<IterationColumns> {
    let head = serde_json::to_string_pretty(results)?;
    let open = head.strip_suffix("\n}").unwrap_or(&head);
    output.write_all(open.as_bytes())?;
    output.write_all(b",\n  \"iterations\": [")?;
    let choice = Choice::new(aggregate, kept, aggregate.total(), listed_max, LISTED_FAILED_MAX);
    let mut listed = Listed { aggregate, output, separator: b"\n    ", choice, omitted: 0 };
    let mut drawn = Drawn::new(aggregate, kept);
    aggregate.log.visit(&mut [&mut listed, &mut drawn])?;
    let omitted = listed.omitted;
    write!(output, "\n  ],\n  \"iterations_omitted\": {omitted}\n}}\n")?;
    Ok(drawn.columns)
}

/// Which iterations a list has: an even sample, and special ones.
struct Choice<'a> {
    ids: RunIds,
    slowest: BTreeSet<SampleId>,
    kept: &'a HashSet<Uuid>,
    /// One in this many iterations is always chosen.
    stride: u64,
    index: u64,
    failed: u64,
    failed_max: u64,
}

impl<'a> Choice<'a> {
    fn new(aggregate: &Aggregate, kept: &'a HashSet<Uuid>, total: u64, most: u64, failed_max: u64) -> Self {
        Self {
            ids: aggregate.log.ids(),
            slowest: aggregate.slowest.iter().map(SampleId::from).collect(),
            kept,
            stride: total.div_ceil(most).max(1),
            index: 0,
            failed: 0,
            failed_max,
        }
    }

    /// Whether the next one is chosen.
    fn next(&mut self, head: &IterationHead) -> bool {
        let special = || {
            head.ended == Ended::Failed && self.failed < self.failed_max
                || self.slowest.contains(&SampleId::from(head))
                || !self.kept.is_empty() && self.kept.contains(&self.ids.trace_id(head))
        };
        let chosen = self.index.is_multiple_of(self.stride) || special();
        self.index += 1;
        self.failed += u64::from(chosen && head.ended == Ended::Failed);
        chosen
    }
}

/// The visitor that writes the iterations.
struct Listed<'a> {
    aggregate: &'a Aggregate,
    output: &'a mut dyn Write,
    separator: &'static [u8],
    choice: Choice<'a>,
    omitted: u64,
}

impl Visitor for Listed<'_> {
    fn rows(&mut self, rows: &Rows) -> io::Result<()> {
        for row in rows.iter() {
            if !self.choice.next(row.head) {
                self.omitted += 1;
                continue;
            }
            self.output.write_all(self.separator)?;
            self.separator = b",\n    ";
            serde_json::to_writer(&mut *self.output, &iteration_row(self.aggregate, row.head))?;
        }
        Ok(())
    }
}

/// The visitor that collects the iterations to draw.
struct Drawn<'a> {
    choice: Choice<'a>,
    columns: IterationColumns,
}

impl<'a> Drawn<'a> {
    fn new(aggregate: &Aggregate, kept: &'a HashSet<Uuid>) -> Self {
        let dropped: u64 = aggregate.workloads.iter().map(|workload| workload.iterations.dropped).sum();
        let total = aggregate.total() - dropped;
        Self {
            choice: Choice::new(aggregate, kept, total, DRAWN_MAX, DRAWN_FAILED_MAX),
            columns: IterationColumns { total, ..IterationColumns::default() },
        }
    }

    fn add(&mut self, head: &IterationHead) {
        // Warm-up is not drawn, and iterations that never started have no position.
        if head.warm_up || head.ended == Ended::Dropped {
            return;
        }
        if self.choice.next(head) {
            let columns = &mut self.columns;
            columns.workload.push(head.workload);
            columns.start_us.push(head.start_ns / 1_000);
            columns.duration_ms.push((head.duration_ns as f64 / 1e6) as f32);
            columns.waited_ms.push((head.lag_ns() as f64 / 1e6) as f32);
            columns.outcome.push(match head.ended {
                Ended::Ok => OUTCOME_OK,
                Ended::Failed => OUTCOME_FAILED,
                Ended::Aborted | Ended::Dropped => OUTCOME_ABORTED,
            });
            columns.trace_id.push(self.choice.ids.trace_id(head).into_bytes());
        }
    }
}

impl Visitor for Drawn<'_> {
    fn rows(&mut self, rows: &Rows) -> io::Result<()> {
        rows.iter().for_each(|row| self.add(row.head));
        Ok(())
    }
}
