//! Templates `{{ … }}` in scenarios: compiled once, rendered for every request.
//!
//! A text without `{{` or `{%` is a literal and costs nothing. A text that is one expression and
//! nothing else keeps the type of its value, so that `"{{ count }}"` in a JSON body can be a number.
//! An undefined variable is an error, never an empty text.

use std::collections::BTreeSet;
use std::sync::Arc;

use minijinja::value::{Object, ObjectRepr};
use minijinja::{Environment, Expression, Template, UndefinedBehavior};
use uuid::Uuid;

pub use minijinja::Value;

/// Compiles templates; all that it compiled lives as long as the process.
#[derive(Clone, Copy)]
pub struct Engine {
    environment: &'static Environment<'static>,
}

/// A compiled text.
pub enum Text {
    /// Nothing to fill in.
    Literal(Box<str>),
    /// One expression, which keeps its type.
    Expression(Expression<'static, 'static>),
    /// Text with expressions in it.
    Template(Template<'static, 'static>),
}

/// Why a template could not be compiled or rendered: one line.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct TemplateError(pub String);

impl From<minijinja::Error> for TemplateError {
    fn from(error: minijinja::Error) -> Self {
        let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
        Self(format!("{}{detail}", error.kind()))
    }
}

/// The functions that templates may call, with what they are for.
pub const FUNCTIONS: [(&str, &str); 3] = [
    ("uuid()", "a random UUID"),
    ("random_int(low, high)", "a random whole number, both bounds included"),
    ("now()", "seconds since the Unix epoch, with a fraction"),
];

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}

impl Engine {
    /// An engine with the functions of [`FUNCTIONS`].
    ///
    /// The environment is leaked, a few kilobytes a scenario: compiled templates borrow from it for
    /// as long as the load runs, on every thread.
    #[must_use]
    pub fn new() -> Self {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.add_function("uuid", random_uuid);
        environment.add_function("random_int", random_int);
        environment.add_function("now", || {
            let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            since.unwrap_or_default().as_secs_f64()
        });
        Self { environment: Box::leak(Box::new(environment)) }
    }

    /// Compiles a text.
    ///
    /// # Errors
    /// A syntax error, with minijinja's explanation.
    pub fn compile(&self, text: &str) -> Result<Text, TemplateError> {
        if !text.contains("{{") && !text.contains("{%") && !text.contains("{#") {
            return Ok(Text::Literal(text.into()));
        }
        bounded(text)?;
        if let Some(expression) = sole_expression(text) {
            return Ok(Text::Expression(self.environment.compile_expression_owned(expression.to_owned())?));
        }
        // The source is leaked as the environment is; a scenario file is bounded.
        let source: &'static str = Box::leak(text.to_owned().into_boxed_str());
        Ok(Text::Template(self.environment.template_from_str(source)?))
    }
}

/// The longest expression or statement, in bytes, and the most of them in one text. The compiler
/// goes down a level of its stack for every operator of some kinds, and for every `elif`.
const TAG_BYTES_MAX: usize = 1000;
const TAGS_MAX: usize = 500;

/// Refuses texts whose compilation could overflow the stack.
fn bounded(text: &str) -> Result<(), TemplateError> {
    let (mut rest, mut count) = (text, 0);
    while let Some(open) = rest.find("{{").into_iter().chain(rest.find("{%")).chain(rest.find("{#")).min() {
        rest = &rest[open..];
        if rest.starts_with("{#") {
            rest = rest.split_once("#}").map_or("", |(_, after)| after);
            continue;
        }
        let close = if rest.starts_with("{{") { "}}" } else { "%}" };
        let length = 2 + tag_length(&rest[2..], close);
        count += 1;
        if length > TAG_BYTES_MAX || count > TAGS_MAX {
            return Err(TemplateError(format!(
                "more than {TAGS_MAX} expressions, or one longer than {TAG_BYTES_MAX} bytes"
            )));
        }
        let word = rest[2..length].trim_start_matches(['-', '+']).trim_start();
        let raw = close == "%}" && word.starts_with("raw");
        rest = &rest[length..];
        if raw {
            // What follows is text, up to the statement that ends it.
            rest = rest.find("endraw").map_or("", |at| &rest[at..]);
        }
    }
    Ok(())
}

