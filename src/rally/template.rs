//! Renders the template of a task file, and remembers which line of the file each line came from.
//!
//! Jinja2 moves lines: a loop repeats them, a condition drops them. So marks are put into the text before it is rendered,
//! each in front of the first word of a line, and are removed afterwards. They change nothing else.

use std::collections::BTreeSet;

use crate::base::diagnostics::{Fault, Shown, Source};
use crate::base::template::document::{Document, DocumentError};
use crate::base::yaml;
use crate::config::Rejected;

use super::args::Arguments;

/// Begins and ends a mark. Both are private to whoever uses them, and no file has them.
const MARK: (char, char) = ('\u{e000}', '\u{e001}');
/// How many files may be included, each counted as often as it is.
const INCLUDES_MAX: usize = 100;

/// A rendered task file.
#[derive(Clone, Debug)]
pub struct Rendered {
    /// The rendered text, under the file's name.
    pub source: Source,
    /// The file as it was written; `None` if rendering changes nothing.
    written: Option<Written>,
}

#[derive(Clone, Debug)]
struct Written {
    source: Source,
    /// For each line of the rendered text: the line of the file, both from 0.
    lines: Vec<usize>,
}

/// Renders a task file. `include` gives the text of a file that the template includes, by its name.
///
/// # Errors
/// Faults of the template, and variables without a value.
pub fn render(
    source: Source,
    arguments: &Arguments,
    include: &dyn Fn(&str) -> Result<String, String>,
) -> Result<Rendered, Rejected> {
    if !["{{", "{%", "{#"].iter().any(|mark| source.text.contains(mark)) {
        return Ok(Rendered { source, written: None });
    }
    let mut included = 0;
    let whole = match with_included(&source.text, include, &mut included) {
        Ok(whole) => whole,
        Err((line, message)) => {
            let help = "check the name; it counts from the task file's directory";
            let fault = Fault::error(line_span(&source.text, line), message).help(help);
            return Err(Rejected { source, faults: vec![fault] });
        }
    };
    let fail = |error: DocumentError| {
        let span = error.line.filter(|_| included == 0).map(|line| line_span(&source.text, line - 1));
        let message = format!("the template of this task: {}", error.what);
        let fault = span.map_or_else(|| Fault::file(&message), |span| Fault::error(span, message.clone()));
        Err(Rejected { source: source.clone(), faults: vec![fault.help("correct the template")] })
    };
    let document = match Document::compile(&whole) {
        Ok(document) => document,
        Err(error) => return fail(error),
    };
    let missing = missing(&document, arguments, &whole);
    if !missing.is_empty() {
        return Err(Rejected { faults: faults_of_missing(&missing, &source.text, arguments), source });
    }
    let plain = match document.render(arguments.variables()) {
        Ok(text) => text,
        Err(error) => return fail(error),
    };
    if plain.len() > yaml::BYTES_MAX {
        let fault = Fault::file("the rendered task is larger than 1 MiB").help("shorten its loops");
        return Err(Rejected { source, faults: vec![fault] });
    }
    let lines = if included == 0 { lines(&source.text, &plain, arguments) } else { Vec::new() };
    let rendered = Source { text: plain, ..source.clone() };
    Ok(Rendered { source: rendered, written: Some(Written { source, lines }) })
}

impl Rendered {
    /// A task whose text is used as it is.
    #[must_use]
    pub fn plain(source: Source) -> Self {
        Self { source, written: None }
    }

    /// Faults of the rendered text at their places in the file.
    #[must_use]
    pub fn at_home(&self, rejected: Rejected) -> Rejected {
        let Some(written) = &self.written else { return rejected };
        let Rejected { source: rendered, faults } = rejected;
        if written.lines.is_empty() {
            return Rejected { source: rendered, faults };
        }
        let places = Places { written, rendered: &rendered.text };
        let shown = Shown {
            public: rendered.shown.public.iter().filter_map(|span| places.exact(span)).collect(),
            secret: rendered.shown.secret.iter().filter_map(|span| places.exact(span)).collect(),
        };
        let faults = faults
            .into_iter()
            .map(|fault| Fault { span: fault.span.as_ref().map(|span| places.nearest(span)), ..fault });
        let faults = faults.collect();
        Rejected { source: Source { shown, ..written.source.clone() }, faults }
    }
}

