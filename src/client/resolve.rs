//! A cache of the addresses of hosts for each worker, which respects their time to live.
//!
//! When an entry has expired, the first user that needs it asks again, and the others wait for the result.
//! Connections use all addresses in turn. Failures are cached briefly, so that a thousand users do not
//! ask a thousand times. Expired addresses are never used.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use base::clock::now;

use super::dns::{self, AddressRecords, LookupError, Servers};
use super::error::{ClientError, is_exhausted};
use super::options::DnsOptions;
use super::system::System;

/// The time to live of addresses whose source does not give one.
const TTL_UNKNOWN: Duration = Duration::from_secs(30);
/// The shortest time to live: with 0, each of 10,000 connections would ask.
const TTL_MIN: Duration = Duration::from_secs(1);
const TTL_MAX: Duration = Duration::from_secs(24 * 3600);
/// How long a failure is cached.
const FAILURE_KEPT: Duration = Duration::from_secs(1);
/// How long a DNS server of the deployment may take, and how often it is asked.
const OWN_TIMEOUT: Duration = Duration::from_secs(2);
const OWN_ATTEMPTS: u32 = 2;
/// The most cached hosts; redirects may lead to many.
const NAMES_MAX: usize = 1024;

/// The resolved names of a worker.
pub(super) struct Resolver {
    lookup: Lookup,
    names: RefCell<HashMap<String, Rc<Entry>>>,
}

/// The addresses of a name.
pub(super) struct ResolvedAddresses {
    pub(super) addresses: Vec<SocketAddr>,
    /// True if the name has several, now or earlier in the run: DNS may give one after another.
    pub(super) are_several: bool,
}

/// A name.
#[derive(Default)]
struct Entry {
    known: RefCell<Option<CachedLookup>>,
    /// Held by the task that asks; others wait for it.
    asking: tokio::sync::Mutex<()>,
    /// The index of the first address for the next caller.
    next: Cell<usize>,
    /// The address that was found first.
    first: Cell<Option<IpAddr>>,
    /// Whether there was ever another one.
    has_several: Cell<bool>,
}

struct CachedLookup {
    outcome: Result<AddressRecords, String>,
    until: Instant,
}

impl Resolver {
    pub(super) fn new(options: &DnsOptions) -> Self {
        Self { lookup: Lookup::new(options), names: RefCell::default() }
    }

    /// The addresses of `host`, starting with a different one each time.
    pub(super) async fn addresses(&self, host: &str, port: u16) -> Result<ResolvedAddresses, ClientError> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(ResolvedAddresses {
                addresses: vec![SocketAddr::new(address, port)],
                are_several: false,
            });
        }
        let entry = self.entry(host);
        if let Some(known) = entry.known(host, port) {
            return known;
        }
        let _asking = entry.asking.lock().await;
        // Another task may have asked in the meantime.
        if let Some(known) = entry.known(host, port) {
            return known;
        }
        // A separate future, because it is rare and thousands of connections may be opened at a time.
        let (outcome, kept) = match Box::pin(self.lookup.find(host)).await {
            Ok(found) => {
                entry.note(&found.addresses);
                let kept = found.ttl.clamp(TTL_MIN, TTL_MAX);
                (Ok(found), kept)
            }
            Err(LookupError::NoSuchName(reason) | LookupError::NoAnswer(reason)) => {
                (Err(reason), FAILURE_KEPT)
            }
            // This condition may end at any moment.
            Err(LookupError::Here(error)) => {
                return Err(ClientError::Exhausted { reason: error.to_string() });
            }
        };
        *entry.known.borrow_mut() = Some(CachedLookup { outcome, until: now() + kept });
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
    /// Notes whether there is another address than the first.
    fn note(&self, addresses: &[IpAddr]) {
        let first = self.first.get().or(addresses.first().copied());
        self.first.set(first);
        if addresses.iter().any(|address| Some(*address) != first) {
            self.has_several.set(true);
        }
    }

    /// The cached result, if it has not expired.
    fn known(&self, host: &str, port: u16) -> Option<Result<ResolvedAddresses, ClientError>> {
        let known = self.known.borrow();
        let known = known.as_ref().filter(|known| now() < known.until)?;
        Some(match &known.outcome {
            Ok(AddressRecords { addresses, spare, .. }) => {
                let first = self.next.get() % addresses.len().max(1);
                self.next.set(first + 1);
                let turned = addresses[first..].iter().chain(&addresses[..first]).chain(spare);
                let addresses = turned.map(|address| SocketAddr::new(*address, port)).collect();
                Ok(ResolvedAddresses { addresses, are_several: self.has_several.get() })
            }
            Err(reason) => Err(ClientError::Resolve { host: host.to_owned(), reason: reason.clone() }),
        })
    }
}

