#!/usr/bin/env python3
"""Mutation testing of what judges and measures: which small faults does no library test notice?

    tests/mutants/run.py [PART…] [--minutes 60]     # parts: statistics measure verdict merge attribution
    tests/mutants/run.py --list [PART…]

Changes a copy of the program (target/mutants/tree) so that one build holds every fault, each with a number: an operator is
another one, a function returns a fixed value, a guard is true. Then it finds out which tests run the place of which fault,
and runs just those with the fault turned on. A fault that no test notices is a survivor, and so is one that no test runs;
both are printed, and kept in target/mutants/found.json. Building takes some minutes; a fault then takes a fraction of
a second to some seconds, so that thousands are tried in an hour. What is left when the time is over is said, and the next
call goes on with it: faults that a test noticed are not tried again (--afresh does), those that survived are, unless
tests/mutants/argued.txt says why no test should notice them. All are first
tried with tests of at most two seconds, and what these do not notice then with the others. A test that
runs longer than a minute with a fault, and thirty times as long as without, has noticed it.
"""

import argparse
import collections
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "target/mutants"
TREE = WORK / "tree"
PARTS = {
    "statistics": ["src/statistics/*.rs"],
    "measure": ["src/measure/latency.rs", "src/measure/meter.rs", "src/measure/recorder.rs", "src/measure/rows.rs",
                "src/measure/intervals.rs", "src/results/counting.rs", "src/results/histogram.rs", "src/results/series.rs",
                "src/results/load.rs", "src/results/aggregate.rs", "src/runner/held.rs"],
    "verdict": ["src/verdict/*.rs", "src/verdict/*/*.rs"],
    "merge": ["src/harness/merge/*.rs"],
    "attribution": ["src/analysis/attribution.rs", "src/analysis/contrast.rs", "src/analysis/own_time.rs",
                    "src/analysis/critical_path.rs", "src/analysis/causes.rs", "src/analysis/comparison.rs",
                    "src/analysis/weighted.rs", "src/analysis/levels.rs", "src/analysis/compared.rs"],
}
MUTATED = '''
/// Whether the fault of this number is turned on.
pub fn mutated(number: u64) -> bool {
    use std::io::Write as _;
    use std::sync::{LazyLock, Mutex};
    static ON: LazyLock<u64> = LazyLock::new(|| std::env::var("MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(0));
    static SEEN: LazyLock<Option<Mutex<(std::fs::File, std::collections::HashSet<u64>)>>> = LazyLock::new(|| {
        let path = std::env::var("MUTANTS_SEEN").ok()?;
        let file = std::fs::File::options().append(true).create(true).open(path).ok()?;
        Some(Mutex::new((file, std::collections::HashSet::new())))
    });
    if let Some(seen) = &*SEEN {
        let mut seen = seen.lock().unwrap_or_else(|error| error.into_inner());
        if seen.1.insert(number) {
            let _ = writeln!(seen.0, "{number}");
        }
    }
    *ON == number
}
'''
ENVIRONMENT = dict(os.environ, CARGO_TARGET_DIR=str(WORK / "build"), RUSTFLAGS="-Awarnings", CARGO_PROFILE_TEST_DEBUG="0",
                   CARGO_PROFILE_DEV_DEBUG="0", CARGO_PROFILE_TEST_OPT_LEVEL="1", CARGO_INCREMENTAL="1",
                   PROPTEST_RNG_SEED="7", INSTA_UPDATE="no", INSTA_FORCE_PASS="0")
LIMIT_S = 60
MEMORY_BYTES = 6 << 30
# Tests that take longer are for the faults that no other test notices, after all others were tried.
QUICK_S = 2.0
NOTICED, SURVIVES, PERHAPS = "noticed", "survives", "noticed by no quick test"
ARGUED = Path(__file__).parent / "argued.txt"


def files_of(parts):
    found = []
    for part in parts:
        for pattern in PARTS[part]:
            found += sorted(ROOT.glob(pattern))
    kept = [path.relative_to(ROOT) for path in found]
    # What serves tests only.
    kept = [path for path in kept if "tests" not in path.parts and path.name not in ("tests.rs", "simulation.rs")]
    return list(dict.fromkeys(kept))


