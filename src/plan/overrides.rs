//! Another load for a scenario: `--concurrency`, `--times`, `--duration` and `--rate` replace its runners, `--warm-up` its
//! warm-up, and `--threshold` adds to its criteria.

use std::time::Duration;

use base::complaint::Complaint;
use config::runner::{Constant, ConstantForDuration, DurationOrSeconds, Rate, Rps, Runner, Serial, WarmUp};
use config::scenario::Scenario;
use config::sla::{Sla, Threshold, ThresholdMap};
use terms::threshold::parse;

/// The load that the caller wants instead of the scenario's. What is absent stays as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadShape {
    /// The number of iterations that run at the same time; with a rate, the most that may.
    pub concurrency: Option<u32>,
    /// The number of iterations.
    pub times: Option<u64>,
    /// For how long iterations start.
    pub duration: Option<Duration>,
    /// Iterations per second.
    pub rate_per_s: Option<f64>,
    /// For how long iterations are not measured at the start.
    pub warm_up: Option<Duration>,
    /// Conditions that every workload must meet too, such as `p95 < 200ms`; see [`threshold`].
    pub thresholds: Vec<String>,
}

/// A condition of the command line, if a threshold can be written so.
///
/// # Errors
/// The condition cannot be read.
pub fn threshold(text: &str) -> Result<String, Complaint> {
    let text = text.trim();
    match parse(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(mistake) => Err(Complaint::new(mistake.message, mistake.help)),
    }
}

impl LoadShape {
    /// True if it changes nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The options of the command line that ask for it.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let options = [
            ("--concurrency", self.concurrency.map(|users| users.to_string())),
            ("--times", self.times.map(|times| times.to_string())),
            ("--duration", self.duration.map(|duration| format!("{}s", duration.as_secs_f64()))),
            ("--rate", self.rate_per_s.map(|rate| rate.to_string())),
            ("--warm-up", self.warm_up.map(|lasts| format!("{}s", lasts.as_secs_f64()))),
        ];
        let given = options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
        let thresholds = self.thresholds.iter().map(|one| ["--threshold".to_owned(), one.clone()]);
        given.chain(thresholds).flatten().collect()
    }

    /// Gives every workload this load.
    ///
    /// # Errors
    /// The load does not fit a workload's runner, or contradicts itself.
    pub fn apply(&self, scenario: &mut Scenario) -> Result<(), Complaint> {
        if self.is_empty() {
            return Ok(());
        }
        let single =
            scenario.runner.as_mut().map(|runner| (runner, &mut scenario.warm_up, &mut scenario.sla));
        let several = scenario.workloads.iter_mut().flatten().filter_map(|workload| {
            Some((workload.runner.as_mut()?, &mut workload.warm_up, &mut workload.sla))
        });
        for (runner, warm_up, sla) in single.into_iter().chain(several) {
            add_thresholds(sla, &self.thresholds);
            if self.changes_runners() {
                *runner = self.replace(runner)?;
            }
            if let Some(lasts) = self.warm_up {
                *warm_up = Some(WarmUp::For(lasts));
                continue;
            }
            // A warm-up for a longer load would leave nothing to measure in this one.
            let too_long = match *warm_up {
                Some(WarmUp::For(lasts)) => self.duration.is_some_and(|duration| lasts >= duration),
                Some(WarmUp::Times(times)) => self.times.is_some_and(|all| times >= all),
                None => false,
            };
            if too_long {
                *warm_up = None;
            }
        }
        Ok(())
    }

    fn changes_runners(&self) -> bool {
        let Self { concurrency, times, duration, rate_per_s, warm_up: _, thresholds: _ } = self;
        concurrency.is_some() || times.is_some() || duration.is_some() || rate_per_s.is_some()
    }

    /// The runner with this load.
    ///
    /// # Errors
    /// As [`Self::apply`].
    pub fn replace(&self, runner: &Runner) -> Result<Runner, Complaint> {
        let had = RunnerSettings::of(runner);
        let (times, duration) = self.length(&had);
        let concurrency = self.concurrency.or(had.concurrency);
        let duration = duration.map(DurationOrSeconds);
        if let Some(rate) = self.rate_per_s.map(Rate::Constant).or(had.rate) {
            if times.is_none() && duration.is_none() {
                return Err(no_length("a rate"));
            }
            let max_concurrency = concurrency;
            return Ok(Runner::Rps(Rps { rps: rate, times, duration, max_concurrency, ..had.open }));
        }
        let timeout = had.open.timeout;
        match (times, duration) {
            (Some(_), Some(_)) => Err(Complaint::new(
                "a fixed concurrency ends after a number of iterations or after a time, not after either",
                "give --times or --duration, or add --rate",
            )),
            (None, Some(duration)) => Ok(Runner::ConstantForDuration(ConstantForDuration {
                duration,
                concurrency: concurrency.unwrap_or(1),
                timeout,
            })),
            (Some(times), None) if concurrency.is_none() => Ok(Runner::Serial(Serial { times, timeout })),
            (Some(_), None) => Ok(Runner::Constant(Constant {
                times,
                concurrency,
                timeout,
                max_cpu_count: had.open.max_cpu_count,
            })),
            (None, None) => Err(no_length("a ramp's concurrency is in its stages: another one")),
        }
    }

    /// Times and duration: the caller's, or if neither is given, the runner's.
    fn length(&self, had: &RunnerSettings) -> (Option<u64>, Option<Duration>) {
        match (self.times, self.duration) {
            (None, None) => (had.times, had.duration),
            given => given,
        }
    }
}

