//! Writes the header blocks of requests (HPACK, RFC 7541).
//!
//! What the requests of an action have in common is prepared once for each connection: its fields enter the server's table,
//! and from then on a byte or two stand for each. What changes from request to request (signatures, trace headers, paths)
//! is written as it is and never enters the table. The table is only filled, never turned over, so that what was prepared
//! stays valid.

use base::digits;
use http::Method;
use http::header::{HOST, HeaderName, TE};

use super::decoder::ENTRY_BYTES;
use super::static_table::{self, FIELDS, OF_CONNECTIONS};
use crate::Request;
use crate::headers::HeaderBlock;

/// The most that the server's table may hold; servers may allow less.
const TABLE_BYTES_MAX: usize = 4096;
/// Values up to this length may enter the table. Longer values are tokens, which often change.
const INDEXED_BYTES_MAX: usize = 64;
/// How many prepared blocks a connection keeps.
const PREPARED_MAX: usize = 64;

/// How a field is written (RFC 7541, section 6): the bits in front of the index of its name, and how many bits the index has.
type Representation = (u8, u32);
const INDEXED: Representation = (0x80, 7);
const REMEMBERED: Representation = (0x40, 6);
const NOT_REMEMBERED: Representation = (0x00, 4);
const NEVER_REMEMBERED: Representation = (0x10, 4);
const TABLE_SIZE: Representation = (0x20, 5);

/// Writes the blocks of a connection, in their order.
#[derive(Debug)]
pub(super) struct FieldEncoder {
    /// What entered the server's table, the oldest first.
    entries: Vec<(HeaderName, Box<[u8]>)>,
    /// The sum of their sizes, and what it may be.
    bytes: usize,
    bytes_max: usize,
    /// True if the next block must tell the server that the table is smaller.
    is_resized: bool,
    prepared: Vec<PreparedBlock>,
    /// The authority that most requests of the connection have, once it is in the table as the first entry.
    authority: Option<Box<str>>,
}

/// The headers that all requests of an action share, as they are sent.
#[derive(Debug)]
struct PreparedBlock {
    /// What they are, in the form of HTTP/1.1.
    text: Box<[u8]>,
    /// How many entries the table had.
    entries: usize,
    block: Vec<u8>,
}

impl Default for FieldEncoder {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            bytes: 0,
            bytes_max: TABLE_BYTES_MAX,
            is_resized: false,
            prepared: Vec::new(),
            authority: None,
        }
    }
}

impl FieldEncoder {
    /// Takes over the size that the server allows its table. A smaller table begins empty.
    pub(super) fn resize(&mut self, bytes_max: usize) {
        if bytes_max < self.bytes_max {
            *self = Self { bytes_max, is_resized: true, ..Self::default() };
        }
    }

    /// Appends the header block of a request.
    pub(super) fn write(&mut self, request: &Request<'_>, output: &mut Vec<u8>) {
        if std::mem::take(&mut self.is_resized) {
            number(output, TABLE_SIZE, 0);
            number(output, TABLE_SIZE, self.bytes_max);
        }
        match *request.method {
            Method::GET => number(output, INDEXED, 2),
            Method::POST => number(output, INDEXED, 3),
            _ => field(output, NOT_REMEMBERED, 2, "", request.method.as_str().as_bytes()),
        }
        number(output, INDEXED, if request.origin.tls { 7 } else { 6 });
        self.authority(request, output);
        match request.path {
            "/" => number(output, INDEXED, 4),
            path => field(output, NOT_REMEMBERED, 4, "", path.as_bytes()),
        }
        self.shared(request.fixed, output);
        for (name, value) in sent(request.own) {
            field(output, NEVER_REMEMBERED, 0, name.as_str(), value);
        }
        // As in HTTP/1.1.
        let may_have_body = matches!(*request.method, Method::POST | Method::PUT | Method::PATCH);
        if (may_have_body || !request.body.is_empty()) && !request.body.is_later() {
            let mut digits = digits::DIGITS;
            field(output, NOT_REMEMBERED, 28, "", digits::decimal(request.body.len(), &mut digits));
        }
    }

    fn authority(&mut self, request: &Request<'_>, output: &mut Vec<u8>) {
        let given = [request.fixed, request.own].into_iter().find_map(host);
        let authority = given.unwrap_or(request.origin.authority.as_bytes());
        if self.authority.as_ref().is_some_and(|known| known.as_bytes() == authority) {
            // The first entry is the one with the highest number.
            return number(output, INDEXED, FIELDS.len() + self.entries.len());
        }
        if self.entries.is_empty() && given.is_none() {
            // `host` stands for it, which is never sent.
            let size = ":authority".len() + authority.len() + ENTRY_BYTES;
            if size <= self.bytes_max {
                self.entries.push((HOST, authority.into()));
                self.bytes += size;
                self.authority = Some(request.origin.authority.as_str().into());
                return field(output, REMEMBERED, 1, "", authority);
            }
        }
        field(output, NOT_REMEMBERED, 1, "", authority);
    }

