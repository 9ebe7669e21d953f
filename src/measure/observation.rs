//! What happened in an iteration that is looked at, step by step.
//!
//! A load records none of this. It contains secrets as they were sent; what shows it must mask them.

use std::time::Duration;

use bytes::Bytes;
use uuid::Uuid;

use super::errors::FailureClass;
use super::phases::Phases;
use super::protocol::Protocol;

/// Something that happened.
pub enum Observation {
    /// Setup, an iteration of a workload, or teardown begins.
    Part {
        name: String,
        /// Its trace, if it is an iteration.
        trace_id: Option<Uuid>,
    },
    /// A step that is no request.
    Step {
        /// In how many steps it is.
        depth: usize,
        /// What it does.
        text: String,
    },
    /// A request was sent, or should have been.
    Exchange(Box<Exchange>),
    /// An action could not be sent.
    Unsent {
        /// In how many steps it is.
        depth: usize,
        /// The action's name.
        action: String,
        /// Why.
        message: String,
    },
}

/// A request and what became of it.
pub struct Exchange {
    /// In how many steps it is.
    pub depth: usize,
    /// The action's name.
    pub action: String,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// The protocol that it speaks.
    pub protocol: Protocol,
    /// What was sent.
    pub request: SentRequest,
    /// The redirects that were followed.
    pub redirects: Vec<FollowedRedirect>,
    /// The answer; `None` if there is none.
    pub answer: Option<AnswerObservation>,
    /// How long each phase took.
    pub phases: Phases,
    /// From the start to the end of the last request.
    pub duration: Duration,
    /// Every check.
    pub checks: Vec<CheckOutcome>,
    /// The variables that were extracted: name, value, and whether it is a secret.
    pub extracted: Vec<(String, String, bool)>,
    /// Why it failed, as a class and a message.
    pub failure: Option<(FailureClass, String)>,
    /// The secrets that are known by now, besides the files' secrets.
    pub secrets: Vec<String>,
    /// The variables that are texts.
    pub variables: Vec<(String, String)>,
}

pub struct SentRequest {
    pub method: String,
    /// Whether it is sent over TLS.
    pub tls: bool,
    /// Host and port.
    pub authority: String,
    /// The path of the Unix socket, if it is sent over one.
    pub socket: Option<String>,
    /// Path and query, escaped.
    pub path: String,
    /// Names and values, without the body's length.
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Bytes,
}

impl SentRequest {
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.path)
    }
}

pub struct AnswerObservation {
    /// The number with which it says how it went, such as a status.
    pub outcome: u16,
    /// Names and values of the headers.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The beginning of the body, decompressed.
    pub body: Vec<u8>,
    /// The length of the body as it was received.
    pub body_bytes: u64,
}

/// A check and its outcome.
pub struct CheckOutcome {
    /// What is checked.
    pub what: String,
    /// What is expected of it, in words that follow its name.
    pub expected: String,
    /// What was found, if it can be said in short.
    pub found: Option<String>,
    /// Whether it holds.
    pub holds: bool,
}

/// A redirect that was followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedRedirect {
    /// The status of the answer that redirected.
    pub status: http::StatusCode,
    /// The method of the next request.
    pub method: http::Method,
    /// The URL of the next request, for messages.
    pub url: String,
}
