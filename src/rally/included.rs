//! Puts files into the template of a task in the places where it includes or imports them.
//!
//! As in Jinja2, what an included file sets stays in it. Of an imported file, only macros and variables are used, not
//! its text. It does not see the task's variables, unless it is imported `with context`. What is in the text knows from
//! which line of which file it came.

use std::collections::BTreeSet;
use std::sync::Arc;

use text::template::document::DocumentTemplate;
use text::yaml;

/// How many files may be included, each counted as often as it is.
const FILES_MAX: usize = 100;
/// The variable that takes an imported file's text, which is not used.
const UNUSED: &str = "text_of_imported";

/// A template with its files.
pub(super) struct JoinedTemplate {
    pub(super) text: String,
    /// For each line of the text.
    pub(super) origins: Vec<Origin>,
    /// The task's own text, in which statements that set the imported names stand for those that import them.
    pub(super) own: String,
    /// Variables that are empty in a file because it is imported without those around it: file and name.
    pub(super) unseen: BTreeSet<(String, String)>,
}

/// Where a line came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// The line of the task's file, from 0.
    pub(super) line: usize,
    /// The file that it includes there, and the line of that, from 0.
    pub(super) within: Option<(Arc<str>, usize)>,
}

impl Origin {
    /// A message about the line; it says in which file it is, if that is not the task's own.
    pub(super) fn named(&self, message: String) -> String {
        match &self.within {
            Some((file, line)) => format!("{message} (line {} of {file})", line + 1),
            None => message,
        }
    }
}

/// A line of the task's file, from 0, and what is wrong there.
pub(super) type LineFault = (usize, String);

/// A statement that names another file, and whether that sees the variables around the statement.
struct InclusionStatement<'t> {
    file: &'t str,
    with_context: bool,
    what: InclusionKind<'t>,
}

enum InclusionKind<'t> {
    Include { may_be_missing: bool },
    Import { name: &'t str },
    From { names: Vec<(&'t str, &'t str)> },
}

/// The template with its files; `read` gives the text of one by its name.
pub(super) fn whole(
    text: &str,
    read: &dyn Fn(&str) -> Result<String, String>,
) -> Result<JoinedTemplate, LineFault> {
    let first = Origin { line: 0, within: None };
    let mut joiner = Joiner {
        read,
        files: 0,
        text: String::new(),
        origins: vec![first],
        own: String::new(),
        unseen: BTreeSet::new(),
    };
    joiner.add(text, None, 0)?;
    let Joiner { text, origins, own, unseen, .. } = joiner;
    Ok(JoinedTemplate { text, origins, own, unseen })
}

struct Joiner<'a> {
    read: &'a dyn Fn(&str) -> Result<String, String>,
    files: usize,
    text: String,
    origins: Vec<Origin>,
    own: String,
    unseen: BTreeSet<(String, String)>,
}

impl Joiner<'_> {
    /// Adds a text: that of a file which the task includes in its line `home`, or the task's own.
    fn add(&mut self, text: &str, file: Option<&Arc<str>>, home: usize) -> Result<(), LineFault> {
        let origin = |line: usize| match file {
            None => Origin { line, within: None },
            Some(file) => Origin { line: home, within: Some((Arc::clone(file), line)) },
        };
        if let Some(current) = self.origins.last_mut() {
            *current = origin(0);
        }
        let (mut line, mut rest) = (0, text);
        while !rest.is_empty() {
            let length = tag_length(rest);
            let (part, after) = rest.split_at(length.unwrap_or_else(|| to_next_tag(rest)));
            rest = after;
            if let Some(statement) = length.and_then(|_| statement(part)) {
                let home = if file.is_some() { home } else { line };
                if file.is_none() {
                    self.own.push_str(&statement.names_only());
                }
                self.expand(&statement, part, home)?;
                line += part.matches('\n').count();
                continue;
            }
            if file.is_none() {
                self.own.push_str(part);
            }
            self.text.push_str(part);
            for _ in part.matches('\n') {
                line += 1;
                self.origins.push(origin(line));
            }
        }
        if self.text.len() > yaml::BYTES_MAX {
            return Err((home, "the task is larger than 1 MiB with what it includes".to_owned()));
        }
        Ok(())
    }

    fn expand(
        &mut self,
        statement: &InclusionStatement<'_>,
        tag: &str,
        home: usize,
    ) -> Result<(), LineFault> {
        self.files += 1;
        if self.files > FILES_MAX {
            return Err((home, format!("the task includes more than {FILES_MAX} files")));
        }
        let file = statement.file;
        let content = match (self.read)(file) {
            Err(_) if matches!(statement.what, InclusionKind::Include { may_be_missing: true }) => {
                String::new()
            }
            read => read.map_err(|why| (home, format!("cannot include `{file}`: {why}")))?,
        };
        // As Jinja2 does.
        let content = content.strip_suffix('\n').unwrap_or(&content);
        // Blanks beside the statement go where it says so; blanks of the file stay.
        let (open, close) = (if tag.starts_with("{%-") { "{%-" } else { "{%" }, close_of(tag));
        let unseen = if statement.with_context { Vec::new() } else { unseen(content) };
        let (before, after) = statement.around(content, self.files, &unseen);
        let is_empty = |name: &String| !has_default(content, name);
        self.unseen.extend(unseen.into_iter().filter(is_empty).map(|name| (file.to_owned(), name)));
        self.text.extend([open, &before]);
        self.add(content, Some(&Arc::from(file)), home)?;
        self.text.extend([&after.join("%}"), close]);
        Ok(())
    }
}

