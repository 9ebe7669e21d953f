//! Slow against typical iterations as the template sees them: the sentence, the kinds, the mean tree, and the cost of
//! profiling.
//!
//! Strings here are plain text; the template escapes them. No statistic may be computed here.

use serde::Serialize;

use super::marks;
use super::refs::{Refs, TraceRef};
use super::text;
use crate::asynchronous;
use crate::differences;
use crate::document::{StyledLine, StyledSpan};
use crate::machine;
use crate::observer;
use crate::words;
use results::model::{
    ComparedKind, Comparison, Contrast, LateIteration, LateWork, NoCauseReason, ObserverEffect, Results,
    Workload,
};

/// The width of a bar of shares, in units of its drawing: 100 % with some room on both sides.
const SHARE_WIDTH: f64 = 120.0;
/// Kinds that explain less are folded away.
const SHARE_SMALL: f64 = 0.05;
/// Kinds that are shown where none stands out.
const KINDS_SHOWN: usize = 4;
/// Rows of the mean tree's table.
const TREE_ROWS_MAX: usize = 120;

/// A sentence on the first screen.
#[derive(Serialize)]
pub(super) struct SentenceView {
    workload: Option<String>,
    pieces: Vec<PieceView>,
}

#[derive(Serialize)]
pub(super) struct PieceView {
    code: bool,
    text: String,
}

#[derive(Serialize)]
pub(super) struct ComparisonView {
    sides: String,
    left_out: String,
    clocks: String,
    kinds: Vec<KindView>,
    /// Kinds that explain less.
    small: Vec<KindView>,
    has_contrasts: bool,
    /// Whether any kind has a trace that can be opened.
    has_worst: bool,
    /// What slow traces have more often: values, shares, bounds.
    differences: Vec<[String; 4]>,
    differences_hint: String,
    tree: Vec<NodeView>,
    tree_left: usize,
    described: String,
}

/// Late against typical work, and the iterations whose work ended last.
#[derive(Serialize)]
pub(super) struct LateView {
    compared: ComparisonView,
    latest: Vec<LateRow>,
}

#[derive(Serialize)]
struct LateRow {
    trace: TraceRef,
    ended: String,
    response: String,
    above: Option<String>,
    part: Vec<PieceView>,
}

#[derive(Serialize)]
struct KindView {
    name: String,
    detail: String,
    service: String,
    parent: String,
    is_cause: bool,
    share: String,
    bounds: String,
    bar: [String; 4],
    delta: String,
    calls: String,
    more: String,
    slower: String,
    worst: Option<TraceRef>,
    contrasts: Vec<String>,
}

/// A row of the mean tree's table.
#[derive(Serialize)]
struct NodeView {
    indent: String,
    name: String,
    service: String,
    slow: String,
    typical: String,
    difference: String,
    calls: String,
}

#[derive(Serialize)]
pub(super) struct EffectView {
    sentence: String,
    sides: String,
    rows: Vec<[String; 6]>,
}

pub(super) fn pieces(line: StyledLine) -> Vec<PieceView> {
    let view = |span| match span {
        StyledSpan::Text(text) => PieceView { code: false, text },
        StyledSpan::Code(text) => PieceView { code: true, text },
        StyledSpan::Badge(badge) => PieceView { code: false, text: badge.word.to_owned() },
    };
    line.spans.into_iter().map(view).collect()
}

/// A text with its code between backticks.
pub(super) fn marked(text: &str) -> Vec<PieceView> {
    let pieces = text.split('`').enumerate();
    let pieces = pieces.map(|(place, text)| PieceView { code: place % 2 == 1, text: text.to_owned() });
    pieces.filter(|piece| !piece.text.is_empty()).collect()
}

