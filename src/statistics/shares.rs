//! Two shares: the bounds of their difference, the chance that they differ by accident, and many such chances at once.

use statrs::function::gamma::ln_gamma;

/// The two-sided 95 % quantile of the normal distribution.
const Z: f64 = 1.96;

/// The 95 % bounds of the first share minus the second, each given as a part and a whole (Newcombe, Statistics in
/// Medicine 17, 1998, method 10: from Wilson's intervals).
#[must_use]
pub fn difference_bounds((a, of_a): (usize, usize), (b, of_b): (usize, usize)) -> (f64, f64) {
    let (one, other) = (a as f64 / of_a as f64, b as f64 / of_b as f64);
    let (one_low, one_high) = wilson(one, of_a as f64);
    let (other_low, other_high) = wilson(other, of_b as f64);
    let difference = one - other;
    let reach = |near: f64, far: f64| (near * near + far * far).sqrt();
    let low = difference - reach(one - one_low, other_high - other);
    let high = difference + reach(one_high - one, other - other_low);
    (low.max(-1.0), high.min(1.0))
}

/// Wilson's interval of a proportion `p` of `n`.
fn wilson(p: f64, n: f64) -> (f64, f64) {
    let centre = p + Z * Z / (2.0 * n);
    let width = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    let whole = 1.0 + Z * Z / n;
    ((centre - width) / whole, (centre + width) / whole)
}

/// The probability that at least `a` of the first `of_a` have a property that `a + b` of all have, if chance decides
/// which have it (Fisher's exact test, one-sided).
#[must_use]
pub fn chance_of_more((a, of_a): (usize, usize), (b, of_b): (usize, usize)) -> f64 {
    let have = a + b;
    let all = of_a + of_b;
    if a == 0 || have > all {
        return 1.0;
    }
    let choose = |n: usize, k: usize| {
        let ln_factorial = |n: usize| ln_gamma(n as f64 + 1.0);
        ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k)
    };
    let whole = choose(all, have);
    let most = of_a.min(have);
    let terms = (a..=most).filter(|k| have - k <= of_b);
    terms.map(|k| (choose(of_a, k) + choose(of_b, have - k) - whole).exp()).sum::<f64>().min(1.0)
}

/// The chances of many tests, adjusted so that chances of at most 0.05 contain on average at most 5 % accidents,
/// whatever the dependence between the tests. Source: Benjamini and Yekutieli, Annals of Statistics 29, 2001.
#[must_use]
pub fn adjusted(chances: &[f64]) -> Vec<f64> {
    let tests = chances.len();
    let harmonic: f64 = (1..=tests).map(|rank| 1.0 / rank as f64).sum();
    let mut order: Vec<usize> = (0..tests).collect();
    order.sort_by(|one, other| chances[*one].total_cmp(&chances[*other]));
    let mut adjusted = vec![1.0; tests];
    let mut least: f64 = 1.0;
    for (rank, index) in order.iter().enumerate().rev() {
        least = least.min(chances[*index] * tests as f64 * harmonic / (rank + 1) as f64);
        adjusted[*index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_those_of_exact_fractions() {
        for (a, b, expected) in [
            ((8, 10), (2, 20), 0.000_291_262_959_928_627_07),
            ((1, 1), (0, 1), 0.5),
            ((0, 10), (0, 10), 1.0),
            ((10, 10), (10, 10), 1.0),
            ((3, 20), (6, 40), 0.637_843_650_492_107_2),
            ((27, 30), (5, 60), 9.319_685_930_701_163e-15),
            ((40, 400), (2, 800), 8.831_138_991_382_685e-18),
        ] {
            let seen = chance_of_more(a, b);
            assert!((seen - expected).abs() <= 1e-9 * expected, "{a:?} {b:?}: {seen}");
        }
    }

    #[test]
    fn adjusted_chances_are_those_of_the_paper() {
        // The tests in another order; factors are 5 (1 + 1/2 + 1/3 + 1/4 + 1/5) over the rank.
        let seen = adjusted(&[0.042, 0.001, 0.041, 0.008, 0.039]);
        let expected = [0.095_9, 0.011_416_666_7, 0.095_9, 0.045_666_666_7, 0.095_9];
        for (seen, expected) in seen.iter().zip(expected) {
            assert!((seen - expected).abs() < 1e-9, "{seen} {expected}");
        }
        assert_eq!(adjusted(&[]), Vec::<f64>::new());
        assert_eq!(adjusted(&[1.0, 1.0]), [1.0, 1.0]);
    }

    #[test]
    fn bounds_are_those_of_newcombes_table() {
        // Table II of the paper, method 10: 56/70 - 48/80, 9/10 - 3/10, 6/7 - 2/7, 10/10 - 0/20.
        for (a, b, low, high) in [
            ((56, 70), (48, 80), 0.0524, 0.3339),
            ((9, 10), (3, 10), 0.1705, 0.8090),
            ((6, 7), (2, 7), 0.0582, 0.8062),
            ((10, 10), (0, 20), 0.6791, 1.0),
        ] {
            let seen = difference_bounds(a, b);
            assert!((seen.0 - low).abs() < 1e-4 && (seen.1 - high).abs() < 1e-4, "{a:?} {b:?}: {seen:?}");
        }
    }
}
