//! The steps of an iteration, compiled.

pub mod flow;

use std::sync::Arc;

use super::action::Action;
use flow::{Flow, Group, Pause};
use terms::tags::{Names, Tags};

/// One step of an iteration.
pub enum Step {
    /// A request.
    Action(Box<Action>),
    /// A pause.
    Think(Pause),
    /// A step that decides what comes next.
    Flow(Box<Flow>),
}

/// A row of the tables: an action or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its name.
    pub name: Arc<str>,
    /// Method and path of an action as written; [`GROUP`](terms::groups::GROUP) or [`TOGETHER`](terms::groups::TOGETHER) for a group.
    pub label: String,
    /// The tags of an action; a group has none.
    pub tags: Tags,
}

/// The actions among `steps` and in the steps within them, in the order of the file.
#[must_use]
pub fn actions(steps: &[Step]) -> Vec<&Action> {
    let mut found = Vec::new();
    visit(steps, &mut |step| {
        if let Step::Action(action) = step {
            found.push(&**action);
        }
    });
    found
}

/// Actions and groups, in the order of their numbers.
#[must_use]
pub fn named(steps: &[Step]) -> Vec<Named> {
    let mut found = Vec::new();
    visit(steps, &mut |step| match step {
        Step::Action(action) => {
            let (name, tags) = (Arc::clone(&action.name), action.tags.clone());
            found.push(Named { name, label: action.label.clone(), tags });
        }
        Step::Flow(flow) => found.extend(flow.named()),
        Step::Think(_) => {}
    });
    found
}

/// What criteria may name among these rows.
#[must_use]
pub fn names(rows: &[Named]) -> Names {
    Names {
        actions: rows.iter().map(|row| row.name.to_string()).collect(),
        tags: rows.iter().map(|row| row.tags.clone()).collect(),
    }
}

/// How many requests of one iteration can be under way at the same time.
#[must_use]
pub fn lanes(steps: &[Step]) -> u64 {
    let of_step = |step: &Step| match step {
        Step::Flow(flow) => match &**flow {
            // The lane around them keeps its connections.
            Flow::Group(Group { steps, together: Some(_), .. }) => {
                1 + steps.iter().map(|step| lanes(std::slice::from_ref(step))).sum::<u64>()
            }
            flow => flow.within().into_iter().map(lanes).max().unwrap_or(1),
        },
        Step::Action(_) | Step::Think(_) => 1,
    };
    steps.iter().map(of_step).max().unwrap_or(1)
}

/// Whether random numbers decide what the steps do.
#[must_use]
pub fn draws(steps: &[Step]) -> bool {
    let mut draws = false;
    visit(steps, &mut |step| {
        draws |= match step {
            Step::Think(pause) => !matches!(pause, Pause::Fixed(_)),
            Step::Flow(flow) => matches!(**flow, Flow::Choice(_)),
            Step::Action(_) => false,
        };
    });
    draws
}

/// Every step, each before the steps within it.
pub fn visit<'s>(steps: &'s [Step], seen: &mut dyn FnMut(&'s Step)) {
    for step in steps {
        seen(step);
        if let Step::Flow(flow) = step {
            flow.within().into_iter().for_each(|steps| visit(steps, seen));
        }
    }
}
