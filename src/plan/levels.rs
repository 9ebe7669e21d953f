//! Turns a scenario into a level of a search for its capacity: one arrival rate, or one user after another.

use std::time::Duration;

use base::complaint::Complaint;
use config::reference::DurationText;
use config::runner::{
    ConstantForDuration, DurationOrSeconds, Ramping, Randomness, Rps, Runner, Stage, WarmUp,
};
use config::scenario::Scenario;
use config::sla::{SeverityText, Sla};
use terms::threshold::parse;

use crate::overrides::{LoadShape, add_thresholds};

/// After its warm-up, a level runs at least this long before a threshold ends it.
const DELAY: Duration = Duration::from_secs(1);

/// The load of a level.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelLoad {
    /// Iterations that are due in a second; absent for one user, whose iterations follow each other.
    pub rate_per_s: Option<f64>,
    /// For how long, warm-up included.
    pub length: Duration,
    /// For how long iterations at its start are in no figure.
    pub warm_up: Duration,
    /// A rate before it, and for how long: an overload from which the service is to come back.
    pub overload: Option<(f64, Duration)>,
    /// Whether the level ends as soon as a threshold is certain to break.
    pub ends_early: bool,
    /// Whether arrivals are random, whatever the scenario says: they queue at rates that the service bears.
    pub is_random: bool,
    /// Conditions besides the scenario's, such as `p95 < 200ms`.
    pub thresholds: Vec<String>,
}

/// Gives the scenario's workload this load.
///
/// # Errors
/// The scenario has several workloads, or a rate does not fit its runner.
pub fn as_level(scenario: &mut Scenario, level: &LevelLoad) -> Result<(), Complaint> {
    let single = scenario.runner.as_mut().map(|runner| (runner, &mut scenario.warm_up, &mut scenario.sla));
    let several = scenario.workloads.iter_mut().flatten();
    let several = several.filter_map(|one| Some((one.runner.as_mut()?, &mut one.warm_up, &mut one.sla)));
    let mut workloads: Vec<_> = single.into_iter().chain(several).collect();
    let [(runner, warm_up, sla)] = workloads.as_mut_slice() else {
        return Err(Complaint::new(
            format!("a search for capacity takes one workload, and the scenario has {}", workloads.len()),
            "leave one in a copy of the file; what it does may differ from iteration to iteration (`choice`)",
        ));
    };
    **runner = runner_of(runner, level)?;
    **warm_up = Some(WarmUp::For(level.warm_up)).filter(|_| !level.warm_up.is_zero());
    add_thresholds(sla, &level.thresholds);
    if let Some(sla) = sla.as_mut().filter(|_| level.ends_early) {
        end_early(sla, level.warm_up + DELAY);
    }
    Ok(())
}

/// A runner with this load and the other settings of the scenario's. Virtual users bound no arrivals.
fn runner_of(runner: &Runner, level: &LevelLoad) -> Result<Runner, Complaint> {
    let Some(rate_per_s) = level.rate_per_s else {
        let duration = DurationOrSeconds(level.length);
        let timed = LoadShape { concurrency: Some(1), duration: Some(level.length), ..LoadShape::default() };
        return Ok(match runner {
            Runner::Rps(rps) => Runner::ConstantForDuration(ConstantForDuration {
                duration,
                concurrency: 1,
                timeout: rps.timeout,
            }),
            Runner::Ramping(ramping) => Runner::ConstantForDuration(ConstantForDuration {
                duration,
                concurrency: 1,
                timeout: ramping.timeout,
            }),
            other => timed.replace(other)?,
        });
    };
    let shape =
        LoadShape { rate_per_s: Some(rate_per_s), duration: Some(level.length), ..LoadShape::default() };
    let mut replaced = shape.replace(runner)?;
    if let Runner::Rps(rps) = &mut replaced
        && level.is_random
    {
        rps.random = Some(Randomness::Poisson);
    }
    let was_open = matches!(runner, Runner::Rps(_) | Runner::Ramping(_));
    if let Runner::Rps(rps) = &mut replaced
        && !was_open
    {
        rps.max_concurrency = None;
    }
    Ok(match (replaced, level.overload) {
        (Runner::Rps(rps), Some(overload)) => Runner::Ramping(overloaded(rps, overload, level)),
        (replaced, _) => replaced,
    })
}

/// The rate of a level, after a higher one.
fn overloaded(rps: Rps, (overload_per_s, lasts): (f64, Duration), level: &LevelLoad) -> Ramping {
    let stage =
        |rate_per_s, lasts| Stage { duration: DurationOrSeconds(lasts), concurrency: None, rps: rate_per_s };
    Ramping {
        start: None,
        stages: vec![stage(Some(overload_per_s), lasts), stage(level.rate_per_s, level.length)],
        stepped: Some(true),
        max_concurrency: rps.max_concurrency,
        max_queue: rps.max_queue,
        timeout: rps.timeout,
        random: rps.random,
        pacing: rps.pacing,
    }
}

