//! What stops the service: a level at half the capacity and one above it, traced and compared.

use std::time::Duration;

use ::capacity::limit::{Limit, LimitKind, limit as compare};
use ::capacity::search::CapacityBounds;
use ::capacity::servers::ServerPool;
use ::capacity::waits::waits;
use measure::generator::LocalProcess;
use osprofiler::report::TraceTree;
use report::capacity::{LevelInfo, NoLimit, OverloadFailure};

use plan::levels::LevelLoad;

use super::levels::{self, LevelRunner};
use crate::run::{Round, RoundEnded};

/// How long each of the two levels lasts.
const LENGTH: Duration = Duration::from_secs(6);
/// The rate of the level at ease, as a share of what holds, and of the other, as a multiple of what breaks.
const AT_EASE: f64 = 0.5;
const ABOVE: f64 = 1.1;
/// The rate at which servers are counted where the level above is of no use for that, as a share of what holds: a backlog that
/// is longer than the row of traced iterations leaves nothing to count.
const JUST_BELOW: f64 = 0.88;
/// A processor that a process fills at the level above has this much room more at ease, as a share of it.
const GROWN_MIN: f64 = 0.2;
/// So much more iterations must fail at the level above for that to be said.
const FAILS_MORE: f64 = 0.01;
/// How many random traces are fetched of each.
const RANDOM_TRACES: u32 = 80;
/// At most so many iterations in a row are traced, all of them.
const WINDOW_MAX: u64 = 1_000;

/// What two levels say of what stops the service.
pub(super) struct NamedLimit {
    pub(super) limit: Result<Limit, NoLimit>,
    pub(super) fails: Option<OverloadFailure>,
    pub(super) processor: Option<[LocalProcess; 2]>,
    /// The two levels.
    pub(super) compared: Option<[LevelInfo; 2]>,
}

/// Names what stops the service.
pub(super) fn limit(runner: &mut LevelRunner<'_>, bounds: &CapacityBounds) -> NamedLimit {
    let nothing = |reason| NamedLimit { limit: Err(reason), fails: None, processor: None, compared: None };
    let Some((holds, breaks)) = bounds.holds_per_s.zip(bounds.breaks_per_s) else {
        return nothing(NoLimit::NoBounds);
    };
    let at_ease = traced_level(runner, holds * AT_EASE);
    // No higher rate is tried than what was allowed.
    let above_per_s = (breaks * ABOVE).min(runner.options.highest_per_s()).max(breaks);
    let above = at_ease.as_ref().and_then(|_| traced_level(runner, above_per_s));
    let Some((at_ease, above)) = at_ease.zip(above) else { return nothing(NoLimit::NoTime) };
    let deployment = &runner.plan.deployment;
    let collects = deployment.connection_string.is_some() || !deployment.spans.receive.is_empty();
    let mut limit = match runner.plan.profiling_off.is_none() && (collects || deployment.demo.is_some()) {
        true => compare(&random(&at_ease.1), &random(&above.1), &window(&above.1)).map_err(NoLimit::Analysis),
        false => Err(NoLimit::NoTraces),
    };
    if let Ok(named) = &mut limit {
        count_servers(runner, named, holds);
    }
    let more = above.0.failed_share() - at_ease.0.failed_share();
    let fails = (more > FAILS_MORE).then(|| most_failures(&above.1)).flatten();
    let processor = full_processor(&at_ease.1, &above.1);
    NamedLimit { limit, fails, processor, compared: Some([at_ease.0, above.0]) }
}

/// The process of this machine that uses one processor whole at the level above, and does not at ease: what it used at both.
fn full_processor(at_ease: &RoundEnded, above: &RoundEnded) -> Option<[LocalProcess; 2]> {
    let of = |ended: &RoundEnded| {
        ended.results.generator.as_ref().map(|seen| seen.services.clone()).unwrap_or_default()
    };
    let usual = of(at_ease);
    let pairs = of(above).into_iter().filter_map(|service| {
        let before = usual.iter().find(|one| (one.pid, one.port) == (service.pid, service.port))?;
        let full = service.full()?;
        Some((service.share(full) - before.share(full), [before.clone(), service]))
    });
    let grown = pairs.filter(|(room, _)| *room >= GROWN_MIN);
    grown.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, pair)| pair)
}

