//! Runs a scene: each process's load in simulated time, then what a user does with what it left.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bench::client::simulated as network;
use bench::harness::merge::{MergeOptions, merge};
use bench::harness::options::{ReportOptions, RunOptions, ShardOptions, YamlFile};
use bench::harness::{Event, FinishedRun, HarnessError, Interrupt, Sink, event, run, stored};
use bench::measure::errors::NumberedFailure;
use bench::measure::log::{Ending, FILE_NAME, RunLog, Visitor, simulated as log};
use bench::measure::rows::Rows;
use bench::measure::sample::CompletionStatus;
use bench::plan::shard::Shard;
use bench::runner::simulated::{self as load, Script, SimulatedKill};
use bench::runner::stop::StopReason;
use fastrand::Rng;

use crate::disk::{Faulty, tear};
use crate::receiver::{SimulatedReceipt, receive};
use crate::scene::{Scene, SceneEvent, ms};
use crate::service::{Net, RequestTruthMap};

/// An iteration as a log has it; times in nanoseconds from the run's anchor.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Iteration {
    pub(crate) workload: u16,
    pub(crate) number: u64,
    pub(crate) warm_up: bool,
    pub(crate) due_ns: u64,
    pub(crate) start_ns: u64,
    pub(crate) duration_ns: u64,
    pub(crate) ended: u8,
    /// Its fault, if it has one.
    pub(crate) fault: Option<String>,
}

impl Iteration {
    pub(crate) fn is(&self, ended: CompletionStatus) -> bool {
        self.ended == ended as u8
    }

    pub(crate) fn end_ns(&self) -> u64 {
        self.start_ns + self.duration_ns
    }

    pub(crate) fn response_ns(&self) -> u64 {
        self.end_ns() - self.due_ns
    }
}

/// What a log holds.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunLogContent {
    pub(crate) iterations: Vec<Iteration>,
    pub(crate) ending: Ending,
}

/// A process that made a load, or a part of one.
pub(crate) struct LoadProcess {
    pub(crate) shard: u32,
    pub(crate) is_killed: bool,
    /// A write to its log was refused.
    pub(crate) is_refused: bool,
    /// What `bench run` said, or `bench report` if it was killed.
    pub(crate) finished: Result<FinishedRun, HarnessError>,
    /// What is in its log; empty without one.
    pub(crate) read: RunLogContent,
    /// What its receiver of spans has in the end.
    pub(crate) received: SimulatedReceipt,
}

/// What a scene left.
pub(crate) struct World {
    pub(crate) processes: Vec<LoadProcess>,
    /// What `bench merge` said, and the merged log.
    pub(crate) merged: Option<(Result<FinishedRun, HarnessError>, RunLogContent)>,
    pub(crate) seen: RequestTruthMap,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) fn run(scene: &Scene) -> Self {
        let (folder, seen) = (tempfile::tempdir().unwrap(), RequestTruthMap::default());
        let out = folder.path().join("runs");
        let processes: Vec<LoadProcess> =
            (0..scene.shards).map(|shard| process(scene, shard, &out, &seen)).collect();
        let merged = (scene.shards > 1).then(|| {
            let options = MergeOptions {
                directories: vec![out.clone()],
                out: folder.path().join("merged"),
                partial: processes.iter().any(|one| one.read.ending.end.is_none()),
                wait: Duration::ZERO,
                report: ReportOptions::default(),
            };
            let merged = merge(&options, &event::silent());
            let read =
                merged.as_ref().ok().and_then(|one| one.directory.as_deref()).map(read).unwrap_or_default();
            (merged, read)
        });
        Self { processes, merged, seen, _folder: folder }
    }

    /// All iterations, of all processes.
    pub(crate) fn recorded(&self) -> Vec<Vec<Iteration>> {
        self.processes.iter().map(|process| process.read.iterations.clone()).collect()
    }
}

fn options(scene: &Scene, shard: u32, out: &Path) -> RunOptions {
    let mut options = RunOptions::new(YamlFile::text("s.yaml", scene.scenario()));
    options.deployment = Some(YamlFile::text("d.yaml", Scene::deployment()));
    options.out = out.to_path_buf();
    options.load.workers = Some(scene.workers);
    options.load.seed = Some(scene.seed >> 12);
    let part = format!("{shard}/{}", scene.shards);
    options.shards = ShardOptions {
        shard: (scene.shards > 1).then(|| Shard::parse(&part).unwrap_or_else(|_| panic!("{part}"))),
        whole: scene.shards == 1,
        job: Some("simulated".to_owned()),
        ..ShardOptions::default()
    };
    options
}

