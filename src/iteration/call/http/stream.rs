//! Reads the answer to a request while it arrives as a stream: counts and times its events, checks each, and knows the
//! last. Of a stream without an end, no more than one event is in memory.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, StatusCode};

use base::clock::now;
use client::decode_pieces::PieceDecoder;
use client::error::ClientError;
use client::reading::BodyReader;
use measure::errors::FailureClass;
use measure::streams::{MessageClock, StreamSample};
use plan::action::Action;
use plan::call::stream::{StreamEnd, StreamPlan};
use text::charset;
use text::stream::{EventTooLarge, Splitter, StreamEvent, StreamFormat};
use text::template::Variables;

use crate::compare::{Fault, Verdict};
use crate::excerpt::short;
use crate::judge::ParsedReply;
use crate::reply::Reply;

/// How much of a stream is shown of an iteration that is observed.
const SHOWN_BYTES_MAX: usize = 64 << 10;

/// Reads the events of one answer.
pub(super) struct StreamReader<'a> {
    plan: &'a StreamPlan,
    action: &'a Action,
    variables: &'a Variables,
    sent: Instant,
    is_observed: bool,
    state: RefCell<Option<ReadingState>>,
    /// Why an accepted answer is no stream of events.
    unfit: RefCell<Option<String>>,
}

/// What is known of an answer since its head came.
struct ReadingState {
    begun_at: Instant,
    status: StatusCode,
    headers: Arc<HeaderMap>,
    decoder: PieceDecoder,
    splitter: Splitter,
    events: EventsSeen,
}

/// What is known of the events so far.
#[derive(Default)]
struct EventsSeen {
    clock: MessageClock,
    /// The data of the last event, if a check or an extraction needs it.
    last: Vec<u8>,
    is_last_needed: bool,
    /// True once an event told a number of tokens.
    has_tokens: bool,
    /// True once the end came that the scenario names.
    has_ended: bool,
    fault: Option<Fault>,
    /// The stream as it is shown, if it is.
    shown: Option<Vec<u8>>,
    body_bytes: u64,
}

/// How reading an answer ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadingEnd {
    /// The answer ended, or its reader had enough.
    Whole,
    /// The time to read it was over, as the scenario wants.
    InTime,
    /// Before there was an answer.
    CutOff,
}

/// What a stream was.
pub(super) struct StreamRead {
    pub(super) reply: Reply,
    pub(super) verdict: Verdict,
    pub(super) sample: StreamSample,
    /// What to show of it.
    pub(super) shown: Option<Vec<u8>>,
}

impl<'a> StreamReader<'a> {
    /// A reader of the answer to a request that was sent now.
    pub(super) fn new(
        (plan, action): (&'a StreamPlan, &'a Action),
        variables: &'a Variables,
        (sent, is_observed): (Instant, bool),
    ) -> Self {
        Self {
            plan,
            action,
            variables,
            sent,
            is_observed,
            state: RefCell::default(),
            unfit: RefCell::default(),
        }
    }

    /// How many events have come.
    pub(super) fn events(&self) -> Option<u64> {
        self.state.borrow().as_ref().map(|state| state.events.clock.messages())
    }

    /// When the head of the stream came.
    pub(super) fn begun_at(&self) -> Option<Instant> {
        self.state.borrow().as_ref().map(|state| state.begun_at)
    }

    /// Why an accepted answer was not read as a stream.
    pub(super) fn unfit(&self) -> Option<String> {
        self.unfit.take()
    }

    /// What came until `at`; `None` for an answer that was not read as a stream.
    pub(super) fn read(self, at: Instant, end: ReadingEnd) -> Option<StreamRead> {
        let mut state = self.state.take()?;
        if end != ReadingEnd::Whole {
            state.events.clock.cut_off(at);
        } else if !state.events.has_ended {
            let ReadingState { splitter, events, .. } = &mut state;
            if splitter.finish(&mut |event| events.take(&self, event, at)).is_err() {
                let error = too_large(self.plan);
                events.fault.get_or_insert_with(|| (error.class(), error.to_string()));
            }
        }
        let ReadingState { status, headers, events, .. } = state;
        let verdict = self.verdict(&events, end == ReadingEnd::Whole);
        let EventsSeen { clock, last, shown, body_bytes, .. } = events;
        let sample = clock.into_sample();
        let reply = Reply {
            headers: Some(headers),
            body: last,
            body_bytes,
            messages: Some(sample.messages),
            event: Some(sample.messages),
            ..Reply::new(status.as_u16())
        };
        Some(StreamRead { reply, verdict, sample, shown })
    }

    fn verdict(&self, events: &EventsSeen, is_whole: bool) -> Verdict {
        if let Some(fault) = &events.fault {
            return Err(fault.clone());
        }
        match &self.plan.end {
            Some(end) if is_whole && !events.has_ended => {
                let end = match end {
                    StreamEnd::Data(data) => format!("{data:?}"),
                    StreamEnd::Kind(kind) => format!("the event {kind:?}"),
                    StreamEnd::Json(_) => "the event that `until` names".to_owned(),
                };
                let class = FailureClass::Check;
                // The number of events would make each failure another one.
                let after = if events.clock.messages() == 0 { " without any event" } else { "" };
                Err((class, format!("the stream ended before {end}{after}")))
            }
            _ if is_whole && self.plan.tokens.is_some() && !events.has_tokens => {
                let message =
                    "no event has a whole number where `tokens` looks for it: check its path".to_owned();
                Err((FailureClass::Check, message))
            }
            _ => Ok(()),
        }
    }

