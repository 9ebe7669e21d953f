#!/usr/bin/env python3
"""How often bench names why asynchronous work ends late: real Celery and BullMQ workers with one planted cause.

    tests/perf/late_causes.py 20                    # each cause 20 times, one after the other
    tests/perf/late_causes.py 5 celery.retry bullmq # only these
    tests/perf/late_causes.py 1 --bench PATH --keep FOLDER

It starts redis, a front and workers (tests/otel/tasks.py, tests/otel/jobs.js) from PyPI and npm in .real, and puts a load of
30 requests a second on the front, whose workers send their spans to bench. With each cause the work of one in ten requests
ends late, or with `few_workers`, one worker has what four had. Right: the planted kind of point is the first that stands out
in `workloads[].asynchronous.late.comparison`, and in a healthy shop, none does. Nothing: no kind stands out; wrong: another
one; failed: anything else, with its text in the folder that is printed.
"""

import argparse
import collections
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
CODE = REPOSITORY / "tests" / "otel"
REAL = pathlib.Path(os.environ.get("REAL_DIR", REPOSITORY / ".real"))
NODE_PACKAGES = (
    "bullmq@6.7.0", "bullmq-otel@2.0.1", "ioredis@6.0.0", "express@5.3.0", "@opentelemetry/api@1.9.1",
    "@opentelemetry/auto-instrumentations-node@0.81.2",
)
QUEUE, AGAIN = "waiting in the queue", "waiting to run again"
# For each cause: how many workers there are, and the service and name of the kind that must be named.
CAUSES = {
    "celery": {
        "healthy": (4, None),
        "slow_task": (4, ("worker", "run/tasks.ship")),
        "slow_call": (4, ("worker", "carrier")),
        "few_workers": (1, ("worker", QUEUE)),
        "retry": (4, ("worker", AGAIN)),
        "one_of_several": (4, ("worker", "run/tasks.bill")),
        "slow_publish": (4, ("shop", "apply_async/tasks.ship")),
    },
    "bullmq": {
        "healthy": (4, None),
        "slow_task": (4, ("worker", "process ship")),
        "slow_call": (4, ("worker", "carrier")),
        "few_workers": (1, ("worker", QUEUE)),
        "retry": (4, ("worker", AGAIN)),
    },
}
TIMES = 420
PER_S = 30
WORDS = ("right", "nothing", "wrong", "failed")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", nargs="?", type=int, default=20, help="how often each cause runs")
    parser.add_argument("--bench", default=str(REPOSITORY / "target" / "release" / "bench"))
    parser.add_argument("--keep", help="keep all runs here")
    parser.add_argument("causes", nargs="*", help="such as celery, or bullmq.retry; default: all")
    given = parser.parse_intermixed_args()
    every = [(shop, cause) for shop, causes in CAUSES.items() for cause in causes]
    unknown = set(given.causes) - {name for shop, cause in every for name in (shop, f"{shop}.{cause}")}
    if unknown:
        parser.error(f"no such cause: {', '.join(sorted(unknown))}")
    is_wanted = lambda shop, cause: not given.causes or shop in given.causes or f"{shop}.{cause}" in given.causes
    return given, [one for one in every if is_wanted(*one)]


