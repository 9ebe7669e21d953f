//! Traces of real size in `bench trace show`: one like that of a server's boot in a cloud, one of 45,000 points, and
//! names of a mebibyte.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::support::Bench;

/// Records of a trace as JSON, with a clock that each point moves on.
#[derive(Default)]
struct TraceRecordWriter {
    json: String,
    points: usize,
}

/// What a point is: name, service and statement, path or function.
type PointDescription<'a> = (&'a str, &'a str, &'a str);

impl TraceRecordWriter {
    /// Adds a point; returns its id.
    fn add(&mut self, parent: usize, what: PointDescription<'_>, start_us: u64, end_us: u64) -> usize {
        self.points += 1;
        let ((name, service, detail), id) = (what, self.points);
        let info = match name {
            "db" => format!(r#"{{"db":{{"statement":"{detail}"}}}}"#),
            "wsgi" => format!(r#"{{"request":{{"method":"GET","path":"{detail}"}}}}"#),
            _ => format!(r#"{{"function":{{"name":"{detail}"}}}}"#),
        };
        for (edge, us, info) in [("start", start_us, info.as_str()), ("stop", end_us, "{}")] {
            let separator = if self.json.is_empty() { '[' } else { ',' };
            let (minute, second, us) = (us / 60_000_000, us / 1_000_000 % 60, us % 1_000_000);
            write!(
                self.json,
                r#"{separator}{{"name":"{name}-{edge}","base_id":"b","trace_id":"{id}","parent_id":"{parent}","timestamp":"2026-11-20T22:{minute:02}:{second:02}.{us:06}","project":"{service}","info":{info}}}"#,
            )
            .unwrap();
        }
        id
    }

    /// A validation of a token: a request to Keystone with 40 statements; 41 points.
    fn validation(&mut self, parent: usize, start_us: u64) -> u64 {
        let end_us = start_us + 40 * 900 + 8_000;
        let request = self.add(parent, ("wsgi", "keystone", "/v3/auth/tokens"), start_us, end_us);
        for number in 0..40 {
            let table = [
                "project",
                "user",
                "role",
                "assignment",
                "service",
                "endpoint",
                "revocation_event",
                "domain",
            ][number % 8];
            let statement =
                format!("SELECT {table}.id, {table}.extra FROM {table} WHERE {table}.id = 'x{number}'");
            let start = start_us + 2_000 + 900 * number as u64;
            self.add(request, ("db", "keystone", &statement), start, start + 700);
        }
        end_us
    }

    fn close(mut self) -> String {
        self.json.push(']');
        self.json
    }
}

/// 1,603 points in eight services: 26 validations of 41 points each, requests between services with their statements,
/// and the build, which goes on after the answer.
fn boot() -> TraceRecordWriter {
    let mut trace = TraceRecordWriter::default();
    let root = trace.add(0, ("wsgi", "nova-api", "/v2.1/servers"), 0, 1_900_000);
    let cast = trace.add(root, ("rpc", "nova-conductor", "build_instances"), 1_850_000, 9_800_000);
    let scheduler = trace.add(cast, ("rpc", "nova-scheduler", "select_destinations"), 1_900_000, 3_000_000);
    let compute = trace.add(cast, ("rpc", "nova-compute", "build_and_run_instance"), 3_100_000, 9_700_000);
    let mut now = 10_000;
    for _ in 0..4 {
        now = trace.validation(root, now) + 10_000;
    }
    let callers = [
        (root, "glance", "/v2/images/5f1c", 4),
        (root, "neutron", "/v2.0/networks", 4),
        (scheduler, "placement", "/allocation_candidates", 3),
        (compute, "neutron", "/v2.0/ports", 8),
        (compute, "cinder", "/v3/attachments", 3),
    ];
    for (parent, service, path, times) in callers {
        for time in 0..times {
            let start = match parent {
                _ if parent == root => now,
                _ if parent == scheduler => 1_950_000 + time * 300_000,
                _ => 3_200_000 + time * 500_000 + if service == "cinder" { 200_000 } else { 0 },
            };
            let request = trace.add(parent, ("wsgi", service, path), start, start + 120_000);
            let after = trace.validation(request, start + 1_000);
            for number in 0..12 {
                let statement = format!("SELECT a FROM {service}_{} WHERE id = {number}", number % 5);
                let at = after + 2_000 * number as u64;
                trace.add(request, ("db", service, &statement), at, at + 1_500);
            }
            now = now.max(start + 130_000).min(1_700_000);
        }
    }
    let mut number = 0;
    while trace.points < 1_603 {
        let (parent, service) = [(cast, "nova-conductor"), (compute, "nova-compute")][number % 2];
        let statement = format!("UPDATE instances SET task_state = 's{number}' WHERE id = {number}");
        let at = 3_200_000 + 20_000 * number as u64;
        trace.add(parent, ("db", service, &statement), at, at + 3_000);
        number += 1;
    }
    trace
}

#[test]
fn a_boot_of_a_server_fits_two_screens() {
    let bench = Bench::new();
    let trace = boot();
    assert_eq!(trace.points, 1_603);
    bench.write("boot.json", trace.close());
    let shown = bench.run(&["trace", "show", "boot.json"]).expect_code(0).stdout;
    let lines: Vec<&str> = shown.lines().collect();
    assert!((20..=96).contains(&lines.len()), "{} lines:\n{shown}", lines.len());
    for told in [
        "trace b: 1603 points",
        "4 × wsgi GET /v3/auth/tokens",
        "as above)",
        "after the answer: nothing waited for these",
        "rpc build_instances  (begun by wsgi GET /v2.1/servers)  [nova-conductor]",
        "--all shows each on its own",
    ] {
        assert!(shown.contains(told), "{told}:\n{shown}");
    }
    // What the lines stand for adds up to the trace.
    let all = bench.run(&["trace", "show", "boot.json", "--all"]).expect_code(0).stdout;
    assert_eq!(all.matches("wsgi GET /v3/auth/tokens").count(), 26);
    assert_eq!(all.lines().count(), 3 + 1_603 + 2);
    for form in ["--json", "--html", "--dot"] {
        bench.run(&["trace", "show", "boot.json", "--all", form]).expect_code(64);
    }
}

#[test]
fn forty_five_thousand_points_are_a_few_lines() {
    let bench = Bench::new();
    let mut trace = TraceRecordWriter::default();
    let root = trace.add(0, ("wsgi", "api", "/all"), 0, 50_000_000);
    for number in 0..450_u64 {
        let start = 10_000 + number * 45_000;
        let call = trace.add(root, ("rpc", "worker", "work"), start, start + 44_000);
        for step in 0..99 {
            let statement = format!("SELECT a FROM t{} WHERE id = {number}", step % 7);
            trace.add(call, ("db", "worker", &statement), start + step * 400, start + step * 400 + 300);
        }
    }
    bench.write("many.json", trace.close());
    let shown = bench.run(&["trace", "show", "many.json"]).expect_code(0).stdout;
    assert!(shown.lines().count() < 20, "{shown}");
    assert!(shown.contains("450 × rpc work") && shown.contains("45,001 points in "), "{shown}");
}

#[test]
fn names_of_a_mebibyte_are_cut_with_their_size() {
    let bench = Bench::new();
    let mut trace = TraceRecordWriter::default();
    let long = "x".repeat(1 << 20);
    let root = trace.add(0, (&long, "api", "f"), 0, 50_000);
    trace.add(root, ("db", &long, &long), 1_000, 20_000);
    bench.write("long.json", trace.close());
    for columns in ["", "--all"] {
        let mut arguments = vec!["trace", "show", "long.json"];
        arguments.extend((!columns.is_empty()).then_some(columns));
        let shown = bench.run(&arguments).expect_code(0).stdout;
        let widest: BTreeMap<usize, &str> = shown.lines().map(|line| (line.chars().count(), line)).collect();
        assert!(widest.keys().all(|chars| *chars < 400), "{:?}", widest.keys());
        assert!(shown.contains("… (1.0 MiB)"), "{shown}");
    }
}