/// The bytes up to and with `close`, outside of quotes; all when it is missing.
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

fn random_int(low: i64, high: i64) -> Result<i64, minijinja::Error> {
    if low > high {
        let detail = "random_int(low, high) needs low <= high";
        return Err(minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, detail));
    }
    Ok(fastrand::i64(low..=high))
}

/// Each thread has a generator of its own, seeded by the operating system: no system call and no
/// lock for a value.
fn random_uuid() -> String {
    uuid::Builder::from_random_bytes(fastrand::u128(..).to_ne_bytes()).into_uuid().to_string()
}

/// `x.y` of the text `{{ x.y }}`, when there is nothing around it.
fn sole_expression(text: &str) -> Option<&str> {
    let inner = text.strip_prefix("{{")?.strip_suffix("}}")?;
    let control = inner.starts_with(['-', '+']) || inner.ends_with(['-', '+']);
    (!control && !inner.contains("{{") && !inner.contains("}}") && !inner.contains("{%")).then_some(inner)
}

impl Text {
    /// The text if nothing is to be filled in.
    #[must_use]
    pub fn literal(&self) -> Option<&str> {
        if let Self::Literal(text) = self { Some(text) } else { None }
    }

    /// The names of the variables that it uses.
    #[must_use]
    pub fn variables(&self) -> BTreeSet<String> {
        let names = match self {
            Self::Literal(_) => return BTreeSet::new(),
            Self::Expression(expression) => expression.undeclared_variables(false),
            Self::Template(template) => template.undeclared_variables(false),
        };
        let functions: Vec<&str> = FUNCTIONS.iter().filter_map(|(f, _)| f.split('(').next()).collect();
        const GLOBALS: [&str; 4] = ["range", "dict", "namespace", "debug"];
        let own = |name: &str| !functions.contains(&name) && !GLOBALS.contains(&name);
        names.into_iter().filter(|name| own(name)).collect()
    }

    /// Appends the text with its variables filled in.
    ///
    /// # Errors
    /// An undefined variable or a failing expression.
    pub fn render(&self, variables: &Variables, output: &mut String) -> Result<(), TemplateError> {
        match self {
            Self::Literal(text) => output.push_str(text),
            Self::Expression(_) => {
                use std::fmt::Write as _;
                let value = self.evaluate(variables)?;
                match value.as_str() {
                    Some(text) => output.push_str(text),
                    None => write!(output, "{value}").map_err(|e| TemplateError(e.to_string()))?,
                }
            }
            Self::Template(template) => output.push_str(&template.render(variables.context())?),
        }
        Ok(())
    }

    /// The value: text, or whatever the sole expression gives.
    ///
    /// # Errors
    /// An undefined variable or a failing expression.
    pub fn evaluate(&self, variables: &Variables) -> Result<Value, TemplateError> {
        match self {
            Self::Literal(text) => Ok(Value::from(&**text)),
            Self::Expression(expression) => {
                let value = expression.eval(variables.context())?;
                if value.is_undefined() {
                    let names = self.variables().into_iter().collect::<Vec<_>>().join("`, `");
                    return Err(TemplateError(format!("undefined value: `{names}` has no such value")));
                }
                Ok(value)
            }
            Self::Template(template) => Ok(Value::from(template.render(variables.context())?)),
        }
    }
}

/// The variables of one iteration: the scenario's, shared, and those that the iteration set.
#[derive(Clone, Debug)]
pub struct Variables {
    scope: Arc<Scope>,
}

/// Which pass variables belong to. Most templates never ask, so their values are made on demand.
#[derive(Clone, Debug)]
pub struct Pass {
    /// `workload`.
    pub workload: Arc<str>,
    /// `iteration`.
    pub iteration: u64,
    /// `trace_id`.
    pub trace_id: Uuid,
}

#[derive(Clone, Debug)]
struct Scope {
    shared: Arc<Vec<(Arc<str>, Value)>>,
    pass: Option<Pass>,
    own: Vec<(Arc<str>, Value)>,
}

