//! The fields of an answer over HTTP/2: its head or its trailers, and what the standard forbids there (RFC 9113, sections
//! 8.1 to 8.3).

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::decoder::ENTRY_BYTES;
use super::static_table::OF_CONNECTIONS;
use crate::error::ClientError;
use crate::fields::Fields;
use crate::framing::KeepHeaders;
use crate::options::{Limits, trailers_exceeded};
use crate::quick_head::is_token;

/// What is known of an answer after its head.
#[derive(Debug)]
pub(super) struct AnswerHead {
    pub(super) status: StatusCode,
    /// Only if requested.
    pub(super) headers: Option<Arc<HeaderMap>>,
    /// The length that the body must have.
    pub(super) length: Option<u64>,
}

/// Takes the fields of a block, one after another.
pub(super) struct AnswerFields<'a> {
    limits: &'a Limits,
    keep: KeepHeaders,
    are_trailers: bool,
    status: Option<StatusCode>,
    known: Fields,
    headers: HeaderMap,
    /// How many there are, and what they count.
    number: usize,
    bytes: usize,
    /// What is wrong with them first.
    fault: Option<ClientError>,
}

impl<'a> AnswerFields<'a> {
    pub(super) fn of_head(keep: KeepHeaders, limits: &'a Limits) -> Self {
        Self {
            limits,
            keep,
            are_trailers: false,
            status: None,
            known: Fields::default(),
            headers: HeaderMap::new(),
            number: 0,
            bytes: 0,
            fault: None,
        }
    }

    pub(super) fn of_trailers(keep: KeepHeaders, limits: &'a Limits) -> Self {
        Self { are_trailers: true, ..Self::of_head(keep, limits) }
    }

    /// Takes the next field. After the first fault, no more are looked at.
    pub(super) fn take(&mut self, name: &[u8], value: &[u8]) {
        if self.fault.is_none() {
            self.fault = self.taken(name, value).err();
        }
    }

    fn taken(&mut self, name: &[u8], value: &[u8]) -> Result<(), ClientError> {
        self.bytes += name.len() + value.len() + ENTRY_BYTES;
        let bytes_max =
            if self.are_trailers { self.limits.trailer_bytes_max } else { self.limits.head_bytes_max };
        if self.bytes > bytes_max {
            return Err(self.too_large());
        }
        if name.first() == Some(&b':') {
            return self.pseudo(name, value).map_err(broken);
        }
        self.number += 1;
        if self.number > self.limits.headers_max {
            return Err(self.limits.headers_exceeded());
        }
        check(name, value).map_err(broken)?;
        self.known.note(name, value);
        if self.keep != KeepHeaders::Never {
            // Both were checked.
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
                self.headers.append(name, value);
            }
        }
        Ok(())
    }

    fn too_large(&self) -> ClientError {
        if self.are_trailers {
            return trailers_exceeded(self.limits.trailer_bytes_max);
        }
        self.limits.head_exceeded()
    }

    fn pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), String> {
        let wrong = |what: &str| Err(what.to_owned());
        match name {
            _ if self.are_trailers => wrong("its trailers have pseudo-header fields, such as `:status`"),
            b":status" if self.status.is_some() => wrong("it has two `:status`"),
            b":status" if self.number > 0 => wrong("its `:status` comes after other header fields"),
            b":status" => {
                self.status = StatusCode::from_bytes(value).ok();
                if self.status.is_some() {
                    Ok(())
                } else {
                    wrong("its `:status` is not a number of three digits")
                }
            }
            _ => wrong("it has a pseudo-header field that only requests may have"),
        }
    }

    /// True if a field sets a cookie.
    pub(super) fn sets_cookies(&self) -> bool {
        self.known.sets_cookies
    }

    /// The head, now that all fields are there.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn head(self) -> Result<AnswerHead, ClientError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let status = self.status.ok_or_else(|| broken("it has no `:status`".to_owned()))?;
        let length = self.known.length().map_err(|reason| broken(reason.to_owned()))?;
        let headers = self.keep.wants(self.known.sets_cookies).then(|| Arc::new(self.headers));
        Ok(AnswerHead { status, headers, length })
    }

    /// The trailers, now that all fields are there; none if they are not kept.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(super) fn trailers(self) -> Result<HeaderMap, ClientError> {
        self.fault.map_or(Ok(self.headers), Err)
    }
}

/// What to say of an answer that the standard forbids.
pub(super) fn broken(reason: String) -> ClientError {
    ClientError::Protocol(format!("HTTP/2: {reason} (PROTOCOL_ERROR)"))
}

