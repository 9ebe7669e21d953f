//! A search for capacity for people: at a terminal, and in Markdown.

use super::{CapacityDocument, LevelInfo, NoLimit, OverloadFailure, OverloadRecovery};
use crate::document::{
    Badge, Block, Column, DocumentTable, ReportDocument, StyledLine, Tone, markdown as md, terminal as tty,
};
use crate::machine;
use crate::texts::duration;
use ::capacity::limit::{Limit, LimitKind, NoLimitReason, TRACES_MIN};
use ::capacity::search::LevelOutcome;
use measure::generator::{FullProcessor, LocalProcess};
use results::model::{Criterion, Outcome, Severity};

/// What the table of levels means.
pub(crate) const LEVELS_HINT: &str =
    "Response times count from when iterations were due, so a backlog shows; the first level has one user";

/// For a terminal, without notes that the reader has `heard`.
#[must_use]
pub fn terminal(found: &CapacityDocument, heard: &[String], style: tty::TerminalStyle) -> String {
    let mut document = parts(found);
    let unheard = found.notes.iter().filter(|note| !heard.contains(note));
    document.notes(&unheard.cloned().collect::<Vec<_>>());
    tty::text(&document, style)
}

/// For a step summary or a comment, as Markdown.
#[must_use]
pub fn markdown(found: &CapacityDocument) -> String {
    md::text(&document(found))
}

/// The whole report.
#[must_use]
pub fn document(found: &CapacityDocument) -> ReportDocument {
    let mut document = parts(found);
    document.notes(&found.notes);
    document
}

fn parts(found: &CapacityDocument) -> ReportDocument {
    let mut document = ReportDocument::new(3, "capacity.json");
    document.push(Block::Title(headline(found)));
    document.push(Block::List(sentences(found)));
    document.titled("Levels", Some(LEVELS_HINT.into()), levels(found));
    document
}

/// The verdict in one line.
#[must_use]
pub fn headline(found: &CapacityDocument) -> StyledLine {
    let mut line = StyledLine::from(Badge::verdict(found.outcome));
    let cut_short = if found.finished { "" } else { " · interrupted" };
    line.text(format!(" · {} on {}: {}{cut_short}", found.scenario.title, found.deployment, answer(found)))
        .done()
}

/// `holds at 412/s, breaks at 430/s`.
pub(crate) fn answer(found: &CapacityDocument) -> String {
    let bounds = &found.bounds;
    match (bounds.holds_per_s, bounds.breaks_per_s) {
        (Some(holds), Some(breaks)) => format!("holds at {}, breaks at {}", rate(holds), rate(breaks)),
        (Some(holds), None) => format!("holds at {}, the highest rate that was tried", rate(holds)),
        (None, Some(breaks)) => format!("breaks at {}, the lowest rate that was tried", rate(breaks)),
        (None, None) => "no rate was tried".to_owned(),
    }
}

/// Sentences: the verdict's reasons, what stops the service, how it recovers, what was asked.
pub(crate) fn sentences(found: &CapacityDocument) -> Vec<StyledLine> {
    let mut lines: Vec<StyledLine> = found.reasons.iter().map(|reason| StyledLine::quoting(reason)).collect();
    lines.extend(found.fails.as_ref().map(fails));
    lines.extend(found.limit.as_ref().map(|named| limit(named, found.processor.is_some())));
    lines.extend(found.processor.as_ref().map(processor));
    let reason = found.no_limit.filter(|_| found.fails.is_none() && found.processor.is_none());
    lines.extend(reason.and_then(|reason| no_limit(found, reason)).map(StyledLine::from));
    lines.extend(recovery(found).map(StyledLine::from));
    let conditions = found.conditions.iter().map(|condition| format!("`{condition}`"));
    let conditions = conditions.collect::<Vec<_>>().join(", ");
    lines.push(StyledLine::quoting(&format!("Each level had to meet {conditions}.")));
    lines
}

/// What iterations fail of where the service breaks.
fn fails(failure: &OverloadFailure) -> StyledLine {
    let mut line = StyledLine::default();
    line.text(format!("Where it breaks, {:.0} % of iterations fail: ", failure.share * 100.0));
    line.code(failure.message.as_str()).text(".").done()
}

/// The processor that is full.
fn processor([at_ease, above]: &[LocalProcess; 2]) -> StyledLine {
    let full = above.full().unwrap_or(FullProcessor::OneThread);
    let percent = |service: &LocalProcess| format!("{:.0} %", service.share(full).min(1.0) * 100.0);
    let mut line = StyledLine::default();
    line.text("Where it breaks, one processor is full: ").code(above.name.as_str());
    line.text(format!(
        " (process {}), which listens at port {}, computes for {} of the time {}; at half the rate that holds for {}.",
        above.pid,
        above.port,
        percent(above),
        machine::threads(full),
        percent(at_ease)
    ));
    line.done()
}

