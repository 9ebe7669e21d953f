//! Why slow iterations were slow, in words: the sentence of a comparison, what a kind of point is called, and what the
//! slowest iterations have in common.
//!
//! Terminal, Markdown, JUnit and pages share these words. Bounds and "explains" are said of a comparison of many
//! iterations only, never of a single trace. Nothing here may compute a statistic.

use super::because::{because, by_itself, outside};
use super::document::StyledLine;
pub use super::named::{PointLabel, kind_in_short, kind_name};
use super::named::{in_short, name_of, percent, share_with_bound};
use super::texts::{calls, capitalised, duration};
use super::{client_comparison, differences, machine, prediction, queues, slow_part};
use analysis::late_work::is_waiting;
use results::model::{
    Basis, ComparedKind, Comparison, Contrast, Explanation, Finding, LateWork, NoCauseReason, Overall,
    OwnTime, Place, Results, WholePattern, Workload,
};

/// What a reader should know first: why slow iterations are slow, or without a comparison what the slowest have in common.
#[must_use]
pub fn sentences(results: &Results) -> Vec<StyledLine> {
    let several = results.workloads.len() > 1;
    let of_workload = |workload: &Workload| -> Vec<StyledLine> {
        let named = |line: StyledLine| match several {
            true => StyledLine::from(format!("{}: ", workload.name)).line(line).done(),
            false => line,
        };
        why(workload).into_iter().chain(late_work(workload).map(late)).map(named).collect()
    };
    let has_comparison = results.workloads.iter().any(|workload| workload.comparison.is_some());
    let found = results.findings.iter().take(usize::from(!has_comparison)).map(finding);
    found.chain(results.workloads.iter().flat_map(of_workload)).chain(machine::lines(results)).collect()
}

/// Why the slow iterations of a workload are slow; by the client's own figures where there are no traces, or too few.
#[must_use]
pub fn why(workload: &Workload) -> Vec<StyledLine> {
    let mut lines: Vec<StyledLine> = match &workload.comparison {
        None => workload.client_comparison.iter().flat_map(client_comparison::sentences).collect(),
        Some(seen) if seen.no_finding == Some(NoCauseReason::FewTraces) => {
            let client = client_comparison::beside(seen, workload.client_comparison.as_ref());
            std::iter::once(comparison(seen)).chain(client).collect()
        }
        Some(seen) => std::iter::once(comparison(seen)).chain(differences::sentences(seen)).collect(),
    };
    lines.extend(queues::sentences(workload));
    lines.extend(workload.without_cause.as_ref().and_then(prediction::without_cause));
    lines
}

/// The cause that the comparison of slow with typical iterations names, or that of late with typical work, whichever makes
/// more of a difference; `None` if neither names one.
#[must_use]
pub fn cause(results: &Results) -> Option<FoundCause<'_>> {
    let both = results.workloads.iter().flat_map(|workload| {
        let response = workload.comparison.iter().map(move |seen| (workload, seen, None));
        response.chain(late_work(workload).map(move |late| (workload, &late.comparison, Some(late))))
    });
    let named = both.filter_map(|(workload, seen, late)| {
        let cause = seen.kinds.iter().find(|kind| kind.is_cause);
        let whole_ms = seen.slow_ms - seen.typical_ms;
        let name = match (cause, &seen.overall) {
            (Some(cause), _) => CauseName::Kind(name_of(cause).in_short()),
            // Slow iterations are slow as a whole.
            (None, Some(overall)) => CauseName::Whole(overall.pattern),
            (None, None) => return None,
        };
        let until = if late.is_some() { TimeEndpoint::WorkEnd } else { TimeEndpoint::Response };
        let sentence = compared(seen, until);
        Some((cause.map_or(whole_ms, |kind| kind.delta_ms), FoundCause { name, sentence, late, workload }))
    });
    named.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, found)| found)
}

/// What makes slow iterations slow, or work end late.
#[derive(Clone, Debug)]
pub struct FoundCause<'a> {
    pub name: CauseName,
    /// The sentence of the comparison.
    pub sentence: StyledLine,
    /// The late work, if it is about that.
    pub late: Option<&'a LateWork>,
    /// The workload that it is of.
    pub workload: &'a Workload,
}

