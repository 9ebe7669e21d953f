//! What the percentiles of an action are over, where it is not one request in each iteration.

use results::model::{Action, Workload};
use terms::groups::{GROUP, TOGETHER};

/// A clause about an action that ran several times in an iteration, polled, or is a group; `None` for other actions.
pub(super) fn clause(action: &Action) -> Option<String> {
    let total = action.requests.total;
    let group = [GROUP, TOGETHER].contains(&action.request.as_str());
    let unit = match action.sent {
        _ if group => "rounds",
        Some(_) => "polls",
        None => "requests",
    };
    let sent = action.sent.filter(|_| !group).map(|sent| format!("sent {sent} requests"));
    match (action.iterations, sent) {
        (Some(iterations), Some(sent)) => {
            Some(format!("{total} {unit} in {iterations} iterations, which {sent}"))
        }
        (Some(iterations), None) => Some(format!("{total} {unit} in {iterations} iterations")),
        (None, Some(sent)) => Some(format!("{total} {unit}, which {sent}")),
        (None, None) => None,
    }
}

/// A sentence about all actions of a workload whose percentiles are not over one request in each iteration.
pub(super) fn sentence(workload: &Workload) -> Option<String> {
    let clauses: Vec<String> = workload
        .actions
        .iter()
        .filter(|action| action.requests.total > 0)
        .filter_map(|action| Some(format!("`{}` over {}", action.name, clause(action)?)))
        .collect();
    (!clauses.is_empty()).then(|| format!("Percentiles are over samples: {}.", clauses.join("; ")))
}
