//! When iterations start: Rally's runners, resolved into one of two models. No clock is read here.
//!
//! A closed model has virtual users. Each starts its next iteration when its last one ends. An open model has arrivals.
//! Each is due at a fixed time, even if earlier ones are late.

use std::time::Duration;

use serde_json::{Map, Value, json};

use base::complaint::Complaint;
use base::units::DURATION_MAX;

use super::poisson;
use super::shape::{Arrivals, Concurrency, LinearSegment};
use ::config::runner as config;

/// The time limit of an iteration if the runner has no `timeout`: no run may hang forever.
pub const ITERATION_TIMEOUT: Duration = Duration::from_secs(600);
/// How many arrivals may wait if the runner has no `max_queue`.
pub const QUEUE_MAX: u32 = 100_000;
const STEPS_MAX: f64 = 10_000.0;
const STAGES_MAX: usize = 10_000;
const USERS_MAX: f64 = 100_000.0;

#[derive(Clone, Debug)]
pub struct Runner {
    /// When iterations start, including the warm-up.
    pub model: Model,
    /// The load before the measured part.
    pub warm_up: Option<config::WarmUp>,
    /// The time limit of each iteration.
    pub timeout: Duration,
    /// The most threads that make the load, if it says so.
    pub workers_max: Option<u32>,
    name: &'static str,
    settings: Value,
}

/// What decides when an iteration starts.
#[derive(Clone, Debug)]
pub enum Model {
    /// Virtual users: each starts its next iteration when its last one has ended.
    Closed(ClosedModel),
    /// The clock: each iteration has a due time.
    Open(OpenModel),
}

/// Virtual users.
#[derive(Clone, Debug)]
pub struct ClosedModel {
    /// The number of users over time, including the warm-up.
    pub users: Concurrency,
    /// The number of measured iterations, if it is fixed.
    pub times: Option<u64>,
    /// For how long measured iterations start, if this is fixed.
    pub duration: Option<Duration>,
}

/// Arrivals.
#[derive(Clone, Debug)]
pub struct OpenModel {
    /// The due times, including the warm-up.
    pub arrivals: Arrivals,
    /// True if the scenario fixes the duration instead of the number of arrivals.
    pub timed: bool,
    /// How many may run at the same time; `None` means as many as the system allows.
    pub concurrency_max: Option<u32>,
    /// How many more may wait.
    pub queue_max: u32,
    /// True to start within some microseconds of the due time, at the cost of processor time.
    pub precise: bool,
    /// True if arrivals come at random; see [`Runner::at_random`].
    pub random: bool,
    /// The number of arrivals that the scenario sets, without the warm-up.
    times: Option<u64>,
}

/// A fault of a runner: its key, what is wrong, and the remedy.
#[derive(Debug, PartialEq, Eq)]
pub struct RunnerFault {
    /// The path of keys from the runner to the fault; items of lists are numbers.
    pub path: Vec<String>,
    /// What is wrong, and what to do.
    pub complaint: Complaint,
}

fn fault(path: &[&str], what: impl Into<String>, remedy: impl Into<String>) -> RunnerFault {
    let path = path.iter().map(|key| (*key).to_owned()).collect();
    RunnerFault { path, complaint: Complaint::new(what, remedy) }
}

impl Runner {
    /// The planned number of iterations, including the warm-up. A rate over a fixed time also gives a number; `None` if
    /// the number depends on how long iterations take.
    #[must_use]
    pub fn planned(&self) -> Option<u64> {
        match &self.model {
            Model::Open(open) => Some(open.arrivals.total()),
            Model::Closed(_) => self.times(),
        }
    }

    /// The runner that a scenario asks for.
    ///
    /// # Errors
    /// Its settings are incomplete or contradictory.
    pub fn from_config(
        runner: &config::Runner,
        warm_up: Option<config::WarmUp>,
    ) -> Result<Self, RunnerFault> {
        let (model, timeout, settings) = match runner {
            config::Runner::Serial(serial) => {
                let model = closed(Concurrency::level(1), Some(serial.times), None);
                (model, serial.timeout, json!({ "times": serial.times }))
            }
            config::Runner::Constant(constant) => {
                let times = constant.times.unwrap_or(1);
                // As in Rally: no more virtual users than iterations.
                let most = u32::try_from(times).unwrap_or(u32::MAX);
                let users = constant.concurrency.unwrap_or(1).min(most);
                let model = closed(Concurrency::level(users), Some(times), None);
                (model, constant.timeout, json!({ "times": times, "concurrency": users }))
            }
            config::Runner::ConstantForDuration(timed) => {
                let (duration, users) = (timed.duration.0, timed.concurrency);
                let model = closed(Concurrency::level(users), None, Some(duration));
                let settings = json!({ "duration": duration.as_secs_f64(), "concurrency": users });
                (model, timed.timeout, settings)
            }
            config::Runner::Rps(rps) => {
                let (open, settings) = arrivals_of(rps)?;
                (Model::Open(open), rps.timeout, settings)
            }
            config::Runner::Ramping(ramping) => {
                let (model, settings) = ramp(ramping)?;
                (model, ramping.timeout, settings)
            }
        };
        let name = runner.key();
        let timeout = timeout.map_or(ITERATION_TIMEOUT, |timeout| timeout.0);
        let workers_max = match runner {
            config::Runner::Constant(constant) => constant.max_cpu_count,
            config::Runner::Rps(rps) => rps.max_cpu_count,
            _ => None,
        };
        Ok(Self { model: warmed(model, warm_up)?, warm_up, timeout, workers_max, name, settings })
    }

