//! Work on many items, on all processors at once. For after a load: beside one, only a thread that gives way to it may
//! call this, because the threads that it starts take over its priority.

use std::num::NonZero;
use std::sync::Mutex;
use std::thread;

/// More threads than this are of no use for what is done here.
const THREADS_MAX: usize = 8;

/// The result of `work` for each item, in the order of the items.
///
/// # Panics
/// When `work` does.
pub fn map<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX).min(items.len());
    if threads < 2 {
        return items.into_iter().map(work).collect();
    }
    let waiting = Mutex::new(items.into_iter().enumerate());
    // A thread that panicked holds no lock while it works.
    let next = || waiting.lock().ok()?.next();
    let take = || {
        let mut done = Vec::new();
        while let Some((index, item)) = next() {
            done.push((index, work(item)));
        }
        done
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(take)).collect();
        let mut done = take();
        for other in others {
            match other.join() {
                Ok(more) => done.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Splits `len` items into ranges for [`map`], each of at least `least` items but for the last one.
#[must_use]
pub fn ranges(len: usize, least: usize) -> Vec<std::ops::Range<usize>> {
    let size = len.div_ceil(4 * THREADS_MAX).max(least.max(1));
    (0..len).step_by(size).map(|from| from..(from + size).min(len)).collect()
}

/// Splits a text into ranges of whole lines for [`map`], each of at least `least` bytes but for the last one.
#[must_use]
pub fn lines(text: &str, least: usize) -> Vec<std::ops::Range<usize>> {
    let (mut found, mut from) = (Vec::new(), 0);
    for wanted in ranges(text.len(), least) {
        let line_of = wanted.end.max(from);
        let rest = text.as_bytes()[line_of..].iter().position(|byte| *byte == b'\n');
        let end = rest.map_or(text.len(), |rest| line_of + rest + 1);
        if from < end {
            found.push(from..end);
        }
        from = end;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        for len in [0, 1, 2, 1_000] {
            let doubled = map((0..len).collect(), |number: usize| 2 * number);
            assert_eq!(doubled, (0..len).map(|number| 2 * number).collect::<Vec<_>>());
        }
    }

    #[test]
    fn ranges_are_all_of_it() {
        for (len, least) in [(0, 5), (3, 5), (5, 5), (11, 5), (100_000, 5), (7, 0)] {
            let ranges = ranges(len, least);
            assert_eq!(
                ranges.iter().cloned().flatten().collect::<Vec<_>>(),
                (0..len).collect::<Vec<_>>(),
                "{len} {least}"
            );
            assert!(ranges.len() <= 4 * THREADS_MAX);
        }
    }

    #[test]
    fn ranges_of_lines_are_all_of_the_text() {
        for (text, least) in
            [("", 1), ("a", 1), ("a\nbc\n", 1), ("ä\n\nü", 1), ("a\nb\nc\nd\n", 3), ("abc\nd", 2)]
        {
            let ranges = lines(text, least);
            assert_eq!(ranges.iter().map(|range| &text[range.clone()]).collect::<String>(), text);
            let ends =
                |range: &std::ops::Range<usize>| range.end == text.len() || text[..range.end].ends_with('\n');
            assert!(ranges.iter().all(|range| !range.is_empty() && ends(range)), "{text:?}: {ranges:?}");
        }
    }

    #[test]
    #[should_panic(expected = "the seventh")]
    fn a_panic_is_passed_on() {
        map((0..100).collect(), |number: u32| assert!(number != 7, "the seventh"));
    }
}
