//! The connections of a virtual user, over which it sends its requests in turn and follows redirects as
//! configured.
//!
//! The user has a connection to each origin, kept between requests or only during an iteration, or it
//! shares the connections of its worker. Nothing is sent twice unless a redirect asks for it, or the server says that it
//! has not processed the request (HTTP/2's REFUSED_STREAM, and GOAWAY): that is sent once more, and counted.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use http::StatusCode;
use http::header::COOKIE;

use base::clock::{now, saturating_nanos};
use base::lists::push_frugally;

use super::body::BodyContent;
use super::cookies::Jar;
use super::error::ClientError;
use super::handshake::Handshake;
use super::headers::HeaderBlock;
use super::http1::{Http1, UpgradedConnection};
use super::http2::Http2;
use super::http2::dialogue::Dialogue;
use super::options::{Connections, Settings, Version};
use super::redirect::Hop;
use super::url::Origin;
use super::websocket::extension::MessageCompression;
use super::worker::Worker;
use super::{Answer, Request};
use measure::observation::FollowedRedirect;
use measure::phases::Phases;

/// The most origins with kept connections; redirects may lead to many.
const SLOTS_MAX: usize = 64;

/// The connections of a virtual user. It sends a single request at a time and never leaves its thread.
pub struct Pool {
    worker: Rc<Worker>,
    slots: Vec<Slot>,
    /// The redirects that the last request followed, if they are recorded.
    followed: Option<Vec<FollowedRedirect>>,
    /// Whether it is one of those that use the shared connections.
    shares: bool,
    /// A connection that has just been opened for WebSocket, and how its messages may be compressed.
    pub(super) upgraded: Option<(UpgradedConnection, Option<MessageCompression>)>,
    /// A dialogue that has just been opened.
    dialogue: Option<Box<Dialogue>>,
}

/// An origin and its idle connection, if any.
struct Slot {
    origin: Origin,
    version: Version,
    idle: Option<Connection>,
}

enum Connection {
    // Boxed: it is moved several times for each request.
    Http1(Box<Http1>),
    // Shared with a dialogue over it.
    Http2(Rc<Http2>),
}

impl Pool {
    /// A virtual user without connections.
    #[must_use]
    pub fn new(settings: &Arc<Settings>) -> Self {
        Self {
            worker: Worker::current(settings),
            slots: Vec::new(),
            followed: None,
            shares: false,
            upgraded: None,
            dialogue: None,
        }
    }

    /// Ends an iteration, and its connections if the scenario says that each opens its own.
    #[inline]
    pub fn end_iteration(&mut self) {
        if self.worker.connector.settings.options.connections == Connections::Iteration {
            self.close();
        }
    }

    /// Closes the user's connections. A server may have no room for other users until then. Shared connections are closed
    /// if there are more of them than users.
    pub fn leave(&mut self) {
        self.close();
        if std::mem::take(&mut self.shares) {
            self.worker.shared.leave();
        }
    }

    fn close(&mut self) {
        self.slots.iter_mut().for_each(|slot| slot.idle = None);
    }

    /// Takes the dialogue that a request has just opened, if it did.
    pub fn take_dialogue(&mut self) -> Option<Box<Dialogue>> {
        self.dialogue.take()
    }

    /// Records which redirects the next requests follow.
    pub fn record_redirects(&mut self) {
        self.followed = Some(Vec::new());
    }

