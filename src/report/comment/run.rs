//! A run as a comment.

use std::path::Path;

use super::parts::{CommentParts, add_paragraph, folded, inline, section, title};
use crate::document::{Block, StyledLine};
use crate::texts::duration;
use crate::{again, run, screen};
use results::model::{Results, TraceState};
use text::shell;

/// Lines of the table of criteria, with its head.
const CRITERIA_LINES_MAX: usize = 12;
const STEPS_LINES_MAX: usize = 14;
const FACTS_LINES_MAX: usize = 9;
const TRACES_SHOWN: usize = 3;

/// The parts of a run's comment.
pub(super) fn parts(results: &Results, path: &str) -> CommentParts {
    let screen = screen::of(results);
    let mut first = StyledLine::from(run::badge(results));
    first.text(" · ").line(screen.headline.clone());
    let mut sentence = StyledLine::from(format!("{}: ", run::subject(results)));
    sentence.line(screen.sentence.clone());
    let mut head = format!("{}\n{}\n", title(&first.done()), inline(&sentence.done()));
    for further in run::causes_of(results, &screen).into_iter().take(1).chain(traces(results, path)) {
        add_paragraph(&further, &mut head);
    }
    let mut sections = Vec::new();
    if let Some(Block::Criteria(mut criteria)) = run::criteria(results) {
        // What is wrong must not be in the part that is left out.
        criteria.sort_by_key(|judged| !judged.badge.strong);
        sections.push(section(vec![Block::Criteria(criteria)], CRITERIA_LINES_MAX));
    }
    let steps = results.workloads.iter().filter(|workload| workload.iterations.total > 0);
    let several = results.workloads.len() > 1;
    let steps = steps.flat_map(|workload| {
        let name = several.then(|| Block::Paragraph(workload.name.as_str().into()));
        name.into_iter().chain([Block::Table(run::times(workload))])
    });
    sections.extend(folded("Times of iterations and steps", steps.collect(), STEPS_LINES_MAX));
    sections.extend(folded("Where it ran, and how to run it again", facts(results), FACTS_LINES_MAX));
    let report = Path::new(path).join("report.html").display().to_string();
    let mut open = StyledLine::from("The full report is ");
    open.code(report).text(" among the artifacts of the job; ");
    open.code(format!("bench open {}", shell::word(path))).text(" opens it.");
    CommentParts { head, sections, open: open.done() }
}

/// Traces that show the verdict or its cause, and how to see one.
fn traces(results: &Results, path: &str) -> Option<StyledLine> {
    if !results.profiling.enabled {
        return None;
    }
    let has_trace = |state: TraceState| matches!(state, TraceState::Complete | TraceState::Partial);
    let slow = results.slowest.iter().filter(|slow| has_trace(slow.trace));
    let slow = slow.map(|slow| (slow.iteration.trace_id, Some(slow.response_ms)));
    let of_reason = screen::reason(results);
    let named: Vec<_> = match of_reason.kind.is_by_errors() {
        true => of_reason.trace_ids.iter().map(|id| (*id, None)).take(TRACES_SHOWN).collect(),
        false => slow.take(TRACES_SHOWN).collect(),
    };
    let (first, _) = named.first()?;
    let mut line = StyledLine::from(if of_reason.kind.is_by_errors() { "Traces: " } else { "Slowest: " });
    for (nth, (id, ms)) in named.iter().enumerate() {
        line.text(if nth > 0 { ", " } else { "" });
        line.text(ms.map_or_else(String::new, |ms| format!("{} ", duration(ms)))).code(id.to_string());
    }
    let command = format!("bench trace show {} {first}", shell::word(path));
    Some(line.text("; ").code(command).text(" shows the first.").done())
}

fn facts(results: &Results) -> Vec<Block> {
    let environment = &results.environment;
    let machine =
        format!("{}, {} processors, bench {}", environment.os, environment.cpus, environment.bench_version);
    let mut started = StyledLine::from(results.run.started_at.as_str());
    started.text(format!(", for {:.1} s", results.run.duration_s));
    let mut facts: Vec<(&'static str, StyledLine)> =
        vec![("machine", machine.into()), ("began", started.done())];
    facts.extend(run::facts(results).into_iter().filter(|(name, _)| matches!(*name, "load" | "traces")));
    facts.push(("again", StyledLine::default().code(again::command(results)).done()));
    vec![Block::Facts(facts)]
}
