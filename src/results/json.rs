//! `results.json`: the results and, as the last key, every iteration, streamed from the log.

use std::collections::HashSet;
use std::io::{self, Write};

use uuid::Uuid;

use crate::base::ids::IdSpace;
use crate::measure::rows::IterationHead;
use crate::measure::sample::Ended;

use super::aggregate::Aggregate;
use super::build::iteration_row;
use super::columns::{IterationColumns, OUTCOME_ABORTED, OUTCOME_FAILED, OUTCOME_OK};
use super::model::Results;

/// How many iterations a report draws at most; beyond it, an even sample and all that is special.
const DRAWN_MAX: u64 = 100_000;
const DRAWN_FAILED_MAX: usize = 10_000;

/// The JSON Schema (draft-07) of `results.json`.
#[must_use]
pub fn schema() -> serde_json::Value {
    let mut schema = crate::config::schema::draft07::<Results>();
    let rows = crate::config::schema::draft07::<Vec<super::model::IterationRow>>();
    schema["properties"]["iterations"] = serde_json::json!({
        "description": "Every iteration, in the order in which the log has them.",
        "type": "array",
        "items": rows["items"],
    });
    if let Some(required) = schema["required"].as_array_mut() {
        required.push("iterations".into());
    }
    for (name, definition) in rows["definitions"].as_object().into_iter().flatten() {
        schema["definitions"][name] = definition.clone();
    }
    schema
}

/// Writes `results.json` in memory that does not grow with the number of iterations.
///
/// # Errors
/// What the system says.
pub fn write(results: &Results, aggregate: &Aggregate, output: &mut dyn Write) -> io::Result<()> {
    let head = serde_json::to_string_pretty(results)?;
    let open = head.strip_suffix("\n}").unwrap_or(&head);
    output.write_all(open.as_bytes())?;
    output.write_all(b",\n  \"iterations\": [")?;
    let ids = IdSpace::from_seed(aggregate.header.id_seed);
    let mut separator: &[u8] = b"\n    ";
    for_each(aggregate, |sample| {
        output.write_all(separator)?;
        separator = b",\n    ";
        serde_json::to_writer(&mut *output, &iteration_row(aggregate, &ids, sample))?;
        Ok(())
    })?;
    output.write_all(b"\n  ]\n}\n")
}

/// The iterations to draw: all, or an even sample with every failed (up to a bound), slow and `kept` one, which are those
/// that have a trace.
///
/// # Errors
/// What the system says.
pub fn columns(aggregate: &Aggregate, kept: &HashSet<Uuid>) -> io::Result<IterationColumns> {
    let dropped: u64 = aggregate.workloads.iter().map(|workload| workload.iterations.dropped).sum();
    let total = aggregate.total() - dropped;
    let stride = total.div_ceil(DRAWN_MAX).max(1);
    let ids = IdSpace::from_seed(aggregate.header.id_seed);
    let mut columns = IterationColumns { total, ..IterationColumns::default() };
    let (mut index, mut failed) = (0_u64, 0_usize);
    for_each(aggregate, |sample| {
        // What was only to warm up is kept apart, and what never started has no place.
        if sample.warm_up || sample.ended == Ended::Dropped {
            return Ok(());
        }
        let special = sample.ended == Ended::Failed && failed < DRAWN_FAILED_MAX
            || aggregate
                .slowest
                .iter()
                .any(|slow| slow.workload == sample.workload && slow.number == sample.number)
            || stride > 1 && kept.contains(&ids.base_id(sample.workload, sample.number));
        if index.is_multiple_of(stride) || special {
            failed += usize::from(sample.ended == Ended::Failed);
            columns.workload.push(sample.workload);
            columns.start_us.push(sample.start_ns / 1_000);
            #[expect(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                reason = "a point on a chart"
            )]
            columns.duration_ms.push((sample.duration_ns as f64 / 1e6) as f32);
            columns.outcome.push(match sample.ended {
                Ended::Ok => OUTCOME_OK,
                Ended::Failed => OUTCOME_FAILED,
                Ended::Aborted | Ended::Dropped => OUTCOME_ABORTED,
            });
            columns.trace_id.push(ids.base_id(sample.workload, sample.number).into_bytes());
        }
        index += 1;
        Ok(())
    })?;
    Ok(columns)
}

/// Calls `visit` for every iteration of a log that was aggregated before.
fn for_each(
    aggregate: &Aggregate,
    mut visit: impl FnMut(&IterationHead) -> io::Result<()>,
) -> io::Result<()> {
    aggregate.try_for_each_row(|row| visit(row.head))
}
