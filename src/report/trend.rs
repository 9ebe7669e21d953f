//! Stored runs over time, and where their percentiles changed: what `bench trend` shows. Nothing here computes a statistic.
//!
//! Version 1. As in the results of a run, the meaning of a key never changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::compare::PointDifference;
use crate::document::{Block, Cell, Column, DocumentTable, ReportDocument, StyledLine, markdown as md};
use crate::texts::duration;
use verdict::trend::LevelChange;

/// The value of `format`.
pub const FORMAT: &str = "bench-trend";
/// The version that this build writes.
pub const VERSION: u32 = 1;
/// So many kinds of trace points are said of a change.
const POINTS_SAID: usize = 3;

/// So many runs that are left out are named.
const LEFT_OUT_SAID: usize = 5;

/// The runs of a directory over time.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(rename = "Trend")]
pub struct TrendDocument {
    /// Always [`FORMAT`].
    pub format: String,
    /// See [`VERSION`].
    pub version: u32,
    /// The version of `bench`.
    pub bench_version: String,
    /// The directory of the runs.
    pub directory: String,
    /// Runs that can be compared with each other: the same scenario, load, targets and machine. The group with the newest run
    /// comes first.
    pub groups: Vec<TrendGroup>,
    /// Runs that are in no group, and why.
    pub left_out: Vec<LeftOutRun>,
}

/// Runs that can be compared with each other.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct TrendGroup {
    /// The scenario's title.
    pub scenario: String,
    /// The deployment's name.
    pub deployment: String,
    /// The machine that made the load.
    pub host: String,
    /// In what its runs differ from those of the group before it that has the same title.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub differs: Vec<String>,
    /// The runs, the oldest first.
    pub runs: Vec<TrendedRun>,
    /// In fewer runs no change can be found.
    pub runs_min: usize,
    /// A percentile of each run.
    pub series: Vec<TrendSeries>,
    /// Where a percentile changed its level, in the order of the runs.
    pub changes: Vec<TrendChange>,
    /// The levels between the changes of any percentile of a workload.
    pub levels: Vec<TrendLevel>,
}

/// Runs between two changes.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct TrendLevel {
    /// The workload's name.
    pub workload: String,
    /// The place of the first of them among the group's runs.
    pub from: usize,
    /// How many there are.
    pub runs: usize,
    /// The median of their p50; absent if none has one.
    pub p50_ms: Option<f64>,
    /// That of their p95.
    pub p95_ms: Option<f64>,
    /// That of their p99.
    pub p99_ms: Option<f64>,
}

/// A run of a group.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct TrendedRun {
    /// What names it on the command line.
    pub name: String,
    /// When it began, RFC 3339 in UTC.
    pub started_at: String,
}

/// A percentile of the response times of each run.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct TrendSeries {
    /// The workload's name.
    pub workload: String,
    /// Such as 99.
    pub percentile: f64,
    /// In milliseconds, in the order of the runs; null where it falls among iterations that failed or never started.
    pub values_ms: Vec<Option<f64>>,
}

/// A change of a percentile's level.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct TrendChange {
    /// The workload's name.
    pub workload: String,
    /// Such as 99.
    pub percentile: f64,
    /// Where, and by how much.
    #[serde(flatten)]
    pub level: LevelChange,
    /// Kinds of trace points whose own time certainly changed in typical iterations, between the run before `earliest` and
    /// `latest`, the largest change first; empty without traces of both.
    pub points: Vec<PointDifference>,
}

/// A run that is in no group.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LeftOutRun {
    /// What names it on the command line.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// The JSON Schema (draft-07) of [`TrendDocument`].
#[must_use]
pub fn schema() -> serde_json::Value {
    ::text::json_schema::draft07::<TrendDocument>()
}

/// As JSON.
///
/// # Errors
/// None that is known.
pub fn json(found: &TrendDocument) -> serde_json::Result<serde_json::Value> {
    serde_json::to_value(found)
}

/// As Markdown.
#[must_use]
pub fn markdown(found: &TrendDocument) -> String {
    md::text(&document(found))
}

