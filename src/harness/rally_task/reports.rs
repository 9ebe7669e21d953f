//! Writes a run as Rally reports tasks.

use measure::log::RunLog;
use results::directory::RunDirectory;
use results::model::Results;
use text::files::write_output;

use crate::error::HarnessError;
use crate::named_output::{cannot_write, write_named};
use crate::options::RallyReports;

/// Refuses nothing: this build writes reports of Rally.
pub(crate) const fn can_report(_: &RallyReports) -> Result<(), HarnessError> {
    Ok(())
}

/// Writes a run as Rally reports tasks.
pub(crate) fn reports(
    files: &RallyReports,
    directory: &RunDirectory,
    results: &Results,
) -> Result<(), HarnessError> {
    if files.json.is_none() && files.junit.is_none() {
        return Ok(());
    }
    let log = RunLog::open(&directory.log()).map_err(HarnessError::failed)?;
    let hooks = rally::json::hooks(&log).map_err(HarnessError::failed)?;
    let junit = files
        .junit
        .as_deref()
        .map_or(Ok(()), |path| write_named(path, &rally::junit::render(&log.header, results, &hooks)));
    let json = files.json.as_deref().map_or(Ok(()), |path| {
        let written = write_output(path, |output| {
            rally::json::write(&log, results, &hooks, output).map_err(std::io::Error::other)
        });
        written.map_err(|error| cannot_write(path, &error))
    });
    junit.and(json)
}
