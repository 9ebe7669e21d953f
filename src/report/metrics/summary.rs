//! The figures of a run that is over as OpenMetrics text: few enough for a page that compares them with another run's, such
//! as GitLab's merge requests (`artifacts:reports:metrics`).

use std::fmt::Write as _;

use crate::tags::PERCENTILES;
use results::model::{Counts, Distribution, Results, Time};

/// A family of metrics.
struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    lines: Vec<String>,
}

/// The file's content. Percentiles are those that thresholds judge; one that falls among failures is `NaN`.
#[must_use]
pub fn render(results: &Results) -> String {
    let mut families = [
        ("bench_iterations", "counter", "Iterations by how they ended."),
        ("bench_iterations_per_second", "gauge", "Completed iterations per second."),
        ("bench_response_time_seconds", "summary", "From when an iteration was due to its end."),
        (
            "bench_action_time_seconds",
            "summary",
            "From sending an action's request to the last byte of its answer.",
        ),
    ]
    .map(|(name, kind, help)| Family { name, kind, help, lines: Vec::new() });
    for workload in &results.workloads {
        let own = label("workload", &workload.name);
        let Counts { ok, failed, aborted, dropped, .. } = workload.iterations;
        for (outcome, count) in [("ok", ok), ("failed", failed), ("aborted", aborted), ("dropped", dropped)] {
            families[0].lines.push(format!("bench_iterations_total{{{own},outcome=\"{outcome}\"}} {count}"));
        }
        families[1].lines.push(format!("bench_iterations_per_second{{{own}}} {:.2}", workload.rate_per_s));
        times("bench_response_time_seconds", &own, &workload.response_time, &mut families[2].lines);
        for action in &workload.actions {
            let labels = format!("{own},{}", label("action", &action.name));
            times("bench_action_time_seconds", &labels, &action.service_time, &mut families[3].lines);
        }
    }
    let mut text = String::new();
    for Family { name, kind, help, lines } in &families {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "# TYPE {name} {kind}");
        if name.ends_with("_seconds") {
            let _ = writeln!(text, "# UNIT {name} seconds");
        }
        let _ = writeln!(text, "# HELP {name} {help}");
        for line in lines {
            let _ = writeln!(text, "{line}");
        }
    }
    text.push_str("# EOF\n");
    text
}

fn times(name: &str, labels: &str, times: &Distribution, lines: &mut Vec<String>) {
    for (_, percentile) in PERCENTILES {
        let shown = match times.of_all_at(percentile) {
            Some(Time::Ms(ms)) => format!("{:.6}", ms / 1e3),
            Some(Time::None) => "NaN".to_owned(),
            None => continue,
        };
        // As clients of Prometheus write it: 0.95.
        let quantile = format!("{:.3}", percentile / 100.0);
        let quantile = quantile.trim_end_matches('0');
        lines.push(format!("{name}{{{labels},quantile=\"{quantile}\"}} {shown}"));
    }
    lines.push(format!("{name}_count{{{labels}}} {}", times.count_of_all()));
}

/// A label. GitLab takes what follows a `#` for a comment, also between quotes.
fn label(name: &str, value: &str) -> String {
    super::openmetrics::label(name, &value.replace('#', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::sample;

    #[test]
    fn each_line_is_a_name_and_a_number_for_openmetrics_and_for_gitlab() {
        let mut results = sample::sample(200).results;
        results.workloads[0].name = "log in \"#1\" \\".to_owned();
        let text = render(&results);
        assert!(text.ends_with("# EOF\n"));
        let name = r#"bench_response_time_seconds{workload="log in \"_1\" \\",quantile="0.95"}"#;
        assert!(text.contains(name), "{text}");
        let mut families = std::collections::BTreeSet::new();
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                assert!(families.insert(rest.split(' ').next().unwrap()), "{line}");
            }
            if !line.starts_with('#') {
                assert!(!line.contains('#'), "{line}");
                let (series, number) = line.rsplit_once(' ').unwrap();
                assert!(number == "NaN" || number.parse::<f64>().unwrap() >= 0.0, "{line}");
                assert!(families.iter().any(|family| series.starts_with(family)), "{line}");
            }
        }
        assert!(text.lines().count() > 20, "{text}");
    }
}
