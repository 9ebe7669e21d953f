//! StatsD: counters, gauges and timers as lines of text, with tags if the receiver knows DogStatsD's.
//!
//! StatsD adds up what it is sent, so that counters are what came since the last time, and timers are single times. Of many
//! times, a fair sample is sent with its rate, from which the receiver computes how many there were.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::{LabelledValue, Metric, MetricKind, RunFacts, Value, metrics};
use measure::meter::{Buckets, Meter};

/// The longest name or tag.
const NAME_CHARS_MAX: usize = 200;

/// Encodes a load at one time after another.
#[derive(Debug)]
pub struct StatsdEncoder {
    /// Whether labels are tags. Without tags, their values are parts of names.
    tagged: bool,
    /// What was sent of each counter.
    sent: HashMap<String, u64>,
}

impl StatsdEncoder {
    /// Nothing was sent yet.
    #[must_use]
    pub fn new(tagged: bool) -> Self {
        Self { tagged, sent: HashMap::new() }
    }

    /// What is new in a load, a line for each value. The meter's recent times are those since the last call.
    #[must_use]
    pub fn encode(&mut self, meter: &Meter, facts: &RunFacts) -> String {
        let mut text = String::new();
        for metric in metrics(meter) {
            for point in &metric.points {
                let (name, tags) = self.names(&metric, point, facts);
                match (&point.value, metric.kind) {
                    (Value::Number(number), MetricKind::Counter) => {
                        let sent = self.sent.entry(format!("{name}{tags}")).or_default();
                        let new = number.saturating_sub(*sent);
                        *sent = *number;
                        if new > 0 {
                            line(&mut text, format_args!("{name}:{new}|c{tags}"));
                        }
                    }
                    (Value::Number(number), _) => line(&mut text, format_args!("{name}:{number}|g{tags}")),
                    (Value::Fraction(value), _) => {
                        // A sign would change the gauge by that much.
                        if *value < 0.0 {
                            line(&mut text, format_args!("{name}:0|g{tags}"));
                        }
                        line(&mut text, format_args!("{name}:{value}|g{tags}"));
                    }
                    (Value::Buckets(buckets), _) => add_times(&mut text, &name, &tags, buckets),
                }
            }
        }
        text
    }

    /// The name and the tags of a value, which end its line.
    fn names(&self, metric: &Metric<'_>, point: &LabelledValue<'_>, facts: &RunFacts) -> (String, String) {
        let plain = metric.name.trim_start_matches("bench_").trim_end_matches("_seconds");
        let values = point.labels.iter().map(|(name, value)| (*name, value.as_ref()));
        if !self.tagged {
            // The workload comes first, so that a folder of Graphite has all of it.
            let mut parts = vec!["bench".to_owned(), plain.to_owned()];
            for (name, value) in values {
                parts.insert(if name == "workload" { 1 } else { parts.len() }, clean(value, ""));
            }
            return (parts.join("."), String::new());
        }
        let shard = facts.shard.map(|shard| shard.to_string());
        let run = [("scenario", facts.scenario.as_str()), ("deployment", &facts.deployment)];
        let run = run.into_iter().chain(shard.as_ref().map(|shard| ("shard", shard.as_str())));
        let tags = run.chain(values).filter(|(_, value)| !value.is_empty());
        let tags: Vec<_> = tags.map(|(name, value)| format!("{name}:{}", clean(value, "./:"))).collect();
        (format!("bench.{plain}"), format!("|#{}", tags.join(",")))
    }
}

fn add_times(text: &mut String, name: &str, tags: &str, buckets: &Buckets) {
    let Some(recent) = &buckets.recent else { return };
    let kept = recent.kept_ns.len() as u64;
    let rate =
        if kept < recent.seen { format!("|@{}", kept as f64 / recent.seen as f64) } else { String::new() };
    for nanos in &recent.kept_ns {
        line(text, format_args!("{name}:{}|ms{rate}{tags}", *nanos as f64 / 1e6));
    }
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{line}");
}

/// A part of a name, or a tag's value: any other sign than letters, digits and these would be read as the end of it.
fn clean(text: &str, also: &str) -> String {
    let kept = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '_' | '-') || also.contains(sign);
    text.chars().take(NAME_CHARS_MAX).map(|sign| if kept(sign) { sign } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::{facts, meter};
    use super::*;

    /// As `meter`, but it keeps times.
    fn keeping() -> Meter {
        let mut keeping = Meter::new([("w \"1\"".to_owned(), vec!["log in".to_owned()])]);
        keeping.keep_recent();
        let plain = meter();
        keeping.workloads[0].ended = plain.workloads[0].ended;
        keeping.workloads[0].in_flight = 6;
        keeping
    }

    #[test]
    fn counters_are_what_is_new_and_gauges_what_is() {
        let (mut encoder, mut meter) = (StatsdEncoder::new(false), keeping());
        let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let ends = [
            "bench.w__1_.iterations.ok:2|c",
            "bench.w__1_.iterations.failed:1|c",
            "bench.w__1_.iterations_in_flight:6|g",
        ];
        assert_eq!(lines(encoder.encode(&meter, &facts())), ends);
        assert_eq!(lines(encoder.encode(&meter, &facts())), ends[2..]);
        meter.workloads[0].ended[0] += 7;
        assert_eq!(lines(encoder.encode(&meter, &facts())), ["bench.w__1_.iterations.ok:7|c", ends[2]]);
    }

    #[test]
    fn labels_are_tags_where_the_receiver_knows_them() {
        let text = StatsdEncoder::new(true).encode(&keeping(), &RunFacts { shard: Some(2), ..facts() });
        let first =
            "bench.iterations:2|c|#scenario:a__title___,deployment:d,shard:2,workload:w__1_,outcome:ok";
        assert_eq!(text.lines().next(), Some(first));
    }

    #[test]
    fn times_are_sent_with_the_share_that_they_are() {
        let mut meter = keeping();
        let recent = meter.workloads[0].response.recent.as_mut().unwrap();
        (recent.seen, recent.kept_ns) = (8, vec![1_500_000, 250]);
        let recent = meter.workloads[0].actions[0].1.recent.as_mut().unwrap();
        (recent.seen, recent.kept_ns) = (1, vec![2_000_000]);
        let text = StatsdEncoder::new(false).encode(&meter, &facts());
        let times: Vec<_> = text.lines().filter(|line| line.contains("|ms")).collect();
        assert_eq!(
            times,
            [
                "bench.w__1_.response_time:1.5|ms|@0.25",
                "bench.w__1_.response_time:0.00025|ms|@0.25",
                "bench.w__1_.action_time.log_in:2|ms",
            ]
        );
    }

    proptest! {
        /// Whatever a workload is called, a line is a name, a number and a kind.
        #[test]
        fn no_name_breaks_a_line(name in "\\PC{0,20}|[:|#@,.\n ]{0,8}", tagged: bool) {
            let mut meter = Meter::new([(name.clone(), Vec::new())]);
            meter.workloads[0].ended = [3, 0, 0, 0];
            let facts = RunFacts { scenario: name, ..facts() };
            let text = StatsdEncoder::new(tagged).encode(&meter, &facts);
            prop_assert_eq!(text.lines().count(), 2, "{}", text);
            for line in text.lines() {
                let (name, rest) = line.split_once(':').unwrap();
                prop_assert!(name.chars().all(|sign| sign.is_ascii_alphanumeric() || "._-".contains(sign)), "{}", line);
                prop_assert!(rest.starts_with("3|c") || rest.starts_with("0|g"), "{}", line);
            }
        }
    }
}
