//! When the iterations of another run would be due.
//!
//! Random arrivals come in another order in each run, and at a high load the bursts of one decide its percentiles. So the
//! times between arrivals are shuffled, among those of about the same time, because the rate may change. Regular arrivals
//! stay as they are.

use crate::measured::LoadedIteration;

/// Among so many arrivals, the times between them are shuffled.
const BLOCK: usize = 500;
/// Arrivals are random if the standard deviation of the times between them is at least this share of their mean.
const VARIES_MIN: f64 = 0.5;

/// Due times of a new run, in microseconds, in order.
pub(crate) fn draw(iterations: &[LoadedIteration], drawn: &mut fastrand::Rng) -> Vec<i64> {
    let due_us: Vec<i64> = iterations.iter().map(|one| one.due_us).collect();
    let mut gaps_us: Vec<i64> = due_us.windows(2).map(|pair| pair[1] - pair[0]).collect();
    if !varies(&gaps_us) {
        return due_us;
    }
    gaps_us.chunks_mut(BLOCK).for_each(|block| drawn.shuffle(block));
    let mut at_us = due_us.first().copied().unwrap_or(0);
    let first = due_us.first().copied();
    let later = gaps_us.into_iter().map(|gap_us| {
        at_us += gap_us;
        at_us
    });
    first.into_iter().chain(later).collect()
}

fn varies(gaps_us: &[i64]) -> bool {
    let n = gaps_us.len().max(1) as f64;
    let mean = gaps_us.iter().sum::<i64>() as f64 / n;
    let variance = gaps_us.iter().map(|gap_us| (*gap_us as f64 - mean).powi(2)).sum::<f64>() / n;
    variance.sqrt() > VARIES_MIN * mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_arrivals_are_drawn_anew_and_regular_ones_are_not() {
        let at = |due_us: i64| LoadedIteration { due_us, response_us: 1, counts: true, traced: None };
        let mut drawn = fastrand::Rng::with_seed(1);
        let regular: Vec<LoadedIteration> = (0..2_000).map(|number| at(7 + number * 1_000)).collect();
        assert!(draw(&regular, &mut drawn).iter().zip(&regular).all(|(new, old)| *new == old.due_us));
        let mut due_us = 7;
        let random: Vec<LoadedIteration> = (0..2_000)
            .map(|_| {
                due_us += (-(1.0 - drawn.f64()).ln() * 1_000.0) as i64;
                at(due_us)
            })
            .collect();
        let new = draw(&random, &mut drawn);
        assert!(new.windows(2).all(|pair| pair[0] <= pair[1]));
        // The rate of each while stays.
        let places = || new.iter().zip(&random).step_by(500);
        assert!(places().all(|(new, old)| *new == old.due_us));
        let moved = new.iter().zip(&random).filter(|(new, old)| **new != old.due_us).count();
        assert!(moved > 1_900, "{moved}");
        assert!(draw(&[], &mut drawn).is_empty());
    }
}
