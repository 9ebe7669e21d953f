//! What client and server agree on for the compression of messages: the extension permessage-deflate
//! ([RFC 7692](https://www.rfc-editor.org/rfc/rfc7692), section 7.1).

use base::complaint::Complaint;

use super::deflate::WINDOW_BITS_MAX;

const NAME: &str = "permessage-deflate";

/// How the messages of a connection may be compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageCompression {
    /// Whether a message of the server may refer to those before it.
    pub server_keeps_context: bool,
    /// The window that the client may use, as a power of two.
    pub client_window_bits: u8,
}

/// The parameters of an offer or of an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeflateTerms {
    server_no_context_takeover: bool,
    client_no_context_takeover: bool,
    server_max_window_bits: Option<u8>,
    /// In an offer, it may be without a value, which allows every one.
    client_max_window_bits: Option<Option<u8>>,
}

impl DeflateTerms {
    /// Takes a parameter.
    ///
    /// # Errors
    /// What is wrong with it.
    fn add(&mut self, name: &str, value: Option<&str>) -> Result<(), String> {
        let is_new = match name {
            "server_no_context_takeover" | "client_no_context_takeover" => {
                if value.is_some() {
                    return Err(format!("`{name}` takes no value"));
                }
                let flag = match name {
                    "server_no_context_takeover" => &mut self.server_no_context_takeover,
                    _ => &mut self.client_no_context_takeover,
                };
                !std::mem::replace(flag, true)
            }
            "server_max_window_bits" => {
                let bits = window_bits(value.unwrap_or_default());
                let bits = bits.ok_or_else(|| format!("`{name}` has no value from 8 to 15"))?;
                self.server_max_window_bits.replace(bits).is_none()
            }
            "client_max_window_bits" => {
                let bits = match value {
                    None => None,
                    Some(value) => {
                        let bits = window_bits(value);
                        Some(bits.ok_or_else(|| format!("`{name}` has no value from 8 to 15"))?)
                    }
                };
                self.client_max_window_bits.replace(bits).is_none()
            }
            other => return Err(format!("`{}` is none of its parameters", begin(other))),
        };
        if is_new { Ok(()) } else { Err(format!("`{name}` stands there twice")) }
    }

    /// Whether a server may answer this offer so.
    fn allows(&self, answer: &Self) -> bool {
        let at_most = |most: Option<u8>, bits: u8| most.is_none_or(|most| bits <= most);
        let server_bits = match (self.server_max_window_bits, answer.server_max_window_bits) {
            (Some(_), None) => false,
            (most, bits) => bits.is_none_or(|bits| at_most(most, bits)),
        };
        let client_bits = match (self.client_max_window_bits, answer.client_max_window_bits) {
            (_, None) => true,
            (Some(most), Some(Some(bits))) => at_most(most, bits),
            (None, Some(_)) | (_, Some(None)) => false,
        };
        server_bits && client_bits && (answer.server_no_context_takeover || !self.server_no_context_takeover)
    }
}

/// A window size: digits without a zero before them.
fn window_bits(value: &str) -> Option<u8> {
    let bits = value.parse().ok().filter(|bits| (8..=WINDOW_BITS_MAX).contains(bits))?;
    (bits.to_string() == value).then_some(bits)
}

fn begin(text: &str) -> String {
    text.chars().take(40).collect()
}

/// An extension's name, and its parameters with their values.
type WrittenExtension<'t> = (&'t str, Vec<(&'t str, Option<&'t str>)>);

/// The extensions in the value of a header `Sec-WebSocket-Extensions` (RFC 6455, section 9.1).
fn extensions(text: &str) -> impl Iterator<Item = WrittenExtension<'_>> {
    text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(|one| {
        let mut parts = one.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let parameters = parts.map(|part| match part.split_once('=') {
            None => (part, None),
            Some((name, value)) => {
                let value = value.trim();
                let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
                (name.trim(), Some(quoted.unwrap_or(value)))
            }
        });
        (name, parameters.collect())
    })
}

/// The offers in the value of a header `Sec-WebSocket-Extensions` of a request.
///
/// # Errors
/// An extension or a parameter that is not known.
pub fn offers(text: &str) -> Result<Vec<DeflateTerms>, Complaint> {
    let mut all = Vec::new();
    for (name, parameters) in extensions(text) {
        if name != NAME {
            let what = format!("`{}` is an extension of WebSocket that bench does not have", begin(name));
            return Err(Complaint::new(what, format!("offer `{NAME}`, or remove the header")));
        }
        let mut terms = DeflateTerms::default();
        for (name, value) in parameters {
            terms.add(name, value).map_err(|reason| {
                let what = format!("the offer of {NAME} is not valid: {reason}");
                let known = "`server_no_context_takeover`, `client_no_context_takeover`, \
                             `server_max_window_bits=10` or `client_max_window_bits`";
                Complaint::new(what, format!("give it no parameters, or some of {known}"))
            })?;
        }
        all.push(terms);
    }
    Ok(all)
}