    /// A single iteration with this time limit.
    #[must_use]
    pub fn once(timeout: Duration) -> Self {
        let model =
            Model::Closed(ClosedModel { users: Concurrency::level(1), times: Some(1), duration: None });
        let settings = json!({ "times": 1 });
        Self { model, warm_up: None, timeout, workers_max: None, name: "serial", settings }
    }

    /// Draws the arrivals of a runner with `random: poisson` from a seed. Others stay as they are.
    pub fn at_random(&mut self, seed: u64) {
        if let Model::Open(open) = &mut self.model
            && open.random
        {
            open.arrivals = open.arrivals.at_random(seed, open.times);
        }
    }

    /// How many iterations may run at the same time; `None` means as many as the system allows.
    #[must_use]
    pub fn concurrency(&self) -> Option<u32> {
        match &self.model {
            Model::Closed(closed) => Some(closed.users.users_max()),
            Model::Open(open) => open.concurrency_max,
        }
    }

    /// The number of iterations, if it is fixed, including those of a warm-up with `times`.
    #[must_use]
    pub fn times(&self) -> Option<u64> {
        match (&self.model, self.warm_up) {
            (Model::Open(open), _) => Some(open.arrivals.total()).filter(|_| !open.timed),
            (Model::Closed(_), Some(config::WarmUp::For(_))) => None,
            (Model::Closed(closed), Some(config::WarmUp::Times(warm_up))) => {
                closed.times.map(|times| times.saturating_add(warm_up))
            }
            (Model::Closed(closed), None) => closed.times,
        }
    }

    /// For how long iterations start, if this is fixed, including the warm-up.
    #[must_use]
    pub fn duration(&self) -> Option<Duration> {
        match (&self.model, self.warm_up) {
            (Model::Open(open), _) => Some(open.arrivals.lasts()).filter(|_| open.timed),
            (Model::Closed(_), Some(config::WarmUp::Times(_))) => None,
            (Model::Closed(closed), Some(config::WarmUp::For(warm_up))) => {
                closed.duration.map(|duration| duration + warm_up)
            }
            (Model::Closed(closed), None) => closed.duration,
        }
    }

    /// The runner as results show it, with Rally's names and in seconds.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let mut settings = self.settings.clone();
        settings["timeout"] = self.timeout.as_secs_f64().into();
        if let Some(workers) = self.workers_max {
            settings["max_cpu_count"] = workers.into();
        }
        match self.warm_up {
            Some(config::WarmUp::For(duration)) => settings["warm_up"] = duration.as_secs_f64().into(),
            Some(config::WarmUp::Times(times)) => settings["warm_up"] = json!({ "times": times }),
            None => {}
        }
        Map::from_iter([(self.name.to_owned(), settings)])
    }
}

impl Runner {
    /// The runner of [`Runner::to_json`], as results have it; `None` if it is of another build, or was edited. Arrivals at
    /// random are not drawn.
    #[must_use]
    pub fn from_json(runner: &Map<String, Value>) -> Option<Self> {
        let mut runner = runner.clone();
        let settings = runner.values_mut().next()?.as_object_mut()?;
        let warm_up = match settings.remove("warm_up") {
            Some(Value::Number(seconds)) => Some(config::WarmUp::For(
                Duration::try_from_secs_f64(seconds.as_f64()?).ok().filter(|lasts| *lasts <= DURATION_MAX)?,
            )),
            Some(times) => Some(serde_json::from_value(times).ok()?),
            None => None,
        };
        // Users of a stage are written as a rate would be.
        let stages = settings.get_mut("stages").and_then(Value::as_array_mut);
        for users in stages.into_iter().flatten().filter_map(|stage| stage.get_mut("concurrency")) {
            *users = (users.as_f64()?.clamp(0.0, USERS_MAX) as u64).into();
        }
        let runner: config::Runner = serde_json::from_value(Value::Object(runner)).ok()?;
        Self::from_config(&runner, warm_up).ok()
    }
}

