//! What makes slow iterations slower than typical ones, at one level of detail, as the results show it.
//!
//! The attribution decides; this adds what the rows of the table need. Nothing here may choose iterations, fetch or print.

use uuid::Uuid;

use super::attribution::{Attribution, AttributionObstacle, FAST_MIN, KindContribution, compare};
use super::breakdown::{Breakdowns, Kind, is_outside};
use super::compared::Traces;
use super::contrast::{Points, contrast};
use super::differences::{ReportedValues, differences};
use super::explained::{is_certain, is_explained, stands_out};
use super::feature::{CLIENT, POINT};
use super::features::point_value;
use super::functions::{self, Iteration};
use super::levels::{Level, is_all_points};
use super::mean_tree::mean_tree;
use super::overall::overall;
use super::polls::{PAUSE, is_one_request_more};
use super::proportion::acquit;
use super::spread::spread;
use super::whole_calls::{RepeatedCalls, repeated};
use results::client_points::REPORTER;
use results::model::{
    ComparedFunctions, ComparedKind, Comparison, Contrast, NoCauseReason, Overall, SlowMoments,
};

/// What was found of slow and typical iterations.
pub(super) struct ComparisonFinding {
    found: Attribution,
    /// Whole calls that slow iterations make more often.
    repeated: RepeatedCalls,
    seed: u64,
    /// Iterations with complete traces.
    slow: Vec<usize>,
    typical: Vec<usize>,
    left_out: usize,
    /// Whether points have only a part of the times of their kinds, see [`Level::Served`].
    is_split: bool,
    /// For each kind, the one other service that its points call.
    called: Vec<Option<String>>,
}

/// Compares these slow with these typical iterations, whose points are told apart at this level; `None` without a tree of a
/// slow one. `together` says whether the slow ones come at the same moments.
pub(super) fn judge(
    traces: &Traces<'_>,
    (slow, typical): (&[usize], &[usize]),
    level: Level,
    together: bool,
    seed: u64,
) -> Option<ComparisonFinding> {
    if !slow.iter().any(|&one| traces.compared[one].tree.is_some()) {
        return None;
    }
    let breakdowns = &traces.breakdowns;
    let (whole_slow, whole_typical) = (traces.complete(slow), traces.complete(typical));
    let (slow_parts, typical_parts) = (traces.parts(slow), traces.parts(typical));
    let lost = |all: usize, kept: usize| if all == 0 { 0.0 } else { ratio(all - kept, all) };
    let incomplete = lost(slow.len(), slow_parts.len()).max(lost(typical.len(), typical_parts.len()));
    let mut found = compare(&slow_parts, &typical_parts, breakdowns.kinds.len(), incomplete, seed);
    let both: Vec<usize> = whole_slow.iter().chain(&whole_typical).copied().collect();
    acquit_short_pauses(&mut found, traces, &both);
    let called = match level.is_of_services() {
        true => vec![None; breakdowns.kinds.len()],
        false => traces.called_services(&both),
    };
    if !level.is_of_services() {
        acquit(&mut found, &breakdowns.kinds, (&slow_parts, &typical_parts), together, seed);
    }
    let services = services(breakdowns, &called);
    let is_enough = match level.is_of_services() {
        // That the only service of all traces is slower says no more than that they are slow.
        true => {
            breakdowns.kinds.iter().filter(|kind| is_all_points(&kind.name)).nth(1).is_some()
                && stands_out(&found.causes, &services, &typical_parts)
                && is_certain(&found.causes)
        }
        false => is_explained(&found.causes, &services, &typical_parts),
    };
    if !is_enough {
        found.causes.iter_mut().for_each(|cause| cause.is_cause = false);
    }
    let repeated = match level {
        Level::Place => repeated(&mut found, traces, (&whole_slow, &whole_typical), seed),
        _ => RepeatedCalls::default(),
    };
    let left_out = slow.len() + typical.len() - found.slow - found.fast;
    let is_split = level == Level::Served;
    Some(ComparisonFinding {
        found,
        repeated,
        seed,
        slow: whole_slow,
        typical: whole_typical,
        left_out,
        is_split,
        called,
    })
}

/// One more request of a poll is no cause.
fn acquit_short_pauses(found: &mut Attribution, traces: &Traces<'_>, of: &[usize]) {
    let kinds = &traces.breakdowns.kinds;
    for cause in found.causes.iter_mut().filter(|cause| cause.is_cause && kinds[cause.kind].name == PAUSE) {
        let pauses = of.iter().flat_map(|&one| {
            let of_kind = traces.breakdowns.kind_of[one].iter().enumerate();
            of_kind.filter(|(_, kind)| **kind == cause.kind).map(move |(index, _)| (traces.trees[one], index))
        });
        cause.is_cause = !is_one_request_more(cause.delta_us, pauses);
    }
}

