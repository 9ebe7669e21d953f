//! The steps that decide what comes next, as written: choices, loops, groups and pauses.

use crate::notation::{schema, text_or_number, written_as_its_value};
use std::collections::BTreeMap;

use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use text::digits;

use super::Step;
use crate::reference::DurationText;

/// Repeats the request of an action until a condition holds. All attempts count as one sample of the action.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Poll {
    /// The condition that ends the poll, an expression such as `{{ status == 'ACTIVE' }}`. It can use what the action
    /// extracts. Without it, the poll ends when all checks in `expect` pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Condition>,
    /// The condition that fails the action, such as `{{ status == 'ERROR' }}`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fail_if: Option<Condition>,
    /// The pause between an answer and the next attempt (default 1s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<DurationText>,
    /// The time from the first attempt after which the action fails (default 60s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DurationText>,
}

/// One of the alternatives of a `choice`.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    /// How often it is chosen, relative to the weights of the others (default 1).
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// Its steps.
    pub steps: Vec<Step>,
}

/// A pause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Think {
    /// Always as long.
    Fixed(DurationText),
    /// Any length between two bounds is equally likely.
    Uniform(UniformThink),
    /// Exponentially distributed.
    Exponential(ExponentialThink),
}

/// A pause whose length is uniformly distributed.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UniformThink {
    /// The shortest pause.
    pub min: DurationText,
    /// The longest pause.
    pub max: DurationText,
}

/// A pause whose length is exponentially distributed.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExponentialThink {
    /// The mean pause.
    pub mean: DurationText,
    /// The longest pause (default: ten times the mean).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<DurationText>,
}

impl<'de> Deserialize<'de> for Think {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        match digits::rounded(deserializer)? {
            map @ Value::Object(_) if map.get("mean").is_some() => {
                ExponentialThink::deserialize(map).map(Self::Exponential).map_err(D::Error::custom)
            }
            map @ Value::Object(_) => {
                UniformThink::deserialize(map).map(Self::Uniform).map_err(D::Error::custom)
            }
            text => DurationText::deserialize(text).map(Self::Fixed).map_err(D::Error::custom),
        }
    }
}

written_as_its_value!(Think: Fixed, Uniform, Exponential);

schema!(Think, "Think", |generator| {
    let fixed = generator.subschema_for::<DurationText>();
    let exponential = generator.subschema_for::<ExponentialThink>();
    let uniform = generator.subschema_for::<UniformThink>();
    json_schema!({
        "description": "A duration, {min: 1s, max: 3s} or {mean: 2s}.",
        "anyOf": [fixed, exponential, uniform]
    })
});

/// A number, or a template that gives one.
#[derive(Clone, Debug)]
pub struct CountText(pub String);

impl<'de> Deserialize<'de> for CountText {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        text_or_number(deserializer).map(Self)
    }
}

impl Serialize for CountText {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.parse::<u64>() {
            // Not `012`, which another reader takes for another number.
            Ok(count) if count.to_string() == self.0 => count.serialize(serializer),
            _ => self.0.serialize(serializer),
        }
    }
}

schema!(CountText, "Count", |_| json_schema!({
    "description": "A whole number, or a template that gives one: 3, \"{{ pages }}\".",
    "anyOf": [{ "type": "integer", "minimum": 0, "maximum": 100_000 }, { "type": "string", "minLength": 1 }]
}));

/// An expression that is true or false, or one of the two.
#[derive(Clone, Debug)]
pub struct Condition(pub String);

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        CountText::deserialize(deserializer).map(|text| Self(text.0))
    }
}

impl Serialize for Condition {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.parse::<bool>() {
            Ok(value) => value.serialize(serializer),
            Err(_) => self.0.serialize(serializer),
        }
    }
}

// Not the name of the conditions in `expect`: schemars takes two types of the same name for one.
schema!(Condition, "Expression", |_| json_schema!({
    "description": "An expression that is true or false, with or without its braces: \"{{ total > 10 }}\".",
    "anyOf": [{ "type": "string", "minLength": 1 }, { "type": "boolean" }]
}));

/// The items of a `for_each`: a list, or a template that gives one.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Items(#[serde(deserialize_with = "digits::value")] pub Value);

schema!(Items, "Items", |_| json_schema!({
    "description": "A list, or a template that gives one: [a, b], \"{{ users }}\".",
    "anyOf": [{ "type": "array" }, { "type": "string", "minLength": 1 }]
}));

/// Variables and the values to give them.
pub type Assignments = BTreeMap<String, Value>;

/// A file that `include` names.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct StepsFile {
    /// The values of the parameters that `with` does not set.
    #[schemars(extend("writeOnly" = true))]
    #[serde(default, deserialize_with = "digits::assignments", skip_serializing_if = "Option::is_none")]
    pub defaults: Option<Assignments>,
    /// The steps.
    #[schemars(length(min = 1))]
    pub steps: Vec<Step>,
}
