//! The documents: every link leads somewhere, pages are short enough to be read, and what they name exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// More words than this are more than one subject.
const WORDS_MAX: usize = 3_000;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The pages of the project, by their paths from its root.
fn pages() -> BTreeMap<String, String> {
    let folders = [
        "",
        "scenarios",
        "scenarios/openstack",
        "deployments",
        "deployments/grafana",
        "src/osprofiler",
        "tests",
        "tests/perf",
        "tests/compat",
        ".github",
        ".ci",
    ];
    let mut pages = BTreeMap::new();
    for folder in folders {
        for entry in std::fs::read_dir(root().join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "md") {
                let name = path.strip_prefix(root()).unwrap().to_string_lossy().replace('\\', "/");
                pages.insert(name, std::fs::read_to_string(&path).unwrap());
            }
        }
    }
    assert!(pages.len() > 20, "{:?}", pages.keys());
    pages
}

/// The text without blocks of code.
fn prose(page: &str) -> String {
    page.split("\n```").step_by(2).collect::<Vec<_>>().join("\n")
}

/// The targets of links, such as `gates.md#gitlab`.
fn links(page: &str) -> Vec<String> {
    let prose = prose(page);
    let targets =
        prose.match_indices("](").map(|(at, _)| prose[at + 2..].split(')').next().unwrap_or_default());
    targets.filter(|target| !target.contains("://")).map(str::to_owned).collect()
}

/// GitHub's anchors of a page's headings.
fn anchors(page: &str) -> BTreeSet<String> {
    let prose = prose(page);
    let headings = prose.lines().filter_map(|line| line.strip_prefix('#'));
    let kept = |char: &char| char.is_alphanumeric() || [' ', '-', '_'].contains(char);
    let headings = headings.map(|line| line.trim_start_matches('#').trim());
    headings
        .map(|heading| heading.chars().filter(kept).collect::<String>().to_lowercase().replace(' ', "-"))
        .collect()
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let pages = pages();
    let (mut faults, mut followed) = (Vec::new(), 0);
    for (name, page) in &pages {
        let folder = root().join(name).parent().unwrap().to_owned();
        for link in links(page) {
            followed += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let path: PathBuf = if file.is_empty() { root().join(name) } else { folder.join(file) };
            if !path.exists() {
                faults.push(format!("{name}: {link} leads to no file"));
            } else if !anchor.is_empty()
                && !anchors(&std::fs::read_to_string(&path).unwrap()).contains(anchor)
            {
                faults.push(format!("{name}: {link} leads to no heading"));
            }
        }
    }
    assert!(followed > 100, "only {followed} links were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_page_is_too_long_to_be_read() {
    for (name, page) in pages() {
        let words = page.split_whitespace().count();
        assert!(words <= WORDS_MAX, "{name} has {words} words; divide it, or say less");
    }
}

/// The places in `src` that CONTRIBUTING names are there.
#[test]
fn a_contributor_finds_what_contributing_names() {
    let page = std::fs::read_to_string(root().join(".github/CONTRIBUTING.md")).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| a")).collect();
    assert!(rows.len() > 10, "{rows:?}");
    let crates: Vec<String> = std::fs::read_dir(root().join("src"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    let mut followed = 0;
    for row in rows {
        for place in row
            .split('`')
            .skip(1)
            .step_by(2)
            .filter(|place| place.contains('/') && !place.contains([' ', 'N', 'C']))
        {
            followed += 1;
            let first = place.split('/').next().unwrap_or_default();
            let path = if crates.iter().any(|name| name == first) {
                format!("src/{place}")
            } else {
                place.to_owned()
            };
            assert!(root().join(&path).exists(), "CONTRIBUTING names {place}, which is not there");
        }
    }
    assert!(followed > 25, "{followed}");
}
