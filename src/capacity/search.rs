//! The search for the highest arrival rate that a service bears: which rate to try next.
//!
//! Rates grow by a factor until one breaks, and fall if the first one does. Then the geometric mean of the highest rate
//! that holds and the lowest that breaks is tried, until both are close. A level can be wrong: a machine that pauses breaks
//! a rate that the service bears. So both ends of the answer need two levels that agree, and levels that contradict each
//! other are repeated. What holds and what breaks is then divided where the fewest levels contradict it, as isotonic
//! regression does (Barlow et al., Statistical Inference under Order Restrictions, 1972).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// By how many levels more than contradict it an end of the answer must be supported.
const SUPPORT: i64 = 2;

/// What a search may do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchRules {
    /// The rate to begin with, in iterations per second.
    pub first_per_s: f64,
    /// No higher rate is tried.
    pub highest_per_s: f64,
    /// No lower rate is tried.
    pub lowest_per_s: f64,
    /// How many times as high the next rate is while none has broken; more than 1.
    pub growth: f64,
    /// The search ends when the lowest rate that breaks is higher than the highest that holds by at most this share.
    pub resolution: f64,
}

/// How a level went.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LevelOutcome {
    /// The data show that every criterion holds.
    Holds,
    /// The data show that one does not.
    Breaks,
    /// Neither: the rate counts as one that does not hold.
    Unclear,
}

/// A level that has run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TriedLevel {
    /// Iterations that were due in a second.
    pub rate_per_s: f64,
    /// How it went.
    pub outcome: LevelOutcome,
}

/// A search under way.
#[derive(Clone, Debug)]
pub struct RateSearch {
    rules: SearchRules,
    levels: Vec<TriedLevel>,
}

/// What a search has found so far.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CapacityBounds {
    /// The highest rate that holds, in iterations per second; absent if none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds_per_s: Option<f64>,
    /// The lowest rate that does not; absent if all did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub breaks_per_s: Option<f64>,
    /// True if both are as close as the rules ask, and each is supported by two levels.
    pub settled: bool,
}

/// The levels of one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Votes {
    rate_per_s: f64,
    hold: i64,
    not: i64,
}

impl RateSearch {
    /// A search that has not tried anything yet.
    #[must_use]
    pub fn new(rules: SearchRules) -> Self {
        Self { rules, levels: Vec::new() }
    }

    /// Adds a level that has run.
    pub fn add(&mut self, level: TriedLevel) {
        self.levels.push(level);
    }

    /// The levels in the order in which they ran.
    #[must_use]
    pub fn levels(&self) -> &[TriedLevel] {
        &self.levels
    }

    /// The rate to try next; `None` if nothing is left to find.
    #[must_use]
    pub fn next_per_s(&self) -> Option<f64> {
        let SearchRules { first_per_s, highest_per_s, lowest_per_s, growth, resolution } = self.rules;
        let votes = self.votes();
        if votes.is_empty() {
            return Some(first_per_s.clamp(lowest_per_s, highest_per_s));
        }
        let divided = divide(&votes);
        let (below, above) = (divided.checked_sub(1).map(|at| votes[at]), votes.get(divided).copied());
        match (below, above) {
            (Some(holds), None) if holds.rate_per_s >= highest_per_s => {
                (holds.hold - holds.not < SUPPORT).then_some(highest_per_s)
            }
            (Some(holds), None) => Some((holds.rate_per_s * growth).min(highest_per_s)),
            (None, Some(breaks)) if breaks.rate_per_s <= lowest_per_s => {
                (breaks.not - breaks.hold < SUPPORT).then_some(lowest_per_s)
            }
            (None, Some(breaks)) => Some((breaks.rate_per_s / growth / growth).max(lowest_per_s)),
            (Some(holds), Some(breaks)) => {
                if breaks.rate_per_s > holds.rate_per_s * (1.0 + resolution) {
                    return Some((breaks.rate_per_s * holds.rate_per_s).sqrt());
                }
                // The end that fewer levels support first.
                let weak = [
                    (holds.hold - holds.not, holds.rate_per_s),
                    (breaks.not - breaks.hold, breaks.rate_per_s),
                ];
                let weak = weak.into_iter().min_by_key(|(support, _)| *support);
                weak.filter(|(support, _)| *support < SUPPORT).map(|(_, rate)| rate)
            }
            (None, None) => None,
        }
    }

    /// What the levels so far say.
    #[must_use]
    pub fn bounds(&self) -> CapacityBounds {
        let votes = self.votes();
        let divided = divide(&votes);
        CapacityBounds {
            holds_per_s: divided.checked_sub(1).map(|at| votes[at].rate_per_s),
            breaks_per_s: votes.get(divided).map(|one| one.rate_per_s),
            settled: !votes.is_empty() && self.next_per_s().is_none(),
        }
    }

    /// The levels by their rate, the lowest first.
    fn votes(&self) -> Vec<Votes> {
        let mut votes: Vec<Votes> = Vec::new();
        for level in &self.levels {
            let held = i64::from(level.outcome == LevelOutcome::Holds);
            let one = Votes { rate_per_s: level.rate_per_s, hold: held, not: 1 - held };
            match votes.iter_mut().find(|known| known.rate_per_s.total_cmp(&one.rate_per_s).is_eq()) {
                Some(known) => (known.hold, known.not) = (known.hold + one.hold, known.not + one.not),
                None => votes.push(one),
            }
        }
        votes.sort_by(|one, other| one.rate_per_s.total_cmp(&other.rate_per_s));
        votes
    }
}

