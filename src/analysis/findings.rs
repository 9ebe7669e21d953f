//! The trace points that took the most time in the slowest iterations.
//!
//! Counts how often each trace point was the culprit. This shows which points took the time, not why;
//! [`super::causes`] compares slow with typical iterations.

use crate::results::model::{Finding, SlowIteration};

/// The culprits of the slowest iterations, most frequent first.
#[must_use]
pub fn of_slowest(slowest: &[SlowIteration]) -> Vec<Finding> {
    let with_culprit: Vec<_> =
        slowest.iter().filter_map(|slow| Some((slow, slow.culprit.as_ref()?))).collect();
    let mut groups: Vec<Vec<_>> = Vec::new();
    for &(slow, culprit) in &with_culprit {
        let same =
            groups.iter_mut().find(|group: &&mut Vec<(&SlowIteration, &crate::results::model::Culprit)>| {
                let (_, other) = group[0];
                (&other.service, &other.name, &other.detail)
                    == (&culprit.service, &culprit.name, &culprit.detail)
            });
        match same {
            Some(group) => group.push((slow, culprit)),
            None => groups.push(vec![(slow, culprit)]),
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    let of = with_culprit.len() as u64;
    groups
        .into_iter()
        .map(|group| {
            let (_, first) = group[0];
            Finding {
                name: first.name.clone(),
                detail: first.detail.clone(),
                service: first.service.clone(),
                path: first.path.clone(),
                iterations: group.len() as u64,
                of,
                median_self_ms: median(group.iter().map(|(_, culprit)| culprit.self_ms)),
                median_share: median(group.iter().map(|(_, culprit)| culprit.share)),
                median_calls: median(group.iter().map(|(_, culprit)| culprit.calls as f64)),
                trace_ids: group.iter().map(|(slow, _)| slow.iteration.trace_id).collect(),
            }
        })
        .collect()
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        length if length % 2 == 1 => values[length / 2],
        length => f64::midpoint(values[length / 2 - 1], values[length / 2]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::model::{Culprit, IterationOutcome, IterationRow, TraceState};

    fn slow(name: &str, self_ms: f64) -> SlowIteration {
        let culprit = Culprit {
            name: name.into(),
            detail: String::new(),
            service: "s".into(),
            host: String::new(),
            calls: 2,
            self_ms,
            share: self_ms / 100.0,
            path: Vec::new(),
        };
        SlowIteration {
            iteration: IterationRow {
                trace_id: uuid::Uuid::new_v4(),
                workload: 0,
                number: 0,
                warm_up: false,
                profiled: true,
                due_s: 0.0,
                start_s: 0.0,
                duration_ms: 100.0,
                outcome: IterationOutcome::Ok,
                error: None,
            },
            response_ms: 100.0,
            asynchronous_ms: None,
            actions: Vec::new(),
            trace: TraceState::Complete,
            culprit: (!name.is_empty()).then_some(culprit),
        }
    }

    #[test]
    fn the_most_frequent_culprit_comes_first_with_its_medians() {
        let slowest =
            [slow("rpc", 90.0), slow("db", 80.0), slow("", 0.0), slow("db", 60.0), slow("db", 70.0)];
        let findings = of_slowest(&slowest);
        let short: Vec<_> =
            findings.iter().map(|f| (f.name.as_str(), f.iterations, f.of, f.median_self_ms)).collect();
        assert_eq!(short, [("db", 3, 4, 70.0), ("rpc", 1, 4, 90.0)]);
        assert_eq!(findings[0].trace_ids[0], slowest[1].iteration.trace_id);
        assert!(of_slowest(&[]).is_empty());
    }
}
