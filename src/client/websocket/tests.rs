//! What a server may send, whole and torn.

use bytes::{BufMut as _, Bytes};
use proptest::prelude::*;

use super::deflate::compressed;
use super::extension::MessageCompression;
use super::frames::{BINARY, CLOSE, COMPRESSED, CONTINUATION, FIN, PING, PONG, TEXT};
use super::message::SocketMessage;
use super::reader::{FrameArrival, MessageReader};
use super::violation::Violation;

/// The largest message here.
const BYTES_MAX: u64 = 100_000;
const AGREED: MessageCompression = MessageCompression { server_keeps_context: true, client_window_bits: 15 };
const ALONE: MessageCompression = MessageCompression { server_keeps_context: false, client_window_bits: 15 };

#[derive(Clone, Debug, PartialEq, Eq)]
enum Came {
    Message(SocketMessage),
    Ping(Vec<u8>),
}

/// What came, and which rule was broken.
type FrameReading = (Vec<Came>, Option<Violation>);

/// Reads bytes in pieces of this size. With `own_reads`, the rest of a long payload is put where the reader has room for it.
fn read(
    bytes: &[u8],
    piece: usize,
    own_reads: bool,
    compression: Option<MessageCompression>,
) -> FrameReading {
    let (mut reader, mut came) = (MessageReader::new(BYTES_MAX, compression), Vec::new());
    let mut rest = bytes;
    while !rest.is_empty() {
        let mut piece = rest.split_off(..piece.min(rest.len())).unwrap_or_default();
        while !piece.is_empty() {
            if let Some(mut room) = reader.room().filter(|_| own_reads) {
                let fits = piece.split_off(..piece.len().min(room.remaining_mut())).unwrap();
                room.put_slice(fits);
                if let Err(violation) = reader.filled(fits.len()) {
                    return (came, Some(violation));
                }
            }
            loop {
                match reader.take(&mut piece) {
                    Ok(Some(FrameArrival::Message(message))) => came.push(Came::Message(message)),
                    Ok(Some(FrameArrival::Ping)) => came.push(Came::Ping(reader.control().to_vec())),
                    Ok(None) => break,
                    Err(violation) => return (came, Some(violation)),
                }
            }
        }
    }
    (came, None)
}

/// What comes of bytes; however they are torn, it must be the same.
#[track_caller]
fn outcome(bytes: &[u8], compression: Option<MessageCompression>) -> FrameReading {
    let whole = read(bytes, usize::MAX, false, compression);
    for (piece, own_reads) in [(1, false), (7, false), (9_000, false), (9_000, true), (16_384, true)] {
        let torn = read(bytes, piece, own_reads, compression);
        assert!(torn == whole, "in pieces of {piece}, {own_reads}: {:?} {:?}", torn.1, whole.1);
    }
    whole
}

fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match payload.len() {
        length @ ..126 => frame.push(length as u8),
        length @ 126..65_536 => {
            frame.push(126);
            frame.extend((length as u16).to_be_bytes());
        }
        length => {
            frame.push(127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(payload);
    frame
}

fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    frame(FIN | CLOSE, &[&code.to_be_bytes(), reason].concat())
}

fn text(content: &str) -> Came {
    Came::Message(SocketMessage::Text(Bytes::copy_from_slice(content.as_bytes())))
}

fn binary(content: &[u8]) -> Came {
    Came::Message(SocketMessage::Binary(Bytes::copy_from_slice(content)))
}

fn pong(content: &[u8]) -> Came {
    Came::Message(SocketMessage::Pong(Bytes::copy_from_slice(content)))
}

fn ended(code: u16, reason: &str) -> Came {
    Came::Message(SocketMessage::Close(code, reason.to_owned()))
}

fn ping(content: &[u8]) -> Came {
    Came::Ping(content.to_vec())
}

/// A message as a server compresses it.
fn packed(content: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    assert!(compressed(content, 15, |bytes| packed = bytes.to_vec()), "it gets no shorter");
    packed
}

#[test]
fn valid_frames_are_messages() {
    let long = "é".repeat(40_000);
    let rows: Vec<(Vec<Vec<u8>>, Vec<Came>)> = vec![
        (vec![frame(FIN | TEXT, b"")], vec![text("")]),
        (vec![frame(FIN | BINARY, b"")], vec![binary(b"")]),
        // RFC 6455, section 5.7.
        (vec![frame(FIN | TEXT, b"Hello")], vec![text("Hello")]),
        (vec![frame(TEXT, b"Hel"), frame(FIN, b"lo")], vec![text("Hello")]),
        (
            vec![frame(FIN | PING, b"Hello"), frame(FIN | PONG, b"Hello")],
            vec![ping(b"Hello"), pong(b"Hello")],
        ),
        (
            vec![
                frame(TEXT, b"a"),
                frame(FIN | PING, b""),
                frame(0, b""),
                frame(FIN | PONG, b"p"),
                frame(FIN, b"b"),
            ],
            vec![ping(b""), pong(b"p"), text("ab")],
        ),
        // A character in two frames.
        (vec![frame(TEXT, b"\xe2\x82"), frame(0, b""), frame(FIN, b"\xac")], vec![text("€")]),
        (vec![frame(BINARY, b"\xff"), frame(FIN, b"\xfe")], vec![binary(b"\xff\xfe")]),
        (vec![frame(FIN | PING, &[7; 125]), close(1000, b"")], vec![ping(&[7; 125]), ended(1000, "")]),
        (vec![frame(FIN | CLOSE, b"")], vec![ended(1005, "")]),
        (vec![close(4999, "schön".as_bytes())], vec![ended(4999, "schön")]),
    ];
    for (frames, expected) in rows {
        assert_eq!(outcome(&frames.concat(), None), (expected, None), "{frames:?}");
    }
    for length in [125, 126, 127, 65_534, 65_536, 65_538, 80_000] {
        let content = &long[..length - length % 2];
        let frames = [frame(FIN | TEXT, content.as_bytes()), frame(FIN | TEXT, b"a")].concat();
        assert_eq!(outcome(&frames, None), (vec![text(content), text("a")], None), "{length}");
        let (one, two) = content.as_bytes().split_at(length / 3);
        let frames = [frame(TEXT, one), frame(FIN, two), frame(FIN | TEXT, b"a")].concat();
        assert_eq!(outcome(&frames, None), (vec![text(content), text("a")], None), "{length} in two");
    }
}

#[test]
fn what_the_standard_forbids_breaks_a_rule() {
    let protocol = Violation::Protocol;
    let long = |form: &[u8]| [&[FIN | BINARY][..], form].concat();
    let rows: Vec<(&str, Vec<u8>, Violation)> = vec![
        ("bit 2", frame(FIN | 0x20 | TEXT, b"a"), Violation::RESERVED_BIT),
        ("bit 3", frame(FIN | 0x10 | TEXT, b"a"), Violation::RESERVED_BIT),
        ("compression without agreement", frame(FIN | COMPRESSED | TEXT, b"a"), Violation::RESERVED_BIT),
        ("a kind of messages", frame(FIN | 3, b""), protocol("invalid opcode")),
        ("a kind of control", frame(FIN | 11, b""), protocol("invalid opcode")),
        ("a mask", vec![FIN | TEXT, 0x81, 0, 0, 0, 0, b'a'], protocol("unexpected masked frame")),
        ("a ping in pieces", frame(PING, b""), protocol("fragmented control frame")),
        ("a long ping", frame(FIN | PING, &[0; 126]), Violation::LENGTH),
        ("a long end", frame(FIN | CLOSE, &[3; 126]), Violation::LENGTH),
        ("a short length in 16 bits", long(&[126, 0, 125]), Violation::LENGTH),
        ("a short length in 64 bits", long(&[127, 0, 0, 0, 0, 0, 0, 0xff, 0xff]), Violation::LENGTH),
        ("the highest bit", long(&[127, 0x80, 0, 0, 0, 0, 1, 0, 0]), Violation::LENGTH),
        ("half a code", frame(FIN | CLOSE, &[3]), Violation::LENGTH),
        ("a rest", frame(FIN, b"a"), protocol("invalid opcode: a rest without a beginning")),
        (
            "two beginnings",
            [frame(TEXT, b"a"), frame(FIN | TEXT, b"b")].concat(),
            protocol("invalid opcode: a message within another one"),
        ),
        ("a reason that is no text", close(1000, b"\xff"), Violation::NotUtf8),
        ("a reason that is cut off", close(1000, b"\xe2\x82"), Violation::NotUtf8),
        ("no text", frame(FIN | TEXT, b"a\xff"), Violation::NotUtf8),
        ("half a character", frame(FIN | TEXT, b"\xe2\x82"), Violation::NotUtf8),
        ("half a surrogate", frame(FIN | TEXT, b"\xed\xa0\x80"), Violation::NotUtf8),
        ("a character beyond the last one", frame(FIN | TEXT, b"\xf4\x90\x80\x80"), Violation::NotUtf8),
        (
            "half a character before the last frame",
            [frame(TEXT, b"\xe2\x82"), frame(FIN, b"")].concat(),
            Violation::NotUtf8,
        ),
        ("a long message", frame(FIN | BINARY, &[0; 100_001]), Violation::TooLarge),
        ("a long length", long(&[127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), Violation::TooLarge),
        (
            "a long message in pieces",
            [frame(BINARY, &[0; 60_000]), frame(0, &[0; 40_000]), frame(FIN, &[0])].concat(),
            Violation::TooLarge,
        ),
    ];
    for (what, bytes, violation) in rows {
        // After what came before.
        let bytes = [frame(FIN | TEXT, b"before"), bytes].concat();
        assert_eq!(outcome(&bytes, None), (vec![text("before")], Some(violation)), "{what}");
    }
}

/// A text is refused at its first wrong byte, not at its end.
#[test]
fn a_wrong_text_is_refused_at_once() {
    let whole = frame(FIN | TEXT, b"\xce\xba\xe1\xbd\xb9\xf4\x90\x80\x80 and more");
    for frames in [whole, [frame(TEXT, b"\xce\xba\xe1\xbd\xb9\xf4"), frame(0, b"\x90\x80")].concat()] {
        let mut reader = MessageReader::new(BYTES_MAX, None);
        let refused = (1..=frames.len()).find(|at| reader.take(&mut &frames[at - 1..*at]).is_err()).unwrap();
        assert_eq!(frames[refused - 1], 0x90);
    }
}

#[test]
fn only_some_codes_may_end_a_connection() {
    let mut allowed = Vec::new();
    for code in 0..=u16::MAX {
        match read(&close(code, b""), usize::MAX, false, None) {
            (came, None) => {
                assert_eq!(came, [ended(code, "")]);
                allowed.push(code);
            }
            (_, violation) => assert_eq!(violation, Some(Violation::Protocol("invalid close code"))),
        }
    }
    let expected = (1000..=1003).chain(1007..=1014).chain(3000..=4999);
    assert_eq!(allowed, expected.collect::<Vec<u16>>());
}

#[test]
fn compressed_messages_are_unpacked() {
    let (short, long) = ("cup ".repeat(300), "two cups, ".repeat(9_000));
    let pack = |content: &str| packed(content.as_bytes());
    let (one, many) = (frame(FIN | COMPRESSED | TEXT, &pack(&short)), pack(&long));
    let pieces: Vec<u8> = {
        let (begin, rest) = many.split_at(11);
        let (middle, end) = rest.split_at(5);
        let begin = frame(COMPRESSED | BINARY, begin);
        [begin, frame(FIN | PING, b"p"), frame(0, middle), frame(0, b""), frame(FIN, end)].concat()
    };
    let plain = frame(FIN | TEXT, b"plain");
    let all = [one.clone(), plain, pieces, one].concat();
    let expected = vec![text(&short), text("plain"), ping(b"p"), binary(long.as_bytes()), text(&short)];
    for agreed in [AGREED, ALONE] {
        assert_eq!(outcome(&all, Some(agreed)), (expected.clone(), None));
    }
    // RFC 7692, section 7.2.3.2: the second one refers to the first.
    let hello = frame(FIN | COMPRESSED | TEXT, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]);
    let again = frame(FIN | COMPRESSED | TEXT, &[0xf2, 0x00, 0x11, 0x00, 0x00]);
    let both = [hello, again].concat();
    assert_eq!(outcome(&both, Some(AGREED)), (vec![text("Hello"), text("Hello")], None));
    // If nothing may be referred to, the first is not there any more.
    let (alone, _) = outcome(&both, Some(ALONE));
    assert!(alone[0] == text("Hello") && alone.get(1) != Some(&text("Hello")), "{alone:?}");
    let empty = frame(FIN | COMPRESSED | TEXT, &[0]);
    assert_eq!(outcome(&empty, Some(AGREED)), (vec![text("")], None));
}

#[test]
fn compressed_messages_that_are_none_break_a_rule() {
    let mut wrong_text = "cup ".repeat(300).into_bytes();
    wrong_text.push(0xff);
    let rows: Vec<(&str, Vec<u8>, Violation)> = vec![
        ("a bomb", frame(FIN | COMPRESSED | BINARY, &packed(&vec![0; 50 << 20])), Violation::TooLarge),
        (
            "a byte too many",
            frame(FIN | COMPRESSED | BINARY, &packed(&vec![0; 100_001])),
            Violation::TooLarge,
        ),
        ("no deflate", frame(FIN | COMPRESSED | BINARY, &[0xff; 20]), Violation::Damaged),
        ("no text", frame(FIN | COMPRESSED | TEXT, &packed(&wrong_text)), Violation::NotUtf8),
        ("the bit on a ping", frame(FIN | COMPRESSED | PING, b""), Violation::RESERVED_BIT),
        (
            "the bit on a later frame",
            [frame(COMPRESSED | TEXT, b""), frame(FIN | COMPRESSED | CONTINUATION, &[0])].concat(),
            Violation::RESERVED_BIT,
        ),
        ("another bit", frame(FIN | COMPRESSED | 0x20 | TEXT, &[0]), Violation::RESERVED_BIT),
    ];
    for (what, bytes, violation) in rows {
        for agreed in [AGREED, ALONE] {
            assert_eq!(outcome(&bytes, Some(agreed)), (Vec::new(), Some(violation)), "{what}");
        }
    }
    let most = vec![0; BYTES_MAX as usize];
    let bytes = frame(FIN | COMPRESSED | BINARY, &packed(&most));
    assert_eq!(outcome(&bytes, Some(AGREED)), (vec![binary(&most)], None));
}

/// The length that a head claims costs nothing before its bytes come.
#[test]
fn no_memory_is_taken_for_bytes_that_do_not_come() {
    let mut reader = MessageReader::new(1 << 40, None);
    let head = [&[FIN | BINARY, 127][..], &(1_u64 << 39).to_be_bytes()].concat();
    assert_eq!(reader.take(&mut head.as_slice()), Ok(None));
    assert!(reader.room().is_none(), "nothing has come");
    assert_eq!(reader.take(&mut &[0; 10_000][..]), Ok(None));
    let mut came = 10_000;
    for _ in 0..4 {
        let mut room = reader.room().unwrap();
        let bytes = room.remaining_mut();
        assert!(bytes <= 4 * came, "room for {bytes} bytes after {came}");
        room.put_bytes(0, bytes);
        came += bytes;
        reader.filled(bytes).unwrap();
    }
}

/// A frame, mostly one that a server may send.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let first = prop_oneof![
        4 => proptest::sample::select(&[FIN | TEXT, FIN | BINARY, TEXT, BINARY, 0, FIN, FIN | PING, FIN | PONG][..]),
        2 => proptest::sample::select(&[FIN | COMPRESSED | TEXT, COMPRESSED | BINARY, COMPRESSED | TEXT][..]),
        1 => any::<u8>(),
    ];
    let payload = prop_oneof![
        3 => "[ -~é€]{0,40}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..200),
        1 => (120..70_000_usize).prop_map(|length| vec![b'a'; length]),
        2 => (1..300_usize).prop_map(|count| packed("cup é ".repeat(count + 200).as_bytes())),
    ];
    (first, payload).prop_map(|(first, payload)| frame(first, &payload))
}

proptest! {
    #[test]
    fn how_frames_are_torn_changes_nothing(
        frames in prop::collection::vec(any_frame(), 1..12),
        flipped in prop::option::of((any::<usize>(), any::<u8>())),
        agreed in proptest::sample::select(&[None, Some(AGREED), Some(ALONE)][..]),
    ) {
        let mut bytes = frames.concat();
        if let Some((at, byte)) = flipped {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        let (came, _) = outcome(&bytes, agreed);
        for came in came {
            match came {
                Came::Message(SocketMessage::Text(content)) => {
                    prop_assert!(std::str::from_utf8(&content).is_ok() && content.len() as u64 <= BYTES_MAX);
                }
                Came::Message(message) => prop_assert!(message.content().len() as u64 <= BYTES_MAX),
                Came::Ping(content) => prop_assert!(content.len() <= 125),
            }
        }
    }
}
