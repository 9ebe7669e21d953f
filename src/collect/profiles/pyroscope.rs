//! Span profiles in a Pyroscope server, by its documented HTTP API: `querier.v1.QuerierService/SelectMergeSpanProfile`, the
//! Connect protocol with JSON.
//!
//! A server has profiles of few of a trace's points: those that its agents label, often only the outermost one of a
//! service. So it is asked for all points together first, and for halves only where there is something. Answers are
//! hostile: their bytes, their bars and their depth are bounded.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use http::header::{HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::json;
use url::Url;
use uuid::Uuid;

use super::{PointIdIndex, PointProfiles};
use base::ids::span_id;
use client::options::DnsOptions;
use client::plain::PlainClient;
use client::tls::{self, TlsOptions};
use osprofiler::functions::model::{Builder, DEPTH_MAX, Function, FunctionProfile, STACKS_MAX};
use osprofiler::record::{START_SUFFIX, TraceRecord};

const METHOD: &str = "querier.v1.QuerierService/SelectMergeSpanProfile";
/// The kind of profile that is asked for, unless the URL has `?type=`.
const CPU: &str = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";
/// Agents send what they have seen every ten or fifteen seconds, with the time at which they began.
const AROUND: Duration = Duration::from_secs(60);
/// More bars than a server gives by default.
const BARS_MAX: usize = 8_192;
/// Of more points of a trace, those that began first are asked for.
const POINTS_MAX: usize = 1_000;
/// What one sample of a profile in nanoseconds stands for: agents look a hundred times a second.
const NANOSECONDS_PER_SAMPLE: u64 = 10_000_000;
const HZ: u32 = 100;

/// A Pyroscope server, as `http://HOST:4040`, with what is asked of it as a query: `selector` (Pyroscope's labels, such as
/// `{service_name="api"}`), `type` (of profile) and `tenant`.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    url: Url,
    selector: String,
    kind: String,
    tenant: Option<String>,
}

impl FromStr for Server {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut url = Url::parse(text).map_err(|error| error.to_string())?;
        let mut server =
            Self { selector: "{}".to_owned(), kind: CPU.to_owned(), tenant: None, url: url.clone() };
        for (key, value) in url.query_pairs() {
            match key.as_ref() {
                "selector" => server.selector = value.into_owned(),
                "type" => server.kind = value.into_owned(),
                "tenant" => server.tenant = Some(value.into_owned()),
                other => return Err(format!("`{other}` is none of selector, type and tenant")),
            }
        }
        if server.kind.split(':').count() != 5 {
            return Err(format!("type is name:type:unit:period_type:period_unit, such as {CPU}"));
        }
        url.set_query(None);
        let path = format!("{}/", url.path().trim_end_matches('/'));
        url.set_path(&path);
        Ok(Self { url, ..server })
    }
}

/// Without user and password.
impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url[url::Position::BeforeScheme..url::Position::AfterScheme])?;
        f.write_str("://")?;
        f.write_str(self.url[url::Position::BeforeHost..].trim_end_matches('/'))
    }
}

impl Server {
    /// Nothing is sent yet.
    pub(super) fn connect(&self) -> Result<Client<'_>, String> {
        let options = TlsOptions { verify: true, ca: None, identity: None };
        let tls = tls::config(&options, self.url.scheme() == "https").map_err(|error| error.to_string())?;
        let client = PlainClient::new(&tls, &DnsOptions::default()).map_err(|error| error.to_string())?;
        let url = self.url.join(METHOD).map_err(|error| error.to_string())?;
        let mut headers = HeaderMap::new();
        if let Some(tenant) = &self.tenant {
            let tenant = HeaderValue::from_str(tenant).map_err(|_| "tenant is no text for a header")?;
            headers.insert(HeaderName::from_static("x-scope-orgid"), tenant);
        }
        Ok(Client { server: self, client, headers, url })
    }

    /// How many of the profile's units are a sample.
    fn unit(&self) -> u64 {
        if self.kind.split(':').nth(2) == Some("nanoseconds") { NANOSECONDS_PER_SAMPLE } else { 1 }
    }
}

/// A server that can be asked.
pub(super) struct Client<'a> {
    server: &'a Server,
    client: PlainClient,
    headers: HeaderMap,
    url: Url,
}

