//! The largest entries of a stream, largest first.

use crate::base::clock::Nanos;

/// The number of trace ids beside an error or a criterion.
pub const EXEMPLARS_MAX: usize = 5;

/// Puts an entry in its place among the `max` largest. Of entries of one size, those that came first stay.
#[inline]
pub(super) fn keep_largest<T>(
    kept: &mut Vec<T>,
    max: usize,
    size_ns: Nanos,
    size_of: impl Fn(&T) -> Nanos,
    entry: impl FnOnce() -> T,
) {
    if kept.len() >= max && kept.last().is_some_and(|last| size_of(last) >= size_ns) {
        return;
    }
    let at = kept.partition_point(|other| size_of(other) >= size_ns);
    kept.insert(at, entry());
    kept.truncate(max);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_are_kept_in_order_and_the_first_of_equals() {
        let mut kept = Vec::new();
        for (number, size) in [3, 9, 1, 9, 4, 4, 4, 2].into_iter().enumerate() {
            keep_largest(&mut kept, 4, size, |(size, _)| *size, || (size, number));
        }
        assert_eq!(kept, [(9, 1), (9, 3), (4, 4), (4, 5)]);
    }
}