/// The sentences of the first screen: one for each workload that has a comparison, else what the slowest share.
/// What `said` holds is not said again.
pub(super) fn sentences(results: &Results, said: &str) -> Vec<SentenceView> {
    let several = results.workloads.len() > 1;
    let compared = results.workloads.iter().flat_map(|workload| {
        let lines = match &workload.comparison {
            Some(seen) if seen.no_finding != Some(NoCauseReason::FewTraces) => vec![words::comparison(seen)],
            _ => words::why(workload),
        };
        let late = words::late_work(workload).map(words::late);
        let new = lines.into_iter().chain(late).filter(move |line| !said.contains(&marks::plain(line)));
        new.map(move |line| SentenceView {
            workload: several.then(|| workload.name.clone()),
            pieces: pieces(line),
        })
    });
    let has_comparison = results.workloads.iter().any(|workload| workload.comparison.is_some());
    let found = results.findings.iter().take(usize::from(!has_comparison)).map(words::finding);
    let found = found.filter(|line| !said.contains(&marks::plain(line)));
    let machine = machine::lines(results).filter(|line| !said.contains(&marks::plain(line)));
    let of_run = found.chain(machine).map(|line| SentenceView { workload: None, pieces: pieces(line) });
    compared.chain(of_run).collect()
}

/// Slow against typical responses.
pub(super) fn comparison(workload: &Workload, refs: &Refs) -> Option<ComparisonView> {
    let of = ("slowest", " of the same time");
    Some(compared(workload.comparison.as_ref()?, &workload.name, of, refs))
}

/// Late against typical work.
pub(super) fn late(workload: &Workload, refs: &Refs) -> Option<LateView> {
    let LateWork { comparison, latest } = words::late_work(workload)?;
    let row = |LateIteration { response_ms, explanation }: &LateIteration| LateRow {
        trace: refs.of(explanation.trace_id),
        ended: text::duration(explanation.response_ms),
        response: text::duration(*response_ms),
        above: explanation.excess_ms.map(words::signed),
        part: pieces(asynchronous::largest_part(explanation)),
    };
    Some(LateView {
        compared: compared(comparison, &workload.name, ("latest", ""), refs),
        latest: latest.iter().map(row).collect(),
    })
}

/// `slowest` says what the slow ones are, and `when` when the typical ones were.
fn compared(seen: &Comparison, workload: &str, (slowest, when): (&str, &str), refs: &Refs) -> ComparisonView {
    let Comparison { slow, typical, slow_percent, left_out, .. } = seen;
    // What stands out is shown alone; without it, the largest ones, which come first.
    let stands_out = seen.kinds.iter().any(|one| one.is_cause);
    let (shown, small): (Vec<_>, Vec<_>) = seen.kinds.iter().enumerate().partition(|(place, one)| {
        one.is_cause || !stands_out && one.share >= SHARE_SMALL && *place < KINDS_SHOWN
    });
    let rows = |all: Vec<(usize, &ComparedKind)>| all.into_iter().map(|(_, one)| kind(one, refs)).collect();
    let clocks = match (seen.clocks_moved, seen.clocks_inconsistent) {
        (0, 0) => String::new(),
        (moved, 0) => {
            format!("The clocks of {moved} pair{} of hosts were aligned.", if moved == 1 { "" } else { "s" })
        }
        (moved, wrong) => {
            format!(
                "The clocks of {moved} pairs of hosts were aligned; those of {wrong} pairs do not agree in all calls."
            )
        }
    };
    ComparisonView {
        sides: if *typical == 0 {
            format!(
                "{} slow iterations with traces; no successful iteration between p10 and p50 has one.",
                text::count(*slow)
            )
        } else {
            let which = match seen.of_slow {
                Some(of) => format!(
                    "Of the {slowest} {slow_percent} % ({} traces), those that call the point which is named",
                    text::count(of)
                ),
                None => format!("The {slowest} {slow_percent} %"),
            };
            format!(
                "{which} ({} traces, {} on average) against {} typical iterations between p10 and p50{when} ({}).",
                text::count(*slow),
                text::duration(seen.slow_ms),
                text::count(*typical),
                text::duration(seen.typical_ms)
            )
        },
        left_out: match left_out {
            0 => String::new(),
            left_out => format!("{left_out} more had no complete trace."),
        },
        clocks,
        has_worst: seen.kinds.iter().filter_map(|kind| kind.worst_trace_id).any(|id| refs.can_be_seen(id)),
        has_contrasts: seen.kinds.iter().any(|kind| !kind.contrasts.is_empty()),
        kinds: rows(shown),
        small: rows(small),
        differences: seen.differences.iter().flat_map(|all| &all.found).map(differences::row).collect(),
        differences_hint: differences::basis(seen),
        tree: seen.tree.iter().take(TREE_ROWS_MAX).map(node).collect(),
        tree_left: seen.tree.len().saturating_sub(TREE_ROWS_MAX),
        described: format!(
            "Flame graph of the mean trace of {workload}: slow iterations {} below, typical ones {} above. The table below holds the same.",
            text::duration(seen.slow_ms),
            text::duration(seen.typical_ms)
        ),
    }
}