/// What was found of work that ended late.
#[must_use]
pub fn late_work(workload: &Workload) -> Option<&LateWork> {
    workload.asynchronous.as_ref()?.late.as_deref()
}

/// What makes slow iterations slow, in short.
#[derive(Clone, Debug)]
pub enum CauseName {
    /// A kind of point.
    Kind(StyledLine),
    /// They are slow as a whole.
    Whole(WholePattern),
}

/// Whether the comparison says why slow iterations are slow.
#[must_use]
pub fn has_cause(seen: &Comparison) -> bool {
    seen.overall.is_some() || seen.kinds.iter().any(|kind| kind.is_cause)
}

/// How slow iterations are slow as a whole, in a few words.
#[must_use]
pub fn whole_in_short(pattern: WholePattern) -> &'static str {
    match pattern {
        WholePattern::SameFactor => "Everything is slower by about the same factor",
        WholePattern::SameMoments => "Slow ones come at the same moments, whatever they do",
    }
}

/// The same in a clause.
fn whole(overall: &Overall) -> String {
    let at_moments = |moments: &results::model::SlowMoments| {
        let times = if moments.moments == 1 {
            "one moment".to_owned()
        } else {
            format!("{} moments", moments.moments)
        };
        format!(
            "{} of {} begin and end together with others, in {times}; {} would by chance",
            moments.iterations,
            moments.of,
            percent(moments.share_by_chance)
        )
    };
    match (overall.pattern, &overall.moments) {
        (WholePattern::SameFactor, moments) => {
            let together = moments.as_ref().map_or_else(String::new, |moments| {
                format!("; and they come at the same moments ({})", at_moments(moments))
            });
            format!(
                "everything is slower by about the same factor (the services' points take {:.1} times as long): a busy \
                 or slow machine, or more work in all of it{together}",
                overall.factor
            )
        }
        (WholePattern::SameMoments, moments) => format!(
            "slow ones come at the same moments, whatever they do ({}): a stop of the whole process, such as garbage \
             collection, or a host without processor time",
            moments.as_ref().map(at_moments).unwrap_or_default()
        ),
    }
}

/// What makes slow iterations slower than typical ones.
#[must_use]
pub fn comparison(comparison: &Comparison) -> StyledLine {
    compared(comparison, TimeEndpoint::Response)
}

/// What makes the work of late iterations end later than that of typical ones.
#[must_use]
pub fn late(work: &LateWork) -> StyledLine {
    compared(&work.comparison, TimeEndpoint::WorkEnd)
}

/// To when times of iterations are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimeEndpoint {
    Response,
    /// To the end of asynchronous work.
    WorkEnd,
}

fn compared(comparison: &Comparison, until: TimeEndpoint) -> StyledLine {
    if comparison.no_finding == Some(NoCauseReason::Incomplete)
        && comparison.slow.min(comparison.typical) == 0
    {
        let what = match until {
            TimeEndpoint::Response => "Slow and typical iterations",
            TimeEndpoint::WorkEnd => "Late and typical work",
        };
        let text = format!("{what} cannot be compared: {} of their traces lack points.", comparison.left_out);
        return text.into();
    }
    if comparison.typical == 0 {
        let text = format!(
            "The slow iterations have {} traces, but there is no typical one to compare them with.",
            comparison.slow
        );
        return text.into();
    }
    let gap_ms = comparison.slow_ms - comparison.typical_ms;
    let (which, gap) = (slow_part::which(comparison), duration(gap_ms));
    let (slow, typical) = (duration(comparison.slow_ms), duration(comparison.typical_ms));
    let mut line = StyledLine::from(match until {
        TimeEndpoint::Response => {
            let which = capitalised(&which);
            format!("{which} take {gap} longer than typical ones ({slow} instead of {typical}, on average); ")
        }
        TimeEndpoint::WorkEnd => format!(
            "The work of {which} ends {gap} later than that of typical ones ({slow} instead of {typical}, on average); "
        ),
    });
    let causes: Vec<&ComparedKind> = comparison.kinds.iter().filter(|kind| kind.is_cause).collect();
    if let Some(first) = causes.first() {
        line.line(kind_name(first));
        let [share, low] = [first.share, first.share_low].map(percent);
        let explained = match low.as_str() {
            "100 %" => "all of it".to_owned(),
            _ => format!("{share} of it (at least {low})"),
        };
        let because = match comparison.of_slow {
            Some(_) => because(first).replace("slow iterations call", "these call"),
            None => because(first),
        };
        line.text(if first.with_below { ", with all that it calls, explains " } else { " explains " });
        line.text(format!("{explained}, because {because}")).line(around(comparison));
        line.line(where_it_is(first)).line(function(comparison));
        if let Some(second) = causes.get(1) {
            line.text("; ").line(kind_name(second));
            line.text(format!(" explains {}", share_with_bound(second)));
        }
        if causes.len() > 2 {
            line.text(format!(", and {} more", causes.len() - 2));
        }
        return line.text(".").done();
    }
    if comparison.no_finding == Some(NoCauseReason::NoGap) {
        return "The slow iterations that were traced are not slower than typical ones.".into();
    }
    if let Some(overall) = &comparison.overall {
        return line.text(format!("nothing stands out by itself: {}.", whole(overall))).done();
    }
    line.line(slow_part::unclear(comparison));
    let outside_first = comparison.kinds.first().filter(|first| first.outside);
    let can_be = outside_first.map(|first| format!(" It can be {}.", outside(first.own_time)));
    line.text(can_be.unwrap_or_default()).done()
}

