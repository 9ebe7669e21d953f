//! Run directories from elsewhere: whatever is in the place of a file that bench writes or reads, nothing outside is
//! touched, nothing hangs, and no temporary file remains.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::ScriptedServer;
use crate::support::Bench;

/// A folder with a run in it that was profiled and has traces.
fn ran() -> (Bench, PathBuf) {
    let bench = Bench::new();
    bench.write("deployment.yaml", "demo: {}\n");
    let load = "runner: { constant: { times: 20, concurrency: 2 } }\niteration: [ { get: / } ]\ntrace: { settle: 200ms }";
    bench.write("scenario.yaml", format!("title: t\ndeployment: deployment.yaml\n{load}\n"));
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let run = bench.run_directory();
    (bench, run)
}

/// Every file below a folder with its content; a link counts as where it leads.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let kind = fs::symlink_metadata(&path).unwrap();
        if kind.is_dir() {
            found.extend(contents(&path));
        } else if kind.is_symlink() {
            found.insert(path.clone(), fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes());
        } else if kind.is_file() {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

fn leftovers(folder: &Path) -> Vec<PathBuf> {
    contents(folder).into_keys().filter(|path| path.to_string_lossy().contains(".part")).collect()
}

/// The files that `bench report` writes into a run's directory.
const WRITTEN: [&str; 5] = ["results.json", "report.html", "report.md", "badge.txt", "badge.json"];

#[test]
fn links_in_a_run_directory_are_replaced_and_what_they_lead_to_stays() {
    let (bench, run) = ran();
    let outside = bench.path().join("outside");
    fs::create_dir(&outside).unwrap();
    for name in WRITTEN {
        fs::write(outside.join(name), "precious").unwrap();
        fs::remove_file(run.join(name)).unwrap();
        symlink(outside.join(name), run.join(name)).unwrap();
        // The names that temporary files had once.
        symlink(outside.join(name), run.join(format!("{name}.part"))).unwrap();
    }
    let traces: Vec<PathBuf> = contents(&run.join("traces")).into_keys().collect();
    assert!(!traces.is_empty());
    for trace in &traces {
        let kept = outside.join(trace.file_name().unwrap());
        fs::rename(trace, &kept).unwrap();
        symlink(&kept, trace).unwrap();
    }
    let before = contents(&outside);
    bench.run(&["report", run.to_str().unwrap()]).expect_code(0);
    assert_eq!(contents(&outside), before);
    for path in WRITTEN.iter().map(|name| run.join(name)).chain(traces) {
        let found = fs::symlink_metadata(&path).unwrap();
        assert!(found.is_file(), "{}", path.display());
        assert_eq!(found.permissions().mode() & 0o777, 0o600, "{}", path.display());
    }
    assert_eq!(leftovers(&run).len(), WRITTEN.len(), "the links of that name, and nothing else");
}

#[test]
fn a_trace_whose_file_is_up_to_date_is_not_written_again() {
    use std::os::unix::fs::MetadataExt as _;
    let (bench, run) = ran();
    let report = || bench.run(&["report", run.to_str().unwrap()]).expect_code(0);
    // A file that is written is a new one.
    let file = |path: &PathBuf| fs::metadata(path).unwrap().ino();
    let traces: Vec<PathBuf> = contents(&run.join("traces")).into_keys().collect();
    let before: Vec<u64> = traces.iter().map(file).collect();
    let old = contents(&run.join("traces"));
    report();
    assert!(!before.is_empty());
    assert_eq!(traces.iter().map(file).collect::<Vec<_>>(), before);
    // One that lacks the client's points gets them again.
    let mut json: serde_json::Value = serde_json::from_slice(&old[&traces[0]]).unwrap();
    json["records"].as_array_mut().unwrap().retain(|record| record["project"] != "bench");
    fs::write(&traces[0], json.to_string()).unwrap();
    report();
    let read = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).unwrap();
    assert_eq!(read(&fs::read(&traces[0]).unwrap()), read(&old[&traces[0]]));
}

