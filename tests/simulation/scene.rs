//! What a seed stands for: the load, the service, the disk, and what happens when.

use std::fmt::Write;
use std::time::Duration;

use fastrand::Rng;

/// Everything that is drawn from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) seed: u64,
    pub(crate) workloads: Vec<SceneWorkload>,
    /// The workloads run at the same time.
    pub(crate) parallel: bool,
    /// Threads that make the load.
    pub(crate) workers: u32,
    /// How many processes share the load.
    pub(crate) shards: u32,
    pub(crate) connections: &'static str,
    pub(crate) graceful_stop_ms: u64,
    pub(crate) service: ServiceFaults,
    pub(crate) disk: DiskFaults,
    pub(crate) spans: SpanFaults,
    /// What happens to a process, and when after the start of its first load; its number among the shards.
    pub(crate) happenings: Vec<(u32, u64, SceneEvent)>,
}

#[derive(Clone, Debug)]
pub(crate) struct SceneWorkload {
    pub(crate) runner: SceneRunner,
    pub(crate) actions: u32,
    /// A pause between actions.
    pub(crate) think_ms: u64,
    pub(crate) request_timeout_ms: u64,
    /// Iterations of the warm-up.
    pub(crate) warm_up: u64,
    /// The most failed iterations that are good enough, in per cent.
    pub(crate) failed_max: u32,
    pub(crate) p95_ms_max: Option<u64>,
    /// The load ends once that is certainly exceeded.
    pub(crate) aborts: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum SceneRunner {
    Times { times: u64, users: u32 },
    Duration { ms: u64, users: u32 },
    Rate { rps: u64, times: u64, users: u32, queue: u32 },
    RateFor { rps: u64, ms: u64, users: u32, queue: u32 },
    Ramp { rps: u64, ms: u64 },
    Users { users: u32, ms: u64 },
}

/// How the service answers: of a thousand requests or connections, how many meet which fault.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceFaults {
    pub(crate) typical_ms: u64,
    pub(crate) slow_ms: u64,
    pub(crate) slow: u32,
    pub(crate) errors: u32,
    pub(crate) garbage: u32,
    pub(crate) cut_off: u32,
    pub(crate) resets: u32,
    pub(crate) silence: u32,
    pub(crate) closes: u32,
    pub(crate) refused: u32,
    /// The most pieces that an answer arrives in.
    pub(crate) pieces: u32,
    /// A connection takes this long.
    pub(crate) connect_ms: u64,
    /// The service stands still from here on for so long.
    pub(crate) stall: Option<(u64, u64)>,
}

/// How the disk of the run log behaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct DiskFaults {
    /// It is full after this many bytes.
    pub(crate) full_after: Option<u64>,
    /// How many writes it refuses before there is room again; 0 if there never is.
    pub(crate) full_for: u32,
    /// Writes take only a part of their bytes.
    pub(crate) short_writes: bool,
    /// The longest time that a write takes.
    pub(crate) slow_ms: u64,
    /// What becomes of a killed process's log: its last bytes are gone, or one is wrong; from its end, in per mille.
    pub(crate) torn: Option<(Torn, u32)>,
}

