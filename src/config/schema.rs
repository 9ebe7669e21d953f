//! JSON Schemas (draft-07) of the files that users write, for editors and for [`super::check`].

use std::sync::LazyLock;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::deployment::Deployment;
use super::flow::StepsFile;
use super::rally::RallyDocument;
use super::scenario::Scenario;
use super::sla::SlaFile;

/// The schema of scenario files.
pub static SCENARIO: LazyLock<Value> = LazyLock::new(draft07::<Scenario>);
/// The schema of files that a scenario includes.
pub static STEPS: LazyLock<Value> = LazyLock::new(draft07::<StepsFile>);
/// The schema of deployment files.
pub static DEPLOYMENT: LazyLock<Value> = LazyLock::new(draft07::<Deployment>);
/// The schema of the part of a file that `bench check --sla` reads.
pub static SLA: LazyLock<Value> = LazyLock::new(draft07::<SlaFile>);
/// The schema of Rally's deployment documents.
pub static RALLY: LazyLock<Value> = LazyLock::new(draft07::<RallyDocument>);

/// Makes the draft-07 schema of a type.
#[must_use]
pub fn draft07<T: JsonSchema>() -> Value {
    SchemaSettings::draft07().into_generator().into_root_schema_for::<T>().to_value()
}