/// Where parts of the rendered text stand in the file.
struct Places<'a> {
    written: &'a Written,
    rendered: &'a str,
}

type Span = std::ops::Range<usize>;

impl Places<'_> {
    /// The place of a part of a line that rendering did not change.
    fn exact(&self, span: &Span) -> Option<Span> {
        let start = span.start.min(self.rendered.len());
        let line_start = self.rendered[..start].rfind('\n').map_or(0, |at| at + 1);
        let line = self.rendered[line_start..].split('\n').next().unwrap_or_default();
        let end = span.end.min(line_start + line.len());
        let home = self.home(line_start);
        let same = self.written.source.text.get(home.clone()) == Some(line);
        (same && end >= start).then(|| home.start + start - line_start..home.start + end - line_start)
    }

    /// That place, or the whole line.
    fn nearest(&self, span: &Span) -> Span {
        self.exact(span).unwrap_or_else(|| {
            let start = span.start.min(self.rendered.len());
            let home = self.home(start);
            let line = &self.written.source.text[home.clone()];
            home.start + line.len() - line.trim_start().len()..home.start + line.trim_end().len()
        })
    }

    /// The line of the file from which the rendered line at this byte came.
    fn home(&self, at: usize) -> Span {
        let number = self.rendered[..at].matches('\n').count();
        let line = self.written.lines.get(number).or(self.written.lines.last()).copied().unwrap_or(0);
        line_span(&self.written.source.text, line)
    }
}

/// The bytes of a line, counted from 0, without its end.
fn line_span(text: &str, line: usize) -> Span {
    let mut start = 0;
    for (number, content) in text.split('\n').enumerate() {
        if number == line {
            return start..start + content.len();
        }
        start += content.len() + 1;
    }
    text.len()..text.len()
}

/// The variables that a template needs and the arguments do not give. As in Rally, a variable that the template sets, or
/// for which it has a default, is not needed.
fn missing(document: &Document, arguments: &Arguments, text: &str) -> BTreeSet<String> {
    let has_default = |name: &str| {
        text.match_indices(name).any(|(at, _)| {
            let (before, after) = (text[..at].trim_end(), text[at + name.len()..].trim_start());
            let set = before.ends_with("set") && after.starts_with('=');
            let filter = after.strip_prefix('|').map(str::trim_start);
            set || filter.is_some_and(|filter| filter.starts_with("default(") || filter.starts_with("d("))
        })
    };
    let needed = document.variables().iter().filter(|name| !arguments.has(name) && !has_default(name));
    needed.cloned().collect()
}

fn faults_of_missing(missing: &BTreeSet<String>, text: &str, arguments: &Arguments) -> Vec<Fault> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let place = |name: &str| {
        let within = |at: usize| text[..at].rfind('{').is_some_and(|open| !text[open..at].contains('}'));
        let whole = |at: usize| {
            !text[..at].ends_with(is_word) && !text[at + name.len()..].starts_with(is_word) && within(at)
        };
        text.match_indices(name).map(|(at, _)| at).find(|at| whole(*at)).map(|at| at..at + name.len())
    };
    let given: Vec<&str> = arguments.names().collect();
    let fault = |name: &String| {
        let message = format!("the task needs the argument `{name}`");
        let help = match given.as_slice() {
            [] => format!("give it with --task-args '{{{name}: …}}', or in a file with --task-args-file"),
            given => format!("add it to the arguments; given are {}", given.join(", ")),
        };
        place(name)
            .map_or_else(|| Fault::file(&message), |span| Fault::error(span, message.clone()))
            .help(help)
    };
    missing.iter().map(fault).collect()
}

