//! The probe: one traced iteration before the load, whose trace is waited for, and pairs that show what profiling costs.
//!
//! Nothing here may touch the load's numbers. The probe has ids, a virtual user and made-up values of its own. It takes
//! a row of the data without using it up, and reaches neither the samples nor the log before its end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::RunExecution;
use crate::error::HarnessError;
use crate::event::Event;
use base::clock::saturating_nanos;
use collect::{self, FetchTarget};
use demo::Demo;
use iteration::Context;
use iteration::call::http::fixed::FixedPartsCache;
use iteration::user::{Assignment, UserPhase, VirtualUser};
use measure::errors::Failure;
use measure::ids::RunIds;
use measure::log;
use measure::sample::CompletionStatus;
use osprofiler::record::TraceRecord;
use osprofiler::report::TraceTree;
use plan::WorkloadPlan;
use plan::probe::{FIRST_NUMBER, PROBE};
use plan::step::actions;
use report::probe::{self as words, MissingTraceCause};
use results::trace::StoredTrace;
use runner::stop::Stop;
use terms::control::ControlShare;

/// A collector gets this long to have the trace.
const COLLECTED_WITHIN: Duration = Duration::from_secs(5);
/// OpenTelemetry's batch processors send what they have every five seconds.
const RECEIVED_WITHIN: Duration = Duration::from_secs(6);
/// After that, a collector gets this long to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(1);
const NO_ANSWER: &str = "no answer in time";
/// Of a run's time limit, the wait may take this part.
const PART_OF_TIMEOUT: u32 = 4;
/// The most services that are named.
const SERVICES_MAX: usize = 20;

/// The result of an iteration.
struct ProbeIteration {
    number: u64,
    duration: Duration,
    failure: Option<Failure>,
}

/// Ids of the probe, which leave half of its iterations unprofiled, but not the first.
pub(super) fn ids() -> RunIds {
    let half = ControlShare::from_percent(50.0);
    let mut ids = RunIds::random(half);
    while ids.is_control((PROBE, FIRST_NUMBER)) {
        ids = RunIds::random(half);
    }
    ids
}

impl RunExecution {
    /// Runs the probe, if one is wanted; `None` without one, and if the run is stopped meanwhile.
    pub(super) fn probe(&self, context: &Context, stop: &Stop) -> Option<log::ProbeRecord> {
        let can_ask = self.collector().is_some() || self.services.receiving.borrow().is_some();
        let wanted = self.plan.wanted_probe(can_ask, self.options.strict)?;
        let workload = self.plan.workloads.first()?;
        let context = self.context_of_probe(context);
        self.runtime.block_on(async {
            let probe = async {
                let mut user = VirtualUser::new(&context, 0);
                let ran = match set_up(&mut user, &context, workload).await {
                    Ok(()) => iterate(&mut user, &context, workload, FIRST_NUMBER).await,
                    Err(ran) => ran,
                };
                let mut probe = self.of_iteration(workload, &ran);
                self.await_trace(&mut probe, workload, can_ask).await;
                self.pairs(&mut user, &context, workload, (FIRST_NUMBER + 1, wanted.pairs), &mut probe).await;
                tear_down(&mut user, &context, workload).await;
                probe
            };
            tokio::select! {
                biased;
                () = stop.stopping() => None,
                probe = probe => Some(probe),
            }
        })
    }

    /// Why the run ends here, if it is strict.
    pub(super) fn refused(&self, probe: &log::ProbeRecord) -> Option<HarnessError> {
        let warning = words::warning(probe).filter(|_| self.options.strict)?;
        let remedy = "the load did not begin, because of --strict; --no-probe leaves the probe out";
        Some(HarnessError::unreachable(warning).remedy(remedy))
    }

    fn context_of_probe(&self, context: &Context) -> Context {
        Context {
            clock: context.clock,
            ids: self.identity.probe_ids,
            propagation: context.propagation,
            signer: context.signer.clone(),
            headers: context.headers.clone(),
            foreign_headers: context.foreign_headers.clone(),
            credentials: Arc::clone(&context.credentials),
            crowds: context.crowds.clone(),
            http: Arc::clone(&context.http),
            data_seed: context.data_seed,
            variables: Arc::clone(&context.variables),
            log: Box::new(|_| {}),
            observed: None,
            fixed_parts: FixedPartsCache::default(),
        }
    }

