//! Which part of a load this process makes, if several processes make it together.
//!
//! Everything is divided by remainders: shard `i` of `n` has the iterations, users and rows whose numbers leave `i` when
//! divided by `n`. So every iteration keeps the number that it has in the whole load, no two shards have one in common,
//! and nothing needs to be agreed while the load runs.

use base::complaint::Complaint;

use super::{Plan, WorkloadPlan};
use terms::runner::Model;

/// The most shards of a load; a larger number is a slip.
const SHARDS_MAX: u32 = 100_000;

/// A shard of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shard {
    index: u32,
    count: u32,
}

impl Shard {
    /// The only shard: the whole load.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// Shard `index`, counted from 0, of `count`.
    ///
    /// # Errors
    /// There is no such shard.
    pub fn new(index: u64, count: u64) -> Result<Self, Complaint> {
        let known = u32::try_from(count).ok().filter(|count| (1..=SHARDS_MAX).contains(count));
        let Some(count) = known else {
            return Err(Complaint::new(
                format!("{count} shards"),
                format!("there may be 1 to {SHARDS_MAX} of them"),
            ));
        };
        let known = u32::try_from(index).ok().filter(|index| *index < count);
        known.map(|index| Self { index, count }).ok_or_else(|| {
            let last = count - 1;
            Complaint::new(
                format!("there is no shard {index}/{count}"),
                format!("shards count from 0, as launchers do: 0/{count} is the first one, {last}/{count} the last"),
            )
        })
    }

    /// The shard that a text such as `2/8` means.
    ///
    /// # Errors
    /// The text is none, or there is no such shard.
    pub fn parse(text: &str) -> Result<Self, Complaint> {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let parts = text.split_once('/').and_then(|(index, count)| Some((number(index)?, number(count)?)));
        let Some((index, count)) = parts else {
            return Err(Complaint::new(
                format!("`{text}` is not a shard"),
                "write its index, counted from 0, and how many there are, as in 2/8",
            ));
        };
        Self::new(index, count)
    }

    /// Its number, from 0.
    #[must_use]
    pub fn index(self) -> u32 {
        self.index
    }

    /// How many shards there are.
    #[must_use]
    pub fn count(self) -> u32 {
        self.count
    }

    /// False if this is the whole load.
    #[must_use]
    pub fn is_part(self) -> bool {
        self.count > 1
    }

    /// How many of the numbers below `of` are its own.
    #[must_use]
    pub fn part_of(self, of: u64) -> u64 {
        let (index, count) = (u64::from(self.index), u64::from(self.count));
        of / count + u64::from(index < of % count)
    }

    /// The same of a smaller number, such as that of users.
    #[must_use]
    pub fn part_of_users(self, of: u32) -> u32 {
        of / self.count + u32::from(self.index < of % self.count)
    }

    /// True if the iteration with this number is its own.
    #[must_use]
    pub fn has(self, number: u64) -> bool {
        number % u64::from(self.count) == u64::from(self.index)
    }

    /// The number, in the whole load, of its own number `own`; both count from 0.
    #[must_use]
    pub fn number(self, own: u64) -> u64 {
        own.saturating_mul(u64::from(self.count)).saturating_add(u64::from(self.index))
    }
}

impl std::fmt::Display for Shard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.index, self.count)
    }
}

impl Plan {
    /// Makes this the plan of a shard.
    ///
    /// # Errors
    /// A workload has fewer users than there are shards.
    pub fn take_shard(&mut self, shard: Shard) -> Result<(), Complaint> {
        for workload in &self.workloads {
            let runner = &workload.runner;
            let key =
                if matches!(runner.model, Model::Open(_)) { "max_concurrency" } else { "virtual users" };
            let Some(users) = runner.concurrency().filter(|users| *users < shard.count) else { continue };
            return Err(Complaint::new(
                format!(
                    "{} shards cannot share the {users} {key} of workload `{}`",
                    shard.count, workload.name
                ),
                format!("start at most {} shards, or give it more users", users.max(1)),
            ));
        }
        self.shard = shard;
        Ok(())
    }

    /// How many iterations of one of its workloads this process plans, including the warm-up; `None` if only the clock
    /// bounds them.
    #[must_use]
    pub fn planned(&self, workload: &WorkloadPlan) -> Option<u64> {
        workload.planned().map(|planned| self.shard.part_of(planned))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shard_is_an_index_from_0_and_a_count() {
        for (text, expected) in [("0/1", (0, 1)), ("2/8", (2, 8)), (" 7 / 8 ", (7, 8))] {
            let Shard { index, count } = Shard::parse(text).unwrap();
            assert_eq!((index, count), expected);
        }
        for (text, part) in [
            ("8/8", "7/8 the last"),
            ("0/0", "1 to 100000"),
            ("1", "as in 2/8"),
            ("-1/3", "as in 2/8"),
            ("a/b", "as in 2/8"),
            ("1/2/3", "as in 2/8"),
            ("0/4294967297", "1 to 100000"),
        ] {
            let error = Shard::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn every_number_belongs_to_one_shard() {
        for (count, of) in [(1, 10), (3, 10), (4, 3), (7, 7), (5, 0)] {
            let shards = (0..count).map(|index| Shard::new(index, count).unwrap());
            let own = |shard: Shard| (0..shard.part_of(of)).map(move |own| shard.number(own));
            let mut all: Vec<u64> = shards.flat_map(own).collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..of), "{count} shards of {of}");
        }
    }
}
