//! Templates `{{ … }}` in scenarios: compiled once, rendered for every request.
//!
//! A text without `{{` or `{%` is a literal and costs nothing. A text that consists of a single
//! expression keeps the type of its value, so that `"{{ count }}"` in a JSON body can be a number.
//! An undefined variable is an error, never an empty text.
//!
//! No timeout of a run can interrupt rendering, so every template must end soon and produce a bounded
//! text. See [`allowance`].

pub mod allowance;
mod arithmetic;
mod blame;
mod builtins;
pub mod document;
mod draws;
mod encodings;
mod fakes;
mod formats;
mod generators;
mod guarded;
mod large_stack;
#[cfg(test)]
#[path = "template/tests.rs"]
mod limits;
mod listing;
mod numbers;
mod python;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, LazyLock};

use minijinja::machinery::{
    CodeGenerator, Instructions, Token, Vm, WhitespaceConfig, make_string_output, parse, parse_expr, tokenize,
};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Object, ObjectRepr, ValueKind};
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use uuid::Uuid;

pub use minijinja::Value;

use super::template_names::TemplateNameKind;
use draws::Draws;
pub use fakes::KINDS as FAKE_KINDS;
pub use generators::FUNCTIONS;
use guarded::Rewriter;
use large_stack::Needs;
pub use numbers::{from_json, json_text, text_of, to_json};

/// Compiles templates, which live as long as the process.
#[derive(Clone, Copy)]
pub struct Engine {
    /// For texts without loops and macros: they take no more steps than they have bytes.
    straight: &'static Environment<'static>,
    /// Counts steps.
    counting: &'static Environment<'static>,
}

pub enum CompiledText {
    /// Without variables.
    Literal(Box<str>),
    /// A single expression, which keeps its type.
    Expression(Code),
    /// Text with expressions in it.
    Template(Code),
}

/// A compiled template.
pub struct Code {
    environment: &'static Environment<'static>,
    instructions: Instructions<'static>,
    source: &'static str,
    /// The names that it does not define itself.
    names: BTreeSet<String>,
    /// Whether it draws random numbers.
    draws: bool,
}

impl Code {
    fn new(
        environment: &'static Environment<'static>,
        (instructions, source): (Instructions<'static>, &'static str),
        names: HashSet<String>,
    ) -> Self {
        let draws = generators::DRAWING.iter().any(|name| names.contains(*name));
        Self { environment, instructions, source, names: names.into_iter().collect(), draws }
    }
}

/// Why a template could not be compiled or rendered: a single line.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct TemplateError(pub String);

impl From<minijinja::Error> for TemplateError {
    fn from(error: minijinja::Error) -> Self {
        if let Some(limit) = allowance::limit(&error) {
            return Self(limit);
        }
        let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
        Self(format!("{}{detail}", error.kind()))
    }
}

/// The names of all functions.
pub fn function_names() -> impl Iterator<Item = &'static str> {
    FUNCTIONS.iter().filter_map(|(function, _)| function.split('(').next())
}

