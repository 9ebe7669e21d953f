//! The part of a deployment about trace headers and OpenTelemetry's spans.

use std::net::SocketAddr;

use crate::{http, propagation};
use ::config::deployment::{self as config, TraceHeader};
use base::masking;
use text::diagnostics::Fault;
use text::yaml::YamlNode;
use text::yaml_place::at;

use super::ReferenceReader;

/// What a deployment says of trace headers and of OpenTelemetry's spans.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    /// The headers that carry the trace, if the deployment names them.
    pub headers: Option<Vec<TraceHeader>>,
    /// Where spans are received.
    pub receive: Vec<SocketAddr>,
    /// Where received spans are passed on to.
    pub forward: Option<String>,
}

pub(super) fn spans(
    reader: &mut ReferenceReader<'_>,
    profiler: Option<&config::Profiler>,
    node: &YamlNode,
    has_key: bool,
) -> Spans {
    let Some(profiler) = profiler else { return Spans::default() };
    if let Some(headers) = &profiler.headers {
        reader.faults.extend(propagation::faults(headers, has_key, at(node, &["headers"])));
    }
    let address = profiler.receive.as_ref().and_then(|address| {
        let place = at(node, &["receive"]);
        let text = reader.known_text(address, place)?;
        let read = http::receive_address(&text);
        read.map_err(|complaint| reader.quoting_fault(address, &text, place, complaint)).ok()
    });
    let receive: Vec<SocketAddr> = address.into_iter().collect();
    let place = at(node, &["forward"]);
    let forward = profiler.forward.as_ref().and_then(|url| reader.text(url, place));
    if let Some(url) = &forward {
        masking::hide_url(url);
        if profiler.receive.is_none() {
            let fault =
                Fault::error(place.span.clone(), "`forward` passes on what is received, and nothing is");
            reader.faults.push(fault.help("add `receive: 127.0.0.1:4318`"));
        } else if reader.url(url, place).is_none() {
            return Spans::default();
        }
    }
    Spans { headers: profiler.headers.clone(), receive, forward }
}
