//! The fields of a head that decide where an answer's body ends (RFC 9112, section 6), and what they decide.

use http::StatusCode;

use super::error::ClientError;

/// Where the body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    /// There is none.
    None,
    /// After this many bytes.
    Length(u64),
    /// After the last chunk and its trailers.
    Chunked,
    /// Where the server closes the connection.
    Close,
}

/// The fields that decide about framing.
#[derive(Clone, Copy, Default)]
pub(super) struct Fields {
    length: Option<u64>,
    /// `Some(true)` when the last coding is chunked.
    chunked: Option<bool>,
    close: bool,
    keep_alive: bool,
    /// True if the answer sets a cookie.
    pub(super) sets_cookies: bool,
    /// What is wrong with the length; no matter to an answer that has no body.
    bad_length: Option<&'static str>,
}

impl Fields {
    /// Looks at one header; blanks around its value do not count.
    pub(super) fn note(&mut self, name: &[u8], value: &[u8]) {
        match name.len() {
            14 if name.eq_ignore_ascii_case(b"content-length") => self.content_length(value),
            17 if name.eq_ignore_ascii_case(b"transfer-encoding") => {
                let last = value.rsplit(|byte| *byte == b',').next().unwrap_or_default();
                self.chunked = Some(last.trim_ascii().eq_ignore_ascii_case(b"chunked"));
            }
            10 if name.eq_ignore_ascii_case(b"set-cookie") => self.sets_cookies = true,
            10 if name.eq_ignore_ascii_case(b"connection") => {
                for token in value.split(|byte| *byte == b',') {
                    self.close |= token.trim_ascii().eq_ignore_ascii_case(b"close");
                    self.keep_alive |= token.trim_ascii().eq_ignore_ascii_case(b"keep-alive");
                }
            }
            _ => {}
        }
    }

    /// Where the body ends, and whether the connection may serve another request.
    #[inline]
    pub(super) fn decide(
        &self,
        status: StatusCode,
        to_head: bool,
        http11: bool,
    ) -> Result<(Framing, bool), ClientError> {
        if !http11 && self.chunked.is_some() {
            // RFC 9112, section 6.1: the sender cannot have known what it means.
            return Err(ClientError::Protocol("it is HTTP/1.0 and has a transfer encoding".to_owned()));
        }
        let framing = self.framing(status, to_head)?;
        let persistent = if http11 { !self.close } else { self.keep_alive && !self.close };
        // An answer that lasts until the connection ends leaves none to use again; one with two framings
        // may have been tampered with, so its connection is not trusted further (RFC 9112, section 6.1).
        let two_framings = (self.length.is_some() || self.bad_length.is_some()) && self.chunked.is_some();
        Ok((framing, persistent && framing != Framing::Close && !two_framings))
    }

    /// The length that the head gives, if it gives one.
    pub(super) fn length(&self) -> Result<Option<u64>, &'static str> {
        self.bad_length.map_or(Ok(self.length), Err)
    }

    /// Several lengths are one if they agree, and an attack or a fault if they do not.
    fn content_length(&mut self, value: &[u8]) {
        for part in value.split(|byte| *byte == b',') {
            let part = part.trim_ascii();
            let digits = !part.is_empty() && part.iter().all(u8::is_ascii_digit);
            let length = std::str::from_utf8(part).ok().filter(|_| digits).and_then(|text| text.parse().ok());
            match (length, self.length) {
                (None, _) => self.bad_length = Some("its content length is not a number"),
                (Some(length), Some(other)) if length != other => {
                    self.bad_length = Some("it has two content lengths");
                }
                (Some(length), _) => self.length = Some(length),
            }
        }
    }

    /// RFC 9112, section 6.3.
    #[inline]
    fn framing(&self, status: StatusCode, to_head: bool) -> Result<Framing, ClientError> {
        if to_head || status.is_informational() || matches!(status.as_u16(), 204 | 304) {
            return Ok(Framing::None);
        }
        match (self.chunked, self.length) {
            // The transfer encoding overrides a length that comes with it.
            (Some(true), _) => Ok(Framing::Chunked),
            (Some(false), _) => Ok(Framing::Close),
            (None, _) if self.bad_length.is_some() => {
                Err(ClientError::Protocol(self.bad_length.unwrap_or_default().to_owned()))
            }
            (None, None) => Ok(Framing::Close),
            (None, Some(0)) => Ok(Framing::None),
            (None, Some(length)) => Ok(Framing::Length(length)),
        }
    }
}
