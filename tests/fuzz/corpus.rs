//! Every input that fuzzing kept, and some made from them, goes through its target in a plain build: see `run.py` for the
//! real thing, which finds new ones by coverage.
//!
//! `BENCH_FUZZ_INPUTS=100000 cargo test --release --test corpus` makes that many inputs for each target, and with
//! `BENCH_FUZZ_TARGET=scenario` for that one only.

#![expect(clippy::unwrap_used, reason = "all of it is tests, helpers included")]

mod mutations;
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use fastrand::Rng;

/// How many inputs are made for each target.
const INPUTS: u64 = 150;

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Changes an input in some places, as fuzzers do.
fn changed(input: &[u8], other: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..rng.u32(1..6) {
        let at = rng.usize(0..=bytes.len());
        match rng.u32(0..6) {
            0 => bytes.truncate(at),
            1 => bytes.insert(at, rng.u8(..)),
            2 if at < bytes.len() => bytes[at] ^= 1 << rng.u32(0..8),
            3 if at < bytes.len() => drop(bytes.remove(at)),
            4 if at < bytes.len() => {
                let end = (at + rng.usize(0..40)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => {
                let from = rng.usize(0..=other.len());
                let end = (from + rng.usize(0..60)).min(other.len());
                bytes.splice(at..at, other[from..end].iter().copied());
            }
        }
    }
    bytes
}

#[test]
fn every_kept_input_and_some_like_it_are_survived() {
    let made = std::env::var("BENCH_FUZZ_INPUTS").map_or(INPUTS, |count| count.parse().unwrap());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    let only = std::env::var("BENCH_FUZZ_TARGET").ok();
    let targets =
        targets::TARGETS.into_iter().filter(|(name, _)| only.as_deref().is_none_or(|only| only == *name));
    for (name, target) in targets {
        let paths = files(&folder.join(name));
        let kept: Vec<Vec<u8>> = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
        assert!(!kept.is_empty(), "{name} has no corpus");
        for (path, input) in paths.iter().zip(&kept) {
            let ended = catch_unwind(AssertUnwindSafe(|| targets::run(target, input)));
            assert!(ended.is_ok(), "{name} fails for {}", path.display());
        }
        let rng = &mut Rng::with_seed(name.len() as u64);
        for number in 0..made {
            let (one, two) = (&kept[rng.usize(0..kept.len())], &kept[rng.usize(0..kept.len())]);
            let input = changed(one, two, rng);
            let ended = catch_unwind(AssertUnwindSafe(|| targets::run(target, &input)));
            if ended.is_err() {
                let path = std::env::temp_dir().join(format!("bench-{name}-{number}"));
                std::fs::write(&path, &input).unwrap();
                panic!("{name} fails for {}", path.display());
            }
        }
    }
}

/// Kept answers are understood: what refuses all of them would never differ from anything.
#[test]
fn kept_answers_are_understood() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus");
    let answers = files(&corpus.join("http"));
    let understood =
        |path: &&PathBuf| targets::ask_http1(&std::fs::read(path).unwrap(), usize::MAX).is_some();
    let count = answers.iter().filter(understood).count();
    assert!(count >= 10, "{count} of {} are answers", answers.len());
    let folder = corpus.join("http2");
    for (name, expected) in
        [("plain", (200, 5)), ("nobody", (204, 0)), ("trailers", (200, 4)), ("huffman", (302, 0))]
    {
        let bytes = std::fs::read(folder.join(name)).unwrap();
        for piece in [usize::MAX, 1, 7] {
            assert_eq!(targets::ask_http2(&bytes, piece), Some(expected), "{name} in pieces of {piece}");
        }
        assert_eq!(targets::ask_h2(&bytes), Some(expected), "{name}, by h2");
    }
    let frames = files(&corpus.join("websocket"));
    let messages = |path: &PathBuf| {
        let bytes = std::fs::read(path).unwrap();
        targets::socket_messages(bytes[0], &bytes[1..], usize::MAX).0.len()
    };
    let count: usize = frames.iter().map(messages).sum();
    assert!(count >= 20, "{count} messages in {} files", frames.len());
}
