//! Renders the template of a task file, and remembers which line of the file each line came from.
//!
//! Jinja2 moves lines: a loop repeats them, a condition drops them. So marks are put into the text before it is rendered,
//! each in front of the first word of a line, and are removed afterwards. They change nothing else.

use std::collections::BTreeSet;

use config::RejectedFile;
use text::diagnostics::{Fault, SourceText, SourceVisibility};
use text::template::document::{DocumentError, DocumentTemplate};
use text::yaml;

use super::args::Arguments;
use super::included::{self, JoinedTemplate, Origin, has_default, tag_length};

/// Begins and ends a mark. Both are for private use in Unicode, and no file has them.
const MARK: (char, char) = ('\u{e000}', '\u{e001}');

/// A rendered task file.
#[derive(Clone, Debug)]
pub struct RenderedTask {
    /// The rendered text, under the file's name.
    pub source: SourceText,
    /// The file as it was written; `None` if rendering changes nothing.
    written: Option<TemplateSource>,
    /// What the user should know: sentences without a full stop.
    pub warnings: Vec<String>,
}

#[derive(Clone, Debug)]
struct TemplateSource {
    source: SourceText,
    /// For each line of the rendered text, from 0, where it came from.
    lines: Vec<Origin>,
}

/// Renders a task file. `include` gives the text of a file that the template includes, by its name.
///
/// # Errors
/// Faults of the template, and variables without a value.
pub fn render(
    source: SourceText,
    arguments: &Arguments,
    include: &dyn Fn(&str) -> Result<String, String>,
) -> Result<RenderedTask, RejectedFile> {
    if !["{{", "{%", "{#"].iter().any(|mark| source.text.contains(mark)) {
        // Rally renders it, too, and Jinja2 does not keep the end of the last line: a text block there loses it.
        let text = source.text.strip_suffix('\n').unwrap_or(&source.text).to_owned();
        return Ok(RenderedTask::plain(SourceText { text, ..source }));
    }
    let whole = match included::whole(&source.text, include) {
        Ok(whole) => whole,
        Err((line, message)) => {
            let help = "check the name; it counts from the task file's directory";
            let fault = Fault::error(line_span(&source.text, line), message).help(help);
            return Err(RejectedFile { source, faults: vec![fault] });
        }
    };
    let fail = |error: DocumentError| {
        let origin = error.line.and_then(|line| whole.origins.get(line.checked_sub(1)?));
        let message = format!("the template of this task: {}", error.what);
        let fault = match origin {
            Some(origin) => Fault::error(line_span(&source.text, origin.line), origin.named(message)),
            None => Fault::file(message),
        };
        Err(RejectedFile { source: source.clone(), faults: vec![fault.help("correct the template")] })
    };
    let document = match DocumentTemplate::compile(&whole.text) {
        Ok(document) => document,
        Err(error) => return fail(error),
    };
    let (missing, empty_names) = match missing(&document, arguments, &whole) {
        Ok(names) => names,
        Err(error) => return fail(error),
    };
    if !missing.is_empty() {
        return Err(RejectedFile { faults: faults_of_missing(&missing, &source.text, arguments), source });
    }
    let plain = match document.render(arguments.variables()) {
        Ok(text) => text,
        Err(error) => return fail(error),
    };
    if plain.len() > yaml::BYTES_MAX {
        let fault = Fault::file("the rendered task is larger than 1 MiB").help("shorten its loops");
        return Err(RejectedFile { source, faults: vec![fault] });
    }
    let lines = lines(&whole, &plain, arguments);
    let empty = |name| {
        format!("the argument `{name}`, which an included file uses, is not given and is empty, as in Rally")
    };
    let unseen = whole.unseen.iter().map(|(file, name)| {
        format!(
            "`{name}` is empty in `{file}`: as in Rally, an imported file sees neither the task's variables nor its \
             arguments, unless it is imported `with context`"
        )
    });
    let warnings = empty_names.into_iter().map(empty).chain(unseen).collect();
    let rendered = SourceText { text: plain, ..source.clone() };
    Ok(RenderedTask { source: rendered, written: Some(TemplateSource { source, lines }), warnings })
}

