//! The part of a scenario that says when iterations start: Rally's runners, ramps and the warm-up.

use crate::notation::{schema, text_or_number, written_as_its_value};
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use base::complaint::Complaint;
use text::digits;

use super::one_of::one_of;
use super::reference::DurationText;

/// The highest rate that a scenario can ask for, in iterations per second.
pub const RATE_PER_S_MAX: f64 = 1_000_000.0;

/// A rate in iterations per second: `400`, `400/s`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateText(pub f64);

impl RateText {
    /// The `format` in the schema.
    pub const FORMAT: &'static str = "bench-rate";

    /// Reads a text such as `400/s`.
    ///
    /// # Errors
    /// How to write it.
    pub fn parse(text: &str) -> Result<Self, Complaint> {
        let number = text.trim().trim_end_matches("/s").trim_end().parse::<f64>().ok();
        let rate = number.filter(|rate| *rate > 0.0 && *rate <= RATE_PER_S_MAX);
        rate.map(Self).ok_or_else(|| {
            Complaint::new(
                format!("`{}` is no rate", text.trim()),
                "write a number of iterations per second, up to 1000000, such as 400/s",
            )
        })
    }
}

impl<'de> Deserialize<'de> for RateText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&text_or_number(deserializer)?).map_err(de::Error::custom)
    }
}

impl Serialize for RateText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

schema!(RateText, "RateText", |_| json_schema!({
    "description": "Iterations per second: 400, or 400/s.",
    "anyOf": [
        { "type": "number", "exclusiveMinimum": 0, "maximum": RATE_PER_S_MAX },
        { "type": "string", "format": Self::FORMAT, "pattern": "^\\s*[0-9.]+\\s*(/s)?\\s*$" }
    ]
}));

one_of! {
    /// Exactly one of Rally's runners, or `ramping`.
    pub enum Runner {
        /// Iterations one after another.
        "serial" => Serial(Serial),
        /// A fixed number of iterations at a fixed concurrency.
        "constant" => Constant(Constant),
        /// A fixed concurrency for a fixed time.
        "constant_for_duration" => ConstantForDuration(ConstantForDuration),
        /// A fixed or stepped arrival rate, in iterations per second, however long each iteration takes.
        "rps" => Rps(Rps),
        /// A concurrency or an arrival rate that changes in stages.
        "ramping" => Ramping(Ramping),
    }
}

/// Iterations one after another.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Serial {
    /// The number of iterations.
    #[schemars(range(min = 1))]
    pub times: u64,
    /// The time limit of each iteration (default 10m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationOrSeconds>,
}

/// A fixed number of iterations at a fixed concurrency.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// The number of iterations (default 1).
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The number of iterations that run at the same time (default 1).
    #[schemars(range(min = 1, max = 100_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// The time limit of each iteration (default 10m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationOrSeconds>,
    /// The most threads that make this load (default: all of `--workers`). Rally counts processes.
    #[schemars(range(min = 1, max = 1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cpu_count: Option<u32>,
}

/// A fixed concurrency for a fixed time.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConstantForDuration {
    /// For how long new iterations start.
    pub duration: DurationOrSeconds,
    /// The number of iterations that run at the same time.
    #[schemars(range(min = 1, max = 100_000))]
    pub concurrency: u32,
    /// The time limit of each iteration (default 10m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationOrSeconds>,
}

/// An arrival rate. The due time of an iteration never depends on how long other iterations take.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rps {
    /// Iterations per second: a number, or a rate that rises in steps.
    pub rps: Rate,
    /// The number of iterations. At least one of `times` and `duration` is required; with both, the load ends at
    /// whichever is reached first.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// For how long iterations become due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<DurationOrSeconds>,
    /// The most iterations that may run at the same time (default: as many as the system's limits allow).
    #[schemars(range(min = 1, max = 100_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    /// How many due iterations may wait when `max_concurrency` is reached. Any more are dropped (default 100000).
    #[schemars(range(max = 10_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queue: Option<u32>,
    /// The time limit of each iteration (default 10m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationOrSeconds>,
    /// `poisson`: arrivals come at random with this mean rate, as from many independent users. By default, they come at
    /// equal intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random: Option<Randomness>,
    /// How precisely iterations start at their due times (default `timer`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Pacing>,
    /// The most threads that make this load (default: all of `--workers`). Rally counts processes.
    #[schemars(range(min = 1, max = 1024))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_cpu_count: Option<u32>,
}

/// A concurrency or an arrival rate that changes in stages. All stages must use the same one of the two.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ramping {
    /// The concurrency or rate at the start of the first stage (default 0).
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<f64>,
    /// The stages, in order.
    #[schemars(length(min = 1))]
    pub stages: Vec<Stage>,
    /// `true` holds each stage at its value. `false` (the default) approaches the value linearly during the stage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stepped: Option<bool>,
    /// For stages with `rps`: the most iterations that may run at the same time (default: as many as the system's
    /// limits allow).
    #[schemars(range(min = 1, max = 100_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    /// For stages with `rps`: how many due iterations may wait when `max_concurrency` is reached. Any more are dropped
    /// (default 100000).
    #[schemars(range(max = 10_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queue: Option<u32>,
    /// The time limit of each iteration (default 10m).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationOrSeconds>,
    /// For stages with `rps`: `poisson` lets arrivals come at random. By default, they come at equal intervals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub random: Option<Randomness>,
    /// For stages with `rps`: how precisely iterations start at their due times (default `timer`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Pacing>,
}

