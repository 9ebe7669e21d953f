//! Tests of names and ages, and of what is a run.

use std::path::Path;

use super::age;
use super::find::{began, found};

#[test]
fn names_tell_when_a_run_began() {
    for (name, expected) in [
        ("20261120T225201Z-issue-tokens-1a2b3c4d", "2026-11-20T22:52:01"),
        ("runs/20261120T225201Z-x", "2026-11-20T22:52:01"),
        // Not there: the beginning of time.
        ("20261120X225201Z-x", "1970-01-01T00:00:00"),
        ("2026112éT225201Z-x", "1970-01-01T00:00:00"),
        ("", "1970-01-01T00:00:00"),
    ] {
        assert_eq!(began(&Path::new("/no/such/directory").join(name)), expected);
    }
}

#[test]
fn ages_are_days_weeks_or_durations() {
    for (text, expected) in [
        ("30d", Some(30 * 86_400)),
        ("2w", Some(14 * 86_400)),
        ("0d", Some(0)),
        ("12h", Some(12 * 3_600)),
        ("1h30m", Some(5_400)),
        ("d", None),
        ("-1d", None),
        ("1.5d", None),
        ("99999999999999999999d", None),
        ("40000d", None),
        ("30", None),
        ("", None),
    ] {
        assert_eq!(age(text).ok().map(|age| age.as_secs()), expected, "{text}");
    }
}

#[test]
fn a_directory_is_a_run_by_its_own_files_only() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, file: Option<&str>| {
        let path = folder.path().join(name);
        std::fs::create_dir(&path).unwrap();
        if let Some(file) = file {
            std::fs::write(path.join(file), "x").unwrap();
        }
        path
    };
    assert!(found(make("log", Some("run.log"))).is_some());
    assert!(found(make("results", Some("results.json"))).is_some());
    assert!(found(make("ab", Some("ab.json"))).is_some());
    assert!(found(make("empty", None)).is_none());
    assert!(found(make("other", Some("notes.txt"))).is_none());
    #[cfg(unix)]
    {
        let linked = make("linked", None);
        std::os::unix::fs::symlink(folder.path().join("log/run.log"), linked.join("run.log")).unwrap();
        assert!(found(linked).is_none());
    }
}
