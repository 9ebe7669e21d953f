//! Who observes a load.
//!
//! Observers stand side by side in a list and know nothing of each other, so none can forget to pass something on.

use std::time::Duration;

use super::Progress;
use measure::recorder::Batch;
use plan::Plan;

/// Observes a load. Called on the coordinator's thread, never by a worker.
pub trait Observer {
    /// A workload begins; several may run at the same time.
    fn begin(&mut self, _plan: &Plan, _workload: usize) {}
    /// A worker has sent a batch of samples.
    fn batch(&mut self, _batch: &Batch) {}
    /// Called about ten times a second for each running workload.
    fn progress(&mut self, _progress: &Progress<'_>) {}
    /// How often [`Observer::begun`] is to be called; `None` if not at all.
    fn counts_every(&self) -> Option<Duration> {
        None
    }
    /// How many iterations of a workload have begun, including the warm-up, and the time since its start.
    fn begun(&mut self, _workload: usize, _elapsed: Duration, _begun: u64) {}
    /// A workload has ended.
    fn end(&mut self, _progress: &Progress<'_>) {}
}

/// The observers of a load, each called in the order of the list.
pub struct Observers<'a>(Vec<&'a mut dyn Observer>);

impl<'a> Observers<'a> {
    /// These observers, in the order in which they are to be called.
    #[must_use]
    pub fn new(observers: Vec<&'a mut dyn Observer>) -> Self {
        Self(observers)
    }

    fn each(&mut self, mut call: impl FnMut(&mut dyn Observer)) {
        self.0.iter_mut().for_each(|observer| call(&mut **observer));
    }
}

impl Observer for Observers<'_> {
    fn begin(&mut self, plan: &Plan, workload: usize) {
        self.each(|observer| observer.begin(plan, workload));
    }

    fn batch(&mut self, batch: &Batch) {
        self.each(|observer| observer.batch(batch));
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.each(|observer| observer.progress(progress));
    }

    fn counts_every(&self) -> Option<Duration> {
        self.0.iter().filter_map(|observer| observer.counts_every()).min()
    }

    fn begun(&mut self, workload: usize, elapsed: Duration, begun: u64) {
        self.each(|observer| observer.begun(workload, elapsed, begun));
    }

    fn end(&mut self, progress: &Progress<'_>) {
        self.each(|observer| observer.end(progress));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::Spread;
    use measure::recorder::Live;

    /// Records the calls that it gets.
    struct RecordingObserver<'a> {
        name: &'static str,
        every_ms: Option<u64>,
        calls: &'a std::cell::RefCell<Vec<String>>,
    }

    impl RecordingObserver<'_> {
        fn note(&self, what: &str) {
            self.calls.borrow_mut().push(format!("{} {what}", self.name));
        }
    }

    impl Observer for RecordingObserver<'_> {
        fn progress(&mut self, progress: &Progress<'_>) {
            self.note(&format!("progress {}", progress.workload));
        }

        fn counts_every(&self) -> Option<Duration> {
            self.every_ms.map(Duration::from_millis)
        }

        fn begun(&mut self, workload: usize, _: Duration, begun: u64) {
            self.note(&format!("begun {workload} {begun}"));
        }

        fn end(&mut self, progress: &Progress<'_>) {
            self.note(&format!("end {}", progress.workload));
        }
    }

    #[test]
    fn every_observer_is_told_everything_in_order() {
        let calls = std::cell::RefCell::default();
        let told = |name, every_ms| RecordingObserver { name, every_ms, calls: &calls };
        let (mut one, mut other, mut third) = (told("a", None), told("b", Some(9)), told("c", Some(5)));
        let mut all = Observers::new(vec![&mut one, &mut other, &mut third]);
        assert_eq!(all.counts_every(), Some(Duration::from_millis(5)));
        let total = Live::new();
        let progress = Progress {
            workload: 1,
            elapsed: Duration::ZERO,
            total: &total,
            under_way: 0,
            queued: 0,
            dropped: 0,
            ended: 0,
            warm_up: 0,
            queue_time: Spread::default(),
        };
        all.begun(1, Duration::ZERO, 7);
        all.progress(&progress);
        all.end(&progress);
        let expected: Vec<String> = ["begun 1 7", "progress 1", "end 1"]
            .iter()
            .flat_map(|what| ["a", "b", "c"].map(|name| format!("{name} {what}")))
            .collect();
        assert_eq!(*calls.borrow(), expected);
        assert_eq!(Observers::new(Vec::new()).counts_every(), None);
    }
}
