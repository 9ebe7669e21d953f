//! The connections of one virtual user: one to each origin, kept alive between requests.

use std::sync::Arc;
use std::time::Instant;

use rustls::ClientConfig;

use super::connect::connect;
use super::error::ClientError;
use super::http1::Http1;
use super::url::Origin;
use super::{Answer, Phases, Request};

/// The largest answer that is read, in bytes.
pub const BODY_BYTES_MAX: u64 = 64 << 20;

/// The connections of one virtual user. It serves one request at a time and never leaves its thread.
pub struct Pool {
    tls: Arc<ClientConfig>,
    slots: Vec<Slot>,
    body_bytes_max: u64,
}

/// One origin and the connection to it, if there is one that nobody uses.
struct Slot {
    origin: Origin,
    idle: Option<Http1>,
}

impl Pool {
    /// No connection yet.
    #[must_use]
    pub fn new(tls: Arc<ClientConfig>, body_bytes_max: u64) -> Self {
        Self { tls, slots: Vec::new(), body_bytes_max }
    }

    /// Sends a request and reads its answer. A connection is reused if there is one; nothing is
    /// sent twice. Cancelling drops the connection.
    ///
    /// # Errors
    /// See [`ClientError`]; `phases` holds what had happened until then.
    pub async fn send(&mut self, request: Request<'_>, phases: &mut Phases) -> Result<Answer, ClientError> {
        let slot = self.slot(request.origin);
        let mut connection = match self.take_usable(slot, request.started).await {
            Some(connection) => connection,
            None => Http1::new(connect(request.origin, &self.tls, phases).await?),
        };
        let answer = connection.exchange(&request, self.body_bytes_max, phases).await?;
        // Only a connection whose answer was read to its end may serve again.
        self.slots[slot].idle = Some(connection);
        Ok(answer)
    }

    fn slot(&mut self, origin: &Origin) -> usize {
        self.slots.iter().position(|slot| slot.origin == *origin).unwrap_or_else(|| {
            self.slots.push(Slot { origin: origin.clone(), idle: None });
            self.slots.len() - 1
        })
    }

    async fn take_usable(&mut self, slot: usize, now: Instant) -> Option<Http1> {
        let mut connection = self.slots[slot].idle.take()?;
        connection.is_usable(now).await.then_some(connection)
    }
}

/// Opens a connection to `origin` and drops it: is anybody there, and does TLS work?
///
/// # Errors
/// See [`ClientError`]; a host that does not answer within `limit` is one that cannot be connected to.
pub async fn probe(
    origin: &Origin,
    tls: &Arc<ClientConfig>,
    limit: std::time::Duration,
) -> Result<(), ClientError> {
    let mut phases = Phases::default();
    match tokio::time::timeout(limit, connect(origin, tls, &mut phases)).await {
        Ok(connected) => connected.map(|_| ()),
        Err(_) if phases.connect_ns > 0 => Err(ClientError::Tls {
            address: origin.authority.clone(),
            reason: format!("no answer within {} s; does that port speak TLS?", limit.as_secs()),
        }),
        Err(_) => Err(ClientError::Connect {
            address: origin.authority.clone(),
            reason: format!("no answer within {} s", limit.as_secs()),
        }),
    }
}
