//! Random numbers for templates: a pure function of a seed, a stream, a number in it, and how many were drawn before.
//!
//! The state lives with [`super::Variables`]. While a text is rendered, it is lent to the thread, where the functions
//! find it: rendering never waits, so no other text is rendered on the thread at the same time.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use base::ids::mix;

/// Where draws come from, and how many there were.
#[derive(Debug, Default)]
pub(super) struct Draws {
    seed: u64,
    stream: u64,
    number: u64,
    /// Only one thread uses this; it is atomic because templates' objects must be `Sync`.
    drawn: AtomicU64,
}

impl Clone for Draws {
    fn clone(&self) -> Self {
        Self { drawn: AtomicU64::new(self.drawn.load(Ordering::Relaxed)), ..*self }
    }
}

impl Draws {
    pub(super) fn new(seed: u64, stream: u64, number: u64) -> Self {
        Self { seed, stream, number, drawn: AtomicU64::new(0) }
    }

    /// A stream of its own for a part that runs beside others.
    pub(super) fn branch(&self, part: u64) -> Self {
        // This counts as a draw, so that the next branches differ.
        let drawn = self.drawn.fetch_add(1, Ordering::Relaxed);
        Self::new(mix(self.seed ^ mix(mix(drawn) ^ part.wrapping_add(1))), self.stream, self.number)
    }

    /// Lends the state to this thread until the result is dropped.
    pub(super) fn lend(&self) -> DrawLease<'_> {
        let key = mix(mix(mix(self.seed) ^ self.stream) ^ self.number);
        let state = DrawState { key, drawn: self.drawn.load(Ordering::Relaxed), number: self.number };
        DrawLease { draws: self, before: CURRENT.replace(state) }
    }
}

/// The state of the text that this thread renders.
#[derive(Clone, Copy)]
struct DrawState {
    key: u64,
    drawn: u64,
    number: u64,
}

thread_local! {
    static CURRENT: Cell<DrawState> = const { Cell::new(DrawState { key: 0, drawn: 0, number: 0 }) };
}

/// Takes the state back when dropped.
pub(super) struct DrawLease<'d> {
    draws: &'d Draws,
    before: DrawState,
}

impl Drop for DrawLease<'_> {
    fn drop(&mut self) {
        self.draws.drawn.store(CURRENT.replace(self.before).drawn, Ordering::Relaxed);
    }
}

/// The next random number.
pub(super) fn draw() -> u64 {
    let state = CURRENT.get();
    CURRENT.set(DrawState { drawn: state.drawn.wrapping_add(1), ..state });
    mix(state.key.wrapping_add(state.drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

/// A random number below `count` (0 if `count` is 0), without measurable bias.
pub(super) fn below(count: u64) -> u64 {
    ((u128::from(draw()) * u128::from(count)) >> 64) as u64
}

/// A random number from 0 up to but not including 1.
pub(super) fn fraction() -> f64 {
    (draw() >> 11) as f64 / (1_u64 << 53) as f64
}

/// The number within the stream.
pub(super) fn number() -> u64 {
    CURRENT.get().number
}