/// The spans of the service and their receiver: of a thousand spans or requests, how many meet what.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanFaults {
    /// The most spans below that of a request.
    pub(crate) inner: u32,
    pub(crate) lost: u32,
    pub(crate) doubled: u32,
    /// Requests with a trace beside them that belongs to them by a link.
    pub(crate) linked: u32,
    /// Requests with a trace of somebody else beside them.
    pub(crate) foreign: u32,
    /// The longest time until a span comes.
    pub(crate) late_ms: u64,
    /// The longest time until the end of an iteration is known.
    pub(crate) batch_ms: u64,
    /// How many spans come together.
    pub(crate) in_request: usize,
    /// The receiver's bounds are so tight that they are reached.
    pub(crate) is_tight: bool,
    /// The size of its disk in bytes; no limit if absent.
    pub(crate) room: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Torn {
    Cut,
    Wrong,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SceneEvent {
    Stop,
    CutOff,
    Kill,
}

/// A number up to `most`; small ones are as likely as large ones.
fn up_to(rng: &mut Rng, most: u64) -> u64 {
    let bits = rng.u32(1..=(64 - most.leading_zeros()).max(1));
    rng.u64(..1 << bits).min(most)
}

/// True in `percent` of all cases.
fn now_and_then(rng: &mut Rng, percent: u32) -> bool {
    rng.u32(0..100) < percent
}

impl Scene {
    pub(crate) fn of(seed: u64) -> Self {
        let rng = &mut Rng::with_seed(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x51ed);
        let several = now_and_then(rng, 20);
        let shards = if now_and_then(rng, 20) { rng.u32(2..=3) } else { 1 };
        let workloads = (0..1 + u32::from(several)).map(|_| SceneWorkload::draw(rng, shards)).collect();
        let mut scene = Self {
            seed,
            workloads,
            parallel: several && rng.bool(),
            workers: rng.u32(1..=4),
            shards,
            connections: *rng.choice(["user", "user", "iteration", "shared"].iter()).unwrap(),
            graceful_stop_ms: up_to(rng, 3_000),
            service: ServiceFaults::draw(rng),
            disk: DiskFaults::draw(rng),
            spans: SpanFaults::default(),
            happenings: Vec::new(),
        };
        for shard in 0..scene.shards {
            let mut at_ms = up_to(rng, 4_000);
            if now_and_then(rng, 15) {
                scene.happenings.push((shard, at_ms, SceneEvent::Stop));
                at_ms += up_to(rng, 500);
                if rng.bool() {
                    scene.happenings.push((shard, at_ms, SceneEvent::CutOff));
                }
            }
            if now_and_then(rng, 15) {
                scene.happenings.push((shard, at_ms + up_to(rng, 2_000), SceneEvent::Kill));
            }
        }
        scene.spans = SpanFaults::draw(rng);
        scene
    }

    /// The names of what is in it, to be counted over a series.
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        let is = |what: fn(&SceneEvent) -> bool| self.happenings.iter().any(|(_, _, one)| what(one));
        let all = [
            ("abort on fail", self.workloads.iter().any(|one| one.aborts && one.p95_ms_max.is_some())),
            ("shards", self.shards > 1),
            ("parallel", self.parallel),
            ("stopped", is(|one| *one == SceneEvent::Stop)),
            ("cut off", is(|one| *one == SceneEvent::CutOff)),
            ("killed", is(|one| *one == SceneEvent::Kill)),
            ("disk full", self.disk.full_after.is_some()),
            ("disk slow", self.disk.slow_ms > 0),
            ("short writes", self.disk.short_writes),
            ("log torn", self.disk.torn.is_some()),
            ("stall", self.service.stall.is_some()),
            ("spans late", self.spans.late_ms > 1_000),
            ("spans lost", self.spans.lost > 0),
            ("spans twice", self.spans.doubled > 0),
            ("spans by links", self.spans.linked > 0),
            ("receiver full", self.spans.is_tight || self.spans.room.is_some()),
            ("open", self.workloads.iter().any(|one| one.runner.is_open())),
        ];
        all.into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect()
    }

    pub(crate) fn scenario(&self) -> String {
        let workloads: String =
            self.workloads.iter().enumerate().map(|(index, one)| one.yaml(index)).collect();
        format!(
            "title: s\nparallel: {}\ngraceful_stop: {}ms\nhttp: {{ connections: {} }}\nworkloads:\n{workloads}",
            self.parallel, self.graceful_stop_ms, self.connections
        )
    }

    pub(crate) fn deployment() -> String {
        "targets: { default: 'http://10.0.0.1' }\nhttp: { version: '1.1' }\n".to_owned()
    }
}

impl SceneWorkload {
    fn draw(rng: &mut Rng, users_min: u32) -> Self {
        let runner = SceneRunner::draw(rng, users_min);
        // A ramp has none.
        let warms_up =
            now_and_then(rng, 20) && !matches!(runner, SceneRunner::Ramp { .. } | SceneRunner::Users { .. });
        let warm_up = if warms_up { up_to(rng, 20) } else { 0 };
        Self {
            runner,
            actions: rng.u32(1..=3),
            think_ms: if now_and_then(rng, 20) { up_to(rng, 50) } else { 0 },
            request_timeout_ms: 100 + up_to(rng, 1_000),
            warm_up,
            failed_max: rng.u32(0..=60),
            p95_ms_max: now_and_then(rng, 50).then(|| 1 + up_to(rng, 400)),
            // Shards must see each other for that.
            aborts: users_min == 1 && now_and_then(rng, 50),
        }
    }

    fn yaml(&self, index: usize) -> String {
        let mut steps = String::new();
        for action in 0..self.actions {
            if action > 0 && self.think_ms > 0 {
                writeln!(steps, "    - think: {}ms", self.think_ms).unwrap();
            }
            let timeout = self.request_timeout_ms;
            writeln!(
                steps,
                "    - {{ action: a{action}, get: '/{index}/{{{{ iteration }}}}/{action}', timeout: {timeout}ms, expect: {{ status: 200 }} }}"
            )
            .unwrap();
        }
        let warm_up = if self.warm_up > 0 {
            format!("    warm_up: {{ times: {} }}\n", self.warm_up)
        } else {
            String::new()
        };
        let p95 = self
            .p95_ms_max
            .map(|ms| {
                let aborts = if self.aborts { ", abort_on_fail: true, delay: 100ms" } else { "" };
                format!(", thresholds: [ {{ threshold: p95 < {ms}ms{aborts} }} ]")
            })
            .unwrap_or_default();
        format!(
            "  - name: w{index}\n    runner: {{ {} }}\n{warm_up}    iteration:\n{steps}    sla: {{ failure_rate: {{ max: {} }}{p95} }}\n",
            self.runner.yaml(),
            self.failed_max
        )
    }
}

