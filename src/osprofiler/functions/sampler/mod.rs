//! Looks at the stacks of busy threads at a rate, between [`Sampler::start`] and [`Sampler::stop`].
//!
//! There are two ways, by the rate: a timer with a signal, and the kernel's perf events. Neither knows of operations.

#[cfg(feature = "functions-perf")]
mod perf;
mod timer;

use std::hint::black_box;
use std::time::{Duration, Instant};

use thiserror::Error;

#[cfg(feature = "functions-perf")]
use self::perf::Perf;
use self::timer::Timer;

/// More is not possible with a timer: it follows the kernel's tick.
pub const HZ_MAX: u32 = 200;
/// More is not taken with the feature `functions-perf`.
pub const PERF_HZ_MAX: u32 = 1_000;
/// A stack of this many frames may go on beyond what was kept of it: pprof keeps 128, the kernel 127.
const CUT_FROM: usize = 127;

/// Why functions cannot be sampled.
#[derive(Debug, Error)]
pub enum SamplerError {
    /// Another part of the process uses SIGPROF.
    #[error(
        "start sampling functions: another part of this process handles SIGPROF; switch that profiler off"
    )]
    HandlerTaken,
    /// A sampler runs already.
    #[error("start sampling functions: a sampler runs already; stop it first")]
    Running,
    /// The signal does not arrive.
    #[error(
        "start sampling functions: SIGPROF is blocked in this thread; unblock it before the process starts threads"
    )]
    Blocked,
    /// The timer does not run.
    #[error(
        "start sampling functions: the process's profiling timer does not run; allow setitimer(ITIMER_PROF), \
         which a seccomp profile may forbid"
    )]
    TimerForbidden,
    /// Stacks cannot be read.
    #[error(
        "start sampling functions: this program's stacks cannot be read; build it with unwind tables \
         (`-C force-unwind-tables=yes`) for x86-64 or AArch64"
    )]
    NoStacks,
    /// Another failure, such as no place for a temporary file.
    #[error("start sampling functions: {0}; the sampler needs memory, and a temporary directory to write to")]
    Failed(String),
    /// This many samples a second need another sampler.
    #[error(
        "start sampling functions: more than {HZ_MAX} samples a second need the feature `functions-perf` of the crate \
         `osprofiler`, and more than {PERF_HZ_MAX} are not taken"
    )]
    TooFast,
    /// The kernel does not let this process sample itself.
    #[error(
        "start sampling functions {PERF_HZ_MAX} times a second: the kernel refuses perf events; set \
         kernel.perf_event_paranoid to 2 or less, allow perf_event_open in the container's seccomp profile, or sample \
         {HZ_MAX} times"
    )]
    PerfForbidden,
    /// Stacks end too early.
    #[error(
        "start sampling functions more than {HZ_MAX} times a second: this program has no frame pointers; build all of it \
         with `-C force-frame-pointers=yes`, or sample {HZ_MAX} times"
    )]
    NoFramePointers,
}

/// Stacks that were seen, as return addresses from the innermost, and how often.
pub(super) type RawStacks = Vec<(Vec<usize>, u64)>;

/// A sampler that works here.
pub(super) struct Sampler {
    hz: u32,
    way: SamplingMethod,
}

enum SamplingMethod {
    Timer(Timer),
    #[cfg(feature = "functions-perf")]
    Perf(Perf),
}

impl Sampler {
    /// A sampler of this rate that was tried out. That takes some milliseconds of processor time.
    pub(super) fn try_out(hz: u32) -> Result<Self, SamplerError> {
        let hz = hz.max(1);
        let way = match hz {
            ..=HZ_MAX => SamplingMethod::Timer(Timer::try_out(hz)?),
            #[cfg(feature = "functions-perf")]
            ..=PERF_HZ_MAX => SamplingMethod::Perf(Perf::try_out(hz)?),
            _ => return Err(SamplerError::TooFast),
        };
        Ok(Self { hz, way })
    }

    pub(super) fn hz(&self) -> u32 {
        self.hz
    }

    /// Begins to look.
    pub(super) fn start(&mut self) -> Result<(), SamplerError> {
        match &mut self.way {
            SamplingMethod::Timer(timer) => timer.start(),
            #[cfg(feature = "functions-perf")]
            SamplingMethod::Perf(perf) => {
                perf.start();
                Ok(())
            }
        }
    }

    /// Takes what was seen since the last reading, or since the start. It may stop then.
    pub(super) fn read(&mut self) -> RawStacks {
        match &mut self.way {
            SamplingMethod::Timer(timer) => timer.read(),
            #[cfg(feature = "functions-perf")]
            SamplingMethod::Perf(perf) => perf.read(),
        }
    }

    /// Stops.
    pub(super) fn stop(&mut self) {
        match &mut self.way {
            SamplingMethod::Timer(timer) => timer.stop(),
            // Each reading stops it.
            #[cfg(feature = "functions-perf")]
            SamplingMethod::Perf(_) => {}
        }
    }
}

/// Whether a stack may go on beyond what was kept of it.
pub(super) fn is_cut(frames: &[usize]) -> bool {
    frames.len() >= CUT_FROM
}

/// Takes some processor time without allocating.
fn burn() {
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(2) {
        black_box(began);
    }
}
