//! The scenario and the deployment of the embedded demo, for a first run without any file.

use super::options::YamlFile;

/// What names the scenario, wherever there is no file of this name.
pub(super) const NAME: &str = "demo";

/// How many requests an iteration of it sends.
pub(super) const REQUESTS: usize = 2;

// Links to the files of the repository: a crate that is published has only what is in its own folder.
const SCENARIO: &str = include_str!("demo-scenario.yaml");
const DEPLOYMENT: &str = include_str!("demo-deployment.yaml");

/// The demo's scenario and its deployment, if that is what this names: it is `demo`, and no such file is here. A directory
/// cannot be meant, and may well have that name.
pub(super) fn named(file: &YamlFile) -> Option<(YamlFile, YamlFile)> {
    let path = file.path();
    let is_name = file.given_text().is_none() && path.as_os_str() == NAME;
    // A link that leads nowhere is a file that somebody wanted.
    let is_here = || path.symlink_metadata().is_ok() && !path.is_dir();
    // Both have the same name: the command that repeats a run then names no deployment.
    (is_name && !is_here()).then(|| (YamlFile::text(NAME, SCENARIO), YamlFile::text(NAME, DEPLOYMENT)))
}

/// The texts of both files, for a scenario that has its deployment beside it.
pub(super) fn written(deployment: &str) -> (String, String) {
    let scenario = own_lines(SCENARIO).map(|line| match line.strip_prefix("deployment: ") {
        Some(_) => format!("deployment: {}\n", serde_json::Value::from(deployment)),
        None => line.to_owned(),
    });
    (scenario.collect(), own_lines(DEPLOYMENT).collect())
}

/// The lines without the one that names a schema, which is not beside the written files.
fn own_lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.split_inclusive('\n').filter(|line| !line.starts_with("# yaml-language-server:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_alone_means_the_demo() {
        for (name, expected) in [("demo", true), ("./demo", false), ("demo.yaml", false), ("", false)] {
            assert_eq!(named(&name.into()).is_some(), expected, "{name}");
        }
        assert!(named(&YamlFile::text("demo", "title: mine")).is_none());
    }

    #[test]
    fn the_written_scenario_names_the_deployment_beside_it() {
        let (scenario, deployment) = written("a: b.yaml");
        assert!(scenario.contains("\ndeployment: \"a: b.yaml\"\n"), "{scenario}");
        assert_eq!(scenario.lines().count() + 1, SCENARIO.lines().count());
        assert!(!scenario.contains("schema") && !deployment.contains("schema"), "{scenario}{deployment}");
    }
}