impl Variables {
    /// Variables that all iterations share.
    #[must_use]
    pub fn new(shared: Arc<Vec<(Arc<str>, Value)>>) -> Self {
        Self { scope: Arc::new(Scope { shared, pass: None, own: Vec::new() }) }
    }

    /// Variables of one pass: the shared ones, and `workload`, `iteration` and `trace_id`.
    #[must_use]
    pub fn of_pass(shared: Arc<Vec<(Arc<str>, Value)>>, pass: Pass) -> Self {
        Self { scope: Arc::new(Scope { shared, pass: Some(pass), own: Vec::new() }) }
    }

    /// Turns them into those of another pass, and forgets what was set.
    pub fn renew(&mut self, workload: &Arc<str>, iteration: u64, trace_id: Uuid) {
        let scope = Arc::make_mut(&mut self.scope);
        scope.own.clear();
        if let Some(pass) = &mut scope.pass {
            (pass.iteration, pass.trace_id) = (iteration, trace_id);
            if !Arc::ptr_eq(&pass.workload, workload) {
                pass.workload = Arc::clone(workload);
            }
        }
    }

    /// Sets a variable for this iteration only.
    pub fn set(&mut self, name: &Arc<str>, value: Value) {
        let own = &mut Arc::make_mut(&mut self.scope).own;
        match own.iter_mut().find(|(other, _)| other == name) {
            Some(entry) => entry.1 = value,
            None => own.push((Arc::clone(name), value)),
        }
    }

    /// All that this iteration set.
    #[must_use]
    pub fn own(&self) -> &[(Arc<str>, Value)] {
        &self.scope.own
    }

    fn context(&self) -> Value {
        Value::from_dyn_object(Arc::clone(&self.scope))
    }
}

impl Pass {
    fn value(&self, name: &str) -> Option<Value> {
        match name {
            "workload" => Some(Value::from(Arc::clone(&self.workload))),
            "iteration" => Some(Value::from(self.iteration)),
            "trace_id" => Some(Value::from(self.trace_id.to_string())),
            _ => None,
        }
    }
}

impl Object for Scope {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = key.as_str()?;
        let find =
            |list: &[(Arc<str>, Value)]| list.iter().find(|(k, _)| &**k == name).map(|(_, v)| v.clone());
        find(&self.own).or_else(|| self.pass.as_ref()?.value(name)).or_else(|| find(&self.shared))
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
            ("x{{ auth.nothing }}", Err("undefined value")),
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
            assert!(Engine::new().compile(&text).is_ok(), "{}", &text[..40]);
        }
    }

    #[test]
    fn a_pass_knows_its_own_variables_and_an_iteration_can_set_more() {
        let pass = Pass { workload: Arc::from("w"), iteration: 7, trace_id: Uuid::nil() };
        let mut variables = Variables::of_pass(Arc::new(vec![(Arc::from("x"), Value::from(1))]), pass);
        variables.set(&Arc::from("x"), Value::from(2));
        let text = Engine::new().compile("{{ workload }} {{ iteration }} {{ trace_id }} {{ x }}").unwrap();
        let mut output = String::new();
        text.render(&variables, &mut output).unwrap();
        assert_eq!(output, format!("w 7 {} 2", Uuid::nil()));
    }

    #[test]
    fn one_expression_alone_keeps_its_type() {
        let engine = Engine::new();
        let value = |text| engine.compile(text).unwrap().evaluate(&variables()).unwrap();
        assert_eq!(serde_json::to_string(&value("{{ n }}")).unwrap(), "3");
        assert_eq!(serde_json::to_string(&value(" {{ n }}")).unwrap(), "\" 3\"");
    }

    #[test]
    fn the_variables_that_a_text_needs_are_known_before_it_runs() {
        let text =
            Engine::new().compile("{{ a.b }}{{ uuid() }}{% for x in range(2) %}{{ x + c }}{% endfor %}");
        assert_eq!(text.unwrap().variables().into_iter().collect::<Vec<_>>(), ["a", "c"]);
        assert!(Engine::new().compile("{{ a b }}").is_err());
    }
}
