//! What the results and the terminal say about slow iterations, read again from the traces that they speak of.
//!
//! Times and calls are counted here anew, from the records of `traces/ID.json` alone, so that a sentence whose figures
//! are not those of its traces fails.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::Bench;

/// A point of a trace: from its start to its stop, in microseconds of its day.
#[derive(Debug)]
struct TracePointInterval {
    id: String,
    parent: String,
    service: String,
    /// Its name and what it did, without literals.
    kind: String,
    begin_us: i64,
    end_us: i64,
}

/// A stored trace.
#[derive(Debug)]
struct TracePointTree(BTreeMap<String, TracePointInterval>);

impl TracePointTree {
    fn read(bench: &Bench, id: &str) -> Self {
        let path = bench.run_directory().join(format!("traces/{id}.json"));
        let trace: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert_eq!(trace["state"], "complete", "{id}");
        let mut points = BTreeMap::new();
        for record in trace["records"].as_array().unwrap() {
            let text = |key: &str| record[key].as_str().unwrap_or_default().to_owned();
            let (id, name, time_us) = (text("trace_id"), text("name"), time_us(&text("timestamp")));
            if let Some(name) = name.strip_suffix("-start") {
                let point = TracePointInterval {
                    parent: text("parent_id"),
                    service: format!("{}/{}", text("project"), text("service")),
                    kind: format!("{name} {}", without_literals(did(&record["info"]))),
                    begin_us: time_us,
                    end_us: time_us,
                    id: id.clone(),
                };
                points.insert(id, point);
            } else if let Some(point) = points.get_mut(&id) {
                point.end_us = time_us;
            }
        }
        Self(points)
    }

    /// How long the iteration took, from when it was due.
    fn response_us(&self) -> i64 {
        let iteration = self
            .0
            .values()
            .find(|point| point.service == "bench/bench" && point.kind.starts_with("iteration "));
        iteration.map(|point| point.end_us - point.begin_us).unwrap()
    }

    /// The points that do the same as this one, below the same kind of point.
    fn alike(&self, id: &str) -> Vec<&TracePointInterval> {
        let one = &self.0[id];
        let parent = |point: &TracePointInterval| self.0.get(&point.parent).map(|parent| parent.kind.clone());
        let same = |point: &&TracePointInterval| {
            (&point.service, &point.kind, parent(point)) == (&one.service, &one.kind, parent(one))
        };
        self.0.values().filter(same).collect()
    }

    /// A point's time without that in which a point below it runs.
    fn own_us(&self, point: &TracePointInterval) -> i64 {
        self.own_between(point, &|point| (point.begin_us, point.end_us))
    }

    /// The same, but a point counts only while all its callers run, and the client's request. Sentences count so.
    fn own_inside_us(&self, point: &TracePointInterval) -> i64 {
        self.own_between(point, &|point| {
            let above = |point: &&TracePointInterval| self.0.get(&point.parent);
            std::iter::successors(Some(point), above).take(self.0.len()).fold(
                (point.begin_us, point.end_us),
                |(begin, end), caller| {
                    let begin = begin.clamp(caller.begin_us, caller.end_us);
                    (begin, end.clamp(begin, caller.end_us.max(begin)))
                },
            )
        })
    }

    fn own_between(
        &self,
        point: &TracePointInterval,
        times: &dyn Fn(&TracePointInterval) -> (i64, i64),
    ) -> i64 {
        let (begin_us, end_us) = times(point);
        let mut below: Vec<(i64, i64)> = self
            .0
            .values()
            .filter(|other| other.parent == point.id)
            .map(times)
            .map(|(begin, end)| (begin.max(begin_us), end.min(end_us)))
            .collect();
        below.sort_unstable();
        let (mut own, mut until) = (0, begin_us);
        for (begin, end) in below {
            own += (begin - until).max(0);
            until = until.max(end);
        }
        own + (end_us - until).max(0)
    }
}

/// The microsecond of the day; a load that passes midnight is a day earlier before it.
fn time_us(timestamp: &str) -> i64 {
    let (_, time) = timestamp.split_once('T').unwrap();
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let parts: Vec<i64> = whole.split(':').map(|part| part.parse().unwrap()).collect();
    let micros: i64 = format!("{fraction:0<6}").parse().unwrap();
    let seconds = parts[0] * 3600 + parts[1] * 60 + parts[2];
    let of_day = seconds * 1_000_000 + micros;
    if parts[0] < 12 { of_day + 86_400_000_000 } else { of_day }
}

/// What a point of a database, of a request or of an action says that it did.
fn did(info: &Value) -> &str {
    let places = ["/db/statement", "/request/path", "/name"];
    places.iter().find_map(|place| info.pointer(place)?.as_str()).unwrap_or_default()
}

fn without_literals(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars() {
        if !c.is_ascii_digit() {
            shown.push(c);
        } else if !shown.ends_with('?') {
            shown.push('?');
        }
    }
    shown
}