/// Counts the servers that the named calls wait for at a rate just below the limit, where they could not be counted above it.
fn count_servers(runner: &mut LevelRunner<'_>, named: &mut Limit, holds_per_s: f64) {
    if named.servers.is_some() || named.kind == LimitKind::Work {
        return;
    }
    // What is left of the overload is not that level's.
    if !matches!(runner.drained(levels::RECOVERY_MAX), Ok(None | Some((true, _)))) {
        return;
    }
    let Some((_, below)) = traced(runner, holds_per_s * JUST_BELOW, true) else { return };
    // The longest wait comes first. Where only the service is known, it is that of its calls, or before it.
    let found = waits(&window(&below)).into_iter().find(|one| {
        let is_named = one.group.name == named.name && one.group.service == named.service;
        let is_of_service = named.name.is_empty()
            && match named.kind {
                LimitKind::Entry => one.group.enters,
                _ => one.group.caller == named.service,
            };
        is_named || is_of_service
    });
    if let Some(found) = found {
        if named.name.is_empty() {
            (named.service, named.name) = (found.group.service, found.group.name);
        }
        named.servers = Some(ServerPool { waits_ms: found.each_ms, ..found.servers });
    }
}

/// What most failed iterations of a level fail of.
fn most_failures(ended: &RoundEnded) -> Option<OverloadFailure> {
    let workload = ended.results.workloads.first()?;
    let most = workload.errors.iter().max_by_key(|error| error.count)?;
    let share = most.count as f64 / workload.iterations.total.max(1) as f64;
    Some(OverloadFailure { class: most.class.clone(), message: most.message.clone(), share: share.min(1.0) })
}

/// Runs a level to its end, with traces.
fn traced_level(runner: &mut LevelRunner<'_>, rate_per_s: f64) -> Option<(LevelInfo, RoundEnded)> {
    traced(runner, rate_per_s, false)
}

fn traced(runner: &mut LevelRunner<'_>, rate_per_s: f64, is_random: bool) -> Option<(LevelInfo, RoundEnded)> {
    let load = levels::load(runner.options, Some(rate_per_s), LENGTH, false);
    let level = LevelLoad { is_random: is_random || load.is_random, ..load };
    // The last third: by then a backlog has grown.
    let from = (rate_per_s * level.length.as_secs_f64() * 2.0 / 3.0) as u64;
    let until = (rate_per_s * level.length.as_secs_f64()) as u64;
    let window = from..until.min(from.saturating_add(WINDOW_MAX));
    // A level that cannot run leaves the answer as it is.
    let ended = runner.run(&level, &|round| with_traces(round, &window)).ok().flatten()?;
    let (info, _) = runner.judged(&ended, Some(rate_per_s));
    Some((info, ended))
}

/// The round with the traces that are compared.
fn with_traces<'r>(round: Round<'r>, window: &std::ops::Range<u64>) -> Round<'r> {
    Round { random_traces: RANDOM_TRACES, traces: 1, window: window.clone(), ..round }
}

/// The random traces of a level.
fn random(ended: &RoundEnded) -> Vec<&TraceTree> {
    let traces = ended.traces.iter().map(|(_, trace)| trace);
    traces.filter(|trace| ended.random.contains_key(&trace.trace_id)).map(|trace| &*trace.tree).collect()
}

/// All traces of its window.
fn window(ended: &RoundEnded) -> Vec<&TraceTree> {
    let traces = ended.traces.iter().map(|(_, trace)| trace);
    traces.filter(|trace| ended.window.contains(&trace.trace_id)).map(|trace| &*trace.tree).collect()
}
