//! Turns a scenario into a round of a comparison: short, and with a warm-up.

use std::time::Duration;

use base::complaint::Complaint;
use config::runner::{ConstantForDuration, DurationOrSeconds, Rate, Runner, WarmUp};
use config::scenario::Scenario;

/// A scenario without a warm-up gets this share of a round as its warm-up: a tenth.
const WARM_UP_SHARE: u32 = 10;

/// Gives every workload this length, if there is one, and a warm-up, if it has none. Then the measured part is made
/// `factor` times as long.
///
/// # Errors
/// A length was given, but a runner's stages already define its length.
pub fn as_round(scenario: &mut Scenario, length: Option<Duration>, factor: f64) -> Result<(), Complaint> {
    let single = scenario.runner.as_mut().map(|runner| (runner, &mut scenario.warm_up));
    let several = scenario.workloads.iter_mut().flatten();
    let several = several.filter_map(|workload| Some((workload.runner.as_mut()?, &mut workload.warm_up)));
    for (runner, warm_up) in single.into_iter().chain(several) {
        apply_length(runner, warm_up, length)?;
        lengthen(runner, factor);
    }
    Ok(())
}

/// Makes the load longer: more iterations, or the same shape over a longer time.
fn lengthen(runner: &mut Runner, factor: f64) {
    if factor <= 1.0 {
        return;
    }
    let more = |times: u64| (times as f64 * factor).ceil() as u64;
    let longer = |lasts: DurationOrSeconds| DurationOrSeconds(lasts.0.mul_f64(factor));
    match runner {
        Runner::Serial(serial) => serial.times = more(serial.times),
        Runner::Constant(constant) => constant.times = Some(more(constant.times.unwrap_or(1))),
        Runner::ConstantForDuration(timed) => timed.duration = longer(timed.duration),
        Runner::Rps(rps) => {
            (rps.times, rps.duration) = (rps.times.map(more), rps.duration.map(longer));
            if let Rate::Steps(steps) = &mut rps.rps {
                let step = steps.duration.unwrap_or(DurationOrSeconds(Duration::from_secs(1)));
                steps.duration = Some(longer(step));
            }
        }
        Runner::Ramping(ramping) => {
            ramping.stages.iter_mut().for_each(|stage| stage.duration = longer(stage.duration));
        }
    }
}

fn apply_length(
    runner: &mut Runner,
    warm_up: &mut Option<WarmUp>,
    length: Option<Duration>,
) -> Result<(), Complaint> {
    if let Some(length) = length {
        let duration = DurationOrSeconds(length);
        let timed = |concurrency, timeout| {
            Runner::ConstantForDuration(ConstantForDuration { duration, concurrency, timeout })
        };
        match runner {
            Runner::Serial(serial) => *runner = timed(1, serial.timeout),
            Runner::Constant(constant) => {
                *runner = timed(constant.concurrency.unwrap_or(1), constant.timeout)
            }
            Runner::ConstantForDuration(constant) => constant.duration = duration,
            Runner::Rps(rps) => (rps.times, rps.duration) = (None, Some(duration)),
            Runner::Ramping(_) => {
                return Err(Complaint::new(
                    "the stages of a ramp define its length",
                    "remove --round, or use another runner",
                ));
            }
        }
        // A warm-up for a longer run would leave no time to measure in this one.
        if matches!(warm_up, Some(WarmUp::For(long)) if *long > length) {
            *warm_up = None;
        }
    }
    if warm_up.is_none() {
        *warm_up = default_warm_up(runner);
    }
    Ok(())
}

fn default_warm_up(runner: &Runner) -> Option<WarmUp> {
    let times =
        |times: u64| Some(times / u64::from(WARM_UP_SHARE)).filter(|times| *times > 0).map(WarmUp::Times);
    let lasts = |duration: DurationOrSeconds| Some(WarmUp::For(duration.0 / WARM_UP_SHARE));
    match runner {
        Runner::Serial(serial) => times(serial.times),
        Runner::Constant(constant) => times(constant.times.unwrap_or(1)),
        Runner::ConstantForDuration(timed) => lasts(timed.duration),
        Runner::Rps(rps) => rps.times.map_or_else(|| rps.duration.and_then(lasts), times),
        // A ramp already begins with a warm-up.
        Runner::Ramping(_) => None,
    }
}
