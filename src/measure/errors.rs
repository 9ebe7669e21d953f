//! Faults, each text stored once and referred to by number.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::{self, Display};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most different texts of a worker; later ones are counted under their class only.
const TEXTS_MAX: usize = 200;
const MESSAGE_CHARS_MAX: usize = 300;

macro_rules! classes {
    ($($(#[$doc:meta])+ $class:ident = $name:literal,)+) => {
        /// What kind of fault it is, as reports count it.
        #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
        pub enum FailureClass {
            $($(#[$doc])+ $class,)+
            /// A class that only a later build knows.
            #[default]
            Unknown,
        }

        impl FailureClass {
            /// Every class but the unknown one.
            pub const ALL: &[Self] = &[$(Self::$class),+];

            /// Its name in results and logs.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$class => $name,)+
                    Self::Unknown => "unknown",
                }
            }
        }
    };
}

classes! {
    /// The answer's outcome is not an accepted one.
    Status = "status",
    /// A time limit passed.
    Timeout = "timeout",
    /// A check on the answer failed.
    Check = "check",
    /// The answer came later than a check allows.
    Latency = "latency",
    /// A value to extract is not there.
    Extract = "extract",
    /// A cloud refused it because a quota is used up.
    Quota = "quota",
    /// The condition of a poll did not become true in time.
    Poll = "poll",
    /// A host's name has no address.
    Resolve = "resolve",
    /// No connection was made.
    Connect = "connect",
    /// The TLS handshake failed.
    Tls = "tls",
    /// The connection or the stream ended before the answer did.
    Closed = "closed",
    /// A connection that was kept alive ended before a byte of the answer came.
    KeptAliveClosed = "kept_alive_closed",
    /// The answer does not follow its protocol.
    Protocol = "protocol",
    /// A redirect cannot be followed.
    Redirect = "redirect",
    /// A template, an answer or a redirect named a host that is not listed.
    Target = "target",
    /// A file of the body cannot be read.
    File = "file",
    /// The request cannot be built.
    Request = "request",
    /// A template failed.
    Template = "template",
    /// There is no row of data.
    Data = "data",
    /// A loop has more rounds than it may.
    Loop = "loop",
    /// A step `fail` was reached.
    Fail = "fail",
    /// Contexts could not be made.
    Contexts = "contexts",
    /// This machine is out of descriptors or ports, or the answer is beyond a limit of `bench`.
    Client = "client",
    /// The answer is larger than the limit.
    BodyLimit = "body_limit",
    /// `bench` itself has a fault.
    Bench = "bench",
}

impl FailureClass {
    /// From its name.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self::ALL.iter().copied().find(|class| class.as_str() == name).unwrap_or_default()
    }

    /// True for a fault that says nothing of the service. A verdict never rests on one.
    #[must_use]
    pub fn is_of_bench(self) -> bool {
        matches!(self, Self::Client | Self::BodyLimit | Self::Bench)
    }

    /// True for a fault of the checks on an answer, after which another attempt of a poll may succeed.
    #[must_use]
    pub fn is_of_check(self) -> bool {
        matches!(self, Self::Status | Self::Check | Self::Extract | Self::Latency)
    }
}

impl Display for FailureClass {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl Serialize for FailureClass {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for FailureClass {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::named(&<Cow<'de, str>>::deserialize(deserializer)?))
    }
}

/// A fault. Two are equal if they are of the same kind, whatever was seen.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub struct Failure {
    pub class: FailureClass,
    /// The action in which it happened.
    pub action: Option<Arc<str>>,
    /// What happened, as a message.
    pub message: String,
    /// What was seen in the answer. Of faults of the same kind, the first is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Box<FailureEvidence>>,
}

/// What was seen in an answer that failed: bounded, without secrets, on one line.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct FailureEvidence {
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

impl Failure {
    fn kind(&self) -> (FailureClass, Option<&str>, &str) {
        (self.class, self.action.as_deref(), &self.message)
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
    fn each_class_has_one_name() {
        for class in FailureClass::ALL {
            assert_eq!(FailureClass::named(class.as_str()), *class);
        }
        let read = |text: &str| serde_json::from_str::<FailureClass>(text).unwrap();
        assert_eq!(
            (read("\"timeout\""), read("\"of a later build\"")),
            (FailureClass::Timeout, FailureClass::Unknown)
        );
    }

    #[test]
    fn each_text_has_one_number_and_workers_do_not_share_numbers() {
        let failure = |text: &str| Failure {
            class: FailureClass::Check,
            action: None,
            message: text.into(),
            seen: None,
        };
        let (mut a, mut b) = (FailureTable::new(0, 0, 2), FailureTable::new(0, 1, 2));
        assert_eq!((a.number(failure("x")), a.number(failure("y")), a.number(failure("x"))), (1, 3, 1));
        assert_eq!((b.number(failure("x")), b.number(failure("y"))), (2, 4));
        assert!(FailureTable::new(1, 0, 2).number(failure("x")) > 4);
        let seen = |body: &str| {
            Some(Box::new(FailureEvidence { body: Some(body.to_owned()), ..FailureEvidence::default() }))
        };
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