impl RenderedTask {
    /// A task whose text is used as it is.
    #[must_use]
    pub fn plain(source: SourceText) -> Self {
        Self { source, written: None, warnings: Vec::new() }
    }

    /// Faults of the rendered text at their places in the file.
    #[must_use]
    pub fn at_home(&self, rejected: RejectedFile) -> RejectedFile {
        let Some(written) = &self.written else { return rejected };
        let RejectedFile { source: rendered, faults } = rejected;
        if written.lines.is_empty() {
            let name = format!("{} as it is rendered", rendered.name);
            return RejectedFile { source: SourceText { name, ..rendered }, faults };
        }
        let places = Places { written, rendered: &rendered.text };
        let mut shown = SourceVisibility {
            public: rendered.shown.public.iter().filter_map(|span| places.exact(span)).collect(),
            secret: rendered.shown.secret.iter().filter_map(|span| places.exact(span)).collect(),
        };
        let at_home = |fault: Fault| match fault.span.clone() {
            None => fault,
            Some(span) => Fault {
                span: Some(places.nearest(&span)),
                message: places.origin(span.start).named(fault.message),
                ..fault
            },
        };
        let faults: Vec<Fault> = faults.into_iter().map(at_home).collect();
        // A statement that names a file is no secret.
        let spans = faults.iter().filter_map(|fault| fault.span.clone());
        shown.public.extend(spans.filter(|span| included::names_a_file(&written.source.text[span.clone()])));
        RejectedFile { source: SourceText { shown, ..written.source.clone() }, faults }
    }
}

/// Where parts of the rendered text stand in the file.
struct Places<'a> {
    written: &'a TemplateSource,
    rendered: &'a str,
}

type TemplateRange = std::ops::Range<usize>;

impl Places<'_> {
    /// The place of a part of a line that rendering did not change.
    fn exact(&self, span: &TemplateRange) -> Option<TemplateRange> {
        let start = span.start.min(self.rendered.len());
        let line_start = self.rendered[..start].rfind('\n').map_or(0, |at| at + 1);
        let line = self.rendered[line_start..].split('\n').next().unwrap_or_default();
        let end = span.end.min(line_start + line.len());
        let home = self.home(line_start);
        let same = self.origin(line_start).within.is_none()
            && self.written.source.text.get(home.clone()) == Some(line);
        (same && end >= start).then(|| home.start + start - line_start..home.start + end - line_start)
    }

    /// That place, or the whole line.
    fn nearest(&self, span: &TemplateRange) -> TemplateRange {
        self.exact(span).unwrap_or_else(|| {
            let start = span.start.min(self.rendered.len());
            let home = self.home(start);
            let line = &self.written.source.text[home.clone()];
            home.start + line.len() - line.trim_start().len()..home.start + line.trim_end().len()
        })
    }

    /// Where the rendered line at this byte came from.
    fn origin(&self, at: usize) -> Origin {
        let number = self.rendered[..at.min(self.rendered.len())].matches('\n').count();
        let origin = self.written.lines.get(number).or(self.written.lines.last());
        origin.cloned().unwrap_or(Origin { line: 0, within: None })
    }

    /// The line of the task's file from which it came.
    fn home(&self, at: usize) -> TemplateRange {
        line_span(&self.written.source.text, self.origin(at).line)
    }
}

