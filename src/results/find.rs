//! Finds iterations in a log: by the beginnings of their ids, or the slowest.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::io;

use uuid::Uuid;

use crate::measure::ids::RunIds;
use crate::measure::log::{LogError, RunLog, Visitor};
use crate::measure::rows::Rows;
use crate::measure::sample::Ended;

/// What to find.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Trace ids, or their beginnings; with dashes, or as OpenTelemetry writes them, without.
    pub ids: Vec<String>,
    /// How many of the slowest iterations by response time.
    pub slowest: usize,
}

/// The trace ids that were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// All of them, each once.
    pub trace_ids: BTreeSet<Uuid>,
    /// The ids of the query that no iteration has.
    pub missing: Vec<String>,
}

/// Looks through the log once; memory does not grow with it. Iterations without a trace, because they never started or
/// were left unprofiled, are not found.
///
/// # Errors
/// The log cannot be read.
pub fn find(log: &RunLog, query: &Query) -> Result<Found, LogError> {
    let plain = |id: &String| id.replace('-', "").to_ascii_lowercase();
    let prefixes: Vec<String> = query.ids.iter().map(plain).collect();
    let mut finder = Finder {
        ids: log.ids(),
        is_found: vec![false; prefixes.len()],
        prefixes,
        slowest: query.slowest,
        longest: BinaryHeap::new(),
        trace_ids: BTreeSet::new(),
    };
    log.visit(&mut [&mut finder])?;
    let Finder { is_found, longest, mut trace_ids, .. } = finder;
    trace_ids.extend(longest.into_iter().map(|Reverse((_, trace_id))| trace_id));
    let missing = query.ids.iter().zip(is_found).filter(|(_, found)| !found);
    Ok(Found { trace_ids, missing: missing.map(|(id, _)| id.clone()).collect() })
}

struct Finder {
    ids: RunIds,
    prefixes: Vec<String>,
    is_found: Vec<bool>,
    slowest: usize,
    /// The shortest on top.
    longest: BinaryHeap<Reverse<(u64, Uuid)>>,
    trace_ids: BTreeSet<Uuid>,
}

impl Visitor for Finder {
    fn rows(&mut self, rows: &Rows) -> io::Result<()> {
        for row in rows.iter() {
            let head = row.head;
            if head.ended == Ended::Dropped || self.ids.is_control(head) {
                continue;
            }
            let response_ns = head.response_ns();
            let is_longer = self.slowest > 0
                && (self.longest.len() < self.slowest
                    || self.longest.peek().is_some_and(|Reverse((least, _))| response_ns > *least));
            if self.prefixes.is_empty() && !is_longer {
                continue;
            }
            let trace_id = self.ids.trace_id(head);
            if is_longer {
                self.longest.push(Reverse((response_ns, trace_id)));
                if self.longest.len() > self.slowest {
                    self.longest.pop();
                }
            }
            self.compare(trace_id);
        }
        Ok(())
    }
}

impl Finder {
    fn compare(&mut self, trace_id: Uuid) {
        let mut text = Uuid::encode_buffer();
        let text = trace_id.simple().encode_lower(&mut text);
        for (prefix, is_found) in self.prefixes.iter().zip(&mut self.is_found) {
            if text.starts_with(prefix.as_str()) {
                *is_found = true;
                self.trace_ids.insert(trace_id);
            }
        }
    }
}
