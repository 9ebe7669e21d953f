//! What must hold after every run, whatever happened to it.

use std::collections::{BTreeMap, BTreeSet};

use bench::harness::{Conclusion, FinishedRun};
use bench::measure::log::Status;
use bench::measure::sample::CompletionStatus;
use bench::results::model::{Distribution, Outcome, Results};

use crate::receiver::{SLOWEST, SimulatedReceipt};
use crate::scene::{Scene, SceneEvent, SceneRunner, SceneWorkload};
use crate::service::Truth;
use crate::world::{Iteration, LoadProcess, RunLogContent, World, by_workload};

type InvariantResult = Result<(), String>;

macro_rules! must {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(format!($($why)+));
        }
    };
}

/// A log is at most this far behind what has ended.
const BEHIND_NS: u64 = 1_000_000_000;
/// What a receiver's tables take, and its segments while they are cleaned.
const FOR_TABLES_BYTES: usize = 1 << 20;

/// Checks all of a world.
pub(crate) fn check(scene: &Scene, world: &World) -> InvariantResult {
    for process in &world.processes {
        let of = |why: String| format!("process {}: {why}", process.shard);
        match &process.finished {
            Ok(finished) => concludes(scene, process, finished).map_err(of)?,
            Err(error) => {
                must!(process.is_refused, "process {}: nothing was reported: {error}", process.shard)
            }
        }
        each_once(scene, process).map_err(of)?;
        counts_agree(process).map_err(of)?;
        agrees_with_the_service(scene, world, process).map_err(of)?;
        if process.is_killed {
            little_is_lost(scene, world, process).map_err(of)?;
        }
        spans_are_accounted_for(&process.received).map_err(of)?;
        kept_traces_are_whole(scene, process).map_err(of)?;
    }
    sent_once(scene, world)?;
    if let Some((merged, read)) = &world.merged {
        merges(scene, world, merged.as_ref().map_err(ToString::to_string), read)?;
    }
    Ok(())
}

/// No number is there twice, and each belongs to the process that has it; without faults none is missing.
fn each_once(scene: &Scene, process: &LoadProcess) -> InvariantResult {
    for (workload, iterations) in by_workload(&process.read.iterations) {
        let numbers: BTreeSet<u64> = iterations.iter().map(|one| one.number).collect();
        must!(numbers.len() == iterations.len(), "workload {workload}: a number is there twice");
        let shards = u64::from(scene.shards);
        let foreign = numbers.iter().find(|number| **number % shards != u64::from(process.shard));
        must!(foreign.is_none(), "workload {workload}: {foreign:?} belongs to another process");
        // Where nothing bounds their number, workers count by themselves.
        let bounded = !matches!(
            scene.workloads[usize::from(workload)].runner,
            SceneRunner::Duration { .. } | SceneRunner::Users { .. }
        );
        if is_whole(process) && bounded {
            let expected = (0..numbers.len() as u64).map(|own| own * shards + u64::from(process.shard));
            must!(
                numbers.iter().copied().eq(expected),
                "workload {workload}: numbers are missing: {numbers:?}"
            );
        }
    }
    Ok(())
}

/// The process ended by itself and its disk took everything.
fn is_whole(process: &LoadProcess) -> bool {
    !process.is_killed && !process.is_refused
}

