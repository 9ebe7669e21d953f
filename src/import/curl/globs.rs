//! The patterns of curl's URLs: `{one,two}`, `[1-9]`, `[001-100:10]`, `[a-z]`. Each combination is a request.

use crate::ImportError;

/// One URL is at most this many; then the pattern is a fault, as in a typo of a range.
const URLS_MAX: usize = 1_000;

/// The URLs that a pattern stands for, the last part changing fastest, as in curl.
pub(super) fn expanded(url: &str) -> Result<Vec<String>, ImportError> {
    let mut all = vec![String::new()];
    let mut rest = url;
    while let Some(found) = rest.find(['{', '[', '\\']) {
        let (before, from) = rest.split_at(found);
        all.iter_mut().for_each(|one| one.push_str(before));
        // `\{` is the character itself.
        if let Some(escaped) = from.strip_prefix('\\') {
            let is_escape = escaped.starts_with(['{', '}', '[', ']']);
            let length = if is_escape { escaped.chars().next().map_or(0, char::len_utf8) } else { 0 };
            let text = if is_escape { &escaped[..length] } else { "\\" };
            all.iter_mut().for_each(|one| one.push_str(text));
            rest = &escaped[length..];
            continue;
        }
        let close = if from.starts_with('{') { '}' } else { ']' };
        let Some(end) = from.find(close) else { return Err(fault(url)) };
        let inner = &from[1..end];
        // Since curl 8.21; older ones take it for a part of the value.
        if inner.starts_with('<') && inner.contains('>') {
            return Err(ImportError::new(
                "a pattern in the URL has a name",
                "write the pattern without `<…>`",
            ));
        }
        let values = match close {
            '}' => inner.split(',').map(str::to_owned).collect(),
            // The address of a host.
            _ if is_address(&all[0], inner) => vec![format!("[{inner}]")],
            _ => range(inner).ok_or_else(|| fault(url))?,
        };
        if all.len() * values.len() > URLS_MAX {
            let what = format!("a URL with patterns stands for more than {URLS_MAX} requests");
            return Err(ImportError::new(what, "write rows into a data file, and a template into the path"));
        }
        all = all.iter().flat_map(|one| values.iter().map(move |value| format!("{one}{value}"))).collect();
        rest = &from[end + 1..];
    }
    all.iter_mut().for_each(|one| one.push_str(rest));
    Ok(all)
}

/// True for the IPv6 address of a host.
fn is_address(before: &str, inner: &str) -> bool {
    let of_host = before.split_once("://").map_or(before, |(_, rest)| rest);
    let is_of_host = !of_host.contains(['/', '?', '#']) && (of_host.is_empty() || of_host.ends_with('@'));
    let of_address = |c: char| c.is_ascii_hexdigit() || c == ':' || c == '.' || c == '%';
    is_of_host && inner.matches(':').count() > 1 && inner.chars().all(of_address)
}

fn fault(url: &str) -> ImportError {
    let shown: String = crate::sniff::shown(url).chars().take(100).collect();
    ImportError::new(
        format!("the pattern in the URL `{shown}` is not closed, or is no range"),
        "write -g into the command if the brackets stand for themselves",
    )
}

/// `1-9`, `01-10` with as many digits, `a-e`, each with `:STEP`.
fn range(text: &str) -> Option<Vec<String>> {
    let (text, step) = match text.split_once(':') {
        Some((text, step)) => (text, step.parse::<usize>().ok().filter(|step| *step > 0)?),
        None => (text, 1),
    };
    let (from, to) = text.split_once('-')?;
    let letter = |text: &str| match text.as_bytes() {
        [byte] if byte.is_ascii_alphabetic() => Some(*byte),
        _ => None,
    };
    if let (Some(from), Some(to)) = (letter(from), letter(to)) {
        let letters = (from..=to).step_by(step).map(|byte| char::from(byte).to_string());
        return Some(letters.collect()).filter(|letters: &Vec<String>| !letters.is_empty());
    }
    let (first, last): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
    let width = if from.starts_with('0') { from.len() } else { 0 };
    let numbers = (first..=last).step_by(step).take(URLS_MAX + 1).map(|number| format!("{number:0width$}"));
    Some(numbers.collect()).filter(|numbers: &Vec<String>| !numbers.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_become_urls_as_in_curl() {
        for (url, expected) in [
            ("http://h/", &["http://h/"][..]),
            ("http://h/{a,b}", &["http://h/a", "http://h/b"]),
            ("http://h/x[1-3]", &["http://h/x1", "http://h/x2", "http://h/x3"]),
            ("http://h/[08-10].png", &["http://h/08.png", "http://h/09.png", "http://h/10.png"]),
            ("http://h/[a-c:2]", &["http://h/a", "http://h/c"]),
            ("http://{a,b}/[1-2]", &["http://a/1", "http://a/2", "http://b/1", "http://b/2"]),
            ("http://[::1]:80/[1-2]", &["http://[::1]:80/1", "http://[::1]:80/2"]),
            ("http://h/\\{a\\}", &["http://h/{a}"]),
            ("http://h/a\\b", &["http://h/a\\b"]),
            ("http://h/{}", &["http://h/"]),
        ] {
            assert_eq!(expanded(url).unwrap_or_else(|error| panic!("{url}: {error}")), expected, "{url}");
        }
    }

    #[test]
    fn what_is_no_pattern_says_so() {
        for (url, part) in [
            ("http://h/{a", "not closed"),
            ("http://h/[1-", "not closed"),
            ("http://h/[x]", "no range"),
            ("http://h/[3-1]", "no range"),
            ("http://h/[1-3:0]", "no range"),
            ("http://h/[1-1001]", "more than 1000 requests"),
            ("http://h/[1-100]/[1-100]", "more than 1000 requests"),
            ("http://h/[1-18446744073709551615]", "more than 1000 requests"),
        ] {
            let error = expanded(url).unwrap_err().to_string();
            assert!(error.contains(part), "{url}: {error}");
        }
    }
}
