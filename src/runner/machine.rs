//! Watches the machine and the process while the load runs, in a dedicated thread. If that thread did not
//! run for a while, nothing did.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use base::clock::{Nanos, saturating_nanos};

use super::beat::Beats;
use super::cgroup::Groups;
use super::held::{OverTime, ProcessUsage};
use super::listening::ListeningProcesses;
use client::url::Origin;
use measure::generator::{Generator, WorkerVitals};

/// How often all readings are taken.
const EVERY: Duration = Duration::from_millis(100);
/// If a sleep takes this much longer, the process was stopped, unless the thread waited for a processor.
const STOPPED: Duration = Duration::from_millis(800);
/// A time service moves the clock by less, in seconds.
const JUMP: f64 = 1.0;

/// A running watch.
pub(super) struct Watch {
    stop: Sender<()>,
    thread: Option<JoinHandle<WatchReport>>,
}

/// What the watch has seen.
#[derive(Default)]
struct WatchReport {
    generator: Generator,
    /// For how long the whole process was kept from running, and the longest such time.
    kept: (Duration, Duration),
}

impl Watch {
    /// Starts to watch, this long after the run's anchor.
    /// `targets` are where the load goes.
    pub(super) fn start(offset_ns: Nanos, targets: Vec<Origin>) -> Self {
        let (stop, stopped) = channel();
        // Without this thread the run is still valid; only less is known about it.
        let watch = move || {
            let services = ListeningProcesses::find(&targets);
            let mut seen = watch(&stopped, offset_ns);
            seen.generator.services = services.finish();
            seen
        };
        let thread = std::thread::Builder::new().name("watch".to_owned()).spawn(watch).ok();
        Self { stop, thread }
    }

    /// The watch's readings together with the workers'.
    pub(super) fn finish(self, mut workers: Vec<WorkerVitals>, unrecorded: u64) -> Generator {
        drop(self.stop);
        let WatchReport { generator, kept } =
            self.thread.and_then(|thread| thread.join().ok()).unwrap_or_default();
        share_out(&mut workers, &generator, kept);
        let descriptors_limit = super::limits::descriptors().map(|(soft, _)| soft);
        Generator { workers, unrecorded, descriptors_limit, ..generator }
    }
}

/// What kept the whole process from running kept each worker.
fn share_out(workers: &mut [WorkerVitals], seen: &Generator, (kept, longest): (Duration, Duration)) {
    if seen.load_s <= 0.0 {
        return;
    }
    let number = workers.iter().map(|worker| worker.worker + 1).max().unwrap_or(1);
    // It is added up over processors, and no more of them are used than there are workers.
    let throttled = seen.quota.as_ref().map_or(0.0, |quota| quota.throttled_s / f64::from(number));
    let share = (kept.as_secs_f64().max(throttled) / seen.load_s).min(1.0);
    for worker in workers {
        worker.kept_s = worker.kept_s.max(share * worker.load_s).min(worker.load_s);
        worker.kept_max_ms = worker.kept_max_ms.max(longest.as_secs_f64() * 1e3);
    }
}

/// Watches until the sender is dropped.
fn watch(stopped: &Receiver<()>, offset_ns: Nanos) -> WatchReport {
    let (mut generator, mut held, mut beats) = (Generator::default(), OverTime::default(), Beats::every(1));
    let groups = Groups::of_this_process();
    let throttled = groups.watch();
    let (began, cpu_ns) = (Instant::now(), process_cpu_ns());
    let (mut readings, mut queue_ns) = (Readings::take(), super::readings::run_queue_ns());
    loop {
        let (asked, every) = (Instant::now(), beats.next());
        let goes_on = stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout);
        let late = asked.elapsed().saturating_sub(every);
        let mut queued = Duration::ZERO;
        if Beats::is_late(late) {
            let before = std::mem::replace(&mut queue_ns, super::readings::run_queue_ns());
            queued = Duration::from_nanos(queue_ns.saturating_sub(before));
        }
        // This thread computes for some microseconds.
        beats.beat(late, Duration::ZERO, queued);
        if goes_on && readings.monotonic.elapsed() < EVERY {
            continue;
        }
        let now = ProcessUsage::now();
        generator.descriptors_max = generator.descriptors_max.max(now.descriptors);
        held.add(offset_ns.saturating_add(saturating_nanos(began.elapsed())), now);
        if !goes_on {
            break;
        }
        readings.compare(&mut generator);
    }
    generator.process = held.finish(saturating_nanos(EVERY));
    generator.load_s = began.elapsed().as_secs_f64();
    generator.cpu_s = seconds(process_cpu_ns().saturating_sub(cpu_ns));
    generator.quota = throttled.finish();
    WatchReport { generator, kept: beats.kept() }
}

/// All clocks at one time.
struct Readings {
    monotonic: Instant,
    wall: SystemTime,
    /// The clock that counts sleep, minus the monotonic clock.
    asleep_s: f64,
    run_queue_ns: Nanos,
}

impl Readings {
    fn take() -> Self {
        let (monotonic, wall) = (Instant::now(), SystemTime::now());
        Self { monotonic, wall, asleep_s: asleep_s(), run_queue_ns: super::readings::run_queue_ns() }
    }

