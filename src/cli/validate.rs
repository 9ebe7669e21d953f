//! `bench validate`.

use std::path::{Path, PathBuf};

use crate::harness::files::{self, Valid};

use super::exit::{self, Exit};
use super::output;
use super::progress::Shown;

/// Checks files one by one; a scenario together with its deployment.
pub(super) fn validate(files: &[PathBuf], given: Option<&Path>) -> Exit {
    let (mut code, given, events) = (Exit::Ok, given.map(Into::into), Shown::new(false).sink());
    for file in files {
        match files::validate(&file.into(), given.as_ref(), &events) {
            Ok(valid) => output::print(&format!("{}: {}", file.display(), words(valid))),
            Err(error) => {
                output::complain(&exit::words(&error));
                code = Exit::Input;
            }
        }
    }
    code
}

fn words(valid: Valid) -> String {
    match valid {
        Valid::Scenario { workloads, actions } => format!(
            "a valid scenario with {} and {}",
            counted(workloads, "workload"),
            counted(actions, "action")
        ),
        Valid::Deployment { targets } => format!("a valid deployment with {}", counted(targets, "target")),
        Valid::Demo => "a valid deployment: the embedded demo".to_owned(),
    }
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
