//! Whole documents as templates, such as Rally's task files: as forgiving as Jinja2, and bounded like every template.
//!
//! Unlike in [`super::Engine`], a variable without a value is false, and an empty text where it is printed. The caller
//! finds out first which variables have none.

use std::collections::BTreeSet;
use std::sync::Arc;

use minijinja::machinery::{CodeGenerator, WhitespaceConfig, parse};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error, UndefinedBehavior};

use super::allowance;
use super::guarded::Rewriter;
use super::{
    Code, CompiledText, GLOBALS, TemplateError, Value, Variables, bounded, builtins, numbers, python,
    unfolded,
};

/// Functions that the templates of Rally's task files have.
const FUNCTIONS: [&str; 4] = ["min", "max", "ceil", "round"];
/// What a macro has of its own.
const OF_MACROS: [&str; 1] = ["caller"];

/// A compiled document.
pub struct DocumentTemplate {
    text: CompiledText,
    /// The names that it does not define itself.
    names: BTreeSet<String>,
}

/// Why a document cannot be compiled or rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentError {
    /// What is wrong: a single line.
    pub what: String,
    /// The line, from 1, if it is known.
    pub line: Option<usize>,
}

impl From<TemplateError> for DocumentError {
    fn from(TemplateError(what): TemplateError) -> Self {
        Self { what, line: None }
    }
}

impl From<Error> for DocumentError {
    fn from(error: Error) -> Self {
        let line = error.line();
        let TemplateError(what) = error.into();
        Self { what, line }
    }
}

impl DocumentTemplate {
    /// Compiles a document.
    ///
    /// # Errors
    /// A syntax error, a statement that needs other files, or an exceeded limit.
    pub fn compile(text: &str) -> Result<Self, DocumentError> {
        bounded(text)?.with_room(|| Self::compiled(text))
    }

    fn compiled(text: &str) -> Result<Self, DocumentError> {
        allowance::renew();
        let environment: &'static Environment<'static> = Box::leak(Box::new(environment()));
        // Leaked like the sources of an engine; the size of a document is bounded by its reader.
        let source: &'static str = Box::leak(text.to_owned().into_boxed_str());
        let unfolded = unfolded(source);
        let names = environment.template_from_str(&unfolded)?.undeclared_variables(false);
        let parsed = parse(source, "the document", SyntaxConfig, WhitespaceConfig::default())?;
        let mut generator = CodeGenerator::new("the document", source);
        let mut rewriter = Rewriter { lists_grow: true, ..Rewriter::default() };
        generator.compile_stmt(&rewriter.statement(&parsed));
        if let Some(statement) = rewriter.refused {
            let what = format!("the statement `{statement}` is not supported");
            return Err(DocumentError { what, line: line_of(source, statement) });
        }
        let (instructions, _) = generator.finish();
        let own = |name: &String| {
            !GLOBALS
                .iter()
                .chain(&FUNCTIONS)
                .chain(&python::FUNCTIONS)
                .chain(&OF_MACROS)
                .any(|known| known == name)
        };
        let declared: BTreeSet<String> = names.iter().filter(|name| own(name)).cloned().collect();
        let text = CompiledText::Template(Code::new(environment, (instructions, source), names));
        Ok(Self { text, names: declared })
    }

    /// The variables that it uses and does not define.
    #[must_use]
    pub fn variables(&self) -> &BTreeSet<String> {
        &self.names
    }

    /// The document with these variables.
    ///
    /// # Errors
    /// An expression that fails, or an exceeded limit.
    pub fn render(&self, variables: Vec<(Arc<str>, Value)>) -> Result<String, DocumentError> {
        let mut output = String::new();
        allowance::renew();
        let rendered = self.text.code_value(&Variables::new(Arc::new(variables)), &mut output);
        allowance::renew();
        rendered?;
        Ok(output)
    }
}

