//! Bounds of a mean: Student's, from contiguous batches, corrected for skew.
//!
//! Times are skewed: most are short, and few are long. The mean of a sample is more often far too small than far too
//! large. When long times are missing from a sample, its spread is too small as well, so Student's upper bound is wrong
//! in 6 to 8 of 100 cases instead of 5. The upper bound therefore uses Hall's transformation of Student's t (On the
//! removal of skewness by transformation, JRSS B 1992), a monotone form of Johnson's modified t (JASA 1978). The bound
//! on the side of the short tail is Student's.

use super::binomial::{BATCHES, batch_numbers};
use super::paired::student_upper;

/// Few samples underestimate skew, and more so the more skewed they are: by this factor times the mean's skewness.
const SKEW_HIDDEN: f64 = 2.0;
/// For a mean with more skew than this, the transformation is no longer monotone.
const TILT_MAX: f64 = 0.7;

/// The number and the sum of a batch of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Batch {
    /// How many.
    pub n: u64,
    pub sum: f64,
}

/// Sums of powers of the samples' distances from a fixed number near them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Powers {
    n: u64,
    first: f64,
    second: f64,
    third: f64,
}

impl Powers {
    /// Adds a sample, given its distance.
    pub fn add(&mut self, distance: f64) {
        let square = distance * distance;
        self.n += 1;
        self.first += distance;
        self.second += square;
        self.third += square * distance;
    }

    /// Adds the sums of another.
    pub fn merge(&mut self, other: &Self) {
        self.n += other.n;
        self.first += other.first;
        self.second += other.second;
        self.third += other.third;
    }

    /// Standard deviation and skewness of at least two samples that differ.
    fn shape(&self) -> Option<(f64, f64)> {
        let n = as_f64(self.n);
        let (mean, second, third) = (self.first / n, self.second / n, self.third / n);
        let variance = second - mean * mean;
        let skewness = (third - 3.0 * mean * second + 2.0 * mean.powi(3)) / variance.powf(1.5);
        // Differences due to rounding have no shape.
        let known = self.n >= 2 && variance > 1e-12 * second && skewness.is_finite();
        known.then(|| ((variance * n / (n - 1.0)).sqrt(), skewness))
    }
}

/// A mean with its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
    /// Degrees of freedom of the error.
    freedom: f64,
    /// The skewness of the mean (not of the samples).
    tilt: f64,
}

impl Mean {
    /// Of samples in contiguous batches, which may differ in size. The error is estimated from the differences between
    /// batches, so it accounts for dependence. `None` with fewer than two batches with samples.
    #[must_use]
    pub fn of_batches(batches: &[Batch]) -> Option<Self> {
        let filled = batches.iter().filter(|batch| batch.n > 0).count();
        let n = as_f64(batches.iter().map(|batch| batch.n).sum());
        let value = batches.iter().map(|batch| batch.sum).sum::<f64>() / n;
        if filled < 2 || !value.is_finite() {
            return None;
        }
        let squares: f64 = batches.iter().map(|batch| (batch.sum - value * as_f64(batch.n)).powi(2)).sum();
        let filled = as_f64(filled as u64);
        let error = (squares * filled / (filled - 1.0)).sqrt() / n;
        Some(Self { value, error, freedom: filled - 1.0, tilt: 0.0 })
    }

    /// The same with the shape of the samples: bounds are corrected for skew, and the error is at least that of
    /// independent samples, because neighbours are never less alike than independent samples.
    #[must_use]
    pub fn shaped(self, powers: &Powers) -> Self {
        let Some((deviation, skewness)) = powers.shape() else { return self };
        let error = self.error.max(deviation / as_f64(powers.n).sqrt());
        Self { error, tilt: skewness * error / deviation, ..self }
    }

    /// Of single samples, in order of time.
    #[must_use]
    pub fn of_values(values: &[f64]) -> Option<Self> {
        let numbers = batch_numbers(std::iter::repeat_n(1, values.len()));
        let (mut batches, mut powers) = ([Batch::default(); BATCHES], Powers::default());
        for (value, number) in values.iter().zip(numbers) {
            let batch = number.and_then(|number| batches.get_mut(number))?;
            batch.n += 1;
            batch.sum += value;
            powers.add(value - values[0]);
        }
        Some(Self::of_batches(&batches)?.shaped(&powers))
    }

    /// The lower and the upper bound of the mean, each wrong with a probability of `alpha`.
    #[must_use]
    pub fn bounds(&self, alpha: f64) -> (f64, f64) {
        if self.error <= 0.0 {
            return (self.value, self.value);
        }
        let student = student_upper(alpha, self.freedom);
        let (below, above) = (reach(student, -self.tilt), reach(student, self.tilt));
        (self.value - below * self.error, self.value + above * self.error)
    }
}

/// How many standard errors the bound is from the mean, instead of `student`, on the side of the long tail; `tilt` is
/// the skewness of the mean.
fn reach(student: f64, tilt: f64) -> f64 {
    if tilt <= 1e-9 {
        return student;
    }
    let tilt = (tilt * (1.0 + SKEW_HIDDEN * tilt)).min(TILT_MAX);
    let hall = 3.0 / tilt * (1.0 - (1.0 - tilt * (student + tilt / 6.0)).cbrt());
    hall.max(student)
}

