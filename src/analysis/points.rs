//! The own time and calls of each kind of trace point in each trace, to compare two sets of traces.
//!
//! A kind that a trace lacks counts as 0. Fetched traces are of slow or of typical iterations: compare slow only with
//! slow, and typical only with typical. Nothing is read or printed here.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use osprofiler::report::TraceTree;
use results::functions::Functions;
use results::nullable;
use statistics::counts::CountSums;
use statistics::paired::{Estimate, welch};

use super::functions::own_function;
use super::statement;

/// The error probability of each bound of a difference.
const ALPHA: f64 = 0.025;
/// At most this many kinds are kept for each side.
const KINDS_MAX: usize = 50;

/// A kind of trace point.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Kind {
    /// The project and service that reported it; `bench` for the client's points.
    pub service: String,
    /// Its name and its statement or path, without literals and ids.
    pub name: String,
}

/// Own time and calls of every kind in each trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Points {
    traces: usize,
    kinds: BTreeMap<Kind, Vec<(usize, f64, f64)>>,
}

/// The means of one kind over traces.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Means {
    /// Mean own time in a trace, in milliseconds.
    pub self_ms: f64,
    /// Mean calls in a trace.
    pub calls: f64,
}

/// One kind in two sets of traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The kind.
    pub kind: Kind,
    /// Its means in the base set.
    pub base: Means,
    /// Its means in the new set.
    pub new: Means,
    /// Lower and upper bound of its additional own time in the new set, in milliseconds, each with an error
    /// probability of 2.5 % (Welch); absent with fewer than two traces.
    pub bounds_ms: Option<(f64, f64)>,
}

impl Points {
    /// Adds a trace.
    pub fn add(&mut self, tree: &TraceTree) {
        let mut sums: BTreeMap<Kind, (f64, f64)> = BTreeMap::new();
        for point in &tree.points {
            let kind = Kind { service: point.reporter(), name: statement::name_and_kind(point) };
            let sum = sums.entry(kind).or_default();
            let self_ms = point.self_us.unwrap_or(0) as f64 / 1e3;
            *sum = (sum.0 + self_ms, sum.1 + 1.0);
        }
        for (kind, (self_ms, calls)) in sums {
            self.kinds.entry(kind).or_default().push((self.traces, self_ms, calls));
        }
        self.traces += 1;
    }

    /// Adds the functions of a trace instead: the processor time in each of them as own time, samples as calls. Functions
    /// of the standard library count as work of their callers.
    pub fn add_functions(&mut self, functions: &Functions) {
        let mut sums: BTreeMap<Kind, (f64, f64)> = BTreeMap::new();
        for profile in &functions.profiles {
            for stack in &profile.stacks {
                let name = own_function(profile, &stack.frames);
                let sum = sums.entry(Kind { service: profile.operation.clone(), name }).or_default();
                let ms = stack.samples as f64 * profile.seconds_per_sample() * 1e3;
                *sum = (sum.0 + ms, sum.1 + stack.samples as f64);
            }
        }
        for (kind, (self_ms, samples)) in sums {
            self.kinds.entry(kind).or_default().push((self.traces, self_ms, samples));
        }
        self.traces += 1;
    }

    /// The number of traces.
    #[must_use]
    pub fn traces(&self) -> usize {
        self.traces
    }

    /// The kinds that occur.
    pub fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.keys()
    }

    /// The means of a kind; 0 if it does not occur.
    #[must_use]
    pub fn means(&self, kind: &Kind) -> Means {
        let traces = self.traces.max(1) as f64;
        let found = self.kinds.get(kind).into_iter().flatten();
        let sums = found.fold((0.0, 0.0), |sums, (_, self_ms, calls)| (sums.0 + self_ms, sums.1 + calls));
        Means { self_ms: sums.0 / traces, calls: sums.1 / traces }
    }

    /// A kind's calls in all traces.
    #[must_use]
    pub fn calls(&self, kind: &Kind) -> CountSums {
        let mut counts = CountSums::default();
        let found = self.kinds.get(kind).map_or(&[][..], Vec::as_slice);
        found.iter().for_each(|(_, _, calls)| counts.add(*calls));
        // A trace without the kind has no calls of it.
        counts.n = self.traces as u64;
        counts
    }

    /// A kind's own time in each trace.
    fn self_ms(&self, kind: &Kind) -> Vec<f64> {
        let mut values = vec![0.0; self.traces];
        for (trace, self_ms, _) in self.kinds.get(kind).into_iter().flatten() {
            values[*trace] = *self_ms;
        }
        values
    }

    /// Every kind of both sets, largest difference first.
    #[must_use]
    pub fn against(&self, base: &Self) -> Vec<Difference> {
        let mut kinds: Vec<&Kind> = base.kinds().chain(self.kinds()).collect();
        kinds.sort();
        kinds.dedup();
        let mut all: Vec<Difference> = kinds
            .into_iter()
            .map(|kind| Difference {
                kind: kind.clone(),
                base: base.means(kind),
                new: self.means(kind),
                bounds_ms: welch(&base.self_ms(kind), &self.self_ms(kind), ALPHA),
            })
            .collect();
        let size = |one: &Difference| (one.new.self_ms - one.base.self_ms).abs();
        all.sort_by(|one, other| size(other).total_cmp(&size(one)));
        all
    }
}

