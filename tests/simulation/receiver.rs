//! The receiver of a process: the spans of its service come late, twice, in any order, by links or never, while it learns
//! which iterations ended. What it keeps must be what came, and every span must be accounted for.
//!
//! Its disk is in memory, and may be full. The thread that writes there is a real one; what must hold does not depend on it.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, Mutex};

use bench::measure::ids::RunIds;
use bench::measure::rows::IterationHead;
use bench::measure::sample::CompletionStatus;
use bench::osprofiler::spans::{SpanLink, TraceSpan, protobuf};
use bench::receive::simulated::Direct;
use bench::receive::spool::sampling::SamplingQuota;
use bench::receive::spool::segments::Disk;
use bench::receive::spool::{KeptTrace, Spool, SpoolCounts, SpoolLimits};
use bench::receive::wire::request_of;
use bench::terms::control::ControlShare;
use fastrand::Rng;
use uuid::Uuid;

use crate::scene::{Scene, SpanFaults};
use crate::service::RequestTruthMap;
use crate::world::Iteration;

/// How many of the slowest iterations of a workload must be kept.
pub(crate) const SLOWEST: usize = 5;
const MS: u64 = 1_000_000;

/// An iteration: workload and number.
pub(crate) type Id = (u16, u64);

/// What a receiver got, and what it had in the end.
pub(crate) struct SimulatedReceipt {
    /// The spans that came for each iteration, in the order of their ids.
    pub(crate) sent: BTreeMap<Id, Vec<u64>>,
    /// Those that are there.
    pub(crate) stored: BTreeMap<Id, Vec<u64>>,
    /// What it says of the iterations that ended.
    pub(crate) kept: BTreeMap<Id, KeptTrace>,
    pub(crate) counts: SpoolCounts,
    /// Spans of its iterations, spans that came by links, and spans of others, as it counts them.
    pub(crate) counted: (u64, u64, u64),
    /// The same by those that sent them.
    pub(crate) expected: (u64, u64, u64),
    pub(crate) limits: SpoolLimits,
    /// The most bytes that were on its disk.
    pub(crate) disk_peak: u64,
}

/// What comes to a receiver.
enum ReceiverInput {
    Ended(IterationHead),
    Span(Box<TraceSpan>),
}

/// Bounds that no scene reaches, or that most reach; segments are so small that they are cleaned all the time.
fn limits(spans: &SpanFaults) -> SpoolLimits {
    let ample = SpoolLimits { segment_bytes: 4_000, ..SpoolLimits::default() };
    if spans.is_tight {
        let (waiting_bytes, queue_bytes, disk_bytes) = (8_000, 30_000, 40_000);
        return SpoolLimits {
            waiting_bytes,
            queue_bytes,
            disk_bytes,
            trace_spans: 9,
            trace_bytes: 1_500,
            ..ample
        };
    }
    ample
}

/// Lets the spans of a process's service come to a receiver.
pub(crate) fn receive(
    scene: &Scene,
    shard: u32,
    iterations: &[Iteration],
    seen: &RequestTruthMap,
) -> SimulatedReceipt {
    let mut rng = Rng::with_seed(scene.seed ^ 0x5ea5 ^ u64::from(shard) << 40);
    let ids =
        RunIds::new(Uuid::from_u128(u128::from(scene.seed) << 8 | u128::from(shard)), ControlShare::NONE);
    let (limits, disk) = (limits(&scene.spans), MemoryDisk::of(scene.spans.room));
    let wanted = SamplingQuota { traces: (4, 3), slowest: SLOWEST, in_a_row: (0, 0) };
    let workloads = scene.workloads.len().try_into().unwrap();
    let spool = Arc::new(Spool::start(ids, workloads, wanted, limits, Box::new(disk.clone())).unwrap());
    let receiver = Direct::new(spool.clone());
    let mut coming = ends(scene, iterations, &mut rng);
    let mut service = TracedService { ids, rng: rng.fork(), next: 1, spans: &scene.spans, sent: Vec::new() };
    let own = |number: u64| number % u64::from(scene.shards) == u64::from(shard);
    for ((workload, number, _), truths) in
        seen.lock().unwrap().iter().filter(|((_, number, _), _)| own(*number))
    {
        truths.iter().for_each(|truth| service.answers((*workload, *number), truth.arrived_ns));
    }
    let (sent, expected) = tally(&service.sent, ids);
    coming.extend(service.sent.into_iter().map(|(at, span)| (at, ReceiverInput::Span(Box::new(span)))));
    coming.sort_by_key(|(at, _)| *at);
    let heads = deliver(coming, &spool, &receiver, scene.spans.in_request, &mut rng);
    let kept =
        heads.iter().filter_map(|head| Some(((head.workload, head.number), spool.kept(head)?))).collect();
    let counts = receiver.counts();
    let (stored, counts_kept) = spool.finish().unwrap();
    let id_of = |trace: u128| ids.sample_of(trace).map(|id| (id.workload, id.number)).unwrap();
    let stored =
        stored.traces().map(|(trace, messages)| (id_of(trace), span_ids(&messages.unwrap()))).collect();
    SimulatedReceipt {
        sent,
        stored,
        kept,
        counts: counts_kept,
        counted: (counts.spans, counts.linked_spans, counts.foreign_spans),
        expected,
        limits,
        disk_peak: *disk.peak.lock().unwrap(),
    }
}

