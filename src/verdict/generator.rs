//! Whether the load generator itself was the limit: then the run says nothing about the service.
//!
//! A fault counts only when it lasts: a busy machine costs single time slices, and these can be a
//! large share of a short run. A slow service, queued arrivals and dropped arrivals are not faults
//! of the generator.

use measure::generator::{Generator, KEPT_S, KEPT_SHARE, WorkerVitals};

/// A worker may be short of time for this long, and for this share of its load.
const SATURATED_S: f64 = 1.5;
const SATURATED_SHARE: f64 = 0.2;
/// A worker may be behind its schedule for this long, and for this share of its load.
const BEHIND_S: f64 = 1.0;
const BEHIND_SHARE: f64 = 0.1;
/// Other processes may keep a worker from the processor for this long, and for this share of its load.
const STARVED_S: f64 = 5.0;
const STARVED_SHARE: f64 = 0.5;
/// The machine may sleep for this long.
const SUSPENDED_S: f64 = 0.5;
/// Events may wait for a worker for this long on average, and for this share of the time that an iteration takes. A service
/// that shares the processors of a worker costs less, and so does a machine with five programs for each processor.
const DELAY_MS: f64 = 3.0;
const DELAY_SHARE: f64 = 0.1;
/// In shorter loads there are too few beats to know it.
const DELAY_LOAD_S: f64 = 2.0;

/// Why a run is not valid; empty for a valid run. `iteration_ms` is the mean time of an iteration of a workload, if any ended.
#[must_use]
pub fn faults(seen: &Generator, iteration_ms: impl Fn(u16) -> Option<f64>) -> Vec<String> {
    let mut faults = Vec::new();
    let worst = |seconds: fn(&WorkerVitals) -> f64, least_s: f64, least_share: f64| {
        let lasted = seen.workers.iter().filter(move |worker| {
            seconds(worker) >= least_s && seconds(worker) >= least_share * worker.load_s
        });
        lasted.max_by(|a, b| (seconds(a) / a.load_s).total_cmp(&(seconds(b) / b.load_s)))
    };
    if let Some(worker) = worst(|worker| worker.saturated_s, SATURATED_S, SATURATED_SHARE) {
        faults.push(format!(
            "bench itself was the limit: worker {} was saturated for {:.1} of {:.1} s; use more workers \
             (--workers), a machine with more or faster cores, or less load",
            worker.worker, worker.saturated_s, worker.load_s
        ));
    }
    if let Some(worker) = worst(|worker| worker.behind_s, BEHIND_S, BEHIND_SHARE) {
        faults.push(format!(
            "bench could not keep its schedule: worker {} was behind for {:.1} of {:.1} s, by up to {:.0} ms; \
             lower the rate, or use more workers (--workers) or a machine with more cores",
            worker.worker, worker.behind_s, worker.load_s, worker.late_max_ms
        ));
    }
    if let Some(worker) = worst(|worker| worker.starved_s, STARVED_S, STARVED_SHARE) {
        faults.push(format!(
            "the machine was too busy with other processes: worker {} waited for a processor for {:.1} of {:.1} s",
            worker.worker, worker.starved_s, worker.load_s
        ));
    }
    if let Some(worker) = worst(|worker| worker.kept_s, KEPT_S, KEPT_SHARE) {
        faults.push(format!(
            "{}; the service did not get the load that an undisturbed run makes, and the times are partly bench's own; {}",
            seen.kept(worker),
            seen.remedy()
        ));
    }
    faults.extend(seen.workers.iter().filter_map(|worker| delayed(worker, &iteration_ms)).next());
    if seen.suspended_s >= SUSPENDED_S {
        faults.push(format!(
            "the machine slept or bench was suspended for {:.1} s during the load",
            seen.suspended_s
        ));
    }
    faults
}

