//! What the virtual users of a worker share: resolved names, and connections if configured.
//!
//! A worker is a thread. Nothing here is shared between threads, so there are no locks. It lives as long as
//! any of the worker's users.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use super::options::Settings;
use super::resolve::Resolver;
use super::shared::Shared;

/// A thread's part of the client.
pub(super) struct Worker {
    pub(super) settings: Arc<Settings>,
    pub(super) resolver: Resolver,
    pub(super) shared: Shared,
}

thread_local! {
    static CURRENT: RefCell<Weak<Worker>> = const { RefCell::new(Weak::new()) };
}

impl Worker {
    /// This thread's worker for these settings.
    pub(super) fn current(settings: &Arc<Settings>) -> Rc<Self> {
        CURRENT.with_borrow_mut(|current| {
            let known = current.upgrade().filter(|worker| Arc::ptr_eq(&worker.settings, settings));
            known.unwrap_or_else(|| {
                let worker = Rc::new(Self {
                    settings: Arc::clone(settings),
                    resolver: Resolver::new(&settings.options.dns),
                    shared: Shared::new(settings.options.connections_max.0),
                });
                *current = Rc::downgrade(&worker);
                worker
            })
        })
    }
}