/// minijinja's own functions, except `debug`: it would print all variables, including secrets.
const GLOBALS: [&str; 3] = ["range", "dict", "namespace"];

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine {
    /// The engine with the functions of [`FUNCTIONS`].
    ///
    /// There is one for the whole process: it has no state of a scenario, and compiled templates borrow from it on every
    /// thread for as long as the load runs.
    #[must_use]
    pub fn new() -> Self {
        static ENVIRONMENTS: LazyLock<(Environment<'static>, Environment<'static>)> =
            LazyLock::new(Engine::environments);
        Self { straight: &ENVIRONMENTS.0, counting: &ENVIRONMENTS.1 }
    }

    fn environments() -> (Environment<'static>, Environment<'static>) {
        let mut environment = Environment::empty();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_formatter(|output, state, value| {
            allowance::made(value)?;
            let shown = numbers::shown(value)?;
            minijinja::escape_formatter(output, state, shown.as_ref().unwrap_or(value))
        });
        let usual = Environment::new();
        for (name, value) in usual.globals().filter(|(name, _)| GLOBALS.contains(name)) {
            environment.add_global(name.to_owned(), value);
        }
        builtins::install(&mut environment, numbers::TextNotation::Json);
        generators::install(&mut environment);
        let mut counting = environment.clone();
        counting.set_fuel(Some(allowance::STEPS_MAX));
        (environment, counting)
    }

    /// Whether it has a filter or a test of this name.
    #[must_use]
    pub fn has(&self, kind: TemplateNameKind, name: &str) -> bool {
        let question = format!("name is {}", kind.word());
        let asked = self
            .straight
            .compile_expression(&question)
            .and_then(|asked| asked.eval(minijinja::context! { name }));
        asked.is_ok_and(|answer| answer.is_true())
    }

    /// Compiles a text. A text without variables is rendered at once, to find out before the load whether it exceeds a
    /// limit.
    ///
    /// # Errors
    /// A syntax error, with minijinja's explanation, or an exceeded limit.
    pub fn compile(&self, text: &str) -> Result<CompiledText, TemplateError> {
        if !text.contains("{{") && !text.contains("{%") && !text.contains("{#") {
            return Ok(CompiledText::Literal(text.into()));
        }
        bounded(text)?.with_room(|| self.compiled(text))
    }

    fn compiled(&self, text: &str) -> Result<CompiledText, TemplateError> {
        allowance::renew();
        // The source is leaked, because compiled templates borrow from it, too; the size of a scenario file is bounded.
        let source: &'static str = Box::leak(text.to_owned().into_boxed_str());
        let text = match sole_expression(source) {
            Some(expression) => CompiledText::Expression(self.expression(expression)?),
            None => CompiledText::Template(self.template(source)?),
        };
        if text.variables().is_empty()
            && let Err(error) = text.code_value(&Variables::new(Arc::default()), &mut String::new())
            && let Some(limit) = allowance::limit(&error)
        {
            return Err(TemplateError(limit));
        }
        allowance::renew();
        Ok(text)
    }

    fn expression(&self, source: &'static str) -> Result<Code, TemplateError> {
        let unfolded = unfolded(source);
        let names = self.straight.compile_expression(&unfolded)?.undeclared_variables(false);
        let mut generator = CodeGenerator::new("<expression>", source);
        let mut rewriter = Rewriter::of(source);
        generator.compile_expr(&rewriter.expression(&parse_expr(source)?));
        if let Some(lacks) = rewriter.lacks {
            return Err(TemplateError(lacks));
        }
        let (instructions, _) = generator.finish();
        Ok(Code::new(self.straight, (instructions, source), names))
    }

    fn template(&self, source: &'static str) -> Result<Code, TemplateError> {
        let unfolded = unfolded(source);
        let names = self.straight.template_from_str(&unfolded)?.undeclared_variables(false);
        let mut generator = CodeGenerator::new("<string>", source);
        let parsed = parse(source, "<string>", SyntaxConfig, WhitespaceConfig::default())?;
        let mut rewriter = Rewriter::of(source);
        generator.compile_stmt(&rewriter.statement(&parsed));
        if let Some(lacks) = rewriter.lacks {
            return Err(TemplateError(lacks));
        }
        if let Some(statement) = rewriter.refused {
            return Err(TemplateError(format!("syntax error: unknown statement {statement}")));
        }
        let (instructions, _) = generator.finish();
        let environment = if rewriter.repeats { self.counting } else { self.straight };
        Ok(Code::new(environment, (instructions, source), names))
    }
}

/// A text that uses the same names and that minijinja compiles quickly: during compilation, minijinja multiplies
/// constants, however large the product is. A `-` is allowed wherever `*` is; `**` works on numbers only.
fn unfolded(source: &str) -> String {
    source.replace("**", "\0").replace('*', "-").replace('\0', "**")
}

