//! Python's profile format, so that `python3 -m pstats`, SnakeViz and others open traces.
//!
//! A `.prof` file is Python's `marshal` of a dictionary from function to `(primitive calls, calls, own seconds,
//! cumulative seconds, callers)`. Callers are a dictionary of the same four numbers. This is cProfile's form, observed
//! on CPython 3.11; SnakeViz does not read the form of `profile`, which holds counts alone. A function is `(file, line,
//! name)`: the reporting service, 0, and the point. [`base::marshal`] writes the bytes.

use std::io::{self, Write};

use analysis::call_stats::{CallStats, Calls, Function, SortKey};
use base::marshal::Marshal;

/// Longer names are cut: they label boxes.
const NAME_BYTES_MAX: usize = 1_000;

/// Writes the profile.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(stats: &CallStats, out: &mut dyn Write) -> io::Result<()> {
    let mut profile = Marshal::default();
    profile.begin_dict();
    for (function, row) in stats.rows(SortKey::Name) {
        key(&mut profile, function);
        profile.tuple(5);
        numbers(&mut profile, row.calls.primitive, &row.calls);
        profile.begin_dict();
        let mut callers: Vec<_> = row.callers.iter().collect();
        callers.sort_by_key(|(caller, _)| *caller);
        for (caller, calls) in callers {
            key(&mut profile, caller);
            profile.tuple(4);
            // Unlike above, all calls come first here.
            profile.integer(calls.total);
            profile.integer(calls.primitive);
            profile.float(calls.own_us as f64 / 1e6);
            profile.float(calls.cumulative_us as f64 / 1e6);
        }
        profile.end_dict();
    }
    profile.end_dict();
    out.write_all(&profile.into_bytes())
}

fn numbers(profile: &mut Marshal, primitive: u64, calls: &Calls) {
    profile.integer(primitive);
    profile.integer(calls.total);
    profile.float(calls.own_us as f64 / 1e6);
    profile.float(calls.cumulative_us as f64 / 1e6);
}

fn key(profile: &mut Marshal, function: &Function) {
    profile.tuple(3);
    // pstats takes a name without a file for a built-in function.
    text(profile, if function.place.is_empty() { "~" } else { &function.place });
    profile.integer(0);
    text(profile, &function.name);
}

fn text(profile: &mut Marshal, text: &str) {
    if text.len() <= NAME_BYTES_MAX {
        return profile.text(text);
    }
    // Names that differ only after the cut stay different functions.
    let hash = crc32fast::hash(text.as_bytes());
    profile.text(&format!("{}… {hash:08x}", &text[..text.floor_char_boundary(NAME_BYTES_MAX)]));
}
