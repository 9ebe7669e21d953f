//! Sums over traces, each of which stands for several.

use super::call_stats::{CallStats, Calls};
use super::ranking::{Ranking, scaled};

/// The calls of traces; the calls of each part count as often as its weight says.
#[must_use]
pub fn call_stats<'a>(parts: impl IntoIterator<Item = (&'a CallStats, f64)>) -> CallStats {
    let mut all = CallStats::default();
    for (part, weight) in parts {
        all.traces += part.traces;
        all.incomplete += scaled(part.incomplete, weight);
        for (function, stats) in &part.functions {
            let row = all.functions.entry(function.clone()).or_default();
            add(&mut row.calls, &stats.calls, weight);
            for (caller, calls) in &stats.callers {
                add(row.callers.entry(caller.clone()).or_default(), calls, weight);
            }
        }
    }
    // What stands for nothing has no row.
    all.functions.retain(|_, stats| stats.calls.total > 0);
    all
}

/// The same for a ranking.
#[must_use]
pub fn ranking<'a>(parts: impl IntoIterator<Item = (&'a Ranking, f64)>) -> Ranking {
    let mut all = Ranking::default();
    for (part, weight) in parts {
        all.add_weighted(part, weight);
    }
    all
}

fn add(calls: &mut Calls, other: &Calls, weight: f64) {
    calls.total += scaled(other.total, weight);
    calls.primitive += scaled(other.primitive, weight);
    calls.own_us += scaled(other.own_us, weight);
    calls.cumulative_us += scaled(other.cumulative_us, weight);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call_stats::{Function, FunctionStats};

    #[test]
    fn each_part_counts_as_often_as_it_weighs() {
        let stats = |name: &str, total: u64| {
            let calls = Calls { total, primitive: total, own_us: 10 * total, cumulative_us: 20 * total };
            let function = Function { place: "p".to_owned(), name: name.to_owned() };
            let callers = [(function.clone(), calls.clone())].into();
            CallStats {
                functions: [(function, FunctionStats { calls, callers })].into(),
                traces: 2,
                incomplete: 1,
            }
        };
        let (slow, rest, probe) = (stats("db", 4), stats("db", 2), stats("probe", 3));
        let all = call_stats([(&slow, 1.0), (&rest, 9.5), (&probe, 0.0)]);
        assert_eq!((all.traces, all.incomplete, all.functions.len()), (6, 11, 1));
        let row = all.functions.values().next().unwrap();
        let expected = Calls { total: 23, primitive: 23, own_us: 230, cumulative_us: 460 };
        assert_eq!(row.calls, expected);
        assert!(row.callers.values().all(|calls| *calls == expected));

        let mut one = Ranking::default();
        one.add("db", 2.0);
        one.add("db", 1.0);
        let mut other = Ranking::default();
        other.add("db", 4.0);
        other.add("io", 1.0);
        let all = ranking([(&one, 3.0), (&other, 0.0)]);
        let rows: Vec<_> = all
            .rows()
            .iter()
            .map(|row| (row.name.clone(), row.total_s, row.max_s, row.occurrences))
            .collect();
        assert_eq!(rows, [("db".to_owned(), 9.0, 2.0, 6)]);
    }
}
