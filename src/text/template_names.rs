//! The filters and tests that a template uses: `{{ x | lower }}`, `{% if x is defined %}`.
//!
//! The engine looks up a filter only when it runs it, which may be hours into a load. To report unknown names before
//! the load, this module finds the names in the text and asks the engine whether it has them.

use minijinja::machinery::{Token as EngineToken, WhitespaceConfig, tokenize};
use minijinja::syntax::SyntaxConfig;

/// What follows `|` or `is`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateNameKind {
    /// After `|`.
    Filter,
    /// After `is`.
    Test,
}

impl TemplateNameKind {
    /// `filter` or `test`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Test => "test",
        }
    }

    /// The names that the engine has.
    #[must_use]
    pub fn known(self) -> &'static [&'static str] {
        match self {
            Self::Filter => &FILTERS,
            Self::Test => &TESTS,
        }
    }
}

const FILTERS: [&str; 55] = [
    "abs",
    "attr",
    "base64decode",
    "base64encode",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "format",
    "groupby",
    "hash",
    "hmac",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "md5",
    "min",
    "pprint",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "sha256",
    "slice",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "urlencode",
    "zip",
];

const TESTS: [&str; 33] = [
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "int",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "safe",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "true",
];

/// Whether a text calls a function of this name: `{{ name(…) }}`.
#[must_use]
pub fn calls(text: &str, name: &str) -> bool {
    let mut called = false;
    each_tag(text, |tokens| {
        called |= tokens.iter().enumerate().any(|(at, token)| {
            let before = at.checked_sub(1).map(|before| tokens[before]);
            *token == TagToken::Word(name)
                && tokens.get(at + 1) == Some(&TagToken::Sign('('))
                && !matches!(before, Some(TagToken::Sign('.' | '|')))
        });
    });
    called
}

/// Whether a text may use a variable of this name. The engine's own tokens decide, so nothing in the text can hide it,
/// not even a variable of the same name that the text itself sets.
#[must_use]
pub fn uses(text: &str, name: &str) -> bool {
    let mut after_sign = false;
    tokenize(text, false, SyntaxConfig, WhitespaceConfig::default()).map_while(Result::ok).any(
        |(token, _)| {
            let is_sign = matches!(token, EngineToken::Dot | EngineToken::Pipe);
            // `x.name` is a member, and `x | name` a filter.
            let is_other = std::mem::replace(&mut after_sign, is_sign);
            !is_other && matches!(token, EngineToken::Ident(word) if word == name)
        },
    )
}

/// The members of a variable that a text uses, `{{ name.member }}` or `{{ name['member'] }}`, except where it says what to
/// do without it.
#[must_use]
pub fn members<'t>(text: &'t str, name: &str) -> Vec<&'t str> {
    let mut found = Vec::new();
    each_tag(text, |tokens| {
        for (at, token) in tokens.iter().enumerate() {
            let before = at.checked_sub(1).map(|before| tokens[before]);
            if *token != TagToken::Word(name) || matches!(before, Some(TagToken::Sign('.' | '|'))) {
                continue;
            }
            let (member, after) = match tokens[at + 1..] {
                [TagToken::Sign('.'), TagToken::Word(member), ..] => (member, &tokens[at + 3..]),
                [TagToken::Sign('['), TagToken::Text(member), TagToken::Sign(']'), ..] => {
                    (member, &tokens[at + 4..])
                }
                _ => continue,
            };
            match after {
                [TagToken::Sign('('), ..] | [TagToken::Word("is"), ..] => {}
                [TagToken::Sign('|'), TagToken::Word("default" | "d"), ..] => {}
                _ => found.push(member),
            }
        }
    });
    found
}

/// The filters and tests that a text names literally.
#[must_use]
pub fn named(text: &str) -> Vec<(TemplateNameKind, &str)> {
    let mut found = Vec::new();
    each_tag(text, |tokens| names_of(tokens, &mut found));
    found
}

