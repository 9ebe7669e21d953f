//! YAML with source positions, strict and bounded.
//!
//! `serde_yaml` keeps no positions for valid values, so documents are parsed into [`YamlNode`]s here and
//! then converted to [`serde_yaml::Value`]. Some things that YAML silently accepts are errors: duplicate
//! keys, several documents, keys that YAML 1.1 would read as booleans, and custom tags. Size, depth,
//! and the number of nodes after the expansion of aliases are bounded.

mod brackets;
mod numbers;
mod surrogates;

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};

use super::diagnostics::{Fault, SourceText};
pub use numbers::Real;
use numbers::{Number, number, number_of_1_1};

/// The largest file that is read, in bytes.
pub const BYTES_MAX: usize = 1 << 20;
/// The deepest nesting of lists and maps.
pub const DEPTH_MAX: usize = 64;
/// The most nodes of a document, after aliases are expanded.
pub const NODES_MAX: usize = 100_000;
/// The most keys of a map; a look-up compares them one after another.
pub const KEYS_MAX: usize = 2000;

/// A value and its position.
#[derive(Clone, Debug)]
pub struct YamlNode {
    pub kind: YamlValue,
    /// Its bytes in the source.
    pub span: Range<usize>,
}

#[derive(Clone, Debug)]
pub enum YamlValue {
    /// An empty value, `~` or `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// Any other number.
    Float(Real),
    Text {
        text: String,
        /// Written in quotes or as a block.
        quoted: bool,
    },
    List(Vec<YamlNode>),
    /// A map, in the order of the source.
    Map(Vec<(YamlKey, YamlNode)>),
}

/// A key of a map and its position.
#[derive(Clone, Debug)]
pub struct YamlKey {
    /// The key.
    pub name: String,
    /// Its bytes in the source.
    pub span: Range<usize>,
}

impl YamlNode {
    /// The value of `key` in a map.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&YamlNode> {
        self.entries().iter().find(|(k, _)| k.name == key).map(|(_, node)| node)
    }

    /// The entries of a map; empty if it is not a map.
    #[must_use]
    pub fn entries(&self) -> &[(YamlKey, YamlNode)] {
        if let YamlValue::Map(entries) = &self.kind { entries } else { &[] }
    }

    /// The items of a list; empty if it is not a list.
    #[must_use]
    pub fn items(&self) -> &[YamlNode] {
        if let YamlValue::List(items) = &self.kind { items } else { &[] }
    }

    /// What it is, for messages: `a number`, `text`.
    #[must_use]
    pub fn describe(&self) -> String {
        match &self.kind {
            YamlValue::Null => "nothing".to_owned(),
            YamlValue::Bool(value) => format!("`{value}`"),
            YamlValue::Int(value) => format!("the number {value}"),
            YamlValue::Float(real) => format!("the number {real}"),
            YamlValue::Text { text, .. } if text.len() > 40 => "a text".to_owned(),
            YamlValue::Text { text, .. } => format!("the text `{text}`"),
            YamlValue::List(_) => "a list".to_owned(),
            YamlValue::Map(_) => "a map".to_owned(),
        }
    }

    /// The same value without positions. Numbers keep their digits for [`super::digits::value`].
    #[must_use]
    pub fn to_value(&self) -> serde_yaml::Value {
        use serde_yaml::Value;
        match &self.kind {
            YamlValue::Null => Value::Null,
            YamlValue::Bool(value) => Value::Bool(*value),
            YamlValue::Int(value) => Value::Number((*value).into()),
            YamlValue::Float(real) => real.to_value(),
            YamlValue::Text { text, .. } => Value::String(text.clone()),
            YamlValue::List(items) => Value::Sequence(items.iter().map(YamlNode::to_value).collect()),
            YamlValue::Map(entries) => Value::Mapping(
                entries.iter().map(|(k, v)| (Value::String(k.name.clone()), v.to_value())).collect(),
            ),
        }
    }
}