/// The text with the files that it includes in their places.
fn with_included(
    text: &str,
    include: &dyn Fn(&str) -> Result<String, String>,
    count: &mut usize,
) -> Result<String, (usize, String)> {
    let mut output = String::new();
    let mut rest = text;
    while let Some((start, end, name)) = next_include(rest) {
        let line = text[..text.len() - rest.len() + start].matches('\n').count();
        *count += 1;
        if *count > INCLUDES_MAX {
            return Err((line, format!("the task includes more than {INCLUDES_MAX} files")));
        }
        output.push_str(&rest[..start]);
        let content = include(name).map_err(|why| (line, format!("cannot include `{name}`: {why}")))?;
        let content = with_included(&content, include, count).map_err(|(_, message)| (line, message))?;
        output.push_str(content.trim_end_matches('\n'));
        if output.len() > yaml::BYTES_MAX {
            return Err((line, "the task is larger than 1 MiB with what it includes".to_owned()));
        }
        rest = &rest[end..];
    }
    output.push_str(rest);
    Ok(output)
}

/// The next `{% include "name" %}`: where it begins and ends, and the name.
fn next_include(text: &str) -> Option<(usize, usize, &str)> {
    for (start, _) in text.match_indices("{%") {
        let Some(length) = text[start..].find("%}") else { continue };
        let inner = text[start + 2..start + length].trim_matches(['-', '+']).trim();
        let Some(name) = inner.strip_prefix("include").map(str::trim) else { continue };
        let quote = name.chars().next().filter(|c| matches!(c, '"' | '\''));
        let Some(name) = quote.and_then(|quote| name.strip_prefix(quote)?.strip_suffix(quote)) else {
            continue;
        };
        return Some((start, start + length + 2, name));
    }
    None
}

/// For each line of the rendered text, the line of the file; empty if that cannot be told.
fn lines(written: &str, plain: &str, arguments: &Arguments) -> Vec<usize> {
    if written.contains([MARK.0, MARK.1]) {
        return Vec::new();
    }
    let Ok(document) = Document::compile(&marked(written)) else { return Vec::new() };
    let Ok(marked) = document.render(arguments.variables()) else { return Vec::new() };
    let (unmarked, lines) = unmarked(&marked);
    if unmarked == plain { lines } else { Vec::new() }
}

/// The text with a mark in front of the first word of each line that is not within a tag.
fn marked(text: &str) -> String {
    let mut output = String::with_capacity(text.len() * 2);
    let (mut line, mut is_marked, mut rest) = (0, false, text);
    while let Some(c) = rest.chars().next() {
        if let Some(length) = tag_length(rest) {
            let (tag, after) = rest.split_at(length);
            output.push_str(tag);
            line += tag.matches('\n').count();
            rest = after;
            continue;
        }
        if c == '\n' {
            (line, is_marked) = (line + 1, false);
        } else if !c.is_whitespace() && !is_marked {
            output.extend([format!("{}{line}{}", MARK.0, MARK.1)]);
            is_marked = true;
        }
        output.push(c);
        rest = &rest[c.len_utf8()..];
    }
    output
}

/// The length of the tag at the start of a text. Raw text counts to the statement that ends it.
fn tag_length(text: &str) -> Option<usize> {
    let close = match text.get(..2)? {
        "{{" => "}}",
        "{%" => "%}",
        "{#" => "#}",
        _ => return None,
    };
    let inner = &text[2..];
    if close == "%}" && inner.trim_start_matches(['-', '+', ' ']).starts_with("raw") {
        return Some(text.find("endraw").unwrap_or(text.len()));
    }
    let mut quote = None;
    for (at, c) in inner.char_indices() {
        match quote {
            _ if close == "#}" && inner[at..].starts_with(close) => return Some(at + 4),
            None if inner[at..].starts_with(close) => return Some(at + 4),
            None if close != "#}" && matches!(c, '"' | '\'') => quote = Some(c),
            Some(open) if c == open => quote = None,
            _ => {}
        }
    }
    Some(text.len())
}

