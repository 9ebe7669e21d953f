//! What happens in an iteration that is observed, step by step.
//!
//! A load is not observed: [`super::Context::observed`] is `None` then, and nothing here runs. What is recorded
//! contains secrets as they were sent; the code that shows it must mask them.

use std::sync::{Mutex, PoisonError};

use http::header::{COOKIE, HOST};

use super::reply::Reply;
use client::Request;
use measure::observation::{AnswerObservation, Observation, SentRequest};

/// More observations are counted only.
const OBSERVATIONS_MAX: usize = 10_000;
/// This much of a request's body is kept, in bytes.
const SENT_BYTES_MAX: u64 = 16 << 20;
/// So much of a body is kept, in bytes.
const BODY_BYTES_MAX: usize = 64 << 10;

/// What happened so far.
#[derive(Default)]
pub struct ObservationLog(Mutex<(Vec<Observation>, usize)>);

impl std::fmt::Debug for ObservationLog {
    // It contains secrets.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Observed")
    }
}

impl ObservationLog {
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

/// A request as it is shown, with the cookies that its pool adds.
pub(super) fn sent(request: &Request<'_>) -> SentRequest {
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
    SentRequest {
        method: request.method.to_string(),
        tls: request.origin.tls,
        authority: request.origin.authority.clone(),
        socket: request.origin.socket().map(|path| path.to_string_lossy().into_owned()),
        path: request.path.to_owned(),
        headers,
        body: request.body.beginning(SENT_BYTES_MAX),
    }
}

/// An answer as it is shown.
pub(super) fn answered(answer: &Reply) -> AnswerObservation {
    let headers = answer.headers.iter().flat_map(|headers| headers.iter());
    AnswerObservation {
        outcome: answer.outcome,
        headers: headers.map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect(),
        body: answer.body[..answer.body.len().min(BODY_BYTES_MAX)].to_vec(),
        body_bytes: answer.body_bytes,
    }
}
