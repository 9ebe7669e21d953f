//! Which headers carry an iteration's trace to the services.
//!
//! OSProfiler's need an HMAC key; without one nothing of OSProfiler is sent (Rally's OSProfiler integration has the same
//! rule). W3C's Trace Context needs none. Nothing here may make an id or send anything.

use base::secret::{Secret, redacted_url};
use config::deployment::TraceHeader;
use osprofiler::driver::Collector;
use text::diagnostics::Fault;
use text::yaml::YamlNode;
use text::yaml_place::item;

/// The headers of a profiled request to a target.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Propagation {
    /// `X-Trace-Info` and `X-Trace-HMAC`, signed.
    pub osprofiler: bool,
    /// `traceparent`.
    pub w3c: bool,
    /// `tracestate` with the iteration's number.
    pub tracestate: bool,
    /// `baggage` with the iteration's number.
    pub baggage: bool,
}

impl Propagation {
    /// No headers.
    pub const NONE: Self = Self { osprofiler: false, w3c: false, tracestate: false, baggage: false };

    /// What a deployment asks for, or else what fits its key and its collector.
    #[must_use]
    pub fn of(
        wanted: Option<&[TraceHeader]>,
        has_key: bool,
        collector: Option<&Secret>,
        receives: bool,
    ) -> Self {
        let Some(wanted) = wanted else {
            let w3c = has_key || receives || stores_spans(collector);
            return Self { osprofiler: has_key, w3c, ..Self::NONE };
        };
        let wants = |header| wanted.contains(&header);
        Self {
            osprofiler: has_key && wants(TraceHeader::Osprofiler),
            w3c: wants(TraceHeader::W3c),
            tracestate: wants(TraceHeader::Tracestate),
            baggage: wants(TraceHeader::Baggage),
        }
    }

    /// True if a service can see from the headers that a request is traced.
    #[inline]
    #[must_use]
    pub fn traces(self) -> bool {
        self.osprofiler || self.w3c
    }

    /// The names of the headers, as the deployment has them.
    #[inline]
    #[must_use]
    pub fn names(self) -> Vec<&'static str> {
        let all = [
            ("osprofiler", self.osprofiler),
            ("w3c", self.w3c),
            ("tracestate", self.tracestate),
            ("baggage", self.baggage),
        ];
        all.into_iter().filter(|(_, sent)| *sent).map(|(name, _)| name).collect()
    }

    /// Why OSProfiler's headers are not among those that are sent.
    #[inline]
    #[must_use]
    pub fn without_osprofiler(self, has_key: bool) -> Option<&'static str> {
        match (self.w3c && !self.osprofiler, has_key) {
            (true, false) => Some("the deployment has no HMAC key (profiler.hmac_key)"),
            (true, true) => Some("the deployment does not name them (profiler.headers)"),
            (false, _) => None,
        }
    }

    /// That no trace can reach the collector, if that is so.
    #[inline]
    #[must_use]
    pub fn warning(self, has_key: bool, collector: Option<&Secret>) -> Option<String> {
        let collector = collector.filter(|_| !self.osprofiler && !stores_spans(collector))?;
        let because =
            if has_key { "" } else { ", because the deployment has no HMAC key (profiler.hmac_key)" };
        Some(format!(
            "no trace can reach the collector {}: it stores OSProfiler's points, and no OSProfiler headers are sent{because}",
            redacted_url(collector.expose())
        ))
    }
}

/// Faults of the list of headers, with their places.
#[inline]
pub(super) fn faults(headers: &[TraceHeader], has_key: bool, node: &YamlNode) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut fault = |place: &YamlNode, what: &str, remedy: &str| {
        faults.push(Fault::error(place.span.clone(), what).help(remedy));
    };
    if headers.is_empty() {
        fault(node, "`headers` is empty", "name at least one, or turn profiling off with `enabled: false`");
    }
    for (index, header) in headers.iter().enumerate() {
        let place = item(node, index);
        if headers[..index].contains(header) {
            fault(place, "this header is named twice", "remove one of them");
            continue;
        }
        match header {
            TraceHeader::Osprofiler if !has_key => {
                fault(
                    place,
                    "`osprofiler` needs an HMAC key to sign with",
                    "add `hmac_key`, or remove `osprofiler`",
                );
            }
            TraceHeader::Tracestate if !headers.contains(&TraceHeader::W3c) => {
                fault(place, "`tracestate` means nothing without `traceparent`", "add `w3c`");
            }
            TraceHeader::Baggage if headers == [TraceHeader::Baggage] => {
                fault(place, "`baggage` alone traces nothing", "add `w3c` or `osprofiler`");
            }
            _ => {}
        }
    }
    faults
}

#[inline]
fn stores_spans(collector: Option<&Secret>) -> bool {
    collector.is_some_and(|connection| Collector::stores_spans(connection.expose()))
}