/// When the ends of iterations become known: with the batches of their workers, some time later.
fn ends(scene: &Scene, iterations: &[Iteration], rng: &mut Rng) -> Vec<(u64, ReceiverInput)> {
    let faults: HashMap<&str, u32> =
        iterations.iter().filter_map(|one| one.fault.as_deref()).zip(1..).collect();
    let head = |one: &Iteration| IterationHead {
        number: one.number,
        due_ns: one.due_ns,
        start_ns: one.start_ns,
        duration_ns: one.duration_ns,
        error: one.fault.as_deref().map_or(0, |fault| faults[fault]),
        workload: one.workload,
        ended: [
            CompletionStatus::Ok,
            CompletionStatus::Failed,
            CompletionStatus::Aborted,
            CompletionStatus::Dropped,
        ]
        .into_iter()
        .find(|ended| one.is(*ended))
        .unwrap(),
        warm_up: one.warm_up,
        ..IterationHead::default()
    };
    let delay = |rng: &mut Rng| rng.u64(0..=scene.spans.batch_ms) * MS;
    iterations.iter().map(|one| (one.end_ns() + delay(rng), ReceiverInput::Ended(head(one)))).collect()
}

/// Hands over what comes; says which iterations ended.
fn deliver(
    coming: Vec<(u64, ReceiverInput)>,
    spool: &Spool,
    receiver: &Direct,
    in_request: usize,
    rng: &mut Rng,
) -> Vec<IterationHead> {
    let (mut heads, mut request) = (Vec::new(), Vec::new());
    let send = |request: &mut Vec<TraceSpan>| {
        if !request.is_empty() {
            assert!(receiver.accept(protobuf::encode(request)), "a request with spans was refused");
            request.clear();
        }
    };
    for (_, what) in coming {
        match what {
            ReceiverInput::Ended(head) => {
                // An exporter does not wait for that.
                if rng.bool() {
                    send(&mut request);
                }
                spool.ended(&head);
                heads.push(head);
            }
            ReceiverInput::Span(span) => {
                request.push(*span);
                if request.len() >= in_request {
                    send(&mut request);
                }
            }
        }
    }
    send(&mut request);
    heads
}

/// A service that makes spans, and what becomes of them on their way.
struct TracedService<'a> {
    ids: RunIds,
    rng: Rng,
    next: u64,
    spans: &'a SpanFaults,
    sent: Vec<(u64, TraceSpan)>,
}

impl TracedService<'_> {
    /// A request of an iteration has arrived.
    fn answers(&mut self, id: Id, arrived_ns: u64) {
        let trace_id = self.ids.trace_id(id).as_u128();
        let server = self.span(trace_id, None);
        let parent = Some(server.span_id);
        for _ in 0..self.rng.u32(0..=self.spans.inner) {
            let inner = self.span(trace_id, parent);
            self.send(arrived_ns, inner);
        }
        if self.meets(self.spans.linked) {
            // A consumer of a message has a trace of its own, and one of its spans says what it is about.
            let other = self.rng.u128(1..);
            for about in [None, Some(SpanLink { trace_id, span_id: server.span_id }), None] {
                let mut span = self.span(other, None);
                span.links.extend(about);
                self.send(arrived_ns, span);
            }
        }
        self.send(arrived_ns, server);
        if self.meets(self.spans.foreign) {
            let other = self.rng.u128(1..);
            let span = self.span(other, None);
            self.send(arrived_ns, span);
        }
    }

    fn meets(&mut self, per_mille: u32) -> bool {
        self.rng.u32(0..1_000) < per_mille
    }

    fn span(&mut self, trace_id: u128, parent_id: Option<u64>) -> TraceSpan {
        self.next += 1;
        let name = "x".repeat(self.rng.usize(0..200));
        TraceSpan {
            trace_id,
            span_id: self.next,
            parent_id,
            name,
            start_ns: 1,
            end_ns: 2,
            ..TraceSpan::default()
        }
    }

    fn send(&mut self, arrived_ns: u64, span: TraceSpan) {
        if self.meets(self.spans.lost) {
            return;
        }
        let times = 1 + u32::from(self.meets(self.spans.doubled));
        for _ in 0..times {
            let at_ns = arrived_ns + self.rng.u64(0..=self.spans.late_ms) * MS;
            self.sent.push((at_ns, span.clone()));
        }
    }
}

