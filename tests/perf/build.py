#!/usr/bin/env python3
"""What a cold release build costs, by crate: cargo's timings as a table.

    tests/perf/build.py [--write] [--timings FILE]

Builds in a new folder, which takes minutes, and prints the seconds of each crate, those of its front end and of making code,
and its share; or reads a FILE that `cargo build --release --timings` wrote. Crates that take less than a hundredth are one row.
Crates build side by side, so that seconds are those of a shared processor: only the shares say something. `--write` puts the
table into tests/perf/README.md.
"""
import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).with_name("README.md")


def built(folder):
    """Builds; gives the file of the timings, and says what the build took."""
    command = ["cargo", "build", "--release", "--locked", "--timings", "--package", "bench", "--bin", "bench", "--target-dir", folder]
    process = subprocess.Popen(command, cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        sys.exit("the build failed")
    size = (Path(folder) / "release/bench").stat().st_size
    print(f"{usage.ru_utime + usage.ru_stime:.0f} s of the processors, a program of {size / 1e6:.1f} MB")
    return Path(folder) / "cargo-timings/cargo-timing.html"


def rows(timings):
    """(crate, seconds, front end, code, share) of each crate that counts, and of the others together."""
    units = json.loads(re.search(r"UNIT_DATA = (\[.*?\]);\n", timings.read_text(), re.S)[1])
    whole = sum(unit["duration"] for unit in units)
    crates = {}
    for unit in units:
        crate = crates.setdefault(unit["name"], [0.0, 0.0, 0.0])
        crate[0] += unit["duration"]
        for name, section in unit["sections"] or []:
            crate[1 if name == "frontend" else 2] += section["end"] - section["start"]
    large = {name: crate for name, crate in crates.items() if crate[0] >= whole / 100}
    for name, (seconds, front, code) in sorted(large.items(), key=lambda item: -item[1][0]):
        yield name, seconds, front, code, seconds / whole
    others = [crate for name, crate in crates.items() if name not in large]
    seconds, front, code = (sum(crate[column] for crate in others) for column in range(3))
    yield f"{len(others)} others", seconds, front, code, seconds / whole


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timings", type=Path, help="a file of cargo's timings to read instead of building")
    parser.add_argument("--write", action="store_true", help=f"write the table into {TABLE.relative_to(ROOT)}")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = list(rows(options.timings or built(folder)))
    lines = ["| crate | seconds | front end | code | share |", "|---|---|---|---|---|"]
    lines += [f"| {name} | {seconds:.1f} | {front:.1f} | {code:.1f} | {share:.1%} |" for name, seconds, front, code, share in found]
    table = "\n".join(lines) + "\n"
    print(table, end="")
    if options.write:
        begin, end = "<!-- build.py writes what follows -->\n", "<!-- until here -->\n"
        before, rest = TABLE.read_text().split(begin)
        TABLE.write_text(before + begin + table + end + rest.split(end, 1)[1])


if __name__ == "__main__":
    main()
