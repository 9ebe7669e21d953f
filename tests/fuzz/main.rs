//! A libFuzzer program for the target that the variable BENCH_FUZZ names. Build and start it by `run.py`.

#![no_main]
#![expect(clippy::unwrap_used, reason = "all of it is tests")]

mod targets;

use std::sync::LazyLock;

static TARGET: LazyLock<fn(&[u8])> = LazyLock::new(|| {
    let name = std::env::var("BENCH_FUZZ").unwrap_or_default();
    let known = targets::TARGETS.iter().find(|(known, _)| *known == name);
    known
        .unwrap_or_else(|| {
            panic!("BENCH_FUZZ={name} is none of {:?}", targets::TARGETS.map(|(name, _)| name))
        })
        .1
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    targets::run(*TARGET, bytes);
});