impl Client<'_> {
    /// The profiles of a trace.
    pub(super) async fn of(&self, base_id: &str, records: &[TraceRecord]) -> Result<PointProfiles, String> {
        let (points, mut found) = (PointIdIndex::of(base_id, records), PointProfiles::default());
        let Some(time) = time_of(records) else { return Ok(found) };
        let mut asked: Vec<Vec<String>> = vec![span_ids(records)];
        while let Some(mut ids) = asked.pop() {
            let Some(profile) = self.ask(&ids, time).await? else { continue };
            if let [id] = ids.as_slice() {
                if let Some(point) = points.known(id) {
                    found.add(&point, name_of(&point, records), &profile);
                }
                continue;
            }
            let later = ids.split_off(ids.len() / 2);
            asked.extend([later, ids]);
        }
        Ok(found)
    }

    /// What these spans did together; `None` without samples.
    async fn ask(
        &self,
        ids: &[String],
        (from_ms, to_ms): (i64, i64),
    ) -> Result<Option<FunctionProfile>, String> {
        if ids.is_empty() {
            return Ok(None);
        }
        let body = json!({
            "profileTypeID": self.server.kind, "labelSelector": self.server.selector, "spanSelector": ids,
            "start": from_ms, "end": to_ms, "maxNodes": BARS_MAX,
        });
        let answer =
            self.client.send(http::Method::POST, self.url.as_str(), self.headers.clone(), Some(&body));
        let answer = answer.await.map_err(|error| error.to_string())?;
        if answer.status != 200 {
            let said = serde_json::from_slice::<Refusal>(&answer.body).unwrap_or_default().message;
            return Err(format!(
                "it answered {}: {}",
                answer.status,
                said.chars().take(200).collect::<String>()
            ));
        }
        let answer: PyroscopeAnswer =
            serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
        answer.flamegraph.unwrap_or_default().profile(self.server.unit())
    }
}

/// The ids of the points as OpenTelemetry writes them, each once, in the order of their starts.
fn span_ids(records: &[TraceRecord]) -> Vec<String> {
    let mut started: Vec<&TraceRecord> =
        records.iter().filter(|record| record.name.ends_with(START_SUFFIX)).collect();
    started.sort_by(|one, other| one.timestamp.cmp(&other.timestamp));
    let ids = started.iter().filter_map(|record| record.trace_id.parse::<Uuid>().ok());
    ids.take(POINTS_MAX).map(|id| format!("{:016x}", span_id(id))).collect()
}

fn name_of<'a>(point: &str, records: &'a [TraceRecord]) -> &'a str {
    let names = records.iter().filter(|record| record.trace_id == point);
    names.filter_map(|record| record.name.strip_suffix(START_SUFFIX)).next().unwrap_or_default()
}

/// The time of a trace and around it, in milliseconds since the epoch.
fn time_of(records: &[TraceRecord]) -> Option<(i64, i64)> {
    let times = || records.iter().filter_map(TraceRecord::timestamp_us).map(|us| us / 1_000);
    let around_ms = i64::try_from(AROUND.as_millis()).unwrap_or(0);
    Some((times().min()?.saturating_sub(around_ms), times().max()?.saturating_add(around_ms)))
}