/// A kind of trace point on both sides.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PointRow {
    /// True for traces of the slow iterations, false for those of typical ones.
    pub slow: bool,
    /// The project and service that reported it.
    pub service: String,
    /// Its name and its statement or path.
    pub name: String,
    /// Its mean own time in a trace of A.
    pub a_self_ms: f64,
    /// Its mean own time in a trace of B.
    pub b_self_ms: f64,
    /// Its mean number of calls in a trace of A.
    pub a_calls: f64,
    /// Its mean number of calls in a trace of B.
    pub b_calls: f64,
    /// B's own time minus A's, the mean over pairs.
    #[serde(deserialize_with = "nullable::unknown")]
    pub difference_ms: f64,
    /// The difference is at least this, with an error probability of 2.5 %.
    #[serde(deserialize_with = "nullable::unknown")]
    pub low_ms: f64,
    /// The difference is at most this, with an error probability of 2.5 %.
    #[serde(deserialize_with = "nullable::unknown")]
    pub high_ms: f64,
}

/// Typical and slow traces of both sides of a pair.
#[derive(Clone, Debug, Default)]
pub struct PairTraces {
    /// A's typical and slow traces.
    pub a: [Points; 2],
    /// B's typical and slow traces.
    pub b: [Points; 2],
}

/// The kinds of points over all pairs, largest difference first.
#[must_use]
pub fn over_pairs(pairs: &[PairTraces]) -> Vec<PointRow> {
    let mut all = Vec::new();
    for slow in [false, true] {
        let of = |pair: &PairTraces| (pair.a[usize::from(slow)].clone(), pair.b[usize::from(slow)].clone());
        let pairs: Vec<(Points, Points)> =
            pairs.iter().map(of).filter(|(a, b)| a.traces() > 0 && b.traces() > 0).collect();
        let mut kinds: Vec<Kind> =
            pairs.iter().flat_map(|(a, b)| a.kinds().chain(b.kinds())).cloned().collect();
        kinds.sort();
        kinds.dedup();
        let mut rows: Vec<PointRow> = kinds.iter().filter_map(|kind| row(kind, slow, &pairs)).collect();
        rows.sort_by(|one, other| other.difference_ms.abs().total_cmp(&one.difference_ms.abs()));
        rows.truncate(KINDS_MAX);
        all.extend(rows);
    }
    all
}

fn row(kind: &Kind, slow: bool, pairs: &[(Points, Points)]) -> Option<PointRow> {
    let means: Vec<_> = pairs.iter().map(|(a, b)| (a.means(kind), b.means(kind))).collect();
    let differences: Vec<f64> = means.iter().map(|(a, b)| b.self_ms - a.self_ms).collect();
    let estimate = Estimate::of(&differences, 0.0)?;
    let count = means.len() as f64;
    let mean = |value: fn(&(Means, Means)) -> f64| means.iter().map(value).sum::<f64>() / count;
    let reach = estimate.reach(ALPHA);
    Some(PointRow {
        slow,
        service: kind.service.clone(),
        name: kind.name.clone(),
        a_self_ms: mean(|pair| pair.0.self_ms),
        b_self_ms: mean(|pair| pair.1.self_ms),
        a_calls: mean(|pair| pair.0.calls),
        b_calls: mean(|pair| pair.1.calls),
        difference_ms: estimate.mean,
        low_ms: estimate.mean - reach,
        high_ms: estimate.mean + reach,
    })
}
