//! The steps of an iteration, compiled.

pub mod flow;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::action::Action;
use flow::{FlowStep, Pause, StepGroup};
use terms::tags::{ActionNames, Tags};

/// One step of an iteration.
pub enum PlanStep {
    /// A request.
    Action(Box<Action>),
    Think(Pause),
    /// A step that decides what comes next.
    Flow(Box<FlowStep>),
}

/// A row of the tables: an action or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedStep {
    pub name: Arc<str>,
    /// Method and path of an action as written; [`GROUP`](terms::groups::GROUP) or [`TOGETHER`](terms::groups::TOGETHER) for a group.
    pub label: String,
    /// The tags of an action; a group has none.
    pub tags: Tags,
    /// Whether it is answered by a stream of messages.
    pub is_streamed: bool,
    /// The numbers that it takes from its answers, each with its number.
    pub measures: Vec<(u16, Arc<str>)>,
}

/// The actions among `steps` and in the steps within them, in the order of the file.
#[must_use]
pub fn actions(steps: &[PlanStep]) -> Vec<&Action> {
    let mut found = Vec::new();
    visit(steps, &mut |step| {
        if let PlanStep::Action(action) = step {
            found.push(&**action);
        }
    });
    found
}

/// Actions and groups, in the order of their numbers.
#[must_use]
pub fn named(steps: &[PlanStep]) -> Vec<NamedStep> {
    let mut found = Vec::new();
    visit(steps, &mut |step| match step {
        PlanStep::Action(action) => {
            let (name, tags) = (Arc::clone(&action.name), action.tags.clone());
            let is_streamed = action.call.may_be_streamed();
            let measures = action.measures.iter().map(|one| (one.index, Arc::clone(&one.name))).collect();
            found.push(NamedStep { name, label: action.label.clone(), tags, is_streamed, measures });
        }
        PlanStep::Flow(flow) => found.extend(flow.named()),
        PlanStep::Think(_) => {}
    });
    found
}

/// What criteria may name among these rows.
#[must_use]
pub fn names(rows: &[NamedStep]) -> ActionNames {
    ActionNames {
        actions: rows.iter().map(|row| row.name.to_string()).collect(),
        tags: rows.iter().map(|row| row.tags.clone()).collect(),
        streams: (0..).zip(rows).filter(|(_, row)| row.is_streamed).map(|(number, _)| number).collect(),
        measures: {
            let numbered: BTreeMap<u16, &Arc<str>> =
                rows.iter().flat_map(|row| &row.measures).map(|(number, name)| (*number, name)).collect();
            numbered.into_values().map(|name| name.to_string()).collect()
        },
    }
}

/// How many requests of one iteration can be under way at the same time.
#[must_use]
pub fn lanes(steps: &[PlanStep]) -> u64 {
    let of_step = |step: &PlanStep| match step {
        PlanStep::Flow(flow) => match &**flow {
            // The lane around them keeps its connections.
            FlowStep::Group(StepGroup { steps, together: Some(_), .. }) => {
                1 + steps.iter().map(|step| lanes(std::slice::from_ref(step))).sum::<u64>()
            }
            flow => flow.within().into_iter().map(lanes).max().unwrap_or(1),
        },
        PlanStep::Action(_) | PlanStep::Think(_) => 1,
    };
    steps.iter().map(of_step).max().unwrap_or(1)
}

/// Whether random numbers decide what the steps do.
#[must_use]
pub fn draws(steps: &[PlanStep]) -> bool {
    let mut draws = false;
    visit(steps, &mut |step| {
        draws |= match step {
            PlanStep::Think(pause) => !matches!(pause, Pause::Fixed(_)),
            PlanStep::Flow(flow) => matches!(**flow, FlowStep::Choice(_)),
            PlanStep::Action(_) => false,
        };
    });
    draws
}

/// Every step, each before the steps within it.
pub fn visit<'s>(steps: &'s [PlanStep], seen: &mut dyn FnMut(&'s PlanStep)) {
    for step in steps {
        seen(step);
        if let PlanStep::Flow(flow) = step {
            flow.within().into_iter().for_each(|steps| visit(steps, seen));
        }
    }
}
