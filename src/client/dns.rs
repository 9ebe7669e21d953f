//! Asks DNS servers for the addresses of a name and their time to live.
//!
//! A stub resolver: it uses UDP, or TCP if an answer does not fit. It asks for A and AAAA records at the same
//! time, and tries servers in turn. Answers are bounded and must match the question. Caching is in
//! [`super::resolve`]. This is the only file that uses simple-dns.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use simple_dns::rdata::RData;
use simple_dns::{CLASS, Name, Packet, PacketFlag, QCLASS, QTYPE, Question, RCODE, TYPE};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpStream, UdpSocket};

/// The largest answer over UDP, and over TCP.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
/// The most addresses of a name that are used.
const ADDRESSES_MAX: usize = 64;
/// After this many answers to other questions, the server is given up.
const STRANGERS_MAX: usize = 16;
/// How long the answer for the other kind of address is waited for once there are addresses of one kind.
const OTHER_KIND_MAX: Duration = Duration::from_millis(250);

/// A server's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AddressRecords {
    pub(super) addresses: Vec<IpAddr>,
    /// Addresses that are tried only if none of the others can be reached.
    pub(super) spare: Vec<IpAddr>,
    /// Their time to live.
    pub(super) ttl: Duration,
}

/// Why there are no addresses.
#[derive(Debug)]
pub(super) enum LookupError {
    /// A server answered that there are none.
    NoSuchName(String),
    /// No server gave a usable answer.
    NoAnswer(String),
    /// This machine cannot send a query: it is out of descriptors or ports.
    Here(io::Error),
}

impl std::fmt::Display for LookupError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoSuchName(reason) | Self::NoAnswer(reason) => formatter.write_str(reason),
            Self::Here(error) => error.fmt(formatter),
        }
    }
}

/// Which servers to ask, for how long and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Servers {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) timeout: Duration,
    pub(super) attempts: u32,
}

/// Asks the servers in turn for the addresses of `name`, which must be complete.
pub(super) async fn ask(servers: &Servers, name: &str) -> Result<AddressRecords, LookupError> {
    let mut missed = LookupError::NoAnswer("there is no DNS server to ask".to_owned());
    for _ in 0..servers.attempts.max(1) {
        for server in &servers.addresses {
            match tokio::time::timeout(servers.timeout, ask_one(*server, name)).await {
                Ok(Ok(found)) => return Ok(found),
                Ok(Err(no @ (LookupError::NoSuchName(_) | LookupError::Here(_)))) => return Err(no),
                Ok(Err(no)) => missed = no,
                Err(_) => {
                    let limit = servers.timeout.as_secs_f64();
                    missed = LookupError::NoAnswer(format!(
                        "the DNS server {server} did not answer within {limit} s"
                    ));
                }
            }
        }
    }
    Err(missed)
}

/// IPv4 and IPv6 addresses from a server; either kind is enough.
async fn ask_one(server: SocketAddr, name: &str) -> Result<AddressRecords, LookupError> {
    let (four, six) = both(exchange(server, name, TYPE::A), exchange(server, name, TYPE::AAAA)).await;
    let (first, second) = match (four, six) {
        (Ok(four), Ok(six)) => (four, Some(six)),
        (Ok(one), Err(_)) | (Err(_), Ok(one)) if !one.addresses.is_empty() => (one, None),
        (Err(error), _) | (_, Err(error)) => return Err(error),
    };
    let mut found = first;
    if let Some(second) = second {
        found.ttl = match (found.addresses.is_empty(), second.addresses.is_empty()) {
            (true, _) => second.ttl,
            (false, true) => found.ttl,
            (false, false) => found.ttl.min(second.ttl),
        };
        found.addresses.extend(second.addresses);
    }
    if found.addresses.is_empty() {
        return Err(LookupError::NoSuchName(format!(
            "{name} has no address according to the DNS server {server}"
        )));
    }
    found.addresses.truncate(ADDRESSES_MAX);
    Ok(found)
}

/// Waits for both answers, but not long for one of them once the other has addresses: some servers never answer a
/// question for AAAA (RFC 8305, section 3).
async fn both(
    four: impl Future<Output = Result<AddressRecords, LookupError>>,
    six: impl Future<Output = Result<AddressRecords, LookupError>>,
) -> (Result<AddressRecords, LookupError>, Result<AddressRecords, LookupError>) {
    async fn other(
        first: &Result<AddressRecords, LookupError>,
        waited_for: impl Future<Output = Result<AddressRecords, LookupError>>,
    ) -> Result<AddressRecords, LookupError> {
        if first.as_ref().is_ok_and(|found| !found.addresses.is_empty()) {
            let silent = |_| Err(LookupError::NoAnswer("no answer in time".to_owned()));
            tokio::time::timeout(OTHER_KIND_MAX, waited_for).await.unwrap_or_else(silent)
        } else {
            waited_for.await
        }
    }
    match select(pin!(four), pin!(six)).await {
        Either::Left((four, six)) => {
            let six = other(&four, six).await;
            (four, six)
        }
        Either::Right((six, four)) => (other(&six, four).await, six),
    }
}

