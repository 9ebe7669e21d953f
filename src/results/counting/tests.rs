//! Samples are counted in their slices, over their limits, and from their first start to their last end.

use proptest::prelude::*;

use super::*;
use measure::phases::Phases;
use measure::sample::{ActionSample, IterationSample};
use terms::threshold::parse;

const MS: Nanos = 1_000_000;

fn threshold(text: &str, window_ns: Option<Nanos>) -> Threshold {
    let condition = parse(text).unwrap();
    Threshold { condition, window_ns, min_samples: None, abort_after_ns: None, warn: false }
}

fn counted(thresholds: &[Threshold]) -> WorkloadCounts {
    let sla = Sla { thresholds: thresholds.to_vec(), ..Sla::default() };
    WorkloadCounts::new(&sla, ActionNames::untagged(&["first", "second"]), |_| true)
}

fn add(counts: &mut WorkloadCounts, samples: &[IterationSample]) {
    let mut rows = Rows::default();
    samples.iter().for_each(|sample| rows.push(sample));
    rows.iter().for_each(|row| counts.add(row, false));
}

/// An iteration that was due, started after a queue time, and ended after that: all in milliseconds.
fn iteration(due_ms: u64, lag_ms: u64, duration_ms: u64, ended: CompletionStatus) -> IterationSample {
    IterationSample {
        number: due_ms,
        due_ns: due_ms * MS,
        start_ns: (due_ms + lag_ms) * MS,
        duration_ns: duration_ms * MS,
        ended,
        ..IterationSample::default()
    }
}

#[test]
fn a_run_lasts_from_its_first_start_to_its_last_end() {
    let throughput = threshold("throughput > 1/s", None);
    for (samples, start_ms, lasted_ms) in [
        (vec![], u64::MAX / MS, 0),
        (vec![iteration(10, 5, 20, CompletionStatus::Ok)], 15, 20),
        (
            vec![iteration(10, 5, 20, CompletionStatus::Ok), iteration(12, 0, 90, CompletionStatus::Failed)],
            12,
            90,
        ),
        // What never started was due.
        (
            vec![iteration(10, 5, 20, CompletionStatus::Ok), iteration(40, 3, 0, CompletionStatus::Dropped)],
            15,
            25,
        ),
        (
            vec![iteration(7, 3, 0, CompletionStatus::Dropped), iteration(10, 5, 20, CompletionStatus::Ok)],
            7,
            28,
        ),
    ] {
        let mut counts = counted(std::slice::from_ref(&throughput));
        add(&mut counts, &samples);
        let (series, limit) = counts.of(&throughput).unwrap();
        assert_eq!((series.start_ns() / MS, series.lasted_ns() / MS), (start_ms, lasted_ms), "{samples:?}");
        assert_eq!(limit, None);
    }
}

/// The requests of an iteration that did not start were due with it, if their time counts from then.
#[test]
fn requests_of_iterations_that_did_not_start_are_cut_off_with_them() {
    let request = ActionSample { ended: CompletionStatus::Aborted, ..ActionSample::default() };
    for (duration_ms, actions, ended, response, service) in [
        (0, 0, CompletionStatus::Aborted, (1, 0), (0, 0)),
        (0, 0, CompletionStatus::Dropped, (0, 1), (0, 0)),
        // It had started, and was before its first request, or in it.
        (3, 0, CompletionStatus::Aborted, (0, 0), (0, 0)),
        (0, 1, CompletionStatus::Aborted, (1, 0), (1, 0)),
        (3, 1, CompletionStatus::Aborted, (1, 0), (1, 0)),
    ] {
        let both = [
            threshold("p95(response action \"first\") < 1s", None),
            threshold("p95(service action \"first\") < 1s", None),
        ];
        let mut counts = counted(&both);
        let of = iteration(10, 0, duration_ms, ended);
        add(&mut counts, &[IterationSample { actions: vec![request; actions], ..of }]);
        let seen = both.each_ref().map(|one| {
            let slices = counts.of(one).unwrap().0.slices();
            (slices.iter().map(|slice| slice.aborted).sum(), slices.iter().map(|slice| slice.dropped).sum())
        });
        assert_eq!(seen, [response, service], "{duration_ms} ms, {actions} requests, {ended:?}");
    }
}

