//! A gRPC call: a request of HTTP/2 whose body is messages of a known type.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::header::{CONTENT_TYPE, TE};
use http::{HeaderName, Method as HttpMethod};
use serde_json::{Value, json};

use base::complaint::Complaint;
use base::masking;
use client::options::{BODY_BYTES_MAX, Version};
use config::body::Lines;
use config::step::{Step, credentials::Credentials};
use grpc::message::{self, PlacePart};
use grpc::schema::{Method, split_name};
use text::diagnostics::Fault;
use text::template::CompiledText;
use text::yaml::YamlNode;
use text::yaml_place::{at, item, key_span};

use super::http::{HttpCall, mixed};
use crate::body::BodyTemplate;
use crate::compiler::{ACTION_TIMEOUT, Compiler};
use crate::headers::{header, hide_secrets_of, holds_secret};
use crate::messages::Messages;

/// Keys of requests of HTTP that mean nothing here.
const OF_HTTP: [&str; 11] = [
    "headers",
    "query",
    "json",
    "form",
    "body",
    "file",
    "multipart",
    "cookies",
    "redirects",
    "decompress",
    "stream",
];
/// Keys of gRPC calls that mean nothing for others.
const OF_GRPC: [&str; 3] = ["message", "messages", "metadata"];
/// Keys of calls that mean nothing for the opening of a dialogue, which has no answer yet.
const NOT_OF_OPENINGS: [&str; 5] = ["message", "messages", "expect", "extract", "poll"];
/// Metadata that bench writes itself.
const RESERVED: [&str; 3] = ["content-type", "te", "user-agent"];

/// A gRPC call.
pub struct GrpcCall {
    /// The request that carries it.
    pub request: HttpCall,
    /// What is called; `None` until its service has been asked for its types.
    pub method: Option<Method>,
}

impl GrpcCall {
    /// True if its answer is a stream of messages.
    #[must_use]
    pub fn answers_with_a_stream(&self) -> bool {
        !self.opens_dialogue() && self.method.as_ref().is_some_and(Method::is_server_streaming)
    }

    /// True if its messages are sent and received by steps.
    #[must_use]
    pub fn opens_dialogue(&self) -> bool {
        self.request.version == Version::Dialogue
    }

    /// The service, if its messages are not known yet.
    pub(super) fn awaited_service(&self) -> Option<&str> {
        let path = self.request.path.literal().filter(|_| self.method.is_none())?;
        Some(path.trim_start_matches('/').split_once('/')?.0)
    }

    /// See [`Call::explained`](super::ProtocolCall::explained).
    pub(super) fn explained(&self, label: &str) -> (String, Vec<String>) {
        let mut details = Vec::new();
        if let Some(method) = &self.method {
            let stream = |streams: bool| if streams { "stream of " } else { "" };
            let (input, output) = (method.input(), method.output());
            details.push(format!("{}{}", stream(method.is_client_streaming()), input.full_name()));
            details.push(format!(
                "answers with {}{}",
                stream(method.is_server_streaming()),
                output.full_name()
            ));
        } else {
            details.push("the types of its messages come from the service".to_owned());
        }
        (format!("{label} to {}", self.request.base), details)
    }
}

/// The name of an action that has none.
pub(super) fn label(name: &str) -> String {
    format!("grpc {}", name.trim_start_matches('/'))
}