/// `; \`GET /quote\` around it is called 3 times instead of once`.
fn around(comparison: &Comparison) -> StyledLine {
    let mut line = StyledLine::default();
    let is_said = comparison.kinds.first().is_some_and(|first| is_waiting(&first.name));
    if let Some(kind) = comparison.repeated.as_ref().filter(|_| !is_said) {
        line.text("; ").line(name_of(kind).in_short()).text(format!(" around it: {}", because(kind)));
    }
    line.done()
}

/// At most this many attributes of the cause stand in the sentence.
const CONTRASTS_MAX: usize = 2;

/// `; 98 % of its time is on host inv-3 (12 % in typical iterations)`.
fn where_it_is(kind: &ComparedKind) -> StyledLine {
    let mut line = StyledLine::default();
    for (number, contrast) in kind.contrasts.iter().take(CONTRASTS_MAX).enumerate() {
        let [slow, typical] = [contrast.slow_share, contrast.typical_share].map(percent);
        line.text(match number {
            0 => format!("; {slow} of its time is "),
            _ => format!(" and {slow} "),
        });
        line.line(having(contrast)).text(format!(" ({typical} in typical ones)"));
    }
    line.done()
}

/// `; in it, \`format\` explains 61 % (at least 48 %)`.
fn function(comparison: &Comparison) -> StyledLine {
    let mut line = StyledLine::default();
    let Some(functions) = &comparison.functions else { return line };
    if let Some(cause) = &functions.cause {
        let [share, low] = [cause.share, cause.share_low].map(percent);
        let place = if functions.whole { "; of the functions, " } else { "; in it, " };
        line.text(place).code(in_short(&cause.name));
        line.text(format!(" explains {share} (at least {low})"));
    }
    line.done()
}

fn having(contrast: &Contrast) -> StyledLine {
    let Contrast { attribute, value, .. } = contrast;
    if attribute == "host" {
        return StyledLine::from("on host ").code(in_short(value)).done();
    }
    let own = ["attributes.", "resource."].iter().find_map(|prefix| attribute.strip_prefix(prefix));
    StyledLine::from("with ").code(in_short(&format!("{}={value}", own.unwrap_or(attribute)))).done()
}

/// `7 of the 10 slowest iterations`, `All of the 10 slowest iterations`.
#[must_use]
pub fn number_of_slowest(iterations: u64, of: u64) -> String {
    match (iterations, of) {
        (1, 1) => "The slowest iteration".to_owned(),
        (n, of) if n == of => format!("All of the {of} slowest iterations"),
        (n, of) => format!("{n} of the {of} slowest iterations"),
    }
}

