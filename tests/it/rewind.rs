//! Services of a test go back to what they were before a load, when a machine was too busy for it and it is made again.
//!
//! What a service counts, and what it answers by count, belongs to one load. `BENCH_TEST_LOADS_TWICE=1` makes the first
//! load of every test again, as if it had been disturbed: all tests must pass so, too.

use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Remembers a state now, and gives what goes back to it.
type StateMark = Box<dyn Fn() -> Box<dyn FnOnce()>>;

thread_local! {
    /// The states of the test that runs on this thread.
    static STATES: RefCell<Vec<StateMark>> = const { RefCell::new(Vec::new()) };
}

/// Calls `mark` before each load of this test, and what it gives before the same load is made again.
pub(crate) fn before_loads<Back: FnOnce() + 'static>(mark: impl Fn() -> Back + 'static) {
    STATES.with_borrow_mut(|states| states.push(Box::new(move || Box::new(mark()))));
}

/// The state of a service.
pub(crate) fn state<T: Clone + 'static>(first: T) -> Arc<Mutex<T>> {
    let state = Arc::new(Mutex::new(first));
    let own = Arc::clone(&state);
    before_loads(move || {
        let (own, before) = (Arc::clone(&own), own.lock().unwrap().clone());
        move || *own.lock().unwrap() = before
    });
    state
}

/// When the load of this test began.
pub(crate) fn began() -> Arc<Mutex<Instant>> {
    let began = Arc::new(Mutex::new(Instant::now()));
    let own = Arc::clone(&began);
    before_loads(move || {
        let own = Arc::clone(&own);
        move || *own.lock().unwrap() = Instant::now()
    });
    began
}

/// A file that a load makes or changes.
pub(crate) fn file(path: PathBuf) {
    before_loads(move || {
        let (path, before) = (path.clone(), std::fs::read(&path).ok());
        move || match before {
            Some(content) => std::fs::write(path, content).unwrap(),
            None => drop(std::fs::remove_file(path)),
        }
    });
}

/// A number of a service, from 0.
pub(crate) fn counter() -> Arc<AtomicUsize> {
    let counter = Arc::new(AtomicUsize::new(0));
    let own = Arc::clone(&counter);
    before_loads(move || {
        let (own, before) = (Arc::clone(&own), own.load(Ordering::SeqCst));
        move || own.store(before, Ordering::SeqCst)
    });
    counter
}

/// What the services of this test are now.
pub(crate) struct StateRewind(Vec<Box<dyn FnOnce()>>);

impl StateRewind {
    pub(crate) fn load() -> Self {
        Self(STATES.with_borrow(|states| states.iter().map(|mark| mark()).collect()))
    }

    pub(crate) fn again(self) {
        for back in self.0 {
            back();
        }
    }
}
