//! A profile as a table: for each function its own samples, and the samples of what it called.
//!
//! A function that is on a stack several times (recursion) is counted once for that stack.

use std::collections::{BTreeMap, HashSet};

use super::model::FunctionProfile;

/// A function's samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionSamples {
    /// Its index in [`FunctionProfile::functions`].
    pub function: u32,
    /// Samples in which it was at work itself.
    pub own: u64,
    /// Samples in which it or something that it called was at work.
    pub cumulative: u64,
    /// The same for each of its direct callers, by their index.
    pub callers: BTreeMap<u32, (u64, u64)>,
    /// The same for when nothing called it: it is outermost.
    pub outermost: (u64, u64),
}

/// The rows of a profile, most cumulative samples first. `point` keeps only the stacks of that point.
#[must_use]
pub fn rows(profile: &FunctionProfile, point: Option<u32>) -> Vec<FunctionSamples> {
    let mut rows: BTreeMap<u32, FunctionSamples> = BTreeMap::new();
    let stacks = profile.stacks.iter().filter(|stack| point.is_none() || stack.point == point);
    for stack in stacks {
        let mut seen = HashSet::new();
        let mut seen_calls = HashSet::new();
        for (depth, &function) in stack.frames.iter().enumerate() {
            let row = rows
                .entry(function)
                .or_insert_with(|| FunctionSamples { function, ..FunctionSamples::default() });
            let own = if depth + 1 == stack.frames.len() { stack.samples } else { 0 };
            row.own += own;
            if seen.insert(function) {
                row.cumulative += stack.samples;
            }
            let caller = depth.checked_sub(1).map(|above| stack.frames[above]);
            let cumulative = if seen_calls.insert((caller, function)) { stack.samples } else { 0 };
            let calls = match caller {
                Some(caller) => row.callers.entry(caller).or_default(),
                None => &mut row.outermost,
            };
            calls.0 += own;
            calls.1 += cumulative;
        }
    }
    let mut rows: Vec<FunctionSamples> = rows.into_values().collect();
    rows.sort_by_key(|row| (std::cmp::Reverse(row.cumulative), std::cmp::Reverse(row.own), row.function));
    rows
}