impl Compiler<'_> {
    pub(super) fn grpc(&mut self, step: &Step, name: &str, node: &YamlNode) -> Option<GrpcCall> {
        let place = at(node, &["grpc"]);
        self.refuse_keys(&OF_HTTP, node, "belongs to HTTP", "use `message` and `metadata`");
        self.without_websocket(node);
        let base = self.targets.named(step, (node, place), &mut self.texts.faults)?;
        let path = match split_name(name) {
            Ok((service, method)) => format!("/{service}/{method}"),
            Err(complaint) => {
                self.texts.faults.push(Fault::of(place.span.clone(), complaint));
                return None;
            }
        };
        let of_target = self.targets.deployment().and_then(|deployment| deployment.schema_of(&base.origin));
        let method = self.schemas.method(of_target, (name, place), &mut self.texts.faults);
        let body = match &step.steps {
            Some(_) => {
                let remedy = "move it into `steps`, to `send`, `receive` or `close`";
                self.refuse_keys(&NOT_OF_OPENINGS, node, "does not belong to a call with `steps`", remedy);
                BodyTemplate::Later
            }
            None => BodyTemplate::Messages(self.messages(step, method.as_ref(), node)?),
        };
        let headers = self.metadata(step, node);
        let request = HttpCall {
            method: HttpMethod::POST,
            base,
            path: self.texts.text(&path, place)?,
            may_be_whole: false,
            query: Vec::new(),
            mixed_headers: mixed(&headers),
            headers,
            body,
            gzip: false,
            authorised: step.auth != Some(Credentials::Switch(false)),
            as_admin: step.auth == Some(Credentials::Admin),
            cookies: false,
            signed: true,
            redirects_max: 0,
            decompress: false,
            body_bytes_max: step.max_body.or(self.http.max_body).map_or(BODY_BYTES_MAX, |size| size.0),
            stream: None,
            version: if step.steps.is_some() { Version::Dialogue } else { Version::Http2 },
        };
        Some(GrpcCall { request, method })
    }

    fn messages(&mut self, step: &Step, method: Option<&Method>, node: &YamlNode) -> Option<Messages> {
        let streams = method.map(Method::is_client_streaming);
        let complaint = match (&step.message, &step.messages) {
            (Some(_), Some(_)) => Some("`message` together with `messages`"),
            (_, Some(_)) if streams == Some(false) => Some("this method takes one message"),
            (_, Some(Value::Array(_) | Value::String(_)) | None) => None,
            (_, Some(_)) => Some("`messages` is a list, or a template that gives one"),
        };
        if let Some(what) = complaint {
            let fault = Fault::error(key_span(node, "messages"), what);
            self.texts.faults.push(fault.help("write `message: {…}`, or `messages: [{…}, {…}]`"));
            return None;
        }
        let (key, are_several) = match step.messages {
            Some(_) => ("messages", true),
            None => ("message", false),
        };
        let written = step.messages.clone().or_else(|| step.message.clone()).unwrap_or_else(|| json!({}));
        let place = if node.get(key).is_some() { at(node, &[key]) } else { at(node, &["grpc"]) };
        self.grpc_messages(&written, (method, are_several, step.gzip.unwrap_or(false)), place)
    }

    /// Messages of a method, written as JSON.
    pub(super) fn grpc_messages(
        &mut self,
        written: &Value,
        (method, are_several, gzip): (Option<&Method>, bool, bool),
        place: &YamlNode,
    ) -> Option<Messages> {
        hide_secrets_of(written);
        let is_text = |parts: &[PlacePart]| {
            let input = method.map(Method::input);
            // The first part is the number of the message in the list.
            let parts = parts.get(usize::from(are_several)..).unwrap_or_default();
            input.is_some_and(|input| message::is_text(&input, parts))
        };
        let template = self.texts.json_with_texts(written, &is_text, place)?;
        let messages = Messages::new(template, method, are_several, gzip);
        messages
            .map_err(|unfit| {
                let fault = Fault::error(unfit.span(place), unfit.to_string());
                self.texts.faults.push(fault.help("see the type in the service's .proto file"));
            })
            .ok()
    }

    /// The metadata, with the headers that calls have.
    fn metadata(&mut self, step: &Step, node: &YamlNode) -> Vec<(HeaderName, CompiledText)> {
        let mut headers = vec![
            (CONTENT_TYPE, CompiledText::Literal("application/grpc".into())),
            (TE, CompiledText::Literal("trailers".into())),
        ];
        let mut add = |name: &'static str, value: String| {
            headers.push((HeaderName::from_static(name), CompiledText::Literal(value.into())));
        };
        // A dialogue has no time limit of its own, but its steps have.
        let default = step.steps.is_none().then_some(ACTION_TIMEOUT);
        if let Some(timeout) = step.timeout.map(|timeout| timeout.0).or(default) {
            add("grpc-timeout", timeout_text(timeout));
        }
        if step.gzip == Some(true) {
            add("grpc-encoding", "gzip".to_owned());
            add("grpc-accept-encoding", "gzip".to_owned());
        }
        for (name, lines) in step.metadata.iter().flatten() {
            let place = at(node, &["metadata", name]);
            for (index, value) in lines.all().iter().enumerate() {
                let place = if matches!(lines, Lines::Several(_)) { item(place, index) } else { place };
                match metadatum(name, value) {
                    Ok(name) => headers.extend(self.texts.text(value, place).map(|text| (name, text))),
                    Err(complaint) => {
                        let span = key_span(at(node, &["metadata"]), name);
                        self.texts.faults.push(Fault::of(span, complaint));
                    }
                }
            }
        }
        headers
    }

    /// Reports keys of gRPC calls beside a request of HTTP.
    pub(super) fn without_grpc(&mut self, node: &YamlNode) {
        self.refuse_keys(
            &OF_GRPC,
            node,
            "belongs to a gRPC call",
            "add `grpc: package.Service/Method`, or remove it",
        );
    }

    /// Reports keys that mean nothing in a call.
    pub(super) fn refuse_keys(&mut self, keys: &[&str], node: &YamlNode, what: &str, remedy: &str) {
        for key in keys.iter().filter(|key| node.get(key).is_some()) {
            let complaint = Complaint::new(format!("`{key}` {what}"), remedy);
            self.texts.faults.push(Fault::of(key_span(node, key), complaint));
        }
    }
}

/// The name of metadata, if it may have this value.
fn metadatum(name: &str, value: &str) -> Result<HeaderName, Complaint> {
    let literal = if value.contains("{{") { "" } else { value };
    if holds_secret(name, literal) {
        masking::header_secrets(literal).for_each(masking::hide);
    }
    let (name, _) = header(name, literal)?;
    if name.as_str().starts_with("grpc-") || RESERVED.contains(&name.as_str()) {
        let what = format!("`{name}` is written by bench itself");
        return Err(Complaint::new(what, "remove it; `timeout` and `gzip` are keys of the action"));
    }
    if name.as_str().ends_with("-bin") && !literal.is_empty() && BASE64_STANDARD.decode(literal).is_err() {
        let what = format!("the value of `{name}` is not base64, as all are whose name ends in -bin");
        return Err(Complaint::new(what, "write its bytes as base64"));
    }
    Ok(name)
}

/// A time limit as gRPC sends it: at most eight digits and a unit.
fn timeout_text(limit: Duration) -> String {
    let units = [("n", limit.as_nanos()), ("u", limit.as_micros()), ("m", limit.as_millis())];
    let fits = units.into_iter().find(|(_, number)| *number < 100_000_000);
    fits.map_or_else(
        || format!("{}S", limit.as_secs().min(99_999_999)),
        |(unit, number)| format!("{number}{unit}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_have_at_most_eight_digits() {
        for (limit, text) in [
            (Duration::from_nanos(1), "1n"),
            (Duration::from_millis(99), "99000000n"),
            (Duration::from_millis(100), "100000u"),
            (Duration::from_secs(30), "30000000u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(1_000_000), "1000000S"),
            (Duration::MAX, "99999999S"),
        ] {
            assert_eq!(timeout_text(limit), text);
        }
    }
}
