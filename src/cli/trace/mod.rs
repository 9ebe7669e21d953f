//! `bench trace`: traces as a tree, a page, a graph, a ranking or a profile; a traced request; signed trace headers.

mod diff;
mod headers;
mod list;
mod rank;
mod request;
mod show;
mod sources;
mod stats;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use uuid::Uuid;

use crate::exit::Exit;
use harness::{HarnessError, traces};
use text::files::write_output;

#[derive(Debug, Subcommand)]
pub(super) enum TraceCommand {
    List(list::ListArguments),
    Show(show::ShowArguments),
    Diff(diff::DiffArguments),
    Rank(rank::RankArguments),
    Request(Box<request::RequestArguments>),
    Stats(stats::StatsArguments),
    /// Print signed trace headers for a manual request.
    ///
    /// With curl: `eval curl $(bench trace headers -d FILE) http://host/path`. The trace's id is
    /// printed to standard error.
    Headers {
        /// The deployment with the key.
        #[arg(short, long, value_name = "FILE")]
        deployment: PathBuf,
        /// The trace's id (default: a new one).
        #[arg(long, value_name = "UUID")]
        base_id: Option<Uuid>,
        /// The id of the trace point above the request (default: the trace's id, its root).
        #[arg(long, value_name = "UUID")]
        parent_id: Option<Uuid>,
        /// How to print them.
        #[arg(long, value_enum, default_value_t = HeaderFormat::Curl)]
        format: HeaderFormat,
    },
    /// Check whether a deployment's services would accept trace headers, and why not.
    ///
    /// Reads a JSON object `{"X-Trace-Info": "…", "X-Trace-HMAC": "…"}` on standard input, as
    /// `bench trace headers --format json` prints it. Exits with 0 if the headers are accepted,
    /// with 1 if they are not.
    Verify {
        /// The deployment with the keys.
        #[arg(short, long, value_name = "FILE")]
        deployment: PathBuf,
    },
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum HeaderFormat {
    /// Arguments for curl.
    Curl,
    /// A JSON object.
    Json,
}

/// How points are grouped into rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Grouping {
    /// By the points' names, such as `db`.
    Name,
    /// By their names and what they did: a statement, a method and path, without literals and ids.
    Detail,
}

impl From<Grouping> for traces::Grouping {
    fn from(by: Grouping) -> Self {
        match by {
            Grouping::Name => Self::Name,
            Grouping::Detail => Self::Detail,
        }
    }
}

pub(super) fn trace(command: &TraceCommand) -> Result<Exit, HarnessError> {
    match command {
        TraceCommand::List(arguments) => list::list(arguments),
        TraceCommand::Show(arguments) => show::show(arguments),
        TraceCommand::Diff(arguments) => diff::diff(arguments),
        TraceCommand::Rank(arguments) => rank::rank(arguments),
        TraceCommand::Request(arguments) => request::request(arguments),
        TraceCommand::Stats(arguments) => stats::stats(arguments),
        TraceCommand::Headers { deployment, base_id, parent_id, format } => {
            headers::print_signed(deployment, *base_id, *parent_id, *format)
        }
        TraceCommand::Verify { deployment } => headers::verify(deployment),
    }
}

/// Writes text for people to a file, or to standard output without terminal control characters.
fn words(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), HarnessError> {
    if path.is_some() {
        return output(path, write);
    }
    let mut text = Vec::new();
    write(&mut text).map_err(HarnessError::cannot("write the text"))?;
    crate::output::show(&String::from_utf8_lossy(&text))
}

/// Writes to a file, whole or not at all, or to standard output.
fn output(
    path: Option<&Path>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), HarnessError> {
    let Some(path) = path else {
        let mut product = crate::output::product();
        let written = write(&mut product);
        return product.finish(written);
    };
    write_output(path, |out| write(out))
        .map_err(|error| HarnessError::failed(format!("cannot write {}: {error}", path.display())))
}
