//! The ends of dialogues, and the messages about their failures.

use base::masking::masked;
use client::error::ClientError;
use measure::errors::FailureClass;
use measure::protocol::Protocol;

use crate::compare::Fault;

/// The code of a normal closure of a WebSocket.
pub(super) const NORMAL: u16 = 1000;
/// A closing frame without a code counts as one with this code.
const NO_CODE: u16 = 1005;

/// How a service ended a dialogue: a code of WebSocket or a status of gRPC, and its words.
pub(super) type DialogueEnd = (u16, String);

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(super) fn fault(error: ClientError) -> Fault {
    (error.class(), error.to_string())
}

/// True for the code of a usual end.
pub(super) fn is_usual_end(protocol: Protocol, code: u16) -> bool {
    match protocol {
        Protocol::Grpc => code == 0,
        _ => matches!(code, NORMAL | NO_CODE),
    }
}

/// The failure of a step during which the service ended the dialogue.
pub(super) fn closed(protocol: Protocol, (code, reason): &DialogueEnd) -> Fault {
    if protocol == Protocol::Grpc {
        // The words begin with the status.
        return (FailureClass::Closed, format!("the service ended the call: {}", masked(reason)));
    }
    let code = (protocol.names().outcome)(*code);
    let reason = if reason.is_empty() { String::new() } else { format!(": {}", masked(reason)) };
    (FailureClass::Closed, format!("the service closed the WebSocket: {code}{reason}"))
}
