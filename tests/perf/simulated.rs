//! Samples as a load makes them, for the benchmarks that record, read and merge many of them.

use bench::base::ids::IdSpace;
use bench::measure::phases::Phases;
use bench::measure::sample::{ActionSample, IterationSample};
use serde_json::{Value, json};
use uuid::Uuid;

/// Arrivals a second.
pub(crate) const RATE: u64 = 20_000;

/// Numbers from a seed (SplitMix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let value = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Log-normal around `middle_ns`, one in a hundred several times as long.
    fn time_ns(&mut self, middle_ns: f64) -> u64 {
        let normal = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
        let tail = if self.unit() < 0.01 { 3.0 + 10.0 * self.unit() } else { 1.0 };
        (middle_ns * (0.35 * normal).exp() * tail) as u64
    }
}

/// An iteration of one action of about a millisecond, as a closed (late by nothing) or an open load
/// (late by some microseconds) has it.
pub(crate) fn sample(random: &mut Random, open: bool) -> IterationSample {
    let opened = random.unit() < 0.001;
    let mut phases = Phases {
        opened,
        send_ns: random.time_ns(6_000.0),
        wait_ns: random.time_ns(900_000.0),
        receive_ns: random.time_ns(3_000.0),
        ..Phases::default()
    };
    if opened {
        phases.connect_ns = random.time_ns(80_000.0);
    }
    let parts = phases.send_ns + phases.wait_ns + phases.receive_ns + phases.connect_ns;
    let (offset_ns, duration_ns) = (random.time_ns(2_000.0), parts + random.time_ns(700.0));
    let action = ActionSample {
        offset_ns,
        duration_ns,
        phases,
        outcome: Some(200),
        body_bytes: 612,
        ..ActionSample::default()
    };
    IterationSample {
        due_ns: 0,
        start_ns: if open { random.time_ns(30_000.0) } else { 60 },
        duration_ns: offset_ns + duration_ns + random.time_ns(1_500.0),
        actions: vec![action],
        ..IterationSample::default()
    }
}

/// What a log of such samples says of its run.
pub(crate) fn header(workers: u32) -> Value {
    json!({
        "run_id": Uuid::new_v4(), "id_seed": IdSpace::random().seed(), "started_unix_ns": 0,
        "scenario": {"title": "recording", "file": "", "sha256": "", "set": {}},
        "deployment": {"name": "none", "file": "", "targets": {}, "tls_verified": true, "auth": "none"},
        "profiling_off": null, "collector": null,
        "environment": {"bench_version": "", "os": "", "cpus": 2, "workers": workers},
        "notes": [],
        "workloads": [{
            "name": "w", "runner": {},
            "sla": {"failure_rate_min": null, "failure_rate_max": null, "max_seconds_per_iteration": null, "max_avg_duration": null},
            "actions": [["get", "GET /"]],
        }],
    })
}

/// The most memory that this process ever had; 0 where the system does not say.
pub(crate) fn peak_rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).and_then(|kib| kib.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0 * 1.048_576
}
