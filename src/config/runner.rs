//! The part of a scenario that says how often: Rally's runners, stages, warm-up.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::one_of::one_of;
use super::reference::DurationText;

/// The most iterations a second that can be asked for.
pub const RATE_PER_S_MAX: f64 = 1_000_000.0;

one_of! {
    /// Exactly one of Rally's runners, or `ramping`.
    pub enum Runner {
        /// Iterations one after another.
        "serial" => Serial(Serial),
        /// A fixed number of iterations, so many at a time.
        "constant" => Constant(Constant),
        /// So many iterations at a time, for a fixed time.
        "constant_for_duration" => ConstantForDuration(ConstantForDuration),
        /// So many iterations a second, however long each takes.
        "rps" => Rps(Rps),
        /// A concurrency or a rate that changes in stages.
        "ramping" => Ramping(Ramping),
    }
}

/// Iterations one after another.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Serial {
    /// How many iterations.
    #[schemars(range(min = 1))]
    pub times: u64,
    /// The longest that one iteration may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationOrSeconds>,
}

/// A fixed number of iterations, so many at a time.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// How many iterations (default 1).
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// How many at a time (default 1).
    #[schemars(range(min = 1, max = 100_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// The longest that one iteration may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationOrSeconds>,
}

/// So many iterations at a time, for a fixed time.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ConstantForDuration {
    /// For how long iterations start.
    pub duration: DurationOrSeconds,
    /// How many at a time.
    #[schemars(range(min = 1, max = 100_000))]
    pub concurrency: u32,
    /// The longest that one iteration may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationOrSeconds>,
}

/// So many iterations a second. When an iteration is due never depends on how long others take.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rps {
    /// Iterations a second: a number, or steps.
    pub rps: Rate,
    /// How many iterations.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// For how long iterations are due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<DurationOrSeconds>,
    /// How many may be under way at a time (default: as many as the system's limits allow).
    #[schemars(range(min = 1, max = 100_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    /// How many may wait for their start beyond that; further ones are dropped (default 100000).
    #[schemars(range(max = 10_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queue: Option<u32>,
    /// The longest that one iteration may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationOrSeconds>,
    /// How exactly iterations start when they are due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Pacing>,
}

/// A concurrency or a rate that changes in stages: all stages name the same of the two.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Ramping {
    /// The concurrency or rate before the first stage (default 0).
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<f64>,
    /// The stages, one after another.
    #[schemars(length(min = 1))]
    pub stages: Vec<Stage>,
    /// True holds each stage at its value; else each leads to it in a straight line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stepped: Option<bool>,
    /// How many iterations of a rate may be under way at a time (default: as many as the system's
    /// limits allow).
    #[schemars(range(min = 1, max = 100_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    /// How many iterations of a rate may wait for their start beyond that; further ones are dropped
    /// (default 100000).
    #[schemars(range(max = 10_000_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_queue: Option<u32>,
    /// The longest that one iteration may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<DurationOrSeconds>,
    /// How exactly iterations of a rate start when they are due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pacing: Option<Pacing>,
}

/// One stage.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// How long it lasts.
    pub duration: DurationOrSeconds,
    /// How many iterations at a time at its end.
    #[schemars(range(max = 100_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How many iterations a second at its end.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rps: Option<f64>,
}

/// How exactly iterations start when they are due.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pacing {
    /// By a timer of the system: within about a tenth of a millisecond, at no cost.
    Timer,
    /// By a timer and a short wait in a loop: within about ten microseconds, for processor time.
    Precise,
}

impl JsonSchema for Pacing {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Pacing".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "By a timer of the system (the default), or for processor time within about ten microseconds.",
            "type": "string",
            "enum": ["timer", "precise"]
        })
    }
}

/// Iterations a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Always the same.
    Constant(f64),
    /// In steps.
    Steps(Steps),
}

/// A rate that rises in steps.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Steps {
    /// The rate of the first step.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub start: f64,
    /// The rate that is not exceeded.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub end: f64,
    /// By how much each step is higher than the one before it.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub step: f64,
    /// How long a step lasts (default 1 second).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<DurationOrSeconds>,
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match Value::deserialize(deserializer)? {
            Value::Number(number) => Ok(Self::Constant(number.as_f64().unwrap_or(f64::NAN))),
            map @ Value::Object(_) => Steps::deserialize(map).map(Self::Steps).map_err(D::Error::custom),
            _ => Err(D::Error::custom("expected a number, or {start, end, step, duration}")),
        }
    }
}

impl Serialize for Rate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Constant(rate) => rate.serialize(serializer),
            Self::Steps(steps) => steps.serialize(serializer),
        }
    }
}

impl JsonSchema for Rate {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Rate".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let steps = generator.subschema_for::<Steps>();
        json_schema!({
            "description": "Iterations a second: a number, or {start, end, step, duration}.",
            "anyOf": [{ "type": "number", "minimum": 0, "maximum": RATE_PER_S_MAX }, steps]
        })
    }
}

/// Load before the measured part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WarmUp {
    /// Iterations that start (or are due) within this time.
    For(std::time::Duration),
    /// The first iterations.
    Times(u64),
}

/// Load before the measured part, by number.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
struct WarmUpTimes {
    /// How many iterations.
    #[schemars(range(min = 1))]
    times: u64,
}

impl<'de> Deserialize<'de> for WarmUp {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match Value::deserialize(deserializer)? {
            Value::String(text) => {
                crate::base::units::parse_duration(&text).map(Self::For).map_err(D::Error::custom)
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

impl JsonSchema for WarmUp {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "WarmUp".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (text, times) =
            (generator.subschema_for::<DurationText>(), generator.subschema_for::<WarmUpTimes>());
        json_schema!({
            "description": "For how long, such as 10s, or {times: 100}.",
            "anyOf": [text, times]
        })
    }
}

/// A duration in Rally's own keys: seconds as in Rally, or with a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DurationOrSeconds(pub std::time::Duration);

impl<'de> Deserialize<'de> for DurationOrSeconds {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match Value::deserialize(deserializer)? {
            Value::Number(number) => {
                let seconds = number.as_f64().unwrap_or(-1.0);
                let most = crate::base::units::DURATION_MAX.as_secs_f64();
                if !(0.0..=most).contains(&seconds) {
                    return Err(D::Error::custom("seconds must be between 0 and 30 days"));
                }
                Ok(Self(std::time::Duration::from_secs_f64(seconds)))
            }
            Value::String(text) => {
                crate::base::units::parse_duration(&text).map(Self).map_err(D::Error::custom)
            }
            _ => Err(D::Error::custom("expected seconds or a duration such as 30s")),
        }
    }
}

impl Serialize for DurationOrSeconds {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        DurationText(self.0).serialize(serializer)
    }
}

impl JsonSchema for DurationOrSeconds {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "DurationOrSeconds".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let text = generator.subschema_for::<DurationText>();
        json_schema!({
            "description": "Seconds, as in Rally, or a duration with its unit.",
            "anyOf": [{ "type": "number", "minimum": 0, "maximum": 2_592_000 }, text]
        })
    }
}
