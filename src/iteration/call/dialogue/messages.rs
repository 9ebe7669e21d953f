//! What comes in a dialogue in answer to a step.

use std::time::{Duration, Instant};

use bytes::Bytes;

use base::clock::{now, saturating_nanos};
use base::masking::masked;
use base::units::format_ns;
use client::websocket::{SocketMessage, WireMessage};
use measure::errors::FailureClass;
use measure::phases::Phases;
use measure::protocol::MESSAGE;
use measure::streams::{MessageClock, StreamSample};
use plan::call::dialogue::{AwaitedMessage, DialogueCall, DialogueStep};
use text::template::Variables;

use super::end::{DialogueEnd, closed, is_usual_end};
use super::open::OpenDialogue;
use crate::compare::{Fault, Verdict};
use crate::judge::ParsedReply;
use crate::reply::Reply;

/// The content of pings: each pong is awaited before the next ping, so one is enough.
pub(super) const PING: &[u8] = b"bench";

/// What came in answer to a step.
#[derive(Default)]
pub(super) struct MessagesSeen {
    clock: MessageClock,
    /// The last message that was waited for.
    last: Option<Bytes>,
    /// The last of the others.
    skipped: Option<Bytes>,
    bytes: u64,
    /// When the last message came that was waited for, or the step ended without one.
    pub(super) ended_at: Option<Instant>,
    /// How the service ended the dialogue.
    pub(super) closed: Option<DialogueEnd>,
}

impl MessagesSeen {
    /// Whether any message came.
    pub(super) fn is_any(&self) -> bool {
        self.skipped.is_some() || self.clock.messages() > 0
    }

    /// Sends a message, if there is one, and waits for what the step says.
    pub(super) async fn exchange(
        &mut self,
        open: &mut OpenDialogue,
        (call, message): (&DialogueCall, Option<WireMessage>),
        sent: Instant,
        (phases, variables): (&mut Phases, &Variables),
    ) -> Verdict {
        if let Some(message) = message {
            // What the service has closed before takes no message.
            // The end of a call may have come before: then the messages before it are read all the same.
            if !call.reads_to_the_status() {
                self.closed = open.look().await?;
                if self.closed.is_some() {
                    return Ok(());
                }
            }
            if call.is_answered() {
                // What came before the question is no answer.
                let (last, bytes) = open.skip_kept();
                self.skipped = last.map(|last| Bytes::copy_from_slice(last.content()));
                self.bytes += bytes;
            }
            open.send(message).await?;
            phases.send_ns = saturating_nanos(now() - sent);
        }
        let written = sent + Duration::from_nanos(phases.send_ns);
        match &call.step {
            DialogueStep::Messages { receive: None, .. } => {
                self.ended_at = Some(written);
                return Ok(());
            }
            DialogueStep::Messages { receive: Some(awaited), .. } => {
                self.receive(open, awaited, (sent, variables)).await?;
            }
            DialogueStep::Ping => self.closed = open.pong(PING).await?,
            DialogueStep::Close { .. } if call.reads_to_the_status() => {
                self.receive(open, &AwaitedMessage::all(), (sent, variables)).await?;
            }
            DialogueStep::Close { .. } => self.closed = Some(open.end().await?),
        }
        let ended = *self.ended_at.get_or_insert_with(now);
        phases.wait_ns = saturating_nanos(ended.saturating_duration_since(written));
        Ok(())
    }

    async fn receive(
        &mut self,
        open: &mut OpenDialogue,
        awaited: &AwaitedMessage,
        (sent, variables): (Instant, &Variables),
    ) -> Verdict {
        while awaited.count.is_none_or(|count| self.clock.messages() < count) {
            let (at, message, bytes) = open.next().await?;
            match message {
                SocketMessage::Close(code, reason) => {
                    (self.closed, self.ended_at) = (Some((code, reason)), Some(now()));
                    return Ok(());
                }
                SocketMessage::Pong(_) => {}
                SocketMessage::Text(content) | SocketMessage::Binary(content) => {
                    self.bytes += bytes;
                    if awaited.close.is_none() && is_awaited(awaited, &content, variables)? {
                        self.clock.count(sent, at);
                        // One that was there already takes no time.
                        (self.last, self.ended_at) = (Some(content), Some(at.max(sent)));
                    } else {
                        self.skipped = Some(content);
                    }
                }
            }
        }
        Ok(())
    }