/// The source of a file's bytes, which must be UTF-8 and not too large. A byte order mark is removed.
///
/// # Errors
/// Too large, or not UTF-8 (with the line).
pub fn source(name: &str, bytes: &[u8]) -> Result<SourceText, Box<(SourceText, Fault)>> {
    let empty = SourceText::new(name, "");
    if bytes.len() > BYTES_MAX {
        let fault = Fault::file("the file is larger than 1 MiB, the limit for YAML")
            .help("is this the right file? a scenario usually has a few kilobytes; move data out of it");
        return Err(Box::new((empty, fault)));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let text = text.strip_prefix('\u{feff}').unwrap_or(text);
            Ok(SourceText { text: text.to_owned(), ..empty })
        }
        Err(error) => {
            let line = 1 + bytes[..error.valid_up_to()].iter().filter(|b| **b == b'\n').count();
            let fault = Fault::file(format!("line {line} is not valid UTF-8"))
                .help("is this a text file? save it as UTF-8");
            Err(Box::new((empty, fault)))
        }
    }
}

/// Parses the only document of a source.
///
/// # Errors
/// All faults found. Parsing stops at a syntax error.
pub fn parse(source: &SourceText) -> Result<YamlNode, Vec<Fault>> {
    match parse_all(source) {
        (Some(node), faults) if faults.is_empty() => Ok(node),
        (_, faults) => Err(faults),
    }
}

/// What texts without quotes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Schema {
    /// The core schema of YAML 1.2.
    #[default]
    Core,
    /// YAML 1.1 as PyYAML reads it, for the files of programs in Python: `no` is false, `010` is 8, `1_000` is 1000, `1:30`
    /// is 90, and `1e3` is a text. Dates stay texts.
    Python,
}

/// The only document of a source, and all its faults. After a syntax error, there is no document; with other faults,
/// such as a duplicate key, there is.
#[must_use]
pub fn parse_all(source: &SourceText) -> (Option<YamlNode>, Vec<Fault>) {
    parse_all_as(source, Schema::Core)
}

/// [`parse_all`] by another schema.
#[must_use]
pub fn parse_all_as(source: &SourceText, schema: Schema) -> (Option<YamlNode>, Vec<Fault>) {
    let (root, mut faults) = brackets::parsed(&source.text, |text| {
        let (root, faults) = surrogates::parsed(text, |text, bytes_at| {
            let mut builder = Builder::new(&source.text, bytes_at, schema);
            let failed_at = builder.read(&mut Parser::new_from_str(text));
            (failed_at, (builder.root, builder.faults))
        });
        let last = faults.last().filter(|fault| fault.message.contains(INDENTATION));
        (last.and_then(|fault| fault.span.as_ref()).map(|span| span.start), (root, faults))
    });
    if root.is_none() && faults.is_empty() {
        faults.push(Fault::file("the file is empty").help("see the examples in scenarios/ and deployments/"));
    }
    (root, faults)
}

/// A list or map that is still open.
struct OpenCollection {
    node: YamlNode,
    key: Option<YamlKey>,
    anchor: usize,
}

struct Builder<'t> {
    text: &'t str,
    schema: Schema,
    /// Byte offset of each character, when not every character is one byte.
    bytes_at: Option<Vec<usize>>,
    stack: Vec<OpenCollection>,
    root: Option<YamlNode>,
    anchors: HashMap<usize, YamlNode>,
    nodes: usize,
    documents: usize,
    faults: Vec<Fault>,
}

impl<'t> Builder<'t> {
    fn new(text: &'t str, bytes_at: Option<Vec<usize>>, schema: Schema) -> Self {
        Self {
            text,
            schema,
            bytes_at,
            stack: Vec::new(),
            root: None,
            anchors: HashMap::new(),
            nodes: 0,
            documents: 0,
            faults: Vec::new(),
        }
    }

