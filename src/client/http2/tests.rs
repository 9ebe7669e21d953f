//! The client's end of a connection, without a socket.

use bytes::Bytes;
use proptest::prelude::*;

use super::code::Http2Code;
use super::frame::{self, ConnectionFault, FrameHead};
use super::multiplexer::{Multiplexer, WAITING_BYTES_MAX};
use super::receiving::IDLE_FRAMES_MAX;
use super::stream::{CollectedAnswer, StreamFailure};
use crate::Request;
use crate::body::BodyContent;
use crate::headers::HeaderBlock;
use crate::options::{Limits, Version};
use crate::url::BaseUrl;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = FrameHead { length: payload.len(), kind, flags, stream }.bytes().to_vec();
    bytes.extend_from_slice(payload);
    bytes
}

fn settings(settings: &[(u16, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame::write_settings(&mut bytes, settings);
    bytes
}

/// The frames of what was sent, after the preface: kind, flags, stream, payload.
fn frames(mut sent: &[u8]) -> Vec<(u8, u8, u32, Vec<u8>)> {
    sent = sent.strip_prefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap_or(sent);
    let mut frames = Vec::new();
    while let Some(head) = FrameHead::read(sent) {
        let payload = sent[frame::HEAD_BYTES..][..head.length].to_vec();
        sent = &sent[frame::HEAD_BYTES + head.length..];
        frames.push((head.kind, head.flags, head.stream, payload));
    }
    assert!(sent.is_empty());
    frames
}

/// What was to be sent, which counts as sent from now on.
fn sent(connection: &mut Multiplexer) -> Vec<(u8, u8, u32, Vec<u8>)> {
    let bytes = connection.unsent().to_vec();
    connection.note_sent(bytes.len());
    frames(&bytes)
}

/// A request with headers of this length, and this body; its number.
fn begin(connection: &mut Multiplexer, header: &str, body: &BodyContent) -> u32 {
    let url = BaseUrl::parse("http://api.example.com").unwrap();
    let (nothing, mut fixed) = (HeaderBlock::default(), HeaderBlock::default());
    fixed.push(&http::HeaderName::from_static("x-a"), header.as_bytes()).unwrap();
    connection.begin(&Request {
        method: &http::Method::GET,
        origin: &url.origin,
        path: "/",
        fixed: &fixed,
        own: &nothing,
        body,
        started: base::clock::now(),
        redirects_max: 0,
        body_bytes_max: 1000,
        cookies: None,
        keep_headers: true,
        keep_trailers: true,
        reader: None,
        version: Version::Auto,
        keep_body: true,
        is_refused: &|_| false,
    })
}

fn get(connection: &mut Multiplexer) -> u32 {
    begin(connection, "b", &BodyContent::EMPTY)
}

/// A connection whose server has sent its settings, and a request on it.
fn asked() -> Multiplexer {
    let mut connection = Multiplexer::new(Limits::default());
    assert!(!connection.is_set_up());
    connection.receive(&settings(&[])).unwrap();
    assert!(connection.is_set_up());
    assert_eq!(get(&mut connection), 1);
    sent(&mut connection);
    connection
}

/// What becomes of an answer that arrives in pieces of this length.
fn answered(
    bytes: &[u8],
    step: usize,
) -> Result<Option<Result<CollectedAnswer, StreamFailure>>, ConnectionFault> {
    let (mut connection, mut held) = (asked(), Vec::new());
    for piece in bytes.chunks(step) {
        held.extend_from_slice(piece);
        let taken = connection.receive(&held)?;
        held.drain(..taken);
    }
    assert!(connection.unsent().len() < 64 + bytes.len(), "{} bytes wait", connection.unsent().len());
    Ok(if connection.has_ended(1) { connection.take(1, false) } else { None })
}

/// The same, as a text.
fn told(bytes: &[u8], step: usize) -> String {
    match answered(bytes, step) {
        Err(ConnectionFault { code, reason }) => format!("{code}: {reason}"),
        Ok(None) => "nothing yet".to_owned(),
        Ok(Some(Ok(answer))) => {
            let (headers, body) = (answer.headers.unwrap_or_default(), String::from_utf8_lossy(&answer.body));
            format!("{} {} {body}", answer.status.as_u16(), headers.len())
        }
        Ok(Some(Err(StreamFailure::Reset(code)))) => format!("reset {code}"),
        Ok(Some(Err(StreamFailure::LeftOut))) => "left out".to_owned(),
        Ok(Some(Err(StreamFailure::Answer(error)))) => error.to_string(),
    }
}

#[test]
fn answers_are_collected_however_they_are_torn() {
    let (ok, data) = (frame(1, 4, 1, b"\x88"), |flags, bytes: &[u8]| frame(0, flags, 1, bytes));
    let long = frame(1, 0, 1, b"\x88\x00\x01a");
    for (name, frames, expected) in [
        ("a body", [ok.clone(), data(0, b"he"), data(1, b"llo")].concat(), "200 0 hello"),
        ("no body", frame(1, 5, 1, b"\x89"), "204 0 "),
        ("padding", [frame(1, 12, 1, b"\x02\x88\0\0"), frame(0, 9, 1, b"\x03ok\0\0\0")].concat(), "200 0 ok"),
        ("priority", [frame(1, 0x24, 1, b"\0\0\0\0\x10\x88"), data(1, b"ok")].concat(), "200 0 ok"),
        (
            "continued",
            [long, frame(9, 0, 1, b"\x01"), frame(9, 4, 1, b"b"), data(1, b"ok")].concat(),
            "200 1 ok",
        ),
        ("interim", [frame(1, 4, 1, b"\x08\x03103"), ok.clone(), data(1, b"ok")].concat(), "200 0 ok"),
        ("trailers", [ok.clone(), data(0, b"ok"), frame(1, 5, 1, b"\x00\x01a\x01b")].concat(), "200 0 ok"),
        ("empty data", [ok.clone(), data(0, b"").repeat(500), data(1, b"ok")].concat(), "200 0 ok"),
        (
            "unknown frames",
            [ok.clone(), frame(0x42, 7, 9, b"abc"), frame(2, 0, 1, b"abcde"), data(1, b"ok")].concat(),
            "200 0 ok",
        ),
        ("not ended", [ok.clone(), data(0, b"ok")].concat(), "nothing yet"),
        ("reset", [ok.clone(), frame(3, 0, 1, &[0, 0, 0, 2])].concat(), "reset INTERNAL_ERROR"),
        ("left out", frame(7, 0, 0, &[0; 8]), "left out"),
        (
            "goes away later",
            [frame(7, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 0]), ok, data(1, b"ok")].concat(),
            "200 0 ok",
        ),
    ] {
        for step in 1..frames.len() + 1 {
            assert_eq!(told(&frames, step), expected, "{name}, {step} bytes at a time");
        }
    }
}

#[test]
fn what_the_standard_forbids_is_told() {
    let (ok, end) = (frame(1, 4, 1, b"\x88"), frame(0, 1, 1, b"hello"));
    for (frames, part) in [
        // Of the answer.
        ([frame(1, 4, 1, b"\x88\x0f\x0d\x019"), end.clone()].concat(), "5 bytes, not 9"),
        ([frame(1, 4, 1, b"\x88\x0f\x0d\x013"), frame(0, 0, 1, b"hello")].concat(), "5 bytes, not 3"),
        ([ok.clone(), frame(0, 0, 1, &[b'a'; 1001])].concat(), "larger than 1000 bytes"),
        ([ok.clone(), end, frame(1, 5, 1, b"\x88")].concat(), "came after the end of its stream"),
        ([ok.clone(), frame(1, 5, 1, b"\x88")].concat(), "pseudo-header fields"),
        ([ok, frame(1, 4, 1, b"\x00\x01a\x01b")].concat(), "a second head"),
        (frame(1, 5, 1, b"\x08\x03103"), "the interim answer 103"),
        (frame(1, 4, 1, b"\x08\x03101"), "the interim answer 101"),
        (frame(1, 4, 1, b"\x08\x03103").repeat(10_001), "more than 10000 interim answers"),
        (frame(0, 0, 1, b"x"), "its body comes before its head"),
        (frame(8, 0, 1, &[0; 4]), "adds nothing"),
        (frame(8, 0, 1, &[0x7f, 0xff, 0xff, 0xff]), "window is larger"),
        // Of the connection.
        (frame(1, 4, 1, &[0xff; 20]), "COMPRESSION_ERROR: the fields of an answer cannot be unpacked"),
        (frame(0, 0, 0, b"x"), "PROTOCOL_ERROR: a DATA frame belongs to the stream 0"),
        (frame(1, 4, 3, b"\x88"), "a HEADERS frame belongs to the stream 3"),
        (frame(3, 0, 2, &[0; 4]), "a RST_STREAM frame belongs to the stream 2"),
        (frame(0, 8, 1, b"\x05x"), "more padding than payload"),
        (frame(9, 4, 1, b"x"), "not one behind another"),
        ([frame(1, 0, 1, b"\x88"), frame(6, 0, 0, &[0; 8])].concat(), "not one behind another"),
        ([frame(1, 0, 1, b"\x88"), frame(9, 4, 3, b"")].concat(), "not one behind another"),
        (
            [frame(1, 0, 1, b"\x88"), frame(9, 0, 1, &[0x88; 16_000]).repeat(17)].concat(),
            "ENHANCE_YOUR_CALM: a limit of bench",
        ),
        (frame(5, 4, 1, &[0, 0, 0, 2, 0x88]), "the server pushes"),
        (frame(0, 0, 1, &[0; 16_385]), "FRAME_SIZE_ERROR: a frame has 16385 bytes"),
        (frame(4, 0, 0, &[0; 5]), "a SETTINGS frame has a wrong length"),
        (frame(4, 1, 0, &[0; 6]), "a SETTINGS frame has a wrong length"),
        (frame(4, 0, 1, &[]), "a SETTINGS frame belongs to a stream"),
        (settings(&[(2, 1)]), "ENABLE_PUSH"),
        (settings(&[(4, 1 << 31)]), "FLOW_CONTROL_ERROR"),
        (settings(&[(5, 100)]), "MAX_FRAME_SIZE"),
        (frame(6, 0, 0, &[0; 7]), "a PING frame has a wrong length"),
        (frame(6, 0, 1, &[0; 8]), "a PING frame belongs to a stream"),
        (frame(7, 0, 0, &[0; 7]), "a GOAWAY frame has a wrong length"),
        (frame(8, 0, 0, &[0; 4]), "adds nothing"),
        (frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff]), "FLOW_CONTROL_ERROR: a window is larger"),
        (frame(3, 0, 1, &[0; 3]), "a RST_STREAM frame has a wrong length"),
    ] {
        for step in [7, 16_500, 1 << 20] {
            let told = told(&frames, step);
            assert!(told.contains(part), "{:?}: {told}", &frames[..frames.len().min(30)]);
        }
    }
    let mut connection = Multiplexer::new(Limits::default());
    let refused = connection.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap_err();
    assert!(refused.reason.contains("does the server support HTTP/2?"), "{refused:?}");
}

