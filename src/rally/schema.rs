//! The structure of task files, in both versions, and of runners and triggers, as JSON Schemas for [`config::check`].
//!
//! The limits are those of Rally 5.1 (rally/task/task_cfg.py and the runners' and triggers' schemas).

use std::sync::LazyLock;

use serde_json::{Value, json};

/// The most iterations at the same time, as in scenarios.
const CONCURRENCY_MAX: u32 = 100_000;
/// The longest time in a scenario: 30 days.
const TIMEOUT_S_MAX: u32 = 30 * 24 * 3600;

fn with_one_key() -> Value {
    json!({
        "type": "object", "minProperties": 1, "maxProperties": 1,
        "additionalProperties": { "type": "object" },
    })
}

fn tags() -> Value {
    json!({ "type": "array", "items": { "type": "string", "maxLength": 255 } })
}

fn hook_v2() -> Value {
    json!({
        "type": "object", "additionalProperties": false, "required": ["action", "trigger"],
        "properties": {
            "description": { "type": "string" },
            "action": { "type": "object", "minProperties": 1, "maxProperties": 1, "additionalProperties": {} },
            "trigger": with_one_key(),
        },
    })
}

/// What a workload has; `more` are further properties.
fn workload_v2(more: &Value, required: &Value) -> Value {
    let mut properties = json!({
        "scenario": with_one_key(),
        "description": { "type": "string" },
        "runner": with_one_key(),
        "sla": { "type": "object" },
        "contexts": { "type": "object" },
        "hooks": { "type": "array", "items": hook_v2() },
    });
    if let (Some(properties), Some(more)) = (properties.as_object_mut(), more.as_object()) {
        properties.extend(more.clone());
    }
    json!({ "type": "object", "additionalProperties": false, "properties": properties, "required": required })
}

/// A task file of version 2.
pub(super) static V2: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object", "additionalProperties": false, "required": ["version", "title", "subtasks"],
        "properties": {
            "version": { "type": ["integer", "string", "number"] },
            "title": { "type": "string", "maxLength": 255 },
            "description": { "type": "string" },
            "tags": tags(),
            "subtasks": { "type": "array", "items": { "type": "object" } },
        },
    })
});

/// A subtask with one workload: its keys are the subtask's.
pub(super) static SUBTASK: LazyLock<Value> = LazyLock::new(|| {
    let more = json!({
        "title": { "type": "string", "maxLength": 128 },
        "group": { "type": "string" },
        "tags": tags(),
    });
    workload_v2(&more, &json!(["title", "scenario"]))
});

/// A subtask with a list of workloads.
pub(super) static SUBTASK_OF_MANY: LazyLock<Value> = LazyLock::new(|| {
    json!({
        "type": "object", "additionalProperties": false, "required": ["title", "workloads"],
        "properties": {
            "title": { "type": "string" },
            "group": { "type": "string" },
            "description": { "type": "string" },
            "tags": tags(),
            "run_in_parallel": { "type": "boolean" },
            "workloads": { "type": "array", "minItems": 1, "items": workload_v2(&json!({}), &json!(["scenario"])) },
        },
    })
});

/// A task file of version 1.
pub(super) static V1: LazyLock<Value> = LazyLock::new(|| {
    let hook = json!({
        "type": "object", "additionalProperties": false, "required": ["name", "args", "trigger"],
        "properties": {
            "name": { "type": "string" },
            "description": { "type": "string" },
            "args": {},
            "trigger": {
                "type": "object", "additionalProperties": false, "required": ["name", "args"],
                "properties": { "name": { "type": "string" }, "args": { "type": "object" } },
            },
        },
    });
    let workload = json!({
        "type": "object", "additionalProperties": false,
        "properties": {
            "args": { "type": "object" },
            "description": { "type": "string" },
            "runner": {
                "type": "object", "required": ["type"], "properties": { "type": { "type": "string" } },
            },
            "context": { "type": "object" },
            "sla": { "type": "object" },
            "hooks": { "type": "array", "items": hook },
        },
    });
    json!({ "type": "object", "minProperties": 1, "additionalProperties": { "type": "array", "items": workload } })
});

/// The settings of each runner.
pub(super) static RUNNERS: LazyLock<Vec<(&str, Value)>> = LazyLock::new(|| {
    let count = json!({ "type": "integer", "minimum": 1 });
    let processors = json!({ "type": "integer", "minimum": 1 });
    let users = json!({ "type": "integer", "minimum": 1, "maximum": CONCURRENCY_MAX });
    let timeout = json!({ "type": "number", "minimum": 0, "maximum": TIMEOUT_S_MAX });
    let duration = json!({ "type": "number", "minimum": 0, "maximum": TIMEOUT_S_MAX });
    let rate = json!({ "type": "number", "minimum": 1, "maximum": 1e6 });
    let steps = json!({
        "type": "object", "additionalProperties": false, "required": ["start", "end", "step"],
        "properties": { "start": rate, "end": rate, "step": rate, "duration": rate },
    });
    let constant_rate = json!({ "type": "number", "exclusiveMinimum": 0, "maximum": 1e6 });
    let runner = |required: Value, properties: Value| json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties });
    vec![
        ("serial", runner(json!([]), json!({ "times": count }))),
        (
            "constant",
            runner(
                json!([]),
                json!({ "times": count, "concurrency": users, "timeout": timeout, "max_cpu_count": processors }),
            ),
        ),
        (
            "constant_for_duration",
            runner(
                json!(["duration"]),
                json!({ "duration": duration, "concurrency": users, "timeout": timeout }),
            ),
        ),
        (
            "rps",
            runner(
                json!(["times", "rps"]),
                json!({
                    "times": count, "rps": { "anyOf": [constant_rate, steps] }, "timeout": timeout,
                    "max_concurrency": users, "max_cpu_count": processors,
                }),
            ),
        ),
    ]
});

/// The settings of each trigger.
pub(super) static TRIGGERS: LazyLock<Vec<(&str, Value)>> = LazyLock::new(|| {
    let unit = json!({ "type": "string", "enum": ["iteration", "time"] });
    let from_zero = json!({ "type": "integer", "minimum": 0 });
    let from_one = json!({ "type": "integer", "minimum": 1 });
    let trigger = |required: Value, properties: Value| json!({ "type": "object", "additionalProperties": false, "required": required, "properties": properties });
    vec![
        (
            "event",
            trigger(
                json!(["unit", "at"]),
                json!({ "unit": unit, "at": { "type": "array", "minItems": 1, "items": from_zero } }),
            ),
        ),
        (
            "periodic",
            trigger(
                json!(["unit", "step"]),
                json!({ "unit": unit, "start": from_zero, "end": from_one, "step": from_one }),
            ),
        ),
    ]
});