fn as_f64(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, mean, and a generator of skewed times with that mean.
    type SkewedTimes = (&'static str, f64, fn(&mut fastrand::Rng) -> f64);

    fn normal(random: &mut fastrand::Rng) -> f64 {
        (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
    }

    const TIMES: [SkewedTimes; 4] = [
        ("exponential", 1.0, |random| -(1.0 - random.f64()).ln()),
        ("lognormal 0.5", 1.133_148_453_066_826, |random| (0.5 * normal(random)).exp()),
        ("lognormal 1", 1.648_721_270_700_128_2, |random| normal(random).exp()),
        ("lognormal 1.5", 3.080_216_848_918_031, |random| (1.5 * normal(random)).exp()),
    ];

    #[test]
    fn values_that_differ_by_rounding_only_have_no_shape() {
        for value in [0.1, 0.3, 1e9 + 0.1, 1e-9] {
            for count in 1..40 {
                let mut powers = Powers::default();
                (0..count).for_each(|_| powers.add(value));
                assert_eq!(powers.shape(), None, "{count} times {value}");
            }
        }
    }

    #[test]
    fn merged_sums_are_those_of_all_samples() {
        let of = |values: &[f64]| {
            let mut powers = Powers::default();
            values.iter().for_each(|value| powers.add(*value));
            powers
        };
        let mut merged = of(&[1.0, 2.0, 7.0]);
        merged.merge(&of(&[3.0, -5.0]));
        let whole = of(&[1.0, 2.0, 7.0, 3.0, -5.0]);
        let sums = |powers: &Powers| (powers.n, powers.first, powers.second, powers.third);
        assert_eq!(sums(&merged), sums(&whole));
        // The definitions: the squares' root over n - 1, and the third moment over the second's 1.5th power.
        let (sd, skewness) = whole.shape().unwrap();
        assert!(
            (sd - 4.335_896_677).abs() < 1e-8 && (skewness + 0.436_982_46).abs() < 1e-7,
            "{sd} {skewness}"
        );
    }

    fn rounds() -> u32 {
        if std::env::var_os("BENCH_SLOW_TESTS").is_some() { 20_000 } else { 600 }
    }

    /// With at least as many samples as a verdict needs, neither bound is wrong more often than one time in twenty,
    /// allowing for chance in that number of rounds.
    #[test]
    fn bounds_of_skewed_times_hold_as_often_as_stated() {
        let runs = rounds();
        let allowed = f64::from(runs) * 0.05 + 3.0 * (f64::from(runs) * 0.05 * 0.95).sqrt();
        for (name, truth, draw) in TIMES {
            for n in [400, 1_000, 3_000] {
                let mut random = fastrand::Rng::with_seed(n);
                let (mut below, mut above) = (0_u32, 0_u32);
                for _ in 0..runs {
                    let values: Vec<f64> = (0..n).map(|_| draw(&mut random)).collect();
                    let (low, high) = Mean::of_values(&values).unwrap().bounds(0.05);
                    below += u32::from(high < truth);
                    above += u32::from(low >= truth);
                }
                println!("{name}, n {n}: of {runs} the upper bound failed {below}, the lower {above}");
                assert!(f64::from(below) <= allowed, "{name}, {n}: the upper bound failed {below} of {runs}");
                assert!(f64::from(above) <= allowed, "{name}, {n}: the lower bound failed {above} of {runs}");
            }
        }
    }

    /// The cost of the correction: with 1,000 exponential times, a limit of 10 % above the mean still passes nearly
    /// always, and a limit of 10 % below it nearly always fails.
    #[test]
    fn bounds_of_skewed_times_detect_ten_percent() {
        let mut random = fastrand::Rng::with_seed(5);
        let (mut met, mut broken) = (0, 0);
        for _ in 0..400 {
            let values: Vec<f64> = (0..1_000).map(|_| TIMES[0].2(&mut random)).collect();
            let (low, high) = Mean::of_values(&values).unwrap().bounds(0.05);
            met += u32::from(high < 1.1);
            broken += u32::from(low > 0.9);
        }
        assert!(met >= 330 && broken >= 350, "{met} met, {broken} broken of 400");
    }

    /// Each sample is similar to the one before it: as many independent samples would carry nineteen times the
    /// information.
    #[test]
    fn bounds_hold_for_dependent_neighbours() {
        let runs = 300;
        let mut random = fastrand::Rng::with_seed(3);
        let (mut below, mut above) = (0, 0);
        for _ in 0..runs {
            let mut level = normal(&mut random);
            let values: Vec<f64> = (0..3_000)
                .map(|_| {
                    level = 0.9 * level + 0.19_f64.sqrt() * normal(&mut random);
                    (0.5 * level).exp()
                })
                .collect();
            let (low, high) = Mean::of_values(&values).unwrap().bounds(0.05);
            below += u32::from(high < TIMES[1].1);
            above += u32::from(low >= TIMES[1].1);
        }
        assert!(below <= 27 && above <= 27, "{below} and {above} of {runs}");
    }

    #[test]
    fn without_spread_a_mean_is_exact_and_a_single_sample_has_no_bounds() {
        assert_eq!(Mean::of_values(&[]), None);
        assert_eq!(Mean::of_values(&[3.0]), None);
        for values in [vec![5.0; 2], vec![1e9 / 3.0; 500]] {
            let (low, high) = Mean::of_values(&values).unwrap().bounds(0.05);
            assert!((low / values[0] - 1.0).abs() < 1e-12 && (high / values[0] - 1.0).abs() < 1e-12);
        }
        let (low, high) = Mean::of_values(&[1.0, 2.0, 30.0]).unwrap().bounds(0.05);
        assert!(low < 11.0 && 11.0 < high && (high - 11.0) > (11.0 - low));
    }
}