/// The line of the first such statement.
fn line_of(source: &str, statement: &str) -> Option<usize> {
    let is_it = |line: &&str| {
        line.match_indices("{%")
            .any(|(at, _)| line[at + 2..].trim_start_matches(['-', '+', ' ']).starts_with(statement))
    };
    source.lines().position(|line| is_it(&line)).map(|index| index + 1)
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_formatter(|output, state, value| {
        allowance::made(value)?;
        // As Python prints it.
        let python = if value.is_none() { Some(Value::from("None")) } else { None };
        minijinja::escape_formatter(output, state, python.as_ref().unwrap_or(value))
    });
    let usual = Environment::new();
    for (name, value) in usual.globals().filter(|(name, _)| GLOBALS.contains(name)) {
        environment.add_global(name.to_owned(), value);
    }
    builtins::install(&mut environment, numbers::TextNotation::Python);
    environment.set_fuel(Some(allowance::STEPS_MAX));
    python::install(&mut environment);
    environment.add_function("min", |left: f64, right: f64| whole(left.min(right)));
    environment.add_function("max", |left: f64, right: f64| whole(left.max(right)));
    environment.add_function("ceil", |number: f64| whole(number.ceil()));
    environment.add_function("round", |number: f64| whole(number.round_ties_even()));
    environment
}

