//! The embedded demo, a tiny identity service that reports its trace points to a collector.
//!
//! It is the target of a first run and of tests. It has real HTTP on 127.0.0.1, real signatures, and
//! real OSProfiler records in a SQLite file. The *work* is simulated: every `db` point is a timer of
//! 0.3 to 2 ms (which tokio rounds up to whole milliseconds), not a database, and `rpc` points are
//! calls within this process.
//!
//! It is slow for a known reason, so that you can check whether a report finds it. A share of the
//! look-ups `GET /v3/users/{id}` (2 % by default) misses the role cache; `get_roles` then reads the
//! table `assignment` without an index, which takes 80 ms. An option slows all of its work down
//! (`slowdown: 25%`), so that you can check whether a comparison finds that.
//!
//! Nothing here may be reachable from another machine or outlive its [`Demo`].

mod compact;
mod database;
mod flow;
mod identity;
mod recorder;
mod requests;
mod server;
mod service;
mod tokens;

#[cfg(test)]
mod tests;

use std::fmt;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc as std_mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use self::server::{Command, Setup};
use self::service::{Counters, DemoState};
use base::secret::Secret;
use osprofiler::driver::DriverError;
use osprofiler::record::TraceRecord;
use plan::deployment::EmbeddedDemoOptions as Options;
use text::files::create_private;

/// The collector's file in the demo's folder.
pub const COLLECTOR_FILE: &str = "demo-traces.db";
/// The longest wait of [`Demo::flush`].
pub const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);

/// The largest number of waiting calls to flush.
const COMMANDS_MAX: usize = 16;

/// A running demo. Dropping it stops it.
pub struct Demo {
    url: String,
    hmac_key: Secret,
    connection_string: Secret,
    options: Options,
    commands: mpsc::Sender<Command>,
    stop: CancellationToken,
    thread: Option<JoinHandle<Summary>>,
    file: PathBuf,
    /// The traces that stay, once they are chosen.
    kept: Mutex<Option<Vec<Vec<TraceRecord>>>>,
}

/// The counts of a demo's requests and records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Requests that were answered, even if the client did not wait for the answer.
    pub requests: u64,
    /// Requests with a valid signature.
    pub traced: u64,
    /// Requests with invalid trace headers. Their answers do not show it.
    pub rejected_signatures: u64,
    /// Records that the collector accepted.
    pub records_written: u64,
    /// Records lost.
    pub records_dropped: u64,
    /// The last failure to write, even if a later attempt succeeded.
    pub last_error: Option<String>,
}

