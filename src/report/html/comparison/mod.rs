//! The page of a comparison: `ab.html`, and what `bench compare --html` writes.
//!
//! It has no script: the template draws its charts, and its policy allows only the embedded style. Its tables are those
//! of the terminal and of Markdown. Nothing here may compute a statistic.

mod headline;
mod pair_chart;
#[cfg(test)]
pub(crate) mod tests;

use std::io::{self, Write};

use minijinja::{Value, context};
use serde::Serialize;

use self::pair_chart::ChartView;
use super::badge::Badge;
use super::document::{self, BlockView, FactView, SpanView, TableView, spans};
use super::{STYLE, fill, style_policy};
use crate::compare::text as compare_text;
use crate::compare::{AgainstHistory, TwoRuns};
use crate::document as model;
use crate::document::{Block, Cell, Column, DocumentTable, StyledLine, Tone};
use crate::pairs::{Pair, PairDocument, Side};
use crate::pairs::{counts as pairs_counts, sla as pairs_sla, text as pairs_text};
use crate::seed;
use crate::words::{duration, known_ratio, ratio};
use results::model::Outcome;
use verdict::compare::{FailuresRow, RatioRow};

pub(super) const PAGE: &str = include_str!("comparison.html");
/// The largest number of ratios on the first screen.
const TILES_MAX: usize = 5;
/// The largest number of reasons on the first screen of a run against its history.
const REASONS_MAX: usize = 3;

/// Everything on the page.
#[derive(Serialize)]
struct ComparisonPage {
    title: String,
    verdict: Badge,
    /// The verdict in a few words.
    reason: String,
    sentences: Vec<Vec<SpanView>>,
    /// What the verdict is based on.
    basis: Option<Vec<SpanView>>,
    sides: Vec<FactView>,
    tiles: Vec<Tile>,
    notes: Vec<BlockView>,
    /// How certain both bounds of a ratio are together.
    level: String,
    charts: Vec<ChartView>,
    sections: Vec<Section>,
    folded: Option<CollapsibleTable>,
    facts_title: &'static str,
    facts: Vec<FactView>,
}

/// A ratio on the first screen.
#[derive(Serialize)]
struct Tile {
    name: String,
    value: String,
    aside: String,
    class: &'static str,
}

#[derive(Serialize)]
struct Section {
    title: &'static str,
    hint: Option<Vec<SpanView>>,
    table: TableView,
}

/// A table that is shown when asked.
#[derive(Serialize)]
struct CollapsibleTable {
    title: &'static str,
    table: TableView,
}

/// Writes the page of a comparison by paired rounds.
///
/// # Errors
/// When `out` cannot be written.
pub fn ab(paired: &PairDocument, out: &mut dyn Write) -> io::Result<()> {
    let judged = paired.rows.iter().filter(|row| row.series.gated);
    let tiles = judged.clone().take(TILES_MAX).map(|row| Tile {
        name: format!("{} · B/A", pairs_text::subject(&row.series, &paired.workloads)),
        value: known_ratio(row.ratio),
        aside: between(row.low, row.high),
        class: tile_class(model::Badge::verdict(row.outcome).tone),
    });
    let level = pairs_text::level(paired);
    let mut sentences: Vec<Vec<SpanView>> = pairs_text::explanation(paired).iter().map(spans).collect();
    let hint = format!(
        "Each ratio between its {level} confidence bounds. {LINE_HINT} The dashed line is the margin."
    );
    let mut sections = vec![
        section("Response times", Some(hint.into()), &pairs_text::ratios(paired)),
        section("Counts of trace points", None, &pairs_counts::table(paired)),
        section(
            "Calls that changed",
            Some(pairs_counts::CHANGES_HINT.into()),
            &pairs_counts::changes(paired),
        ),
        section("The scenario's criteria", Some(pairs_sla::HINT.into()), &pairs_sla::table(paired)),
        section(compare_text::NOT_SERVED, None, &pairs_text::failures(paired)),
    ];
    let points = pairs_text::point_tables(paired).into_iter();
    sections.splice(3..3, points.map(|(title, hint, table)| section(title, Some(hint.into()), &table)));
    let page = ComparisonPage {
        title: paired.scenario.title.clone(),
        verdict: model::Badge::verdict(paired.decision.outcome).into(),
        reason: headline::of_pairs(paired),
        level,
        basis: sentences.pop(),
        sentences,
        sides: vec![side("A", &paired.a), side("B", &paired.b)],
        tiles: tiles.collect(),
        notes: notes(&paired.notes),
        charts: judged.map(|row| pair_chart::view(row, paired)).collect(),
        sections: sections.into_iter().flatten().collect(),
        folded: Some(CollapsibleTable {
            title: "Rounds of each pair",
            table: document::table(&rounds(paired)),
        }),
        facts_title: "How it was compared",
        facts: facts(paired_facts(paired)),
    };
    write(&page, out)
}

