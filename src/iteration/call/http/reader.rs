//! Who reads an answer while it arrives: the events of a stream, or the times of gRPC messages. Most answers have no reader, and
//! cost nothing here.

use std::time::Instant;

use client::reading::BodyReader;
use measure::streams::StreamSample;
use plan::action::Action;
use plan::call::grpc::GrpcCall;
use plan::call::http::HttpCall;
use text::template::Variables;

use super::stream::{ReadingEnd, StreamRead, StreamReader};
use crate::call::message_times::MessageTimes;

/// The reader of an answer, in boxes: they are large, and rare.
pub(super) enum AnswerReader<'a> {
    Events(Box<StreamReader<'a>>),
    Messages(Box<MessageTimes>),
}

/// What a reader knows in the end.
#[derive(Default)]
pub(super) struct ReadAnswer {
    /// How many events have come, of a stream that had begun.
    pub(super) events: Option<u64>,
    /// The stream, if there is an answer.
    pub(super) stream: Option<Box<StreamRead>>,
    pub(super) sample: Option<StreamSample>,
    /// When the head of the stream came.
    pub(super) begun_at: Option<Instant>,
    /// Why the answer is no stream, although it was accepted.
    pub(super) unfit: Option<String>,
}

impl<'a> AnswerReader<'a> {
    /// The reader that the answer to a call needs, if any. `sent`: when the call is sent.
    #[inline]
    pub(super) fn of(
        (action, call, grpc): (&'a Action, &'a HttpCall, Option<&GrpcCall>),
        variables: &'a Variables,
        (sent, is_observed): (Instant, bool),
    ) -> Option<Self> {
        if let Some(plan) = call.stream.as_deref() {
            let reader = StreamReader::new((plan, action), variables, (sent, is_observed));
            return Some(Self::Events(Box::new(reader)));
        }
        let streams = grpc.is_some_and(GrpcCall::answers_with_a_stream);
        streams.then(|| Self::Messages(Box::new(MessageTimes::new(sent))))
    }

    pub(super) fn as_dyn(&self) -> &(dyn BodyReader + 'a) {
        match self {
            Self::Events(reader) => &**reader,
            Self::Messages(times) => &**times,
        }
    }

    /// What was read until `at`. `end`: how that ended the answer.
    #[cold]
    pub(super) fn read(self, at: Instant, end: ReadingEnd) -> ReadAnswer {
        match self {
            Self::Messages(times) => {
                let sample = times.into_sample(at, end != ReadingEnd::Whole);
                ReadAnswer { sample: Some(sample), ..ReadAnswer::default() }
            }
            Self::Events(reader) => {
                let (events, begun_at, unfit) = (reader.events(), reader.begun_at(), reader.unfit());
                let stream = reader.read(at, end);
                let sample = stream.as_ref().map(|stream| stream.sample.clone());
                let stream = stream.filter(|_| end != ReadingEnd::CutOff).map(Box::new);
                ReadAnswer { events, stream, sample, begun_at, unfit }
            }
        }
    }
}