/// What a server has agreed to with the values of its headers `Sec-WebSocket-Extensions`.
///
/// # Errors
/// It was not offered: the connection must not be used. The reason is a clause about the answer.
pub(crate) fn agreed(offers: &[DeflateTerms], answer: &str) -> Result<MessageCompression, String> {
    let mut chosen = extensions(answer);
    let (name, parameters) = chosen.next().unwrap_or_default();
    if name != NAME || offers.is_empty() || chosen.next().is_some() {
        return Err("names an extension that was not offered".to_owned());
    }
    let mut terms = DeflateTerms::default();
    for (name, value) in parameters {
        terms.add(name, value).map_err(|reason| format!("agrees to {NAME} in a wrong way: {reason}"))?;
    }
    if !offers.iter().any(|offer| offer.allows(&terms)) {
        return Err(format!("agrees to {NAME} with other parameters than those that were offered"));
    }
    Ok(MessageCompression {
        server_keeps_context: !terms.server_no_context_takeover,
        client_window_bits: terms.client_max_window_bits.flatten().unwrap_or(WINDOW_BITS_MAX),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: MessageCompression =
        MessageCompression { server_keeps_context: true, client_window_bits: 15 };

    #[test]
    fn offers_are_read_or_refused_with_a_reason() {
        for (text, expected) in [
            ("permessage-deflate", Ok(1)),
            ("", Ok(0)),
            ("permessage-deflate; client_max_window_bits, permessage-deflate", Ok(2)),
            ("permessage-deflate;server_no_context_takeover ; client_no_context_takeover", Ok(1)),
            ("permessage-deflate; client_max_window_bits=8; server_max_window_bits=\"15\"", Ok(1)),
            ("x-webkit-deflate-frame", Err("`x-webkit-deflate-frame` is an extension")),
            ("permessage-deflate; level=9", Err("`level` is none of its parameters")),
            ("permessage-deflate; client_max_window_bits=7", Err("no value from 8 to 15")),
            ("permessage-deflate; client_max_window_bits=16", Err("no value from 8 to 15")),
            ("permessage-deflate; client_max_window_bits=08", Err("no value from 8 to 15")),
            ("permessage-deflate; client_max_window_bits=", Err("no value from 8 to 15")),
            ("permessage-deflate; server_max_window_bits", Err("no value from 8 to 15")),
            ("permessage-deflate; client_no_context_takeover=1", Err("takes no value")),
            ("permessage-deflate; client_max_window_bits; client_max_window_bits=9", Err("there twice")),
            ("permessage-deflate;", Err("`` is none of its parameters")),
        ] {
            let read = offers(text).map(|offers| offers.len()).map_err(|complaint| complaint.to_string());
            match (&read, expected) {
                (Ok(count), Ok(expected)) => assert_eq!(*count, expected, "{text}"),
                (Err(said), Err(part)) => assert!(said.contains(part), "{text}: {said}"),
                _ => panic!("{text}: {read:?}"),
            }
        }
    }

    #[test]
    fn answers_must_be_what_was_offered() {
        let none = "names an extension that was not offered";
        let other = "other parameters than those that were offered";
        let plain = "permessage-deflate";
        let alone = MessageCompression { server_keeps_context: false, ..DEFAULT };
        for (offer, answer, expected) in [
            (plain, "permessage-deflate", Ok(DEFAULT)),
            (plain, "permessage-deflate; client_no_context_takeover", Ok(DEFAULT)),
            (plain, "permessage-deflate; server_no_context_takeover", Ok(alone)),
            (plain, "permessage-deflate; server_max_window_bits=10", Ok(DEFAULT)),
            (plain, "permessage-deflate; client_max_window_bits=10", Err(other)),
            (plain, "permessage-deflate, permessage-deflate", Err(none)),
            (plain, "permessage-bzip2", Err(none)),
            (plain, "", Err(none)),
            (plain, "permessage-deflate; a=b", Err("wrong way: `a` is none of its parameters")),
            (plain, "permessage-deflate; server_max_window_bits=16", Err("no value from 8 to 15")),
            ("", "permessage-deflate", Err(none)),
            (
                "permessage-deflate; client_max_window_bits",
                "permessage-deflate; client_max_window_bits=9",
                Ok(MessageCompression { client_window_bits: 9, ..DEFAULT }),
            ),
            (
                "permessage-deflate; client_max_window_bits",
                "permessage-deflate; client_max_window_bits",
                Err(other),
            ),
            (
                "permessage-deflate; client_max_window_bits=9",
                "permessage-deflate; client_max_window_bits=10",
                Err(other),
            ),
            ("permessage-deflate; client_max_window_bits=9", "permessage-deflate", Ok(DEFAULT)),
            ("permessage-deflate; server_max_window_bits=9", "permessage-deflate", Err(other)),
            (
                "permessage-deflate; server_max_window_bits=9",
                "permessage-deflate; server_max_window_bits=9",
                Ok(DEFAULT),
            ),
            ("permessage-deflate; server_no_context_takeover", "permessage-deflate", Err(other)),
            (
                "permessage-deflate; server_no_context_takeover, permessage-deflate",
                "permessage-deflate",
                Ok(DEFAULT),
            ),
        ] {
            let came = agreed(&offers(offer).unwrap(), answer);
            match (&came, expected) {
                (Ok(terms), Ok(expected)) => assert_eq!(*terms, expected, "{offer} | {answer}"),
                (Err(said), Err(part)) => assert!(said.contains(part), "{offer} | {answer}: {said}"),
                _ => panic!("{offer} | {answer}: {came:?}"),
            }
        }
    }
}
