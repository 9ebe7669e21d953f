//! `bench trace show`: one trace as a tree, a page, JSON or a graph.

use std::mem::ManuallyDrop;
use std::path::PathBuf;

use crate::exit::Exit;
use crate::output::style;
use harness::HarnessError;
use harness::traces::fetched::TraceSelection;
use osprofiler::compat::{compat_report_as, write_as_python};
use report::document::terminal::{self, TerminalStyle};
use report::html;
use report::trace::{dot, fetched, json, text};
use results::functions::Functions;
use results::rpc::with_queues;

use super::sources::SourceArguments;
use super::{output, words};

/// Show a trace: as a tree in the terminal, a page, JSON or a graph.
///
/// Of a run's directory alone, it lists the traces, longest response time first, with the reason why each was fetched.
///
/// The tree has a bar for each point: full where the point itself took the time, light where a point below it
/// did. Points of one kind fold to one line, and so does what took less than 1 % of a large trace; --all unfolds.
/// The page is a single file that needs no network. The graph is for Graphviz:
/// `bench trace show ID --dot | dot -Tsvg > trace.svg`
#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("form")))]
pub(crate) struct ShowArguments {
    #[command(flatten)]
    source: SourceArguments,
    /// A tree in text (the default).
    #[arg(long, group = "form")]
    text: bool,
    /// Every point on a line of its own: alike ones and small parts are not folded.
    #[arg(long, conflicts_with_all = ["json", "html", "dot"])]
    all: bool,
    /// JSON: OSProfiler's tree in microseconds; points without a stop are marked.
    #[arg(long, group = "form")]
    json: bool,
    /// One HTML page with a waterfall, which needs no network.
    #[arg(long, group = "form")]
    html: bool,
    /// A graph in DOT.
    #[arg(long, group = "form")]
    dot: bool,
    /// With --json: exactly as `osprofiler trace show --json` prints it, in its milliseconds.
    #[arg(long, requires = "json")]
    compat: bool,
    /// The file to write (default: standard output).
    #[arg(short, long, alias = "out", value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(super) fn show(arguments: &ShowArguments) -> Result<Exit, HarnessError> {
    let is_text = !(arguments.json || arguments.html || arguments.dot);
    let (trace, explanation) = match arguments.source.source().one_or_several()? {
        // The process ends, and giving back the memory of each point takes time.
        TraceSelection::One(trace, explanation) => (ManuallyDrop::new(trace), explanation),
        TraceSelection::Several(traces) if is_text => {
            let document = fetched::document(&traces, &arguments.source.first());
            words(crate::output::file(arguments.output.as_ref()), |out| {
                writeln!(out, "{}", terminal::text(&document, style()))
            })?;
            return Ok(Exit::Ok);
        }
        TraceSelection::Several(_) => (ManuallyDrop::new(arguments.source.source().one()?), None),
    };
    let (base_id, path) = (trace.base_id.as_str(), crate::output::file(arguments.output.as_ref()));
    if arguments.compat {
        let report = compat_report_as(&trace.records, trace.style);
        output(path, |out| write_as_python(&report, out))?;
        return Ok(Exit::Ok);
    }
    let tree = trace.tree();
    let functions = Functions::of(&trace.records);
    // The JSON has what services reported, so that it is a source again.
    let tree = ManuallyDrop::new(if arguments.json { tree } else { with_queues(tree) });
    if is_text {
        let style = if path.is_some() { TerminalStyle::default() } else { style() };
        words(path, |out| {
            text::write(base_id, &tree, arguments.all, explanation.as_deref(), &functions, style, out)
        })?;
        return Ok(Exit::Ok);
    }
    output(path, |out| {
        if arguments.json {
            json::write(base_id, &tree, out)
        } else if arguments.html {
            html::trace::write(base_id, &tree, explanation.as_deref(), &functions, None, out)
        } else {
            dot::write(base_id, &tree, out)
        }
    })?;
    Ok(Exit::Ok)
}
