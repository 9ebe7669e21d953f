//! After the load: fetches and analyses traces, then judges the run and writes its files.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use uuid::Uuid;

use super::record::ClosedRunLog;
use super::{RoundEnded, RunExecution};
use crate::error::{HarnessError, HarnessErrorKind};
use crate::event::Event;
use crate::outcome::{Conclusion, FinishedRun};
use crate::receiving::RunReceiver;
use crate::traces::profile_notes;
use crate::{read_again, writing};
use base::secret::Secret;
use collect::publish::{self, PublicationOutcome};
use collect::{self, FetchTarget};
use demo::Demo;
use judging::what_if::{self, RowTrace};
use judging::{asynchronous, queues};
use measure::latency::SampleId;
use osprofiler::driver::Collector;
use report::probe as words;
use results::aggregate::Aggregate;
use results::choice::{self, ChosenIteration, IterationClass};
use results::fetched::FetchedRecords;
use results::model::{ReceivedSpans, Results, TraceState};
use results::trace::StoredTrace;
use runner::stop::{Stop, StopReason};

/// Points of iterations that ended within this time may still be under way.
const RECENT_NS: u64 = 2_000_000_000;

type RunAnalysis = (Aggregate, Results, Vec<StoredTrace>, Vec<ChosenIteration>);

impl RunExecution {
    /// The collector to ask, if anything is profiled and there is a readable collector.
    pub(super) fn collector(&self) -> Option<&Secret> {
        let connection = self.plan.deployment.connection_string.as_ref();
        connection.filter(|connection| {
            self.plan.profiling_off.is_none() && Collector::reads(connection.expose()).is_ok()
        })
    }

    /// Completes at a signal, unless one has already ended the load.
    async fn enough(&self, stop: &Stop) {
        if stop.is_stopping() { std::future::pending().await } else { stop.stopping().await }
    }

    /// Waits for asynchronous work up to its deadline, or to an interrupt.
    fn await_work(&self, aggregate: &Aggregate, stop: &Stop) {
        let Some(deadline_ns) = asynchronous::deadline_at_ns(aggregate) else { return };
        let longest = Duration::from_nanos(deadline_ns.saturating_sub(self.identity.clock.now_ns()));
        if longest.is_zero() || stop.reason() == Some(StopReason::Interrupted) {
            return;
        }
        // A signal during the event must not look like one that ended the load.
        let has_stopped = stop.is_stopping();
        self.events.event(&Event::AwaitingWork { longest });
        let enough = async { if has_stopped { std::future::pending().await } else { stop.stopping().await } };
        self.runtime.block_on(async {
            tokio::select! {
                () = tokio::time::sleep(longest) => {}
                () = enough => {}
            }
        });
    }

    /// The traces of the chosen iterations.
    fn fetch(
        &self,
        aggregate: &Aggregate,
        connection: &Secret,
        chosen: &[ChosenIteration],
        stop: &Stop,
    ) -> FetchedRecords {
        let recent_ns = self.identity.clock.now_ns().saturating_sub(RECENT_NS);
        let wanted = |ChosenIteration { sample, .. }: &ChosenIteration| FetchTarget {
            id: aggregate.trace_id(sample),
            recent: sample.start_ns.saturating_add(sample.duration_ns) > recent_ns,
        };
        let wanted: Vec<FetchTarget> = chosen.iter().map(wanted).collect();
        let here = |fetched| self.events.event(&Event::Fetching { fetched, wanted: wanted.len() });
        self.events.event(&Event::FetchingBegan { wanted: wanted.len() });
        let (settle, enough) = (self.plan.traces.settle, self.enough(stop));
        let fetched =
            self.runtime.block_on(collect::fetch(connection, &wanted, settle, &mut { here }, enough));
        self.events.event(&Event::FetchingEnded);
        fetched
    }

