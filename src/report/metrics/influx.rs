//! InfluxDB's line protocol, for all versions of InfluxDB and for what else reads it.
//!
//! Fields have the names that Telegraf gives what it scrapes: `counter`, `gauge`, `count`, `sum` and a field for each bound
//! of a histogram, whose counts include those of shorter times. There are no exemplars, but the field `trace_id` of a
//! histogram has the latest iteration of its slowest bucket. InfluxDB joins nothing, so every line says which run it is of.

use std::fmt::Write as _;

use super::{LabelledValue, Metric, MetricKind, RunFacts, Value, bound_text, metrics, seconds};
use measure::meter::{Buckets, Meter};

/// The content type of what [`encode`] gives.
pub const CONTENT_TYPE: &str = "text/plain; charset=utf-8";

/// The unit of the times of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinePrecision {
    /// Nanoseconds, what receivers expect unless they are told otherwise.
    #[default]
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
}

impl LinePrecision {
    /// The unit with this name in the parameter `precision` of a URL.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "n" | "ns" | "nanosecond" => Self::Nanoseconds,
            "u" | "us" | "microsecond" => Self::Microseconds,
            "ms" | "millisecond" => Self::Milliseconds,
            "s" | "second" => Self::Seconds,
            _ => return None,
        })
    }

    fn nanos(self) -> u64 {
        match self {
            Self::Nanoseconds => 1,
            Self::Microseconds => 1_000,
            Self::Milliseconds => 1_000_000,
            Self::Seconds => 1_000_000_000,
        }
    }
}

/// A load so far, as read at `now_unix_ns`: a line for each series.
#[must_use]
pub fn encode(meter: &Meter, facts: &RunFacts, now_unix_ns: u64, precision: LinePrecision) -> String {
    let (run_id, shard) = (facts.run_id.to_string(), facts.shard.map(|shard| shard.to_string()));
    let mut run =
        vec![("deployment", facts.deployment.as_str()), ("run_id", &run_id), ("scenario", &facts.scenario)];
    run.extend(shard.as_ref().map(|shard| ("shard", shard.as_str())));
    let time = now_unix_ns / precision.nanos();
    let mut text = String::with_capacity(16 * 1024);
    for metric in metrics(meter) {
        for point in &metric.points {
            add(&metric, point, &run, facts, &mut text);
            // Writing to a String cannot fail.
            let _ = writeln!(text, " {time}");
        }
    }
    text
}

/// A line without its time.
fn add(
    metric: &Metric<'_>,
    point: &LabelledValue<'_>,
    run: &[(&str, &str)],
    facts: &RunFacts,
    text: &mut String,
) {
    text.push_str(metric.name);
    let own = point.labels.iter().map(|(name, value)| (*name, value.as_ref()));
    let mut tags: Vec<_> = run.iter().copied().chain(own).collect();
    // What a receiver stores fastest.
    tags.sort_unstable();
    for (name, value) in tags {
        let value = tag_value(value);
        if !value.is_empty() {
            let _ = write!(text, ",{name}={value}");
        }
    }
    match &point.value {
        Value::Number(number) => {
            let field = if metric.kind == MetricKind::Counter { "counter" } else { "gauge" };
            let _ = write!(text, " {field}={}i", integer(*number));
        }
        Value::Fraction(value) => {
            let _ = write!(text, " gauge={value}");
        }
        Value::Buckets(buckets) => add_histogram(buckets, facts, text),
    }
}

fn add_histogram(buckets: &Buckets, facts: &RunFacts, text: &mut String) {
    let _ = write!(text, " count={}i,sum={}", integer(buckets.count()), seconds(buckets.sum_ns));
    let mut below = 0;
    for (index, count) in buckets.counts.iter().enumerate() {
        below += count;
        let _ = write!(text, ",{}={}i", bound_text(index), integer(below));
    }
    if let Some(slowest) = buckets.exemplars.iter().flatten().last() {
        let (id, took) = (facts.ids.trace_id(slowest.sample), seconds(u128::from(slowest.value_ns)));
        let _ = write!(text, ",trace_id=\"{}\",trace_seconds={took}", id.simple());
    }
}

/// Integers of lines are signed.
fn integer(number: u64) -> u64 {
    number.min(i64::MAX.unsigned_abs())
}

/// A tag's value with its signs escaped.
///
/// A tag cannot hold a line break. A backslash before a sign that is escaped, before another one and at the end is read in
/// several ways: InfluxDB takes it as it is, VictoriaMetrics as the escape of what follows. Such a one becomes a slash.
fn tag_value(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    let mut rest = value.chars().peekable();
    while let Some(sign) = rest.next() {
        match sign {
            ',' | '=' | ' ' => escaped.extend(['\\', sign]),
            _ if sign.is_control() => escaped.push_str("\\ "),
            '\\' if rest.peek().is_none_or(|next| matches!(next, ',' | '=' | '\\') || is_blank(*next)) => {
                escaped.push('/');
            }
            _ => escaped.push(sign),
        }
    }
    escaped
}