    /// What is wrong with the type of an answer: a browser reads only one as a stream of events.
    fn wrong_type(&self, headers: Option<&HeaderMap>) -> Option<String> {
        let found = headers.and_then(|headers| headers.get(CONTENT_TYPE));
        let found = found.map_or_else(Default::default, |found| charset::of_field(found.as_bytes()));
        let mime = found.split(';').next().unwrap_or_default().trim();
        if self.plan.format != StreamFormat::Events || mime.eq_ignore_ascii_case("text/event-stream") {
            return None;
        }
        let found = if mime.is_empty() { "none".to_owned() } else { short(mime) };
        Some(format!(
            "the answer is no stream of events: its content type is {found}, not `text/event-stream`; `stream: lines` \
             reads any type"
        ))
    }
}

impl BodyReader for StreamReader<'_> {
    fn begin(&self, status: StatusCode, headers: Option<&HeaderMap>) -> Result<bool, ClientError> {
        self.state.replace(None);
        if !self.action.accepts(status.as_u16()) || !status.is_success() {
            return Ok(false);
        }
        if let Some(unfit) = self.wrong_type(headers) {
            self.unfit.replace(Some(unfit));
            return Ok(false);
        }
        let events = EventsSeen {
            is_last_needed: self.action.needs_body(),
            shown: self.is_observed.then(Vec::new),
            ..EventsSeen::default()
        };
        self.state.replace(Some(ReadingState {
            begun_at: now(),
            status,
            headers: Arc::new(headers.cloned().unwrap_or_default()),
            decoder: PieceDecoder::new(headers)?,
            splitter: Splitter::new(self.plan.format, self.plan.event_bytes_max),
            events,
        }));
        Ok(true)
    }

    fn take(&self, piece: &[u8], at: Instant) -> Result<ControlFlow<()>, ClientError> {
        let mut state = self.state.borrow_mut();
        let Some(ReadingState { decoder, splitter, events, .. }) = &mut *state else {
            return Ok(ControlFlow::Break(()));
        };
        events.body_bytes += piece.len() as u64;
        decoder.take(piece, &mut |decoded| {
            events.show(decoded);
            let taken = splitter.take(decoded, &mut |event| events.take(self, event, at));
            taken.map_err(|EventTooLarge| too_large(self.plan))
        })
    }

    fn kept_bytes_max(&self) -> usize {
        0
    }
}

fn too_large(plan: &StreamPlan) -> ClientError {
    let limit = plan.event_bytes_max;
    ClientError::Limit(format!("an event of the stream is larger than {limit} bytes; raise its `max_event`"))
}

impl EventsSeen {
    fn show(&mut self, content: &[u8]) {
        if let Some(shown) = &mut self.shown {
            let room = SHOWN_BYTES_MAX.saturating_sub(shown.len());
            shown.extend_from_slice(&content[..content.len().min(room)]);
        }
    }

    /// Takes an event that came `at`; breaks after the last that is wanted.
    fn take(&mut self, reader: &StreamReader<'_>, event: StreamEvent<'_>, at: Instant) -> ControlFlow<()> {
        let plan = reader.plan;
        let is_mark = match &plan.end {
            Some(StreamEnd::Data(data)) => event.data == data.as_bytes(),
            Some(StreamEnd::Kind(kind)) => event.kind == kind.as_bytes(),
            _ => false,
        };
        if is_mark {
            self.has_ended = true;
            return ControlFlow::Break(());
        }
        self.clock.count(reader.sent, at);
        if plan.reads_json() {
            self.fault = self.read_json(reader, event.data).err();
        }
        if self.is_last_needed || self.fault.is_some() {
            self.last.clear();
            self.last.extend_from_slice(event.data);
        }
        let is_last = plan.events_max.is_some_and(|max| self.clock.messages() >= max);
        if self.has_ended || self.fault.is_some() || is_last {
            self.has_ended |= is_last;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    /// What the JSON of an event decides.
    fn read_json(&mut self, reader: &StreamReader<'_>, data: &[u8]) -> Verdict {
        let (plan, number) = (reader.plan, self.clock.messages());
        let event = Reply { body: data.to_vec(), event: Some(number), ..Reply::new(0) };
        let parsed = ParsedReply::new(&event, None, |_| None);
        if let Some(tokens) = plan.tokens.as_ref().and_then(|path| parsed.whole_number(path)) {
            self.clock.note_tokens(tokens);
            self.has_tokens = true;
        }
        if let Some(StreamEnd::Json(conditions)) = &plan.end {
            self.has_ended = parsed.check_paths(conditions, reader.variables).is_ok();
        }
        let checked = parsed.check_paths(&plan.each, reader.variables);
        checked.map_err(|(class, message)| (class, format!("in an event of the stream: {message}")))
    }
}