    /// The next number from this one on whose iteration is profiled, or is not.
    fn next_number(&self, from: u64, profiled: bool) -> u64 {
        let mut numbers = from..=u64::MAX >> 3;
        numbers
            .find(|number| self.identity.probe_ids.is_control((PROBE, *number)) != profiled)
            .unwrap_or(from)
    }

    fn of_iteration(&self, workload: &WorkloadPlan, ran: &ProbeIteration) -> log::ProbeRecord {
        let seen = ran.failure.as_ref().and_then(|failure| failure.seen.as_deref());
        log::ProbeRecord {
            trace_id: self.identity.probe_ids.trace_id((PROBE, ran.number)),
            workload: workload.name.clone(),
            ok: ran.failure.is_none(),
            duration_ns: saturating_nanos(ran.duration),
            failure: ran.failure.as_ref().map(words::failure),
            body: seen.and_then(|seen| seen.body.clone()),
            ..log::ProbeRecord::default()
        }
    }

    /// Waits for the trace, and finds out why none comes.
    async fn await_trace(&self, probe: &mut log::ProbeRecord, workload: &WorkloadPlan, can_ask: bool) {
        if !can_ask {
            return;
        }
        let is_signed = actions(&workload.steps).iter().any(|action| action.call.is_signed());
        if !is_signed {
            probe.missing = Some(words::missing(&MissingTraceCause::NotSigned));
            probe.points = Some(0);
            return;
        }
        let began = Instant::now();
        let part = self.plan.timeout.map_or(Duration::MAX, |timeout| timeout / PART_OF_TIMEOUT);
        if let Some(connection) = self.collector() {
            let longest = COLLECTED_WITHIN.min(self.plan.traces.settle.max(Duration::from_secs(1))).min(part);
            self.events.event(&Event::Probing { longest });
            if let Some(demo) = &self.services.demo {
                let _ = Demo::flush(demo);
            }
            let wanted = [FetchTarget { id: probe.trace_id, recent: true }];
            // A collector that hangs must not hold up the load.
            let enough = tokio::time::sleep(longest + ANSWER_WITHIN);
            let fetched = collect::fetch(connection, &wanted, longest, &mut |_| {}, enough).await;
            match fetched.records.get(&probe.trace_id).filter(|records| !records.is_empty()) {
                Some(records) => self.found(probe, records),
                None => {
                    let signed = self.plan.propagation.osprofiler;
                    let name = self.header().collector.unwrap_or_default();
                    let seen = match fetched.error {
                        Some(error) => Err(error),
                        None if !fetched.records.contains_key(&probe.trace_id) => Err(NO_ANSWER.to_owned()),
                        None => {
                            let newest = collect::recent::newest(connection);
                            let newest = tokio::time::timeout(ANSWER_WITHIN, newest).await;
                            newest.unwrap_or_else(|_| Err(NO_ANSWER.to_owned()))
                        }
                    };
                    let since_ns = self.identity.clock.wall_anchor_unix_ns();
                    probe.missing =
                        Some(words::missing(&MissingTraceCause::of_collector(&name, signed, seen, since_ns)));
                    probe.points = Some(0);
                }
            }
        } else {
            let longest = RECEIVED_WITHIN.min(part);
            self.events.event(&Event::Probing { longest });
            self.await_spans(probe, longest).await;
        }
        probe.waited_ns = saturating_nanos(began.elapsed());
    }

    async fn await_spans(&self, probe: &mut log::ProbeRecord, longest: Duration) {
        let taken = self.services.receiving.borrow().as_ref().map(|receiving| receiving.of_probe());
        let Some(taken) = taken else { return };
        let records = taken.wait(probe.trace_id, longest).await;
        if records.is_empty() {
            let receiving = self.services.receiving.borrow();
            let (address, others) =
                receiving.as_ref().map_or_else(Default::default, |receiving| receiving.address_and_others());
            probe.missing = Some(words::missing(&MissingTraceCause::Received { address, others }));
            probe.points = Some(0);
        } else {
            self.found(probe, &records);
        }
    }

