//! A service traced in every way that this library knows; see its library.
//!
//! `cargo run --example traced-service -- --connection-string redis://127.0.0.1:6379 --hmac-keys K`
//! prints its port, serves until its standard input ends, and then says what became of its records.
//! Without a connection string, points go to standard error as they are made.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it is a program that prints")]

use std::io::Read as _;
use std::sync::Arc;

use anyhow::Context as _;
use osprofiler::base::secret::Secret;
use osprofiler::driver::Collector;
use osprofiler::instrument::{InstrumentLayer, TracedSpanFilter};
use osprofiler::notifier::{Notifier, QUEUE_LEN, QueueNotifier};
use osprofiler::record::TraceRecord;
use osprofiler::verifying::ServerKeys;
use tracing_subscriber::layer::SubscriberExt as _;

use traced_service::ComputeService;

const USAGE: &str = "usage: traced-service --hmac-keys KEY[,KEY] [--connection-string URL] [--functions]";

fn main() -> anyhow::Result<()> {
    let (mut keys, mut connection, mut functions) = (None, None, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        match option.as_str() {
            "--hmac-keys" => keys = arguments.next(),
            "--connection-string" => connection = arguments.next(),
            "--functions" => functions = true,
            _ => anyhow::bail!(USAGE),
        }
    }
    let keys = ServerKeys::parse(&keys.context(USAGE)?);
    // Before there are other threads.
    let sampler = if functions { Some(sampler()?) } else { None };
    // The one thing that instrumented code needs.
    let subscriber = tracing_subscriber::registry().with(InstrumentLayer::new()).with(TracedSpanFilter);
    tracing::subscriber::set_global_default(subscriber)?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let queue = match connection {
            None => None,
            Some(url) => {
                let collector = Collector::connect(&Secret::new(url)).await?;
                Some(Arc::new(QueueNotifier::start(collector, QUEUE_LEN)))
            }
        };
        let notifier: Arc<dyn Notifier> = match &queue {
            Some(queue) => Arc::clone(queue) as Arc<dyn Notifier>,
            None => Arc::new(|record: TraceRecord| eprintln!("{} {}", record.timestamp, record.name)),
        };
        let service = ComputeService::start(keys, notifier).await?;
        println!("{}", service.port());
        // Whoever started this holds the other end.
        tokio::task::spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
        service.stop().await;
        if let Some(queue) = queue {
            eprintln!("{:?}", queue.shutdown().await);
        }
        if let Some(sampler) = sampler {
            eprintln!("{sampler:?}");
        }
        Ok(())
    })
}

/// Samples the functions of every request of a client that holds a key.
#[cfg(feature = "functions")]
fn sampler() -> anyhow::Result<impl std::fmt::Debug> {
    Ok(osprofiler::functions::settings::Settings::new().signed().start()?)
}

#[cfg(not(feature = "functions"))]
fn sampler() -> anyhow::Result<()> {
    anyhow::bail!("--functions needs the feature `functions`")
}