#[test]
fn a_link_pipe_or_directory_in_the_way_is_replaced_or_named() {
    let (bench, run) = ran();
    let run_path = run.to_str().unwrap();
    let pipe = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    for name in WRITTEN {
        let path = run.join(name);
        fs::remove_file(&path).unwrap();
        pipe(&path);
        bench.run(&["report", run_path]).expect_code(0);
        assert!(fs::symlink_metadata(&path).unwrap().is_file(), "{name}");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let ended = bench.run(&["report", run_path]).expect_code(1);
        assert!(ended.stderr.contains(name) && ended.stderr.contains("directory"), "{}", ended.stderr);
        fs::remove_dir(&path).unwrap();
    }
    // traces/ behind a link: nothing is written through it.
    let elsewhere = bench.path().join("elsewhere");
    fs::rename(run.join("traces"), &elsewhere).unwrap();
    symlink(&elsewhere, run.join("traces")).unwrap();
    let before = contents(&elsewhere);
    let ended = bench.run(&["report", run_path]).expect_code(1);
    assert!(ended.stderr.contains("a symbolic link is in the place of a directory"), "{}", ended.stderr);
    assert_eq!(contents(&elsewhere), before);
    fs::remove_file(run.join("traces")).unwrap();
    fs::rename(&elsewhere, run.join("traces")).unwrap();
    // A stored trace that is a pipe or a device is none, and does not hang.
    let traces: Vec<PathBuf> = contents(&run.join("traces")).into_keys().collect();
    fs::remove_file(&traces[0]).unwrap();
    pipe(&traces[0]);
    fs::remove_file(&traces[1]).unwrap();
    symlink("/dev/zero", &traces[1]).unwrap();
    bench.run(&["report", run_path]).expect_code(0);
    assert_eq!(leftovers(&run), Vec::<PathBuf>::new());
}

#[test]
fn traces_that_are_no_files_hang_nothing_and_the_users_own_pipe_is_read() {
    let (bench, run) = ran();
    let run_path = run.to_str().unwrap();
    let pipe = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let trace = contents(&run.join("traces")).into_keys().next().unwrap();
    let kept = fs::read(&trace).unwrap();
    for is_pipe in [true, false] {
        fs::remove_file(&trace).unwrap();
        if is_pipe {
            pipe(&trace);
        } else {
            symlink("/dev/zero", &trace).unwrap();
        }
        for command in ["show", "list", "stats", "rank"] {
            let ended = bench.run(&["trace", command, run_path]).expect_code(65);
            assert!(ended.stderr.contains("not a regular file"), "{command}: {}", ended.stderr);
        }
    }
    let named = bench.path().join("named");
    pipe(&named);
    let shown = std::thread::scope(|scope| {
        scope.spawn(|| fs::write(&named, &kept).unwrap());
        bench.run(&["trace", "show", named.to_str().unwrap()])
    });
    assert!(shown.expect_code(0).stdout.contains("points over"));
}

#[test]
fn a_link_in_the_place_of_the_demos_collector_is_not_followed() {
    let (bench, run) = ran();
    let (collector, mine) = (run.join("demo-traces.db"), bench.path().join("mine.db"));
    fs::rename(&collector, &mine).unwrap();
    symlink(&mine, &collector).unwrap();
    fs::remove_dir_all(run.join("traces")).unwrap();
    let before = fs::read(&mine).unwrap();
    let ended = bench.run(&["collect", run.to_str().unwrap(), "--wait", "100ms"]);
    assert_ne!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!run.join("traces").exists());
    assert!(fs::read(&mine).unwrap() == before);
    assert!(!bench.path().join("mine.db-wal").exists());
}

#[test]
fn a_log_or_results_that_are_no_files_are_refused_and_hang_nothing() {
    let (bench, run) = ran();
    let run_path = run.to_str().unwrap();
    let log = run.join("run.log");
    let kept = bench.path().join("kept.log");
    fs::rename(&log, &kept).unwrap();
    type Place = fn(&Path);
    let places: [(&str, Place); 4] = [
        ("a pipe", |path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success())),
        ("a device", |path| symlink("/dev/zero", path).unwrap()),
        ("a directory", |path| fs::create_dir(path).unwrap()),
        ("a link to nothing", |path| symlink("/no/such/file", path).unwrap()),
    ];
    for (what, place) in places {
        place(&log);
        for command in [&["report", run_path][..], &["export", "--csv", run_path], &["check", run_path]] {
            let ended = bench.run(command);
            assert_eq!(ended.code, Some(65), "{what}, {command:?}: {}", ended.stderr);
        }
        let removed = if log.is_dir() { fs::remove_dir(&log) } else { fs::remove_file(&log) };
        removed.unwrap();
    }
    // The user's own link to the log is read.
    symlink(&kept, &log).unwrap();
    bench.run(&["report", run_path]).expect_code(0);
    // Without a log, compare reads results.json.
    fs::remove_file(&log).unwrap();
    fs::remove_file(run.join("results.json")).unwrap();
    for (what, place) in places {
        place(&run.join("results.json"));
        let ended = bench.run(&["compare", run_path, run_path]);
        assert_eq!(ended.code, Some(65), "{what}: {}", ended.stderr);
        let path = run.join("results.json");
        let removed = if path.is_dir() { fs::remove_dir(&path) } else { fs::remove_file(&path) };
        removed.unwrap();
    }
}