def installed():
    python = REAL / "tasks-venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", REAL / "tasks-venv"], check=True)
        pins = ["-r", CODE / "tasks-requirements.txt"]
        subprocess.run([python, "-m", "pip", "install", "-q", *pins], check=True)
    node = REAL / "tasks-node"
    if not (node / "node_modules" / "bullmq").exists():
        node.mkdir(parents=True, exist_ok=True)
        subprocess.run(["npm", "init", "-y"], cwd=node, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", *NODE_PACKAGES], cwd=node, check=True)
    return python, node / "node_modules"


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Shop:
    """The processes of a shop with this many workers, which end with it."""

    def __init__(self, kind, workers, folder):
        self.kind, self.folder, self.running = kind, folder, []
        self.redis, self.port, self.receiver = free_port(), free_port(), free_port()
        python, modules = installed()
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")} | {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{self.receiver}",
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_BSP_SCHEDULE_DELAY": "500",
            "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none", "OTEL_NODE_ENABLED_INSTRUMENTATIONS": "http,express",
            "SHOP_REDIS": f"redis://127.0.0.1:{self.redis}/0", "SHOP_REDIS_PORT": str(self.redis),
            "NODE_PATH": str(modules), "PYTHONPATH": str(CODE), "PYTHONDONTWRITEBYTECODE": "1",
        }
        self.start("redis", ["redis-server", "--port", str(self.redis), "--bind", "127.0.0.1", "--save", "", "--dir", folder])
        if kind == "celery":
            front = ("from werkzeug.serving import run_simple; import tasks; "
                     f"run_simple('127.0.0.1', {self.port}, tasks.front(), threaded=True)")
            self.start("front", [python, "-c", front])
            pool = ["--concurrency", str(workers), "--without-gossip", "--without-mingle", "--loglevel", "warning"]
            self.start("worker", [python, "-m", "celery", "-A", "tasks:tasks", "worker", *pool])
        else:
            traced = ["node", "--require", "@opentelemetry/auto-instrumentations-node/register", CODE / "jobs.js"]
            for role, number in (("front", self.port), ("worker", workers)):
                name = {"front": "shop"}.get(role, role)
                self.start(role, [*traced, role, str(number)], {"OTEL_SERVICE_NAME": name})

    def start(self, name, command, more=None):
        log = open(pathlib.Path(self.folder) / f"{name}.log", "wb")
        command = [str(word) for word in command]
        env = self.env | (more or {})
        started = subprocess.Popen(command, cwd=self.folder, env=env, stdout=log, stderr=log, start_new_session=True)
        self.running.append(started)

    def __enter__(self):
        # The first answers come when all is up; a worker takes longer, and its messages wait.
        for _ in range(300):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/orders/0", timeout=2):
                    time.sleep(4)
                    return self
            except OSError:
                time.sleep(0.1)
        self.__exit__()
        raise SystemExit(f"{self.kind} does not answer, see {self.folder}")

    def __exit__(self, *_):
        for process in reversed(self.running):
            for what in (signal.SIGTERM, signal.SIGKILL):
                try:
                    os.killpg(process.pid, what)
                    process.wait(5)
                except (ProcessLookupError, subprocess.TimeoutExpired):
                    continue


def load(shop, cause, bench, folder):
    folder.mkdir(parents=True)
    (folder / "deployment.yaml").write_text(
        f"targets: {{ default: http://127.0.0.1:{shop.port} }}\nprofiler: {{ receive: \"127.0.0.1:{shop.receiver}\" }}\n")
    (folder / "scenario.yaml").write_text(
        f"title: late work, {cause}\nwarm_up: {{ times: 30 }}\n"
        f"runner: {{ rps: {{ rps: {PER_S}, times: {TIMES}, random: poisson }} }}\n"
        "end: { asynchronous: { deadline: 4s } }\n"
        f"iteration:\n  - action: order\n    get: /orders/{{{{ iteration }}}}\n    headers: {{ shop-cause: {cause} }}\n"
        "    expect: { status: 200 }\nsla: { failure_rate: { max: 0 } }\n")
    command = [bench, "run", "scenario.yaml", "-d", "deployment.yaml", "--out", "runs"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180)


def word(ended, folder, expected):
    """What came out in one word, and the first kind that stands out."""
    if ended.returncode != 0:
        return "failed", f"exit code {ended.returncode}"
    results = json.loads(next((folder / "runs").glob("*/results.json")).read_text())
    seen = results["workloads"][0].get("asynchronous") or {}
    if seen.get("traced", 0) < 0.9 * seen.get("of", 1):
        return "failed", f"{seen.get('traced')} of {seen.get('of')} traces"
    late = seen.get("late")
    kinds = late["comparison"]["kinds"] if late else []
    causes = [kind for kind in kinds if kind["guilty"]]
    found = (causes[0]["service"], causes[0]["name"]) if causes else None
    shown = f"{found[1]} in {found[0]}, {causes[0]['share']:.0%}" if found else f"nothing ({late and late['comparison']['no_finding']})"
    if found == expected:
        return "right", shown
    return "wrong" if found else "nothing", shown


def main():
    given, wanted = arguments()
    counts = collections.defaultdict(collections.Counter)
    kept = pathlib.Path(given.keep or tempfile.mkdtemp(prefix="late-causes-"))
    bench = str(pathlib.Path(given.bench).resolve())
    for number in range(given.times):
        for shop_kind, cause in wanted:
            workers, expected = CAUSES[shop_kind][cause]
            folder = kept / f"{number}-{shop_kind}.{cause}"
            folder.mkdir(parents=True)
            with Shop(shop_kind, workers, folder) as shop:
                ended = load(shop, cause, bench, folder / "load")
            what, shown = word(ended, folder / "load", expected)
            (folder / "output.txt").write_text(ended.stdout + ended.stderr)
            counts[f"{shop_kind}.{cause}"][what] += 1
            print(f"{shop_kind}.{cause}: {what}: {shown}", flush=True)
    width = max(map(len, counts))
    print(f"\n{'':{width}}  " + "  ".join(f"{one:>7}" for one in WORDS))
    for name, of in counts.items():
        print(f"{name:{width}}  " + "  ".join(f"{of[one]:7}" for one in WORDS))
    print(f"all runs: {kept}")


main()