    /// The headers that all requests of an action share.
    fn shared(&mut self, fixed: &HeaderBlock, output: &mut Vec<u8>) {
        let text = fixed.http1();
        let known = self.prepared.iter().position(|prepared| *prepared.text == *text);
        if let Some(known) = known.map(|known| &self.prepared[known])
            && known.entries == self.entries.len()
        {
            return output.extend_from_slice(&known.block);
        }
        if let Some(known) = known {
            self.prepared.swap_remove(known);
        } else if self.prepared.len() >= PREPARED_MAX {
            self.prepared.clear();
        }
        for (name, value) in sent(fixed) {
            self.remembered(name, value, output);
        }
        // Now that all that can be is in the table, the next block is shorter, and leaves the table as it is.
        let mut block = Vec::new();
        for (name, value) in sent(fixed) {
            self.remembered(name, value, &mut block);
        }
        self.prepared.push(PreparedBlock { text: text.into(), entries: self.entries.len(), block });
    }

    /// A field that enters the table, if it is short and there is room.
    fn remembered(&mut self, name: &HeaderName, value: &[u8], output: &mut Vec<u8>) {
        if let Some(index) = static_table::index_of(name.as_str(), value) {
            return number(output, INDEXED, index);
        }
        let is_it = |entry: &(HeaderName, Box<[u8]>)| entry.0 == *name && *entry.1 == *value;
        if let Some(place) = self.entries.iter().position(is_it) {
            return number(output, INDEXED, FIELDS.len() + self.entries.len() - place);
        }
        let index = static_table::index_of_name(name.as_str()).unwrap_or(0);
        let size = name.as_str().len() + value.len() + ENTRY_BYTES;
        if value.len() > INDEXED_BYTES_MAX {
            field(output, NEVER_REMEMBERED, index, name.as_str(), value);
        } else if self.bytes + size > self.bytes_max {
            field(output, NOT_REMEMBERED, index, name.as_str(), value);
        } else {
            self.entries.push((name.clone(), value.into()));
            self.bytes += size;
            field(output, REMEMBERED, index, name.as_str(), value);
        }
    }
}

/// The headers of a block that HTTP/2 sends as such.
fn sent(block: &HeaderBlock) -> impl Iterator<Item = (&HeaderName, &[u8])> {
    block.iter().filter(|(name, value)| {
        let is_forbidden = **name == HOST
            || OF_CONNECTIONS.contains(&name.as_str().as_bytes())
            || **name == TE && *value != b"trailers";
        !is_forbidden
    })
}

fn host(block: &HeaderBlock) -> Option<&[u8]> {
    if !block.has_host() {
        return None;
    }
    block.iter().find(|(name, _)| **name == HOST).map(|(_, value)| value)
}

/// A field, with its name if that has no index.
fn field(output: &mut Vec<u8>, representation: Representation, index: usize, name: &str, value: &[u8]) {
    number(output, representation, index);
    if index == 0 {
        text(output, name.as_bytes());
    }
    text(output, value);
}

fn text(output: &mut Vec<u8>, text: &[u8]) {
    number(output, (0, 7), text.len());
    output.extend_from_slice(text);
}

