//! How the load generator performed: whether it was the bottleneck, and how close it came to its limits.
//!
//! These types are part of the run log and of results: a field keeps its key, and a new one has a default.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the load generator performed during the whole run.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Generator {
    /// Processor time of the whole process during the load, in seconds; includes the embedded demo.
    pub cpu_s: f64,
    /// The time from the start of the first workload to the end of the last, in seconds.
    pub load_s: f64,
    /// The largest number of open descriptors, sampled a few times a second; 0 if the system does not say.
    pub descriptors_max: u64,
    /// The limit of descriptors; absent if there is none.
    pub descriptors_limit: Option<u64>,
    /// How long the machine slept or the process was stopped, in seconds.
    pub suspended_s: f64,
    /// How far the wall clock jumped during the load, in seconds; no duration depends on it.
    pub wall_clock_jump_s: f64,
    /// Iterations that ended and were not recorded because the disk was too slow.
    pub unrecorded: u64,
    /// What the process held over time; absent if the system does not say, in runs that were merged from shards, and in
    /// results that were written before it was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSeries>,
    /// The quota of processor time that the process had, and how often it was used up; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// The processes of this machine that listen at the load's targets; empty if there are none, the system does not say, or
    /// the run was merged from shards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<LocalProcess>,
    /// One entry for each load-generating thread, in each workload or group of workloads that ran at
    /// the same time.
    pub workers: Vec<WorkerVitals>,
}

/// What the process held over time: each list has an entry for each interval, with the most that was seen in it. It
/// shows whether a load of hours stays as it is. The embedded demo, if there is one, is part of the process.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ProcessSeries {
    /// Offset of the first interval from the run's start, in seconds.
    pub start_s: f64,
    /// The length of an interval, in seconds.
    pub step_s: f64,
    /// Resident memory.
    pub memory_bytes: Vec<u64>,
    /// Open descriptors.
    pub descriptors: Vec<u64>,
    /// Threads.
    pub threads: Vec<u64>,
}

/// A process of this machine that listens at one of the load's targets, and what it used of the processors during the load.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LocalProcess {
    /// The TCP port.
    pub port: u16,
    /// The process's id.
    pub pid: u32,
    /// Its name, as the system shows it.
    pub name: String,
    /// How many threads it had at the end.
    pub threads: u64,
    /// For how long it was watched, in seconds: the load.
    pub seen_s: f64,
    /// Its processor time, in seconds; without that of other processes that it started.
    pub cpu_s: f64,
    /// That of the thread that computed most.
    pub thread_cpu_s: f64,
    /// For how long its threads could have run but had no processor, in seconds, added up.
    pub run_queue_s: f64,
}

/// How a process uses one processor whole.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FullProcessor {
    /// In one thread.
    OneThread,
    /// In several threads, of which one computes at a time: as with the global lock of Python's interpreter.
    Together,
}

impl LocalProcess {
    /// How it uses one processor whole, if it does.
    #[must_use]
    pub fn full(&self) -> Option<FullProcessor> {
        let is_one = |cpu_s: f64| self.seen_s >= FULL_SEEN_MIN_S && cpu_s >= FULL_SHARE * self.seen_s;
        match is_one(self.thread_cpu_s) {
            true => Some(FullProcessor::OneThread),
            false if is_one(self.cpu_s) && self.cpu_s <= TOGETHER_MAX * self.seen_s => {
                Some(FullProcessor::Together)
            }
            false => None,
        }
    }

    /// The processor time of its busiest thread, or of all of them together, as a share of the time.
    #[must_use]
    pub fn share(&self, of: FullProcessor) -> f64 {
        let cpu_s = match of {
            FullProcessor::OneThread => self.thread_cpu_s,
            FullProcessor::Together => self.cpu_s,
        };
        if self.seen_s > 0.0 { cpu_s / self.seen_s } else { 0.0 }
    }
}

/// A processor is full if a process computes for this share of the time.
const FULL_SHARE: f64 = 0.9;
/// Threads of which one computes at a time do a little at the same time: in system calls, for example.
const TOGETHER_MAX: f64 = 1.15;
/// Of a shorter load nothing is said.
const FULL_SEEN_MIN_S: f64 = 2.0;

/// A quota of processor time: `cpu.max` of a control group, a limit of a container.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Quota {
    /// How many processors the process may use; absent if it was throttled and the system does not say the quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// The periods of the quota during the load.
    pub periods: u64,
    /// The periods in which it was used up.
    pub throttled_periods: u64,
    /// How long the group was throttled, in seconds, added up over its processors.
    pub throttled_s: f64,
}