    /// Reads a document; returns the byte at which it is no YAML.
    fn read<'p>(&mut self, parser: &mut Parser<'p, StrInput<'p>>) -> Option<usize> {
        while let Some(next) = parser.next_event() {
            match next {
                Ok((Event::StreamEnd, _)) => return None,
                Ok((event, span)) => {
                    if !self.event(event, span) {
                        return None;
                    }
                }
                Err(error) => {
                    let at = self.byte(error.marker().index());
                    self.faults.push(syntax_fault(self.text, at, error.info()));
                    return Some(at);
                }
            }
        }
        None
    }

    /// Processes an event; false stops parsing.
    fn event(&mut self, event: Event<'_>, span: Span) -> bool {
        let span = self.byte(span.start.index())..self.byte(span.end.index());
        match event {
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    let fault = Fault::error(span, "a second document in one file");
                    self.faults.push(fault.help("move it to a separate file"));
                    // The first document is complete and can be checked.
                    return false;
                }
            }
            Event::MappingStart(anchor, tag) => {
                let is_tagged =
                    tag.is_some_and(|tag| !(self.schema == Schema::Python && is_own(&tag, "map")));
                return self.open(YamlValue::Map(Vec::new()), span, anchor, is_tagged);
            }
            Event::SequenceStart(anchor, tag) => {
                let is_tagged =
                    tag.is_some_and(|tag| !(self.schema == Schema::Python && is_own(&tag, "seq")));
                return self.open(YamlValue::List(Vec::new()), span, anchor, is_tagged);
            }
            Event::MappingEnd | Event::SequenceEnd => self.close(span.end),
            Event::Scalar(text, style, anchor, tag) => {
                let text = self.as_far_as_written(text, style, &span);
                let own = tag.as_ref().filter(|tag| tag.is_yaml_core_schema()).map(|tag| tag.suffix.as_str());
                let mut core = tag.is_none() || own == Some("str");
                // Keys are texts; one that is a boolean in YAML 1.1 is a fault.
                let schema = if self.is_at_key() { Schema::Core } else { self.schema };
                let mut kind = scalar(&text, style, tag.is_some(), schema);
                if let (Schema::Python, Some(name)) = (self.schema, own)
                    && let Some(tagged) = of_tag(&text, name)
                {
                    (kind, core) = (tagged, true);
                }
                if !core {
                    self.reject_tag(span.clone());
                }
                let is_number = matches!(kind, YamlValue::Int(_) | YamlValue::Float(_));
                if is_number && self.is_at_key() {
                    // A key is a text: as it is written.
                    kind = YamlValue::Text { text: text.into_owned(), quoted: true };
                } else if let YamlValue::Float(real) = &kind
                    && !real.value.is_finite()
                {
                    let fault = Fault::error(span.clone(), format!("`{text}` is no number that JSON has"));
                    self.faults.push(fault.help("write a number, or put it in quotes to make it text"));
                    kind = YamlValue::Null;
                }
                return self.value(YamlNode { kind, span }, anchor);
            }
            Event::Alias(anchor) => return self.alias(anchor, span),
            _ => {}
        }
        true
    }

    /// The parser ends every block of text with a line break, and a last line of blanks with another one. A last line without
    /// an end has none (YAML 1.2, 8.1.1.2).
    fn as_far_as_written<'e>(
        &self,
        text: Cow<'e, str>,
        style: ScalarStyle,
        span: &Range<usize>,
    ) -> Cow<'e, str> {
        let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
        // Only the last value of a file: looking for its last line goes through the line.
        if !is_block || span.end != self.text.len() {
            return text;
        }
        let last = self.text.rsplit('\n').next().unwrap_or_default();
        let made_up = if last.trim().is_empty() { "\n\n" } else { "\n" };
        if !last.is_empty() && text.ends_with(made_up) {
            return Cow::Owned(text[..text.len() - 1].to_owned());
        }
        text
    }

    /// Whether the next value is a key of a map.
    fn is_at_key(&self) -> bool {
        self.stack
            .last()
            .is_some_and(|open| matches!(open.node.kind, YamlValue::Map(_)) && open.key.is_none())
    }

    fn reject_tag(&mut self, span: Range<usize>) {
        self.faults.push(
            Fault::error(span, "tags such as `!name` are not supported")
                .help("remove the tag; only `!!str` is allowed"),
        );
    }

    fn open(&mut self, kind: YamlValue, span: Range<usize>, anchor: usize, tagged: bool) -> bool {
        if self.stack.len() >= DEPTH_MAX {
            self.faults.push(too_deep(span));
            return false;
        }
        if tagged {
            self.reject_tag(span.clone());
        }
        self.stack.push(OpenCollection { node: YamlNode { kind, span }, key: None, anchor });
        true
    }

    fn close(&mut self, end: usize) {
        let Some(mut open) = self.stack.pop() else { return };
        open.node.span.end = end.max(open.node.span.start);
        let trimmed = self.text[open.node.span.clone()].trim_end().len();
        open.node.span.end = open.node.span.start + trimmed;
        self.value(open.node, open.anchor);
    }

    fn alias(&mut self, anchor: usize, span: Range<usize>) -> bool {
        if self.stack.iter().any(|open| open.anchor == anchor) {
            let fault = Fault::error(span.clone(), "an alias inside the value that it refers to");
            self.faults.push(
                fault.help("write out the value, or use another anchor; a value cannot contain itself"),
            );
            return self.value(YamlNode { kind: YamlValue::Null, span }, 0);
        }
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            let fault = Fault::error(span, "an alias without its anchor");
            self.faults.push(fault.help("set the anchor, `&name`, above it"));
            return false;
        };
        self.nodes += count(&node);
        self.value(YamlNode { kind: node.kind, span }, 0)
    }

    /// Adds a finished value to its parent; false stops parsing.
    fn value(&mut self, node: YamlNode, anchor: usize) -> bool {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            self.faults.push(
                Fault::error(node.span, format!("more than {NODES_MAX} values once aliases are expanded"))
                    .help("move data to a separate file, or use fewer aliases"),
            );
            return false;
        }
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(node);
            return true;
        };
        match &mut open.node.kind {
            YamlValue::List(items) => items.push(node),
            YamlValue::Map(entries) => match open.key.take() {
                None => open.key = key_of(node, &mut self.faults),
                Some(key) => {
                    insert(entries, key, node, &mut self.faults);
                    if entries.len() > KEYS_MAX {
                        let fault = Fault::error(
                            entries[KEYS_MAX].0.span.clone(),
                            format!("more than {KEYS_MAX} keys in one map"),
                        );
                        self.faults.push(fault.help("move data to a separate file"));
                        return false;
                    }
                }
            },
            _ => {}
        }
        true
    }

    fn byte(&self, char_index: usize) -> usize {
        let at = self
            .bytes_at
            .as_ref()
            .map_or(char_index, |map| map.get(char_index).copied().unwrap_or(self.text.len()));
        at.min(self.text.len())
    }
}

