//! Rally's contexts as contexts of a scenario, which have the same names and keys but for some old ones.

use config::check::check;
use text::diagnostics::{Fault, SourceVisibility};
use text::yaml::{YamlNode, YamlValue};

use super::nodes::{NodeFactory, as_text};
use super::scenarios::ArgumentFiles;
use super::task::{NamedSettings, known};

/// The contexts that a scenario has, too.
const OF_SCENARIOS: [&str; 6] = ["users", "quotas", "flavors", "images", "network", "volumes"];

/// A context of Rally's own tests. It makes nothing, and can be told to fail.
const DUMMY: &str = "dummy_context";
/// Which versions of a service's interface are asked for.
const VERSIONS: &str = "api_versions";
/// The versions of each that our requests are of.
const SPOKEN: [(&str, &[&str]); 6] = [
    ("cinder", &["3"]),
    ("glance", &["2"]),
    ("keystone", &["3", "v3"]),
    ("mistral", &["2"]),
    ("neutron", &["2", "2.0"]),
    ("nova", &["2", "2.1"]),
];
/// Old names of keys of `images`.
const OF_IMAGES: [(&str, &str); 2] = [("image_container", "container_format"), ("image_type", "disk_format")];

/// The contexts of a workload, as a scenario has them; adds faults.
pub(super) fn contexts(
    contexts: &[NamedSettings],
    at: &NodeFactory,
    files: &ArgumentFiles<'_>,
    shown: &SourceVisibility,
    faults: &mut Vec<Fault>,
) -> Option<YamlNode> {
    let mut entries: Vec<(String, YamlNode)> = Vec::new();
    for context in contexts {
        // `users@openstack` is `users` of a platform.
        let name = context.key.name.split('@').next().unwrap_or_default();
        let names = OF_SCENARIOS.into_iter().chain([VERSIONS, DUMMY]).map(|name| (name, ()));
        if known(context, "the context", names, faults).is_none() {
            continue;
        }
        match name {
            DUMMY => dummy(context, shown, faults),
            VERSIONS => versions(context, faults),
            "images" => entries.push((name.to_owned(), images(&context.settings, files))),
            _ => entries.push((name.to_owned(), context.settings.clone())),
        }
    }
    let entries = entries.iter().map(|(name, settings)| (name.as_str(), settings.clone()));
    (entries.len() > 0).then(|| at.map(entries))
}

/// Refuses versions that our requests are not of.
fn versions(context: &NamedSettings, faults: &mut Vec<Fault>) {
    for (key, service) in context.settings.entries() {
        let spoken = SPOKEN.iter().find(|(name, _)| *name == key.name).map(|(_, versions)| *versions);
        for (setting, node) in service.entries() {
            let is_spoken = setting.name == "version"
                && as_text(node)
                    .is_some_and(|version| spoken.is_some_and(|all| all.contains(&version.as_str())));
            if !is_spoken {
                let message = format!("`{}` of {} is not supported here", setting.name, key.name);
                let known: Vec<String> =
                    SPOKEN.iter().map(|(name, versions)| format!("{name} {}", versions[0])).collect();
                let help = format!(
                    "remove it: requests are of {}; a target of the deployment can have a `microversion`",
                    known.join(", ")
                );
                faults.push(Fault::error(setting.span.clone(), message).help(help));
            }
        }
    }
}

fn dummy(context: &NamedSettings, shown: &SourceVisibility, faults: &mut Vec<Fault>) {
    let flag = serde_json::json!({ "type": "boolean" });
    let schema = serde_json::json!({
        "type": "object", "additionalProperties": false,
        "properties": { "fail_setup": flag, "fail_cleanup": flag },
    });
    faults.extend(check(&context.settings, &schema, shown));
    for (key, node) in context.settings.entries() {
        if matches!(node.kind, YamlValue::Bool(true)) {
            let message = format!("`{}` of the context `{DUMMY}` is not supported", key.name);
            faults.push(
                Fault::error(key.span.clone(), message).help("remove it: nothing is made that could fail"),
            );
        }
    }
}

/// Images, with the keys of today; their file is looked for as Rally does.
fn images(settings: &YamlNode, files: &ArgumentFiles<'_>) -> YamlNode {
    let mut settings = settings.clone();
    let YamlValue::Map(entries) = &mut settings.kind else { return settings };
    for (key, node) in entries {
        if let Some((_, today)) = OF_IMAGES.iter().find(|(old, _)| *old == key.name) {
            (*today).clone_into(&mut key.name);
        }
        let path = as_text(node).filter(|path| key.name == "image_url" && !path.contains("://"));
        if let Some(path) = path {
            *node = NodeFactory::of(node).text((files.find)(&path));
        }
    }
    settings
}
