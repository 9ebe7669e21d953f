//! Conditions on a value, compiled. Nothing is parsed when they are checked.

use std::borrow::Cow;

use regex::Regex;
use serde_json::Value as Json;

use config::condition::{self, Comparisons, JsonType};
use text::diagnostics::Fault;
use text::digits;
use text::template::{self, CompiledText, TemplateError, Variables};
use text::yaml::YamlNode;
use text::yaml_place::{at, key_span};

use super::json::JsonTemplate;
use super::texts::TextCompiler;

/// A condition on a value: all of these must hold.
#[derive(Default)]
pub struct ValueCondition {
    /// The comparisons: at least one.
    pub tests: Vec<Test>,
}

/// A comparison with a value.
pub enum Test {
    Equals(Operand),
    /// It does not equal this.
    Differs(Operand),
    /// It is a number on this side of another.
    Compares(Inequality, Operand),
    /// It does not meet a condition.
    Not(ValueCondition),
    /// Its length meets a condition.
    Length(ValueCondition),
    /// It has one of these types.
    Type(Vec<JsonType>),
    /// This is a part of a text, an item of a list or a key of a map.
    Contains(Operand),
    /// A regular expression matches somewhere in the text.
    Matches(Regex),
    /// It equals one of these.
    OneOf(Vec<Operand>),
    /// There is a value (true) or none (false).
    Exists(bool),
}

/// Makes a comparison with a value.
type TestConstructor = fn(Operand) -> Test;

/// A side of a number.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Inequality {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// What a value is compared with.
pub enum Operand {
    /// A value without templates.
    Fixed(Json),
    /// A text with templates.
    Text(CompiledText),
    /// A list or a map with templates in it.
    Json(JsonTemplate),
}

impl Operand {
    /// The value.
    ///
    /// # Errors
    /// An undefined variable or a failing expression.
    pub fn value(&self, variables: &Variables) -> Result<Cow<'_, Json>, TemplateError> {
        Ok(match self {
            Self::Fixed(value) => Cow::Borrowed(value),
            Self::Text(text) => Cow::Owned(template::to_json(&text.evaluate(variables)?)?),
            Self::Json(json) => Cow::Owned(json.evaluate(variables)?),
        })
    }

    /// The value as a text: a text itself, any other value as JSON.
    ///
    /// # Errors
    /// An undefined variable or a failing expression.
    pub fn text(&self, variables: &Variables) -> Result<Cow<'_, str>, TemplateError> {
        let mut rendered = String::new();
        match self {
            Self::Fixed(Json::String(text)) => return Ok(Cow::Borrowed(text)),
            Self::Fixed(value) => return Ok(Cow::Owned(digits::to_text(value))),
            Self::Text(text) => text.render(variables, &mut rendered)?,
            Self::Json(json) => json.render(variables, &mut rendered)?,
        }
        Ok(Cow::Owned(rendered))
    }

    /// The number, if it is one without templates.
    fn is_no_number(&self) -> bool {
        match self {
            Self::Fixed(Json::String(text)) => digits::spelled(text).is_none(),
            Self::Fixed(value) => digits::of_number(value).is_none(),
            Self::Json(_) => true,
            Self::Text(_) => false,
        }
    }
}

