//! A profile in speedscope's own format, as its JSON Schema (`file-format-schema.json`) has it.

use serde_json::{Value, json};

use super::model::FunctionProfile;

/// The JSON text of a `.speedscope.json` file; weights are seconds.
#[must_use]
pub fn encode(profile: &FunctionProfile) -> String {
    let frames = profile.functions.iter().map(|function| {
        let mut frame = json!({"name": function.name});
        if let Some(frame) = frame.as_object_mut().filter(|_| !function.file.is_empty()) {
            frame.insert("file".to_owned(), Value::from(function.file.as_str()));
            frame.insert("line".to_owned(), Value::from(function.line));
        }
        frame
    });
    let seconds = |samples: u64| samples as f64 * profile.seconds_per_sample();
    let total: u64 = profile.stacks.iter().map(|stack| stack.samples).sum();
    let name = format!("{}: {}", profile.operation, profile.header());
    let file = json!({
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "exporter": "osprofiler",
        "name": name,
        "shared": {"frames": frames.collect::<Vec<Value>>()},
        "profiles": [{
            "type": "sampled",
            "name": name,
            "unit": "seconds",
            "startValue": 0,
            "endValue": seconds(total),
            "samples": profile.stacks.iter().map(|stack| &stack.frames).collect::<Vec<_>>(),
            "weights": profile.stacks.iter().map(|stack| seconds(stack.samples)).collect::<Vec<_>>(),
        }],
    });
    file.to_string()
}