fn is_blank(sign: char) -> bool {
    sign == ' ' || sign.is_control()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::tests::{facts, meter};
    use super::*;

    const NOW_NS: u64 = 1_700_000_099_123_456_789;

    /// A line as InfluxDB reads it: at the first sign of a kind that has no backslash before it.
    fn parsed(line: &str) -> (BTreeMap<String, String>, BTreeMap<String, String>, u64) {
        let (key, rest) = split(line, ' ').unwrap();
        let (fields, time) = split(rest, ' ').unwrap();
        let mut tags = BTreeMap::new();
        let mut rest = split(key, ',').map(|(_, rest)| rest);
        while let Some(all) = rest {
            let (tag, after) = split(all, ',').map_or((all, None), |(tag, after)| (tag, Some(after)));
            let (name, value) = split(tag, '=').unwrap();
            assert!(split(value, '=').is_none(), "{tag}");
            let plain = value.replace("\\ ", " ").replace("\\,", ",").replace("\\=", "=");
            assert!(tags.insert(name.to_owned(), plain).is_none(), "{name} comes twice in {line}");
            rest = after;
        }
        let fields = fields.split(',').map(|field| field.split_once('=').unwrap());
        (
            tags,
            fields.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            time.parse().unwrap(),
        )
    }

    fn split(text: &str, at: char) -> Option<(&str, &str)> {
        let found = text.char_indices().find(|(index, sign)| *sign == at && !text[..*index].ends_with('\\'));
        found.map(|(index, _)| (&text[..index], &text[index + 1..]))
    }

    #[test]
    fn signs_of_tags_are_escaped() {
        for (value, expected) in [
            ("plain", "plain"),
            ("", ""),
            ("a b", "a\\ b"),
            ("a,b=c", "a\\,b\\=c"),
            ("a\nb\r\n", "a\\ b\\ \\ "),
            ("\"quoted\"", "\"quoted\""),
            ("C:\\temp", "C:\\temp"),
            ("ends\\", "ends/"),
            ("a\\ b", "a/\\ b"),
            ("a\\,b", "a/\\,b"),
            ("a\\\\b", "a/\\b"),
            ("a\\\n", "a/\\ "),
            ("größe 🙂", "größe\\ 🙂"),
        ] {
            assert_eq!(tag_value(value), expected, "{value:?}");
        }
    }

    proptest! {
        /// Whatever a scenario is called, it stays in its tag, and no line breaks.
        #[test]
        fn any_title_comes_back(title in "[a-c ,=\\\\\n\r\"é]{0,12}") {
            let text = encode(&meter(), &RunFacts { scenario: title.clone(), ..facts() }, NOW_NS, LinePrecision::Seconds);
            let plain = |text: &str| text.replace(['\n', '\r'], " ").replace('\\', "/");
            for line in text.lines() {
                let (tags, fields, time) = parsed(line);
                let back = tags.get("scenario").map_or("", String::as_str);
                prop_assert_eq!(plain(back), plain(&title), "{}", line);
                prop_assert_eq!(time, NOW_NS / 1_000_000_000);
                prop_assert!(!fields.is_empty());
            }
        }
    }

    #[test]
    fn a_load_is_written_line_by_line() {
        let text =
            encode(&meter(), &RunFacts { shard: Some(2), ..facts() }, NOW_NS, LinePrecision::Nanoseconds);
        let find = |name: &str, outcome: &str| {
            let lines = text.lines().filter(|line| line.starts_with(&format!("{name},")));
            let mut found =
                lines.map(parsed).filter(|(tags, ..)| tags.get("outcome").is_none_or(|one| one == outcome));
            found.next().unwrap()
        };
        let (tags, fields, time) = find("bench_iterations", "failed");
        let tags: Vec<_> = tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            tags,
            [
                "deployment=d",
                "outcome=failed",
                &format!("run_id={}", facts().run_id),
                "scenario=a \"title\"/ ",
                "shard=2",
                "workload=w \"1\"",
            ]
        );
        assert_eq!((fields["counter"].as_str(), time), ("1i", NOW_NS));
        assert_eq!(find("bench_iterations_in_flight", "").1["gauge"], "6i");
        let (_, fields, _) = find("bench_response_time_seconds", "");
        let value = |name: &str| fields[name].as_str();
        assert_eq!((value("count"), value("sum"), value("+Inf")), ("3i", "90.00712", "3i"));
        assert_eq!((value("0.0025"), value("0.005"), value("60")), ("0i", "2i", "2i"));
        let slowest = facts().ids.trace_id((0, 2)).simple().to_string();
        assert_eq!(
            (value("trace_id"), value("trace_seconds")),
            (format!("\"{slowest}\"").as_str(), "90.00004")
        );
    }

    #[test]
    fn times_have_the_unit_that_the_receiver_expects() {
        for (name, expected) in [
            ("ns", Some(NOW_NS)),
            ("us", Some(NOW_NS / 1_000)),
            ("ms", Some(NOW_NS / 1_000_000)),
            ("second", Some(NOW_NS / 1_000_000_000)),
            ("h", None),
            ("", None),
        ] {
            let time = LinePrecision::named(name).map(|unit| {
                let text = encode(&meter(), &facts(), NOW_NS, unit);
                text.lines().next().unwrap().rsplit(' ').next().unwrap().parse::<u64>().unwrap()
            });
            assert_eq!(time, expected, "{name}");
        }
    }
}
