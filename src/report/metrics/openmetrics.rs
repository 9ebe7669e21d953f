//! OpenMetrics 1.0 text, with exemplars.
//!
//! Written by hand: the crate for it takes exemplars one observation at a time, behind a lock, while
//! here whole batches have been counted already.

use std::fmt::Write as _;

use super::{Metric, MetricKind, RunFacts, Value, bound_text, metrics, seconds};
use measure::meter::{Buckets, Meter};

/// The content type of what [`render`] gives.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A load so far.
#[must_use]
pub fn render(meter: &Meter, facts: &RunFacts) -> String {
    let mut text = String::with_capacity(16 * 1024);
    info("bench_build", "What makes the load.", &[("version", facts.bench_version)], &mut text);
    let run_id = facts.run_id.to_string();
    let run = [("run_id", run_id.as_str()), ("scenario", &facts.scenario), ("deployment", &facts.deployment)];
    info("bench_run", "What is run.", &run, &mut text);
    for metric in metrics(meter) {
        add(&metric, facts, &mut text);
    }
    text.push_str("# EOF\n");
    text
}

fn info(name: &str, help: &str, labels: &[(&str, &str)], text: &mut String) {
    head(name, "info", help, text);
    let labels = labels.iter().map(|(name, value)| label(name, value)).collect::<Vec<_>>().join(",");
    line(text, format_args!("{name}_info{{{labels}}} 1"));
}

fn head(name: &str, kind: &str, help: &str, text: &mut String) {
    line(text, format_args!("# TYPE {name} {kind}"));
    if name.ends_with("_seconds") {
        line(text, format_args!("# UNIT {name} seconds"));
    }
    line(text, format_args!("# HELP {name} {help}"));
}

fn add(metric: &Metric<'_>, facts: &RunFacts, text: &mut String) {
    let name = metric.name;
    let (kind, suffix) = match metric.kind {
        MetricKind::Counter => ("counter", "_total"),
        MetricKind::Gauge => ("gauge", ""),
        MetricKind::Histogram => ("histogram", ""),
    };
    head(name, kind, metric.help, text);
    for point in &metric.points {
        let shard = facts.shard.map(|shard| label("shard", &shard.to_string()));
        let labels = shard.into_iter().chain(point.labels.iter().map(|(name, value)| label(name, value)));
        let labels = labels.collect::<Vec<_>>().join(",");
        match &point.value {
            Value::Number(number) => line(text, format_args!("{name}{suffix}{{{labels}}} {number}")),
            Value::Fraction(value) => line(text, format_args!("{name}{suffix}{{{labels}}} {value}")),
            Value::Buckets(buckets) => histogram(name, &labels, buckets, facts, text),
        }
    }
}

fn histogram(name: &str, labels: &str, buckets: &Buckets, facts: &RunFacts, text: &mut String) {
    let mut below = 0;
    for (index, count) in buckets.counts.iter().enumerate() {
        below += count;
        let bound = bound_text(index);
        // The text has both forms of the id: the results' and the one that trace stores search by.
        let exemplar = buckets.exemplars[index].map(|exemplar| {
            let id = facts.ids.trace_id(exemplar.sample);
            let at = seconds(u128::from(facts.started_unix_ns) + u128::from(exemplar.at_ns));
            let value = seconds(u128::from(exemplar.value_ns));
            format!(" # {{trace_id=\"{id}\",w3c_trace_id=\"{}\"}} {value} {at:.3}", id.simple())
        });
        let exemplar = exemplar.unwrap_or_default();
        line(text, format_args!("{name}_bucket{{{labels},le=\"{bound}\"}} {below}{exemplar}"));
    }
    line(text, format_args!("{name}_sum{{{labels}}} {}", seconds(buckets.sum_ns)));
    line(text, format_args!("{name}_count{{{labels}}} {below}"));
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}

pub(super) fn label(name: &str, value: &str) -> String {
    format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::{facts, meter};
    use super::*;

    #[test]
    fn every_series_of_a_shard_says_so() {
        let text = render(&meter(), &RunFacts { shard: Some(2), ..facts() });
        let series = text.lines().filter(|line| !line.starts_with('#') && !line.contains("_info{"));
        assert!(series.clone().count() > 10);
        for line in series {
            assert!(line.contains("{shard=\"2\""), "{line}");
        }
    }

    #[test]
    fn a_load_is_rendered_with_a_trace_id_in_every_occupied_bucket() {
        let text = render(&meter(), &facts());
        for expected in [
            "# TYPE bench_build info\n# HELP bench_build What makes the load.\nbench_build_info{version=\"1.2.3\"} 1\n",
            "scenario=\"a \\\"title\\\"\\\\\\n\"",
            "bench_iterations_total{workload=\"w \\\"1\\\"\",outcome=\"ok\"} 2\n",
            "bench_iterations_total{workload=\"w \\\"1\\\"\",outcome=\"failed\"} 1\n",
            "bench_warm_up_iterations_total{workload=\"w \\\"1\\\"\"} 1\n",
            "bench_errors_total{workload=\"w \\\"1\\\"\",class=\"status\"} 1\n",
            "bench_iterations_in_flight{workload=\"w \\\"1\\\"\"} 6\n",
            "# UNIT bench_response_time_seconds seconds\n",
            "bench_response_time_seconds_bucket{workload=\"w \\\"1\\\"\",le=\"0.0025\"} 0\n",
            "bench_service_time_seconds_count{workload=\"w \\\"1\\\"\"} 3\n",
            "bench_action_time_seconds_sum{workload=\"w \\\"1\\\"\",action=\"log in\"} 90.007\n",
        ] {
            assert!(text.contains(expected), "{expected} is not in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        let slowest = facts().ids.trace_id((0, 2));
        let exemplar = format!(
            "le=\"+Inf\"}} 3 # {{trace_id=\"{slowest}\",w3c_trace_id=\"{}\"}} 90.00004 1700000090.000\n",
            slowest.simple()
        );
        assert!(text.contains(&exemplar), "{exemplar} is not in\n{text}");
    }

    /// The rules of the format that a parser stumbles over.
    #[test]
    fn every_line_follows_the_format() {
        let mut families = std::collections::BTreeSet::new();
        let mut family = String::new();
        for line in render(&meter(), &facts()).lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                family = rest.split(' ').next().unwrap().to_owned();
                assert!(families.insert(family.clone()), "{family} comes twice");
            } else if !line.starts_with('#') {
                assert!(line.starts_with(&family), "{line} is no part of {family}");
                let exemplar = line.split_once(" # ").map_or("", |(_, exemplar)| exemplar);
                assert!(exemplar.len() <= 128 + 40, "an exemplar's labels have 128 characters at most");
            }
        }
    }
}
