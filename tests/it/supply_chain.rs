//! The dependencies of the program: licences and sources that `.ci/deny.toml` allows, checksums, the bill of materials,
//! and the licence text itself.
//!
//! Nothing is downloaded: cargo-deny checks packages whose source is not on this machine because they are for another
//! platform.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;

/// A package of Cargo.lock.
struct Package {
    name: String,
    version: String,
    source: Option<String>,
    checksum: Option<String>,
}

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

fn packages() -> Vec<Package> {
    let lock = read("Cargo.lock");
    let value = |block: &str, key: &str| {
        let line = block.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "));
        line.map(|line| line.trim_matches('"').to_owned())
    };
    let package = |block: &str| Package {
        name: value(block, "name").unwrap(),
        version: value(block, "version").unwrap(),
        source: value(block, "source"),
        checksum: value(block, "checksum"),
    };
    lock.split("[[package]]").skip(1).map(package).collect()
}

/// The texts of a list of `.ci/deny.toml`.
fn listed(key: &str) -> BTreeSet<String> {
    let list = Regex::new(&format!(r"(?ms)^{key} = \[(.*?)\]")).unwrap();
    let policy = read(".ci/deny.toml");
    let list = list.captures(&policy).unwrap_or_else(|| panic!(".ci/deny.toml has no {key}"))[1].to_owned();
    Regex::new("\"([^\"]*)\"").unwrap().captures_iter(&list).map(|text| text[1].to_owned()).collect()
}

/// Where the package's source is, if it is on this machine.
fn manifest(package: &Package) -> Option<String> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let registries = std::fs::read_dir(home.join("registry/src")).ok()?;
    let folder = format!("{}-{}", package.name, package.version);
    let mut found = registries.flatten().map(|registry| registry.path().join(&folder).join("Cargo.toml"));
    found.find_map(|path| std::fs::read_to_string(path).ok())
}

/// Whether an SPDX expression can be satisfied by what is allowed: OR of AND of licences.
fn satisfied(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let expression = expression.trim();
    if let Some((left, right)) = split_outside(expression, " OR ").or_else(|| split_outside(expression, "/"))
    {
        return satisfied(left, allowed) || satisfied(right, allowed);
    }
    if let Some((left, right)) = split_outside(expression, " AND ") {
        return satisfied(left, allowed) && satisfied(right, allowed);
    }
    match expression.strip_prefix('(').and_then(|inner| inner.strip_suffix(')')) {
        Some(inner) => satisfied(inner, allowed),
        None => allowed.contains(expression),
    }
}

fn split_outside<'t>(text: &'t str, separator: &str) -> Option<(&'t str, &'t str)> {
    let at = text.match_indices(separator).map(|(at, _)| at).find(|at| {
        let before = &text[..*at];
        before.matches('(').count() == before.matches(')').count()
    })?;
    Some((&text[..at], &text[at + separator.len()..]))
}

#[test]
fn licence_expressions_are_read() {
    let allowed = BTreeSet::from(["MIT".to_owned(), "Zlib".to_owned(), "A WITH e".to_owned()]);
    for (expression, expected) in [
        ("MIT", true),
        ("GPL-3.0", false),
        ("GPL-3.0 OR MIT", true),
        ("GPL-3.0/MIT", true),
        ("GPL-3.0 AND MIT", false),
        ("(GPL-3.0 OR MIT) AND Zlib", true),
        ("MIT AND (GPL-3.0 OR LGPL-3.0)", false),
        ("GPL-3.0 OR (MIT AND Zlib)", true),
        ("A WITH e", true),
        ("A", false),
        ("", false),
    ] {
        assert_eq!(satisfied(expression, &allowed), expected, "{expression}");
    }
}

#[test]
fn every_dependency_has_a_licence_that_is_allowed() {
    let (allowed, licence) = (listed("allow"), Regex::new("(?m)^license = \"(.*)\"$").unwrap());
    let mut known = 0;
    for package in packages().iter().filter(|package| package.source.is_some()) {
        let Some(manifest) = manifest(package) else { continue };
        known += 1;
        let licence = licence.captures(&manifest).map(|found| found[1].to_owned()).unwrap_or_default();
        assert!(satisfied(&licence, &allowed), "{} {}: `{licence}`", package.name, package.version);
    }
    // Cargo unpacks what it builds, unless the sources are vendored.
    if known == 0 {
        eprintln!("skipped: no source of a dependency in the registry of Cargo's home; run cargo fetch");
    }
}

