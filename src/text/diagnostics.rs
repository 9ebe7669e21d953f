//! Errors and warnings about files that users write: where, what, and how to fix it.
//!
//! A [`Fault`] has a byte range of its [`SourceText`]. Rendering shows the file, line and column, the
//! underlined source line and the fix. Inline secrets are masked before a line is shown.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};

use base::complaint::Complaint;
use base::masking;
use base::visible::{is_deceptive, on_one_line};

/// A file's name and text.
#[derive(Clone, Debug)]
pub struct SourceText {
    /// The path, as given by the user.
    pub name: String,
    /// The text, UTF-8, without a byte order mark.
    pub text: String,
    /// Which parts may be shown.
    pub shown: SourceVisibility,
}

impl SourceText {
    /// A text without any part known to be public.
    #[must_use]
    pub fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), text: text.into(), shown: SourceVisibility::default() }
    }
}

/// The bytes of a source that may be shown in addition to keys and punctuation, and those that must stay hidden.
#[derive(Clone, Debug, Default)]
pub struct SourceVisibility {
    /// Public, according to the document's types.
    pub public: Vec<Range<usize>>,
    /// Secret, according to the document's types; takes precedence over `public`.
    pub secret: Vec<Range<usize>>,
}

/// How serious a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file cannot be used.
    Error,
    /// The file can be used, but probably has a mistake.
    Warning,
}

/// A fault in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// How serious it is.
    pub severity: Severity,
    /// The faulty bytes of the source; `None` for the whole file.
    pub span: Option<Range<usize>>,
    /// What is wrong: a single clause in lower case.
    pub message: String,
    /// How to fix it.
    pub help: Option<String>,
}

impl Fault {
    /// An error at `span`.
    #[must_use]
    pub fn error(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, span: Some(span), message: message.into(), help: None }
    }

    /// An error of the whole file.
    #[must_use]
    pub fn file(message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, span: None, message: message.into(), help: None }
    }

    /// An error at `span` from the complaint of a parser.
    #[must_use]
    pub fn of(span: Range<usize>, complaint: Complaint) -> Self {
        Self::error(span, complaint.what).help(complaint.remedy)
    }

    /// The same fault as a warning.
    #[must_use]
    pub fn warning(mut self) -> Self {
        self.severity = Severity::Warning;
        self
    }

    /// The fault of another file, at the place that names that file.
    #[must_use]
    pub fn named_at(self, source: &SourceText, span: &Range<usize>) -> Self {
        let place = match &self.span {
            Some(inner) => {
                let before = source.text.get(..inner.start).unwrap_or_default();
                format!("{}:{}", source.name, 1 + before.matches('\n').count())
            }
            None => source.name.clone(),
        };
        Self { span: Some(span.clone()), message: format!("{place}: {}", self.message), ..self }
    }

    /// The same fault with a fix.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// For longer lines, only the position of the fault is shown.
const LONG_LINE: usize = 4096;
/// How many faults of a file are shown; a file with more probably has the same mistake many times.
const SHOWN_MAX: usize = 200;

/// Renders all faults of a source, in the order of their positions.
#[must_use]
pub fn render(source: &SourceText, faults: &[Fault], colour: bool) -> String {
    let shown = masked(source);
    let name = printable(&source.name);
    let mut ordered: Vec<&Fault> = faults.iter().collect();
    ordered.sort_by_key(|fault| fault.span.as_ref().map_or(0, |span| span.start));
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let mut output = String::new();
    for fault in ordered.iter().take(SHOWN_MAX) {
        output.push_str(&renderer.render(&[group(&name, (&source.text, &shown), fault)]));
        output.push_str("\n\n");
    }
    let hidden = ordered.len().saturating_sub(SHOWN_MAX);
    if hidden > 0 {
        use std::fmt::Write as _;
        let _ = writeln!(output, "… and {hidden} more: fix these first\n");
    }
    output
}

fn group<'a>(name: &'a str, (text, shown): (&str, &'a str), fault: &'a Fault) -> Group<'a> {
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
        // If a fault spans several lines, only the first one is shown.
        let line_start = shown[..start].rfind('\n').map_or(0, |newline| newline + 1);
        let line_end = shown[start..].find('\n').map_or(shown.len(), |length| start + length);
        let line_end = (line_start + shown[line_start..line_end].trim_end().len()).max(start);
        let number = 1 + shown[..line_start].matches('\n').count();
        let line = &shown[line_start..line_end];
        group = if line.len() > LONG_LINE {
            // Such a line is unreadable, and its layout takes long.
            let column = 1 + shown[line_start..start].chars().count();
            group.element(Origin::path(name).line(number).char_column(column))
        } else {
            let span = start - line_start..end.min(line_end) - line_start;
            let primary = AnnotationKind::Primary.span(span);
            group.element(Snippet::source(line).line_start(number).path(name).annotation(primary))
        };
    }
    if let Some(help) = &fault.help {
        let is_quoted = fault.span.as_ref().is_some_and(|span| is_in_double_quotes(text, span.start));
        // What is pasted there must not end the text.
        let help = if is_quoted { help.replace('"', "'") } else { help.clone() };
        group = group.element(Level::HELP.message(printable(&help)));
    }
    group
}

