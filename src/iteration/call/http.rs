//! Sends the requests of HTTP calls, and judges their answers.

mod bodies;
pub mod fixed;
mod reader;
mod request;
mod stream;

use std::pin::pin;
use std::time::{Duration, Instant};

use http::StatusCode;

use crate::refusal;
use base::clock::{now, saturating_nanos};
use base::masking::masked_with;
use base::units::format_ns;
use client::cookies::Jar;
use client::decode;
use client::headers::HeaderBlock;
use client::pool::Pool;
use client::{Request, take_cut_off};
use measure::errors::FailureClass;
use measure::observation::{Exchange, Observation};
use measure::phases::Phases;
use measure::protocol::Protocol;
use plan::action::Action;
use plan::call::grpc::GrpcCall;
use plan::call::http::HttpCall;
use plan::propagation::Propagation;
use text::template::{TemplateError, Variables};

use crate::Context;
use crate::compare::{Fault, Verdict};
use crate::crowd::Sender;
use crate::judge::{KeptOfAnswer, ParsedReply};
use crate::observe;
use crate::pass::{Branch, CallResult, CallState, EarlierAttempts, Pass, extracted};
use crate::reply::Reply;
use bodies::render_body;
use fixed::FixedParts;
use reader::AnswerReader;
use request::{add_signed_headers, add_w3c_headers, render_headers, render_path};
use stream::{ReadingEnd, StreamRead};

/// What a lane keeps for its requests.
pub(crate) struct HttpLane {
    pool: Pool,
    fixed: FixedParts,
    path: String,
    headers: HeaderBlock,
}

impl HttpLane {
    /// A lane without connections.
    pub(crate) fn new(context: &Context) -> Self {
        Self {
            pool: Pool::new(&context.http),
            fixed: FixedParts::default(),
            path: String::new(),
            headers: HeaderBlock::default(),
        }
    }

    /// Ends the iteration's connections, if each iteration opens its own.
    #[inline]
    pub(crate) fn end_iteration(&mut self) {
        self.pool.end_iteration();
    }

    /// Ends all connections.
    pub(crate) fn leave(&mut self) {
        self.pool.leave();
    }

