//! JSON with templates in it, compiled into fixed text and the values to fill in.

use text::digits;
use text::template::{CompiledText, Engine, TemplateError, Variables};

/// A JSON value with templates, which are filled in for every use.
pub struct JsonTemplate {
    segments: Vec<Segment>,
}

enum Segment {
    /// Fixed JSON text.
    Raw(String),
    /// A value to fill in.
    Value(CompiledText),
}

impl JsonTemplate {
    /// Compiles every string in `value`.
    ///
    /// # Errors
    /// The first template that does not compile.
    pub fn compile(engine: Engine, value: &serde_json::Value) -> Result<Self, TemplateError> {
        let mut segments = vec![Segment::Raw(String::new())];
        compile_into(engine, value, &mut segments)?;
        Ok(Self { segments })
    }

    /// The templates to fill in.
    pub fn texts(&self) -> impl Iterator<Item = &CompiledText> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Value(text) => Some(text),
            Segment::Raw(_) => None,
        })
    }

    /// The JSON text, if there are no templates.
    #[must_use]
    pub fn literal(&self) -> Option<String> {
        let raw = |segment: &Segment| match segment {
            Segment::Raw(json) => Some(json.clone()),
            Segment::Value(_) => None,
        };
        self.segments.iter().map(raw).collect()
    }

    /// Appends the JSON text.
    ///
    /// # Errors
    /// An undefined variable or a failing expression.
    pub fn render(&self, variables: &Variables, output: &mut String) -> Result<(), TemplateError> {
        for segment in &self.segments {
            match segment {
                Segment::Raw(json) => output.push_str(json),
                Segment::Value(text) => output.push_str(&text.json(variables)?),
            }
        }
        Ok(())
    }

    /// The JSON value, whose numbers keep their digits.
    ///
    /// # Errors
    /// An undefined variable or a failing expression.
    pub fn evaluate(&self, variables: &Variables) -> Result<serde_json::Value, TemplateError> {
        let mut text = String::new();
        self.render(variables, &mut text)?;
        digits::parse(text.as_bytes()).map_err(|error| TemplateError(error.to_string()))
    }
}

fn compile_into(
    engine: Engine,
    value: &serde_json::Value,
    segments: &mut Vec<Segment>,
) -> Result<(), TemplateError> {
    match value {
        serde_json::Value::String(text) => match engine.compile(text)? {
            CompiledText::Literal(text) => push_raw(segments, &serde_json::Value::from(&*text).to_string()),
            text => segments.push(Segment::Value(text)),
        },
        serde_json::Value::Array(items) => {
            push_raw(segments, "[");
            for (index, item) in items.iter().enumerate() {
                push_raw(segments, if index == 0 { "" } else { "," });
                compile_into(engine, item, segments)?;
            }
            push_raw(segments, "]");
        }
        serde_json::Value::Object(map) if digits::digits(value).is_none() => {
            push_raw(segments, "{");
            for (index, (key, item)) in map.iter().enumerate() {
                push_raw(segments, if index == 0 { "" } else { "," });
                push_raw(segments, &serde_json::Value::from(key.as_str()).to_string());
                push_raw(segments, ":");
                compile_into(engine, item, segments)?;
            }
            push_raw(segments, "}");
        }
        plain => push_raw(segments, &digits::to_text(plain)),
    }
    Ok(())
}

fn push_raw(segments: &mut Vec<Segment>, json: &str) {
    match segments.last_mut() {
        Some(Segment::Raw(last)) => last.push_str(json),
        _ => segments.push(Segment::Raw(json.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use text::template::Value;

    #[test]
    fn texts_in_json_are_filled_in_and_escaped() {
        let shared = vec![(Arc::from("s"), Value::from("a\"b")), (Arc::from("n"), Value::from(2))];
        let variables = Variables::new(Arc::new(shared));
        for (json, expected) in [
            (r#"{"a":[1,true,null,"x"],"b":{}}"#, r#"{"a":[1,true,null,"x"],"b":{}}"#),
            (
                r#"{"a":[1.50,18446744073709551616,1E400,{"b":-0}]}"#,
                r#"{"a":[1.50,18446744073709551616,1E400,{"b":-0}]}"#,
            ),
            (r#"{"a":"{{ s }}","n":"{{ n }}","m":"n={{ n }}"}"#, r#"{"a":"a\"b","n":2,"m":"n=2"}"#),
        ] {
            let value = digits::parse(json.as_bytes()).unwrap();
            let mut text = String::new();
            JsonTemplate::compile(Engine::new(), &value).unwrap().render(&variables, &mut text).unwrap();
            assert_eq!(text, expected);
        }
    }
}