/// The longest expression or statement, in bytes, and the most of them in a text: see [`large_stack`].
const TAG_BYTES_MAX: usize = 1000;
const TAGS_MAX: usize = 500;

/// Refuses texts whose compilation could overflow the stack.
fn bounded(text: &str) -> Result<Needs, TemplateError> {
    let (mut rest, mut needs) = (text, Needs::default());
    while let Some(open) = rest.find("{{").into_iter().chain(rest.find("{%")).chain(rest.find("{#")).min() {
        rest = &rest[open..];
        if rest.starts_with("{#") {
            rest = rest.split_once("#}").map_or("", |(_, after)| after);
            continue;
        }
        let close = if rest.starts_with("{{") { "}}" } else { "%}" };
        let length = 2 + tag_length(&rest[2..], close);
        needs = Needs { longest: needs.longest.max(length), tags: needs.tags + 1 };
        if length > TAG_BYTES_MAX || needs.tags > TAGS_MAX {
            return Err(TemplateError(format!(
                "more than {TAGS_MAX} expressions, or an expression longer than {TAG_BYTES_MAX} bytes"
            )));
        }
        let word = rest[2..length].trim_start_matches(['-', '+']).trim_start();
        let raw = close == "%}" && word.starts_with("raw");
        rest = &rest[length..];
        if raw {
            // Raw text follows, up to the statement that ends it.
            rest = rest.find("endraw").map_or("", |at| &rest[at..]);
        }
    }
    Ok(needs)
}

/// The number of bytes up to and including `close`, outside quotes; all bytes if it is missing.
fn tag_length(text: &str, close: &str) -> usize {
    let (mut quote, mut escaped) = (None, false);
    for (at, c) in text.char_indices() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if c == '\\' => escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if text[at..].starts_with(close) => return at + close.len(),
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None => {}
        }
    }
    text.len()
}

/// `x.y` of the text `{{ x.y }}`, if that is the whole text. Minijinja's own tokens decide where an expression ends:
/// `{{ x }}}` is one with a brace behind it, and `{{ {'a': {}}}}` is one alone.
fn sole_expression(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("{{")?.strip_suffix("}}")?;
    let control = inner.starts_with(['-', '+']) || inner.ends_with(['-', '+']);
    let mut tokens = tokenize(text, false, SyntaxConfig, WhitespaceConfig::default()).skip(1);
    let end = tokens.find(|token| !matches!(token, Ok((within, _)) if !matches!(within, Token::VariableEnd)));
    (!control && matches!(end, Some(Ok(_))) && tokens.next().is_none()).then_some(inner)
}

