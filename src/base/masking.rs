//! Hides secrets in text from other sources: responses of servers, errors of libraries, rendered expectations.
//!
//! The process knows its secret texts ([`hide`]); every message is passed through [`masked`] where it is made, and once
//! more where it is printed. A secret is also found percent-encoded (once or twice), escaped as in JSON, HTML and
//! Python, and in Base64 or hexadecimal. It is also found in another case, encoded as a host name is, and cut off at
//! the end of a message. Nothing here runs while requests succeed.
//!
//! A secret of fewer than [`SHORT_BELOW`] characters occurs in ordinary words, and one of [`SECRET_WORDS`], such as the
//! password `password`, in names: these are hidden only where they are alone in quotes.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

use base64::Engine as _;

use super::{hex, percent, punycode};

/// What is shown instead of a secret.
pub const MASK: &str = "***";
/// Secrets with fewer characters are hidden only where they are alone in quotes.
pub const SHORT_BELOW: usize = 4;
/// The last words of names of secrets, in lower case. A password that is one of them is a sample, or easily guessed.
pub const SECRET_WORDS: [&str; 9] = [
    "password",
    "passwd",
    "passphrase",
    "token",
    "secret",
    "authorization",
    "cookie",
    "credential",
    "credentials",
];
/// A secret that a message cuts off is found by this many bytes of it.
const CUT_BYTES_MIN: usize = 8;
/// Below this length, the Base64 or hexadecimal form of a secret is too short to be distinguished from other text.
const BASE64_BYTES_MIN: usize = 6;
/// The longest reference of HTML that is read, such as `&#x10FFFF;`.
const REFERENCE_BYTES_MAX: usize = 10;
/// How many texts learned during the run are kept, some six for each secret; the oldest are forgotten first.
const LEARNED_MAX: usize = 768;

static KNOWN: RwLock<KnownSecrets> =
    RwLock::new(KnownSecrets { written: Vec::new(), learned: VecDeque::new() });

struct KnownSecrets {
    /// Secrets from files, the environment and the command line.
    written: Vec<String>,
    /// Secrets that were learned later, such as issued tokens.
    learned: VecDeque<String>,
}

/// From now on, [`masked`] hides this text in this process.
pub fn hide(text: &str) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    for form in forms(text) {
        if !known.written.contains(&form) {
            known.written.push(form);
        }
    }
}

/// As [`hide`], for secrets that are learned later, such as an issued token. Their number is bounded.
pub fn hide_learned(text: &str) {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    for form in forms(text) {
        if known.written.contains(&form) || known.learned.contains(&form) {
            continue;
        }
        if known.learned.len() >= LEARNED_MAX {
            known.learned.pop_front();
        }
        known.learned.push_back(form);
    }
}

/// Whether this whole text is a secret that [`hide`] or [`hide_learned`] was given.
#[must_use]
pub fn is_known(text: &str) -> bool {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    known.written.iter().chain(&known.learned).any(|secret| secret == text)
}

/// Forgets all secrets, for fuzzing: it reads thousands of files in one process, and each may name secrets.
#[cfg(feature = "simulation")]
pub fn forget_all() {
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    *known = KnownSecrets { written: Vec::new(), learned: VecDeque::new() };
}

/// The value of a header, and the credentials in it: `Bearer abc`, `session=abc; Path=/`.
pub fn header_secrets(value: &str) -> impl Iterator<Item = &str> {
    let pair = value.split(';').next().unwrap_or_default();
    let cookie = pair.split_once('=').map(|(_, cookie)| cookie.trim());
    let credentials = value.split_once(' ').map(|(_, credentials)| credentials.trim());
    let parts = [cookie, credentials].into_iter().flatten();
    [value].into_iter().chain(parts.filter(|part| part.len() >= CUT_BYTES_MIN))
}

/// As [`hide`], for a text in a URL, in both its escaped and its decoded form.
pub fn hide_as_written(text: &str) {
    hide(text);
    let plain = percent::decode(text);
    if plain != text.as_bytes() {
        hide(&String::from_utf8_lossy(&plain));
    }
}