    /// Its connections.
    pub(crate) fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// Sends a request and judges its answer, which may be that of a gRPC call.
    ///
    /// # Errors
    /// A template that fails: nothing was sent.
    #[expect(clippy::too_many_lines, reason = "a request from its parts to its verdict, in order")]
    pub(super) async fn call(
        &mut self,
        state: &mut CallState,
        pass: &Pass<'_>,
        branch: &Branch,
        (action, call, grpc): (&Action, &HttpCall, Option<&GrpcCall>),
        variables: &mut Variables,
        before: &EarlierAttempts,
    ) -> Result<CallResult, TemplateError> {
        let sender = pass.sender_of(call);
        let fixed = self.fixed.get(pass.context, pass.workload, (action, call), &sender)?;
        let mut whole = None;
        let path = match &fixed.path {
            Some(path) => path,
            None => {
                self.path.clear();
                whole = render_path(call, fixed.prefix(call), variables, &mut self.path)?;
                &self.path
            }
        };
        // A host that is not a target gets no secrets.
        let foreign = whole.as_ref().is_some_and(|origin| !pass.context.http.guard().is_target(origin));
        let rendered;
        let body = match &fixed.body {
            Some(body) => body,
            None => {
                rendered = render_body(call, variables)?;
                &rendered
            }
        };
        let observed = pass.context.observed.as_deref();
        if observed.is_some() {
            self.pool.record_redirects();
        }
        let signed = call.signed && !foreign;
        pass.headers(branch, call, signed, variables, &mut self.headers)?;
        let sent = now();
        let attempt = before.sends(pass, branch, action, sent, state);
        let reader = AnswerReader::of((action, call, grpc), variables, (sent, observed.is_some()));
        let request = Request {
            method: &call.method,
            origin: whole.as_ref().unwrap_or(&call.base.origin),
            path,
            fixed: fixed.headers_for(foreign),
            own: &self.headers,
            body,
            started: sent,
            redirects_max: call.redirects_max,
            body_bytes_max: call.body_bytes_max,
            cookies: pass.cookies.filter(|_| call.cookies),
            keep_headers: observed.is_some() || action.needs_headers() || grpc.is_some() || reader.is_some(),
            keep_body: observed.is_some() || action.needs_body() || grpc.is_some() || reader.is_some(),
            keep_trailers: grpc.is_some(),
            reader: reader.as_ref().map(AnswerReader::as_dyn),
            version: call.version,
            is_refused: &|status| grpc.is_some() || !action.accepts(status.as_u16()),
        };
        let read_until = call.stream.as_ref().and_then(|plan| Some(sent + plan.read_time?));
        let request_seen = observed.map(|_| {
            let mut sent = Box::new(observe::sent(&request));
            grpc.into_iter().for_each(|call| super::grpc::show(&mut sent, call));
            sent
        });
        let answer = {
            let sending = pin!(self.pool.send(&request, &mut state.phases));
            let limit = pass.limit(action, sent);
            let limit = read_until.map_or(limit, |until| limit.min(until));
            state.deadline.limit(limit, sending).await
        };
        let known = answer.as_ref().and_then(|answer| answer.as_ref().ok());
        let ended = known.map_or_else(now, |answer| answer.ended);
        if known.is_none() {
            state.phases.retransmits = state.phases.retransmits.and(take_cut_off(sent));
        }
        // The time of redirects is a separate phase.
        let redirected = Duration::from_nanos(state.phases.before_ns);
        let duration = ended.saturating_duration_since(sent).saturating_sub(redirected);
        state.seen = None;
        let mut outcomes = observed.map(|_| Vec::new());
        let (mut events, mut stream, mut shown) = (None, None, None);
        let mut unfit = None;
        if let Some(reader) = reader {
            let end = match answer {
                Some(Ok(_)) => ReadingEnd::Whole,
                None if read_until.is_some_and(|until| until <= ended) => ReadingEnd::InTime,
                _ => ReadingEnd::CutOff,
            };
            let read = reader.read(ended, end);
            (events, stream, state.streamed, unfit) = (read.events, read.stream, read.sample, read.unfit);
            if let Some(begun_at) = read.begun_at.filter(|_| answer.is_none()) {
                note_phases(&mut state.phases, (sent, begun_at, ended));
            }
        }
        let (mut reply, verdict) = match (answer, stream) {
            (_, Some(read)) => {
                let StreamRead { reply, verdict, sample, shown: all } = *read;
                (state.streamed, shown) = (Some(sample), all);
                (Some(reply), verdict)
            }
            (Some(Ok(answer)), None) => match grpc {
                None => (Some(Reply::from(answer)), Ok(())),
                Some(call) => super::grpc::reply(answer, (action, observed.is_some()), call),
            },
            (Some(Err(error)), None) => (None, Err((error.class(), error.to_string()))),
            (None, None) => {
                let message = pass.timed_out(ended, || timed_out(action, call, (&state.phases, events)));
                let verdict = Err((FailureClass::Timeout, message));
                // A limit of the iteration cuts a call off, which then has no status.
                let is_own = grpc.is_some() && duration >= action.timeout;
                match is_own && is_connected(call, &state.phases) {
                    true => super::grpc::late(action, verdict),
                    false => (None, verdict),
                }
            }
        };
        let is_unfit = unfit.is_some();
        let verdict = match unfit {
            Some(unfit) => verdict.and(Err((FailureClass::Check, unfit))),
            None => verdict,
        };
        let verdict = match &mut reply {
            Some(reply) if verdict.is_err() && (is_unfit || reply.event.is_some()) => {
                state.seen = ParsedReply::new(reply, pass.cookies, over_quota).seen(variables);
                verdict
            }
            Some(reply) if verdict.is_ok() => decompress(reply, action, call).and_then(|()| {
                let kept = KeptOfAnswer::of(state, &mut outcomes);
                ParsedReply::new(reply, pass.cookies, over_quota).verdict(action, duration, variables, kept)
            }),
            _ => verdict,
        };
        let verdict = verdict.map_err(|(class, message)| match pass.cookies.filter(|jar| !jar.is_empty()) {
            // The service was faster to say so.
            _ if grpc.is_some() && super::grpc::is_late(reply.as_ref(), action, duration) => {
                (FailureClass::Timeout, timed_out(action, call, (&state.phases, events)))
            }
            Some(jar) => (class, masked_with(&message, &jar.secrets()).into_owned()),
            None => (class, message),
        });
        if verdict.is_err()
            && call.authorised
            && !foreign
            && reply.as_ref().is_some_and(|reply| is_unauthorized(action, reply))
        {
            sender.credentials.refused(fixed.generation);
        }
        if let (Some(observed), Some(request)) = (observed, request_seen) {
            if let (Some(reply), Some(shown)) = (&mut reply, shown) {
                reply.body = shown;
            }
            let answer = reply.as_ref().map(observe::answered);
            let extracted = if answer.is_some() { extracted(action, variables) } else { Vec::new() };
            observed.push(Observation::Exchange(Box::new(Exchange {
                depth: branch.depth,
                action: action.name.to_string(),
                attempt,
                protocol: action.call.protocol(),
                request: *request,
                redirects: self.pool.take_redirects(),
                answer,
                phases: state.phases,
                duration,
                checks: outcomes.unwrap_or_default(),
                extracted,
                failure: verdict.as_ref().err().cloned(),
                secrets: [variables.secrets(), pass.cookies.map(Jar::secrets).unwrap_or_default()].concat(),
                variables: variables.texts(),
            })));
        }
        Ok(CallResult {
            ended,
            duration,
            outcome: reply.as_ref().map(|reply| reply.outcome),
            body_bytes: reply.map_or(0, |reply| reply.body_bytes),
            verdict,
        })
    }
}

