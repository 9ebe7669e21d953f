//! Flavors and images that a task names by id, name or regular expression: they are looked up once, in `setup`.

use crate::nodes::{NodeFactory, as_text, quoted};
use crate::scenarios::ScenarioEnvironment;
use text::diagnostics::Fault;
use text::yaml::YamlNode;

/// What a task may name.
#[derive(Clone, Copy)]
pub(super) enum OpenStackResourceKind {
    Flavor,
    Image,
}

/// How its id becomes known.
pub(super) enum ResourceIdSource {
    Id(YamlNode),
    /// This step extracts it as the variable of this name.
    Step(Box<YamlNode>, String),
}

const HELP: &str = "write `id`, `name` or `regex`, such as `{name: m1.tiny}`";

impl OpenStackResourceKind {
    fn word(self) -> &'static str {
        match self {
            Self::Flavor => "flavor",
            Self::Image => "image",
        }
    }

    /// The target, the path, and where the answer has the list.
    fn list(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Flavor => ("nova", "/flavors", "flavors"),
            Self::Image => ("glance", "/images", "images"),
        }
    }

    /// The variable that has the id in our files.
    pub(super) fn variable(self) -> &'static str {
        match self {
            Self::Flavor => "flavor_id",
            Self::Image => "image_id",
        }
    }
}

/// How the id of what `node` names becomes known; adds a fault if `node` names nothing.
pub(super) fn find(
    thing: OpenStackResourceKind,
    node: &YamlNode,
    around: &ScenarioEnvironment<'_>,
    faults: &mut Vec<Fault>,
) -> Option<ResourceIdSource> {
    let place = NodeFactory::of(node);
    let mut fault = |message: String| {
        faults.push(Fault::error(node.span.clone(), message).help(HELP));
        None
    };
    let [(key, value)] = node.entries() else {
        let known = |name: &str| matches!(name, "id" | "name" | "regex");
        if let Some((key, value)) = node.entries().iter().find(|(key, _)| !known(&key.name)) {
            let what = format!("`{}` is not supported for {}", key.name, thing.word());
            faults.push(Fault::error(value.span.clone(), what).help("leave it out"));
            return None;
        }
        return fault(format!("this does not name one {}", thing.word()));
    };
    let Some(text) = as_text(value) else { return fault(format!("`{}` is not a text", key.name)) };
    match key.name.as_str() {
        "id" => Some(ResourceIdSource::Id(place.literal(&text))),
        "name" if matches!(thing, OpenStackResourceKind::Flavor) && around.makes_flavor(&text) => {
            // Made by the context, under another name.
            let name = text.replace('\\', "\\\\").replace('\'', "\\'");
            Some(ResourceIdSource::Id(place.text(format!("{{{{ context.flavor['{name}'] }}}}"))))
        }
        "name" => {
            let condition = format!("@.name == {}", json_path_text(&text));
            Some(step(thing, &condition, Some(&text), &place, around))
        }
        "regex" => {
            let condition = format!("search(@.name, {})", json_path_text(&text));
            Some(step(thing, &condition, None, &place, around))
        }
        other => fault(format!("`{other}` does not name one {}", thing.word())),
    }
}

/// A text in a JSONPath (RFC 9535).
fn json_path_text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// The step of `setup` that finds what meets a condition.
fn step(
    thing: OpenStackResourceKind,
    condition: &str,
    name: Option<&str>,
    place: &NodeFactory,
    around: &ScenarioEnvironment<'_>,
) -> ResourceIdSource {
    let (target, path, list) = thing.list();
    let variable = format!("{}_{}", thing.variable(), around.number);
    let json_path = format!("$.{list}[?{condition}].id");
    let mut query = vec![("limit", place.int(1000))];
    if let (OpenStackResourceKind::Image, Some(name)) = (thing, name) {
        query.push(("name", place.text(quoted(name))));
    }
    let action = format!("find {} of {}", thing.word(), around.name);
    let extract = place.map([(variable.as_str(), place.map([("json", place.text(json_path))]))]);
    let node = place.map([
        ("action", place.text(action)),
        ("get", place.text(path)),
        ("target", place.text(target)),
        ("query", place.map(query)),
        ("extract", extract),
    ]);
    ResourceIdSource::Step(Box::new(node), variable)
}
