//! Which of the slow iterations are compared: the slowest 1 %, then more of them, where there are traces.
//!
//! A cause that affects only the slowest is lost among more of them, and a few of them are too few to compare. Where 2 % of
//! all iterations are slow for one reason, they are too many for the slowest 1 %, and less than half of the slowest 5 %.
//! So the tails between are tried, too. That gives chance no more room than one tail would: a kind must explain a large
//! part of a tail, at its lower bound, and stand out in it. Nothing here may judge.

use super::attribution::SLOW_MIN;
use super::compared::Traces;

/// The whole group of slow iterations is the slowest 5 %.
pub(super) const SLOW_PERCENT: u32 = 5;
/// The tail between 1 and 5 %.
const BETWEEN_PERCENT: u32 = 2;

/// Slow iterations, as indices of traces, and which part of all they are.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tail {
    pub(super) of: Vec<usize>,
    pub(super) percent: u32,
}

/// The tails of these slow iterations of a workload with this many iterations, smallest first; `top` are the slowest 1 %.
pub(super) fn tails(traces: &Traces<'_>, top: Vec<usize>, slow: Vec<usize>, total: u64) -> Vec<Tail> {
    let mut order = slow.clone();
    order.sort_by_key(|&one| std::cmp::Reverse(traces.compared[one].sample.response_ns()));
    let between = between(slow.len(), total).map(|(count, percent)| {
        // Traces that are missing are no reason to take others: they are missing at random, or nothing can be said.
        let of = order.into_iter().take(count).collect();
        Tail { of, percent }
    });
    let first = Tail { of: top, percent: 1 };
    let last = Tail { of: slow, percent: SLOW_PERCENT };
    [Some(first), between, Some(last)].into_iter().flatten().collect()
}

/// How many of the slowest 5 % are the tail between, and which part of all iterations they are in percent; `None` if that
/// is hardly less than all.
fn between(slow: usize, total: u64) -> Option<(usize, u32)> {
    // A large run has the traces of some of its slow iterations, so their part counts.
    let wanted = (slow * BETWEEN_PERCENT as usize).div_ceil(SLOW_PERCENT as usize);
    let count = wanted.max(SLOW_MIN);
    let percent = match count == wanted {
        true => BETWEEN_PERCENT,
        false => u32::try_from((100 * count as u64).div_ceil(total.max(1))).unwrap_or(SLOW_PERCENT),
    };
    (2 * count <= slow + slow / 2 && percent < SLOW_PERCENT).then_some((count, percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_between_has_enough_traces_and_leaves_some() {
        for (slow, total, expected) in [
            (100, 2_000, Some((40, 2))),
            (100, 1_000_000, Some((40, 2))),
            (50, 1_000, Some((20, 2))),
            (51, 1_020, Some((21, 2))),
            // 20 traces are 2.5 % of 800 iterations.
            (40, 800, Some((20, 3))),
            (30, 600, Some((20, 4))),
            (26, 520, None),
            (20, 400, None),
            (0, 10, None),
        ] {
            assert_eq!(between(slow, total), expected, "{slow} of {total}");
        }
    }
}
