//! A scenario whose requests all name whole URLs needs no deployment: their hosts are its targets.

use serde_json::{Map, Value, json};

use super::options::YamlFile;
use text::yaml::{YamlNode, YamlValue};

/// The name of the deployment that is made.
const NAME: &str = "URLs of the scenario";
/// The keys of a step that hold a path or a URL; `request` begins with the method.
const METHODS: [&str; 8] = ["get", "head", "post", "put", "patch", "delete", "options", "request"];

/// The deployment that the whole URLs of a scenario amount to; `None` if a request names no host, or there is none.
pub(super) fn deployment(root: &YamlNode) -> Option<YamlFile> {
    let mut urls = Vec::new();
    collect(root, &mut urls);
    let origins: Option<Vec<String>> = urls.iter().map(|url| origin(url)).collect();
    let mut targets = Map::new();
    for origin in origins? {
        if !targets.values().any(|known| *known == origin) {
            let name =
                if targets.is_empty() { "default".to_owned() } else { format!("host{}", targets.len() + 1) };
            targets.insert(name, origin.into());
        }
    }
    let first = targets.get("default")?.as_str()?.split_once("://")?.1.to_owned();
    let text = config::write(&json!({ "name": first, "targets": Value::Object(targets) })).ok()?;
    Some(YamlFile::text(NAME, text))
}

/// The URLs and paths of all requests.
fn collect(node: &YamlNode, urls: &mut Vec<String>) {
    node.items().iter().for_each(|item| collect(item, urls));
    for (key, value) in node.entries() {
        match &value.kind {
            YamlValue::Text { text, .. } if METHODS.contains(&key.name.as_str()) => {
                let url = if key.name == "request" {
                    text.split_once(' ').map_or("", |(_, url)| url)
                } else {
                    text
                };
                urls.push(url.trim().to_owned());
            }
            // What is sent may have keys of the same names.
            _ if matches!(
                key.name.as_str(),
                "json" | "form" | "headers" | "query" | "variables" | "data"
            ) => {}
            _ => collect(value, urls),
        }
    }
}

/// Scheme and host of a whole URL that has both written out.
fn origin(url: &str) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_plain = !host.is_empty() && !host.contains(['{', '@', ' ']);
    let is_known = scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    (is_plain && is_known).then(|| format!("{scheme}://{host}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use text::yaml;

    #[test]
    fn whole_urls_amount_to_targets() {
        let one = "name: a:1\ntargets:\n  default: http://a:1\n";
        for (text, expected) in [
            ("iteration: [{ get: \"http://a:1/x\" }]", Some(one)),
            (
                "iteration: [{ request: \"PURGE http://a:1/x\" }, { get: \"http://a:1/y?z={{ row }}\" }]",
                Some(one),
            ),
            (
                "iteration: [{ group: g, steps: [{ post: \"http://a:1\", json: { get: /p } }, { get: \"https://b/\" }] }]",
                Some("name: a:1\ntargets:\n  default: http://a:1\n  host2: https://b\n"),
            ),
            ("iteration: [{ get: /x }, { get: \"http://a:1/x\" }]", None),
            ("iteration: [{ get: \"{{ url }}/x\" }]", None),
            ("iteration: [{ get: \"http://{{ host }}/x\" }]", None),
            ("iteration: [{ get: \"ws://a/x\" }]", None),
            ("iteration: []", None),
        ] {
            let root = yaml::parse(&yaml::source("s.yaml", text.as_bytes()).unwrap()).unwrap();
            let made = deployment(&root);
            let found = made.as_ref().and_then(YamlFile::given_text);
            assert_eq!(found.map(|text| text.replace('"', "")), expected.map(str::to_owned), "{text}");
        }
    }
}
