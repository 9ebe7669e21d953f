//! `bench validate`.

use std::path::{Path, PathBuf};

use crate::harness::files;

use super::exit::{self, Exit};
use super::output;
use super::progress::Shown;

/// Checks files one by one; a scenario together with its deployment.
pub(super) fn validate(files: &[PathBuf], given: Option<&Path>) -> Exit {
    let (mut code, given, events) = (Exit::Ok, given.map(Into::into), Shown::new(false).sink());
    for file in files {
        match files::validate(&file.into(), given.as_ref(), &events) {
            Ok(valid) => output::print(&format!("{}: {valid}", file.display())),
            Err(error) => {
                output::complain(&exit::words(&error, output::colours(output::Stream::Error)));
                code = Exit::Input;
            }
        }
    }
    code
}