/// What the slowest iterations have in common.
#[must_use]
pub fn finding(finding: &Finding) -> StyledLine {
    let mut line = StyledLine::from(format!("{}: ", number_of_slowest(finding.iterations, finding.of)));
    line.line(PointLabel::from(finding).in_service());
    if !finding.path.is_empty() && finding.place == Place::Point {
        line.text(" under ").code(in_short(&finding.path.join(" › ")));
    }
    let of_calls = match finding.median_calls {
        calls if calls > 1.0 => format!(" in {calls} calls"),
        _ => String::new(),
    };
    let medians = if finding.iterations > 1 { " (medians)" } else { "" };
    let said = match (finding.basis, finding.median_longer_ms, finding.median_share_of_excess) {
        (Basis::Difference, Some(longer_ms), Some(share)) => format!(
            " takes {} longer than in typical ones{of_calls}, {} of what they take longer",
            duration(longer_ms),
            percent(share)
        ),
        _ => format!(
            " takes most time by itself, {}{of_calls}, {} of the response time",
            duration(finding.median_self_ms),
            percent(finding.median_share)
        ),
    };
    line.text(format!("{said}{medians}{}.", can_be(finding.place, None))).done()
}

/// What time outside the traced services can be.
fn can_be(place: Place, own_time: Option<OwnTime>) -> String {
    if place == Place::Outside { format!(": {}", outside(own_time)) } else { String::new() }
}

/// Why one iteration was slow.
#[must_use]
pub fn sentence(seen: &Explanation) -> StyledLine {
    let mut line = PointLabel::from(seen).whole();
    let part = match (seen.basis, seen.longer_ms, seen.excess_ms, seen.share_of_excess) {
        (Basis::Difference, Some(longer_ms), Some(excess_ms), Some(share)) => {
            let largest = if seen.explains { "" } else { ", the largest of several parts" };
            format!(
                " takes {} longer than in typical iterations{}{}: {} of the {} that this one takes longer{largest}.",
                duration(longer_ms),
                calls_here(seen),
                by_itself(seen.own_time, seen.place),
                percent(share),
                duration(excess_ms)
            )
        }
        _ => format!(
            " takes most time by itself: {} of {} ({}){}.",
            duration(seen.own_ms),
            duration(seen.response_ms),
            percent(seen.share_of_response()),
            calls_here(seen)
        ),
    };
    line.text(part);
    match seen.place {
        Place::Outside => line.text(format!(" It can be {}.", outside(seen.own_time))).done(),
        _ => line.done(),
    }
}

