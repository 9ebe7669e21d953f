//! The cards of the first screen as the template sees them: for each workload, what makes the difference.
//!
//! Strings here are plain text; the template escapes them. No statistic may be computed here.

use serde::Serialize;

use super::causes::{PieceView, pieces};
use super::marks;
use super::refs::{Refs, TraceRef};
use super::text;
use crate::document::StyledLine;
use crate::{client_comparison, differences, explanation, words};
use analysis::feature::CLIENT;
use analysis::late_work::is_waiting;
use results::model::{
    AttributeValue, ClientComparison, ComparedKind, Comparison, Contrast, Differences, NoCauseReason,
    Overall, Results, Workload,
};

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
    /// What takes that long.
    whole: &'static str,
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
    what: Vec<PieceView>,
    slow: String,
    typical: String,
    /// In units of a bar of 100.
    slow_width: String,
    typical_width: String,
}

/// What slow iterations are compared by: points of traces, or the client's own figures where these tell nothing.
struct CardComparison<'a> {
    kinds: &'a [ComparedKind],
    by_client: bool,
    /// Whether times are to the end of asynchronous work.
    of_work: bool,
    overall: Option<&'a Overall>,
    slow_ms: f64,
    typical_ms: f64,
    differences: Option<&'a Differences>,
}

impl<'a> CardComparison<'a> {
    fn of(workload: &'a Workload) -> Option<Self> {
        let by_client = || {
            let ClientComparison { parts, slow_ms, typical_ms, differences, .. } =
                workload.client_comparison.as_ref()?;
            let (slow_ms, typical_ms) = (*slow_ms, *typical_ms);
            Some(Self {
                kinds: parts,
                by_client: true,
                of_work: false,
                overall: None,
                slow_ms,
                typical_ms,
                differences: differences.as_ref(),
            })
        };
        match &workload.comparison {
            Some(seen) if seen.no_finding != Some(NoCauseReason::FewTraces) => {
                Some(Self::of_traces(seen, false))
            }
            _ => by_client(),
        }
    }

    fn of_traces(seen: &'a Comparison, of_work: bool) -> Self {
        Self {
            kinds: &seen.kinds,
            by_client: false,
            of_work,
            overall: seen.overall.as_ref(),
            slow_ms: seen.slow_ms,
            typical_ms: seen.typical_ms,
            differences: seen.differences.as_ref(),
        }
    }

    /// What one of the slow ones is called, and a typical one.
    fn called(&self) -> [&'static str; 2] {
        match self.of_work {
            true => ["the work of a late iteration", "the work of a typical iteration"],
            false => ["a slow iteration", "a typical iteration"],
        }
    }

    fn longer_ms(&self) -> f64 {
        self.slow_ms - self.typical_ms
    }

    fn name(&self, kind: &ComparedKind) -> StyledLine {
        if self.by_client { client_comparison::name(kind) } else { explanation::kind_name(kind) }
    }

    fn name_in_short(&self, kind: &ComparedKind) -> StyledLine {
        if self.by_client || kind.outside { self.name(kind) } else { explanation::kind_in_short(kind) }
    }
}

/// A card for each workload in which something stands out; work that ends late has its own, the largest difference first.
pub(super) fn cards(results: &Results, refs: &Refs) -> Vec<CardView> {
    let several = results.workloads.len() > 1;
    let of_workload = |workload: &Workload| -> Vec<CardView> {
        let late = words::late_work(workload).map(|late| CardComparison::of_traces(&late.comparison, true));
        let mut all: Vec<CardComparison<'_>> = CardComparison::of(workload).into_iter().chain(late).collect();
        all.sort_by(|one, other| other.longer_ms().total_cmp(&one.longer_ms()));
        all.iter().filter_map(|seen| card(workload, seen, several, refs)).collect()
    };
    results.workloads.iter().flat_map(of_workload).take(CARDS_MAX).collect()
}