def tree(files, left_out):
    """A copy of the program with all faults; gives their list. What did not change keeps its time, so that cargo does not
    build it again."""
    roots = sorted({f"src/{Path(name).parts[1]}/lib.rs" for name in files})
    wanted = subprocess.check_output(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], text=True).splitlines()
    for name in wanted:
        source, copy = ROOT / name, TREE / name
        if not source.is_file() or name in map(str, files) or name in roots:
            continue
        if not copy.exists() or copy.read_bytes() != source.read_bytes():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
    with tempfile.TemporaryDirectory() as folder:
        for name in files:
            (Path(folder) / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, Path(folder) / name)
        listed = subprocess.run([WORK / "tool/debug/mutants", *files], cwd=folder, input=json.dumps(sorted(left_out)),
                                stdout=subprocess.PIPE, text=True, check=True).stdout
        for name in files:
            put(TREE / name, (Path(folder) / name).read_text())
    for root in roots:
        put(TREE / root, (ROOT / root).read_text() + MUTATED)
    return json.loads(listed)


def put(path, text):
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(faults):
    """A name for each fault that stays when lines move: its place among its like."""
    seen = collections.Counter()
    for fault in faults:
        like = f"{fault['file']} {fault['function']}: {fault['what']}"
        seen[like] += 1
        yield f"{like} #{seen[like]}"


def argued():
    """The faults that no test should notice; above each group stands why."""
    lines = [line.strip() for line in ARGUED.read_text().splitlines()]
    return {line for line in lines if line and not line.startswith("#")}


def kept(name, empty):
    path = WORK / name
    return json.loads(path.read_text()) if path.exists() else empty