    /// Adds the received spans of the chosen iterations; returns the traces of those in a row.
    fn receive(
        &self,
        receiving: RunReceiver,
        aggregate: &Aggregate,
        results: &mut Results,
        chosen: &[ChosenIteration],
        fetched: &mut FetchedRecords,
        stop: &Stop,
    ) -> Vec<RowTrace> {
        let row = aggregate.in_a_row();
        let addresses = receiving.addresses().to_vec();
        let samples = || chosen.iter().map(|chosen| &chosen.sample).chain(row);
        let iterations: Vec<SampleId> = samples().map(SampleId::from).collect();
        let ids: Vec<Uuid> = samples().map(|sample| aggregate.trace_id(sample)).collect();
        if !iterations.is_empty() {
            self.events.event(&Event::FetchingBegan { wanted: iterations.len() });
            let mut here =
                |fetched| self.events.event(&Event::Fetching { fetched, wanted: iterations.len() });
            let wanted: Vec<(SampleId, Uuid)> = iterations.iter().copied().zip(ids.iter().copied()).collect();
            self.runtime.block_on(async {
                tokio::select! {
                    () = receiving.settle(&wanted, &mut here) => {}
                    () = self.enough(stop) => {}
                }
            });
            self.events.event(&Event::FetchingEnded);
        }
        let (spans, received) = receiving.finish(&ids);
        let is_told = results.probe.as_ref().is_some_and(|probe| probe.missing.is_some());
        let refused = received.refused_because.as_ref().filter(|_| received.refused_requests > 0);
        results.notes.extend(refused.map(|why| {
            let number = received.refused_requests;
            let (requests, first) =
                if number == 1 { ("request was", "") } else { ("requests were", "; the first") };
            format!("{number} {requests} refused by the receiver of spans{first}: {why}")
        }));
        if received.spans == 0 && refused.is_none() && !is_told {
            let address = addresses.first().map(ToString::to_string).unwrap_or_default();
            results.notes.push(format!(
                "no span of this run was received at {address}: set OTEL_EXPORTER_OTLP_ENDPOINT=http://{address} for the \
                 services, and let them take the trace from the traceparent header; spans that are held back for more \
                 than 5 s (OTEL_BSP_SCHEDULE_DELAY) come too late"
            ));
        }
        if received.links_ignored > 0 {
            results.notes.push(format!(
                "{} links of spans to this run's traces, or spans with such links, were too many and were passed over",
                received.links_ignored
            ));
        }
        for (id, records) in spans.records {
            let all = fetched.records.entry(id).or_default();
            all.extend(records);
            all.sort_by(|one, other| one.timestamp.cmp(&other.timestamp));
        }
        fetched.error = spans.error.or(fetched.error.take());
        let addresses = addresses.iter().map(ToString::to_string).collect();
        results.profiling.received = Some(ReceivedSpans { addresses, ..received });
        let (queues, traces) = queues::of_row(aggregate, row, chosen, fetched, self.share.users_max);
        if let Some(workload) = results.workloads.first_mut() {
            workload.queues = queues;
        }
        traces
    }

    /// Adds the profiles of the fetched traces; a place that has none costs a note.
    fn add_profiles(&self, results: &mut Results, fetched: &mut FetchedRecords, stop: &Stop) {
        let Some(profiles) = &self.options.profiles else { return };
        let traces = fetched.records.iter_mut().filter(|(_, records)| !records.is_empty());
        let traces = traces.map(|(id, records)| (id.to_string(), records));
        let added = self.runtime.block_on(async {
            tokio::select! {
                added = profiles.add_to(traces) => added,
                () = self.enough(stop) => Err("the profiles were not read: interrupted".to_owned()),
            }
        });
        results.notes.extend(added.map_or_else(|why| vec![why], |added| profile_notes(&added, profiles)));
    }

    /// Writes the client's points of the chosen iterations to the collector: only of iterations that have a trace
    /// there, or of all if the collector cannot be asked.
    fn publish(
        &self,
        aggregate: &Aggregate,
        results: &mut Results,
        chosen: &[ChosenIteration],
        found: &[Uuid],
        stop: &Stop,
    ) {
        let connection = self.plan.deployment.connection_string.as_ref();
        let Some(connection) = connection.filter(|_| self.plan.profiling_off.is_none()) else { return };
        let asked = self.collector().is_some();
        let there = |chosen: &&ChosenIteration| {
            let id = aggregate.trace_id(&chosen.sample);
            !asked || found.contains(&id)
        };
        let records = |chosen: &ChosenIteration| aggregate.client_points(&chosen.sample);
        let traces = chosen.iter().filter(there).map(records).collect();
        let PublicationOutcome { written, unwritten, error } =
            self.runtime.block_on(publish::publish(connection, traces, self.enough(stop)));
        results.profiling.published = written;
        if unwritten > 0 {
            let why = error.unwrap_or_else(|| "interrupted".to_owned());
            results.notes.push(format!(
                "{unwritten} of {} records of the client's own points were not published: {why}",
                written + unwritten
            ));
        }
    }

