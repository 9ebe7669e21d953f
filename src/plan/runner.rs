//! When iterations start, as resolved: pure functions of the scenario, no clock.

use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::config::scenario;

/// How long an iteration may take when the runner names no timeout; no run may hang for ever.
pub const ITERATION_TIMEOUT: Duration = Duration::from_secs(600);

/// A runner.
#[derive(Clone, Copy, Debug)]
pub struct Runner {
    /// Its kind with its settings.
    pub kind: Kind,
    /// The longest that one iteration may take.
    pub timeout: Duration,
}

/// Rally's runners.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `times` iterations one after another.
    Serial {
        /// How many.
        times: u64,
    },
    /// `times` iterations, `concurrency` at a time.
    Constant {
        /// How many.
        times: u64,
        /// How many at a time.
        concurrency: u32,
    },
    /// `concurrency` iterations at a time while `duration` lasts.
    ConstantForDuration {
        /// For how long iterations start.
        duration: Duration,
        /// How many at a time.
        concurrency: u32,
    },
}

impl Runner {
    /// The runner that a scenario asks for.
    ///
    /// # Errors
    /// None of the kinds, or several.
    pub fn from_config(config: &scenario::Runner) -> Result<Self, String> {
        let (kind, timeout) = match (config.serial, config.constant, config.constant_for_duration) {
            (Some(serial), None, None) => (Kind::Serial { times: serial.times }, serial.timeout),
            (None, Some(constant), None) => {
                let times = constant.times.unwrap_or(1);
                let concurrency = constant.concurrency.unwrap_or(1);
                // As in Rally: no more virtual users than iterations.
                (
                    Kind::Constant {
                        times,
                        concurrency: concurrency.min(u32::try_from(times).unwrap_or(u32::MAX)),
                    },
                    constant.timeout,
                )
            }
            (None, None, Some(timed)) => (
                Kind::ConstantForDuration { duration: timed.duration.0, concurrency: timed.concurrency },
                timed.timeout,
            ),
            _ => {
                return Err(
                    "more than one runner, or none; write one of serial, constant, constant_for_duration"
                        .to_owned(),
                );
            }
        };
        Ok(Self { kind, timeout: timeout.map_or(ITERATION_TIMEOUT, |timeout| timeout.0) })
    }

    /// How many iterations run at a time.
    #[must_use]
    pub fn concurrency(&self) -> u32 {
        match self.kind {
            Kind::Serial { .. } => 1,
            Kind::Constant { concurrency, .. } | Kind::ConstantForDuration { concurrency, .. } => concurrency,
        }
    }

    /// How many iterations there are, if that is settled beforehand.
    #[must_use]
    pub fn times(&self) -> Option<u64> {
        match self.kind {
            Kind::Serial { times } | Kind::Constant { times, .. } => Some(times),
            Kind::ConstantForDuration { .. } => None,
        }
    }

    /// For how long iterations start, if that is settled beforehand.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        if let Kind::ConstantForDuration { duration, .. } = self.kind { Some(duration) } else { None }
    }

    /// The runner as it stands in results, Rally's names and seconds.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let timeout = self.timeout.as_secs_f64();
        let (name, settings) = match self.kind {
            Kind::Serial { times } => ("serial", json!({ "times": times, "timeout": timeout })),
            Kind::Constant { times, concurrency } => {
                ("constant", json!({ "times": times, "concurrency": concurrency, "timeout": timeout }))
            }
            Kind::ConstantForDuration { duration, concurrency } => (
                "constant_for_duration",
                json!({ "duration": duration.as_secs_f64(), "concurrency": concurrency, "timeout": timeout }),
            ),
        };
        Map::from_iter([(name.to_owned(), settings)])
    }
}
