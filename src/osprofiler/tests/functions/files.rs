//! Files for other programs, opened by those programs' own readers where they are on this machine.

use std::io::Write as _;
use std::process::Command;

use super::awkward;
use crate::functions::model::Function;
use crate::functions::{collapsed, pprof, pstats, speedscope};

/// What Python prints for this script with this file as its argument.
fn run(python: &str, script: &str, file: &std::path::Path) -> String {
    let output = Command::new(python).arg("-c").arg(script).arg(file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The same of this machine's Python, if there is one.
fn python(script: &str, file: &std::path::Path) -> Option<String> {
    if Command::new("python3").arg("--version").output().is_err() {
        println!("skipped: no python3");
        return None;
    }
    Some(run("python3", script, file))
}

fn written(name: &str, content: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::File::create(&path).unwrap().write_all(content).unwrap();
    (folder, path)
}

#[test]
fn pstats_sorts_and_prints_functions_with_file_and_line() {
    let (_folder, path) = written("one.prof", &pstats::encode(&awkward()));
    let script = "import pstats, sys; pstats.Stats(sys.argv[1]).sort_stats('cumtime').print_stats(10)";
    let Some(printed) = python(script, &path) else { return };
    assert!(printed.contains("101 function calls in 1.010 seconds"), "{printed}");
    let lines: Vec<&str> =
        printed.lines().filter(|line| line.contains('(') || line.contains("memcpy")).collect();
    let expect = [
        "ncalls are samples (100 per second of processor time), not calls:0(create server)",
        "src/main.rs:3(service::main)",
        "src/a b.rs:40(service::render <T; U>)",
        " memcpy",
    ];
    let found: Vec<_> = expect.iter().map(|row| lines.iter().position(|line| line.ends_with(row))).collect();
    assert!(found.iter().all(Option::is_some) && found.is_sorted(), "{printed}");
    // Own samples, own seconds, cumulative seconds; recursion counts once.
    let row = lines[found[2].unwrap()].split_whitespace().collect::<Vec<_>>();
    assert_eq!((row[0], row[1], row[3]), ("50", "0.500", "1.000"));
}

#[test]
fn callers_are_there_too() {
    let (_folder, path) = written("one.prof", &pstats::encode(&awkward()));
    let script = "import pstats, sys; pstats.Stats(sys.argv[1]).print_callers('memcpy')";
    let Some(printed) = python(script, &path) else { return };
    let row = printed.lines().find(|line| line.starts_with("memcpy")).unwrap();
    assert!(row.contains("<-") && row.contains("render") && row.contains("50"), "{printed}");
}

#[test]
fn collapsed_stacks_are_a_line_each() {
    let text = collapsed::encode(&awkward());
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "create server (100 samples a second);service::main;service::render <T_ U> 50");
    assert_eq!(lines.len(), 4);
    let (back, unreadable) = collapsed::decode("x", 7, &text);
    assert_eq!((back.samples(), back.stacks.len(), unreadable), (101, 4, 0));
    assert_eq!((back.operation.as_str(), back.hz, back.functions.len()), ("create server", 100, 3));
    let (back, unreadable) = collapsed::decode("x", 100, "a;b 1\nnothing\na;b 2\n# a remark\n;; 4\nc -1\n");
    assert_eq!((back.samples(), unreadable), (7, 2));
}

#[test]
fn pprof_comes_back_as_it_was() {
    let profile = awkward();
    let bytes = pprof::encode(&profile).unwrap();
    let decoded = pprof::decode("create server", &bytes, &["span_id"]).unwrap();
    let samples: Vec<_> = decoded.iter().map(|(point, part)| (point.as_deref(), part.samples())).collect();
    assert_eq!(samples, [(None, 21), (Some("point-1"), 30), (Some("point-2"), 50)]);
    let first = &decoded[&Some("point-1".to_owned())];
    let frames = first.stacks[0].frames.iter().map(|frame| &first.functions[*frame as usize]);
    let expected = Function { name: "service::render <T; U>".into(), file: "src/a b.rs".into(), line: 40 };
    assert_eq!(frames.clone().count(), 3);
    assert_eq!(*frames.clone().nth(1).unwrap(), expected);
    assert_eq!(first.hz, 100);
}

#[test]
fn hostile_pprof_files_are_refused() {
    let gzip = |content: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        gzip.write_all(content).unwrap();
        gzip.finish().unwrap()
    };
    let refused = |bytes: &[u8]| pprof::decode("x", bytes, &[]).unwrap_err().to_string();
    assert!(refused(&gzip(&vec![0; 40 << 20])).contains("over"));
    // Empty samples.
    assert!(refused(&gzip(&[0x12, 0].repeat(600_000))).contains("entries"));
    assert!(refused(&[0x1f, 0x8b, 1, 2, 3]).contains("gzip"));
    assert!(refused(b"not a profile").contains("format"));
    assert!(pprof::decode("x", b"", &[]).unwrap().is_empty());
    // A string that is not there, a location that is not there.
    let odd = [0x12, 4, 0x0a, 2, 9, 8, 0x12, 2, 0x12, 0];
    assert!(pprof::decode("x", &odd, &["trace_id"]).is_ok());
}

