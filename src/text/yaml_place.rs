//! Where in a document a fault is: the nodes and keys that a path leads to, or the nearest ones above.

use std::ops::Range;

use super::yaml::YamlNode;

/// The node at `keys`, or the nearest one above it.
#[must_use]
pub fn at<'n>(node: &'n YamlNode, keys: &[&str]) -> &'n YamlNode {
    let mut node = node;
    for key in keys {
        match node.get(key) {
            Some(next) => node = next,
            None => break,
        }
    }
    node
}

/// The place of `key` in a map, or of the map.
#[must_use]
pub fn key_span(node: &YamlNode, key: &str) -> Range<usize> {
    let found = node.entries().iter().find(|(k, _)| k.name == key);
    found.map_or_else(|| node.span.clone(), |(key, _)| key.span.clone())
}

/// The first key of a map, where a fault of the whole map is shown.
#[must_use]
pub fn first_key(node: &YamlNode) -> Range<usize> {
    node.entries().first().map_or(node.span.clone(), |(key, _)| key.span.clone())
}

/// The item of a list, or the list itself.
#[must_use]
pub fn item(node: &YamlNode, index: usize) -> &YamlNode {
    node.items().get(index).unwrap_or(node)
}
