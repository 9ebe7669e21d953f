//! The criteria as the template sees them: outcome, limit and observed value, reason, and the traces that broke it.
//!
//! Strings here are plain text; the template escapes them. Nothing here may judge.

use serde::Serialize;

use super::badge::Badge;
use super::refs::{Refs, TraceRef};
use super::text;
use crate::{document, screen};
use results::model::{Criterion, CriterionMeasurement, Severity};

/// The width of a gauge, in units of its drawing.
const GAUGE_WIDTH: f64 = 160.0;

#[derive(Serialize)]
pub(super) struct CriterionView {
    workload: String,
    criterion: String,
    condition: String,
    observed: String,
    outcome: Badge,
    /// It only warns: it does not affect the verdict.
    warns: bool,
    /// It ended the load.
    aborted: bool,
    reason: Option<String>,
    gauge: Option<Gauge>,
    samples: String,
    traces: Vec<TraceRef>,
}

/// A limit and the observed value, on one scale.
#[derive(Serialize)]
struct Gauge {
    limit: String,
    value: String,
    low: Option<String>,
    width: Option<String>,
    /// The bounds in words.
    bounds: Option<String>,
    described: String,
}

/// One criterion, without the reason if that is `said` already.
pub(super) fn view(criterion: &Criterion, said: &str, refs: &Refs) -> CriterionView {
    CriterionView {
        workload: criterion.workload.clone(),
        criterion: criterion.criterion.clone(),
        condition: criterion.condition.clone(),
        observed: criterion.observed.clone(),
        outcome: document::Badge::verdict(criterion.outcome).into(),
        warns: criterion.severity == Severity::Warn,
        aborted: criterion.aborted,
        reason: criterion.reason.clone().filter(|reason| !said.contains(reason.as_str())),
        gauge: criterion.measured.as_ref().map(|measured| gauge(measured, &criterion.observed)),
        samples: text::count(criterion.samples),
        traces: refs.all(&criterion.trace_ids),
    }
}

/// Bounds that the observed value names already are not named again.
fn gauge(measured: &CriterionMeasurement, observed: &str) -> Gauge {
    let CriterionMeasurement { unit, limit, value, low, high } = measured;
    let finite = |number: f64| if number.is_finite() { number } else { 0.0 };
    let ends = [*limit, *value, low.unwrap_or(*value), high.unwrap_or(*value)].map(finite);
    let (from, to) = (ends.iter().copied().fold(0.0, f64::min), ends.iter().copied().fold(0.0, f64::max));
    let span = if to > from { (to - from) * 1.08 } else { 1.0 };
    let x =
        |number: f64| ((finite(number) - from) / span * (GAUGE_WIDTH - 6.0) + 3.0).clamp(0.0, GAUGE_WIDTH);
    let in_words = |number: f64| quantity(number, unit);
    let interval = low.zip(*high);
    Gauge {
        limit: format!("{:.1}", x(*limit)),
        value: format!("{:.1}", x(*value)),
        low: interval.map(|(low, _)| format!("{:.1}", x(low))),
        width: interval.map(|(low, high)| format!("{:.1}", (x(high) - x(low)).max(1.0))),
        bounds: interval
            .filter(|(low, _)| !observed.contains(&in_words(*low)))
            .map(|(low, high)| format!("{} to {}", in_words(low), in_words(high))),
        described: format!("{} against a limit of {}", screen::measured(measured), in_words(*limit)),
    }
}

/// A number with its unit, as criteria have it.
pub(super) fn quantity(number: f64, unit: &str) -> String {
    match unit {
        "ms" if number >= 0.0 => text::duration(number),
        "" => text::number(number),
        unit => format!("{} {unit}", text::number(number)),
    }
}