#[test]
fn slices_get_longer_and_keep_every_sample() {
    let errors = threshold("rate(errors) < 1%", None);
    for every_us in [50, 100, 7_000] {
        let mut counts = counted(std::slice::from_ref(&errors));
        let at = |number: u64| IterationSample {
            start_ns: 300 * MS + number * every_us * 1_000,
            due_ns: 300 * MS + number * every_us * 1_000,
            number,
            ended: if number.is_multiple_of(4) { CompletionStatus::Failed } else { CompletionStatus::Ok },
            ..IterationSample::default()
        };
        let samples: Vec<IterationSample> = (0..1_500).map(at).collect();
        add(&mut counts, &samples);
        let series = counts.of(&errors).unwrap().0;
        let (first, last) = (300 * MS / series.slice_ns(), samples[1_499].start_ns / series.slice_ns());
        assert_eq!(series.slices().len() as u64, last - first + 1, "{every_us}");
        assert_eq!(series.begins_ns(0), first * series.slice_ns());
        assert!((400..=800).contains(&series.slices().len()), "{every_us}: {}", series.slices().len());
        let sum = |of: fn(&Slice) -> u64| series.slices().iter().map(of).sum::<u64>();
        assert_eq!((sum(|slice| slice.ok), sum(|slice| slice.failed)), (1_125, 375), "{every_us}");
    }
}

#[test]
fn too_many_windows_are_told_and_take_no_memory() {
    let short = threshold("p50 < 1s", Some(MS));
    for (until_s, is_too_long) in [(1, false), (400, true)] {
        let mut counts = counted(std::slice::from_ref(&short));
        add(
            &mut counts,
            &[
                iteration(0, 0, 1, CompletionStatus::Ok),
                iteration(until_s * 1_000, 0, 1, CompletionStatus::Ok),
            ],
        );
        let series = counts.of(&short).unwrap().0;
        assert_eq!(series.is_too_long(), is_too_long, "{until_s} s");
        // A slice is 50 µs long.
        let slices = if is_too_long { 1 } else { 20_001 };
        assert_eq!(series.slices().len(), slices, "{until_s} s");
    }
}

#[test]
fn what_has_changed_since_it_was_sealed_is_known() {
    let window = threshold("p50 < 1s", Some(200 * MS));
    let mut counts = counted(std::slice::from_ref(&window));
    let known = |counts: &WorkloadCounts| {
        let series = counts.of(&window).unwrap().0;
        (series.fresh(), series.changed(), counts.seal_cost(true), counts.seal_cost(false))
    };
    for (ends_ms, expected) in [
        // Slices of 10 ms, from the first that changed to the last that is there.
        (&[5, 95][..], (0, 10)),
        (&[95, 132][..], (9, 14)),
        (&[], (14, 14)),
        (&[33, 133][..], (3, 14)),
    ] {
        let samples: Vec<IterationSample> =
            ends_ms.iter().map(|&ms| iteration(ms, 0, 0, CompletionStatus::Ok)).collect();
        add(&mut counts, &samples);
        let (_, changed, cost, others) = known(&counts);
        assert_eq!((changed, others), (expected.0, 0), "{ends_ms:?}");
        assert_eq!(cost, (expected.1 - expected.0) as u64 * (1 + SLICE_COST), "{ends_ms:?}");
        counts.seal();
        let (fresh, changed, cost, _) = known(&counts);
        assert_eq!((fresh, changed, cost), (expected.0, expected.1, 0), "{ends_ms:?}");
    }
}

fn any_sample() -> impl Strategy<Value = (u64, u64, CompletionStatus)> {
    let ended = prop_oneof![
        6 => Just(CompletionStatus::Ok),
        2 => Just(CompletionStatus::Failed),
        1 => Just(CompletionStatus::Dropped),
        1 => Just(CompletionStatus::Aborted),
    ];
    (0_u64..400, 0_u64..12, ended)
}

