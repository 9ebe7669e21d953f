//! Opens the report of a run in a browser.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::find::newest;
use crate::error::HarnessError;
use crate::options::Environment;
use results::directory::RunDirectory;

/// A report, and whether a program shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedReport {
    /// The page.
    pub report: PathBuf,
    /// False if no program could be started.
    pub is_shown: bool,
}

/// Opens the report of a run or comparison with `$BROWSER`, or with the system's program for it.
///
/// # Errors
/// There is no such run, or it has no report.
pub fn open(run: &Path, environment: &Environment) -> Result<OpenedReport, HarnessError> {
    let directory = newest(run, None)?;
    let pages = [RunDirectory::open(&directory).report(), directory.join("ab.html")];
    let Some(report) = pages.into_iter().find(|page| page.is_file()) else {
        let text = format!("{} has no report", directory.display());
        return Err(HarnessError::input(text).remedy("make it with `bench report`"));
    };
    let report = std::path::absolute(&report).map_err(HarnessError::cannot("find the report"))?;
    let given = environment.get("BROWSER").filter(|browser| !browser.is_empty());
    let is_shown = match &given {
        // As in xdg-open: several programs; the first that starts is taken.
        Some(given) => given.split(':').any(|program| starts(program, &report)),
        None => SYSTEM.iter().any(|program| starts(program, &report)),
    };
    Ok(OpenedReport { report, is_shown })
}

#[cfg(target_os = "macos")]
const SYSTEM: [&str; 1] = ["open"];
#[cfg(not(target_os = "macos"))]
const SYSTEM: [&str; 2] = ["xdg-open", "wslview"];

/// Starts a program with the page; its words are not shown.
fn starts(program: &str, page: &Path) -> bool {
    let mut words = program.split_whitespace();
    let Some(name) = words.next() else { return false };
    let mut command = Command::new(name);
    command.args(words.filter(|word| *word != "%s")).arg(page);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.spawn() {
        // A program that opens another one ends at once, with an error if there is none. A browser goes on.
        Ok(mut child) => {
            std::thread::sleep(std::time::Duration::from_millis(300));
            !matches!(child.try_wait(), Ok(Some(ended)) if !ended.success())
        }
        Err(_) => false,
    }
}
