//! A scenario as a round of a comparison: short, and with a warm-up.

use std::time::Duration;

use super::runner::{ConstantForDuration, DurationOrSeconds, Rate, Runner, WarmUp};
use super::scenario::Scenario;

/// The part of a round that warms up where the scenario does not say: a tenth.
const WARM_UP_SHARE: u32 = 10;

/// Gives every workload this length, if one is asked for, and a warm-up, if it has none. Then what is measured is made
/// `factor` times as long.
///
/// # Errors
/// A runner whose stages a length cannot replace.
pub fn as_round(scenario: &mut Scenario, length: Option<Duration>, factor: f64) -> Result<(), String> {
    if let Some(runner) = &mut scenario.runner {
        one(runner, &mut scenario.warm_up, length)?;
        lengthen(runner, factor);
    }
    for workload in scenario.workloads.iter_mut().flatten() {
        one(&mut workload.runner, &mut workload.warm_up, length)?;
        lengthen(&mut workload.runner, factor);
    }
    Ok(())
}

/// The same load for longer: more iterations, or the same shape stretched.
fn lengthen(runner: &mut Runner, factor: f64) {
    if factor <= 1.0 {
        return;
    }
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count, which saturates"
    )]
    let more = |times: u64| (times as f64 * factor).ceil() as u64;
    let longer = |lasts: DurationOrSeconds| DurationOrSeconds(lasts.0.mul_f64(factor));
    if let Some(serial) = &mut runner.serial {
        serial.times = more(serial.times);
    }
    if let Some(constant) = &mut runner.constant {
        constant.times = Some(more(constant.times.unwrap_or(1)));
    }
    if let Some(timed) = &mut runner.constant_for_duration {
        timed.duration = longer(timed.duration);
    }
    if let Some(rps) = &mut runner.rps {
        (rps.times, rps.duration) = (rps.times.map(more), rps.duration.map(longer));
        if let Rate::Steps(steps) = &mut rps.rps {
            let step = steps.duration.unwrap_or(DurationOrSeconds(Duration::from_secs(1)));
            steps.duration = Some(longer(step));
        }
    }
    if let Some(ramping) = &mut runner.ramping {
        ramping.stages.iter_mut().for_each(|stage| stage.duration = longer(stage.duration));
    }
}

fn one(runner: &mut Runner, warm_up: &mut Option<WarmUp>, length: Option<Duration>) -> Result<(), String> {
    if let Some(length) = length {
        let duration = DurationOrSeconds(length);
        let timed = |concurrency, timeout| Some(ConstantForDuration { duration, concurrency, timeout });
        if let Some(serial) = runner.serial.take() {
            runner.constant_for_duration = timed(1, serial.timeout);
        } else if let Some(constant) = runner.constant.take() {
            runner.constant_for_duration = timed(constant.concurrency.unwrap_or(1), constant.timeout);
        } else if let Some(constant) = &mut runner.constant_for_duration {
            constant.duration = duration;
        } else if let Some(rps) = &mut runner.rps {
            (rps.times, rps.duration) = (None, Some(duration));
        } else {
            return Err(
                "a ramp has the length of its stages: leave --round out, or use another runner".to_owned()
            );
        }
        // What was to warm up a longer run would leave nothing of this one.
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
    if let Some(serial) = &runner.serial {
        times(serial.times)
    } else if let Some(constant) = &runner.constant {
        times(constant.times.unwrap_or(1))
    } else if let Some(timed) = &runner.constant_for_duration {
        lasts(timed.duration)
    } else if let Some(rps) = &runner.rps {
        rps.times.map_or_else(|| rps.duration.and_then(lasts), times)
    } else {
        // A ramp is a warm-up of its own.
        None
    }
}