/// Calls `visit` with the tokens of each expression and statement, which are those that the engine sees.
fn each_tag<'t>(text: &'t str, mut visit: impl FnMut(&[TagToken<'t>])) {
    let mut tag = Vec::new();
    let tokens = tokenize(text, false, SyntaxConfig, WhitespaceConfig::default());
    for (token, _) in tokens.map_while(Result::ok) {
        match token {
            EngineToken::TemplateData(_) => {}
            EngineToken::VariableStart | EngineToken::BlockStart => tag.clear(),
            EngineToken::VariableEnd | EngineToken::BlockEnd => visit(&tag),
            EngineToken::Ident(word) => tag.push(TagToken::Word(word)),
            EngineToken::Str(text) => tag.push(TagToken::Text(text)),
            EngineToken::Pipe => tag.push(TagToken::Sign('|')),
            EngineToken::Dot => tag.push(TagToken::Sign('.')),
            EngineToken::Comma => tag.push(TagToken::Sign(',')),
            EngineToken::ParenOpen => tag.push(TagToken::Sign('(')),
            EngineToken::BracketOpen => tag.push(TagToken::Sign('[')),
            EngineToken::BracketClose => tag.push(TagToken::Sign(']')),
            _ => tag.push(TagToken::Other),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum TagToken<'t> {
    Word(&'t str),
    /// Without its quotes.
    Text(&'t str),
    Sign(char),
    /// A number, a text with escapes in it, or another sign.
    Other,
}

fn names_of<'t>(tokens: &[TagToken<'t>], found: &mut Vec<(TemplateNameKind, &'t str)>) {
    for (at, token) in tokens.iter().enumerate() {
        let after = &tokens[at + 1..];
        match (token, after) {
            (TagToken::Sign('|'), [TagToken::Word(name), arguments @ ..]) => {
                found.push((TemplateNameKind::Filter, name));
                found.extend(named_by_text(name, arguments));
            }
            (TagToken::Word("filter"), [TagToken::Word(name), ..]) if at == 0 => {
                found.push((TemplateNameKind::Filter, name))
            }
            (
                TagToken::Word("is"),
                [TagToken::Word("not"), TagToken::Word(name), ..] | [TagToken::Word(name), ..],
            ) if at > 0 && tokens[at - 1] != TagToken::Sign('.') => {
                found.push((TemplateNameKind::Test, name));
            }
            _ => {}
        }
    }
}

/// `select("odd")`, `map("lower")`, `rejectattr("name", "eq", 1)`.
fn named_by_text<'t>(filter: &str, arguments: &[TagToken<'t>]) -> Option<(TemplateNameKind, &'t str)> {
    match (filter, arguments) {
        ("select" | "reject", [TagToken::Sign('('), TagToken::Text(name), ..]) => {
            Some((TemplateNameKind::Test, name))
        }
        ("map", [TagToken::Sign('('), TagToken::Text(name), ..]) => Some((TemplateNameKind::Filter, name)),
        (
            "selectattr" | "rejectattr",
            [TagToken::Sign('('), TagToken::Text(_), TagToken::Sign(','), TagToken::Text(name), ..],
        ) => Some((TemplateNameKind::Test, name)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Engine;
    use proptest::prelude::*;

    #[test]
    fn members_that_must_be_there_are_found() {
        for (text, expected) in [
            ("{{ u.a }}-{{ u['b'] }}{% if u.c == 1 %}", &["a", "b", "c"][..]),
            ("{{ x.u.a }}{{ u }}{{ v.a }}u.a", &[]),
            ("{{ u.a | default(1) }}{{ u.b is defined }}{{ u.items() }}", &[]),
            ("{{ u.a | lower }}{{ f(u.b) }}", &["a", "b"]),
        ] {
            assert_eq!(members(text, "u"), expected, "{text}");
        }
    }

    #[test]
    fn no_text_hides_that_it_uses_a_variable() {
        for (text, expected) in [
            ("{{ u }}", true),
            ("x{{ u.a | lower }}", true),
            ("{{ v[u['a']] ~ 1 }}", true),
            ("{% set u = u %}{{ u.a }}", true),
            ("{% for x in u | items %}{{ x }}{% endfor %}", true),
            ("{% raw %} endraw {# {% endraw %}{% set u = u %}{{ u.a }}", true),
            ("{{ '}}' ~ u.a }}", true),
            ("u {u} u.a", false),
            ("{{ v.u }}{{ 'u' }}{{ v['u'] }}{{ uu }}", false),
            ("{# {{ u }} #}{% raw %}{{ u }}{% endraw %}", false),
            ("{\"u\": \"{{ v }}\"}", false),
        ] {
            assert_eq!(uses(text, "u"), expected, "{text}");
        }
    }

    #[test]
    fn filters_and_tests_are_found_by_name() {
        use TemplateNameKind::{Filter, Test};
        for (text, expected) in [
            ("plain | text is nothing", vec![]),
            ("{{ x | lower }}", vec![(Filter, "lower")]),
            ("{{- x|a|b(1 | c) -}} y {{ z }}", vec![(Filter, "a"), (Filter, "b"), (Filter, "c")]),
            ("{% if x is defined and y is not odd %}{% endif %}", vec![(Test, "defined"), (Test, "odd")]),
            ("{% filter upper %}a | b{% endfilter %}", vec![(Filter, "upper")]),
            ("{{ '| a is b' }}{{ \"\\\"| c\" | d }}", vec![(Filter, "d")]),
            ("{# {{ x | a }} #}{% raw %}{{ x | b }}{% endraw %}{{ x | c }}", vec![(Filter, "c")]),
            ("{{ this.is.fine }}{{ is_x }}", vec![]),
            (
                "{{ x | select('odd') | map(\"lower\") | rejectattr('n', 'eq', 1) }}",
                vec![
                    (Filter, "select"),
                    (Test, "odd"),
                    (Filter, "map"),
                    (Filter, "lower"),
                    (Filter, "rejectattr"),
                    (Test, "eq"),
                ],
            ),
            ("{{ x | map(attribute='is') }}", vec![(Filter, "map")]),
            ("{{ 1 is nosuch }}", vec![(Test, "nosuch")]),
            ("{{ -1.5 is not nosuch }}", vec![(Test, "nosuch")]),
            ("{{ [1] is nosuch or (x) is other }}", vec![(Test, "nosuch"), (Test, "other")]),
            ("{{ 'a' is nosuch }}{{ \"\\n\" is other }}", vec![(Test, "nosuch"), (Test, "other")]),
            ("{% raw %} endraw {# {% endraw %}{{ 1 | a }}{# {% endraw %} #}", vec![(Filter, "a")]),
            (
                "{% set y %}{{ 2 is a }}{% endset %}{%- if 3 is b -%}{% endif %}",
                vec![(Test, "a"), (Test, "b")],
            ),
            ("{{ x | ", vec![]),
            ("{{ 'ä", vec![]),
        ] {
            assert_eq!(named(text), expected, "{text}");
        }
    }

    #[test]
    fn the_engine_has_every_listed_filter_and_test() {
        let engine = Engine::new();
        for kind in [TemplateNameKind::Filter, TemplateNameKind::Test] {
            for name in kind.known() {
                assert!(engine.has(kind, name), "{} {name}", kind.word());
            }
            assert!(!engine.has(kind, "nosuch"));
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(\\{\\{|\\}\\}|\\{%|%\\}|\\{#|#\\}|raw|endraw|is|not|filter|\\||'|\"|\\\\| |\\PC){0,30}") {
            let _ = named(&text);
            let _ = uses(&text, "is");
        }
    }
}