fn paired_facts(paired: &PairDocument) -> Vec<(&'static str, StyledLine)> {
    let mut facts = vec![
        ("Scenario", StyledLine::default().code(paired.scenario.file.as_str()).done()),
        ("SHA-256", StyledLine::default().code(paired.scenario.sha256.as_str()).done()),
        ("Margin", format!("{} %", paired.margin_percent).into()),
        ("Judged", format!("after {} and {} pairs", paired.looks[0], paired.looks[1]).into()),
        ("Seed of the random order", paired.order_seed.to_string().into()),
        ("bench", paired.bench_version.as_str().into()),
    ];
    facts.extend(paired.seed.map(|of| ("Seed of the data", seed::words(of).into())));
    facts
}

/// Writes the page of two runs side by side.
///
/// # Errors
/// When `out` cannot be written.
pub fn two_runs(compared: &TwoRuns, out: &mut dyn Write) -> io::Result<()> {
    let iterations = compared.rows.iter().filter(|row| row.action.is_none());
    let several = compared.failures.len() > 1;
    let tile = |row: &RatioRow| {
        let workload = if several { format!("{} ", row.workload) } else { String::new() };
        let interval = row.ratio.map(|ratio| model::Interval::of_ratio(ratio, row.low, row.high));
        Tile {
            name: format!("{workload}p{} · new/base", row.percentile),
            value: known_ratio(row.ratio),
            aside: between(row.low, row.high),
            class: interval.map_or("", |interval| tile_class(interval.tone)),
        }
    };
    let mut sections = vec![
        section(
            "Response times",
            Some(format!("Each ratio between its 95 % confidence bounds. {LINE_HINT}").into()),
            &compare_text::ratios(compared),
        ),
        section(compare_text::NOT_SERVED, None, &compare_text::failures(compared)),
    ];
    let points = compare_text::point_tables(compared).into_iter();
    sections.splice(1..1, points.map(|(title, hint, table)| section(title, Some(hint), &table)));
    if compared.failures.iter().any(FailuresRow::differ) {
        sections.rotate_right(1);
    }
    let differences = compared.differences.iter();
    let differences = differences.map(|one| Block::Note("differs", one.as_str().into()));
    let page = ComparisonPage {
        title: compared.new.scenario.clone(),
        verdict: Badge { word: "No verdict", class: "plain" },
        reason: headline::of_two_runs(compared),
        level: String::new(),
        basis: None,
        sentences: vec![spans(&compare_text::caveat())],
        sides: vec![run("base", &compared.base), run("new", &compared.new)],
        tiles: iterations.take(TILES_MAX).map(tile).collect(),
        notes: differences.map(|one| document::block(&one)).chain(notes(&compared.notes)).collect(),
        charts: Vec::new(),
        sections: sections.into_iter().flatten().collect(),
        folded: None,
        facts_title: "",
        facts: Vec::new(),
    };
    write(&page, out)
}

/// Writes the page of a run against the runs before it.
///
/// # Errors
/// When `out` cannot be written.
pub fn history(judged: &AgainstHistory, out: &mut dyn Write) -> io::Result<()> {
    let tiles = judged.rows.iter().take(TILES_MAX).map(|row| Tile {
        name: format!("{} p{} · new/past", row.action.as_deref().unwrap_or(&row.workload), row.percentile),
        value: known_ratio(Some(row.new_ms / row.past_ms).filter(|ratio| ratio.is_finite())),
        aside: format!("{} against {}", duration(row.new_ms), duration(row.past_ms)),
        class: tile_class(model::Badge::verdict(row.outcome).tone),
    });
    // What decided it, once.
    let times = judged.rows.iter().map(|row| {
        let subject = row.action.as_deref().unwrap_or(&row.workload);
        (row.outcome, format!("{subject} p{}: {}.", row.percentile, row.reason))
    });
    let failures = judged.failures.iter();
    let failures = failures.map(|row| (row.outcome, format!("{}: {}.", row.workload, row.reason)));
    let decisive = times.chain(failures).filter(|(outcome, _)| *outcome == judged.outcome);
    let mut sides = vec![run("new", &judged.new)];
    sides.extend(judged.confirming.as_ref().map(|confirming| run("confirming", confirming)));
    sides.push(FactView::new("past", &format!("{} runs", judged.past.len()).into()));
    let page = ComparisonPage {
        title: judged.new.scenario.clone(),
        verdict: model::Badge::verdict(judged.outcome).into(),
        reason: headline::of_history(judged).to_owned(),
        level: String::new(),
        basis: None,
        sentences: decisive.take(REASONS_MAX).map(|(_, reason)| spans(&StyledLine::from(reason))).collect(),
        sides,
        tiles: tiles.collect(),
        notes: notes(&judged.notes),
        charts: Vec::new(),
        sections: history_sections(judged),
        folded: Some(CollapsibleTable { title: "Past runs", table: document::table(&past_runs(judged)) }),
        facts_title: "",
        facts: Vec::new(),
    };
    write(&page, out)
}

