//! The functions of traces in text: a table as Python's `pstats` shows it, and the functions of one point.
//!
//! Names come from services and are hostile: the terminal gets them on one line.

use std::collections::{BTreeMap, HashMap};

use crate::document::{Block, Column, DocumentTable, ReportDocument};
use analysis::call_stats::SortKey;
use base::visible::on_one_line;
use osprofiler::functions::model::{Function, FunctionProfile};
use osprofiler::functions::table::{self, FunctionSamples};
use results::functions::Functions;

/// Of a point, this many functions are shown.
const OF_POINT_MAX: usize = 3;
/// Functions with a smaller share of a point's samples are not shown.
const SHARE_MIN: f64 = 0.1;
/// The largest number of named waits in the table's head.
const WAITS_MAX: usize = 5;

/// The table of all functions, at most `limit` rows.
#[must_use]
pub fn document(functions: &Functions, by: SortKey, limit: usize) -> ReportDocument {
    let mut document = ReportDocument::new(2, "");
    let sum = functions.sum(false);
    if sum.samples() == 0 {
        let unreadable = match functions.unreadable {
            0 => String::new(),
            count => format!("; {count} profiles cannot be read"),
        };
        let text = format!(
            "no functions in these traces{unreadable}: services report them with osprofiler's feature `functions`"
        );
        document.push(Block::Paragraph(text.into()));
        return document;
    }
    let operations = match sum.operations {
        1 => "1 operation".to_owned(),
        many => format!("{many} operations"),
    };
    let total_s = seconds(&sum, sum.samples());
    let head = format!("{} samples in {operations}, {total_s} s of processor time", sum.samples());
    let mut lines = vec![head.into(), sum.header().into()];
    for wait in sum.waits.iter().take(WAITS_MAX) {
        let waited_s = wait.waited_ns as f64 / 1e9;
        let text = format!("{}:{} waited {waited_s:.6} s in {} waits", wait.file, wait.line, wait.count);
        lines.push(on_one_line(&text).into());
    }
    if functions.unreadable > 0 {
        lines.push(format!("{} profiles cannot be read and are left out", functions.unreadable).into());
    }
    document.push(Block::List(lines));
    let mut rows = table::rows(&sum, None);
    let name = |row: &FunctionSamples| sum.functions.get(row.function as usize).map(Function::label);
    let order = match by {
        SortKey::Cumulative => "cumulative time",
        SortKey::Own | SortKey::Calls => {
            rows.sort_by_key(|row| std::cmp::Reverse(row.own));
            "own time"
        }
        SortKey::Name => {
            rows.sort_by_key(name);
            "name"
        }
    };
    document.push(Block::Paragraph(format!("Ordered by: {order}").into()));
    let mut table = DocumentTable::new(vec![
        Column::figure("ncalls"),
        Column::figure("tottime"),
        Column::figure("share"),
        Column::figure("cumtime"),
        Column::figure("share"),
        Column::words("file:line(function)"),
    ]);
    table.rows_shown = limit;
    for row in rows.iter().take(limit) {
        table.row([
            row.own.to_string().into(),
            seconds(&sum, row.own).into(),
            percent(row.own, sum.samples()).into(),
            seconds(&sum, row.cumulative).into(),
            percent(row.cumulative, sum.samples()).into(),
            name(row).unwrap_or_default().into(),
        ]);
    }
    document.push(Block::Table(table));
    if let Some(left) = rows.len().checked_sub(limit).filter(|left| *left > 0) {
        let text = format!("{left} more rows; see them with --limit {}", rows.len());
        document.push(Block::Paragraph(text.into()));
    }
    document
}

/// The functions of each point of a trace.
#[derive(Debug, Default)]
pub struct PointFunctions {
    /// For each point's id, own samples by function.
    own: HashMap<String, BTreeMap<String, u64>>,
}

