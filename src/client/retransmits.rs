//! What TCP had to repeat while a request was slow.
//!
//! A full queue of connections and a network that loses packets look alike from outside. A request waits for a timer of
//! the kernel, 1 s for a connection and 200 ms or more for data. Linux counts what it sends again, and tells it on
//! request (`sock_diag(7)`; `ss -i` shows the same). Only slow requests ask. Fast ones make no system call for this,
//! but a new connection of HTTP/2 makes two, for its addresses.
//!
//! Three things are not known: a lost end of an answer, which the service sends again; segments out of order after other
//! large answers on the same connection; and connections that were never opened.

use std::cell::Cell;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use measure::phases::{Retransmits, SLOW_CONNECT};

/// The kernel waits for at least this long before it repeats the last segment of what it sent (`TCP_RTO_MIN`).
const SLOW: Duration = Duration::from_millis(200);
/// A segment that is sent again sooner than this after the request was written delays it little.
const SOON: Duration = Duration::from_millis(100);
/// Shorter answers are a single segment, which is never out of order.
const SEGMENT_BYTES: u64 = 1_000;

/// The two ends of a connection, the own one first.
pub(super) type Ends = (SocketAddr, SocketAddr);

/// What the kernel has counted since a connection exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Totals {
    resent: u32,
    out_of_order: u32,
}

/// What the kernel tells of a connection now.
#[derive(Clone, Copy, Debug)]
struct TcpSnapshot {
    totals: Totals,
    /// How long ago it sent data for the last time, again or not.
    sent_ago: Duration,
}

/// When a request began, when it was written, and when it ended or was given up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) started: Instant,
    pub(super) written: Instant,
    pub(super) ended: Instant,
}

/// What is known of a connection's repetitions.
#[derive(Debug)]
pub(super) struct Wire {
    known: Cell<Totals>,
    /// True if fast answers of several segments came since then: what was out of order may be theirs.
    is_stale: Cell<bool>,
    /// If several users share it: when it was last asked for.
    shared: Option<Cell<Instant>>,
    /// Of a shared connection: from when to when the counts grew last, and by how much.
    grown: Cell<Option<(Instant, Instant, Totals)>>,
}

impl Wire {
    /// A new connection, for which the kernel asked again so often. Of one that is shared, when it was opened.
    pub(super) fn new(syns: u8, shared: Option<Instant>) -> Self {
        let known = Totals { resent: syns.into(), out_of_order: 0 };
        Self {
            known: Cell::new(known),
            is_stale: Cell::default(),
            shared: shared.map(Cell::new),
            grown: Cell::default(),
        }
    }

    /// Notes what was repeated during a request, if it was slow. `answer_bytes` is the length of its answer.
    #[inline]
    pub(super) fn note(
        &self,
        ends: impl FnOnce() -> Option<Ends>,
        span: Span,
        answer_bytes: u64,
        noted: &mut Retransmits,
    ) {
        if span.ended.saturating_duration_since(span.started) >= SLOW {
            *noted = noted.and(self.of(ends(), span));
        } else if answer_bytes > SEGMENT_BYTES {
            self.is_stale.set(true);
        }
    }

    #[cold]
    fn of(&self, ends: Option<Ends>, span: Span) -> Retransmits {
        let Some(TcpSnapshot { totals, sent_ago }) = ends.and_then(told) else {
            return Retransmits::default();
        };
        let before = self.known.replace(totals);
        let mut grown = Totals {
            resent: totals.resent.saturating_sub(before.resent),
            out_of_order: totals.out_of_order.saturating_sub(before.out_of_order),
        };
        if self.is_stale.replace(false) {
            grown.out_of_order = 0;
        }
        if let Some(asked) = &self.shared {
            let since = asked.replace(span.ended);
            if grown != Totals::default() {
                self.grown.set(Some((since, span.ended, grown)));
            }
            grown = self
                .grown
                .get()
                .filter(|grown| is_mostly_in(span, *grown))
                .map_or(Totals::default(), |one| one.2);
        } else {
            // What was repeated soon after it was written, or before, did not make it slow.
            let last_sent = span.ended.checked_sub(sent_ago);
            if last_sent.is_none_or(|at| at < span.written + SOON) {
                grown.resent = 0;
            }
        }
        let of = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
        Retransmits { syns: 0, segments: of(grown.resent), out_of_order: of(grown.out_of_order) }
    }

    /// Notes the same of a request that is given up now, for [`take_cut_off`].
    pub(super) fn cut_off(&self, ends: impl FnOnce() -> Option<Ends>, started: Instant, written: Instant) {
        let mut noted = Retransmits::default();
        let span = Span { started, written, ended: base::clock::now() };
        self.note(ends, span, 0, &mut noted);
        if !noted.is_none() {
            CUT_OFF.set(Some((started, noted)));
        }
    }
}