/// What stops the service. `processor_known`: another sentence names a processor that is full.
pub(crate) fn limit(limit: &Limit, processor_known: bool) -> StyledLine {
    let Limit { kind, service, name, at_ease_ms, overloaded_ms, share, servers } = limit;
    let mut line = StyledLine::default();
    line.text("What stops it: ");
    let grew = format!(
        "{} → {} an iteration, {:.0} % of what grew",
        duration(*at_ease_ms),
        duration(*overloaded_ms),
        share * 100.0
    );
    match (kind, servers) {
        (LimitKind::Waits | LimitKind::Entry, Some(servers)) => {
            let turns = if servers.count == 1 {
                "one at a time".to_owned()
            } else {
                format!("{} at a time", servers.count)
            };
            line.code(name.as_str());
            let what = if *kind == LimitKind::Entry { "requests enter" } else { "calls run" };
            line.text(format!(
                " {what} {turns} in {service}, busy {:.0} % of the time; the others wait ({grew}).",
                servers.busy * 100.0
            ));
        }
        (LimitKind::Waits, None) if name.is_empty() => {
            line.text(format!("{service} waits before its calls ({grew}); for which of them is not known."));
        }
        (LimitKind::Waits, None) => {
            line.text(format!("{service} waits before its calls of "));
            line.code(name.as_str());
            line.text(format!(" ({grew}). How many run at once cannot be told from these traces."));
        }
        (LimitKind::Entry, None) => {
            line.text(format!(
                "requests take longer outside the trace points of services, before they are worked on or on their way ({grew})."
            ));
        }
        (LimitKind::Work, _) => {
            line.code(name.as_str());
            line.text(format!(
                " in {service} takes longer itself ({grew}){}.",
                match processor_known {
                    true => "",
                    false => ": a processor, a lock or a resource without trace points is full",
                }
            ));
        }
    }
    line.done()
}

fn no_limit(found: &CapacityDocument, reason: NoLimit) -> Option<String> {
    Some(match reason {
        NoLimit::NoBounds => return None,
        _ if !found.finished => return None,
        NoLimit::NoTraces => {
            "What stops it is not known: there are no traces. Give the deployment a key and a collector."
                .to_owned()
        }
        NoLimit::NoTime => {
            "What stops it was not looked at: the time was over. Give it more (--budget).".to_owned()
        }
        NoLimit::Analysis(NoLimitReason::TooFewTraces) => format!(
            "What stops it is not known: fewer than {TRACES_MIN} complete traces of {}.",
            if found.compared.is_some() { "a level" } else { "both levels" }
        ),
        NoLimit::Analysis(NoLimitReason::NothingGrew) => {
            "What stops it is not known: the traced iterations of both levels took the same time.".to_owned()
        }
        NoLimit::Analysis(NoLimitReason::Spread) => {
            "What stops it is not known: the time that grew is spread over several places.".to_owned()
        }
    })
}

/// How the service came back after levels that broke.
fn recovery(found: &CapacityDocument) -> Option<String> {
    if let Some(level) = found.levels.iter().find(|level| level.not_recovered) {
        let seconds = level.recovered_after_s.unwrap_or(0.0);
        return Some(format!(
            "It did not recover: {seconds:.0} s after the level at {}, single requests were still slower than before the search.",
            level.rate_per_s.map_or_else(String::new, rate)
        ));
    }
    if let Some(recovery) = &found.recovery {
        return Some(recovery_under_load(recovery));
    }
    let longest = found.levels.iter().filter_map(|level| Some((level.recovered_after_s?, level.rate_per_s?)));
    let (seconds, at) = longest.max_by(|one, other| one.0.total_cmp(&other.0))?;
    Some(format!("After overload it recovered within {seconds:.0} s (the longest, after {}).", rate(at)))
}

