//! Whether the service comes back from an overload while a load that it bears goes on, and if not, how far the load has to
//! fall.

use std::time::{Duration, Instant};

use ::capacity::over_time::{GoodEnough, recovered_after_s};
use ::capacity::search::CapacityBounds;
use plan::levels::LevelLoad;
use report::capacity::{LevelInfo, OverloadRecovery, RecoveryTry};

use super::levels::{self, LevelRunner};
use crate::run::RoundEnded;

/// The overload: a multiple of the rate that breaks, and for how long.
const OVERLOAD: f64 = 1.25;
const OVERLOAD_LASTS: Duration = Duration::from_secs(4);
/// The load after it, as shares of the rate that holds: a quarter is left for the backlog, then more.
const AFTER: [f64; 4] = [0.75, 0.5, 0.25, 0.1];
const AFTER_LASTS: Duration = Duration::from_secs(10);
/// What the overload before left is waited for at most this long.
const DRAINS_MAX: Duration = Duration::from_secs(90);
/// As fast again is as fast as at the rate that holds, to this.
const GOOD: f64 = 1.5;
const GOOD_MS: f64 = 3.0;
/// So many more may fail, as a share.
const FAILS_MORE: f64 = 0.05;

/// Overloads the service, and looks how it comes back. `None` where that cannot be seen, or two tries disagree.
pub(super) fn recovery(runner: &mut LevelRunner<'_>, bounds: &CapacityBounds) -> Option<OverloadRecovery> {
    let (holds_per_s, breaks_per_s) = bounds.holds_per_s.zip(bounds.breaks_per_s)?;
    let good = good_enough(&runner.levels, holds_per_s)?;
    let overload_per_s = (breaks_per_s * OVERLOAD).min(runner.options.highest_per_s()).max(breaks_per_s);
    let mut tries: Vec<RecoveryTry> = Vec::new();
    // That it does not come back is seen twice before it is said.
    for share in AFTER[..1].iter().chain(&AFTER) {
        let rate_per_s = holds_per_s * share;
        // What was seen before the time is over is told.
        let Some(ended) = overloaded(runner, overload_per_s, rate_per_s) else { break };
        let recovered_after_s = came_back_after_s(&ended, good);
        tries.push(RecoveryTry { directory: runner.directory_name(), rate_per_s, recovered_after_s });
        if recovered_after_s.is_some() {
            break;
        }
    }
    // Once it did not and once it did: nothing can be said.
    let is_unsure = tries.len() == 2 && tries[1].recovered_after_s.is_some();
    (!tries.is_empty() && !is_unsure).then_some(OverloadRecovery {
        overload_per_s,
        overload_s: OVERLOAD_LASTS.as_secs_f64(),
        tries,
    })
}

/// As good as at the rate that holds.
fn good_enough(levels: &[LevelInfo], holds_per_s: f64) -> Option<GoodEnough> {
    let is_it = |level: &&LevelInfo| level.rate_per_s == Some(holds_per_s);
    let level = levels.iter().rfind(is_it)?;
    let p50_ms = level.p50_ms?;
    Some(GoodEnough {
        p50_ms: (p50_ms * GOOD).max(p50_ms + GOOD_MS),
        failed_share: level.failed_share() + FAILS_MORE,
    })
}

/// Runs an overload and the load after it, without a pause. `None` if there is no time for it, or the service is not as fast
/// as at first before it begins.
fn overloaded(runner: &mut LevelRunner<'_>, overload_per_s: f64, rate_per_s: f64) -> Option<RoundEnded> {
    let lasts = OVERLOAD_LASTS + AFTER_LASTS;
    let is_time = |runner: &LevelRunner<'_>| Instant::now() + lasts < runner.deadline;
    if !is_time(runner)
        || !matches!(runner.drained(DRAINS_MAX), Ok(None | Some((true, _))))
        || !is_time(runner)
    {
        return None;
    }
    let load = levels::load(runner.options, Some(rate_per_s), AFTER_LASTS, false);
    let level = LevelLoad {
        overload: Some((overload_per_s, OVERLOAD_LASTS)),
        length: AFTER_LASTS,
        warm_up: Duration::ZERO,
        ..load
    };
    let ended = runner.run(&level, &|round| round).ok().flatten()?;
    // Of what the load generator could not send nothing can be said.
    ended.results.verdict.invalid.is_empty().then_some(ended)
}

fn came_back_after_s(ended: &RoundEnded, good: GoodEnough) -> Option<f64> {
    let seen = levels::response_series(ended.results.workloads.first()?)?;
    recovered_after_s(&seen, seen.start_s + OVERLOAD_LASTS.as_secs_f64(), good)
}
