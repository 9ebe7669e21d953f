//! Characters as two escapes, `\ud83d\ude00`: JSON writes those beyond 16 bits so, and Python's `json` does by default.
//!
//! YAML reads most of JSON, but an escape must be a character of its own there. So where a text is no YAML because of
//! such a pair, it is read again with the one escape that YAML has for it, `\U0001F600`. Elsewhere, such as in a block or
//! in single quotes, a pair is a text like any other.

/// The most times that a document is read again: for each text in double quotes once, if it is not JSON.
const AGAIN_MAX: usize = 200;

/// What `parse` makes of a text. It gets the text, the byte of the original for each character if these differ, and
/// returns the byte at which the text is no YAML.
pub(super) fn parsed<T>(text: &str, parse: impl Fn(&str, Option<Vec<usize>>) -> (Option<usize>, T)) -> T {
    let bytes_at = (!text.is_ascii()).then(|| text.char_indices().map(|(at, _)| at).collect());
    let (mut failed_at, first) = parse(text, bytes_at);
    let mut pairs = if failed_at.is_some() { pairs(text) } else { Vec::new() };
    if pairs.is_empty() {
        return first;
    }
    let is_json = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    let mut further = match failed_at {
        // Every backslash is in double quotes.
        Some(_) if is_json => std::mem::take(&mut pairs),
        Some(at) => pairs_of_quote(text, at, &mut pairs),
        None => Vec::new(),
    };
    let (mut chosen, mut latest) = (Vec::new(), first);
    for _ in 0..AGAIN_MAX {
        if further.is_empty() {
            break;
        }
        chosen.append(&mut further);
        let (rewritten, bytes_at) = rewritten(text, &mut chosen);
        (failed_at, latest) = parse(&rewritten, Some(bytes_at));
        let Some(at) = failed_at else { break };
        further = pairs_of_quote(text, at, &mut pairs);
    }
    latest
}

/// The place of each pair, and its character.
fn pairs(text: &str) -> Vec<(usize, char)> {
    let (bytes, mut at, mut found) = (text.as_bytes(), 0, Vec::new());
    while let Some(next) = memchr::memchr(b'\\', &bytes[at..]) {
        at += next;
        let unit = |at: usize| {
            let digits = text.get(at..at + 6)?.strip_prefix("\\u")?;
            let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            if is_hex { u16::from_str_radix(digits, 16).ok() } else { None }
        };
        let pair = unit(at).zip(unit(at + 6));
        match pair.map(|(high, low)| char::decode_utf16([high, low]).next()) {
            Some(Some(Ok(c))) if c > '\u{ffff}' => {
                found.push((at, c));
                at += 12;
            }
            // An escaped backslash is none that escapes.
            _ => at = (at + 2).min(bytes.len()),
        }
    }
    found
}

/// Takes those pairs that are in the same quotes as the one at `failed`, or behind the quote at `failed`.
fn pairs_of_quote(text: &str, failed: usize, pairs: &mut Vec<(usize, char)>) -> Vec<(usize, char)> {
    let is_quote = text.get(failed..).is_some_and(|rest| rest.starts_with('"'));
    let first = match is_quote {
        true => pairs.iter().position(|(at, _)| *at >= failed),
        false => pairs.iter().rposition(|(at, _)| *at <= failed),
    };
    let Some(first) = first else { return Vec::new() };
    let mut last = first + 1;
    while last < pairs.len() && !text[pairs[last - 1].0..pairs[last].0].contains('"') {
        last += 1;
    }
    pairs.drain(first..last).collect()
}

/// The text with other escapes for these pairs, and the byte of `text` for each of its characters.
fn rewritten(text: &str, chosen: &mut [(usize, char)]) -> (String, Vec<usize>) {
    chosen.sort_unstable();
    let (mut output, mut bytes_at, mut copied) = (String::with_capacity(text.len()), Vec::new(), 0);
    let mut copy = |output: &mut String, bytes_at: &mut Vec<usize>, to: usize| {
        output.push_str(&text[copied..to]);
        bytes_at.extend(text[copied..to].char_indices().map(|(at, _)| copied + at));
        copied = to + 12;
    };
    for (at, c) in chosen.iter() {
        copy(&mut output, &mut bytes_at, *at);
        let escape = format!("\\U{:08X}", u32::from(*c));
        bytes_at.extend((0..escape.len()).map(|_| *at));
        output.push_str(&escape);
    }
    let end = text.len();
    output.push_str(text.get(copied..end).unwrap_or_default());
    bytes_at.extend(text.get(copied..end).unwrap_or_default().char_indices().map(|(at, _)| copied + at));
    (output, bytes_at)
}
