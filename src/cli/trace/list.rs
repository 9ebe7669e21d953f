//! `bench trace list`: which traces there are.

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::json;

use crate::cli::exit::{Exit, Stopped};
use crate::collect::files::TraceRecords;
use crate::osprofiler::driver::{TraceQuery, TraceSummary};
use crate::osprofiler::report::TraceTree;
use crate::report::terminal::clean;

use super::sources::{SourceArguments, failed};
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

pub(super) fn list(arguments: &ListArguments) -> Result<Exit, Stopped> {
    let named = arguments.source.named()?;
    // One more tells whether there are more.
    let query = TraceQuery { errors_only: arguments.error_traces, limit: arguments.limit.saturating_add(1) };
    let mut traces = if named.runs.is_empty() && named.files.is_empty() && named.ids.is_empty() {
        let (runtime, collector) = arguments.source.connect()?;
        runtime.block_on(collector.list(&query)).map_err(|error| failed(&error))?
    } else {
        let mut traces: Vec<TraceSummary> = arguments.source.load()?.iter().map(summary).collect();
        traces.retain(|trace| !query.errors_only || trace.failed == Some(true));
        traces.sort_by(|one, other| other.timestamp.cmp(&one.timestamp));
        traces
    };
    let more = traces.len() > arguments.limit;
    traces.truncate(arguments.limit);
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

fn summary(trace: &TraceRecords) -> TraceSummary {
    let tree = TraceTree::build(&trace.records);
    TraceSummary {
        base_id: trace.base_id.clone(),
        timestamp: trace.records.iter().map(|record| record.timestamp.clone()).min().unwrap_or_default(),
        records: Some(trace.records.len() as u64),
        name: tree
            .points
            .first()
            .map(|point| format!("{} {}", point.name, point.detail()).trim_end().to_owned()),
        failed: Some(tree.points.iter().any(|point| point.error.is_some())),
    }
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
