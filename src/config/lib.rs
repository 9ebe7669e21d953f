//! The YAML files, exactly as written.
//!
//! The types here are the single definition of the files' structure. serde reads files into them, schemars makes the
//! JSON Schema from them, and [`check`] compares a document with that schema and finds every fault at once, with its
//! place. This module must not resolve anything, apply defaults or look up secrets.

pub mod auth;
pub mod body;
pub mod capacity;
pub mod check;
pub mod condition;
pub mod contexts;
pub mod data;
pub mod deployment;
pub mod deployment_place;
pub mod end;
pub mod expect;
pub mod grpc;
pub mod http;
pub mod kept;
pub mod keystone;
mod matching;
pub mod network;
mod notation;
mod one_of;
pub mod probe;
pub mod rally;
pub mod reference;
pub mod referred;
pub mod runner;
pub mod scenario;
pub mod schema;
pub mod shown;
pub mod sla;
pub mod step;
pub mod stream;
pub mod target;
pub mod websocket;

use std::collections::{BTreeSet, HashSet};
use std::ops::Range;

use serde::Serialize;
use serde::de::DeserializeOwned;

use text::diagnostics::{Fault, SourceText};
use text::yaml::{self, YamlNode};
use text::yaml_text;

/// A document, and the place of everything in it.
pub struct Document<T> {
    /// The file's name and text.
    pub source: SourceText,
    /// The document with its positions.
    pub root: YamlNode,
    /// The document.
    pub value: T,
    /// The references that stand in place of texts in its steps.
    pub referred: Vec<referred::TextReference>,
}

/// A file that was rejected, with its faults.
pub struct RejectedFile {
    /// The file's name and text.
    pub source: SourceText,
    /// Every fault found.
    pub faults: Vec<Fault>,
}

/// Reads one document of type `T`.
///
/// # Errors
/// All faults of syntax and structure at once.
pub fn read<T: DeserializeOwned>(
    source: SourceText,
    schema: &serde_json::Value,
) -> Result<Document<T>, RejectedFile> {
    let (root, faults) = yaml::parse_all(&source);
    match root {
        Some(root) => from_node(source, root, faults, schema),
        None => Err(RejectedFile { source, faults }),
    }
}

/// Reads a document that has been parsed, with the faults that the parser found.
///
/// # Errors
/// These faults and all faults of structure, at once.
pub fn from_node<T: DeserializeOwned>(
    mut source: SourceText,
    mut root: YamlNode,
    mut faults: Vec<Fault>,
    schema: &serde_json::Value,
) -> Result<Document<T>, RejectedFile> {
    source.shown = shown::shown(&source.text, &root, schema);
    let referred = referred::take(&mut root, &source.name);
    add_independent(&mut faults, check::check(&root, schema, &source.shown));
    if !faults.is_empty() {
        return Err(RejectedFile { source, faults });
    }
    match serde_path_to_error::deserialize(root.to_value()) {
        Ok(value) => Ok(Document { source, root, value, referred }),
        Err(error) => {
            // The schema cannot express this fault; the path leads to its place.
            let fault = Fault::error(check::span_at(&root, error.path()), error.inner().to_string());
            Err(RejectedFile { source, faults: vec![fault] })
        }
    }
}

/// Writes a document as YAML. Keys are in the order of their definition; unset keys are left out. Reading the result
/// gives the same document.
///
/// # Errors
/// The document contains a secret itself; only references to secrets can be written.
pub fn write<T: Serialize>(document: &T) -> Result<String, serde_yaml::Error> {
    Ok(yaml_text::to_text(&serde_yaml::to_value(document)?))
}

/// Reads a rejected document without its faulty parts. The result serves only to find further faults, never to run.
#[must_use]
pub fn salvage<T: DeserializeOwned>(
    rejected: &RejectedFile,
    schema: &serde_json::Value,
) -> Option<Document<T>> {
    let mut root = yaml::parse_all(&rejected.source).0?;
    let referred = referred::take(&mut root, &rejected.source.name);
    let root = check::without_faults(root, schema)?;
    let value = serde_path_to_error::deserialize(root.to_value()).ok()?;
    Some(Document { source: rejected.source.clone(), root, value, referred })
}

/// Adds the faults of `further` that are not consequences of a fault in `faults`: those that have a place and do not
/// overlap with one.
pub fn add_independent(faults: &mut Vec<Fault>, further: Vec<Fault>) {
    if faults.is_empty() {
        faults.extend(further);
        return;
    }
    let mut known: Vec<_> = faults.iter().filter_map(|fault| fault.span.clone()).collect();
    known.sort_by_key(|span| span.start);
    let same: HashSet<_> = known.iter().cloned().collect();
    // The largest end of all spans up to each one, so that a binary search finds an overlap.
    let ends: Vec<usize> = known
        .iter()
        .scan(0, |most, span| {
            *most = span.end.max(*most);
            Some(*most)
        })
        .collect();
    let overlaps = |span: &Range<usize>| {
        let before = known.partition_point(|other| other.start < span.end);
        before > 0 && ends[before - 1] > span.start
    };
    let independent =
        |fault: &Fault| fault.span.as_ref().is_some_and(|span| !same.contains(span) && !overlaps(span));
    faults.extend(further.into_iter().filter(independent));
}

/// All keys and texts of a document: everything that an unreadable part of it might declare.
#[must_use]
pub fn words(root: &YamlNode) -> BTreeSet<String> {
    fn collect(node: &YamlNode, words: &mut BTreeSet<String>) {
        match &node.kind {
            yaml::YamlValue::Text { text, .. } => drop(words.insert(text.clone())),
            yaml::YamlValue::List(items) => items.iter().for_each(|item| collect(item, words)),
            yaml::YamlValue::Map(entries) => {
                for (key, value) in entries {
                    words.insert(key.name.clone());
                    collect(value, words);
                }
            }
            _ => {}
        }
    }
    let mut words = BTreeSet::new();
    collect(root, &mut words);
    words
}
