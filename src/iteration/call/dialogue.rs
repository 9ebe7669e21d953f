//! Sends messages over an open WebSocket or in an open gRPC call, and waits for those that come.

mod end;
mod grpc;
mod messages;
mod open;

use std::pin::pin;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use futures_util::future::{Either, select};

use base::clock::now;
use client::pool::Pool;
use client::websocket::{WebSocket, WireMessage};
use measure::errors::FailureClass;
use measure::observation::{AnswerObservation, CheckOutcome, Exchange, Observation, SentRequest};
use measure::phases::Phases;
use measure::protocol::{MESSAGE, Protocol};
use plan::action::Action;
use plan::call::dialogue::{DialogueCall, DialogueStep, MessageTemplate};
use plan::call::grpc::GrpcCall;
use text::template::{CompiledText, TemplateError, Value, Variables};

use super::grpc::messages_as_text;
use crate::compare::{Fault, Verdict};
use crate::judge::{KeptOfAnswer, ParsedReply};
use crate::observe;
use crate::pass::{Branch, CallResult, CallState, EarlierAttempts, Pass, extracted};
use end::{closed, is_usual_end};
use grpc::GrpcMessages;
use messages::{MessagesSeen, PING};
use open::OpenDialogue;

/// How long the end of a dialogue is waited for that the scenario does not close itself.
const HANG_UP_WAIT: Duration = Duration::from_secs(1);

/// The dialogue that a lane has open, if any.
#[derive(Default)]
pub(crate) struct DialogueLane(Option<OpenDialogue>);

impl DialogueLane {
    /// Takes the WebSocket or the gRPC call that a request has just opened, if it did. `bytes_max`: the largest message that
    /// is read.
    pub(crate) fn open(&mut self, pool: &mut Pool, call: Option<&GrpcCall>, bytes_max: u64) {
        self.0 = match call {
            None => WebSocket::take(pool, bytes_max).map(Box::new).map(OpenDialogue::WebSocket),
            Some(call) => pool.take_dialogue().map(|dialogue| {
                let messages = GrpcMessages::new(dialogue, call.method.clone(), bytes_max);
                OpenDialogue::Grpc(Box::new(messages))
            }),
        };
    }

    pub(crate) fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// Drops what is still open.
    #[inline]
    pub(crate) fn leave(&mut self) {
        self.0 = None;
    }

    /// Closes it, if it is still open, and waits a moment for the service to do the same, but not longer than until
    /// `deadline`: a connection that is dropped may take the closing frame with it. A gRPC call that does not end then is
    /// cancelled.
    ///
    /// # Errors
    /// The service had ended it before, otherwise than as usual, or does so now; or the connection was gone.
    pub(crate) async fn hang_up(&mut self, deadline: Option<Instant>) -> Verdict {
        let Some(mut open) = self.0.take() else { return Ok(()) };
        let protocol = open.protocol();
        if let Some(end) = open.look().await? {
            return if is_usual_end(protocol, end.0) { Ok(()) } else { Err(closed(protocol, &end)) };
        }
        let closing = async {
            let farewell = open.farewell();
            open.send(farewell).await?;
            open.end().await
        };
        let wait = deadline
            .map_or(HANG_UP_WAIT, |deadline| deadline.saturating_duration_since(now()).min(HANG_UP_WAIT));
        match tokio::time::timeout(wait, closing).await {
            Ok(Ok(end)) if !is_usual_end(protocol, end.0) => Err(closed(protocol, &end)),
            Ok(Err(fault)) if protocol == Protocol::Grpc => Err(fault),
            // Nothing was lost.
            _ => Ok(()),
        }
    }

    /// Waits, and keeps the dialogue alive meanwhile.
    pub(crate) async fn while_waiting<T>(&mut self, waiting: impl Future<Output = T>) -> T {
        let Some(open) = &mut self.0 else { return waiting.await };
        match select(pin!(waiting), Box::pin(open.idle())).await {
            Either::Left((waited, _)) => waited,
            Either::Right((never, _)) => match never {},
        }
    }