/// What the workers counted is what the log holds, or says to have lost.
fn counts_agree(process: &LoadProcess) -> InvariantResult {
    let Some(end) = &process.read.ending.end else {
        must!(!is_whole(process), "the log of a whole run has no end");
        return Ok(());
    };
    must!(!process.is_killed, "a killed run has an end");
    let read = by_workload(&process.read.iterations);
    for (workload, issued) in (0..).zip(&end.issued) {
        let iterations = read.get(&workload).map(Vec::as_slice).unwrap_or_default();
        let dropped = iterations.iter().filter(|one| one.is(CompletionStatus::Dropped)).count() as u64;
        let started = iterations.len() as u64 - dropped;
        must!(
            started + issued.unrecorded == issued.issued,
            "workload {workload}: {started} recorded and {issued:?}"
        );
        must!(
            dropped == issued.dropped || process.is_refused && dropped < issued.dropped,
            "workload {workload}: {dropped} dropped ones recorded and {issued:?}"
        );
        must!(
            issued.unrecorded == 0 || process.is_refused,
            "workload {workload}: unrecorded without a fault of the disk: {issued:?}"
        );
        if let (Some(planned), Some(not_started)) = (issued.planned, issued.not_started) {
            must!(
                planned == issued.issued + issued.dropped + not_started,
                "workload {workload}: the plan is not accounted for: {issued:?}"
            );
        }
    }
    Ok(())
}

/// Iterations ended as the service knows, and at the nanosecond at which it answered.
fn agrees_with_the_service(scene: &Scene, world: &World, process: &LoadProcess) -> InvariantResult {
    let seen = world.seen.lock().unwrap();
    for one in &process.read.iterations {
        must!(one.start_ns >= one.due_ns, "it started before it was due: {one:?}");
        let workload = &scene.workloads[usize::from(one.workload)];
        let truths: Vec<&[Truth]> = (0..workload.actions)
            .map(|action| seen.get(&(one.workload, one.number, action)).map_or(&[][..], Vec::as_slice))
            .collect();
        if one.is(CompletionStatus::Ok) {
            let answered = truths.iter().map(|truths| truths.last().and_then(|truth| truth.answered_ns));
            let Some(answered) = answered.collect::<Option<Vec<_>>>() else {
                return Err(format!("ended well without its answers: {one:?} {truths:?}"));
            };
            let last_ns = answered.into_iter().max().unwrap();
            must!(last_ns == one.end_ns(), "the last answer came at {last_ns}: {one:?}");
        }
        if one.is(CompletionStatus::Failed) {
            must!(!was_well(scene, workload, &truths), "failed although all went well: {one:?} {truths:?}");
        }
        if one.is(CompletionStatus::Dropped) {
            must!(truths.iter().all(|truths| truths.is_empty()), "dropped and sent: {one:?}");
        }
        let aborts = scene.workloads.iter().any(|one| one.aborts);
        let may_be_cut =
            aborts || scene.happenings.iter().any(|(of, _, _)| *of == process.shard) || process.is_refused;
        let is_timed = !matches!(workload.runner, SceneRunner::Times { .. } | SceneRunner::Rate { .. });
        must!(!one.is(CompletionStatus::Aborted) || may_be_cut || is_timed, "cut off by nobody: {one:?}");
    }
    if is_whole(process) {
        let there: BTreeSet<(u16, u64)> =
            process.read.iterations.iter().map(|one| (one.workload, one.number)).collect();
        let shards = u64::from(scene.shards);
        let own = seen.keys().filter(|(_, number, _)| number % shards == u64::from(process.shard));
        for (workload, number, _) in own {
            must!(
                there.contains(&(*workload, *number)),
                "iteration {number} of {workload} was sent and is lost"
            );
        }
    }
    Ok(())
}

/// True if each of an iteration's requests had a good answer well within its time.
fn was_well(scene: &Scene, workload: &SceneWorkload, truths: &[&[Truth]]) -> bool {
    let most_ms = workload.request_timeout_ms.saturating_sub(scene.service.connect_ms + 5);
    truths.iter().all(|truths| {
        truths.iter().any(|truth| {
            truth.answered_ns.is_some_and(|answered_ns| answered_ns - truth.arrived_ns < most_ms * 1_000_000)
        })
    })
}

