//! The actions of an iteration, compiled: nothing is parsed while the load runs.

use std::sync::Arc;
use std::time::Duration;

use client::options::Version;
use config::expect::StatusRange;
use config::step;
use measure::protocol::Protocol;
use terms::tags::Tags;
use text::diagnostics::Fault;
use text::template::CompiledText;
use text::yaml::YamlNode;
use text::yaml_place::{at, key_span};

use super::call::{ProtocolCall, WrittenCall};
use super::compiler::{ACTION_TIMEOUT, Compiler};
use super::condition::{Expect, Extract, ResponseLocation};
use super::measures::AnswerMeasure;
use super::tag_steps::tags;

/// The smallest HTTP status; gRPC statuses are smaller.
const HTTP_STATUS_MIN: u16 = 100;
/// The status of a service that agrees to open a WebSocket.
const SWITCHING_PROTOCOLS: u16 = 101;

/// What is accepted of a dialogue, unless the scenario says it.
fn accept_by_default(call: &ProtocolCall, expect: &mut Expect) {
    let statuses = match call {
        ProtocolCall::Http(call) if call.version == Version::Upgrade => vec![SWITCHING_PROTOCOLS],
        ProtocolCall::Dialogue(call) => call.accepted_codes(),
        _ => return,
    };
    if expect.status.is_empty() {
        expect.status.extend(statuses.into_iter().map(|status| StatusRange { from: status, to: status }));
    }
}

/// A call, with the checks on its answer and the values to extract.
pub struct Action {
    /// The action's name.
    pub name: Arc<str>,
    /// The action's number within its workload, from 0.
    pub index: u16,
    /// What it sends.
    pub call: ProtocolCall,
    /// The time limit.
    pub timeout: Duration,
    /// The checks on the answer.
    pub expect: Expect,
    /// The values to take from the answer.
    pub extracts: Vec<Extract>,
    /// The numbers to take from the answer.
    pub measures: Vec<AnswerMeasure>,
    /// How to repeat it until a condition holds.
    pub poll: Option<Box<PollPolicy>>,
    /// The call as written, such as method and path.
    pub label: String,
    /// Tags by which results are grouped, with those of the groups around it.
    pub tags: Tags,
}

/// How to repeat the request of an action.
pub struct PollPolicy {
    /// The condition that ends it; `None` means that all checks pass.
    pub until: Option<CompiledText>,
    /// The condition that fails it.
    pub fail_if: Option<CompiledText>,
    /// The pause between an answer and the next attempt.
    pub interval: Duration,
    /// The time from the first attempt after which it fails.
    pub deadline: Duration,
}

impl Action {
    /// True if the answer's headers must be kept. Messages about a body quote its content type.
    #[inline]
    #[must_use]
    pub fn needs_headers(&self) -> bool {
        let takes = !self.extracts.is_empty() || !self.measures.is_empty();
        takes || self.needs_body() || !self.expect.headers.is_empty()
    }

    /// True if the answer's body must be kept until the action has been checked.
    #[inline]
    #[must_use]
    pub fn needs_body(&self) -> bool {
        let mut taken = self.extracts.iter().map(|extract| &extract.place);
        self.expect.needs_body()
            || taken.any(ResponseLocation::needs_body)
            || self.measures.iter().any(|measure| measure.place.needs_body())
    }

    /// True for an outcome that is no failure.
    #[inline]
    #[must_use]
    pub fn accepts(&self, outcome: u16) -> bool {
        match self.expect.status.is_empty() {
            true => (self.call.protocol().names().is_good)(outcome),
            false => self.expect.status.iter().any(|range| (range.from..=range.to).contains(&outcome)),
        }
    }
}