#[test]
fn frames_without_end_are_refused_and_nothing_piles_up() {
    for (name, idle) in [
        ("pings", frame(6, 0, 0, &[0; 8])),
        ("window updates", frame(8, 0, 1, &[0, 0, 0, 1])),
        ("empty data", frame(0, 0, 1, b"")),
        ("unknown", frame(0x42, 0, 0, b"")),
    ] {
        let mut connection = asked();
        connection.receive(&frame(1, 4, 1, b"\x88")).unwrap();
        let many = idle.repeat(1000);
        let mut fault = None;
        for _ in 0..=IDLE_FRAMES_MAX / 1000 {
            fault = fault.or(connection.receive(&many).err());
            sent(&mut connection);
        }
        assert_eq!(fault.map(|fault| fault.code), Some(Http2Code::ENHANCE_YOUR_CALM), "{name}");
    }
}

#[test]
fn control_frames_are_answered() {
    let mut connection = Multiplexer::new(Limits::default());
    let begun = sent(&mut connection);
    assert_eq!(
        begun.iter().map(|frame| frame.0).collect::<Vec<_>>(),
        [frame::SETTINGS, frame::WINDOW_UPDATE]
    );
    let both =
        [settings(&[(3, 7), (99, 1)]), frame(6, 0, 0, b"abcdefgh"), frame(6, 1, 0, b"abcdefgh")].concat();
    assert_eq!(connection.receive(&both), Ok(both.len()));
    assert_eq!(
        sent(&mut connection),
        [(frame::SETTINGS, frame::ACK, 0, vec![]), (frame::PING, frame::ACK, 0, b"abcdefgh".to_vec())]
    );
    assert_eq!(connection.streams_max(), 7);
    connection.say_why(&ConnectionFault::protocol("x"));
    assert_eq!(sent(&mut connection), [(frame::GOAWAY, 0, 0, vec![0, 0, 0, 0, 0, 0, 0, 1])]);
}