/// Whether at least half of the time in which a connection's counts grew is within a request's.
fn is_mostly_in(span: Span, (from, to, _): (Instant, Instant, Totals)) -> bool {
    let within = span.ended.min(to).saturating_duration_since(span.started.max(from));
    2 * within >= to.saturating_duration_since(from)
}

thread_local! {
    /// What was repeated for the request of this thread that was given up last, and when that had started.
    static CUT_OFF: Cell<Option<(Instant, Retransmits)>> = const { Cell::new(None) };
}

/// What was repeated for a request that started then, or was redirected since, and was given up just now, on this thread.
#[must_use]
pub fn take_cut_off(started: Instant) -> Retransmits {
    let taken = CUT_OFF.take().filter(|(of, _)| *of >= started);
    taken.map_or_else(Retransmits::default, |(_, noted)| noted)
}

/// How often the kernel asked for a connection that took this long.
#[inline]
pub(super) fn syns(ends: impl FnOnce() -> Option<Ends>, took: Duration) -> u8 {
    if took < SLOW_CONNECT {
        return 0;
    }
    ends().and_then(told).map_or(0, |told| u8::try_from(told.totals.resent).unwrap_or(u8::MAX))
}

#[cfg(not(target_os = "linux"))]
fn told(_: Ends) -> Option<TcpSnapshot> {
    None
}

#[cfg(target_os = "linux")]
fn told(ends: Ends) -> Option<TcpSnapshot> {
    linux::told(ends)
}

