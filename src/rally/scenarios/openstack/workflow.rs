//! Scenarios for Mistral.

use super::arguments::Use;
use super::{Argument, Shipped, may, must, user};
use crate::scenarios::Kind;

static DEFINITION: [Argument; 2] =
    [must("definition", Kind::Text, Use::Workbook), may("do_delete", Kind::Flag, Use::Variable("do_delete"))];

/// After the definition, whose first workflow is taken otherwise.
static EXECUTION: [Argument; 3] = [
    may("workflow_name", Kind::Text, Use::Workflow),
    may("wf_input", Kind::Text, Use::JsonFile("input")),
    may("params", Kind::Text, Use::JsonFile("params")),
];

static LIST: [Argument; 4] = [
    may("marker", Kind::Text, Use::Query),
    may("limit", Kind::Integer(1, i64::MAX), Use::Query),
    may("sort_keys", Kind::Text, Use::Query),
    may("sort_dirs", Kind::Text, Use::Query),
];

/// The scenarios.
pub(super) static SCENARIOS: [Shipped; 4] = [
    user("MistralWorkbooks.list_workbooks", &[]),
    user("MistralWorkbooks.create_workbook", &[&DEFINITION]),
    user("MistralExecutions.list_executions", &[&LIST]),
    user("MistralExecutions.create_execution_from_workbook", &[&DEFINITION, &EXECUTION]),
];