/// The service got no request twice.
fn sent_once(scene: &Scene, world: &World) -> InvariantResult {
    let seen = world.seen.lock().unwrap();
    let twice = seen.iter().find(|(_, truths)| truths.len() > 1);
    must!(twice.is_none(), "sent twice: {twice:?}");
    let odd =
        seen.keys().find(|(workload, _, action)| *action >= scene.workloads[usize::from(*workload)].actions);
    must!(odd.is_none(), "nobody planned {odd:?}");
    Ok(())
}

/// The results say what the log says, the percentiles are in order, and no verdict is better than its data.
fn concludes(scene: &Scene, process: &LoadProcess, finished: &FinishedRun) -> InvariantResult {
    figures(&finished.results, &process.read)?;
    let is_stopped = process.read.ending.end.as_ref().is_none_or(|end| end.status != Status::Finished)
        || process.is_refused;
    let has_flaws = process.read.ending.flaws != Default::default();
    let is_good = matches!(finished.conclusion, Conclusion::Good) && finished.fault.is_none();
    must!(!(is_good && (is_stopped || has_flaws)), "good, although it did not end well");
    let is_aborted = process.read.ending.end.as_ref().is_some_and(|end| end.status == Status::Aborted);
    must!(
        !is_aborted || finished.results.verdict.outcome == Outcome::Fail,
        "ended early by a threshold that did not fail: {:?}",
        finished.results.verdict
    );
    must!(
        !has_flaws || finished.results.verdict.outcome != Outcome::Pass || process.is_killed,
        "a damaged log passes"
    );
    // A part of a load is judged by no criterion; the merged run is.
    if scene.shards == 1 { judged(scene, &finished.results, &process.read, is_good) } else { Ok(()) }
}

/// A verdict of PASS has data, and the data holds the criteria.
fn judged(scene: &Scene, results: &Results, read: &RunLogContent, is_good: bool) -> InvariantResult {
    let passes = results.verdict.outcome == Outcome::Pass;
    let all = by_workload(&read.iterations);
    for (index, workload) in (0..).zip(&scene.workloads) {
        let due: Vec<&Iteration> =
            all.get(&index).into_iter().flatten().copied().filter(|one| !one.warm_up).collect();
        let failed = due.iter().filter(|one| one.is(CompletionStatus::Failed)).count();
        let ended = failed + due.iter().filter(|one| one.is(CompletionStatus::Ok)).count();
        must!(!((passes || is_good) && ended == 0), "workload {index} passes without data");
        let share = failed as f64 * 100.0 / ended.max(1) as f64;
        must!(
            !(passes && share > f64::from(workload.failed_max)),
            "workload {index} passes with {share} % failed ones of at most {}",
            workload.failed_max
        );
        let limit_ns = workload.p95_ms_max.map(|ms| ms * 1_000_000);
        let at = percentile(&due, 95);
        must!(
            !passes || limit_ns.is_none_or(|limit_ns| at.is_some_and(|at| at < limit_ns)),
            "workload {index} passes with a p95 of {at:?} of {limit_ns:?}"
        );
    }
    Ok(())
}

/// A percentile of the response times, in nanoseconds. Iterations that did not end well count as slower than all others;
/// `None` if the percentile is one of them.
fn percentile(due: &[&Iteration], percent: usize) -> Option<u64> {
    let mut all: Vec<u64> = due
        .iter()
        .map(|one| if one.is(CompletionStatus::Ok) { one.response_ns() } else { u64::MAX })
        .collect();
    all.sort_unstable();
    let rank = (all.len() * percent).div_ceil(100).max(1);
    all.get(rank - 1).copied().filter(|ns| *ns < u64::MAX)
}