async fn exchange(server: SocketAddr, name: &str, kind: TYPE) -> Result<AddressRecords, LookupError> {
    let id = random_id();
    let query = query(id, name, kind).map_err(LookupError::NoAnswer)?;
    let failed = |error: io::Error| match error.raw_os_error() {
        _ if super::error::is_exhausted(&error) => LookupError::Here(error),
        _ => LookupError::NoAnswer(format!("the DNS server {server} cannot be asked: {error}")),
    };
    let local: IpAddr =
        if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((local, 0)).await.map_err(failed)?;
    // Connected, so that the system accepts answers only from this server.
    socket.connect(server).await.map_err(failed)?;
    socket.send(&query).await.map_err(failed)?;
    let mut buffer = vec![0; ANSWER_BYTES_MAX];
    for _ in 0..STRANGERS_MAX {
        let length = socket.recv(&mut buffer).await.map_err(failed)?;
        match read(&buffer[..length], id, name, kind, server) {
            DnsReply::Found(found) => return Ok(found),
            DnsReply::LookupError(missed) => return Err(missed),
            DnsReply::Truncated => return over_tcp(server, &query, id, name, kind).await,
            DnsReply::Stranger => {}
        }
    }
    Err(LookupError::NoAnswer(format!("the DNS server {server} answered a different question")))
}

async fn over_tcp(
    server: SocketAddr,
    query: &[u8],
    id: u16,
    name: &str,
    kind: TYPE,
) -> Result<AddressRecords, LookupError> {
    let failed = |error: io::Error| {
        if super::error::is_exhausted(&error) {
            return LookupError::Here(error);
        }
        LookupError::NoAnswer(format!("the DNS server {server} cannot be asked over TCP: {error}"))
    };
    let mut stream = TcpStream::connect(server).await.map_err(failed)?;
    let length = u16::try_from(query.len()).unwrap_or(u16::MAX);
    stream.write_all(&[&length.to_be_bytes(), query].concat()).await.map_err(failed)?;
    let length = usize::from(stream.read_u16().await.map_err(failed)?);
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).await.map_err(failed)?;
    match read(&answer, id, name, kind, server) {
        DnsReply::Found(found) => Ok(found),
        DnsReply::LookupError(missed) => Err(missed),
        DnsReply::Truncated | DnsReply::Stranger => {
            Err(LookupError::NoAnswer(format!("the DNS server {server} sent an incomplete answer")))
        }
    }
}

fn query(id: u16, name: &str, kind: TYPE) -> Result<Vec<u8>, String> {
    let mut packet = Packet::new_query(id);
    packet.set_flags(PacketFlag::RECURSION_DESIRED);
    let name = Name::new(name).map_err(|_| format!("`{name}` is not a valid DNS name"))?;
    packet.questions.push(Question::new(name, QTYPE::TYPE(kind), QCLASS::CLASS(CLASS::IN), false));
    packet.build_bytes_vec().map_err(|error| error.to_string())
}

/// The meaning of a packet.
enum DnsReply {
    Found(AddressRecords),
    LookupError(LookupError),
    Truncated,
    /// Not an answer to this question.
    Stranger,
}

fn read(bytes: &[u8], id: u16, name: &str, kind: TYPE, server: SocketAddr) -> DnsReply {
    let Ok(packet) = Packet::parse(bytes) else { return DnsReply::Stranger };
    let asked = packet.questions.first().is_some_and(|question| {
        question.qtype == QTYPE::TYPE(kind) && question.qname.to_string().eq_ignore_ascii_case(name)
    });
    if packet.id() != id || !packet.has_flags(PacketFlag::RESPONSE) || !asked {
        return DnsReply::Stranger;
    }
    if packet.has_flags(PacketFlag::TRUNCATION) {
        return DnsReply::Truncated;
    }
    match packet.rcode() {
        RCODE::NoError => {}
        RCODE::NameError => {
            return DnsReply::LookupError(LookupError::NoSuchName(format!(
                "there is no such name according to the DNS server {server}"
            )));
        }
        other => {
            return DnsReply::LookupError(LookupError::NoAnswer(format!(
                "the DNS server {server} answered {other:?}"
            )));
        }
    }
    // A chain of aliases is valid only as long as each of its links.
    let ttl = packet.answers.iter().map(|record| record.ttl).min().unwrap_or(0);
    let addresses = packet.answers.iter().filter_map(|record| match &record.rdata {
        RData::A(a) if kind == TYPE::A => Some(IpAddr::from(Ipv4Addr::from(a.address))),
        RData::AAAA(a) if kind == TYPE::AAAA => Some(IpAddr::from(Ipv6Addr::from(a.address))),
        _ => None,
    });
    let addresses = addresses.take(ADDRESSES_MAX).collect();
    DnsReply::Found(AddressRecords { addresses, spare: Vec::new(), ttl: Duration::from_secs(ttl.into()) })
}

/// The parts that an attacker who cannot see the query would have to guess.
fn random_id() -> u16 {
    let bytes = uuid::Uuid::new_v4().into_bytes();
    u16::from_be_bytes([bytes[0], bytes[1]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 53);

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _ = read(&bytes, 1, "a.example", TYPE::A, SERVER);
        }

        #[test]
        fn no_mutation_of_an_answer_makes_it_panic(at in any::<usize>(), byte in any::<u8>(), cut in any::<usize>()) {
            let mut bytes = query(1, "a.example", TYPE::A).unwrap();
            bytes[2] |= 0x80;
            bytes[7] = 1;
            // A pointer to the name, A, IN, TTL 60, an address.
            bytes.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
            let whole = read(&bytes, 1, "a.example", TYPE::A, SERVER);
            prop_assert!(matches!(whole, DnsReply::Found(found) if found.ttl.as_secs() == 60 && found.addresses.len() == 1));
            let at = at % bytes.len();
            bytes[at] = byte;
            let _ = read(&bytes, 1, "a.example", TYPE::A, SERVER);
            let _ = read(&bytes[..cut % bytes.len()], 1, "a.example", TYPE::A, SERVER);
        }
    }

    #[test]
    fn names_that_cannot_be_asked_for_are_refused() {
        assert!(query(1, &"a".repeat(64), TYPE::A).is_err());
        assert!(query(1, &"a.".repeat(200), TYPE::A).is_err());
        assert!(query(1, "a.example", TYPE::AAAA).is_ok());
    }
}