/// The kernel's answer to `sock_diag` (`linux/inet_diag.h`, `linux/tcp.h`).
#[cfg(target_os = "linux")]
mod linux {
    use std::cell::{Cell, OnceCell};
    use std::net::{IpAddr, SocketAddr};
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
    };

    use super::{Ends, TcpSnapshot, Totals};

    const SOCK_DIAG_BY_FAMILY: u16 = 20;
    const NLM_F_REQUEST: u16 = 1;
    const NLMSG_ERROR: u16 = 2;
    const INET_DIAG_INFO: u16 = 2;
    const AF_INET: u8 = 2;
    const AF_INET6: u8 = 10;
    const IPPROTO_TCP: u8 = 6;
    /// `struct nlmsghdr`, and `struct inet_diag_msg`.
    const HEADER_BYTES: usize = 16;
    const MESSAGE_BYTES: usize = 72;
    const REQUEST_BYTES: usize = 72;
    /// Of `tcpi_last_data_sent`, in milliseconds, of `tcpi_total_retrans`, and `tcpi_rcv_ooopack` (Linux 5.4) in `struct tcp_info`.
    const LAST_DATA_SENT_AT: usize = 44;
    const TOTAL_RETRANS_AT: usize = 100;
    const OUT_OF_ORDER_AT: usize = 224;
    /// Answers to earlier questions that may lie before the last one's.
    const STALE_MAX: usize = 8;

    thread_local! {
        static SOCKET: OnceCell<Option<OwnedFd>> = const { OnceCell::new() };
        static ASKED: Cell<u32> = const { Cell::new(0) };
    }

    /// What the kernel tells of a connection; `None` if it does not know it, or does not tell.
    pub(super) fn told(ends: Ends) -> Option<TcpSnapshot> {
        let number = ASKED.replace(ASKED.get().wrapping_add(1));
        let asked = question(ends, number)?;
        SOCKET.with(|socket| {
            let socket = socket.get_or_init(open).as_ref()?;
            send(socket, &asked, SendFlags::DONTWAIT).ok()?;
            let mut answer = [0; 2_048];
            for _ in 0..STALE_MAX {
                // The kernel has answered when `send` returns.
                let (read, _) = recv(socket, answer.as_mut_slice(), RecvFlags::DONTWAIT).ok()?;
                let answer = &answer[..read];
                if u32_at(answer, 8) == Some(number) {
                    return read_told(answer);
                }
            }
            None
        })
    }

    fn open() -> Option<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(netlink::SOCK_DIAG)).ok()
    }

    fn question((own, other): (SocketAddr, SocketAddr), number: u32) -> Option<[u8; REQUEST_BYTES]> {
        let family = match (own.ip(), other.ip()) {
            (IpAddr::V4(_), IpAddr::V4(_)) => AF_INET,
            (IpAddr::V6(_), IpAddr::V6(_)) => AF_INET6,
            _ => return None,
        };
        let mut asked = [0; REQUEST_BYTES];
        let mut put = |at: usize, bytes: &[u8]| asked[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &(REQUEST_BYTES as u32).to_ne_bytes());
        put(4, &SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        put(6, &NLM_F_REQUEST.to_ne_bytes());
        put(8, &number.to_ne_bytes());
        put(16, &[family, IPPROTO_TCP, 1 << (INET_DIAG_INFO - 1), 0]);
        // In whatever state it is.
        put(20, &u32::MAX.to_ne_bytes());
        put(24, &own.port().to_be_bytes());
        put(26, &other.port().to_be_bytes());
        for (at, ip) in [(28, own.ip()), (44, other.ip())] {
            match ip {
                IpAddr::V4(ip) => put(at, &ip.octets()),
                IpAddr::V6(ip) => put(at, &ip.octets()),
            }
        }
        // Any interface; no cookie.
        put(64, &[0xff; 8]);
        Some(asked)
    }

    fn read_told(answer: &[u8]) -> Option<TcpSnapshot> {
        if u16_at(answer, 4)? == NLMSG_ERROR {
            return None;
        }
        let mut at = HEADER_BYTES + MESSAGE_BYTES;
        loop {
            let bytes = usize::from(u16_at(answer, at)?);
            if bytes < 4 {
                return None;
            }
            if u16_at(answer, at + 2)? == INET_DIAG_INFO {
                let info = answer.get(at + 4..at + bytes)?;
                let resent = u32_at(info, TOTAL_RETRANS_AT)?;
                let out_of_order = u32_at(info, OUT_OF_ORDER_AT).unwrap_or(0);
                let sent_ago = Duration::from_millis(u32_at(info, LAST_DATA_SENT_AT)?.into());
                return Some(TcpSnapshot { totals: Totals { resent, out_of_order }, sent_ago });
            }
            at += bytes.next_multiple_of(4);
        }
    }

    fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
        bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
    }

    fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
        bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
    }

    #[cfg(test)]
    mod tests {
        use proptest::prelude::*;

        use super::*;

        proptest! {
            #[test]
            fn any_answer_is_read_without_a_panic(
                bytes in proptest::collection::vec(any::<u8>(), 0..600),
                attributes in proptest::collection::vec((0..40_u16, 0..4_u16), 0..20),
            ) {
                read_told(&bytes);
                let mut answer = vec![0; HEADER_BYTES + MESSAGE_BYTES];
                for (length, kind) in attributes {
                    answer.extend(length.to_ne_bytes());
                    answer.extend(kind.to_ne_bytes());
                    answer.extend(vec![7; usize::from(length.saturating_sub(4))]);
                }
                read_told(&answer);
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_kernel_tells_of_its_connections_and_of_no_others() {
        for address in [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)] {
            let Ok(listener) = TcpListener::bind((address, 0)) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let ends = (client.local_addr().unwrap(), client.peer_addr().unwrap());
            let totals = |ends: Ends| told(ends).map(|told| told.totals);
            assert_eq!(totals(ends), Some(Totals::default()), "{address}");
            let none = (ends.0, SocketAddr::new(address, 1));
            assert_eq!(totals(none), None, "{address}");
            assert_eq!(totals(ends), Some(Totals::default()), "{address}");
        }
        let mixed = ("127.0.0.1:1".parse().unwrap(), "[::1]:1".parse().unwrap());
        assert!(told(mixed).is_none());
    }

    use std::net::IpAddr;

    /// A connection that waits in a full queue is asked for again after a second (measured), until there is room.
    #[test]
    fn a_full_queue_is_told_from_a_slow_one() {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        socket.listen(0).unwrap();
        let listener = TcpListener::from(socket);
        let address = listener.local_addr().unwrap();
        // One connection fills a queue of 0.
        let _first = TcpStream::connect(address).unwrap();
        let accepting = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(900));
            let first = listener.accept();
            (listener.accept(), first)
        });
        let started = Instant::now();
        let second = TcpStream::connect(address).unwrap();
        let took = started.elapsed();
        let ends = || Some((second.local_addr().unwrap(), second.peer_addr().unwrap()));
        assert!(took >= SLOW_CONNECT, "{took:?}");
        assert!(syns(ends, took) >= 1);
        assert_eq!(syns(ends, Duration::ZERO), 0);
        let span = Span { started, written: started, ended: Instant::now() };
        let noted_of = |wire: &Wire, span: Span| {
            let mut noted = Retransmits::default();
            wire.note(ends, span, 0, &mut noted);
            noted
        };
        // What was repeated before a request is none of it.
        assert_eq!(noted_of(&Wire::new(syns(ends, took), None), span), Retransmits::default());
        // A connection about which nothing was known before.
        let unknown = || Wire::new(0, None);
        let noted = noted_of(&unknown(), span);
        assert!(noted.segments >= 1 && noted.syns == 0, "{noted:?}");
        // What was sent last was the request itself.
        let late = Span { written: Instant::now(), ..span };
        assert_eq!(noted_of(&unknown(), late), Retransmits::default());
        // On a connection that is shared, it is that of requests that were under way for most of the time.
        let shared = Wire::new(0, Some(started));
        let short = Span { started: span.ended - SLOW, ..span };
        assert_eq!(noted_of(&shared, short), Retransmits::default());
        assert_eq!(noted_of(&shared, span), noted);
        let wire = unknown();
        wire.cut_off(ends, started, started);
        assert_eq!(take_cut_off(Instant::now()), Retransmits::default());
        unknown().cut_off(ends, started, started);
        assert_eq!(take_cut_off(started), noted);
        assert_eq!(take_cut_off(started), Retransmits::default());
        accepting.join().unwrap().0.unwrap();
    }
}
