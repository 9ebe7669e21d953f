//! Finds iterations in a log: by the beginnings of their ids, or the slowest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io;

use uuid::Uuid;

use base::clock::Nanos;
use measure::ids::RunIds;
use measure::log::{LogError, RunLog, Visitor};
use measure::rows::Rows;

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
pub struct QueryMatches {
    /// Each with the end of its iteration, since the run's start.
    pub ended_ns: BTreeMap<Uuid, Nanos>,
    /// The ids of the query that no iteration has.
    pub missing: Vec<String>,
}

/// Looks through the log once; memory does not grow with it. Iterations without a trace, because they never started or
/// were left unprofiled, are not found.
///
/// # Errors
/// The log cannot be read.
pub fn find(log: &RunLog, query: &Query) -> Result<QueryMatches, LogError> {
    let plain = |id: &String| id.replace('-', "").to_ascii_lowercase();
    let prefixes: Vec<String> = query.ids.iter().map(plain).collect();
    let mut finder = Finder {
        ids: log.ids(),
        is_found: vec![false; prefixes.len()],
        prefixes,
        slowest: query.slowest,
        longest: BinaryHeap::new(),
        ended_ns: BTreeMap::new(),
    };
    log.visit(&mut [&mut finder])?;
    let Finder { is_found, longest, mut ended_ns, .. } = finder;
    ended_ns.extend(longest.into_iter().map(|Reverse((_, trace_id, end_ns))| (trace_id, end_ns)));
    let missing = query.ids.iter().zip(is_found).filter(|(_, found)| !found);
    Ok(QueryMatches { ended_ns, missing: missing.map(|(id, _)| id.clone()).collect() })
}

struct Finder {
    ids: RunIds,
    prefixes: Vec<String>,
    is_found: Vec<bool>,
    slowest: usize,
    /// The shortest on top.
    longest: BinaryHeap<Reverse<(u64, Uuid, Nanos)>>,
    ended_ns: BTreeMap<Uuid, Nanos>,
}

impl Visitor for Finder {
    fn rows(&mut self, rows: &Rows) -> io::Result<()> {
        for row in rows.iter() {
            let head = row.head;
            if !head.has_started() || self.ids.is_control(head) {
                continue;
            }
            let response_ns = head.response_ns();
            let is_longer = self.slowest > 0
                && (self.longest.len() < self.slowest
                    || self.longest.peek().is_some_and(|Reverse((least, ..))| response_ns > *least));
            if self.prefixes.is_empty() && !is_longer {
                continue;
            }
            let trace_id = self.ids.trace_id(head);
            let end_ns = head.start_ns.saturating_add(head.duration_ns);
            if is_longer {
                self.longest.push(Reverse((response_ns, trace_id, end_ns)));
                if self.longest.len() > self.slowest {
                    self.longest.pop();
                }
            }
            self.compare(trace_id, end_ns);
        }
        Ok(())
    }
}

impl Finder {
    fn compare(&mut self, trace_id: Uuid, end_ns: Nanos) {
        let mut text = Uuid::encode_buffer();
        let text = trace_id.simple().encode_lower(&mut text);
        for (prefix, is_found) in self.prefixes.iter().zip(&mut self.is_found) {
            if text.starts_with(prefix.as_str()) {
                *is_found = true;
                self.ended_ns.insert(trace_id, end_ns);
            }
        }
    }
}
