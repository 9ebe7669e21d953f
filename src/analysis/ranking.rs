//! Mistral's ranking: which trace points took the most time, by name.
//!
//! The table of Mistral's `tools/rank_profiled_methods.py` (observed at 3422e078). Times are inclusive: a
//! point also counts in its parents. [`Ranking::add_line`] gives the script's exact result for every line
//! that Mistral writes, and counts the lines that the script leaves out. Nothing is read or printed here.

use std::collections::HashMap;

use osprofiler::profile_log::{LineError, ProfileLogLine};
use osprofiler::report::TraceTree;

/// Mistral's script takes a longer text for an id, so it leaves out 1000 s with microseconds.
const DURATION_CHARS_MAX: usize = 10;

/// The number and durations of points, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranking {
    ranked: Vec<RankingRow>,
    places: HashMap<String, usize>,
    /// Stop lines that Mistral's script skips because they took 1000 s or more.
    pub too_long: u64,
    /// Lines that do not have the format of a profile log.
    pub malformed: u64,
    /// The number of the first malformed line, from 1, and its error.
    pub first_malformed: Option<(u64, LineError)>,
    /// Points without a start or a stop, which have no duration.
    pub incomplete: u64,
}

/// A row of the ranking.
#[derive(Clone, Debug, PartialEq)]
pub struct RankingRow {
    /// The points' name.
    pub name: String,
    /// The sum of their inclusive durations.
    pub total_s: f64,
    /// The shortest duration.
    pub min_s: f64,
    /// The longest duration.
    pub max_s: f64,
    /// The number of points.
    pub occurrences: u64,
}

impl RankingRow {
    /// The mean duration.
    #[must_use]
    pub fn average_s(&self) -> f64 {
        self.total_s / self.occurrences as f64
    }
}

impl Ranking {
    /// Counts a point.
    pub fn add(&mut self, name: &str, duration_s: f64) {
        if let Some(&place) = self.places.get(name) {
            let known = &mut self.ranked[place];
            known.total_s += duration_s;
            known.occurrences += 1;
            if duration_s > known.max_s {
                known.max_s = duration_s;
            }
            if duration_s < known.min_s {
                known.min_s = duration_s;
            }
        } else {
            self.places.insert(name.to_owned(), self.ranked.len());
            let (name, one) = (name.to_owned(), duration_s);
            self.ranked.push(RankingRow { name, total_s: one, min_s: one, max_s: one, occurrences: 1 });
        }
    }

    /// Adds the points of another ranking, as often as this weight says.
    pub fn add_weighted(&mut self, other: &Self, weight: f64) {
        self.too_long += other.too_long;
        self.malformed += other.malformed;
        self.incomplete += scaled(other.incomplete, weight);
        for row in other.ranked.iter().filter(|row| scaled(row.occurrences, weight) > 0) {
            self.add(&row.name, row.max_s);
            let known = &mut self.ranked[self.places[&row.name]];
            known.min_s = known.min_s.min(row.min_s);
            // The longest is one of them.
            known.total_s += row.total_s * weight - row.max_s;
            known.occurrences += scaled(row.occurrences, weight) - 1;
        }
    }

    /// Counts a line of a profile log. Without `all` it does as Mistral's script does: it cuts names at their first
    /// blank, and leaves out durations of 1000 s or more with microseconds.
    pub fn add_line(&mut self, number: u64, line: Result<ProfileLogLine<'_>, LineError>, all: bool) {
        let line = match line {
            Ok(line) => line,
            Err(error) => {
                self.malformed += 1;
                self.first_malformed.get_or_insert((number, error));
                return;
            }
        };
        let Some(duration_s) = line.duration_s else { return };
        if all {
            self.add(line.name, duration_s);
        } else if line.duration_text.chars().count() > DURATION_CHARS_MAX {
            self.too_long += 1;
        } else if line.name.contains(char::is_whitespace) {
            self.add(cut(line.name), duration_s);
        } else {
            self.add(line.name, duration_s);
        }
    }

    /// Counts the points of a trace. `key` gives the name of the point at an index.
    pub fn add_trace(&mut self, tree: &TraceTree, key: impl Fn(usize) -> String) {
        for (index, point) in tree.points.iter().enumerate() {
            match point.duration_us {
                Some(us) => self.add(&key(index), us as f64 / 1e6),
                None => self.incomplete += 1,
            }
        }
    }

    /// The rows by total time. Rows with equal totals keep the order of their first appearance.
    #[must_use]
    pub fn rows(&self) -> Vec<&RankingRow> {
        let mut rows: Vec<&RankingRow> = self.ranked.iter().collect();
        rows.sort_by(|one, other| other.total_s.total_cmp(&one.total_s));
        rows
    }
}

/// A number times a weight, to the nearest whole number.
pub(super) fn scaled(number: u64, weight: f64) -> u64 {
    (number as f64 * weight).round() as u64
}

/// The script's name for a name with blanks: the first word without its last five characters, with Python's rules
/// for slices.
fn cut(name: &str) -> &str {
    let word = name.split_whitespace().next().unwrap_or_default();
    let chars = word.chars().count();
    let kept = if chars >= 5 { chars - 5 } else { (2 * chars).saturating_sub(5) };
    let end = word.char_indices().nth(kept).map_or(word.len(), |(at, _)| at);
    &word[..end]
}
