//! The peer of figure 6: `perf-timer RATE SECONDS [spin]` waits for each due time in a bare loop over a timerfd, and
//! prints how late it woke, as JSON. It does nothing else, so what it shows is the kernel's and the host's part.

#![expect(clippy::print_stdout, reason = "its output is what it is for")]

#[cfg(target_os = "linux")]
mod timer {
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };

    /// The loop spins instead of sleeping for this long before the due time, as `pacing: precise` does.
    const SPIN: Duration = Duration::from_micros(50);

    /// By how much each wake-up was late, in nanoseconds.
    pub(super) fn deviations(rate: u32, seconds: u32, spins: bool) -> std::io::Result<Vec<u64>> {
        let timer =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let start = Instant::now() + Duration::from_millis(20);
        let mut late_ns = Vec::new();
        for number in 0..u64::from(rate) * u64::from(seconds) {
            let due = start + Duration::from_nanos(number * 1_000_000_000 / u64::from(rate));
            let until = if spins { due - SPIN } else { due };
            loop {
                let wait = until.saturating_duration_since(Instant::now());
                if wait.is_zero() {
                    break;
                }
                let value = Timespec { tv_sec: 0, tv_nsec: wait.as_nanos().min(999_999_999) as i64 };
                let setting = Itimerspec { it_interval: zero, it_value: value };
                timerfd_settime(&timer, TimerfdTimerFlags::empty(), &setting)?;
                poll(&mut [PollFd::new(&timer, PollFlags::IN)], None)?;
            }
            while Instant::now() < due {
                std::hint::spin_loop();
            }
            late_ns.push((Instant::now() - due).as_nanos() as u64);
        }
        late_ns.sort_unstable();
        Ok(late_ns)
    }
}

#[cfg(target_os = "linux")]
fn main() -> std::io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(1);
    let late_ns = timer::deviations(number(0), number(1), words.iter().any(|word| word == "spin"))?;
    let at = |percent: usize| late_ns[(late_ns.len() * percent / 100).min(late_ns.len() - 1)] as f64 / 1e3;
    println!("{{\"p50_us\": {}, \"p99_us\": {}}}", at(50), at(99));
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("{{\"p50_us\": null, \"p99_us\": null}}");
}
