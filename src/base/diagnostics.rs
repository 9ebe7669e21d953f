//! Faults in files that people write: where, what, and what to do about it.
//!
//! A [`Fault`] carries a byte range of its [`Source`]; rendering shows file, line, column, the source
//! line underlined and the remedy. Inline secrets are masked before a line is shown.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use super::masking;
use super::visible::{is_deceptive, on_one_line};

/// A file's name and text.
#[derive(Clone, Debug)]
pub struct Source {
    /// The path as the user gave it.
    pub name: String,
    /// The text, UTF-8, without a byte order mark.
    pub text: String,
}

/// How grave a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// It can, but somebody should look.
    Warning,
}

/// One fault of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// How grave it is.
    pub severity: Severity,
    /// The bytes of the source that are at fault; `None` for the file as a whole.
    pub span: Option<Range<usize>>,
    /// What is wrong: one clause in lower case.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}

impl Fault {
    /// An error at `span`.
    #[must_use]
    pub fn error(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, span: Some(span), message: message.into(), help: None }
    }

    /// An error of the file as a whole.
    #[must_use]
    pub fn file(message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, span: None, message: message.into(), help: None }
    }

    /// An error whose message holds its remedy after a semicolon, as those of other rooms do.
    #[must_use]
    pub fn with_remedy(span: Range<usize>, message: &str) -> Self {
        match message.rsplit_once("; ") {
            Some((message, help)) => Self::error(span, message).help(help),
            None => Self::error(span, message),
        }
    }

    /// The same fault as a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// The same fault with a remedy.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Lines longer than this are not shown with their faults, only where those are.
const LONG_LINE: usize = 4096;
/// How many faults of one file are shown; a file with more is broken in one way, many times.
const SHOWN_MAX: usize = 200;

/// Renders all faults of one source, in the order of their place.
#[must_use]
pub fn render(source: &Source, faults: &[Fault], colour: bool) -> String {
    let shown = masked(&source.text);
    let name = printable(&source.name);
    let mut ordered: Vec<&Fault> = faults.iter().collect();
    ordered.sort_by_key(|fault| fault.span.as_ref().map_or(0, |span| span.start));
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let mut output = String::new();
    for fault in ordered.iter().take(SHOWN_MAX) {
        output.push_str(&renderer.render(&[group(&name, &shown, fault)]));
        output.push_str("\n\n");
    }
    let hidden = ordered.len().saturating_sub(SHOWN_MAX);
    if hidden > 0 {
        use std::fmt::Write as _;
        let _ = writeln!(output, "… and {hidden} more: mend these first\n");
    }
    output
}

fn group<'a>(name: &'a str, shown: &'a str, fault: &'a Fault) -> Group<'a> {
    let level = match fault.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = match fault.span {
        Some(_) => fault.message.clone(),
        None => format!("{name}: {}", fault.message),
    };
    let mut group = Group::with_title(level.primary_title(printable(&title)));
    if let Some(span) = &fault.span {
        let start = floor_char(shown, span.start);
        let end = floor_char(shown, span.end).max(start);
        // A fault that spans lines is shown at its first one only.
        let line_start = shown[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = shown[start..].find('\n').map_or(shown.len(), |length| start + length);
        let line_end = (line_start + shown[line_start..line_end].trim_end().len()).max(start);
        let number = 1 + shown[..line_start].matches('\n').count();
        let line = &shown[line_start..line_end];
        group = if line.len() > LONG_LINE {
            // Nobody reads such a line, and laying it out takes long.
            let column = 1 + shown[line_start..start].chars().count();
            group.element(Origin::path(name).line(number).char_column(column))
        } else {
            let span = start - line_start..end.min(line_end) - line_start;
            let primary = AnnotationKind::Primary.span(span);
            group.element(Snippet::source(line).line_start(number).path(name).annotation(primary))
        };
    }
    if let Some(help) = &fault.help {
        group = group.element(Level::HELP.message(printable(help)));
    }
    group
}