    /// Does a step of the dialogue, and judges what came.
    ///
    /// # Errors
    /// A template that fails: nothing was sent.
    pub(super) async fn call(
        &mut self,
        state: &mut CallState,
        pass: &Pass<'_>,
        branch: &Branch,
        (action, call): (&Action, &DialogueCall),
        variables: &mut Variables,
        before: &EarlierAttempts,
    ) -> Result<CallResult, TemplateError> {
        if let Some(name) = &call.trace_name {
            let trace = branch.profiler.traceparent();
            let is_traced = pass.sampled && (pass.signer.is_some() || pass.context.propagation.traces());
            let trace = if is_traced { trace } else { trace.unsampled() };
            variables.set(name, Value::from(String::from_utf8_lossy(trace.as_bytes())));
        }
        let message = message(call, variables)?;
        let request = pass.context.observed.as_ref().map(|_| self.shown(call, message.as_ref()));
        let sent = now();
        before.sends(pass, branch, action, sent, state);
        let read_until = call.read_time().map(|time| sent + time);
        let mut seen = MessagesSeen::default();
        let went = match &mut self.0 {
            None => {
                let what =
                    if call.protocol == Protocol::Grpc { "gRPC call is over" } else { "WebSocket is closed" };
                let remedy = "remove this step, or put it before the one after which it ended";
                Some(Err((FailureClass::Request, format!("the {what}: {remedy}"))))
            }
            Some(open) => {
                let call = (call, message);
                let exchange = pin!(seen.exchange(open, call, sent, (&mut state.phases, variables)));
                let limit = pass.limit(action, sent);
                let limit = read_until.map_or(limit, |until| limit.min(until));
                state.deadline.limit(limit, exchange).await
            }
        };
        let is_in_time = went.is_none() && read_until.is_some_and(|until| until <= now());
        let ended = seen.ended_at.filter(|_| matches!(went, Some(Ok(())))).unwrap_or_else(now);
        let duration = ended.saturating_duration_since(sent);
        let went = match went {
            None if is_in_time => Ok(()),
            None => {
                Err((FailureClass::Timeout, pass.timed_out(ended, || seen.timed_out(call, action.timeout))))
            }
            Some(went) => went,
        };
        self.after(call, &went, &seen);
        let mut outcomes = request.as_ref().map(|_| Vec::new());
        let is_answered = went.is_ok() || seen.is_any();
        let (reply, went) = seen.reply(call, action.needs_body(), went);
        if call.may_be_streamed() {
            state.streamed = Some(seen.into_sample(ended, is_in_time || went.is_err()));
        }
        let parsed = ParsedReply::new(&reply, pass.cookies, |_| None);
        state.seen = None;
        let verdict = match went {
            Ok(()) => parsed.verdict(action, duration, variables, KeptOfAnswer::of(state, &mut outcomes)),
            Err(fault) => {
                state.seen = parsed.seen(variables);
                Err(fault)
            }
        };
        if let (Some(observed), Some(request)) = (&pass.context.observed, request) {
            let answer = is_answered.then(|| observe::answered(&reply));
            // The reason of an end is shown, too, but is no content.
            let answer = answer.map(|answer| AnswerObservation {
                body_bytes: answer.body_bytes.max(answer.body.len() as u64),
                ..answer
            });
            let failure = verdict.as_ref().err().cloned();
            let went = (outcomes.unwrap_or_default(), failure, duration);
            let exchange = exchange((action, request, answer), went, (branch.depth, state.phases), variables);
            observed.push(Observation::Exchange(Box::new(exchange)));
        }
        let outcome = Some(reply.outcome).filter(|outcome| *outcome != MESSAGE || call.reads_to_the_status());
        Ok(CallResult { ended, duration, outcome, body_bytes: reply.body_bytes, verdict })
    }

