//! How a run of shards ended: the sums of what they say, and the worst of how they ended.

use crate::shards::listed;
use base::clock::Nanos;
use measure::generator::{Generator, Quota};
use measure::log::{End, Header, HookRun, IterationCounts, ShardEnding, Status};

/// How shards ended together: each with its index, its number of workers, and how far its times are moved.
pub(super) fn of_all(shards: &[(u32, u32, &ShardEnding, Nanos)], header: &Header, partial: bool) -> End {
    let ends = || shards.iter().filter_map(|(index, _, ending, _)| Some((*index, ending.end.as_ref()?)));
    let whole =
        shards.iter().all(|(_, _, ending, _)| ending.end.is_some() && ending.flaws == Default::default());
    let worst = ends().max_by_key(|(_, end)| severity(end.status));
    let mut end = End {
        status: worst.map_or(Status::Failed, |(_, end)| end.status),
        error: error(&ends().collect::<Vec<_>>()),
        notes: common(ends().map(|(index, end)| (end.notes.as_slice(), index))),
        aborted_by: ends().find_map(|(_, end)| end.aborted_by),
        generator: generator(shards),
        rows: None,
        issued: issued(shards, header),
        probe: ends().find_map(|(_, end)| end.probe.clone()),
        hooks: shards.iter().flat_map(|(_, _, ending, shift_ns)| hooks(ending, *shift_ns)).collect(),
    };
    let is_partial = partial && header.notes.iter().any(|note| note.starts_with("partial: "));
    if is_partial || !whole {
        end.fail("it is a part of a load: not all shards are there to their end".to_owned());
    }
    end
}

fn severity(status: Status) -> u8 {
    match status {
        Status::Finished => 0,
        Status::Aborted => 1,
        Status::Interrupted => 2,
        Status::TimedOut => 3,
        Status::Failed => 4,
    }
}

/// What went wrong, shard by shard.
fn error(ends: &[(u32, &End)]) -> Option<String> {
    let errors = || ends.iter().filter_map(|(index, end)| Some((*index, end.error.as_deref()?)));
    let mut different: Vec<&str> = errors().map(|(_, error)| error).collect();
    different.sort_unstable();
    different.dedup();
    let said = |error: &&str| {
        let shards: Vec<u32> = errors().filter(|(_, other)| other == error).map(|(index, _)| index).collect();
        let noun = if shards.len() == 1 { "shard" } else { "shards" };
        format!("{noun} {}: {error}", listed(&shards))
    };
    (!different.is_empty()).then(|| different.iter().map(said).collect::<Vec<_>>().join("; "))
}

/// Notes: once what all shards say, and otherwise with the shard's number.
pub(super) fn common<'a>(shards: impl Iterator<Item = (&'a [String], u32)> + Clone) -> Vec<String> {
    let mut all = Vec::new();
    for (notes, index) in shards.clone() {
        for note in notes {
            let everywhere = shards.clone().all(|(others, _)| others.contains(note));
            let text = if everywhere { note.clone() } else { format!("shard {index}: {note}") };
            if !all.contains(&text) {
                all.push(text);
            }
        }
    }
    all
}

fn generator(shards: &[(u32, u32, &ShardEnding, Nanos)]) -> Option<Generator> {
    let mut sum: Option<Generator> = None;
    let mut before = 0;
    for (_, workers, ending, _) in shards {
        if let Some(seen) = ending.end.as_ref().and_then(|end| end.generator.clone()) {
            let mut seen = seen;
            // Each worker of the whole run has a number of its own.
            seen.workers.iter_mut().for_each(|worker| worker.worker += before);
            sum = Some(match sum {
                None => seen,
                Some(sum) => add(sum, seen),
            });
        }
        before += workers;
    }
    sum
}

fn add(mut sum: Generator, more: Generator) -> Generator {
    sum.cpu_s += more.cpu_s;
    sum.load_s = sum.load_s.max(more.load_s);
    sum.descriptors_max = sum.descriptors_max.max(more.descriptors_max);
    sum.descriptors_limit = [sum.descriptors_limit, more.descriptors_limit].into_iter().flatten().min();
    sum.suspended_s = sum.suspended_s.max(more.suspended_s);
    if more.wall_clock_jump_s.abs() > sum.wall_clock_jump_s.abs() {
        sum.wall_clock_jump_s = more.wall_clock_jump_s;
    }
    sum.unrecorded += more.unrecorded;
    // Each process has its own.
    sum.process = None;
    sum.services.clear();
    sum.quota = quota(sum.quota, more.quota);
    sum.workers.extend(more.workers);
    sum
}

