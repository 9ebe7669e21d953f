//! `bench init`.

use harness::HarnessError;
use harness::init::{InitOptions, init};

use super::exit::Exit;
use super::import::{OutputArguments, say};

/// Write a first scenario and its deployment, with comments that show what to add.
///
/// For a URL: one GET with a small load and thresholds. For a gRPC service: a call of each of its methods. For an OpenAPI document: its operations that change nothing.
/// Without either: a load of the demo that is built into bench. For `demo`: what `bench run demo` runs.
#[derive(Debug, clap::Args)]
pub(super) struct InitArguments {
    /// The URL of a service (`grpc://host:port` for one of gRPC), the file of an OpenAPI document (`-` for standard input),
    /// or `demo`.
    #[arg(value_name = "URL|OPENAPI|demo")]
    subject: Option<String>,
    #[command(flatten)]
    output: OutputArguments,
}

pub(super) fn run(arguments: &InitArguments) -> Result<Exit, HarnessError> {
    let InitArguments { subject, output } = arguments;
    let options =
        InitOptions { subject: subject.clone(), output: output.output.clone(), force: output.force };
    say(&init(&options)?);
    Ok(Exit::Ok)
}