impl CompiledText {
    /// The text, if it has no variables.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        if let Self::Literal(text) = self { Some(text) } else { None }
    }

    /// The names of the variables that it uses.
    #[must_use]
    pub fn variables(&self) -> BTreeSet<String> {
        let names = match self {
            Self::Literal(_) => return BTreeSet::new(),
            Self::Expression(code) | Self::Template(code) => &code.names,
        };
        names.iter().filter(|name| !function_names().any(|known| known == *name)).cloned().collect()
    }

    /// Whether it draws random numbers or counts: its value depends on the seed.
    #[must_use]
    pub fn draws(&self) -> bool {
        match self {
            Self::Literal(_) => false,
            Self::Expression(code) | Self::Template(code) => code.draws,
        }
    }

    /// Appends the text with its variables filled in.
    ///
    /// # Errors
    /// An undefined variable, a failing expression, or a limit of [`allowance`].
    pub fn render(&self, variables: &Variables, output: &mut String) -> Result<(), TemplateError> {
        match self {
            Self::Literal(text) => output.push_str(text),
            Self::Expression(_) => {
                let value = self.evaluate(variables)?;
                numbers::push_text(&value, output).map_err(|error| self.placed(error.0))?;
            }
            Self::Template(_) => {
                self.code_value(variables, output).map_err(|error| self.explained(error))?;
            }
        }
        // A body may consist of several texts.
        if output.len() > allowance::TEXT_BYTES_MAX {
            return Err(allowance::text_too_long().into());
        }
        Ok(())
    }

    /// The value: text, or the value of the sole expression.
    ///
    /// # Errors
    /// An undefined variable, a failing expression, or a limit of [`allowance`].
    pub fn evaluate(&self, variables: &Variables) -> Result<Value, TemplateError> {
        match self {
            Self::Literal(text) => Ok(Value::from(&**text)),
            Self::Expression(_) => {
                let value = self.code_value(variables, &mut String::new());
                let value = value.map_err(|error| self.explained(error))?.unwrap_or_default();
                if value.is_undefined() {
                    return Err(self.explained(minijinja::ErrorKind::UndefinedError.into()));
                }
                Ok(value)
            }
            Self::Template(_) => {
                let mut text = String::new();
                self.render(variables, &mut text)?;
                Ok(Value::from(text))
            }
        }
    }

    /// The value as JSON.
    ///
    /// # Errors
    /// As [`Self::evaluate`], or JSON has no such value.
    pub fn json(&self, variables: &Variables) -> Result<String, TemplateError> {
        json_text(&self.evaluate(variables)?).map_err(|error| self.placed(error.0))
    }

    /// The error with the expression in which it is.
    fn explained(&self, error: minijinja::Error) -> TemplateError {
        match allowance::limit(&error) {
            Some(limit) => TemplateError(limit),
            None => self.placed(TemplateError::from(error).0),
        }
    }

    fn placed(&self, what: String) -> TemplateError {
        let source = match self {
            Self::Expression(code) => format!("{{{{{}}}}}", code.source),
            Self::Template(code) => code.source.to_owned(),
            Self::Literal(_) => return TemplateError(what),
        };
        let place = blame::place(&source);
        let names = self.variables().into_iter().collect::<Vec<_>>().join("`, `");
        TemplateError(match (names.is_empty(), place.is_empty()) {
            (true, _) => what,
            (false, false) => format!("{what}{place}"),
            (false, true) => format!("{what} in a text with `{names}`"),
        })
    }

    /// Runs the code: appends its output, and returns the value of an expression.
    fn code_value(
        &self,
        variables: &Variables,
        output: &mut String,
    ) -> Result<Option<Value>, minijinja::Error> {
        let (Self::Expression(code) | Self::Template(code)) = self else { return Ok(None) };
        let _lent = code.draws.then(|| variables.scope.draws.lend());
        let root = variables.context();
        let no_blocks = BTreeMap::new();
        let vm = Vm::new(code.environment);
        let mut output = make_string_output(output);
        let (value, state) = vm.eval(&code.instructions, root, &no_blocks, &mut output, AutoEscape::None)?;
        if let Some((steps, _)) = state.fuel_levels() {
            allowance::charge(steps)?;
        }
        if matches!(self, Self::Template(_)) {
            return Ok(None);
        }
        if let Some(value) = &value {
            allowance::made(value)?;
        }
        Ok(value)
    }
}

/// The variables of a rendering: shared ones, computed ones, and those that were set.
#[derive(Clone, Debug)]
pub struct Variables {
    scope: Arc<VariableScope>,
}

/// A value that becomes a template's value only if a template uses it. Most templates do not.
#[derive(Clone, Debug)]
pub enum ComputedValue {
    Text(Arc<str>),
    /// A whole number.
    Number(u64),
    /// An id, as hyphenated text.
    Id(Uuid),
}