/// Looks up addresses, without a cache.
#[derive(Debug)]
pub(super) struct Lookup {
    /// The deployment's own servers.
    own: Option<Servers>,
    /// What the deployment itself says.
    options: DnsOptions,
    system: System,
}

impl Lookup {
    pub(super) fn new(options: &DnsOptions) -> Self {
        let own = (!options.servers.is_empty()).then(|| Servers {
            addresses: options.servers.clone(),
            timeout: OWN_TIMEOUT,
            attempts: OWN_ATTEMPTS,
        });
        Self { own, options: options.clone(), system: System::read() }
    }

    /// Uses the deployment's own list, then the hosts file, then DNS, then the system's resolver; or only the deployment's DNS servers, if it has any.
    pub(super) async fn find(&self, host: &str) -> Result<AddressRecords, LookupError> {
        if let Some(addresses) = self.options.fixed(host) {
            return Ok(AddressRecords { addresses: addresses.to_vec(), spare: Vec::new(), ttl: TTL_MAX });
        }
        if let Some(servers) = &self.own {
            return dns::ask(servers, host.trim_end_matches('.')).await.map(reachable);
        }
        let (known, spare) = self.system.known(host);
        if !known.is_empty() {
            return Ok(reachable(AddressRecords { addresses: known, spare, ttl: TTL_UNKNOWN }));
        }
        let Some(servers) = &self.system.servers else { return of_system(host).await };
        let mut missed = None;
        for name in self.system.candidates(host) {
            match dns::ask(servers, &name).await {
                Ok(found) => return Ok(reachable(found)),
                Err(no @ LookupError::NoSuchName(_)) => missed = Some(no),
                // If a server does not answer, it does not answer the system either. If it refuses, the
                // system may know the name by other means.
                Err(no) => return Err(no),
            }
        }
        // The system also uses mDNS, LDAP and the like.
        match (of_system(host).await, missed) {
            (Err(LookupError::NoAnswer(_)), Some(missed)) => Err(missed),
            (other, _) => other,
        }
    }
}

async fn of_system(host: &str) -> Result<AddressRecords, LookupError> {
    match tokio::net::lookup_host((host, 0)).await {
        Ok(found) => {
            let mut addresses: Vec<IpAddr> = Vec::new();
            for address in found.map(|address| address.ip()) {
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
            if addresses.is_empty() {
                return Err(LookupError::NoAnswer("no address".to_owned()));
            }
            Ok(AddressRecords { addresses, spare: Vec::new(), ttl: TTL_UNKNOWN })
        }
        Err(error) if is_exhausted(&error) => Err(LookupError::Here(error)),
        Err(error) => Err(LookupError::NoAnswer(error.to_string())),
    }
}

/// Removes addresses without a route from this machine, such as IPv6 addresses on an IPv4 network; keeps all if none
/// has a route.
fn reachable(mut found: AddressRecords) -> AddressRecords {
    if found.addresses.len() > 1 {
        let routed: Vec<IpAddr> =
            found.addresses.iter().copied().filter(|address| has_route(*address)).collect();
        if !routed.is_empty() {
            found.addresses = routed;
        }
    }
    found
}

/// Connecting a UDP socket only consults the routing table; it sends nothing.
fn has_route(address: IpAddr) -> bool {
    let any: IpAddr = if address.is_ipv4() { [0, 0, 0, 0].into() } else { [0_u16; 8].into() };
    let connected: io::Result<()> =
        std::net::UdpSocket::bind((any, 0)).and_then(|socket| socket.connect((address, 9)));
    connected.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_several_addresses_at_once_or_one_after_another() {
        let [a, b] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        for (answers, several) in [
            (vec![vec![a]], false),
            (vec![vec![a], vec![a]], false),
            (vec![vec![a, a]], false),
            (vec![vec![]], false),
            (vec![vec![a, b]], true),
            (vec![vec![a], vec![b]], true),
            (vec![vec![], vec![a], vec![], vec![b], vec![b]], true),
        ] {
            let entry = Entry::default();
            answers.iter().for_each(|answer| entry.note(answer));
            assert_eq!(entry.has_several.get(), several, "{answers:?}");
        }
    }
}