fn kind(kind: &ComparedKind, refs: &Refs) -> KindView {
    let x = |share: f64| share.clamp(-0.05, 1.05) * 100.0 + 10.0;
    // No "-0 %".
    let whole = |share: f64| format!("{:.0} %", (share * 100.0).round() + 0.0);
    let (low, high) = (x(kind.share_low), x(kind.share_high));
    KindView {
        name: match kind.outside {
            true => "outside the traced services".to_owned(),
            false => words::shown_name(&kind.name).to_owned(),
        },
        detail: if kind.outside { format!("{} {}", kind.name, kind.detail) } else { kind.detail.clone() },
        service: if kind.outside { String::new() } else { kind.service.clone() },
        parent: if kind.outside { String::new() } else { kind.parent.clone() },
        is_cause: kind.is_cause,
        share: whole(kind.share),
        bounds: format!("{} to {}", whole(kind.share_low), whole(kind.share_high)),
        bar: [x(0.0), (x(kind.share) - x(0.0)).max(0.0), low.min(SHARE_WIDTH), (high - low).max(1.0)]
            .map(|number| format!("{number:.1}")),
        delta: words::signed(kind.delta_ms),
        calls: match (words::calls(kind.slow_calls), words::calls(kind.typical_calls)) {
            (slow, typical) if slow == typical => slow,
            (slow, typical) => format!("{slow} instead of {typical}"),
        },
        more: words::signed(kind.more_calls_ms),
        slower: words::signed(kind.slower_calls_ms),
        worst: kind.worst_trace_id.map(|id| refs.of(id)),
        contrasts: kind.contrasts.iter().map(contrast).collect(),
    }
}

fn contrast(seen: &Contrast) -> String {
    let Contrast { attribute, value, slow_share, typical_share } = seen;
    format!("{attribute} {value}: {:.0} % instead of {:.0} %", slow_share * 100.0, typical_share * 100.0)
}

fn node(node: &results::model::ComparedNode) -> NodeView {
    let calls = match (words::calls(node.slow_calls), words::calls(node.typical_calls)) {
        (slow, typical) if slow == typical => slow,
        (slow, typical) => format!("{slow} instead of {typical}"),
    };
    NodeView {
        indent: "\u{2007}\u{2007}".repeat(node.depth.min(24) as usize),
        name: words::point_name(&node.name, &node.detail),
        service: node.service.clone(),
        slow: text::duration(node.slow_ms),
        typical: text::duration(node.typical_ms),
        difference: words::signed(node.slow_ms - node.typical_ms),
        calls,
    }
}

pub(super) fn effect(effect: &ObserverEffect) -> EffectView {
    let row = |at: &results::model::EffectAt| {
        let share = if at.control_ms > 0.0 {
            words::percent(at.difference_ms / at.control_ms)
        } else {
            "–".to_owned()
        };
        [
            format!("p{}", at.percentile),
            text::duration(at.profiled_ms),
            text::duration(at.control_ms),
            words::signed(at.difference_ms),
            share,
            format!("{} to {}", words::signed(at.low_ms), words::signed(at.high_ms)),
        ]
    };
    EffectView {
        sentence: observer::sentence(effect),
        sides: format!(
            "{} profiled iterations against {} that were left unprofiled at random ({:.0} %), all successful.",
            text::count(effect.profiled),
            text::count(effect.control),
            effect.control_percent
        ),
        rows: effect.percentiles.iter().map(row).collect(),
    }
}
