//! A comparison of stored runs as a comment.

use super::parts::{CommentParts, add_paragraph, folded, inline, section, title};
use crate::compare::{self, AgainstHistory, TwoRuns};
use crate::document::{Badge, Block, ReportDocument, StyledLine};
use results::model::Outcome;

const SHOWN_LINES_MAX: usize = 16;
const FOLDED_LINES_MAX: usize = 12;
const REASONS_MAX: usize = 3;

/// Two runs side by side, which have no verdict.
pub(super) fn two_runs(compared: &TwoRuns) -> CommentParts {
    let mut first = StyledLine::from("No verdict · ");
    first.text(&compared.new.scenario).text(": two runs side by side");
    of_document(&compare::document(compared), &first.done())
}

/// A run against past runs.
pub(super) fn history(judged: &AgainstHistory) -> CommentParts {
    let mut first = StyledLine::from(Badge::verdict(judged.outcome));
    first.text(" · ").text(&judged.new.scenario).text(" against past runs");
    let rows = judged.rows.iter().map(|row| (row.outcome, &row.reason));
    let rows = rows.chain(judged.failures.iter().map(|row| (row.outcome, &row.reason)));
    let decided = rows.filter(|(outcome, _)| *outcome == judged.outcome && *outcome != Outcome::Pass);
    let reasons: Vec<StyledLine> =
        decided.take(REASONS_MAX).map(|(_, reason)| StyledLine::quoting(reason)).collect();
    let mut parts = of_document(&compare::history_document(judged), &first.done());
    for reason in &reasons {
        add_paragraph(reason, &mut parts.head);
    }
    parts
}

/// What stands before the second table is shown; the rest is folded away.
fn of_document(document: &ReportDocument, first: &StyledLine) -> CommentParts {
    let mut head = format!("{}\n", title(first));
    let (mut shown, mut rest, mut tables) = (Vec::new(), Vec::new(), 0);
    for block in &document.blocks {
        match block {
            Block::Title(line) => head.extend([inline(line).as_str(), "\n"]),
            Block::Heading(..) if tables == 0 => {}
            Block::Table(_) if tables == 0 => {
                tables += 1;
                shown.push(block.clone());
            }
            other if tables == 0 => shown.push(other.clone()),
            other => rest.push(other.clone()),
        }
    }
    let mut sections = vec![section(shown, SHOWN_LINES_MAX)];
    sections.extend(by_heading(rest));
    let open = "`bench compare BASE NEW --html -o compare.html` makes the full report of the two runs.";
    CommentParts { head, sections, open: StyledLine::quoting(open) }
}

/// Each heading with what follows it, folded away.
fn by_heading(blocks: Vec<Block>) -> Vec<String> {
    let mut parts: Vec<(String, Vec<Block>)> = Vec::new();
    for block in blocks {
        match (block, parts.last_mut()) {
            (Block::Heading(name, hint), _) => {
                parts.push((crate::screen::plain(&name), hint.map(Block::Paragraph).into_iter().collect()));
            }
            (block, Some((_, last))) => last.push(block),
            (block, None) => parts.push(("More".to_owned(), vec![block])),
        }
    }
    parts.into_iter().filter_map(|(name, blocks)| folded(&name, blocks, FOLDED_LINES_MAX)).collect()
}