/// How it comes back while a lower load goes on.
fn recovery_under_load(recovery: &OverloadRecovery) -> String {
    let OverloadRecovery { overload_per_s, overload_s, tries } = recovery;
    let overload = format!("{overload_s:.0} s at {}", rate(*overload_per_s));
    let last = tries.last().map_or(0.0, |one| one.rate_per_s);
    let back = tries.last().and_then(|one| one.recovered_after_s);
    let back_s =
        |after_s: f64| if after_s < 1.0 { "a second".to_owned() } else { format!("{:.0} s", after_s.ceil()) };
    if let ([_], Some(after_s)) = (&tries[..], back) {
        return format!(
            "After {overload} it recovers within {}, while {} go on.",
            back_s(after_s),
            rate(last)
        );
    }
    let first = tries.first().map_or(0.0, |one| one.rate_per_s);
    let times = if tries.len() == 1 { "once" } else { "twice" };
    let falls = match back {
        Some(after_s) => {
            format!("the load has to fall to {}, where it recovers within {}", rate(last), back_s(after_s))
        }
        None if last == first => {
            "how far the load has to fall was not seen before the time was over".to_owned()
        }
        None => format!("nor while {} go on, the lowest load that was tried", rate(last)),
    };
    format!(
        "After {overload} it does not recover while {} go on, which it bears otherwise (seen {times}); {falls}. Something keeps \
         it overloaded: clients or services that try again, or work that nobody waits for any more.",
        rate(first)
    )
}

/// `412/s`, with as many digits as say something.
pub(crate) fn rate(per_s: f64) -> String {
    match per_s {
        100.0.. => format!("{per_s:.0}/s"),
        10.0.. => format!("{per_s:.1}/s"),
        _ => format!("{per_s:.2}/s"),
    }
}

/// A line for each level while the search runs.
#[must_use]
pub fn level_line(level: &LevelInfo) -> String {
    let load = level.rate_per_s.map_or_else(|| "one user".to_owned(), rate);
    let outcome = level.outcome.map_or("", word);
    let reason = level.reason.as_deref().map_or_else(String::new, |reason| format!(" ({reason})"));
    let times = [("p50", level.p50_ms), ("p99", level.p99_ms)];
    let times = times.iter().map(|(name, ms)| format!("{name} {}", time(*ms))).collect::<Vec<_>>().join(", ");
    let served = rate(level.served_per_s);
    format!("{load}: {served} served, {times} {outcome}{reason}").trim_end().to_owned()
}

fn time(ms: Option<f64>) -> String {
    ms.map_or_else(|| "–".to_owned(), duration)
}

fn word(outcome: LevelOutcome) -> &'static str {
    match outcome {
        LevelOutcome::Holds => "holds",
        LevelOutcome::Breaks => "breaks",
        LevelOutcome::Unclear => "unclear",
    }
}

fn badge(level: &LevelInfo) -> Badge {
    let (word, tone) = match level.outcome {
        Some(LevelOutcome::Holds) => ("holds", Tone::Good),
        Some(LevelOutcome::Breaks) => ("breaks", Tone::Bad),
        Some(LevelOutcome::Unclear) => ("unclear", Tone::Doubt),
        None => ("", Tone::Plain),
    };
    Badge { word, tone, strong: false, symbol: "" }
}

/// The levels, the lowest rate first.
pub(crate) fn levels(found: &CapacityDocument) -> DocumentTable {
    let mut table = DocumentTable::new(vec![
        Column::figure("asked"),
        Column::figure("served"),
        Column::words(""),
        Column::figure("p50"),
        Column::figure("p95").left_out(3),
        Column::figure("p99"),
        Column::figure("failed").left_out(2),
        Column::figure("iterations").left_out(4),
        Column::message("why").left_out(1),
    ]);
    let mut levels: Vec<&LevelInfo> = found.levels.iter().collect();
    levels.sort_by(|one, other| one.rate_per_s.unwrap_or(0.0).total_cmp(&other.rate_per_s.unwrap_or(0.0)));
    for level in levels {
        table.row([
            level.rate_per_s.map_or_else(|| "one user".to_owned(), rate).into(),
            rate(level.served_per_s).into(),
            StyledLine::from(badge(level)).into(),
            time(level.p50_ms).into(),
            time(level.p95_ms).into(),
            time(level.p99_ms).into(),
            format!("{:.2} %", level.failed_share() * 100.0).into(),
            level.iterations.to_string().into(),
            level.reason.clone().unwrap_or_default().into(),
        ]);
    }
    table
}

/// What is judged, as criteria: the rate that the service must bear.
#[must_use]
pub fn criteria(found: &CapacityDocument) -> Vec<Criterion> {
    let condition = match found.at_least_per_s {
        Some(least) => format!("capacity >= {}", rate(least)),
        None => "capacity".to_owned(),
    };
    vec![Criterion {
        workload: found.scenario.title.clone(),
        criterion: "capacity".to_owned(),
        condition,
        observed: answer(found),
        outcome: match found.outcome {
            Outcome::None => Outcome::Pass,
            outcome => outcome,
        },
        severity: Severity::Fail,
        reason: found.reasons.first().cloned(),
        measured: None,
        aborted: false,
        samples: found.levels.iter().map(|level| level.iterations).sum(),
        trace_ids: Vec::new(),
    }]
}
