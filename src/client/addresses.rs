//! The addresses behind names that have several: which of them answered may tell slow requests from others.
//!
//! An address gets its number when a connection to it is opened, and the requests on this connection carry the number
//! alone. Nothing here may be called for each request.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Further addresses are not told apart.
const ADDRESSES_MAX: usize = 1_000;

/// The addresses of a run that were connected to, of names that have several.
#[derive(Debug, Default)]
pub struct Addresses(Mutex<AddressTable>);

#[derive(Debug, Default)]
struct AddressTable {
    addresses: Vec<IpAddr>,
    /// True once there was no room for an address.
    is_over: bool,
}

impl Addresses {
    /// The number of an address, from 1; 0 if there are too many.
    pub(super) fn number(&self, address: IpAddr) -> u16 {
        let mut known = self.known();
        if let Some(at) = known.addresses.iter().position(|other| *other == address) {
            return (at + 1) as u16;
        }
        if known.addresses.len() >= ADDRESSES_MAX {
            known.is_over = true;
            return 0;
        }
        known.addresses.push(address);
        known.addresses.len() as u16
    }

    /// The addresses behind the first `skipped` ones, with their numbers.
    #[must_use]
    pub fn after(&self, skipped: usize) -> Vec<(u16, IpAddr)> {
        (1..).zip(self.known().addresses.iter().copied()).skip(skipped).collect()
    }

    /// What a reader must know if there were too many addresses.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        self.known().is_over.then(|| {
            format!(
                "more than {ADDRESSES_MAX} addresses of hosts were connected to; which of the others answered is not \
                 recorded"
            )
        })
    }

    fn known(&self) -> MutexGuard<'_, AddressTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_one_number_and_too_many_are_noted() {
        let addresses = Addresses::default();
        let address = |number: usize| IpAddr::from([10, 0, (number >> 8) as u8, number as u8]);
        assert_eq!([0, 1, 0, 1].map(|number| addresses.number(address(number))), [1, 2, 1, 2]);
        assert_eq!(addresses.after(0), [(1, address(0)), (2, address(1))]);
        assert_eq!(addresses.after(1), [(2, address(1))]);
        for number in 2..ADDRESSES_MAX {
            assert_eq!(usize::from(addresses.number(address(number))), number + 1);
        }
        assert_eq!((addresses.after(ADDRESSES_MAX).len(), addresses.note()), (0, None));
        assert_eq!([ADDRESSES_MAX, 0].map(|number| addresses.number(address(number))), [0, 1]);
        assert!(addresses.note().is_some_and(|note| note.starts_with("more than 1000 addresses")));
    }
}
