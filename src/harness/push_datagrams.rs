//! Pushes of metrics in datagrams, to StatsD.
//!
//! Nobody answers a datagram. The system reports only that nothing listens at an address of this machine, and that is said.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::UdpSocket;

use super::push::{FailureKind, PushFailure, PushRoute};
use super::push_options::StatsdAddress;

/// The most bytes of a datagram: what an Ethernet packet holds, with room for tunnels.
pub(super) const DATAGRAM_BYTES_MAX: usize = 1_432;

/// After this many datagrams comes a pause.
const AT_ONCE: usize = 16;
const PAUSE: Duration = Duration::from_millis(2);

/// A receiver of datagrams.
pub(super) struct DatagramRoute {
    address: StatsdAddress,
    socket: Option<UdpSocket>,
    /// The figures that could not be sent whole, and how many datagrams of them were.
    begun: Option<(Bytes, usize)>,
}

impl DatagramRoute {
    pub(super) fn new(address: StatsdAddress) -> Self {
        Self { address, socket: None, begun: None }
    }

    async fn connected(&mut self) -> std::io::Result<&UdpSocket> {
        if self.socket.is_none() {
            let found = tokio::net::lookup_host((self.address.host.as_str(), self.address.port)).await?;
            let mut found: Vec<SocketAddr> = found.collect();
            // `localhost` is often both, and StatsD listens at IPv4 only unless it is told otherwise.
            found.sort_by_key(SocketAddr::is_ipv6);
            let first = found.first().ok_or(std::io::ErrorKind::NotFound)?;
            let any =
                if first.is_ipv6() { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
            let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
            socket.connect(first).await?;
            self.socket = Some(socket);
        }
        self.socket.as_ref().ok_or_else(|| std::io::ErrorKind::NotConnected.into())
    }

    async fn send_from(&mut self, figures: &Bytes, sent: &mut usize) -> std::io::Result<()> {
        let socket = self.connected().await?;
        for datagram in datagrams(figures).skip(*sent) {
            socket.send(datagram).await?;
            *sent += 1;
            // A receiver that reads one by one must find time between them: what its socket has no room for is lost.
            if sent.is_multiple_of(AT_ONCE) {
                tokio::time::sleep(PAUSE).await;
            }
        }
        Ok(())
    }
}

impl PushRoute for DatagramRoute {
    fn gap(&self) -> &'static str {
        "what was counted then is missing there"
    }

    async fn send(&mut self, figures: Bytes) -> Result<(), PushFailure> {
        // What was sent already would be counted twice.
        let begun = self.begun.take().filter(|(known, _)| known.as_ptr() == figures.as_ptr());
        let mut sent = begun.map_or(0, |(_, sent)| sent);
        if let Err(error) = self.send_from(&figures, &mut sent).await {
            // The address of a name may be another one the next time.
            self.socket = None;
            self.begun = Some((figures, sent));
            let StatsdAddress { host, port, .. } = &self.address;
            let why = format!("{host}:{port}: {error}");
            return Err(PushFailure { why, kind: FailureKind::Away });
        }
        Ok(())
    }
}

/// As many whole lines in each as there is room for, without the last line's end.
fn datagrams(lines: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = lines;
    std::iter::from_fn(move || {
        rest = rest.strip_suffix(b"\n").unwrap_or(rest);
        if rest.is_empty() {
            return None;
        }
        let room = rest.get(..=DATAGRAM_BYTES_MAX);
        let Some(room) = room else { return Some(std::mem::take(&mut rest)) };
        let is_end = |sign: &u8| *sign == b'\n';
        // A line that is too long by itself goes alone.
        let end =
            room.iter().rposition(is_end).or_else(|| rest.iter().position(is_end)).unwrap_or(rest.len());
        let (first, after) = rest.split_at(end);
        rest = after.strip_prefix(b"\n").unwrap_or(after);
        Some(first)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_line_is_cut_or_lost(lengths in proptest::collection::vec(1_usize..700, 0..40)) {
            let lines: Vec<String> = lengths.iter().map(|length| "x".repeat(*length)).collect();
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let sent: Vec<&[u8]> = datagrams(text.as_bytes()).collect();
            prop_assert!(sent.iter().all(|one| (1..=DATAGRAM_BYTES_MAX).contains(&one.len())));
            prop_assert_eq!(sent.join(&b'\n'), lines.join("\n").into_bytes());
            // None has room for the first line of the next.
            for pair in sent.windows(2) {
                let next = pair[1].split(|sign| *sign == b'\n').next().unwrap_or_default();
                prop_assert!(pair[0].len() + 1 + next.len() > DATAGRAM_BYTES_MAX);
            }
        }
    }

    #[test]
    fn a_long_line_goes_alone() {
        let long = "x".repeat(DATAGRAM_BYTES_MAX + 1);
        let text = format!("a\n{long}\nb\n");
        let sent: Vec<_> = datagrams(text.as_bytes()).collect();
        assert_eq!(sent, [&b"a"[..], long.as_bytes(), b"b"]);
    }
}
