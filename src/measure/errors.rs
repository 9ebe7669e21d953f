//! Faults, each text stored once and referred to by number.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The most different texts of a worker; later ones are counted under their class only.
const TEXTS_MAX: usize = 200;
const MESSAGE_CHARS_MAX: usize = 300;

/// A fault. Two are equal if they are of the same kind, whatever was seen.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Failure {
    /// Its class, such as `timeout`, `connect`, `status`, `check`.
    pub class: String,
    /// The action in which it happened.
    pub action: Option<Arc<str>>,
    /// What happened, as a message.
    pub message: String,
    /// What was seen in the answer. Of faults of the same kind, the first is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Box<Seen>>,
}

/// What was seen in an answer that failed: bounded, without secrets, on one line.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Seen {
    /// What was checked, such as `$.server.status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// What the check expects of it, in words that follow its name: `is "ACTIVE"`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The value that did not meet its check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// The beginning of the body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<String>,
}

/// The classes of faults that are no faults of the service: this machine is out of descriptors or ports, the answer was
/// beyond a limit of `bench`, or `bench` itself has a fault. A verdict never rests on them.
pub const OF_BENCH: [&str; 3] = ["client", "body_limit", "bench"];

impl Failure {
    /// True for a fault that says nothing of the service.
    #[must_use]
    pub fn is_of_bench(&self) -> bool {
        OF_BENCH.contains(&self.class.as_str())
    }

    fn kind(&self) -> (&str, Option<&str>, &str) {
        (&self.class, self.action.as_deref(), &self.message)
    }
}

impl PartialEq for Failure {
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind()
    }
}

impl Eq for Failure {}

impl Hash for Failure {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind().hash(state);
    }
}

/// A fault with the number by which samples refer to it.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct NumberedFailure {
    /// The number, from 1.
    pub number: u32,
    /// The fault.
    pub failure: Failure,
}

/// How many numbers each workload has for its faults.
const NUMBERS_OF_WORKLOAD: u32 = 1 << 20;

/// The faults of a worker. Numbers are unique within a run: each workload has its own range, in which its workers
/// alternate.
pub struct FailureTable {
    numbers: HashMap<Failure, u32>,
    next: u32,
    step: u32,
    fresh: Vec<NumberedFailure>,
}

impl FailureTable {
    /// The table of worker number `worker` of `workers` in workload number `workload`.
    #[must_use]
    pub fn new(workload: u16, worker: u32, workers: u32) -> Self {
        let next = u32::from(workload).saturating_mul(NUMBERS_OF_WORKLOAD).saturating_add(worker + 1);
        Self { numbers: HashMap::new(), next, step: workers.max(1), fresh: Vec::new() }
    }

    /// The number of a fault.
    pub fn number(&mut self, mut failure: Failure) -> u32 {
        if failure.message.chars().count() > MESSAGE_CHARS_MAX {
            failure.message = failure.message.chars().take(MESSAGE_CHARS_MAX).chain(['…']).collect();
        }
        if self.numbers.len() >= TEXTS_MAX && !self.numbers.contains_key(&failure) {
            "(more than 200 different messages)".clone_into(&mut failure.message);
            // What was seen belongs to only one of them.
            failure.seen = None;
        }
        if let Some(number) = self.numbers.get(&failure) {
            return *number;
        }
        let number = self.next;
        self.next = self.next.saturating_add(self.step);
        self.fresh.push(NumberedFailure { number, failure: failure.clone() });
        self.numbers.insert(failure, number);
        number
    }

    /// The faults that were not written yet.
    pub fn take_fresh(&mut self) -> Vec<NumberedFailure> {
        std::mem::take(&mut self.fresh)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_has_one_number_and_workers_do_not_share_numbers() {
        let failure =
            |text: &str| Failure { class: "c".into(), action: None, message: text.into(), seen: None };
        let (mut a, mut b) = (FailureTable::new(0, 0, 2), FailureTable::new(0, 1, 2));
        assert_eq!((a.number(failure("x")), a.number(failure("y")), a.number(failure("x"))), (1, 3, 1));
        assert_eq!((b.number(failure("x")), b.number(failure("y"))), (2, 4));
        assert!(FailureTable::new(1, 0, 2).number(failure("x")) > 4);
        let seen = |body: &str| Some(Box::new(Seen { body: Some(body.to_owned()), ..Seen::default() }));
        let number = a.number(Failure { seen: seen("first"), ..failure("z") });
        assert_eq!(a.number(Failure { seen: seen("second"), ..failure("z") }), number);
        let fresh = a.take_fresh();
        assert_eq!((fresh.len(), &fresh[2].failure.seen), (3, &seen("first")));
        assert!(a.take_fresh().is_empty());
        for text in 0..1000 {
            a.number(failure(&text.to_string()));
        }
        assert!(a.take_fresh().len() <= TEXTS_MAX);
    }
}
