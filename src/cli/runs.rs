//! `bench runs`, `bench open` and `bench prune`: stored runs.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{OsStringValueParser, TypedValueParser};

use base::units::format_bytes;
use harness::options::Environment;
use harness::{HarnessError, runs};
use report::document::terminal;
use report::runs::document;

use super::exit::Exit;
use super::output::{self, say};

/// A run's directory, or `latest`.
pub(super) fn run_path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|text| runs::named(Path::new(&text)))
}

/// List the stored runs and comparisons, newest first: time, verdict, p99, name, cause and directory.
///
/// Every command that takes a run's directory also takes the name in the first column, `latest` for the newest run in
/// runs/, and `DIR/latest` for the newest in DIR. A run whose files are damaged is listed as such. Verdict and figures are
/// those that results.json states; of a run from elsewhere, `bench check` works the verdict out anew from run.log.
#[derive(Debug, clap::Args)]
pub(super) struct RunsArguments {
    /// The directory of the runs.
    #[arg(short, long, alias = "output", value_name = "DIR", default_value = runs::DIRECTORY)]
    out: PathBuf,
    /// The largest number of runs.
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
}

pub(super) fn list(arguments: &RunsArguments) -> Result<Exit, HarnessError> {
    let (all, more) = runs::list(&arguments.out, arguments.limit)?;
    if arguments.json {
        let lines: Result<Vec<String>, _> = all.iter().map(serde_json::to_string).collect();
        let lines = lines.map_err(HarnessError::cannot("write JSON"))?;
        return if lines.is_empty() { Ok(()) } else { output::deliver(&lines.join("\n")) }.map(|()| Exit::Ok);
    }
    if all.is_empty() {
        say(&format!("no runs yet in {}", arguments.out.join("").display()));
    } else {
        output::show(&terminal::text(&document(&all), output::style()))?;
    }
    if more > 0 {
        say(&format!("{more} older ones; see them with --limit {}", all.len() + more));
    }
    Ok(Exit::Ok)
}

/// Open the report of a run or a comparison in a browser.
///
/// Starts $BROWSER, or else the system's program for pages (xdg-open, open). If there is none, it only prints where the
/// page is.
#[derive(Debug, clap::Args)]
pub(super) struct OpenArguments {
    /// The directory of a run or comparison (default: the newest in runs/).
    #[arg(default_value = "latest")]
    run_dir: PathBuf,
}

pub(super) fn open(arguments: &OpenArguments) -> Result<Exit, HarnessError> {
    let opened = runs::open(&arguments.run_dir, &Environment::default())?;
    if !opened.is_shown {
        say("no program to open it with: set BROWSER, or open this page yourself");
    }
    output::print(&opened.report.display().to_string());
    Ok(Exit::Ok)
}

/// Delete old runs and comparisons, or their traces; without --yes, only say which.
///
/// Deletes directories that bench made, by what is in their files, and nothing that a symbolic link points to. With
/// both --keep and --older-than, it deletes those that are neither among the newest N nor newer than AGE.
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("which").required(true).multiple(true)))]
pub(super) struct PruneArguments {
    /// The directory of the runs.
    #[arg(short, long, alias = "output", value_name = "DIR", default_value = runs::DIRECTORY)]
    out: PathBuf,
    /// Keep the newest N.
    #[arg(long, value_name = "N", group = "which")]
    keep: Option<usize>,
    /// Only those that began longer ago than this, such as 30d, 2w or 12h.
    #[arg(long, value_name = "AGE", group = "which", value_parser = runs::age)]
    older_than: Option<Duration>,
    /// Delete only the traces that were fetched or received; results and reports stay, and list the causes.
    #[arg(long)]
    traces_only: bool,
    /// Delete them.
    #[arg(long)]
    yes: bool,
}

pub(super) fn prune(arguments: &PruneArguments) -> Result<Exit, HarnessError> {
    let pruned = runs::prune(&runs::PruneOptions {
        directory: arguments.out.clone(),
        keep: arguments.keep,
        older_than: arguments.older_than,
        traces_only: arguments.traces_only,
        delete: arguments.yes,
    })?;
    let (mut bytes, mut number) = (0_u64, 0_usize);
    for one in &pruned {
        let (path, size) = (one.directory.display(), format_bytes(one.bytes));
        match &one.stays {
            Some(reason) => say(&format!("{path} stays: {reason}")),
            None => {
                (bytes, number) = (bytes.saturating_add(one.bytes), number + 1);
                output::print(&format!("{path}  {size}"));
            }
        }
    }
    let done = if arguments.yes { "deleted" } else { "would be deleted; --yes deletes them" };
    let what = if arguments.traces_only { "the traces of " } else { "" };
    say(&format!("{what}{number} of {} old runs ({}) {done}", pruned.len(), format_bytes(bytes)));
    Ok(Exit::Ok)
}
