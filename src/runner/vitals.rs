//! A worker's health: its processor time, its waits for a processor, its event loop, its schedule.
//!
//! Read a few times a second in the worker's thread and judged window by window. `verdict` decides
//! whether it makes a run invalid.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use base::clock::{Nanos, now, saturating_nanos};

use super::beat::Beats;
use super::count::Spread;
use super::readings::thread_cpu_ns;
use measure::generator::WorkerVitals;

/// How often the watch beats, in hundredths of a second.
const BEAT: u32 = 3;
/// A shorter window would depend on single time slices of the scheduler.
const WINDOW: Duration = Duration::from_millis(500);
/// A worker that computes for this share of a window has no time left to be punctual.
const SATURATED_SHARE: f64 = 0.9;
/// On a shared machine, a worker that is never idle and computes for this share is saturated.
const SATURATED_SHARED: f64 = 0.5;
const NEVER_IDLE: f64 = 0.97;
/// A worker is behind in a window with at least this many arrivals if more than half of them were later
/// than this. If the worker neither computed nor waited for a processor in a window, the machine slept.
const BEHIND_ARRIVALS: u64 = 20;
const BEHIND_NS: Nanos = 10_000_000;
const AWAKE_SHARE: f64 = 0.25;

/// Collects the readings of a worker's tasks. Other threads have no access.
pub(super) struct WorkerMonitor {
    /// Time in the loop of a precise pacer during which no other task ran.
    idle_ns: Cell<Nanos>,
    /// Arrivals handled in this window.
    arrivals: Cell<u64>,
    /// Arrivals in this window that were late.
    late: Cell<u64>,
    lateness: Spread,
    window: RefCell<Window>,
    beats: RefCell<Beats>,
}

/// Readings at the start of a window, and the sums of all earlier windows.
struct Window {
    began: Instant,
    cpu_ns: Nanos,
    queue_ns: Nanos,
    sums: WorkerVitals,
}

impl WorkerMonitor {
    /// Starts to watch the calling thread.
    pub(super) fn new() -> Self {
        let window = Window {
            began: now(),
            cpu_ns: thread_cpu_ns(),
            queue_ns: super::readings::run_queue_ns(),
            sums: WorkerVitals::default(),
        };
        Self {
            idle_ns: Cell::new(0),
            arrivals: Cell::new(0),
            late: Cell::new(0),
            lateness: Spread::default(),
            window: RefCell::new(window),
            beats: RefCell::new(Beats::every(BEAT)),
        }
    }

    /// Adds a pacer's idle time in its loop.
    pub(super) fn idled(&self, idle: Duration) {
        self.idle_ns.set(self.idle_ns.get() + saturating_nanos(idle));
    }

    /// An arrival was handled, this long after it was due.
    pub(super) fn arrival_handled(&self, late_ns: Nanos) {
        self.arrivals.set(self.arrivals.get() + 1);
        self.late.set(self.late.get() + u64::from(late_ns > BEHIND_NS));
        self.lateness.record(late_ns);
    }

    /// The event loop woke the watch this much too late, and computed for so long since the beat before.
    fn beat(&self, late: Duration, computed: Duration) {
        // Short waits count only if the whole process is stopped, which the machine's watch sees.
        self.beats.borrow_mut().beat(late, computed, late);
        let began = {
            let mut window = self.window.borrow_mut();
            let late_ms = late.as_secs_f64() * 1e3;
            window.sums.loop_lag_max_ms = window.sums.loop_lag_max_ms.max(late_ms);
            window.began
        };
        if now() - began >= WINDOW {
            self.close_window();
        }
    }

    fn close_window(&self) {
        let mut window = self.window.borrow_mut();
        let (now, cpu_ns, queue_ns) = (now(), thread_cpu_ns(), super::readings::run_queue_ns());
        let lasted_s = (now - window.began).as_secs_f64();
        let idle_s = seconds(self.idle_ns.take());
        let cpu_s = (seconds(cpu_ns.saturating_sub(window.cpu_ns)) - idle_s).max(0.0);
        let queue_s = seconds(queue_ns.saturating_sub(window.queue_ns));
        let (arrivals, late) = (self.arrivals.take(), self.late.take());
        let behind = arrivals >= BEHIND_ARRIVALS && late * 2 > arrivals;
        Reading { lasted_s, cpu_s, queue_s, behind }.add_to(&mut window.sums);
        (window.began, window.cpu_ns, window.queue_ns) = (now, cpu_ns, queue_ns);
    }

