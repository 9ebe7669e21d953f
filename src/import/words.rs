//! Splits a command into words as a shell does: POSIX shells with `$'…'`, or Windows' cmd.
//!
//! Browsers copy curl commands for both. Nothing is executed or expanded: a command that needs a shell's variables or
//! substitutions is refused.

use super::ImportError;

/// The longest command, in bytes.
pub(super) const BYTES_MAX: usize = 4 << 20;

/// A command of a text.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ShellCommand {
    pub(super) words: Vec<String>,
    /// What it reads, if that stands in the text (`<<EOF`, `<<<`).
    pub(super) input: Option<String>,
    /// It runs only if the one before it failed (`||`).
    pub(super) is_alternative: bool,
}

/// The commands of a text. The files that they read and write by redirection are left out.
///
/// # Errors
/// A quote or a here-document is not closed, or the text needs a shell to be understood.
pub(super) fn commands(text: &str) -> Result<Vec<ShellCommand>, ImportError> {
    if text.len() > BYTES_MAX {
        return Err(ImportError::new("the command is longer than 4 MiB", "give a shorter one"));
    }
    let text = text.trim_start_matches('\u{feff}').trim();
    if is_cmd(text) { cmd(text) } else { posix(text) }
}

/// Windows' cmd quotes and continues lines with `^`, has no single quotes, and doubles quotes in a text: `"{""a"":1}"`.
fn is_cmd(text: &str) -> bool {
    let has_doubled_quotes = || text.contains("{\"\"") && !text.contains('\'');
    text.contains("^\"") || text.lines().any(|line| line.trim_end().ends_with('^')) || has_doubled_quotes()
}

/// Reads the characters of commands.
struct Reader<'t> {
    rest: std::iter::Peekable<std::str::Chars<'t>>,
    commands: Vec<ShellCommand>,
    command: ShellCommand,
    word: Option<String>,
    /// What the next word is, if it is none of the command.
    redirection: Redirection,
    /// A part of the word was in quotes.
    is_quoted: bool,
    /// A subshell has ended, and nothing came behind it but redirections.
    is_closed: bool,
    /// The here-documents that begin behind this line.
    documents: Vec<HereDocument>,
    /// How many subshells are open.
    subshells: usize,
    /// What of a brace expansion the word has so far, outside quotes.
    brace: Brace,
}

#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum Redirection {
    #[default]
    None,
    /// A file for output.
    Output,
    /// A file for input.
    Input,
    /// The line that ends a here-document, from which tabs are removed or not.
    Document { strips: bool },
    /// A text to read.
    Text,
}

/// A here-document: the text up to a line.
struct HereDocument {
    /// The number of the command that reads it.
    command: usize,
    end: String,
    strips: bool,
    /// The shell would put variables in.
    expands: bool,
}

