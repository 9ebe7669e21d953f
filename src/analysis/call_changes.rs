//! Which trace points one build calls more or less often than another, over pairs of rounds.
//!
//! Unlike times, calls are often the same in every trace of a build: then a difference is exact. Each bound has an error
//! probability that is divided among all kinds of points, so that a long list of kinds does not make changes appear.
//! Nothing is read or printed here.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::points::{Kind, PairTraces};
use results::nullable;
use statistics::counts::{CountDifference, CountSums};

/// The error probability of a bound, over all kinds.
const ALPHA: f64 = 0.01;
/// Fewer pairs say nothing.
const PAIRS_MIN: usize = 3;
/// At most this many changes are kept.
const CHANGES_MAX: usize = 30;
/// Differences below this are rounding.
const ROUNDING: f64 = 1e-9;

/// A kind of trace point that B calls more or less often.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CallChange {
    /// The project and service that reported it.
    pub service: String,
    /// Its name and its statement or path.
    pub name: String,
    /// Its mean number of calls in a trace of A.
    pub a_calls: f64,
    /// Its mean number of calls in a trace of B.
    pub b_calls: f64,
    /// B has more calls by at least this.
    #[serde(deserialize_with = "nullable::unknown")]
    pub low: f64,
    /// B has more calls by at most this.
    #[serde(deserialize_with = "nullable::unknown")]
    pub high: f64,
    /// True if all traces of a side have the same number of calls.
    pub exact: bool,
}

/// The kinds of points that B calls more or less often in typical iterations, largest difference first.
#[must_use]
pub fn over_pairs(pairs: &[PairTraces]) -> Vec<CallChange> {
    let pairs: Vec<&PairTraces> =
        pairs.iter().filter(|pair| pair.a[0].traces() > 0 && pair.b[0].traces() > 0).collect();
    if pairs.len() < PAIRS_MIN {
        return Vec::new();
    }
    let kinds: BTreeSet<&Kind> =
        pairs.iter().flat_map(|pair| pair.a[0].kinds().chain(pair.b[0].kinds())).collect();
    let alpha = ALPHA / kinds.len().max(1) as f64;
    let mut changes: Vec<CallChange> = kinds
        .into_iter()
        .filter_map(|kind| {
            let counts: Vec<(CountSums, CountSums)> =
                pairs.iter().map(|pair| (pair.a[0].calls(kind), pair.b[0].calls(kind))).collect();
            change(kind, &CountDifference::of(&counts)?, alpha)
        })
        .collect();
    let size = |change: &CallChange| (change.b_calls - change.a_calls).abs();
    changes.sort_by(|one, other| size(other).total_cmp(&size(one)));
    changes.truncate(CHANGES_MAX);
    changes
}

fn change(kind: &Kind, seen: &CountDifference, alpha: f64) -> Option<CallChange> {
    let (low, high) = seen.bounds(alpha);
    (low > ROUNDING || high < -ROUNDING).then(|| CallChange {
        service: kind.service.clone(),
        name: kind.name.clone(),
        a_calls: seen.a,
        b_calls: seen.b,
        low,
        high,
        exact: seen.error <= 0.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::points::Points;
    use osprofiler::report::{Point, TraceTree};

    fn tree(calls: &[(&str, usize)]) -> TraceTree {
        let point = |name: &str| Point {
            depth: 0,
            parent: None,
            trace_id: "".into(),
            parent_id: "".into(),
            name: name.into(),
            service: Some("shop".into()),
            project: None,
            host: None,
            start_us: 0,
            starts: true,
            reversed_us: None,
            duration_us: Some(1),
            self_us: Some(1),
            error: None,
            info: serde_json::Map::new().into(),
            stop_info: serde_json::Map::new().into(),
        };
        let points = calls.iter().flat_map(|(name, times)| vec![point(name); *times]).collect();
        TraceTree { points, ..TraceTree::default() }
    }

    fn points(trees: &[&[(&str, usize)]]) -> [Points; 2] {
        let mut points = Points::default();
        trees.iter().for_each(|calls| points.add(&tree(calls)));
        [points, Points::default()]
    }

    #[test]
    fn more_new_and_vanished_calls_are_stated() {
        let pair = || PairTraces {
            a: points(&[&[("db", 2), ("cache", 1), ("http", 1)][..]; 4]),
            b: points(&[&[("db", 22), ("audit", 1), ("http", 1)][..]; 4]),
        };
        let rows: Vec<(String, f64, f64, bool)> = over_pairs(&vec![pair(); 3])
            .into_iter()
            .map(|row| (row.name, row.a_calls, row.b_calls, row.exact))
            .collect();
        let expected = [("db", 2.0, 22.0), ("audit", 0.0, 1.0), ("cache", 1.0, 0.0)];
        assert_eq!(rows, expected.map(|(name, a, b)| (name.to_owned(), a, b, true)));
        assert_eq!(over_pairs(&vec![pair(); 2]), [], "too few pairs");
    }

    #[test]
    fn calls_that_vary_alike_are_no_change() {
        let varying = |pair: usize, side: usize| {
            let calls: Vec<Vec<(&str, usize)>> =
                (0..6).map(|trace| vec![("db", 1 + (trace * 7 + pair * 3 + side) % 5)]).collect();
            points(&calls.iter().map(Vec::as_slice).collect::<Vec<_>>())
        };
        let pairs: Vec<PairTraces> =
            (0..6).map(|pair| PairTraces { a: varying(pair, 0), b: varying(pair, 1) }).collect();
        assert_eq!(over_pairs(&pairs), []);
    }
}
