//! A receiver of OpenTelemetry's spans without a run: everything that arrives goes to a file.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use client::options::DnsOptions;
use client::plain::PlainClient;
use client::tls::{self, TlsOptions};
use collect::mask_record;
use receive::counts::ReceiverCounts;
use receive::file::{SpanFile, SpanFileSummary};
use receive::forward::ForwardTarget;
use receive::server::{Receiver, ReceiverOptions};

use super::error::{HarnessError, remedy_for};
use super::event::{Event, Sink};
use super::interrupt::Interrupt;
use super::{housekeeping, receiving};

const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Where to receive, and what to do with the spans.
#[derive(Clone, Debug)]
pub struct ReceiveOptions {
    /// The addresses, for OTLP over HTTP and gRPC each; port 0 takes a free one.
    pub addresses: Vec<SocketAddr>,
    /// The file to write, which must not exist.
    pub output: PathBuf,
    /// Its largest size in bytes; spans beyond it are dropped and counted.
    pub bytes_max: u64,
    /// The URL of another receiver that everything is passed on to.
    pub forward: Option<String>,
    /// How long to receive; until the interrupt if absent.
    pub time: Option<Duration>,
}

/// What a receiver did.
#[derive(Clone, Debug)]
pub struct ReceivedFile {
    /// What was received, refused and passed on.
    pub counts: ReceiverCounts,
    /// What the file has.
    pub written: SpanFileSummary,
}

impl ReceivedFile {
    /// What was not kept, or not passed on, in words; and what was passed on.
    #[must_use]
    pub fn remarks(&self) -> Vec<String> {
        let Self { counts, written } = self;
        [
            (
                written.dropped_spans,
                "spans dropped: the file is as large as it may be, or the disk is too slow",
            ),
            (counts.invalid_spans, "spans refused: without valid ids"),
            (counts.refused.total(), "requests refused"),
            (counts.other_signals, "requests with metrics or logs, which are not kept"),
            (counts.forward.spans, "spans passed on"),
            (
                counts.forward.dropped_spans,
                "spans not passed on: the other receiver refused them or did not answer",
            ),
        ]
        .into_iter()
        .filter(|(number, _)| *number > 0)
        .map(|(number, what)| format!("{number} {what}"))
        .collect()
    }
}

/// Receives until the time is over or `interrupt` says so.
///
/// # Errors
/// When the ports are taken or the file cannot be written.
pub fn receive(
    options: &ReceiveOptions,
    interrupt: &Interrupt,
    events: &Sink,
) -> Result<ReceivedFile, HarnessError> {
    let twice = |at: usize| options.addresses[..at].contains(&options.addresses[at]);
    if let Some(at) = (0..options.addresses.len()).find(|at| options.addresses[*at].port() != 0 && twice(*at))
    {
        return Err(HarnessError::usage(format!("{} is given twice", options.addresses[at]))
            .remedy("name each address once"));
    }
    let listeners = receiving::listen(&options.addresses)?;
    let forward = options.forward.as_deref().map(target).transpose()?;
    let runtime = housekeeping::runtime()?;
    let file = SpanFile::create(&options.output, options.bytes_max, mask_record);
    let file = Arc::new(file.map_err(|error| cannot_write(&options.output, &error))?);
    let taker = Arc::clone(&file);
    let receiver =
        Receiver::start(listeners, taker, ReceiverOptions { forward, ..ReceiverOptions::default() })
            .map_err(HarnessError::cannot("start the receiver of spans"))?;
    events.event(&Event::Receiving(receiver.addresses()));
    runtime.block_on(async {
        let over = async {
            match options.time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = interrupt.interrupted() => {}
            () = over => {}
            () = tell_of_the_first(&file, events) => {}
        }
    });
    let counts = receiver.stop();
    let written = file.finish();
    match &written.error {
        None => Ok(ReceivedFile { counts, written }),
        Some(error) => Err(HarnessError::failed(format!(
            "{}: writing stopped after {} spans, {} were dropped: {error}",
            options.output.display(),
            written.spans,
            written.dropped_spans
        ))),
    }
}

/// Never ends.
async fn tell_of_the_first(file: &SpanFile, events: &Sink) {
    while file.spans() == 0 {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    events.event(&Event::FirstSpans);
    std::future::pending().await
}

fn target(url: &str) -> Result<ForwardTarget, HarnessError> {
    let options = TlsOptions { verify: true, ca: None, identity: None };
    let tls = tls::config(&options, url.starts_with("https:")).map_err(HarnessError::input)?;
    let client = PlainClient::new(&tls, &DnsOptions::default()).map_err(HarnessError::unreachable)?;
    ForwardTarget::new(url, client).map_err(|why| HarnessError::usage(format!("--forward: {why}")))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> HarnessError {
    let shown = path.display();
    if error.kind() == std::io::ErrorKind::AlreadyExists {
        return HarnessError::usage(format!("{shown} exists already")).remedy("give -o another name");
    }
    HarnessError::failed(format!("{shown} cannot be written: {error}")).remedy(remedy_for(error))
}