/// Text that quotes a file, on one line and without anything that a terminal would obey, and without secrets.
fn printable(text: &str) -> String {
    on_one_line(&masking::masked(text))
}

fn floor_char(text: &str, mut index: usize) -> usize {
    index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

/// Key names whose values are secrets, in our files and in Rally's, in lower case. Headers such as
/// `X-Auth-Token` are found by their last word.
const SECRET_KEYS: [&str; 15] = [
    "hmac_key",
    "hmac_keys",
    "password",
    "token",
    "secret",
    "authorization",
    "cookie",
    "connection_string",
    "profiler_hmac_key",
    "profiler_conn_str",
    "api_key",
    "api-key",
    "passwd",
    "passphrase",
    "client_secret",
];

/// Keys that hold secrets one level below; what is written at once beside them is one out of place.
const SECRET_PARENTS: [&str; 5] = ["auth", "basic", "bearer", "keystone", "profiler"];

/// Keys below a secret one whose values only say where a value stands.
const PLACES: [&str; 6] = ["env", "file", "header", "json", "pointer", "regex"];

/// True for a key whose value must not be shown, be the key misspelt.
#[must_use]
pub fn is_secret_key(key: &str) -> bool {
    holds_secret(key) || SECRET_PARENTS.contains(&key.to_lowercase().as_str())
}

/// True for the name of a variable, a header or an option that holds a secret: its last word, or all of it, says so.
#[must_use]
pub fn names_secret(name: &str) -> bool {
    holds_secret(name) || name.rsplit(['_', '-', '.']).next().is_some_and(holds_secret)
}

/// True for a key that holds a secret itself, be the key misspelt.
#[must_use]
pub fn holds_secret(key: &str) -> bool {
    const LENGTH_MAX: usize = 80;
    if key.len() > LENGTH_MAX {
        return false;
    }
    let key = key.to_lowercase();
    let like = |secret: &str| {
        let header = key.strip_suffix(secret).is_some_and(|before| before.ends_with('-'));
        let slips = secret.len() / 4;
        header
            || key.len().abs_diff(secret.len()) <= slips && strsim::damerau_levenshtein(&key, secret) <= slips
    };
    SECRET_KEYS.iter().any(|secret| like(secret))
}

/// What the lines below a secret key are.
#[derive(Clone, Copy)]
struct Below {
    /// The indentation of the key.
    indent: usize,
    /// Text that goes on: all of it is secret. Otherwise lines may be `key: value`.
    text: bool,
    /// Nothing of the value was seen yet, so the next line is part of it, however it is indented.
    first: bool,
}

/// `text` with the inline values of secret keys and the credentials in URLs replaced by asterisks of
/// the same byte length, and with characters that a terminal would obey replaced as well.
///
/// It goes by lines, not by values, because files that are no YAML are shown, too. In doubt it hides.
fn masked(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    let mut below: Option<Below> = None;
    let secrets = masking::secret_spans(text, &[]);
    let mut secrets = secrets.iter().peekable();
    let mut line_at = 0;
    for line in text.split_inclusive('\n') {
        let blank = line.trim().is_empty();
        let indent = line.len() - line.trim_start().len();
        let inside = below.filter(|b| {
            blank
                || b.first
                || indent > b.indent
                || (indent == b.indent && line.trim_start().starts_with('-'))
        });
        let mut hidden = vec![false; line.len()];
        if let Some(inside) = inside {
            hide_below(line, inside, &mut hidden);
            below = Some(Below { first: inside.first && blank, ..inside });
        } else {
            below = None;
        }
        if let Some(found) = hide_values(line, indent, &mut hidden)
            && inside.is_none()
        {
            below = Some(found);
        }
        hide_assignment(line, &mut hidden);
        hide_credentials(line, &mut hidden);
        let line_end = line_at + line.len();
        while let Some(secret) = secrets.peek().filter(|secret| secret.start < line_end) {
            let within = secret.start.max(line_at)..secret.end.min(line_end);
            hidden[within.start - line_at..within.end - line_at].fill(true);
            if secret.end > line_end {
                break;
            }
            secrets.next();
        }
        line_at = line_end;
        push_shown(&mut output, line, &hidden);
    }
    output
}

/// Hides the value of every secret key on a line; says what follows when a value may go on below.
fn hide_values(line: &str, indent: usize, hidden: &mut [bool]) -> Option<Below> {
    let mut goes_on = None;
    for (key, value_at) in keys(line) {
        if !is_secret_key(key) {
            continue;
        }
        if line.len() > LONG_LINE {
            hidden[value_at..].fill(true);
            return Some(Below { indent, text: false, first: false });
        }
        let parent = SECRET_PARENTS.contains(&key.to_lowercase().as_str());
        let value = line[value_at..].trim_start();
        let start = line.len() - value.len();
        // Anchors and tags stand before the value.
        let plain = value.trim_end();
        if plain.is_empty() || plain.starts_with('#') {
            if !parent {
                goes_on = Some(Below { indent, text: false, first: true });
            }
        } else if value.starts_with('{') && !value.starts_with("{{") {
            if !parent {
                hide_flow(line, start, hidden);
                goes_on = Some(Below { indent, text: false, first: false });
            }
        } else if !(is_template(plain) || parent && is_switch(plain)) {
            let end = end_of_value(line, start);
            hidden[start..end].fill(true);
            goes_on = Some(Below { indent, text: end == line.len(), first: false });
        }
    }
    goes_on
}

/// Hides what is secret on a line below a secret key.
fn hide_below(line: &str, below: Below, hidden: &mut [bool]) {
    let start = line.len() - line.trim_start().len();
    match keys(line).next() {
        Some((_, value_at)) if !below.text => {
            let value = line[value_at..].trim_start();
            if value.starts_with('{') && !value.starts_with("{{") {
                hide_flow(line, value_at, hidden);
            } else {
                hide_flow(line, start, hidden);
            }
        }
        _ if !below.text && is_template(line.trim().trim_start_matches("- ")) => {}
        _ => hidden[start..].fill(true),
    }
}

/// Hides every value from `start` to the bracket that closes, but for those that only name a place.
fn hide_flow(line: &str, start: usize, hidden: &mut [bool]) {
    let end = end_of_flow(line, start);
    let mut any = false;
    for (key, value_at) in keys(line).filter(|(_, at)| (start..end).contains(at)) {
        any = true;
        let value = line[value_at..].trim_start();
        let from = line.len() - value.len();
        let nested = value.starts_with(['{', '[']) && !value.starts_with("{{");
        if !PLACES.contains(&key) && !nested && !is_template(value.trim_end()) {
            hidden[from..end_of_flow_value(line, from)].fill(true);
        }
    }
    if !any {
        hidden[start..end].fill(true);
    }
}

/// Where the bracket that opens at `start` closes; the end of the line if it does not, or is none.
fn end_of_flow(line: &str, start: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = start + line[start..].len() - line[start..].trim_start().len();
    if !line[at..].starts_with(['{', '[']) {
        return line.len();
    }
    while let Some(c) = line[at..].chars().next() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            '"' | '\'' => {
                at = end_of_value(line, at);
                continue;
            }
            _ => {}
        }
        at += c.len_utf8();
        if depth == 0 {
            return at;
        }
    }
    line.len()
}

