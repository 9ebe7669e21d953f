//! The pieces of a comment: titles, sections of a limited length, and what is folded away.

use std::fmt::Write as _;

use crate::document::{Block, ReportDocument, StyledLine, markdown};
use crate::screen;

/// Headings stand below those of a page.
const LEVEL: usize = 3;
/// The most bytes of one section; a row of a table that is longer is left out.
const SECTION_BYTES_MAX: usize = 14_000;
/// The most bytes of a sentence with its markup.
const SENTENCE_BYTES_MAX: usize = 4_000;

/// The parts of a comment, each Markdown with a final line feed.
pub(super) struct CommentParts {
    /// The verdict and its reason, and the cause.
    pub(super) head: String,
    /// Tables and what is folded away, the most important first.
    pub(super) sections: Vec<String>,
    /// How to open the full report, without a link to it.
    pub(super) open: StyledLine,
}

/// A line as Markdown; without its markup if that is too long.
pub(super) fn inline(line: &StyledLine) -> String {
    let shown = markdown::line(line);
    if shown.len() <= SENTENCE_BYTES_MAX { shown } else { markdown::escaped(&screen::plain(line)) }
}

/// The first line: the verdict and its reason.
pub(super) fn title(line: &StyledLine) -> String {
    format!("{} {}\n", "#".repeat(LEVEL), inline(line))
}

/// Adds a line as a paragraph.
pub(super) fn add_paragraph(line: &StyledLine, text: &mut String) {
    text.extend(["\n", inline(line).as_str(), "\n"]);
}

/// Parts of a document as Markdown of a limited number of lines.
pub(super) fn section(blocks: Vec<Block>, lines_max: usize) -> String {
    let document = ReportDocument { level: LEVEL, whole: "", blocks };
    bounded(&markdown::text(&document), lines_max)
}

/// Parts of a document, folded away under a title.
pub(super) fn folded(title: &str, blocks: Vec<Block>, lines_max: usize) -> Option<String> {
    let text = section(blocks, lines_max);
    let is_empty = text.trim().is_empty();
    (!is_empty)
        .then(|| format!("<details><summary>{}</summary>\n\n{text}\n</details>\n", markdown::escaped(title)))
}

/// The first lines of a text, with how many are left out. Each row of a table is a line, so that none is cut.
fn bounded(text: &str, lines_max: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    let mut bytes = 0;
    let fits = all.iter().take_while(|line| {
        bytes += line.len() + 1;
        bytes <= SECTION_BYTES_MAX
    });
    let fitting = fits.count();
    if all.len() <= lines_max && fitting == all.len() {
        return text.to_owned();
    }
    let shown = fitting.min(lines_max.saturating_sub(2));
    let left = all[shown..].iter().filter(|line| !line.trim().is_empty()).count();
    let mut text = all[..shown].join("\n");
    // Writing to a String cannot fail.
    let _ = writeln!(text, "\n\n… and {left} more.");
    text
}
