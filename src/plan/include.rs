//! Steps that a scenario takes from other files.
//!
//! A fault in such a file is reported at the `include` that names it, with the file and the line: diagnostics show one
//! file at a time.

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;

use config::step::flow::StepsFile;
use config::{Document, RejectedFile, schema, step};
use text::diagnostics::{Fault, SourceText};
use text::similar::did_you_mean;
use text::yaml;
use text::yaml_place::{at, key_span};

use super::compiler::Compiler;
use super::step::flow::FlowStep;

/// How deep files may include others.
const FILES_MAX: usize = 10;

impl Compiler<'_> {
    pub(super) fn include(&mut self, step: &step::Step, node: &yaml::YamlNode) -> Option<FlowStep> {
        let named = step.include.as_deref()?;
        let span = at(node, &["include"]).span.clone();
        let path = self.files.folder().join(named);
        if self.files.open.contains(&path) || self.files.open.len() >= FILES_MAX {
            let fault =
                Fault::error(span, format!("`{named}` includes itself, or files are nested too deeply"));
            self.texts.faults.push(fault.help("use `repeat` or `while` for loops"));
            return None;
        }
        let document = match read(&path) {
            Ok(document) => document,
            Err(StepsFileError::Missing(error)) => {
                let fault = Fault::error(span, format!("cannot read {}: {error}", path.display()));
                self.texts.faults.push(fault.help("name a file relative to this one"));
                return None;
            }
            Err(StepsFileError::Rejected(rejected)) => {
                let RejectedFile { source, faults } = *rejected;
                self.texts.faults.extend(faults.into_iter().map(|fault| fault.named_at(&source, &span)));
                return None;
            }
        };
        let Document { source, root, value: StepsFile { defaults, steps }, referred } = document;
        let before = self.texts.faults.len();
        let folder = path.parent().unwrap_or(Path::new(""));
        self.referred.resolve(&referred, folder, &mut self.texts);
        let faults_of_references = self.texts.faults.len();
        for fault in self.texts.faults.drain(before..faults_of_references).collect::<Vec<_>>() {
            self.texts.faults.push(fault.named_at(&source, &span));
        }
        let before = self.texts.faults.len();
        let (given, own) = (step.with.clone().unwrap_or_default(), defaults.unwrap_or_default());
        self.unused_parameters((named, &root), given.keys(), own.keys(), at(node, &["with"]));
        let missing = own.into_iter().filter(|(name, _)| !given.contains_key(name)).collect();
        let mut with = self.assignments(&given, at(node, &["with"]));
        let faults_of_with = self.texts.faults.len();
        with.extend(self.assignments(&missing, at(&root, &["defaults"])));
        let prefix = self.prefix(step.as_.as_deref());
        let outer = std::mem::replace(&mut self.nesting.prefix, prefix);
        self.files.open.push(path);
        let compiled = self.block(&steps, at(&root, &["steps"]));
        self.files.open.pop();
        self.nesting.prefix = outer;
        for fault in self.texts.faults.drain(faults_of_with.max(before)..).collect::<Vec<_>>() {
            self.texts.faults.push(fault.named_at(&source, &span));
        }
        self.files.included.push(source.text);
        if step.with.is_some() && given.is_empty() {
            let fault = Fault::error(key_span(node, "with"), "`with` is empty");
            self.texts.faults.push(fault.help("add a parameter, or remove the key"));
        }
        Some(FlowStep::Include { with, steps: compiled })
    }

    /// Reports parameters that no text of the file mentions.
    fn unused_parameters<'n>(
        &mut self,
        (file, root): (&str, &yaml::YamlNode),
        given: impl Iterator<Item = &'n String>,
        defaults: impl Iterator<Item = &'n String>,
        node: &yaml::YamlNode,
    ) {
        let mut used = BTreeSet::new();
        words(at(root, &["steps"]), &mut used);
        // The files within may use them.
        if used.contains("include") {
            return;
        }
        let defaults: Vec<&str> = defaults.map(String::as_str).collect();
        for name in given.filter(|name| !used.contains(name.as_str()) && !defaults.contains(&name.as_str())) {
            let fault = Fault::error(key_span(node, name), format!("{file} does not use `{name}`"));
            let known = defaults.iter().copied();
            let similar = did_you_mean(name, known.chain(used.iter().copied()));
            self.texts.faults.push(fault.help(match similar {
                Some(similar) => format!("did you mean `{similar}`?"),
                None if defaults.is_empty() => "remove it".to_owned(),
                None => format!("remove it; its `defaults` are {}", defaults.join(", ")),
            }));
        }
    }

    /// What the names of an included file's actions begin with.
    fn prefix(&self, own: Option<&str>) -> Option<String> {
        match (&self.nesting.prefix, own) {
            (Some(outer), Some(own)) => Some(format!("{outer}: {own}")),
            (outer, own) => own.map(str::to_owned).or_else(|| outer.clone()),
        }
    }
}

/// All keys, and all words in texts that may be names of variables.
fn words<'n>(node: &'n yaml::YamlNode, found: &mut BTreeSet<&'n str>) {
    match &node.kind {
        yaml::YamlValue::Text { text, .. } => {
            found.extend(
                text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty()),
            );
        }
        yaml::YamlValue::List(items) => items.iter().for_each(|item| words(item, found)),
        yaml::YamlValue::Map(entries) => {
            for (key, value) in entries {
                found.insert(&key.name);
                words(value, found);
            }
        }
        _ => {}
    }
}

/// The number of steps in a file that scenarios include. Only its structure is checked: which variables its templates may
/// use depends on the scenario.
///
/// # Errors
/// What is wrong with its structure.
pub fn count(source: SourceText) -> Result<usize, RejectedFile> {
    let document: Document<StepsFile> = config::read(source, &schema::STEPS)?;
    Ok(document.value.steps.len())
}

/// True for a file of steps, which a scenario includes: neither a scenario nor a deployment has this key. A file with what only
/// a scenario has is one whose steps have the wrong key.
#[must_use]
pub fn is_steps(root: &yaml::YamlNode) -> bool {
    let has = |name: &str| root.entries().iter().any(|(key, _)| key.name == name);
    has("steps") && !["title", "deployment", "runner", "sla"].into_iter().any(has)
}

enum StepsFileError {
    Missing(std::io::Error),
    Rejected(Box<RejectedFile>),
}

fn read(path: &Path) -> Result<Document<StepsFile>, StepsFileError> {
    let mut bytes = Vec::new();
    let limit = yaml::BYTES_MAX as u64 + 1;
    let file = text::files::open_named(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    file.map_err(StepsFileError::Missing)?;
    let source = yaml::source(&path.display().to_string(), &bytes).map_err(|faulty| {
        let (source, fault) = *faulty;
        StepsFileError::Rejected(Box::new(RejectedFile { source, faults: vec![fault] }))
    })?;
    config::read(source, &schema::STEPS).map_err(|rejected| StepsFileError::Rejected(Box::new(rejected)))
}
