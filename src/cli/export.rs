//! `bench export`: the run log as a table for other programs.

use std::io;
use std::path::PathBuf;

use crate::base::files::write_output;
use crate::results::directory::RunDirectory;
use crate::results::export::{ExportError, Exported, Format, Table, export};

use super::exit::{Exit, Stopped};
use super::output;

/// Write every iteration of a run as a table for other programs.
///
/// A row an iteration, or with --actions a row an action, in the order of the run's log, also of a
/// run that crashed. Names of columns end in their units; due_ns and start_ns count from the run's
/// start, which results.json has as `started_at`. Text that a spreadsheet would take for a formula
/// gets an apostrophe in front in CSV.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("format").required(true)))]
pub(super) struct ExportArguments {
    /// The run's directory.
    run_dir: PathBuf,
    /// Comma-separated values with a line of names.
    #[arg(long, group = "format")]
    csv: bool,
    /// A JSON object a line.
    #[arg(long, group = "format")]
    jsonl: bool,
    /// Apache Parquet; needs --output.
    #[cfg(feature = "parquet")]
    #[arg(long, group = "format", requires = "output")]
    parquet: bool,
    /// A row for each action instead of a row for each iteration.
    #[arg(long)]
    actions: bool,
    /// The file to write (default: standard output).
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl ExportArguments {
    fn format(&self) -> Format {
        #[cfg(feature = "parquet")]
        if self.parquet {
            return Format::Parquet;
        }
        if self.jsonl { Format::Jsonl } else { Format::Csv }
    }
}

pub(super) fn run(arguments: &ExportArguments) -> Result<Exit, Stopped> {
    let directory = RunDirectory::open(&arguments.run_dir);
    let log = directory.log();
    if !log.is_file() {
        let shown = arguments.run_dir.display();
        let text = format!("error: {shown} holds no run.log; give the directory of a run");
        return Err(Stopped::new(Exit::Input, text));
    }
    let table = if arguments.actions { Table::Actions } else { Table::Iterations };
    let exported = match &arguments.output {
        None => {
            let mut product = output::product();
            match export(&log, table, arguments.format(), &mut product) {
                Err(ExportError::Output(error)) => return product.finish(Err(error)).map(|()| Exit::Ok),
                exported => product.finish(Ok(())).map(|()| exported)?,
            }
        }
        Some(path) => {
            let mut result = None;
            let written =
                write_output(path, |output| match export(&log, table, arguments.format(), output) {
                    Err(ExportError::Output(error)) => Err(error),
                    other => {
                        let failed = other.is_err();
                        result = Some(other);
                        if failed { Err(io::Error::other("the log cannot be read")) } else { Ok(()) }
                    }
                });
            match (written, result) {
                (_, Some(Err(error))) => Err(error),
                (Ok(()), Some(exported)) => exported,
                (Err(error), _) => {
                    let text = format!("error: cannot write {}: {error}", path.display());
                    return Err(Stopped::new(Exit::Failed, text));
                }
                (Ok(()), None) => Ok(Exported::default()),
            }
        }
    };
    match exported {
        Ok(exported) => {
            for sentence in &exported.missing {
                super::say(&format!("warning: {sentence}; everything that can be read was exported"));
            }
            Ok(Exit::Ok)
        }
        Err(ExportError::Output(error)) => Err(Stopped::cannot("write the table")(error)),
        Err(ExportError::Log(error)) => Err(Stopped::new(Exit::Input, format!("error: {error}"))),
    }
}
