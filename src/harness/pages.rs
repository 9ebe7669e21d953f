//! Pages of traces beside the report.

use std::path::Path;

use report::html::{self, TraceDisplay, relative_url};
use results::directory::{RunDirectory, write_at_once};
use results::model::Results;
use results::trace::StoredTrace;
use text::shell;

use super::error::HarnessError;
use super::options::TracesMode;

/// Writes the pages, if requested, and returns how the report links to them.
pub(super) fn write(
    mode: &TracesMode,
    directory: &RunDirectory,
    results: &Results,
    traces: &[StoredTrace],
) -> Result<TraceDisplay, HarnessError> {
    let folder = match mode {
        TracesMode::Text => return Ok(TraceDisplay::Text),
        TracesMode::Embed => return Ok(TraceDisplay::Embed),
        TracesMode::Pages(folder) => folder,
    };
    let written = || -> std::io::Result<TraceDisplay> {
        std::fs::create_dir_all(folder)?;
        let back = relative_url(&folder.canonicalize()?, &directory.path().canonicalize()?) + "report.html";
        for trace in html::shown(traces) {
            let (tree, id) = (&trace.tree, trace.trace_id.to_string());
            write_at_once(&folder.join(format!("{id}.html")), |output| {
                let seen = results.explanation(trace.trace_id);
                html::trace::write(&id, tree, seen, &trace.functions, Some(&back), output)
            })?;
        }
        let report: &Path = directory.path();
        Ok(TraceDisplay::Pages(relative_url(&report.canonicalize()?, &folder.canonicalize()?)))
    };
    written().map_err(|error| {
        let text = format!(
            "the traces' pages cannot be written to {}: {error}; nothing recorded is lost",
            folder.display()
        );
        let report = shell::path(directory.path());
        HarnessError::failed(text)
            .remedy(format!("name another directory, then `bench report {report} --traces DIR`"))
    })
}
