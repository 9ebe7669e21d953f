//! The cards of the first screen as the template sees them: for each workload, what makes the difference.
//!
//! Strings here are plain text; the template escapes them. No statistic may be computed here.

use serde::Serialize;

use super::causes::{PieceView, pieces};
use super::marks;
use super::refs::{Refs, TraceRef};
use super::text;
use crate::report::{explanation, words};
use crate::results::model::{ComparedKind, Comparison, Results, Workload};

/// The width of the card's bar, in units of its drawing.
const BAR_WIDTH: f64 = 1000.0;
/// A smaller share of a bar is not drawn.
const REST_SEEN: f64 = 0.005;
/// Causes in a bar.
const CAUSES_MAX: usize = 3;
/// Cards on a page.
const CARDS_MAX: usize = 3;
/// Lines about what slow iterations share.
const SHARED_MAX: usize = 3;

/// What makes slow iterations slow: a bar from typical to slow, the statement in full, and the way to a trace.
#[derive(Serialize)]
pub(super) struct CardView {
    workload: Option<String>,
    name: Vec<PieceView>,
    share: String,
    bar: Vec<PartView>,
    slow: String,
    described: String,
    /// What the point did, in full.
    statement: String,
    shared: Vec<SharedView>,
    trace: Option<TraceRef>,
}

/// A part of the bar.
#[derive(Serialize)]
struct PartView {
    class: &'static str,
    name: String,
    time: String,
    x: String,
    width: String,
}

#[derive(Serialize)]
struct SharedView {
    what: String,
    slow: String,
    typical: String,
    /// In units of a bar of 100.
    slow_width: String,
    typical_width: String,
}

fn guilty_kind(comparison: &Comparison) -> Option<&ComparedKind> {
    comparison.kinds.iter().find(|kind| kind.guilty)
}

/// A card for each workload in which a kind of point stands out.
pub(super) fn cards(results: &Results, refs: &Refs) -> Vec<CardView> {
    let several = results.workloads.len() > 1;
    let card = |workload: &Workload| {
        let comparison = workload.comparison.as_ref()?;
        let kind = guilty_kind(comparison)?;
        let worst = kind.worst_trace_id.filter(|id| refs.can_be_seen(*id));
        let bar = bar(comparison);
        let described = bar.iter().map(|part| format!("{} {}", part.name, part.time));
        Some(CardView {
            workload: several.then(|| workload.name.clone()),
            name: pieces(explanation::kind_name(kind)),
            share: text::percent(kind.share.clamp(0.0, 1.0)),
            described: described.collect::<Vec<_>>().join(", "),
            bar,
            slow: text::duration(comparison.slow_ms),
            statement: if kind.outside { String::new() } else { kind.detail.clone() },
            shared: shared(kind, comparison),
            trace: worst.map(|id| refs.of(id)),
        })
    };
    results.workloads.iter().filter_map(card).take(CARDS_MAX).collect()
}

/// Typical, each cause, and the rest: together they are the slow iteration's mean.
fn bar(comparison: &Comparison) -> Vec<PartView> {
    let guilty = comparison.kinds.iter().filter(|kind| kind.guilty).take(CAUSES_MAX);
    let mut parts = vec![("typical", "a typical iteration".to_owned(), comparison.typical_ms)];
    let name = |kind: &ComparedKind| match kind.outside {
        true => explanation::kind_name(kind),
        false => explanation::kind_in_short(kind),
    };
    parts.extend(guilty.map(|kind| ("cause", marks::plain(&name(kind)), kind.delta_ms)));
    let known: f64 = parts.iter().map(|(_, _, ms)| ms).sum();
    let rest_ms = comparison.slow_ms - known;
    if rest_ms.abs() > comparison.slow_ms * REST_SEEN {
        parts.push(("rest", "all else".to_owned(), rest_ms));
    }
    let whole = parts.iter().map(|(_, _, ms)| ms.max(0.0)).sum::<f64>().max(f64::MIN_POSITIVE);
    let mut x = 0.0;
    let part = |(class, name, ms): (&'static str, String, f64)| {
        let width = ms.max(0.0) / whole * BAR_WIDTH;
        let at = x;
        x += width;
        let time = if class == "typical" { text::duration(ms) } else { words::signed(ms) };
        PartView { class, name, time, x: format!("{at:.1}"), width: format!("{width:.1}") }
    };
    parts.into_iter().map(part).collect()
}

/// What slow iterations have more often than typical ones: at the cause itself, then anywhere.
fn shared(kind: &ComparedKind, comparison: &Comparison) -> Vec<SharedView> {
    let view = |what: String, slow_share: f64, typical_share: f64| {
        let [slow, typical] = [slow_share, typical_share].map(|share| share.clamp(0.0, 1.0));
        SharedView {
            what,
            slow: text::percent(slow),
            typical: text::percent(typical),
            slow_width: format!("{:.1}", slow * 100.0),
            typical_width: format!("{:.1}", typical * 100.0),
        }
    };
    let at_cause = kind
        .contrasts
        .iter()
        .map(|one| view(format!("{} {}", one.attribute, one.value), one.slow_share, one.typical_share));
    let anywhere = comparison.differences.iter().flat_map(|all| &all.found).map(|one| {
        let what = format!("{} = {}", one.value.attribute, one.value.value);
        view(what, one.slow_share, one.typical_share)
    });
    at_cause.chain(anywhere).take(SHARED_MAX).collect()
}
