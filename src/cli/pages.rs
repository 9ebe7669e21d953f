//! `--traces`: ids only, waterfalls inside the report, or a page for each trace.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::report::html::{self, Shown, relative_url};
use crate::results::directory::{RunDirectory, write_at_once};
use crate::results::trace::StoredTrace;

use super::exit::{Exit, Stopped};

/// How the report shows the traces that were kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TracesMode {
    /// Their ids only.
    Text,
    /// Their waterfalls inside the report.
    Embed,
    /// A page for each of them in this directory, to which the report leads.
    Pages(PathBuf),
}

/// The argument.
#[derive(Debug, clap::Args)]
pub(super) struct TracesArgument {
    /// How report.html shows the traces that were kept: `text` (ids only), `embed` (waterfalls in the report), or a
    /// directory, in which each gets an HTML page that the report leads to.
    #[arg(long, value_name = "text|embed|DIR", default_value = "embed", value_parser = clap::builder::OsStringValueParser::new())]
    traces: std::ffi::OsString,
}

impl Default for TracesArgument {
    fn default() -> Self {
        Self { traces: "embed".into() }
    }
}

impl TracesArgument {
    /// A directory that has the name of a mode is written `./text`.
    pub(super) fn mode(&self) -> TracesMode {
        match self.traces.as_os_str() {
            mode if mode == OsStr::new("text") => TracesMode::Text,
            mode if mode == OsStr::new("embed") || mode.is_empty() => TracesMode::Embed,
            folder => TracesMode::Pages(PathBuf::from(folder)),
        }
    }
}

/// Writes the pages, if there are to be any, and says how the report leads to them.
pub(super) fn write(
    mode: &TracesMode,
    directory: &RunDirectory,
    traces: &[StoredTrace],
) -> Result<Shown, Stopped> {
    let folder = match mode {
        TracesMode::Text => return Ok(Shown::Text),
        TracesMode::Embed => return Ok(Shown::Embed),
        TracesMode::Pages(folder) => folder,
    };
    let written = || -> std::io::Result<Shown> {
        std::fs::create_dir_all(folder)?;
        for trace in html::shown(traces) {
            let (tree, id) = (trace.tree(), trace.trace_id.to_string());
            write_at_once(&folder.join(format!("{id}.html")), |output| {
                html::trace::write(&id, &tree, output)
            })?;
        }
        let report: &Path = directory.path();
        Ok(Shown::Pages(relative_url(&report.canonicalize()?, &folder.canonicalize()?)))
    };
    written().map_err(|error| {
        let text = format!(
            "error: the traces' pages cannot be written to {}: {error}; nothing recorded is lost: name another \
             directory, then `bench report {} --traces DIR`",
            folder.display(),
            directory.path().display()
        );
        Stopped::new(Exit::Failed, text)
    })
}
