//! Framing of HTTP/1.1 answers (RFC 9112): the head, and where the body ends.
//!
//! Pure functions over bytes; [`super::http1`] reads and waits. Everything is bounded: the head, the
//! number of headers, a chunk's size line, the trailers.

use std::borrow::Cow;
use std::mem::MaybeUninit;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use super::Request;
use super::error::ClientError;
use super::fields::Fields;
use super::options::{Limits, trailers_exceeded};
use super::quick_head::remembered_head;

pub(super) use super::fields::Framing;

/// Up to this many headers are parsed without allocating memory.
const HEADERS_ON_STACK: usize = 256;
/// The longest size line of a chunk.
const CHUNK_LINE_BYTES_MAX: usize = 4 * 1024;

/// An answer's head.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) status: StatusCode,
    /// Only if requested.
    pub(super) headers: Option<Arc<HeaderMap>>,
    pub(super) framing: Framing,
    /// Whether the connection may serve another request.
    pub(super) keep_alive: bool,
    /// The length of the head, in bytes.
    pub(super) length: usize,
}

/// Which headers of an answer are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeepHeaders {
    /// None.
    Never,
    /// All, if one of them sets a cookie.
    WithCookies,
    /// All.
    Always,
}

impl KeepHeaders {
    /// What is needed of the answer to `request`.
    #[inline]
    pub(super) fn of(request: &Request<'_>) -> Self {
        match (request.keep_headers, request.cookies) {
            (true, _) => Self::Always,
            (false, Some(_)) => Self::WithCookies,
            (false, None) => Self::Never,
        }
    }

    /// Whether to keep headers; `sets_cookies`: whether one of them sets a cookie.
    #[inline]
    pub(super) fn wants(self, sets_cookies: bool) -> bool {
        self == Self::Always || self == Self::WithCookies && sets_cookies
    }
}

/// Parses a head at the beginning of `bytes`; `None` if it is not complete yet.
#[inline]
pub(super) fn head(
    bytes: &[u8],
    to_head: bool,
    keep: KeepHeaders,
    limits: &Limits,
) -> Result<Option<Head>, ClientError> {
    if keep != KeepHeaders::Always
        && let Some(quick) = remembered_head(bytes, limits.headers_max)
        && quick.length <= limits.head_bytes_max
        && !keep.wants(quick.fields.sets_cookies)
        && let Ok(status) = StatusCode::from_u16(quick.status)
    {
        let (framing, keep_alive) = quick.fields.decide(status, to_head, true)?;
        return Ok(Some(Head { status, headers: None, framing, keep_alive, length: quick.length }));
    }
    // Uninitialised: setting it would take longer than parsing the head.
    let mut few = [const { MaybeUninit::uninit() }; HEADERS_ON_STACK];
    let mut many;
    let slots = if limits.headers_max <= HEADERS_ON_STACK {
        &mut few[..limits.headers_max]
    } else {
        many = vec![MaybeUninit::uninit(); limits.headers_max];
        &mut many[..]
    };
    let mut response = httparse::Response::new(&mut []);
    let mut parser = httparse::ParserConfig::default();
    // A user agent reads a folded line as blanks (RFC 9112, section 5.2).
    parser.allow_obsolete_multiline_headers_in_responses(true);
    let length = match parser.parse_response_with_uninit_headers(&mut response, bytes, slots) {
        Ok(httparse::Status::Complete(length)) if length <= limits.head_bytes_max => length,
        Ok(httparse::Status::Partial) if bytes.len() < limits.head_bytes_max => return Ok(None),
        Ok(_) => return Err(limits.head_exceeded()),
        Err(httparse::Error::TooManyHeaders) => return Err(limits.headers_exceeded()),
        Err(error) => return Err(protocol(error.to_string())),
    };
    let status =
        StatusCode::from_u16(response.code.unwrap_or(0)).map_err(|error| protocol(error.to_string()))?;
    let fields = fields(response.headers);
    let (framing, keep_alive) = fields.decide(status, to_head, response.version == Some(1))?;
    let headers = keep.wants(fields.sets_cookies).then(|| Arc::new(header_map(response.headers)));
    Ok(Some(Head { status, headers, framing, keep_alive, length }))
}

