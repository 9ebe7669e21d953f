//! A build that a command starts for a round: starts it, waits until it is ready, and ends it with all its processes.
//!
//! It runs in a separate process group, which is ended with the round. A shell beside it waits for this process: if
//! bench is killed, the shell ends the group, so that nothing stays behind.

use std::fs::File;
use std::io;
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::interrupt::Interrupt;
use base::secret::redacted_url;
use client::plain::PlainClient;
use client::url::Origin;
use text::marked::Mark;

/// How long a build may take until it answers.
const START_MAX: Duration = Duration::from_secs(120);
/// How long it may take to end before it is ended by force.
const END_MAX: Duration = Duration::from_secs(10);
/// How long it must go on once something answers: what cannot have its port ends soon.
const STEADY: Duration = Duration::from_millis(200);
const POLL_EVERY: Duration = Duration::from_millis(50);
const CONNECT_MAX: Duration = Duration::from_secs(2);
/// The largest part of its output to show if it does not start, in bytes.
const OUTPUT_SHOWN: usize = 2_000;
/// Waits until its input ends, which happens when bench ends, and then ends the group given as its argument.
const WATCHDOG: &str = "trap '' TERM INT HUP; read -r _; kill -s TERM -- -$0; sleep 5; kill -s KILL -- -$0";

/// How to find out that a build is ready.
pub(super) enum Ready {
    /// This URL answers, with anything but a server error.
    Url(String, PlainClient),
    /// A connection can be made.
    Port(Origin),
}

impl Ready {
    fn answers(&self, runtime: &tokio::runtime::Runtime) -> bool {
        match self {
            Self::Url(url, client) => {
                let answer = runtime.block_on(client.get(url));
                answer.is_ok_and(|answer| answer.status < 500)
            }
            #[cfg(unix)]
            Self::Port(origin) if origin.socket().is_some() => {
                std::os::unix::net::UnixStream::connect(&origin.host).is_ok()
            }
            Self::Port(origin) => {
                let addresses = (origin.host.as_str(), origin.port).to_socket_addrs();
                addresses.into_iter().flatten().any(|to| TcpStream::connect_timeout(&to, CONNECT_MAX).is_ok())
            }
        }
    }
}

impl std::fmt::Display for Ready {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Url(url, _) => formatter.write_str(&redacted_url(url)),
            Self::Port(origin) => formatter.write_str(&origin.shown()),
        }
    }
}

/// A running build.
pub(super) struct BuildProcess {
    child: Child,
    watchdog: Option<Child>,
    mark: Mark,
    log: PathBuf,
}

impl BuildProcess {
    /// Starts a command; what it prints goes to a file.
    #[cfg(unix)]
    pub(super) fn start(command: &str, log: &Path) -> io::Result<Self> {
        use std::os::unix::process::CommandExt as _;
        let output = File::options().create(true).append(true).open(log)?;
        let mut shell = Command::new("sh");
        let mark = Mark::on(&mut shell);
        let child = shell
            .args(["-c", command])
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()?;
        let mut service = Self { child, watchdog: None, mark, log: log.to_path_buf() };
        let group = service.child.id().to_string();
        // In a separate group: a Ctrl-C at the terminal must not end it early.
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, &group])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        service.watchdog = Some(watchdog);
        Ok(service)
    }

    /// Not on this system.
    #[cfg(not(unix))]
    pub(super) fn start(_: &str, _: &Path) -> io::Result<Self> {
        Err(io::Error::other("--base-cmd and --new-cmd need a system with process groups"))
    }

    /// Waits until it is ready, or returns why it is not.
    pub(super) fn wait(
        &mut self,
        ready: &Ready,
        runtime: &tokio::runtime::Runtime,
        interrupt: &Interrupt,
    ) -> Result<(), String> {
        let started = Instant::now();
        while !ready.answers(runtime) {
            if interrupt.is_interrupted() {
                return Err("interrupted".to_owned());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("the command ended ({status}) before {ready} answered{}", self.output()));
            }
            if started.elapsed() > START_MAX {
                let waited = START_MAX.as_secs();
                return Err(format!(
                    "{ready} did not answer within {waited} s of the command's start{}",
                    self.output()
                ));
            }
            std::thread::sleep(POLL_EVERY);
        }
        std::thread::sleep(STEADY);
        self.ended().map_or(Ok(()), Err)
    }

    /// Why what answers may not be this build: its command, which stays in the foreground, has ended.
    pub(super) fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(format!(
            "the command ended ({status}), so that what answers may be something else{}",
            self.output()
        ))
    }

    /// The end of its output.
    fn output(&self) -> String {
        let bytes = std::fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(OUTPUT_SHOWN)..]).into_owned();
        let lines: Vec<String> =
            text.lines().map(|line| format!("\n  {}", base::visible::on_one_line(line))).collect();
        if lines.is_empty() { String::new() } else { format!("; it printed:{}", lines.concat()) }
    }

    fn end(&mut self) {
        self.signal(false);
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && asked.elapsed() < END_MAX {
            std::thread::sleep(POLL_EVERY / 5);
        }
        // Includes its remaining child processes.
        self.signal(true);
        let _ = self.child.wait();
        self.mark.end_all();
        if let Some(mut watchdog) = self.watchdog.take() {
            let _ = watchdog.kill();
            let _ = watchdog.wait();
        }
    }

    /// Asks the group to end, or kills it.
    #[cfg(unix)]
    fn signal(&self, by_force: bool) {
        use rustix::process::{Pid, Signal, kill_process_group};
        let signal = if by_force { Signal::KILL } else { Signal::TERM };
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // It may have ended by itself.
            let _ = kill_process_group(group, signal);
        }
    }

    #[cfg(not(unix))]
    fn signal(&self, _: bool) {}
}

impl Drop for BuildProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// Whether something already answers before the command is started.
pub(super) fn is_taken(ready: &Ready, runtime: &tokio::runtime::Runtime) -> bool {
    // A process that was just ended may need a moment to release its port.
    let asked = Instant::now();
    while ready.answers(runtime) {
        if asked.elapsed() > END_MAX / 5 {
            return true;
        }
        std::thread::sleep(POLL_EVERY);
    }
    false
}