/// Why a request was refused, as Connect has it.
#[derive(Default, Deserialize)]
struct Refusal {
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
struct PyroscopeAnswer {
    flamegraph: Option<FlameGraph>,
}

/// Bars in levels. Of each bar: its distance from the end of the one before it, its width, the part of it that is its own,
/// and the index of its name. Protobuf writes 64-bit integers in JSON as text.
#[derive(Default, Deserialize)]
struct FlameGraph {
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    levels: Vec<Level>,
}

#[derive(Default, Deserialize)]
struct Level {
    #[serde(default)]
    values: Vec<Integer>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Integer {
    Number(i64),
    Text(String),
}

impl Integer {
    fn value(&self) -> Option<u64> {
        match self {
            Self::Number(value) => u64::try_from(*value).ok(),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

/// A bar, from its left to its right end, with the names of those that it stands on.
struct Bar {
    ends: (u64, u64),
    own: u64,
    stack: Vec<usize>,
}

impl FlameGraph {
    /// The stacks; the lowest level is the total and no function. `unit` makes a sample.
    fn profile(&self, unit: u64) -> Result<Option<FunctionProfile>, String> {
        let mut sum = Builder::new("", HZ);
        let (mut below, mut seen, mut samples): (Vec<Bar>, usize, u64) = (Vec::new(), 0, 0);
        for (number, level) in self.levels.iter().take(DEPTH_MAX).enumerate() {
            seen += level.values.len() / 4;
            if seen > STACKS_MAX {
                return Err(format!("a profile has more than {STACKS_MAX} bars"));
            }
            let bars = self.bars(level, &below, number == 0)?;
            for bar in bars.iter().filter(|bar| bar.own > 0 && !bar.stack.is_empty()) {
                let name = |index: &usize| Function::named(self.names.get(*index).map_or("", String::as_str));
                let frames: Vec<Function> = bar.stack.iter().map(name).collect();
                let of_bar = bar.own.div_ceil(unit);
                sum.add(None, &frames, of_bar);
                samples = samples.saturating_add(of_bar);
            }
            below = bars;
        }
        Ok((samples > 0).then(|| sum.finish()))
    }

    fn bars(&self, level: &Level, below: &[Bar], is_total: bool) -> Result<Vec<Bar>, String> {
        let malformed = || "a profile is not as Pyroscope writes it".to_owned();
        if !level.values.len().is_multiple_of(4) {
            return Err(malformed());
        }
        let (mut bars, mut at, mut under) = (Vec::new(), 0_u64, 0);
        for bar in level.values.chunks_exact(4) {
            let value = |place: usize| bar[place].value().ok_or_else(malformed);
            let start = at.checked_add(value(0)?).ok_or_else(malformed)?;
            let end = start.checked_add(value(1)?).ok_or_else(malformed)?;
            let name = usize::try_from(value(3)?).ok().filter(|name| *name < self.names.len());
            let name = name.ok_or_else(malformed)?;
            at = end;
            let mut stack = Vec::new();
            if !is_total {
                while below.get(under).is_some_and(|one| one.ends.1 < end) {
                    under += 1;
                }
                let one = below.get(under).filter(|one| one.ends.0 <= start && end <= one.ends.1);
                stack = one.ok_or_else(malformed)?.stack.clone();
                stack.push(name);
            }
            bars.push(Bar { ends: (start, end), own: value(2)?, stack });
        }
        Ok(bars)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The stacks of an answer as lines of collapsed stacks.
    fn stacks(flamegraph: serde_json::Value, unit: u64) -> Result<Vec<String>, String> {
        let flamegraph: FlameGraph = serde_json::from_value(flamegraph).unwrap();
        let Some(profile) = flamegraph.profile(unit)? else { return Ok(Vec::new()) };
        let line = |stack: &osprofiler::functions::model::Stack| {
            let names = stack.frames.iter().map(|frame| profile.functions[*frame as usize].name.clone());
            format!("{} {}", names.collect::<Vec<_>>().join(";"), stack.samples)
        };
        let mut lines: Vec<String> = profile.stacks.iter().map(line).collect();
        lines.sort();
        Ok(lines)
    }

    #[test]
    fn bars_stand_on_the_bars_below_them() {
        let names = json!(["total", "main", "render", "escape", "gc"]);
        let rows = [
            (json!({}), 1, Ok(vec![])),
            (json!({"names": ["total"], "levels": [{"values": ["0", "0", "0", "0"]}]}), 1, Ok(vec![])),
            (
                // main (100) has render (60, own 20) with escape (40) at its right end, and itself 40; gc (7) is beside it.
                json!({"names": names, "levels": [
                    {"values": ["0", "107", "0", "0"]},
                    {"values": ["0", "100", "40", "1", "0", "7", "7", "4"]},
                    {"values": ["40", "60", "20", "2"]},
                    {"values": [60, 40, 40, 3]},
                ]}),
                1,
                Ok(vec!["gc 7", "main 40", "main;render 20", "main;render;escape 40"]),
            ),
            (
                json!({"names": names, "levels": [
                    {"values": ["0", "50000000", "0", "0"]}, {"values": ["0", "50000000", "50000000", "1"]},
                ]}),
                NANOSECONDS_PER_SAMPLE,
                Ok(vec!["main 5"]),
            ),
            (json!({"names": names, "levels": [{"values": ["0", "1", "0"]}]}), 1, Err("not as Pyroscope")),
            (
                json!({"names": names, "levels": [{"values": ["0", "1", "0", "9"]}]}),
                1,
                Err("not as Pyroscope"),
            ),
            (
                json!({"names": names, "levels": [{"values": ["-1", "1", "0", "0"]}]}),
                1,
                Err("not as Pyroscope"),
            ),
            (
                json!({"names": names, "levels": [{"values": ["0", "9", "0", "0"]}, {"values": ["0", "10", "10", "1"]}]}),
                1,
                Err("not as Pyroscope"),
            ),
            (
                json!({"names": names, "levels": [{"values": vec![0; 4 * (STACKS_MAX + 1)]}]}),
                1,
                Err("more than 20000 bars"),
            ),
        ];
        for (flamegraph, unit, expected) in rows {
            let shown: String = flamegraph.to_string().chars().take(200).collect();
            match (stacks(flamegraph, unit), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{shown}"),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{shown}: {found}"),
                (found, expected) => panic!("{shown}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn a_url_says_what_is_asked() {
        let server: Server =
            r#"http://u:hunter2@h:4040/pyro/?selector={service_name="a"}&tenant=t"#.parse().unwrap();
        assert_eq!(server.to_string(), "http://h:4040/pyro");
        assert_eq!(server.selector, r#"{service_name="a"}"#);
        assert_eq!(
            (server.kind.as_str(), server.tenant.as_deref(), server.unit()),
            (CPU, Some("t"), 10_000_000)
        );
        let url = server.connect().unwrap().url;
        assert_eq!(url.path(), format!("/pyro/{METHOD}"));
        let counted: Server = "http://h?type=process_cpu:samples:count:cpu:nanoseconds".parse().unwrap();
        assert_eq!((counted.unit(), counted.selector.as_str()), (1, "{}"));
        for (url, expected) in [
            ("http://h?selektor=a", "`selektor` is none of"),
            ("http://h?type=cpu", "name:type:unit:period_type:period_unit"),
            ("http://", "empty host"),
        ] {
            let refused = url.parse::<Server>().unwrap_err();
            assert!(refused.contains(expected), "{url}: {refused}");
        }
    }

    proptest! {
        #[test]
        fn any_bars_are_read_or_refused(levels in prop::collection::vec(prop::collection::vec(any::<i16>(), 0..24), 0..6)) {
            let levels: Vec<_> = levels.iter().map(|values| json!({"values": values})).collect();
            let _ = stacks(json!({"names": ["a", "b", "c"], "levels": levels}), 1);
        }
    }
}