impl Compiler<'_> {
    pub(super) fn action(
        &mut self,
        step: &step::Step,
        written: &WrittenCall<'_>,
        node: &YamlNode,
    ) -> Option<Action> {
        let label = written.label(step);
        let call = self.call(step, written, node);
        self.above_zero(step.timeout.map(|timeout| timeout.0), at(node, &["timeout"]), "timeout");
        // Extracted values are available only to later actions.
        let mut expect = self.texts.expect(step.expect.as_ref(), at(node, &["expect"]));
        if let Some(call) = &call {
            self.fitting(step, call, at(node, &["expect"]));
            accept_by_default(call, &mut expect);
        }
        if matches!(call, Some(ProtocolCall::Dialogue(_))) {
            self.without_headers(step, node);
        }
        let extracts = self.extracts(step, node);
        let measures = self.measures(step, node);
        self.texts.names.known.extend(step.extract.iter().flatten().map(|(name, _)| name.clone()));
        expect.variables = self.texts.expect_variables(step.expect.as_ref(), at(node, &["expect"]));
        let poll = step.poll.as_ref().and_then(|poll| self.poll(poll, at(node, &["poll"])));
        let (name, index) = self.register(step.action.as_deref().unwrap_or(&label), node);
        Some(Action {
            name,
            index,
            call: call?,
            timeout: step.timeout.map_or(ACTION_TIMEOUT, |timeout| timeout.0),
            expect,
            extracts,
            measures,
            poll,
            label,
            tags: tags(&self.nesting.tags, step, node, &mut self.texts.faults),
        })
    }

    /// Reports checks that mean nothing for this call.
    fn fitting(&mut self, step: &step::Step, call: &ProtocolCall, node: &YamlNode) {
        let Some(expect) = &step.expect else { return };
        let is_grpc = call.protocol() == Protocol::Grpc;
        let is_socket = call.protocol() == Protocol::WebSocket;
        let dialogue = match call {
            ProtocolCall::Dialogue(call) => Some(call),
            _ => None,
        };
        let has_status = dialogue.is_none_or(|call| is_grpc && call.awaits_the_end());
        let is_foreign = |range: &StatusRange| !has_status || (range.to < HTTP_STATUS_MIN) != is_grpc;
        if expect.status.as_ref().is_some_and(|status| status.0.iter().any(is_foreign)) {
            let (what, help) = match call.protocol() {
                Protocol::WebSocket => {
                    ("a message of a WebSocket has no status", "check it with `json` or `body`")
                }
                Protocol::Grpc if !has_status => {
                    ("only the end of a gRPC call has a status", "move it to a step `close: true`")
                }
                Protocol::Grpc => {
                    ("this is an HTTP status", "write the name of a gRPC status, such as NOT_FOUND")
                }
                _ => ("this is a gRPC status", "write a number, such as 404"),
            };
            let span = at(node, &["status"]).span.clone();
            self.texts.faults.push(Fault::error(span, what).help(help));
        }
        let has_messages = is_grpc || is_socket || step.stream.is_some();
        let keys = [
            (
                "message",
                expect.message.is_some() && !is_grpc && !is_socket,
                "belongs to a gRPC call or a WebSocket",
            ),
            (
                "messages",
                expect.messages.is_some() && !has_messages,
                "belongs to a gRPC call, a WebSocket, or a `stream`",
            ),
            ("headers", expect.headers.is_some() && is_socket, "belongs to the step `websocket`"),
            (
                "headers",
                expect.headers.is_some() && is_grpc && dialogue.is_some(),
                "does not belong to a message",
            ),
        ];
        for (key, _, what) in keys.into_iter().filter(|(_, is_foreign, _)| *is_foreign) {
            let fault = Fault::error(key_span(node, key), format!("`{key}` {what}"));
            let help = match key {
                "headers" if is_grpc => "remove it: metadata can be checked of calls without `steps` alone",
                "headers" => "move it there",
                _ => "check the body with `json` or `body`",
            };
            self.texts.faults.push(fault.help(help));
        }
    }

    /// Reports extractions from what a message does not have.
    fn without_headers(&mut self, step: &step::Step, node: &YamlNode) {
        let extracts = step.extract.iter().flatten();
        let extracts =
            extracts.map(|(name, of)| (["extract", name], of.header.is_some(), of.cookie.is_some()));
        let measures = step.measure.iter().flatten();
        let measures =
            measures.map(|(name, of)| (["measure", name], of.header.is_some(), of.cookie.is_some()));
        for (path, has_header, has_cookie) in extracts.chain(measures) {
            let places = [("header", has_header), ("cookie", has_cookie)];
            for (key, _) in places.into_iter().filter(|(_, is_there)| *is_there) {
                let span = key_span(at(node, &path), key);
                let fault = Fault::error(span, format!("a message has no {key}"));
                self.texts.faults.push(fault.help("take the value from the message itself, with `json`"));
            }
        }
    }

    fn extracts(&mut self, step: &step::Step, node: &YamlNode) -> Vec<Extract> {
        let mut extracts = Vec::new();
        for (name, config) in step.extract.iter().flatten() {
            let place = at(node, &["extract", name]);
            self.texts.variable_name(name, key_span(at(node, &["extract"]), name));
            extracts.extend(self.texts.extract(name, config, place));
        }
        extracts
    }
}
