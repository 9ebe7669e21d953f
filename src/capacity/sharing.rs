//! Whether what iterations do takes longer because of others that are under way: they share something that no trace shows, such
//! as a processor.

use crate::measured::{ChosenFor, MeasuredLoad, TracedIteration};

/// Fewer traced iterations say nothing.
const TRACED_MIN: usize = 20;
/// By less than this share it does not matter.
const GROWS_MIN: f64 = 0.12;
/// So many standard errors show that it does.
const ERRORS_MIN: f64 = 3.0;

/// By what share what an iteration does takes longer because of the others that are under way meanwhile; `None` if it does
/// not, or by little.
pub(crate) fn grows(load: &MeasuredLoad) -> Option<f64> {
    let under_way = UnderWaySum::of(load);
    growth(load, &|one| {
        let others = under_way.mean(one.due_us, one.due_us + one.response_us.max(1)) - 1.0;
        (others.max(0.0), one.program.alone_us() as f64)
    })
}

/// By what share what points of these kinds do takes longer because of the others that are under way when the iteration is
/// due: some of it is waiting. What comes later may be its own doing, because others wait for it.
pub(crate) fn waits(load: &MeasuredLoad, kinds: &[usize]) -> Option<f64> {
    let under_way = UnderWaySum::of(load);
    let at = |us: i64| under_way.mean(us - 1, us);
    growth(load, &|one| (at(one.due_us), one.program.work_us(kinds) as f64))
}

/// By what share a figure of the traced iterations is higher for the mean of another than for 0 of it, if that is certain, and
/// more than a little.
fn growth(load: &MeasuredLoad, figures: &dyn Fn(&TracedIteration) -> (f64, f64)) -> Option<f64> {
    let random = load.traced.iter().filter(|one| one.chosen == ChosenFor::Chance);
    let seen: Vec<(f64, f64)> = random.map(figures).collect();
    let n = seen.len() as f64;
    if seen.len() < TRACED_MIN {
        return None;
    }
    let (mean_x, mean_y) =
        (seen.iter().map(|(x, _)| x).sum::<f64>() / n, seen.iter().map(|(_, y)| y).sum::<f64>() / n);
    let xx = seen.iter().map(|(x, _)| (x - mean_x).powi(2)).sum::<f64>();
    let xy = seen.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>();
    if xx <= 0.0 || mean_y <= 0.0 {
        return None;
    }
    let slope = xy / xx;
    let rest = seen.iter().map(|(x, y)| (y - mean_y - slope * (x - mean_x)).powi(2)).sum::<f64>();
    let error = (rest / (n - 2.0).max(1.0) / xx).sqrt();
    let by = slope * mean_x / mean_y;
    (slope > ERRORS_MIN * error && by > GROWS_MIN).then_some(by)
}

/// How many iterations are under way over time.
struct UnderWaySum {
    /// The due times in order, each with the sum of those up to it; the same of the ends.
    begins: Vec<(i64, f64)>,
    ends: Vec<(i64, f64)>,
}

impl UnderWaySum {
    fn of(load: &MeasuredLoad) -> Self {
        let summed = |mut times: Vec<i64>| {
            times.sort_unstable();
            let mut sum = 0.0;
            let add = |us: i64| {
                sum += us as f64;
                (us, sum)
            };
            times.into_iter().map(add).collect()
        };
        let iterations = &load.iterations;
        Self {
            begins: summed(iterations.iter().map(|one| one.due_us).collect()),
            ends: summed(iterations.iter().map(|one| one.due_us + one.response_us).collect()),
        }
    }

    /// The mean number of them between two times.
    fn mean(&self, from_us: i64, until_us: i64) -> f64 {
        let up_to = |times: &[(i64, f64)], us: i64| {
            let count = times.partition_point(|(one, _)| *one < us);
            count as f64 * us as f64 - count.checked_sub(1).map_or(0.0, |last| times[last].1)
        };
        let spent = |us: i64| up_to(&self.begins, us) - up_to(&self.ends, us);
        (spent(until_us) - spent(from_us)) / (until_us - from_us).max(1) as f64
    }
}
