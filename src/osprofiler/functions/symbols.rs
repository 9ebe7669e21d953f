//! The names of addresses in this program, after the operation: looking them up takes milliseconds.

use std::collections::HashMap;
use std::ffi::c_void;

use super::model::Function;

/// What makes operations known, and what catches their panics, is not one of their functions. Paths start like this.
const PLUMBING: [&str; 8] = [
    "osprofiler::functions::",
    "osprofiler::trace::current::",
    "<osprofiler::traced::",
    "osprofiler::traced::",
    "std::panicking::",
    "std::panic::",
    "__rust_try",
    "<core::panic::unwind_safe::",
];
/// More addresses are not remembered.
const CACHE_LEN_MAX: usize = 100_000;

/// Remembers the names of addresses.
#[derive(Default)]
pub(super) struct Symbols {
    known: HashMap<usize, Vec<Function>>,
}

impl Symbols {
    /// The functions of a stack, outermost first; several for a frame into which others were inlined. Frames are
    /// return addresses, innermost first.
    pub(super) fn stack(&mut self, frames: &[usize]) -> Vec<Function> {
        let mut stack = Vec::with_capacity(frames.len());
        for (index, &frame) in frames.iter().enumerate().rev() {
            // Names are looked up one byte before a return address, but the innermost frame is none.
            let functions = self.at(if index == 0 { frame.saturating_add(1) } else { frame });
            stack.extend(functions.iter().filter(|function| !is_plumbing(&function.name)).cloned());
        }
        stack
    }

    fn at(&mut self, frame: usize) -> &[Function] {
        if self.known.len() >= CACHE_LEN_MAX {
            self.known.clear();
        }
        self.known.entry(frame).or_insert_with(|| {
            let functions = resolve(frame);
            if functions.is_empty() { vec![Function::named(&format!("{frame:#x}"))] } else { functions }
        })
    }
}

/// Whether the program has no names. The names of libraries are there in any case.
pub(super) fn are_missing() -> bool {
    resolve((are_missing as fn() -> bool) as usize + 1).is_empty()
}

/// Outermost first.
fn resolve(frame: usize) -> Vec<Function> {
    let mut functions = Vec::new();
    backtrace::resolve(frame as *mut c_void, |symbol| {
        let Some(name) = symbol.name() else { return };
        let file = symbol.filename().map(|file| file.display().to_string()).unwrap_or_default();
        let line = if file.is_empty() { 0 } else { symbol.lineno().unwrap_or(0) };
        // Without the hash at the end of a name, which changes with each build.
        functions.push(Function { name: format!("{name:#}"), file, line });
    });
    functions.reverse();
    functions
}

fn is_plumbing(name: &str) -> bool {
    PLUMBING.iter().any(|path| name.starts_with(path))
}