#[derive(Clone, Debug)]
struct VariableScope {
    shared: Arc<Vec<(Arc<str>, Value)>>,
    computed: Vec<(&'static str, ComputedValue)>,
    own: Vec<(Arc<str>, Value)>,
    /// Values that must not appear in messages.
    secrets: Vec<Value>,
    draws: Draws,
}

impl Variables {
    /// Shared variables only.
    #[must_use]
    pub fn new(shared: Arc<Vec<(Arc<str>, Value)>>) -> Self {
        Self::with_computed(shared, Vec::new())
    }

    /// Shared variables and computed ones, which hide shared ones of the same name.
    #[must_use]
    pub fn with_computed(
        shared: Arc<Vec<(Arc<str>, Value)>>,
        computed: Vec<(&'static str, ComputedValue)>,
    ) -> Self {
        // These draws cannot be repeated, unless the caller sets a seed.
        let draws = Draws::new(fastrand::u64(..), 0, 0);
        Self {
            scope: Arc::new(VariableScope { shared, computed, own: Vec::new(), secrets: Vec::new(), draws }),
        }
    }

    /// Removes what was set, for the next use. Returns the computed variables, to be changed in place.
    pub fn renew(&mut self) -> &mut [(&'static str, ComputedValue)] {
        let scope = Arc::make_mut(&mut self.scope);
        scope.own.clear();
        scope.secrets.clear();
        &mut scope.computed
    }

    /// Lets functions such as `random_int` draw from the random numbers that these three select, from the first one.
    pub fn draw_from(&mut self, seed: u64, stream: u64, number: u64) {
        Arc::make_mut(&mut self.scope).draws = Draws::new(seed, stream, number);
    }

    /// The same variables for a part that runs beside others: it draws random numbers of its own, so that they do not
    /// depend on which part is faster.
    #[must_use]
    pub fn branch(&self, part: u64) -> Self {
        let draws = self.scope.draws.branch(part);
        Self { scope: Arc::new(VariableScope { draws, ..(*self.scope).clone() }) }
    }

    /// Adds values that must not appear in messages until the next [`Self::renew`].
    pub fn hide(&mut self, values: Vec<Value>) {
        if values.is_empty() {
            return;
        }
        let secrets = &mut Arc::make_mut(&mut self.scope).secrets;
        let room = SECRETS_MAX.saturating_sub(secrets.len());
        secrets.extend(values.into_iter().take(room));
    }

    /// Sets a variable until the next [`Self::renew`].
    pub fn set(&mut self, name: &Arc<str>, value: Value) {
        let own = &mut Arc::make_mut(&mut self.scope).own;
        match own.iter_mut().find(|(other, _)| other == name) {
            Some(entry) => entry.1 = value,
            None => own.push((Arc::clone(name), value)),
        }
    }

    /// Sets a variable whose value must not appear in messages.
    pub fn set_secret(&mut self, name: &Arc<str>, value: Value) {
        let secrets = &mut Arc::make_mut(&mut self.scope).secrets;
        // A scenario has a bounded number of steps; this only guards against bugs.
        if secrets.len() < SECRETS_MAX {
            secrets.push(value.clone());
        }
        self.set(name, value);
    }

    /// Takes over what other uses that began with these variables have set: from each the variables of these names, and
    /// all secrets.
    pub fn merge<'o>(&mut self, others: impl Iterator<Item = (&'o Self, &'o Vec<Arc<str>>)>) {
        let known = self.scope.secrets.len();
        for (other, names) in others {
            for (name, value) in other.scope.own.iter().filter(|(name, _)| names.contains(name)) {
                self.set(name, value.clone());
            }
            if let Some(further) = other.scope.secrets.get(known..).filter(|further| !further.is_empty()) {
                let secrets = &mut Arc::make_mut(&mut self.scope).secrets;
                let room = SECRETS_MAX.saturating_sub(secrets.len());
                secrets.extend(further.iter().take(room).cloned());
            }
        }
    }

    /// The texts in the secret values that were set, for [`base::masking`].
    #[must_use]
    pub fn secrets(&self) -> Vec<String> {
        let mut texts = Vec::new();
        for value in &self.scope.secrets {
            secret_texts(value, &mut texts);
        }
        texts.iter().flat_map(|text| base::masking::forms(text)).collect()
    }

    /// The value of a variable.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Value> {
        self.scope.get_value(&Value::from(name))
    }

