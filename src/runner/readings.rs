//! Reads the system's clocks and the waiting times of threads.

use base::clock::Nanos;

/// A clock of the system in nanoseconds.
#[cfg(unix)]
pub(super) fn clock_ns(clock: rustix::time::ClockId) -> Nanos {
    let time = rustix::time::clock_gettime(clock);
    let (seconds, nanos) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(nanos.unwrap_or(0))
}

/// Time for which the calling thread could run and had no processor; 0 where the system does not say.
pub(super) fn run_queue_ns() -> Nanos {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Processor time of the calling thread; 0 where the system does not say.
#[cfg(unix)]
pub(super) fn thread_cpu_ns() -> Nanos {
    clock_ns(rustix::time::ClockId::ThreadCPUTime)
}

#[cfg(not(unix))]
pub(super) fn thread_cpu_ns() -> Nanos {
    0
}
