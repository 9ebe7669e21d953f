//! Passes traces in messages, as OpenStack's services do with oslo.messaging.
//!
//! Nova, Cinder and Mistral put `trace_info` into a message's context: an object of `hmac_key`,
//! `base_id` and `parent_id`, the arguments of OSProfiler's `init`. **The message contains the key
//! itself**: anyone who can read the messages can have requests traced. Incoming contexts are bounded.
//! They are accepted from any sender, unless the service checks them against its own keys.

use std::borrow::Cow;
use std::fmt::Display;

use serde_json::{Map, Value, json};

use super::notifier;
use super::record::IntoInfo;
use super::signing::Signer;
use super::trace::TraceHandle;
use super::trace::current;
use super::traced::{TracedFuture, failed};
use super::verifying::{ServerKeys, TraceContext, id};
use base::secret::Secret;

/// The key of a message's context that holds the trace.
pub const TRACE_INFO: &str = "trace_info";
/// The name that OpenStack's services give to these points.
pub const POINT_NAME: &str = "rpc";
/// Contexts with a longer key or id (bytes) are not traced.
pub const VALUE_LEN_MAX: usize = 1024;

/// The value of [`TRACE_INFO`] for a message that is sent now. `None` if no
/// profiler is initialised, or if it has no key.
#[must_use]
pub fn outgoing() -> Option<Value> {
    trace_info(&current::current()?)
}

/// As [`outgoing`], for a handle.
#[must_use]
pub fn trace_info(trace: &TraceHandle) -> Option<Value> {
    let hmac_key = trace.signer()?.key().expose();
    Some(json!({"hmac_key": hmac_key, "base_id": trace.base_id(), "parent_id": trace.id()}))
}

/// Puts the current point into a message's context, if there is one.
pub fn pack(context: &mut Map<String, Value>) {
    if let Some(info) = outgoing() {
        context.insert(TRACE_INFO.to_owned(), info);
    }
}

/// Takes the trace out of a message's context. With `keys`, only one whose key is among them is
/// taken; without, any (as OpenStack's services do, which trust their bus).
#[must_use]
pub fn incoming(context: &mut Map<String, Value>, keys: Option<&ServerKeys>) -> Option<TraceContext> {
    let Value::Object(mut info) = context.remove(TRACE_INFO)? else { return None };
    let short = |text: &str| text.len() <= VALUE_LEN_MAX;
    let key = match info.remove("hmac_key") {
        Some(Value::String(key)) if short(&key) => Signer::new(&Secret::new(key))?,
        _ => return None,
    };
    let base_id = id(info.get("base_id"), "base_id").ok()?.filter(|id| short(id))?;
    let parent_id = match id(info.get("parent_id"), "parent_id").ok()? {
        Some(id) => Some(id).filter(|id| short(id))?,
        None => base_id.clone(),
    };
    let signer = match keys {
        Some(keys) => keys.find(&key)?.clone(),
        None => key,
    };
    Some(TraceContext { base_id, parent_id, signer })
}

/// Handles a message: `work` is a point named `rpc` of the trace it came with, and has it for its
/// profiler. Without one it is not traced. Reports to the process's notifier ([`notifier::set`]).
pub fn serve<F, T, E>(context: Option<TraceContext>, function: &str, work: F) -> TracedFuture<F>
where
    F: Future<Output = Result<T, E>>,
    E: Display,
{
    let flow = context.map(|context| {
        let trace = TraceHandle::of(context, notifier::get());
        current::Flow::of_point(trace.enter(POINT_NAME, Some(function_info(function).into_info())))
    });
    TracedFuture::running(work, flow, Some(failed))
}

/// Calls another service: `work`, which sends the message and waits for the answer, is a point
/// named `rpc`. Only what `work` packs itself has the point for its parent.
pub fn call<F, T, E>(function: impl Into<Cow<'static, str>>, work: F) -> TracedFuture<F, impl IntoInfo>
where
    F: Future<Output = Result<T, E>>,
    E: Display,
{
    let function = function.into();
    TracedFuture::point(work, Cow::Borrowed(POINT_NAME), move || function_info(&function), Some(failed))
}

fn function_info(name: &str) -> Value {
    json!({"function": {"name": name}})
}
