//! Buffers that a thread's connections share: a connection has a buffer only while bytes are in flight.
//!
//! So thousands of idle virtual users need no buffers, and the few buffers in use stay in the
//! processor's cache.

use std::cell::RefCell;

/// The capacity of a fresh buffer.
pub(super) const BUFFER_BYTES: usize = 16 * 1024;
/// Larger buffers are not kept.
const KEPT_BYTES_MAX: usize = 64 * 1024;
const KEPT_MAX: usize = 64;

thread_local! {
    static IDLE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// An empty buffer with room for at least [`BUFFER_BYTES`].
#[inline]
pub(super) fn take() -> Vec<u8> {
    let idle = IDLE.with_borrow_mut(Vec::pop);
    idle.unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES))
}

/// Returns a buffer; its contents are dropped.
#[inline]
pub(super) fn give(buffer: &mut Vec<u8>) {
    let mut buffer = std::mem::take(buffer);
    if (BUFFER_BYTES..=KEPT_BYTES_MAX).contains(&buffer.capacity()) {
        buffer.clear();
        IDLE.with_borrow_mut(|idle| {
            if idle.len() < KEPT_MAX {
                idle.push(buffer);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_empty_and_no_larger_than_before() {
        let mut buffer = take();
        buffer.push(1);
        let mut large = Vec::with_capacity(KEPT_BYTES_MAX + 1);
        give(&mut large);
        give(&mut buffer);
        assert_eq!((buffer.capacity(), large.capacity()), (0, 0));
        let again = take();
        assert!(again.is_empty() && (BUFFER_BYTES..=KEPT_BYTES_MAX).contains(&again.capacity()));
    }
}
