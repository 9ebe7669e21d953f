//! What the traces of slow iterations have and the traces of typical ones lack: over every attribute, resource
//! attribute and event of every point, not only of the cause.
//!
//! A trace has a value or lacks it, however often it occurs. Values that the same traces have are one test. A value is
//! reported if more slow than typical traces have it than chance explains (Fisher's exact test), and if the difference
//! is large (Newcombe's lower bound). The false discovery rate is controlled under any dependence (Benjamini and
//! Yekutieli). Traces are hostile: the number of values is bounded, and values of single traces, such as ids, go first.
//! Nothing here may name a cause.

use std::collections::{BTreeSet, HashMap};

use super::feature::{Feature, is_bound};
use super::features;
use super::numbers;
use base::parallel;
use osprofiler::report::TraceTree;
use results::model::{AttributeDifference, AttributeValue, Differences};
use statistics::shares::{adjusted, chance_of_more, difference_bounds};

/// Each side needs this many traces.
const TRACES_MIN: usize = 10;
/// Values of fewer traces are ids, or say nothing.
const SEEN_MIN: usize = 5;
/// The false discovery rate.
const RATE: f64 = 0.05;
/// The share of slow traces must be larger by this much, with 95 % confidence.
const DIFFERENCE_MIN: f64 = 0.2;
/// A value that at least this share of both sides has is compared at each kind of point.
const EVERYWHERE: f64 = 0.9;
/// Values that have at least this share of their traces in common go together.
const ALIKE: f64 = 0.9;
/// At most this many differences are listed, and this many values with each.
const FOUND_MAX: usize = 8;
const SAME_MAX: usize = 3;
/// How many traces' values are looked up at a time.
const AT_ONCE: usize = 64;
/// More values than this are never kept at a time.
const VALUES_MAX: usize = 50_000;
/// An attribute with more values than this in two or more traces each is left out.
const VALUES_OF_ATTRIBUTE_MAX: usize = 1_000;

/// A value that is named elsewhere and not repeated: an attribute and its value.
pub type ReportedValues = BTreeSet<(String, String)>;

/// The traces that have a value, one bit each.
#[derive(Clone, Debug, Default, Eq, Hash, PartialEq)]
struct Traces(Vec<u64>);

impl Traces {
    fn insert(&mut self, trace: usize) {
        let word = trace / 64;
        if self.0.len() <= word {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (trace % 64);
    }

    fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// How many of the first traces.
    fn below(&self, end: usize) -> usize {
        let bits = |(index, word): (usize, &u64)| {
            let from = index * 64;
            let kept = if end >= from + 64 {
                *word
            } else {
                word & ((1_u64 << end.saturating_sub(from).min(63)) - 1)
            };
            if end <= from { 0 } else { kept.count_ones() as usize }
        };
        self.0.iter().enumerate().map(bits).sum()
    }

    /// The share of traces with either that have both.
    fn alike(&self, other: &Self) -> f64 {
        let at = |traces: &Self, index: usize| traces.0.get(index).copied().unwrap_or(0);
        let words = 0..self.0.len().max(other.0.len());
        let (both, either) = words.fold((0, 0), |(both, either), index| {
            let (one, two) = (at(self, index), at(other, index));
            (both + (one & two).count_ones(), either + (one | two).count_ones())
        });
        if either == 0 { 0.0 } else { f64::from(both) / f64::from(either) }
    }
}

/// Every value with the traces that have it.
#[derive(Default)]
struct Table {
    values: HashMap<Feature, Traces>,
    left_out: BTreeSet<String>,
    limit: usize,
}

impl Table {
    fn add(&mut self, trace: usize, features: BTreeSet<Feature>) {
        for feature in features {
            if !self.left_out.contains(&feature.attribute) {
                self.values.entry(feature).or_default().insert(trace);
            }
        }
        if self.values.len() > self.limit {
            self.shrink();
        }
    }

