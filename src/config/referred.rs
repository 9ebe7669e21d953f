//! References to secrets in place of the texts of a step: `headers: { X-Key: { env: KEY } }`.
//!
//! Such a map becomes the name of a variable, `{{ __env_KEY }}`, before anything else reads the document. What it
//! refers to is resolved by `plan`. In JSON, too, a map with the only key `env` or `file` is a reference, unless its
//! value is a template: `{ file: "{{ 'a.txt' }}" }` is the map itself.

use std::ops::Range;

use base::ids::mix;
use text::yaml::{YamlNode, YamlValue};

use super::reference::Reference;

/// A reference that was written in place of a text.
#[derive(Clone, Debug)]
pub struct TextReference {
    /// The name of the variable that stands there now.
    pub variable: String,
    /// What it refers to.
    pub reference: Reference,
    /// Its place.
    pub span: Range<usize>,
}

/// What the names of these variables begin with.
pub const PREFIX: &str = "__";

/// The keys of a step whose value is a text.
pub(super) const TEXTS: [&str; 12] =
    ["get", "head", "post", "put", "patch", "delete", "options", "websocket", "url", "body", "log", "fail"];
/// The keys whose value is a map of texts.
const MAPS: [&str; 4] = ["headers", "query", "form", "metadata"];
/// The keys whose value may be anything.
const VALUES: [&str; 5] = ["json", "message", "messages", "set", "with"];
/// The keys of a message of a WebSocket.
const CONTENTS: [&str; 3] = ["json", "text", "binary"];
/// The keys of a document that hold steps or lists of workloads, which hold steps.
const STEPS: [&str; 7] =
    ["setup", "teardown", "user_setup", "user_teardown", "iteration", "workloads", "steps"];

/// Replaces the references in a document's steps. `file` tells files with the same names in them apart.
pub(super) fn take(root: &mut YamlNode, file: &str) -> Vec<TextReference> {
    let mut taken = ReferenceTaker { file, found: Vec::new() };
    if let YamlValue::Map(entries) = &mut root.kind {
        for (_, steps) in entries.iter_mut().filter(|(key, _)| STEPS.contains(&key.name.as_str())) {
            taken.steps(steps);
        }
    }
    taken.found
}

struct ReferenceTaker<'f> {
    file: &'f str,
    found: Vec<TextReference>,
}

impl ReferenceTaker<'_> {
    /// A list of steps, of workloads, or of other maps with steps in them.
    fn steps(&mut self, node: &mut YamlNode) {
        let YamlValue::List(items) = &mut node.kind else { return };
        for item in items {
            let YamlValue::Map(entries) = &mut item.kind else { continue };
            for (key, value) in entries {
                match key.name.as_str() {
                    name if TEXTS.contains(&name) => self.text(value),
                    name if MAPS.contains(&name) => self.values_of(value),
                    name if VALUES.contains(&name) => self.anywhere(value),
                    "expect" => self.expect(value),
                    "stream" => self.stream(value),
                    "send" => self.send(value),
                    "receive" => self.receive(value),
                    _ => self.steps(value),
                }
            }
        }
    }

    fn expect(&mut self, node: &mut YamlNode) {
        let YamlValue::Map(entries) = &mut node.kind else { return };
        for (key, value) in entries {
            match key.name.as_str() {
                "body" => self.anywhere(value),
                "headers" | "json" | "message" => self.values_of(value),
                _ => {}
            }
        }
    }

    /// Conditions on the events of a stream.
    fn stream(&mut self, node: &mut YamlNode) {
        let YamlValue::Map(entries) = &mut node.kind else { return };
        for (key, value) in entries {
            match (key.name.as_str(), &mut value.kind) {
                ("each", _) => self.values_of(value),
                ("until", YamlValue::Map(entries)) => {
                    let json = entries.iter_mut().filter(|(key, _)| key.name == "json");
                    json.for_each(|(_, value)| self.values_of(value));
                }
                _ => {}
            }
        }
    }

    /// A message of a WebSocket: a text, or a map with one.
    fn send(&mut self, node: &mut YamlNode) {
        match &mut node.kind {
            YamlValue::Map(entries)
                if entries.iter().any(|(key, _)| CONTENTS.contains(&key.name.as_str())) =>
            {
                entries.iter_mut().for_each(|(_, value)| self.anywhere(value));
            }
            _ => self.text(node),
        }
    }

    /// Conditions on a message of a WebSocket.
    fn receive(&mut self, node: &mut YamlNode) {
        let YamlValue::Map(entries) = &mut node.kind else { return };
        for (key, value) in entries {
            match key.name.as_str() {
                "text" => self.anywhere(value),
                "json" => self.values_of(value),
                _ => {}
            }
        }
    }

    /// The values of a map, but not the map itself.
    fn values_of(&mut self, node: &mut YamlNode) {
        if let YamlValue::Map(entries) = &mut node.kind {
            entries.iter_mut().for_each(|(_, value)| self.anywhere(value));
        }
    }

    fn anywhere(&mut self, node: &mut YamlNode) {
        self.text(node);
        match &mut node.kind {
            YamlValue::List(items) => items.iter_mut().for_each(|item| self.anywhere(item)),
            YamlValue::Map(entries) => entries.iter_mut().for_each(|(_, value)| self.anywhere(value)),
            _ => {}
        }
    }

    fn text(&mut self, node: &mut YamlNode) {
        let Some(reference) = reference(node) else { return };
        let variable = match &reference {
            Reference::Env { name, default: None } => format!("{PREFIX}env_{name}"),
            Reference::Env { name, default: Some(text) } => format!("{PREFIX}env_{name}_{:x}", hash(&[text])),
            Reference::File(path) => format!("{PREFIX}file_{:x}", hash(&[self.file, path])),
            Reference::Inline(_) => return,
        };
        node.kind = YamlValue::Text { text: format!("{{{{ {variable} }}}}"), quoted: true };
        if !self.found.iter().any(|known| known.variable == variable) {
            self.found.push(TextReference { variable, reference, span: node.span.clone() });
        }
    }
}

