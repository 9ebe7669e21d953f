//! Whether the machine that made the load was busy, in words: then times are longer than on a quiet one, also the times
//! of services on the same machine. Nothing here computes a statistic.

use super::document::StyledLine;
use super::texts::duration;
use analysis::explanation::QUEUE_TIME;
use measure::generator::{FullProcessor, Generator, LocalProcess, WorkerVitals};
use results::model::{Results, Workload};

/// A machine is busy if the threads of the load wait for a processor for at least this share of the load. A closed load
/// on a service of the same machine makes its own threads wait for about a tenth.
const BUSY: f64 = 0.15;
/// A shorter load says little.
const LOAD_MIN_S: f64 = 0.5;
/// From this delay on at the 99th percentile, starts were late.
const LATE_MS: f64 = 5.0;

fn share(seen: &Generator, of: fn(&WorkerVitals) -> f64) -> Option<f64> {
    let load_s: f64 = seen.workers.iter().map(|worker| worker.load_s).sum();
    let part_s: f64 = seen.workers.iter().map(of).sum();
    (load_s >= LOAD_MIN_S).then_some(part_s / load_s)
}

/// The share of the load for which threads of bench waited for a processor; `None` if the machine was not busy.
fn waited(results: &Results) -> Option<f64> {
    share(results.generator.as_ref()?, |worker| worker.run_queue_s).filter(|share| *share >= BUSY)
}

/// `This machine was busy: bench's threads waited for a processor for 32 % of the load, …`.
#[must_use]
pub(super) fn busy(results: &Results) -> Option<String> {
    let waited = waited(results)?;
    let computed = share(results.generator.as_ref()?, |worker| worker.cpu_s).unwrap_or_default();
    let in_outside = match results.workloads.iter().any(is_outside) {
        true => " A part of the time outside the traced services is bench's own waiting.",
        false => "",
    };
    Some(format!(
        "This machine was busy: the threads that make the load waited for a processor for {} of the time, and computed \
         for {}. All times are longer for it, those of services on this machine, too.{in_outside}",
        percent(waited),
        percent(computed)
    ))
}

/// Whether time outside the traced services is named, as the cause or as the largest part.
fn is_outside(workload: &Workload) -> bool {
    let kinds = workload.comparison.iter().flat_map(|seen| &seen.kinds).enumerate();
    kinds.filter(|(place, kind)| *place == 0 || kind.is_cause).any(|(_, kind)| kind.outside)
}

/// Why iterations of this workload started late, if bench itself was late and not every virtual user was busy.
#[must_use]
pub(super) fn late(results: &Results, workload: &Workload) -> Option<String> {
    if workload.offered.as_ref().is_some_and(|offered| offered.all_busy) {
        return None;
    }
    let workers = &results.generator.as_ref()?.workers;
    let late_ms =
        workers.iter().filter(|one| one.arrivals > 0).map(|one| one.late_p99_ms).fold(0.0, f64::max);
    let began = (late_ms >= LATE_MS).then(|| {
        format!(
            "bench itself was late: it started iterations up to {} after they were due (p99), while virtual users were \
             free",
            duration(late_ms)
        )
    })?;
    let why = waited(results).map_or_else(
        || "use more workers (--workers), a machine with more or faster cores, or less load".to_owned(),
        |waited| format!("its threads waited for a processor for {} of the time", percent(waited)),
    );
    Some(format!("The {QUEUE_TIME} is not the service's: {began}; {why}."))
}

/// `One processor is full: …`, for each process of this machine that listens at a target and uses one whole.
#[must_use]
pub(super) fn full(results: &Results) -> Vec<StyledLine> {
    let services = results.generator.iter().flat_map(|seen| &seen.services);
    services.filter_map(|service| Some((service, service.full()?))).map(full_line).collect()
}

fn full_line((service, full): (&LocalProcess, FullProcessor)) -> StyledLine {
    let mut line = StyledLine::default();
    line.text("One processor is full: ");
    line.code(service.name.as_str());
    line.text(format!(
        " (process {}), which listens at port {}, computes for {} of the load {}. It cannot do more.",
        service.pid,
        service.port,
        percent(service.share(full).min(1.0)),
        threads(full)
    ));
    line.done()
}

