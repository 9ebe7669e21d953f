//! The receiver of a run: it listens before the load, learns of every iteration that ends, and gives traces afterwards.

use std::net::{SocketAddr, TcpListener};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use uuid::Uuid;

use client::plain::PlainClient;
use collect::mask_record;
use measure::ids::RunIds;
use measure::latency::SampleId;
use measure::recorder::Batch;
use plan::Plan;
use plan::shard::Shard;
use receive::Taker;
use receive::forward::ForwardTarget;
use receive::listen;
use receive::server::{Receiver, ReceiverOptions};
use receive::spool::sampling::SamplingQuota;
use receive::spool::segments::Folder;
use receive::spool::{Spool, SpoolLimits};
use results::fetched::FetchedRecords;
use results::model::ReceivedSpans;
use runner::observers::Observer;

use super::error::HarnessError;
use super::probe_spans::ProbeSpans;
use super::senders::Senders;

/// How many of the slowest iterations of a workload are kept without exception.
const SLOWEST_KEPT: usize = 500;
/// OpenTelemetry's batch processors send what they have every five seconds.
pub(super) const EXPORTS_WITHIN: Duration = Duration::from_millis(6_000);
/// A trace is taken as whole if no span of it came for this long.
const QUIET: Duration = Duration::from_millis(300);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Binds the ports, before anything else is created.
pub(super) fn listen(addresses: &[SocketAddr]) -> Result<Vec<TcpListener>, HarnessError> {
    listen::bind(addresses).map_err(|error| HarnessError::failed(error.to_string()).remedy(error.remedy()))
}

/// A receiver at work.
pub(super) struct RunReceiver {
    receiver: Receiver,
    taker: Arc<SenderSink>,
}

/// A spool, and who sent what it takes.
struct SenderSink {
    spool: Arc<Spool>,
    senders: Senders,
    probe: Arc<ProbeSpans>,
    ids: RunIds,
    shard: Shard,
}

impl Taker for SenderSink {
    fn wants(&self, trace_id: u128) -> bool {
        self.is_own(trace_id) && self.spool.wants(trace_id) || self.probe.wants(trace_id)
    }

    fn take(&self, trace_id: u128, spans: u32, resource_spans: &[u8]) {
        if self.probe.wants(trace_id) {
            self.probe.take(trace_id, spans, resource_spans);
            return;
        }
        self.senders.note(trace_id, resource_spans, Instant::now());
        self.spool.take(trace_id, spans, resource_spans);
    }
}

impl SenderSink {
    /// False for the iterations of other shards, of whose ends the spool never hears.
    fn is_own(&self, trace_id: u128) -> bool {
        !self.shard.is_part() || self.ids.sample_of(trace_id).is_some_and(|id| self.shard.has(id.number))
    }
}

impl RunReceiver {
    /// Starts to receive, into a folder of the run's directory. At least `kept` of the slowest iterations of a workload are
    /// kept: all of a level of which some in a row are wanted. So are all of a row of the first workload.
    pub(super) fn start(
        listeners: Vec<TcpListener>,
        (ids, probe_ids): (RunIds, RunIds),
        plan: &Plan,
        directory: &Path,
        client: &PlainClient,
        (kept, row): (usize, Range<u64>),
    ) -> Result<Self, HarnessError> {
        let cannot = || HarnessError::cannot("start the receiver of spans".to_owned());
        let slowest = SLOWEST_KEPT.max(kept);
        let wanted = SamplingQuota {
            traces: (plan.traces.slow, plan.traces.others),
            slowest,
            in_a_row: (row.start, row.end),
        };
        let workloads = u16::try_from(plan.workloads.len()).unwrap_or(u16::MAX);
        let folder = Folder::make(directory).map_err(cannot())?;
        let spool = Spool::start(ids, workloads, wanted, SpoolLimits::default(), Box::new(folder))
            .map_err(cannot())?;
        let taker = Arc::new(SenderSink {
            spool: Arc::new(spool),
            senders: Senders::default(),
            probe: Arc::new(ProbeSpans::new(probe_ids)),
            ids,
            shard: plan.shard,
        });
        let forward = plan
            .deployment
            .spans
            .forward
            .as_deref()
            .map(|url| ForwardTarget::new(url, client.clone()))
            .transpose();
        let forward = forward.map_err(|why| HarnessError::input(format!("profiler.forward: {why}")))?;
        let options = ReceiverOptions { forward, ..ReceiverOptions::default() };
        let of_receiver: Arc<dyn Taker> = taker.clone();
        let receiver = Receiver::start(listeners, of_receiver, options).map_err(cannot())?;
        Ok(Self { receiver, taker })
    }