/// The smallest quota of the shards; what was throttled is added. Each worker says for how long it was kept from running.
fn quota(one: Option<Quota>, other: Option<Quota>) -> Option<Quota> {
    let (Some(one), Some(other)) = (&one, &other) else { return one.or(other) };
    Some(Quota {
        cpus: [one.cpus, other.cpus].into_iter().flatten().min_by(f64::total_cmp),
        periods: one.periods + other.periods,
        throttled_periods: one.throttled_periods + other.throttled_periods,
        throttled_s: one.throttled_s + other.throttled_s,
    })
}

/// The counts of iterations. Of a shard without an end is known what its log has.
fn issued(shards: &[(u32, u32, &ShardEnding, Nanos)], header: &Header) -> Vec<IterationCounts> {
    let of = |workload: usize| {
        let parts = shards.iter().filter_map(|(_, _, ending, _)| ending.end.as_ref()?.issued.get(workload));
        let unended = shards.iter().filter(|(_, _, ending, _)| ending.end.is_none());
        let recorded: u64 = unended.filter_map(|(_, _, ending, _)| ending.rows_of.get(workload)).sum();
        let mut sum = IterationCounts {
            issued: recorded,
            planned: Some(recorded),
            not_started: Some(0),
            ..IterationCounts::default()
        };
        for part in parts {
            sum.planned = sum.planned.zip(part.planned).map(|(sum, part)| sum + part);
            sum.not_started = sum.not_started.zip(part.not_started).map(|(sum, part)| sum + part);
            sum.issued += part.issued;
            sum.dropped += part.dropped;
            sum.unrecorded += part.unrecorded;
        }
        sum
    };
    (0..header.workloads.len()).map(of).collect()
}

