//! `bench validate`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use harness::files::{self, CheckedFile};
use harness::options::Environment;
use harness::validation::{ValidatedFile, ValidationDocument};
use harness::{HarnessError, LoadOptions};

use super::exit::{self, Exit};
use super::output;
use super::progress::ProgressDisplay;
use super::run::TaskArgs;
use super::standard_input;
use super::variables::EnvFileArgument;

/// Checks files one by one; a scenario together with its deployment. With `explain`, also says what scenarios will do.
pub(super) fn validate(
    files: &[PathBuf],
    given: Option<&Path>,
    task: &TaskArgs,
    (env_file, offline): (&EnvFileArgument, bool),
    explain: bool,
) -> Exit {
    let (mut code, given, events) = (Exit::Ok, given.map(Into::into), ProgressDisplay::new(false).sink());
    let mut said = HashSet::new();
    for file in files {
        let explained = standard_input::scenario(file).and_then(|yaml| {
            let environment = match offline {
                true => Environment::offline(),
                false => env_file.environment(Some(file))?,
            };
            let load = LoadOptions { environment, task_arguments: task.options(), ..LoadOptions::default() };
            let valid = files::validate_load(&yaml, given.as_ref(), &load, &events)?;
            output::print(&format!("{}: {valid}", file.display()));
            if explain && matches!(valid, CheckedFile::Scenario { .. } | CheckedFile::Task { .. }) {
                let text = files::explain(&yaml, given.as_ref(), &load, output::style())?;
                output::print(&format!("\n{text}\n"));
            }
            Ok(())
        });
        if let Err(error) = explained {
            // The same fault has the same code in a run.
            let of_this = Exit::of_error(&error);
            let error = error.without_repeats(&mut said, file.display());
            output::complain(&exit::words(&error, output::colours(output::Stream::Error)));
            code = if code == Exit::Ok || code == of_this { of_this } else { Exit::Input };
        }
    }
    code
}

/// Checks files one by one, and prints what was found as a JSON document.
///
/// # Errors
/// The document cannot be printed.
pub(super) fn document(
    files: &[PathBuf],
    given: Option<&Path>,
    task: &TaskArgs,
    (env_file, offline): (&EnvFileArgument, bool),
) -> Result<Exit, HarnessError> {
    let (given, events) = (given.map(Into::into), ProgressDisplay::new(false).sink());
    let (mut code, mut checked) = (Exit::Ok, Vec::new());
    for file in files {
        let found = standard_input::scenario(file).and_then(|yaml| {
            let environment = match offline {
                true => Environment::offline(),
                false => env_file.environment(Some(file))?,
            };
            let load = LoadOptions { environment, task_arguments: task.options(), ..LoadOptions::default() };
            files::validate_load(&yaml, given.as_ref(), &load, &events)
        });
        if let Err(error) = &found {
            let of_this = Exit::of_error(error);
            code = if code == Exit::Ok || code == of_this { of_this } else { Exit::Input };
        }
        checked.push(ValidatedFile::new(file.display().to_string(), &found));
    }
    output::deliver_json(&ValidationDocument::new(checked).to_json())?;
    Ok(code)
}