fn figures(results: &Results, read: &RunLogContent) -> InvariantResult {
    let all = by_workload(&read.iterations);
    for (index, workload) in (0..).zip(&results.workloads) {
        let iterations = all.get(&index).map(Vec::as_slice).unwrap_or_default();
        for (counts, warm_up) in [(&workload.iterations, false), (&workload.warm_up, true)] {
            let count = |ended: CompletionStatus| {
                iterations.iter().filter(|one| one.warm_up == warm_up && one.is(ended)).count() as u64
            };
            let found = (counts.ok, counts.failed, counts.aborted, counts.dropped);
            let expected = (
                count(CompletionStatus::Ok),
                count(CompletionStatus::Failed),
                count(CompletionStatus::Aborted),
                count(CompletionStatus::Dropped),
            );
            must!(
                found == expected,
                "workload {index}: the results count {found:?}, the log has {expected:?}"
            );
            let sum = counts.ok + counts.failed + counts.aborted + counts.dropped;
            must!(counts.total == sum, "workload {index}: {} in all, and {sum}", counts.total);
        }
        let measured: Vec<&Iteration> = iterations
            .iter()
            .copied()
            .filter(|one| !one.warm_up && (one.is(CompletionStatus::Ok) || one.is(CompletionStatus::Failed)))
            .collect();
        distribution(&workload.service_time, measured.iter().map(|one| one.duration_ns))
            .map_err(|why| format!("workload {index}: service time: {why}"))?;
        distribution(&workload.response_time, measured.iter().map(|one| one.response_ns()))
            .map_err(|why| format!("workload {index}: response time: {why}"))?;
    }
    Ok(())
}

/// A distribution is that of these times, within the width of its buckets.
fn distribution(found: &Distribution, times_ns: impl Iterator<Item = u64>) -> InvariantResult {
    let mut times_ns: Vec<u64> = times_ns.collect();
    times_ns.sort_unstable();
    must!(found.count == times_ns.len() as u64, "{} of {} times", found.count, times_ns.len());
    let (Some(first), Some(last)) = (times_ns.first(), times_ns.last()) else { return Ok(()) };
    let is = |found_ms: f64, ns: u64| (found_ms * 1e6 - ns as f64).abs() <= 1.0 + ns as f64 * 1e-3;
    must!(is(found.min_ms, *first) && is(found.max_ms, *last), "{} to {} ms", found.min_ms, found.max_ms);
    let mut before = 0.0_f64;
    for one in &found.percentiles {
        must!(
            one.value_ms >= before && one.value_ms <= found.max_ms,
            "percentiles fall: {:?}",
            found.percentiles
        );
        before = one.value_ms;
        let rank = (one.percentile / 100.0 * times_ns.len() as f64 - 1e-9).ceil().max(1.0) as usize;
        let exact = times_ns[rank.min(times_ns.len()) - 1];
        must!(is(one.value_ms, exact), "p{} is {} ms, not {exact} ns", one.percentile, one.value_ms);
    }
    Ok(())
}

/// Of a killed process, what had ended a second before is there, unless its disk held it up or lost it.
fn little_is_lost(scene: &Scene, world: &World, process: &LoadProcess) -> InvariantResult {
    let disk = &scene.disk;
    if process.is_refused || disk.slow_ms > 0 || disk.torn.is_some() {
        return Ok(());
    }
    let kill =
        scene.happenings.iter().find(|(of, _, what)| *of == process.shard && *what == SceneEvent::Kill);
    let Some((_, at_ms, _)) = kill else { return Err("killed by nobody".to_owned()) };
    let there: BTreeSet<(u16, u64)> =
        process.read.iterations.iter().map(|one| (one.workload, one.number)).collect();
    let seen = world.seen.lock().unwrap();
    let mut answered: BTreeMap<(u16, u64), Vec<u64>> = BTreeMap::new();
    for ((workload, number, _), truths) in seen.iter() {
        let at = truths.iter().filter_map(|truth| truth.answered_ns);
        answered.entry((*workload, *number)).or_default().extend(at.max());
    }
    for ((workload, number), at) in answered {
        let is_own = number % u64::from(scene.shards) == u64::from(process.shard);
        let has_all = at.len() == scene.workloads[usize::from(workload)].actions as usize;
        let ended_ns = at.iter().copied().max().unwrap_or(u64::MAX);
        if is_own && has_all && ended_ns + BEHIND_NS < at_ms * 1_000_000 {
            must!(
                there.contains(&(workload, number)),
                "iteration {number} of {workload} ended at {ended_ns}, long before {at_ms} ms, and is lost"
            );
        }
    }
    Ok(())
}