/// A number behind the bits of a representation (RFC 7541, section 5.1).
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "each part is smaller than a byte")]
fn number(output: &mut Vec<u8>, (pattern, bits): Representation, value: usize) {
    let most = (1_usize << bits) - 1;
    if value < most {
        return output.push(pattern | value as u8);
    }
    output.push(pattern | most as u8);
    let mut rest = value - most;
    while rest >= 0x80 {
        output.push(0x80 | (rest & 0x7f) as u8);
        rest >>= 7;
    }
    output.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::body::BodyContent;
    use crate::http2::decoder::FieldDecoder;
    use crate::options::Version;
    use crate::url::BaseUrl;

    use proptest::prelude::*;

    fn block(headers: &[(&str, &str)]) -> HeaderBlock {
        let mut block = HeaderBlock::default();
        for (name, value) in headers {
            block.push(&HeaderName::from_bytes(name.as_bytes()).unwrap(), value.as_bytes()).unwrap();
        }
        block
    }

    /// A request as the server reads it, and the length of its block.
    fn written(
        (encoder, decoder): (&mut FieldEncoder, &mut FieldDecoder),
        (method, path): (&Method, &str),
        (fixed, own): (&HeaderBlock, &HeaderBlock),
        body: &'static [u8],
    ) -> (String, usize) {
        let url = BaseUrl::parse("https://api.example.com").unwrap();
        let request = Request {
            method,
            origin: &url.origin,
            path,
            fixed,
            own,
            body: &BodyContent::Bytes(bytes::Bytes::from_static(body)),
            started: base::clock::now(),
            redirects_max: 0,
            body_bytes_max: 0,
            cookies: None,
            keep_headers: false,
            keep_body: false,
            keep_trailers: false,
            reader: None,
            version: Version::Auto,
            is_refused: &|_| false,
        };
        let (mut output, mut text) = (Vec::new(), String::new());
        encoder.write(&request, &mut output);
        let mut read = |name: &[u8], value: &[u8]| {
            let [name, value] = [name, value].map(String::from_utf8_lossy);
            write!(text, "{name}={value};").unwrap();
        };
        decoder.read(&output, &mut read).unwrap();
        (text, output.len())
    }

    const PSEUDO: &str = ":method=GET;:scheme=https;:authority=api.example.com;:path=/a;";

    #[test]
    fn shared_headers_become_short_and_stay_right() {
        let (mut encoder, mut decoder) = (FieldEncoder::default(), FieldDecoder::default());
        let token = "t".repeat(65);
        let fixed = block(&[
            ("accept", "*/*"),
            ("x-a", "b"),
            ("accept-encoding", "gzip, deflate"),
            ("x-token", &token),
        ]);
        let other = block(&[("user-agent", "bench"), ("x-a", "b"), ("connection", "close"), ("te", "gzip")]);
        let own = block(&[("traceparent", "00-1")]);
        let expected = format!(
            "{PSEUDO}accept=*/*;x-a=b;accept-encoding=gzip, deflate;x-token={token};traceparent=00-1;"
        );
        let mut lengths = Vec::new();
        for round in 0..4 {
            let both = (&mut encoder, &mut decoder);
            let (text, length) = written(both, (&Method::GET, "/a"), (&fixed, &own), b"");
            assert_eq!(text, expected, "{round}");
            lengths.push(length);
            let both = (&mut encoder, &mut decoder);
            let (text, _) = written(both, (&Method::GET, "/a"), (&other, &own), b"");
            assert_eq!(text, format!("{PSEUDO}user-agent=bench;x-a=b;traceparent=00-1;"), "{round}");
        }
        assert!(lengths[1] + 20 < lengths[0] && lengths[1] == lengths[3], "{lengths:?}");
        // accept, x-a, the authority and the user agent.
        assert_eq!(encoder.entries.len(), 4);
    }

    #[test]
    fn methods_hosts_and_lengths_are_written() {
        let none = HeaderBlock::default();
        for (method, path, own, body, expected) in [
            (
                "POST",
                "/",
                none.clone(),
                &b""[..],
                ":method=POST;:scheme=https;:authority=api.example.com;:path=/;content-length=0;",
            ),
            (
                "DELETE",
                "/a?b",
                none.clone(),
                b"",
                ":method=DELETE;:scheme=https;:authority=api.example.com;:path=/a?b;",
            ),
            (
                "QUERY",
                "/a",
                none.clone(),
                b"0123456789",
                ":method=QUERY;:scheme=https;:authority=api.example.com;:path=/a;content-length=10;",
            ),
            (
                "GET",
                "/a",
                block(&[("host", "other"), ("te", "trailers")]),
                b"",
                ":method=GET;:scheme=https;:authority=other;:path=/a;te=trailers;",
            ),
        ] {
            let both = (&mut FieldEncoder::default(), &mut FieldDecoder::default());
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(written(both, (&method, path), (&none, &own), body).0, expected);
        }
    }

    #[test]
    fn a_smaller_table_begins_empty_and_the_server_is_told() {
        let (mut encoder, mut decoder) = (FieldEncoder::default(), FieldDecoder::default());
        let fixed = block(&[("x-a", "b"), ("x-b", "c")]);
        for (size, entries) in [(4096, 3), (8192, 3), (60, 1), (0, 0), (4096, 0)] {
            encoder.resize(size);
            for _ in 0..3 {
                let both = (&mut encoder, &mut decoder);
                let (text, _) = written(both, (&Method::GET, "/a"), (&fixed, &HeaderBlock::default()), b"");
                assert_eq!(text, format!("{PSEUDO}x-a=b;x-b=c;"), "{size}");
            }
            assert_eq!(encoder.entries.len(), entries, "{size}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            values in proptest::collection::vec("[ -~]{0,100}", 1..60),
            order in proptest::collection::vec((0..60_usize, 0..60_usize), 1..60),
        ) {
            let blocks: Vec<HeaderBlock> = values.chunks(3).map(|values| {
                let names = ["x-a", "accept", "x-c"];
                block(&names.iter().zip(values).map(|(name, value)| (*name, value.as_str())).collect::<Vec<_>>())
            }).collect();
            let (mut encoder, mut decoder) = (FieldEncoder::default(), FieldDecoder::default());
            for (fixed, own) in order {
                let (fixed, own) = (&blocks[fixed % blocks.len()], &blocks[own % blocks.len()]);
                let (text, _) = written((&mut encoder, &mut decoder), (&Method::GET, "/a"), (fixed, own), b"");
                let mut expected = PSEUDO.to_owned();
                for (name, value) in fixed.iter().chain(own.iter()) {
                    write!(expected, "{name}={};", String::from_utf8_lossy(value)).unwrap();
                }
                prop_assert_eq!(text, expected);
            }
        }
    }
}