fn fields(headers: &[httparse::Header<'_>]) -> Fields {
    let mut fields = Fields::default();
    headers.iter().for_each(|header| fields.note(header.name.as_bytes(), &unfolded(header.value)));
    fields
}

/// The text with one blank in place of each fold: a line end that blanks follow, with all blanks around it.
fn unfolded(text: &[u8]) -> Cow<'_, [u8]> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let (mut output, mut rest) = (Vec::new(), text);
    let mut from = 0;
    while let Some(feed) = memchr::memchr(b'\n', &rest[from..]).map(|at| from + at) {
        let behind = &rest[feed + 1..];
        let blanks = behind.iter().take_while(|byte| is_blank(byte)).count();
        if blanks == 0 {
            from = feed + 1;
            continue;
        }
        let before = rest[..feed].strip_suffix(b"\r").unwrap_or(&rest[..feed]);
        let kept = before.iter().rposition(|byte| !is_blank(byte)).map_or(0, |last| last + 1);
        output.extend_from_slice(&before[..kept]);
        // Of a line of blanks, only one is left.
        if output.last() != Some(&b' ') {
            output.push(b' ');
        }
        (rest, from) = (&behind[blanks..], 0);
    }
    if output.is_empty() {
        return Cow::Borrowed(text);
    }
    output.extend_from_slice(rest);
    Cow::Owned(output)
}

fn header_map(headers: &[httparse::Header<'_>]) -> HeaderMap {
    let mut map = HeaderMap::with_capacity(headers.len());
    for header in headers {
        // httparse only accepts valid names and values.
        let name = HeaderName::from_bytes(header.name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&unfolded(header.value))) {
            map.append(name, value);
        }
    }
    map
}

/// Decodes a chunked body.
#[derive(Debug)]
pub(super) struct Chunks {
    state: ChunkState,
    /// Bytes of the size line seen so far.
    seen: usize,
    /// The trailers received so far.
    trailers: Vec<u8>,
    trailer_bytes_max: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChunkState {
    /// In the size; `begun` after the first digit.
    Size { value: u64, begun: bool },
    /// In the blanks after the size.
    Blank { size: u64 },
    /// In the rest of the size line.
    Extension { size: u64 },
    /// At the line feed after the size.
    SizeEnd { size: u64 },
    /// In the data.
    Data { left: u64 },
    /// At the carriage return after the data.
    DataEnd,
    /// At the line feed after the data.
    DataFeed,
    /// At the start of a trailer's line.
    Trailer,
    /// In a trailer's line.
    TrailerLine,
    /// At the line feed after a trailer's line.
    TrailerFeed,
    /// At the line feed after the last, empty line.
    End,
    /// After the last byte.
    Done,
}

impl Chunks {
    pub(super) fn new(trailer_bytes_max: usize) -> Self {
        let state = ChunkState::Size { value: 0, begun: false };
        Self { state, seen: 0, trailers: Vec::new(), trailer_bytes_max }
    }

    /// True after the last byte of the body.
    pub(super) fn is_done(&self) -> bool {
        self.state == ChunkState::Done
    }

    /// Reads bytes from the front of `input` and passes the data to `data`. Returns how many bytes were read: all,
    /// unless the body ended before.
    pub(super) fn take(
        &mut self,
        input: &[u8],
        mut data: impl FnMut(&[u8]) -> Result<(), ClientError>,
    ) -> Result<usize, ClientError> {
        let mut at = 0;
        while at < input.len() && self.state != ChunkState::Done {
            if let ChunkState::Data { left } = self.state {
                let length = usize::try_from(left).unwrap_or(usize::MAX).min(input.len() - at);
                data(&input[at..at + length])?;
                at += length;
                let left = left - length as u64;
                self.state = if left == 0 { ChunkState::DataEnd } else { ChunkState::Data { left } };
            } else {
                self.state = self.step(input[at])?;
                at += 1;
            }
        }
        Ok(at)
    }

