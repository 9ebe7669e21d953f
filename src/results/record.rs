//! Checks whether the record of a run is complete: compares the log with the totals from its end and from the workers.
//!
//! The only place for the invariant: issued = ok + failed + aborted + unrecorded and, if the plan has a number,
//! planned = issued + dropped + not started. After a crash, unknown numbers stay unknown; they are never 0.

use super::aggregate::{Aggregate, WorkloadStats};
use super::model::{Counts, Record, RecordState, Results, RunStatus, Tally};
use measure::log::{Flaws, IterationCounts};

/// The record of a run's log.
#[must_use]
pub fn of(aggregate: &Aggregate) -> Record {
    let end = aggregate.end.as_ref();
    let issued = |number: usize| end.and_then(|end| end.issued.get(number));
    let planned =
        |number: usize| aggregate.header().workloads.get(number).and_then(|workload| workload.planned);
    let tallies: Vec<Tally> = (0..)
        .zip(&aggregate.workloads)
        .map(|(number, stats)| tally(stats, issued(number), planned(number)))
        .collect();
    let told: Option<u64> = tallies.iter().map(|tally| tally.unrecorded).sum();
    let rows_expected = end.and_then(|end| end.rows);
    Record {
        state: state(aggregate.flaws, end.is_some(), aggregate.rows, rows_expected),
        rows: aggregate.rows,
        rows_expected,
        bytes_lost: aggregate.flaws.damaged_bytes + aggregate.flaws.cut_bytes,
        // Earlier builds only have it for the whole run.
        unrecorded: told.or_else(|| end?.generator.as_ref().map(|seen| seen.unrecorded)),
        unsaved: aggregate.unsaved.clone(),
        tallies,
    }
}

/// Whether the log is cut, damaged or complete.
#[must_use]
pub fn state(flaws: Flaws, ended: bool, rows: u64, expected: Option<u64>) -> RecordState {
    if flaws.damaged > 0 || expected.is_some_and(|expected| expected != rows) || ended && flaws.cut_bytes > 0
    {
        RecordState::Damaged
    } else if ended {
        RecordState::Complete
    } else {
        RecordState::Cut
    }
}

fn tally(stats: &WorkloadStats, issued: Option<&IterationCounts>, planned: Option<u64>) -> Tally {
    let sum = |of: fn(&Counts) -> u64| of(&stats.iterations) + of(&stats.warm_up);
    Tally {
        planned: issued.map_or(planned, |issued| issued.planned),
        issued: issued.map(|issued| issued.issued),
        ok: sum(|counts| counts.ok),
        failed: sum(|counts| counts.failed),
        aborted: sum(|counts| counts.aborted),
        unrecorded: issued.map(|issued| issued.unrecorded),
        dropped: issued.map(|issued| issued.dropped),
        not_started: issued.and_then(|issued| issued.not_started),
    }
}

/// Why an incomplete record makes a run invalid, a sentence for each reason; empty if the record is complete or only
/// ends early.
#[must_use]
pub fn faults(aggregate: &Aggregate) -> Vec<String> {
    let record = of(aggregate);
    let mut faults = damage(aggregate.flaws, record.rows, record.rows_expected);
    if record.rows_expected.is_none() && aggregate.flaws.damaged > 0 {
        faults.extend(gaps(aggregate));
    }
    for (stats, tally) in aggregate.workloads.iter().zip(&record.tallies) {
        let read = stats.iterations.dropped + stats.warm_up.dropped;
        if let Some(missing) = tally.dropped.and_then(|dropped| dropped.checked_sub(read)).filter(|n| *n > 0)
        {
            faults.push(format!("{missing} dropped arrivals are missing from the run log"));
        }
    }
    faults.extend(terms(&record));
    faults
}