    /// The variables that were set.
    #[must_use]
    pub fn own(&self) -> &[(Arc<str>, Value)] {
        &self.scope.own
    }

    fn context(&self) -> Value {
        Value::from_dyn_object(Arc::clone(&self.scope))
    }
}

/// How many secret values are masked, and how many texts within each.
const SECRETS_MAX: usize = 1000;

/// A value's own text, the credentials in it, and the texts in a list or a map.
fn secret_texts(value: &Value, texts: &mut Vec<String>) {
    if texts.len() >= SECRETS_MAX {
        return;
    }
    match value.as_str() {
        Some(text) => texts.extend(base::masking::header_secrets(text).map(str::to_owned)),
        None => {
            if let Ok(items) = value.try_iter() {
                for item in items {
                    match value.get_item(&item).ok().filter(|found| !found.is_undefined()) {
                        Some(found) if value.kind() == ValueKind::Map => secret_texts(&found, texts),
                        _ => secret_texts(&item, texts),
                    }
                }
            } else {
                texts.extend(text_of(value).map(|text| text.into_owned()));
            }
        }
    }
}

impl ComputedValue {
    fn value(&self) -> Value {
        match self {
            Self::Text(text) => Value::from(Arc::clone(text)),
            Self::Number(number) => Value::from(*number),
            Self::Id(id) => Value::from(id.to_string()),
        }
    }
}

impl Object for VariableScope {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.as_str()?;
        let find =
            |list: &[(Arc<str>, Value)]| list.iter().find(|(k, _)| &**k == name).map(|(_, v)| v.clone());
        let computed = || self.computed.iter().find(|(k, _)| *k == name).map(|(_, v)| v.value());
        find(&self.own).or_else(computed).or_else(|| find(&self.shared))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables() -> Variables {
        let shared = vec![
            (Arc::from("user"), Value::from("admin")),
            (Arc::from("n"), Value::from(3)),
            (Arc::from("auth"), Value::from_serialize(serde_json::json!({"token": "t"}))),
        ];
        let mut variables = Variables::new(Arc::new(shared));
        variables.set(&Arc::from("id"), Value::from("a/b"));
        variables.set(&Arc::from("id"), Value::from("c"));
        variables
    }

    #[test]
    fn texts_are_filled_in() {
        for (text, expected) in [
            ("plain { x }", Ok("plain { x }")),
            ("{{ user }}", Ok("admin")),
            ("/v3/{{ user }}/{{ id }}?n={{ n + 1 }}", Ok("/v3/admin/c?n=4")),
            ("{{ auth.token }}{% if n > 2 %}!{% endif %}", Ok("t!")),
            ("{{ nobody }}", Err("undefined value")),
            ("x{{ nobody }}", Err("undefined value")),
            ("x{{ auth.nothing }}", Err("undefined value in {{ auth.nothing }}")),
            ("{{ auth.nothing }}", Err("undefined value in {{ auth.nothing }}")),
            ("{{ auth.nothing.more }}", Err("undefined value in {{ auth.nothing.more }}")),
            ("{{ random_int(4, 4) }}", Ok("4")),
            ("{{ random_int(5, 4) }}", Err("needs low <= high")),
        ] {
            let compiled = Engine::new().compile(text).unwrap();
            let mut output = String::new();
            match (compiled.render(&variables(), &mut output), expected) {
                (Ok(()), Ok(expected)) => assert_eq!(output, expected, "{text}"),
                (Err(error), Err(part)) => assert!(error.0.contains(part), "{text}: {error}"),
                (result, _) => panic!("{text}: {result:?} {output}"),
            }
        }
    }