/// How many of these rates hold, the lowest ones: the division that the fewest levels contradict; of several the lowest,
/// because a service that breaks now and then does not hold.
fn divide(votes: &[Votes]) -> usize {
    let contradicting = |divided: usize| {
        let below = votes[..divided].iter().map(|one| one.not).sum::<i64>();
        below + votes[divided..].iter().map(|one| one.hold).sum::<i64>()
    };
    (0..=votes.len()).min_by_key(|divided| contradicting(*divided)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{QueueRules, judged};

    const RULES: SearchRules = SearchRules {
        first_per_s: 10.0,
        highest_per_s: 1e6,
        lowest_per_s: 0.1,
        growth: 1.5,
        resolution: 0.05,
    };

    /// Searches with these outcomes, and returns the answer and the number of levels.
    fn searched(
        rules: SearchRules,
        mut level: impl FnMut(usize, f64) -> LevelOutcome,
    ) -> (CapacityBounds, usize) {
        let mut search = RateSearch::new(rules);
        while let Some(rate_per_s) = search.next_per_s() {
            let number = search.levels().len();
            assert!(number < 80, "the search does not end: {:?}", search.levels());
            search.add(TriedLevel { rate_per_s, outcome: level(number, rate_per_s) });
        }
        (search.bounds(), search.levels().len())
    }

    fn up_to(limit: f64) -> impl FnMut(usize, f64) -> LevelOutcome {
        move |_, rate| if rate <= limit { LevelOutcome::Holds } else { LevelOutcome::Breaks }
    }

    #[test]
    fn the_limit_is_between_both_ends() {
        for limit in [0.4, 3.0, 9.9, 10.0, 11.0, 412.0, 90_000.0] {
            let (found, levels) = searched(RULES, up_to(limit));
            let (holds, breaks) = (found.holds_per_s.unwrap(), found.breaks_per_s.unwrap());
            assert!(holds <= limit && limit < breaks && breaks <= holds * 1.05, "{limit}: {found:?}");
            assert!(found.settled);
            assert!(levels <= 34, "{limit}: {levels} levels");
        }
    }

    #[test]
    fn a_search_ends_at_its_highest_and_lowest_rate() {
        let (found, _) = searched(SearchRules { highest_per_s: 200.0, ..RULES }, up_to(1e9));
        assert_eq!(found, CapacityBounds { holds_per_s: Some(200.0), breaks_per_s: None, settled: true });
        let (found, _) = searched(RULES, up_to(0.0));
        assert_eq!(found, CapacityBounds { holds_per_s: None, breaks_per_s: Some(0.1), settled: true });
        let (found, _) =
            searched(SearchRules { first_per_s: 900.0, highest_per_s: 200.0, ..RULES }, up_to(1e9));
        assert_eq!(found.holds_per_s, Some(200.0));
    }

    /// A single wrong level, in either direction, wherever it is, changes nothing.
    #[test]
    fn one_wrong_level_is_found_out() {
        for limit in [37.0, 412.0] {
            let (_, levels) = searched(RULES, up_to(limit));
            for wrong in 0..levels {
                let mut right = up_to(limit);
                let (found, _) = searched(RULES, |number, rate| match right(number, rate) {
                    LevelOutcome::Holds if number == wrong => LevelOutcome::Breaks,
                    LevelOutcome::Breaks if number == wrong => LevelOutcome::Holds,
                    outcome => outcome,
                });
                let (holds, breaks) = (found.holds_per_s.unwrap(), found.breaks_per_s.unwrap());
                assert!(holds <= limit && limit < breaks, "{limit}, level {wrong}: {found:?}");
            }
        }
    }

    /// An unclear rate does not hold.
    #[test]
    fn what_is_unclear_does_not_hold() {
        let (found, _) = searched(RULES, |_, rate| match rate {
            ..=400.0 => LevelOutcome::Holds,
            ..=500.0 => LevelOutcome::Unclear,
            _ => LevelOutcome::Breaks,
        });
        assert!(found.holds_per_s.unwrap() <= 400.0 && found.breaks_per_s.unwrap() <= 420.0, "{found:?}");
    }

    /// Simulated services of several servers with lognormal work: the rate at which work arrives as fast as it is done is
    /// within 5 % of the answer. The criterion allows a wait that is long beside the work.
    #[test]
    fn the_capacity_of_simulated_queues_is_found() {
        let mut wrong = Vec::new();
        let mut all = 0;
        for servers in [1_usize, 3, 5, 8, 16] {
            for seed in 0..4_u64 {
                let queue = QueueRules { servers, mean_work_us: 10_000.0, sigma: 0.5, seed };
                let truth = servers as f64 * 100.0;
                let (found, _) = searched(RULES, |number, rate| judged(&queue, number, rate, 15.0, 200_000));
                let holds = found.holds_per_s.unwrap();
                all += 1;
                if !(0.95..1.05).contains(&(holds / truth)) {
                    wrong.push((servers, seed, holds / truth));
                }
            }
        }
        assert!(wrong.len() * 20 <= all, "{} of {all}: {wrong:?}", wrong.len());
    }
}