/// Checks what is said of each of the slowest iterations, and of the slow ones together, against their traces.
#[track_caller]
pub(crate) fn what_is_said_is_true(bench: &Bench, printed: &str) {
    let results = bench.results();
    let comparison = &results["workloads"][0]["comparison"];
    // On a busy machine calls outlive their callers by milliseconds, as if the hosts' clocks differed.
    let are_clocks_moved =
        ["clocks_moved", "clocks_inconsistent"].iter().any(|key| comparison[key].as_u64() > Some(0));
    for said in results["explanations"].as_array().into_iter().flatten() {
        of_one(&TracePointTree::read(bench, said["trace_id"].as_str().unwrap()), said, are_clocks_moved);
    }
    if comparison["slow"].as_u64() > Some(0) {
        of_all(bench, comparison, printed);
    }
}

#[track_caller]
fn of_one(trace: &TracePointTree, said: &Value, are_clocks_moved: bool) {
    let number = |key: &str| said[key].as_f64().unwrap_or(f64::NAN);
    let near = |seen_us: i64, key: &str, within_us: f64| {
        let difference = (seen_us as f64 - number(key) * 1e3).abs();
        assert!(difference <= within_us, "{key}: the trace has {seen_us} us: {said:#}\n{trace:#?}");
    };
    near(trace.response_us(), "response_ms", 2.0);
    let excess = number("response_ms") - number("typical_response_ms");
    assert!((number("excess_ms") - excess).abs() < 1e-6, "{said:#}");
    // Another part may have been shorter than usual.
    let share = (number("longer_ms") / excess).clamp(0.0, 1.0);
    assert!((number("share_of_excess") - share).abs() < 1e-6, "{said:#}");
    assert!((number("own_ms") - number("typical_ms") - number("longer_ms")).abs() < 1e-6, "{said:#}");
    let Some(id) = said["point_id"].as_str().filter(|_| said["place"] == "point") else { return };
    let alike = trace.alike(id);
    assert_eq!(said["calls"].as_u64(), u64::try_from(alike.len()).ok(), "{said:#}");
    if are_clocks_moved {
        return;
    }
    // Times that lie outside their caller's may be moved before they are cut.
    let (own_us, inside_us): (i64, i64) = alike.iter().fold((0, 0), |(own, inside), point| {
        (own + trace.own_us(point), inside + trace.own_inside_us(point))
    });
    let (said_us, within_us) = (number("own_ms") * 1e3, 1.0 + alike.len() as f64);
    let (least, most) = (own_us.min(inside_us) as f64, own_us.max(inside_us) as f64);
    assert!(
        said_us >= least - within_us && said_us <= most + within_us,
        "own_ms: the trace has {least} to {most} us: {said:#}\n{trace:#?}"
    );
}

#[track_caller]
fn of_all(bench: &Bench, comparison: &Value, printed: &str) {
    let slow = usize::try_from(comparison["slow"].as_u64().unwrap()).unwrap();
    let files = std::fs::read_dir(bench.run_directory().join("traces")).unwrap();
    let ids = files.map(|file| file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned());
    let mut traces: Vec<TracePointTree> = ids.map(|id| TracePointTree::read(bench, &id)).collect();
    traces.sort_by_key(|trace| -trace.response_us());
    let slowest = &traces[..slow];
    let mean_us = slowest.iter().map(|trace| trace.response_us() as f64).sum::<f64>() / slow as f64;
    let slow_ms = comparison["slow_ms"].as_f64().unwrap();
    assert!((mean_us / 1e3 - slow_ms).abs() < 0.002, "{mean_us} us: {comparison:#}");
    let typical_ms = comparison["typical_ms"].as_f64().unwrap();
    let means = format!("({} instead of {}", milliseconds(slow_ms), milliseconds(typical_ms));
    assert!(printed.contains(&means), "{means}:\n{printed}");
    for kind in comparison["kinds"].as_array().unwrap().iter().filter(|kind| kind["guilty"] == true) {
        let (Some(delta), Some(share)) = (kind["delta_ms"].as_f64(), kind["share"].as_f64()) else {
            continue;
        };
        assert!((delta - share * (slow_ms - typical_ms)).abs() < 0.01 * delta.abs().max(0.1), "{kind:#}");
    }
}

#[test]
fn a_point_that_ends_after_its_caller_counts_until_then() {
    let point = |id: &str, parent: &str, begin_us: i64, end_us: i64| {
        let (service, kind) = (String::new(), String::new());
        (
            id.to_owned(),
            TracePointInterval {
                id: id.to_owned(),
                parent: parent.to_owned(),
                service,
                kind,
                begin_us,
                end_us,
            },
        )
    };
    let points = [
        point("client", "", 0, 1_000),
        point("server", "client", 100, 1_141),
        point("db", "server", 200, 1_100),
    ];
    let trace = TracePointTree(points.into());
    let own = |id: &str| (trace.own_us(&trace.0[id]), trace.own_inside_us(&trace.0[id]));
    assert_eq!([own("client"), own("server"), own("db")], [(100, 100), (141, 100), (900, 800)]);
}

/// Milliseconds in three digits, as they are printed.
fn milliseconds(ms: f64) -> String {
    let (value, unit) = if ms < 999.5 { (ms, "ms") } else { (ms / 1e3, "s") };
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {unit}")
}