/// The same from the record alone, for example of a `results.json` without its log.
#[must_use]
pub fn of_record(record: &Record) -> Vec<String> {
    let flaws = Flaws { damaged_bytes: record.bytes_lost, ..Flaws::default() };
    let mut faults = damage(flaws, record.rows, record.rows_expected);
    if faults.is_empty() && record.state == RecordState::Damaged {
        faults.push(format!("its run log is damaged: {} bytes of it cannot be read", record.bytes_lost));
    }
    faults.extend(terms(record));
    faults
}

fn terms(record: &Record) -> Vec<String> {
    let mut faults = Vec::new();
    if let Some(unrecorded) = record.unrecorded.filter(|unrecorded| *unrecorded > 0) {
        faults.push(format!(
            "{unrecorded} iterations could not be written to the run log, because the disk was full or too slow; how \
             long they took is unknown"
        ));
    }
    faults.extend(record.unsaved.clone());
    // If rows are missing, they are the reason why the terms do not add up.
    if record.state == RecordState::Complete {
        faults.extend(record.tallies.iter().filter_map(unequal));
    }
    faults
}

/// What cannot be read in a log, as sentences.
#[must_use]
pub fn damage(flaws: Flaws, rows: u64, expected: Option<u64>) -> Vec<String> {
    let mut faults = Vec::new();
    if flaws.damaged > 0 {
        let (bytes, at) = (flaws.damaged_bytes, flaws.damaged_at);
        let places = match flaws.damaged {
            1 => format!("at byte {at}"),
            places => format!("at {places} places, the first at byte {at}"),
        };
        faults.push(format!("the run log is damaged {places}: {bytes} bytes of it cannot be read"));
    }
    if flaws.damaged == 0 && expected.is_some() && flaws.cut_bytes > 0 {
        faults.push(format!("the run log has {} bytes after its end", flaws.cut_bytes));
    }
    match expected {
        Some(expected) if expected > rows => faults
            .push(format!("{} of the {expected} iterations of the run log are missing", expected - rows)),
        Some(expected) if expected < rows => {
            faults.push(format!("the run log must have {expected} iterations but has {rows}"));
        }
        _ => {}
    }
    faults
}

/// What the numbers of iterations show about a log without an end.
fn gaps(aggregate: &Aggregate) -> Option<String> {
    let read = |stats: &WorkloadStats| stats.iterations.total + stats.warm_up.total;
    let missing: u64 =
        aggregate.workloads.iter().map(|stats| stats.numbers.saturating_sub(read(stats))).sum();
    (missing > 0).then(|| {
        format!("according to their numbers, {missing} iterations are missing; some of them may have been running at the end")
    })
}

/// Which terms of a tally do not add up, if any.
fn unequal(tally: &Tally) -> Option<String> {
    let ended = [tally.ok, tally.failed, tally.aborted].into_iter().fold(0, u64::saturating_add);
    if let (Some(issued), Some(unrecorded)) = (tally.issued, tally.unrecorded)
        && issued != ended.saturating_add(unrecorded)
    {
        return Some(format!(
            "{issued} iterations were issued, and {} ok + {} failed + {} cut off + {unrecorded} unrecorded are {}: \
             bench lost count; please report it",
            tally.ok,
            tally.failed,
            tally.aborted,
            ended.saturating_add(unrecorded)
        ));
    }
    if let (Some(planned), Some(issued), Some(dropped), Some(not_started)) =
        (tally.planned, tally.issued, tally.dropped, tally.not_started)
    {
        let sum = issued.saturating_add(dropped).saturating_add(not_started);
        if planned != sum {
            return Some(format!(
                "{planned} iterations were planned, and {issued} issued + {dropped} dropped + {not_started} not \
                 started are {sum}: bench lost count; please report it"
            ));
        }
    }
    None
}