/// ` in 40 calls instead of 2`, or nothing for one call.
fn calls_here(seen: &Explanation) -> String {
    let here = calls(seen.calls as f64);
    match seen.typical_calls.map(calls) {
        Some(typical) if typical != here && typical != "0" => {
            format!(" in {here} calls instead of {typical}")
        }
        _ if seen.calls > 1 => format!(" in {here} calls"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::terminal;
    use analysis::explanation::OUTSIDE;
    use analysis::levels::ALL_POINTS;
    use results::model::SlowMoments;

    fn plain(line: &StyledLine) -> String {
        terminal::line(line, terminal::TerminalStyle::default())
    }

    fn found(basis: Basis, iterations: u64, of: u64) -> Finding {
        let difference = basis == Basis::Difference;
        Finding {
            name: "db".into(),
            detail: "SELECT 1".into(),
            service: "keystone/public".into(),
            path: vec!["wsgi GET /".into()],
            basis,
            iterations,
            of,
            median_self_ms: 80.0,
            median_share: 0.87,
            median_calls: 40.0,
            median_longer_ms: difference.then_some(76.0),
            median_share_of_excess: difference.then_some(0.93),
            ..Finding::default()
        }
    }

    #[test]
    fn a_finding_is_a_sentence() {
        let place = "`db · SELECT 1` in keystone/public under `wsgi GET /`";
        let outside = Finding {
            name: OUTSIDE.into(),
            detail: "list".into(),
            service: String::new(),
            place: Place::Outside,
            median_calls: 1.0,
            ..found(Basis::OwnTime, 1, 1)
        };
        for (seen, expected) in [
            (
                found(Basis::Difference, 3, 10),
                format!(
                    "3 of the 10 slowest iterations: {place} takes 76.0 ms longer than in typical ones in 40 calls, 93 % of \
                     what they take longer (medians)."
                ),
            ),
            (
                found(Basis::OwnTime, 10, 10),
                format!(
                    "All of the 10 slowest iterations: {place} takes most time by itself, 80.0 ms in 40 calls, 87 % of the \
                     response time (medians)."
                ),
            ),
            (
                outside,
                "The slowest iteration: time outside the traced services in action `list` takes most time by itself, \
                 80.0 ms, 87 % of the response time: the network, a proxy, a queue of the service before its first point, \
                 a service that is not traced, or this machine."
                    .to_owned(),
            ),
        ] {
            assert_eq!(plain(&finding(&seen)), expected);
        }
    }

    fn kind(name: &str, share: f64, is_cause: bool) -> ComparedKind {
        ComparedKind {
            service: "keystone/public".into(),
            name: name.into(),
            detail: "SELECT a, b FROM t WHERE x = ?".into(),
            parent: "wsgi GET /v3/users".into(),
            outside: false,
            with_below: false,
            delta_ms: 812.0 * share,
            share,
            share_low: share - 0.13,
            share_high: share + 0.1,
            slow_calls: 40.0,
            typical_calls: 2.0,
            more_calls_ms: 800.0 * share,
            slower_calls_ms: 12.0 * share,
            effect: 0.9,
            exceeding: 0.9,
            is_cause,
            worst_trace_id: None,
            called_service: None,
            spread: None,
            own_time: None,
            contrasts: Vec::new(),
        }
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of sentences")]
    fn a_comparison_is_a_sentence() {
        let mut seen = Comparison {
            slow_percent: 1,
            of_slow: None,
            missing: None,
            slow: 20,
            typical: 40,
            left_out: 0,
            slow_ms: 900.0,
            typical_ms: 88.0,
            no_finding: None,
            repeated: None,
            overall: None,
            kinds: vec![kind("db", 0.71, true), kind("rpc", 0.2, false)],
            clocks_moved: 0,
            clocks_inconsistent: 0,
            tree: Vec::new(),
            differences: None,
            functions: None,
            places: None,
        };
        let head = "Iterations above p99 take 812 ms longer than typical ones (900 ms instead of 88.0 ms, on average); ";
        let db = "`db · SELECT … FROM t` in keystone/public under `wsgi GET /v3/users`";
        let line = |seen: &Comparison| plain(&comparison(seen)).replace(head, "… ").replace(db, "DB");
        assert_eq!(
            line(&seen),
            "… DB explains 71 % of it (at least 58 %), because it is called 40 times instead of 2."
        );
        let first = &mut seen.kinds[0];
        (first.slow_calls, first.typical_calls, first.more_calls_ms, first.slower_calls_ms) =
            (1.0, 1.0, 0.0, 576.5);
        assert_eq!(line(&seen), "… DB explains 71 % of it (at least 58 %), because it takes 576 ms longer.");
        let contrast = |attribute: &str, value: &str| Contrast {
            attribute: attribute.into(),
            value: value.into(),
            slow_share: 0.98,
            typical_share: 0.12,
        };
        seen.kinds[0].contrasts = vec![contrast("host", "inv-3"), contrast("attributes.tenant", "t7")];
        let there = "98 % of its time is on host `inv-3` (12 % in typical ones) and 98 % with `tenant=t7` (12 % in \
                     typical ones)";
        assert_eq!(
            line(&seen),
            format!("… DB explains 71 % of it (at least 58 %), because it takes 576 ms longer; {there}.")
        );
        seen.kinds[0].contrasts.clear();
        let first = &mut seen.kinds[0];
        (first.slow_calls, first.called_service) = (3.0, Some("stock".to_owned()));
        let longer = "its 3 calls take 288 ms longer on average (typical iterations call it once), apart from the work of \
                      stock: the network, or stock was busy";
        assert_eq!(line(&seen), format!("… DB explains 71 % of it (at least 58 %), because {longer}."));
        (seen.kinds[0].slow_calls, seen.kinds[0].own_time) = (1.0, Some(OwnTime::After));
        let after = "it takes 576 ms longer by itself, after the last point below it, apart from the work of stock: the \
                     network, or keystone/public was busy when the answer came";
        assert_eq!(line(&seen), format!("… DB explains 71 % of it (at least 58 %), because {after}."));
        (seen.kinds[0].slow_calls, seen.kinds[0].own_time) = (3.0, None);
        let first = &mut seen.kinds[0];
        (first.name, first.detail, first.parent) = (ALL_POINTS.to_owned(), String::new(), String::new());
        let all = "… `all trace points` in keystone/public explains 71 % of it (at least 58 %), because";
        assert_eq!(line(&seen), format!("{all} the 3 take 288 ms longer on average."));
        (seen.kinds[0].slow_calls, seen.kinds[0].more_calls_ms) = (180.0, 600.0);
        assert_eq!(line(&seen), format!("{all} there are 180 of them instead of 1."));
        seen.kinds[0] = ComparedKind { with_below: true, ..kind("db", 0.71, true) };
        let whole = "… DB, with all that it calls, explains 71 % of it (at least 58 %), because it is called 40 times \
                     instead of 2.";
        assert_eq!(line(&seen), whole);
        seen.kinds[0].with_below = false;
        seen.repeated = Some(Box::new(ComparedKind {
            name: "GET /quote".into(),
            detail: String::new(),
            slow_calls: 3.0,
            typical_calls: 1.0,
            ..kind("", 0.9, true)
        }));
        let around = "… DB explains 71 % of it (at least 58 %), because it is called 40 times instead of 2; `GET /quote` \
                      around it: it is called 3 times instead of once.";
        assert_eq!(line(&seen), around);
        seen.repeated = None;
        seen.kinds[0] = kind("db", 0.71, false);
        seen.no_finding = Some(NoCauseReason::Unclear);
        let moments = SlowMoments { moments: 7, iterations: 28, of: 30, share_by_chance: 0.3 };
        for (pattern, moments, expected) in [
            (
                WholePattern::SameFactor,
                None,
                "… nothing stands out by itself: everything is slower by about the same factor (the services' points take \
                 3.1 times as long): a busy or slow machine, or more work in all of it.",
            ),
            (
                WholePattern::SameMoments,
                Some(moments),
                "… nothing stands out by itself: slow ones come at the same moments, whatever they do (28 of 30 begin and \
                 end together with others, in 7 moments; 30 % would by chance): a stop of the whole process, such as \
                 garbage collection, or a host without processor time.",
            ),
        ] {
            seen.overall = Some(Overall { pattern, factor: 3.1, moments });
            assert_eq!(line(&seen), expected);
        }
        seen.overall = None;
        for (reason, expected) in [
            (
                NoCauseReason::Unclear,
                "… no cause is certain. The largest part is in DB (71 %, at least 58 %), and other points are slower, too.",
            ),
            (
                NoCauseReason::FewTraces,
                "… too few traces to be certain why (20 slow, 40 typical). The largest part is in DB (71 %, at least 58 %).",
            ),
            (
                NoCauseReason::Incomplete,
                "… too many traces lack points to be certain why. The largest part is in DB (71 %, at least 58 %).",
            ),
            (NoCauseReason::NoGap, "The slow iterations that were traced are not slower than typical ones."),
        ] {
            seen.no_finding = Some(reason);
            assert_eq!(line(&seen), expected);
        }
        seen.typical = 0;
        assert_eq!(
            line(&seen),
            "The slow iterations have 20 traces, but there is no typical one to compare them with."
        );
        for (parent, expected) in [
            (
                "GET /items/{id} GET /items/{id}",
                "`db · SELECT … FROM t` in keystone/public under `GET /items/{id}`",
            ),
            (
                "GET /a/<int:b> GET /a/{id}",
                "`db · SELECT … FROM t` in keystone/public under `GET /a/<int:b>`",
            ),
            ("action list", "`db · SELECT … FROM t` in keystone/public, action `list`"),
            ("iteration load", "`db · SELECT … FROM t` in keystone/public"),
            (
                "db SELECT a, b FROM t",
                "`db · SELECT … FROM t` in keystone/public under `db · SELECT … FROM t`",
            ),
        ] {
            let seen = ComparedKind { parent: parent.into(), ..kind("db", 0.5, true) };
            assert_eq!(plain(&kind_name(&seen)), expected);
        }
        let mut outside = kind("action", 0.5, true);
        (outside.outside, outside.detail) = (true, "list".into());
        assert_eq!(plain(&kind_name(&outside)), "time outside the traced services in action `list`");
    }
}
