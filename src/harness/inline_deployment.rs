//! The deployment that stands in a scenario.

use std::path::Path;

use super::options::YamlFile;
use text::yaml::{YamlNode, YamlValue};

/// The map under `deployment:` as a file of its own, whose faults are at their places in the scenario and whose files are
/// looked up beside it; `None` if there is no such map.
pub(super) fn deployment(file: &Path, text: &str, root: &YamlNode) -> Option<YamlFile> {
    let node = root.get("deployment")?;
    let YamlValue::Map(_) = node.kind else { return None };
    let span = node.span.clone();
    // Everything else becomes blank, so that each place stays where it is.
    let blank = |part: &str| -> String {
        part.bytes().map(|byte| if matches!(byte, b'\n' | b'\r') { char::from(byte) } else { ' ' }).collect()
    };
    let (before, own, after) = (text.get(..span.start)?, text.get(span.clone())?, text.get(span.end..)?);
    Some(YamlFile::text(file, format!("{}{own}{}", blank(before), blank(after))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use text::yaml;

    #[test]
    fn a_map_keeps_its_place() {
        for (text, expected) in [
            ("title: t\ndeployment: { name: n }\na: 1\n", Some("        \n            { name: n }\n    \n")),
            ("title: ä\ndeployment:\n  targets:\n    default: http://a\n", None),
            ("deployment: d.yaml\n", None),
            ("title: t\n", None),
        ] {
            let root = yaml::parse(&yaml::source("s.yaml", text.as_bytes()).unwrap()).unwrap();
            let made = deployment(Path::new("s.yaml"), text, &root);
            match (expected, made.as_ref().and_then(YamlFile::given_text)) {
                (Some(expected), found) => {
                    assert_eq!(found.map(str::trim_end), Some(expected.trim_end()), "{text}")
                }
                (None, Some(found)) => {
                    assert!(
                        found.len() == text.len() && found.contains("\n  targets:\n    default: http://a"),
                        "{found}"
                    );
                    let root = yaml::parse(&yaml::source("s.yaml", found.as_bytes()).unwrap()).unwrap();
                    assert!(root.get("targets").is_some(), "{found}");
                }
                (None, None) => assert!(!text.contains("targets"), "{text}"),
            }
        }
    }
}
