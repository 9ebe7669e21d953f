//! Programs that were started from here, and everything that they started in turn.
//!
//! A process may leave its group and its session, as `setsid` does; what it inherits in its environment stays. So each
//! program gets a variable of its own, by which all that it left behind is found.

use std::process::Command;

/// The variable.
const NAME: &str = "BENCH_STARTED";

/// The mark of one program.
#[derive(Debug)]
pub struct Mark(String);

impl Mark {
    /// Marks a program that is about to start.
    pub fn on(command: &mut Command) -> Self {
        let value = format!("{:016x}{:016x}", fastrand::u64(..), fastrand::u64(..));
        command.env(NAME, &value);
        Self(value)
    }

    /// Ends what has the mark, wherever it is.
    #[cfg(target_os = "linux")]
    pub fn end_all(&self) {
        use rustix::process::{Pid, Signal, kill_process};
        // What is ended may be starting another one.
        const ROUNDS_MAX: usize = 10;
        let wanted = format!("{NAME}={}", self.0);
        for _ in 0..ROUNDS_MAX {
            let mut found = false;
            for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
                let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                    continue;
                };
                let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
                if environ.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes()) {
                    found |= Pid::from_raw(pid).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok());
                }
            }
            if !found {
                return;
            }
        }
    }

    /// Other systems do not show the environment of a process.
    #[cfg(not(target_os = "linux"))]
    pub fn end_all(&self) {}
}
