//! Writes a number into the stack, so that any unwinder can tell which operation it belongs to.
//!
//! Work runs inside two small functions, one for each digit of base 64. Their return addresses are the number. That
//! needs no thread-local, no clock and no symbols, and it moves with a task from thread to thread, because every
//! poll writes it again. A number may only be used again after all stacks that could contain it were read.

use std::collections::HashMap;
use std::hint::black_box;
use std::sync::OnceLock;

const BASE: usize = 64;
/// How many numbers there are.
pub(crate) const NUMBERS: usize = BASE * BASE;

/// A number in the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Number(u16);

impl Number {
    /// Every number.
    pub(crate) fn all() -> impl DoubleEndedIterator<Item = Self> {
        (0..NUMBERS).map(|number| Self(number as u16))
    }

    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    fn of(high: usize, low: usize) -> Self {
        Self((high * BASE + low) as u16)
    }
}

type Digit = fn(&mut dyn FnMut());

#[inline(never)]
fn digit<const POSITION: usize, const VALUE: usize>(work: &mut dyn FnMut()) {
    work();
    // So that the call above is no tail call, and no two of these functions have equal bodies: compilers merge those.
    black_box((POSITION, VALUE));
}

macro_rules! digits {
    ($position:literal: $($value:literal),*) => { [$(digit::<$position, $value>),*] };
}

const LOW: [Digit; BASE] = digits![0:
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
    27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51,
    52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63
];
const HIGH: [Digit; BASE] = digits![1:
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26,
    27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51,
    52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63
];

/// Runs `work` with a number in the stack.
pub(crate) fn within<T>(number: Number, work: impl FnOnce() -> T) -> T {
    let (mut work, mut result) = (Some(work), None);
    let mut run = || {
        if let Some(work) = work.take() {
            result = Some(work());
        }
    };
    HIGH[number.index() / BASE](&mut || LOW[number.index() % BASE](&mut run));
    match (result, work) {
        (Some(result), _) => result,
        (None, Some(work)) => work(),
        (None, None) => unreachable!("a digit runs its work once"),
    }
}

/// A digit that was found in a stack.
#[derive(Clone, Copy)]
enum StackDigit {
    Low(usize),
    High(usize),
}

/// The numbers in stacks.
pub(crate) struct DigitAddresses(HashMap<usize, StackDigit>);

impl DigitAddresses {
    /// The addresses of this program.
    pub(crate) fn get() -> &'static Self {
        static ADDRESSES: OnceLock<DigitAddresses> = OnceLock::new();
        ADDRESSES.get_or_init(|| {
            let mut places = HashMap::new();
            for value in 0..BASE {
                for (digit, place) in
                    [(LOW[value], StackDigit::Low(value)), (HIGH[value], StackDigit::High(value))]
                {
                    places.extend(return_address(digit).map(|address| (address, place)));
                }
            }
            Self(places)
        })
    }

    /// Whether every digit was found: else the samples of operations cannot be told apart.
    pub(crate) fn are_complete(&self) -> bool {
        self.0.len() == 2 * BASE
    }

    /// The numbers in a stack, innermost first, with how many frames each number's work has: those before this
    /// index. Frames are return addresses, innermost first.
    pub(crate) fn find(&self, frames: &[usize]) -> Vec<(Number, usize)> {
        let mut found = Vec::new();
        let mut low = None;
        for (index, &frame) in frames.iter().enumerate() {
            match (self.0.get(&frame), low) {
                (Some(StackDigit::Low(value)), _) => low = Some((*value, index)),
                (Some(StackDigit::High(high)), Some((value, index))) => {
                    found.push((Number::of(*high, value), index));
                    low = None;
                }
                // A sample between the two functions is in no number's work.
                (Some(StackDigit::High(_)), None) | (None, _) => {}
            }
        }
        found
    }
}

/// Where a digit's only call returns to. It is found by looking, so a stripped program has it as well.
fn return_address(digit: Digit) -> Option<usize> {
    let mut address = None;
    digit(&mut || {
        backtrace::trace(|frame| {
            if frame.symbol_address() as usize == digit as usize {
                address = Some(frame.ip() as usize);
            }
            address.is_none()
        });
    });
    address
}
