//! Stands for the crate `rally` in a build without it.

use std::marker::PhantomData;

use base::clock::RunClock;
use config::{Document, RejectedFile, scenario::Scenario};
use measure::log::{HookRun, RallyTask};
use plan::deployment::ResolvedDeployment;
use results::directory::RunDirectory;
use results::model::Results;
use runner::observers::Observer;
use runner::stop::Stop;
use text::diagnostics::SourceText;
use text::yaml::{self, YamlValue};

use crate::error::HarnessError;
use crate::options::{LoadOptions, RallyReports, YamlFile};

/// A task file, of which there are none.
pub(crate) enum TaskFile {}

impl TaskFile {
    pub(crate) fn record(&self) -> &RallyTask {
        match *self {}
    }

    pub(crate) fn warnings(&self) -> &[String] {
        match *self {}
    }

    pub(crate) fn programs(&self) -> Vec<String> {
        match *self {}
    }

    pub(crate) fn at_home(&self, _: RejectedFile) -> RejectedFile {
        match *self {}
    }
}

/// Whether a text looks like a task file: it has subtasks, or lists under names such as `Dummy.dummy`.
pub(crate) fn is_task(text: &str) -> bool {
    let Some(root) = yaml::parse_all(&SourceText::new("", text)).0 else { return false };
    let is_list = |value: &YamlValue| matches!(value, YamlValue::List(_));
    root.entries()
        .iter()
        .any(|(key, node)| key.name == "subtasks" || key.name.contains('.') && is_list(&node.kind))
}

fn refused() -> HarnessError {
    HarnessError::usage("this build of bench does not know Rally")
        .remedy("build it with the feature `openstack`")
}

pub(crate) fn read(
    _: &YamlFile,
    _: SourceText,
    _: Option<&YamlFile>,
    _: &LoadOptions,
) -> Result<(Document<Scenario>, ResolvedDeployment, TaskFile), HarnessError> {
    Err(refused())
}

/// Hooks, of which there are none.
pub(crate) struct Hooks<'a>(PhantomData<&'a ()>);

pub(crate) fn hooks<'a>(_: Option<&'a TaskFile>, _: RunClock, _: &Stop) -> Hooks<'a> {
    Hooks(PhantomData)
}

impl Hooks<'_> {
    pub(crate) fn finish(self) -> (Vec<HookRun>, Vec<String>) {
        (Vec::new(), Vec::new())
    }
}

impl Observer for Hooks<'_> {}

/// Refuses to write reports of Rally.
pub(crate) fn reports(files: &RallyReports, _: &RunDirectory, _: &Results) -> Result<(), HarnessError> {
    can_report(files)
}

/// Refuses reports of Rally before a load.
pub(crate) fn can_report(files: &RallyReports) -> Result<(), HarnessError> {
    if files.json.is_none() && files.junit.is_none() { Ok(()) } else { Err(refused()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_without_rally_knows_a_task_and_says_what_to_do() {
        for (text, expected) in [
            ("Dummy.dummy:\n  - args: {}\n", true),
            ("version: 2\nsubtasks: []\n", true),
            ("title: a\nworkloads: []\n", false),
            ("iteration:\n  - get: /\n", false),
        ] {
            assert_eq!(is_task(text), expected, "{text}");
        }
        let none = RallyReports { json: None, junit: None };
        let some = RallyReports { json: Some("rally.json".into()), junit: None };
        assert_eq!((is_refused(&none), is_refused(&some)), (None, Some(refused().to_string())));
    }

    fn is_refused(files: &RallyReports) -> Option<String> {
        can_report(files).err().map(|error| error.to_string())
    }
}
