//! Gives iterations their rows.

use std::sync::Arc;

use config::data::{DataMap, OnEnd, Order, Per};
use text::template::Value;

use super::FeederRow;
use super::stored::{RowFile, json_row};
use terms::allocation::{Allocation, Taker};

/// Rows with a name, and who gets which.
#[derive(Debug)]
pub struct Feeder {
    allocation: Allocation,
    rows: RowSource,
}

#[derive(Debug)]
enum RowSource {
    Inline(Vec<Arc<FeederRow>>),
    Stored(Box<RowFile>),
}

impl Feeder {
    pub(super) fn inline(name: &str, map: &DataMap, rows: &[serde_json::Value]) -> Self {
        Self::new(name, map, RowSource::Inline(rows.iter().map(|row| Arc::new(json_row(row))).collect()))
    }

    pub(super) fn stored(name: &str, map: &DataMap, stored: RowFile) -> Self {
        Self::new(name, map, RowSource::Stored(Box::new(stored)))
    }

    fn new(name: &str, map: &DataMap, rows: RowSource) -> Self {
        let count = match &rows {
            RowSource::Inline(rows) => rows.len() as u64,
            RowSource::Stored(stored) => stored.rows(),
        };
        let (order, per) = (map.order.unwrap_or(Order::Sequential), map.per.unwrap_or(Per::Iteration));
        let on_end = map.on_end.unwrap_or(OnEnd::Repeat);
        Self { allocation: Allocation::new(name, count, order, per, on_end), rows }
    }

    /// The name of its variable.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        self.allocation.name()
    }

    /// Who gets which row.
    #[must_use]
    pub fn allocation(&self) -> &Allocation {
        &self.allocation
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.allocation.rows()
    }

    /// The names of the columns, if all rows have the same.
    #[must_use]
    pub fn columns(&self) -> Option<&[Arc<str>]> {
        match &self.rows {
            RowSource::Inline(_) => None,
            RowSource::Stored(stored) => stored.columns(),
        }
    }

    /// True if the seed decides who gets which row.
    #[must_use]
    pub fn is_random(&self) -> bool {
        self.allocation.order() != Order::Sequential
    }

    /// Who takes a row.
    #[must_use]
    pub fn per(&self) -> Per {
        self.allocation.per()
    }

    /// What happens when every row was taken.
    #[must_use]
    pub fn on_end(&self) -> OnEnd {
        self.allocation.on_end()
    }

    /// How many iterations of a workload get a row before it ends; `None` if this data does not end it.
    #[must_use]
    pub fn iterations_max(&self) -> Option<u64> {
        ((self.per(), self.on_end()) == (Per::Iteration, OnEnd::Stop)).then(|| self.rows())
    }

    /// The row for an iteration.
    ///
    /// # Errors
    /// There is no row for it, or the file cannot be read any more.
    pub fn row(&self, taker: &Taker) -> Result<(Value, Vec<Value>), String> {
        let name = self.name();
        let Some(at) = self.allocation.place(taker) else {
            let who = match self.per() {
                Per::Iteration => "iteration",
                Per::User => "user",
            };
            return Err(format!("data `{name}` has {} rows, and none is left for this {who}", self.rows()));
        };
        match &self.rows {
            RowSource::Inline(rows) => {
                let row = rows.get(usize::try_from(at).unwrap_or(usize::MAX));
                row.map(|row| (row.value.clone(), row.secrets.clone()))
                    .ok_or_else(|| format!("data `{name}` has no row {at}"))
            }
            RowSource::Stored(stored) => {
                let row = stored.row(at).map_err(|error| format!("data `{name}`: {error}"))?;
                Ok((row.value, row.secrets))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn feeder(name: &str, order: Order, per: Per, on_end: OnEnd) -> Feeder {
        let map = DataMap { order: Some(order), per: Some(per), on_end: Some(on_end), ..DataMap::default() };
        Feeder::inline(name, &map, &(0..20).map(serde_json::Value::from).collect::<Vec<_>>())
    }

    fn taken(feeder: &Feeder, seed: u64, workload: u16, iterations: std::ops::Range<u64>) -> Vec<String> {
        let taker = |iteration| Taker { seed, workload, iteration, user: 100 + iteration };
        iterations.map(|number| feeder.row(&taker(number)).unwrap().0.to_string()).collect()
    }

    #[test]
    fn rows_depend_on_seed_workload_name_and_number_only() {
        for order in [Order::Shuffled, Order::Random] {
            let one = feeder("a", order, Per::Iteration, OnEnd::Repeat);
            let first = taken(&one, 1, 0, 0..20);
            // As another worker, which takes each third iteration from the end.
            let thirds = (0..3).flat_map(|third| (0..20).rev().filter(move |number| number % 3 == third));
            for number in thirds {
                assert_eq!(taken(&one, 1, 0, number..number + 1)[0], first[number as usize]);
            }
            let other = feeder("b", order, Per::Iteration, OnEnd::Repeat);
            let all = [
                first.clone(),
                taken(&one, 2, 0, 0..20),
                taken(&one, 1, 1, 0..20),
                taken(&one, 1, 0, 20..40),
                taken(&other, 1, 0, 0..20),
            ];
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{order:?}");
        }
    }

    #[test]
    fn without_a_row_an_iteration_fails_unless_rows_repeat() {
        let rows = [
            (Per::Iteration, OnEnd::Repeat, 45, Ok("5")),
            (Per::Iteration, OnEnd::Error, 19, Ok("19")),
            (
                Per::Iteration,
                OnEnd::Error,
                20,
                Err("data `d` has 20 rows, and none is left for this iteration"),
            ),
            (Per::Iteration, OnEnd::Stop, 20, Err("for this iteration")),
            (Per::User, OnEnd::Repeat, 0, Ok("0")),
            (Per::User, OnEnd::Error, 0, Err("for this user")),
        ];
        for (per, on_end, number, expected) in rows {
            let feeder = feeder("d", Order::Sequential, per, on_end);
            let taker = Taker { seed: 1, workload: 0, iteration: number, user: 100 + number };
            match (feeder.row(&taker), expected) {
                (Ok((value, _)), Ok(expected)) => assert_eq!(value.to_string(), expected),
                (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
                (found, _) => panic!("{per:?} {on_end:?} {number}: {found:?}"),
            }
            assert_eq!(feeder.iterations_max(), (on_end == OnEnd::Stop).then_some(20));
        }
    }
}