/// The reference that a map is, if it is one.
pub(super) fn reference(node: &YamlNode) -> Option<Reference> {
    let text = |key: &str| match &node.get(key)?.kind {
        YamlValue::Text { text, .. } if !text.contains("{{") && !text.contains("{%") => Some(text.clone()),
        _ => None,
    };
    match (node.entries().len(), text("env"), text("file")) {
        (1, Some(name), None) if is_name(&name) => Some(Reference::Env { name, default: None }),
        (2, Some(name), None) if is_name(&name) => {
            Some(Reference::Env { name, default: Some(text("default")?) })
        }
        (1, None, Some(path)) if !path.is_empty() => Some(Reference::File(path)),
        _ => None,
    }
}

/// Whether an environment variable can have this name, and a template can use it.
fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn hash(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0, |hash, byte| mix(hash ^ u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use text::diagnostics::SourceText;
    use text::yaml;

    /// The steps after the replacement, as JSON, and the variables.
    fn taken(step: &str) -> (String, Vec<String>) {
        let source = SourceText::new("s.yaml", format!("iteration:\n  - {step}\n"));
        let mut root = yaml::parse(&source).unwrap();
        let found = take(&mut root, "s.yaml");
        let step = serde_json::to_string(&root.get("iteration").unwrap().items()[0].to_value()).unwrap();
        (step, found.into_iter().map(|found| found.variable).collect())
    }

    #[test]
    fn references_stand_wherever_a_text_does() {
        let one = "{{ __env_A }}";
        for (step, expected) in [
            ("{ get: { env: A } }", format!(r#"{{"get":"{one}"}}"#)),
            ("{ headers: { env: { env: A } } }", format!(r#"{{"headers":{{"env":"{one}"}}}}"#)),
            ("{ query: { a: [{ env: A }] } }", format!(r#"{{"query":{{"a":["{one}"]}}}}"#)),
            ("{ json: { env: A } }", format!(r#"{{"json":"{one}"}}"#)),
            ("{ json: { a: [{ b: { env: A } }] } }", format!(r#"{{"json":{{"a":[{{"b":"{one}"}}]}}}}"#)),
            (
                "{ expect: { body: { equals: { env: A } } } }",
                format!(r#"{{"expect":{{"body":{{"equals":"{one}"}}}}}}"#),
            ),
            ("{ message: { env: { env: A } } }", format!(r#"{{"message":{{"env":"{one}"}}}}"#)),
            ("{ messages: [{ a: { env: A } }] }", format!(r#"{{"messages":[{{"a":"{one}"}}]}}"#)),
            ("{ metadata: { env: { env: A } } }", format!(r#"{{"metadata":{{"env":"{one}"}}}}"#)),
            (
                "{ expect: { message: { $.a: { env: A } } } }",
                format!(r#"{{"expect":{{"message":{{"$.a":"{one}"}}}}}}"#),
            ),
            (
                "{ stream: { each: { $.a: { ge: { env: A } } } } }",
                format!(r#"{{"stream":{{"each":{{"$.a":{{"ge":"{one}"}}}}}}}}"#),
            ),
            ("{ send: { env: A } }", format!(r#"{{"send":"{one}"}}"#)),
            (
                "{ send: { json: { a: { env: A } } }, receive: { text: { env: A }, json: { $.a: { env: A } } } }",
                format!(
                    r#"{{"send":{{"json":{{"a":"{one}"}}}},"receive":{{"text":"{one}","json":{{"$.a":"{one}"}}}}}}"#
                ),
            ),
            (
                "{ stream: { until: { json: { $.a: { env: A } } } } }",
                format!(r#"{{"stream":{{"until":{{"json":{{"$.a":"{one}"}}}}}}}}"#),
            ),
            (
                "{ choice: [{ steps: [{ get: { env: A } }] }] }",
                format!(r#"{{"choice":[{{"steps":[{{"get":"{one}"}}]}}]}}"#),
            ),
        ] {
            assert_eq!(taken(step), (expected, vec!["__env_A".to_owned()]), "{step}");
        }
    }

    #[test]
    fn other_maps_stay_what_they_are() {
        for (step, expected) in [
            ("{ json: { env: A, x: 1 } }", r#"{"json":{"env":"A","x":1}}"#),
            ("{ json: { env: \"{{ 'A' }}\" } }", r#"{"json":{"env":"{{ 'A' }}"}}"#),
            ("{ json: { env: a-b } }", r#"{"json":{"env":"a-b"}}"#),
            ("{ json: { file: 5 } }", r#"{"json":{"file":5}}"#),
            ("{ form: { file: a.txt } }", r#"{"form":{"file":"a.txt"}}"#),
            ("{ multipart: { a: { file: a.txt } } }", r#"{"multipart":{"a":{"file":"a.txt"}}}"#),
        ] {
            assert_eq!(taken(step), (expected.to_owned(), Vec::new()), "{step}");
        }
        let (_, variables) = taken(
            "{ headers: { a: { env: A, default: x }, b: { env: A }, c: { file: f }, d: { file: f } } }",
        );
        assert_eq!(variables.len(), 3, "{variables:?}");
    }
}
