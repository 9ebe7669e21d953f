//! Halves of surrogate pairs in JSON: an SDK that cuts texts after a number of UTF-16 units writes `"abc\ud83d"`, which
//! is no text in UTF-8. One such value must not cost all spans of a request.

/// What stands for a half, as in JSON.
const REPLACEMENT: &[u8] = b"\\ufffd";

/// The text with U+FFFD for each half that is alone; `None` if there is none.
pub(super) fn replaced(json: &[u8]) -> Option<Vec<u8>> {
    let mut output: Option<Vec<u8>> = None;
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = json[at..].iter().position(|byte| *byte == b'\\').map(|offset| at + offset) {
        let unit = unit(json, found);
        let is_pair = unit.is_some_and(is_high) && self::unit(json, found + 6).is_some_and(is_low);
        at = match unit {
            _ if is_pair => found + 12,
            Some(unit) if is_high(unit) || is_low(unit) => {
                let output = output.get_or_insert_with(|| Vec::with_capacity(json.len()));
                output.extend_from_slice(&json[copied..found]);
                output.extend_from_slice(REPLACEMENT);
                copied = found + 6;
                copied
            }
            Some(_) => found + 6,
            None => found + 2,
        };
        if at >= json.len() {
            break;
        }
    }
    output.map(|mut output| {
        output.extend_from_slice(&json[copied.min(json.len())..]);
        output
    })
}

/// The UTF-16 unit that is escaped at a backslash.
fn unit(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn is_high(unit: u16) -> bool {
    (0xd800..0xdc00).contains(&unit)
}

fn is_low(unit: u16) -> bool {
    (0xdc00..0xe000).contains(&unit)
}

#[cfg(test)]
mod tests {
    use super::replaced;

    #[test]
    fn only_halves_that_are_alone_are_replaced() {
        for (json, expected) in [
            (r#""abc\ud83d""#, Some(r#""abc\ufffd""#)),
            (r#""\udE00x\ud83d\u0041\ud83d\ude00""#, Some(r#""\ufffdx\ufffd\u0041\ud83d\ude00""#)),
            (r#""\ud83d\ud83d\ude00""#, Some(r#""\ufffd\ud83d\ude00""#)),
            // A backslash that is escaped begins nothing.
            (r#""\\ud83d""#, None),
            (r#""\ud83d\ude00 \n \u00e4""#, None),
            (r#""\ud8"#, None),
            ("\\", None),
            ("", None),
        ] {
            let seen = replaced(json.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(seen.as_deref(), expected, "{json}");
        }
    }
}
