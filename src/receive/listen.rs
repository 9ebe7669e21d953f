//! The ports of the receiver. If one is taken, the error names the process that has it, where the system tells.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener};

use base::visible::on_one_line;

/// Files of a system's processes that are looked at for the one that has a port.
const DESCRIPTORS_MAX: usize = 200_000;

/// An address that cannot be listened at.
#[derive(Debug)]
pub struct ListenError {
    pub address: SocketAddr,
    /// The system's error.
    pub source: io::Error,
    /// The process that has the port, if it is known.
    pub owner: Option<Owner>,
}

/// A process that has a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Its id.
    pub process: u32,
    /// Its name, as the system gives it.
    pub name: String,
}

impl ListenError {
    /// What can be done about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        match (self.source.kind(), &self.owner) {
            (io::ErrorKind::AddrInUse, Some(owner)) => {
                format!("stop process {}, or choose another port", owner.process)
            }
            (io::ErrorKind::AddrInUse, None) => "stop what listens there, or choose another port".to_owned(),
            (io::ErrorKind::AddrNotAvailable, _) => {
                "choose an address of this machine, such as 127.0.0.1 or 0.0.0.0".to_owned()
            }
            (io::ErrorKind::PermissionDenied, _) => "choose a port above 1023".to_owned(),
            _ => "choose another address or port".to_owned(),
        }
    }
}

impl fmt::Display for ListenError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "cannot receive spans at {}: ", self.address)?;
        match (self.source.kind(), &self.owner) {
            (io::ErrorKind::AddrInUse, Some(owner)) => {
                write!(formatter, "{} (process {}) has the port", owner.name, owner.process)
            }
            (io::ErrorKind::AddrInUse, None) => formatter.write_str("the port is in use"),
            _ => self.source.fmt(formatter),
        }
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// Listens at all addresses. Port 0 is any free port.
///
/// # Errors
/// The first address that cannot be listened at.
pub fn bind(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, ListenError> {
    let one = |address: &SocketAddr| {
        TcpListener::bind(address).map_err(|source| {
            let in_use = source.kind() == io::ErrorKind::AddrInUse;
            ListenError { address: *address, owner: in_use.then(|| owner(*address)).flatten(), source }
        })
    };
    addresses.iter().map(one).collect()
}

/// The process that listens at an address: of this user, unless run as root.
fn owner(address: SocketAddr) -> Option<Owner> {
    let sockets: Vec<u64> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|path| std::fs::read_to_string(path).ok())
        .flat_map(|table| listening(&table, address))
        .collect();
    let links: Vec<String> = sockets.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let mut looked_at = 0;
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(descriptors) = std::fs::read_dir(entry.path().join("fd")) else { continue };
        for descriptor in descriptors.flatten() {
            looked_at += 1;
            if links.is_empty() || looked_at > DESCRIPTORS_MAX {
                return None;
            }
            let link = std::fs::read_link(descriptor.path()).unwrap_or_default();
            if links.iter().any(|socket| link.as_os_str() == socket.as_str()) {
                let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
                let name = on_one_line(name.trim());
                return Some(Owner { process, name });
            }
        }
    }
    None
}

/// The sockets of a table of `/proc/net` (proc_net_tcp.txt of the Linux kernel) that listen at an address, or at all
/// addresses of its port.
fn listening(table: &str, address: SocketAddr) -> Vec<u64> {
    const LISTEN: &str = "0A";
    let socket = |line: &str| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        let (ip, port) = columns.get(1)?.split_once(':')?;
        let same_port = u16::from_str_radix(port, 16).ok()? == address.port();
        if !same_port || *columns.get(3)? != LISTEN {
            return None;
        }
        let (bound, wanted) = (ip_of(ip)?, address.ip().to_canonical());
        let overlaps = bound == wanted || bound.is_unspecified() || wanted.is_unspecified();
        overlaps.then(|| columns.get(9)?.parse().ok()).flatten()
    };
    table.lines().skip(1).filter_map(socket).collect()
}

/// An address in words of 32 bits, each in this machine's order of bytes.
fn ip_of(digits: &str) -> Option<IpAddr> {
    let word = |at: usize| {
        let word = u32::from_str_radix(digits.get(at..at + 8)?, 16).ok()?;
        Some(word.to_ne_bytes())
    };
    if digits.len() == 8 {
        return Some(IpAddr::from(word(0)?));
    }
    let words = [word(0)?, word(8)?, word(16)?, word(24)?];
    let bytes: [u8; 16] = words.concat().try_into().ok()?;
    Some(IpAddr::V6(Ipv6Addr::from(bytes)).to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_that_is_taken_names_its_process() {
        let any = "127.0.0.1:0".parse().unwrap();
        let held = bind(&[any, any]).unwrap();
        let address = held[1].local_addr().unwrap();
        let error = bind(&[any, address]).unwrap_err();
        assert_eq!((error.address, error.source.kind()), (address, io::ErrorKind::AddrInUse));
        let text = error.to_string();
        assert!(text.starts_with(&format!("cannot receive spans at {address}: ")), "{text}");
        assert!(error.remedy().ends_with("or choose another port"), "{}", error.remedy());
        if std::path::Path::new("/proc/net/tcp").exists() {
            let owner = error.owner.unwrap();
            assert_eq!(owner.process, std::process::id());
            assert!(
                text.contains(&format!("{} (process {}) has the port", owner.name, owner.process)),
                "{text}"
            );
        }
    }

    #[test]
    fn other_errors_have_a_remedy() {
        let error = bind(&["192.0.2.1:0".parse().unwrap()]).unwrap_err();
        assert!(error.owner.is_none());
        assert!(error.remedy().contains("127.0.0.1"), "{error}: {}", error.remedy());
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn tables_of_sockets_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:10DE 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 x\n\
            1: 0100007F:10DE 0100007F:9000 01 00000000:00000000 00:00000000 00000000     0        0 222 1 x\n\
            2: 00000000:10DD 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 333 1 x\n\
            3: 0000000000000000FFFF00000100007F:10DF 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 444 1\n\
            4: 00000000000000000000000001000000:10DF 00000000000000000000000000000000:0000 0A 0:0 0:0 0 0 0 555 1\n\
            bad line\n5: zz:10DE\n";
        for (address, expected) in [
            ("127.0.0.1:4318", vec![111]),
            ("127.0.0.2:4318", vec![]),
            ("0.0.0.0:4318", vec![111]),
            ("127.0.0.1:4317", vec![333]),
            ("127.0.0.1:4319", vec![444]),
            ("[::1]:4319", vec![555]),
            ("[::]:4319", vec![444, 555]),
            ("127.0.0.1:1", vec![]),
        ] {
            assert_eq!(listening(table, address.parse().unwrap()), expected, "{address}");
        }
    }
}
