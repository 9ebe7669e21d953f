//! Functions of operations: whose they are, how many, and what the files say to their real readers.
//!
//! There is one sampler in a process, so these tests take turns.

#[cfg(feature = "functions")]
mod burning;
#[cfg(feature = "functions")]
mod children;
mod files;
#[cfg(feature = "functions")]
mod sessions;
mod travelling;
#[cfg(feature = "functions")]
mod truth;

use crate::functions::model::{Builder, Function, FunctionProfile};

/// Only one test at a time samples.
#[cfg(feature = "functions")]
fn turn() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Samples in or below each function, by the last part of its name. Not by itself: in a debug build, loops call.
#[cfg(feature = "functions")]
fn seen(profile: &FunctionProfile) -> std::collections::BTreeMap<String, u64> {
    let mut seen = std::collections::BTreeMap::new();
    for row in crate::functions::table::rows(profile, None) {
        let name = &profile.functions[row.function as usize].name;
        let last = name.rsplit("::").next().unwrap_or(name);
        *seen.entry(last.to_owned()).or_default() += row.cumulative;
    }
    seen
}

/// A profile with awkward names.
fn awkward() -> FunctionProfile {
    let function = |name: &str, file: &str, line| Function { name: name.into(), file: file.into(), line };
    let main = function("service::main", "src/main.rs", 3);
    let render = function("service::render <T; U>", "src/a b.rs", 40);
    let libc = function("memcpy", "", 0);
    let mut builder = Builder::new("create server", 100);
    builder.set_operations(1);
    builder.add(Some("point-2"), &[main.clone(), render.clone()], 50);
    builder.add(Some("point-1"), &[main.clone(), render.clone(), libc.clone()], 30);
    builder.add(None, &[main.clone(), render.clone(), render, libc], 20);
    builder.add(None, &[main], 1);
    builder.finish()
}
