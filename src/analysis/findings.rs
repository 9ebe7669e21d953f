//! The slowest iterations by what explains them.
//!
//! The explanations come from [`super::explanation`]; an iteration that nothing explains by itself is in no group.

use std::collections::HashMap;

use uuid::Uuid;

use super::explanation;
use results::model::{Explanation, Finding, Place, SlowIteration};

/// The slowest iterations by what explains them, the largest group first.
#[must_use]
pub fn of_slowest(slowest: &[SlowIteration], explanations: &[Explanation]) -> Vec<Finding> {
    let known: HashMap<Uuid, &Explanation> = explanations.iter().map(|one| (one.trace_id, one)).collect();
    let explained: Vec<&Explanation> =
        slowest.iter().filter_map(|slow| known.get(&slow.iteration.trace_id).copied()).collect();
    let mut groups: Vec<Vec<&Explanation>> = Vec::new();
    for one in explained.iter().copied().filter(|one| one.explains) {
        match groups.iter_mut().find(|group| key(group[0]) == key(one)) {
            Some(group) => group.push(one),
            None => groups.push(vec![one]),
        }
    }
    // Of groups of one size, that which the headline names comes first.
    groups.sort_by_key(|group| (std::cmp::Reverse(group.len()), !group[0].is_headline));
    groups.iter().map(|group| finding(group, explained.len() as u64)).collect()
}

/// What makes two explanations the same.
fn key(one: &Explanation) -> impl PartialEq {
    (one.basis, one.place, one.service.clone(), one.name.clone(), one.detail.clone(), one.parent.clone())
}

fn finding(group: &[&Explanation], of: u64) -> Finding {
    let (first, cause) = (group[0], explanation::cause(group[0]));
    let of_group = |value: fn(&Explanation) -> Option<f64>| -> Vec<f64> {
        group.iter().filter_map(|one| value(one)).collect()
    };
    Finding {
        name: cause.name,
        detail: if first.place == Place::Outside { first.detail.clone() } else { cause.detail },
        service: cause.service,
        parent: first.parent.clone(),
        place: first.place,
        basis: first.basis,
        is_headline: first.is_headline,
        path: first.path.clone(),
        iterations: group.len() as u64,
        of,
        median_self_ms: median(of_group(|one| Some(one.own_ms))).unwrap_or(0.0),
        median_share: median(of_group(|one| Some(one.share_of_response()))).unwrap_or(0.0),
        median_calls: median(of_group(|one| Some(one.calls as f64))).unwrap_or(0.0),
        median_longer_ms: median(of_group(|one| one.longer_ms)),
        median_share_of_excess: median(of_group(|one| one.share_of_excess)),
        trace_ids: group.iter().map(|one| one.trace_id).collect(),
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => None,
        length if length % 2 == 1 => Some(values[length / 2]),
        length => Some(f64::midpoint(values[length / 2 - 1], values[length / 2])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use results::model::{Basis, IterationOutcome, IterationRow, TraceState};

    fn slow(trace_id: Uuid) -> SlowIteration {
        SlowIteration {
            iteration: IterationRow {
                trace_id,
                workload: 0,
                number: 0,
                warm_up: false,
                profiled: true,
                due_s: 0.0,
                start_s: Some(0.0),
                duration_ms: Some(100.0),
                outcome: IterationOutcome::Ok,
                resent: false,
                error: None,
            },
            response_ms: 100.0,
            asynchronous_ms: None,
            actions: Vec::new(),
            trace: TraceState::Complete,
            lacks_spans: false,
            cause: None,
        }
    }

    /// An explanation by the kind of this name.
    fn explained(trace_id: Uuid, name: &str, own_ms: f64, explains: bool) -> Explanation {
        serde_json::from_value(serde_json::json!({
            "trace_id": trace_id, "workload": 0, "basis": "difference", "place": "point", "service": "s", "name": name,
            "detail": "", "parent": "", "host": "", "path": [], "own_ms": own_ms, "typical_ms": 10.0,
            "longer_ms": own_ms - 10.0, "response_ms": 100.0, "typical_response_ms": 20.0, "excess_ms": 80.0,
            "share_of_excess": 0.75, "calls": 2, "typical_calls": 1.0, "explains": explains, "is_headline": name == "cache",
        }))
        .unwrap()
    }

    #[test]
    fn the_largest_group_comes_first_with_its_medians() {
        let rows = [
            ("rpc", 90.0, true),
            ("db", 80.0, true),
            ("", 0.0, true),
            ("db", 60.0, true),
            ("wsgi", 30.0, false),
            ("db", 70.0, true),
            ("cache", 65.0, true),
        ];
        let ids: Vec<Uuid> = (1..=rows.len()).map(|number| Uuid::from_u128(number as u128)).collect();
        let slowest: Vec<SlowIteration> = ids.iter().map(|id| slow(*id)).collect();
        let known = ids.iter().zip(rows).filter(|(_, (name, ..))| !name.is_empty());
        let explanations: Vec<Explanation> =
            known.map(|(id, (name, own_ms, explains))| explained(*id, name, own_ms, explains)).collect();
        let findings = of_slowest(&slowest, &explanations);
        let short: Vec<_> = findings
            .iter()
            .map(|one| (one.name.as_str(), one.iterations, one.of, one.median_self_ms, one.median_longer_ms))
            .collect();
        assert_eq!(
            short,
            [
                ("db", 3, 6, 70.0, Some(60.0)),
                ("cache", 1, 6, 65.0, Some(55.0)),
                ("rpc", 1, 6, 90.0, Some(80.0))
            ]
        );
        assert_eq!(findings[0].trace_ids, [ids[1], ids[3], ids[5]]);
        assert_eq!((findings[0].basis, findings[1].is_headline), (Basis::Difference, true));
        assert!(of_slowest(&slowest, &[]).is_empty());
    }
}
