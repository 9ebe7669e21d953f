//! Reads OpenAPI 3.0 and 3.1 documents, and Swagger 2.0, in JSON or YAML.
//!
//! Each operation becomes an action with sample values: the document's examples, or values that its schemas allow
//! (`sample`). References are followed within the document and to files in its folder; cycles and sizes are bounded.

mod body;
mod created;
mod document;
mod left;
mod operation;
mod references;
mod sample;
mod security;
mod style;

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::{Value, json};

use text::digits;

use super::draft::Draft;
use super::request::Targets;
use super::{ImportError, STEPS_MAX};
use document::{OpenApiDocument, Operation};
pub use references::ReadFile;

/// The largest document, in bytes.
pub const BYTES_MAX: u64 = 64 << 20;

/// Which operations to take. An empty list chooses all.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// By `operationId`.
    pub operations: Vec<String>,
    /// By tag.
    pub tags: Vec<String>,
    /// By the beginning of their path.
    pub paths: Vec<String>,
    /// Also those that change something: POST, PUT, PATCH and DELETE.
    pub all_methods: bool,
}

/// The scenario of a document. `file` reads the other files that it is in.
///
/// # Errors
/// The input is not an OpenAPI document, or no operation is chosen.
pub fn from_reader(input: impl Read, options: &Options, file: &ReadFile<'_>) -> Result<Draft, ImportError> {
    let mut root = document::read(input)?;
    let mut draft = Draft { notes: references::gather(&mut root, file), ..Draft::default() };
    let document = OpenApiDocument::of(root)?;
    let info = document.at(&["info"]);
    let title = info.and_then(|info| info.get("title")?.as_str()).unwrap_or("API");
    draft.title =
        Some(first_line(title, 100)).filter(|title| !title.is_empty()).unwrap_or_else(|| "API".to_owned());
    let version = info.and_then(|info| info.get("version")).map(text_of).unwrap_or_default();
    draft.about.push(format!(
        "Made by `bench import openapi` from {}, version {}.",
        draft.title,
        first_line(&version, 40)
    ));
    let base = document.base();
    draft.name = base.url.split_once("://").map_or(base.url.as_str(), |(_, host)| host).to_owned();
    let mut targets = Targets::default();
    targets.name(&base.url);
    let security = security::Security::read(&document, &mut draft);
    let (operations, mut skipped) = chosen(&document, options);
    let mut links = operation::Links::default();
    let mut names = BTreeMap::<String, usize>::new();
    for operation in &operations {
        if draft.steps.len() >= STEPS_MAX {
            *skipped.entry("after the first 500").or_default() += 1;
            continue;
        }
        match operation.step(&document, &security, &mut draft.variables, &mut links, &mut names) {
            Some(mut step) => {
                match document.base_of(operation, &base) {
                    Ok(url) => {
                        step.keys.extend(targets.name(&url).map(|name| ("target".to_owned(), name.into())))
                    }
                    Err(_) => links.left.add("servers that are no URLs: the document's is used"),
                }
                draft.steps.push(step);
            }
            None => *skipped.entry("with methods that bench cannot send").or_default() += 1,
        }
    }
    draft.targets = targets.0;
    match document.operations().next() {
        Some(_) => draft.notes.extend(base.note),
        // Nothing else is the reason why there is no request.
        None => draft.notes.push("the document has no operations".to_owned()),
    }
    links.left.of_document(&document);
    draft.notes.extend(links.left.note());
    links.add_extracts(&mut draft.steps);
    draft.stand_ins(&links.stand_ins);
    note_skipped(&skipped, &mut draft.notes);
    if !links.samples.is_empty() {
        let names: Vec<&str> = links.samples.iter().map(String::as_str).take(20).collect();
        draft.notes.push(format!("give these variables values that exist: {}", names.join(", ")));
    }
    Ok(draft)
}

fn note_skipped(skipped: &BTreeMap<&'static str, usize>, notes: &mut Vec<String>) {
    let parts: Vec<String> = skipped.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    if !parts.is_empty() {
        notes.push(format!("operations were left out: {}", parts.join(", ")));
    }
}

/// The chosen operations, and how many were left out by the reason. Those that create come first, so that later ones
/// can use what they answer; those that delete come last.
fn chosen<'d>(
    document: &'d OpenApiDocument,
    options: &Options,
) -> (Vec<Operation<'d>>, BTreeMap<&'static str, usize>) {
    let mut skipped = BTreeMap::new();
    let mut chosen: Vec<Operation<'d>> = Vec::new();
    for operation in document.operations() {
        let among =
            |list: &[String], is: &dyn Fn(&str) -> bool| list.is_empty() || list.iter().any(|one| is(one));
        let wanted = among(&options.operations, &|id| operation.id == Some(id))
            && among(&options.tags, &|tag| operation.tags().any(|other| other == tag))
            && among(&options.paths, &|path| operation.path.starts_with(path));
        if !wanted {
            continue;
        }
        if !options.all_methods && options.operations.is_empty() && !operation.is_safe() {
            *skipped.entry("that change something (--unsafe takes them)").or_default() += 1;
        } else {
            chosen.push(operation);
        }
    }
    chosen.sort_by_key(|operation| operation.turn());
    (chosen, skipped)
}

/// A value as text, without quotes.
fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| digits::to_text(value), str::to_owned)
}

fn first_line(text: &str, most: usize) -> String {
    text.trim().lines().next().unwrap_or_default().chars().filter(|c| !c.is_control()).take(most).collect()
}

fn is_status_of_success(status: &str) -> Option<Value> {
    match status {
        "2XX" | "2xx" => Some(json!("2xx")),
        _ => status.parse::<u16>().ok().filter(|status| (200..300).contains(status)).map(Value::from),
    }
}

#[cfg(test)]
mod tests;
