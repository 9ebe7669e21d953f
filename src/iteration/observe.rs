//! What happens in an iteration that somebody looks at, step by step.
//!
//! A load has nobody who looks: [`super::Context::observed`] is `None` then, and nothing here runs. What is recorded
//! contains secrets as they were sent; whoever shows it must mask them.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{COOKIE, HOST};
use uuid::Uuid;

use crate::client::pool::Followed;
use crate::client::{Answer, Phases, Request};

/// More observations are counted only.
const OBSERVATIONS_MAX: usize = 10_000;
/// This much of a request's body is kept, in bytes.
const SENT_BYTES_MAX: u64 = 16 << 20;
/// So much of a body is kept, in bytes.
const BODY_BYTES_MAX: usize = 64 << 10;

/// What happened so far.
#[derive(Default)]
pub struct Observed(Mutex<(Vec<Observation>, usize)>);

impl std::fmt::Debug for Observed {
    // It contains secrets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Observed")
    }
}

impl Observed {
    /// Adds an observation.
    pub(super) fn push(&self, observation: Observation) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.0.len() < OBSERVATIONS_MAX {
            all.0.push(observation);
        } else {
            all.1 += 1;
        }
    }

    /// All observations in their order, and how many more there were.
    #[must_use]
    pub fn take(&self) -> (Vec<Observation>, usize) {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Something that happened.
pub enum Observation {
    /// Setup, an iteration of a workload, or teardown begins.
    Part {
        /// Its name.
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
    /// What was sent.
    pub request: Sent,
    /// The redirects that were followed.
    pub redirects: Vec<Followed>,
    /// The answer; `None` if there is none.
    pub answer: Option<Answered>,
    /// How long each phase took.
    pub phases: Phases,
    /// From the start to the end of the last request.
    pub duration: Duration,
    /// Every check.
    pub checks: Vec<Checked>,
    /// The variables that were extracted: name, value, and whether it is a secret.
    pub extracted: Vec<(String, String, bool)>,
    /// Why it failed, as a class and a message.
    pub failure: Option<(&'static str, String)>,
    /// The secrets that are known by now, besides those of the files.
    pub secrets: Vec<String>,
    /// The variables that are texts.
    pub variables: Vec<(String, String)>,
}

/// A request.
pub struct Sent {
    /// The method.
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
    /// The body.
    pub body: Bytes,
}

impl Sent {
    pub(super) fn of(request: &Request<'_>) -> Self {
        let own = request.own.iter().chain(request.fixed.iter());
        let mut headers: Vec<(String, Vec<u8>)> =
            own.map(|(name, value)| (name.as_str().to_owned(), value.to_vec())).collect();
        let has_cookie = headers.iter().any(|(name, _)| name == COOKIE.as_str());
        let jar = request.cookies.filter(|_| !has_cookie);
        if let Some(cookies) = jar.and_then(|jar| jar.header(request.origin, request.path)) {
            headers.push((COOKIE.as_str().to_owned(), cookies));
        }
        headers.sort();
        if !headers.iter().any(|(name, _)| name == HOST.as_str()) {
            headers.insert(0, (HOST.as_str().to_owned(), request.origin.authority.clone().into_bytes()));
        }
        Self {
            method: request.method.to_string(),
            tls: request.origin.tls,
            authority: request.origin.authority.clone(),
            socket: request.origin.socket().map(|path| path.to_string_lossy().into_owned()),
            path: request.path.to_owned(),
            headers,
            body: request.body.beginning(SENT_BYTES_MAX),
        }
    }

    /// The URL.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.authority, self.path)
    }
}

/// An answer.
pub struct Answered {
    /// The status.
    pub status: http::StatusCode,
    /// Names and values of the headers.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The beginning of the body, decompressed.
    pub body: Vec<u8>,
    /// The length of the body as it was received.
    pub body_bytes: u64,
}

impl Answered {
    pub(super) fn of(answer: &Answer) -> Self {
        let headers = answer.headers.iter().flat_map(|headers| headers.iter());
        Self {
            status: answer.status,
            headers: headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect(),
            body: answer.body[..answer.body.len().min(BODY_BYTES_MAX)].to_vec(),
            body_bytes: answer.body_bytes,
        }
    }
}

/// A check and its outcome.
pub struct Checked {
    /// What is checked.
    pub what: String,
    /// What is expected of it, in words that follow its name.
    pub expected: String,
    /// What was found, if it can be said in short.
    pub found: Option<String>,
    /// Whether it holds.
    pub holds: bool,
}