/// In which threads it computes.
#[must_use]
pub(crate) fn threads(full: FullProcessor) -> &'static str {
    match full {
        FullProcessor::OneThread => "in one thread",
        FullProcessor::Together => "in several threads, one of which computes at a time",
    }
}

/// All of them, for the whole run.
pub(super) fn lines(results: &Results) -> impl Iterator<Item = StyledLine> {
    let late = results.workloads.iter().filter_map(|workload| late(results, workload));
    full(results).into_iter().chain(late.take(1).chain(busy(results)).map(StyledLine::from))
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn worker(load_s: f64, run_queue_s: f64, late_p99_ms: f64) -> WorkerVitals {
        let arrivals = if late_p99_ms > 0.0 { 100 } else { 0 };
        WorkerVitals {
            load_s,
            run_queue_s,
            cpu_s: load_s / 100.0,
            late_p99_ms,
            arrivals,
            ..WorkerVitals::default()
        }
    }

    #[test]
    fn a_service_of_this_machine_that_uses_one_processor_whole_is_said() {
        let node = LocalProcess {
            port: 8080,
            pid: 77,
            name: "node".to_owned(),
            threads: 11,
            seen_s: 10.0,
            cpu_s: 9.9,
            thread_cpu_s: 9.7,
            run_queue_s: 0.1,
        };
        let python = LocalProcess { name: "python3".to_owned(), thread_cpu_s: 2.0, ..node };
        let idle = LocalProcess { cpu_s: 1.0, thread_cpu_s: 1.0, ..node.clone() };
        let mut results = crate::html::sample::sample(200).results;
        results.generator = Some(Generator { services: vec![idle, node, python], ..Generator::default() });
        let said: Vec<String> = lines(&results).map(|line| super::super::screen::plain(&line)).collect();
        let expected = [
            "One processor is full: node (process 77), which listens at port 8080, computes for 97 % of the load in one \
             thread. It cannot do more.",
            "One processor is full: python3 (process 77), which listens at port 8080, computes for 99 % of the load in \
             several threads, one of which computes at a time. It cannot do more.",
        ];
        assert_eq!(said, expected);
    }

    #[test]
    fn a_busy_machine_and_a_late_generator_are_said() {
        let busy = "This machine was busy: the threads that make the load waited for a processor for 32 % of the time, and \
                    computed for 1 %.";
        let late = "The queue time before the start is not the service's: bench itself was late: it started iterations up to \
                    75.0 ms after they were due (p99), while virtual users were free; ";
        let waited = format!("{late}its threads waited for a processor for 32 % of the time.");
        let slow =
            format!("{late}use more workers (--workers), a machine with more or faster cores, or less load.");
        for (what, workers, all_busy, expected) in [
            ("quiet", vec![worker(10.0, 1.4, 0.0)], false, vec![]),
            ("busy", vec![worker(10.0, 3.2, 0.0)], false, vec![busy]),
            ("one of two", vec![worker(10.0, 6.2, 0.0), worker(10.0, 0.2, 0.0)], false, vec![busy]),
            ("too short to say", vec![worker(0.4, 0.4, 0.0)], false, vec![]),
            ("late and busy", vec![worker(10.0, 3.2, 75.0)], false, vec![&*waited, busy]),
            ("late", vec![worker(10.0, 0.2, 75.0)], false, vec![&*slow]),
            ("as punctual as can be", vec![worker(10.0, 0.2, 4.9)], false, vec![]),
            // The service was too slow for so few users.
            ("no free user", vec![worker(10.0, 0.2, 75.0)], true, vec![]),
        ] {
            let mut results = crate::html::sample::sample(200).results;
            results.workloads.truncate(1);
            results.workloads[0].offered = serde_json::from_value(json!({
                "served_per_s": 1.0, "busy_max": 1, "queued_max": 1, "all_busy": all_busy,
            }))
            .unwrap();
            results.generator = Some(Generator { workers, ..Generator::default() });
            let said: Vec<String> = lines(&results).map(|line| super::super::screen::plain(&line)).collect();
            assert_eq!(said.len(), expected.len(), "{what}: {said:?}");
            assert!(
                said.iter().zip(expected).all(|(said, expected)| said.starts_with(expected)),
                "{what}: {said:?}"
            );
        }
    }
}
