#!/usr/bin/env python3
"""Fuzzes what reads bytes from elsewhere, led by coverage, on the stable compiler.

    tests/fuzz/run.py                        # every target, a million inputs each
    tests/fuzz/run.py log http --runs 10000000
    tests/fuzz/run.py --keep                 # afterwards, keep a small corpus in tests/fuzz/corpus

It builds libFuzzer (a C++ compiler is needed) and the program with the compiler's coverage counters; the first time takes
a quarter of an hour on two cores. An input that makes a target panic, take ten seconds or 1 GB of memory ends it: its file is named, and

    tests/fuzz/run.py TARGET --repeat FILE

repeats it. Inputs that reach something new are added to tests/fuzz/target/corpus; --keep reduces them to a few that reach
all the same, of at most 4 KiB each.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = HERE / "target"
CORPUS, GROWN = HERE / "corpus", TARGET / "corpus"
HOST = re.search(r"host: (\S+)", subprocess.check_output(["rustc", "-vV"], text=True))[1]
PROGRAM = TARGET / HOST / "release" / "bench-fuzz"
# What cargo-fuzz gives the compiler, as far as the stable one takes it.
FLAGS = ["-Cpasses=sancov-module", "-Cllvm-args=-sanitizer-coverage-level=4",
         "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters", "-Cllvm-args=-sanitizer-coverage-pc-table",
         "-Cllvm-args=-sanitizer-coverage-trace-compares"]
# What compiles templates keeps them as long as the process lives, which is one file for bench: after this many inputs, another
# process goes on, before the memory of one is used up.
PASSES = {**dict.fromkeys(["scenario", "deployment", "har", "openapi", "curl", "csv"], 100_000), "rally": 40_000}
LENGTHS = {"log": 8192, "results": 16384}


def build():
    environment = dict(os.environ, RUSTFLAGS=" ".join(FLAGS), CARGO_TARGET_DIR=str(TARGET))
    # With a target, the flags are not for build scripts.
    subprocess.run(["cargo", "build", "--release", "--locked", "--target", HOST], cwd=HERE, env=environment, check=True)


def targets():
    text = (HERE / "targets.rs").read_text()
    listed = text[text.index("const TARGETS"):text.index("];", text.index("const TARGETS"))]
    return re.findall(r'\("(\w+)"', listed)


def fuzz(name, runs, seconds):
    """Runs a target; gives how it ended, a line about that, and the last lines that it printed."""
    grown, kept, found = GROWN / name, CORPUS / name, TARGET / "found" / name
    for folder in (grown, found):
        folder.mkdir(parents=True, exist_ok=True)
    began, done, coverage, peak_mb, code, log = time.monotonic(), 0, 0, 0, 0, ""
    left = lambda: max(int(seconds - (time.monotonic() - began)), 1) if seconds else 0
    while code == 0 and done < runs and (not seconds or time.monotonic() - began < seconds):
        command = [PROGRAM, f"-runs={min(runs - done, PASSES.get(name, runs))}", f"-max_total_time={left()}", "-timeout=20",
                   "-rss_limit_mb=1024", f"-max_len={LENGTHS.get(name, 4096)}", f"-artifact_prefix={found}/",
                   "-print_final_stats=1", grown, kept]
        ended = subprocess.run([str(part) for part in command], env=dict(os.environ, BENCH_FUZZ=name), cwd=HERE,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace")
        figure = lambda pattern: int((re.findall(pattern, ended.stderr) or ["0"])[-1])
        done += figure(r"number_of_executed_units:\s*(\d+)")
        coverage, peak_mb = max(coverage, figure(r"cov: (\d+)")), max(peak_mb, figure(r"peak_rss_mb:\s*(\d+)"))
        code, log = ended.returncode, ended.stderr
    took_s = time.monotonic() - began
    line = (f"{name:11} {done:>9} inputs, {done / took_s:>6.0f}/s, {coverage:>6} places reached, peak {peak_mb} MB, "
            f"{took_s:.0f} s")
    return name, code, line, log


def keep(name):
    """Keeps as few and as small inputs as reach the same."""
    merged = TARGET / "merged" / name
    shutil.rmtree(merged, ignore_errors=True)
    merged.mkdir(parents=True)
    subprocess.run([str(PROGRAM), "-merge=1", str(merged), str(CORPUS / name), str(GROWN / name)],
                   env=dict(os.environ, BENCH_FUZZ=name), stderr=subprocess.DEVNULL, check=True)
    small = sorted((path for path in merged.iterdir() if path.stat().st_size <= 4096), key=lambda path: path.stat().st_size)
    (CORPUS / name).mkdir(parents=True, exist_ok=True)
    # Evenly from the smallest to the largest.
    for path in small[::max(1, len(small) // 40)]:
        shutil.copy(path, CORPUS / name / path.name[:12])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*")
    parser.add_argument("--runs", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=int, default=0, help="the most for each target; 0 for no limit")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=Path, metavar="FILE")
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    wanted = options.targets or targets()
    build()
    if options.repeat:
        environment = dict(os.environ, BENCH_FUZZ=wanted[0], RUST_BACKTRACE="1")
        sys.exit(subprocess.run([PROGRAM, options.repeat], env=environment).returncode)
    failed = []
    with ThreadPoolExecutor(options.jobs) as pool:
        running = [pool.submit(fuzz, name, options.runs, options.seconds) for name in wanted]
        for ended in as_completed(running):
            name, code, line, log = ended.result()
            print(line, flush=True)
            if code != 0:
                failed.append(name)
                print("\n".join(log.splitlines()[-25:]), flush=True)
    if options.keep:
        for name in wanted:
            keep(name)
    sys.exit(f"failed: {' '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