impl ComparisonFinding {
    /// The functions of the cause that explains most.
    fn functions(&self, traces: &Traces<'_>) -> Option<ComparedFunctions> {
        let kind = self.causes().find(|(cause, _)| cause.is_cause).filter(|(_, whole)| !whole)?.0.kind;
        let iterations = |of: &[usize]| -> Vec<Iteration<'_>> {
            let one = |&one: &usize| {
                let points = traces.points_of(one, kind);
                let parts = traces.breakdowns.traces[one].iter().flat_map(|trace| &trace.parts);
                Iteration {
                    functions: &traces.compared[one].functions,
                    points: points.iter().map(|(point, _)| point.trace_id.as_str()).collect(),
                    self_ms: parts.filter(|part| part.kind == kind).map(|part| part.self_us / 1e3).sum(),
                }
            };
            of.iter().map(one).collect()
        };
        functions::compare(&iterations(&self.slow), &iterations(&self.typical), self.seed)
    }

    /// All causes, and whether they are whole calls.
    fn causes(&self) -> impl Iterator<Item = (&KindContribution, bool)> {
        let whole = self.repeated.causes.iter().filter(|_| self.repeated.is_first).map(|cause| (cause, true));
        whole.chain(self.found.causes.iter().map(|cause| (cause, false)))
    }

    /// Why it names no cause, if so.
    pub(super) fn no_finding(&self) -> Option<NoCauseReason> {
        if self.causes().any(|(cause, _)| cause.is_cause) { None } else { no_finding(&self.found) }
    }

    /// How the slow iterations are slow as a whole, if they are and nothing is named; `traces` are those that were judged.
    pub(super) fn overall(&self, traces: &Traces<'_>, moments: Option<SlowMoments>) -> Option<Overall> {
        let sides = (traces.parts(&self.slow), traces.parts(&self.typical));
        overall(&self.found, &traces.breakdowns.kinds, (&sides.0, &sides.1), moments)
    }

    /// The whole call around the named kinds that slow iterations make more often, if it is not one of these itself.
    fn around(&self, kinds: &[ComparedKind]) -> Option<&KindContribution> {
        let around = self.repeated.causes.first().filter(|_| !self.repeated.is_first)?;
        let is_named = self.found.causes.iter().any(|cause| cause.is_cause && cause.kind == around.kind);
        (!is_named && kinds.iter().any(|kind| kind.is_cause)).then_some(around)
    }

    /// Accuses this kind alone, if it explains more of the difference than any other and enough of it. Its callers were
    /// chosen by a test of its own, so a few of them are enough.
    pub(super) fn of_callers(mut self, kind: usize) -> Option<Self> {
        if self.found.unsupported == Some(AttributionObstacle::FewTraces) && self.found.fast >= FAST_MIN {
            self.found.unsupported = None;
        }
        self.found.causes.iter_mut().for_each(|cause| cause.is_cause = false);
        let first = self.found.causes.first_mut()?;
        first.is_cause = self.found.unsupported.is_none() && first.kind == kind && first.is_large();
        first.is_cause.then_some(self)
    }

    /// As the results show it; `traces` are those that were judged.
    pub(super) fn comparison(&self, traces: &Traces<'_>, slow_percent: u32) -> Comparison {
        let (breakdowns, found) = (&traces.breakdowns, &self.found);
        let (slow_trees, typical_trees) = (traces.trees(&self.slow), traces.trees(&self.typical));
        let ids: Vec<Uuid> = self.slow.iter().map(|&one| traces.compared[one].trace_id).collect();
        let whole_row = |cause: &KindContribution| ComparedKind {
            with_below: true,
            // With the work of the services.
            outside: false,
            ..row(cause, breakdowns, &ids)
        };
        let mut kinds: Vec<ComparedKind> = self
            .causes()
            .map(|(cause, whole)| if whole { whole_row(cause) } else { row(cause, breakdowns, &ids) })
            .collect();
        for (number, ((cause, whole), kind)) in self.causes().zip(&mut kinds).enumerate() {
            // What it calls is part of a whole call.
            kind.called_service = self.called[cause.kind].clone().filter(|_| !whole);
            if !self.is_split && (number == 0 || cause.is_cause) {
                let points = |of: &[usize]| -> Vec<_> {
                    of.iter().map(|&one| traces.points_of(one, cause.kind)).collect()
                };
                let (slow, typical) = (points(&self.slow), points(&self.typical));
                kind.spread = spread(&slow, &typical);
                kind.contrasts = contrasts(&slow, &typical);
            }
        }
        let functions = if self.is_split { None } else { self.functions(traces) };
        if functions.as_ref().is_some_and(|functions| functions.cause.is_some()) {
            // Its own functions were at work: it did not wait for the service that it calls.
            kinds.iter_mut().filter(|kind| kind.is_cause).for_each(|kind| kind.called_service = None);
        }
        Comparison {
            slow_percent,
            of_slow: None,
            missing: None,
            slow: found.slow as u64,
            typical: found.fast as u64,
            left_out: self.left_out as u64,
            slow_ms: found.slow_us / 1e3,
            typical_ms: found.fast_us / 1e3,
            no_finding: self.no_finding(),
            differences: differences(&slow_trees, &typical_trees, &known(&kinds)),
            repeated: self.around(&kinds).map(whole_row).map(Box::new),
            overall: None,
            kinds,
            clocks_moved: breakdowns.shifted.len() as u64,
            clocks_inconsistent: breakdowns.inconsistent.len() as u64,
            tree: mean_tree(&slow_trees, &typical_trees),
            functions,
            places: None,
        }
    }
}