#[test]
fn speedscope_files_have_what_its_schema_requires() {
    let file: serde_json::Value = serde_json::from_str(&speedscope::encode(&awkward())).unwrap();
    let profile = &file["profiles"][0];
    let (samples, weights) = (profile["samples"].as_array().unwrap(), profile["weights"].as_array().unwrap());
    assert_eq!((samples.len(), weights.len()), (4, 4));
    let sum: f64 = weights.iter().map(|weight| weight.as_f64().unwrap()).sum();
    assert!((sum - profile["endValue"].as_f64().unwrap()).abs() < 1e-9);
    let frames = file["shared"]["frames"].as_array().unwrap().len() as u64;
    assert!(samples.iter().flat_map(|s| s.as_array().unwrap()).all(|frame| frame.as_u64().unwrap() < frames));
}

/// The title of speedscope's page after it was given a file: that of the profile if it could be read.
fn opened_by_speedscope(page: &str, name: &str, content: &[u8]) -> String {
    let content = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, content);
    let script = format!("speedscope.loadFileFromBase64(\"{name}\", \"{content}\")");
    let (folder, path) = written("profile.js", script.as_bytes());
    let output = Command::new("timeout")
        .args([
            "120",
            "chromium",
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--allow-file-access-from-files",
        ])
        .args(["--virtual-time-budget=4000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.path().join("chromium").display()))
        .arg(format!("file://{page}#localProfilePath={}", path.display()))
        .output()
        .unwrap();
    let page = String::from_utf8_lossy(&output.stdout).into_owned();
    let title = page.split("<title>").nth(1).and_then(|rest| rest.split("</title>").next());
    title.unwrap_or_default().to_owned()
}

#[test]
fn real_speedscope_opens_three_formats() {
    let Ok(page) = std::env::var("BENCH_TEST_SPEEDSCOPE") else {
        println!(
            "skipped: set BENCH_TEST_SPEEDSCOPE to speedscope's index.html, as tests/real/functions.sh does"
        );
        return;
    };
    let profile = awkward();
    let json = speedscope::encode(&profile).into_bytes();
    let title = opened_by_speedscope(&page, "one.speedscope.json", &json);
    assert!(title.starts_with("create server: ncalls are samples"), "{title}");
    let text = collapsed::encode(&profile).into_bytes();
    assert_eq!(opened_by_speedscope(&page, "one.collapsed", &text), "one.collapsed - speedscope");
    let packed = pprof::encode(&profile).unwrap();
    assert_eq!(opened_by_speedscope(&page, "one.pb.gz", &packed), "one.pb.gz - speedscope");
}

#[test]
fn real_decoder_of_protobuf_reads_pprof() {
    let Ok(python) = std::env::var("BENCH_TEST_DRIVERS_PYTHON") else {
        println!(
            "skipped: set BENCH_TEST_DRIVERS_PYTHON to a Python with protobuf, as tests/real/drivers.sh does"
        );
        return;
    };
    let bytes = pprof::encode(&awkward()).unwrap();
    let (_folder, path) = written("one.pb.gz", &bytes);
    let printed = run(&python, include_str!("read_pprof.py"), &path);
    let expected = "samples/count cpu/nanoseconds period cpu 10000000\n\
                    1 10000000 service::main\n\
                    20 200000000 memcpy service::render <T; U> service::render <T; U> service::main\n\
                    30 300000000 memcpy service::render <T; U> service::main span_id=point-1\n\
                    50 500000000 service::render <T; U> service::main span_id=point-2\n\
                    create server: ncalls are samples (100 per second of processor time), not calls\n";
    assert_eq!(printed, expected);
}