proptest! {
    /// In whatever order they come, and however often sums are computed.
    #[test]
    fn each_slice_knows_how_many_are_over_each_limit(
        batches in prop::collection::vec(prop::collection::vec(any_sample(), 0..40), 1..5),
    ) {
        let window_ns = Some(200 * MS);
        let limits = [3, 6, 9].map(|ms| threshold(&format!("p50 <= {ms}ms"), window_ns));
        let service = [4, 8].map(|ms| threshold(&format!("p50(service) <= {ms}ms"), window_ns));
        let all: Vec<Threshold> = limits.iter().chain(&service).cloned().collect();
        let mut counts = counted(&all);
        for batch in &batches {
            let samples: Vec<IterationSample> =
                batch.iter().map(|&(at, lasts, ended)| {
                    iteration(at, 0, if ended == CompletionStatus::Dropped { 0 } else { lasts }, ended)
                }).collect();
            add(&mut counts, &samples);
            counts.seal();
        }
        for (text, one) in all.iter().map(|one| (one.to_string(), one)) {
            let (series, limit) = counts.of(one).unwrap();
            let limit = limit.unwrap();
            let counts_dropped = series.counts_dropped();
            prop_assert_eq!(counts_dropped, !text.contains("service"));
            for slice in 0..series.slices().len() {
                let begins_ns = series.begins_ns(slice);
                let of = batches.iter().flatten().filter(|(at, lasts, ended)| {
                    let lasts = if *ended == CompletionStatus::Dropped { 0 } else { *lasts };
                    ((at + lasts) * MS) / series.slice_ns() * series.slice_ns() == begins_ns
                });
                let (mut k, mut n) = (0, 0);
                for (_, lasts, ended) in of {
                    let (held, over) = match ended {
                        CompletionStatus::Ok => (true, lasts * MS > series.limit_ns(limit)),
                        CompletionStatus::Failed => (true, true),
                        CompletionStatus::Dropped => (counts_dropped, counts_dropped),
                        CompletionStatus::Aborted => (false, false),
                    };
                    n += u64::from(held);
                    k += u64::from(over);
                }
                let seen = series.over(slice, limit);
                prop_assert_eq!((seen.k, seen.n), (k, n), "{} at {}", text, begins_ns);
            }
        }
    }
}

/// A phase counts for the requests that had it, of all actions or of one.
#[test]
fn phases_are_counted_for_requests_that_had_them() {
    let request = |action, opened, phase_ms: u64, ended| ActionSample {
        action,
        duration_ns: 50 * MS,
        ended,
        phases: Phases {
            opened,
            connect_ns: if opened { phase_ms * MS } else { 0 },
            wait_ns: 2 * phase_ms * MS,
            ..Phases::default()
        },
        ..ActionSample::default()
    };
    let actions = vec![
        request(0, true, 5, CompletionStatus::Ok),
        request(0, false, 6, CompletionStatus::Ok),
        request(1, true, 7, CompletionStatus::Ok),
        request(1, false, 1, CompletionStatus::Failed),
    ];
    let sample = IterationSample { actions, ..iteration(10, 5, 200, CompletionStatus::Ok) };
    let dropped = iteration(40, 3, 0, CompletionStatus::Dropped);
    for (text, (over, all), longest_ms) in [
        ("p95(wait) < 11ms", (3, 4), 14),
        ("p95(connect) < 6ms", (1, 2), 7),
        ("p95(connect action \"first\") < 6ms", (0, 1), 5),
        ("p95(wait action \"second\") < 100ms", (1, 2), 14),
        ("p95(tls) < 1ms", (0, 0), 0),
    ] {
        let threshold = threshold(text, None);
        let mut counts = counted(std::slice::from_ref(&threshold));
        add(&mut counts, &[sample.clone(), dropped.clone()]);
        counts.seal();
        let (series, limit) = counts.of(&threshold).unwrap();
        let parts = series.batched().parts(limit.unwrap());
        let sums = parts.iter().fold((0, 0), |(k, n), part| (k + part.k, n + part.n));
        assert_eq!(sums, (over, all), "{text}");
        let longest = series.slices().iter().filter_map(|slice| slice.ok_max_ns).max();
        assert_eq!(longest.unwrap_or_default() / MS, longest_ms, "{text}");
    }
}
