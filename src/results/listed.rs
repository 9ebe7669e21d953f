//! Figures computed from the iterations in a `results.json`. Such a file can be edited, so its stated figures are
//! checked against these; figures that cannot be checked are never used for a verdict.

use std::collections::BTreeMap;
use std::io::Read;

use hdrhistogram::Histogram;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};

use super::histogram::histogram;
use super::model::{Counts, Distribution, IterationOutcome, IterationRow, Results};
use measure::latency::{Latency, SampleId, value_at_percentile};

/// A file with more workloads was not written by `bench`.
const WORKLOADS_MAX: usize = 1000;
/// A value from a histogram may be wrong by a thousandth; the difference of two, by twice that.
const RELATIVE: f64 = 0.003;
const ABSOLUTE_MS: f64 = 0.002;
/// The percentiles at which two histograms are compared.
const HELD_AT: [f64; 8] = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0];

/// The listed iterations of a workload, without the warm-up.
#[derive(Default)]
pub struct ListedIterations {
    /// Response times of completed iterations.
    pub response: Latency,
    /// Of these, those that failed.
    pub failed_response: Latency,
    service: Latency,
    counts: Counts,
}

/// By workload; `None` if no iterations are listed.
///
/// # Errors
/// Not a list of iterations.
pub fn read(file: impl Read) -> Result<Option<BTreeMap<u16, ListedIterations>>, String> {
    #[derive(Deserialize)]
    struct IterationDocument {
        iterations: Option<IterationSums>,
    }
    let document: IterationDocument = serde_json::from_reader(file).map_err(|error| error.to_string())?;
    Ok(document.iterations.map(|IterationSums(listed)| listed))
}

/// The list; only its sums are kept.
struct IterationSums(BTreeMap<u16, ListedIterations>);

impl<'de> Deserialize<'de> for IterationSums {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IterationListVisitor;
        impl<'de> Visitor<'de> for IterationListVisitor {
            type Value = IterationSums;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a list of iterations")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut rows: A) -> Result<IterationSums, A::Error> {
                let mut listed = BTreeMap::<u16, ListedIterations>::new();
                while let Some(row) = rows.next_element::<IterationRow>()? {
                    if !row.warm_up {
                        listed.entry(row.workload).or_default().add(&row).map_err(A::Error::custom)?;
                    }
                    if listed.len() > WORKLOADS_MAX {
                        return Err(A::Error::custom(format!("more than {WORKLOADS_MAX} workloads")));
                    }
                }
                Ok(IterationSums(listed))
            }
        }
        deserializer.deserialize_seq(IterationListVisitor)
    }
}

impl ListedIterations {
    fn add(&mut self, row: &IterationRow) -> Result<(), String> {
        let (start_s, service_ms) = match (row.outcome, row.start_s, row.duration_ms) {
            (_, Some(start_s), Some(service_ms)) => (start_s, service_ms),
            (IterationOutcome::Dropped | IterationOutcome::Aborted, None, None) => (row.due_s, 0.0),
            _ => return Err(format!("iteration {} lacks its start or its duration", row.number)),
        };
        let lag_ms = ((start_s - row.due_s) * 1e3).max(0.0);
        if !(service_ms >= 0.0 && (service_ms + lag_ms).is_finite()) {
            return Err(format!("iteration {} took {service_ms} ms", row.number));
        }
        self.counts.total += 1;
        match row.outcome {
            IterationOutcome::Ok => self.counts.ok += 1,
            IterationOutcome::Failed => self.counts.failed += 1,
            IterationOutcome::Aborted => self.counts.aborted += 1,
            IterationOutcome::Dropped => self.counts.dropped += 1,
        }
        self.counts.resent += u64::from(row.resent);
        if matches!(row.outcome, IterationOutcome::Ok | IterationOutcome::Failed) {
            let id = SampleId { workload: row.workload, number: row.number };
            let ns = |ms: f64| (ms * 1e6).round() as u64;
            self.service.record(ns(service_ms), id);
            self.response.record(ns(service_ms + lag_ms), id);
            if row.outcome == IterationOutcome::Failed {
                self.failed_response.record(ns(service_ms + lag_ms), id);
            }
        }
        Ok(())
    }
}

/// Checks the stated figures of workloads against the listed iterations.
///
/// # Errors
/// The contradiction.
pub fn hold(results: &Results, listed: &BTreeMap<u16, ListedIterations>) -> Result<(), String> {
    if let Some(number) = listed.keys().find(|number| usize::from(**number) >= results.workloads.len()) {
        return Err(format!("it lists iterations of workload {number}, but has no such workload"));
    }
    let none = ListedIterations::default();
    for (number, workload) in (0..).zip(&results.workloads) {
        let listed = listed.get(&number).unwrap_or(&none);
        let of = |error: String| format!("`{}`: {error}", workload.name);
        if workload.iterations != listed.counts {
            let words = |counts: Counts| {
                let Counts { total, ok, failed, aborted, dropped, resent } = counts;
                format!(
                    "{total} iterations ({ok} ok, {failed} failed, {aborted} cut off, {dropped} dropped, {resent} with a \
                     request that was sent once more)"
                )
            };
            let (stated, found) = (words(workload.iterations), words(listed.counts));
            return Err(of(format!("it states {stated}, and lists {found}")));
        }
        fits(&workload.response_time, &listed.response)
            .map_err(|error| of(format!("response times: {error}")))?;
        fits(&workload.service_time, &listed.service)
            .map_err(|error| of(format!("service times: {error}")))?;
    }
    Ok(())
}

fn fits(stated: &Distribution, found: &Latency) -> Result<(), String> {
    if stated.count != found.count() {
        return Err(format!("it states {} of them, and lists {}", stated.count, found.count()));
    }
    if stated.count == 0 {
        return Ok(());
    }
    let ms = |ns: u64| ns as f64 / 1e6;
    let held = |what: &str, stated: f64, low: f64, high: f64| {
        let slack = |ms: f64| ms * RELATIVE + ABSOLUTE_MS;
        if stated >= low - slack(low) && stated <= high + slack(high) {
            return Ok(());
        }
        Err(format!("it states {what} of {stated:.3} ms, but its iterations give {high:.3} ms"))
    };
    held("a mean", stated.mean_ms, found.mean_ns() / 1e6, found.mean_ns() / 1e6)?;
    held("a longest", stated.max_ms, ms(found.max_ns()), ms(found.max_ns()))?;
    // Definitions of percentiles differ by a rank.
    let step = 100.0 / stated.count as f64;
    for known in &stated.percentiles {
        let at = |percentile: f64| ms(found.percentile_ns(percentile.clamp(0.0, 100.0)));
        let (low, high) = (at(known.percentile - step), at(known.percentile + step));
        held(&format!("a p{}", known.percentile), known.value_ms, low, high)?;
    }
    let histogram: Histogram<u64> = histogram(stated)?;
    let value_at = |percentile| value_at_percentile(&histogram, percentile).unwrap_or(0);
    for percentile in HELD_AT {
        let (stated, found) = (ms(value_at(percentile)), ms(found.percentile_ns(percentile)));
        held(&format!("a histogram with a p{percentile}"), stated, found, found)?;
    }
    Ok(())
}
