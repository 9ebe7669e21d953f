//! `bench compare`.

use std::path::PathBuf;

use harness::HarnessError;
use harness::stored::{CompareOptions, Form, compare};
use report::document::terminal::TerminalStyle;
use text::files::write_output;
use verdict::paired::PercentileMetric;

use super::exit::Exit;
use super::output;
use super::runs::run_path;

/// Compare stored runs: two side by side, or a new one against past runs.
///
/// Two runs: ratios of every percentile with 95 % intervals, by iteration, action and trace point. The ratios describe
/// these two runs and give no verdict, because with one run of each, a slow hour looks like a slow build. Use `bench
/// ab` for that.
///
/// A directory of 10 or more past runs as BASE: a new run is judged against the bound that a further past run would
/// stay below. A run that is slower or fails more often gets FAIL only if a second new run (RERUN) confirms it. A
/// slower one also needs past runs that vary by 5 % or less. Otherwise such a run is INCONCLUSIVE. The second run must
/// begin 10 minutes or more after the end of the first, or a past run must be between the two: whatever slows one
/// minute slows every run in it. Runs that are not comparable with the new one are skipped.
#[derive(Debug, clap::Args)]
pub(super) struct CompareArguments {
    /// The base: a run's directory, a results.json, or a directory of past runs.
    #[arg(value_parser = run_path())]
    base: PathBuf,
    /// The new run, such as `latest`.
    #[arg(value_parser = run_path())]
    new: PathBuf,
    /// A second new run, to confirm what the first one shows against past runs: 10 minutes or more later, or with a
    /// past run between the two.
    #[arg(value_parser = run_path())]
    rerun: Option<PathBuf>,
    /// Compare runs even if scenario, deployment, options or machine differ.
    #[arg(long)]
    allow_different: bool,
    /// A percentile to judge against past runs, such as p99 or 'p95(action "log in")' (default: p50 and p95).
    #[arg(long, value_name = "PERCENTILE")]
    metric: Vec<PercentileMetric>,
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
    #[arg(short, long, alias = "out", value_name = "FILE")]
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
        _ if output::file(arguments.output.as_ref()).is_some() => {
            (Form::Terminal(TerminalStyle::default()), true)
        }
        _ => (Form::Terminal(output::style()), true),
    };
    let text = comparison.render(form)?;
    match output::file(arguments.output.as_ref()) {
        Some(path) => write_output(path, |output| output.write_all(text.as_bytes()))
            .map_err(|error| HarnessError::failed(format!("cannot write {}: {error}", path.display())))?,
        None if for_people => output::show(&text)?,
        None => output::deliver(&text)?,
    }
    Ok(super::gate::told(comparison.conclusion(), arguments.strict))
}
