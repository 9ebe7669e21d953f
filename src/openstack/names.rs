//! Names of what is made in a cloud: each begins with its run's, so that what is left can be found later, and nothing
//! else is ever touched.

use text::times::from_rfc3339;

const BEGINNING: &str = "bench-";
/// `20261123T131500Z`.
const TIME_CHARS: usize = 16;
/// The part of the run's id.
const ID_CHARS: usize = 8;
const RUN_CHARS: usize = BEGINNING.len() + TIME_CHARS + 1 + ID_CHARS;

/// When the run began that a name belongs to, in seconds since 1970; `None` if the name is not one of bench.
fn began(name: &str) -> Option<i64> {
    let rest = name.strip_prefix(BEGINNING)?;
    let (time, rest) = (rest.get(..TIME_CHARS)?, rest.get(TIME_CHARS..)?.strip_prefix('-')?);
    let (id, rest) = (rest.get(..ID_CHARS)?, rest.get(ID_CHARS..)?);
    let is_id = id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if !is_id || !(rest.is_empty() || rest.starts_with('-')) {
        return None;
    }
    let part = |from: usize, to: usize| time.get(from..to).filter(|p| p.bytes().all(|b| b.is_ascii_digit()));
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(9, 11)?, part(11, 13)?, part(13, 15)?);
    if time.get(8..9)? != "T" || !time.ends_with('Z') {
        return None;
    }
    let nanoseconds = from_rfc3339(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z"))?;
    i64::try_from(nanoseconds / 1_000_000_000).ok()
}

/// Whose things are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SweepScope {
    /// The things of the run with these names.
    Run(String),
    /// The things of all runs that began before this time, in seconds since 1970.
    Before(i64),
}

impl SweepScope {
    /// True for a name of theirs.
    pub fn has(&self, name: &str) -> bool {
        match self {
            // The whole of the run's name, not only its beginning.
            Self::Run(run) => began(name).is_some() && name.get(..RUN_CHARS) == Some(run.as_str()),
            Self::Before(time) => began(name).is_some_and(|began| began < *time),
        }
    }

    /// What all their names begin with.
    pub fn beginning(&self) -> &str {
        match self {
            Self::Run(run) => run,
            Self::Before(_) => BEGINNING,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_their_run_and_foreign_ones_are_nobodys() {
        let run = "bench-20261123T131500Z-1a2b3c4d".to_owned();
        let own = SweepScope::Run(run.clone());
        let (before, after) = (SweepScope::Before(1_795_439_700), SweepScope::Before(1_795_439_701));
        assert_eq!((own.beginning(), before.beginning()), (run.as_str(), "bench-"));
        // The name, whether it is this run's, and whether it is of bench at all.
        for (name, is_own, is_known) in [
            ("bench-20261123T131500Z-1a2b3c4d", true, true),
            ("bench-20261123T131500Z-1a2b3c4d-server-7", true, true),
            ("bench-20261123T131500Z-1a2b3c4d-", true, true),
            ("bench-20261123T131500Z-1a2b3c4e-server-7", false, true),
            ("bench-20261123T131500Z-1a2b3c4dff", false, false),
            ("bench-20261123T131500Z-1A2B3C4D-x", false, false),
            ("bench-20261323T131500Z-1a2b3c4d-x", false, false),
            ("bench-20261123 131500Z-1a2b3c4d-x", false, false),
            ("bench-2026112äT131500Z-1a2b3c4d-x", false, false),
            ("bench-20261123T131500Z", false, false),
            ("xbench-20261123T131500Z-1a2b3c4d-x", false, false),
            ("benchmark", false, false),
            ("bench-server", false, false),
            ("bench-", false, false),
            ("", false, false),
        ] {
            assert_eq!((own.has(name), after.has(name)), (is_own, is_known), "{name}");
            assert!(!before.has(name), "{name}");
        }
        // A run's record may be damaged.
        for damaged in
            ["", "bench", "bench-", "bench-20261123T131500Z", "bench-20261123T131500Z-1a2b3c4d-server"]
        {
            let which = SweepScope::Run(damaged.to_owned());
            assert!(!which.has("bench-20261123T131500Z-1a2b3c4d-server-7"), "{damaged}");
        }
    }
}