/// The parts of `{a,b}` or `{1..3}`.
#[derive(Clone, Copy, Default, Eq, PartialEq)]
enum Brace {
    #[default]
    None,
    Open,
    /// It has a comma.
    Several,
    /// It has two dots.
    Range,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        Self {
            rest: text.chars().peekable(),
            commands: Vec::new(),
            command: ShellCommand::default(),
            word: None,
            redirection: Redirection::None,
            is_quoted: false,
            is_closed: false,
            documents: Vec::new(),
            subshells: 0,
            brace: Brace::None,
        }
    }

    /// Follows a character outside quotes. True at the end of a brace expansion that is not a part of a URL: curl itself
    /// reads those.
    fn expands_braces(&mut self, c: char) -> bool {
        let word = self.word.as_deref().unwrap_or_default();
        self.brace = match (c, self.brace) {
            ('{', _) => Brace::Open,
            (',', Brace::Open) => Brace::Several,
            ('.', Brace::Open) if word.ends_with('.') => Brace::Range,
            // curl writes a range in brackets.
            ('}', Brace::Range) => return true,
            ('}', Brace::Several) => return word.starts_with(['-', '{']) || !word.contains('/'),
            ('}', _) => Brace::None,
            (_, brace) => brace,
        };
        false
    }

    fn push(&mut self, c: char) {
        self.word.get_or_insert_default().push(c);
    }

    fn end_word(&mut self) {
        self.brace = Brace::None;
        let is_quoted = std::mem::take(&mut self.is_quoted);
        let Some(word) = self.word.take() else { return };
        match std::mem::take(&mut self.redirection) {
            Redirection::None => self.command.words.push(word),
            Redirection::Output => {}
            Redirection::Input => self.command.input = None,
            Redirection::Document { strips } => {
                // What a subshell reads may be for any command in it.
                let command = if self.is_closed { usize::MAX } else { self.commands.len() };
                self.documents.push(HereDocument { command, end: word, strips, expands: !is_quoted });
            }
            Redirection::Text if self.is_closed => {}
            Redirection::Text => self.command.input = Some(word + "\n"),
        }
    }

    fn end_command(&mut self) {
        self.end_word();
        self.redirection = Redirection::None;
        self.is_closed = false;
        if !self.command.words.is_empty() {
            self.commands.push(std::mem::take(&mut self.command));
        }
    }

    /// The end of a line, behind which here-documents begin.
    fn end_line(&mut self) -> Result<(), ImportError> {
        self.end_command();
        for document in std::mem::take(&mut self.documents) {
            let text = self.document(&document)?;
            if let Some(command) = self.commands.get_mut(document.command) {
                command.input = Some(text);
            }
        }
        Ok(())
    }

    fn document(&mut self, document: &HereDocument) -> Result<String, ImportError> {
        let mut text = String::new();
        loop {
            if self.rest.peek().is_none() {
                let what = format!("the here-document up to `{}` does not end", document.end);
                return Err(ImportError::new(what, "copy the whole command"));
            }
            let line: String = std::iter::from_fn(|| self.rest.next_if(|c| *c != '\n')).collect();
            self.rest.next();
            let line = line.strip_suffix('\r').unwrap_or(&line);
            let line = if document.strips { line.trim_start_matches('\t') } else { line };
            if line == document.end {
                return Ok(text);
            }
            if document.expands && line.contains(['$', '`', '\\']) {
                return Err(expansion());
            }
            text.push_str(line);
            text.push('\n');
        }
    }

    /// `> file`, `2>&1`, `&> file`, `<<EOF`, `<<<text`: neither the number nor what follows is a word of the command.
    fn redirect(&mut self, c: char) {
        self.word.take_if(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()));
        self.end_word();
        self.redirection = if c == '<' { Redirection::Input } else { Redirection::Output };
        if c == '<' && self.rest.next_if_eq(&'<').is_some() {
            self.redirection = match self.rest.next_if_eq(&'<') {
                Some(_) => Redirection::Text,
                None => Redirection::Document { strips: self.rest.next_if_eq(&'-').is_some() },
            };
        } else {
            while self.rest.next_if(|c| matches!(c, '>' | '<' | '&' | '|')).is_some() {}
        }
    }

    /// Whether a `~` here is a home directory: at the beginning of a word, or of the value in `NAME=~`.
    fn is_home(&self) -> bool {
        self.word.as_deref().is_none_or(|word| word.ends_with('=') && is_assignment(word))
    }
}