#[test]
fn every_dependency_comes_from_crates_io_with_a_checksum() {
    let allowed: BTreeSet<String> =
        listed("allow-registry").into_iter().map(|url| format!("registry+{url}")).collect();
    assert_eq!(listed("allow-git"), BTreeSet::new());
    let (ours, others): (Vec<_>, Vec<_>) =
        packages().into_iter().partition(|package| package.source.is_none());
    for package in &ours {
        let known = ["bench", "osprofiler", "otel-parcels", "perf-peers", "traced-service"]
            .contains(&package.name.as_str());
        assert!(known || package.name.starts_with("bench-"), "{} is not from crates.io", package.name);
    }
    for package in others {
        assert!(allowed.contains(&package.source.clone().unwrap()), "{}: {:?}", package.name, package.source);
        assert!(package.checksum.is_some_and(|sum| sum.len() == 64), "{}", package.name);
    }
}

/// The fuzzers are a workspace of their own, which no test builds: its lock file must know our crates.
#[test]
fn the_lock_file_of_the_fuzzers_has_the_same_crates_of_ours() {
    let ours = |path: &str| -> BTreeSet<String> {
        let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap();
        let packages = text.split("[[package]]").skip(1).filter(|package| !package.contains("source = "));
        let names = packages.filter_map(|package| package.split('"').nth(1));
        names.map(str::to_owned).filter(|name| name != "bench-fuzz").collect()
    };
    let (known, mut expected) = (ours("tests/fuzz/Cargo.lock"), ours("Cargo.lock"));
    for of_tests in ["otel-parcels", "perf-peers", "traced-service"] {
        assert!(expected.remove(of_tests), "{of_tests}");
    }
    assert_eq!(known, expected, "run `cargo metadata` in tests/fuzz");
}

/// A service that wants trace points builds these, and not a load tester.
#[test]
fn a_service_needs_few_crates_for_its_trace_points() {
    const CRATES_MAX: usize = 42;
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--locked", "--package", "osprofiler", "--edges", "normal"])
        .args(["--prefix", "none", "--no-dedupe"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let crates: BTreeSet<&str> = text.lines().filter(|line| !line.is_empty()).collect();
    assert!(crates.iter().any(|name| name.starts_with("osprofiler ")), "{text}");
    assert!(crates.len() <= CRATES_MAX, "{} crates: {crates:?}", crates.len());
}

#[test]
fn the_bill_of_materials_is_complete() {
    let Ok(output) = Command::new("python3").arg(".ci/sbom").current_dir(env!("CARGO_MANIFEST_DIR")).output()
    else {
        eprintln!("skipped: python3 is not installed; tests/real/peers.sh installs it");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bill: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let found: BTreeSet<_> = bill["components"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| (text(&one["name"]), text(&one["version"]), text(&one["hashes"][0]["content"])))
        .collect();
    let expected: BTreeSet<_> = packages()
        .into_iter()
        .filter(|package| package.name != "bench")
        .map(|package| (package.name, package.version, package.checksum.unwrap_or_default()))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(text(&bill["metadata"]["component"]["name"]), "bench");
    // What a package depends on is in the bill as well.
    let references: BTreeSet<String> =
        bill["dependencies"].as_array().unwrap().iter().map(|one| text(&one["ref"])).collect();
    for one in bill["dependencies"].as_array().unwrap() {
        for needed in one["dependsOn"].as_array().unwrap() {
            assert!(references.contains(&text(needed)), "{one}");
        }
    }
    assert_eq!(references.len(), expected.len() + 1);
}

#[test]
fn the_licence_that_the_manifest_names_is_there() {
    assert!(read("Cargo.toml").contains("\nlicense = \"Apache-2.0\"\n"));
    let licence = read("LICENSE");
    for part in [
        "Version 2.0, January 2004",
        "9. Accepting Warranty",
        "END OF TERMS AND CONDITIONS",
        "APPENDIX: How to apply",
    ] {
        assert!(licence.contains(part), "{part}");
    }
}