fn count(node: &YamlNode) -> usize {
    match &node.kind {
        YamlValue::List(items) => 1 + items.iter().map(count).sum::<usize>(),
        YamlValue::Map(entries) => 1 + entries.iter().map(|(_, node)| count(node)).sum::<usize>(),
        _ => 1,
    }
}

/// What the parser says of a line that is indented too little.
const INDENTATION: &str = "not valid YAML: invalid indentation";

fn syntax_fault(text: &str, at: usize, info: &str) -> Fault {
    let line_start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    // A line can be a continuation of the one before; then the parser stops at the first of them.
    if let Some(tab) = tab_in_indentation(&text[line_start..], 2) {
        let tab = line_start + tab;
        return Fault::error(tab..tab + 1, "a tab as indentation").help("indent with spaces");
    }
    if info.contains("recursion limit") {
        return too_deep(at..at);
    }
    let end = text[at..].chars().next().map_or(at, |c| at + c.len_utf8());
    Fault::error(at..end, format!("not valid YAML: {info}"))
        .help("check the indentation, quotes, brackets and colons on this line and the line above")
}

/// Where the first tab is that indents one of the first lines which are not empty.
fn tab_in_indentation(text: &str, lines: usize) -> Option<usize> {
    let mut start = 0;
    let starts = text.split_inclusive('\n').map(|line| {
        start += line.len();
        (start - line.len(), line)
    });
    let mut written = starts.filter(|(_, line)| !line.trim().is_empty()).take(lines);
    written.find_map(|(start, line)| {
        let indent = &line[..line.len() - line.trim_start().len()];
        indent.find('\t').map(|at| start + at)
    })
}