fn closed(users: Concurrency, times: Option<u64>, duration: Option<Duration>) -> Model {
    Model::Closed(ClosedModel { users, times, duration })
}

fn warmed(mut model: Model, warm_up: Option<config::WarmUp>) -> Result<Model, RunnerFault> {
    match (&mut model, warm_up) {
        (_, None) => {}
        (Model::Closed(closed), Some(warm_up)) if !closed.users.is_level() => {
            let at_start = closed.users.users(Duration::ZERO);
            let config::WarmUp::For(lasts) = warm_up else {
                return Err(fault(
                    &["warm_up"],
                    "a warm-up of a number of iterations before a ramp of users",
                    "write how long it lasts, such as 10s",
                ));
            };
            if at_start == 0 {
                return Err(no_load_to_warm_up());
            }
            closed.users = closed.users.with_warm_up(lasts);
        }
        (Model::Closed(_), Some(_)) => {}
        (Model::Open(open), Some(warm_up)) => {
            let warmed = match warm_up {
                config::WarmUp::For(lasts) => open.arrivals.with_warm_up(Some(lasts), 0),
                config::WarmUp::Times(times) => open.arrivals.with_warm_up(None, times),
            };
            open.arrivals = warmed.ok_or_else(no_load_to_warm_up)?;
        }
    }
    Ok(model)
}

fn no_load_to_warm_up() -> RunnerFault {
    fault(
        &["warm_up"],
        "a warm-up has the load of the start, which is zero here",
        "remove `warm_up`, or give the ramp a `start`",
    )
}

fn arrivals_of(rps: &config::Rps) -> Result<(OpenModel, Value), RunnerFault> {
    let (segments, rate) = match rps.rps {
        config::Rate::Constant(rate) => {
            above_zero(rate, &["rps"], "rps")?;
            (vec![LinearSegment::level(f64::INFINITY, rate)], json!(rate))
        }
        config::Rate::Steps(steps) => (rate_steps(&steps)?, steps_json(&steps)),
    };
    let duration = rps.duration.map(|duration| duration.0);
    if rps.times.is_none() && duration.is_none() {
        return Err(fault(&[], "`rps` has neither `times` nor `duration`", "add one of them"));
    }
    let arrivals = Arrivals::new(&segments, rps.times, duration);
    let mut settings = json!({ "rps": rate });
    if let Some(times) = rps.times {
        settings["times"] = times.into();
    }
    if let Some(duration) = duration {
        settings["duration"] = duration.as_secs_f64().into();
    }
    let open = OpenModel {
        arrivals,
        timed: rps.times.is_none(),
        concurrency_max: rps.max_concurrency,
        queue_max: rps.max_queue.unwrap_or(QUEUE_MAX),
        precise: rps.pacing == Some(config::Pacing::Precise),
        random: rps.random.is_some(),
        times: rps.times,
    };
    bounded(&open)?;
    open_settings(&open, &mut settings);
    Ok((open, settings))
}

fn open_settings(open: &OpenModel, settings: &mut Value) {
    if let Some(most) = open.concurrency_max {
        settings["max_concurrency"] = most.into();
    }
    settings["max_queue"] = open.queue_max.into();
    if open.precise {
        settings["pacing"] = "precise".into();
    }
    if open.random {
        settings["random"] = "poisson".into();
    }
}

/// Arrivals at random are added up before the load.
fn bounded(open: &OpenModel) -> Result<(), RunnerFault> {
    if open.random && open.arrivals.total() > poisson::ARRIVALS_MAX / 2 {
        let most = poisson::ARRIVALS_MAX / 2;
        let what = format!("more than {most} arrivals at random");
        return Err(fault(&["random"], what, "make the load shorter, or split it into workloads"));
    }
    Ok(())
}

/// As in Rally: a rate that rises by `step` after each `duration`, up to `end`.
fn rate_steps(steps: &config::Steps) -> Result<Vec<LinearSegment>, RunnerFault> {
    above_zero(steps.start, &["rps", "start"], "start")?;
    if steps.end < steps.start {
        let remedy = "write an `end` of at least `start`, or use `ramping` to go down";
        return Err(fault(&["rps", "end"], "`end` is below `start`", remedy));
    }
    let lasts_s = step_lasts(steps).as_secs_f64();
    if lasts_s == 0.0 {
        return Err(fault(&["rps", "duration"], "`duration` is zero", "give it a length, such as 5s"));
    }
    if steps.end == steps.start {
        return Ok(vec![LinearSegment::level(f64::INFINITY, steps.end)]);
    }
    above_zero(steps.step, &["rps", "step"], "step")?;
    let count = ((steps.end - steps.start) / steps.step - 1e-9).ceil();
    if count > STEPS_MAX {
        let message = format!("more than {STEPS_MAX} steps");
        return Err(fault(&["rps", "step"], message, "write a larger `step`, or use `ramping`"));
    }
    let below = (0..count as u32)
        .map(|step| LinearSegment::level(lasts_s, steps.start + steps.step * f64::from(step)));
    Ok(below.chain([LinearSegment::level(f64::INFINITY, steps.end)]).collect())
}