    #[test]
    fn expressions_that_would_overflow_the_stack_are_refused() {
        let many = |what: &str| what.repeat(30_000);
        for text in [
            format!("{{{{ {}1 }}}}", many("-")),
            format!("x{{{{ '}}}}' {} }}}}", many("- ")),
            format!("{{{{ {}1 }}}}", many("not ")),
            format!("{{{{ a{} }}}}", many(".b")),
            format!("{{{{ a{} }}}}", many(" + a")),
            format!("{{{{ a{} }}}}", many(" if a")),
            format!("{{{{ a{} }}}}", many("|lower")),
            format!("{{% if a %}}{}{{% endif %}}", many("{% elif a %}")),
            format!("{{% raw %}}{{{{ '{{% endraw %}}{{{{ {} }}}}", many("-")),
            format!("{{# {{{{ ' #}}{{{{ {} }}}}", many("-")),
            many("{{ a }}"),
        ] {
            assert!(Engine::new().compile(&text).is_err(), "{}", &text[..40]);
        }
        for text in [
            format!("{{{{ a }}}}{}{{{{ \"{{{{\" }}}}", many("x")),
            format!("{{% raw %}}{{{{{}{{% endraw %}}", many("-")),
            format!("{{# {} #}}", many("-")),
            "{{ a }}".repeat(500),
            format!("{{{{ {}1 }}}}", "-".repeat(980)),
            format!("{{% if a %}}{}{{% endif %}}", "{% elif a %}".repeat(490)),
        ] {
            let start = text[..40].to_owned();
            // A quarter of the stack that threads have.
            let small = std::thread::Builder::new().stack_size(1 << 19);
            let compiled = small.spawn(move || {
                (Engine::new().compile(&text).is_ok(), document::DocumentTemplate::compile(&text).is_ok())
            });
            assert_eq!(compiled.unwrap().join().unwrap(), (true, true), "{start}");
        }
    }

    #[test]
    fn computed_and_set_variables_hide_shared_ones_until_the_next_use() {
        let shared = ["x", "who", "n"].map(|name| (Arc::from(name), Value::from(1)));
        let computed = vec![
            ("who", ComputedValue::Text(Arc::from("w"))),
            ("n", ComputedValue::Number(7)),
            ("id", ComputedValue::Id(Uuid::nil())),
        ];
        let mut variables = Variables::with_computed(Arc::new(shared.to_vec()), computed);
        variables.set(&Arc::from("x"), Value::from(2));
        let text = Engine::new().compile("{{ who }} {{ n }} {{ id }} {{ x }}").unwrap();
        let rendered = |variables: &Variables| {
            let mut output = String::new();
            text.render(variables, &mut output).unwrap();
            output
        };
        assert_eq!(rendered(&variables), format!("w 7 {} 2", Uuid::nil()));
        variables.renew()[1].1 = ComputedValue::Number(8);
        assert_eq!(rendered(&variables), format!("w 8 {} 1", Uuid::nil()));
    }

    #[test]
    fn a_single_expression_keeps_its_type() {
        let engine = Engine::new();
        let value = |text| engine.compile(text).unwrap().evaluate(&variables()).unwrap();
        assert_eq!(serde_json::to_string(&value("{{ n }}")).unwrap(), "3");
        assert_eq!(serde_json::to_string(&value(" {{ n }}")).unwrap(), "\" 3\"");
    }

    #[test]
    fn variables_used_by_a_text_are_found_when_it_is_compiled() {
        let text =
            Engine::new().compile("{{ a.b }}{{ uuid() }}{% for x in range(2) %}{{ x + c }}{% endfor %}");
        assert_eq!(text.unwrap().variables().into_iter().collect::<Vec<_>>(), ["a", "c"]);
        assert!(Engine::new().compile("{{ a b }}").is_err());
    }
}
