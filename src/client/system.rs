//! The system's name configuration: `/etc/hosts` and `/etc/resolv.conf`, read once and bounded.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::dns::Servers;

const FILE_BYTES_MAX: u64 = 1 << 20;
const DNS_PORT: u16 = 53;
/// The most servers and search domains, as in other resolvers.
const SERVERS_MAX: usize = 3;
const SEARCH_MAX: usize = 6;

/// The system's names.
#[derive(Debug, Default)]
pub(super) struct System {
    hosts: Vec<(String, IpAddr)>,
    pub(super) servers: Option<Servers>,
    search: Vec<String>,
    ndots: usize,
}

impl System {
    /// The contents of the two files; a missing file is treated as empty.
    pub(super) fn read() -> Self {
        Self::parse(&read_bounded("/etc/hosts"), &read_bounded("/etc/resolv.conf"))
    }

    pub(super) fn parse(hosts: &str, resolv_conf: &str) -> Self {
        let mut system = Self { ndots: 1, ..Self::default() };
        for line in without_comments(hosts) {
            let mut words = line.split_whitespace();
            let Some(address) = words.next().and_then(|word| word.parse::<IpAddr>().ok()) else { continue };
            system.hosts.extend(words.map(|name| (name.to_ascii_lowercase(), address)));
        }
        let mut servers = Servers { addresses: Vec::new(), timeout: Duration::from_secs(3), attempts: 2 };
        for line in without_comments(resolv_conf) {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let address = words.next().and_then(|word| word.parse::<IpAddr>().ok());
                    servers.addresses.extend(address.map(|address| SocketAddr::new(address, DNS_PORT)));
                    servers.addresses.truncate(SERVERS_MAX);
                }
                Some("search" | "domain") => {
                    let domains = words.map(|word| word.trim_matches('.').to_owned());
                    system.search = domains.filter(|word| !word.is_empty()).take(SEARCH_MAX).collect();
                }
                Some("options") => words.for_each(|option| system.option(option, &mut servers)),
                _ => {}
            }
        }
        system.servers = (!servers.addresses.is_empty()).then_some(servers);
        system
    }

    fn option(&mut self, option: &str, servers: &mut Servers) {
        let Some((name, value)) = option.split_once(':') else { return };
        let Ok(value) = value.parse::<u32>() else { return };
        match name {
            "ndots" => self.ndots = value.min(15) as usize,
            "timeout" => servers.timeout = Duration::from_secs(value.clamp(1, 30).into()),
            "attempts" => servers.attempts = value.clamp(1, 5),
            _ => {}
        }
    }

    /// Names that need no query: those in `/etc/hosts`, and `localhost`, which is always this machine. It means both its
    /// loopback addresses, also where the file lists one only (RFC 6761, 6.3): the second list has what is missing there.
    pub(super) fn known(&self, host: &str) -> (Vec<IpAddr>, Vec<IpAddr>) {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let mut known: Vec<IpAddr> = Vec::new();
        for (_, address) in self.hosts.iter().filter(|(name, _)| *name == host) {
            if !known.contains(address) {
                known.push(*address);
            }
        }
        let mut spare = Vec::new();
        if host == "localhost" || host.ends_with(".localhost") {
            let (four, six) = (IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST));
            if known.is_empty() {
                known.push(four);
            }
            spare = [four, six].into_iter().filter(|one| !known.contains(one)).collect();
        }
        (known, spare)
    }

    /// The names to query, in order. For a name with few dots, search domains come first.
    pub(super) fn candidates(&self, host: &str) -> Vec<String> {
        if let Some(absolute) = host.strip_suffix('.') {
            return vec![absolute.to_owned()];
        }
        let mut names: Vec<String> = self.search.iter().map(|domain| format!("{host}.{domain}")).collect();
        let dots = host.bytes().filter(|byte| *byte == b'.').count();
        let at = if dots >= self.ndots { 0 } else { names.len() };
        names.insert(at, host.to_owned());
        names
    }
}

fn without_comments(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(|line| line.split(['#', ';']).next().unwrap_or_default())
}

fn read_bounded(path: &str) -> String {
    let mut text = String::new();
    if let Ok(file) = std::fs::File::open(path) {
        // A file that is not text is treated as empty.
        let _ = std::io::Read::read_to_string(&mut std::io::Read::take(file, FILE_BYTES_MAX), &mut text);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_files_are_read_as_other_resolvers_read_them() {
        let system = System::parse(
            "127.0.0.1 localhost # this\n10.0.0.5  db.example DB\n::1 localhost\nnonsense x\n",
            "; a comment\nnameserver 10.0.0.1\nnameserver fe80::1%eth0\nnameserver ::1\nsearch corp.example. example\noptions ndots:2 timeout:1 attempts:9 rotate\n",
        );
        let (four, six) = (IpAddr::from([127, 0, 0, 1]), IpAddr::from(Ipv6Addr::LOCALHOST));
        assert_eq!(system.known("DB"), (vec![[10, 0, 0, 5].into()], vec![]));
        assert_eq!(system.known("localhost"), (vec![four, six], vec![]));
        assert_eq!(system.known("a.localhost."), (vec![four], vec![six]));
        assert_eq!(System::parse("::1 localhost\n", "").known("LOCALHOST"), (vec![six], vec![four]));
        assert_eq!(system.known("other"), (vec![], vec![]));
        let servers = system.servers.clone().unwrap();
        assert_eq!(servers.addresses, ["10.0.0.1:53".parse().unwrap(), "[::1]:53".parse().unwrap()]);
        assert_eq!((servers.timeout.as_secs(), servers.attempts), (1, 5));
        assert_eq!(system.candidates("api.v1"), ["api.v1.corp.example", "api.v1.example", "api.v1"]);
        assert_eq!(system.candidates("a.b.c"), ["a.b.c", "a.b.c.corp.example", "a.b.c.example"]);
        assert_eq!(system.candidates("api."), ["api"]);
        assert!(System::parse("", "").servers.is_none());
    }
}
