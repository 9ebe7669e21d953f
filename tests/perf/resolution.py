#!/usr/bin/env python3
"""Is a cause still named when the clock of the traces is coarser?

    eval "$(tests/real/otel.sh)"
    tests/perf/resolution.py                         # each planted cause 20 times
    tests/perf/resolution.py 5 n_plus_one lock       # only these causes
    tests/perf/resolution.py 1 --bench target/debug/bench --keep kept

Each round is a load of some seconds on the shop of tests/otel with one planted cause, or with none (`healthy`), traced by
OpenTelemetry. Then the traces of the run are rewritten as other SDKs would have written the same spans, and each copy is
judged again by `bench report`:

    us        start and end cut to whole microseconds
    ms        in all services as Node writes spans: the start cut to whole milliseconds, the end as that start plus the
              exact duration
    ms-shop   the same in the first service only, so that clocks of two kinds meet in one trace

The files rewritten are those in the run's `traces`, because everything that `bench` says of a trace is computed from them,
and the log says which iterations they are of. They have microseconds: nanoseconds are cut as spans are read. So `ns` is the
run as it is, and until finer times are stored, `us` shows no more than that judging again changes nothing. Records of the
same time stand in the order in which an SDK sends spans, that of their ends, and `bench` keeps it. The client's own points
stay as they are. So do the spans of the service on Node (`delivery`): they begin on whole milliseconds in `ns`, too.

Right: a copy names what the run named (service, name and detail of the first cause), or nothing as the run did; its
share is within 5 points of the run's; and the run's share lies within the bounds that the copy states. What is not right
is kept in a folder that is printed, with the run and all copies. It exits with 1 if a goal is missed.

What is planted takes a quarter of a second, or many statements of about 2 ms each. Calls that are shorter than a
millisecond, and hosts whose clocks differ, are not in it.
"""

import argparse
import collections
import dataclasses
import datetime
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# Which of the two shops, as in tests/it/real_otel.rs: they differ in how they send their spans.
CAUSES = {
    "n_plus_one": "HTTP",
    "index": "GRPC",
    "pool": "HTTP",
    "lock": "GRPC",
    "downstream": "HTTP",
    "event_loop": "GRPC",
    "retry": "HTTP",
    "cpu": "GRPC",
    "cold": "GRPC",
    "large": "HTTP",
    "healthy": "HTTP",
}
SCENARIO = """\
title: {cause}
deployment: deployment.yaml
warm_up: {{ times: 30 }}
runner: {{ constant: {{ times: 420, concurrency: 3 }} }}
iteration:
  - action: order
    get: /orders/{{{{ iteration }}}}
    headers:
      baggage: tenant=tenant-{{{{ iteration % 10 }}}}
      shop-cause: {cause}
    expect: {{ status: 200 }}
sla: {{ failure_rate: {{ max: 0 }} }}
"""
# What the client's own points are reported by.
CLIENT = "bench"
NS_OF_US, NS_OF_MS, NS_OF_S = 1_000, 1_000_000, 1_000_000_000
EPOCH = datetime.datetime(1970, 1, 1)
# The goals.
POINTS_MAX, BOUNDS_MIN = 5, 0.95
# A load that the machine disturbed, or that lost a trace, is made again.
TRIES = 3
RUN_S_MAX = 300
WORDS = ("same", "wrong", "nothing")


class Failed(Exception):
    """A load or a judgement that did not succeed."""


# ---------------------------------------------------------------- spans


def read_ns(text):
    """Nanoseconds since 1970 of a record's timestamp, which may have any number of digits."""
    seconds, _, fraction = text.partition(".")
    whole = (datetime.datetime.fromisoformat(seconds) - EPOCH) // datetime.timedelta(seconds=1)
    return whole * NS_OF_S + int(fraction[:9].ljust(9, "0"))


def write_ns(time_ns, like):
    """The same with as many digits as `like` has."""
    seconds, rest = divmod(time_ns, NS_OF_S)
    digits = len(like.partition(".")[2])
    fraction = f".{rest:09d}"[: digits + 1] if digits else ""
    return (EPOCH + datetime.timedelta(seconds=seconds)).isoformat() + fraction


def as_us(start_ns, end_ns):
    return start_ns // NS_OF_US * NS_OF_US, end_ns // NS_OF_US * NS_OF_US


def as_node(start_ns, end_ns):
    cut = start_ns % NS_OF_MS
    return start_ns - cut, end_ns - cut


@dataclasses.dataclass
class Variant:
    """How another SDK would have written the spans: of one service, or of all."""

    name: str
    write: object
    service: str | None = None

    def is_meant(self, record):
        return record.get("project") != CLIENT and self.service in (None, record.get("service"))


VARIANTS = [Variant("us", as_us), Variant("ms", as_node), Variant("ms-shop", as_node, "shop")]


def times_of(records):
    """Start and end of each point that has both; points are known by what OSProfiler calls their trace_id."""
    starts, ends = {}, {}
    for record in records:
        of_kind = ends if record["name"].endswith("-stop") else starts
        of_kind[record["trace_id"]] = read_ns(record["timestamp"])
    return {point: (start, ends[point]) for point, start in starts.items() if point in ends}


