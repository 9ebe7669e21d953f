//! Host names as they are sent, read as they were written (RFC 3492): `xn--bcher-kva` is `bücher`.

use std::ops::Range;

const BASE: u32 = 36;
const T_MIN: u32 = 1;
const T_MAX: u32 = 26;
const SKEW: u32 = 38;
const DAMP: u32 = 700;
const BIAS: u32 = 72;
const FIRST: u32 = 128;
/// A label has at most 63 bytes; a longer text is none.
const LABEL_BYTES_MAX: usize = 63;
const PREFIX: &str = "xn--";

/// A host name that has encoded labels, as it was written.
pub(crate) struct Host {
    /// The whole name in lower case.
    pub(crate) decoded: String,
    /// For each label: its place in `decoded`, and its place in the text.
    labels: Vec<(Range<usize>, Range<usize>)>,
}

impl Host {
    /// The place in the text of the labels that have a part of this place in `decoded`.
    pub(crate) fn place(&self, part: &Range<usize>) -> Option<Range<usize>> {
        let mut hit = self.labels.iter().filter(|(own, _)| own.start < part.end && part.start < own.end);
        let first = hit.next()?.1.clone();
        let last = hit.next_back().map_or(first.end, |(_, place)| place.end);
        Some(first.start..last)
    }
}

/// The host names with encoded labels in a text.
pub(crate) fn hosts(text: &str) -> Vec<Host> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    let (bytes, mut found, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let length = bytes[at..].iter().take_while(|byte| is_part(**byte)).count();
        if length > PREFIX.len() {
            found.extend(host(&text[at..at + length], at));
        }
        at += length + 1;
    }
    found
}

fn host(run: &str, begin: usize) -> Option<Host> {
    let (mut host, mut at, mut encoded) = (Host { decoded: String::new(), labels: Vec::new() }, begin, false);
    for label in run.split('.') {
        let is_encoded = label.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX));
        let text = if is_encoded { decoded(&label[PREFIX.len()..]) } else { None };
        encoded |= text.is_some();
        let from = host.decoded.len();
        host.decoded.push_str(&text.unwrap_or_else(|| label.to_ascii_lowercase()));
        host.labels.push((from..host.decoded.len(), at..at + label.len()));
        host.decoded.push('.');
        at += label.len() + 1;
    }
    encoded.then_some(host)
}

/// A label without its prefix, decoded; `None` if it is not valid.
fn decoded(label: &str) -> Option<String> {
    if label.len() > LABEL_BYTES_MAX {
        return None;
    }
    let (basic, rest) = label.rsplit_once('-').unwrap_or(("", label));
    let mut output: Vec<char> = basic.chars().map(|c| c.to_ascii_lowercase()).collect();
    let (mut n, mut i, mut bias) = (FIRST, 0_u32, BIAS);
    let mut digits = rest.bytes();
    while digits.len() > 0 {
        let before = i;
        let (mut weight, mut k) = (1_u32, BASE);
        loop {
            let digit = match digits.next()? {
                byte @ b'a'..=b'z' => u32::from(byte - b'a'),
                byte @ b'A'..=b'Z' => u32::from(byte - b'A'),
                byte @ b'0'..=b'9' => u32::from(byte - b'0') + 26,
                _ => return None,
            };
            i = i.checked_add(digit.checked_mul(weight)?)?;
            let threshold = k.saturating_sub(bias).clamp(T_MIN, T_MAX);
            if digit < threshold {
                break;
            }
            weight = weight.checked_mul(BASE - threshold)?;
            k += BASE;
        }
        let count = u32::try_from(output.len()).ok()? + 1;
        bias = adapted(i - before, count, before == 0);
        n = n.checked_add(i / count)?;
        i %= count;
        output.insert(i as usize, char::from_u32(n)?);
        i += 1;
    }
    Some(output.into_iter().collect())
}

fn adapted(delta: u32, count: u32, is_first: bool) -> u32 {
    let mut delta = if is_first { delta / DAMP } else { delta / 2 };
    delta += delta / count;
    let mut k = 0;
    while delta > ((BASE - T_MIN) * T_MAX) / 2 {
        delta /= BASE - T_MIN;
        k += BASE;
    }
    k + (BASE * delta) / (delta + SKEW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_as_they_were_written() {
        for (label, expected) in [
            ("bcher-kva", Some("b\u{fc}cher")),
            ("BCHER-KVA", Some("b\u{fc}cher")),
            ("maana-pta", Some("ma\u{f1}ana")),
            (
                "ihqwcrb4cv8a8dqg056pqjye",
                Some("\u{4ed6}\u{4eec}\u{4e3a}\u{4ec0}\u{4e48}\u{4e0d}\u{8bf4}\u{4e2d}\u{6587}"),
            ),
            ("a-\u{e9}", None),
            ("99999999", None),
            ("b", None),
        ] {
            assert_eq!(decoded(label).as_deref(), expected, "{label}");
        }
    }
}
