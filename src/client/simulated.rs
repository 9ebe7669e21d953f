//! The network of a simulation: connections of a thread to peers within it, which answer when they say.
//!
//! Nothing here draws or decides anything: what a peer does is the simulation's own.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use base::clock::now;

/// Opens connections.
pub trait NetworkModel {
    /// How long it takes to reach this host and port, and who is there.
    fn connect(&mut self, authority: &str) -> (Duration, io::Result<Box<dyn Peer>>);
}

/// The far end of a connection.
pub trait Peer: Send {
    /// Takes bytes, at least one, and returns how many were taken; what it sends goes into `sent`.
    fn take(&mut self, bytes: &[u8], sent: &mut Vec<PeerTransmission>) -> usize;
}

/// What a peer sends.
#[derive(Debug)]
pub struct PeerTransmission {
    /// How long after the bytes that it answers. What is sent later never arrives earlier.
    pub after: Duration,
    /// What.
    pub what: PeerEvent,
}

/// What arrives from a peer.
#[derive(Debug)]
pub enum PeerEvent {
    /// Bytes of the answer.
    Bytes(Vec<u8>),
    /// The end of the connection.
    End,
    /// A reset.
    Reset,
}

thread_local! {
    static NETWORK: RefCell<Option<Box<dyn NetworkModel>>> = const { RefCell::new(None) };
}

/// Gives this thread the connections of `network`.
pub fn set(network: Option<Box<dyn NetworkModel>>) {
    NETWORK.set(network);
}

/// A connection; `None` if this thread has no simulated network.
pub(super) async fn connect(authority: &str) -> Option<io::Result<Line>> {
    let (takes, peer) =
        NETWORK.with_borrow_mut(|network| network.as_mut().map(|network| network.connect(authority)))?;
    if !takes.is_zero() {
        tokio::time::sleep(takes).await;
    }
    Some(peer.map(|peer| Line { peer, sent: Vec::new(), inbox: VecDeque::new(), sleep: None, reader: None }))
}

/// A connection to a peer.
pub(super) struct Line {
    peer: Box<dyn Peer>,
    sent: Vec<PeerTransmission>,
    /// What is on its way, with the time when it arrives.
    inbox: VecDeque<(Instant, PeerEvent)>,
    sleep: Option<Pin<Box<Sleep>>>,
    /// Waits for something to arrive, while nothing is on its way.
    reader: Option<Waker>,
}

impl Line {
    /// What has arrived and was not read.
    pub(super) fn arrived(&self) -> Option<&PeerEvent> {
        self.inbox.front().filter(|(due, _)| *due <= now()).map(|(_, what)| what)
    }

    fn send(&mut self, bytes: &[u8]) -> usize {
        let taken = self.peer.take(bytes, &mut self.sent);
        for PeerTransmission { after, what } in self.sent.drain(..) {
            let earliest = self.inbox.back().map(|(due, _)| *due);
            let due = now() + after;
            self.inbox.push_back((earliest.map_or(due, |earliest| due.max(earliest)), what));
        }
        if !self.inbox.is_empty() {
            self.reader.take().into_iter().for_each(Waker::wake);
        }
        taken
    }
}

impl AsyncRead for Line {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let line = self.get_mut();
        loop {
            // The peer is quiet until something is sent to it.
            let Some((due, what)) = line.inbox.front_mut() else {
                line.reader = Some(cx.waker().clone());
                return Poll::Pending;
            };
            let wait = due.saturating_duration_since(now());
            if !wait.is_zero() {
                let sleep = line.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
                if sleep.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                line.sleep = None;
                continue;
            }
            line.sleep = None;
            match what {
                PeerEvent::Bytes(bytes) => {
                    let fits = bytes.len().min(buffer.remaining());
                    buffer.put_slice(&bytes[..fits]);
                    bytes.drain(..fits);
                    if bytes.is_empty() {
                        line.inbox.pop_front();
                    }
                    return Poll::Ready(Ok(()));
                }
                PeerEvent::End => return Poll::Ready(Ok(())),
                PeerEvent::Reset => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            }
        }
    }
}

impl AsyncWrite for Line {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let line = self.get_mut();
        if let Some(PeerEvent::End | PeerEvent::Reset) = line.arrived() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Poll::Ready(Ok(if bytes.is_empty() { 0 } else { line.send(bytes) }))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