/// The keys on a line, each with the place after its colon.
fn keys(line: &str) -> impl Iterator<Item = (&str, usize)> {
    line.match_indices(':').filter_map(|(colon, _)| {
        let before = line[..colon].trim_end().trim_end_matches(['"', '\'']);
        let name_at = before
            .char_indices()
            .rev()
            .take_while(|(_, c)| c.is_alphanumeric() || matches!(c, '_' | '-'))
            .last()
            .map_or(before.len(), |(at, _)| at);
        let name = before[name_at..].trim_start_matches('-');
        let after = line[colon + 1..].chars().next();
        let quoted = before.len() < line[..colon].trim_end().len();
        let is_key = quoted || after.is_none_or(char::is_whitespace);
        (is_key && !name.is_empty()).then_some((name, colon + 1))
    })
}

/// `true` or a word like it: `auth: false` switches something off.
#[must_use]
pub fn is_switch(value: &str) -> bool {
    let word = value.split([',', '}', ' ']).next().unwrap_or_default();
    matches!(word, "true" | "false" | "yes" | "no" | "on" | "off")
}

/// `{{ … }}` alone, perhaps in quotes: it only refers to a value.
fn is_template(value: &str) -> bool {
    let value = value.trim_end_matches([',', '}', ']', ' ', '\t', '"', '\'']);
    value.trim_start_matches(['"', '\'']).starts_with("{{") && !value.contains("}}")
}