impl SceneRunner {
    fn draw(rng: &mut Rng, users_min: u32) -> Self {
        let users = users_min + u32::try_from(up_to(rng, 30)).unwrap();
        let (times, ms, rps) =
            (u64::from(users_min) + up_to(rng, 250), 1 + up_to(rng, 2_500), 1 + up_to(rng, 250));
        let queue = u32::try_from(up_to(rng, 40)).unwrap();
        match rng.u32(0..6) {
            0 => Self::Times { times, users },
            1 => Self::Duration { ms, users },
            2 => Self::Rate { rps, times, users, queue },
            3 => Self::RateFor { rps, ms, users, queue },
            4 => Self::Ramp { rps, ms },
            _ => Self::Users { users, ms },
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Rate { .. } | Self::RateFor { .. } | Self::Ramp { .. })
    }

    fn yaml(&self) -> String {
        match self {
            Self::Times { times, users } => format!(
                "constant: {{ times: {times}, concurrency: {} }}",
                (*users).min(u32::try_from(*times).unwrap())
            ),
            Self::Duration { ms, users } => {
                format!("constant_for_duration: {{ duration: {}, concurrency: {users} }}", seconds(*ms))
            }
            Self::Rate { rps, times, users, queue } => {
                format!("rps: {{ rps: {rps}, times: {times}, max_concurrency: {users}, max_queue: {queue} }}")
            }
            Self::RateFor { rps, ms, users, queue } => {
                format!(
                    "rps: {{ rps: {rps}, duration: {}, max_concurrency: {users}, max_queue: {queue} }}",
                    seconds(*ms)
                )
            }
            Self::Ramp { rps, ms } => format!(
                "ramping: {{ stages: [ {{ duration: {}, rps: {rps} }} ], max_concurrency: 10 }}",
                seconds(*ms)
            ),
            Self::Users { users, ms } => {
                format!("ramping: {{ stages: [ {{ duration: {}, concurrency: {users} }} ] }}", seconds(*ms))
            }
        }
    }
}

fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1_000, ms % 1_000)
}

impl ServiceFaults {
    fn draw(rng: &mut Rng) -> Self {
        let typical_ms = up_to(rng, 60);
        let mut service = Self {
            typical_ms,
            slow_ms: typical_ms + up_to(rng, 600),
            slow: rng.u32(0..200),
            pieces: rng.u32(1..6),
            connect_ms: if now_and_then(rng, 30) { up_to(rng, 30) } else { 0 },
            stall: now_and_then(rng, 15).then(|| (up_to(rng, 1_000), up_to(rng, 1_500))),
            ..Self::default()
        };
        // Most faults are missing in most scenes, so that each is met alone, too.
        let Self { errors, garbage, cut_off, resets, silence, closes, refused, .. } = &mut service;
        for fault in [errors, garbage, cut_off, resets, silence, closes, refused] {
            if now_and_then(rng, 20) {
                *fault = u32::try_from(up_to(rng, 300)).unwrap();
            }
        }
        service
    }
}

impl DiskFaults {
    fn draw(rng: &mut Rng) -> Self {
        Self {
            full_after: now_and_then(rng, 12).then(|| up_to(rng, 20_000)),
            full_for: u32::try_from(up_to(rng, 6)).unwrap(),
            short_writes: now_and_then(rng, 20),
            slow_ms: if now_and_then(rng, 25) { up_to(rng, 2_000) } else { 0 },
            torn: now_and_then(rng, 50)
                .then(|| (if rng.bool() { Torn::Cut } else { Torn::Wrong }, rng.u32(0..1_000))),
        }
    }
}

impl SpanFaults {
    fn draw(rng: &mut Rng) -> Self {
        let mut share = |percent| if now_and_then(rng, percent) { up_to(rng, 300) as u32 } else { 0 };
        let (lost, doubled, linked, foreign) = (share(30), share(30), share(30), share(30));
        Self {
            inner: rng.u32(0..4),
            lost,
            doubled,
            linked,
            foreign,
            late_ms: up_to(rng, 4_000),
            batch_ms: up_to(rng, 1_500),
            in_request: rng.usize(1..40),
            is_tight: now_and_then(rng, 30),
            room: now_and_then(rng, 20).then(|| up_to(rng, 60_000)),
        }
    }
}

/// A duration in milliseconds.
pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}
