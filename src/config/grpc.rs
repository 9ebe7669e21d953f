//! gRPC, as written: where the types of messages come from, and the statuses by their names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The statuses, each by its number ([status codes]).
///
/// [status codes]: https://github.com/grpc/grpc/blob/master/doc/statuscodes.md
pub const STATUSES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// The number of a status, from its name.
#[must_use]
pub fn status_number(name: &str) -> Option<u16> {
    STATUSES.iter().position(|known| *known == name).and_then(|number| u16::try_from(number).ok())
}

/// The name of a status, from its number.
#[must_use]
pub fn status_name(number: u16) -> Option<&'static str> {
    STATUSES.get(usize::from(number)).copied()
}

/// Where the types of the gRPC messages come from. Without any of these, `bench` asks each service for them before the
/// load (server reflection).
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Grpc {
    /// `.proto` files, relative to this file.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protos: Option<Vec<String>>,
    /// The folders to search for the files that `.proto` files import (default: the folders of `protos`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub import_paths: Option<Vec<String>>,
    /// A descriptor set, as `protoc --descriptor_set_out=FILE --include_imports` writes it, in place of `protos`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub descriptors: Option<String>,
}
