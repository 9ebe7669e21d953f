//! Trace ids on the page: whether their traces are in the file, on separate pages, or must be fetched.

use std::collections::HashSet;
use std::path::Path;

use serde::Serialize;
use uuid::Uuid;

use base::percent;
use results::model::{Results, TraceState};
use results::trace::StoredTrace;

/// The traces of a run, and how its report shows them.
#[derive(Clone, Copy, Debug)]
pub struct ReportTraces<'a> {
    /// All stored traces.
    pub stored: &'a [StoredTrace],
    /// How they are shown.
    pub shown: &'a TraceDisplay,
}

/// How a report shows traces: the modes of Rally's charts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TraceDisplay {
    /// Their ids only.
    Text,
    /// Their waterfalls are in the file.
    #[default]
    Embed,
    /// Each has a separate page, at this relative URL plus the id and `.html`.
    Pages(String),
}

/// A report of more traces than this would be large and slow to open; a trace takes some 10 kB.
pub(super) const EMBEDDED_MAX: usize = 500;

/// A trace id as the template shows it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TraceRef {
    id: Uuid,
    /// Its waterfall is in this file.
    here: bool,
    /// The page with its waterfall.
    href: Option<String>,
}

/// The traces that are in the file or have pages.
pub(super) struct LinkableTraces<'a> {
    pub(super) all: ReportTraces<'a>,
    ids: HashSet<Uuid>,
}

impl<'a> LinkableTraces<'a> {
    /// Of more than [`EMBEDDED_MAX`] traces, a file has the traces of the slowest iterations, then traces that are
    /// explained, and then others.
    pub(super) fn of(results: &Results, all: ReportTraces<'a>) -> Self {
        let there: Vec<Uuid> = shown(all.stored).map(|trace| trace.trace_id).collect();
        let mut ids: HashSet<Uuid> = there.iter().copied().collect();
        if *all.shown == TraceDisplay::Embed && there.len() > EMBEDDED_MAX {
            let slowest = results.slowest.iter().map(|slow| slow.iteration.trace_id);
            let explained = results.explanations.iter().map(|one| one.trace_id);
            let first = slowest.chain(explained).filter(|id| ids.contains(id));
            let mut kept = HashSet::new();
            for id in first.chain(there.iter().copied()) {
                if kept.len() < EMBEDDED_MAX {
                    kept.insert(id);
                }
            }
            ids = kept;
        }
        Self { all, ids }
    }

    /// The stored traces that are left out of the file.
    pub(super) fn left_out(&self) -> Vec<Uuid> {
        let stored = shown(self.all.stored).map(|trace| trace.trace_id);
        stored.filter(|id| !self.ids.contains(id)).collect()
    }

    /// In the order in which they are stored.
    pub(super) fn traces(&self) -> impl Iterator<Item = &'a StoredTrace> + '_ {
        self.all.stored.iter().filter(|trace| self.ids.contains(&trace.trace_id))
    }
}

/// Knows which traces the report can show.
pub(super) struct Refs<'a> {
    seen: Option<&'a LinkableTraces<'a>>,
    shown: &'a TraceDisplay,
}

impl<'a> Refs<'a> {
    pub(super) fn new(seen: &'a LinkableTraces<'a>) -> Self {
        let shown = seen.all.shown;
        Self { seen: Some(seen).filter(|_| *shown != TraceDisplay::Text), shown }
    }

    pub(super) fn of(&self, id: Uuid) -> TraceRef {
        let seen = self.can_be_seen(id);
        match self.shown {
            TraceDisplay::Pages(before) if seen => {
                TraceRef { id, here: false, href: Some(format!("{before}{id}.html")) }
            }
            _ => TraceRef { id, here: seen, href: None },
        }
    }

    pub(super) fn all(&self, ids: &[Uuid]) -> Vec<TraceRef> {
        ids.iter().map(|id| self.of(*id)).collect()
    }

    pub(super) fn can_be_seen(&self, id: Uuid) -> bool {
        self.seen.is_some_and(|seen| seen.ids.contains(&id))
    }
}

/// The traces that have points to show.
pub fn shown(stored: &[StoredTrace]) -> impl Iterator<Item = &StoredTrace> {
    stored.iter().filter(|trace| trace.state != TraceState::Absent)
}

/// The URL that leads from a file in one folder to another folder, with a slash at its end; both paths are absolute.
#[must_use]
pub fn relative_url(from: &Path, to: &Path) -> String {
    let (from, to): (Vec<_>, Vec<_>) = (from.components().collect(), to.components().collect());
    let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
    let mut url = "../".repeat(from.len() - common);
    for part in &to[common..] {
        for byte in part.as_os_str().as_encoded_bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => url.push(char::from(*byte)),
                _ => percent::push_byte(*byte, &mut url),
            }
        }
        url.push('/');
    }
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lead_from_the_report_to_the_pages() {
        for (from, to, expected) in [
            ("/runs/a", "/runs/a/pages", "pages/"),
            ("/runs/a", "/runs/a", ""),
            ("/runs/a", "/tmp/b c/ü", "../../tmp/b%20c/%C3%BC/"),
            ("/runs/a", "/runs/a/javascript:alert(1)", "javascript%3Aalert%281%29/"),
        ] {
            assert_eq!(relative_url(Path::new(from), Path::new(to)), expected);
        }
    }
}
