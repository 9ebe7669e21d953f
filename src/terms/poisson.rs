//! A Poisson process of arrivals whose every arrival can be found alone.
//!
//! The gaps between arrivals of a process with the rate 1 are exponentially distributed and independent. Each gap is
//! computed from the seed and its number, and the sums of gaps are kept at every 4,096th arrival. A rate that changes
//! stretches this process: arrival k is due when the integral of the rate reaches the sum of the first k gaps (Çinlar,
//! Introduction to Stochastic Processes, 1975, section 4.7).

use base::ids::mix;

/// The most arrivals: all gaps are added up once, before the load.
pub const ARRIVALS_MAX: u64 = 100_000_000;
/// A sum is kept for this many arrivals.
const STRIDE: u64 = 4096;

/// The arrivals of a process with the rate 1.
#[derive(Clone, Debug)]
pub struct Poisson {
    seed: u64,
    /// The sum of all gaps before arrivals 0, 4096, 8192 and so on.
    sums: Vec<f64>,
    total: u64,
}

impl Poisson {
    /// The arrivals before `until`, at most `times`.
    #[must_use]
    pub fn new(seed: u64, until: f64, times: u64) -> Self {
        let mut process = Self { seed: mix(seed), sums: Vec::new(), total: 0 };
        let (mut sum, most) = (0.0, times.min(ARRIVALS_MAX));
        while process.total < most {
            if process.total.is_multiple_of(STRIDE) {
                process.sums.push(sum);
            }
            sum += process.gap(process.total);
            if sum >= until {
                break;
            }
            process.total += 1;
        }
        process
    }

    /// How many arrivals there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// How many of them come before `until`.
    #[must_use]
    pub fn before(&self, until: f64) -> u64 {
        let block = self.sums.partition_point(|sum| *sum < until).saturating_sub(1) as u64;
        let mut number = block * STRIDE;
        let mut sum = self.sums.get(block as usize).copied().unwrap_or_default();
        while number < self.total {
            sum += self.gap(number);
            if sum >= until {
                break;
            }
            number += 1;
        }
        number
    }

    /// When arrival `number` comes. Takes up to 4,096 steps; see [`Self::after`].
    #[must_use]
    pub fn at(&self, number: u64) -> f64 {
        let sum = self.sums.get((number / STRIDE) as usize).or(self.sums.last()).copied().unwrap_or_default();
        (number / STRIDE * STRIDE..=number).fold(sum, |sum, number| sum + self.gap(number))
    }

    /// When arrival `number` comes if `known` is an earlier one with its time, not far before.
    #[must_use]
    pub fn after(&self, (known, at): (u64, f64), number: u64) -> f64 {
        // The sum begins anew where one is kept, so that the result is the same by any way.
        if known / STRIDE != number / STRIDE {
            return self.at(number);
        }
        (known + 1..=number).fold(at, |sum, number| sum + self.gap(number))
    }

    /// The gap before arrival `number`.
    fn gap(&self, number: u64) -> f64 {
        // Never 0, whose logarithm is infinite.
        let share = ((mix(self.seed ^ number) >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -share.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_arrival_is_found_alone_and_in_turn() {
        let process = Poisson::new(7, 10_000.0, u64::MAX);
        let mut last = (0, process.at(0));
        for number in 1..process.total() {
            let at = process.after(last, number);
            assert_eq!(at, process.at(number), "{number}");
            assert!(at >= last.1);
            last = (number, at);
        }
        assert!(last.1 < 10_000.0 && process.after(last, last.0 + 1) >= 10_000.0);
        for until in [0.0, 1.0, 4_095.5, 4_200.0, 9_999.0, 1e9] {
            let expected = (0..process.total()).filter(|number| process.at(*number) < until).count() as u64;
            assert_eq!(process.before(until), expected, "{until}");
        }
    }

    #[test]
    fn counts_have_the_mean_and_the_variance_of_a_poisson_process() {
        // The counts of 4,000 intervals of length 5, of several seeds.
        for seed in 0..5 {
            let process = Poisson::new(seed, 20_000.0, u64::MAX);
            let mut counts = vec![0_u32; 4_000];
            (0..process.total()).for_each(|number| counts[(process.at(number) / 5.0) as usize] += 1);
            let mean = counts.iter().map(|count| f64::from(*count)).sum::<f64>() / 4_000.0;
            let variance =
                counts.iter().map(|count| (f64::from(*count) - mean).powi(2)).sum::<f64>() / 3_999.0;
            // The standard deviations are 0.035 and 0.12.
            assert!((mean - 5.0).abs() < 0.15 && (variance - 5.0).abs() < 0.5, "{seed}: {mean} {variance}");
            assert_eq!(Poisson::new(seed, 20_000.0, 77).total(), 77);
        }
        assert_ne!(Poisson::new(1, 9.0, 9).at(3), Poisson::new(2, 9.0, 9).at(3));
    }
}
