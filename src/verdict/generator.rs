//! Whether the load generator itself was the limit: then the run says nothing about the service.
//!
//! A fault counts only when it lasts: a busy machine costs single time slices, and these can be a
//! large share of a short run. A slow service, queued arrivals and dropped arrivals are not faults
//! of the generator.

use crate::runner::generator::{Generator, WorkerVitals};

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

/// Why a run is not valid; empty for a valid run.
#[must_use]
pub fn faults(seen: &Generator) -> Vec<String> {
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
    if seen.suspended_s >= SUSPENDED_S {
        faults.push(format!(
            "the machine slept or bench was suspended for {:.1} s during the load",
            seen.suspended_s
        ));
    }
    faults
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
        let rows: [(WorkerVitals, f64, &[&str]); 14] = [
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
            let found = faults(&seen);
            assert_eq!(found.len(), expected.len(), "{found:?}");
            assert!(found.iter().zip(expected).all(|(found, part)| found.contains(part)), "{found:?}");
        }
    }
}
