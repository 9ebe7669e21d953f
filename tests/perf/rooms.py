#!/usr/bin/env python3
"""How long a changed line takes in each crate, until its unit tests have run.

    tests/perf/rooms.py            # prints the table
    tests/perf/rooms.py --write    # writes it into .github/CONTRIBUTING.md

Builds each crate's unit tests, adds a line to its largest file, and builds and runs them again; the line is removed. "All"
is the same line with `cargo test --no-run` of everything: what else has to be compiled. Needs a quiet machine.
"""

import argparse
import os
import re
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / ".github/CONTRIBUTING.md"
BEGIN, END = "<!-- written by tests/perf/rooms.py -->\n", "<!-- end -->\n"


def rooms():
    """The crates in the order of the map."""
    return re.findall(r"^//! \| \[`(\w+)`\]", (ROOT / "src/lib.rs").read_text(), re.M)


def package(room):
    return room if room == "osprofiler" else f"bench-{room}"


def seconds(command):
    began = time.monotonic()
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def code_lines(files):
    lines = 0
    for path in files:
        code = path.read_text().split("#[cfg(test)]\nmod tests {")[0].splitlines()
        lines += sum(1 for line in code if line.strip() and not line.strip().startswith("//"))
    return lines


def measured(room, everything):
    files = [path for path in (ROOT / "src" / room).rglob("*.rs") if "tests" not in path.parts and path.name != "tests.rs"]
    unit = ["cargo", "test", "--locked", "--lib", "-p", package(room)]
    subprocess.run([*unit, "--no-run"], cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
    changed = max(files, key=lambda path: path.stat().st_size)
    before, times = changed.read_text(), changed.stat()
    try:
        changed.write_text(before + f"\n/// {time.time()}\n#[allow(dead_code)]\nfn changed_by_rooms_py() {{}}\n")
        build = seconds([*unit, "--no-run"])
        test = seconds(unit)
        rest = seconds(["cargo", "test", "--locked", "--all-features", "--no-run"]) if everything else None
    finally:
        changed.write_text(before)
        os.utime(changed, (times.st_atime, times.st_mtime))
    return code_lines(files), build, test, rest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--all", action="store_true", help="also what everything takes after the change")
    options = parser.parse_args()
    table = ["| crate | lines of code | build, s | test, s |" + (" all, s |" if options.all else ""),
             "|---|---|---|---|" + ("---|" if options.all else "")]
    for room in options.rooms or rooms():
        lines, build, test, rest = measured(room, options.all)
        table.append(f"| `{package(room)}` | {lines:,} | {build:.1f} | {test:.1f} |" + (f" {rest:.0f} |" if options.all else ""))
        print(table[-1], flush=True)
    if options.write:
        page = PAGE.read_text()
        head, rest = page.split(BEGIN)
        PAGE.write_text(head + BEGIN + "\n" + "\n".join(table) + "\n\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