/// The text itself, its bytes in hexadecimal, and what is in the Base64 of any text around it. What is escaped
/// character by character needs no form here: [`secret_spans`] reads it.
#[must_use]
pub fn forms(text: &str) -> Vec<String> {
    let mut forms = Vec::new();
    if text.trim().is_empty() || text == MASK {
        return forms;
    }
    forms.push(text.to_owned());
    // A host name is written in lower case, whatever the script.
    let lower = text.to_lowercase();
    if lower != text && !lower.eq_ignore_ascii_case(text) {
        forms.push(lower);
    }
    if text.len() < BASE64_BYTES_MIN {
        return forms;
    }
    let lower = hex::encode(text.as_bytes());
    let upper = lower.to_ascii_uppercase();
    if upper != lower {
        forms.push(upper);
    }
    forms.push(lower);
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(text.as_bytes());
        let encoded = base64::engine::general_purpose::STANDARD_NO_PAD.encode(&bytes);
        // The first and the last character may hold bits of the neighbours.
        let (from, to) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
        let inner = &encoded[from..to];
        forms.push(inner.to_owned());
        if inner.contains(['+', '/']) {
            forms.push(inner.replace('+', "-").replace('/', "_"));
        }
    }
    forms
}

/// The text with all known secrets replaced by asterisks, and credentials in URLs as well.
#[must_use]
pub fn masked(text: &str) -> Cow<'_, str> {
    masked_with(text, &[])
}

/// As [`masked`]; `further` are secrets of this message.
#[must_use]
pub fn masked_with<'t>(text: &'t str, further: &[String]) -> Cow<'t, str> {
    let spans = secret_spans(text, further);
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    let (mut shown, mut at) = (String::with_capacity(text.len()), 0);
    for span in spans {
        shown.push_str(&text[at..span.start]);
        shown.push_str(MASK);
        at = span.end;
    }
    shown.push_str(&text[at..]);
    Cow::Owned(shown)
}

/// Masks every text in a JSON value; numbers stay.
pub fn mask_json(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::String(text) => {
            if let Cow::Owned(shown) = masked(text) {
                *text = shown;
            }
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(mask_json),
        serde_json::Value::Object(map) => map.values_mut().for_each(mask_json),
        _ => {}
    }
}

/// The places of secrets in a text: in order, without overlaps, on character boundaries.
#[must_use]
pub fn secret_spans(text: &str, further: &[String]) -> Vec<Range<usize>> {
    let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
    let all = known.written.iter().chain(&known.learned).chain(further).map(String::as_str);
    let mut secrets: Vec<&str> = all.filter(|secret| !secret.is_empty()).collect();
    let (bytes, mut spans, mut at) = (text.as_bytes(), Vec::new(), 0);
    // Most places need a look at few of the secrets or none: an escape may begin any, another byte only its own.
    let first = |secret: &str| secret.as_bytes()[0].to_ascii_lowercase();
    secrets.sort_unstable_by_key(|secret| first(secret));
    let before = |byte: u8| secrets.partition_point(|secret| first(secret) < byte);
    let through = |byte: u8| secrets.partition_point(|secret| first(secret) <= byte);
    let mut begins = [false; 256];
    for byte in secrets.iter().map(|secret| first(secret)).chain(ESCAPES) {
        begins[usize::from(byte)] = true;
        begins[usize::from(byte.to_ascii_uppercase())] = true;
    }
    let next = |at: usize| bytes[at..].iter().position(|byte| begins[usize::from(*byte)]);
    while let Some(next) = if secrets.is_empty() { None } else { next(at) } {
        at += next;
        let byte = bytes[at].to_ascii_lowercase();
        let possible =
            if ESCAPES.contains(&byte) { &secrets[..] } else { &secrets[before(byte)..through(byte)] };
        let found = possible.iter().filter_map(|secret| found_at(bytes, at, secret)).max();
        match found.filter(|end| text.is_char_boundary(at) && text.is_char_boundary(*end)) {
            Some(end) => {
                spans.push(at..end);
                at = end;
            }
            None => at += 1,
        }
    }
    if !secrets.is_empty() {
        add_hosts(text, &secrets, &mut spans);
    }
    drop(known);
    add_credentials(text, &mut spans);
    spans
}

/// What the escape of a character may begin with.
const ESCAPES: [u8; 4] = [b'%', b'\\', b'+', b'&'];

/// The end of the secret that begins at `at`, if it does.
fn found_at(text: &[u8], at: usize, secret: &str) -> Option<usize> {
    let occurs_in_names = SECRET_WORDS.iter().any(|word| word.eq_ignore_ascii_case(secret));
    let (here, secret) = (&text[at..], secret.as_bytes());
    if secret.len() < SHORT_BELOW || occurs_in_names {
        let quote = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b'`' | b'"' | b'\'' | b'\\'));
        let alone = quote(at.checked_sub(1).and_then(|before| text.get(before)));
        return (alone && here.starts_with(secret) && quote(here.get(secret.len())))
            .then_some(at + secret.len());
    }
    if here.get(..secret.len()).is_some_and(|start| start.eq_ignore_ascii_case(secret)) {
        return Some(at + secret.len());
    }
    encoded_len(here, secret).map(|length| at + length)
}