impl Pass<'_> {
    /// Whose credentials a request carries.
    #[inline]
    fn sender_of(&self, call: &HttpCall) -> Sender<'_> {
        if call.as_admin { Sender::deployment(&self.context.credentials) } else { self.sender }
    }

    /// Renders the headers that differ from request to request.
    #[inline]
    fn headers(
        &self,
        branch: &Branch,
        call: &HttpCall,
        signed: bool,
        variables: &Variables,
        headers: &mut HeaderBlock,
    ) -> Result<(), TemplateError> {
        headers.clear();
        // In a profiled run, no request carries trace headers that the scenario writes.
        let carrying = if signed { self.context.propagation } else { Propagation::NONE };
        render_headers(call, variables, carrying, headers)?;
        let (trace, point) = (branch.profiler.base_id(), branch.profiler.id());
        if let Some(signer) = self.signer.as_ref().filter(|_| signed) {
            add_signed_headers(headers, &signer.sign(point));
        }
        // Without a traceparent, a service's own sampler would decide, and might record an iteration of the control group.
        add_w3c_headers(headers, carrying, (trace, point), self.number, self.sampled);
        Ok(())
    }
}

/// The body as it is checked.
#[inline]
fn decompress(reply: &mut Reply, action: &Action, call: &HttpCall) -> Verdict {
    if call.decompress && action.needs_body() && reply.event.is_none() {
        let decoded = decode::decoded(reply.headers.as_deref(), &reply.body, call.body_bytes_max);
        if let Some(body) = decoded.map_err(|error| (error.class(), error.to_string()))? {
            reply.body = body;
        }
    }
    Ok(())
}

#[inline]
fn is_unauthorized(action: &Action, answer: &Reply) -> bool {
    answer.outcome
        == match action.call.protocol() {
            Protocol::Grpc => super::grpc::UNAUTHENTICATED,
            _ => StatusCode::UNAUTHORIZED.as_u16(),
        }
}

/// A cloud's words for a quota that is used up.
fn over_quota(reply: &Reply) -> Option<Fault> {
    let words = refusal::over_quota(reply.outcome, &reply.body)?;
    Some((FailureClass::Quota, format!("quota exceeded (answered {}): {words}", reply.outcome)))
}

/// The phases of an answer that was left before its end, whose head came.
fn note_phases(phases: &mut Phases, (sent, begun_at, ended): (Instant, Instant, Instant)) {
    let before = [phases.before_ns, phases.resolve_ns, phases.connect_ns, phases.tls_ns, phases.send_ns];
    let to_head_ns = saturating_nanos(begun_at.saturating_duration_since(sent));
    phases.wait_ns = to_head_ns.saturating_sub(before.iter().sum());
    phases.receive_ns = saturating_nanos(ended.saturating_duration_since(begun_at));
}

/// False while its connection is being opened.
fn is_connected(call: &HttpCall, phases: &Phases) -> bool {
    !phases.opened || phases.connect_ns > 0 && (phases.tls_ns > 0 || !call.base.origin.tls)
}

fn timed_out(action: &Action, call: &HttpCall, (phases, events): (&Phases, Option<u64>)) -> String {
    let read_time = call.stream.as_ref().and_then(|plan| plan.read_time);
    let limit = read_time.map_or(action.timeout, |read_time| read_time.min(action.timeout));
    let limit = format_ns(saturating_nanos(limit));
    let reached = match phases {
        Phases { opened: true, connect_ns: 0, .. } => "while connecting",
        _ if !is_connected(call, phases) => "in the TLS handshake",
        _ if events == Some(0) => "before the first event of the stream",
        _ if events.is_some() => "before the end of the stream",
        _ => "before the answer was complete",
    };
    format!("timed out after {limit} {reached}")
}
