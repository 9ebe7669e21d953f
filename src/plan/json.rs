//! JSON with templates in it, compiled into fixed text and the values to fill in.

use grpc::message::PlacePart;
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
    /// A text to fill in, whatever its template gives.
    Text(CompiledText),
}

impl JsonTemplate {
    /// Compiles every string in `value`.
    ///
    /// # Errors
    /// The first template that does not compile.
    pub fn compile(engine: Engine, value: &serde_json::Value) -> Result<Self, TemplateError> {
        Self::compile_with_texts(engine, value, &|_| false)
    }

    /// The same, where `is_text` tells the places that have a text in any case: a number there becomes one.
    ///
    /// # Errors
    /// The first template that does not compile.
    pub fn compile_with_texts(
        engine: Engine,
        value: &serde_json::Value,
        is_text: &dyn Fn(&[PlacePart]) -> bool,
    ) -> Result<Self, TemplateError> {
        let segments = vec![Segment::Raw(String::new())];
        let mut compilation = Compilation { engine, is_text, place: Vec::new(), segments };
        compilation.add(value)?;
        Ok(Self { segments: compilation.segments })
    }

    /// The templates to fill in.
    pub fn texts(&self) -> impl Iterator<Item = &CompiledText> {
        self.segments.iter().filter_map(|segment| match segment {
            Segment::Value(text) | Segment::Text(text) => Some(text),
            Segment::Raw(_) => None,
        })
    }

    /// The JSON text, if there are no templates.
    #[must_use]
    pub fn literal(&self) -> Option<String> {
        let raw = |segment: &Segment| match segment {
            Segment::Raw(json) => Some(json.clone()),
            Segment::Value(_) | Segment::Text(_) => None,
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
                Segment::Text(text) => {
                    let mut rendered = String::new();
                    text.render(variables, &mut rendered)?;
                    output.push_str(&serde_json::Value::from(rendered).to_string());
                }
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

/// JSON that is being compiled.
struct Compilation<'a> {
    engine: Engine,
    is_text: &'a dyn Fn(&[PlacePart]) -> bool,
    /// Where in the JSON.
    place: Vec<PlacePart>,
    segments: Vec<Segment>,
}

impl Compilation<'_> {
    fn add(&mut self, value: &serde_json::Value) -> Result<(), TemplateError> {
        match value {
            serde_json::Value::String(text) => match self.engine.compile(text)? {
                CompiledText::Literal(text) => self.raw(&serde_json::Value::from(&*text).to_string()),
                text if (self.is_text)(&self.place) => self.segments.push(Segment::Text(text)),
                text => self.segments.push(Segment::Value(text)),
            },
            serde_json::Value::Array(items) => {
                self.raw("[");
                for (index, item) in items.iter().enumerate() {
                    self.raw(if index == 0 { "" } else { "," });
                    self.within(PlacePart::Item(index), item)?;
                }
                self.raw("]");
            }
            serde_json::Value::Object(map) if digits::digits(value).is_none() => {
                self.raw("{");
                for (index, (key, item)) in map.iter().enumerate() {
                    self.raw(if index == 0 { "" } else { "," });
                    self.raw(&serde_json::Value::from(key.as_str()).to_string());
                    self.raw(":");
                    self.within(PlacePart::Key(key.clone()), item)?;
                }
                self.raw("}");
            }
            plain => {
                let text = digits::to_text(plain);
                let is_number = plain.is_number() || digits::digits(plain).is_some();
                match is_number && (self.is_text)(&self.place) {
                    true => self.raw(&serde_json::Value::from(text).to_string()),
                    false => self.raw(&text),
                }
            }
        }
        Ok(())
    }

    fn within(&mut self, part: PlacePart, value: &serde_json::Value) -> Result<(), TemplateError> {
        self.place.push(part);
        let added = self.add(value);
        self.place.pop();
        added
    }

    fn raw(&mut self, json: &str) {
        match self.segments.last_mut() {
            Some(Segment::Raw(last)) => last.push_str(json),
            _ => self.segments.push(Segment::Raw(json.to_owned())),
        }
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
