//! A profile in the format of Python's `pstats`: `sort cumtime`, `stats 10`.
//!
//! `pstats` has no place for a remark, so the outermost function is one that says what the numbers are.

use super::model::{Function, FunctionProfile};
use super::table::rows;
use base::marshal::Marshal;

/// The bytes of a `.prof` file.
#[must_use]
pub fn encode(profile: &FunctionProfile) -> Vec<u8> {
    let samples: u64 = profile.stacks.iter().map(|stack| stack.samples).sum();
    let root = Function { name: profile.operation.clone(), file: profile.header(), line: 0 };
    let mut out = Marshal::default();
    out.begin_dict();
    let row = |out: &mut Marshal, own: u64, cumulative: u64| {
        // pstats divides by the calls, so a function has its own samples as calls.
        out.integer(own);
        out.integer(own);
        out.float(own as f64 * profile.seconds_per_sample());
        out.float(cumulative as f64 * profile.seconds_per_sample());
    };
    key(&mut out, &root);
    out.tuple(5);
    row(&mut out, 0, samples);
    out.begin_dict();
    out.end_dict();
    for found in rows(profile, None) {
        let Some(function) = profile.functions.get(found.function as usize) else { continue };
        key(&mut out, function);
        out.tuple(5);
        row(&mut out, found.own, found.cumulative);
        out.begin_dict();
        if found.outermost.1 > 0 {
            key(&mut out, &root);
            out.tuple(4);
            row(&mut out, found.outermost.0, found.outermost.1);
        }
        for (caller, (own, cumulative)) in found.callers {
            let Some(caller) = profile.functions.get(caller as usize) else { continue };
            key(&mut out, caller);
            out.tuple(4);
            row(&mut out, own, cumulative);
        }
        out.end_dict();
    }
    out.end_dict();
    out.into_bytes()
}

fn key(out: &mut Marshal, function: &Function) {
    out.tuple(3);
    // pstats takes a name without a file for a built-in function.
    out.text(if function.file.is_empty() { "~" } else { &function.file });
    out.integer(u64::from(function.line));
    out.text(&function.name);
}