fn too_deep(span: Range<usize>) -> Fault {
    Fault::error(span, format!("nested deeper than {DEPTH_MAX} levels"))
        .help("no key needs this many brackets or levels of indentation")
}

/// Keys that YAML 1.1 parsers read as booleans, so that look-ups would not find them.
const BOOLEAN_KEYS: [&str; 8] = ["yes", "no", "on", "off", "true", "false", "null", "~"];

fn key_of(node: YamlNode, faults: &mut Vec<Fault>) -> Option<YamlKey> {
    let span = node.span;
    let name = match node.kind {
        YamlValue::Text { text, quoted } => {
            if !quoted && BOOLEAN_KEYS.contains(&text.to_ascii_lowercase().as_str()) {
                faults.push(
                    Fault::error(span.clone(), format!("YAML 1.1 reads the key `{text}` as a boolean"))
                        .help(format!("quote it: \"{text}\"")),
                );
            }
            text
        }
        YamlValue::Bool(value) => {
            faults.push(
                Fault::error(span.clone(), format!("the key `{value}` is a boolean"))
                    .help(format!("quote it: \"{value}\"")),
            );
            value.to_string()
        }
        _ => {
            faults.push(
                Fault::error(span.clone(), "a key must be text").help("write it on one line, in quotes"),
            );
            String::new()
        }
    };
    Some(YamlKey { name, span })
}

fn insert(entries: &mut Vec<(YamlKey, YamlNode)>, key: YamlKey, node: YamlNode, faults: &mut Vec<Fault>) {
    if key.name == "<<" {
        merge(entries, key, node, faults);
    } else if let Some(at) = entries.iter().position(|(other, _)| other.name == key.name) {
        // A merged entry may be overridden; a duplicate key is an error.
        if entries[at].0.span.is_empty() {
            entries[at] = (key, node);
        } else {
            faults.push(
                Fault::error(key.span, format!("duplicate key `{}`", key.name)).help("remove one of the two"),
            );
        }
    } else {
        entries.push((key, node));
    }
}

/// YAML's merge key: adds the entries of the merged maps, unless the map has the key itself.
fn merge(entries: &mut Vec<(YamlKey, YamlNode)>, key: YamlKey, node: YamlNode, faults: &mut Vec<Fault>) {
    let maps = match node.kind {
        YamlValue::Map(_) => vec![node],
        YamlValue::List(items) => items,
        _ => Vec::new(),
    };
    if maps.is_empty() || maps.iter().any(|map| !matches!(map.kind, YamlValue::Map(_))) {
        let fault = Fault::error(key.span, "`<<` can only merge a map or a list of maps");
        faults.push(fault.help("give it an alias of a map, such as `<<: *name`"));
        return;
    }
    for map in maps {
        let YamlValue::Map(merged) = map.kind else { continue };
        for (merged_key, value) in merged {
            if entries.len() > KEYS_MAX {
                return; // The caller reports it.
            }
            if !entries.iter().any(|(other, _)| other.name == merged_key.name) {
                // An empty span marks merged entries; faults inside their values still point at the source.
                let at = merged_key.span.start;
                entries.push((YamlKey { name: merged_key.name, span: at..at }, value));
            }
        }
    }
}

