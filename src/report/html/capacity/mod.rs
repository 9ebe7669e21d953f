//! The page of a search for capacity: `capacity.html`.
//!
//! It has no script: the template draws its curve, and its policy allows only the embedded style. Its sentences and its
//! table are those of the terminal and of Markdown. Nothing here may compute a statistic.

use std::io::{self, Write};

use minijinja::{Value, context};
use serde::Serialize;

use super::badge::Badge;
use super::document::{self, BlockView, SpanView, TableView, spans};
use super::{STYLE, fill, style_policy};
use crate::capacity::{CapacityDocument, LevelPicture, text};
use crate::document::{self as model, Block};

const PAGE: &str = include_str!("capacity.html");

/// Everything on the page.
#[derive(Serialize)]
struct CapacityPage {
    title: String,
    verdict: Badge,
    answer: String,
    sentences: Vec<Vec<SpanView>>,
    picture: Option<LevelPicture>,
    levels: TableView,
    hint: &'static str,
    notes: Vec<BlockView>,
}

/// Writes the page.
///
/// # Errors
/// When `out` cannot be written.
pub fn capacity(found: &CapacityDocument, out: &mut dyn Write) -> io::Result<()> {
    let answer = text::answer(found);
    let mut first = answer.chars();
    let answer = first.next().map_or_else(String::new, |letter| letter.to_uppercase().chain(first).collect());
    let page = CapacityPage {
        title: format!("{} on {}", found.scenario.title, found.deployment),
        verdict: model::Badge::verdict(found.outcome).into(),
        answer: format!("{answer}."),
        sentences: text::sentences(found).iter().map(spans).collect(),
        picture: LevelPicture::of(found),
        levels: document::table(&text::levels(found)),
        hint: text::LEVELS_HINT,
        notes: found
            .notes
            .iter()
            .map(|note| document::block(&Block::Note("note", note.as_str().into())))
            .collect(),
    };
    let safe = Value::from_safe_string;
    let values = context! { page, style => safe(STYLE.to_owned()), policy => safe(style_policy()) };
    fill(&format!("{}{PAGE}", document::MACROS), values, out)
}