    /// The state after a byte that is not data.
    fn step(&mut self, byte: u8) -> Result<ChunkState, ClientError> {
        use ChunkState::{
            Blank, Data, DataEnd, DataFeed, Done, End, Extension, Size, SizeEnd, Trailer, TrailerFeed,
            TrailerLine,
        };
        self.seen += 1;
        if matches!(self.state, Trailer | TrailerLine | TrailerFeed | End) {
            return self.trailer(byte);
        }
        if self.seen > CHUNK_LINE_BYTES_MAX {
            let line = format!("a chunk's size line is longer than {CHUNK_LINE_BYTES_MAX} bytes");
            return Err(ClientError::Limit(line));
        }
        Ok(match (self.state, byte) {
            (Size { value, .. }, byte) if byte.is_ascii_hexdigit() => {
                let digit = char::from(byte).to_digit(16).map_or(0, u64::from);
                let value = value.checked_mul(16).map(|value| value + digit);
                let too_large = || protocol("a chunk's size is too large".to_owned());
                Size { value: value.ok_or_else(too_large)?, begun: true }
            }
            (Size { begun: false, .. }, _) => return Err(protocol("a chunk has no size".to_owned())),
            (Size { value: size, .. } | Blank { size } | Extension { size }, b'\r') => SizeEnd { size },
            (Size { value: size, .. } | Blank { size }, b';') => Extension { size },
            (Size { value: size, .. } | Blank { size }, b' ' | b'\t') => Blank { size },
            (Extension { size }, byte) if byte != b'\n' => Extension { size },
            (SizeEnd { size }, b'\n') => {
                self.seen = 0;
                if size == 0 { Trailer } else { Data { left: size } }
            }
            (DataEnd, b'\r') => DataFeed,
            (DataFeed, b'\n') => {
                self.seen = 0;
                Size { value: 0, begun: false }
            }
            (Done, _) => Done,
            _ => return Err(protocol("a chunk is malformed".to_owned())),
        })
    }

