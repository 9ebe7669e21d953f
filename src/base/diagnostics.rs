//! Faults in files that people write: where, what, and what to do about it.
//!
//! A [`Fault`] carries a byte range of its [`Source`]; rendering shows file, line, column, the source
//! line underlined and the remedy. Inline secrets are masked before a line is shown.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

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

/// Renders all faults of one source, in the order of their place.
#[must_use]
pub fn render(source: &Source, faults: &[Fault], colour: bool) -> String {
    let shown = masked(&source.text);
    let mut ordered: Vec<&Fault> = faults.iter().collect();
    ordered.sort_by_key(|fault| fault.span.as_ref().map_or(0, |span| span.start));
    let renderer = if colour { Renderer::styled() } else { Renderer::plain() };
    let mut output = String::new();
    for fault in ordered {
        let groups = [group(source, &shown, fault)];
        output.push_str(&renderer.render(&groups));
        output.push_str("\n\n");
    }
    output
}

fn group<'a>(source: &'a Source, shown: &'a str, fault: &'a Fault) -> Group<'a> {
    let level = match fault.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let title = match fault.span {
        Some(_) => fault.message.clone(),
        None => format!("{}: {}", source.name, fault.message),
    };
    let mut group = Group::with_title(level.primary_title(printable(&title)));
    if let Some(span) = &fault.span {
        let start = floor_char(shown, span.start);
        let end = floor_char(shown, span.end).max(start);
        // A fault that spans lines is shown at its first one only.
        let line_end = shown[start..].find('\n').map_or(shown.len(), |length| start + length);
        group = group.element(
            Snippet::source(shown)
                .path(&source.name)
                .annotation(AnnotationKind::Primary.span(start..end.min(line_end))),
        );
    }
    if let Some(help) = &fault.help {
        group = group.element(Level::HELP.message(printable(help)));
    }
    group
}

/// Control characters out of text that quotes a file: a terminal must not obey them.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn floor_char(text: &str, mut index: usize) -> usize {
    index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

/// Key names whose values are secrets, in our files and in Rally's.
const SECRET_KEYS: [&str; 8] = [
    "hmac_key",
    "hmac_keys",
    "password",
    "token",
    "secret",
    "connection_string",
    "profiler_hmac_key",
    "profiler_conn_str",
];

/// `text` with the inline values of secret keys replaced by asterisks of the same byte length, and
/// control characters other than the line feed by spaces.
fn masked(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    let mut secret_block_indent = None;
    for line in text.split_inclusive('\n') {
        let indent = line.len() - line.trim_start().len();
        let in_block = secret_block_indent.is_some_and(|outer| line.trim().is_empty() || indent > outer);
        if in_block {
            push_masked(&mut output, line, 0);
            continue;
        }
        secret_block_indent = None;
        match secret_value_at(line) {
            Some(at) => {
                let value = line[at..].trim();
                // A list or a block scalar goes on below.
                if value.is_empty() || value.starts_with(['|', '>']) {
                    secret_block_indent = Some(indent);
                }
                push_masked(&mut output, line, at);
            }
            None => output.extend(line.chars().map(blank_control)),
        }
    }
    output
}

/// Where the value of the first secret key on this line starts; a value that only refers to a secret
/// (`{ env: … }`, `{ file: … }`, a template) is none.
fn secret_value_at(line: &str) -> Option<usize> {
    let mut found: Option<usize> = None;
    for key in SECRET_KEYS {
        for (at, _) in line.match_indices(key) {
            let before = line[..at].chars().next_back();
            let rest = line[at + key.len()..].trim_start_matches(['"', '\'']);
            let boundary = before.is_none_or(|c| !c.is_alphanumeric() && c != '_');
            let Some(value) = rest.trim_start().strip_prefix(':') else { continue };
            let trimmed = value.trim_start().trim_start_matches(['"', '\'']);
            let refers = trimmed.starts_with("{{")
                || (trimmed.starts_with('{') && (trimmed.contains("env") || trimmed.contains("file")));
            if boundary && !refers {
                let start = line.len() - value.len();
                found = Some(found.map_or(start, |other| other.min(start)));
            }
        }
    }
    found
}

fn push_masked(output: &mut String, line: &str, from: usize) {
    output.extend(line[..from].chars().map(blank_control));
    for c in line[from..].chars() {
        if c.is_whitespace() {
            output.push(blank_control(c));
        } else {
            output.extend(std::iter::repeat_n('*', c.len_utf8()));
        }
    }
}

fn blank_control(c: char) -> char {
    // Only one-byte characters are replaced, so that byte offsets stay.
    if c.is_ascii_control() && c != '\n' { ' ' } else { c }
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
            ("  \"password\": \"ä b\" # c", "  \"password\": *** ** * *"),
            ("{user: x, password: pw, y: z}", "{user: x, password: *** ** **"),
            ("hmac_key: { env: KEY }", "hmac_key: { env: KEY }"),
            ("password: \"{{ auth.password }}\"", "password: \"{{ auth.password }}\""),
            ("user_password_hint: x", "user_password_hint: x"),
            ("hmac_keys:\n  - a\n  - b\nx: y", "hmac_keys:\n  * *\n  * *\nx: y"),
        ] {
            assert_eq!(masked(line), expected);
        }
    }

    #[test]
    fn spans_outside_the_text_or_inside_a_character_do_no_harm() {
        let source = Source { name: "a".into(), text: "ä\n\u{1b}[31m".into() };
        for span in [0..1, 1..1, 1..99, 50..60] {
            let text = render(&source, &[Fault::error(span, "x\u{1b}")], false);
            assert!(!text.contains('\u{1b}'));
        }
    }
}