    pub(super) fn addresses(&self) -> &[SocketAddr] {
        self.receiver.addresses()
    }

    /// Where the probe's spans come.
    pub(super) fn of_probe(&self) -> Arc<ProbeSpans> {
        Arc::clone(&self.taker.probe)
    }

    /// The first address, and how many spans of other traces came so far.
    pub(super) fn address_and_others(&self) -> (String, u64) {
        let address = self.addresses().first().map(ToString::to_string).unwrap_or_default();
        (address, self.receiver.counts().foreign_spans)
    }

    /// Where spans are kept while they come.
    pub(super) fn spool(&self) -> Arc<Spool> {
        Arc::clone(&self.taker.spool)
    }

    /// An observer that tells the receiver of ended iterations.
    pub(super) fn observer(receiving: Option<&Self>) -> TellsReceiver {
        TellsReceiver(receiving.map(|receiving| Arc::clone(&receiving.taker.spool)))
    }

    /// Waits until the traces of these iterations look complete, for as long as exporters may hold spans back.
    pub(super) async fn settle(&self, wanted: &[(SampleId, Uuid)], progress: &mut dyn FnMut(usize)) {
        let (began, mut changed, mut before) = (Instant::now(), Instant::now(), (0, 0));
        while began.elapsed() < EXPORTS_WITHIN {
            let kept =
                wanted.iter().filter_map(|(id, _)| self.taker.spool.kept(*id)).filter(|kept| kept.spans > 0);
            let now = kept.fold((0, 0), |(traces, spans), kept| (traces + 1, spans + u64::from(kept.spans)));
            if now != before {
                (changed, before) = (Instant::now(), now);
                progress(now.0);
            }
            let are_done = || {
                let traces = wanted.iter().map(|(_, trace_id)| trace_id.as_u128());
                self.taker.senders.are_done(traces, began, EXPORTS_WITHIN, Instant::now())
            };
            if now.0 == wanted.len() && changed.elapsed() >= QUIET && are_done() {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Ends the receiver. Returns the traces that are wanted, and what was received.
    pub(super) fn finish(self, wanted: &[Uuid]) -> (FetchedRecords, ReceivedSpans) {
        let refused_because = self.receiver.first_refusal();
        let counts = self.receiver.stop();
        let mut fetched = FetchedRecords::default();
        // A service that sends every five seconds has no rate.
        let is_long =
            counts.rate.seconds >= SECONDS_MIN && 10 * counts.rate.seconds >= 9 * counts.rate.of_seconds;
        let mut received = ReceivedSpans {
            spans: counts.spans.saturating_sub(self.taker.probe.spans()),
            spans_per_s: if is_long { counts.rate.median_per_s } else { 0 },
            most_spans_per_s: if is_long { counts.rate.most_per_s } else { 0 },
            linked_spans: counts.linked_spans,
            links_ignored: counts.links_ignored,
            other_traces: counts.foreign_spans,
            invalid_spans: counts.invalid_spans,
            refused_requests: counts.refused.total(),
            refused_because,
            forwarded: counts.forward.spans,
            forward_dropped: counts.forward.dropped_spans,
            ..ReceivedSpans::default()
        };
        let Some((stored, kept)) = self.taker.spool.finish() else { return (fetched, received) };
        (received.kept_traces, received.kept_spans) = (kept.kept_traces, kept.kept_spans);
        received.lost_spans = kept.let_go.losses();
        received.sample_halved = kept.halved;
        for id in wanted {
            match stored.records(*id) {
                Ok(mut records) => {
                    records.iter_mut().for_each(mask_record);
                    fetched.records.insert(*id, records);
                }
                Err(error) => fetched.error = Some(error.to_string()),
            }
        }
        (fetched, received)
    }
}

/// Fewer seconds say nothing about a rate of spans.
const SECONDS_MIN: u64 = 3;

/// Tells the receiver of ended iterations, if there is one.
pub(super) struct TellsReceiver(Option<Arc<Spool>>);

impl Observer for TellsReceiver {
    fn batch(&mut self, batch: &Batch) {
        if let Self(Some(spool)) = self {
            spool.batch(&batch.samples);
        }
    }
}
