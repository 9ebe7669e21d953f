//! Tags of actions: names with values by which results are grouped.
//!
//! A tag is a label, not a setting: it must not change what a request does. Only actions have tags; a group's tags hold
//! for the actions within it.

use std::collections::{BTreeMap, BTreeSet};

use super::threshold::MetricSubject;

/// The tags of an action: values by name.
pub type Tags = BTreeMap<String, String>;

/// What criteria may name in a workload.
#[derive(Clone, Debug, Default)]
pub struct ActionNames {
    /// The names of its actions and groups, in the order of their numbers.
    pub actions: Vec<String>,
    /// The tags of each of them. It may be shorter than `actions`: the others have none.
    pub tags: Vec<Tags>,
    /// The numbers of those that are answered by a stream of messages, ascending.
    pub streams: Vec<u16>,
    /// The names of the numbers that it takes from answers, by their numbers.
    pub measures: Vec<String>,
}

impl ActionNames {
    /// The names of actions without tags.
    #[must_use]
    pub fn untagged(actions: &[&str]) -> Self {
        Self { actions: actions.iter().map(|&name| name.to_owned()).collect(), ..Self::default() }
    }

    /// Every tag with its value, as [`text()`] writes it, in alphabetical order.
    #[must_use]
    pub fn all_tags(&self) -> BTreeSet<String> {
        self.tags.iter().flatten().map(|(tag, value)| text(tag, value)).collect()
    }

    /// The numbers of the actions that a subject means, ascending; none if it is unknown.
    #[must_use]
    pub fn members(&self, subject: &MetricSubject) -> Vec<u16> {
        let has_tag = |tags: &Tags, wanted: &str| tags.iter().any(|(tag, value)| text(tag, value) == wanted);
        let meant = |number: usize| match subject {
            MetricSubject::Action(name) => self.actions[number] == *name,
            MetricSubject::Tag(wanted) => self.tags.get(number).is_some_and(|tags| has_tag(tags, wanted)),
        };
        (0..self.actions.len())
            .filter(|number| meant(*number))
            .filter_map(|at| u16::try_from(at).ok())
            .collect()
    }
}

impl ActionNames {
    /// The same of those that are answered by a stream. Without a subject, all of these.
    #[must_use]
    pub fn streaming_members(&self, subject: Option<&MetricSubject>) -> Vec<u16> {
        let Some(subject) = subject else { return self.streams.clone() };
        let mut members = self.members(subject);
        members.retain(|number| self.streams.binary_search(number).is_ok());
        members
    }
}

/// A tag with its value, as tables and thresholds have it: `team=identity`.
#[must_use]
pub fn text(tag: &str, value: &str) -> String {
    format!("{tag}={value}")
}