    /// Keeps the trace beside the load's traces.
    fn found(&self, probe: &mut log::ProbeRecord, records: &[TraceRecord]) {
        let trace = StoredTrace::new(probe.trace_id, records.to_vec(), 0, None);
        found(probe, &trace.tree);
        if let Err(error) = self.directory.store_probe(&trace) {
            let path = self.directory.probe_trace();
            self.events.event(&Event::Warning(&format!("{} cannot be written: {error}", path.display())));
        }
    }

    /// Pairs of iterations, one profiled and one not, in changing order.
    async fn pairs(
        &self,
        user: &mut VirtualUser,
        context: &Context,
        workload: &WorkloadPlan,
        (mut number, pairs): (u64, u32),
        probe: &mut log::ProbeRecord,
    ) {
        for pair in 0..pairs {
            let mut times = [None; 2];
            for profiled in [pair % 2 == 0, pair % 2 == 1] {
                number = self.next_number(number, profiled);
                let ran = iterate(user, context, workload, number).await;
                number += 1;
                times[usize::from(!profiled)] = ran.failure.is_none().then(|| saturating_nanos(ran.duration));
            }
            match times {
                [Some(with), Some(without)] => probe.pairs_ns.push((with, without)),
                _ => probe.pairs_failed += 1,
            }
        }
    }
}

/// Runs the `user_setup` of the probe's user, which is outside the load's numbering; an iteration that failed with it,
/// otherwise.
async fn set_up(
    user: &mut VirtualUser,
    context: &Context,
    workload: &WorkloadPlan,
) -> Result<(), ProbeIteration> {
    if workload.user_setup.is_empty() {
        return Ok(());
    }
    let start = Instant::now();
    match run_phase(user, context, workload, UserPhase::Setup).await {
        None => Ok(()),
        failure => Err(ProbeIteration { number: FIRST_NUMBER, duration: start.elapsed(), failure }),
    }
}

async fn tear_down(user: &mut VirtualUser, context: &Context, workload: &WorkloadPlan) {
    let is_set_up = workload.user_setup.is_empty() || user.is_set_up();
    if is_set_up && !workload.user_teardown.is_empty() {
        // The load says what fails.
        let _ = run_phase(user, context, workload, UserPhase::Teardown).await;
    }
}

async fn run_phase(
    user: &mut VirtualUser,
    context: &Context,
    workload: &WorkloadPlan,
    phase: UserPhase,
) -> Option<Failure> {
    let start = Instant::now();
    let name = Arc::from(workload.name.as_str());
    let assignment = assignment(&name, workload, FIRST_NUMBER, (context, start));
    let steps = match phase {
        UserPhase::Setup => &workload.user_setup,
        UserPhase::Teardown => &workload.user_teardown,
    };
    user.run_phase(context, &assignment, steps, phase).await.1
}

fn assignment<'a>(
    name: &'a Arc<str>,
    workload: &'a WorkloadPlan,
    number: u64,
    (context, start): (&Context, Instant),
) -> Assignment<'a> {
    let due_ns = context.clock.offset_ns(start);
    Assignment { workload: PROBE, name, data: &workload.data, number, warm_up: true, due_ns, start }
}

async fn iterate(
    user: &mut VirtualUser,
    context: &Context,
    workload: &WorkloadPlan,
    number: u64,
) -> ProbeIteration {
    let start = Instant::now();
    let name = Arc::from(workload.name.as_str());
    let assignment = assignment(&name, workload, number, (context, start));
    let (sample, failure) = user.iterate(context, &assignment, &workload.steps, &workload.runner).await;
    let failed = sample.ended != CompletionStatus::Ok;
    let failure = failure.or_else(|| failed.then(Failure::default));
    ProbeIteration { number, duration: Duration::from_nanos(sample.duration_ns), failure }
}

fn found(probe: &mut log::ProbeRecord, tree: &TraceTree) {
    probe.points = Some(tree.points.len() as u64);
    // The parents of services' outermost points are the client's, which are not here.
    probe.is_complete = tree.has_all_times();
    for point in &tree.points {
        let Some(service) = &point.service else { continue };
        if !probe.services.iter().any(|known| service == known) && probe.services.len() < SERVICES_MAX {
            probe.services.push(service.to_string());
        }
    }
}