/// An error of the demo. Messages complete "failed to …".
#[derive(Debug, Error)]
pub enum DemoError {
    /// The folder for the collector cannot be made or found.
    #[error("use {path} for the demo's traces; name a folder that can be written to")]
    Folder {
        /// The folder.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The folder's name is not valid in a connection string.
    #[error("use {path} for the demo's traces: its name is not UTF-8; name another folder")]
    FolderName {
        /// The folder.
        path: PathBuf,
    },
    /// The system refuses a resource that the demo needs.
    #[error("start the demo: the system refuses {what}; check its limits (`ulimit -a`)")]
    Start {
        /// The resource.
        what: &'static str,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The collector cannot be opened.
    #[error("open the demo's collector")]
    Collector(#[source] DriverError),
    /// The demo's thread ended too early.
    #[error("reach the demo: its thread has ended; start it again")]
    Ended,
    /// The collector is behind.
    #[error("store the demo's traces within {FLUSH_TIMEOUT:?}; try again, or lower the load")]
    FlushTimeout,
    /// The collector did not accept every record.
    #[error("store {dropped} of the demo's trace records ({reason}); check the disk, or lower the load")]
    Lost {
        /// The number of records lost since the last flush.
        dropped: u64,
        /// The last failure.
        reason: String,
    },
}

impl Demo {
    /// Starts the demo on a free port of 127.0.0.1, with a fresh HMAC key and its collector in
    /// `folder`, which is created if it does not exist. Blocks until the demo accepts requests.
    ///
    /// # Errors
    /// Fails if the folder cannot be used, or if the system has no port, thread or descriptor left.
    pub fn start(options: Options, folder: &Path) -> Result<Self, DemoError> {
        let (connection_string, file) = collector(folder)?;
        let refused = |what: &'static str| move |source| DemoError::Start { what, source };
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(refused("a port"))?;
        listener.set_nonblocking(true).map_err(refused("its listener"))?;
        let port = listener.local_addr().map_err(refused("its listener"))?.port();
        let url = format!("http://127.0.0.1:{port}");
        let hmac_key =
            Secret::new(Uuid::new_v4().simple().to_string() + &Uuid::new_v4().simple().to_string());
        let shared = DemoState {
            identity: identity::Identity::new(Uuid::new_v4().as_u64_pair().1, &options),
            base_url: url.clone(),
            counters: Counters::default(),
        };
        let (ready, started) = std_mpsc::sync_channel(1);
        let (commands, receiver) = mpsc::channel(COMMANDS_MAX);
        let stop = CancellationToken::new();
        let setup = Setup {
            listener,
            shared: Arc::new(shared),
            hmac_key: hmac_key.clone(),
            connection_string: connection_string.clone(),
            commands: receiver,
            stop: stop.clone(),
            ready,
        };
        let thread = std::thread::Builder::new()
            .name(thread_name(port))
            .spawn(move || server::run(setup))
            .map_err(refused("a thread"))?;
        let (thread, kept) = (Some(thread), Mutex::default());
        let demo = Self { url, hmac_key, connection_string, options, commands, stop, thread, file, kept };
        // On an error the demo is dropped, which joins the thread.
        started.recv().unwrap_or(Err(DemoError::Ended))?;
        Ok(demo)
    }

    /// Its URL, `http://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The key for verifying signatures.
    #[must_use]
    pub fn hmac_key(&self) -> &Secret {
        &self.hmac_key
    }

    /// The collector, for [`osprofiler::driver::Collector::connect`].
    #[must_use]
    pub fn connection_string(&self) -> Secret {
        self.connection_string.clone()
    }

    /// Blocks the thread until every point of the requests answered so far is stored, for at most
    /// [`FLUSH_TIMEOUT`]. Call it only while no load runs.
    ///
    /// # Errors
    /// Fails if the collector is behind or has lost records, or if the demo has ended.
    pub fn flush(&self) -> Result<(), DemoError> {
        let (answer, flushed) = std_mpsc::sync_channel(1);
        self.commands.try_send(Command::Flush(answer)).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => DemoError::FlushTimeout,
            mpsc::error::TrySendError::Closed(_) => DemoError::Ended,
        })?;
        let report = flushed.recv_timeout(FLUSH_TIMEOUT).map_err(|error| match error {
            std_mpsc::RecvTimeoutError::Timeout => DemoError::FlushTimeout,
            std_mpsc::RecvTimeoutError::Disconnected => DemoError::Ended,
        })?;
        if report.dropped == 0 {
            return Ok(());
        }
        let reason = report.last_error.unwrap_or_else(|| "the queue was full".to_owned());
        Err(DemoError::Lost { dropped: report.dropped, reason })
    }

    /// From its end on, its collector keeps only these traces, unless it is small.
    pub fn keep_only(&self, traces: Vec<Vec<TraceRecord>>) {
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(traces);
    }

    /// Ends open requests, stores waiting records, joins the thread and returns the counts. Blocks for
    /// at most about 10 s.
    pub fn stop(mut self) -> Summary {
        self.join()
    }

    /// A description of the demo, line by line, without secrets.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let Options { slow_share, slow_query, slowdown, pool } = self.options;
        let (url, users) = (&self.url, identity::USERS);
        let percent = slow_share * 100.0;
        let slowed =
            (slowdown > 0.0).then(|| format!("slowed down: all work takes {}% longer", slowdown * 100.0));
        let lines = [
            format!("a tiny identity service on {url}, instrumented like an OSProfiler service"),
            format!(
                "users: admin and user-1 to user-{users}, each with the password `{}`",
                identity::PASSWORD
            ),
            "  POST /v3/auth/tokens   log in as with Keystone v3: a token in X-Subject-Token".to_owned(),
            "  GET  /v3/users         all users (needs X-Auth-Token)".to_owned(),
            "  GET  /v3/users/{id}    one user, for instance /v3/users/user-1 (needs X-Auth-Token)"
                .to_owned(),
            "  GET  /                 the versions".to_owned(),
            format!(
                "why it is slow: {percent} % of the look-ups of one user miss the role cache, and `get_roles` \
                 then reads the table `assignment` without an index, in {slow_query:?}"
            ),
            "its queries are simulated: every `db` point is a timer of 0.3 to 2 ms, not a database"
                .to_owned(),
        ];
        let pool = pool.map(|pool| format!("its pool has {pool} connections: so many queries run at once"));
        lines.into_iter().chain(slowed).chain(pool).collect()
    }

    fn join(&mut self) -> Summary {
        self.stop.cancel();
        let Some(thread) = self.thread.take() else { return Summary::default() };
        let summary = thread.join().unwrap_or_else(|_| Summary {
            last_error: Some("the demo's thread panicked".to_owned()),
            ..Summary::default()
        });
        if let Some(traces) = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take() {
            compact::compact(&self.file, &traces);
        }
        summary
    }
}

impl Drop for Demo {
    /// As [`Demo::stop`], without the summary.
    fn drop(&mut self) {
        self.join();
    }
}

impl fmt::Debug for Demo {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Demo({})", self.url)
    }
}

/// The connection string, with an absolute path so that it works from any directory, and the file, which only its owner
/// can read.
fn collector(folder: &Path) -> Result<(Secret, PathBuf), DemoError> {
    let failed = |source| DemoError::Folder { path: folder.to_path_buf(), source };
    std::fs::create_dir_all(folder).map_err(failed)?;
    let file = std::path::absolute(folder.join(COLLECTOR_FILE)).map_err(failed)?;
    let Some(path) = file.to_str() else {
        return Err(DemoError::FolderName { path: folder.to_path_buf() });
    };
    let connection_string = Secret::new(format!("sqlite://{path}"));
    match create_private(&file) {
        // The file of an earlier demo; if it is anything else, opening it tells.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        created => drop(created.map_err(failed)?),
    }
    Ok((connection_string, file))
}

/// Short enough for the 15 bytes that Linux shows.
fn thread_name(port: u16) -> String {
    format!("demo-{port}")
}
