//! Makes the nodes of a scenario. Each has the place in the task file of what it was made from.

use std::ops::Range;

use text::digits;
use text::yaml::{YamlKey, YamlNode, YamlValue};

/// Makes nodes at a place.
#[derive(Clone, Debug)]
pub(super) struct NodeFactory(pub(super) Range<usize>);

impl NodeFactory {
    pub(super) fn of(node: &YamlNode) -> Self {
        Self(node.span.clone())
    }

    fn node(&self, kind: YamlValue) -> YamlNode {
        YamlNode { kind, span: self.0.clone() }
    }

    pub(super) fn text(&self, text: impl Into<String>) -> YamlNode {
        self.node(YamlValue::Text { text: text.into(), quoted: true })
    }

    /// A text in which templates mean nothing.
    pub(super) fn literal(&self, text: &str) -> YamlNode {
        self.text(escaped(text))
    }

    pub(super) fn int(&self, number: i64) -> YamlNode {
        self.node(YamlValue::Int(number))
    }

    pub(super) fn bool(&self, value: bool) -> YamlNode {
        self.node(YamlValue::Bool(value))
    }

    pub(super) fn list(&self, items: Vec<YamlNode>) -> YamlNode {
        self.node(YamlValue::List(items))
    }

    pub(super) fn map<'n>(&self, entries: impl IntoIterator<Item = (&'n str, YamlNode)>) -> YamlNode {
        let key = |name: &str| YamlKey { name: name.to_owned(), span: self.0.clone() };
        self.node(YamlValue::Map(entries.into_iter().map(|(name, node)| (key(name), node)).collect()))
    }

    /// A pause of this many seconds.
    pub(super) fn think(&self, seconds: f64) -> YamlNode {
        self.map([("think", self.seconds(seconds))])
    }

    /// A duration of this many seconds.
    pub(super) fn seconds(&self, seconds: f64) -> YamlNode {
        self.text(format!("{seconds}s"))
    }

    /// A step with a name of its own around others.
    pub(super) fn group(&self, name: &str, steps: Vec<YamlNode>) -> YamlNode {
        self.map([("group", self.text(name)), ("steps", self.list(steps))])
    }

    /// Ends an iteration as failed, if the expression is true.
    pub(super) fn fail_if(&self, condition: &str, message: &str) -> YamlNode {
        let fail = self.map([("fail", self.literal(message))]);
        self.map([("if", self.text(condition)), ("then", self.list(vec![fail]))])
    }
}

/// A text in which templates mean nothing.
pub(super) fn escaped(text: &str) -> String {
    const MARKS: [&str; 3] = ["{{", "{%", "{#"];
    if !MARKS.iter().any(|mark| text.contains(mark)) {
        return text.to_owned();
    }
    // A template does not keep the end of its last line.
    let (mut rest, end) = match text.as_bytes().last() {
        Some(b'\n') => (&text[..text.len() - 1], "{{ '\\n' }}"),
        Some(b'\r') => (&text[..text.len() - 1], "{{ '\\r' }}"),
        _ => (text, ""),
    };
    let mut output = String::with_capacity(text.len());
    while let Some((before, from)) = rest.find('{').map(|at| rest.split_at(at)) {
        // A single brace, too: an expression may follow it.
        let length = if MARKS.iter().any(|mark| from.starts_with(mark)) { 2 } else { 1 };
        output.extend([before, "{{ '", &from[..length], "' }}"]);
        rest = &from[length..];
    }
    output + rest + end
}

/// A value that means exactly itself: no templates in its texts, and no references to secrets.
pub(super) fn meant_literally(node: &YamlNode) -> YamlNode {
    let at = NodeFactory::of(node);
    match &node.kind {
        YamlValue::Text { text, .. } => at.literal(text),
        YamlValue::List(items) => at.list(items.iter().map(meant_literally).collect()),
        YamlValue::Map(entries) => {
            let alone = entries.len() == 1;
            let entry = |(key, value): &(YamlKey, YamlNode)| {
                let refers = alone && matches!(key.name.as_str(), "env" | "file");
                let value = match &value.kind {
                    YamlValue::Text { text, .. } if refers => NodeFactory::of(value).text(quoted(text)),
                    _ => meant_literally(value),
                };
                (YamlKey { name: key.name.clone(), span: key.span.clone() }, value)
            };
            at.node(YamlValue::Map(entries.iter().map(entry).collect()))
        }
        _ => node.clone(),
    }
}

/// A template of a constant text.
pub(super) fn quoted(text: &str) -> String {
    format!("{{{{ '{}' }}}}", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// A number or a truth value as text; a text as it is. `None` for lists and maps.
pub(super) fn as_text(node: &YamlNode) -> Option<String> {
    match &node.kind {
        YamlValue::Text { text, .. } => Some(text.clone()),
        YamlValue::Int(number) => Some(number.to_string()),
        YamlValue::Float(number) => Some(number.to_string()),
        YamlValue::Bool(value) => Some(value.to_string()),
        YamlValue::Null => Some(String::new()),
        YamlValue::List(_) | YamlValue::Map(_) => None,
    }
}

/// A number of any kind.
pub(super) fn as_number(node: &YamlNode) -> Option<f64> {
    match &node.kind {
        YamlValue::Int(number) => Some(*number as f64),
        YamlValue::Float(number) => Some(number.value),
        _ => None,
    }
}

/// A map without the entries that have no value, at its first level.
pub(super) fn without_nulls(node: &YamlNode) -> YamlNode {
    let mut node = node.clone();
    if let YamlValue::Map(entries) = &mut node.kind {
        entries.retain(|(_, value)| !matches!(value.kind, YamlValue::Null));
    }
    node
}

pub(super) fn to_json(node: &YamlNode) -> serde_json::Value {
    digits::rounded(node.to_value()).unwrap_or_default()
}
