//! An iteration as a line of the list in `results.json`, written straight from its numbers.
//!
//! A run has millions of them. The text is that of [`super::model::IterationRow`], which a test holds it to. A time is
//! a whole number of nanoseconds, so its decimal digits are at hand, and no floating-point number has to be printed.

use uuid::Uuid;

use base::clock::Nanos;
use measure::rows::IterationHead;
use measure::sample::CompletionStatus;

/// From here on, a number of nanoseconds has more digits than a floating-point number in JSON is sure to keep.
const EXACT_NS: Nanos = 1_000_000_000_000_000;
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number = 0;
    while number < 100 {
        pairs[number] = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
        number += 1;
    }
    pairs
};

/// What the list says of an iteration beside its sample.
pub(super) struct Listing<'a> {
    pub(super) trace_id: Uuid,
    /// Whether it was left unprofiled for comparison.
    pub(super) unprofiled: bool,
    /// The class of its fault.
    pub(super) error: Option<&'a str>,
}

/// Appends an iteration as an object of JSON.
pub(super) fn push(head: &IterationHead, listing: &Listing<'_>, output: &mut Vec<u8>) {
    output.extend_from_slice(b"{\"trace_id\":\"");
    let mut id = [0; uuid::fmt::Hyphenated::LENGTH];
    listing.trace_id.hyphenated().encode_lower(&mut id);
    output.extend_from_slice(&id);
    output.extend_from_slice(b"\",\"workload\":");
    push_whole(head.workload.into(), output);
    output.extend_from_slice(b",\"number\":");
    push_whole(head.number, output);
    if head.warm_up {
        output.extend_from_slice(b",\"warm_up\":true");
    }
    if listing.unprofiled {
        output.extend_from_slice(b",\"profiled\":false");
    }
    output.extend_from_slice(b",\"due_s\":");
    push_seconds(head.due_ns, output);
    if head.has_started() {
        output.extend_from_slice(b",\"start_s\":");
        push_seconds(head.start_ns, output);
        output.extend_from_slice(b",\"duration_ms\":");
        push_milliseconds(head.duration_ns, output);
    }
    output.extend_from_slice(match head.ended {
        CompletionStatus::Ok => b",\"outcome\":\"ok\"",
        CompletionStatus::Failed => b",\"outcome\":\"failed\"",
        CompletionStatus::Aborted => b",\"outcome\":\"aborted\"",
        CompletionStatus::Dropped => b",\"outcome\":\"dropped\"",
    });
    if head.resent && head.ended.is_measured() {
        output.extend_from_slice(b",\"resent\":true");
    }
    if let Some(class) = listing.error {
        output.extend_from_slice(b",\"error\":");
        push_json(class, output);
    }
    output.push(b'}');
}

fn push_whole(number: u64, output: &mut Vec<u8>) {
    output.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Writing text or a number to a vector cannot fail.
fn push_json<T: serde::Serialize + ?Sized>(value: &T, output: &mut Vec<u8>) {
    let _ = serde_json::to_writer(output, value);
}

fn push_seconds(ns: Nanos, output: &mut Vec<u8>) {
    if ns >= EXACT_NS {
        return push_json(&(ns as f64 / 1e9), output);
    }
    push_whole(ns / 1_000_000_000, output);
    let rest = (ns % 1_000_000_000) as usize;
    let [a, b] = PAIRS[rest / 10_000_000];
    let [c, d] = PAIRS[rest / 100_000 % 100];
    let [e, f] = PAIRS[rest / 1_000 % 100];
    let [g, h] = PAIRS[rest / 10 % 100];
    push_fraction(&[b'.', a, b, c, d, e, f, g, h, b'0' + (rest % 10) as u8], output);
}

fn push_milliseconds(ns: Nanos, output: &mut Vec<u8>) {
    if ns >= EXACT_NS {
        return push_json(&(ns as f64 / 1e6), output);
    }
    push_whole(ns / 1_000_000, output);
    let rest = (ns % 1_000_000) as usize;
    let ([a, b], [c, d], [e, f]) = (PAIRS[rest / 10_000], PAIRS[rest / 100 % 100], PAIRS[rest % 100]);
    push_fraction(&[b'.', a, b, c, d, e, f], output);
}

/// Without the zeros at its end, but for the first digit.
fn push_fraction(digits: &[u8], output: &mut Vec<u8>) {
    let length = digits.iter().rposition(|digit| *digit != b'0').unwrap_or(0).max(1) + 1;
    output.extend_from_slice(&digits[..length]);
}

#[cfg(test)]
mod tests {
    use super::super::build::{iteration_row_of, outcome};
    use super::super::model::IterationRow;
    use super::*;
    use proptest::prelude::*;

    fn same(text: &[u8], row: &IterationRow) -> bool {
        // Both are read: of very long numbers, the reader may miss the last digit.
        let read = |text: &[u8]| {
            serde_json::to_string(&serde_json::from_slice::<IterationRow>(text).unwrap()).unwrap()
        };
        read(text) == read(&serde_json::to_vec(row).unwrap())
    }

    #[test]
    fn the_text_is_that_of_the_model() {
        for (due_ns, start_ns, duration_ns, ended, error) in [
            (0, 0, 0, CompletionStatus::Ok, None),
            (1, 10, 1_000, CompletionStatus::Failed, Some("a \"quoted\"\nclass")),
            (1_500_000_000, 1_500_000_000, 12_345_678, CompletionStatus::Aborted, None),
            (0, 5, 0, CompletionStatus::Aborted, None),
            (999_999_999, 1_000_000_001, 100_000_000, CompletionStatus::Dropped, Some("dropped")),
        ] {
            let head =
                IterationHead { due_ns, start_ns, duration_ns, ended, number: 7, ..Default::default() };
            let (trace_id, unprofiled) = (Uuid::from_u128(7 << 70), ended == CompletionStatus::Failed);
            let mut text = Vec::new();
            push(&head, &Listing { trace_id, unprofiled, error }, &mut text);
            let row = iteration_row_of(&head, trace_id, !unprofiled, error.map(str::to_owned));
            let keys = |text: &str| {
                let value: serde_json::Value = serde_json::from_str(text).unwrap();
                value.as_object().unwrap().keys().cloned().collect::<Vec<_>>()
            };
            let model = serde_json::to_string(&row).unwrap();
            assert_eq!(keys(std::str::from_utf8(&text).unwrap()), keys(&model));
            assert!(same(&text, &row), "{} {model}", String::from_utf8_lossy(&text));
            assert_eq!(row.outcome, outcome(ended));
            let has_times =
                ended != CompletionStatus::Dropped && (ended, duration_ns) != (CompletionStatus::Aborted, 0);
            assert_eq!((row.start_s.is_some(), row.duration_ms.is_some()), (has_times, has_times), "{model}");
        }
    }

    proptest! {
        #[test]
        fn every_time_is_the_number_that_the_model_has(ns: u64, bits in 0..64_u32) {
            let head = IterationHead { due_ns: ns >> bits, start_ns: ns >> bits >> 1, duration_ns: ns >> bits, ..Default::default() };
            let mut text = Vec::new();
            push(&head, &Listing { trace_id: Uuid::nil(), unprofiled: false, error: None }, &mut text);
            prop_assert!(same(&text, &iteration_row_of(&head, Uuid::nil(), true, None)), "{}", String::from_utf8_lossy(&text));
        }
    }
}
