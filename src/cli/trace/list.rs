//! `bench trace list`.

use serde_json::json;

use crate::exit::Exit;
use harness::HarnessError;
use osprofiler::driver::TraceSummary;
use report::document::terminal;
use report::trace;

use super::sources::SourceArguments;
use super::words;

/// List the traces of a collector, of run directories or of files, newest first.
#[derive(Debug, clap::Args)]
pub(crate) struct ListArguments {
    #[command(flatten)]
    source: SourceArguments,
    /// Only traces with a point that failed.
    #[arg(long, visible_alias = "error-trace")]
    error_traces: bool,
    /// The largest number of traces.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// One JSON object per line.
    #[arg(long)]
    json: bool,
}

pub(super) fn list(arguments: &ListArguments) -> Result<Exit, HarnessError> {
    let (traces, more) = arguments.source.source().list(arguments.error_traces, arguments.limit)?;
    let style = crate::output::style();
    words(None, |out| {
        if arguments.json {
            return traces.iter().try_for_each(|trace| writeln!(out, "{}", object(trace)));
        }
        writeln!(out, "{}", terminal::text(&trace::list::document(&traces), style))
    })?;
    if traces.is_empty() {
        crate::say("no traces");
    } else if more {
        crate::say(&format!("the newest {}; see more with --limit", traces.len()));
    }
    Ok(Exit::Ok)
}

fn object(trace: &TraceSummary) -> serde_json::Value {
    json!({
        "base_id": trace.base_id, "timestamp": trace.timestamp, "records": trace.records,
        "name": trace.name, "failed": trace.failed,
    })
}
