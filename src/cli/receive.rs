//! `bench receive`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use base::units::parse_bytes;
use harness::receive::{ReceiveOptions, receive};
use harness::{HarnessError, Interrupt};

use super::exit::Exit;
use super::output;
use super::progress::ProgressDisplay;
use super::signals::interrupt_by_signals;
use super::url::{duration, receive_address};

/// Receive OpenTelemetry's spans without a load, and write them to a file that `bench trace` reads.
///
/// Listens at the standard ports for OTLP over gRPC (4317) and HTTP (4318); each port takes both. Ctrl-C ends it. The
/// file has a record of OSProfiler per line: `bench trace list FILE`, `bench trace show FILE ID`.
#[derive(Debug, clap::Args)]
pub(super) struct ReceiveArguments {
    /// Where to listen.
    #[arg(value_name = "ADDRESS", default_values = ["127.0.0.1:4318", "127.0.0.1:4317"], value_parser = receive_address)]
    addresses: Vec<SocketAddr>,
    /// The file to write, which must not exist.
    #[arg(short, long, alias = "out", value_name = "FILE", default_value = "spans.jsonl")]
    output: PathBuf,
    /// The largest size of the file; further spans are dropped and counted.
    #[arg(long, value_name = "SIZE", default_value = "1GB", value_parser = size)]
    max_size: u64,
    /// Pass everything on to the receiver that the services had before, such as http://127.0.0.1:14318.
    #[arg(long, value_name = "URL")]
    forward: Option<String>,
    /// End after this time, such as 30s.
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
}

fn size(text: &str) -> Result<u64, String> {
    parse_bytes(text).map_err(|complaint| complaint.to_string())
}

pub(super) fn run(arguments: &ReceiveArguments) -> Result<Exit, HarnessError> {
    let ReceiveArguments { addresses, output, max_size, forward, time } = arguments;
    let options = ReceiveOptions {
        addresses: addresses.clone(),
        output: output.clone(),
        bytes_max: *max_size,
        forward: forward.clone(),
        time: *time,
    };
    let interrupt = Interrupt::new();
    let listening = interrupt_by_signals(&interrupt, || output::last_words("ended at once"))?;
    let received = receive(&options, &interrupt, &ProgressDisplay::new(false).sink())?;
    drop(listening);
    let written = &received.written;
    output::print(&format!(
        "{} spans of {} traces in {} ({:.2} MB)",
        written.spans,
        written.traces,
        options.output.display(),
        written.bytes as f64 / 1e6
    ));
    received.remarks().iter().for_each(|remark| output::print(remark));
    Ok(Exit::Ok)
}
