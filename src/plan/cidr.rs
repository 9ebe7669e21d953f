//! Ranges of IPv4 addresses as subnets have them: `10.2.0.0/24` and the ones after it (RFC 4632).

use std::net::Ipv4Addr;

/// A range of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    first: u32,
    prefix: u32,
}

impl Cidr {
    /// Parses `10.2.0.0/24`; `None` if it is no range of addresses, or one without room for a host.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.trim().split_once('/')?;
        let first = u32::from(address.parse::<Ipv4Addr>().ok()?);
        let prefix: u32 = prefix.parse().ok().filter(|prefix| (8..=30).contains(prefix))?;
        let is_first = first.trailing_zeros() >= 32 - prefix;
        is_first.then_some(Self { first, prefix })
    }

    /// The range of the same size that comes `number` ranges later; `None` beyond the last address.
    #[must_use]
    pub fn nth(self, number: u32) -> Option<Self> {
        let size = 1_u32 << (32 - self.prefix);
        let first = self.first.checked_add(number.checked_mul(size)?)?;
        Some(Self { first, ..self })
    }
}

impl std::fmt::Display for Cidr {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", Ipv4Addr::from(self.first), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_one_another() {
        for (text, number, expected) in [
            ("10.2.0.0/24", 0, Some("10.2.0.0/24")),
            ("10.2.0.0/24", 3, Some("10.2.3.0/24")),
            ("10.2.0.0/24", 256, Some("10.3.0.0/24")),
            ("192.168.0.0/30", 2, Some("192.168.0.8/30")),
            (" 10.0.0.0/8 ", 1, Some("11.0.0.0/8")),
            ("255.0.0.0/8", 1, None),
            ("10.0.0.0/8", u32::MAX, None),
            ("10.2.0.1/24", 0, None),
            ("10.2.0.0", 0, None),
            ("10.2.0.0/31", 0, None),
            ("10.2.0.0/0", 0, None),
            ("10.2.0/24", 0, None),
            ("fd00::/64", 0, None),
            ("", 0, None),
        ] {
            let found = Cidr::parse(text).and_then(|first| first.nth(number)).map(|cidr| cidr.to_string());
            assert_eq!(found.as_deref(), expected, "{text} {number}");
        }
    }
}
