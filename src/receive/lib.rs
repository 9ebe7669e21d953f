//! A receiver of OpenTelemetry's spans, so that a service needs no other backend.
//!
//! A service that has `OTEL_EXPORTER_OTLP_ENDPOINT` set to the receiver's address sends its spans here: by OTLP/HTTP in
//! protobuf or JSON, or by OTLP/gRPC, all on the same ports ([`listen`]). [`server`] has the connections, `http` and
//! `grpc` the two protocols, `intake` what is done with a body, [`wire`] the format (JSON is made protobuf first),
//! [`links`] which other traces belong to a run's, and `answer` what senders are told. [`forward`] passes everything on
//! to the backend that the service had before. Spans go to a [`Taker`]. [`spool`] keeps the spans of the iterations
//! that may be chosen after the load, in the run's directory. [`mod@file`] keeps all spans, for a receiver without a
//! run.
//!
//! All of it runs on a single thread of its own. Nothing here may hold up the load, print, or fail a run: whatever is
//! wrong with a request is answered as the OTLP specification says, and counted ([`counts`]). All memory is bounded:
//! connections, bodies, what bodies decompress to, what waits to be forwarded, and the last requests with foreign spans
//! (16 MiB). Some of these spans may belong to a run by a link that comes later.

mod answer;
pub mod counts;
pub mod file;
pub mod forward;
mod grpc;
mod http;
mod intake;
pub mod links;
pub mod listen;
pub mod rate;
pub mod server;
#[cfg(feature = "simulation")]
pub mod simulated;
pub mod spool;
#[cfg(test)]
mod tests;
pub mod wire;

/// Whatever takes spans from the network. Called on the receiver's thread; must be quick and must not block.
pub trait Taker: Send + Sync + 'static {
    /// Whether spans of this trace may be of use. Foreign spans are counted by the receiver and not decoded.
    fn wants(&self, trace_id: u128) -> bool;

    /// Takes spans of one trace: an encoded OTLP `ResourceSpans` message that holds only these spans (resource and
    /// scopes with them). Spans of other traces that belong to it because of links keep the ids of their own traces. A
    /// trace may come in any number of such messages, also within one request.
    fn take(&self, trace_id: u128, spans: u32, resource_spans: &[u8]);
}