/// `NAME=value`, which sets a variable for the program behind it.
pub(super) fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn posix(text: &str) -> Result<Vec<ShellCommand>, ImportError> {
    let mut reader = Reader::new(text);
    while let Some(c) = reader.rest.next() {
        match c {
            ' ' | '\t' | '\r' => reader.end_word(),
            '&' if reader.rest.peek() == Some(&'>') => reader.redirect(c),
            '\n' => reader.end_line()?,
            '|' if reader.rest.next_if_eq(&'|').is_some() => {
                reader.end_command();
                reader.command.is_alternative = true;
            }
            ';' | '|' | '&' => reader.end_command(),
            '>' | '<' => reader.redirect(c),
            '#' if reader.word.is_none() => while reader.rest.next_if(|c| *c != '\n').is_some() {},
            '\\' => match reader.rest.next() {
                Some('\n') | None => {}
                Some('\r') if reader.rest.next_if_eq(&'\n').is_some() => {}
                Some(c) => reader.push(c),
            },
            '\'' => quoted(&mut reader)?,
            '"' => double_quoted(&mut reader)?,
            '$' if reader.rest.next_if_eq(&'\'').is_some() => ansi_quoted(&mut reader)?,
            '$' if reader.rest.peek().is_some_and(|c| starts_expansion(*c)) => return Err(expansion()),
            '`' => return Err(expansion()),
            '~' if reader.is_home() => return Err(expansion()),
            '(' if reader.word.is_none() => {
                reader.subshells += 1;
                reader.end_command();
            }
            ')' if reader.subshells > 0 => {
                reader.subshells -= 1;
                reader.end_command();
                reader.is_closed = true;
            }
            c if reader.expands_braces(c) => return Err(expansion()),
            c => reader.push(c),
        }
    }
    reader.end_line()?;
    Ok(reader.commands)
}

fn starts_expansion(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '{' | '(' | '"')
}

fn expansion() -> ImportError {
    ImportError::new(
        "the command uses a variable, a substitution, `~` or braces of the shell",
        "let the shell expand it: bench import curl -- curl …",
    )
}

fn not_closed(quote: &str) -> ImportError {
    ImportError::new(format!("a {quote} quote is not closed"), "copy the whole command")
}

fn quoted(reader: &mut Reader<'_>) -> Result<(), ImportError> {
    reader.is_quoted = true;
    reader.word.get_or_insert_default();
    loop {
        match reader.rest.next() {
            Some('\'') => return Ok(()),
            Some(c) => reader.push(c),
            None => return Err(not_closed("single")),
        }
    }
}

fn double_quoted(reader: &mut Reader<'_>) -> Result<(), ImportError> {
    reader.is_quoted = true;
    reader.word.get_or_insert_default();
    loop {
        match reader.rest.next() {
            Some('"') => return Ok(()),
            Some('\\') => match reader.rest.next() {
                Some('\n') => {}
                Some(c @ ('"' | '\\' | '$' | '`' | '!')) => reader.push(c),
                Some(c) => {
                    reader.push('\\');
                    reader.push(c);
                }
                None => return Err(not_closed("double")),
            },
            Some('$') if reader.rest.peek().is_some_and(|c| starts_expansion(*c) && *c != '"') => {
                return Err(expansion());
            }
            Some('`') => return Err(expansion()),
            Some(c) => reader.push(c),
            None => return Err(not_closed("double")),
        }
    }
}

/// `$'…'`, with the escapes of bash.
fn ansi_quoted(reader: &mut Reader<'_>) -> Result<(), ImportError> {
    let mut bytes = Vec::new();
    let mut push = |c: char| bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    loop {
        let c = match reader.rest.next() {
            Some('\'') => break,
            Some('\\') => match reader.rest.next().ok_or_else(|| not_closed("single"))? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'a' => '\u{7}',
                'b' => '\u{8}',
                'e' | 'E' => '\u{1b}',
                'f' => '\u{c}',
                'v' => '\u{b}',
                'x' => number(reader, String::new(), 2, 16),
                'u' => number(reader, String::new(), 4, 16),
                'U' => number(reader, String::new(), 8, 16),
                c @ '0'..='7' => number(reader, c.to_string(), 3, 8),
                c => c,
            },
            Some(c) => c,
            None => return Err(not_closed("single")),
        };
        push(c);
    }
    reader.word.get_or_insert_default().push_str(&String::from_utf8_lossy(&bytes));
    Ok(())
}

/// The character with this number; the digits end at the first character that is none.
fn number(reader: &mut Reader<'_>, mut digits: String, most: usize, radix: u32) -> char {
    while digits.len() < most
        && let Some(digit) = reader.rest.next_if(|c| c.is_digit(radix))
    {
        digits.push(digit);
    }
    u32::from_str_radix(&digits, radix).ok().and_then(char::from_u32).unwrap_or('\u{fffd}')
}