/// A stage of a ramp. It has either `concurrency` or `rps`.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// How long the stage lasts.
    pub duration: DurationOrSeconds,
    /// The concurrency at the end of the stage; with `stepped`, during the whole stage.
    #[schemars(range(max = 100_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Iterations per second at the end of the stage; with `stepped`, during the whole stage.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rps: Option<f64>,
}

/// How arrivals vary.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Randomness {
    /// The gaps between arrivals are exponentially distributed.
    Poisson,
}

schema!(Randomness, "Randomness", |_| json_schema!({ "type": "string", "enum": ["poisson"] }));

/// How precisely iterations start at their due times.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pacing {
    /// With a system timer: within about a tenth of a millisecond, at no cost.
    Timer,
    /// With a timer and a short busy-wait: within about ten microseconds, at the cost of processor time.
    Precise,
}

schema!(Pacing, "Pacing", |_| json_schema!({
    "description": "`timer` (the default) uses a system timer. `precise` starts iterations within about ten \
        microseconds, but uses processor time.",
    "type": "string",
    "enum": ["timer", "precise"]
}));

/// Iterations per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// A constant rate.
    Constant(f64),
    /// A rate that rises in steps.
    Steps(Steps),
}

/// A rate that rises in steps.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// The rate of the first step.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub start: f64,
    /// The highest rate; the load stays there until it ends.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub end: f64,
    /// How much the rate rises with each step.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub step: f64,
    /// How long each step lasts (default 1 second).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<DurationOrSeconds>,
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match digits::rounded(deserializer)? {
            Value::Number(number) => Ok(Self::Constant(number.as_f64().unwrap_or(f64::NAN))),
            map @ Value::Object(_) => Steps::deserialize(map).map(Self::Steps).map_err(D::Error::custom),
            _ => Err(D::Error::custom("expected a number, or {start, end, step, duration}")),
        }
    }
}

written_as_its_value!(Rate: Constant, Steps);

schema!(Rate, "Rate", |generator| {
    let steps = generator.subschema_for::<Steps>();
    json_schema!({
        "description": "Iterations per second: a number, or {start, end, step, duration}.",
        "anyOf": [{ "type": "number", "minimum": 0, "maximum": RATE_PER_S_MAX }, steps]
    })
});

/// Load before the measured part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WarmUp {
    /// Iterations that start (or are due) within this time.
    For(std::time::Duration),
    /// This many iterations.
    Times(u64),
}

/// A warm-up of a number of iterations.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
struct WarmUpTimes {
    /// The number of iterations.
    #[schemars(range(min = 1))]
    times: u64,
}

impl<'de> Deserialize<'de> for WarmUp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match digits::rounded(deserializer)? {
            Value::String(text) => {
                base::units::parse_duration(&text).map(Self::For).map_err(D::Error::custom)
            }
            map @ Value::Object(_) => WarmUpTimes::deserialize(map)
                .map(|warm_up| Self::Times(warm_up.times))
                .map_err(D::Error::custom),
            _ => Err(D::Error::custom("expected a duration such as 10s, or {times: 100}")),
        }
    }
}

impl Serialize for WarmUp {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Self::For(lasts) => DurationText(lasts).serialize(serializer),
            Self::Times(times) => WarmUpTimes { times }.serialize(serializer),
        }
    }
}

schema!(WarmUp, "WarmUp", |generator| {
    let (text, times) = (generator.subschema_for::<DurationText>(), generator.subschema_for::<WarmUpTimes>());
    json_schema!({
        "description": "A duration such as 10s, or {times: 100}.",
        "anyOf": [text, times]
    })
});

/// A duration in keys that Rally has too: a number of seconds, or a text with a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DurationOrSeconds(pub std::time::Duration);

impl<'de> Deserialize<'de> for DurationOrSeconds {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match digits::rounded(deserializer)? {
            Value::Number(number) => {
                let seconds = number.as_f64().unwrap_or(-1.0);
                let most = base::units::DURATION_MAX.as_secs_f64();
                if !(0.0..=most).contains(&seconds) {
                    return Err(D::Error::custom("seconds must be between 0 and 30 days"));
                }
                Ok(Self(std::time::Duration::from_secs_f64(seconds)))
            }
            Value::String(text) => base::units::parse_duration(&text).map(Self).map_err(D::Error::custom),
            _ => Err(D::Error::custom("expected seconds or a duration such as 30s")),
        }
    }
}

impl Serialize for DurationOrSeconds {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        DurationText(self.0).serialize(serializer)
    }
}

schema!(DurationOrSeconds, "DurationOrSeconds", |generator| {
    let text = generator.subschema_for::<DurationText>();
    json_schema!({
        "description": "A number of seconds, as in Rally, or a duration with a unit.",
        "anyOf": [{ "type": "number", "minimum": 0, "maximum": 2_592_000 }, text]
    })
});
