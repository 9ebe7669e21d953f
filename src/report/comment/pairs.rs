//! A comparison of two builds by paired rounds as a comment.

use std::path::Path;

use super::parts::{CommentParts, folded, inline, section, title};
use crate::document::{Badge, Block, DocumentTable, StyledLine};
use crate::pairs::{PairDocument, counts, sla, text as pairs};
use crate::screen;
use crate::words::{bounds, duration, signed};
use results::model::{Criterion, Outcome};
use text::shell;

/// Sentences on what decided, in which a long list of criteria is cut.
const SENTENCES_MAX: usize = 6;
const JUDGED_LINES_MAX: usize = 9;
const FOLDED_LINES_MAX: usize = 11;

/// The parts of a comparison's comment.
pub(super) fn parts(paired: &PairDocument, path: &str) -> CommentParts {
    let mut first = StyledLine::from(Badge::verdict(paired.decision.outcome));
    if let Some(reason) = reason(paired) {
        first.text(" · ").line(reason);
    }
    let mut head = format!("{}\n{}\n", title(&first.done()), inline(&pairs::subject_of(paired)));
    head.push_str(&cause(paired).map_or_else(String::new, |cause| format!("\n{}\n", inline(&cause))));
    // What the title says already, and what the verdict is based on, which is below.
    let said = paired.decision.reasons.first().map(|reason| format!("{reason}."));
    let mut sentences = pairs::explanation(paired);
    sentences.pop();
    sentences.retain(|sentence| said.as_ref() != Some(&screen::plain(sentence)));
    sentences.truncate(SENTENCES_MAX);
    head.push_str(if sentences.is_empty() { "" } else { "\n" });
    sentences.iter().for_each(|sentence| head.extend(["- ", inline(sentence).as_str(), "\n"]));
    let judged: Vec<DocumentTable> = [gated(paired), counts::table(paired), failing(paired)].into();
    let judged = judged.into_iter().filter(|table| !table.rows.is_empty());
    let mut sections: Vec<String> =
        judged.map(|table| section(vec![Block::Table(table)], JUDGED_LINES_MAX)).collect();
    sections.extend(folded("How it was made, and how to make it again", facts(paired), FOLDED_LINES_MAX));
    for (name, hint, table) in points(paired) {
        if !table.rows.is_empty() {
            let blocks = vec![Block::Paragraph(hint.into()), Block::Table(table)];
            sections.extend(folded(name, blocks, FOLDED_LINES_MAX));
        }
    }
    let mut open = StyledLine::from("The full report is ");
    open.code(Path::new(path).join("ab.html").display().to_string());
    open.text(" among the artifacts of the job.");
    CommentParts { head, sections, open: open.done() }
}

/// The criterion that decided, in words.
fn reason(paired: &PairDocument) -> Option<StyledLine> {
    if let Some(reason) = paired.decision.reasons.first() {
        return Some(StyledLine::quoting(reason));
    }
    let criteria = pairs::criteria(paired);
    let decided = criteria.iter().find(|criterion| criterion.outcome == paired.decision.outcome)?;
    let Criterion { condition, observed, .. } = decided;
    let observed = observed.trim_end_matches('.');
    // A sentence on a percentile begins with its name, as the condition does.
    let names = condition.split(':').next().unwrap_or_default();
    let said =
        if observed.starts_with(names) { observed.to_owned() } else { format!("{condition}: {observed}") };
    Some(StyledLine::quoting(&said))
}

/// The trace point that differs most for certain, if B is not good.
fn cause(paired: &PairDocument) -> Option<StyledLine> {
    if paired.decision.outcome == Outcome::Pass {
        return None;
    }
    let longer = paired.points.iter().filter(|row| row.low_ms > 0.0);
    let most = longer.max_by(|one, other| one.difference_ms.total_cmp(&other.difference_ms))?;
    let kind = if most.slow { "slow" } else { "typical" };
    let between = bounds(Some(most.low_ms), Some(most.high_ms), signed);
    let mut line = StyledLine::from("Longest difference: ");
    line.code(format!("{} {}", most.service, most.name));
    Some(
        line.text(format!(
            " takes {} in B instead of {} in {kind} iterations ({between}).",
            duration(most.b_self_ms),
            duration(most.a_self_ms)
        ))
        .done(),
    )
}

/// The judged percentiles.
fn gated(paired: &PairDocument) -> DocumentTable {
    let mut judged = paired.clone();
    judged.rows.retain(|row| row.series.gated);
    pairs::ratios(&judged)
}

/// Failures and criteria of the scenario, where they do not pass.
fn failing(paired: &PairDocument) -> DocumentTable {
    let mut judged = paired.clone();
    judged.failures.retain(|row| row.outcome != Outcome::Pass);
    judged.sla.retain(|row| row.b.outcome != Outcome::Pass);
    if judged.failures.is_empty() { sla::table(&judged) } else { pairs::failures(&judged) }
}

fn points(paired: &PairDocument) -> impl Iterator<Item = (&'static str, &'static str, DocumentTable)> {
    let changes = ("Calls that changed", counts::CHANGES_HINT, counts::changes(paired));
    [changes].into_iter().chain(pairs::point_tables(paired))
}

fn facts(paired: &PairDocument) -> Vec<Block> {
    let basis = pairs::explanation(paired).pop().unwrap_or_default();
    let mut words = vec!["bench".to_owned(), "ab".to_owned(), paired.scenario.file.clone()];
    words.extend(paired.scenario.options.iter().cloned());
    for (option, side) in [("--base-cmd", &paired.a), ("--new-cmd", &paired.b)] {
        words.extend(side.command.iter().flat_map(|command| [option.to_owned(), command.clone()]));
    }
    for (option, side) in [("--target-a", &paired.a), ("--target-b", &paired.b)] {
        words.extend(side.target.iter().flat_map(|target| [option.to_owned(), target.clone()]));
    }
    let mut deployments = vec![&paired.a.deployment];
    deployments.extend(Some(&paired.b.deployment).filter(|other| **other != paired.a.deployment));
    words.extend(deployments.iter().flat_map(|file| ["-d".to_owned(), (*file).clone()]));
    words.extend(["--margin".to_owned(), paired.margin_percent.to_string()]);
    let command = words.iter().map(|word| shell::word(word)).collect::<Vec<_>>().join(" ");
    let began = StyledLine::from(format!("{}, for {:.0} s of rounds", paired.began(), paired.load_s()));
    let version = ("bench", StyledLine::from(paired.bench_version.as_str()));
    let again = ("again", StyledLine::default().code(command).done());
    vec![Block::Paragraph(basis), Block::Facts(vec![("began", began), version, again])]
}
