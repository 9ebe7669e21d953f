//! The spool as a whole, against a model that keeps everything.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Map, json};
use uuid::Uuid;

use super::sampling::SamplingQuota;
use super::segments::{Disk, Folder};
use super::stored::StoredSpans;
use super::{DiscardCounts, Spool, SpoolCounts, SpoolLimits, Taker};
use measure::ids::RunIds;
use measure::log::{End, Header, LogWriter};
use measure::rows::{IterationHead, Rows};
use measure::sample::{CompletionStatus, IterationSample};
use osprofiler::spans::{TraceSpan, protobuf};
use results::aggregate::Aggregate;
use results::choice::choose;
use terms::control::ControlShare;

const WANTED: SamplingQuota = SamplingQuota { traces: (4, 3), slowest: 5, in_a_row: (0, 0) };
const WORKLOADS: u16 = 2;

/// Segments in memory, with room for this number of bytes.
#[derive(Clone)]
struct Memory {
    segments: Arc<Mutex<BTreeMap<u32, Vec<u8>>>>,
    room: Arc<Mutex<u64>>,
    open: u32,
}

impl Memory {
    fn of(room: u64) -> Self {
        Self { segments: Arc::default(), room: Arc::new(Mutex::new(room)), open: 0 }
    }

    fn bytes(&self) -> u64 {
        self.segments.lock().unwrap().values().map(|segment| segment.len() as u64).sum()
    }
}

impl Disk for Memory {
    fn create(&mut self, segment: u32) -> io::Result<()> {
        assert!(self.segments.lock().unwrap().insert(segment, Vec::new()).is_none());
        self.open = segment;
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = *self.room.lock().unwrap();
        let fits = bytes.len().min(room.saturating_sub(self.bytes()) as usize);
        self.segments.lock().unwrap().get_mut(&self.open).unwrap().extend_from_slice(&bytes[..fits]);
        if fits < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.segments.lock().unwrap().get_mut(&self.open).unwrap().truncate(length as usize);
        Ok(())
    }

    fn read(&self, segment: u32, at: u64, length: u64) -> io::Result<Vec<u8>> {
        let segments = self.segments.lock().unwrap();
        let bytes = segments.get(&segment).ok_or(io::ErrorKind::NotFound)?;
        let end = bytes.len().min((at + length) as usize);
        Ok(bytes.get(at as usize..end).unwrap_or_default().to_vec())
    }