def rewrite(records, variant):
    """The records as the variant's SDK would have written them, in the order in which they would have been stored."""
    stated = times_of(records)
    rewritten = []
    for record in records:
        time_ns = read_ns(record["timestamp"])
        known = stated.get(record["trace_id"])
        if known and variant.is_meant(record):
            time_ns = variant.write(*known)[record["name"].endswith("-stop")]
            record = {**record, "timestamp": write_ns(time_ns, record["timestamp"])}
        sent_ns = known[1] if known else time_ns
        rewritten.append((time_ns, sent_ns, record))
    # Else two calls that begin in the same millisecond would betray which came first.
    rewritten.sort(key=lambda one: one[:2])
    return [record for _, _, record in rewritten]


# ---------------------------------------------------------------- runs


def setting(name):
    value = os.environ.get(f"BENCH_TEST_OTEL_{name}")
    if not value:
        sys.exit('the shop does not run: eval "$(tests/real/otel.sh)"')
    return value


def execute(program, folder, *command):
    """Runs `bench`; what it printed is added to a log in the folder."""
    try:
        ended = subprocess.run([program, *command], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                               check=False, timeout=RUN_S_MAX)
    except subprocess.TimeoutExpired as error:
        raise Failed(str(error)) from error
    with open(folder / "output.txt", "a") as log:
        log.write(f"$ bench {' '.join(map(str, command))}\n{ended.stdout}{ended.stderr}\n")
    if ended.returncode != 0:
        raise Failed(f"bench {command[0]} ended with {ended.returncode}")


def results(run):
    return json.loads((run / "results.json").read_text())


def load(program, cause, folder):
    """Makes a load with a planted cause; the directory of the run."""
    url, receiver = setting(f"{CAUSES[cause]}_URL"), setting("RECEIVER")
    deployment = f'targets: {{ default: "{url}" }}\nprofiler: {{ receive: "{receiver}" }}\n'
    (folder / "deployment.yaml").write_text(deployment)
    (folder / "scenario.yaml").write_text(SCENARIO.format(cause=cause))
    execute(program, folder, "run", "scenario.yaml", "--out", "runs", "--traces", "text")
    (made,) = (folder / "runs").iterdir()
    run = made.rename(folder / "ns")
    fetched = results(run)["profiling"]["fetched"]
    if list(fetched) != ["complete"]:
        raise Failed(f"traces are not complete: {fetched}")
    return run


def load_well(program, cause, folder):
    for number in range(TRIES):
        try:
            return load(program, cause, folder)
        except Failed:
            if number + 1 == TRIES:
                raise
            for name in ("runs", "ns"):
                shutil.rmtree(folder / name, ignore_errors=True)


def judge_copy(program, run, variant):
    """What is said of the run with its traces rewritten."""
    copy = run.with_name(variant.name)
    # The received spans are not asked for again, and results that are there might be kept.
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("spans", "results.json", "report.*", "badge.*"))
    for file in (copy / "traces").glob("*.json"):
        trace = json.loads(file.read_text())
        trace["records"] = rewrite(trace["records"], variant)
        file.write_text(json.dumps(trace, separators=(",", ":"), ensure_ascii=False))
    execute(program, run.parent, "report", copy.name, "--quiet", "--traces", "text")
    return Said.of(copy)


# ---------------------------------------------------------------- comparison


@dataclasses.dataclass
class Said:
    """The first cause of a run, and its share in percent with bounds; nothing if there is none."""

    kind: tuple | None = None
    share: float = 0.0
    low: float = 0.0
    high: float = 0.0

    @classmethod
    def of(cls, run):
        # There is no comparison where too few traces came.
        comparison = results(run)["workloads"][0].get("comparison") or {}
        cause = next((kind for kind in comparison.get("kinds", []) if kind["guilty"]), None)
        if cause is None:
            return cls()
        kind = tuple(cause[key] for key in ("service", "name", "detail"))
        return cls(kind, *(100 * cause[key] for key in ("share", "share_low", "share_high")))

    def __str__(self):
        if self.kind is None:
            return "nothing"
        return f"{' · '.join(filter(None, self.kind))[:60]}, {self.share:.1f} % ({self.low:.1f} to {self.high:.1f})"


@dataclasses.dataclass
class Tally:
    """What was said of the copies of one variant."""

    counts: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    # Differences of shares in points, and whether bounds hold: one each where the same cause is named.
    points: list = dataclasses.field(default_factory=list)
    holds: list = dataclasses.field(default_factory=list)

    def add(self, run, copy):
        """Counts a copy; whether it is right."""
        if copy.kind != run.kind:
            self.counts["wrong" if copy.kind else "nothing"] += 1
            return False
        self.counts["same"] += 1
        if run.kind is None:
            return True
        self.points.append(abs(copy.share - run.share))
        self.holds.append(copy.low <= run.share <= copy.high)
        return self.points[-1] <= POINTS_MAX and self.holds[-1]

    def __add__(self, other):
        return Tally(self.counts + other.counts, self.points + other.points, self.holds + other.holds)

    def row(self):
        number = sum(self.counts.values())
        words = "".join(f"{self.counts[word]:9d}" for word in WORDS)
        points = f"{max(self.points):.2f}" if self.points else "-"
        holds = f"{sum(self.holds)} of {len(self.holds)}" if self.holds else "-"
        return f"{number:6d}{words}{points:>9}{holds:>13}"