impl InclusionStatement<'_> {
    /// The template code before and after the text of a file: the rest of the statement that is open, and the beginnings of
    /// those that follow. `number` tells imported files apart.
    fn around(&self, content: &str, number: usize, unseen: &[String]) -> (String, Vec<String>) {
        let hides: Vec<String> = unseen.iter().map(|name| format!("{name}=({{}}).unseen")).collect();
        if let InclusionKind::Include { .. } = self.what {
            let space = if hides.is_empty() { "" } else { " " };
            return (format!(" with {}{space}%}}", hides.join(", ")), vec!["{% endwith ".to_owned()]);
        }
        let mut statements = vec!["{% endset ".to_owned()];
        if hides.is_empty() {
            let renamed = self.names(content).into_iter().filter(|(own, value)| own != value);
            statements.extend(renamed.map(|(own, value)| format!("{{% set {own} = {value} ")));
            return (format!(" set {UNUSED} %}}"), statements);
        }
        // What is set within `with` stays there, but for what a namespace holds.
        let held = format!("imported_{number}");
        let names = self.names(content);
        statements.extend(names.iter().map(|(own, value)| format!("{{% set {held}.{own} = {value} ")));
        statements.push("{% endwith ".to_owned());
        statements.extend(names.iter().map(|(own, _)| format!("{{% set {own} = {held}.{own} ")));
        let hides = hides.join(", ");
        (format!(" set {held} = namespace() %}}{{% with {hides} %}}{{% set {UNUSED} %}}"), statements)
    }

    /// The names that an import defines, each with its value.
    fn names(&self, content: &str) -> Vec<(String, String)> {
        match &self.what {
            InclusionKind::Include { .. } => Vec::new(),
            InclusionKind::Import { name } => {
                let pairs: Vec<String> =
                    defined(content).iter().map(|name| format!("{name}={name}")).collect();
                vec![((*name).to_owned(), format!("namespace({})", pairs.join(", ")))]
            }
            InclusionKind::From { names } => {
                names.iter().map(|(name, own)| ((*own).to_owned(), (*name).to_owned())).collect()
            }
        }
    }

    /// Statements that set the same names.
    fn names_only(&self) -> String {
        let set = |name: &str| format!("{{% set {name} = 0 %}}");
        match &self.what {
            InclusionKind::Include { .. } => String::new(),
            InclusionKind::Import { name } => set(name),
            InclusionKind::From { names } => names.iter().map(|(_, own)| set(own)).collect(),
        }
    }
}

/// The variables of a file that it does not set itself; none of one that names further files.
fn unseen(content: &str) -> Vec<String> {
    let Ok(document) = DocumentTemplate::compile(content) else { return Vec::new() };
    let defined = defined(content);
    document.variables().iter().filter(|name| !defined.contains(&name.as_str())).cloned().collect()
}

/// Whether a template sets a variable or has a default for it. What an imported file defines, other files of the task may
/// use.
pub(super) fn has_default(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let (before, after) = (text[..at].trim_end(), text[at + name.len()..].trim_start());
        let set = before.ends_with("set") && after.starts_with('=') || before.ends_with("macro");
        let filter = after.strip_prefix('|').map(str::trim_start);
        set || filter.is_some_and(|filter| filter.starts_with("default(") || filter.starts_with("d("))
    })
}

/// The end of a statement like that of this one.
fn close_of(tag: &str) -> &'static str {
    if tag.ends_with("-%}") { "-%}" } else { "%}" }
}

/// True for a tag that names another file.
pub(super) fn names_a_file(tag: &str) -> bool {
    statement(tag.trim()).is_some()
}