/// How one worker performed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkerVitals {
    /// The indexes of the workloads that ran.
    pub workloads: Vec<u16>,
    /// Its number, from 0.
    pub worker: u32,
    /// How long it ran, in seconds.
    pub load_s: f64,
    /// Its processor time, in seconds, without the busy waiting of `pacing: precise`.
    pub cpu_s: f64,
    /// Its largest share of a processor in any half second, 0 to 1.
    pub cpu_share_max: f64,
    /// How long it could have run but had no processor, in seconds; 0 if the system does not say.
    pub run_queue_s: f64,
    /// The longest delay of its event loop.
    pub loop_lag_max_ms: f64,
    /// Arrivals of an open model that it handled.
    pub arrivals: u64,
    /// Half of the arrivals were handled within this time after they were due, whether or not they could start.
    pub late_p50_ms: f64,
    /// 99 % of the arrivals were handled within this time after they were due.
    pub late_p99_ms: f64,
    /// The longest time between an arrival being due and being handled.
    pub late_max_ms: f64,
    /// How long it was saturated (had almost no idle time), in seconds.
    pub saturated_s: f64,
    /// How long it was starved (waited for a processor whenever it did not compute), in seconds.
    pub starved_s: f64,
    /// How long it was behind its schedule through its own fault, in seconds.
    pub behind_s: f64,
    /// How long it was kept from running, in seconds: the process was stopped or throttled, or the worker waited long for
    /// a processor. An estimate from the gaps of a heartbeat and from the quota; 0 in results of earlier builds.
    #[serde(default)]
    pub kept_s: f64,
    /// The longest such gap.
    #[serde(default)]
    pub kept_max_ms: f64,
    /// How long an event, such as the arrival of an answer, waited for the worker on average while it did not compute; 0 in
    /// results of earlier builds.
    #[serde(default)]
    pub delay_ms: f64,
}

/// The run of a worker that was kept from running for this time and this share of its load, or longer, is INVALID: the
/// load and the times that it measures are off by about as much.
pub const KEPT_S: f64 = 0.4;
/// See [`KEPT_S`].
pub const KEPT_SHARE: f64 = 0.1;
/// From this time and this share of a worker's load on, a note says that it was kept from running.
const NOTED_S: f64 = 0.1;
const NOTED_SHARE: f64 = 0.01;

impl Generator {
    /// For how long a worker was kept from running, in words.
    #[must_use]
    pub fn kept(&self, worker: &WorkerVitals) -> String {
        let share = worker.kept_s / worker.load_s * 100.0;
        let quota = match &self.quota {
            Some(quota) if quota.throttled_periods > 0 => format!(
                "; its quota{} was used up in {} of {} periods",
                quota.cpus.map_or_else(String::new, |cpus| format!(" of {} processors", rounded(cpus))),
                quota.throttled_periods,
                quota.periods.max(quota.throttled_periods)
            ),
            _ => String::new(),
        };
        format!(
            "bench was kept from running: worker {} for about {:.1} of {:.1} s ({share:.0} %), for up to {:.0} ms at a time{quota}",
            worker.worker, worker.kept_s, worker.load_s, worker.kept_max_ms
        )
    }

    /// What helps against it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match &self.quota {
            Some(quota) if quota.throttled_periods > 0 => {
                "raise the limit (cpu.max, a container's cpus) to at least one processor for each worker, or lower --workers"
            }
            _ => "let nothing stop it, and give it processors that others do not use",
        }
    }

    /// Notes for the results that do not make the run invalid.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.wall_clock_jump_s != 0.0 {
            notes.push(format!(
                "the wall clock jumped by {:+.1} s during the load; durations use another clock and are correct",
                self.wall_clock_jump_s
            ));
        }
        let noted =
            |worker: &&WorkerVitals| worker.kept_s >= NOTED_S && worker.kept_s >= NOTED_SHARE * worker.load_s;
        let share = |worker: &WorkerVitals| worker.kept_s / worker.load_s;
        let most = self.workers.iter().filter(noted).max_by(|a, b| share(a).total_cmp(&share(b)));
        // More than that is said as the reason why there is no verdict.
        let most = most.filter(|worker| worker.kept_s < KEPT_S || worker.kept_s < KEPT_SHARE * worker.load_s);
        notes.extend(most.map(|worker| format!("{}; {}", self.kept(worker), self.remedy())));
        notes
    }
}

/// A number with as many digits as it needs, three at most.
fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_processor_is_one_that_a_process_cannot_leave() {
        for (seen_s, thread_cpu_s, cpu_s, expected) in [
            (10.0, 9.5, 9.6, Some(FullProcessor::OneThread)),
            (10.0, 9.5, 19.6, Some(FullProcessor::OneThread)),
            (10.0, 2.0, 10.2, Some(FullProcessor::Together)),
            (10.0, 2.0, 8.9, None),
            // Threads that compute at the same time have room.
            (10.0, 6.0, 12.0, None),
            (1.0, 1.0, 1.0, None),
        ] {
            let one = LocalProcess { seen_s, thread_cpu_s, cpu_s, ..LocalProcess::default() };
            assert_eq!(one.full(), expected, "{thread_cpu_s} and {cpu_s} of {seen_s} s");
        }
    }

    #[test]
    fn a_note_says_what_does_not_make_a_run_invalid() {
        // The load and for how long it was kept, in seconds.
        for (load_s, kept_s, is_noted) in [
            (10.0, 0.0, false),
            (5.0, 0.09, false),
            (20.0, 0.15, false),
            (10.0, 0.1, true),
            (10.0, 0.9, true),
            (1.0, 0.3, true),
            (10.0, 1.0, false),
            (1.0, 0.4, false),
        ] {
            let worker = WorkerVitals { load_s, kept_s, ..WorkerVitals::default() };
            let seen = Generator { workers: vec![worker], ..Generator::default() };
            let notes = seen.notes();
            assert_eq!(!notes.is_empty(), is_noted, "{kept_s} of {load_s} s: {notes:?}");
        }
    }
}
