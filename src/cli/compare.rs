//! `bench compare`.

use std::path::PathBuf;

use crate::base::files::write_output;
use crate::harness::HarnessError;
use crate::harness::stored::{CompareOptions, Form, compare};
use crate::report::document::terminal::Look;
use crate::verdict::paired::Metric;

use super::exit::Exit;
use super::output;

/// Compare runs that are over: two side by side, or a new one against the runs before it.
///
/// Two runs: ratios of every percentile with 95 % intervals, by iteration, action and trace point. They describe these
/// two runs and give no verdict, since one run of each cannot tell a slower build from a slower hour; `bench ab` can.
///
/// A directory of 10 or more past runs as BASE: a new run is held against what one more of them would stay below.
/// What takes longer fails it only with a second new run that confirms it (RERUN), and where past runs vary by 5 % or
/// less; else it is INCONCLUSIVE. The second run begins 10 minutes or more after the first has ended, or a run of the
/// base lies between the two: what slows one minute slows both runs in it. So does what fails more often than in past runs, if confirmed. Runs that are not comparable with the new one are passed over.
#[derive(Debug, clap::Args)]
pub(super) struct CompareArguments {
    /// The run that is compared with: its directory, its results.json, or a directory of past runs.
    base: PathBuf,
    /// The new run.
    new: PathBuf,
    /// A second new run that is to confirm what the first one shows against past runs: another run, 10 minutes or more
    /// later, or with a past run between the two.
    rerun: Option<PathBuf>,
    /// Compare runs of different scenarios, deployments, options or machines all the same.
    #[arg(long)]
    allow_different: bool,
    /// A percentile that is held against past runs, such as p99 or 'p95(action "log in")' (default: p50 and p95).
    #[arg(long, value_name = "PERCENTILE")]
    metric: Vec<Metric>,
    /// Exit with 4 when the verdict is INCONCLUSIVE.
    #[arg(long)]
    strict: bool,
    /// Print JSON.
    #[arg(long, conflicts_with_all = ["markdown", "html"])]
    json: bool,
    /// Print Markdown.
    #[arg(long, conflicts_with = "html")]
    markdown: bool,
    /// Print one HTML page that needs no network: `bench compare BASE NEW --html -o compare.html`.
    #[arg(long)]
    html: bool,
    /// Write to this file instead of standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn run(arguments: &CompareArguments) -> Result<Exit, HarnessError> {
    let comparison = compare(&CompareOptions {
        base: arguments.base.clone(),
        new: arguments.new.clone(),
        rerun: arguments.rerun.clone(),
        allow_different: arguments.allow_different,
        metrics: arguments.metric.clone(),
    })?;
    let (form, for_people) = match (arguments.json, arguments.markdown, arguments.html) {
        (true, _, _) => (Form::Json, false),
        (_, true, _) => (Form::Markdown, false),
        (_, _, true) => (Form::Html, false),
        _ if arguments.output.is_some() => (Form::Terminal(Look::default()), true),
        _ => (Form::Terminal(output::look()), true),
    };
    let text = comparison.render(form)?;
    match &arguments.output {
        Some(path) => write_output(path, |output| output.write_all(text.as_bytes()))
            .map_err(|error| HarnessError::failed(format!("cannot write {}: {error}", path.display())))?,
        None if for_people => output::show(&text)?,
        None => output::deliver(&text)?,
    }
    Ok(Exit::of(comparison.conclusion(), arguments.strict))
}