fn step_lasts(steps: &config::Steps) -> Duration {
    steps.duration.map_or(Duration::from_secs(1), |duration| duration.0)
}

fn steps_json(steps: &config::Steps) -> Value {
    let duration = step_lasts(steps).as_secs_f64();
    json!({ "start": steps.start, "end": steps.end, "step": steps.step, "duration": duration })
}

fn above_zero(value: f64, path: &[&str], name: &str) -> Result<(), RunnerFault> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    let remedy = "write a number of iterations a second, such as 10";
    Err(fault(path, format!("`{name}` must be above 0"), remedy))
}

/// The stages of one quantity.
fn ramp(ramping: &config::Ramping) -> Result<(Model, Value), RunnerFault> {
    if ramping.stages.len() > STAGES_MAX {
        return Err(fault(&["stages"], format!("more than {STAGES_MAX} stages"), "write longer ones"));
    }
    let rates = ramping.stages.iter().any(|stage| stage.rps.is_some());
    let quantity = if rates { "rps" } else { "concurrency" };
    let start = ramping.start.unwrap_or(0.0);
    let stepped = ramping.stepped.unwrap_or(false);
    let (mut segments, mut list, mut before) = (Vec::new(), Vec::new(), start);
    for (index, stage) in ramping.stages.iter().enumerate() {
        let lasts_s = stage.duration.0.as_secs_f64();
        let to = stage_value(stage, index, rates)?;
        // A stage of zero length is a jump.
        if lasts_s > 0.0 {
            segments.push(if stepped {
                LinearSegment::level(lasts_s, to)
            } else {
                LinearSegment { lasts_s, from: before, to }
            });
        }
        before = to;
        list.push(json!({ "duration": lasts_s, quantity: to }));
    }
    let mut settings = json!({ "start": start, "stages": list, "stepped": stepped });
    if !rates {
        return Ok((ramp_of_users(ramping, start, &segments)?, settings));
    }
    let arrivals = Arrivals::new(&segments, None, None);
    if arrivals.total() == 0 {
        return Err(fault(&["stages"], "no iteration would ever start", "write a stage with a rate above 0"));
    }
    let open = OpenModel {
        arrivals,
        timed: true,
        concurrency_max: ramping.max_concurrency,
        queue_max: ramping.max_queue.unwrap_or(QUEUE_MAX),
        precise: ramping.pacing == Some(config::Pacing::Precise),
        random: ramping.random.is_some(),
        times: None,
    };
    bounded(&open)?;
    open_settings(&open, &mut settings);
    Ok((Model::Open(open), settings))
}

fn stage_value(stage: &config::Stage, index: usize, rates: bool) -> Result<f64, RunnerFault> {
    let index = index.to_string();
    let at = |key| ["stages", index.as_str(), key];
    match (stage.concurrency, stage.rps) {
        (Some(users), None) if !rates => Ok(f64::from(users)),
        (None, Some(rate)) => Ok(rate),
        (None, None) => {
            let message = "a stage without `concurrency` and `rps`";
            Err(fault(&["stages", &index], message, "add one of them"))
        }
        (Some(_), _) => Err(fault(
            &at("concurrency"),
            "`concurrency` among stages of `rps`",
            "use one of the two in all stages, or two workloads",
        )),
    }
}

fn ramp_of_users(
    ramping: &config::Ramping,
    start: f64,
    segments: &[LinearSegment],
) -> Result<Model, RunnerFault> {
    let of_rates = [
        ("max_concurrency", ramping.max_concurrency.is_some()),
        ("max_queue", ramping.max_queue.is_some()),
        ("pacing", ramping.pacing.is_some()),
        ("random", ramping.random.is_some()),
    ];
    if let Some((key, _)) = of_rates.iter().find(|(_, there)| *there) {
        let message = format!("`{key}` has no meaning for stages of `concurrency`");
        return Err(fault(&[key], message, "remove it, or use `rps`"));
    }
    if start.fract() != 0.0 || start > USERS_MAX {
        let remedy = format!("write a whole number up to {USERS_MAX}");
        return Err(fault(&["start"], "`start` is not a number of virtual users", remedy));
    }
    let users = Concurrency::new(segments);
    if users.users_max() == 0 {
        let remedy = "write a stage with a concurrency above 0";
        return Err(fault(&["stages"], "there would never be any virtual users", remedy));
    }
    let lasts_s = segments.iter().map(|segment| segment.lasts_s).sum();
    Ok(closed(users, None, Some(Duration::from_secs_f64(lasts_s))))
}