/// True when a text without quotes is read as that text, by readers of YAML 1.1 too.
pub(super) fn is_plain_text(text: &str) -> bool {
    let boolean = || ["y", "n"].iter().chain(&BOOLEAN_KEYS).any(|word| word.eq_ignore_ascii_case(text));
    matches!(scalar(text, ScalarStyle::Plain, false, Schema::Core), YamlValue::Text { .. }) && !boolean()
}

/// Whether a tag is this one of YAML's own.
fn is_own(tag: &Tag, name: &str) -> bool {
    tag.is_yaml_core_schema() && tag.suffix == name
}

/// The value of a text with one of YAML's own tags, such as `!!null`, as PyYAML reads it; `None` if it is none.
fn of_tag(text: &str, name: &str) -> Option<YamlValue> {
    let kind = scalar(text, ScalarStyle::Plain, false, Schema::Python);
    match (name, &kind) {
        ("null", _) => Some(YamlValue::Null),
        ("bool", YamlValue::Bool(_)) | ("int", YamlValue::Int(_)) | ("float", YamlValue::Float(_)) => {
            Some(kind)
        }
        _ => None,
    }
}

fn scalar(text: &str, style: ScalarStyle, tagged: bool, schema: Schema) -> YamlValue {
    let quoted = !matches!(style, ScalarStyle::Plain) || tagged;
    if !quoted {
        match text {
            "" | "~" | "null" | "Null" | "NULL" => return YamlValue::Null,
            "true" | "True" | "TRUE" => return YamlValue::Bool(true),
            "false" | "False" | "FALSE" => return YamlValue::Bool(false),
            "yes" | "Yes" | "YES" | "on" | "On" | "ON" if schema == Schema::Python => {
                return YamlValue::Bool(true);
            }
            "no" | "No" | "NO" | "off" | "Off" | "OFF" if schema == Schema::Python => {
                return YamlValue::Bool(false);
            }
            _ => {}
        }
        let number = match schema {
            Schema::Core => number(text),
            Schema::Python => number_of_1_1(text),
        };
        match number {
            Some(Number::Whole(value)) => return YamlValue::Int(value),
            Some(Number::Real(real)) => return YamlValue::Float(real),
            None => {}
        }
    }
    YamlValue::Text { text: text.to_owned(), quoted }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digits;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<serde_yaml::Value, String> {
        let source = SourceText::new("t", text);
        parse(&source).map(|node| node.to_value()).map_err(|faults| {
            faults
                .iter()
                .map(|fault| {
                    let at = fault.span.as_ref().map_or(0, |span| span.start);
                    let line = 1 + text[..at].matches('\n').count();
                    format!("{line}: {}", fault.message)
                })
                .collect::<Vec<_>>()
                .join("; ")
        })
    }

    /// As PyYAML 6.0.3 reads them.
    #[test]
    fn a_last_line_without_an_end_gives_its_block_none() {
        for (text, expected) in [
            ("a: |\n  x", "x"),
            ("a: |\n  x\n", "x\n"),
            ("a: >\n  x\n  y", "x y"),
            ("a: |+\n  x", "x"),
            ("a: |-\n  x", "x"),
            ("a: |\n  x\n  ", "x\n"),
            ("a: |\n  x\n# c", "x\n"),
            ("b: |\n  x\na: |\n  é", "é"),
        ] {
            for schema in [Schema::Core, Schema::Python] {
                let (root, faults) = parse_all_as(&SourceText::new("", text), schema);
                assert!(faults.is_empty(), "{text:?}: {faults:?}");
                let found = root.unwrap().get("a").unwrap().to_value();
                assert_eq!(found.as_str(), Some(expected), "{text:?}");
            }
        }
    }

    #[test]
    fn tags_of_yaml_itself_are_read_as_pyyaml_reads_them() {
        let text = "a: !!null\nb: !!null x\nc: !!int \"5\"\nd: !!bool 'no'\ne: !!float 1.5\nf: !!str 5\ng: !!map {h: !!seq [1]}";
        let (root, faults) = parse_all_as(&SourceText::new("t", text), Schema::Python);
        assert!(faults.is_empty(), "{faults:?}");
        let read = digits::value(root.unwrap().to_value()).unwrap();
        let expected = r#"{"a":null,"b":null,"c":5,"d":false,"e":1.5,"f":"5","g":{"h":[1]}}"#;
        assert_eq!(digits::to_text(&read), expected);
        for text in ["a: !!int x", "a: !name x", "a: !!set {x}", "a: !!binary eA=="] {
            assert_eq!(parse_all_as(&SourceText::new("t", text), Schema::Python).1.len(), 1, "{text}");
        }
    }

    /// `tests/vectors/yaml/make.py` asked PyYAML.
    #[test]
    fn plain_texts_are_what_pyyaml_reads() {
        let vectors = include_str!("../../tests/vectors/yaml/pyyaml.json");
        let vectors = digits::parse(vectors.as_bytes()).unwrap();
        let rows = vectors["rows"].as_array().unwrap();
        assert!(rows.len() > 1_000);
        for row in rows {
            let text = row[0].as_str().unwrap();
            let (root, faults) = parse_all_as(&SourceText::new("t", format!("a: {text}")), Schema::Python);
            let node = &root.as_ref().unwrap().entries()[0].1;
            if let Some(expected) = row[1]["real"].as_str() {
                let expected: f64 = expected.parse().unwrap();
                match &node.kind {
                    YamlValue::Float(real) => assert_eq!(real.value.to_bits(), expected.to_bits(), "{text}"),
                    YamlValue::Null => assert!(!expected.is_finite() && faults.len() == 1, "{text}"),
                    other => panic!("{text}: {other:?}"),
                }
            } else {
                let read = digits::value(node.to_value()).unwrap();
                assert_eq!(read, row[1], "{text}: {faults:?}");
            }
        }
    }

    #[test]
    fn values_are_read_as_yaml_1_2_does() {
        for (text, json) in [
            ("a: 1\nb: [x, 'y', \"z\"]", r#"{"a":1,"b":["x","y","z"]}"#),
            (
                "a: yes\nb: off\nc: 012\nd: 1e3\ne: -2.5\nf: ~\ng:",
                r#"{"a":"yes","b":"off","c":"012","d":1e3,"e":-2.5,"f":null,"g":null}"#,
            ),
            ("a: 12:30\nb: 1_000\nc: inf\nd: \"0x1f\"", r#"{"a":"12:30","b":"1_000","c":"inf","d":"0x1f"}"#),
            ("a: 0x1F\nb: 0o17\nc: 0xg\nd: 0o8\ne: 0b1", r#"{"a":31,"b":15,"c":"0xg","d":"0o8","e":"0b1"}"#),
            (
                "1.50: a\n0x1F: b\n18446744073709551616: c",
                r#"{"1.50":"a","0x1F":"b","18446744073709551616":"c"}"#,
            ),
            (
                "[1.50, 1e3, 18446744073709551616, -0, +1.5, .5, 5., -1E400, 012.5, 1.5, 0xFFFFFFFFFFFFFFFFF]",
                "[1.50,1e3,18446744073709551616,-0,1.5,0.5,5,-1E400,\"012.5\",1.5,295147905179352825855]",
            ),
            (
                r#"{"a": "\ud83d\ude00 \\ud83d\\ude00", "b": "\uD83D\uDE00\u00fc", 'c': '\ud83d\ude00'}"#,
                "{\"a\":\"\u{1F600} \\\\ud83d\\\\ude00\",\"b\":\"\u{1F600}\u{fc}\",\"c\":\"\\\\ud83d\\\\ude00\"}",
            ),
            (
                "a:\n  b: [\n    \"x\",\n    'y'\n  ]\n  c: {\n    d: ä # }\n  }\ne: 1",
                r#"{"a":{"b":["x","y"],"c":{"d":"ä"}},"e":1}"#,
            ),
            ("a: [\n1,\n2,\n]\nb: [{\nc: 1\n}, {\n}\n]", r#"{"a":[1,2],"b":[{"c":1},{}]}"#),
            ("x: &x {a: 1, b: 2}\ny:\n  b: 3\n  <<: *x\n", r#"{"x":{"a":1,"b":2},"y":{"b":3,"a":1}}"#),
            ("x: &x {a: 1}\ny:\n  <<: [*x, {c: 5}]\n  a: 9\n", r#"{"x":{"a":1},"y":{"a":9,"c":5}}"#),
            ("a: !!str 5", r#"{"a":"5"}"#),
            ("a: |\n  two\n  lines\n", r#"{"a":"two\nlines\n"}"#),
            ("{\n\t\"a\": [\n\t\t1\n\t]\n}", r#"{"a":[1]}"#),
            ("a: 1\r\nb: ü\r\n", r#"{"a":1,"b":"ü"}"#),
        ] {
            let value = read(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
            let value = digits::value(value).unwrap();
            assert_eq!(digits::to_text(&value), json, "{text}");
        }
    }

    #[test]
    fn silently_accepted_yaml_mistakes_are_errors_with_their_lines() {
        for (text, expected) in [
            ("", "1: the file is empty"),
            ("a: 1\nb: 2\na: 3", "3: duplicate key `a`"),
            ("a: 1\n---\nb: 2", "2: a second document in one file"),
            ("a: 1\non: 2", "2: YAML 1.1 reads the key `on` as a boolean"),
            ("true: 1", "1: the key `true` is a boolean"),
            ("a:\n\tb: 1", "2: a tab as indentation"),
            ("a: &x [*x]", "1: an alias inside the value that it refers to"),
            ("a: !!int 5", "1: tags such as `!name` are not supported"),
            ("a: !thing 5", "1: tags such as `!name` are not supported"),
            ("? [a]\n: b", "1: a key must be text"),
            ("a: 1\nb: .inf", "2: `.inf` is no number that JSON has"),
            ("- -.Inf", "1: `-.Inf` is no number that JSON has"),
            ("a: [.NaN]", "1: `.NaN` is no number that JSON has"),
            ("a: {<<: 5}", "1: `<<` can only merge a map or a list of maps"),
        ] {
            assert_eq!(read(text).unwrap_err(), expected, "{text}");
        }
        for (text, part) in
            [("a: [1, 2", "not valid YAML"), ("a: \"x", "not valid YAML"), ("a: *nobody", "not valid YAML")]
        {
            let fault = read(text).unwrap_err();
            assert!(fault.contains(part), "{text}: {fault}");
        }
    }

    #[test]
    fn size_depth_and_aliases_are_bounded() {
        assert!(source("big", &vec![b' '; BYTES_MAX + 1]).is_err());
        assert!(source("latin", b"a: 1\nb: \xe4").unwrap_err().1.message.contains("line 2"));
        let deep = read(&"[".repeat(100_000)).unwrap_err();
        assert!(deep.contains("nested deeper"), "{deep}");
        let levels = (1..40).map(|level| {
            let below = level - 1;
            format!("a{level}: &a{level} [*a{below}, *a{below}, *a{below}]\n")
        });
        let bomb: String = std::iter::once("a0: &a0 [x, x]\n".to_owned()).chain(levels).collect();
        assert!(read(&bomb).unwrap_err().contains("more than 100000 values"));
        let wide: String = (0..=KEYS_MAX).map(|n| format!("k{n}: 1\n")).collect();
        assert!(read(&wide).unwrap_err().contains("more than 2000 keys"));
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[-a-z0-9:{}\\[\\],&*!|>'\"#%@` \t\n<~é\u{1F600}]{0,200}") {
            let _ = read(&text);
        }
    }
}