    /// Leaves what has ended.
    fn after(&mut self, call: &DialogueCall, went: &Verdict, seen: &MessagesSeen) {
        match (went, &seen.closed, &mut self.0) {
            // Its status may be asked for later.
            (Ok(()), Some(end), Some(open)) if call.reads_until_the_end() && end.0 == 0 => {
                open.keep_end(end.clone())
            }
            (Ok(()), None, _) => {}
            _ => self.0 = None,
        }
    }

    /// What is sent, as it is shown.
    fn shown(&self, call: &DialogueCall, message: Option<&WireMessage>) -> SentRequest {
        let (method, body) = match message {
            None => ("RECEIVE", Bytes::new()),
            Some(WireMessage::Text(text)) => ("SEND", Bytes::from(text.clone())),
            Some(WireMessage::Binary(framed)) if call.protocol == Protocol::Grpc => {
                let method = self.0.as_ref().and_then(OpenDialogue::method);
                ("SEND", method.map(|method| messages_as_text(method, framed)).unwrap_or_default())
            }
            Some(WireMessage::Close(..)) if call.protocol == Protocol::Grpc => ("CLOSE", Bytes::new()),
            Some(WireMessage::Binary(bytes)) => ("SEND", Bytes::from(bytes.clone())),
            Some(WireMessage::Ping(_)) => ("PING", Bytes::new()),
            Some(WireMessage::Close(code, reason)) => {
                ("CLOSE", Bytes::from(format!("{code} {reason}").trim_end().to_owned()))
            }
        };
        let origin = &call.base.origin;
        SentRequest {
            method: method.to_owned(),
            tls: origin.tls,
            authority: origin.authority.clone(),
            socket: origin.socket().map(|path| path.to_string_lossy().into_owned()),
            path: String::new(),
            headers: Vec::new(),
            body,
        }
    }
}

/// Renders what is sent; `None` if nothing is.
fn message(call: &DialogueCall, variables: &Variables) -> Result<Option<WireMessage>, TemplateError> {
    let rendered = |text: &CompiledText| {
        let mut output = String::new();
        text.render(variables, &mut output).map(|()| output)
    };
    Ok(Some(match &call.step {
        DialogueStep::Ping => WireMessage::Ping(PING.to_vec()),
        DialogueStep::Close { code, reason } => WireMessage::Close(*code, reason.clone()),
        DialogueStep::Messages { send: None, .. } => return Ok(None),
        DialogueStep::Messages { send: Some(send), .. } => match send {
            MessageTemplate::Text(text) => WireMessage::Text(rendered(text)?),
            MessageTemplate::Json(json) => {
                let mut output = String::new();
                json.render(variables, &mut output)?;
                WireMessage::Text(output)
            }
            MessageTemplate::Binary(text) => {
                let bytes = BASE64_STANDARD.decode(rendered(text)?);
                let wrong = |error| TemplateError(format!("`binary` is not base64: {error}"));
                WireMessage::Binary(bytes.map_err(wrong)?)
            }
            MessageTemplate::Grpc(messages) => {
                let framed = match messages.literal() {
                    Some(literal) => literal.clone(),
                    None => messages.render(variables)?,
                };
                WireMessage::Binary(framed.into())
            }
        },
    }))
}

/// A step of a dialogue, as it is shown.
fn exchange(
    (action, request, answer): (&Action, SentRequest, Option<AnswerObservation>),
    (checks, failure, duration): (Vec<CheckOutcome>, Option<Fault>, Duration),
    (depth, phases): (usize, Phases),
    variables: &Variables,
) -> Exchange {
    Exchange {
        depth,
        action: action.name.to_string(),
        attempt: 1,
        protocol: action.call.protocol(),
        request,
        redirects: Vec::new(),
        extracted: if answer.is_some() { extracted(action, variables) } else { Vec::new() },
        answer,
        phases,
        duration,
        checks,
        failure,
        secrets: variables.secrets(),
        variables: variables.texts(),
    }
}