/// Where a value ends: a quoted one at its closing quote, any other with the line.
fn end_of_value(line: &str, start: usize) -> usize {
    let quote = match line.as_bytes().get(start) {
        Some(quote @ (b'"' | b'\'')) => *quote,
        _ => return line.len(),
    };
    let mut escaped = false;
    for (at, byte) in line.bytes().enumerate().skip(start + 1) {
        if escaped {
            escaped = false;
        } else if byte == b'\\' && quote == b'"' {
            escaped = true;
        } else if byte == quote {
            return at + 1;
        }
    }
    line.len()
}

/// Where a value between brackets ends.
fn end_of_flow_value(line: &str, start: usize) -> usize {
    if line[start..].starts_with(['"', '\'']) {
        return end_of_value(line, start);
    }
    line[start..].find([',', '}', ']']).map_or(line.len(), |length| start + length)
}

/// Hides the value of `export OS_PASSWORD=…`: files of settings are given by mistake.
fn hide_assignment(line: &str, hidden: &mut [bool]) {
    let Some((name, value)) = line.split_once('=') else { return };
    let name = name.trim_end().to_lowercase();
    if SECRET_KEYS.iter().any(|secret| name.ends_with(secret)) {
        hidden[line.len() - value.len()..].fill(true);
    }
}

/// Hides `user:password` of `scheme://user:password@host`.
fn hide_credentials(line: &str, hidden: &mut [bool]) {
    let mut seen = 0;
    for (at, mark) in line.match_indices("://") {
        let start = at + mark.len();
        if start < seen {
            continue;
        }
        let rest = &line[start..];
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'')).unwrap_or(rest.len());
        seen = start + end;
        if let Some(length) = rest[..end].rfind('@') {
            hidden[start..start + length].fill(true);
        }
    }
}

fn push_shown(output: &mut String, line: &str, hidden: &[bool]) {
    for (at, c) in line.char_indices() {
        if hidden[at] && !c.is_whitespace() {
            output.extend(std::iter::repeat_n('*', c.len_utf8()));
        } else {
            output.push(harmless(c));
        }
    }
}