/// Every span that came is kept or counted by what became of it, and no bound was exceeded.
fn spans_are_accounted_for(received: &SimulatedReceipt) -> InvariantResult {
    let SimulatedReceipt { counts, counted, expected, limits, .. } = received;
    must!(
        counted == expected,
        "{expected:?} spans of iterations, links and others came, and it counts {counted:?}"
    );
    must!(counts.spans == expected.0 + expected.1, "{} spans of {expected:?} arrived", counts.spans);
    let let_go = counts.let_go.not_chosen + counts.let_go.losses();
    must!(counts.spans == counts.kept_spans + let_go, "spans are not accounted for: {counts:?}");
    let stored: usize = received.stored.values().map(Vec::len).sum();
    must!(counts.kept_spans == stored as u64, "{stored} spans are stored: {counts:?}");
    must!(counts.disk_peak_bytes <= limits.disk_bytes, "too much on the disk: {counts:?}");
    must!(
        received.disk_peak <= counts.disk_peak_bytes,
        "{} bytes were on the disk: {counts:?}",
        received.disk_peak
    );
    let memory_max = limits.waiting_bytes + limits.queue_bytes + FOR_TABLES_BYTES;
    must!(counts.memory_peak_bytes <= memory_max as u64, "too much memory: {counts:?}");
    Ok(())
}

/// A kept trace is what came of it, without those spans that it says it lacks; and the slowest iterations are kept.
fn kept_traces_are_whole(scene: &Scene, process: &LoadProcess) -> InvariantResult {
    let SimulatedReceipt { sent, stored, kept, counts, .. } = &process.received;
    for (id, spans) in stored {
        let came = sent.get(id).map(Vec::as_slice).unwrap_or_default();
        let Some(says) = kept.get(id) else {
            return Err(format!("{id:?} is stored and not said to be kept"));
        };
        must!(is_within(spans, came), "of {id:?} {spans:?} are stored and {came:?} came");
        must!(
            spans.len() == says.spans as usize,
            "of {id:?} {} are stored, and it says {says:?}",
            spans.len()
        );
        must!(
            (spans == came) == (says.lost == 0),
            "of {id:?} {spans:?} of {came:?} are stored, and it says {says:?}"
        );
    }
    if scene.spans.is_tight {
        return Ok(());
    }
    must!(counts.let_go.losses() == counts.let_go.undecided, "spans were lost without need: {counts:?}");
    let measured =
        |one: &&Iteration| !one.warm_up && (one.is(CompletionStatus::Ok) || one.is(CompletionStatus::Failed));
    for (workload, iterations) in by_workload(&process.read.iterations) {
        let measured: Vec<&Iteration> = iterations.into_iter().filter(measured).collect();
        for one in &measured {
            let at_least_as_slow =
                measured.iter().filter(|other| other.response_ns() >= one.response_ns()).count();
            let id = (workload, one.number);
            must!(
                at_least_as_slow > SLOWEST || stored.get(&id) == sent.get(&id),
                "{id:?} is one of the slowest; of {:?} {:?} are stored",
                sent.get(&id),
                stored.get(&id)
            );
        }
    }
    Ok(())
}

/// Whether all of these are among those; both are in order.
fn is_within(some: &[u64], all: &[u64]) -> bool {
    let mut rest = all.iter();
    some.iter().all(|one| rest.any(|other| other == one))
}

