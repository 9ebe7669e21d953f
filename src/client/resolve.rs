//! The addresses of hosts, kept per worker for as long as DNS says they hold.
//!
//! Whoever needs a name whose time is over asks again, once for all who wait. Connections go round
//! all addresses. A failure is kept for a moment too, so that a thousand users who open connections
//! do not ask a thousand times; an address is never used beyond its time.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::dns::{self, Found, Missed, Servers};
use super::error::{ClientError, is_exhausted};
use super::options::DnsOptions;
use super::system::System;

/// For how long addresses hold whose source tells nothing about that.
const TTL_UNKNOWN: Duration = Duration::from_secs(30);
/// Shorter than this nothing is kept: a TTL of 0 must not ask for each of 10,000 connections.
const TTL_MIN: Duration = Duration::from_secs(1);
const TTL_MAX: Duration = Duration::from_secs(24 * 3600);
/// For how long a failure is kept.
const FAILURE_KEPT: Duration = Duration::from_secs(1);
/// How long a server that the deployment names may take, and how often it is asked.
const OWN_TIMEOUT: Duration = Duration::from_secs(2);
const OWN_ATTEMPTS: u32 = 2;
/// Redirects may lead to many hosts; more than this are not kept.
const NAMES_MAX: usize = 1024;

/// The names of one worker.
pub(super) struct Resolver {
    lookup: Lookup,
    names: RefCell<HashMap<String, Rc<Entry>>>,
}

/// One name.
#[derive(Default)]
struct Entry {
    known: RefCell<Option<Known>>,
    /// Held by the one who asks; the others wait for it.
    asking: tokio::sync::Mutex<()>,
    /// Which address comes first next time.
    next: Cell<usize>,
}

struct Known {
    outcome: Result<Vec<IpAddr>, String>,
    until: Instant,
}

impl Resolver {
    pub(super) fn new(options: &DnsOptions) -> Self {
        Self { lookup: Lookup::new(options), names: RefCell::default() }
    }

    /// The addresses of `host`, beginning with another one each time.
    pub(super) async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, ClientError> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let entry = self.entry(host);
        if let Some(known) = entry.known(host, port) {
            return known;
        }
        let _asking = entry.asking.lock().await;
        // Somebody may have asked in the meantime.
        if let Some(known) = entry.known(host, port) {
            return known;
        }
        let (outcome, kept) = match self.lookup.find(host).await {
            Ok(found) => (Ok(found.addresses), found.ttl.clamp(TTL_MIN, TTL_MAX)),
            Err(Missed::NoSuchName(reason) | Missed::NoAnswer(reason)) => (Err(reason), FAILURE_KEPT),
            // That may be over the next moment.
            Err(Missed::Here(error)) => {
                return Err(ClientError::Exhausted { reason: error.to_string() });
            }
        };
        *entry.known.borrow_mut() = Some(Known { outcome, until: Instant::now() + kept });
        let failed = || Err(ClientError::Resolve { host: host.to_owned(), reason: "no address".to_owned() });
        entry.known(host, port).unwrap_or_else(failed)
    }

    fn entry(&self, host: &str) -> Rc<Entry> {
        let mut names = self.names.borrow_mut();
        if let Some(entry) = names.get(host) {
            return Rc::clone(entry);
        }
        if names.len() >= NAMES_MAX {
            names.clear();
        }
        Rc::clone(names.entry(host.to_owned()).or_default())
    }
}

impl Entry {
    /// What is known and still holds.
    fn known(&self, host: &str, port: u16) -> Option<Result<Vec<SocketAddr>, ClientError>> {
        let known = self.known.borrow();
        let known = known.as_ref().filter(|known| Instant::now() < known.until)?;
        Some(match &known.outcome {
            Ok(addresses) => {
                let first = self.next.get() % addresses.len().max(1);
                self.next.set(first + 1);
                let turned = addresses[first..].iter().chain(&addresses[..first]);
                Ok(turned.map(|address| SocketAddr::new(*address, port)).collect())
            }
            Err(reason) => Err(ClientError::Resolve { host: host.to_owned(), reason: reason.clone() }),
        })
    }
}

/// Where addresses come from; keeps nothing.
#[derive(Debug)]
pub(super) struct Lookup {
    /// The deployment's own servers.
    own: Option<Servers>,
    system: System,
}

impl Lookup {
    pub(super) fn new(options: &DnsOptions) -> Self {
        let own = (!options.servers.is_empty()).then(|| Servers {
            addresses: options.servers.clone(),
            timeout: OWN_TIMEOUT,
            attempts: OWN_ATTEMPTS,
        });
        Self { own, system: System::read() }
    }

    /// The hosts file, then DNS, then whatever else the system knows; the deployment's own servers
    /// are asked instead of all that.
    pub(super) async fn find(&self, host: &str) -> Result<Found, Missed> {
        if let Some(servers) = &self.own {
            return dns::ask(servers, host.trim_end_matches('.')).await.map(reachable);
        }
        let known = self.system.known(host);
        if !known.is_empty() {
            return Ok(reachable(Found { addresses: known, ttl: TTL_UNKNOWN }));
        }
        let Some(servers) = &self.system.servers else { return of_system(host).await };
        let mut missed = None;
        for name in self.system.candidates(host) {
            match dns::ask(servers, &name).await {
                Ok(found) => return Ok(reachable(found)),
                Err(no @ Missed::NoSuchName(_)) => missed = Some(no),
                // A server that is silent is silent to the system too; one that refuses may know less
                // than the system does by other means.
                Err(no) => return Err(no),
            }
        }
        // mDNS, LDAP and the like are the system's business.
        match (of_system(host).await, missed) {
            (Err(Missed::NoAnswer(_)), Some(missed)) => Err(missed),
            (other, _) => other,
        }
    }
}

async fn of_system(host: &str) -> Result<Found, Missed> {
    match tokio::net::lookup_host((host, 0)).await {
        Ok(found) => {
            let mut addresses: Vec<IpAddr> = Vec::new();
            for address in found.map(|address| address.ip()) {
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
            if addresses.is_empty() {
                return Err(Missed::NoAnswer("no address".to_owned()));
            }
            Ok(Found { addresses, ttl: TTL_UNKNOWN })
        }
        Err(error) if is_exhausted(&error) => Err(Missed::Here(error)),
        Err(error) => Err(Missed::NoAnswer(error.to_string())),
    }
}

/// Without the addresses to which this machine has no route, such as IPv6 where there is none;
/// all of them when there is a route to none.
fn reachable(mut found: Found) -> Found {
    if found.addresses.len() > 1 {
        let routed: Vec<IpAddr> =
            found.addresses.iter().copied().filter(|address| has_route(*address)).collect();
        if !routed.is_empty() {
            found.addresses = routed;
        }
    }
    found
}

/// Connecting a UDP socket asks the routing table and sends nothing.
fn has_route(address: IpAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
    let connected: io::Result<()> =
        std::net::UdpSocket::bind((any, 0)).and_then(|socket| socket.connect((address, 9)));
    connected.is_ok()
}