impl PointFunctions {
    /// Of these profiles.
    #[must_use]
    pub fn of(functions: &Functions) -> Self {
        let mut by_point = Self::default();
        for profile in &functions.profiles {
            for (stack, id) in profile.stacks.iter().filter_map(|stack| Some((stack, stack.point?))) {
                let (Some(id), Some(frame)) = (profile.points.get(id as usize), stack.frames.last()) else {
                    continue;
                };
                let Some(function) = profile.functions.get(*frame as usize) else { continue };
                let own = by_point.own.entry(id.clone()).or_default();
                let samples = own.entry(function.label()).or_default();
                *samples = samples.saturating_add(stack.samples);
            }
        }
        by_point
    }

    /// The functions that were most at work in these points themselves: `61 % render (src/reply.rs:7), 43 samples`.
    #[must_use]
    pub fn lines<'i>(&self, ids: impl Iterator<Item = &'i str>) -> Vec<String> {
        let mut sum: BTreeMap<&str, u64> = BTreeMap::new();
        for (function, samples) in ids.filter_map(|id| self.own.get(id)).flatten() {
            let known = sum.entry(function).or_default();
            *known = known.saturating_add(*samples);
        }
        let all = sum.values().fold(0_u64, |all, samples| all.saturating_add(*samples));
        let mut rows: Vec<(&str, u64)> = sum.into_iter().collect();
        rows.sort_by_key(|(name, samples)| (std::cmp::Reverse(*samples), *name));
        rows.retain(|(_, samples)| *samples as f64 >= SHARE_MIN * all as f64);
        let line = |(name, samples): &(&str, u64)| {
            on_one_line(&format!("ƒ {} {name}, {samples} of {all} samples", percent(*samples, all)))
        };
        rows.iter().take(OF_POINT_MAX).map(line).collect()
    }
}

fn seconds(profile: &FunctionProfile, samples: u64) -> String {
    format!("{:.3}", samples as f64 * profile.seconds_per_sample())
}

fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.0} %", part as f64 / whole as f64 * 100.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::terminal;
    use osprofiler::functions::model::Builder;

    fn functions() -> Functions {
        let function = |name: &str, line| Function { name: name.into(), file: "src/app.rs".into(), line };
        let mut builder = Builder::new("wsgi", 100);
        builder.set_operations(1);
        builder.add(Some("a"), &[function("main", 1), function("render", 7)], 70);
        builder.add(Some("a"), &[function("main", 1)], 30);
        builder.add(Some("b"), &[function("main", 1), function("evil\u{1b}[31m\u{202e}", 9)], 25);
        let wait = osprofiler::functions::model::Wait {
            file: "src/app.rs".into(),
            line: 8,
            count: 2,
            waited_ns: 1_500_000_000,
        };
        builder.add_wait(wait);
        Functions { profiles: vec![builder.finish()], unreadable: 1 }
    }

    #[test]
    fn the_table_has_samples_as_calls_and_says_so() {
        let text =
            terminal::text(&document(&functions(), SortKey::Own, 2), terminal::TerminalStyle::default());
        for part in [
            "125 samples in 1 operation, 1.250 s of processor time",
            "ncalls are samples (100 per second of processor time), not calls",
            "src/app.rs:8 waited 1.500000 s in 2 waits",
            "1 profiles cannot be read",
            "src/app.rs:7(render)",
            "1 more rows",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let row = text.lines().find(|line| line.contains("(main)")).unwrap();
        let figures: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(figures[..7], ["30", "0.300", "24", "%", "1.250", "100", "%"], "{row}");
    }

    #[test]
    fn points_have_their_own_functions() {
        let by_point = PointFunctions::of(&functions());
        let lines = by_point.lines(["a", "unknown"].into_iter());
        assert_eq!(
            lines,
            [
                "ƒ 70 % src/app.rs:7(render), 70 of 100 samples",
                "ƒ 30 % src/app.rs:1(main), 30 of 100 samples"
            ]
        );
        let hostile = by_point.lines(["b"].into_iter());
        assert!(!hostile[0].contains('\u{1b}') && !hostile[0].contains('\u{202e}'), "{hostile:?}");
        assert!(by_point.lines(std::iter::empty()).is_empty());
    }
}
