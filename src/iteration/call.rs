//! How the calls of actions are made: a file for each protocol. `lane.rs` does what they have in common.

mod dialogue;
#[cfg(feature = "simulation")]
#[path = "../../tests/echo/call.rs"]
mod echo;
mod grpc;
pub mod http;
mod message_times;

use plan::action::Action;
use plan::call::ProtocolCall;
use plan::call::grpc::GrpcCall;
use plan::call::http::HttpCall;
use text::template::{TemplateError, Variables};

use super::Context;
use super::pass::{Branch, CallResult, CallState, EarlierAttempts, Pass};
use dialogue::DialogueLane;
use http::HttpLane;

/// What a lane keeps for each protocol, such as connections.
pub(super) struct Callers {
    http: HttpLane,
    pub(super) dialogue: DialogueLane,
    #[cfg(feature = "simulation")]
    echo: echo::EchoLane,
}

impl Callers {
    /// Without connections.
    pub(super) fn new(context: &Context) -> Self {
        Self {
            http: HttpLane::new(context),
            dialogue: DialogueLane::default(),
            #[cfg(feature = "simulation")]
            echo: echo::EchoLane::default(),
        }
    }

    /// Ends the iteration's connections, if each iteration opens its own.
    #[inline]
    pub(super) fn end_iteration(&mut self) {
        self.http.end_iteration();
        self.dialogue.leave();
    }

    /// Ends all connections.
    pub(super) fn leave(&mut self) {
        self.http.leave();
        self.dialogue.leave();
        #[cfg(feature = "simulation")]
        self.echo.leave();
    }

    /// Makes the call of an action, and judges its answer.
    ///
    /// # Errors
    /// A template that fails: nothing was sent.
    #[inline]
    pub(super) async fn call(
        &mut self,
        state: &mut CallState,
        pass: &Pass<'_>,
        branch: &Branch,
        action: &Action,
        variables: &mut Variables,
        before: &EarlierAttempts,
    ) -> Result<CallResult, TemplateError> {
        let (call, grpc) = match &action.call {
            ProtocolCall::Http(call) => (&**call, None),
            ProtocolCall::Grpc(call) => (&call.request, Some(&**call)),
            ProtocolCall::Dialogue(call) => {
                let call = (action, &**call);
                // A separate future, so that users without a dialogue need no memory for it.
                return Box::pin(self.dialogue.call(state, pass, branch, call, variables, before)).await;
            }
            #[cfg(feature = "simulation")]
            ProtocolCall::Echo(call) => {
                return self.echo.call(state, pass, branch, (action, call), variables, before).await;
            }
        };
        let call = (action, call, grpc);
        if self.dialogue.is_open() || call.1.version.opens() {
            // The same.
            return Box::pin(self.with_dialogue(state, pass, branch, call, variables, before)).await;
        }
        self.http.call(state, pass, branch, call, variables, before).await
    }

    /// Sends a request that opens a dialogue, or one while a dialogue is open, which is kept alive meanwhile.
    async fn with_dialogue(
        &mut self,
        state: &mut CallState,
        pass: &Pass<'_>,
        branch: &Branch,
        call: (&Action, &HttpCall, Option<&GrpcCall>),
        variables: &mut Variables,
        before: &EarlierAttempts,
    ) -> Result<CallResult, TemplateError> {
        let (opens, grpc, bytes_max) = (call.1.version.opens(), call.2, call.1.body_bytes_max);
        let calling = Box::pin(self.http.call(state, pass, branch, call, variables, before));
        if opens {
            let called = calling.await;
            self.dialogue.open(self.http.pool(), grpc, bytes_max);
            return called;
        }
        self.dialogue.while_waiting(calling).await
    }
}