/// The statement of a tag, if it names another file.
fn statement(tag: &str) -> Option<InclusionStatement<'_>> {
    let inner = tag.strip_prefix("{%")?.strip_suffix("%}")?;
    let inner = inner.trim_start_matches(['-', '+']).trim_end_matches(['-', '+']).trim();
    let (word, rest) = inner.split_at(inner.find(|c: char| !c.is_alphanumeric())?);
    let (file, rest) = quoted(rest.trim_start())?;
    let rest = rest.trim();
    let (rest, context) = match (rest.strip_suffix("with context"), rest.strip_suffix("without context")) {
        (_, Some(rest)) => (rest.trim(), Some(false)),
        (Some(rest), None) => (rest.trim(), Some(true)),
        (None, None) => (rest, None),
    };
    let what = match word {
        "include" if rest.is_empty() => InclusionKind::Include { may_be_missing: false },
        "include" if rest == "ignore missing" => InclusionKind::Include { may_be_missing: true },
        "import" => InclusionKind::Import {
            name: Some(rest.strip_prefix("as")?.trim()).filter(|name| is_name(name))?,
        },
        "from" => {
            let list = rest.strip_prefix("import")?.trim().trim_end_matches(',');
            InclusionKind::From {
                names: list.split(',').map(|item| pair(item.trim())).collect::<Option<Vec<_>>>()?,
            }
        }
        _ => return None,
    };
    let with_context = context.unwrap_or(matches!(what, InclusionKind::Include { .. }));
    Some(InclusionStatement { file, with_context, what })
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// A name, and what it is called here: `a` or `a as b`.
fn pair(item: &str) -> Option<(&str, &str)> {
    let (name, own) = match item.split_once(char::is_whitespace) {
        Some((name, rest)) => (name, rest.trim_start().strip_prefix("as")?.trim_start()),
        None => (item, item),
    };
    (is_name(name) && is_name(own)).then_some((name, own))
}

/// A text in quotes at the beginning of another, and what follows.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    text[1..].split_once(quote)
}

