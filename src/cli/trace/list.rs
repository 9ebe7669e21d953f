//! `bench trace list`: which traces there are.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::json;

use crate::cli::exit::Exit;
use crate::harness::HarnessError;
use crate::osprofiler::driver::TraceSummary;
use crate::report::terminal::clean;

use super::sources::SourceArguments;
use super::words;

/// List the traces of a collector, of run directories or of files, newest first.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ListArguments {
    #[command(flatten)]
    source: SourceArguments,
    /// Only traces with a point that failed.
    #[arg(long, visible_alias = "error-trace")]
    error_traces: bool,
    /// How many.
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// A JSON object a line.
    #[arg(long)]
    json: bool,
}

pub(super) fn list(arguments: &ListArguments) -> Result<Exit, HarnessError> {
    let (traces, more) = arguments.source.source().list(arguments.error_traces, arguments.limit)?;
    words(None, |out| {
        if arguments.json {
            return traces.iter().try_for_each(|trace| writeln!(out, "{}", object(trace)));
        }
        writeln!(out, "{}", table(&traces))
    })?;
    if traces.is_empty() {
        crate::cli::say("no traces");
    } else if more {
        crate::cli::say(&format!("the newest {}; see more with --limit", traces.len()));
    }
    Ok(Exit::Ok)
}

fn object(trace: &TraceSummary) -> serde_json::Value {
    json!({
        "base_id": trace.base_id, "timestamp": trace.timestamp, "records": trace.records,
        "name": trace.name, "failed": trace.failed,
    })
}

fn table(traces: &[TraceSummary]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(["Trace id", "First record (UTC)", "Records", "First point", "Failed"]);
    for trace in traces {
        table.add_row([
            clean(&trace.base_id),
            clean(&trace.timestamp),
            trace.records.map_or_else(|| "?".to_owned(), |records| records.to_string()),
            clean(trace.name.as_deref().unwrap_or("?")),
            trace.failed.map_or("?", |failed| if failed { "yes" } else { "" }).to_owned(),
        ]);
    }
    table
        .to_string()
        .lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect::<String>()
        .trim_end()
        .to_owned()
}