/// The spans of each iteration, in order, and how many there are of iterations, by links, and of others.
fn tally(sent: &[(u64, TraceSpan)], ids: RunIds) -> (BTreeMap<Id, Vec<u64>>, (u64, u64, u64)) {
    let id_of = |trace: u128| ids.sample_of(trace).map(|id| (id.workload, id.number));
    let by_link: HashMap<u128, Id> = sent
        .iter()
        .flat_map(|(_, span)| span.links.iter().map(|link| (span.trace_id, id_of(link.trace_id).unwrap())))
        .collect();
    let (mut all, mut counts) = (BTreeMap::<Id, Vec<u64>>::new(), (0, 0, 0));
    for (_, span) in sent {
        let (count, id) = match (id_of(span.trace_id), by_link.get(&span.trace_id)) {
            (Some(id), _) => (&mut counts.0, Some(id)),
            (None, Some(id)) => (&mut counts.1, Some(*id)),
            (None, None) => (&mut counts.2, None),
        };
        *count += 1;
        if let Some(id) = id {
            all.entry(id).or_default().push(span.span_id);
        }
    }
    all.values_mut().for_each(|spans| spans.sort_unstable());
    (all, counts)
}

fn span_ids(messages: &[Vec<u8>]) -> Vec<u64> {
    let spans = protobuf::decode(&request_of(messages)).unwrap();
    let mut ids: Vec<u64> = spans.iter().map(|span| span.span_id).collect();
    ids.sort_unstable();
    ids
}

/// A disk in memory, with room for a limited number of bytes.
#[derive(Clone)]
struct MemoryDisk {
    segments: Arc<Mutex<BTreeMap<u32, Vec<u8>>>>,
    room: u64,
    peak: Arc<Mutex<u64>>,
    open: u32,
}

impl MemoryDisk {
    fn of(room: Option<u64>) -> Self {
        let room = room.unwrap_or(u64::MAX);
        Self { segments: Arc::default(), room, peak: Arc::default(), open: 0 }
    }

    fn bytes(&self) -> u64 {
        self.segments.lock().unwrap().values().map(|segment| segment.len() as u64).sum()
    }
}

impl Disk for MemoryDisk {
    fn create(&mut self, segment: u32) -> io::Result<()> {
        assert!(self.segments.lock().unwrap().insert(segment, Vec::new()).is_none(), "{segment} is there");
        self.open = segment;
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = usize::try_from(self.room.saturating_sub(self.bytes())).unwrap_or(usize::MAX);
        let fits = bytes.len().min(room);
        self.segments.lock().unwrap().get_mut(&self.open).unwrap().extend_from_slice(&bytes[..fits]);
        let mut peak = self.peak.lock().unwrap();
        *peak = self.bytes().max(*peak);
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        let length = usize::try_from(length).unwrap();
        self.segments.lock().unwrap().get_mut(&self.open).unwrap().truncate(length);
        Ok(())
    }

    fn read(&self, segment: u32, at: u64, length: u64) -> io::Result<Vec<u8>> {
        let segments = self.segments.lock().unwrap();
        let bytes = segments.get(&segment).ok_or(io::ErrorKind::NotFound)?;
        let (from, to) = (usize::try_from(at).unwrap(), usize::try_from(at.saturating_add(length)).unwrap());
        Ok(bytes.get(from..to.min(bytes.len())).unwrap_or_default().to_vec())
    }

    fn remove(&mut self, segment: u32) -> io::Result<()> {
        self.segments.lock().unwrap().remove(&segment).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn list(&self) -> io::Result<Vec<u32>> {
        Ok(self.segments.lock().unwrap().keys().copied().collect())
    }
}