/// What an older results file has that a newer one of the same run does not; `None` if it may be replaced.
#[must_use]
pub fn knows_more(old: &Results, new: &Results) -> Option<String> {
    let rows = |results: &Results| {
        let counted = |counts: Counts| counts.total;
        let counts = results.workloads.iter().map(|one| counted(one.iterations) + counted(one.warm_up));
        counts.fold(0, u64::saturating_add)
    };
    let (had, has) = (rows(old), rows(new));
    let ended = |results: &Results| results.run.status != RunStatus::Recovered;
    if old.run.id != new.run.id {
        None
    } else if had > has {
        Some(format!("it has {had} iterations, but the log only gives {has}"))
    } else if ended(old) && !ended(new) {
        Some("it has the end of the run, and the log does not".to_owned())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_sums_are_reported_and_unknown_terms_are_not() {
        let whole = Tally {
            planned: Some(20),
            issued: Some(12),
            ok: 7,
            failed: 2,
            aborted: 2,
            unrecorded: Some(1),
            dropped: Some(3),
            not_started: Some(5),
        };
        assert_eq!(unequal(&whole), None);
        type TallyChange = fn(&mut Tally);
        let rows: [(TallyChange, &str); 8] = [
            (|tally| tally.issued = Some(13), "13 iterations were issued"),
            (|tally| tally.ok = 6, "6 ok + 2 failed + 2 cut off + 1 unrecorded are 11"),
            (|tally| tally.failed = 3, "are 13"),
            (|tally| tally.aborted = 0, "are 10"),
            (|tally| tally.unrecorded = Some(0), "are 11"),
            (|tally| tally.planned = Some(21), "21 iterations were planned"),
            (|tally| tally.dropped = Some(0), "12 issued + 0 dropped + 5 not started are 17"),
            (|tally| tally.not_started = Some(0), "are 15"),
        ];
        for (change, expected) in rows {
            let mut tally = whole.clone();
            change(&mut tally);
            let found = unequal(&tally).unwrap();
            assert!(found.contains(expected), "{found}");
            let record = |state| Record { state, tallies: vec![tally.clone()], ..Record::default() };
            assert_eq!(of_record(&record(RecordState::Complete)), [found]);
            assert_eq!(of_record(&record(RecordState::Damaged)).len(), 1, "the damage says why");
        }
        let unknown: [fn(&mut Tally); 4] = [
            |tally| (tally.issued, tally.planned) = (None, None),
            |tally| (tally.unrecorded, tally.ok) = (None, 0),
            |tally| (tally.dropped, tally.planned) = (None, Some(9)),
            |tally| (tally.not_started, tally.planned) = (None, Some(9)),
        ];
        for change in unknown {
            let mut tally = whole.clone();
            change(&mut tally);
            assert_eq!(unequal(&tally), None, "{tally:?}");
        }
    }

    #[test]
    fn cut_damaged_and_complete_logs_are_distinguished() {
        let sound = Flaws::default();
        let cut = Flaws { cut_bytes: 5, ..sound };
        let damaged = Flaws { damaged: 2, damaged_bytes: 70, damaged_at: 44, cut_bytes: 0 };
        let (whole, missing) = (Some(10), Some(12));
        for (flaws, ended, expected, state_expected, sentences) in [
            (sound, true, whole, RecordState::Complete, &[][..]),
            (sound, true, None, RecordState::Complete, &[]),
            (sound, false, None, RecordState::Cut, &[]),
            (cut, false, None, RecordState::Cut, &[]),
            (cut, true, whole, RecordState::Damaged, &["5 bytes after its end"]),
            (damaged, true, whole, RecordState::Damaged, &["2 places, the first at byte 44: 70 bytes"]),
            (damaged, false, None, RecordState::Damaged, &["damaged"]),
            (damaged, true, missing, RecordState::Damaged, &["damaged", "2 of the 12 iterations"]),
            (sound, true, missing, RecordState::Damaged, &["2 of the 12 iterations"]),
            (sound, true, Some(9), RecordState::Damaged, &["must have 9 iterations but has 10"]),
        ] {
            assert_eq!(state(flaws, ended, 10, expected), state_expected, "{flaws:?} {ended} {expected:?}");
            let found = damage(flaws, 10, expected);
            assert_eq!(found.len(), sentences.len(), "{found:?}");
            assert!(found.iter().zip(sentences).all(|(found, part)| found.contains(part)), "{found:?}");
        }
    }
}
