//! Connections that all users of a worker share, with a limit per origin.
//!
//! HTTP/1.1 uses an idle connection or opens one. At the limit, a request waits for a connection, and the
//! wait is measured. HTTP/2 runs concurrent requests on a connection and opens another only if the server
//! allows no more on the first.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use tokio::sync::{Mutex, Semaphore};

use base::clock::{now, saturating_nanos};

use super::connect::Connector;
use super::error::ClientError;
use super::http1::Http1;
use super::http2::Http2;
use super::options::Version;
use super::url::Origin;
use super::{Answer, Request};
use measure::phases::Phases;

/// The most origins with kept connections; redirects may lead to many.
const ORIGINS_MAX: usize = 256;

/// The connections to all origins.
pub(super) struct HttpConnectionPool {
    connections_max: usize,
    /// How many users use them.
    users: Cell<usize>,
    hosts: RefCell<Vec<KnownHost>>,
}

/// What its requests need, and the connections for them.
type KnownHost = ((Origin, Version), Rc<Host>);

/// The connections to an origin.
struct Host {
    idle: RefCell<Vec<Http1>>,
    multiplexed: RefCell<Vec<Rc<Http2>>>,
    /// The HTTP version of the server, once known.
    speaks_http2: Cell<Option<bool>>,
    /// Permits to use a connection of HTTP/1.1.
    permits: Semaphore,
    /// Connections of HTTP/1.1 that are used, or opened.
    in_use: Cell<usize>,
    /// Held by the task that opens a connection which others may share.
    opening: Mutex<()>,
}

impl HttpConnectionPool {
    pub(super) fn new(connections_max: usize) -> Self {
        Self { connections_max: connections_max.max(1), users: Cell::new(0), hosts: RefCell::default() }
    }

    /// Counts a user that begins to use these connections.
    pub(super) fn join(&self) {
        self.users.set(self.users.get() + 1);
    }

    /// Counts a user that ends, and closes idle connections of HTTP/1.1 that are more than there are users.
    pub(super) fn leave(&self) {
        let users = self.users.get().saturating_sub(1);
        self.users.set(users);
        for (_, host) in self.hosts.borrow().iter() {
            let mut idle = host.idle.borrow_mut();
            let more = (idle.len() + host.in_use.get()).saturating_sub(users).min(idle.len());
            // Those that were used longest ago.
            idle.drain(..more);
        }
    }

    pub(super) async fn exchange(
        &self,
        connector: &Connector,
        request: &Request<'_>,
        phases: &mut Phases,
        again: bool,
    ) -> Result<Answer, ClientError> {
        let host = self.host(request.origin, request.version.or(connector.settings.options.version));
        if host.speaks_http2.get() != Some(false)
            && let Some(connection) = self.multiplexed(&host, connector, request, phases).await?
        {
            let since = connection.idle_since(request.started);
            let answer = connection.exchange(request, phases).await;
            if !connection.is_open() {
                host.forget(&connection);
            }
            drop(connection);
            return match answer {
                Ok(answer) => Ok(answer),
                Err(error) => self.again(connector, request, phases, (again, since, error)).await,
            };
        }
        let permit = host.permits.acquire().await;
        let idle = host.take_usable(request.started).await?;
        let _in_use = ConnectionUseGuard::of(&host.in_use);
        let mut connection = match idle {
            Some(connection) => connection,
            None => {
                let opened = connector.connect(request.origin, request.version, phases).await?;
                Http1::new(opened, &connector.settings)
            }
        };
        let since = connection.idle_since();
        match connection.exchange(request, phases).await {
            Ok(answer) => {
                if connection.is_open() {
                    host.idle.borrow_mut().push(connection);
                }
                Ok(answer)
            }
            Err(error) => {
                drop((connection, permit));
                self.again(connector, request, phases, (again, since, error)).await
            }
        }
    }

    /// A connection for a request whose body is sent later.
    pub(super) async fn joined(
        &self,
        connector: &Connector,
        request: &Request<'_>,
        phases: &mut Phases,
    ) -> Result<Rc<Http2>, ClientError> {
        let host = self.host(request.origin, request.version.or(connector.settings.options.version));
        self.multiplexed(&host, connector, request, phases).await?.ok_or_else(ClientError::needs_http2)
    }

