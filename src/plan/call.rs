//! The call of an action: what is sent, in the words of its protocol.
//!
//! A protocol has a variant of [`ProtocolCall`] and a file of its own below. Name, time limit, checks, extractions and tags are
//! the [`Action`](crate::action::Action)'s, whatever it speaks.

#[cfg(feature = "simulation")]
#[path = "../../tests/echo/plan.rs"]
pub mod echo;
pub mod http;

use ::http::Method;

use client::url::BaseUrl;
use config::step;
use measure::protocol::Protocol;
use text::yaml::YamlNode;

use super::compiler::Compiler;
use http::HttpCall;

/// What an action sends; in a box, since protocols differ in size.
pub enum ProtocolCall {
    /// A request of HTTP.
    Http(Box<HttpCall>),
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
            #[cfg(feature = "simulation")]
            Self::Echo(_) => Protocol::Echo,
        }
    }

    /// Where it goes, unless a template names another host.
    #[must_use]
    pub fn base(&self) -> &BaseUrl {
        match self {
            Self::Http(call) => &call.base,
            #[cfg(feature = "simulation")]
            Self::Echo(call) => &call.base,
        }
    }

    /// Whether it carries the trace.
    #[must_use]
    pub fn is_signed(&self) -> bool {
        match self {
            Self::Http(call) => call.signed,
            #[cfg(feature = "simulation")]
            Self::Echo(_) => false,
        }
    }

    /// What it sends, without values, and what goes with it. `label` is the call as written.
    pub(super) fn explained(&self, label: &str) -> (String, Vec<String>) {
        match self {
            Self::Http(call) => call.explained(label),
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
    /// A line.
    #[cfg(feature = "simulation")]
    Echo(&'s str),
}

impl WrittenCall<'_> {
    /// The name of its action, if it has no other.
    pub(super) fn label(&self, step: &step::Step) -> String {
        match &self.what {
            CallDeclaration::Http(method, url) => http::label(step, (self.key, method, url)),
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
            #[cfg(feature = "simulation")]
            CallDeclaration::Echo(line) => self.echo(step, line, node).map(Box::new).map(ProtocolCall::Echo),
        }
    }
}
