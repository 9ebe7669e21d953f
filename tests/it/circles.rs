//! Files of a crate must not import each other in a circle, directly or through others: shared code belongs in a third
//! file. (Between crates, Cargo allows no circle.)
//!
//! A submodule may name the modules that it is in.

use std::collections::{BTreeMap, BTreeSet};

use crate::tidy::{code, is_test, source_files};

/// A module's crate (a folder of `src`, or nothing for the program) and path, by its file.
type Module = (String, Vec<String>);

fn module(name: &str) -> Module {
    let (owner, within) = name.split_once('/').unwrap_or(("", name));
    let mut path: Vec<String> = within.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        path.pop();
    }
    (owner.to_owned(), path)
}

/// The paths of a tree of imports, such as `a::{b, c::{d, e}}`.
fn leaves(prefix: &str, tree: &str) -> Vec<String> {
    let tree = tree.trim();
    let Some(at) = tree.find('{') else {
        let name = tree.split(" as ").next().unwrap_or_default().trim();
        return vec![format!("{prefix}{name}")];
    };
    let prefix = format!("{prefix}{}", &tree[..at]);
    let mut open = 0_usize;
    let closes = |c: char| {
        open = if c == '{' { open + 1 } else { open.saturating_sub(usize::from(c == '}')) };
        open == 0
    };
    let end = tree[at..].find(closes).map_or(tree.len(), |length| at + length);
    let inner = &tree[at + 1..end];
    let (mut depth, mut from, mut found) = (0, 0, Vec::new());
    for (place, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !inner[from..place].trim().is_empty() {
                    found.extend(leaves(&prefix, &inner[from..place]));
                }
                from = place + 1;
            }
            _ => {}
        }
    }
    found
}

/// Every path that a file imports or names from its crate's root or its own module.
fn paths(code: &str) -> Vec<String> {
    let text = code.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    for (at, _) in text.match_indices("use ") {
        if at == 0 || !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_') {
            found.extend(leaves("", text[at + 4..].split(';').next().unwrap_or_default()));
        }
    }
    for root in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(root) {
            if !text[..at].ends_with(|c: char| c.is_alphanumeric() || c == ':') {
                let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
                found.push(text[at..].split(|c| !is_path(c)).next().unwrap_or_default().to_owned());
            }
        }
    }
    found
}

/// The file that a path leads to, seen from a module.
fn file_of<'f>(path: &str, from: &Module, files: &'f BTreeMap<Module, String>) -> Option<&'f String> {
    let mut parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
    let mut at = from.1.clone();
    match *parts.first()? {
        "crate" => at = Vec::new(),
        "super" | "self" => {}
        first => {
            at.push(first.to_owned());
            files.get(&(from.0.clone(), at.clone()))?;
            at.pop();
        }
    }
    while let Some(first) = parts.first().filter(|part| ["crate", "super", "self"].contains(*part)) {
        if *first == "super" {
            at.pop()?;
        }
        parts.remove(0);
    }
    (0..=parts.len()).rev().find_map(|length| {
        let mut path = at.clone();
        path.extend(parts[..length].iter().map(|part| (*part).to_owned()));
        files.get(&(from.0.clone(), path))
    })
}

fn imports() -> BTreeMap<String, BTreeSet<String>> {
    let sources: Vec<(String, String)> =
        source_files().into_iter().filter(|(name, _)| !is_test(name)).collect();
    let files: BTreeMap<Module, String> =
        sources.iter().map(|(name, _)| (module(name), name.clone())).collect();
    let mut imports = BTreeMap::new();
    for (name, text) in &sources {
        let own = module(name);
        let others = paths(&code(text)).into_iter().filter_map(|path| file_of(&path, &own, &files));
        let apart = |other: &&String| !own.1.starts_with(&module(other).1);
        imports.insert(name.clone(), others.filter(apart).cloned().collect());
    }
    imports
}

/// Everything that a file leads to.
fn reached(from: &str, imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let (mut reached, mut pending) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(name) = pending.pop() {
        for other in imports.get(&name).into_iter().flatten() {
            if reached.insert(other.clone()) {
                pending.push(other.clone());
            }
        }
    }
    reached
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let imports = imports();
    assert!(imports.values().map(BTreeSet::len).sum::<usize>() > 500, "imports are not read any more");
    let reached: BTreeMap<&String, BTreeSet<String>> =
        imports.keys().map(|name| (name, reached(name, &imports))).collect();
    let mut circles: Vec<Vec<&str>> = Vec::new();
    for (name, others) in &reached {
        if others.contains(*name) && !circles.iter().any(|circle| circle.contains(&name.as_str())) {
            let together = |other: &&String| reached[*other].contains(*name);
            circles.push(others.iter().filter(together).map(String::as_str).collect());
        }
    }
    assert!(circles.is_empty(), "files import each other in a circle; move what both need: {circles:#?}");
}

#[test]
fn imports_are_read_as_the_compiler_reads_them() {
    let expected = ["a::b", "a::c::d", "a::c::e", "f"];
    assert_eq!([leaves("", "a::{b, c::{d, e}}"), leaves("", "f as g")].concat(), expected);
    let text = "pub use super::x::{A, y::{B, C}};\nfn f() -> crate::z::D { reuse(self::w::E) }";
    let found = paths(text);
    for path in ["super::x::A", "super::x::y::B", "super::x::y::C", "crate::z::D", "self::w::E"] {
        assert!(found.iter().any(|found| found == path), "{path}: {found:?}");
    }
}