/// Whether a place lies within a text in double quotes on its line.
fn is_in_double_quotes(text: &str, at: usize) -> bool {
    let at = floor_char(text, at);
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let (mut open, mut escaped) = (None, false);
    for c in text[start..at].chars() {
        match (open, c) {
            _ if escaped => escaped = false,
            (Some('"'), '\\') => escaped = true,
            (None, '"' | '\'') => open = Some(c),
            (Some(quote), c) if c == quote => open = None,
            _ => {}
        }
    }
    open == Some('"')
}

/// Text that quotes a file: on a single line, without control characters and without secrets.
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

/// The text with asterisks, of the same byte length, for everything that is not known to be public. Credentials in URLs
/// and control characters are replaced too.
///
/// [`SourceText::shown`] tells which parts are public. Of all other text, also in files that are not YAML at all, only the
/// skeleton is shown: blanks, punctuation between values, and words before a colon.
fn masked(source: &SourceText) -> String {
    let text = &source.text;
    let mut visible = skeleton(text);
    let mut set = |spans: &[Range<usize>], to: bool| {
        for span in spans {
            let end = span.end.min(text.len());
            visible[span.start.min(end)..end].fill(to);
        }
    };
    set(&source.shown.public, true);
    set(&thresholds(text), true);
    set(&source.shown.secret, false);
    set(&masking::secret_spans(text, &[]), false);
    for line in line_spans(text) {
        hide_credentials(&text[line.clone()], &mut visible[line]);
    }
    let mut output = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        if visible[at] || c.is_whitespace() {
            output.push(harmless(c));
        } else {
            output.extend(std::iter::repeat_n('*', c.len_utf8()));
        }
    }
    output
}

/// The lines of thresholds, which hold no secret, also in a file that is not valid YAML: what follows `threshold:` on its
/// line, and the list below `thresholds:`.
fn thresholds(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    // The indentation of the key above.
    let mut below: Option<usize> = None;
    for line in line_spans(text) {
        let content = text[line.clone()].trim_end();
        let key = content.trim_start();
        let indent = content.len() - key.len();
        let is_of_list = |above: usize| indent > above || indent == above && key.starts_with('-');
        if key.is_empty() {
            continue;
        }
        if key == "thresholds:" {
            below = Some(indent);
        } else if key.trim_start_matches("- ").starts_with("threshold:") || below.is_some_and(is_of_list) {
            found.push(line);
        } else {
            below = None;
        }
    }
    found
}

fn line_spans(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut at = 0;
    text.split_inclusive('\n').map(move |line| {
        at += line.len();
        at - line.len()..at
    })
}

/// Which bytes of a text are always shown: YAML punctuation between values (not inside them), and words that are keys
/// because a colon follows.
fn skeleton(text: &str) -> Vec<bool> {
    let bytes = text.as_bytes();
    let punctuation = |at: usize| b"{}[],:\"'#-|>&*!?<".contains(&bytes[at]);
    let mut visible = vec![false; bytes.len()];
    let mut open = true;
    for at in 0..bytes.len() {
        open = bytes[at].is_ascii_whitespace() || open && punctuation(at);
        visible[at] = open;
    }
    open = true;
    for at in (0..bytes.len()).rev() {
        open = bytes[at].is_ascii_whitespace() || open && punctuation(at);
        visible[at] |= open;
    }
    for (colon, _) in text.match_indices(':') {
        let key = bytes[..colon].iter().rposition(|byte| !matches!(byte, b'"' | b'\''));
        let quoted = colon.checked_sub(1).is_some_and(|before| matches!(bytes[before], b'"' | b'\''));
        let ends = quoted || bytes.get(colon + 1).is_none_or(u8::is_ascii_whitespace);
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'@');
        let Some(last) = key.filter(|_| ends) else { continue };
        let start = bytes[..=last].iter().rposition(|byte| !is_name(byte)).map_or(0, |before| before + 1);
        let alone = start == 0 || visible[start - 1];
        if alone {
            visible[start..=colon].fill(true);
        }
    }
    visible
}

/// Hides `user:password` of `scheme://user:password@host`.
fn hide_credentials(line: &str, visible: &mut [bool]) {
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
            visible[start..start + length].fill(false);
        }
    }
}

