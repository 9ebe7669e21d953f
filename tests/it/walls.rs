//! Which crate may use which: the order of the table in `src/lib.rs`, and what some must not even reach through others.
//!
//! Cargo itself allows no circle and no crate that a manifest does not name. What is left is that manifests stay as they
//! are meant.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// What reads a run knows nothing of how it was made, and links no network.
const OF_A_LOAD: [&str; 10] = [
    "bench-client",
    "bench-iteration",
    "bench-plan",
    "bench-runners",
    "bench-receive",
    "bench-collect",
    "h2",
    "hyper",
    "reqwest",
    "rustls",
];

/// A crate, and what must not be in its tree.
const NEVER: [(&str, &[&str]); 15] = [
    ("bench-base", &["osprofiler", "tokio", "http"]),
    ("bench-text", &["osprofiler", "tokio", "http"]),
    ("bench-measure", &OF_A_LOAD),
    ("bench-results", &OF_A_LOAD),
    ("bench-analysis", &OF_A_LOAD),
    ("bench-capacity", &OF_A_LOAD),
    ("bench-verdict", &OF_A_LOAD),
    ("bench-live", &OF_A_LOAD),
    ("bench-report", &OF_A_LOAD),
    ("bench-judging", &OF_A_LOAD),
    ("bench-import", &OF_A_LOAD),
    ("bench-receive", &["bench-results", "bench-plan", "bench-iteration", "bench-runners"]),
    ("bench-runners", &["bench-results", "bench-report", "bench-harness"]),
    ("bench-grpc", &OF_A_LOAD),
    ("bench-openstack", &["bench-results", "bench-report", "bench-harness"]),
];

/// What a manifest must not name, although it may be reached through others.
const NOT_DIRECTLY: [(&str, &[&str]); 3] = [
    ("cli", &["measure", "client", "iteration", "runner", "statistics", "terms"]),
    ("client", &["config", "terms"]),
    ("runner", &["osprofiler"]),
];

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// The crates in the order of the table.
fn listed() -> Vec<String> {
    let rows = read("src/lib.rs");
    let rows = rows.lines().filter_map(|line| line.strip_prefix("//! | [`"));
    rows.map(|row| row.split('`').next().unwrap_or_default().to_owned()).collect()
}

/// The dependencies that a manifest names for its library.
fn dependencies(folder: &str) -> BTreeSet<String> {
    let manifest = read(&format!("src/{folder}/Cargo.toml"));
    let section = manifest.split("\n[dependencies]\n").nth(1).unwrap_or_default();
    let lines = section.lines().take_while(|line| !line.starts_with('['));
    lines.filter_map(|line| Some(line.split(['.', ' ', '=']).next()?.to_owned())).collect()
}

#[test]
fn every_folder_is_a_crate_in_the_map_and_uses_only_crates_above_it() {
    let listed = listed();
    let folders: BTreeSet<String> = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_dir())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), folders, "the map in src/lib.rs");
    assert_eq!(listed.len(), folders.len(), "a crate stands twice in the map");
    for (at, name) in listed.iter().enumerate() {
        for used in dependencies(name).intersection(&folders) {
            assert!(listed[..at].contains(used), "{name} uses {used}, which is not above it in the map");
        }
    }
}

/// A dependency that nothing uses costs everybody the time to build it.
#[test]
fn manifests_name_only_what_their_sources_use() {
    // Macros of `text` name it where they are used.
    const BY_MACRO: &str = "insta";
    let sources = crate::tidy::source_files();
    let mut faults = Vec::new();
    for folder in listed() {
        let own = sources.iter().filter(|(name, _)| name.starts_with(&format!("{folder}/")));
        let own: String = own.map(|(_, text)| text.as_str()).collect();
        let manifest = read(&format!("src/{folder}/Cargo.toml"));
        let sections = manifest.split("\n[").filter(|section| section.contains("dependencies"));
        let lines =
            sections.flat_map(|section| section.lines().skip(1).take_while(|line| !line.starts_with('[')));
        for name in lines.filter_map(|line| line.split(['.', ' ', '=']).next()) {
            if name.is_empty() || name == "#" || name == BY_MACRO {
                continue;
            }
            let written = if name == "md-5" { "md5".to_owned() } else { name.replace('-', "_") };
            if !own.contains(&format!("{written}::")) && !own.contains(&format!("use {written};")) {
                faults.push(format!("src/{folder}/Cargo.toml names {name}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn manifests_name_no_crate_that_is_not_their_business() {
    for (folder, never) in NOT_DIRECTLY {
        let named = dependencies(folder);
        assert!(!named.is_empty(), "src/{folder}/Cargo.toml is not read");
        let faults: Vec<_> = never.iter().filter(|one| named.contains(**one)).collect();
        assert!(faults.is_empty(), "src/{folder}/Cargo.toml names {faults:?}");
    }
}

#[test]
fn no_crate_reaches_what_it_must_not_know() {
    let mut faults = Vec::new();
    for (package, never) in NEVER {
        let output = Command::new(env!("CARGO"))
            .args(["tree", "--offline", "--locked", "--package", package, "--edges", "normal"])
            .args(["--prefix", "none", "--no-dedupe"])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let tree = String::from_utf8(output.stdout).unwrap();
        let reached: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(reached.contains(package), "{tree}");
        faults.extend(
            never.iter().filter(|one| reached.contains(**one)).map(|one| format!("{package} reaches {one}")),
        );
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