    /// Sends a request once more if the error of its connection allows it and it was not sent `again` before.
    async fn again(
        &self,
        connector: &Connector,
        request: &Request<'_>,
        phases: &mut Phases,
        (again, since, error): (bool, Instant, ClientError),
    ) -> Result<Answer, ClientError> {
        let idle = request.started.saturating_duration_since(since);
        if again || !connector.settings.options.resend.allows(request.method, idle, &error) {
            return Err(error);
        }
        connector.settings.count_resent(&error);
        let before = std::mem::take(phases);
        let answer = Box::pin(self.exchange(connector, request, phases, true)).await;
        phases.resent_after(&before);
        answer
    }

    fn host(&self, origin: &Origin, version: Version) -> Rc<Host> {
        let mut hosts = self.hosts.borrow_mut();
        if let Some((_, host)) = hosts.iter().find(|((other, of), _)| other == origin && *of == version) {
            return Rc::clone(host);
        }
        if hosts.len() >= ORIGINS_MAX {
            hosts.remove(0);
        }
        let clear = !origin.tls && version != Version::Http2;
        let host = Rc::new(Host {
            idle: RefCell::default(),
            multiplexed: RefCell::default(),
            speaks_http2: Cell::new((clear || version == Version::Http1).then_some(false)),
            permits: Semaphore::new(self.connections_max),
            in_use: Cell::new(0),
            opening: Mutex::new(()),
        });
        hosts.push(((origin.clone(), version), Rc::clone(&host)));
        host
    }

    /// An HTTP/2 connection that can take a request; `None` if the server uses HTTP/1.1.
    async fn multiplexed(
        &self,
        host: &Host,
        connector: &Connector,
        request: &Request<'_>,
        phases: &mut Phases,
    ) -> Result<Option<Rc<Http2>>, ClientError> {
        if let Some(connection) = host.joinable().await {
            return Ok(Some(connection));
        }
        let _opening = host.opening.lock().await;
        // Another task may have opened one in the meantime.
        if let Some(connection) = host.joinable().await {
            return Ok(Some(connection));
        }
        if host.speaks_http2.get() == Some(false) {
            return Ok(None);
        }
        let least = host.multiplexed.borrow().iter().min_by_key(|other| other.in_flight()).cloned();
        if let Some(least) = least.filter(|_| host.multiplexed.borrow().len() >= self.connections_max) {
            // At the limit, the request waits.
            return Ok(Some(least));
        }
        let opened = connector.connect(request.origin, request.version, phases).await?;
        host.speaks_http2.set(Some(opened.http2));
        if !opened.http2 {
            host.idle.borrow_mut().push(Http1::new(opened, &connector.settings));
            return Ok(None);
        }
        let started = now();
        let connection = Http2::new(opened, connector.settings.options.limits, Some(started));
        connection.set_up().await;
        phases.connect_ns += saturating_nanos(now() - started);
        let connection = Rc::new(connection);
        host.multiplexed.borrow_mut().push(Rc::clone(&connection));
        Ok(Some(connection))
    }
}

/// A connection that is used, as long as this lives.
struct ConnectionUseGuard<'a>(&'a Cell<usize>);

impl<'a> ConnectionUseGuard<'a> {
    fn of(number: &'a Cell<usize>) -> Self {
        number.set(number.get() + 1);
        Self(number)
    }
}

impl Drop for ConnectionUseGuard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl Host {
    /// An idle connection that can still be used.
    async fn take_usable(&self, now: Instant) -> Result<Option<Http1>, ClientError> {
        loop {
            let Some(mut connection) = self.idle.borrow_mut().pop() else { return Ok(None) };
            if connection.was_just_used(now) || connection.is_usable().await? {
                return Ok(Some(connection));
            }
        }
    }

    /// Uses a connection no more; it closes when its last request has ended.
    fn forget(&self, connection: &Rc<Http2>) {
        self.multiplexed.borrow_mut().retain(|other| !Rc::ptr_eq(other, connection));
    }

    /// A connection that can take another request; ended connections are dropped.
    async fn joinable(&self) -> Option<Rc<Http2>> {
        let known = self.multiplexed.borrow().clone();
        for connection in known {
            if !connection.is_usable().await {
                self.forget(&connection);
            } else if connection.has_room() {
                return Some(connection);
            }
        }
        None
    }
}
