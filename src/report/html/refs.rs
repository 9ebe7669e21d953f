//! Trace ids on the page: whether their traces are in the file, on separate pages, or must be fetched.

use std::collections::HashSet;
use std::path::Path;

use serde::Serialize;
use uuid::Uuid;

use crate::base::percent;
use crate::results::model::TraceState;
use crate::results::trace::StoredTrace;

/// The traces of a run, and how its report shows them.
#[derive(Clone, Copy, Debug)]
pub struct Traces<'a> {
    /// All stored traces.
    pub stored: &'a [StoredTrace],
    /// How they are shown.
    pub shown: &'a Shown,
}

/// How a report shows traces: the modes of Rally's charts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// Their ids only.
    Text,
    /// Their waterfalls are in the file.
    #[default]
    Embed,
    /// Each has a separate page, at this relative URL plus the id and `.html`.
    Pages(String),
}

/// A trace id as the template shows it.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TraceRef {
    id: Uuid,
    /// Its waterfall is in this file.
    here: bool,
    /// The page with its waterfall.
    href: Option<String>,
}

/// Knows which traces the report can show.
pub(super) struct Refs<'a> {
    seen: HashSet<Uuid>,
    shown: &'a Shown,
}

impl<'a> Refs<'a> {
    pub(super) fn new(traces: Traces<'a>) -> Self {
        let seen = match traces.shown {
            Shown::Text => HashSet::new(),
            Shown::Embed | Shown::Pages(_) => shown(traces.stored).map(|trace| trace.trace_id).collect(),
        };
        Self { seen, shown: traces.shown }
    }

    pub(super) fn of(&self, id: Uuid) -> TraceRef {
        let seen = self.seen.contains(&id);
        match self.shown {
            Shown::Pages(before) if seen => {
                TraceRef { id, here: false, href: Some(format!("{before}{id}.html")) }
            }
            _ => TraceRef { id, here: seen, href: None },
        }
    }

    pub(super) fn all(&self, ids: &[Uuid]) -> Vec<TraceRef> {
        ids.iter().map(|id| self.of(*id)).collect()
    }

    pub(super) fn can_be_seen(&self, id: Uuid) -> bool {
        self.seen.contains(&id)
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