/// What the kinds say already: the causes, and the attributes that their slow calls have.
fn known(kinds: &[ComparedKind]) -> ReportedValues {
    let causes = kinds.iter().filter(|kind| kind.is_cause);
    causes
        .clone()
        .map(|kind| (POINT.to_owned(), point_value(&kind.name, &kind.detail)))
        .chain(
            causes.flat_map(|kind| kind.contrasts.iter().map(|contrast| known_of(&kind.service, contrast))),
        )
        .collect()
}

/// The attribute of a contrast of a cause of this service as differences name it, and its value.
fn known_of(service: &str, contrast: &Contrast) -> (String, String) {
    let attribute = contrast.attribute.as_str();
    let own = ["attributes.", "resource."].iter().find_map(|prefix| attribute.strip_prefix(prefix));
    let attribute = match own {
        None if service == REPORTER => format!("{CLIENT}{attribute}"),
        own => own.unwrap_or(attribute).to_owned(),
    };
    (attribute, contrast.value.clone())
}

/// The attributes that slow points of a kind have in common.
fn contrasts(slow: &[Points<'_>], typical: &[Points<'_>]) -> Vec<Contrast> {
    let found = contrast(slow, typical).into_iter();
    found
        .map(|found| Contrast {
            attribute: found.attribute,
            value: found.value,
            slow_share: found.slow_share,
            typical_share: found.typical_share,
        })
        .collect()
}

/// For each kind, the service that its own time belongs to: that of a call to the service which it waits for.
fn services(breakdowns: &Breakdowns, called: &[Option<String>]) -> Vec<Option<String>> {
    let of_kind = |kind: &Kind| {
        Some(&kind.service).filter(|service| !service.is_empty() && *service != REPORTER).cloned()
    };
    breakdowns
        .kinds
        .iter()
        .zip(called)
        .map(|(kind, called)| called.clone().or_else(|| of_kind(kind)))
        .collect()
}

fn no_finding(found: &Attribution) -> Option<NoCauseReason> {
    match found.unsupported {
        Some(AttributionObstacle::FewTraces) => Some(NoCauseReason::FewTraces),
        Some(AttributionObstacle::Incomplete) => Some(NoCauseReason::Incomplete),
        Some(AttributionObstacle::NoGap) => Some(NoCauseReason::NoGap),
        None if found.causes.iter().any(|cause| cause.is_cause) => None,
        None => Some(NoCauseReason::Unclear),
    }
}

fn row(cause: &KindContribution, breakdowns: &Breakdowns, ids: &[Uuid]) -> ComparedKind {
    let kind = &breakdowns.kinds[cause.kind];
    ComparedKind {
        service: kind.service.clone(),
        name: kind.name.clone(),
        detail: kind.detail.clone(),
        parent: kind.parent.clone(),
        outside: is_outside(kind),
        with_below: false,
        delta_ms: cause.delta_us / 1e3,
        share: cause.share,
        share_low: cause.share_low,
        share_high: cause.share_high,
        slow_calls: cause.slow_calls,
        typical_calls: cause.fast_calls,
        more_calls_ms: cause.more_calls_us / 1e3,
        slower_calls_ms: cause.slower_calls_us / 1e3,
        effect: cause.effect,
        exceeding: cause.exceeding,
        is_cause: cause.is_cause,
        worst_trace_id: ids.get(cause.worst).copied(),
        called_service: None,
        spread: None,
        own_time: Some(cause.lies.place(cause.delta_us)),
        contrasts: Vec::new(),
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    part as f64 / whole as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_named_as_differences_name_them() {
        for (service, attribute, expected) in [
            ("shop", "host", "host"),
            ("shop", "attributes.db.name", "db.name"),
            ("shop", "resource.host.name", "host.name"),
            (REPORTER, "status", "client.status"),
            (REPORTER, "attributes.db.name", "db.name"),
        ] {
            let (attribute, value) = (attribute.to_owned(), "x".to_owned());
            let contrast = Contrast { attribute, value, slow_share: 1.0, typical_share: 0.0 };
            assert_eq!(known_of(service, &contrast), (expected.to_owned(), "x".to_owned()), "{service}");
        }
    }

    #[test]
    fn own_time_belongs_to_the_service_that_is_waited_for() {
        let kind = |service: &str| Kind { service: service.to_owned(), ..Kind::default() };
        let kinds = ["shop", "shop", "", REPORTER].map(kind).to_vec();
        let called = [None, Some("stock".to_owned()), None, None];
        let found = services(&Breakdowns { kinds, ..Breakdowns::default() }, &called);
        assert_eq!(found, [Some("shop".to_owned()), Some("stock".to_owned()), None, None]);
    }
}
