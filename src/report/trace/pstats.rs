//! Python's profile format, so that `python3 -m pstats`, SnakeViz and others open traces.
//!
//! A `.prof` file is Python's `marshal` of a dictionary from function to `(primitive calls, calls, own
//! seconds, cumulative seconds, callers)`, where callers are a dictionary of the same four numbers (cProfile's
//! form, observed on CPython 3.11; the one of `profile`, which holds counts alone, is not read by SnakeViz).
//! A function is `(file, line, name)`: the reporting service, 0, and the point. Only what that needs of
//! `marshal` (version 2, which every Python 3 reads) is here.

use std::io::{self, Write};

use crate::analysis::call_stats::{CallStats, Calls, Function, SortKey};

/// Longer names are cut: they label boxes.
const NAME_BYTES_MAX: usize = 1_000;

/// Writes the profile.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(stats: &CallStats, out: &mut dyn Write) -> io::Result<()> {
    let mut bytes = vec![b'{'];
    for (function, row) in stats.rows(SortKey::Name) {
        key(&mut bytes, function);
        tuple(&mut bytes, 5);
        numbers(&mut bytes, row.calls.primitive, &row.calls);
        bytes.push(b'{');
        let mut callers: Vec<_> = row.callers.iter().collect();
        callers.sort_by_key(|(caller, _)| *caller);
        for (caller, calls) in callers {
            key(&mut bytes, caller);
            tuple(&mut bytes, 4);
            // Unlike above, all calls come first here.
            integer(&mut bytes, calls.total);
            integer(&mut bytes, calls.primitive);
            seconds(&mut bytes, calls.own_us);
            seconds(&mut bytes, calls.cumulative_us);
        }
        bytes.push(b'0');
    }
    bytes.push(b'0');
    out.write_all(&bytes)
}

fn numbers(bytes: &mut Vec<u8>, primitive: u64, calls: &Calls) {
    integer(bytes, primitive);
    integer(bytes, calls.total);
    seconds(bytes, calls.own_us);
    seconds(bytes, calls.cumulative_us);
}

fn key(bytes: &mut Vec<u8>, function: &Function) {
    tuple(bytes, 3);
    // pstats takes a name without a file for a built-in function.
    text(bytes, if function.place.is_empty() { "~" } else { &function.place });
    integer(bytes, 0);
    text(bytes, &function.name);
}

fn tuple(bytes: &mut Vec<u8>, len: u32) {
    bytes.push(b'(');
    bytes.extend(len.to_le_bytes());
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    // Names that differ only after the cut stay different functions.
    let cut;
    let text = if text.len() > NAME_BYTES_MAX {
        let hash = crc32fast::hash(text.as_bytes());
        cut = format!("{}… {hash:08x}", &text[..text.floor_char_boundary(NAME_BYTES_MAX)]);
        cut.as_str()
    } else {
        text
    };
    bytes.push(b'u');
    bytes.extend(u32::try_from(text.len()).unwrap_or(0).to_le_bytes());
    bytes.extend(text.as_bytes());
}

/// Small numbers in four bytes, large ones in digits of 15 bits.
fn integer(bytes: &mut Vec<u8>, number: u64) {
    if let Ok(small) = i32::try_from(number) {
        bytes.push(b'i');
        bytes.extend(small.to_le_bytes());
        return;
    }
    let digits: Vec<u16> = (0..5).map(|place| (number >> (15 * place) & 0x7fff) as u16).collect();
    let len = digits.iter().rposition(|digit| *digit != 0).map_or(0, |last| last + 1);
    bytes.push(b'l');
    bytes.extend((len as u32).to_le_bytes());
    digits[..len].iter().for_each(|digit| bytes.extend(digit.to_le_bytes()));
}

fn seconds(bytes: &mut Vec<u8>, us: u64) {
    bytes.push(b'g');
    bytes.extend((us as f64 / 1e6).to_le_bytes());
}
