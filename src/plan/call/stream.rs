//! How the answer of a request is read that comes as a stream.

use std::collections::BTreeMap;
use std::time::Duration;

use config::step::Step;
use config::stream::{self, StreamDetails};
use text::diagnostics::Fault;
use text::stream::StreamFormat;
use text::yaml::YamlNode;
use text::yaml_place::{at, key_span};

use crate::compare::ValueCondition;
use crate::compiler::{ACTION_TIMEOUT, Compiler};
use crate::condition::Path;

/// The largest event that is read, unless the scenario says otherwise.
const EVENT_BYTES_MAX: u64 = 4 << 20;

/// How a stream is read.
pub struct StreamPlan {
    pub format: StreamFormat,
    /// The event after which no more are read; the stream must have it.
    pub end: Option<StreamEnd>,
    /// The number of events after which no more are read.
    pub events_max: Option<u64>,
    /// The time after which no more are read.
    pub read_time: Option<Duration>,
    /// Conditions on every event.
    pub each: Vec<(Path, ValueCondition)>,
    /// Where an event has the number of tokens.
    pub tokens: Option<Path>,
    /// The largest event that is read.
    pub event_bytes_max: usize,
}

/// The event after which no more are read.
pub enum StreamEnd {
    /// An event with this data marks the end, and is no message itself.
    Data(String),
    /// The same for one of this type.
    Kind(String),
    /// The event that meets these conditions is the last message.
    Json(Vec<(Path, ValueCondition)>),
}

impl StreamPlan {
    /// True if events must be read as JSON.
    #[must_use]
    pub fn reads_json(&self) -> bool {
        !self.each.is_empty() || self.tokens.is_some() || matches!(self.end, Some(StreamEnd::Json(_)))
    }

    /// In words, for `bench validate --explain`.
    pub(super) fn explained(&self) -> String {
        let format = match self.format {
            StreamFormat::Events => "a stream of events",
            StreamFormat::Lines => "a stream of lines",
            StreamFormat::Chunks => "a stream of chunks",
        };
        let end = match &self.end {
            None => String::new(),
            Some(StreamEnd::Data(data)) => format!(" until {data:?}"),
            Some(StreamEnd::Kind(kind)) => format!(" until the event {kind:?}"),
            Some(StreamEnd::Json(paths)) => {
                let paths: Vec<_> = paths.iter().map(|(path, _)| path.to_string()).collect();
                format!(" until the event with {}", paths.join(" and "))
            }
        };
        format!("answers with {format}{end}")
    }
}

impl Compiler<'_> {
    /// The stream of a step, if its answer comes as one.
    pub(super) fn stream(&mut self, step: &Step, node: &YamlNode) -> Option<StreamPlan> {
        let written = step.stream.as_ref()?;
        let details = written.details();
        let node = at(node, &["stream"]);
        self.above_zero(details.read_time.map(|time| time.0), at(node, &["for"]), "for");
        self.fitting_stream(step, &details, node);
        let (format, event_bytes_max) = (format(details.format), event_bytes_max(&details));
        let end = self.stream_end(&details, format, node);
        if format == StreamFormat::Chunks {
            for key in ["each", "tokens"].into_iter().filter(|key| node.get(key).is_some()) {
                let fault =
                    Fault::error(key_span(node, key), format!("`{key}` reads whole events, not chunks"));
                self.texts.faults.push(fault.help("write `as: events` or `as: lines`"));
            }
        }
        let each = self.texts.json_conditions(details.each.as_ref(), at(node, &["each"]));
        let tokens = details.tokens.as_ref().and_then(|path| {
            let span = at(node, &["tokens"]).span.clone();
            self.texts.json_path(path, span)
        });
        let read_time = details.read_time.map(|time| time.0);
        Some(StreamPlan { format, end, events_max: details.max, read_time, each, tokens, event_bytes_max })
    }

    /// Reports what can never work.
    fn fitting_stream(&mut self, step: &Step, details: &StreamDetails, node: &YamlNode) {
        let mut fault = |span: std::ops::Range<usize>, what: &str, help: &str| {
            self.texts.faults.push(Fault::error(span, what).help(help));
        };
        let timeout = step.timeout.map_or(ACTION_TIMEOUT, |timeout| timeout.0);
        if details.read_time.is_some_and(|read_time| read_time.0 >= timeout) {
            let help = "give the action a longer `timeout`; the default is 30s";
            fault(at(node, &["for"]).span.clone(), "`for` is not shorter than the action's time limit", help);
        }
        if step.head.is_some() {
            fault(node.span.clone(), "the answer to HEAD has no body", "use `get`, or remove `stream`");
        }
        if step.poll.is_some() {
            let help = "end the stream with `until`, or remove one of them";
            fault(node.span.clone(), "`stream` together with `poll`", help);
        }
        if details.max_event.is_some_and(|size| size.0 == 0) {
            let help = "give it a size, such as 1MiB, or remove `max_event`";
            fault(at(node, &["max_event"]).span.clone(), "`max_event` is zero", help);
        }
        let (text, has_none) = match &details.until {
            Some(stream::StreamEnd::Data(text)) => (Some(text), text.is_empty()),
            Some(stream::StreamEnd::Event(stream::EndEvent { event, json })) => {
                (event.as_ref(), json.as_ref().is_some_and(BTreeMap::is_empty))
            }
            None => (None, false),
        };
        if has_none {
            let help = "write what ends the stream, such as \"[DONE]\" or {json: {$.done: true}}";
            fault(at(node, &["until"]).span.clone(), "`until` names nothing", help);
        }
        if text.is_some_and(|text| text.contains("{{")) {
            let help = "write a text, or compare with `until: {json: …}`, which may have templates";
            fault(at(node, &["until"]).span.clone(), "this text of `until` has no templates", help);
        }
    }

    fn stream_end(
        &mut self,
        details: &StreamDetails,
        format: StreamFormat,
        node: &YamlNode,
    ) -> Option<StreamEnd> {
        let node = at(node, &["until"]);
        Some(match details.until.as_ref()? {
            stream::StreamEnd::Data(data) => StreamEnd::Data(data.clone()),
            stream::StreamEnd::Event(event) => match (&event.event, &event.json) {
                (Some(kind), None) => {
                    if format != StreamFormat::Events {
                        let fault = Fault::error(node.span.clone(), "only server-sent events have a type");
                        self.texts
                            .faults
                            .push(fault.help("write `as: events`, or `until` with a text or `json`"));
                    }
                    StreamEnd::Kind(kind.clone())
                }
                (None, json @ Some(_)) => {
                    StreamEnd::Json(self.texts.json_conditions(json.as_ref(), at(node, &["json"])))
                }
                _ => {
                    let fault =
                        Fault::error(node.span.clone(), "`until` has exactly one of `event` and `json`");
                    self.texts.faults.push(fault.help("write the one that ends the stream"));
                    return None;
                }
            },
        })
    }
}

fn format(written: stream::StreamFormat) -> StreamFormat {
    match written {
        stream::StreamFormat::Events => StreamFormat::Events,
        stream::StreamFormat::Lines => StreamFormat::Lines,
        stream::StreamFormat::Chunks => StreamFormat::Chunks,
    }
}

fn event_bytes_max(details: &StreamDetails) -> usize {
    let bytes = details.max_event.map_or(EVENT_BYTES_MAX, |size| size.0);
    usize::try_from(bytes).unwrap_or(usize::MAX)
}
