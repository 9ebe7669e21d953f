//! The content of a text output, without its layout: headings, paragraphs, lists, tables, judged criteria, notes.
//!
//! A report builds a [`ReportDocument`] once from its results; a writer turns it into text for a terminal ([`terminal`]),
//! Markdown ([`markdown`]) or a part of a page ([`super::html`]). Every text in a document is plain text from
//! any source, even a service's answer: only writers escape, cut and colour. Nothing here may compute a statistic.

mod badge;
pub mod markdown;
mod table;
pub mod terminal;
#[cfg(test)]
mod tests;
mod wrapping;

pub use badge::{Badge, Tone};
pub use table::{Cell, Column, DocumentColumnKind, DocumentTable, Interval, RowRole, Scale, TableRow};

/// A whole output, its parts in reading order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportDocument {
    /// The level of its title in Markdown: 2 for `##`. Headings are one level deeper.
    pub level: usize,
    /// The file with the full content, for readers of an output that was cut; empty if there is none.
    pub whole: &'static str,
    /// The parts.
    pub blocks: Vec<Block>,
}

/// A part of a document.
#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    /// The first line: the verdict and its subject.
    Title(StyledLine),
    /// The title of what follows, and an explanation.
    Heading(StyledLine, Option<StyledLine>),
    Paragraph(StyledLine),
    /// Sentences, each on its own line.
    List(Vec<StyledLine>),
    Table(DocumentTable),
    /// Criteria with their outcomes.
    Criteria(Vec<JudgedCriterion>),
    /// Why the results are INVALID.
    Invalid(StyledLine),
    /// A remark, with the word that introduces it, such as `note`.
    Note(&'static str, StyledLine),
    /// Names with their values.
    Facts(Vec<(&'static str, StyledLine)>),
}

/// A criterion with its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct JudgedCriterion {
    /// How it was judged.
    pub badge: Badge,
    pub condition: StyledLine,
    /// The observed value.
    pub observed: StyledLine,
    /// The reason for the outcome.
    pub reason: Option<StyledLine>,
    /// Traces that show it.
    pub trace_ids: Vec<String>,
}

/// Text on one line, in pieces.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StyledLine {
    /// In their order.
    pub spans: Vec<StyledSpan>,
}

/// A piece of a line.
#[derive(Clone, Debug, PartialEq)]
pub enum StyledSpan {
    /// Words.
    Text(String),
    /// Text from a trace, a file or a command: a point, a statement, a path, an id.
    Code(String),
    /// An outcome.
    Badge(Badge),
}

impl ReportDocument {
    /// An empty document.
    #[must_use]
    pub fn new(level: usize, whole: &'static str) -> Self {
        Self { level, whole, blocks: Vec::new() }
    }

    /// Adds a part.
    pub fn push(&mut self, block: Block) {
        self.blocks.push(block);
    }

    /// Adds a table under a heading, unless it has no rows.
    pub fn titled(&mut self, title: impl Into<StyledLine>, hint: Option<StyledLine>, table: DocumentTable) {
        if !table.rows.is_empty() {
            self.blocks.push(Block::Heading(title.into(), hint));
            self.blocks.push(Block::Table(table));
        }
    }

    /// Adds a note for each of these.
    pub fn notes(&mut self, notes: &[String]) {
        self.blocks.extend(notes.iter().map(|note| Block::Note("note", note.as_str().into())));
    }
}

impl StyledLine {
    /// A sentence in which code stands between backquotes; one that has no partner is a character like others.
    #[must_use]
    pub fn quoting(text: &str) -> Self {
        let mut line = Self::default();
        let mut rest = text;
        while let Some((before, (code, after))) =
            rest.split_once('`').and_then(|(before, after)| Some((before, after.split_once('`')?)))
        {
            line.text(before);
            if code.trim().is_empty() {
                line.text(format!("`{code}`"))
            } else {
                line.code(code)
            };
            rest = after;
        }
        line.text(rest).done()
    }

    /// Adds words; adjacent words become one piece.
    pub fn text(&mut self, text: impl AsRef<str>) -> &mut Self {
        match self.spans.last_mut() {
            Some(StyledSpan::Text(last)) => last.push_str(text.as_ref()),
            _ => self.spans.push(StyledSpan::Text(text.as_ref().to_owned())),
        }
        self
    }

    /// Adds text from a trace, a file or a command.
    pub fn code(&mut self, code: impl Into<String>) -> &mut Self {
        self.spans.push(StyledSpan::Code(code.into()));
        self
    }

    /// Adds another line's pieces.
    pub fn line(&mut self, line: StyledLine) -> &mut Self {
        for span in line.spans {
            match span {
                StyledSpan::Text(text) => {
                    self.text(text);
                }
                other => self.spans.push(other),
            }
        }
        self
    }

    /// The line, at the end of a chain of calls.
    #[must_use]
    pub fn done(&mut self) -> StyledLine {
        std::mem::take(self)
    }

    /// True if it has no pieces.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }
}

impl From<&str> for StyledLine {
    fn from(text: &str) -> Self {
        Self { spans: vec![StyledSpan::Text(text.to_owned())] }
    }
}

impl From<String> for StyledLine {
    fn from(text: String) -> Self {
        Self { spans: vec![StyledSpan::Text(text)] }
    }
}

impl From<Badge> for StyledLine {
    fn from(badge: Badge) -> Self {
        Self { spans: vec![StyledSpan::Badge(badge)] }
    }
}
