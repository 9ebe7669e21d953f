//! The gRPC messages that a call sends, compiled: encoded once if nothing in them changes.

use bytes::Bytes;
use serde_json::value::RawValue;

use grpc::message::{MisfitError, PlacePart};
use grpc::schema::Method;
use grpc::{frames, message};
use text::template::{CompiledText, TemplateError, Variables};
use text::yaml::YamlNode;
use text::yaml_place::item;

use super::json::JsonTemplate;

/// The messages that a call sends.
pub struct Messages {
    /// JSON: one message, or a list of them.
    template: JsonTemplate,
    /// `None` until the types are known.
    method: Option<Method>,
    /// Whether `template` gives a list.
    are_several: bool,
    /// Whether they are compressed.
    gzip: bool,
    /// The body, if nothing in it changes.
    literal: Option<Bytes>,
}

impl Messages {
    pub(super) fn new(
        template: JsonTemplate,
        method: Option<&Method>,
        are_several: bool,
        gzip: bool,
    ) -> Result<Self, UnfitMessage> {
        let mut messages = Self { template, method: method.cloned(), are_several, gzip, literal: None };
        if let Some(json) = messages.template.literal() {
            messages.literal = Some(messages.encoded(&json)?);
        }
        Ok(messages)
    }

    /// The body, if all calls send the same.
    #[must_use]
    pub fn literal(&self) -> Option<&Bytes> {
        self.literal.as_ref()
    }

    /// The texts in them.
    pub(super) fn texts(&self) -> impl Iterator<Item = &CompiledText> {
        self.template.texts()
    }

    /// The body of a call.
    ///
    /// # Errors
    /// A template that fails, or JSON that does not fit the type.
    pub fn render(&self, variables: &Variables) -> Result<Bytes, TemplateError> {
        let mut json = String::new();
        self.template.render(variables, &mut json)?;
        self.encoded(&json).map_err(|unfit| TemplateError(unfit.to_string()))
    }

    fn encoded(&self, json: &str) -> Result<Bytes, UnfitMessage> {
        let Some(method) = &self.method else { return Ok(Bytes::new()) };
        let mut body = Vec::new();
        if self.are_several {
            let messages: Vec<&RawValue> = serde_json::from_str(json).map_err(|_| UnfitMessage::NoList)?;
            for (number, message) in messages.into_iter().enumerate() {
                let bytes = message::encode(method.input(), message.get());
                let bytes = bytes.map_err(|misfit| UnfitMessage::Misfit(Some(number), misfit))?;
                frames::push(&mut body, &bytes, self.gzip);
            }
        } else {
            let bytes = message::encode(method.input(), json);
            let bytes = bytes.map_err(|misfit| UnfitMessage::Misfit(None, misfit))?;
            frames::push(&mut body, &bytes, self.gzip);
        }
        Ok(body.into())
    }
}

/// Why JSON cannot be sent.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnfitMessage {
    #[error("the messages are no list")]
    NoList,
    /// The number of the message in a list, from 0.
    #[error("{}{_1}", number_in_list(*_0))]
    Misfit(Option<usize>, MisfitError),
}

fn number_in_list(number: Option<usize>) -> String {
    number.map(|number| format!("message {}: ", number + 1)).unwrap_or_default()
}

impl UnfitMessage {
    /// The place in the file, as far as it is there.
    pub(super) fn span(&self, node: &YamlNode) -> std::ops::Range<usize> {
        let Self::Misfit(number, misfit) = self else { return node.span.clone() };
        let mut node = number.map_or(node, |number| item(node, number));
        for part in &misfit.place {
            match part {
                PlacePart::Key(key) => match node.get(key) {
                    Some(within) => node = within,
                    None => return node.span.clone(),
                },
                PlacePart::Item(number) => node = item(node, *number),
            }
        }
        node.span.clone()
    }
}