/// What `bench trend` says.
#[must_use]
pub fn document(found: &TrendDocument) -> ReportDocument {
    let mut document = ReportDocument::new(3, "--json");
    for group in &found.groups {
        document.push(Block::Title(title(group)));
        document.push(Block::List(sentences(group)));
        document.push(Block::Table(levels(group)));
    }
    if found.groups.is_empty() {
        document.push(Block::Title(
            StyledLine::default().text("No runs to compare in ").code(found.directory.as_str()).done(),
        ));
    }
    let left_out = found.left_out.iter().take(LEFT_OUT_SAID);
    let mut notes: Vec<String> =
        left_out.map(|run| format!("{} is left out: {}", run.name, run.reason)).collect();
    let more = found.left_out.len().saturating_sub(LEFT_OUT_SAID);
    notes.extend((more > 0).then(|| format!("{more} more runs are left out; --json names all of them")));
    document.notes(&notes);
    document
}

/// `Order on shop, from ci-1: 48 runs from 2026-10-01 to 2026-11-30`.
fn title(group: &TrendGroup) -> StyledLine {
    let day = |run: Option<&TrendedRun>| {
        run.map_or_else(String::new, |run| run.started_at.chars().take(10).collect())
    };
    let (first, last) = (day(group.runs.first()), day(group.runs.last()));
    let runs = if group.runs.len() == 1 { "run" } else { "runs" };
    let days = if first == last { format!("of {first}") } else { format!("from {first} to {last}") };
    let mut line = StyledLine::default();
    line.code(group.scenario.as_str()).text(" on ").code(group.deployment.as_str()).text(", from ");
    line.code(group.host.as_str()).text(format!(": {} {runs} {days}", group.runs.len())).done()
}

fn sentences(group: &TrendGroup) -> Vec<StyledLine> {
    let is_same = |one: &TrendChange, other: &TrendChange| {
        let place = |change: &TrendChange| (change.level.at, change.level.earliest, change.level.latest);
        one.workload == other.workload && place(one) == place(other)
    };
    let mut lines: Vec<StyledLine> =
        group.changes.chunk_by(is_same).map(|changes| sentence(group, changes)).collect();
    if lines.is_empty() {
        lines.push(match group.runs.len() {
            runs if runs >= group.runs_min => "No percentile changed its level.".into(),
            _ => format!("So few runs show no change: it takes at least {}.", group.runs_min).into(),
        });
    }
    let differs = group.differs.iter().map(|text| format!("Other runs of this name differ in {text}."));
    lines.extend(differs.map(|text| StyledLine::quoting(&text)));
    lines
}

/// `p50 rose by 23 % (18 to 28 %) with …: db · SELECT … takes 6.20 ms in a typical iteration instead of 3.10 ms.`, of the
/// percentiles of a workload that changed at the same place.
fn sentence(group: &TrendGroup, changes: &[TrendChange]) -> StyledLine {
    let mut line = StyledLine::default();
    let Some(first) = changes.first() else { return line };
    let LevelChange { at, earliest, latest, .. } = first.level;
    let name = |run: usize| group.runs.get(run).map_or("", |run| run.name.as_str());
    if group.series.iter().any(|series| series.workload != first.workload) {
        line.code(first.workload.as_str()).text(": ");
    }
    line.text(changes.iter().map(amount).collect::<Vec<_>>().join(", "));
    line.text(" with ");
    match earliest == latest {
        true => line.code(name(at)),
        false => {
            line.text("a run from ").code(name(earliest)).text(" to ").code(name(latest));
            line.text(", most likely ").code(name(at))
        }
    };
    for (number, point) in first.points.iter().take(POINTS_SAID).enumerate() {
        line.text(if number == 0 { ": " } else { "; " }).code(point.name.as_str());
        line.text(format!(
            " in {} takes {} in a typical iteration instead of {}",
            point.service,
            duration(point.new_self_ms),
            duration(point.base_self_ms)
        ));
        let calls = |calls: f64| (calls * 10.0).round() / 10.0;
        let (base, new) = (calls(point.base_calls), calls(point.new_calls));
        if (base - new).abs() >= 0.1 {
            line.text(format!(" ({new} calls instead of {base})"));
        }
    }
    line.text(".").done()
}

/// `p50 rose by 23 % (18 to 28 %)`.
fn amount(change: &TrendChange) -> String {
    let LevelChange { ratio, low, high, .. } = change.level;
    let percent = |ratio: f64| format!("{:.0}", (ratio - 1.0).abs() * 100.0);
    let (verb, [near, far]) = if ratio > 1.0 { ("rose", [low, high]) } else { ("fell", [high, low]) };
    let [by, near, far] = [ratio, near, far].map(percent);
    format!("p{} {verb} by {by} % ({near} to {far} %)", change.percentile)
}