    /// Drops the values of single traces, and then whole attributes, those with the most values first.
    fn shrink(&mut self) {
        let mut values_of: HashMap<String, (usize, usize)> = HashMap::new();
        for (feature, traces) in &self.values {
            let seen = values_of.entry(feature.attribute.clone()).or_default();
            seen.0 += 1;
            seen.1 += usize::from(traces.count() > 1);
        }
        self.values.retain(|_, traces| traces.count() > 1);
        let mut most: Vec<(String, (usize, usize))> = values_of.into_iter().collect();
        most.sort_by(|one, other| (other.1, &one.0).cmp(&(one.1, &other.0)));
        let mut kept = self.values.len();
        for (attribute, (_, repeated)) in most {
            if kept <= self.limit / 2 && repeated <= VALUES_OF_ATTRIBUTE_MAX {
                continue;
            }
            self.values.retain(|feature, _| feature.attribute != attribute);
            kept -= repeated;
            self.left_out.insert(attribute);
        }
    }
}

/// What slow traces have more often than typical ones; `known` is not repeated. `None` with too few traces.
#[must_use]
pub fn differences(
    slow: &[&TraceTree],
    typical: &[&TraceTree],
    known: &ReportedValues,
) -> Option<Differences> {
    if slow.len() < TRACES_MIN || typical.len() < TRACES_MIN {
        return None;
    }
    let trees: Vec<&TraceTree> = slow.iter().chain(typical).copied().collect();
    let of = (slow.len(), typical.len());
    let mut table = Table { limit: VALUES_MAX, ..Table::default() };
    add_all(&mut table, &trees, features::of_trace);
    at_points(&mut table, &trees, of);
    let numbers = numbers::Numbers::of(&trees);
    for (feature, of) in numbers.bounds() {
        let traces = table.values.entry(feature).or_default();
        of.into_iter().for_each(|trace| traces.insert(trace));
    }
    let left_out = table.left_out.len() as u64;
    let groups = groups(table, trees.len());
    let counts = |traces: &Traces| {
        let of_slow = traces.below(of.0);
        ((of_slow, of.0), (traces.count() - of_slow, of.1))
    };
    let chances: Vec<f64> = groups
        .iter()
        .map(|(traces, _)| {
            let (slow, typical) = counts(traces);
            chance_of_more(slow, typical)
        })
        .collect();
    let mut found: Vec<(Traces, AttributeDifference)> = Vec::new();
    for ((traces, features), chance) in groups.iter().zip(adjusted(&chances)) {
        let (slow, typical) = counts(traces);
        let (low, high) = difference_bounds(slow, typical);
        let mut unknown = features.iter().filter(|feature| !is_known(feature, known));
        let Some(first) = unknown.next().map(value).filter(|_| chance <= RATE && low >= DIFFERENCE_MIN)
        else {
            continue;
        };
        let same = unknown.filter(|feature| !feature.is_bound_of_same(&first)).map(value).collect();
        let correlation = Some(&first)
            .filter(|first| is_bound(&first.value))
            .and_then(|first| numbers.correlation(first, &trees));
        let difference = AttributeDifference {
            correlation,
            value: first,
            slow_share: share(slow),
            typical_share: share(typical),
            low,
            high,
            chance,
            same,
            same_more: 0,
        };
        found.push((traces.clone(), difference));
    }
    let (found, more) = listed(found);
    let [slow, typical, tested] = [of.0, of.1, groups.len()].map(|count| count as u64);
    Some(Differences { slow, typical, tested, found, more, left_out })
}

/// Adds the values that nearly every trace has, at each kind of point that has them.
fn at_points(table: &mut Table, trees: &[&TraceTree], (slow, typical): (usize, usize)) {
    let is_everywhere = |traces: &Traces| {
        let of_slow = traces.below(slow);
        let (of_slow, of_typical) = (share((of_slow, slow)), share((traces.count() - of_slow, typical)));
        of_slow >= EVERYWHERE && of_typical >= EVERYWHERE
    };
    let everywhere: BTreeSet<Feature> = table
        .values
        .iter()
        .filter(|(feature, traces)| feature.can_be_at_points() && is_everywhere(traces))
        .map(|(feature, _)| feature.clone())
        .collect();
    if everywhere.is_empty() {
        return;
    }
    add_all(table, trees, |tree| features::at_points(tree, &everywhere));
}

/// Adds what `of` gives for each trace.
fn add_all(table: &mut Table, trees: &[&TraceTree], of: impl Fn(&TraceTree) -> BTreeSet<Feature> + Sync) {
    for (number, some) in trees.chunks(AT_ONCE).enumerate() {
        let found = parallel::map(some.to_vec(), &of);
        for (trace, features) in (number * AT_ONCE..).zip(found) {
            table.add(trace, features);
        }
    }
}

/// The values of enough traces, by the traces that have them; those that all traces have differ nowhere.
fn groups(table: Table, traces: usize) -> Vec<(Traces, Vec<Feature>)> {
    let mut groups: HashMap<Traces, Vec<Feature>> = HashMap::new();
    for (feature, of) in table.values {
        if (SEEN_MIN..traces).contains(&of.count()) {
            groups.entry(of).or_default().push(feature);
        }
    }
    let mut groups: Vec<(Traces, Vec<Feature>)> = groups.into_iter().collect();
    for (_, features) in &mut groups {
        features.sort_by_cached_key(Feature::rank);
    }
    groups.sort_by_cached_key(|(_, features)| features.first().map(Feature::rank));
    groups
}

/// Largest difference first; what nearly the same traces have stands together. Returns how many are not listed, too.
fn listed(mut found: Vec<(Traces, AttributeDifference)>) -> (Vec<AttributeDifference>, u64) {
    found.sort_by(|(_, one), (_, other)| other.low.total_cmp(&one.low));
    let mut listed: Vec<(Traces, AttributeDifference)> = Vec::new();
    for (traces, difference) in found {
        // Of several bounds of one number the clearest is enough.
        if listed.iter().any(|(_, known)| is_bound_of_same(&difference.value, &known.value)) {
            continue;
        }
        match listed.iter_mut().find(|(other, _)| other.alike(&traces) >= ALIKE) {
            Some((_, first)) => {
                first.same.push(difference.value);
                first.same.extend(difference.same);
            }
            None => listed.push((traces, difference)),
        }
    }
    let more = listed.len().saturating_sub(FOUND_MAX) as u64;
    listed.truncate(FOUND_MAX);
    let cut = |(_, mut difference): (Traces, AttributeDifference)| {
        difference.same_more = difference.same.len().saturating_sub(SAME_MAX) as u64;
        difference.same.truncate(SAME_MAX);
        difference
    };
    (listed.into_iter().map(cut).collect(), more)
}

fn is_bound_of_same(value: &AttributeValue, other: &AttributeValue) -> bool {
    is_bound(&value.value)
        && is_bound(&other.value)
        && value.attribute == other.attribute
        && value.point == other.point
}

fn is_known(feature: &Feature, known: &ReportedValues) -> bool {
    known.contains(&(feature.attribute.clone(), feature.value.clone()))
}

fn value(feature: &Feature) -> AttributeValue {
    AttributeValue {
        attribute: feature.attribute.clone(),
        value: feature.value.clone(),
        point: feature.point.clone(),
    }
}

fn share((part, whole): (usize, usize)) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests;