/// That the answers of a service waited for a worker, for a large part of the time that an iteration takes.
fn delayed(worker: &WorkerVitals, iteration_ms: impl Fn(u16) -> Option<f64>) -> Option<String> {
    let shortest_ms =
        worker.workloads.iter().filter_map(|workload| iteration_ms(*workload)).min_by(f64::total_cmp)?;
    let counts = worker.load_s >= DELAY_LOAD_S
        && worker.delay_ms >= DELAY_MS
        && worker.delay_ms >= DELAY_SHARE * shortest_ms;
    counts.then(|| {
        format!(
            "bench waited for a processor: worker {} came {:.1} ms too late to each answer on average, and an iteration takes \
             {shortest_ms:.1} ms; the load and the times are partly those of other programs: give bench processors that others \
             do not use",
            worker.worker, worker.delay_ms
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lasted_makes_a_run_invalid() {
        let worker = |load_s, saturated_s, behind_s, starved_s| WorkerVitals {
            load_s,
            saturated_s,
            behind_s,
            starved_s,
            ..WorkerVitals::default()
        };
        let kept = |load_s, kept_s| WorkerVitals { load_s, kept_s, ..WorkerVitals::default() };
        let late = |load_s, delay_ms| WorkerVitals {
            workloads: vec![0],
            load_s,
            delay_ms,
            ..WorkerVitals::default()
        };
        let rows: [(WorkerVitals, f64, &[&str]); 22] = [
            (kept(14.0, 10.3), 0.0, &["kept from running: worker 0 for about 10.3 of 14.0 s (74 %)"]),
            (kept(14.0, 1.41), 0.0, &["kept from running"]),
            (kept(14.0, 1.39), 0.0, &[]),
            (kept(2.0, KEPT_S), 0.0, &["kept from running"]),
            (kept(1.0, KEPT_S - 0.001), 0.0, &[]),
            // An iteration takes 20 ms.
            (late(4.0, DELAY_MS), 0.0, &["came 3.0 ms too late"]),
            (late(4.0, DELAY_MS - 0.1), 0.0, &[]),
            (late(1.9, 10.0), 0.0, &[]),
            (worker(10.0, 0.0, 0.0, 0.0), 0.0, &[]),
            (worker(1.0, 1.0, 0.5, 1.0), 0.0, &[]),
            (worker(3.0, 3.0, 0.0, 0.0), 0.0, &["bench itself"]),
            // Exactly as long as counts, and hardly less.
            (worker(SATURATED_S, SATURATED_S, 0.0, 0.0), 0.0, &["bench itself"]),
            (worker(SATURATED_S, SATURATED_S - 0.001, 0.0, 0.0), 0.0, &[]),
            (worker(100.0, 100.0 * SATURATED_SHARE, 0.0, 0.0), 0.0, &["bench itself"]),
            (worker(30.0, 3.0, 0.0, 0.0), 0.0, &[]),
            (worker(3.0, 0.0, 2.0, 0.0), 0.0, &["schedule"]),
            (worker(3.0, 3.0, 2.0, 0.0), 0.0, &["bench itself", "schedule"]),
            (worker(4.0, 0.0, 0.0, 4.0), 0.0, &[]),
            (worker(6.0, 0.0, 0.0, 5.5), 0.0, &["too busy"]),
            (worker(3.0, 0.0, 0.0, 0.0), 2.0, &["slept"]),
            (worker(3.0, 0.0, 0.0, 0.0), SUSPENDED_S, &["slept"]),
            (worker(3.0, 0.0, 0.0, 0.0), SUSPENDED_S - 0.001, &[]),
        ];
        for (worker, suspended_s, expected) in rows {
            let workers = vec![WorkerVitals { load_s: 9.0, ..WorkerVitals::default() }, worker];
            let seen = Generator { suspended_s, workers, ..Generator::default() };
            let found = faults(&seen, |_| Some(20.0));
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(found.iter().zip(expected).all(|(found, part)| found.contains(part)), "{found:?}");
        }
    }

    /// The same delay matters to quick iterations, and not to slow ones.
    #[test]
    fn a_delay_counts_by_the_time_of_an_iteration() {
        let worker =
            WorkerVitals { workloads: vec![0, 1], load_s: 9.0, delay_ms: 5.0, ..WorkerVitals::default() };
        let seen = Generator { workers: vec![worker], ..Generator::default() };
        for (times, counts) in [
            ([Some(400.0), Some(51.0)], false),
            ([Some(400.0), Some(49.0)], true),
            ([Some(1.0), None], true),
            ([None, None], false),
        ] {
            let found = faults(&seen, |workload| times[usize::from(workload)]);
            assert_eq!(!found.is_empty(), counts, "{times:?}: {found:?}");
        }
    }

    #[test]
    fn a_quota_is_named_with_its_remedy() {
        use measure::generator::Quota;
        let quota = Quota { cpus: Some(0.015), periods: 140, throttled_periods: 139, throttled_s: 13.1 };
        let worker =
            WorkerVitals { load_s: 14.0, kept_s: 13.0, kept_max_ms: 98.4, ..WorkerVitals::default() };
        let seen = Generator { workers: vec![worker], quota: Some(quota), ..Generator::default() };
        let [fault] = &faults(&seen, |_| None)[..] else { panic!("one fault") };
        for part in [
            "worker 0 for about 13.0 of 14.0 s (93 %), for up to 98 ms at a time",
            "its quota of 0.015 processors was used up in 139 of 140 periods",
            "raise the limit",
        ] {
            assert!(fault.contains(part), "{fault}");
        }
    }
}