    fn remove(&mut self, segment: u32) -> io::Result<()> {
        self.segments.lock().unwrap().remove(&segment).map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn list(&self) -> io::Result<Vec<u32>> {
        Ok(self.segments.lock().unwrap().keys().copied().collect())
    }
}

/// Bounds that nothing here reaches, with segments so small that they are cleaned all the time.
fn ample() -> SpoolLimits {
    SpoolLimits { segment_bytes: 3_000, disk_bytes: 1 << 30, ..SpoolLimits::default() }
}

fn tight() -> SpoolLimits {
    SpoolLimits {
        waiting_bytes: 6_000,
        queue_bytes: 20_000,
        disk_bytes: 30_000,
        segment_bytes: 2_000,
        trace_spans: 9,
        trace_bytes: 900,
    }
}

/// What happens at a run: an iteration ends, or spans of it come.
#[derive(Clone, Debug)]
enum SpoolEvent {
    Ended(IterationHead),
    Spans(u16, u64, u32, Vec<u8>),
}

/// An iteration, when its end becomes known, and its spans: when they come, how many, and their length.
type PlannedIteration = (IterationHead, u64, Vec<(u64, u32, u16)>);

fn iteration() -> impl Strategy<Value = PlannedIteration> {
    let head = (0..WORKLOADS, 0..40_u64, 0..20_000_u64, 0..12_u8, 1..4_u32).prop_map(
        |(workload, ms, start_us, end, error)| IterationHead {
            workload,
            due_ns: start_us * 1000,
            start_ns: start_us * 1000,
            duration_ns: ms * 1_000_000,
            ended: match end {
                0 => CompletionStatus::Aborted,
                1 | 2 => CompletionStatus::Failed,
                _ => CompletionStatus::Ok,
            },
            warm_up: end == 3,
            error: if (1..=2).contains(&end) { error } else { 0 },
            ..IterationHead::default()
        },
    );
    // One in eight never ends.
    let ends = (0..1000_u64, 0..8_u8).prop_map(|(at, never)| if never == 0 { u64::MAX } else { at });
    (head, ends, prop::collection::vec((0..1200_u64, 1..4_u32, 0..400_u16), 0..8))
}

fn events(iterations: &[PlannedIteration]) -> Vec<SpoolEvent> {
    let (mut timed, mut numbers) = (Vec::new(), [0, 0]);
    for (head, ends, spans) in iterations {
        let number = numbers[usize::from(head.workload)];
        numbers[usize::from(head.workload)] += 1;
        let head = IterationHead { number, ..*head };
        if *ends < u64::MAX {
            timed.push((*ends, SpoolEvent::Ended(head)));
        }
        for (index, (at, spans, length)) in spans.iter().enumerate() {
            let payload = format!("{index}").repeat(usize::from(*length)).into_bytes();
            timed.push((*at, SpoolEvent::Spans(head.workload, number, *spans, payload)));
        }
    }
    timed.sort_by_key(|(at, _)| *at);
    timed.into_iter().map(|(_, event)| event).collect()
}

fn ids() -> RunIds {
    RunIds::new(Uuid::from_u128(5), ControlShare::from_percent(10.0))
}

/// What of the spans that came is there, by trace.
type Spans = HashMap<u128, Vec<Vec<u8>>>;

struct SpoolOutcome {
    stored: Spans,
    sent: Spans,
    sent_spans: u64,
    counts: SpoolCounts,
    /// Those that are said to be kept, with the spans that are said to be lost.
    kept: HashMap<u128, (u32, u32)>,
}

fn run(events: &[SpoolEvent], limits: SpoolLimits, disk: Box<dyn Disk>) -> SpoolOutcome {
    let ids = ids();
    let spool = Spool::start(ids, WORKLOADS, WANTED, limits, disk).unwrap();
    let (mut sent, mut sent_spans) = (Spans::new(), 0);
    for event in events {
        match event {
            SpoolEvent::Ended(head) => spool.ended(head),
            SpoolEvent::Spans(workload, number, spans, bytes) => {
                let trace_id = ids.trace_id((*workload, *number)).as_u128();
                assert_eq!(spool.wants(trace_id), !ids.is_control((*workload, *number)));
                spool.take(trace_id, *spans, bytes);
                if spool.wants(trace_id) {
                    sent.entry(trace_id).or_default().push(bytes.clone());
                    sent_spans += u64::from(*spans);
                }
            }
        }
        let counts = spool.counts();
        assert!(counts.disk_bytes <= limits.disk_bytes && counts.disk_peak_bytes <= limits.disk_bytes);
        assert!(counts.queued_bytes <= (limits.queue_bytes + 16_000) as u64, "{counts:?}");
    }
    let heads =
        events.iter().filter_map(|event| if let SpoolEvent::Ended(head) = event { Some(head) } else { None });
    let kept = heads.filter_map(|head| {
        spool.kept(head).map(|kept| (ids.trace_id(head).as_u128(), (kept.spans, kept.lost)))
    });
    let kept = kept.collect();
    let (stored, counts) = spool.finish().unwrap();
    assert!(spool.finish().is_none());
    let sorted = |mut chunks: Vec<Vec<u8>>| {
        chunks.sort_unstable();
        chunks
    };
    let stored = stored.traces().map(|(trace_id, chunks)| (trace_id, sorted(chunks.unwrap()))).collect();
    let sent = sent.into_iter().map(|(trace_id, chunks)| (trace_id, sorted(chunks))).collect();
    SpoolOutcome { stored, sent, sent_spans, counts, kept }
}

fn check_counts(outcome: &SpoolOutcome) {
    let SpoolCounts { spans, kept_traces, kept_spans, waiting_spans, let_go, .. } = outcome.counts;
    let let_go_spans = let_go.not_chosen + let_go.losses();
    assert_eq!(spans, outcome.sent_spans);
    assert_eq!(spans, kept_spans + let_go_spans, "{:?}", outcome.counts);
    assert_eq!((waiting_spans, kept_traces as usize), (0, outcome.stored.len()));
    for (trace_id, chunks) in &outcome.stored {
        let sent = &outcome.sent[trace_id];
        let (_, lost) = outcome.kept[trace_id];
        assert!(chunks.iter().all(|chunk| sent.contains(chunk)) && chunks.len() <= sent.len());
        assert_eq!(chunks == sent, lost == 0, "{chunks:?} of {sent:?}, {lost} lost");
    }
}

/// The iterations that may be chosen from the log, by definition.
fn choosable(events: &[SpoolEvent]) -> HashSet<u128> {
    let ids = ids();
    let ended = |event: &SpoolEvent| if let SpoolEvent::Ended(head) = event { Some(*head) } else { None };
    let heads: Vec<IterationHead> = events
        .iter()
        .filter_map(ended)
        .filter(|head| head.ended.is_measured() && !head.warm_up && !ids.is_control(head))
        .collect();
    let mut found = HashSet::new();
    for head in &heads {
        let others = || heads.iter().filter(|other| other.workload == head.workload);
        let draw = |head: &IterationHead| ids.draw(head);
        let ok = |other: &&IterationHead| other.ended == CompletionStatus::Ok;
        let slower = others().filter(|other| other.response_ns() > head.response_ns()).count();
        let smaller_draw = others().filter(|other| draw(other) < draw(head));
        let slow = smaller_draw.clone().filter(ok).filter(|other| other.response_ns() >= head.response_ns());
        let failed = smaller_draw.clone().filter(|other| other.ended == CompletionStatus::Failed).count();
        let is_ok = head.ended == CompletionStatus::Ok;
        if slower < 5 && others().filter(|other| other.response_ns() == head.response_ns()).count() == 1
            || (is_ok && slow.count() < 2 + 1)
            || (!is_ok && failed < 50)
            || smaller_draw.count() < 2
        {
            found.insert(ids.trace_id(head).as_u128());
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn whatever_can_be_chosen_is_there_and_complete(iterations in prop::collection::vec(iteration(), 0..200)) {
        let events = events(&iterations);
        let outcome = run(&events, ample(), Box::new(Memory::of(u64::MAX)));
        check_counts(&outcome);
        prop_assert_eq!(outcome.counts.let_go.losses(), outcome.counts.let_go.undecided);
        for trace_id in choosable(&events) {
            prop_assert_eq!(outcome.stored.get(&trace_id), outcome.sent.get(&trace_id));
            prop_assert!(outcome.kept.contains_key(&trace_id));
        }
    }

    #[test]
    fn bounds_hold_and_every_span_is_counted(iterations in prop::collection::vec(iteration(), 0..300), room in 0..60_000_u64) {
        let disk = Memory::of(room);
        let outcome = run(&events(&iterations), tight(), Box::new(disk.clone()));
        check_counts(&outcome);
        prop_assert!(disk.bytes() <= tight().disk_bytes.min(room));
        prop_assert!(outcome.kept.values().all(|(spans, _)| *spans <= tight().trace_spans));
    }
}

fn head(number: u64, ms: u64) -> IterationHead {
    let start_ns = number * 1_000_000;
    let (ended, duration_ns) = (CompletionStatus::Ok, ms * 1_000_000 + number);
    IterationHead { number, due_ns: start_ns, start_ns, duration_ns, ended, ..IterationHead::default() }
}

/// The traces that the reader of the log chooses after the run are those that were kept.
#[test]
fn what_is_chosen_from_the_log_was_kept() {
    let folder = tempfile::tempdir().unwrap();
    let ids = RunIds::new(Uuid::nil(), ControlShare::NONE);
    let wanted = SamplingQuota { traces: (20, 10), slowest: 10, in_a_row: (0, 0) };
    let disk = Box::new(Folder::make(folder.path()).unwrap());
    let spool = Spool::start(ids, 1, wanted, SpoolLimits::default(), disk).unwrap();
    let mut random = fastrand::Rng::with_seed(3);
    let mut rows = Rows::default();
    for number in 0..20_000 {
        let ms = if number % 30 == 0 { random.u64(100..900) } else { random.u64(5..50) };
        let ended = if number % 700 == 5 { CompletionStatus::Failed } else { CompletionStatus::Ok };
        let head = IterationHead { ended, ..head(number, ms) };
        let trace_id = ids.trace_id(&head).as_u128();
        spool.take(trace_id, 1, b"before");
        rows.push(&IterationSample {
            number,
            due_ns: head.due_ns,
            start_ns: head.start_ns,
            duration_ns: head.duration_ns,
            ended,
            ..IterationSample::default()
        });
        spool.ended(&head);
        spool.take(trace_id, 1, b"after");
    }
    let header: Header = serde_json::from_value(json!({
        "run_id": Uuid::nil(), "id_seed": Uuid::nil(), "started_unix_ns": 0,
        "scenario": { "title": "t", "file": "f", "sha256": "", "set": {} },
        "deployment": { "name": "d", "file": "f", "targets": {}, "tls_verified": true, "auth": "none" },
        "profiling_off": null, "collector": null, "traces_wanted": [20, 10],
        "environment": { "bench_version": "0", "os": "", "cpus": 1, "workers": 1 },
        "notes": [], "workloads": [{ "name": "w", "runner": {}, "sla": {}, "actions": [] }],
    }))
    .unwrap();
    let path = folder.path().join("run.log");
    let mut log = LogWriter::create(&path).unwrap();
    log.header(&header).unwrap();
    log.samples(&rows).unwrap();
    log.end(&End::default()).unwrap();
    drop(log);
    let chosen = choose(&Aggregate::read(&path).unwrap());
    assert!(chosen.len() > 80, "{}", chosen.len());
    let (stored, counts) = spool.finish().unwrap();
    for one in &chosen {
        let trace = stored.trace(ids.trace_id(&one.sample).as_u128()).unwrap();
        assert_eq!(trace, [b"before".to_vec(), b"after".to_vec()], "{:?}", one.side);
    }
    assert!(counts.kept_traces < 5_000, "{counts:?}");
}

#[test]
fn iterations_that_take_longest_are_not_let_go_when_memory_is_short() {
    let disk = Memory::of(u64::MAX);
    let limits = SpoolLimits { waiting_bytes: 20_000, ..ample() };
    let ids = ids();
    let spool = Spool::start(ids, WORKLOADS, WANTED, limits, Box::new(disk)).unwrap();
    let trace_id = |number: u64| ids.trace_id((0, number)).as_u128();
    let profiled: Vec<u64> = (0..2_000).filter(|number| !ids.is_control((0, *number))).collect();
    let slowest = profiled[0];
    for number in &profiled {
        spool.take(trace_id(*number), 1, &[7; 300]);
        if *number != slowest {
            spool.ended(&head(*number, 3));
        }
        // The slowest one goes on and on, among thirty others that never end.
        if *number < 35 {
            spool.take(ids.trace_id((1, *number)).as_u128(), 1, &[8; 900]);
        }
    }
    spool.take(trace_id(slowest), 1, &[9; 300]);
    assert_eq!(spool.kept((0, slowest)), None);
    spool.ended(&head(slowest, 60_000));
    let kept = spool.kept((0, slowest)).unwrap();
    assert_eq!((kept.spans, kept.lost), (2, 0));
    let (stored, counts) = spool.finish().unwrap();
    let mut trace = stored.trace(trace_id(slowest)).unwrap();
    trace.sort_unstable();
    assert_eq!(trace, [vec![7; 300], vec![9; 300]]);
    assert_eq!(counts.let_go.memory, 0, "{counts:?}");
    assert!(counts.let_go.undecided > 20, "{counts:?}");
}

#[test]
fn a_full_disk_costs_spans_and_once_there_is_room_nothing_more() {
    let disk = Memory::of(5_000);
    let limits = SpoolLimits { queue_bytes: 40_000, ..ample() };
    let ids = ids();
    let wanted = SamplingQuota { traces: (0, 0), slowest: 1_000, in_a_row: (0, 0) };
    let spool = Spool::start(ids, WORKLOADS, wanted, limits, Box::new(disk.clone())).unwrap();
    let profiled = (0..1_000).filter(|number| !ids.is_control((0, *number)));
    let profiled: Vec<u64> = profiled.collect();
    let trace_id = |number: u64| ids.trace_id((0, number)).as_u128();
    for number in &profiled[..500] {
        spool.ended(&head(*number, 3));
        spool.take(trace_id(*number), 1, &[7; 300]);
    }
    while spool.counts().write_errors == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let counts = spool.counts();
    assert!(counts.let_go.disk > 300, "{counts:?}");
    assert_eq!(counts.partial_traces, 0, "a trace without spans is not partial: {counts:?}");
    assert!(disk.bytes() <= 5_000 && counts.queued_bytes <= 40_000);
    *disk.room.lock().unwrap() = u64::MAX;
    while spool.counts().queued_bytes > 10_000 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let late = profiled[600];
    spool.ended(&head(late, 3));
    spool.take(trace_id(late), 1, &[8; 300]);
    let (stored, last) = spool.finish().unwrap();
    assert_eq!((last.let_go, last.kept_spans), (counts.let_go, counts.kept_spans + 1));
    assert_eq!(stored.trace_ids().count() as u64, last.kept_traces);
    assert_eq!(stored.trace(trace_id(late)).unwrap(), [vec![8; 300]]);
    // All of it is on the disk now.
    let again = StoredSpans::of(Box::new(disk), Vec::new(), |_| true);
    assert!(stored.trace_ids().all(|id| again.trace(id).unwrap() == stored.trace(id).unwrap()));
}

#[test]
fn every_bound_has_a_count() {
    let ids = RunIds::new(Uuid::from_u128(5), ControlShare::NONE);
    let wanted = SamplingQuota { traces: (0, 0), slowest: 1_000, in_a_row: (0, 0) };
    let disk = Box::new(Memory::of(0));
    let spool = Spool::start(ids, 1, wanted, SpoolLimits { disk_bytes: 1 << 20, ..tight() }, disk).unwrap();
    let take =
        |number: u64, bytes: usize| spool.take(ids.trace_id((0, number)).as_u128(), 1, &vec![7; bytes]);
    // Kept, but neither disk nor memory has room for all; one trace alone is too large.
    spool.ended(&head(0, 3));
    (0..4).for_each(|_| take(0, 300));
    for number in 1..100 {
        spool.ended(&head(number, 3));
        take(number, 300);
    }
    // Not decided: all but the newest must go, and with the disk full there is nowhere else to go.
    (100..200).for_each(|number| take(number, 300));
    take(200, 1_000);
    assert!(spool.counts().waiting_spans > 8);
    spool.ended(&head(100, 3));
    take(100, 10);
    let counts = spool.counts();
    assert!(
        spool.kept((0, 100)).is_some_and(|kept| kept.lost > 0) && counts.let_go.memory > 50,
        "{counts:?}"
    );
    spool.ended(&IterationHead { warm_up: true, ..head(199, 3) });
    let (_, counts) = spool.finish().unwrap();
    let DiscardCounts { not_chosen, memory, disk, trace_too_large, undecided } = counts.let_go;
    assert_eq!((not_chosen, trace_too_large), (1, 2), "{counts:?}");
    assert!(disk > 30 && undecided > 8, "{counts:?}");
    assert_eq!(not_chosen + memory + disk + trace_too_large + undecided + counts.kept_spans, counts.spans);
}

#[test]
fn too_much_to_keep_makes_samples_smaller_and_the_slowest_stay() {
    let ids = ids();
    let limits = SpoolLimits { disk_bytes: 200_000, segment_bytes: 10_000, queue_bytes: 1 << 20, ..ample() };
    let wanted = SamplingQuota { traces: (100, 50), slowest: 10, in_a_row: (0, 0) };
    let disk = Memory::of(u64::MAX);
    let spool = Spool::start(ids, 1, wanted, limits, Box::new(disk.clone())).unwrap();
    let mut profiled: Vec<u64> = (0..3_000).filter(|number| !ids.is_control((0, *number))).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut profiled);
    for number in &profiled {
        spool.ended(&head(*number, *number));
        spool.take(ids.trace_id((0, *number)).as_u128(), 1, &[7; 300]);
        // As slow as a load is: the writer may have its turn.
        while spool.counts().disk_bytes + spool.counts().queued_bytes > 170_000 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    let (stored, counts) = spool.finish().unwrap();
    assert!(counts.halved > 0 && counts.disk_peak_bytes <= 200_000 && counts.kept_traces > 50, "{counts:?}");
    assert!(disk.bytes() <= 200_000);
    profiled.sort_unstable();
    for number in &profiled[profiled.len() - 10..] {
        assert!(stored.has(ids.trace_id((0, *number)).as_u128()), "{number}: {counts:?}");
    }
}

#[test]
fn two_threads_at_a_time_lose_nothing() {
    let ids = RunIds::new(Uuid::from_u128(5), ControlShare::NONE);
    let wanted = SamplingQuota { traces: (50, 20), slowest: 100, in_a_row: (0, 0) };
    let limits = SpoolLimits { segment_bytes: 20_000, ..SpoolLimits::default() };
    let disk = Box::new(Memory::of(u64::MAX));
    let spool = Spool::start(ids, 1, wanted, limits, disk).unwrap();
    const OF: u64 = 20_000;
    let ms = |number: u64| number * 7_919 % OF;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..OF {
                spool.ended(&head(number, ms(number)));
            }
        });
        for number in 0..OF {
            (0..3_u8).for_each(|part| spool.take(ids.trace_id((0, number)).as_u128(), 1, &[part; 50]));
        }
    });
    let (stored, counts) = spool.finish().unwrap();
    let let_go = counts.let_go;
    assert_eq!((counts.spans, counts.iterations, let_go.losses()), (3 * OF, OF, 0));
    assert_eq!(counts.kept_spans + let_go.not_chosen, 3 * OF);
    for number in (0..OF).filter(|number| ms(*number) >= OF - 100) {
        assert_eq!(stored.trace(ids.trace_id((0, number)).as_u128()).unwrap().len(), 3, "{number}");
    }
}