/// The merged run is its parts together.
fn merges(
    scene: &Scene,
    world: &World,
    merged: Result<&FinishedRun, String>,
    read: &RunLogContent,
) -> InvariantResult {
    let finished = match merged {
        Ok(finished) => finished,
        Err(why) => {
            let none_began = world.processes.iter().any(|one| one.finished.is_err());
            must!(none_began, "no merged run: {why}");
            return Ok(());
        }
    };
    let key = |one: &Iteration| (one.workload, one.number, one.warm_up, one.duration_ns, one.ended);
    let mut parts: Vec<_> =
        world.processes.iter().flat_map(|one| one.read.iterations.iter().map(key)).collect();
    let mut whole: Vec<_> = read.iterations.iter().map(key).collect();
    parts.sort_unstable();
    whole.sort_unstable();
    must!(parts == whole, "the merged run has {} iterations, its parts have {}", whole.len(), parts.len());
    figures(&finished.results, read)?;
    let is_good = finished.conclusion == Conclusion::Good && finished.fault.is_none();
    let ended_well = |one: &LoadProcess| {
        is_whole(one) && one.read.ending.end.as_ref().is_some_and(|end| end.status == Status::Finished)
    };
    must!(!is_good || world.processes.iter().all(ended_well), "good, although a part did not end well");
    judged(scene, &finished.results, read, is_good)
}

/// A fault that bench could have, planted in what a run left; false if there is no place for it.
type FaultPlant = fn(&mut World) -> bool;

/// The faults that [`check`] must find.
pub(crate) const PLANTS: [(&str, FaultPlant); 9] = [
    ("an iteration is lost", |world| {
        let whole = world.processes.iter_mut().find(|one| is_whole(one) && !one.read.iterations.is_empty());
        whole.map(|one| one.read.iterations.remove(one.read.iterations.len() / 2)).is_some()
    }),
    ("an iteration is there twice", |world| {
        let any = world.processes.iter_mut().find(|one| !one.read.iterations.is_empty());
        any.map(|one| one.read.iterations.push(one.read.iterations[0].clone())).is_some()
    }),
    ("a duration is wrong", |world| {
        let iterations = world.processes.iter_mut().flat_map(|one| one.read.iterations.iter_mut());
        let mut good = iterations.filter(|one| one.is(CompletionStatus::Ok));
        good.next().map(|one| one.duration_ns += 1).is_some()
    }),
    ("a failed iteration counts as good", |world| {
        let iterations = world.processes.iter_mut().flat_map(|one| one.read.iterations.iter_mut());
        let mut failed = iterations.filter(|one| one.is(CompletionStatus::Failed));
        failed.next().map(|one| one.ended = CompletionStatus::Ok as u8).is_some()
    }),
    ("a killed run is good", |world| {
        let killed = world.processes.iter_mut().find(|one| one.is_killed);
        let finished = killed.and_then(|one| one.finished.as_mut().ok());
        finished.map(|finished| finished.conclusion = Conclusion::Good).is_some()
    }),
    ("percentiles fall", |world| {
        let finished = world.processes.iter_mut().filter_map(|one| one.finished.as_mut().ok());
        let mut times =
            finished.flat_map(|one| one.results.workloads.iter_mut()).map(|one| &mut one.response_time);
        let times = times.find(|times| times.count > 1 && times.min_ms < times.max_ms);
        times.map(|times| times.percentiles.reverse()).is_some()
    }),
    ("a span is lost", |world| {
        let mut traces = world.processes.iter_mut().flat_map(|one| one.received.stored.values_mut());
        traces.next().and_then(Vec::pop).is_some()
    }),
    ("a slow iteration has no trace", |world| {
        let received = world.processes.iter_mut().map(|one| &mut one.received);
        let mut whole =
            received.filter(|received| received.counts.let_go.losses() == 0 && !received.sent.is_empty());
        whole.next().map(|received| received.stored.clear()).is_some()
    }),
    ("a request is sent twice", |world| {
        let mut seen = world.seen.lock().unwrap();
        let truths = seen.values_mut().next();
        truths.map(|truths| truths.push(truths[0].clone())).is_some()
    }),
];
