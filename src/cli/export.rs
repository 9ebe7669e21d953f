//! `bench export`.

use std::path::PathBuf;

use harness::HarnessError;
use harness::stored::{ExportOptions, export_file, export_to};
use results::export::{ExportFormat, ExportTable};

use super::exit::Exit;
use super::output;
use super::progress::ProgressDisplay;
use super::runs::run_path;

/// Write every iteration of a run as a table for other programs.
///
/// One row per iteration, or per action with --actions, in the order of the run's log; this also works
/// for a run that crashed. Column names end in their units; due_ns and start_ns count from the run's
/// start, which is `started_at` in results.json. In CSV, text that a spreadsheet would take for a formula
/// gets an apostrophe in front.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("format")))]
pub(super) struct ExportArguments {
    /// The run's directory (default: the newest in runs/).
    #[arg(default_value = "latest", value_parser = run_path())]
    run_dir: PathBuf,
    /// Comma-separated values with a header line (the default).
    #[arg(long, group = "format")]
    csv: bool,
    /// One JSON object per line.
    #[arg(long, group = "format")]
    jsonl: bool,
    /// Apache Parquet, in builds with the feature `parquet`; needs --output.
    #[arg(long, group = "format", requires = "output")]
    parquet: bool,
    /// A row for each action instead of a row for each iteration.
    #[arg(long)]
    actions: bool,
    /// The file to write; `-` is standard output (default).
    #[arg(short, long, alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,
}

impl ExportArguments {
    fn format(&self) -> ExportFormat {
        if self.parquet {
            return ExportFormat::Parquet;
        }
        if self.jsonl { ExportFormat::Jsonl } else { ExportFormat::Csv }
    }
}

pub(super) fn run(arguments: &ExportArguments) -> Result<Exit, HarnessError> {
    let options = ExportOptions {
        run_dir: arguments.run_dir.clone(),
        table: if arguments.actions { ExportTable::Actions } else { ExportTable::Iterations },
        format: arguments.format(),
    };
    let missing = match output::file(arguments.output.as_ref()) {
        Some(path) => export_file(&options, path)?,
        None => {
            let mut product = output::product();
            match export_to(&options, &mut product) {
                Err(error) => return product.finish(Err(error)).map(|()| Exit::Ok),
                Ok(exported) => product.finish(Ok(())).and(exported)?,
            }
        }
    };
    for sentence in &missing {
        let text = format!("{sentence}; everything that can be read was exported");
        ProgressDisplay::new(false).sink().event(&harness::Event::Warning(&text));
    }
    Ok(Exit::Ok)
}