/// An encoded `ResourceSpans` of one span.
fn resource_spans(trace_id: u128, span_id: u64, parent_id: Option<u64>) -> Vec<u8> {
    let resource = Arc::new(Map::from_iter([("service.name".to_owned(), json!("orders"))]));
    let (start_ns, end_ns) = (1_000_000_000 * span_id, 9_000_000_000);
    let name = format!("span {span_id}");
    let span =
        TraceSpan { trace_id, span_id, parent_id, name, start_ns, end_ns, resource, ..TraceSpan::default() };
    let request = protobuf::encode(&[span]);
    // Tag and length: of up to 127 bytes, one each; of more, two for the length.
    let skip = if request[1] < 0x80 { 2 } else { 3 };
    request[skip..].to_vec()
}

#[test]
fn a_crash_leaves_records_that_can_be_read_up_to_its_last_whole_frame() {
    let folder = tempfile::tempdir().unwrap();
    let ids = RunIds::new(Uuid::from_u128(5), ControlShare::NONE);
    let disk = Box::new(Folder::make(folder.path()).unwrap());
    let spool = Spool::start(ids, 1, WANTED, SpoolLimits::default(), disk).unwrap();
    let base_id = ids.trace_id((0, 1));
    spool.ended(&head(1, 3));
    for span_id in 1..=3 {
        let parent = (span_id > 1).then_some(span_id - 1);
        spool.take(base_id.as_u128(), 1, &resource_spans(base_id.as_u128(), span_id, parent));
    }
    assert!(StoredSpans::open(&folder.path().join("nothing")).unwrap().is_none());
    // While it runs, as after a crash: all that was written can be read.
    let written = |spool: &Spool| spool.counts().queued_bytes;
    while written(&spool) > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let records = |stored: &StoredSpans| stored.records(base_id).unwrap();
    let running = records(&StoredSpans::open(folder.path()).unwrap().unwrap());
    let (stored, _) = spool.finish().unwrap();
    assert_eq!(running, records(&stored));
    let names: Vec<&str> = running.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names[..3], ["span 1-start", "span 2-start", "span 3-start"]);
    assert!(stored.records(ids.trace_id((0, 2))).unwrap().is_empty());
    // Twice is once.
    let file = folder.path().join("spans/00000000.spans");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(folder.path().join("spans/00000001.spans"), &bytes).unwrap();
    assert_eq!(records(&StoredSpans::open(folder.path()).unwrap().unwrap()), running);
    std::fs::remove_file(folder.path().join("spans/00000001.spans")).unwrap();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        for content in [&bytes[..at], &damaged] {
            std::fs::write(&file, content).unwrap();
            let stored = StoredSpans::open(folder.path()).unwrap().unwrap();
            let left = records(&stored);
            let expected = if content.len() == bytes.len() && at >= 10 { 4 } else { left.len() };
            assert!(left.len() == expected || at < 10, "{at}: {left:?}");
            assert!(left.iter().all(|record| running.iter().any(|one| one.name == record.name)), "{at}");
        }
    }
}