    fn compare(&mut self, seen: &mut Generator) {
        let before = std::mem::replace(self, Self::take());
        let passed_s = (self.monotonic - before.monotonic).as_secs_f64();
        let slept_s = (self.asleep_s - before.asleep_s).max(0.0);
        let in_queue_s = seconds(self.run_queue_ns.saturating_sub(before.run_queue_ns));
        let stopped_s = passed_s - EVERY.as_secs_f64();
        if slept_s >= STOPPED.as_secs_f64() {
            seen.suspended_s += slept_s;
        } else if stopped_s >= STOPPED.as_secs_f64() && in_queue_s < stopped_s / 2.0 {
            seen.suspended_s += stopped_s;
        }
        let wall_s = match self.wall.duration_since(before.wall) {
            Ok(forward) => forward.as_secs_f64(),
            Err(error) => -error.duration().as_secs_f64(),
        };
        let jump_s = wall_s - passed_s - slept_s;
        if jump_s.abs() >= JUMP {
            seen.wall_clock_jump_s += jump_s;
        }
    }
}

fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(unix)]
fn process_cpu_ns() -> Nanos {
    super::readings::clock_ns(rustix::time::ClockId::ProcessCPUTime)
}

#[cfg(not(unix))]
fn process_cpu_ns() -> Nanos {
    0
}

#[cfg(target_os = "linux")]
fn asleep_s() -> f64 {
    use super::readings::clock_ns;
    use rustix::time::ClockId;
    seconds(clock_ns(ClockId::Boottime).saturating_sub(clock_ns(ClockId::Monotonic)))
}

#[cfg(not(target_os = "linux"))]
fn asleep_s() -> f64 {
    0.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::generator::Quota;

    #[test]
    fn gaps_and_jumps_are_distinguished() {
        // Increments of the monotonic clock, the wall clock, sleep and the wait for a processor; expected
        // suspension and jump.
        let rows = [
            (0.1, 0.1, 0.0, 0.0, 0.0, 0.0),
            (0.7, 0.7, 0.0, 0.0, 0.0, 0.0),
            (2.1, 2.1, 0.0, 0.0, 2.0, 0.0),
            (2.1, 2.1, 0.0, 1.9, 0.0, 0.0),
            (0.1, 60.1, 60.0, 0.0, 60.0, 0.0),
            (0.1, 3600.1, 0.0, 0.0, 0.0, 3600.0),
            (0.1, -3599.9, 0.0, 0.0, 0.0, -3600.0),
            (0.1, 0.3, 0.0, 0.0, 0.0, 0.0),
        ];
        for (passed, wall, slept, queued, suspended, jumped) in rows {
            let mut seen = Generator::default();
            let mut readings = Readings::take();
            readings.monotonic -= Duration::from_secs_f64(passed);
            readings.wall = if wall < 0.0 {
                readings.wall + Duration::from_secs_f64(-wall)
            } else {
                readings.wall - Duration::from_secs_f64(wall)
            };
            readings.asleep_s -= slept;
            let queued_ns = (queued * 1e9) as u64;
            readings.run_queue_ns = readings.run_queue_ns.saturating_sub(queued_ns);
            let possible = readings.run_queue_ns > 0 || queued == 0.0;
            readings.compare(&mut seen);
            if possible {
                assert!((seen.suspended_s - suspended).abs() < 0.3, "{passed} {wall}: {seen:?}");
                assert!((seen.wall_clock_jump_s - jumped).abs() < 0.3, "{passed} {wall}: {seen:?}");
            }
        }
    }

    #[test]
    fn what_kept_the_process_kept_every_worker() {
        let worker = |worker, load_s, kept_s| WorkerVitals { worker, load_s, kept_s, ..Default::default() };
        // The process's own gaps and the throttled time of a load of 10 s; what workers saw; what they have then.
        for (kept_s, throttled_s, seen_s, expected) in [
            (0.0, None, [0.0, 1.0], [0.0, 1.0]),
            (5.0, None, [0.0, 1.0], [5.0, 2.0]),
            (1.0, Some(8.0), [3.0, 0.0], [4.0, 1.6]),
            (0.0, Some(90.0), [0.0, 0.0], [10.0, 4.0]),
        ] {
            let quota = throttled_s.map(|throttled_s| Quota { throttled_s, ..Quota::default() });
            let seen = Generator { load_s: 10.0, quota, ..Generator::default() };
            let mut workers = [worker(0, 10.0, seen_s[0]), worker(1, 4.0, seen_s[1])];
            share_out(&mut workers, &seen, (Duration::from_secs_f64(kept_s), Duration::from_millis(30)));
            let found = workers.map(|worker| worker.kept_s);
            assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?}");
        }
    }

    #[test]
    fn a_watch_reports_the_process() {
        let watch = Watch::start(0, Vec::new());
        std::thread::sleep(EVERY * 3);
        let seen = watch.finish(Vec::new(), 7);
        assert_eq!((seen.unrecorded, seen.suspended_s), (7, 0.0));
        if cfg!(target_os = "linux") {
            let held = seen.process.expect("a reading at the end, at least");
            assert!(held.memory_bytes.iter().all(|bytes| *bytes > 0) && !held.threads.is_empty(), "{held:?}");
        }
        // The exact times depend on the scheduler.
        assert!(seen.load_s > 0.0 && seen.cpu_s < 3600.0);
    }
}