    /// What is checked, or why nothing is.
    pub(super) fn reply(&mut self, call: &DialogueCall, needs_body: bool, went: Verdict) -> (Reply, Verdict) {
        let of = |body: Option<Bytes>| body.map(|body| body.to_vec()).unwrap_or_default();
        if call.reads_to_the_status() && went.is_ok() {
            let (code, words) = self.closed.take().unwrap_or_default();
            let lacks_message = needs_body && code == 0 && self.clock.messages() == 0;
            let went = if lacks_message { Err(no_message()) } else { Ok(()) };
            let said = (code != 0).then(|| masked(&words).into_owned());
            let messages = Some(self.clock.messages());
            // What came before the end counts, too.
            let body = of(self.last.take());
            return (Reply { body, body_bytes: self.bytes, messages, said, ..Reply::new(code) }, went);
        }
        let (code, body, went) = match (went, self.closed.take()) {
            (Err(fault), _) => (MESSAGE, of(self.last.take().or_else(|| self.skipped.take())), Err(fault)),
            (Ok(()), None) if self.clock.messages() == 0 && needs_body => {
                (MESSAGE, Vec::new(), Err(no_message()))
            }
            (Ok(()), None) => (MESSAGE, of(self.last.take()), Ok(())),
            (Ok(()), Some((code, _))) if call.reads_until_the_end() && is_usual_end(call.protocol, code) => {
                (MESSAGE, of(self.last.take()), Ok(()))
            }
            (Ok(()), Some((code, reason))) => {
                let went = match call.awaits_the_end() {
                    true => Ok(()),
                    false => Err(closed(call.protocol, &(code, reason.clone()))),
                };
                (code, reason.into_bytes(), went)
            }
        };
        let messages = Some(self.clock.messages());
        (Reply { body, body_bytes: self.bytes, messages, ..Reply::new(code) }, went)
    }

    /// What was measured until `at`. `is_cut_off`: more messages might have come.
    pub(super) fn into_sample(self, at: Instant, is_cut_off: bool) -> StreamSample {
        let mut clock = self.clock;
        if is_cut_off {
            clock.cut_off(at);
        }
        clock.into_sample()
    }

    /// The message for a step that timed out.
    pub(super) fn timed_out(&self, call: &DialogueCall, limit: Duration) -> String {
        let reached = match &call.step {
            DialogueStep::Ping => "before the pong came",
            DialogueStep::Close { .. } if call.reads_to_the_status() => {
                "before the service had ended the call"
            }
            DialogueStep::Close { .. } => "before the service had closed the WebSocket, too",
            DialogueStep::Messages { receive: None, .. } => "before the message was sent",
            DialogueStep::Messages { .. } if call.awaits_the_end() => {
                "before the service had closed the WebSocket"
            }
            DialogueStep::Messages { .. } if self.clock.messages() > 0 => "before all messages had come",
            DialogueStep::Messages { .. } if self.skipped.is_some() => {
                "while other messages came, but none that `receive` describes"
            }
            DialogueStep::Messages { .. } => "before a message came",
        };
        format!("timed out after {} {reached}", format_ns(saturating_nanos(limit)))
    }
}

fn no_message() -> Fault {
    (FailureClass::Check, "no message came".to_owned())
}

/// Whether a message is waited for.
fn is_awaited(awaited: &AwaitedMessage, content: &Bytes, variables: &Variables) -> Result<bool, Fault> {
    if awaited.json.is_empty() && awaited.text.is_none() {
        return Ok(true);
    }
    let reply = Reply { body: content.to_vec(), ..Reply::new(MESSAGE) };
    let parsed = ParsedReply::new(&reply, None, |_| None);
    let text = awaited.text.as_ref().map_or(Ok(()), |text| parsed.check_body(text, variables));
    match text.and_then(|()| parsed.check_paths(&awaited.json, variables)) {
        Ok(()) => Ok(true),
        Err(fault) if fault.0 == FailureClass::Template => Err(fault),
        Err(_) => Ok(false),
    }
}
