//! The demo's thread: accepts and serves connections, and flushes and stops on command.
//!
//! Everything that runs here is a task that is joined before the thread ends. The number of connections
//! is bounded; further ones wait in the kernel's queue. A client's fault ends only its connection.

use std::net::TcpListener as StdListener;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc as std_mpsc};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tower_layer::Layer as _;

use super::recorder::Recorder;
use super::service::{DemoState, Handler};
use super::{DemoError, Summary};
use base::secret::Secret;
use osprofiler::driver::Collector;
use osprofiler::notifier::{Notifier, NotifierReport};
use osprofiler::record::ServiceIdentity;
use osprofiler::verifying::ServerKeys;
use osprofiler::web::{ProfilerLayer, ProfilerService};

/// The largest number of connections served at the same time.
pub(super) const CONNECTIONS_MAX: usize = 4_096;
/// The time that open requests have after the call to stop.
const GRACE: Duration = Duration::from_secs(2);
/// The wait when the system has no descriptor for another connection.
const ACCEPT_RETRY: Duration = Duration::from_millis(10);

type ProfiledHandler = TowerToHyperService<ProfilerService<Handler>>;

/// A command from the demo's owner.
pub(super) enum Command {
    /// Store all records so far, then answer.
    Flush(std_mpsc::SyncSender<NotifierReport>),
}

/// The thread's input.
pub(super) struct Setup {
    pub(super) listener: StdListener,
    pub(super) shared: Arc<DemoState>,
    pub(super) hmac_key: Secret,
    pub(super) connection_string: Secret,
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) stop: CancellationToken,
    pub(super) ready: std_mpsc::SyncSender<Result<(), DemoError>>,
}

/// The thread's work, from the bound listener to the summary.
pub(super) fn run(setup: Setup) -> Summary {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(serve(setup)),
        Err(source) => {
            tell(&setup.ready, Err(DemoError::Start { what: "its runtime", source }));
            Summary::default()
        }
    }
}

async fn serve(setup: Setup) -> Summary {
    let Setup { listener, shared, hmac_key, connection_string, commands, stop, ready } = setup;
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(source) => {
            tell(&ready, Err(DemoError::Start { what: "its listener", source }));
            return Summary::default();
        }
    };
    let recorder = match Collector::connect(&connection_string).await {
        Ok(collector) => Arc::new(Recorder::start(collector)),
        Err(error) => {
            tell(&ready, Err(DemoError::Collector(error)));
            return Summary::default();
        }
    };
    let keys = ServerKeys::parse(hmac_key.expose());
    let identity = ServiceIdentity {
        project: "demo".to_owned(),
        service: "identity".to_owned(),
        host: "localhost".to_owned(),
    };
    let notifier = Arc::clone(&recorder) as Arc<dyn Notifier>;
    let layer = ProfilerLayer::new(keys, Arc::new(identity), notifier);
    let service = TowerToHyperService::new(layer.layer(Handler(Arc::clone(&shared))));
    tell(&ready, Ok(()));
    accept(&listener, &service, &recorder, commands, &stop).await;
    summary(&shared, recorder.shutdown().await)
}

/// Returns after the stop, when every task has ended.
async fn accept(
    listener: &TcpListener,
    service: &ProfiledHandler,
    recorder: &Arc<Recorder>,
    mut commands: mpsc::Receiver<Command>,
    stop: &CancellationToken,
) {
    let mut connections = JoinSet::new();
    let mut flushes = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(command) = commands.recv() => {
                let Command::Flush(answer) = command;
                let recorder = Arc::clone(recorder);
                flushes.spawn(async move {
                    let report = recorder.flush().await;
                    // The caller may have stopped waiting.
                    let _ = answer.try_send(report);
                });
            }
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            Some(_) = flushes.join_next(), if !flushes.is_empty() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(connection(stream, service.clone(), stop.clone()));
                }
                Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
            },
        }
    }
    let ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(GRACE, ended).await.is_err() {
        connections.shutdown().await;
    }
    while flushes.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, service: ProfiledHandler, stop: CancellationToken) {
    // Without this, answers may wait for the client's acknowledgement. An error costs no more than that.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // The client notices an error itself.
        _ = connection.as_mut() => return,
        () = stop.cancelled() => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}

fn summary(shared: &DemoState, report: NotifierReport) -> Summary {
    let counters = &shared.counters;
    Summary {
        requests: counters.requests.load(Ordering::Relaxed),
        traced: counters.traced.load(Ordering::Relaxed),
        rejected_signatures: counters.rejected.load(Ordering::Relaxed),
        records_written: report.written,
        records_dropped: report.dropped,
        last_error: report.last_error,
    }
}

/// Its receiver waits for exactly one message, so there is room for it.
fn tell(ready: &std_mpsc::SyncSender<Result<(), DemoError>>, result: Result<(), DemoError>) {
    let _ = ready.try_send(result);
}