/// The levels between the changes.
fn levels(group: &TrendGroup) -> DocumentTable {
    let mut table = DocumentTable::new(vec![
        Column::name("workload").left_out(1),
        Column::words("from run"),
        Column::figure("runs"),
        Column::figure("p50"),
        Column::figure("p95"),
        Column::figure("p99"),
    ]);
    table.rows_shown = group.levels.len();
    for level in &group.levels {
        let name = group.runs.get(level.from).map_or("", |run| run.name.as_str());
        let shown = |ms: Option<f64>| -> Cell { ms.map_or_else(String::new, duration).into() };
        table.row([
            Cell::code(level.workload.as_str()),
            Cell::code(name),
            level.runs.to_string().into(),
            shown(level.p50_ms),
            shown(level.p95_ms),
            shown(level.p99_ms),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::terminal::{TerminalStyle, text};

    fn group(earliest: usize, latest: usize, ratio: f64, points: Vec<PointDifference>) -> TrendDocument {
        let run = |number: usize| TrendedRun {
            name: format!("run-{number}"),
            started_at: format!("2026-11-{:02}T01:00:00Z", number + 1),
        };
        let level = LevelChange {
            at: 4,
            earliest,
            latest,
            before_ms: 100.0,
            after_ms: 100.0 * ratio,
            ratio,
            low: ratio - 0.05,
            high: ratio + 0.05,
            p: 0.001,
        };
        let (workload, percentile) = ("Order".to_owned(), 50.0);
        let change = TrendChange { workload: workload.clone(), percentile, level, points };
        TrendDocument {
            format: FORMAT.to_owned(),
            version: VERSION,
            bench_version: "1".to_owned(),
            directory: "nightly".to_owned(),
            groups: vec![TrendGroup {
                scenario: "Order".to_owned(),
                deployment: "shop".to_owned(),
                host: "ci-1".to_owned(),
                differs: Vec::new(),
                runs: (0..8).map(run).collect(),
                runs_min: 12,
                series: vec![TrendSeries { workload, percentile, values_ms: vec![Some(100.0); 8] }],
                changes: vec![change],
                levels: Vec::new(),
            }],
            left_out: (0..7)
                .map(|number| LeftOutRun {
                    name: format!("bad-{number}"),
                    reason: "it is INVALID".to_owned(),
                })
                .collect(),
        }
    }

    #[test]
    fn changes_are_said_with_their_runs_and_their_trace_points() {
        let point = PointDifference {
            service: "shop".to_owned(),
            name: "db · SELECT".to_owned(),
            base_self_ms: 3.0,
            new_self_ms: 6.0,
            base_calls: 1.0,
            new_calls: 2.0,
            low_ms: Some(2.0),
            high_ms: Some(4.0),
        };
        let shown =
            |found: &TrendDocument| text(&document(found), TerminalStyle { columns: None, colour: false });
        let slower = shown(&group(4, 4, 1.25, vec![point]));
        for words in [
            "`Order` on `shop`, from `ci-1`: 8 runs from 2026-11-01 to 2026-11-08",
            "p50 rose by 25 % (20 to 30 %) with `run-4`: `db · SELECT` in shop takes 6.00 ms in a typical iteration instead of \
             3.00 ms (2 calls instead of 1).",
            "bad-4 is left out: it is INVALID",
            "2 more runs are left out",
        ] {
            assert!(slower.contains(words), "{words}: {slower}");
        }
        let unchanged = |runs: usize| {
            let mut found = group(4, 4, 1.0, Vec::new());
            found.groups[0].changes.clear();
            let first = found.groups[0].runs[0].clone();
            found.groups[0].runs.resize(runs, first);
            shown(&found)
        };
        assert!(unchanged(11).contains("So few runs show no change: it takes at least 12."));
        assert!(unchanged(12).contains("No percentile changed its level."));
        let faster = shown(&group(3, 5, 0.8, Vec::new()));
        let words = "p50 fell by 20 % (15 to 25 %) with a run from `run-3` to `run-5`, most likely `run-4`.";
        assert!(faster.contains(words), "{faster}");
    }
}