/// How many bytes at the start of `text` represent `secret` with some characters escaped, even if the text ends early.
fn encoded_len(text: &[u8], secret: &[u8]) -> Option<usize> {
    let (mut at, mut matched) = (0, 0);
    while matched < secret.len() {
        let rest = &text[at..];
        let is_next = |(found, _): &(Vec<u8>, usize)| {
            let wanted = secret.get(matched..matched + found.len());
            wanted.is_some_and(|wanted| wanted.eq_ignore_ascii_case(found))
        };
        let read = escaped(rest).filter(is_next).or_else(|| escaped_twice(rest).filter(is_next));
        let (bytes, length) = match read {
            Some((found, length)) => (found.len(), length),
            None if rest.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&secret[matched])) => (1, 1),
            None => return (matched >= CUT_BYTES_MIN && is_cut(rest)).then_some(at),
        };
        (matched, at) = (matched + bytes, at + length);
    }
    Some(at)
}

/// True where a message ends, or a quotation in it, perhaps within an escape sequence.
fn is_cut(rest: &[u8]) -> bool {
    let rest = match rest {
        [b'%', digit, after @ ..] if digit.is_ascii_hexdigit() => after,
        [b'%' | b'\\', after @ ..] => after,
        [b'&', after @ ..] => {
            let is_named = |byte: &&u8| byte.is_ascii_alphanumeric() || **byte == b'#';
            &after[after.iter().take(REFERENCE_BYTES_MAX).take_while(is_named).count()..]
        }
        rest => rest,
    };
    rest.is_empty() || rest.starts_with("…".as_bytes()) || rest.starts_with(b"`")
}

/// The bytes that an escape sequence at the start of `text` represents, and its length.
fn escaped(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let plain = |byte: u8, length: usize| Some((vec![byte], length));
    match (text.first()?, text.get(1)) {
        (b'+', _) => plain(b' ', 1),
        (b'%', _) => plain(hex::first_byte(&text[1..])?, 3),
        (b'\\', Some(b'n')) => plain(b'\n', 2),
        (b'\\', Some(b'r')) => plain(b'\r', 2),
        (b'\\', Some(b't')) => plain(b'\t', 2),
        (b'&', _) => reference(text),
        (b'\\', Some(b'x')) => plain(hex::first_byte(text.get(2..)?)?, 4),
        (b'\\', Some(b'u')) => {
            let digits = text.get(2..6).and_then(|digits| std::str::from_utf8(digits).ok())?;
            let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
            Some((c.to_string().into_bytes(), 6))
        }
        (b'\\', Some(byte)) if byte.is_ascii_punctuation() => plain(*byte, 2),
        _ => None,
    }
}

/// The byte that is percent-encoded twice at the start of `text`, as a URL within a URL is, and its length.
fn escaped_twice(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let byte = hex::first_byte(text.strip_prefix(b"%25")?)?;
    Some((vec![byte], 5))
}

/// The character of HTML's reference at the start of `text`, as servers write it in error pages, and its length.
fn reference(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let end = text.iter().take(REFERENCE_BYTES_MAX).position(|byte| *byte == b';')?;
    let c = match std::str::from_utf8(text.get(1..end)?).ok()? {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        other => {
            let number = other.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)?
        }
    };
    Some((c.to_string().into_bytes(), end + 1))
}

/// Adds the labels of host names that have a secret in their encoded form.
fn add_hosts(text: &str, secrets: &[&str], spans: &mut Vec<Range<usize>>) {
    for host in punycode::hosts(text) {
        for secret in secrets.iter().filter(|secret| secret.chars().count() >= SHORT_BELOW) {
            let lower = secret.to_lowercase();
            let found = host.decoded.match_indices(lower.as_str());
            let places: Vec<_> = found.filter_map(|(at, _)| host.place(&(at..at + lower.len()))).collect();
            for place in places {
                spans.retain(|known| known.end <= place.start || known.start >= place.end);
                spans.push(place);
            }
        }
    }
    spans.sort_by_key(|span| span.start);
}

