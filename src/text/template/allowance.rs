//! Limits for templates: steps, text, values, depth.
//!
//! minijinja only counts steps, and an operator or a filter is a single step however much work it does.
//! So every value is measured before an operation traverses it, and new values are charged to an
//! allowance of the thread, which the caller renews for each action. Rendering never waits, so two
//! actions never share an allowance.

use std::cell::Cell;

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

/// The most instructions that a text may execute: enough for loops of 100,000 passes and more.
pub const STEPS_MAX: u64 = 1_000_000;
/// The longest text that templates may produce.
pub const TEXT_BYTES_MAX: usize = 16 << 20;
/// How deep a value may be nested.
pub const DEPTH_MAX: usize = 64;
/// How much work the templates of an action may do in total. A unit is about the time of an instruction.
const UNITS: u64 = 8 << 20;

/// Units for a value that is traversed, and for a new value, which takes memory too.
const UNITS_PER_VALUE_READ: u64 = 4;
const UNITS_PER_VALUE_MADE: u64 = 4;
const BYTES_MADE_PER_UNIT: u64 = 8;
const BYTES_READ_PER_UNIT: u64 = 64;

thread_local! {
    static LEFT: Cell<u64> = const { Cell::new(UNITS) };
}

/// Gives this thread's templates a full allowance again.
#[inline]
pub fn renew() {
    LEFT.set(UNITS);
}

/// The size of a value, with everything that it contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    /// The number of values: itself and all that it contains.
    pub(super) values: u64,
    /// The total bytes of its texts.
    pub(super) bytes: u64,
    /// How deep it is nested: 0 for a number or a text.
    pub(super) depth: usize,
}

/// Charges this many units.
pub(super) fn charge(units: u64) -> Result<(), Error> {
    let left = LEFT.get();
    LEFT.set(left.saturating_sub(units));
    if units <= left {
        Ok(())
    } else {
        Err(exceeded(
            "the templates of an action do too much work: produce less text, or shorten loops, lists and repetitions",
        ))
    }
}

/// Charges for a text of this length before it is made.
pub(super) fn charge_text(bytes: u64) -> Result<(), Error> {
    if bytes > TEXT_BYTES_MAX as u64 {
        return Err(text_too_long());
    }
    charge(bytes / BYTES_MADE_PER_UNIT)
}

/// Charges for values before they are made.
pub(super) fn charge_values(values: u64) -> Result<(), Error> {
    charge(values.saturating_mul(UNITS_PER_VALUE_MADE))
}

/// Measures a value that is about to be traversed, and charges for it.
pub(super) fn read(value: &Value) -> Result<Size, Error> {
    let mut size = Size::default();
    measure(value, 0, &mut size)?;
    charge(size.bytes / BYTES_READ_PER_UNIT)?;
    Ok(size)
}

/// Measures a value that is new or about to be written, and charges for it.
pub(super) fn made(value: &Value) -> Result<(), Error> {
    let size = read(value)?;
    charge_text(size.bytes)?;
    if size.depth > 0 { charge_values(size.values) } else { Ok(()) }
}

fn measure(value: &Value, depth: usize, size: &mut Size) -> Result<(), Error> {
    size.values += 1;
    match value.kind() {
        ValueKind::String | ValueKind::Bytes => {
            size.bytes += value.as_bytes().map_or(0, <[u8]>::len) as u64;
        }
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            size.depth = size.depth.max(depth + 1);
            if depth >= DEPTH_MAX {
                return Err(exceeded(&format!(
                    "a value is nested more than {DEPTH_MAX} levels deep: flatten it"
                )));
            }
            // Nothing else can traverse a value that cannot be listed.
            for item in value.try_iter().into_iter().flatten() {
                charge(UNITS_PER_VALUE_READ)?;
                if value.kind() == ValueKind::Map {
                    measure(&value.get_item(&item)?, depth + 1, size)?;
                }
                measure(&item, depth + 1, size)?;
            }
        }
        _ => {}
    }
    Ok(())
}

fn exceeded(what: &str) -> Error {
    Error::new(ErrorKind::OutOfFuel, what.to_owned())
}

/// An error of a function or filter that was called with something else than it takes.
pub(super) fn invalid(what: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, what.into())
}

pub(super) fn text_too_long() -> Error {
    exceeded(&format!("a text is longer than {} MiB: make it shorter", TEXT_BYTES_MAX >> 20))
}

/// The message for an error of this module, or of minijinja when the steps are used up; `None` for others.
pub(super) fn limit(error: &Error) -> Option<String> {
    // A filter may have called another filter.
    let mut current = Some(error);
    while let Some(error) = current {
        if error.kind() == ErrorKind::OutOfFuel {
            let steps = || format!("it takes more than {STEPS_MAX} steps: shorten its loops");
            return Some(format!(
                "the template exceeds a limit: {}",
                error.detail().map_or_else(steps, str::to_owned)
            ));
        }
        current = std::error::Error::source(error).and_then(|source| source.downcast_ref());
    }
    None
}
