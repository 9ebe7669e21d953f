#!/usr/bin/env python3
"""How often the right cause is named: runs each test with a planted cause several times, one after the other.

    tests/perf/otel_causes.py 20                     # each cause 20 times, in every service that runs
    tests/perf/otel_causes.py 5 --busy otel rust     # only these services, on a busy machine
    tests/perf/otel_causes.py 1 otel.lock rust.bad_host

The services:

    rust   a shop in Rust, traced by OSProfiler; it needs nothing
    otel   Flask, Express and axum, traced by OpenTelemetry: eval "$(tests/real/otel.sh)"
    cloud  Placement and Keystone, traced by OSProfiler: eval "$(REAL_PLACEMENT=1 tests/real/up.sh)"

A service that does not run is left out, and that is said. Each run is a load of some seconds with one planted cause, or
none (`healthy`). Right: the planted cause is named, with its host, attribute or place in the run where one tells; nothing:
no cause is named; wrong: another one is; failed: anything else, such as an incomplete trace. What is not right is kept in
a folder that is printed. With `--busy`, as many processes as there are processors compute all the time meanwhile.
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# A test's module and name for each cause of each service.
TESTS = {
    "rust": ("planted", {
        "healthy": "a_healthy_shop_accuses_nobody",
        "statement": "a_slow_statement_is_named",
        "n_plus_one": "a_statement_that_is_run_many_times_is_named",
        "lock": "a_wait_for_a_lock_is_named",
        "bad_host": "a_slow_host_is_named",
        "upstream": "a_slow_service_behind_another_is_named",
        "retry": "a_retry_is_named",
        "untraced": "a_slow_network_is_named",
        "queue": "a_queue_before_the_load_is_named",
        "cold": "a_cold_start_is_named",
        "periodic": "a_rhythm_is_named",
        "large": "larger_answers_are_named",
    }),
    "otel": ("real_otel", {
        "healthy": "real_healthy_shop_accuses_nobody",
        "n_plus_one": "real_statement_of_an_orm_for_each_row",
        "index": "real_index_that_one_partition_lacks",
        "pool": "real_pool_that_is_too_small",
        "lock": "real_lock_of_a_row",
        "downstream": "real_slow_service_behind_another",
        "pickup": "real_slow_service_behind_a_grpc_call",
        "healthy_grpc": "real_healthy_grpc_calls_accuse_nobody",
        "event_loop": "real_event_loop_that_is_blocked",
        "retry": "real_call_that_fails_and_is_repeated",
        "cpu": "real_processor_time_of_a_function",
        "cold": "real_first_requests_that_find_no_cache",
        "large": "real_answers_that_are_large",
    }),
    "cloud": ("real_causes", {
        "untraced": "real_delay_on_the_way_to_placement_is_found_outside_the_services",
        "lock": "real_lock_in_keystones_database_is_found_in_its_statements",
        "index": "real_index_that_is_dropped_is_found_in_keystones_statement",
    }),
}
# A run on a real Keystone takes some minutes on a busy machine.
RUN_S_MAX = 600
WORDS = ("right", "nothing", "wrong", "failed")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", nargs="?", type=int, default=20, help="how often each cause runs")
    parser.add_argument("--busy", action="store_true", help="keep all processors busy meanwhile")
    parser.add_argument("causes", nargs="*", help="such as otel, or otel.lock; default: all")
    # Options may stand between the number and the causes.
    given = parser.parse_intermixed_args()
    every = [(service, cause) for service, (_, causes) in TESTS.items() for cause in causes]
    names = {name for service, cause in every for name in (service, f"{service}.{cause}")}
    unknown = sorted(set(given.causes) - names)
    if unknown:
        parser.error(f"no such cause: {', '.join(unknown)}; there are {', '.join(sorted(names))}")
    wanted = set(given.causes) or set(TESTS)
    causes = [(service, cause) for service, cause in every if wanted & {service, f"{service}.{cause}"}]
    return max(1, given.times), given.busy, causes


def test_program():
    """Builds the tests; `BENCH_TEST_PROGRAM` names a program that is built already."""
    if os.environ.get("BENCH_TEST_PROGRAM"):
        return pathlib.Path(os.environ["BENCH_TEST_PROGRAM"])
    built = subprocess.run(
        ["cargo", "test", "--all-features", "--locked", "--test", "it", "--no-run"],
        cwd=REPOSITORY, stderr=subprocess.PIPE, text=True, check=False,
    )
    found = re.search(r"Executable tests/it/main.rs \((.*)\)", built.stderr)
    if not found:
        sys.exit(built.stderr)
    return REPOSITORY / found[1]


def run(program, service, cause):
    """What was said of the cause and the output; None if the service does not run."""
    module, tests = TESTS[service]
    command = [program, "--exact", "--nocapture", f"{module}::{tests[cause]}"]
    try:
        ended = subprocess.run(
            command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=RUN_S_MAX
        )
    except subprocess.TimeoutExpired as error:
        return "failed", str(error)
    if "skipped:" in ended.stdout:
        return None
    # A test without this line said nothing: it must not pass for a cause that was named.
    said = re.search(r"^cause [^:]+: (\w+)$", ended.stdout, re.MULTILINE)
    said = said[1] if said and said[1] in WORDS else "failed"
    # The cause is right, and its number of calls or its attribute is not.
    if said == "right" and ended.returncode != 0:
        said = "failed"
    return said, ended.stdout + ended.stderr


class Busy:
    """As many processes that compute as there are processors. They end with the one that started them, too."""

    CODE = "import os\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(200000))\n"

    def __init__(self, wanted):
        self.processes = []
        self.number = os.cpu_count() if wanted else 0

    def __enter__(self):
        command = [sys.executable, "-c", self.CODE]
        self.processes = [subprocess.Popen(command) for _ in range(self.number)]
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()


def measure(times, program, causes, folder):
    counts, left_out = {}, set()
    for number in range(times):
        for service, cause in causes:
            if service in left_out:
                continue
            answer = run(program, service, cause)
            name = f"{service}.{cause}"
            if answer is None:
                left_out.add(service)
                print(f"{service} does not run and is left out", file=sys.stderr)
                continue
            said, output = answer
            counts.setdefault(name, collections.Counter())[said] += 1
            if said != "right":
                (folder / f"{name}-{number}-{said}.txt").write_text(output)
            print(f"{number + 1}/{times} {name}: {said}", file=sys.stderr, flush=True)
    return counts, left_out


def main():
    times, busy, causes = arguments()
    program, folder = test_program(), pathlib.Path(tempfile.mkdtemp(prefix="causes-"))
    began = time.monotonic()
    with Busy(busy):
        counts, left_out = measure(times, program, causes, folder)
    for name, count in counts.items():
        figures = "   ".join(f"{word} {count[word]:3d}" for word in WORDS)
        print(f"{name:18}  {figures}   of {sum(count.values())}")
    if not counts:
        sys.exit("no service runs")
    is_healthy = lambda name: name.endswith(".healthy")
    planted = sum((count for name, count in counts.items() if not is_healthy(name)), collections.Counter())
    healthy = sum((count for name, count in counts.items() if is_healthy(name)), collections.Counter())
    share = planted["right"] / max(1, sum(planted.values()))
    wrong = planted["wrong"] + healthy["wrong"]
    print(f"\nplanted causes named: {planted['right']} of {sum(planted.values())}, {share:.1%}   goal 95 %  "
          f"{'ok' if share >= 0.95 else 'MISSED'}")
    print(f"nothing said: {planted['nothing']}   failed: {planted['failed'] + healthy['failed']}")
    print(f"wrongly accused: {wrong}, of these {healthy['wrong']} in {sum(healthy.values())} runs without a cause   "
          f"goal 0  {'MISSED' if wrong else 'ok'}")
    machine = f"{os.cpu_count()} processors, {'all of them busy' if busy else 'quiet'}"
    print(f"in {time.monotonic() - began:.0f} s on {machine}; left out: {', '.join(sorted(left_out)) or 'nothing'}")
    print(f"what was not right: {folder}")


if __name__ == "__main__":
    main()