class Series:
    """All rounds of a series."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.tallies = collections.defaultdict(Tally)
        # How many runs of each cause succeeded, in how many of them something was named, and which loads failed.
        self.runs, self.named = collections.Counter(), collections.Counter()
        self.failed = []

    def one(self, number, cause):
        """One load with all of its variants."""
        folder = self.folder / f"{cause}-{number}"
        folder.mkdir()
        try:
            is_right = self.compare(cause, folder)
        except Failed as error:
            self.failed.append(f"{cause}: {error}")
            print(f"  failed: {error}", file=sys.stderr)
            is_right = False
        if is_right:
            shutil.rmtree(folder)
        else:
            print(f"  kept in {folder}", file=sys.stderr)

    def compare(self, cause, folder):
        run = load_well(self.program, cause, folder)
        said = Said.of(run)
        self.runs[cause] += 1
        self.named[cause] += said.kind is not None
        print(f"  {'ns':8} {said}", file=sys.stderr)
        all_right = True
        for variant in VARIANTS:
            copy = judge_copy(self.program, run, variant)
            is_right = self.tallies[cause, variant.name].add(said, copy)
            all_right &= is_right
            print(f"  {variant.name:8} {copy}{'' if is_right else '   NOT RIGHT'}", file=sys.stderr, flush=True)
        return all_right

    def table(self):
        heads = "".join(f"{word:>9}" for word in (*WORDS, "points"))
        print(f"{'cause':12}{'variant':10}{'runs':>6}{heads}{'bounds hold':>13}")
        for cause in self.runs:
            print(f"{cause:12}{'ns':10}{self.runs[cause]:6d}   names something in {self.named[cause]}")
            for variant in VARIANTS:
                print(f"{'':12}{variant.name:10}{self.tallies[cause, variant.name].row()}")
        for variant in VARIANTS:
            print(f"{'all':12}{variant.name:10}{self.total(variant.name).row()}")

    def total(self, name=None):
        wanted = (tally for (_, variant), tally in self.tallies.items() if name in (None, variant))
        return sum(wanted, Tally())

    def goals(self):
        """Says whether they are met."""
        total = self.total()
        number, same = sum(total.counts.values()), total.counts["same"]
        most = max(total.points, default=0)
        holding = sum(total.holds) / max(1, len(total.holds))
        met = {
            f"the same cause: {same} of {number}   goal all": number > 0 and same == number,
            f"largest difference of shares: {most:.2f} points   goal {POINTS_MAX}": most <= POINTS_MAX,
            f"bounds that hold: {holding:.1%}   goal {BOUNDS_MIN:.0%}": not total.holds or holding >= BOUNDS_MIN,
            f"loads that failed: {len(self.failed)}   goal 0": not self.failed,
        }
        for text, is_met in met.items():
            print(f"{text}  {'ok' if is_met else 'MISSED'}")
        return all(met.values())


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", nargs="?", type=int, default=20, help="how often each cause runs (default 20)")
    parser.add_argument("causes", nargs="*", help=f"default: all, which are {', '.join(CAUSES)}")
    parser.add_argument("--bench", type=pathlib.Path, default=REPOSITORY / "target/release/bench", help="the program")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER", help="where to keep what is not right")
    # Options may stand between the number and the causes.
    given = parser.parse_intermixed_args()
    unknown = [cause for cause in given.causes if cause not in CAUSES]
    if unknown:
        parser.error(f"no such cause: {', '.join(unknown)}; there are {', '.join(CAUSES)}")
    if not given.bench.is_file():
        parser.error(f"no {given.bench}: build it with `cargo build --release`, or name another one with --bench")
    return given


def kept_folder(wanted):
    """A new folder, so that one of an earlier series stays as it is."""
    if wanted:
        wanted.mkdir(parents=True, exist_ok=True)
    return pathlib.Path(tempfile.mkdtemp(prefix="resolution-", dir=wanted)).resolve()


def main():
    given = arguments()
    setting("RECEIVER")
    began = time.monotonic()
    series = Series(given.bench.resolve(), kept_folder(given.keep))
    causes = [cause for cause in CAUSES if not given.causes or cause in given.causes]
    try:
        for number in range(1, max(1, given.rounds) + 1):
            for cause in causes:
                print(f"{number}/{given.rounds} {cause}", file=sys.stderr, flush=True)
                series.one(number, cause)
    except KeyboardInterrupt:
        print("interrupted: what ran until now", file=sys.stderr)
    series.table()
    print()
    is_met = series.goals()
    print(f"in {time.monotonic() - began:.0f} s; what was not right: {series.folder}")
    sys.exit(0 if is_met else 1)


if __name__ == "__main__":
    main()