fn hooks(ending: &ShardEnding, shift_ns: Nanos) -> Vec<HookRun> {
    let moved = |hook: &HookRun| HookRun { start_ns: hook.start_ns.saturating_add(shift_ns), ..hook.clone() };
    ending.end.iter().flat_map(|end| end.hooks.iter().map(moved)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::generator::{LocalProcess, ProcessSeries, WorkerVitals};
    use measure::log::Flaws;

    #[test]
    fn each_end_is_worse_than_the_one_before() {
        let ends = [Status::Finished, Status::Aborted, Status::Interrupted, Status::TimedOut, Status::Failed];
        assert!(ends.map(severity).windows(2).all(|two| two[0] < two[1]));
    }

    #[test]
    fn counts_of_shards_are_added_and_hooks_move_to_the_common_clock() {
        let hook = |start_ns| HookRun { start_ns, value: 3, ..HookRun::default() };
        let ending = |issued: IterationCounts, start_ns| ShardEnding {
            end: Some(End { issued: vec![issued], hooks: vec![hook(start_ns)], ..End::default() }),
            ..ShardEnding::default()
        };
        let issued_of = |planned, issued, dropped, unrecorded, not_started| IterationCounts {
            planned: Some(planned),
            issued,
            dropped,
            unrecorded,
            not_started: Some(not_started),
        };
        let parts = [ending(issued_of(50, 40, 3, 2, 10), 7), ending(issued_of(60, 45, 4, 5, 15), 9)];
        let killed = ShardEnding { rows_of: vec![8], ..ShardEnding::default() };
        let header: Header = serde_json::from_value(crate::merge::tests::header(None)).unwrap();
        let shards: Vec<_> = parts.iter().chain([&killed]).map(|ending| (0, 0, ending, 100)).collect();
        assert_eq!(issued(&shards, &header)[0], issued_of(118, 93, 7, 7, 25));
        assert_eq!(hooks(&parts[0], 100), [hook(107)]);
        assert_eq!(hooks(&killed, 100), []);
    }

    fn ended(status: Status, error: Option<&str>, notes: &[&str]) -> End {
        End {
            status,
            error: error.map(str::to_owned),
            notes: notes.iter().map(|&note| note.to_owned()).collect(),
            ..End::default()
        }
    }

    /// What three shards said at their ends, and what the run of all says.
    #[test]
    fn the_worst_end_and_every_error_are_told() {
        let (finished, failed) = (Status::Finished, Status::Failed);
        for (ends, status, error, notes) in [
            (
                [
                    ended(finished, None, &["same"]),
                    ended(finished, None, &["same"]),
                    ended(finished, None, &["same"]),
                ],
                finished,
                None,
                vec!["same"],
            ),
            (
                [
                    ended(finished, None, &["a", "b"]),
                    ended(failed, Some("no disk"), &["b"]),
                    ended(Status::TimedOut, Some("late"), &["b"]),
                ],
                failed,
                Some("shard 4: late; shard 2: no disk"),
                vec!["shard 0: a", "b"],
            ),
            (
                [
                    ended(failed, Some("no disk"), &[]),
                    ended(Status::Interrupted, None, &[]),
                    ended(failed, Some("no disk"), &["c"]),
                ],
                failed,
                Some("shards 0, 4: no disk"),
                vec!["shard 4: c"],
            ),
        ] {
            let endings = ends.map(|end| ShardEnding { end: Some(end), ..ShardEnding::default() });
            let shards: Vec<_> =
                endings.iter().zip([0, 2, 4]).map(|(ending, index)| (index, 1, ending, 0)).collect();
            let header: Header = serde_json::from_value(crate::merge::tests::header(None)).unwrap();
            let end = of_all(&shards, &header, false);
            assert_eq!((end.status, end.error.as_deref()), (status, error));
            assert_eq!(end.notes, notes);
        }
    }

    /// A part of a load never looks like the whole.
    #[test]
    fn what_lacks_a_shard_or_an_end_has_failed() {
        let mut header: Header = serde_json::from_value(crate::merge::tests::header(None)).unwrap();
        let whole = ShardEnding { end: Some(End::default()), ..ShardEnding::default() };
        let unended = ShardEnding { end: None, ..ShardEnding::default() };
        let torn = ShardEnding { flaws: Flaws { cut_bytes: 7, ..Flaws::default() }, ..whole.clone() };
        for (second, partial, note, failed) in [
            (&whole, false, "", false),
            (&whole, true, "", false),
            (&whole, true, "partial: 1 of 3 shards", true),
            (&whole, false, "partial: 1 of 3 shards", false),
            (&unended, false, "", true),
            (&torn, false, "", true),
        ] {
            header.notes = vec![note.to_owned()];
            let end = of_all(&[(0, 1, &whole, 0), (1, 1, second, 0)], &header, partial);
            assert_eq!(end.status == Status::Failed, failed, "{second:?}, partial {partial}, `{note}`");
            assert_eq!(end.error.is_some_and(|error| error.contains("a part of a load")), failed);
        }
    }

    #[test]
    fn what_generators_took_is_added_and_their_extremes_are_kept() {
        let worker = |worker| WorkerVitals { worker, kept_s: 0.5, ..WorkerVitals::default() };
        let generator = |times: f64, counts: u64, limit, jump| Generator {
            cpu_s: times,
            load_s: 2.0 * times,
            descriptors_max: counts,
            descriptors_limit: limit,
            suspended_s: times / 2.0,
            wall_clock_jump_s: jump,
            unrecorded: 10 * counts,
            process: Some(ProcessSeries::default()),
            services: vec![LocalProcess::default()],
            quota: limit.map(|limit| Quota {
                cpus: Some(limit as f64 / 1000.0),
                periods: counts,
                throttled_periods: counts - 1,
                throttled_s: times,
            }),
            workers: vec![worker(0), worker(1)],
        };
        let ending = |generator| ShardEnding {
            end: Some(End { generator, ..End::default() }),
            ..ShardEnding::default()
        };
        let first = ending(Some(generator(3.0, 5, Some(900), 0.25)));
        let silent = ending(None);
        let last = ending(Some(generator(4.0, 3, Some(800), -0.5)));
        let sum = super::generator(&[(0, 2, &first, 0), (1, 3, &silent, 0), (2, 2, &last, 0)]).unwrap();
        let expected = Generator {
            cpu_s: 7.0,
            load_s: 8.0,
            descriptors_max: 5,
            descriptors_limit: Some(800),
            suspended_s: 2.0,
            wall_clock_jump_s: -0.5,
            unrecorded: 80,
            process: None,
            services: Vec::new(),
            quota: Some(Quota { cpus: Some(0.8), periods: 8, throttled_periods: 6, throttled_s: 7.0 }),
            workers: [0, 1, 5, 6].map(worker).to_vec(),
        };
        assert_eq!(sum, expected);
        assert_eq!(super::generator(&[(1, 3, &silent, 0)]), None);
    }
}
