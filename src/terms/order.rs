//! Which row a number gets: a pure function, so that any worker finds the row of any iteration alone, and a run can be
//! repeated.

use base::ids::mix;
use config::data::Order;

/// The position of the row for `number` among `rows` rows (at least one). `key` selects the random order.
#[must_use]
pub(super) fn position(order: Order, key: u64, number: u64, rows: u64) -> u64 {
    let rows = rows.max(1);
    match order {
        Order::Sequential => number % rows,
        // A separate order for each pass through the rows.
        Order::Shuffled => permuted(mix(mix(key) ^ (number / rows)), number % rows, rows),
        // Lemire's multiplication instead of a division; the bias is below rows / 2⁶⁴.
        Order::Random => ((u128::from(mix(key ^ number)) * u128::from(rows)) >> 64) as u64,
    }
}

const ROUNDS: u64 = 6;

/// The place of `number` in a permutation of `0..count`: a Feistel network on the next larger even number of bits,
/// repeated until the result is below `count` (cycle walking; Black and Rogaway 2002). On average, that takes fewer
/// than four passes.
fn permuted(key: u64, number: u64, count: u64) -> u64 {
    if count < 2 {
        return 0;
    }
    let bits = u64::BITS - (count - 1).leading_zeros();
    let half = bits.div_ceil(2);
    let mask = (1_u64 << half) - 1;
    let mut value = number;
    loop {
        let (mut left, mut right) = (value >> half, value & mask);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ (mix(key.wrapping_add(round).rotate_left(17) ^ right) & mask));
        }
        value = (left << half) | right;
        if value < count {
            return value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn sequential_rows_follow_the_number_and_one_row_is_always_the_same() {
        let of = |order, number, rows| position(order, 7, number, rows);
        assert_eq!([0, 1, 2, 3, 7].map(|number| of(Order::Sequential, number, 3)), [0, 1, 2, 0, 1]);
        for order in [Order::Sequential, Order::Shuffled, Order::Random] {
            assert_eq!([0, 1, u64::MAX].map(|number| of(order, number, 1)), [0, 0, 0], "{order:?}");
        }
    }

    #[test]
    fn every_pass_of_shuffled_rows_has_another_order_and_so_does_every_key() {
        let pass =
            |key, pass: u64| (0..50).map(|n| position(Order::Shuffled, key, pass * 50 + n, 50)).collect();
        let orders: BTreeSet<Vec<u64>> = (0..4).flat_map(|key| (0..4).map(move |p| pass(key, p))).collect();
        assert_eq!(orders.len(), 16);
    }

    #[test]
    fn random_rows_are_spread_evenly() {
        let mut counts = [0_u32; 10];
        (0..100_000).for_each(|number| counts[position(Order::Random, 3, number, 10) as usize] += 1);
        // Five standard deviations of a binomial distribution with p = 0.1.
        assert!(counts.iter().all(|count| count.abs_diff(10_000) < 475), "{counts:?}");
    }

    proptest! {
        #[test]
        fn a_pass_of_shuffled_rows_has_every_row_once(key: u64, rows in 1_u64..700, pass in 0_u64..1 << 40) {
            let taken: BTreeSet<u64> =
                (0..rows).map(|number| position(Order::Shuffled, key, pass * rows + number, rows)).collect();
            prop_assert_eq!(taken.len() as u64, rows);
            prop_assert_eq!(taken.last().copied(), Some(rows - 1));
        }

        #[test]
        fn a_position_is_always_below_the_number_of_rows(key: u64, number: u64, rows in 1..u64::MAX) {
            for order in [Order::Sequential, Order::Shuffled, Order::Random] {
                prop_assert!(position(order, key, number, rows) < rows);
            }
        }
    }
}