/// The character, or a harmless one of the same byte length, so that offsets stay valid.
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

    fn public(name: &str, text: &str) -> SourceText {
        let mut source = SourceText::new(name, text);
        source.shown.public.push(0..text.len());
        source
    }

    #[test]
    fn a_fault_shows_file_line_column_underline_and_remedy() {
        let source = public("a.yaml", "title: x\nrunnr: {}\n");
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

    /// A remedy that is pasted into a text in double quotes must not end it.
    #[test]
    fn what_is_to_be_written_within_quotes_has_the_other_ones() {
        for (line, expected) in [
            ("- \"p95(action slow) < 1s\"", "write action 'slow'"),
            ("- 'p95(action slow) < 1s'", "write action \"slow\""),
            ("- p95(action slow) < 1s", "write action \"slow\""),
            ("- { threshold: \"p95(action slow) < 1s\" }", "write action 'slow'"),
            ("- { a: \"b\", threshold: p95(action slow) < 1s }", "write action \"slow\""),
            ("- \"\\\"p95(action slow) < 1s\"", "write action 'slow'"),
        ] {
            let at = line.find("slow").unwrap();
            let fault = Fault::error(at..at + 4, "it is not in quotes").help("write action \"slow\"");
            let shown = render(&public("a.yaml", line), &[fault], false);
            assert!(shown.contains(&format!("help: {expected}\n")), "{shown}");
        }
    }

    /// Also where the file is not YAML, for then a mistake in their quotes is why.
    #[test]
    fn lines_of_thresholds_are_never_masked() {
        let text = "key: hunter2\nsla:\n  thresholds:\n    - \"p95(action \"slow\") < 1s\"\n    - { threshold: p99 < 2s }\n  \
                    other: hunter2\nthresholds:\n- p50 < 1s\nx: hunter2\n";
        let shown = masked(&SourceText::new("a", text));
        for line in
            ["    - \"p95(action \"slow\") < 1s\"\n", "    - { threshold: p99 < 2s }\n", "- p50 < 1s\n"]
        {
            assert!(shown.contains(line), "{line}: {shown}");
        }
        assert!(!shown.contains("hunter2"), "{shown}");
    }

    #[test]
    fn only_the_skeleton_of_an_unknown_text_is_shown() {
        for (line, expected) in [
            ("hmac_key: hunter2", "hmac_key: *******"),
            ("  \"anything\": \"ä b\" # c", "  \"anything\": \"** *\" # *"),
            ("{\"X-Api-Key\":\"p\\\"w\",\"y\":1}", "{\"X-Api-Key\":************}"),
            ("{user: x, p: {q: pw}}", "{user: *, p: {q: **}}"),
            ("client_secret:\n- a\nx: y", "client_secret:\n- *\nx: *"),
            ("a: b: hunter2 c: d", "a: b: ******* c: *"),
            ("a: |\n  b-c\n", "a: |\n  ***\n"),
            ("export OS_PASSWORD=pw", "****** **************"),
            ("\tb: 1", " b: *"),
            ("p:w x:y: z", "*** ***: *"),
            (": x", ": *"),
        ] {
            assert_eq!(masked(&SourceText::new("a", line)), expected);
        }
    }

    #[test]
    fn public_text_is_shown_without_secrets_and_credentials_in_urls() {
        for (line, secret, expected) in [
            ("user: admin # a note", 0..0, "user: admin # a note"),
            ("user: admin", 8..11, "user: ad***"),
            ("default: http://me:pw@host/", 0..0, "default: http://*****@host/"),
            ("url: redis://:p@w@host/?db=1", 0..0, "url: redis://****@host/?db=1"),
        ] {
            let mut source = public("a", line);
            source.shown.secret.push(secret);
            assert_eq!(masked(&source), expected);
        }
    }

    #[test]
    fn control_characters_are_not_shown() {
        let text = "a: \u{9b}31m \u{202e}x\u{7}\r\n";
        let fault = Fault::error(3..4, "x\u{202e}\u{9b}y").help("\u{1b}]0;z");
        let shown = render(&public("a\u{1b}.yaml", text), &[fault], false);
        assert!(!shown.contains(['\u{9b}', '\u{202e}', '\u{7}', '\u{1b}', '\r']), "{shown:?}");
    }

    #[test]
    fn the_number_of_faults_that_are_shown_is_bounded() {
        let source = public("a", "x: 1");
        let shown = render(&source, &vec![Fault::error(0..1, "no"); 1000], false);
        assert_eq!(shown.matches("error: no").count(), 200);
        assert!(shown.contains("and 800 more"));
    }

    #[test]
    fn spans_outside_the_text_or_inside_a_character_do_no_harm() {
        let source = public("a", "ä\n\u{1b}[31m");
        for span in [0..1, 1..1, 1..99, 50..60, 0..0] {
            let text = render(&source, &[Fault::error(span, "x\u{1b}")], false);
            assert!(!text.contains('\u{1b}'));
        }
    }
}