/// Adds these conditions to the criteria of a workload.
pub(crate) fn add_thresholds(sla: &mut Option<Sla>, thresholds: &[String]) {
    if thresholds.is_empty() {
        return;
    }
    let added = thresholds.iter().map(|threshold| Threshold {
        written: ThresholdMap { threshold: threshold.clone(), ..ThresholdMap::default() },
        is_map: false,
    });
    sla.get_or_insert_default().thresholds.get_or_insert_default().extend(added);
}

/// The settings of a runner that another one can have too.
struct RunnerSettings {
    concurrency: Option<u32>,
    times: Option<u64>,
    duration: Option<Duration>,
    rate: Option<Rate>,
    /// Everything else of an open model, and the time limit of any runner.
    open: Rps,
}

impl RunnerSettings {
    fn of(runner: &Runner) -> Self {
        let open = Rps {
            rps: Rate::Constant(0.0),
            times: None,
            duration: None,
            max_concurrency: None,
            max_queue: None,
            timeout: None,
            random: None,
            pacing: None,
            max_cpu_count: None,
        };
        let none = Self { concurrency: None, times: None, duration: None, rate: None, open };
        match runner {
            Runner::Serial(serial) => {
                Self { times: Some(serial.times), open: Rps { timeout: serial.timeout, ..open }, ..none }
            }
            Runner::Constant(constant) => Self {
                concurrency: Some(constant.concurrency.unwrap_or(1)),
                times: Some(constant.times.unwrap_or(1)),
                open: Rps { timeout: constant.timeout, max_cpu_count: constant.max_cpu_count, ..open },
                ..none
            },
            Runner::ConstantForDuration(timed) => Self {
                concurrency: Some(timed.concurrency),
                duration: Some(timed.duration.0),
                open: Rps { timeout: timed.timeout, ..open },
                ..none
            },
            Runner::Rps(rps) => Self {
                concurrency: rps.max_concurrency,
                times: rps.times,
                duration: rps.duration.map(|duration| duration.0),
                rate: Some(rps.rps),
                open: *rps,
            },
            Runner::Ramping(ramping) => Self {
                concurrency: ramping.max_concurrency,
                open: Rps {
                    max_queue: ramping.max_queue,
                    timeout: ramping.timeout,
                    random: ramping.random,
                    pacing: ramping.pacing,
                    ..open
                },
                ..none
            },
        }
    }
}

fn no_length(what: &str) -> Complaint {
    Complaint::new(format!("{what} needs a length"), "add --times or --duration")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_replaces_what_the_runner_says() {
        let serial = "{ serial: { times: 5, timeout: 2s } }";
        let constant = "{ constant: { times: 100, concurrency: 4 } }";
        let timed = "{ constant_for_duration: { duration: 10s, concurrency: 3 } }";
        let rps = "{ rps: { rps: 50, duration: 10s, max_concurrency: 9, max_queue: 7 } }";
        let ramp = "{ ramping: { stages: [ { duration: 1s, rps: 5 } ], max_concurrency: 8, timeout: 3s } }";
        let ten = LoadShape { concurrency: Some(10), ..LoadShape::default() };
        let times = LoadShape { times: Some(7), ..LoadShape::default() };
        let lasts = LoadShape { duration: Some(Duration::from_secs(2)), ..LoadShape::default() };
        let rate = LoadShape { rate_per_s: Some(20.0), ..LoadShape::default() };
        for (runner, shape, expected) in [
            (serial, &ten, Ok("constant: { times: 5, concurrency: 10, timeout: 2s }")),
            (serial, &times, Ok("serial: { times: 7, timeout: 2s }")),
            (serial, &lasts, Ok("constant_for_duration: { duration: 2s, concurrency: 1, timeout: 2s }")),
            (serial, &rate, Ok("rps: { rps: 20.0, times: 5, timeout: 2s }")),
            (constant, &ten, Ok("constant: { times: 100, concurrency: 10 }")),
            (constant, &lasts, Ok("constant_for_duration: { duration: 2s, concurrency: 4 }")),
            (constant, &rate, Ok("rps: { rps: 20.0, times: 100, max_concurrency: 4 }")),
            (timed, &times, Ok("constant: { times: 7, concurrency: 3 }")),
            (timed, &rate, Ok("rps: { rps: 20.0, duration: 10s, max_concurrency: 3 }")),
            (rps, &ten, Ok("rps: { rps: 50.0, duration: 10s, max_concurrency: 10, max_queue: 7 }")),
            (rps, &times, Ok("rps: { rps: 50.0, times: 7, max_concurrency: 9, max_queue: 7 }")),
            (rps, &rate, Ok("rps: { rps: 20.0, duration: 10s, max_concurrency: 9, max_queue: 7 }")),
            (ramp, &times, Ok("constant: { times: 7, concurrency: 8, timeout: 3s }")),
            (
                ramp,
                &LoadShape { rate_per_s: Some(2.0), ..lasts.clone() },
                Ok("rps: { rps: 2.0, duration: 2s, max_concurrency: 8, timeout: 3s }"),
            ),
            (ramp, &ten, Err("needs a length")),
            (ramp, &rate, Err("a rate needs a length")),
            (
                constant,
                &LoadShape { times: Some(1), ..lasts.clone() },
                Err("or after a time, not after either"),
            ),
        ] {
            let read: Runner = serde_yaml::from_str(runner).unwrap();
            match (shape.replace(&read), expected) {
                (Ok(made), Ok(text)) => {
                    let wanted: Runner = serde_yaml::from_str(&format!("{{ {text} }}")).unwrap();
                    assert_eq!(
                        serde_json::to_value(&made).unwrap(),
                        serde_json::to_value(&wanted).unwrap(),
                        "{runner} {shape:?}"
                    );
                }
                (Err(complaint), Err(part)) => assert!(complaint.to_string().contains(part), "{complaint}"),
                (made, _) => panic!("{runner} {shape:?}: {made:?}"),
            }
        }
    }
}
