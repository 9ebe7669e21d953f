//! JSON Schemas (draft-07) of the files that users write, for editors and for [`super::check`].

use std::sync::LazyLock;

use serde_json::{Value, json};

use text::json_schema::draft07;

use super::check::is_published;
use super::deployment::Deployment;
use super::rally::RallyDocument;
use super::reference::Reference;
use super::referred;
use super::scenario::Scenario;
use super::sla::SlaFile;
use super::step::flow::StepsFile;

/// The schema of scenario files.
pub static SCENARIO: LazyLock<Value> = LazyLock::new(draft07::<Scenario>);
/// The schema of files that a scenario includes.
pub static STEPS: LazyLock<Value> = LazyLock::new(draft07::<StepsFile>);
/// The same for editors: a reference may stand in place of a step's texts. [`super::referred`] replaces it before the
/// document is checked.
pub static SCENARIO_AS_WRITTEN: LazyLock<Value> = LazyLock::new(|| with_references(SCENARIO.clone()));
/// The schema of deployment files.
pub static DEPLOYMENT: LazyLock<Value> = LazyLock::new(draft07::<Deployment>);
/// The schema of the part of a file that `bench check --sla` reads.
pub static SLA: LazyLock<Value> = LazyLock::new(draft07::<SlaFile>);
/// The schema of Rally's deployment documents.
pub static RALLY: LazyLock<Value> = LazyLock::new(draft07::<RallyDocument>);

/// Allows references in place of the texts of a step.
fn with_references(mut schema: Value) -> Value {
    if let Some(steps) = schema.pointer_mut("/definitions/Step/properties").and_then(Value::as_object_mut) {
        steps.retain(|_, property| is_published(property));
    }
    let mut reference = draft07::<Reference>();
    let referring = json!({ "$ref": "#/definitions/Reference" });
    let places = ["/definitions/LinesOfstring/anyOf/1/items", "/definitions/Values/anyOf/3/items"];
    let texts = referred::TEXTS.iter().map(|key| format!("/definitions/Step/properties/{key}"));
    for place in texts.chain(places.map(str::to_owned)) {
        let Some(text) = schema.pointer_mut(&place).and_then(Value::as_object_mut) else { continue };
        let types = text.remove("type").unwrap_or_default();
        let others = types.as_array().into_iter().flatten().filter(|kind| *kind != "string");
        let others = others.map(|kind| json!({ "type": kind }));
        let choices: Vec<Value> = [referring.clone()].into_iter().chain(others).collect();
        text.insert("anyOf".to_owned(), Value::Array(choices));
    }
    for place in
        ["/definitions/Values/anyOf", "/definitions/LinesOfstring/anyOf", "/definitions/TextCondition/anyOf"]
    {
        let Some(choices) = schema.pointer_mut(place).and_then(Value::as_array_mut) else { continue };
        choices
            .iter_mut()
            .filter(|choice| choice["type"] == "string")
            .for_each(|choice| *choice = referring.clone());
    }
    if let (Some(reference), Some(definitions)) =
        (reference.as_object_mut(), schema["definitions"].as_object_mut())
    {
        reference.retain(|key, _| !matches!(key.as_str(), "$schema" | "title"));
        definitions.insert("Reference".to_owned(), Value::Object(std::mem::take(reference)));
    }
    schema
}
