//! Finds thresholds that no run could meet together, such as `p99 < 10ms` and `p50 > 20ms`.

use std::collections::HashMap;

use super::{Metric, MetricCondition, Operator, Statistic};

/// Pairs of conditions, by their numbers, that contradict each other; at most one pair for each condition that asks
/// for much.
#[must_use]
pub fn find(conditions: &[&MetricCondition]) -> Vec<(usize, usize)> {
    let mut groups: HashMap<String, Vec<(f64, usize)>> = HashMap::new();
    for (number, condition) in conditions.iter().enumerate() {
        let (group, rank) = place(&condition.metric);
        groups.entry(group).or_default().push((rank, number));
    }
    let mut pairs: Vec<(usize, usize)> =
        groups.into_values().flat_map(|group| of_group(conditions, group)).collect();
    pairs.sort_unstable();
    pairs
}

/// Comparable metrics are in the same group. Within a group, a metric with a higher rank is never smaller.
fn place(metric: &Metric) -> (String, f64) {
    let ranked = |statistic: &Statistic| match statistic {
        Statistic::Min => Some(0.0),
        Statistic::Percentile(percent) => Some(*percent),
        Statistic::Max => Some(100.0),
        Statistic::Mean => None,
    };
    let ordered = match metric {
        Metric::Time(statistic, times) => ranked(statistic).map(|rank| (format!("time {times}"), rank)),
        Metric::Trace(statistic, figure, points) => {
            ranked(statistic).map(|rank| (format!("{} {points}", figure.word()), rank))
        }
        Metric::Number(statistic, name) => ranked(statistic).map(|rank| (format!("measure {name}"), rank)),
        _ => None,
    };
    ordered.unwrap_or_else(|| (format!("= {metric}"), 0.0))
}

fn of_group(conditions: &[&MetricCondition], mut group: Vec<(f64, usize)>) -> Vec<(usize, usize)> {
    // From the highest rank down: the smallest upper limit so far, and whether the value may equal it.
    group.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut pairs = Vec::new();
    let mut least: Option<(f64, bool, usize)> = None;
    let mut start = 0;
    while start < group.len() {
        let end = start + group[start..].iter().take_while(|(rank, _)| *rank >= group[start].0).count();
        for &(_, number) in &group[start..end] {
            let MetricCondition { operator, limit, .. } = conditions[number];
            if matches!(operator, Operator::Below | Operator::AtMost | Operator::Equal) {
                let reached = *operator != Operator::Below;
                if least.is_none_or(|(known, known_reached, _)| {
                    *limit < known || *limit <= known && known_reached && !reached
                }) {
                    least = Some((*limit, reached, number));
                }
            }
        }
        for &(_, number) in &group[start..end] {
            let MetricCondition { operator, limit, .. } = conditions[number];
            let Some((most, reached, other)) = least else { continue };
            let reaches = *operator != Operator::Above;
            let asks = matches!(operator, Operator::Above | Operator::AtLeast | Operator::Equal);
            if asks && other != number && (*limit > most || *limit >= most && !(reached && reaches)) {
                pairs.push((number, other));
            }
        }
        start = end;
    }
    pairs
}
