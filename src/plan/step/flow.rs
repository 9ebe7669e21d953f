//! The steps that decide what comes next, compiled: choices, loops, groups and pauses.

use std::sync::Arc;
use std::time::Duration;

use config::step;
use text::diagnostics::Fault;
use text::similar::did_you_mean;
use text::template::CompiledText;
use text::yaml::YamlNode;

use super::{NamedStep, PlanStep};
use crate::json::JsonTemplate;
use terms::groups::{GROUP, TOGETHER};
use terms::tags::Tags;

/// A key of groups that requests have, too.
const TAGS: &str = "tags";

/// A step that decides what comes next.
pub enum FlowStep {
    /// A named group of steps with its own latency and trace point.
    Group(StepGroup),
    /// One of two lists of steps.
    If {
        /// Which one.
        condition: CompiledText,
        /// The steps if it is true.
        then: Vec<PlanStep>,
        /// The steps if it is false.
        otherwise: Vec<PlanStep>,
    },
    /// A dialogue: steps over a WebSocket, or in a gRPC call. The first one opens it.
    Dialogue { steps: Vec<PlanStep> },
    /// Steps that run a number of times.
    Repeat {
        /// How many times.
        times: CompiledText,
        /// The variable that counts the rounds from 1.
        variable: Option<Arc<str>>,
        steps: Vec<PlanStep>,
    },
    /// Steps that run once for each item.
    ForEach {
        /// The list.
        items: JsonTemplate,
        /// The variable that has the item.
        variable: Arc<str>,
        steps: Vec<PlanStep>,
    },
    /// Steps that run as long as a condition holds.
    While {
        condition: CompiledText,
        /// The most rounds.
        rounds_max: u32,
        steps: Vec<PlanStep>,
    },
    /// One of several lists of steps, by chance.
    Choice(Vec<(f64, Vec<PlanStep>)>),
    /// A pause until this time after the start of the iteration.
    Pace(Duration),
    /// The end of the iteration, as failed, with a message.
    Fail(CompiledText),
    /// The end of the iteration.
    StopIteration,
    /// New values of variables.
    Set(Vec<(Arc<str>, JsonTemplate)>),
    /// A message.
    Log(LogText),
    /// The steps of an included file, with its parameters.
    Include {
        /// The parameters.
        with: Vec<(Arc<str>, JsonTemplate)>,
        steps: Vec<PlanStep>,
    },
}

/// A named group of steps.
pub struct StepGroup {
    pub name: Arc<str>,
    /// Its number among the actions and groups of its workload.
    pub index: u16,
    pub steps: Vec<PlanStep>,
    /// For steps that run at the same time: the variables that each of them may set.
    pub together: Option<Vec<Vec<Arc<str>>>>,
}

/// A message of a scenario; a run prints the first ones.
pub struct LogText {
    /// The message.
    pub text: CompiledText,
    /// How many have been printed.
    pub printed: std::sync::atomic::AtomicU32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// Always as long.
    Fixed(Duration),
    /// Uniformly distributed between two bounds.
    Uniform(Duration, Duration),
    /// Exponentially distributed.
    Exponential {
        /// The mean, before the bound.
        mean: Duration,
        /// The longest.
        max: Duration,
    },
}

