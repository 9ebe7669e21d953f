#!/usr/bin/env python3
"""Whether the present program still reads what earlier ones wrote, and the files that were written for them.

    tests/upgrades.py files                 # every version of every scenario and deployment in this repository's history
    tests/upgrades.py runs [COMMIT…]        # builds the program of these commits, lets it run its demo, and reads that run
    tests/upgrades.py runs PROGRAM…         # the same with programs that are there, such as those of earlier packages
    tests/upgrades.py commits               # the commits that `runs` takes by itself: the last ones before each pause

A file or a run must be read, or refused with a sentence that says what to do. A run that is read must have the counts and
percentiles that its own program gave it. `runs` needs some minutes for each commit and keeps what it builds in
target/upgrades. BENCH names the present program, default target/debug/bench. It needs the whole history: no shallow clone.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BENCH = Path(os.environ.get("BENCH") or ROOT / "target/debug/bench").resolve()
BUILT = ROOT / "target/upgrades"
# Between two sessions of work there are at least this many seconds.
PAUSE_S = 2_400


def git(*arguments):
    return subprocess.check_output(["git", "-C", ROOT, *arguments], text=True)


def commits():
    """The last commit before each pause."""
    found, before = [], None
    for line in git("log", "--reverse", "--format=%h %ct").splitlines():
        commit, time_s = line.split()
        if before and int(time_s) - before[1] > PAUSE_S:
            found.append(before[0])
        before = (commit, int(time_s))
    return found


def extracted(commit, folder, *paths):
    archive = subprocess.run(["git", "-C", ROOT, "archive", commit, *paths], stdout=subprocess.PIPE, check=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)


def present(*arguments, cwd=None):
    return subprocess.run([BENCH, *map(str, arguments)], cwd=cwd, capture_output=True, text=True)


def helps(ended):
    """Whether a refusal says what to do: its remedy is a line of its own, or follows a semicolon."""
    said = ended.stdout + ended.stderr
    return "panicked" not in said and ("help:" in said or "; " in said)


def files():
    """Validates every version of every file; gives the refused ones."""
    seen, refused = set(), []
    for commit in git("log", "--reverse", "--format=%h", "--", "scenarios", "deployments").split():
        listed = [line.split(None, 3)[2:] for line in git("ls-tree", "-r", commit, "--", "scenarios", "deployments").splitlines()]
        fresh = [(blob, path) for blob, path in listed if path.endswith(".yaml") and (blob, path) not in seen]
        if not fresh:
            continue
        with tempfile.TemporaryDirectory() as folder:
            there = sorted({path.split("/")[0] for _, path in listed})
            extracted(commit, folder, *there)
            for blob, path in fresh:
                seen.add((blob, path))
                ended = present("validate", "--offline", path, cwd=folder)
                if ended.returncode:
                    refused.append((commit, path, helps(ended), (ended.stdout + ended.stderr).strip()))
    print(f"{len(seen)} files, {len(refused)} refused")
    for commit, path, help_is_there, said in refused:
        print(f"{commit} {path}: {'refused' if help_is_there else 'REFUSED WITHOUT HELP'}\n{said}")
    return not all(one[2] for one in refused)


def program(commit):
    """Builds the program of a commit, unless that was done."""
    kept = BUILT / "programs" / commit
    if not kept.exists():
        with tempfile.TemporaryDirectory() as folder:
            extracted(commit, folder)
            subprocess.run(["cargo", "build", "--quiet", "--bin", "bench"], cwd=folder, check=True,
                           env=dict(os.environ, CARGO_TARGET_DIR=str(BUILT / "build"), RUSTFLAGS="--cap-lints=warn"))
        kept.parent.mkdir(parents=True, exist_ok=True)
        (BUILT / "build/debug/bench").rename(kept)
    return kept


def figures(path):
    results = json.loads(path.read_text())
    all_figures = []
    for workload in results["workloads"]:
        percentiles = {one["percentile"]: one["value_ms"] for one in workload["response_time"]["percentiles"]}
        counts = workload["iterations"]
        all_figures.append([counts["total"], counts["ok"], counts["failed"], percentiles.get(50), percentiles.get(99)])
    return all_figures


def run(which):
    """What the present program makes of a run of this program, or of this commit's: 'read', 'refused', or what is wrong."""
    is_program = Path(which).is_file()
    try:
        old = Path(which).resolve() if is_program else program(which)
    except subprocess.CalledProcessError as error:
        return f"not built: {error}"
    with tempfile.TemporaryDirectory() as folder:
        if not is_program:
            extracted(which, folder, "scenarios", "deployments")
        # What is packaged has the demo built in.
        scenario = "demo" if is_program else "scenarios/demo.yaml"
        ended = subprocess.run([old, "run", scenario, "--out", "runs"], cwd=folder, capture_output=True, text=True, timeout=300)
        logs = list(Path(folder).glob("runs/*/run.log")) or list(Path(folder).glob("runs/*/*.log"))
        if not logs:
            return f"its demo left no log: {ended.returncode} {ended.stderr.strip()[-300:]}"
        directory = logs[0].parent
        written = figures(directory / "results.json")
        asked = [("check", directory), ("compare", directory, directory), ("report", directory)]
        for arguments in asked:
            ended = present(*arguments)
            if "panicked" in ended.stderr:
                return f"PANIC in {arguments[0]}: {ended.stderr.strip()[-300:]}"
            if ended.returncode not in (0, 2, 3, 4):
                said = (ended.stdout + ended.stderr).strip()
                return f"{'refused' if helps(ended) else 'REFUSED WITHOUT HELP'} by {arguments[0]}: {said[-300:]}"
        again = figures(directory / "results.json")
        near = all(a == b or isinstance(a, float) and isinstance(b, float) and abs(a - b) <= 0.002 * max(a, b)
                   for one, two in zip(written, again) for a, b in zip(one, two))
        return "read" if near and len(written) == len(again) else f"READ DIFFERENTLY: {written} and {again}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["files", "runs", "commits"])
    parser.add_argument("which", nargs="*", metavar="COMMIT|PROGRAM")
    options = parser.parse_args()
    if options.what == "commits":
        print("\n".join(commits()))
        return
    if options.what == "files":
        sys.exit(files())
    failed = False
    for which in options.which or commits():
        said = run(which)
        failed |= not said.startswith(("read", "refused"))
        print(f"{which}  {said}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
