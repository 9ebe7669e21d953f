//! The arguments of a task's template: `--task-args` and `--task-args-file`.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::complaint::Complaint;
use config::RejectedFile;
use text::diagnostics::{Fault, SourceText};
use text::digits;
use text::template::{self, Value};
use text::yaml::{self, YamlNode, YamlValue};

/// Arguments by name. Those that were added later replace earlier ones.
#[derive(Clone, Debug, Default)]
pub struct Arguments(BTreeMap<String, Value>);

const HOW: &str = "write a map in JSON or YAML: {\"times\": 10}, or NAME=VALUE,NAME=VALUE";

impl Arguments {
    /// Adds the arguments of a file: YAML or JSON.
    ///
    /// # Errors
    /// Its faults.
    pub fn add_file(&mut self, source: SourceText) -> Result<(), RejectedFile> {
        let root = match parsed(&source) {
            Ok(root) => root,
            Err(faults) => return Err(RejectedFile { source, faults }),
        };
        if !matches!(root.kind, YamlValue::Map(_)) {
            let fault = Fault::error(root.span.clone(), "the arguments of a task are not a map").help(HOW);
            return Err(RejectedFile { source, faults: vec![fault] });
        }
        self.add_map(&root);
        Ok(())
    }

    /// Adds the arguments of a text: YAML or JSON, or `NAME=VALUE,NAME=VALUE`.
    ///
    /// # Errors
    /// What is wrong, and what to write.
    pub fn add_text(&mut self, text: &str) -> Result<(), Complaint> {
        if text.len() > yaml::BYTES_MAX {
            return Err(Complaint::new("the arguments of the task are longer than 1 MiB", HOW));
        }
        match parsed(&SourceText::new("--task-args", text)) {
            Ok(root) if matches!(root.kind, YamlValue::Map(_)) => self.add_map(&root),
            parsed => {
                let pairs: Option<Vec<_>> = text.split(',').map(|pair| pair.split_once('=')).collect();
                let Some(pairs) = pairs else {
                    let why = match parsed {
                        Ok(_) => "it is not a map".to_owned(),
                        Err(faults) => {
                            faults.into_iter().next().map(|fault| fault.message).unwrap_or_default()
                        }
                    };
                    return Err(Complaint::new(format!("--task-args cannot be read: {why}"), HOW));
                };
                let pairs = pairs.into_iter();
                self.0.extend(pairs.map(|(name, value)| (name.trim().to_owned(), Value::from(value))));
            }
        }
        Ok(())
    }

    fn add_map(&mut self, root: &YamlNode) {
        let entries = root.entries().iter();
        let read = |node: &YamlNode| digits::value(node.to_value()).unwrap_or_default();
        self.0.extend(entries.map(|(key, node)| (key.name.clone(), template::from_json(&read(node)))));
    }

    /// True if there is an argument of this name.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// The names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// For a template.
    #[must_use]
    pub fn variables(&self) -> Vec<(Arc<str>, Value)> {
        self.0.iter().map(|(name, value)| (Arc::from(name.as_str()), value.clone())).collect()
    }
}

/// As Rally reads them.
fn parsed(source: &SourceText) -> Result<YamlNode, Vec<Fault>> {
    match yaml::parse_all_as(source, yaml::Schema::Python) {
        (Some(root), faults) if faults.is_empty() => Ok(root),
        (_, faults) => Err(faults),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_maps_or_pairs() {
        for (text, expected) in [
            ("{\"times\": 10, \"url\": \"http://h\"}", Ok("times=10 url=http://h")),
            ("times: 3", Ok("times=3")),
            ("{list: [1, 2]}", Ok("list=[1, 2]")),
            ("times=3, url=http://h?a=b", Ok("times=3 url=http://h?a=b")),
            ("times", Err("not a map")),
            ("[1]", Err("not a map")),
            ("{", Err("not valid YAML")),
        ] {
            let mut arguments = Arguments::default();
            match (arguments.add_text(text), expected) {
                (Ok(()), Ok(expected)) => {
                    let shown = arguments.variables();
                    let shown: Vec<_> = shown.iter().map(|(name, value)| format!("{name}={value}")).collect();
                    assert_eq!(shown.join(" "), expected, "{text}");
                }
                (Err(complaint), Err(part)) => assert!(complaint.what.contains(part), "{text}: {complaint}"),
                (result, _) => panic!("{text}: {result:?}"),
            }
        }
    }

    #[test]
    fn the_text_wins_over_the_file() {
        let mut arguments = Arguments::default();
        assert!(arguments.add_file(SourceText::new("args.json", "{\"a\": 1, \"b\": 2}")).is_ok());
        arguments.add_text("a: 5").unwrap();
        assert_eq!(arguments.names().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(arguments.variables()[0].1, Value::from(5));
        assert!(arguments.add_file(SourceText::new("args.json", "- a")).is_err());
    }
}