/// The tables of a run against the runs before it; a rise of failures comes first.
fn history_sections(judged: &AgainstHistory) -> Vec<Section> {
    let mut sections = vec![
        section("Response times", Some(HISTORY_HINT.into()), &compare_text::history_table(judged)),
        section(compare_text::NOT_SERVED, None, &compare_text::history_failures(judged)),
    ];
    if judged.failures.iter().any(|row| row.outcome != Outcome::Pass) {
        sections.reverse();
    }
    sections.into_iter().flatten().collect()
}

/// The explanation of drawings of ratios.
const LINE_HINT: &str = "The line is 1: no difference; values to its right took longer.";
/// The explanation of drawings of a history.
const HISTORY_HINT: &str = "The new run against the mean of the past runs, which is 1. 99 of 100 runs stay below the end of the bar.";

fn write(page: &ComparisonPage, out: &mut dyn Write) -> io::Result<()> {
    let safe = Value::from_safe_string;
    let values = context! {
        policy => safe(style_policy()),
        style => safe(STYLE.to_owned()),
        page => page,
    };
    fill(&format!("{}{PAGE}", document::MACROS), values, out)
}

fn between(low: Option<f64>, high: Option<f64>) -> String {
    low.zip(high).map_or_else(
        || "without bounds".to_owned(),
        |(low, high)| format!("{} to {}", ratio(low), ratio(high)),
    )
}

/// Tiles are coloured only if something is wrong.
fn tile_class(tone: Tone) -> &'static str {
    if tone == Tone::Bad { "bad" } else { "" }
}

fn section(title: &'static str, hint: Option<StyledLine>, table: &DocumentTable) -> Option<Section> {
    let hint = hint.as_ref().map(spans);
    (!table.rows.is_empty()).then(|| Section { title, hint, table: document::table(table) })
}

fn notes(notes: &[String]) -> Vec<BlockView> {
    notes.iter().map(|note| document::block(&Block::Note("note", note.as_str().into()))).collect()
}

fn facts(facts: Vec<(&'static str, StyledLine)>) -> Vec<FactView> {
    facts.iter().map(|(name, line)| FactView::new(name, line)).collect()
}

fn side(letter: &'static str, side: &Side) -> FactView {
    let mut line = StyledLine::from(side.name.as_str());
    if side.deployment != side.name {
        line.text(", ").code(side.deployment.as_str());
    }
    let command = side.command.as_ref().filter(|command| **command != side.name);
    if let Some(command) = command {
        line.text(", ").code(command.as_str());
    }
    FactView::new(letter, &line)
}

fn run(name: &'static str, run: &crate::compare::RunRef) -> FactView {
    let mut line = StyledLine::default();
    line.code(run.path.as_str())
        .text(format!(" on {}, {}, bench {}", run.deployment, run.started_at, run.bench_version));
    FactView::new(name, &line)
}

/// The runs before a run, latest first.
fn past_runs(judged: &AgainstHistory) -> DocumentTable {
    let mut table =
        DocumentTable::new(vec![Column::name("Run"), Column::words("Started"), Column::words("bench")]);
    for past in &judged.past {
        let version = past.bench_version.as_str();
        table.row([Cell::code(past.path.as_str()), past.started_at.as_str().into(), version.into()]);
    }
    table
}

/// The rounds, a row for each pair.
fn rounds(paired: &PairDocument) -> DocumentTable {
    let mut table = DocumentTable::new(vec![
        Column::figure("Pair"),
        Column::words("First"),
        Column::figure("A iterations"),
        Column::figure("A failed"),
        Column::figure("B iterations"),
        Column::figure("B failed"),
        Column::words("Rounds"),
        Column::message("Left out"),
    ]);
    for (number, pair) in (1..).zip(&paired.pairs) {
        let Pair { a, b, further, left_out, b_first } = pair;
        let sum = |of: fn(&crate::pairs::RoundInfo) -> u64, b_side: bool| {
            let further = further.iter().map(|further| of(if b_side { &further.b } else { &further.a }));
            (of(if b_side { b } else { a }) + further.sum::<u64>()).to_string()
        };
        let mut directories = StyledLine::default();
        directories.code(a.directory.as_str()).text(" ").code(b.directory.as_str());
        for further in further {
            directories.text(" ").code(further.a.directory.as_str());
            directories.text(" ").code(further.b.directory.as_str());
        }
        table.row([
            number.to_string().into(),
            if *b_first { "B" } else { "A" }.into(),
            sum(|round| round.iterations, false).into(),
            sum(|round| round.failed, false).into(),
            sum(|round| round.iterations, true).into(),
            sum(|round| round.failed, true).into(),
            directories.into(),
            left_out.as_deref().map_or_else(Cell::empty, Cell::from),
        ]);
    }
    table
}
