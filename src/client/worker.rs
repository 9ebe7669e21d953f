//! What the virtual users of a worker share: resolved names, and connections if configured.
//!
//! A worker is a thread. Nothing here is shared between threads, so there are no locks. It lives as long as
//! any of the worker's users.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use super::connect::Connector;
use super::options::Settings;
use super::shared::HttpConnectionPool;

/// A thread's part of the client.
pub(super) struct Worker {
    pub(super) connector: Connector,
    pub(super) shared: HttpConnectionPool,
}

thread_local! {
    static CURRENT: RefCell<Weak<Worker>> = const { RefCell::new(Weak::new()) };
}

impl Worker {
    /// This thread's worker for these settings.
    pub(super) fn current(settings: &Arc<Settings>) -> Rc<Self> {
        CURRENT.with_borrow_mut(|current| {
            let known = current.upgrade().filter(|worker| Arc::ptr_eq(&worker.connector.settings, settings));
            known.unwrap_or_else(|| {
                let worker = Rc::new(Self {
                    connector: Connector::new(settings),
                    shared: HttpConnectionPool::new(settings.options.connections_max.0),
                });
                *current = Rc::downgrade(&worker);
                worker
            })
        })
    }
}