    /// The recorded redirects.
    pub fn take_redirects(&mut self) -> Vec<FollowedRedirect> {
        self.followed.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Sends a request, reads its answer, and follows as many redirects as the request allows. Reuses a
    /// connection if there is one. Cancelling drops the connection.
    ///
    /// # Errors
    /// See [`ClientError`]; `phases` has the phases until then.
    pub async fn send(&mut self, request: &Request<'_>, phases: &mut Phases) -> Result<Answer, ClientError> {
        if request.redirects_max == 0 && request.cookies.is_none_or(Jar::is_empty) {
            let answer = self.exchange(request, phases, false).await?;
            if let (Some(jar), Some(headers)) = (request.cookies, &answer.headers) {
                jar.keep(request.origin, request.path, headers);
            }
            Ok(answer)
        } else {
            // A separate future, so that users without redirects and cookies need no memory for it.
            Box::pin(self.follow(*request, phases)).await
        }
    }

    /// A single request with the cookies that belong to it, and its answer, whose cookies are kept. A header `Cookie`
    /// of the request replaces the cookies of the jar.
    async fn exchange_with_cookies(
        &mut self,
        request: &Request<'_>,
        phases: &mut Phases,
    ) -> Result<Answer, ClientError> {
        let Some(jar) = request.cookies else { return self.exchange(request, phases, false).await };
        let mut own = request.own.clone();
        let has_cookie = |block: &HeaderBlock| block.iter().any(|(name, _)| *name == COOKIE);
        if !has_cookie(request.fixed)
            && !has_cookie(&own)
            && let Some(cookies) = jar.header(request.origin, request.path)
        {
            own.push_valid(&COOKIE, &cookies);
        }
        let answer = self.exchange(&Request { own: &own, ..*request }, phases, false).await?;
        if let Some(headers) = &answer.headers {
            jar.keep(request.origin, request.path, headers);
        }
        Ok(answer)
    }

    /// Follows redirects. The phases are those of the last request; all time before it is the phase `redirect`.
    async fn follow(&mut self, request: Request<'_>, phases: &mut Phases) -> Result<Answer, ClientError> {
        let (redirects_max, nothing) = (request.redirects_max, HeaderBlock::default());
        let first = Request { keep_headers: request.keep_headers || redirects_max > 0, ..request };
        let mut answer = self.exchange_with_cookies(&first, phases).await?;
        if redirects_max == 0 {
            return Ok(answer);
        }
        let mut hop = Hop::first(request.method, request.origin, request.path);
        let mut visited = Vec::new();
        while let Some(next) = hop.next(answer.status, answer.headers.as_deref())? {
            visited.push(std::mem::replace(&mut hop, next));
            if visited.len() > redirects_max as usize {
                return Err(hop.one_too_many(&visited));
            }
            if let Some(before) = visited.last() {
                hop.check_body(before, request.body, self.worker.connector.settings.guard())?;
            }
            if let Some(followed) = &mut self.followed {
                let (method, url) = (hop.method.clone(), hop.address());
                followed.push(FollowedRedirect { status: answer.status, method, url });
            }
            let headers = hop.headers([request.fixed, request.own]);
            // The next request begins when the last answer ends.
            let started = answer.ended;
            *phases = Phases {
                before_ns: saturating_nanos(started.saturating_duration_since(request.started)),
                resent: phases.resent,
                retransmits: phases.retransmits,
                ..Phases::default()
            };
            let request = Request {
                method: &hop.method,
                origin: &hop.origin,
                path: &hop.path,
                fixed: &headers,
                own: &nothing,
                body: if hop.with_body { request.body } else { &BodyContent::EMPTY },
                started,
                keep_headers: true,
                ..request
            };
            answer = self.exchange_with_cookies(&request, phases).await?;
        }
        Ok(answer)
    }

    /// A single request and its answer. `again`: the server has not processed it before.
    async fn exchange(
        &mut self,
        request: &Request<'_>,
        phases: &mut Phases,
        again: bool,
    ) -> Result<Answer, ClientError> {
        if request.version.opens() {
            return Box::pin(self.open(request, phases)).await;
        }
        if self.worker.connector.settings.options.connections == Connections::Shared {
            let (shared, connector) = (&self.worker.shared, &self.worker.connector);
            if !std::mem::replace(&mut self.shares, true) {
                shared.join();
            }
            return Box::pin(shared.exchange(connector, request, phases, again)).await;
        }
        let slot = self.slot(request.origin, request.version);
        let connection = match self.take_usable(slot, request.started).await? {
            Some(connection) => connection,
            // A separate future, because it is rare and needs much memory.
            None => Box::pin(open(request, &self.worker, phases)).await?,
        };
        match connection {
            Connection::Http1(mut connection) => {
                let since = connection.idle_since();
                match connection.exchange(request, phases).await {
                    Ok(answer) => {
                        if connection.is_open() {
                            self.slots[slot].idle = Some(Connection::Http1(connection));
                        }
                        Ok(answer)
                    }
                    Err(error) => {
                        drop(connection);
                        self.again(request, phases, again, (since, error)).await
                    }
                }
            }
            Connection::Http2(connection) => {
                let since = connection.idle_since(request.started);
                let answer = Box::pin(connection.exchange(request, phases)).await;
                // The failure of a single request does not affect the others.
                if connection.is_open() && matches!(answer, Ok(_) | Err(ClientError::Reset { .. })) {
                    self.slots[slot].idle = Some(Connection::Http2(connection));
                } else {
                    // Before the request is sent again: a server may have no room until then.
                    drop(connection);
                }
                match answer {
                    Ok(answer) => Ok(answer),
                    Err(error) => self.again(request, phases, again, (since, error)).await,
                }
            }
        }
    }

    /// Sends a request once more if the error of its connection allows it and it was not sent `again` before. The time of
    /// both attempts counts.
    async fn again(
        &mut self,
        request: &Request<'_>,
        phases: &mut Phases,
        again: bool,
        (since, error): (Instant, ClientError),
    ) -> Result<Answer, ClientError> {
        let settings = &self.worker.connector.settings;
        let idle = request.started.saturating_duration_since(since);
        if again || !settings.options.resend.allows(request.method, idle, &error) {
            return Err(error);
        }
        settings.count_resent(&error);
        let before = std::mem::take(phases);
        // A separate future, because it is rare.
        let answer = Box::pin(self.exchange(request, phases, true)).await;
        phases.resent_after(&before);
        answer
    }

    /// Opens what the request asks for.
    async fn open(&mut self, request: &Request<'_>, phases: &mut Phases) -> Result<Answer, ClientError> {
        match request.version {
            Version::Upgrade => self.open_websocket(request, phases).await,
            _ => self.open_dialogue(&Request { version: Version::Http2, ..*request }, phases).await,
        }
    }

    /// Opens a connection and asks for WebSocket on it. [`WebSocket::take`](super::websocket::WebSocket::take) takes it if
    /// the server agrees.
    async fn open_websocket(
        &mut self,
        request: &Request<'_>,
        phases: &mut Phases,
    ) -> Result<Answer, ClientError> {
        self.upgraded = None;
        let handshake = Handshake::new(request)?;
        let mut own = request.own.clone();
        handshake.add_to(&mut own);
        let asked = Request { own: &own, keep_headers: true, ..*request };
        let Connection::Http1(mut connection) = open(&asked, &self.worker, phases).await? else {
            return Err(ClientError::Request("WebSocket needs HTTP/1.1".to_owned()));
        };
        let answer = connection.exchange(&asked, phases).await?;
        if answer.status == StatusCode::SWITCHING_PROTOCOLS {
            let compression = handshake.check(&asked, answer.headers.as_deref())?;
            self.upgraded = Some((UpgradedConnection::new(connection), compression));
        }
        Ok(answer)
    }

    /// Begins a request whose body is sent later, over the user's connection. [`Self::take_dialogue`] takes it. The answer that is
    /// returned says nothing: that of the server comes later.
    async fn open_dialogue(
        &mut self,
        request: &Request<'_>,
        phases: &mut Phases,
    ) -> Result<Answer, ClientError> {
        self.dialogue = None;
        let connection = if self.worker.connector.settings.options.connections == Connections::Shared {
            if !std::mem::replace(&mut self.shares, true) {
                self.worker.shared.join();
            }
            self.worker.shared.joined(&self.worker.connector, request, phases).await?
        } else {
            let slot = self.slot(request.origin, request.version);
            let connection = match self.take_usable(slot, request.started).await? {
                Some(connection) => connection,
                None => open(request, &self.worker, phases).await?,
            };
            let Connection::Http2(connection) = connection else { return Err(ClientError::needs_http2()) };
            self.slots[slot].idle = Some(Connection::Http2(Rc::clone(&connection)));
            connection
        };
        self.dialogue = Some(Box::new(Dialogue::open(connection, request, phases).await?));
        Ok(Answer {
            status: StatusCode::OK,
            headers: None,
            body: Vec::new(),
            body_bytes: 0,
            trailers: None,
            ended: now(),
        })
    }

    #[inline]
    fn slot(&mut self, origin: &Origin, version: Version) -> usize {
        let is_same = |slot: &Slot| slot.origin == *origin && slot.version == version;
        self.slots.iter().position(is_same).unwrap_or_else(|| {
            if self.slots.len() >= SLOTS_MAX {
                self.slots.remove(0);
            }
            push_frugally(&mut self.slots, Slot { origin: origin.clone(), version, idle: None });
            self.slots.len() - 1
        })
    }

    async fn take_usable(&mut self, slot: usize, now: Instant) -> Result<Option<Connection>, ClientError> {
        let Some(mut connection) = self.slots[slot].idle.take() else { return Ok(None) };
        let usable = match &mut connection {
            Connection::Http1(connection) => connection.was_just_used(now) || connection.is_usable().await?,
            Connection::Http2(connection) => connection.was_just_used(now) || connection.is_usable().await,
        };
        Ok(usable.then_some(connection))
    }
}

/// A user that is dropped, such as one of `setup`, uses no shared connections either.
impl Drop for Pool {
    fn drop(&mut self) {
        self.leave();
    }
}

async fn open(
    request: &Request<'_>,
    worker: &Worker,
    phases: &mut Phases,
) -> Result<Connection, ClientError> {
    let opened = worker.connector.connect(request.origin, request.version, phases).await?;
    let settings = &worker.connector.settings;
    Ok(if opened.http2 {
        Connection::Http2(Rc::new(Http2::new(opened, settings.options.limits, None)))
    } else {
        Connection::Http1(Box::new(Http1::new(opened, settings)))
    })
}

/// Opens a connection to `origin` and drops it, to check that a server is there and TLS works. Listens for a moment: what
/// a server says before it is asked must not count as an answer. `version`: which its requests need.
///
/// # Errors
/// See [`ClientError`]; no answer within `limit` is an error of connecting.
pub async fn probe(
    origin: &Origin,
    version: Version,
    settings: &Arc<Settings>,
    limit: Duration,
) -> Result<(), ClientError> {
    let worker = Worker::current(settings);
    let mut phases = Phases::default();
    let connecting = worker.connector.connect(origin, version, &mut phases);
    let connected = tokio::time::timeout(limit, connecting).await;
    let proxy = settings.options.proxies.of(origin).map(|proxy| &proxy.origin);
    let (seconds, address) = (limit.as_secs(), proxy.unwrap_or(origin).authority.clone());
    match connected {
        Ok(opened) => {
            let opened = opened?;
            if opened.http2 {
                return Ok(());
            }
            let speaks_first = Http1::new(opened, settings).speaks_first().await;
            let speaks_first = speaks_first.map_err(|alert| ClientError::refused_by_tls(&address, alert))?;
            settings.speaks_first.fetch_or(speaks_first, Ordering::Relaxed);
            Ok(())
        }
        Err(_) if phases.connect_ns > 0 => {
            let reason = format!("no answer within {seconds} s; does that port speak TLS?");
            Err(ClientError::Tls { address, reason })
        }
        Err(_) if phases.resolve_ns > 0 => {
            Err(ClientError::Connect { address, reason: format!("no answer within {seconds} s") })
        }
        Err(_) => {
            let reason = format!("no DNS server answered within {seconds} s");
            Err(ClientError::Resolve { host: origin.host.clone(), reason })
        }
    }
}