/// The text without its marks, and the line that each line's first mark names; a line without one is like the line above.
fn unmarked(text: &str) -> (String, Vec<usize>) {
    let (mut output, mut lines, mut above) = (String::with_capacity(text.len()), Vec::new(), 0);
    for line in text.split('\n') {
        let mut first = None;
        let mut rest = line;
        while let Some((before, after)) = rest.split_once(MARK.0) {
            output.push_str(before);
            let (number, after) = after.split_once(MARK.1).unwrap_or(("", after));
            first = first.or(number.parse().ok());
            rest = after;
        }
        output.push_str(rest);
        output.push('\n');
        above = first.unwrap_or(above);
        lines.push(above);
    }
    output.pop();
    (output, lines)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rendered(text: &str, arguments: &str) -> Result<Rendered, Rejected> {
        let mut given = Arguments::default();
        given.add_text(arguments).unwrap();
        let include = |name: &str| match name {
            "part.yaml" => Ok("  part: {{ n }}\n".to_owned()),
            _ => Err("no such file".to_owned()),
        };
        render(Source::new("task.yaml", text), &given, &include)
    }

    #[test]
    fn faults_are_shown_where_the_file_has_them() {
        let text = "{%- set n = n or 2 %}\n---\na: 1\n{% for i in range(n) %}\nb{{ i }}:\n  wrong: x\n{% endfor %}\nc: {{ n }}\n";
        let rendered = rendered(text, "{n: 2}").ok().unwrap();
        for (part, expected) in
            [("a: 1", "a: 1"), ("wrong: x", "wrong: x"), ("b1:", "b{{ i }}:"), ("c: 2", "c: {{ n }}")]
        {
            let at = rendered.source.text.rfind(part).unwrap();
            let fault = Fault::error(at..at + part.len(), "no");
            let home = rendered.at_home(Rejected { source: rendered.source.clone(), faults: vec![fault] });
            assert_eq!(&home.source.text[home.faults[0].span.clone().unwrap()], expected, "{part}");
        }
    }

    #[test]
    fn faults_of_templates_name_line_and_remedy() {
        for (text, arguments, expected) in [
            ("a: {{ x }}\nb: {{ y }}", "{x: 1}", "the task needs the argument `y`"),
            ("a: {{ x y }}", "{}", "the template of this task: syntax error"),
            ("a\n{% include 'nobody.yaml' %}", "{}", "cannot include `nobody.yaml`: no such file"),
            ("{% import 'm.yaml' as m %}", "{}", "`import` is not supported"),
            ("{% for i in range(9000) %}{{ 'x' * 900 }}{% endfor %}", "{}", "larger than 1 MiB"),
        ] {
            let rejected = rendered(text, arguments).err().unwrap();
            assert!(rejected.faults[0].message.contains(expected), "{text}: {:?}", rejected.faults);
            assert!(rejected.faults[0].help.is_some());
        }
        let rejected = rendered("a: 1\nb: {{ a_url }}", "{}").err().unwrap();
        assert_eq!(&rejected.source.text[rejected.faults[0].span.clone().unwrap()], "a_url");
    }

    #[test]
    fn variables_with_a_default_are_not_needed() {
        for (text, expected) in [
            ("{% set x = x or 3 %}{{ x }}", "3"),
            ("{{ x | default(4) }}", "4"),
            ("{%- include \"part.yaml\" -%}", "  part: 7"),
            ("no template { } here", "no template { } here"),
        ] {
            assert_eq!(
                rendered(text, "{n: 7}").ok().unwrap().source.text.trim_end(),
                expected.trim_end(),
                "{text}"
            );
        }
    }

    proptest! {
        #[test]
        fn marks_change_nothing(text in "([a-z:' -]|\n|\\{\\{ n \\}\\}|\\{%- if n -?%\\}|\\{% endif %\\}|\\{# c #\\}){0,40}") {
            if let Ok(rendered) = rendered(&text, "{n: 1}") {
                let Some(written) = &rendered.written else { return Ok(()) };
                let lines = rendered.source.text.split('\n').count();
                prop_assert_eq!(written.lines.len(), lines, "{:?}", text);
                let home = rendered.at_home(Rejected {
                    faults: vec![Fault::error(0..rendered.source.text.len(), "x")],
                    source: rendered.source.clone(),
                });
                prop_assert!(home.source.text.get(home.faults[0].span.clone().unwrap()).is_some());
            }
        }
    }
}
