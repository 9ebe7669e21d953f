//! The seed of a run's rows and random values, in words.

/// How to send the same requests again.
pub(super) fn words(seed: u64) -> String {
    format!("{seed}; repeat with --seed {seed}")
}