/// While a load runs, a trace can be read once its iteration has ended, as far as it is written.
#[test]
fn a_trace_is_read_while_spans_come() {
    let directory = tempfile::tempdir().unwrap();
    let folder = Folder::make(directory.path()).unwrap();
    let wanted = SamplingQuota { traces: (1, 1), slowest: 1, in_a_row: (0, 0) };
    let spool = Spool::start(ids(), WORKLOADS, wanted, ample(), Box::new(folder)).unwrap();
    let trace_id = |number: u64| ids().trace_id((0, number)).as_u128();
    let written = |number: u64| spool.written((0, number), trace_id(number), directory.path()).unwrap();
    for number in 0..20 {
        spool.take(trace_id(number), 1, &resource_spans(trace_id(number), 1, None));
    }
    assert_eq!(written(19), None, "it is not decided");
    for number in 0..20 {
        spool.ended(&head(number, 10 + number));
    }
    let second = resource_spans(trace_id(19), 2, Some(1));
    spool.take(trace_id(19), 1, &second);
    let until = std::time::Instant::now() + Duration::from_secs(30);
    loop {
        let seen = written(19).unwrap();
        if seen.len() == 2 {
            assert_eq!(seen, [resource_spans(trace_id(19), 1, None), second]);
            break;
        }
        assert!(std::time::Instant::now() < until, "{seen:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(written(99), None, "nothing of it came");
    drop(spool.finish());
}