/// What was read is reported, so that the server can go on.
#[test]
fn windows_are_opened_again() {
    let mut connection = asked();
    connection.receive(&frame(1, 4, 1, b"\x88")).unwrap();
    let (mut of_stream, mut of_all) = (0, 0);
    connection.take(1, false);
    // A body without end that is not wanted any more counts for the connection.
    for _ in 0..400 {
        connection.receive(&frame(0, 0, 1, &[0; 16_000])).unwrap();
        for (kind, _, stream, payload) in sent(&mut connection) {
            let number = frame::number(&payload).unwrap();
            match (kind, stream) {
                (frame::WINDOW_UPDATE, 0) => of_all += number,
                (frame::WINDOW_UPDATE, 1) => of_stream += number,
                (kind, _) => assert_eq!((kind, number), (frame::RST_STREAM, Http2Code::CANCEL.0)),
            }
        }
    }
    assert_eq!((of_stream, of_all / (2 << 20)), (0, 3));
}

#[test]
fn bodies_are_sent_as_far_as_there_is_room() {
    let mut connection = Multiplexer::new(Limits::default());
    connection.receive(&settings(&[(4, 10)])).unwrap();
    let body = BodyContent::Bytes(Bytes::from_static(&[b'x'; 200_000]));
    let id = begin(&mut connection, "b", &body);
    sent(&mut connection);
    let BodyContent::Bytes(mut rest) = body else { unreachable!() };
    let mut upload = |connection: &mut Multiplexer| {
        let added = connection.upload(id, &rest, true);
        rest = rest.slice(added..);
        let frames = sent(connection);
        let data: usize =
            frames.iter().filter(|frame| frame.0 == frame::DATA).map(|frame| frame.3.len()).sum();
        assert_eq!(data, added);
        (added, frames.last().is_some_and(|frame| frame.1 == frame::END_STREAM))
    };
    assert_eq!(upload(&mut connection), (10, false));
    assert_eq!(upload(&mut connection), (0, false));
    assert!(!connection.can_upload(id) && !connection.is_whole(id));
    // The window of the stream, and then that of the connection.
    connection.receive(&frame(8, 0, id, &1000_u32.to_be_bytes())).unwrap();
    assert_eq!(upload(&mut connection), (1000, false));
    connection.receive(&settings(&[(4, 1 << 20)])).unwrap();
    assert_eq!(upload(&mut connection), (65_535 - 1010, false));
    connection.receive(&frame(8, 0, 0, &(1_u32 << 20).to_be_bytes())).unwrap();
    // No more than that waits at a time.
    let (added, _) = upload(&mut connection);
    assert!((WAITING_BYTES_MAX..WAITING_BYTES_MAX + 20_000).contains(&added), "{added}");
    assert!(!upload(&mut connection).1 && upload(&mut connection).1);
    assert!(connection.is_whole(id) && connection.is_sent(id));
    // A smaller window may leave less than nothing.
    let id = begin(&mut connection, "b", &BodyContent::Bytes(Bytes::from_static(b"abc")));
    assert_eq!(connection.upload(id, b"ab", false), 2);
    connection.receive(&settings(&[(4, 0)])).unwrap();
    assert_eq!(connection.upload(id, b"c", true), 0);
    connection.receive(&frame(8, 0, id, &3_u32.to_be_bytes())).unwrap();
    assert_eq!(connection.upload(id, b"c", true), 1);
    assert!(connection.is_whole(id));
}

