//! The sampler that works everywhere: pprof with a timer of the process and the signal SIGPROF.
//!
//! Without `unsafe`, three things are checked rather than done here: that no other code handles the signal, that it
//! arrives, and that the timer runs.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};
use pprof::{ProfilerGuard, ProfilerGuardBuilder};

use super::{RawStacks, SamplerError, burn};
use crate::functions::numbers::DigitAddresses;

/// How long to wait for the timer's first signal. A process that shares its processor gets little of it.
const FIRST_SIGNAL_TIMEOUT: Duration = Duration::from_secs(3);

/// With more stacks than these, the timer is started anew: each reading goes over all of them.
const STACKS_MAX: usize = 1_000;

/// The sampler of this process.
pub(super) struct Timer {
    hz: u32,
    running: Option<ProfilerGuard<'static>>,
    /// How often each stack was seen since the timer was started, as of the last reading.
    seen: HashMap<Vec<usize>, u64>,
}

impl Timer {
    /// A sampler that works: it was tried out. That takes some milliseconds of processor time.
    pub(super) fn try_out(hz: u32) -> Result<Self, SamplerError> {
        if !DigitAddresses::get().are_complete() {
            return Err(SamplerError::NoStacks);
        }
        let mut sampler = Self { hz, running: None, seen: HashMap::new() };
        // At a rate at which the timer gives no signal yet: the first one builds the unwinder, which allocates. It must
        // not come to a thread that is allocating itself, so it is raised here.
        let quiet = Self { hz: 1, running: None, seen: HashMap::new() };
        sampler.running = quiet.started()?;
        raise(Signal::SIGPROF).map_err(|error| SamplerError::Failed(error.to_string()))?;
        if sampler.count() == 0 {
            return Err(SamplerError::Blocked);
        }
        sampler.running = None;
        sampler.start()?;
        let began = Instant::now();
        while sampler.count() == 0 {
            if began.elapsed() > FIRST_SIGNAL_TIMEOUT {
                return Err(SamplerError::TimerForbidden);
            }
            burn();
        }
        sampler.running = None;
        Ok(sampler)
    }

    /// Starts the timer.
    pub(super) fn start(&mut self) -> Result<(), SamplerError> {
        if self.running.is_none() {
            self.running = self.started()?;
        }
        Ok(())
    }

    /// Takes what was seen since the last reading, or since the start. The timer goes on, because pprof makes its table of
    /// tens of megabytes anew for each start.
    pub(super) fn read(&mut self) -> RawStacks {
        let mut stacks = Vec::new();
        for (frames, samples) in self.report() {
            let before = self.seen.insert(frames.clone(), samples).unwrap_or(0);
            if samples > before {
                stacks.push((frames, samples - before));
            }
        }
        if self.seen.len() > STACKS_MAX {
            self.stop();
        }
        stacks
    }

    /// Stops the timer; what was seen and not read is lost.
    pub(super) fn stop(&mut self) {
        self.running = None;
        self.seen.clear();
    }

    fn started(&self) -> Result<Option<ProfilerGuard<'static>>, SamplerError> {
        if is_handled() {
            return Err(SamplerError::HandlerTaken);
        }
        let hz = i32::try_from(self.hz).unwrap_or(1);
        let guard = ProfilerGuardBuilder::default().frequency(hz).build();
        guard.map(Some).map_err(|error| match error {
            pprof::Error::Running => SamplerError::Running,
            error => SamplerError::Failed(error.to_string()),
        })
    }

    fn report(&self) -> RawStacks {
        let Some(guard) = &self.running else { return Vec::new() };
        // It fails only if its temporary file cannot be read: then there are no stacks.
        let Ok(report) = guard.report().build_unresolved() else { return Vec::new() };
        let stacks = report.data.into_iter().map(|(stack, samples)| {
            let frames = stack.frames.iter().map(|frame| frame.ip).collect();
            (frames, u64::try_from(samples).unwrap_or(0))
        });
        stacks.collect()
    }

    fn count(&self) -> u64 {
        self.report().iter().map(|(_, samples)| samples).sum()
    }
}

/// Whether this process handles SIGPROF. Only Linux says.
fn is_handled() -> bool {
    let Ok(status) = fs::read_to_string("/proc/self/status") else { return false };
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    caught >> (Signal::SIGPROF as u32 - 1) & 1 == 1
}