def build(files):
    """Builds the tests; faults that do not compile are left out. Gives the faults and the programs."""
    all_faults = list(names(tree(files, set())))
    digest = hashlib.sha256("\n".join(all_faults).encode()).hexdigest()
    left_out = set(kept("left_out.json", {}).get(digest, []))
    for _ in range(12):
        faults = tree(files, left_out)
        for fault in faults:
            fault["name"] = all_faults[fault["number"] - 1]
        command = ["cargo", "test", "--no-run", "--lib", "-p", "bench*", "--message-format", "json", "--locked"]
        ended = subprocess.run(command, cwd=TREE, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        messages = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
        if ended.returncode == 0:
            (WORK / "left_out.json").write_text(json.dumps({digest: sorted(left_out)}))
            return faults, [one["executable"] for one in messages if one.get("executable") and one["profile"]["test"]]
        before = len(left_out)
        for one in messages:
            if one["reason"] == "compiler-message" and one["message"]["level"] == "error":
                left_out |= faulty(one["message"])
        print(f"{len(left_out)} faults do not compile", flush=True)
        if len(left_out) == before:
            sys.exit("the changed program does not compile:\n" + ended.stderr[-3000:] + "".join(
                one["message"]["rendered"] for one in messages if one["reason"] == "compiler-message")[-5000:])
    sys.exit("the changed program does not compile")


def faulty(message):
    """The faults at the place of an error: the one whose branch it is in."""
    found = set()
    for span in message["spans"]:
        path = Path(span["file_name"])
        lines = (TREE / os.path.normpath(path)).read_text().splitlines()
        # The last number that stands before the error, in what prettyplease made one statement.
        before = "\n".join(lines[max(0, span["line_start"] - 12):span["line_start"] - 1] + [lines[span["line_start"] - 1][:span["column_start"]]])
        numbers = re.findall(r"crate::mutated\(\s*(\d+)u64,?\s*\)", before)
        if span["is_primary"] and numbers:
            found.add(int(numbers[-1]))
    return found


def tests_of(program, faults_seen):
    """Runs each test alone; notes which faults' places it runs, and how long it takes."""
    names = [line[:-6] for line in subprocess.check_output([program, "--list"], text=True, env=ENVIRONMENT, cwd=TREE).splitlines()
             if line.endswith(": test")]

    def one(name):
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            passed = run([program, "--exact", name], {"MUTANTS_SEEN": f"{folder}/seen"}, 300)
            took_s = time.monotonic() - began
            seen = Path(folder, "seen")
            numbers = {int(line) for line in seen.read_text().split()} if seen.exists() else set()
            return name, passed, took_s, numbers

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, passed, took_s, numbers in pool.map(one, names):
            if not passed:
                print(f"without any fault, this test fails alone and is left out: {name}")
                continue
            for number in numbers:
                faults_seen[number].append((took_s, program, name))


def run(command, more, limit_s):
    """Whether the tests pass in time, and without more memory than any of them needs."""
    process = subprocess.Popen(["prlimit", f"--as={MEMORY_BYTES}", *command], cwd=TREE, env={**ENVIRONMENT, **more}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        return process.wait(limit_s) == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False


def survives(number, tests):
    """Runs the quickest tests first, a few at a time."""
    groups = collections.defaultdict(list)
    for took_s, program, name in sorted(tests):
        groups[program].append((took_s, name))
    for program, known in groups.items():
        while known:
            at_a_time = 2 if known[0][0] > QUICK_S else 12
            some, known = known[:at_a_time], known[at_a_time:]
            limit_s = max(LIMIT_S, 30 * sum(took_s for took_s, _ in some))
            if not run([program, "--exact", *(name for _, name in some), "--test-threads", "2"], {"MUTANT": str(number)}, limit_s):
                return False
    return True


def keep(found):
    (WORK / "found.json").write_text(json.dumps(found, indent=1))


def try_all(faults, tests_of, passed, found, options):
    """Tries faults with some of the tests until the time is over. Notes what was found: `passed` of those that no test noticed."""
    def one(fault):
        if time.monotonic() > options.ends:
            return None
        return survives(fault["number"], tests_of(fault))

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for count, (fault, result) in enumerate(zip(faults, pool.map(one, faults)), 1):
            if result is None:
                continue
            found[fault["name"]] = passed(fault) if result else NOTICED
            if found[fault["name"]] == SURVIVES:
                print(f"survives: {fault['file']}:{fault['line']} {fault['function']}: {fault['what']}", flush=True)
            if count % 50 == 0 or result:
                keep(found)
    keep(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=2, help="faults that are tried at a time")
    parser.add_argument("--afresh", action="store_true", help="forget what earlier calls found")
    parser.add_argument("--list", action="store_true", help="print the faults only")
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"no such part: {unknown[0]}; there are {', '.join(PARTS)}")
    subprocess.run(["cargo", "build", "--quiet", "--locked"], cwd=Path(__file__).parent, check=True,
                   env=dict(os.environ, CARGO_TARGET_DIR=str(WORK / "tool")))
    files = files_of(options.parts or PARTS)
    if options.list:
        for fault in tree(files, set()):
            print(f"{fault['number']:5} {fault['file']}:{fault['line']} {fault['function']}: {fault['what']}")
        return
    faults, programs = build(files)
    print(f"{len(faults)} faults in {len(files)} files", flush=True)
    seen = collections.defaultdict(list)
    for program in programs:
        tests_of(program, seen)
    reasoned = argued()
    reached = [fault for fault in faults if seen[fault["number"]] and fault["name"] not in reasoned]
    print(f"{len(reached)} of them in places that tests run", flush=True)
    options.ends, found = time.monotonic() + options.minutes * 60, {} if options.afresh else kept("found.json", {})
    quick = lambda fault: [test for test in seen[fault["number"]] if test[0] <= QUICK_S]
    slow = lambda fault: [test for test in seen[fault["number"]] if test[0] > QUICK_S]
    # First what survived before, then in an order that does not favour the first file when time runs out.
    left = [fault for fault in reached if found.get(fault["name"]) != NOTICED]
    left.sort(key=lambda fault: (found.get(fault["name"]) != SURVIVES, fault["number"] * 7919 % 10007))
    try_all(left, quick, lambda fault: PERHAPS if slow(fault) else SURVIVES, found, options)
    try_all([fault for fault in reached if found.get(fault["name"]) == PERHAPS], slow, lambda _: SURVIVES, found, options)
    unseen = [fault for fault in faults if not seen[fault["number"]] and fault["name"] not in reasoned]
    for (file, function), count in collections.Counter((fault["file"], fault["function"]) for fault in unseen).items():
        print(f"no test runs it: {file} {function} ({count} faults)")
    of = collections.Counter(found.get(fault["name"], "not tried") for fault in reached)
    print(f"{len(faults)} faults: {of[NOTICED]} noticed, {of[SURVIVES]} survive, {of[PERHAPS]} {PERHAPS}; "
          f"{sum(fault['name'] in reasoned for fault in faults)} argued; "
          f"{len(unseen)} in places that no library test runs; {of['not tried']} not tried")


if __name__ == "__main__":
    main()
