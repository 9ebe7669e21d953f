//! Traces in the form of Python's `pstats`: calls, own time and cumulative time.
//!
//! Nova's guide uses `python3 -m pstats`; this gives the same view of trace points instead of functions. A function
//! is a kind of point: its service and its statement or path. Own time (`tottime`) is a point's duration without the
//! union of its children's, so parallel children count once. Cumulative time counts only the outermost calls of a
//! kind that calls itself, as in `pstats`. Nothing is read or printed here.

use std::collections::HashMap;

use osprofiler::report::TraceTree;

/// A kind of point, in the place of a function in `pstats`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// The project and service that reported it, such as `keystone/public`.
    pub place: String,
    /// The point's name and, unless points are grouped by name only, its statement or path.
    pub name: String,
}

/// Times and counts of a function, or of its calls from one caller.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    /// All calls.
    pub total: u64,
    /// Calls that are not inside another call of the same function.
    pub primitive: u64,
    /// Own time, in microseconds.
    pub own_us: u64,
    /// Time including everything that it called, in microseconds.
    pub cumulative_us: u64,
}

/// A function's row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionStats {
    pub calls: Calls,
    /// Its calls by caller; a root has no caller.
    pub callers: HashMap<Function, Calls>,
}

/// The statistics of one trace or several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallStats {
    /// By function.
    pub functions: HashMap<Function, FunctionStats>,
    /// The number of traces.
    pub traces: u64,
    /// Points without a start or a stop: they have no duration and are left out.
    pub incomplete: u64,
}

/// The sort order of rows: largest first, names from A to Z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortKey {
    /// Cumulative time.
    Cumulative,
    /// Own time.
    Own,
    /// Number of calls.
    Calls,
    /// The function's name.
    Name,
}

impl CallStats {
    /// Adds the points of a trace. `function` gives the function of the point at an index.
    pub fn add(&mut self, tree: &TraceTree, function: impl Fn(usize) -> Function) {
        self.traces += 1;
        // By number: a trace has many points of few functions.
        let mut numbers: HashMap<Function, usize> = HashMap::new();
        let mut number = |index: usize| {
            let next = numbers.len();
            *numbers.entry(function(index)).or_insert(next)
        };
        let of: Vec<usize> = (0..tree.points.len()).map(&mut number).collect();
        let mut sums: Vec<(Calls, HashMap<usize, Calls>)> = vec![Default::default(); numbers.len()];
        // The number of open points of each function, from the root to the current point.
        let mut open = vec![0_u32; numbers.len()];
        let mut above: Vec<usize> = Vec::new();
        for (index, point) in tree.points.iter().enumerate() {
            while above.last().is_some_and(|&last| tree.points[last].depth >= point.depth) {
                if let Some(left) = above.pop() {
                    open[of[left]] -= 1;
                }
            }
            if let Some(duration_us) = point.duration_us {
                let outermost = open[of[index]] == 0;
                let call = Calls {
                    total: 1,
                    primitive: u64::from(outermost),
                    own_us: point.self_us.unwrap_or(0),
                    cumulative_us: if outermost { duration_us } else { 0 },
                };
                let (calls, callers) = &mut sums[of[index]];
                calls.add(&call);
                if let Some(&caller) = above.last() {
                    callers.entry(of[caller]).or_default().add(&call);
                }
            } else {
                self.incomplete += 1;
            }
            above.push(index);
            open[of[index]] += 1;
        }
        self.add_sums(&numbers, &sums);
    }

    /// Adds what the functions with these numbers did in a trace; those without a complete call have no row.
    fn add_sums(&mut self, numbers: &HashMap<Function, usize>, sums: &[(Calls, HashMap<usize, Calls>)]) {
        let named: HashMap<usize, &Function> =
            numbers.iter().map(|(function, &number)| (number, function)).collect();
        for (function, &number) in numbers {
            let (calls, callers) = &sums[number];
            if calls.total == 0 {
                continue;
            }
            let stats = self.functions.entry(function.clone()).or_default();
            stats.calls.add(calls);
            for (caller, calls) in callers {
                stats.callers.entry(named[caller].clone()).or_default().add(calls);
            }
        }
    }

    /// All calls, and those that are not inside another call of the same function.
    #[must_use]
    pub fn calls(&self) -> (u64, u64) {
        self.functions.values().fold((0, 0), |(total, primitive), stats| {
            (total + stats.calls.total, primitive + stats.calls.primitive)
        })
    }

    /// The sum of all own times, which `pstats` calls the total.
    #[must_use]
    pub fn own_us(&self) -> u64 {
        self.functions.values().map(|stats| stats.calls.own_us).sum()
    }

    /// The rows in this order; ties by name.
    #[must_use]
    pub fn rows(&self, by: SortKey) -> Vec<(&Function, &FunctionStats)> {
        let mut rows: Vec<_> = self.functions.iter().collect();
        rows.sort_by_key(|(one, _)| *one);
        rows.sort_by_key(|(function, stats)| {
            let size = match by {
                SortKey::Cumulative => stats.calls.cumulative_us,
                SortKey::Own => stats.calls.own_us,
                SortKey::Calls => stats.calls.total,
                SortKey::Name => 0,
            };
            let name = if by == SortKey::Name { function.name.clone() } else { String::new() };
            (name, std::cmp::Reverse(size))
        });
        rows
    }
}

impl Calls {
    fn add(&mut self, other: &Self) {
        self.total += other.total;
        self.primitive += other.primitive;
        self.own_us += other.own_us;
        self.cumulative_us += other.cumulative_us;
    }
}