/// A number without a fraction if it has none.
fn whole(number: f64) -> Value {
    const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT_MAX {
        return Value::from(number as i64);
    }
    Value::from(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn render(text: &str) -> Result<String, DocumentError> {
        let variables = [("n", Value::from(3)), ("who", Value::from("a,b")), ("none", Value::from(()))];
        let map = Value::from_serialize(serde_json::json!({ "k": "v" }));
        let variables = variables.into_iter().chain([("map", map)]);
        DocumentTemplate::compile(text)?
            .render(variables.map(|(name, value)| (Arc::from(name), value)).collect())
    }

    #[test]
    fn documents_are_rendered_as_jinja2_does() {
        for (text, expected) in [
            ("times: {{ n }}\nplain: { x }", "times: 3\nplain: { x }"),
            ("{% set x = x or 'd' %}{{ x }}{% set n = n or 9 %}{{ n }}", "d3"),
            ("{{ missing | default(5) }}[{{ missing }}]", "5[]"),
            ("{% for i in range(2) %}- {{ i }}\n{% endfor %}", "- 0\n- 1\n"),
            (
                "{{ min(n, 2) }} {{ max(n, 2.5) }} {{ ceil(2.1) }} {{ round(2.5) }} {{ round(n * 1.2) }}",
                "2 3 3 2 4",
            ),
            (
                "{{ who.split(',') }} {{ who.upper() }} {{ ' x '.strip() }}{{ who.startswith('a') }}",
                "[\"a\", \"b\"] A,B xTrue",
            ),
            (
                "{{ map.get('k') }}{{ map.get('x', 1) }}{{ map.keys() }}{% for k, v in map.items() %}{{ k }}{{ v }}{% endfor %}",
                "v1[\"k\"]kv",
            ),
            ("{{ none }}", "None"),
            // Jinja2 3.1.4 with its extension `do` gives the same.
            (
                "{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}",
                "abba",
            ),
            ("{% set comma = joiner(', ') %}{{ comma() }}a{{ comma() }}b{{ comma() }}c", "a, b, c"),
            ("{{ dict(a=1).a }}{% set n = namespace(v=1) %}{{ n.v }}", "11"),
            ("{{ '%s-%03d' % ('vm', 7) }} {{ '%s' % 'x' }} {{ '%d%%' % 5 }} {{ 7 % 4 }}", "vm-007 x 5% 3"),
            (
                "{{ '{}-{}'.format('vm', 7) }} {{ '{1}{0}{x}'.format(1, 2, x=3) }} {{ '{{}}'.format() }}",
                "vm-7 213 {}",
            ),
            (
                "{{ '{:03d}|{:>4}|{:*^5}|{:.2f}|{:<3}|'.format(7, 'a', 'b', 1.005, 'c') }}",
                "007|   a|**b**|1.00|c  |",
            ),
            ("{{ 'x'|int(5) }} {{ 'x'|int }} {{ '7'|int(5) }} {{ none|int(3) }} {{ 3.9|int }}", "5 0 7 3 3"),
            ("{{ [[1], [2]]|sum(start=[])|join }} {{ [1, 2]|sum }} {{ [1, 2]|sum(start=3) }}", "12 3 6"),
            ("{{ [{'a': 1}, {'a': 2}]|sum(attribute='a') }}", "3"),
            ("{% set l = [1] %}{% set _ = l.append(2) %}{{ l|join }} {{ l|length }} {{ l[1] }}", "12 2 2"),
            (
                "{% set l = [] %}{% for i in range(3) %}{% do l.append(i) %}{% endfor %}{{ l|join(',') }}",
                "0,1,2",
            ),
            (
                "{% set l = [3, 1] %}{% do l.extend([2]) %}{% do l.insert(0, 9) %}{{ l.pop() }}{{ l|sort|join }}",
                "2139",
            ),
            // But for this one: what is put into a list is copied, so that no list contains itself.
            (
                "{% set l = [1] %}{% do l.append(l) %}{{ l|length }}{{ l + [2] }}{{ 1 in l }}",
                "2[1, [1], 2]True",
            ),
            (
                "{{ 'a-b'.count('-') }}{{ 'xay'.strip('xy') }}{{ '7'.zfill(3) }}{{ '12'.isdigit() }}",
                "1a007True",
            ),
            ("{{ 'a,b'.split(',')[1] }} {{ 'b'.upper() }} {{ 7 // 2 }} {{ [1, 2, 1].count(1) }}", "b B 3 2"),
            ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(1) }}{{ m(2) }}", "<1><2>"),
            ("{# no #}{% raw %}{{ x }}{% endraw %}", "{{ x }}"),
        ] {
            assert_eq!(render(text).unwrap_or_else(|error| panic!("{text}: {error:?}")), expected, "{text}");
        }
    }

    #[test]
    fn faults_have_their_lines() {
        for (text, line, part) in [
            ("a\n{{ x y }}", Some(2), "syntax error"),
            ("a\n\n{% include 'x' %}", Some(3), "`include` is not supported"),
            ("a\n{{ n.x.y }}", Some(2), "undefined"),
            ("{{ who.nothing() }}", Some(1), "no method `nothing`"),
            ("{{ '{}'.format() }}", Some(1), "there is no value for {}"),
            ("{{ '{'.format() }}", Some(1), "a brace has no partner"),
            ("{{ '{:e}'.format(1) }}", Some(1), "`e` is not supported"),
            ("{{ [].pop() }}", Some(1), "an index that is not there"),
            ("{{ cycler() }}", Some(1), "at least one item"),
            ("\n{{ 'x' * 100000000000 }}", Some(2), "exceeds a limit"),
            (
                "{% for i in range(9000) %}{% for j in range(9000) %}{{ j }}{% endfor %}{% endfor %}",
                None,
                "limit",
            ),
        ] {
            let error = render(text).unwrap_err();
            assert!(error.what.contains(part), "{text}: {error:?}");
            assert!(line.is_none() || error.line == line, "{text}: {error:?}");
        }
    }

    #[test]
    fn variables_without_a_definition_are_listed() {
        let document =
            DocumentTemplate::compile("{{ a }}{% set b = 1 %}{{ b }}{{ range(c) }}{{ min(1, 2) }}").unwrap();
        assert_eq!(document.variables().iter().map(String::as_str).collect::<Vec<_>>(), ["a", "c"]);
    }

    proptest! {
        #[test]
        fn no_document_makes_it_panic(text in "[-a-z0-9:{}%#|.*()'\" \n]{0,120}") {
            let _ = render(&text);
        }
    }
}
