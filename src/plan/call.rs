//! The call of an action: what is sent, in the words of its protocol.
//!
//! A protocol has a variant of [`ProtocolCall`] and a file of its own below. Name, time limit, checks, extractions and tags are
//! the [`Action`](crate::action::Action)'s, whatever it speaks.

pub mod dialogue;
#[cfg(feature = "simulation")]
#[path = "../../tests/echo/plan.rs"]
pub mod echo;
pub mod grpc;
pub mod http;
pub mod stream;
pub mod websocket;

use ::http::Method;

use client::options::Version;
use client::url::{BaseUrl, Origin};
use config::step;
use measure::protocol::Protocol;
use text::yaml::YamlNode;

use super::compiler::Compiler;
use dialogue::DialogueCall;
use grpc::GrpcCall;
use http::HttpCall;

/// What an action sends; in a box, since protocols differ in size.
pub enum ProtocolCall {
    /// A request of HTTP.
    Http(Box<HttpCall>),
    /// A gRPC call.
    Grpc(Box<GrpcCall>),
    /// A step of a dialogue that another call has opened.
    Dialogue(Box<DialogueCall>),
    /// The toy protocol of tests.
    #[cfg(feature = "simulation")]
    Echo(Box<echo::EchoCall>),
}

impl ProtocolCall {
    /// The protocol that it speaks.
    #[inline]
    #[must_use]
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Http(_) => Protocol::Http,
            Self::Grpc(_) => Protocol::Grpc,
            Self::Dialogue(call) => call.protocol,
            #[cfg(feature = "simulation")]
            Self::Echo(_) => Protocol::Echo,
        }
    }

    /// Where it goes, unless a template names another host.
    #[must_use]
    pub fn base(&self) -> &BaseUrl {
        match self {
            Self::Http(call) => &call.base,
            Self::Grpc(call) => &call.request.base,
            Self::Dialogue(call) => &call.base,
            #[cfg(feature = "simulation")]
            Self::Echo(call) => &call.base,
        }
    }

    /// The version of HTTP that it needs; `Auto` for what the run uses.
    #[must_use]
    pub fn version(&self) -> Version {
        match self {
            Self::Http(call) => call.version,
            Self::Grpc(_) => Version::Http2,
            Self::Dialogue(call) if call.protocol == Protocol::Grpc => Version::Http2,
            Self::Dialogue(_) => Version::Upgrade,
            #[cfg(feature = "simulation")]
            Self::Echo(_) => Version::Auto,
        }
    }

    /// Whether it carries the trace.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        match self {
            Self::Http(call) => call.signed,
            Self::Grpc(call) => call.request.signed,
            Self::Dialogue(call) => call.trace_name.is_some(),
            #[cfg(feature = "simulation")]
            Self::Echo(_) => false,
        }
    }

    /// Whether it is answered by a stream of messages. Of a gRPC call whose types are not known yet, it may be.
    #[must_use]
    pub fn may_be_streamed(&self) -> bool {
        match self {
            Self::Http(call) => call.stream.is_some(),
            Self::Grpc(call) => call.method.is_none() || call.answers_with_a_stream(),
            Self::Dialogue(call) => call.may_be_streamed(),
            #[cfg(feature = "simulation")]
            Self::Echo(_) => false,
        }
    }

    /// The gRPC service that is called, and where it is, if its messages are not known yet.
    pub(super) fn awaited_service(&self) -> Option<(&Origin, &str)> {
        match self {
            Self::Grpc(call) => call.awaited_service().map(|service| (&call.request.base.origin, service)),
            _ => None,
        }
    }

    /// What it sends, without values, and what goes with it. `label` is the call as written.
    pub(super) fn explained(&self, label: &str) -> (String, Vec<String>) {
        match self {
            Self::Http(call) => call.explained(label),
            Self::Grpc(call) => call.explained(label),
            Self::Dialogue(call) => call.explained(label),
            #[cfg(feature = "simulation")]
            Self::Echo(call) => call.explained(label),
        }
    }
}

/// A call as written.
pub(super) struct WrittenCall<'s> {
    /// The key that says what it is.
    pub(super) key: &'static str,
    what: CallDeclaration<'s>,
}

enum CallDeclaration<'s> {
    /// A method, and a path or a URL.
    Http(Method, &'s str),
    /// The name of a method.
    Grpc(&'s str),
    /// The path or the URL of a WebSocket.
    Handshake(&'s str),
    /// A step of a dialogue.
    Dialogue,
    /// A line.
    #[cfg(feature = "simulation")]
    Echo(&'s str),
}

impl WrittenCall<'_> {
    /// The name of its action, if it has no other.
    pub(super) fn label(&self, step: &step::Step) -> String {
        match &self.what {
            CallDeclaration::Http(method, url) => http::label(step, (self.key, method, url)),
            CallDeclaration::Grpc(name) => grpc::label(name),
            CallDeclaration::Handshake(url) => websocket::label(url),
            CallDeclaration::Dialogue => self.key.to_owned(),
            #[cfg(feature = "simulation")]
            CallDeclaration::Echo(line) => echo::label(line),
        }
    }
}

impl Compiler<'_> {
    /// The calls of a step, which has at most one if it is valid.
    pub(super) fn calls<'s>(&mut self, step: &'s step::Step, node: &YamlNode) -> Vec<WrittenCall<'s>> {
        let requests = self.http_requests(step, node).into_iter();
        let requests =
            requests.map(|(key, method, url)| WrittenCall { key, what: CallDeclaration::Http(method, url) });
        let calls = step.grpc.iter();
        let calls = calls.map(|name| WrittenCall { key: "grpc", what: CallDeclaration::Grpc(name) });
        let handshakes = step.websocket.iter();
        let handshakes =
            handshakes.map(|url| WrittenCall { key: "websocket", what: CallDeclaration::Handshake(url) });
        let messages = dialogue::key_of(step).into_iter();
        let messages = messages.map(|key| WrittenCall { key, what: CallDeclaration::Dialogue });
        let requests = requests.chain(calls).chain(handshakes).chain(messages);
        #[cfg(feature = "simulation")]
        let requests = requests.chain(
            step.echo.iter().map(|line| WrittenCall { key: "echo", what: CallDeclaration::Echo(line) }),
        );
        requests.collect()
    }

    pub(super) fn call(
        &mut self,
        step: &step::Step,
        call: &WrittenCall<'_>,
        node: &YamlNode,
    ) -> Option<ProtocolCall> {
        match &call.what {
            CallDeclaration::Http(method, url) => {
                self.http_call(step, (call.key, method, url), node).map(Box::new).map(ProtocolCall::Http)
            }
            CallDeclaration::Grpc(name) => self.grpc(step, name, node).map(Box::new).map(ProtocolCall::Grpc),
            CallDeclaration::Handshake(url) => {
                self.handshake(step, url, node).map(Box::new).map(ProtocolCall::Http)
            }
            CallDeclaration::Dialogue => {
                self.dialogue_call(step, call.key, node).map(Box::new).map(ProtocolCall::Dialogue)
            }
            #[cfg(feature = "simulation")]
            CallDeclaration::Echo(line) => self.echo(step, line, node).map(Box::new).map(ProtocolCall::Echo),
        }
    }
}
