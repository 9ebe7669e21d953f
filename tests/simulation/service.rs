//! The service: answers what it draws, torn into pieces, late, wrong or never, and remembers the truth.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench::base::clock::now;
use bench::client::simulated::{NetworkModel, Peer, PeerEvent, PeerTransmission};
use bench::runner::simulated::is_here;
use fastrand::Rng;

use crate::scene::{ServiceFaults, ms};

/// What the service knows of a request of the load, in nanoseconds from the anchor of the process's clock.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Truth {
    /// When it had arrived whole.
    pub(crate) arrived_ns: u64,
    /// When the last byte of a whole answer with status 200 reaches the client; absent if it never does.
    pub(crate) answered_ns: Option<u64>,
}

/// What a request's path says: workload, iteration, action.
pub(crate) type SimulatedRequestKey = (u16, u64, u32);

/// The truth of all requests that were sent, in order.
pub(crate) type RequestTruthMap = Arc<Mutex<BTreeMap<SimulatedRequestKey, Vec<Truth>>>>;

/// The network of a process.
pub(crate) struct Net {
    service: ServiceFaults,
    rng: Rng,
    anchor: Instant,
    seen: RequestTruthMap,
}

impl Net {
    pub(crate) fn new(service: &ServiceFaults, rng: Rng, anchor: Instant, seen: &RequestTruthMap) -> Self {
        Self { service: service.clone(), rng, anchor, seen: Arc::clone(seen) }
    }
}

impl NetworkModel for Net {
    fn connect(&mut self, _: &str) -> (Duration, io::Result<Box<dyn Peer>>) {
        let mut service = ServiceFaults { pieces: 1, ..ServiceFaults::default() };
        if is_here() {
            service = self.service.clone();
        }
        let takes = if service.connect_ms > 0 { self.rng.u64(0..=service.connect_ms) } else { 0 };
        if self.rng.u32(0..1_000) < service.refused {
            return (ms(takes.max(1)), Err(io::ErrorKind::ConnectionRefused.into()));
        }
        let (rng, seen) = (self.rng.fork(), Arc::clone(&self.seen));
        (
            ms(takes),
            Ok(Box::new(SimulatedServer {
                service,
                rng,
                anchor: self.anchor,
                seen,
                head: Vec::new(),
                is_over: false,
            })),
        )
    }
}

/// The service's end of a connection.
struct SimulatedServer {
    service: ServiceFaults,
    rng: Rng,
    anchor: Instant,
    seen: RequestTruthMap,
    head: Vec<u8>,
    is_over: bool,
}

impl Peer for SimulatedServer {
    fn take(&mut self, bytes: &[u8], sent: &mut Vec<PeerTransmission>) -> usize {
        let taken = self.rng.usize(1..=bytes.len());
        if self.is_over {
            return taken;
        }
        self.head.extend_from_slice(&bytes[..taken]);
        while let Some(end) = self.head.windows(4).position(|four| four == b"\r\n\r\n") {
            let head: Vec<u8> = self.head.drain(..end + 4).collect();
            self.answer(&String::from_utf8(head).unwrap(), sent);
        }
        taken
    }
}

impl SimulatedServer {
    fn meets(&mut self, per_mille: u32) -> bool {
        self.rng.u32(0..1_000) < per_mille
    }

    /// How long the service takes for a request that arrives now.
    fn takes(&mut self) -> Duration {
        let service = &self.service;
        let slow = self.rng.u32(0..1_000) < service.slow;
        let most = if slow { service.slow_ms } else { service.typical_ms };
        // Some time must pass, or a load that lasts for a time never ends.
        let mut takes = ms(if is_here() { self.rng.u64(1..=most.max(1)) } else { 0 });
        if let Some((from, lasts)) = service.stall {
            let (from, arrived) = (self.anchor + ms(from), now());
            if arrived >= from && arrived < from + ms(lasts) {
                takes += from + ms(lasts) - arrived;
            }
        }
        takes
    }

    fn answer(&mut self, head: &str, sent: &mut Vec<PeerTransmission>) {
        let takes = self.takes();
        let body = "x".repeat(self.rng.usize(0..2_000));
        let mut status = "200 OK";
        if self.meets(self.service.errors) {
            status = *self.rng.choice(["500 Oops", "404 Not Found", "503 Busy"].iter()).unwrap();
        }
        let closes = self.meets(self.service.closes);
        let mut answer = format!("HTTP/1.1 {status}\r\n");
        if closes && self.rng.bool() {
            answer += "connection: close\r\n";
        }
        if self.rng.bool() {
            write!(answer, "content-length: {}\r\n\r\n{body}", body.len()).unwrap();
        } else {
            answer += "transfer-encoding: chunked\r\n\r\n";
            if !body.is_empty() {
                write!(answer, "{:x}\r\n{body}\r\n", body.len()).unwrap();
            }
            answer += "0\r\n\r\n";
        }
        let mut whole = status == "200 OK";
        let (mut end, mut bytes) = (None, answer.into_bytes());
        if self.meets(self.service.silence) {
            (bytes, whole, self.is_over) = (Vec::new(), false, true);
        } else if self.meets(self.service.garbage) {
            (bytes, whole) = ((0..self.rng.usize(1..200)).map(|_| self.rng.u8(..)).collect(), false);
            // No head of HTTP begins like this.
            bytes[0] = 0;
        } else if self.meets(self.service.cut_off) {
            bytes.truncate(self.rng.usize(0..bytes.len()));
            (end, whole) = (Some(PeerEvent::End), false);
        } else if self.meets(self.service.resets) {
            bytes.truncate(self.rng.usize(0..bytes.len()));
            (end, whole) = (Some(PeerEvent::Reset), false);
        } else if closes {
            end = Some(PeerEvent::End);
        }
        let last = self.send(takes, bytes, sent);
        if let Some(what) = end {
            self.is_over = true;
            sent.push(PeerTransmission { after: last + ms(self.rng.u64(0..20)), what });
        }
        if let Some(asked) = asked(head).filter(|_| is_here()) {
            let since = |at: Instant| u64::try_from((at - self.anchor).as_nanos()).unwrap();
            let truth = Truth { arrived_ns: since(now()), answered_ns: whole.then(|| since(now() + last)) };
            self.seen.lock().unwrap().entry(asked).or_default().push(truth);
        }
    }

    /// Sends in pieces; says how long after now the last one arrives.
    fn send(&mut self, mut after: Duration, bytes: Vec<u8>, sent: &mut Vec<PeerTransmission>) -> Duration {
        let pieces = self.rng.u32(1..=self.service.pieces);
        let mut rest = bytes.as_slice();
        for piece in 0..pieces {
            let length = if piece + 1 == pieces { rest.len() } else { self.rng.usize(0..=rest.len()) };
            if piece > 0 && !rest.is_empty() {
                after += ms(self.rng.u64(0..8));
            }
            if length > 0 {
                sent.push(PeerTransmission { after, what: PeerEvent::Bytes(rest[..length].to_vec()) });
            }
            rest = &rest[length..];
        }
        after
    }
}

fn asked(head: &str) -> Option<SimulatedRequestKey> {
    let path = head.strip_prefix("GET /")?.split(' ').next()?;
    let mut parts = path.split('/');
    let asked = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some(asked)
}
