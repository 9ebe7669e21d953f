//! What a header block of HTTP/2 has that the standard forbids, to explain an error of h2, which does not tell.
//!
//! Reads literal names only: a name from the dynamic table was a literal once, and was refused then. Huffman codes are not
//! decoded, except for what they say of capitals: those have other codes than small letters.

/// Fields of HTTP/1.1's connections (RFC 9113, section 8.2.2).
const OF_CONNECTIONS: [&str; 5] =
    ["connection", "transfer-encoding", "upgrade", "keep-alive", "proxy-connection"];
/// The entries of the static table that are `:status` (RFC 7541, appendix A); those before are pseudo-header fields, too.
const STATUS: std::ops::RangeInclusive<usize> = 8..=14;
/// `transfer-encoding` in the static table.
const TRANSFER_ENCODING: usize = 57;

/// A name as the block has it.
enum Name<'a> {
    Indexed(usize),
    Literal(&'a [u8]),
    /// A literal in Huffman's code.
    Coded(&'a [u8]),
}

impl Name<'_> {
    fn is_pseudo(&self) -> bool {
        match self {
            Self::Indexed(index) => (1..=*STATUS.end()).contains(index),
            Self::Literal(name) => name.first() == Some(&b':'),
            // The code of a colon is 1011100.
            Self::Coded(code) => code.first().is_some_and(|byte| byte >> 1 == 0b101_1100),
        }
    }
}

/// True if the first field of a block can be seen to be a pseudo-header field.
pub(super) fn begins_with_pseudo(block: &[u8]) -> bool {
    names(block).next().is_some_and(|name| name.is_pseudo())
}

/// What is wrong with the fields of an answer, if that can be seen.
pub(super) fn fault(block: &[u8]) -> Option<String> {
    let (mut ordinary, mut statuses, mut unknown) = (false, 0, false);
    for name in names(block) {
        if name.is_pseudo() {
            let is_status = match name {
                Name::Indexed(index) => STATUS.contains(&index),
                Name::Literal(name) => name == b":status",
                Name::Coded(_) => true,
            };
            statuses += u32::from(is_status);
            if !is_status {
                return Some("it has a pseudo-header field that only requests may have".to_owned());
            }
            if ordinary {
                return Some("its `:status` comes after other header fields".to_owned());
            }
            continue;
        }
        ordinary = true;
        match name {
            Name::Literal(name) if name.iter().any(u8::is_ascii_uppercase) => {
                return Some(format!(
                    "its header field `{}` has capital letters in its name",
                    String::from_utf8_lossy(name)
                ));
            }
            Name::Literal(name) if OF_CONNECTIONS.iter().any(|other| other.as_bytes() == name) => {
                let name = String::from_utf8_lossy(name);
                return Some(format!("it has the header field `{name}`, which is of HTTP/1.1's connections"));
            }
            Name::Literal(b"") => return Some("it has a header field without a name".to_owned()),
            Name::Literal(name) if name.iter().any(|byte| *byte <= b' ' || *byte >= 0x7f) => {
                return Some("the name of a header field has characters that are not allowed".to_owned());
            }
            Name::Indexed(TRANSFER_ENCODING) => {
                return Some(
                    "it has the header field `transfer-encoding`, which is of HTTP/1.1's connections"
                        .to_owned(),
                );
            }
            // Of the dynamic table, where a status may be, too.
            Name::Indexed(62..) => unknown = true,
            _ => {}
        }
    }
    match statuses {
        0 if !block.is_empty() && !unknown => Some("it has no `:status`".to_owned()),
        2.. => Some("it has two `:status`".to_owned()),
        _ => None,
    }
}

/// True if the block can be seen to have a `content-length`.
pub(super) fn has_length(block: &[u8]) -> bool {
    names(block).any(|name| matches!(name, Name::Indexed(28) | Name::Literal(b"content-length")))
}

/// The names of a block in order, until its end or what cannot be read.
fn names(block: &[u8]) -> impl Iterator<Item = Name<'_>> {
    let mut rest = block;
    std::iter::from_fn(move || {
        loop {
            let first = *rest.first()?;
            if first & 0x80 != 0 {
                return Some(Name::Indexed(number(&mut rest, 7)?));
            }
            if first & 0xe0 == 0x20 {
                // The size of the dynamic table.
                number(&mut rest, 5)?;
                continue;
            }
            let index = number(&mut rest, if first & 0x40 != 0 { 6 } else { 4 })?;
            let name = if index > 0 {
                Name::Indexed(index)
            } else {
                let (coded, name) = text(&mut rest)?;
                if coded { Name::Coded(name) } else { Name::Literal(name) }
            };
            // A block that is cut in a value still has this name.
            let _ = text(&mut rest);
            return Some(name);
        }
    })
}

/// An integer with a prefix of `bits` bits in its first byte (RFC 7541, section 5.1).
fn number(rest: &mut &[u8], bits: u32) -> Option<usize> {
    let most = (1_usize << bits) - 1;
    let (first, mut tail) = rest.split_first()?;
    let mut value = usize::from(*first) & most;
    if value == most {
        for shift in (0..28).step_by(7) {
            let (byte, after) = tail.split_first()?;
            tail = after;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
    }
    *rest = tail;
    Some(value)
}

/// A text, and whether it is in Huffman's code.
fn text<'a>(rest: &mut &'a [u8]) -> Option<(bool, &'a [u8])> {
    let coded = rest.first()? & 0x80 != 0;
    let Some(length) = number(rest, 7) else {
        *rest = &[];
        return None;
    };
    let Some((text, tail)) = rest.split_at_checked(length) else {
        *rest = &[];
        return None;
    };
    *rest = tail;
    Some((coded, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    use proptest::prelude::*;

    #[test]
    fn what_is_wrong_is_told() {
        for (block, part) in [
            (&b"\x88"[..], None),
            (b"\x88\x00\x07X-Upper\x011", Some("`X-Upper` has capital letters")),
            (b"\x88\x40\x0aconnection\x05close", Some("`connection`")),
            (b"\x88\x0f\x2a\x07chunked", Some("`transfer-encoding`")),
            (b"\x00\x01a\x01b", Some("no `:status`")),
            (b"\x88\x88", Some("two `:status`")),
            (b"\x00\x01a\x01b\x88", Some("after other header fields")),
            (b"\x88\x82", Some("only requests may have")),
            (b"\x88\x00\x00\x01b", Some("without a name")),
            (b"\x88\x00\x03a b\x01b", Some("characters that are not allowed")),
            (b"\x3f\xe1\x1f\x88\x0f\x0d\x0212", None),
            (b"\x48\x03200\x5f\x03a/b", None),
            (b"\x88\x00\x05a", None),
            (b"\xbe\xbf", None),
        ] {
            let fault = fault(block);
            match part {
                Some(part) => {
                    assert!(fault.as_ref().is_some_and(|fault| fault.contains(part)), "{block:?}: {fault:?}")
                }
                None => assert_eq!(fault, None, "{block:?}"),
            }
        }
        for (block, pseudo) in [
            (&b"\x88"[..], true),
            (b"\x08\x03200", true),
            (b"\x48\x03200", true),
            (b"\x00\x07:status\x03200", true),
            (b"\x40\x85\xb8\x84\x8d\x36\xa3\x82\x64\x02", true),
            (b"\x00\x0bgrpc-status\x010", false),
            (b"\xbe", false),
            (b"", false),
        ] {
            assert_eq!(begins_with_pseudo(block), pseudo, "{block:?}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = fault(&bytes);
            let _ = begins_with_pseudo(&bytes);
        }
    }
}