    /// Results, traces, causes, verdict, report.
    pub(super) fn finish(&self, ended: ClosedRunLog, stop: &Stop) -> Result<FinishedRun, HarnessError> {
        let (aggregate, mut results, traces, chosen) = self.explained(ended, stop)?;
        if self.options.publish {
            let found = traces.iter().filter(|trace| trace.state != TraceState::Absent);
            let found: Vec<Uuid> = found.map(|trace| trace.trace_id).collect();
            self.publish(&aggregate, &mut results, &chosen, &found, stop);
        }
        let conclusion = Conclusion::of(&results, aggregate.total());
        let probe = aggregate.end.as_ref().and_then(|end| end.probe.as_ref());
        let warning = probe.and_then(words::warning);
        let heard = aggregate.header().notes.iter().cloned().chain(warning).collect();
        let report = &self.options.report;
        let written = writing::write(&self.directory, &aggregate, results, &traces, report, &self.events);
        let finished = FinishedRun::new(conclusion, written, traces, self.directory.path());
        Ok(FinishedRun { heard, ..finished })
    }

    /// Results, traces, causes, verdict; traces are stored.
    pub(super) fn finish_round(&self, ended: ClosedRunLog, stop: &Stop) -> Result<RoundEnded, HarnessError> {
        let setup_failed = ended.setup_failed;
        let (aggregate, results, traces, chosen) = self.explained(ended, stop)?;
        let folder = self.directory.path().join("traces");
        let stored = self.directory.store_traces(&traces);
        stored.map_err(HarnessError::cannot(format!("write traces to {}", folder.display())))?;
        let sides: HashMap<Uuid, IterationClass> = chosen
            .iter()
            .map(|ChosenIteration { sample, side, .. }| (aggregate.trace_id(sample), *side))
            .collect();
        let side = |trace: &StoredTrace| sides.get(&trace.trace_id).copied().unwrap_or(IterationClass::Other);
        let traces = traces.into_iter().map(|trace| (side(&trace), trace)).collect();
        let random = chosen.iter().filter(|chosen| chosen.random);
        let random = random
            .map(|ChosenIteration { sample, .. }| (aggregate.trace_id(sample), sample.workload))
            .collect();
        let window = self.identity.window_ids();
        Ok(RoundEnded { setup_failed, aggregate, results, traces, random, window })
    }

    /// Results with findings from traces.
    fn explained(&self, ended: ClosedRunLog, stop: &Stop) -> Result<RunAnalysis, HarnessError> {
        let mut aggregate =
            read_again::read(ended.log, self.identity.window_ids(), HarnessErrorKind::Failed, |log| {
                read_again::tell(log, &self.events);
                Ok(())
            })?;
        (aggregate.end, aggregate.unsaved) = (Some(ended.end), ended.unsaved);
        let mut results = judging::results(&aggregate);
        let (mut chosen, mut traces, mut fetched) = (Vec::new(), Vec::new(), FetchedRecords::default());
        let traced = self.plan.profiling_off.is_none() && !aggregate.slowest.is_empty();
        let receiving = self.services.receiving.take();
        // The slow iterations of a part are not the whole load's, but its receiver must have the spans of its own.
        if traced && self.plan.traces.slow > 0 && (self.share.part.is_none() || receiving.is_some()) {
            chosen = choice::choose(&aggregate);
        }
        let collector = self.collector().filter(|_| !chosen.is_empty() && self.share.part.is_none());
        let asked = collector.is_some() || receiving.is_some() && !chosen.is_empty();
        if asked {
            self.await_work(&aggregate, stop);
        }
        let began = Instant::now();
        if let Some(connection) = collector {
            if let Some(Err(error)) = self.services.demo.as_ref().map(Demo::flush) {
                results.notes.push(format!("the demo's collector: {error}"));
            }
            fetched = self.fetch(&aggregate, connection, &chosen, stop);
        }
        let mut row = Vec::new();
        if let Some(receiving) = receiving {
            row = self.receive(receiving, &aggregate, &mut results, &chosen, &mut fetched, stop);
        }
        if self.share.part.is_some() {
            (chosen, fetched) = (Vec::new(), FetchedRecords::default());
        } else if asked {
            self.add_profiles(&mut results, &mut fetched, stop);
            asynchronous::note_read(&aggregate, &chosen, &mut fetched, self.identity.clock.now_ns());
            results.profiling.fetch_s = Some(began.elapsed().as_secs_f64());
            traces = judging::explain(&mut results, &aggregate, &chosen, &mut fetched, None);
            what_if::add(&mut results, &aggregate, &row, (&chosen, &traces), self.share.users_max);
        }
        judging::judge(&aggregate, &mut results, &chosen, &traces);
        let is_fetched = fetched.error.is_none() && !traces.is_empty();
        if let Some(demo) = self.services.demo.as_ref().filter(|_| is_fetched) {
            let records = |trace: &StoredTrace| {
                if self.options.publish { trace.records.clone() } else { trace.services().cloned().collect() }
            };
            demo.keep_only(traces.iter().map(records).collect());
        }
        Ok((aggregate, results, traces, chosen))
    }
}
