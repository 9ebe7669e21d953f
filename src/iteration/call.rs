//! How the calls of actions are made: a file for each protocol. `lane.rs` does what they have in common.

#[cfg(feature = "simulation")]
#[path = "../../tests/echo/call.rs"]
mod echo;
mod grpc;
pub mod http;
mod message_times;
mod websocket;

use client::options::Version;
use plan::action::Action;
use plan::call::ProtocolCall;
use plan::call::grpc::GrpcCall;
use plan::call::http::HttpCall;
use text::template::{TemplateError, Variables};

use super::Context;
use super::pass::{Branch, CallResult, CallState, EarlierAttempts, Pass};
use http::HttpLane;
use websocket::SocketLane;

/// What a lane keeps for each protocol, such as connections.
pub(super) struct Callers {
    http: HttpLane,
    pub(super) socket: SocketLane,
    #[cfg(feature = "simulation")]
    echo: echo::EchoLane,
}

impl Callers {
    /// Without connections.
    pub(super) fn new(context: &Context) -> Self {
        Self {
            http: HttpLane::new(context),
            socket: SocketLane::default(),
            #[cfg(feature = "simulation")]
            echo: echo::EchoLane::default(),
        }
    }

    /// Ends the iteration's connections, if each iteration opens its own.
    #[inline]
    pub(super) fn end_iteration(&mut self) {
        self.http.end_iteration();
        self.socket.leave();
    }

    /// Ends all connections.
    pub(super) fn leave(&mut self) {
        self.http.leave();
        self.socket.leave();
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
            ProtocolCall::WebSocket(call) => {
                let call = (action, &**call);
                // A separate future, so that users without a WebSocket need no memory for it.
                return Box::pin(self.socket.call(state, pass, branch, call, variables, before)).await;
            }
            #[cfg(feature = "simulation")]
            ProtocolCall::Echo(call) => {
                return self.echo.call(state, pass, branch, (action, call), variables, before).await;
            }
        };
        let call = (action, call, grpc);
        if self.socket.is_open() || call.1.version == Version::Upgrade {
            // The same.
            return Box::pin(self.with_socket(state, pass, branch, call, variables, before)).await;
        }
        self.http.call(state, pass, branch, call, variables, before).await
    }

    /// Sends a request that opens a WebSocket, or one while a WebSocket is open, which is kept alive meanwhile.
    async fn with_socket(
        &mut self,
        state: &mut CallState,
        pass: &Pass<'_>,
        branch: &Branch,
        call: (&Action, &HttpCall, Option<&GrpcCall>),
        variables: &mut Variables,
        before: &EarlierAttempts,
    ) -> Result<CallResult, TemplateError> {
        let (opens, bytes_max) = (call.1.version == Version::Upgrade, call.1.body_bytes_max);
        let calling = Box::pin(self.http.call(state, pass, branch, call, variables, before));
        if opens {
            let called = calling.await;
            self.socket.open(self.http.pool(), bytes_max);
            return called;
        }
        self.socket.while_waiting(calling).await
    }
}