fn process(scene: &Scene, shard: u32, out: &Path, seen: &RequestTruthMap) -> LoadProcess {
    let mut rng = Rng::with_seed(scene.seed ^ u64::from(shard) << 32);
    let refused = Arc::new(AtomicBool::new(false));
    let (net_rng, disk_rng) = (rng.fork(), rng.fork());
    let base = load::begin(script(scene, shard, rng)).unwrap();
    network::set(Some(Box::new(Net::new(&scene.service, net_rng, base, seen))));
    let (disk, refuses) = (scene.disk.clone(), Arc::clone(&refused));
    log::set(Some(Box::new(move |file| Box::new(Faulty::new(file, &disk, disk_rng, &refuses)))));
    let directory = Arc::new(Mutex::new(None::<PathBuf>));
    let found = Arc::clone(&directory);
    let events: Sink = Arc::new(move |event: &Event<'_>| {
        if let Event::Started { directory, .. } = event {
            *found.lock().unwrap() = Some(directory.to_path_buf());
        }
    });
    let ran = catch_unwind(AssertUnwindSafe(|| run(options(scene, shard, out), &Interrupt::new(), &events)));
    load::end();
    network::set(None);
    log::set(None);
    let directory = directory.lock().unwrap().clone();
    let is_killed = ran.is_err();
    let finished = ran.unwrap_or_else(|panic| after_kill(scene, directory.as_deref(), panic));
    let read = directory.as_deref().map(read).unwrap_or_default();
    let received = receive(scene, shard, &read.iterations, seen);
    LoadProcess { shard, is_killed, is_refused: refused.load(Ordering::Relaxed), finished, read, received }
}

fn script(scene: &Scene, shard: u32, mut rng: Rng) -> Script {
    let slow_ms = scene.disk.slow_ms;
    let happening = |what: &SceneEvent| match what {
        SceneEvent::Stop => load::SimulatedEvent::Stop(StopReason::Interrupted),
        SceneEvent::CutOff => load::SimulatedEvent::CutOff,
        SceneEvent::Kill => load::SimulatedEvent::Kill,
    };
    let own = scene.happenings.iter().filter(|(of, _, _)| *of == shard);
    let events: VecDeque<_> = own.map(|(_, at, what)| (ms(*at), happening(what))).collect();
    let held_up = move || ms(if slow_ms > 0 && rng.u32(0..10) == 0 { rng.u64(0..=slow_ms) } else { 5 });
    Script { held_up: Box::new(held_up), events }
}

/// What a machine leaves of the run that it ended with, and what `bench report` makes of that.
fn after_kill(
    scene: &Scene,
    directory: Option<&Path>,
    panic: Box<dyn Any + Send>,
) -> Result<FinishedRun, HarnessError> {
    if !panic.is::<SimulatedKill>() {
        resume_unwind(panic);
    }
    let directory = directory.unwrap();
    if let Some((torn, per_mille)) = scene.disk.torn {
        let path = directory.join(FILE_NAME);
        tear(&path, torn, per_mille, header_bytes(&std::fs::read(&path).unwrap()));
    }
    stored::report(directory, &ReportOptions::default(), &event::silent())
}

/// How much of a log was brought to the disk before the load: its beginning and its first frame.
fn header_bytes(log: &[u8]) -> usize {
    let length =
        |at: usize| log.get(at..at + 4).map(|four| u32::from_le_bytes(four.try_into().unwrap()) as usize);
    length(10).map_or(log.len(), |length| 10 + 9 + length)
}

#[derive(Default)]
struct Collect(Vec<Iteration>, BTreeMap<u32, String>);

impl Visitor for Collect {
    fn failures(&mut self, failures: &[NumberedFailure]) {
        self.1.extend(failures.iter().map(|one| {
            let failure = &one.failure;
            (one.number, format!("{}: {}", failure.class, failure.message))
        }));
    }

    fn rows(&mut self, rows: &Rows) -> std::io::Result<()> {
        self.0.extend(rows.iter().map(|row| Iteration {
            workload: row.head.workload,
            number: row.head.number,
            warm_up: row.head.warm_up,
            due_ns: row.head.due_ns,
            start_ns: row.head.start_ns,
            duration_ns: row.head.duration_ns,
            ended: row.head.ended as u8,
            fault: self.1.get(&row.head.error).cloned(),
        }));
        Ok(())
    }
}

fn read(directory: &Path) -> RunLogContent {
    let mut collect = Collect::default();
    let path = directory.join(FILE_NAME);
    let visited = RunLog::open(&path).and_then(|log| log.visit(&mut [&mut collect]));
    // Without a header nothing was begun.
    let ending = visited.unwrap_or_default();
    RunLogContent { iterations: collect.0, ending }
}

/// How many iterations there are of each workload.
pub(crate) fn by_workload(iterations: &[Iteration]) -> BTreeMap<u16, Vec<&Iteration>> {
    let mut all: BTreeMap<u16, Vec<&Iteration>> = BTreeMap::new();
    for one in iterations {
        all.entry(one.workload).or_default().push(one);
    }
    all
}