/// The macros and variables that a text defines.
fn defined(text: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let length = tag_length(rest);
        let (part, after) = rest.split_at(length.unwrap_or_else(|| to_next_tag(rest)));
        rest = after;
        let Some(inner) = part.strip_prefix("{%").filter(|_| length.is_some()) else { continue };
        let inner = inner.trim_start_matches(['-', '+']).trim_start();
        let Some((word, behind)) = inner.split_once(char::is_whitespace) else { continue };
        let behind = behind.trim_start();
        let end = behind.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(behind.len());
        let name = &behind[..end];
        if matches!(word, "macro" | "set") && !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The text with `0` for each expression, and with only the line breaks of its statements and comments.
pub(super) fn without_tags(text: &str) -> String {
    let (mut output, mut rest) = (String::with_capacity(text.len()), text);
    while !rest.is_empty() {
        let length = tag_length(rest);
        let (part, after) = rest.split_at(length.unwrap_or_else(|| to_next_tag(rest)));
        rest = after;
        match length {
            None => output.push_str(part),
            Some(_) if part.starts_with("{{") => output.push('0'),
            Some(_) => output.extend(part.chars().filter(|c| *c == '\n')),
        }
    }
    output
}

/// True if the text includes other files.
pub(super) fn includes_files(text: &str) -> bool {
    let (mut rest, mut found) = (text, false);
    while !rest.is_empty() && !found {
        let length = tag_length(rest);
        let (part, after) = rest.split_at(length.unwrap_or_else(|| to_next_tag(rest)));
        rest = after;
        found = length.is_some()
            && matches!(
                statement(part),
                Some(InclusionStatement { what: InclusionKind::Include { .. }, .. })
            );
    }
    found
}

/// How far it is to the next tag, at least a character.
fn to_next_tag(text: &str) -> usize {
    let first = text.chars().next().map_or(0, char::len_utf8);
    let at = |mark: &str| text[first..].find(mark);
    [at("{{"), at("{%"), at("{#")].into_iter().flatten().min().map_or(text.len(), |at| at + first)
}

/// The length of the tag at the start of a text. Raw text counts to the statement that ends it.
pub(super) fn tag_length(text: &str) -> Option<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(text: &str) -> Result<JoinedTemplate, LineFault> {
        whole(text, &|name| match name {
            "part.yaml" => Ok("one\ntwo\n".to_owned()),
            "outer.yaml" => Ok("{% include 'part.yaml' %}".to_owned()),
            "macros.yaml" => Ok("{% macro a(x) %}<{{ x }}>{% endmacro %}{%- set b = 2 %}\nunused".to_owned()),
            "endless.yaml" => Ok("{% include 'endless.yaml' %}".to_owned()),
            _ => Err("no such file".to_owned()),
        })
    }

    #[test]
    fn files_take_the_places_of_statements() {
        for (text, expected, own) in [
            ("a", "a", "a"),
            ("a {%- include \"part.yaml\" -%} b", "a {%- with %}one\ntwo{% endwith -%} b", "a  b"),
            ("{% include 'nobody.yaml' ignore missing %}", "{% with %}{% endwith %}", ""),
            (
                "{% include 'outer.yaml' with context %}",
                "{% with %}{% with %}one\ntwo{% endwith %}{% endwith %}",
                "",
            ),
            (
                "{% from 'macros.yaml' import a, b as c -%}",
                "{% set text_of_imported %}{% macro a(x) %}<{{ x }}>{% endmacro %}{%- set b = 2 %}\nunused{% endset %}{% set c = b -%}",
                "{% set a = 0 %}{% set c = 0 %}",
            ),
            (
                "{% import 'macros.yaml' as m %}",
                "{% set text_of_imported %}{% macro a(x) %}<{{ x }}>{% endmacro %}{%- set b = 2 %}\nunused{% endset %}{% set m = namespace(a=a, b=b) %}",
                "{% set m = 0 %}",
            ),
            (
                "{# {% include 'x' %} #}{% raw %}{% include 'x' %}{% endraw %}{{ \"{% include 'x' %}\" }}",
                "{# {% include 'x' %} #}{% raw %}{% include 'x' %}{% endraw %}{{ \"{% include 'x' %}\" }}",
                "{# {% include 'x' %} #}{% raw %}{% include 'x' %}{% endraw %}{{ \"{% include 'x' %}\" }}",
            ),
            ("{% include name %}", "{% include name %}", "{% include name %}"),
        ] {
            let whole = joined(text).ok().unwrap();
            assert_eq!((whole.text.as_str(), whole.own.as_str()), (expected, own), "{text}");
            assert_eq!(whole.origins.len(), whole.text.split('\n').count(), "{text}");
        }
    }

    /// What Jinja2 3.1.6 makes of these.
    #[test]
    fn an_imported_file_does_not_see_the_tasks_variables() {
        let read = |name: &str| match name {
            "free.yaml" => Ok("{% macro f() %}[{{ y }}]{% endmacro %}{% set z = y|default(3) %}\
                               {% macro h(y) %}<{{ y }}{{ f() }}>{% endmacro %}"
                .to_owned()),
            _ => Ok("[{{ y }}]\n".to_owned()),
        };
        for (statements, expected) in [
            ("{% from 'free.yaml' import f %}{{ f() }}{{ y }}", "[]1"),
            ("{% from 'free.yaml' import f with context %}{{ f() }}", "[1]"),
            (
                "{% from 'free.yaml' import f, z as q %}{% macro g() %}{{ y }}{% endmacro %}{{ g() }}{{ f() }}{{ q }}",
                "1[]3",
            ),
            ("{% import 'free.yaml' as m %}{{ m.f() }}{{ m.z }}{{ m.h(4) }}{{ y }}", "[]3<4[]>1"),
            ("{% include 'show.yaml' without context %}{{ y }}", "[]1"),
            ("{% include 'show.yaml' %}", "[1]"),
            (
                "{% from 'free.yaml' import f without context %}{% from 'free.yaml' import h %}{{ h(2) }}{{ f() }}",
                "<2[]>[]",
            ),
        ] {
            let text = format!("{{% set y = 1 %}}{statements}");
            let whole = whole(&text, &read).ok().unwrap();
            let rendered = DocumentTemplate::compile(&whole.text).unwrap().render(Vec::new()).unwrap();
            assert_eq!(rendered, expected, "{text}: {}", whole.text);
        }
    }

    #[test]
    fn lines_know_where_they_came_from() {
        let whole = joined("x\n  {% include 'outer.yaml' %}\ny").ok().unwrap();
        let origins: Vec<_> = whole
            .origins
            .iter()
            .map(|origin| (origin.line, origin.within.as_ref().map(|(file, line)| (&**file, *line))))
            .collect();
        let part = |line| (1, Some(("part.yaml", line)));
        assert_eq!(origins, [(0, None), part(0), part(1), (2, None)]);
    }

    #[test]
    fn what_cannot_be_included_is_named_with_its_line() {
        for (text, line, message) in [
            ("a\n{% include 'nobody.yaml' %}", 1, "cannot include `nobody.yaml`: no such file"),
            ("a\n{% from 'nobody.yaml' import a %}", 1, "cannot include `nobody.yaml`: no such file"),
            ("\n\n{% include 'endless.yaml' %}", 2, "more than 100 files"),
        ] {
            let (at, why) = joined(text).err().unwrap();
            assert!(at == line && why.contains(message), "{text}: {at} {why}");
        }
    }
}