    /// The state after a byte of the trailers, which are checked as strictly as headers.
    fn trailer(&mut self, byte: u8) -> Result<ChunkState, ClientError> {
        use ChunkState::{Done, End, Trailer, TrailerFeed, TrailerLine};
        if self.seen > self.trailer_bytes_max {
            return Err(trailers_exceeded(self.trailer_bytes_max));
        }
        self.trailers.push(byte);
        match (self.state, byte) {
            (Trailer, b'\r') => Ok(End),
            (TrailerLine, b'\r') => Ok(TrailerFeed),
            (TrailerFeed, b'\n') => Ok(Trailer),
            (Trailer | TrailerLine, byte) if byte != b'\n' => Ok(TrailerLine),
            (End, b'\n') => {
                let mut slots = [httparse::EMPTY_HEADER; HEADERS_ON_STACK];
                // A single empty line is not a trailer.
                if self.trailers.len() > 2 {
                    let trailers = unfolded(&self.trailers);
                    let parsed = httparse::parse_headers(&trailers, &mut slots);
                    parsed.map_err(|error| protocol(format!("its trailers are malformed: {error}")))?;
                }
                Ok(Done)
            }
            _ => Err(protocol("its trailers are malformed".to_owned())),
        }
    }
}

fn protocol(reason: String) -> ClientError {
    ClientError::Protocol(reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    const HEAD_BYTES_MAX: usize = 256 << 10;
    const TRAILER_BYTES_MAX: usize = 64 << 10;

    /// Parts of heads, in and out of order.
    const PIECES: &[&str] = &[
        " OK",
        " ",
        "\r\n",
        "\r\nContent-Length: 5",
        "\r\ncontent-length:6 , 6",
        "\r\nTransfer-Encoding: chunked",
        "\r\nconnection: close, x",
        "\r\nConnection: keep-alive",
        "\r\nDate: Sat, 21 Nov 2026 20:00:00 GMT",
        "\r\nX-\u{e4}: y",
        "\r\nx-b: \u{e4}\t ",
        "\r\n folded",
        "\nbare: feed",
        "\r\n: nameless",
        "\r\nname : x",
        "\r\nempty:",
    ];

    fn parse(text: &str) -> Result<Option<Head>, String> {
        head(text.as_bytes(), false, KeepHeaders::Always, &Limits::default())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn framing_follows_the_rfc() {
        for (fields, framing, keep_alive) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5", Framing::Length(5), true),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0", Framing::None, true),
            ("HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\nContent-Length: 5", Framing::Length(5), true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked", Framing::Chunked, true),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip", Framing::Close, false),
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked", Framing::Chunked, false),
            ("HTTP/1.1 200 OK", Framing::Close, false),
            ("HTTP/1.1 204 No Content\r\nContent-Length: 5", Framing::None, true),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5", Framing::None, true),
            ("HTTP/1.1 103 Early Hints\r\nLink: x", Framing::None, true),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: Keep-Alive, Close",
                Framing::Length(5),
                false,
            ),
            ("HTTP/1.0 200 OK\r\nContent-Length: 5", Framing::Length(5), false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive", Framing::Length(5), true),
        ] {
            let head = parse(&format!("{fields}\r\n\r\n")).unwrap().unwrap();
            assert_eq!((head.framing, head.keep_alive), (framing, keep_alive), "{fields}");
        }
        let to_head = head(
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
            true,
            KeepHeaders::Never,
            &Limits::default(),
        )
        .unwrap()
        .unwrap();
        assert_eq!((to_head.framing, to_head.keep_alive), (Framing::None, true));
    }

    #[test]
    fn folded_lines_are_read_as_blanks() {
        for (lines, value) in [
            ("X: one\r\n two", "one two"),
            ("X: one \t\r\n\t two\r\n  three  ", "one two three"),
            ("X: one\n two", "one two"),
            ("X:\r\n one", "one"),
            ("X: one\r\n \r\n two", "one two"),
        ] {
            let head =
                parse(&format!("HTTP/1.1 200 OK\r\n{lines}\r\nContent-Length: 5\r\n\r\n")).unwrap().unwrap();
            assert_eq!((head.framing, head.keep_alive), (Framing::Length(5), true), "{lines}");
            let headers = head.headers.unwrap();
            assert_eq!(headers["x"].to_str().unwrap().trim(), value, "{lines}");
        }
        // A fold in a field of the framing belongs to its value.
        for (lines, framing) in [
            ("Transfer-Encoding: gzip,\r\n chunked", Ok(Framing::Chunked)),
            ("Content-Length:\r\n 5", Ok(Framing::Length(5))),
            ("Content-Length: 5\r\n 6", Err(())),
            ("X: a\r\n Content-Length: 7", Ok(Framing::Close)),
        ] {
            let found = parse(&format!("HTTP/1.1 200 OK\r\n{lines}\r\n\r\n"));
            let found = found.map(|head| head.unwrap().framing).map_err(|_| ());
            assert_eq!(found, framing, "{lines}");
        }
        assert!(parse("HTTP/1.1 200 OK\r\n folded\r\n\r\n").is_err());
        let body = b"1\r\nx\r\n0\r\nA: one\r\n two\r\nB: c\r\n\r\n";
        for step in 1..=body.len() {
            assert_eq!(unchunk(body, step).unwrap(), (b"x".to_vec(), true, body.len()));
        }
    }

    #[test]
    fn ambiguous_and_malformed_heads_are_refused() {
        for (text, part) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", "two content lengths"),
            ("HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\n", "not a number"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", "not a number"),
            ("ICY 200 OK\r\n\r\n", "not valid HTTP"),
            ("HTTP/1.1 20 OK\r\n\r\n", "not valid HTTP"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(parse("HTTP/1.1 200 OK\r\nA: b\r\n").unwrap().is_none());
        let endless = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(HEAD_BYTES_MAX));
        assert!(parse(&endless).unwrap_err().contains("larger than"));
    }

    fn unchunk(input: &[u8], step: usize) -> Result<(Vec<u8>, bool, usize), String> {
        let (mut chunks, mut body, mut taken) = (Chunks::new(TRAILER_BYTES_MAX), Vec::new(), 0);
        for piece in input.chunks(step.max(1)) {
            let took = chunks.take(piece, |data| {
                body.extend_from_slice(data);
                Ok(())
            });
            taken += took.map_err(|error| error.to_string())?;
        }
        Ok((body, chunks.is_done(), taken))
    }

    #[test]
    fn chunks_are_joined_wherever_they_are_cut() {
        let input =
            b"5;ext=\"x\"\r\nhello\r\n00a \r\n, world!!!\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\nGARBAGE";
        for step in 1..=input.len() {
            let (body, done, taken) = unchunk(input, step).unwrap();
            assert_eq!((body.as_slice(), done), (&b"hello, world!!!"[..], true), "step {step}");
            assert_eq!(&input[taken..], b"GARBAGE");
        }
    }

    #[test]
    fn malformed_chunks_are_refused() {
        for input in [
            &b"x\r\n"[..],
            b"\r\n",
            b"5\nhello",
            b"5\r\nhelloX",
            b"5\r\nhello\rX",
            b"fffffffffffffffff\r\n",
            b"-1\r\n",
        ] {
            assert!(unchunk(input, 1).is_err(), "{}", String::from_utf8_lossy(input));
        }
        assert!(unchunk(format!("1;{}", "x".repeat(CHUNK_LINE_BYTES_MAX)).as_bytes(), 100).is_err());
        assert!(
            unchunk(format!("0\r\n{}", "a: b\r\n".repeat(TRAILER_BYTES_MAX / 4)).as_bytes(), 100).is_err()
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), step in 1..50_usize) {
            let _ = head(&bytes, false, KeepHeaders::Always, &Limits::default());
            let _ = unchunk(&bytes, step);
        }

        /// If headers are kept, httparse parses the head; otherwise the fast path may.
        #[test]
        fn both_ways_to_read_a_head_agree(
            pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..8),
            damage in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..3),
        ) {
            let mut bytes = b"HTTP/1.1 200".to_vec();
            bytes.extend(pieces.concat().bytes());
            bytes.extend_from_slice(b"\r\n\r\nbody");
            for (at, byte) in damage {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            let limits = Limits::default();
            let seen = |keep| head(&bytes, false, keep, &limits).map_err(|error| error.to_string())
                .map(|head| head.map(|head| (head.status, head.framing, head.keep_alive, head.length)));
            prop_assert_eq!(seen(KeepHeaders::Never), seen(KeepHeaders::Always), "{}", String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn a_damaged_answer_is_judged_the_same_in_one_piece_and_in_many(
            which in 0..4_usize, at in any::<usize>(), byte in any::<u8>(), insert in any::<bool>(), step in 1..40_usize,
        ) {
            let mut wire = [
                "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: a\r\nConnection: keep-alive, x\r\n\r\n",
                "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nA:\r\n\r\n",
                "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n",
                "HTTP/1.0 200\r\nContent-Length: 5, 5\r\n\r\n",
            ][which].as_bytes().to_vec();
            let at = at % wire.len();
            if insert { wire.insert(at, byte) } else { wire[at] = byte }
            let judged = |bytes: &[u8]| {
                head(bytes, false, KeepHeaders::Always, &Limits::default())
                    .map(|head| head.map(|head| (head.status, head.headers, head.framing, head.keep_alive, head.length)))
                    .map_err(|error| error.to_string())
            };
            let whole = judged(&wire);
            // Parsing a prefix gives the same result, or is incomplete; a fault is found then or later.
            for end in (0..wire.len()).step_by(step) {
                match (judged(&wire[..end]), &whole) {
                    (Ok(None), _) => {}
                    (Ok(part), whole) => prop_assert_eq!(&Ok(part), whole),
                    (Err(_), whole) => prop_assert!(whole.is_err()),
                }
            }
        }

        #[test]
        fn damaged_chunks_are_judged_the_same_in_one_piece_and_in_many(
            at in any::<usize>(), byte in any::<u8>(), insert in any::<bool>(), step in 1..40_usize,
        ) {
            let mut wire = b"5;ext=\"x\"\r\nhello\r\n00a \r\n, world!!!\r\n0\r\nTrailer: x\r\nOther: y\r\n\r\nGARBAGE".to_vec();
            let at = at % wire.len();
            if insert { wire.insert(at, byte) } else { wire[at] = byte }
            prop_assert_eq!(unchunk(&wire, step), unchunk(&wire, wire.len()));
        }

        #[test]
        fn any_body_in_any_chunks_is_read(sizes in proptest::collection::vec(1..40_usize, 0..10), step in 1..50_usize) {
            let (mut wire, mut body) = (Vec::new(), Vec::new());
            for (index, size) in sizes.iter().enumerate() {
                let data = vec![b'a' + index as u8; *size];
                wire.extend_from_slice(format!("{size:X}\r\n").as_bytes());
                wire.extend_from_slice(&data);
                wire.extend_from_slice(b"\r\n");
                body.extend_from_slice(&data);
            }
            wire.extend_from_slice(b"0\r\n\r\n");
            prop_assert_eq!(unchunk(&wire, step).unwrap(), (body, true, wire.len()));
        }
    }
}