/// As browsers copy for cmd: each word in `^"…^"`, with `^` before special characters.
fn cmd(text: &str) -> Result<Vec<ShellCommand>, ImportError> {
    // First cmd removes its carets and joins lines; then curl splits what remains.
    let mut line = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '^' => {
                let _ = rest.next_if_eq(&'\r');
                match rest.next() {
                    // Browsers write a line break in a text as a caret and two line breaks.
                    Some('\n') => {
                        if matches!(rest.peek(), Some('\n' | '\r')) {
                            let _ = rest.next_if_eq(&'\r');
                            rest.next();
                            line.push('\n');
                        }
                    }
                    Some(c) => line.push(c),
                    None => {}
                }
            }
            '\r' => {}
            c => line.push(c),
        }
    }
    let mut reader = Reader::new(&line);
    let mut inside = false;
    while let Some(c) = reader.rest.next() {
        match c {
            '\\' => backslashes(&mut reader, &mut inside),
            '"' if inside && reader.rest.next_if_eq(&'"').is_some() => reader.push('"'),
            '"' => {
                inside = !inside;
                reader.word.get_or_insert_default();
            }
            ' ' | '\t' if !inside => reader.end_word(),
            '\n' | '&' | '|' if !inside => reader.end_command(),
            '>' | '<' if !inside => reader.redirect('>'),
            c => reader.push(c),
        }
    }
    if inside {
        return Err(not_closed("double"));
    }
    reader.end_command();
    Ok(reader.commands)
}

