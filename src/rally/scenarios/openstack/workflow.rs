//! Scenarios for Mistral.

use super::arguments::ArgumentMapping;
use super::{Argument, ShippedScenario, may, must, user};
use crate::scenarios::ParameterKind;

static DEFINITION: [Argument; 2] = [
    must("definition", ParameterKind::Text, ArgumentMapping::Workbook),
    may("do_delete", ParameterKind::Flag, ArgumentMapping::Variable("do_delete")),
];

/// After the definition, whose first workflow is taken otherwise.
static EXECUTION: [Argument; 3] = [
    may("workflow_name", ParameterKind::Text, ArgumentMapping::Workflow),
    may("wf_input", ParameterKind::Text, ArgumentMapping::JsonFile("input")),
    may("params", ParameterKind::Text, ArgumentMapping::JsonFile("params")),
];

static LIST: [Argument; 4] = [
    may("marker", ParameterKind::Text, ArgumentMapping::Query),
    may("limit", ParameterKind::Integer(1, i64::MAX), ArgumentMapping::Query),
    may("sort_keys", ParameterKind::Text, ArgumentMapping::Query),
    may("sort_dirs", ParameterKind::Text, ArgumentMapping::Query),
];

pub(super) static SCENARIOS: [ShippedScenario; 4] = [
    user("MistralWorkbooks.list_workbooks", &[]),
    user("MistralWorkbooks.create_workbook", &[&DEFINITION]),
    user("MistralExecutions.list_executions", &[&LIST]),
    user("MistralExecutions.create_execution_from_workbook", &[&DEFINITION, &EXECUTION]),
];