/// A file that the user names may be the user's own link, a device or a pipe.
#[test]
fn named_outputs_follow_the_users_own_link_and_go_into_devices() {
    let (bench, run) = ran();
    let run_path = run.to_str().unwrap();
    bench.write("real.csv", "old");
    symlink("real.csv", bench.path().join("latest.csv")).unwrap();
    bench.run(&["export", "--csv", run_path, "-o", "latest.csv"]).expect_code(0);
    assert!(fs::symlink_metadata(bench.path().join("latest.csv")).unwrap().is_symlink());
    let real = fs::read_to_string(bench.path().join("real.csv")).unwrap();
    assert_eq!(real.lines().count(), 21);
    let ended = bench.run(&["export", "--csv", run_path, "-o", "/dev/stdout"]).expect_code(0);
    assert!(ended.stdout.starts_with(&real), "{}", ended.stdout);
    bench.run(&["report", run_path, "--junit", "/dev/null"]).expect_code(0);
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let ended = bench.run(&["export", "--csv", run_path, "-o", "."]).expect_code(1);
    assert!(ended.stderr.contains("directory"), "{}", ended.stderr);
    assert_eq!(leftovers(bench.path()), Vec::<PathBuf>::new());
}

/// A writer that fails leaves neither a half file nor its temporary one.
#[test]
fn what_cannot_be_written_leaves_nothing_behind() {
    let server = ScriptedServer::answering_after(std::time::Duration::ZERO);
    let bench = Bench::new();
    bench.load(&server.url(), "", "runner: { serial: { times: 5 } }\niteration: [ { get: / } ]");
    fs::create_dir(bench.path().join("junit.xml")).unwrap();
    bench.run(&["run", "scenario.yaml", "--junit", "junit.xml"]).expect_code(1);
    let run = bench.run_directory();
    bench.run(&["export", "--csv", run.to_str().unwrap(), "-o", "no/such/folder/x.csv"]).expect_code(1);
    assert_eq!(leftovers(bench.path()), Vec::<PathBuf>::new());
    // The manual pages: a link of a page's name is replaced.
    bench.write("outside", "precious");
    fs::create_dir(bench.path().join("man")).unwrap();
    symlink(bench.path().join("outside"), bench.path().join("man/bench.1")).unwrap();
    bench.run(&["man", "man"]).expect_code(0);
    assert_eq!(fs::read_to_string(bench.path().join("outside")).unwrap(), "precious");
    assert!(fs::read_to_string(bench.path().join("man/bench-run.1")).unwrap().contains("scenario"));
    assert!(fs::symlink_metadata(bench.path().join("man/bench.1")).unwrap().is_file());
}

/// A run whose files cannot be written exits with 1, and nothing that tells of it says PASS.
#[test]
fn a_run_whose_files_cannot_be_written_passes_nowhere() {
    let server = ScriptedServer::answering_after(std::time::Duration::ZERO);
    let bench = Bench::new();
    let rest =
        "runner: { serial: { times: 5 } }\niteration: [ { get: / } ]\nsla: { failure_rate: { max: 0 } }";
    bench.load(&server.url(), "", rest);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let run = bench.run_directory();
    std::fs::remove_file(run.join("results.json")).unwrap();
    std::fs::create_dir_all(run.join("results.json/in-the-way")).unwrap();
    let mut command = bench.command(&["report", run.to_str().unwrap(), "--junit", "j.xml"]);
    let ended =
        Bench::end(command.env("GITHUB_STEP_SUMMARY", bench.path().join("summary.md"))).expect_code(1);
    assert!(ended.stderr.contains("results.json cannot be written"), "{}", ended.stderr);
    assert!(ended.stdout.contains("INVALID") && !ended.stdout.contains("PASS"), "{}", ended.stdout);
    let read = |name: &str| std::fs::read_to_string(bench.path().join(name)).unwrap();
    assert!(read("j.xml").contains("files cannot be written"), "{}", read("j.xml"));
    assert!(read("summary.md").contains("INVALID"), "{}", read("summary.md"));
}