fn card(workload: &Workload, seen: &CardComparison<'_>, several: bool, refs: &Refs) -> Option<CardView> {
    let Some(kind) = seen.kinds.iter().find(|kind| kind.is_cause) else {
        return whole_card(workload, seen, several, refs);
    };
    let worst = kind.worst_trace_id.filter(|id| refs.can_be_seen(*id));
    let bar = bar(seen);
    let described = bar.iter().map(|part| format!("{} {}", part.name, part.time));
    let has_statement = !(kind.outside || seen.by_client || is_waiting(&kind.name));
    Some(CardView {
        workload: several.then(|| workload.name.clone()),
        name: pieces(seen.name(kind)),
        share: text::percent(kind.share.clamp(0.0, 1.0)),
        described: described.collect::<Vec<_>>().join(", "),
        bar,
        slow: text::duration(seen.slow_ms),
        whole: seen.called()[0],
        statement: if has_statement { kind.detail.clone() } else { String::new() },
        shared: shared(&kind.contrasts, seen.differences),
        trace: worst.map(|id| refs.of(id)),
    })
}

/// Slow iterations that are slow as a whole.
fn whole_card(
    workload: &Workload,
    seen: &CardComparison<'_>,
    several: bool,
    refs: &Refs,
) -> Option<CardView> {
    let overall = seen.overall?;
    let name = words::whole_in_short(overall.pattern);
    let whole = [
        ("typical", seen.called()[1].to_owned(), seen.typical_ms),
        ("cause", "as a whole".to_owned(), seen.slow_ms - seen.typical_ms),
    ];
    let bar = parts(whole.to_vec());
    let described = bar.iter().map(|part| format!("{} {}", part.name, part.time));
    let worst = seen.kinds.iter().filter_map(|kind| kind.worst_trace_id).find(|id| refs.can_be_seen(*id));
    Some(CardView {
        workload: several.then(|| workload.name.clone()),
        name: pieces(name.into()),
        share: String::new(),
        described: described.collect::<Vec<_>>().join(", "),
        bar,
        slow: text::duration(seen.slow_ms),
        whole: seen.called()[0],
        statement: String::new(),
        shared: shared(&[], seen.differences),
        trace: worst.map(|id| refs.of(id)),
    })
}

/// Typical, each cause, and the rest: together they are the slow iteration's mean.
fn bar(seen: &CardComparison<'_>) -> Vec<PartView> {
    let causes = seen.kinds.iter().filter(|kind| kind.is_cause).take(CAUSES_MAX);
    let mut parts = vec![("typical", seen.called()[1].to_owned(), seen.typical_ms)];
    parts.extend(causes.map(|kind| ("cause", marks::plain(&seen.name_in_short(kind)), kind.delta_ms)));
    let known: f64 = parts.iter().map(|(_, _, ms)| ms).sum();
    let rest_ms = seen.slow_ms - known;
    if rest_ms.abs() > seen.slow_ms * REST_SEEN {
        parts.push(("rest", "all else".to_owned(), rest_ms));
    }
    self::parts(parts)
}

/// The parts of a bar, each as its class, name and time.
fn parts(parts: Vec<(&'static str, String, f64)>) -> Vec<PartView> {
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
fn shared(contrasts: &[Contrast], found: Option<&Differences>) -> Vec<SharedView> {
    let view = |what: StyledLine, slow_share: f64, typical_share: f64| {
        let [slow, typical] = [slow_share, typical_share].map(|share| share.clamp(0.0, 1.0));
        SharedView {
            what: pieces(what),
            slow: text::percent(slow),
            typical: text::percent(typical),
            slow_width: format!("{:.1}", slow * 100.0),
            typical_width: format!("{:.1}", typical * 100.0),
        }
    };
    let code = |text: String| StyledLine::default().code(text).done();
    let at_cause = contrasts
        .iter()
        .map(|one| view(code(format!("{} {}", one.attribute, one.value)), one.slow_share, one.typical_share));
    let anywhere = found.into_iter().flat_map(|all| &all.found).map(|one| {
        let AttributeValue { attribute, value, .. } = &one.value;
        let what = match attribute.starts_with(CLIENT) {
            true => differences::having(&one.value),
            false => code(format!("{attribute} = {value}")),
        };
        view(what, one.slow_share, one.typical_share)
    });
    at_cause.chain(anywhere).take(SHARED_MAX).collect()
}