impl Pause {
    /// The length of a pause for a random number that is uniformly distributed over all 64-bit numbers.
    #[must_use]
    pub fn length(self, random: u64) -> Duration {
        // 53 bits fill the significand. Never 0, whose logarithm is infinite.
        let share = ((random >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        match self {
            Self::Fixed(pause) => pause,
            Self::Uniform(min, max) => min + max.saturating_sub(min).mul_f64(share),
            Self::Exponential { mean, max } => mean.mul_f64((-share.ln()).min(1e6)).min(max),
        }
    }
}

impl FlowStep {
    /// The lists of steps within it.
    #[must_use]
    pub fn within(&self) -> Vec<&[PlanStep]> {
        match self {
            Self::Group(StepGroup { steps, .. })
            | Self::Dialogue { steps }
            | Self::Repeat { steps, .. }
            | Self::ForEach { steps, .. }
            | Self::While { steps, .. }
            | Self::Include { steps, .. } => vec![steps],
            Self::If { then, otherwise, .. } => vec![then, otherwise],
            Self::Choice(alternatives) => alternatives.iter().map(|(_, steps)| steps.as_slice()).collect(),
            Self::Pace(_) | Self::Fail(_) | Self::StopIteration | Self::Set(_) | Self::Log(_) => Vec::new(),
        }
    }

    /// The row of a group.
    #[must_use]
    pub fn named(&self) -> Option<NamedStep> {
        let Self::Group(group) = self else { return None };
        let label = if group.together.is_some() { TOGETHER } else { GROUP };
        Some(NamedStep {
            name: Arc::clone(&group.name),
            label: label.to_owned(),
            tags: Tags::new(),
            is_streamed: false,
            measures: Vec::new(),
        })
    }
}

/// The key of each kind of step that is not a request, and the keys that may stand beside it.
pub(crate) const KINDS: [(&str, &[&str]); 14] = [
    ("think", &[]),
    ("pace", &[]),
    ("if", &["then", "else"]),
    ("repeat", &["as", "steps"]),
    ("for_each", &["as", "steps"]),
    ("while", &["max", "steps"]),
    ("choice", &[]),
    ("group", &["steps", TAGS]),
    ("together", &["steps", TAGS]),
    ("set", &[]),
    ("log", &[]),
    ("fail", &[]),
    ("stop_iteration", &[]),
    ("include", &["with", "as"]),
];

/// Which of these keys a step has.
pub(crate) fn kinds(step: &step::Step) -> Vec<&'static str> {
    let there = [
        step.think.is_some(),
        step.pace.is_some(),
        step.condition.is_some(),
        step.repeat.is_some(),
        step.for_each.is_some(),
        step.while_.is_some(),
        step.choice.is_some(),
        step.group.is_some(),
        step.together.is_some(),
        step.set.is_some(),
        step.log.is_some(),
        step.fail.is_some(),
        step.stop_iteration.is_some(),
        step.include.is_some(),
    ];
    KINDS.iter().zip(there).filter_map(|((kind, _), there)| there.then_some(*kind)).collect()
}

/// True for the steps of a dialogue, whose opening is a request, too.
fn is_nested(kind: &str, key: &str) -> bool {
    key == "steps" && matches!(kind, "websocket" | "grpc")
}

/// Reports keys that do not belong beside the key that says what a step is.
pub(crate) fn companions(kind: &str, node: &YamlNode, faults: &mut Vec<Fault>) {
    let of_flow = || KINDS.iter().flat_map(|(_, companions)| *companions);
    let allowed = KINDS.iter().find(|(key, _)| *key == kind).map(|(_, companions)| *companions);
    for (key, _) in node.entries().iter().filter(|(key, _)| key.name != kind) {
        let belongs = match allowed {
            Some(allowed) => allowed.contains(&key.name.as_str()),
            // A request: only the keys of other steps are out of place.
            None => {
                key.name == TAGS
                    || is_nested(kind, &key.name)
                    || !of_flow().any(|companion| *companion == key.name)
            }
        };
        if belongs {
            continue;
        }
        let fault = Fault::error(key.span.clone(), format!("`{}` does not belong beside `{kind}`", key.name));
        let owners: Vec<&str> = KINDS
            .iter()
            .filter(|(_, companions)| companions.contains(&key.name.as_str()))
            .map(|(kind, _)| *kind)
            .chain((key.name == TAGS).then_some("a request"))
            .collect();
        let similar = did_you_mean(&key.name, allowed.unwrap_or_default().iter().copied());
        faults.push(fault.help(match (similar, owners.as_slice(), allowed) {
            (Some(similar), ..) => format!("did you mean `{similar}`?"),
            (None, [], Some([])) => format!("make it a step of its own: `- {kind}: …`"),
            (None, [], Some(allowed)) => {
                format!("move it into one of the steps; `{kind}` has: {}", allowed.join(", "))
            }
            (None, owners, _) => format!("it belongs beside {}", owners.join(", ")),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_have_the_length_that_their_distribution_says() {
        let ms = Duration::from_millis;
        let mean = |pause: Pause| {
            let mut random = fastrand::Rng::with_seed(7);
            let lengths: Vec<Duration> = (0..20_000).map(|_| pause.length(random.u64(..))).collect();
            let sum: Duration = lengths.iter().sum();
            (sum / 20_000, lengths.iter().min().copied().unwrap(), lengths.iter().max().copied().unwrap())
        };
        assert_eq!(mean(Pause::Fixed(ms(5))), (ms(5), ms(5), ms(5)));
        let (average, least, most) = mean(Pause::Uniform(ms(100), ms(300)));
        assert!((198..=202).contains(&average.as_millis()) && least >= ms(100) && most <= ms(300));
        let (average, least, most) = mean(Pause::Exponential { mean: ms(200), max: ms(2000) });
        assert!((195..=205).contains(&average.as_millis()) && least < ms(1) && most <= ms(2000));
        for random in [0, u64::MAX] {
            assert!(Pause::Exponential { mean: ms(200), max: ms(900) }.length(random) <= ms(900));
        }
    }
}
