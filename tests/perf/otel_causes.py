#!/usr/bin/env python3
"""How often the right cause is named: runs each test of `real_otel` so many times, one after the other.

    eval "$(tests/real/otel.sh)"
    tests/perf/otel_causes.py 20                # of each; also: otel_causes.py 5 lock pool

Each run is a load of some seconds on a real shop with one planted cause, or none (`healthy`). Right: its guilty point is
named, with its attribute where one tells; wrong: another is. What is not right is kept in a folder that is printed.
"""

import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TESTS = {
    "healthy": "real_healthy_shop_accuses_nobody",
    "n_plus_one": "real_statement_of_an_orm_for_each_row",
    "index": "real_index_that_one_partition_lacks",
    "pool": "real_pool_that_is_too_small",
    "lock": "real_lock_of_a_row",
    "downstream": "real_slow_service_behind_another",
    "event_loop": "real_event_loop_that_is_blocked",
    "retry": "real_call_that_fails_and_is_repeated",
    "cpu": "real_processor_time_of_a_function",
}


def test_program():
    built = subprocess.run(
        ["cargo", "test", "--all-features", "--locked", "--test", "it", "--no-run"],
        cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, check=False,
    )
    found = re.search(r"Executable tests/it/main.rs \((.*)\)", built.stderr)
    if not found:
        sys.exit(built.stderr)
    return REPOSITORY / found[1]


def run(program, cause):
    """`right`, `wrong`, `nothing`, or `failed` for anything else, such as an incomplete trace."""
    command = [program, "--exact", "--nocapture", f"real_otel::{TESTS[cause]}"]
    ended = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=300)
    if "skipped:" in ended.stdout:
        sys.exit('the shop does not run: eval "$(tests/real/otel.sh)"')
    said = re.search(r"^cause \w+: (\w+)$", ended.stdout, re.MULTILINE)
    said = said[1] if said else "failed"
    # The guilty point is right, and its number of calls or its attribute is not.
    if said == "right" and ended.returncode != 0:
        said = "failed"
    return said, ended.stdout + ended.stderr


def main():
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    causes = sys.argv[2:] or list(TESTS)
    program, folder = test_program(), pathlib.Path(tempfile.mkdtemp(prefix="otel-causes-"))
    began, counts = time.monotonic(), {cause: collections.Counter() for cause in causes}
    for number in range(times):
        for cause in causes:
            said, output = run(program, cause)
            counts[cause][said] += 1
            if said != "right":
                (folder / f"{cause}-{number}-{said}.txt").write_text(output)
            print(f"{number + 1}/{times} {cause}: {said}", file=sys.stderr)
    total = sum(counts.values(), collections.Counter())
    planted = sum((counts[cause] for cause in causes if cause != "healthy"), collections.Counter())
    for cause, count in [*counts.items(), ("all", total)]:
        figures = "   ".join(f"{word} {count[word]:3d}" for word in ("right", "wrong", "nothing", "failed"))
        print(f"{cause:11}  {figures}   of {sum(count.values())}")
    share = planted["right"] / max(1, sum(planted.values()))
    accused = counts.get("healthy", {}).get("wrong", 0)
    print(f"\nplanted causes named: {share:.1%}   goal 95 %  {'ok' if share >= 0.95 else 'MISSED'}")
    print(f"wrongly accused: {total['wrong']}, of these without a cause: {accused}   goal 0  {'MISSED' if total['wrong'] else 'ok'}")
    print(f"in {time.monotonic() - began:.0f} s on {os.cpu_count()} processors; what was not right: {folder}")


if __name__ == "__main__":
    main()