/// Adds `user:password@` of URLs, with any password.
fn add_credentials(text: &str, spans: &mut Vec<Range<usize>>) {
    /// How help texts show the place.
    const FORMS: [&str; 2] = ["user:password", "user:PASSWORD"];
    for (mark, _) in text.match_indices("://") {
        let start = mark + 3;
        let rest = &text[start..];
        let ends = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '#' | '"' | '\'' | '`' | '<' | '>');
        let authority = &rest[..rest.find(ends).unwrap_or(rest.len())];
        let Some(length) = authority.rfind('@') else { continue };
        let user_info = &authority[..length];
        // What asterisks hide already keeps its length, for the marks below it.
        let hidden = user_info.chars().all(|c| c == '*');
        if user_info.contains('[') || FORMS.contains(&user_info) || hidden {
            continue;
        }
        let span = start..start + length;
        spans.retain(|known| known.end <= span.start || known.start >= span.end);
        spans.push(span);
    }
    spans.sort_by_key(|span| span.start);
}

/// Registers the password of a URL, and secrets among its options, for masking.
pub fn hide_url(url: &str) {
    let Some((_, rest)) = url.split_once("://") else { return };
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    if let Some((user_info, _)) = rest.rsplit_once('@') {
        hide_as_written(user_info.split_once(':').map_or(user_info, |(_, password)| password));
    }
    // If a password contains an unescaped question mark, its end looks like part of the query.
    if let Some((before, _)) = url.split_once("://").and_then(|(_, whole)| whole.rsplit_once('@')) {
        hide_as_written(before.split_once(':').map_or(before, |(_, password)| password));
    }
    for (name, value) in query.split(['&', '#']).filter_map(|pair| pair.split_once('=')) {
        if names_secret(name) {
            hide_as_written(value);
        }
    }
}

