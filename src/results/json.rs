//! `results.json`: the results and, as the last keys, every iteration, streamed from the log, and how many are left out.

use std::collections::HashSet;
use std::io::{self, Write};

use uuid::Uuid;

use measure::ids::RunIds;
use measure::latency::SampleId;
use measure::log::Visitor;
use measure::rows::{IterationHead, Rows};
use measure::sample::CompletionStatus;

use super::aggregate::Aggregate;
use super::columns::{IterationColumns, OUTCOME_ABORTED, OUTCOME_FAILED, OUTCOME_OK};
use super::json_rows::{self, Listing};
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
    let mut schema = text::json_schema::draft07::<Results>();
    let rows = text::json_schema::draft07::<Vec<super::model::IterationRow>>();
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

/// The results as in `results.json`, but with an empty list of iterations.
#[must_use]
pub fn without_iterations(results: &Results) -> serde_json::Value {
    let mut document = serde_json::to_value(results).unwrap_or_default();
    let of = |workload: &super::model::Workload| workload.iterations.total + workload.warm_up.total;
    document["iterations"] = serde_json::json!([]);
    document["iterations_omitted"] = results.workloads.iter().map(of).sum::<u64>().into();
    document
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
pub fn write_at_most(
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
    let special = Special::of(aggregate, kept);
    let choice = Choice::new(&special, aggregate.total(), listed_max, LISTED_FAILED_MAX);
    let mut listed =
        IterationListWriter { aggregate, output, text: Vec::new(), separator: b"\n    ", choice, omitted: 0 };
    let mut drawn = ChartSampler::new(aggregate, &special);
    aggregate.log.visit(&mut [&mut listed, &mut drawn])?;
    let omitted = listed.omitted;
    write!(output, "\n  ],\n  \"iterations_omitted\": {omitted}\n}}\n")?;
    Ok(drawn.columns)
}

/// The iterations that every list has: the slowest, and those with a trace.
struct Special {
    samples: HashSet<SampleId>,
    /// A bit for each of their numbers, by its lowest bits: it rules out nearly all other iterations without a search.
    bits: Vec<u64>,
}

impl Special {
    const NUMBERS: u64 = 1 << 16;

    fn of(aggregate: &Aggregate, kept: &HashSet<Uuid>) -> Self {
        let ids = aggregate.log.ids();
        let slowest = aggregate.slowest.iter().map(SampleId::from);
        let traced = kept.iter().filter_map(|id| ids.sample_of(id.as_u128()));
        let samples: HashSet<SampleId> = slowest.chain(traced).collect();
        let mut bits = vec![0; (Self::NUMBERS / 64) as usize];
        for sample in &samples {
            let (word, bit) = Self::place(sample.number);
            bits[word] |= bit;
        }
        Self { samples, bits }
    }

    fn place(number: u64) -> (usize, u64) {
        let number = number % Self::NUMBERS;
        ((number / 64) as usize, 1 << (number % 64))
    }

    #[inline]
    fn contains(&self, head: &IterationHead) -> bool {
        let (word, bit) = Self::place(head.number);
        self.bits[word] & bit != 0 && self.samples.contains(&SampleId::from(head))
    }
}

/// Which iterations a list has: an even sample, and special ones.
struct Choice<'a> {
    special: &'a Special,
    /// One in this many iterations is always chosen.
    stride: u64,
    /// How many more to pass over before the next of these.
    until: u64,
    failed: u64,
    failed_max: u64,
}

impl<'a> Choice<'a> {
    fn new(special: &'a Special, total: u64, most: u64, failed_max: u64) -> Self {
        Self { special, stride: total.div_ceil(most).max(1), until: 0, failed: 0, failed_max }
    }

    /// Whether the next one is chosen.
    fn next(&mut self, head: &IterationHead) -> bool {
        let is_due = self.until == 0;
        self.until = if is_due { self.stride } else { self.until } - 1;
        let failed = head.ended == CompletionStatus::Failed;
        let chosen = is_due || failed && self.failed < self.failed_max || self.special.contains(head);
        self.failed += u64::from(chosen && failed);
        chosen
    }
}

/// The visitor that writes the iterations.
struct IterationListWriter<'a> {
    aggregate: &'a Aggregate,
    output: &'a mut dyn Write,
    /// The lines of a block.
    text: Vec<u8>,
    separator: &'static [u8],
    choice: Choice<'a>,
    omitted: u64,
}

impl Visitor for IterationListWriter<'_> {
    fn needs_requests(&self) -> bool {
        false
    }

    fn rows(&mut self, rows: &Rows) -> io::Result<()> {
        let (ids, failures) = (self.aggregate.log.ids(), &self.aggregate.failures);
        self.text.clear();
        for head in rows.heads() {
            if !self.choice.next(head) {
                self.omitted += 1;
                continue;
            }
            self.text.extend_from_slice(self.separator);
            self.separator = b",\n    ";
            let listing = Listing {
                trace_id: ids.trace_id(head),
                unprofiled: ids.is_control(head),
                error: failures.get(&head.error).map(|failure| failure.class.as_str()),
            };
            json_rows::push(head, &listing, &mut self.text);
        }
        self.output.write_all(&self.text)
    }
}

/// The visitor that collects the iterations to draw.
struct ChartSampler<'a> {
    ids: RunIds,
    choice: Choice<'a>,
    columns: IterationColumns,
}

impl<'a> ChartSampler<'a> {
    fn new(aggregate: &Aggregate, special: &'a Special) -> Self {
        let dropped: u64 = aggregate.workloads.iter().map(|workload| workload.iterations.dropped).sum();
        let total = aggregate.total() - dropped;
        Self {
            ids: aggregate.log.ids(),
            choice: Choice::new(special, total, DRAWN_MAX, DRAWN_FAILED_MAX),
            columns: IterationColumns { total, ..IterationColumns::default() },
        }
    }

    fn add(&mut self, head: &IterationHead) {
        // Warm-up is not drawn, and iterations that never started have no position.
        if head.warm_up || !head.has_started() {
            return;
        }
        if self.choice.next(head) {
            let columns = &mut self.columns;
            columns.workload.push(head.workload);
            columns.start_us.push(head.start_ns / 1_000);
            columns.duration_ms.push((head.duration_ns as f64 / 1e6) as f32);
            columns.waited_ms.push((head.queue_time_ns() as f64 / 1e6) as f32);
            columns.outcome.push(match head.ended {
                CompletionStatus::Ok => OUTCOME_OK,
                CompletionStatus::Failed => OUTCOME_FAILED,
                CompletionStatus::Aborted | CompletionStatus::Dropped => OUTCOME_ABORTED,
            });
            columns.trace_id.push(self.ids.trace_id(head).into_bytes());
        }
    }
}

impl Visitor for ChartSampler<'_> {
    fn needs_requests(&self) -> bool {
        false
    }

    fn rows(&mut self, rows: &Rows) -> io::Result<()> {
        rows.heads().iter().for_each(|head| self.add(head));
        Ok(())
    }
}
