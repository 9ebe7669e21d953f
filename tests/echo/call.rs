//! Sends its lines.

use std::io;
use std::pin::pin;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use base::clock::{now, saturating_nanos};
use measure::errors::FailureClass;
use measure::phases::Phases;
use measure::protocol::echo::{ANOTHER, SAME};
use plan::action::Action;
use plan::call::echo::EchoCall;
use text::template::{TemplateError, Variables};

use crate::judge::{KeptOfAnswer, ParsedReply};
use crate::pass::{Branch, CallResult, CallState, EarlierAttempts, Pass};
use crate::reply::Reply;

/// A lane's connection.
#[derive(Default)]
pub(crate) struct EchoLane(Option<BufReader<TcpStream>>);

impl EchoLane {
    /// Ends the connection.
    pub(crate) fn leave(&mut self) {
        self.0 = None;
    }

    /// Sends a line and reads one.
    async fn exchange(&mut self, call: &EchoCall, line: &str, phases: &mut Phases) -> io::Result<String> {
        let mut stream = match self.0.take() {
            Some(stream) => stream,
            None => {
                let began = now();
                phases.opened = true;
                let stream = TcpStream::connect(&*call.base.origin.authority).await?;
                phases.connect_ns = saturating_nanos(began.elapsed());
                BufReader::new(stream)
            }
        };
        let began = now();
        stream.write_all(format!("{line}\n").as_bytes()).await?;
        let sent = now();
        phases.send_ns = saturating_nanos(sent - began);
        let mut answer = String::new();
        stream.read_line(&mut answer).await?;
        phases.wait_ns = saturating_nanos(sent.elapsed());
        if answer.pop() != Some('\n') {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.0 = Some(stream);
        Ok(answer)
    }

    /// Sends the line of a call and judges the answer.
    ///
    /// # Errors
    /// A template that fails.
    pub(super) async fn call(
        &mut self,
        state: &mut CallState,
        pass: &Pass<'_>,
        branch: &Branch,
        (action, call): (&Action, &EchoCall),
        variables: &mut Variables,
        before: &EarlierAttempts,
    ) -> Result<CallResult, TemplateError> {
        let mut line = String::new();
        call.line.render(variables, &mut line)?;
        let sent = now();
        before.sends(pass, branch, action, sent, state);
        let answer = {
            let exchange = pin!(self.exchange(call, &line, &mut state.phases));
            state.deadline.limit(pass.limit(action, sent), exchange).await
        };
        let ended = now();
        let duration = ended - sent;
        let (reply, verdict) = match answer {
            None => {
                (None, Err((FailureClass::Timeout, pass.timed_out(ended, || "no answer in time".to_owned()))))
            }
            Some(Err(error)) => (None, Err((FailureClass::Closed, error.to_string()))),
            Some(Ok(answer)) => {
                let outcome = if answer == line { SAME } else { ANOTHER };
                let body_bytes = answer.len() as u64;
                let reply = Reply { body: answer.into_bytes(), body_bytes, ..Reply::new(outcome) };
                let verdict = ParsedReply::new(&reply, None, |_| None).verdict(
                    action,
                    duration,
                    variables,
                    KeptOfAnswer { seen: &mut state.seen, outcomes: &mut None, numbers: &mut state.numbers },
                );
                (Some(reply), verdict)
            }
        };
        let (outcome, body_bytes) = reply.map_or((None, 0), |reply| (Some(reply.outcome), reply.body_bytes));
        Ok(CallResult { ended, duration, outcome, body_bytes, verdict })
    }
}