/// Guesses whether a name belongs to a secret, from its last words. For values that have no type, such as the variables
/// of a scenario, the members of a JSON body or the options of a URL.
#[must_use]
pub fn names_secret(name: &str) -> bool {
    const LAST_TWO: [&str; 7] =
        ["api key", "hmac key", "hmac keys", "private key", "access key", "connection string", "conn str"];
    let lower = name.to_lowercase().replace(['_', '-', '.'], " ");
    let ends = |end: &str| lower.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with(' '));
    SECRET_WORDS.into_iter().chain(LAST_TWO).any(ends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(secret: &str, text: &str) -> String {
        masked_with(text, &forms(secret)).into_owned()
    }

    #[test]
    fn a_secret_is_hidden_in_every_form_in_which_it_is_written() {
        for (secret, text, expected) in [
            ("hunter-2", "the body is not `hunter-2`", "the body is not `***`"),
            ("hunter-2", "hunter-2hunter-2, xhunter-2", "******, x***"),
            ("pa ss/wörd", "GET /x?k=pa%20ss%2Fw%C3%B6rd&y=1", "GET /x?k=***&y=1"),
            ("pa ss/wörd", "GET /x?k=pa+ss/w%c3%b6rd", "GET /x?k=***"),
            ("p\"w\\d\n1", r#"is not "p\"w\\d\n1""#, r#"is not "***""#),
            ("p\u{fc}ss", r#"{"a":"p\u00fcss"}"#, r#"{"a":"***"}"#),
            ("a%25b", "a%25b", "***"),
            ("a%b+", "x a%25b%2B x", "x *** x"),
            ("c4n4ry-hunter2", "begins with c4n4ry-hun…", "begins with ***…"),
            ("c4n4ry-hunter2", "ends with c4n4ry-hun", "ends with ***"),
            ("c4n4ry-hunter2", "c4n4ry-hum", "c4n4ry-hum"),
            ("c4n4ry-h/nter2", "is `c4n4ry-h%2`: no", "is `***%2`: no"),
            ("c4n4ry", "a c4n", "a c4n"),
            ("Tok&en/\"Sec<ret>42", "is Tok&amp;en/&quot;Sec&lt;ret&gt;42.", "is ***."),
            ("it's & <b>", "&#105;t&#39;s &amp; &#x3C;b&#X3e;", "***"),
            ("it's-so", "it&#x27;s-so it&apos;s-so it&#039;s-so", "*** *** ***"),
            ("a&amp;b-c", "a&amp;b-c", "***"),
            ("a&b-c", "a&b-c&d", "***&d"),
            ("c4n4ry&hunter2", "ends with c4n4ry&amp;hu", "ends with ***"),
            ("c4n4ry-h<nter2", "is `c4n4ry-h&l…`: no", "is `***&l…`: no"),
            ("pa ss/wörd", "k=pa%2520ss%252Fw%25C3%25B6rd&y=1", "k=***&y=1"),
            ("100%25-x", "100%2525-x", "***"),
            ("hunter-2", "68756e7465722d32, x68756E7465722D32", "***, x***"),
            ("S3CRET-Host", "cannot resolve s3cret-host.example", "cannot resolve ***.example"),
            ("S3CRET/Host", "at s3cret%2fhost and S3CRET%2fHOST", "at *** and ***"),
            ("pÄSSwort", "cannot resolve pässwort.example", "cannot resolve ***.example"),
            ("pÄSSwort", "p%c3%a4sswort.example", "***.example"),
            (
                "pÄSSwort",
                "cannot resolve xn--psswort-5wa.example, XN--PSSWORT-5WA",
                "cannot resolve ***.example, ***",
            ),
            ("zürich", "xn--api-zrich-u9a.example", "***.example"),
            ("b\u{fc}cher", "xn--bcher-kva:80 xn--maana-pta", "***:80 xn--maana-pta"),
            ("short", "73686f7274", "73686f7274"),
            ("a/b\u{fc}cd", r"b'a/b\xc3\xbccd'", "b'***'"),
            ("x", "an example: `x`, not x", "an example: `***`, not x"),
            (
                "password",
                "`API_PASSWORD` is not set: the password is \"password\"",
                "`API_PASSWORD` is not set: the password is \"***\"",
            ),
            ("Token", "X-Auth-Token: 'Token', VG9rZW4tVG9rZW4", "X-Auth-Token: '***', VG9rZW4tVG9rZW4"),
            ("", "nothing", "nothing"),
            ("  ", "a  b", "a  b"),
        ] {
            assert_eq!(shown(secret, text), expected, "{secret:?}");
        }
        for user in ["u", "us", "use", "user"] {
            let secret = "c4n4ry-hunter2";
            let header = base64::engine::general_purpose::STANDARD.encode(format!("{user}:{secret}"));
            let shown = shown(secret, &format!("Basic {header}"));
            assert!(shown.contains(MASK) && shown.len() <= "Basic ".len() + 14, "{shown}");
        }
    }

    #[test]
    fn credentials_in_urls_are_hidden_whatever_they_are() {
        for (text, expected) in [
            ("http://u:pw@h/x failed", "http://***@h/x failed"),
            ("see redis://:p@w@h:1/0, mysql://u@h", "see redis://***@h:1/0, mysql://***@h"),
            ("http://h/users/a@b", "http://h/users/a@b"),
            ("write mysql://user:password@host/d or redis://[:password@]host", ""),
        ] {
            let expected = if expected.is_empty() { text } else { expected };
            assert_eq!(masked(text), expected);
        }
    }

    #[test]
    fn what_is_learned_is_bounded_and_what_it_was_given_stays() {
        hide("g1ven-secret");
        for number in 0..3_000 {
            hide_learned(&format!("t0ken-{number:04}"));
        }
        assert_eq!(masked("g1ven-secret t0ken-2999 t0ken-0000"), "*** *** t0ken-0000");
        let known = KNOWN.read().unwrap_or_else(PoisonError::into_inner);
        assert!(known.learned.len() <= LEARNED_MAX);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(secret in ".{0,12}", text in ".{0,80}", user in "[a-z%\\\\]{0,3}") {
            let _ = shown(&secret, &text);
            let text = format!("{user}{secret}{text}");
            let shown = shown(&secret, &text);
            let is_word = SECRET_WORDS.iter().any(|word| word.eq_ignore_ascii_case(&secret));
            if secret.chars().count() >= SHORT_BELOW && !is_word && !secret.trim().is_empty() && !MASK.contains(&secret) {
                prop_assert!(!shown.contains(&secret) || shown.contains(MASK), "{}", shown);
            }
        }
    }

    #[test]
    fn names_of_secrets_are_guessed_by_their_last_words() {
        for name in
            ["password", "user_password", "X-Auth-Token", "refresh_token", "client_secret", "X-Api-Key"]
        {
            assert!(names_secret(name), "{name}");
        }
        for name in ["user", "password_hint", "tokens", "key", "monkey", "cookies_per_jar"] {
            assert!(!names_secret(name), "{name}");
        }
    }

    #[test]
    fn a_urls_password_and_the_secrets_among_its_options_are_masked_one_by_one() {
        hide_url(
            "otlp://u:Sw0rdfish%2F1@h:1/p?password=Tr0ub4dor&ssl_ca_certs=/etc/ca.pem&sentinel_password=Xk-cd-936",
        );
        hide_url("mysql://u:qu?st10n@h/d");
        for (text, expected) in [
            ("knows Sw0rdfish%2F1 and Sw0rdfish/1", "knows *** and ***"),
            ("Tr0ub4dor, Xk-cd-936, /etc/ca.pem", "***, ***, /etc/ca.pem"),
            ("qu?st10n", "***"),
        ] {
            assert_eq!(masked(text), expected);
        }
    }
}