    /// The sums of all windows.
    pub(super) fn finish(&self) -> WorkerVitals {
        // The unfinished window counts too; it is short.
        self.close_window();
        let mut sums = self.window.borrow().sums.clone();
        // A load that is shorter than a window has none but this.
        if sums.cpu_share_max == 0.0 && sums.load_s > 0.0 {
            sums.cpu_share_max = (sums.cpu_s / sums.load_s).min(1.0);
        }
        let late_ms = |percentile| seconds(self.lateness.percentile_ns(percentile)) * 1e3;
        sums.arrivals = self.lateness.count();
        (sums.late_p50_ms, sums.late_p99_ms) = (late_ms(50.0), late_ms(99.0));
        sums.late_max_ms = seconds(self.lateness.max_ns()) * 1e3;
        let (kept, longest) = self.beats.borrow().kept();
        sums.delay_ms = self.beats.borrow().delay().as_secs_f64() * 1e3;
        (sums.kept_s, sums.kept_max_ms) = (kept.as_secs_f64(), longest.as_secs_f64() * 1e3);
        sums
    }
}

/// Watches until it is aborted.
pub(super) async fn watch(monitor: Rc<WorkerMonitor>) {
    loop {
        let (asked, cpu_ns, every) = (now(), thread_cpu_ns(), monitor.beats.borrow().next());
        tokio::time::sleep(every).await;
        let computed = Duration::from_nanos(thread_cpu_ns().saturating_sub(cpu_ns));
        monitor.beat((now() - asked).saturating_sub(every), computed);
    }
}

/// One window.
#[derive(Clone, Copy, Debug)]
struct Reading {
    lasted_s: f64,
    /// Processor time without a pacer's busy waiting.
    cpu_s: f64,
    /// Time during which the thread could run but had no processor.
    queue_s: f64,
    /// Most arrivals were late.
    behind: bool,
}

impl Reading {
    fn add_to(&self, vitals: &mut WorkerVitals) {
        let Self { lasted_s, cpu_s, queue_s, behind } = *self;
        vitals.load_s += lasted_s;
        vitals.cpu_s += cpu_s;
        vitals.run_queue_s += queue_s;
        if lasted_s >= WINDOW.as_secs_f64() / 2.0 {
            vitals.cpu_share_max = vitals.cpu_share_max.max((cpu_s / lasted_s).min(1.0));
        }
        let never_idle = cpu_s + queue_s >= NEVER_IDLE * lasted_s;
        if cpu_s >= SATURATED_SHARE * lasted_s || never_idle && cpu_s >= SATURATED_SHARED * lasted_s {
            vitals.saturated_s += lasted_s;
        } else if never_idle {
            vitals.starved_s += lasted_s;
        }
        if behind && cpu_s + queue_s >= AWAKE_SHARE * lasted_s {
            vitals.behind_s += lasted_s;
        }
    }
}

fn seconds(nanos: Nanos) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_judged_by_computing_and_waiting_times() {
        // For ten windows of a second: computing, waiting for a processor, behind; expected saturated, starved.
        let rows = [
            (0.30, 0.00, false, 0.0, 0.0),
            (0.89, 0.05, false, 0.0, 0.0),
            (0.95, 0.00, false, 10.0, 0.0),
            (0.60, 0.39, false, 10.0, 0.0),
            (0.30, 0.69, false, 0.0, 10.0),
            (0.30, 0.30, true, 0.0, 0.0),
            (0.02, 0.01, true, 0.0, 0.0),
        ];
        for (cpu_s, queue_s, behind, saturated_s, starved_s) in rows {
            let mut vitals = WorkerVitals::default();
            for _ in 0..10 {
                Reading { lasted_s: 1.0, cpu_s, queue_s, behind }.add_to(&mut vitals);
            }
            let behind_s = if behind && cpu_s > 0.1 { 10.0 } else { 0.0 };
            let found = (vitals.saturated_s, vitals.starved_s, vitals.behind_s);
            assert_eq!(found, (saturated_s, starved_s, behind_s), "{cpu_s} {queue_s}");
        }
    }

    #[test]
    fn all_arrivals_are_counted_and_idle_turns_are_not_work() {
        let monitor = WorkerMonitor::new();
        (0..30).for_each(|_| monitor.arrival_handled(BEHIND_NS * 5));
        monitor.idled(Duration::from_secs(1_000));
        let vitals = monitor.finish();
        assert_eq!((vitals.arrivals, vitals.late_max_ms, vitals.cpu_s), (30, 50.0, 0.0));
        assert_eq!((vitals.behind_s, vitals.saturated_s), (0.0, 0.0), "the only window did no work");
    }
}
