//! Exit codes: the contract with CI jobs.

use std::fmt;

/// How a command ended; documented in `--help` and the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Ran; every gate passed, or none was asked for.
    Ok = 0,
    /// The run itself failed.
    Failed = 1,
    /// A gate failed.
    Gate = 2,
    /// No valid verdict.
    Invalid = 3,
    /// The data allow no verdict, and `--strict` was given.
    Inconclusive = 4,
    /// Wrong usage.
    Usage = 64,
    /// A bad input file.
    Input = 65,
    /// Target or collector unreachable before the load.
    Unreachable = 69,
    /// Interrupted, after a graceful stop and a report of what ran.
    Interrupted = 105,
}

/// The table for `--help`.
pub const HELP: &str = "\
Exit codes:
  0    ran; every gate passed, or none was asked for
  1    the run itself failed (setup, disk, time limit)
  2    a gate failed
  3    no valid verdict: no samples, or bench itself was the limit
  4    inconclusive: too little data for a verdict, with --strict (0 without)
  64   wrong usage
  65   a bad input file; all its faults are listed
  69   target or collector unreachable before the load
  105  interrupted (SIGINT, SIGTERM, SIGHUP), after a graceful stop and a report of what ran

A reader of the output that has gone or stands still changes none of these: files are written before
anything is printed. What a command only prints, such as a schema or an export, waits for its reader.
A full disk behind standard output is an error (1).";

/// Why a command cannot go on: what to print, and the exit code.
#[derive(Debug)]
pub struct Stopped {
    /// The exit code.
    pub exit: Exit,
    /// What to print on standard error; empty when all is said.
    pub text: String,
}

impl Stopped {
    /// Stops with an exit code and a message.
    pub fn new(exit: Exit, text: impl fmt::Display) -> Self {
        Self { exit, text: text.to_string() }
    }

    /// What helps against a file that cannot be written.
    pub fn remedy(error: &std::io::Error) -> &'static str {
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        match error.kind() {
            StorageFull | QuotaExceeded => "make room",
            FileTooLarge => "raise the limit on the size of files (`ulimit -f`)",
            _ => "check the directory and the disk",
        }
    }

    /// For what the system does not let bench do: what that was.
    pub fn cannot<E: fmt::Display>(what: impl fmt::Display) -> impl FnOnce(E) -> Self {
        move |error| Self::new(Exit::Failed, format!("error: cannot {what}: {error}"))
    }
}
