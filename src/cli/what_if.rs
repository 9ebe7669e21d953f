//! `bench what-if`.

use std::path::PathBuf;
use std::time::Duration;

use base::units::parse_duration;
use harness::HarnessError;
use harness::stored::{WantedChange, WhatIfOptions, what_if};
use report::document::terminal;
use report::prediction;

use super::exit::Exit;
use super::output;
use super::runs::run_path;

const EXAMPLES: &str = "\
Examples:
  bench what-if latest                                                what could be changed, and what the named cause costs
  bench what-if latest --kind 'db · SELECT … FROM stock' --times 0.5  if this query took half as long
  bench what-if latest --kind 'GET /price' --calls 1                  if it were called once an iteration
  bench what-if latest --servers 2x                                   with twice as many connections";

/// Predict the response times that a run would have had after a change.
///
/// The iterations of the run are replayed at the times when they were due, with the work that their traces show, and with
/// the queues that calls were seen to wait in. A prediction comes with an interval in which a new run is with 90 %
/// confidence. There is none if the replay does not give the response times that were measured. Where
/// something is not seen, it is an upper bound, and says so.
///
/// An open load (`rps`, `arrival_rate`) of one workload with received spans tells most: of hundreds of iterations in a row
/// all spans are kept, which shows what waits for what. Nothing is sent, and no file is written.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, group(clap::ArgGroup::new("change")))]
pub(super) struct WhatIfArguments {
    /// The run's directory (default: the newest in runs/).
    #[arg(default_value = "latest", value_parser = run_path())]
    run_dir: PathBuf,
    /// The workload, if the run has several.
    #[arg(long, value_name = "NAME")]
    workload: Option<String>,
    /// The trace points that would be different: a name, or a name with its statement or path, or a part of that.
    #[arg(long, value_name = "NAME")]
    kind: Option<String>,
    /// Their own work takes so many times as long: 0.5 is half, 0 is none.
    #[arg(long, value_name = "FACTOR", group = "change", value_parser = factor)]
    times: Option<f64>,
    /// Their own work takes at most so long in an iteration, such as 5ms.
    #[arg(long, value_name = "DURATION", group = "change", value_parser = length)]
    at_most: Option<Duration>,
    /// An iteration has at most so many calls of them; what is within the others goes with them.
    #[arg(long, value_name = "NUMBER", group = "change")]
    calls: Option<u32>,
    /// So many of the calls run at a time: a number, or as many times as today, such as 2x.
    #[arg(long, value_name = "NUMBER|FACTORx", group = "change", value_parser = servers)]
    servers: Option<WantedChange>,
    /// Print one JSON document instead of words: `bench schema what-if`.
    #[arg(long)]
    json: bool,
}

fn factor(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('x').unwrap_or(text).parse::<f64>().ok();
    number
        .filter(|number| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| "not a factor; for example 0.5, which is half".to_owned())
}

fn length(text: &str) -> Result<Duration, String> {
    parse_duration(text).map_err(|complaint| complaint.to_string())
}

fn servers(text: &str) -> Result<WantedChange, String> {
    let wrong = || "not a number; for example 10, or 2x for twice as many".to_owned();
    if text.ends_with('x') {
        return factor(text)
            .ok()
            .filter(|times| *times > 0.0)
            .map(WantedChange::MoreServers)
            .ok_or_else(wrong);
    }
    text.parse().ok().filter(|count| *count > 0).map(WantedChange::Servers).ok_or_else(wrong)
}

impl WhatIfArguments {
    fn change(&self) -> Option<WantedChange> {
        let times = self.times.map(WantedChange::Times);
        let at_most = self.at_most.map(WantedChange::AtMost);
        times.or(at_most).or(self.calls.map(WantedChange::Calls)).or(self.servers)
    }
}

pub(super) fn run(arguments: &WhatIfArguments) -> Result<Exit, HarnessError> {
    let change = arguments.change();
    if let (Some(kind), None) = (&arguments.kind, change) {
        let what = format!("what of `{kind}` would be different?");
        let remedy = "add --times 0.5, --at-most 5ms, --calls 1, or --servers 2x";
        return Err(HarnessError::usage(what).remedy(remedy));
    }
    let answer = what_if(&WhatIfOptions {
        run_dir: arguments.run_dir.clone(),
        workload: arguments.workload.clone(),
        kind: arguments.kind.clone(),
        change,
    })?;
    if arguments.json {
        let json = prediction::json(&answer);
        let json = json.map_err(|error| HarnessError::failed(format!("cannot write JSON: {error}")))?;
        output::deliver_json(&json)?;
    } else {
        output::print(&terminal::text(&prediction::document(&answer, change.is_some()), output::style()));
    }
    // What was asked for has no answer.
    Ok(if answer.none_because.is_some() { Exit::Inconclusive } else { Exit::Ok })
}