#[test]
fn long_heads_are_spread_over_frames() {
    let mut connection = asked();
    let id = begin(&mut connection, &"v".repeat(40_000), &BodyContent::EMPTY);
    let frames = sent(&mut connection);
    let kinds: Vec<_> = frames.iter().map(|frame| (frame.0, frame.1, frame.2)).collect();
    assert_eq!(
        kinds,
        [
            (frame::HEADERS, frame::END_STREAM, id),
            (frame::CONTINUATION, 0, id),
            (frame::CONTINUATION, frame::END_HEADERS, id)
        ]
    );
}

#[test]
fn a_request_that_is_given_up_is_reset_and_its_answer_ignored() {
    let mut connection = asked();
    assert!(connection.take(1, false).is_none());
    assert_eq!(sent(&mut connection), [(frame::RST_STREAM, 0, 1, vec![0, 0, 0, 8])]);
    let next = get(&mut connection);
    sent(&mut connection);
    // The fields of the answer that nobody waits for stay in the table that both ends have.
    let late = [frame(1, 4, 1, b"\x48\x03203"), frame(0, 1, 1, b"late")].concat();
    connection.receive(&late).unwrap();
    connection.receive(&frame(1, 5, next, b"\xbe")).unwrap();
    let answer = connection.take(next, false).unwrap().map(|answer| answer.status.as_u16());
    assert!(matches!(answer, Ok(203)), "{answer:?}");
    assert!(sent(&mut connection).is_empty() && connection.take(next, false).is_none());
    // However many they are.
    let many: Vec<u32> = (0..200).map(|_| get(&mut connection)).collect();
    assert!(many.iter().all(|id| connection.take(*id, false).is_none()));
    sent(&mut connection);
    for id in many {
        connection.receive(&frame(1, 5, id, b"\x88")).unwrap();
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(
        frames in proptest::collection::vec((0..10_u8, any::<u8>(), 0..4_u32, proptest::collection::vec(any::<u8>(), 0..40)), 0..20),
        step in 1..50_usize,
    ) {
        let bytes: Vec<u8> = frames.iter().flat_map(|(kind, flags, stream, payload)| frame(*kind, *flags, *stream, payload)).collect();
        let (whole, torn) = (told(&bytes, usize::MAX), told(&bytes, step));
        // What follows a whole answer may be a fault.
        prop_assert!(whole == torn, "{} {}", whole, torn);
    }
}