/// Lets every threshold that can end a load do so.
fn end_early(sla: &mut Sla, delay: Duration) {
    for threshold in sla.thresholds.iter_mut().flatten() {
        let written = &mut threshold.written;
        let warns = written.severity == Some(SeverityText::Warn);
        let can = parse(&written.threshold).is_ok_and(|condition| !condition.metric.is_known_late());
        if can && !warns {
            (written.abort_on_fail, written.delay) = (Some(true), Some(DurationText(delay)));
            threshold.is_map = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(text: &str) -> Scenario {
        serde_yaml::from_str(text).unwrap()
    }

    fn level(rate_per_s: Option<f64>) -> LevelLoad {
        LevelLoad {
            rate_per_s,
            length: Duration::from_secs(12),
            warm_up: Duration::from_secs(2),
            overload: None,
            is_random: false,
            ends_early: true,
            thresholds: vec!["p50 < 1s".to_owned()],
        }
    }

    /// Virtual users do not bound a rate; a bound that the scenario sets for a rate stays.
    #[test]
    fn a_level_replaces_when_iterations_start() {
        for (runner, rate, expected) in [
            (
                "constant: { times: 9, concurrency: 4, timeout: 2s }",
                Some(50.0),
                "rps: {rps: 50.0, duration: 12s, timeout: 2s}",
            ),
            (
                "rps: { rps: 3, times: 9, max_concurrency: 7 }",
                Some(50.0),
                "rps: {rps: 50.0, duration: 12s, max_concurrency: 7}",
            ),
            (
                "rps: { rps: 3, times: 9, timeout: 1s }",
                None,
                "constant_for_duration: {duration: 12s, concurrency: 1, timeout: 1s}",
            ),
            ("serial: { times: 9 }", None, "constant_for_duration: {duration: 12s, concurrency: 1}"),
        ] {
            let mut changed = scenario(&format!(
                "title: t\nrunner: {{ {runner} }}\niteration: [{{ get: / }}]\nsla: {{ thresholds: [p95 < 1s, 'count(trace \"db\") < 9'] }}\n"
            ));
            as_level(&mut changed, &level(rate)).unwrap();
            let expected =
                scenario(&format!("title: t\nrunner: {{ {expected} }}\niteration: [{{ get: / }}]\n"));
            assert_eq!(
                serde_json::to_value(&changed.runner).unwrap(),
                serde_json::to_value(&expected.runner).unwrap(),
                "{runner}"
            );
            let thresholds = changed.sla.unwrap().thresholds.unwrap();
            let ends: Vec<_> = thresholds.iter().map(|one| one.written.abort_on_fail).collect();
            assert_eq!(ends, [Some(true), None, Some(true)], "traces are read after the load");
        }
    }

    #[test]
    fn several_workloads_are_refused() {
        let two = "title: t\nworkloads:\n  - { name: a, runner: { serial: { times: 1 } }, iteration: [{ get: / }] }\n  \
                   - { name: b, runner: { serial: { times: 1 } }, iteration: [{ get: / }] }\n";
        let refused = as_level(&mut scenario(two), &level(Some(50.0))).unwrap_err();
        assert!(refused.what.contains("has 2"), "{}", refused.what);
    }

    /// Random arrivals, whatever the scenario says.
    #[test]
    fn a_level_may_have_random_arrivals() {
        for runner in ["rps: { rps: 5, duration: 9s }", "constant: { times: 9 }"] {
            let mut scenario =
                scenario(&format!("title: t\nrunner: {{ {runner} }}\niteration: [{{ get: / }}]\n"));
            as_level(&mut scenario, &LevelLoad { is_random: true, ..level(Some(50.0)) }).unwrap();
            let Some(Runner::Rps(rps)) = scenario.runner else { panic!("{:?}", scenario.runner) };
            assert_eq!(rps.random, Some(Randomness::Poisson));
        }
    }

    /// An overload comes before the rate, in the same load.
    #[test]
    fn a_level_may_begin_with_an_overload() {
        let mut changed = scenario(
            "title: t\nrunner: { rps: { rps: 5, duration: 9s, timeout: 1s } }\niteration: [{ get: / }]\n",
        );
        let overload = Some((80.0, Duration::from_secs(4)));
        as_level(&mut changed, &LevelLoad { overload, ..level(Some(50.0)) }).unwrap();
        let stages = "stages: [{ rps: 80.0, duration: 4s }, { rps: 50.0, duration: 12s }]";
        let expected = scenario(&format!(
            "title: t\nrunner: {{ ramping: {{ stepped: true, timeout: 1s, {stages} }} }}\niteration: [{{ get: / }}]\n"
        ));
        assert_eq!(
            serde_json::to_value(&changed.runner).unwrap(),
            serde_json::to_value(&expected.runner).unwrap()
        );
    }
}