impl TextCompiler<'_> {
    /// Compiles a condition. What a value alone means is for the caller to say.
    pub(super) fn expectation(
        &mut self,
        config: &condition::Condition,
        plain: TestConstructor,
        node: &YamlNode,
    ) -> ValueCondition {
        match config {
            condition::Condition::Value(value) => {
                ValueCondition { tests: self.operand(value, node).map(plain).into_iter().collect() }
            }
            condition::Condition::Comparisons(comparisons) => self.comparisons(comparisons, node),
        }
    }

    fn comparisons(&mut self, config: &Comparisons, node: &YamlNode) -> ValueCondition {
        let mut tests = Vec::new();
        // Checked first: the other comparisons would say of a missing value only that it is missing.
        tests.extend(config.exists.map(Test::Exists));
        tests.extend(config.kind.as_ref().map(|types| Test::Type(types.0.clone())));
        let simple: [(&str, &Option<Json>, TestConstructor); 4] = [
            ("equals", &config.equals, Test::Equals),
            ("eq", &config.eq, Test::Equals),
            ("ne", &config.ne, Test::Differs),
            ("contains", &config.contains, Test::Contains),
        ];
        for (key, value, test) in simple {
            let Some(value) = value else { continue };
            tests.extend(self.operand(value, at(node, &[key])).map(test));
        }
        let bounds = [
            ("gt", &config.gt, Inequality::Above),
            ("ge", &config.ge, Inequality::AtLeast),
            ("lt", &config.lt, Inequality::Below),
            ("le", &config.le, Inequality::AtMost),
        ];
        for (key, bound, side) in bounds {
            let Some(bound) = bound else { continue };
            let place = at(node, &[key]);
            let Some(operand) = self.operand(&bound.0, place) else { continue };
            if operand.is_no_number() {
                let fault = Fault::error(place.span.clone(), format!("`{key}` compares numbers"));
                self.faults.push(fault.help("write a number, or a template that becomes one: '{{ limit }}'"));
            }
            tests.push(Test::Compares(side, operand));
        }
        if let Some(pattern) = &config.matches {
            tests.extend(self.regex(pattern, at(node, &["matches"])).map(Test::Matches));
        }
        if let Some(values) = &config.one_of {
            let place = at(node, &["one_of"]);
            tests.push(Test::OneOf(values.iter().filter_map(|value| self.operand(value, place)).collect()));
        }
        if let Some(length) = &config.length {
            tests.push(Test::Length(self.expectation(&length.0, Test::Equals, at(node, &["length"]))));
        }
        if let Some(not) = &config.not {
            tests.push(Test::Not(self.expectation(not, Test::Equals, at(node, &["not"]))));
        }
        if config.exists == Some(false) && tests.len() > 1 {
            let fault = Fault::error(
                key_span(node, "exists"),
                "`exists: false` together with another comparison, which needs a value",
            );
            self.faults.push(fault.help("keep one of the two"));
        }
        if config.eq.is_some() && config.equals.is_some() {
            let fault = Fault::error(key_span(node, "eq"), "`eq` together with `equals`, which is the same");
            self.faults.push(fault.help("keep one of the two; `one_of` compares with several values"));
        }
        ValueCondition { tests }
    }

    fn operand(&mut self, value: &Json, node: &YamlNode) -> Option<Operand> {
        Some(match value {
            Json::String(text) => match self.text(text, node)? {
                CompiledText::Literal(text) => Operand::Fixed(Json::String(text.into())),
                text => Operand::Text(text),
            },
            Json::Array(_) | Json::Object(_) if digits::digits(value).is_none() => {
                let json = self.json(value, node)?;
                match json.literal() {
                    Some(_) => Operand::Fixed(value.clone()),
                    None => Operand::Json(json),
                }
            }
            plain => Operand::Fixed(plain.clone()),
        })
    }
}

/// For tests: the condition that a YAML text stands for; the variable `n` is known.
///
/// # Errors
///
/// The faults of the text.
#[cfg(any(test, feature = "simulation"))]
pub fn compiled(text: &str) -> Result<ValueCondition, Vec<String>> {
    use text::diagnostics::SourceText;
    use text::yaml;
    let root = yaml::parse(&SourceText::new("t", text)).map_err(|faults| said(&faults))?;
    let config = serde_path_to_error::deserialize(root.to_value());
    let config: condition::Condition = config.map_err(|error| vec![error.to_string()])?;
    let names = super::texts::VariableNames { known: ["n".to_owned()].into(), ..Default::default() };
    let mut compiler = TextCompiler::new(names);
    let condition = compiler.expectation(&config, Test::Equals, &root);
    if compiler.faults.is_empty() { Ok(condition) } else { Err(said(&compiler.faults)) }
}

#[cfg(any(test, feature = "simulation"))]
fn said(faults: &[Fault]) -> Vec<String> {
    faults.iter().map(|fault| fault.message.clone()).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn comparisons_that_contradict_each_other_are_refused() {
        for (text, fault) in [
            ("{ gt: many }", "`gt` compares numbers"),
            ("{ gt: [1.50] }", "`gt` compares numbers"),
            ("{ le: '' }", "`le` compares numbers"),
            ("{ exists: false, gt: 3 }", "`exists: false` together with another comparison"),
            ("{ eq: 1, equals: 1 }", "`eq` together with `equals`"),
            ("{ not: { gt: '{{ m }}' } }", "unknown variable `m`"),
            ("{ one_of: [1, '{{ m }}'] }", "unknown variable `m`"),
            ("{ matches: '(' }", "not a regular expression"),
            ("{ grater: 3 }", "unknown field `grater`"),
        ] {
            let faults = super::compiled(text).err().unwrap_or_else(|| panic!("{text} is accepted"));
            assert!(faults.len() == 1 && faults[0].contains(fault), "{text}: {faults:?}");
        }
    }
}