/// The character, or one of the same length in bytes, so that offsets stay.
fn harmless(c: char) -> char {
    match (c, c.len_utf8()) {
        ('\n', _) => c,
        // A tab would shift the marks below the line.
        (_, 1) if c.is_control() => ' ',
        (_, 2) if is_deceptive(c) => '\u{b7}',
        (_, 3) if is_deceptive(c) => '\u{fffd}',
        (_, 4) if is_deceptive(c) => '\u{1f6ab}',
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_shows_file_line_column_underline_and_remedy() {
        let source = Source { name: "a.yaml".into(), text: "title: x\nrunnr: {}\n".into() };
        let faults = [Fault::error(9..14, "unknown key `runnr`").help("did you mean `runner`?")];
        insta::assert_snapshot!(render(&source, &faults, false), @r"
        error: unknown key `runnr`
         --> a.yaml:2:1
          |
        2 | runnr: {}
          | ^^^^^
          |
          = help: did you mean `runner`?
        ");
    }

    #[test]
    fn secrets_are_masked_in_shown_lines() {
        for (line, expected) in [
            ("hmac_key: hunter2", "hmac_key: *******"),
            ("  \"password\": \"ä b\" # c", "  \"password\": *** ** # c"),
            ("pasword: hunter2", "pasword: *******"),
            ("{hmac_key: {env: X}, enabled: yes}", "{hmac_key: {env: X}, enabled: yes}"),
            ("{user: x, password: pw, y: z}", "{user: x, password: *** ** **"),
            ("{\"password\": \"p\\\"w\", \"y\": 1}", "{\"password\": ******, \"y\": 1}"),
            ("hmac_key: { env: KEY }", "hmac_key: { env: KEY }"),
            ("hmac_key: { env: KEY, default: pw }", "hmac_key: { env: KEY, default: ** }"),
            ("hmac_key: { value: pw }", "hmac_key: { value: ** }"),
            ("hmac_key: {pw}", "hmac_key: ****"),
            ("hmac_key:\n- a\nx: y", "hmac_key:\n* *\nx: y"),
            ("\"hmac_key\":\n\"pw\"\n", "\"hmac_key\":\n****\n"),
            ("password: \"a\n  b: c\"\nx: y", "password: **\n  ** **\nx: y"),
            ("password: |\n  a: b\n\n  c\nx: y", "password: *\n  ** *\n\n  *\nx: y"),
            ("X-Auth-Token: abc", "X-Auth-Token: ***"),
            ("Authorization: Bearer abc", "Authorization: ****** ***"),
            ("bearer: abc", "bearer: ***"),
            ("bearer:\n  token: abc\n", "bearer:\n  token: ***\n"),
            ("token: { header: X-Subject-Token }", "token: { header: X-Subject-Token }"),
            ("password:\n  user:\n    name: \"{{ nam }}\"", "password:\n  user:\n    name: \"{{ nam }}\""),
            (
                "password: { user: { name: x, password: pw } }",
                "password: { user: { name: *, password: ** * *",
            ),
            ("default: http://me:pw@host/", "default: http://*****@host/"),
            ("export OS_PASSWORD=pw", "export OS_PASSWORD=**"),
            ("url: redis://:p@w@host/?db=1", "url: redis://****@host/?db=1"),
            ("password: \"{{ auth.password }}\"", "password: \"{{ auth.password }}\""),
            ("user_password_hint: x", "user_password_hint: x"),
            ("hmac_keys:\n  - a\n  - b\nx: y", "hmac_keys:\n  * *\n  * *\nx: y"),
        ] {
            assert_eq!(masked(line), expected);
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_shown() {
        let text = "a: \u{9b}31m \u{202e}x\u{7}\r\n";
        let fault = Fault::error(3..4, "x\u{202e}\u{9b}y").help("\u{1b}]0;z");
        let shown = render(&Source { name: "a\u{1b}.yaml".into(), text: text.into() }, &[fault], false);
        assert!(!shown.contains(['\u{9b}', '\u{202e}', '\u{7}', '\u{1b}', '\r']), "{shown:?}");
    }

    #[test]
    fn the_number_of_faults_that_are_shown_is_bounded() {
        let source = Source { name: "a".into(), text: "x: 1".into() };
        let shown = render(&source, &vec![Fault::error(0..1, "no"); 1000], false);
        assert_eq!(shown.matches("error: no").count(), 200);
        assert!(shown.contains("and 800 more"));
    }

    #[test]
    fn spans_outside_the_text_or_inside_a_character_do_no_harm() {
        let source = Source { name: "a".into(), text: "ä\n\u{1b}[31m".into() };
        for span in [0..1, 1..1, 1..99, 50..60, 0..0] {
            let text = render(&source, &[Fault::error(span, "x\u{1b}")], false);
            assert!(!text.contains('\u{1b}'));
        }
    }
}