/// The bytes of a line, counted from 0, without its end.
fn line_span(text: &str, line: usize) -> TemplateRange {
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
/// for which it has a default, is not needed, and one that only included files use is empty: those come second.
fn missing(
    document: &DocumentTemplate,
    arguments: &Arguments,
    whole: &JoinedTemplate,
) -> Result<(BTreeSet<String>, BTreeSet<String>), DocumentError> {
    let has_default = |name: &str| has_default(&whole.text, name);
    let needed = document.variables().iter().filter(|name| !arguments.has(name) && !has_default(name));
    let needed: BTreeSet<String> = needed.cloned().collect();
    if needed.is_empty() || whole.own == whole.text {
        return Ok((needed, BTreeSet::new()));
    }
    let own = DocumentTemplate::compile(&whole.own)?;
    Ok(needed.into_iter().partition(|name| own.variables().contains(name)))
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

/// For each line of the rendered text, where it came from; empty if that cannot be told.
fn lines(whole: &JoinedTemplate, plain: &str, arguments: &Arguments) -> Vec<Origin> {
    if whole.text.contains([MARK.0, MARK.1]) {
        return Vec::new();
    }
    let Ok(document) = DocumentTemplate::compile(&marked(&whole.text)) else { return Vec::new() };
    let Ok(marked) = document.render(arguments.variables()) else { return Vec::new() };
    let (unmarked, lines) = unmarked(&marked);
    if unmarked != plain {
        return Vec::new();
    }
    lines.into_iter().filter_map(|line| whole.origins.get(line).cloned()).collect()
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

    fn rendered(text: &str, arguments: &str) -> Result<RenderedTask, RejectedFile> {
        let mut given = Arguments::default();
        given.add_text(arguments).unwrap();
        let include = |name: &str| {
            match name {
            "part.yaml" => Ok("  part: {{ n }}\n".to_owned()),
            "macros.yaml" => Ok("{% macro runner(times=1) %}\n  constant:\n    times: {{ times }}\n    wrong: {{ nobody }}\n{%- if caller is defined %}\n    inner: {{ caller() }}\n{%- endif %}\n{% endmacro %}\n{% set k = 'v' %}\nunused".to_owned()),
            _ => Err("no such file".to_owned()),
        }
        };
        render(SourceText::new("task.yaml", text), &given, &include)
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
            let home =
                rendered.at_home(RejectedFile { source: rendered.source.clone(), faults: vec![fault] });
            assert_eq!(&home.source.text[home.faults[0].span.clone().unwrap()], expected, "{part}");
        }
    }

    #[test]
    fn faults_in_included_files_name_file_and_line() {
        let text = "a: 1\n{% from 'macros.yaml' import runner %}\nrunner:\n  {{- runner(3) }}\n";
        let rendered = rendered(text, "{n: 2}").ok().unwrap();
        let at = rendered.source.text.find("wrong").unwrap();
        let rejected =
            RejectedFile { source: rendered.source.clone(), faults: vec![Fault::error(at..at + 5, "no")] };
        let home = rendered.at_home(rejected);
        let fault = &home.faults[0];
        assert_eq!(fault.message, "no (line 4 of macros.yaml)");
        assert!(home.source.text[fault.span.clone().unwrap()].starts_with("{% from"));
        let shown = text::diagnostics::render(&home.source, &home.faults, false);
        assert!(shown.contains("{% from 'macros.yaml' import runner %}"), "{shown}");
        assert!(rendered.warnings[0].contains("`nobody`"), "{:?}", rendered.warnings);
    }

    #[test]
    fn faults_of_templates_name_line_and_remedy() {
        for (text, arguments, expected) in [
            ("a: {{ x }}\nb: {{ y }}", "{x: 1}", "the task needs the argument `y`"),
            ("a: {{ x y }}", "{}", "the template of this task: syntax error"),
            ("a\n{% include 'nobody.yaml' %}", "{}", "cannot include `nobody.yaml`: no such file"),
            ("{% import 'm.yaml' as m %}", "{}", "cannot include `m.yaml`: no such file"),
            ("{% extends 'm.yaml' %}", "{}", "`extends` is not supported"),
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
            (
                "{% from 'macros.yaml' import runner as r, k -%}\na:{{ r(n) }}b: {{ k }}",
                "a:\n  constant:\n    times: 7\n    wrong: \nb: v",
            ),
            (
                "{% import 'macros.yaml' as m -%} a:{{ m.runner(2) }}b: {{ m.k }}",
                "a:\n  constant:\n    times: 2\n    wrong: \nb: v",
            ),
            (
                "{% from 'macros.yaml' import runner -%} a:{% call runner() %}c{% endcall %}",
                "a:\n  constant:\n    times: 1\n    wrong: \n    inner: c",
            ),
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
                let home = rendered.at_home(RejectedFile {
                    faults: vec![Fault::error(0..rendered.source.text.len(), "x")],
                    source: rendered.source.clone(),
                });
                prop_assert!(home.source.text.get(home.faults[0].span.clone().unwrap()).is_some());
            }
        }
    }
}