/// Backslashes are special only before a quote: two make one, and an odd one makes the quote literal.
fn backslashes(reader: &mut Reader<'_>, inside: &mut bool) {
    let mut count = 1;
    while reader.rest.next_if_eq(&'\\').is_some() {
        count += 1;
    }
    let before_quote = reader.rest.peek() == Some(&'"');
    let written = if before_quote { count / 2 } else { count };
    (0..written).for_each(|_| reader.push('\\'));
    if before_quote {
        reader.rest.next();
        if count % 2 == 1 {
            reader.push('"');
        } else {
            *inside = !*inside;
            reader.word.get_or_insert_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Vec<String>> {
        commands(text).unwrap().into_iter().map(|command| command.words).collect()
    }

    #[test]
    fn what_a_command_reads_is_found_where_it_stands() {
        for (text, words, input) in [
            ("curl -d @- h <<EOF\na: 1\n b\nEOF\n", &["curl -d @- h"][..], &[Some("a: 1\n b\n")][..]),
            ("curl a <<'E F' -s\n$x `y` \\\nE F", &["curl a -s"], &[Some("$x `y` \\\n")]),
            (
                "curl a <<-\"X\" | jq .\n\tb\n\tX\ncurl c",
                &["curl a", "jq .", "curl c"],
                &[Some("b\n"), None, None],
            ),
            ("curl a <<A >o; curl b <<B\n1\nA\n2\nB\n", &["curl a", "curl b"], &[Some("1\n"), Some("2\n")]),
            ("curl a <<< 'x=1' -s", &["curl a -s"], &[Some("x=1\n")]),
            ("curl a < file", &["curl a"], &[None]),
            ("curl a <<< x > o 2>/dev/null | jq .", &["curl a", "jq ."], &[Some("x\n"), None]),
            ("(curl a) <<< z\ncurl b", &["curl a", "curl b"], &[None, None]),
            ("(curl a) <<E\nz\nE\ncurl b", &["curl a", "curl b"], &[None, None]),
            ("<<E curl a\nz\nE\n", &["curl a"], &[Some("z\n")]),
            ("curl a <<E\r\nb\r\nE\r\n", &["curl a"], &[Some("b\n")]),
        ] {
            let found = commands(text).unwrap();
            let found: Vec<_> =
                found.iter().map(|command| (command.words.join(" "), command.input.as_deref())).collect();
            let expected: Vec<_> =
                words.iter().map(|words| (*words).to_owned()).zip(input.iter().copied()).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn words_are_split_as_shells_do() {
        for (text, expected) in [
            ("curl 'a b' \"c d\" e\\ f", &["curl", "a b", "c d", "e f"][..]),
            ("curl \\\n  -H 'A: b' \\\r\n x", &["curl", "-H", "A: b", "x"]),
            ("a''b \"\" ''", &["ab", "", ""]),
            (r#""a\"b\\c\d""#, &["a\"b\\c\\d"]),
            (r"$'a\'b\n\u0021\x41\101\q'", &["a'b\n!AAq"]),
            ("'it'\\''s'", &["it's"]),
            ("curl 'a&b' a$ 100$", &["curl", "a&b", "a$", "100$"]),
            ("curl a > 'the file' -s 2>&1", &["curl", "a", "-s"]),
            ("curl a 2>/dev/null -d 2 </dev/null", &["curl", "a", "-d", "2"]),
            ("curl a &>> x", &["curl", "a"]),
            (
                "curl http://h/{a,b}/~c -d '{a,b}' -H {x}",
                &["curl", "http://h/{a,b}/~c", "-d", "{a,b}", "-H", "{x}"],
            ),
            (
                "curl ^\"http://h/?a=1^&b=2^\" ^\r\n  -H ^\"A: ^\\^\"b^\\^\"^\"",
                &["curl", "http://h/?a=1&b=2", "-H", "A: \"b\""],
            ),
            ("curl \"a\" ^\n --data-raw \"{\\\"n\\\":1}\"", &["curl", "a", "--data-raw", "{\"n\":1}"]),
            ("curl ^\"a^\n\nb^\"", &["curl", "a\nb"]),
            (
                "curl \"a\" --data-raw \"{\"\"n\"\":\"\"x\"\"}\"",
                &["curl", "a", "--data-raw", "{\"n\":\"x\"}"],
            ),
        ] {
            assert_eq!(words(text), [expected], "{text}");
        }
        assert!(commands(" \n ; \n# nothing\n").unwrap().is_empty());
    }

    #[test]
    fn commands_end_as_in_shells() {
        let two = [vec!["curl", "a"], vec!["curl", "b", "c"]];
        for text in [
            "curl a\ncurl b c",
            "# one\ncurl a # two\n\n\n# three\n  curl b \\\n  c\n",
            "curl a; curl b c;",
            "curl a && curl b c",
            "curl a || curl b c &",
            "curl a | curl b c",
            "curl a >x\r\ncurl b c",
            "(curl a; (curl b c))",
            "curl ^\"a^\"\r\ncurl b ^\r\n c\r\n",
            "curl ^\"a^\" & curl b c",
        ] {
            assert_eq!(words(text), two, "{text}");
            let is_alternative = |command: &ShellCommand| command.is_alternative;
            assert_eq!(commands(text).unwrap().iter().any(is_alternative), text.contains("||"), "{text}");
        }
    }

    #[test]
    fn what_needs_a_shell_or_is_cut_off_is_refused() {
        for (text, part) in [
            ("curl 'a", "a single quote is not closed"),
            ("curl \"a", "a double quote is not closed"),
            ("curl \"a\\", "a double quote is not closed"),
            ("curl $'a\\", "a single quote is not closed"),
            ("curl $HOME", "a variable, a substitution"),
            ("curl -T ~/a http://h", "`~` or braces"),
            ("curl -d x=~ http://h", "`~` or braces"),
            ("curl -d @- http://h <<EOF\n$x\nEOF\n", "a variable, a substitution"),
            ("curl -d @- http://h <<EOF\nx\n", "the here-document up to `EOF` does not end"),
            ("curl -d {a,b} http://h", "`~` or braces"),
            ("curl -H X:{1..3} http://h", "`~` or braces"),
            ("curl http://h/a/{1..3}", "`~` or braces"),
            ("curl \"$(id)\"", "a variable, a substitution"),
            ("curl `id`", "a variable, a substitution"),
            ("curl ^\"a", "a double quote is not closed"),
            (&"x".repeat(BYTES_MAX + 1), "longer than 4 MiB"),
        ] {
            let error = commands(text).unwrap_err();
            assert!(error.what.contains(part), "{error}");
        }
    }
}
