#!/usr/bin/env python3
"""What bench says on a busy machine: the demo, its `ab` and the shop, with a number of loops that compute beside them.

    tests/perf/busy.py                                        # 20 runs of each, with 0, 2 and 4 loops
    tests/perf/busy.py --runs 5 --busy 4 demo                 # only these
    tests/perf/busy.py --bench target/dist/bench demo ab      # another program

    demo   bench run scenarios/demo.yaml: some look-ups run a slow statement. Right: it is named as the cause.
    ab     the comparison of README.md: B takes 25 % longer. Right: FAIL.
    shop   each test of tests/it/planted.rs with a planted cause (tests/perf/otel_causes.py). Right: it is named.

Nothing: no cause is named, or the comparison is undecided or has no verdict. Wrong: another cause is named, or PASS. Each
line of the table has the mean load of the machine when the runs ended; what was not right is kept in a folder that is
printed. Without `--bench`, a release build of this tree is used.
"""

import argparse
import collections
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import otel_causes

REPOSITORY = otel_causes.REPOSITORY
PLANTED = "FROM assignment"
WORDS = ("right", "nothing", "wrong", "failed")
RUN_S_MAX = 1800
WHAT = ("demo", "ab", "shop")


class Loops(otel_causes.Busy):
    """This many processes that compute."""

    def __init__(self, number):
        super().__init__(True)
        self.number = number


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=[[], *WHAT], help="default: all", default=[])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--busy", default="0,2,4", help="numbers of loops beside it")
    parser.add_argument("--bench", type=pathlib.Path, help="the program")
    given = parser.parse_args()
    given.busy = [int(number) for number in given.busy.split(",")]
    given.what = given.what or list(WHAT)
    return given


def built():
    subprocess.run(["cargo", "build", "--release", "--locked"], cwd=REPOSITORY, check=True)
    return REPOSITORY / "target/release/bench"


def bench(program, out, *given):
    command = [program, *given, "--out", out]
    return subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=RUN_S_MAX
    )


def result(out, name):
    found = sorted(pathlib.Path(out).glob(f"*/{name}"))
    return json.loads(found[0].read_text()) if found else None


def demo(program, out):
    ended = bench(program, out, "run", "scenarios/demo.yaml")
    seen = result(out, "results.json")
    if not seen or "comparison" not in seen["workloads"][0]:
        return "failed", ended.stdout + ended.stderr
    causes = [kind for kind in seen["workloads"][0]["comparison"]["kinds"] if kind["guilty"]]
    if not causes:
        return "nothing", ended.stdout
    return "right" if PLANTED in causes[0]["detail"] else "wrong", ended.stdout


def compared(program, out):
    sides = ["-d", "deployments/demo.yaml", "-d", "deployments/slower-demo.yaml"]
    ended = bench(program, out, "ab", "scenarios/demo-ab.yaml", *sides)
    verdict = (result(out, "ab.json") or {}).get("outcome")
    said = {"FAIL": "right", "PASS": "wrong", "INCONCLUSIVE": "nothing", "INVALID": "nothing"}
    return said.get(verdict, "failed"), ended.stdout + ended.stderr


def shop(tests):
    causes = [cause for cause in otel_causes.TESTS["rust"][1] if cause != "healthy"]
    for cause in causes:
        said, output = otel_causes.run(tests, "rust", cause)
        yield f"shop.{cause}", said, output


def rounds(what, program, tests):
    """One run of each, as a name, what was said and the output."""
    for one in what:
        if one == "shop":
            yield from shop(tests)
            continue
        with tempfile.TemporaryDirectory() as out:
            said, output = {"demo": demo, "ab": compared}[one](program, out)
        yield one, said, output


def main():
    given = arguments()
    program = (given.bench or built()).resolve()
    tests = otel_causes.test_program() if "shop" in given.what else None
    folder = pathlib.Path(tempfile.mkdtemp(prefix="busy-"))
    began, wrong, missed = time.monotonic(), 0, 0
    for loops in given.busy:
        counts, loads = {}, collections.defaultdict(list)
        with Loops(loops):
            for number in range(given.runs):
                for name, said, output in rounds(given.what, program, tests):
                    group = name.split(".")[0]
                    counts.setdefault(group, collections.Counter())[said] += 1
                    loads[group].append(os.getloadavg()[0])
                    if said != "right":
                        (folder / f"{loops}-{name}-{number}-{said}.txt").write_text(output)
                    print(f"{loops} loops, {number + 1}/{given.runs} {name}: {said}", file=sys.stderr, flush=True)
        for group, count in counts.items():
            figures = "   ".join(f"{word} {count[word]:3d}" for word in WORDS)
            all_runs, load = sum(count.values()), sum(loads[group]) / len(loads[group])
            share = count["right"] / all_runs
            print(f"{loops} loops  {group:6} {figures}   of {all_runs:3d}: {share:4.0%}   load {load:.1f}", flush=True)
            wrong += count["wrong"]
            missed += share < 0.95
    print(f"goal: 95 % right in each line, {'MISSED' if missed else 'ok'}; 0 wrong, {'MISSED' if wrong else 'ok'}")
    print(f"in {time.monotonic() - began:.0f} s on {os.cpu_count()} processors; what was not right: {folder}")


if __name__ == "__main__":
    main()