/// What is wrong with a field that is no pseudo-header field.
fn check(name: &[u8], value: &[u8]) -> Result<(), String> {
    let shown = || String::from_utf8_lossy(name);
    if name.is_empty() {
        return Err("it has a header field without a name".to_owned());
    }
    if name.iter().any(u8::is_ascii_uppercase) {
        return Err(format!("its header field `{}` has capital letters in its name", shown()));
    }
    if OF_CONNECTIONS.contains(&name) {
        return Err(format!("it has the header field `{}`, which is of HTTP/1.1's connections", shown()));
    }
    if !name.iter().all(|byte| is_token(*byte)) {
        return Err("the name of a header field has characters that are not allowed".to_owned());
    }
    // Without an early exit, the compiler vectorises the loop.
    let is_text = |byte: u8| (byte >= b' ' && byte != 0x7f) || byte == b'\t';
    if !value.iter().fold(true, |all, byte| all & is_text(*byte)) {
        return Err(format!("its header field `{}` has characters that are not allowed", shown()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)], keep: KeepHeaders) -> Result<AnswerHead, String> {
        let limits = Limits { head_bytes_max: 2000, headers_max: 5, trailer_bytes_max: 1000 };
        let mut taken = AnswerFields::of_head(keep, &limits);
        fields.iter().for_each(|(name, value)| taken.take(name.as_bytes(), value.as_bytes()));
        taken.head().map_err(|error| error.to_string())
    }

    #[test]
    fn a_head_says_where_its_body_ends_and_keeps_what_is_wanted() {
        let fields = [(":status", "200"), ("content-length", "12"), ("x-a", "b"), ("set-cookie", "c=d")];
        for (keep, kept) in [(KeepHeaders::Always, 3), (KeepHeaders::WithCookies, 3), (KeepHeaders::Never, 0)]
        {
            let head = head(&fields, keep).unwrap();
            assert_eq!((head.status.as_u16(), head.length), (200, Some(12)));
            assert_eq!(head.headers.map_or(0, |headers| headers.len()), kept);
        }
        let head = head(&fields[..3], KeepHeaders::WithCookies).unwrap();
        assert!(head.headers.is_none());
    }

    #[test]
    fn what_is_wrong_is_told() {
        let status = (":status", "200");
        let long = "v".repeat(2000);
        for (fields, part) in [
            (vec![], "it has no `:status`"),
            (vec![("a", "b")], "it has no `:status`"),
            (vec![status, status], "two `:status`"),
            (vec![("a", "b"), status], "after other header fields"),
            (vec![(":status", "20")], "three digits"),
            (vec![status, (":path", "/")], "only requests may have"),
            (vec![status, ("X-Upper", "1")], "`X-Upper` has capital letters"),
            (vec![status, ("connection", "close")], "`connection`"),
            (vec![status, ("transfer-encoding", "chunked")], "`transfer-encoding`"),
            (vec![status, ("", "b")], "without a name"),
            (vec![status, ("a b", "b")], "characters that are not allowed"),
            (vec![status, ("a", "b\r\nc: d")], "`a` has characters that are not allowed"),
            (vec![status, ("content-length", "x")], "content length is not a number"),
            (vec![status, ("content-length", "1"), ("content-length", "2")], "two content lengths"),
            (vec![status, ("a", &long)], "head is larger than 2000 bytes"),
            (
                vec![("a", "b"), ("a", "b"), ("a", "b"), ("a", "b"), ("a", "b"), ("a", "b")],
                "more than 5 headers",
            ),
        ] {
            let told = head(&fields, KeepHeaders::Always).unwrap_err();
            assert!(told.contains(part), "{fields:?}: {told}");
        }
    }

    #[test]
    fn trailers_have_no_status_and_a_limit() {
        let limits = Limits { trailer_bytes_max: 100, ..Limits::default() };
        let long = "v".repeat(100);
        for (name, value, part) in [
            ("grpc-status", "0", ""),
            (":status", "200", "pseudo-header fields"),
            ("a", &long, "trailers are larger than 100 bytes; raise `max_trailers`"),
        ] {
            let mut trailers = AnswerFields::of_trailers(KeepHeaders::Always, &limits);
            trailers.take(name.as_bytes(), value.as_bytes());
            let told = trailers.trailers().err().map(|error| error.to_string()).unwrap_or_default();
            assert!(told.contains(part) && told.is_empty() == part.is_empty(), "{name}: {told}");
        }
    }
}
