#!/usr/bin/env python3
"""Whether `bench capacity` finds the rate at which a planted limit is reached, and names it.

    tests/perf/capacity.py 3                        # each limit three times
    tests/perf/capacity.py 1 pool5 loop --bench target/release/bench

The limits: pools of 3, 5 and 8 and a lock in Python and in Rust (the demo), four workers, an event loop, threads that share
a processor, a rate limiter, a second service with its own workers, a service whose retries keep it overloaded. Python's are tests/perf/limited.py, with
OpenTelemetry's SDK in a virtual environment of a temporary folder (installed from PyPI). The true rate is what a fixed
number of users gets in a load of its own right before the search: more users than the service has servers. A rate limiter's
is its setting, and so is that of the service with retries. What is right: the rate within 5 %, the kind of limit, the
number of servers, whether a processor is full, and whether it recovers while three quarters of the rate go on.
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ["opentelemetry-api==1.45.1", "opentelemetry-sdk==1.45.1", "opentelemetry-exporter-otlp-proto-http==1.45.1"]
# What is planted, the kind of limit that is right, the name in it, and the number of servers.
LIMITS = {
    "pool3": (["pool", "3"], "waits", "db", 3), "pool5": (["pool", "5"], "waits", "db", 5),
    "pool8": (["pool", "8"], "waits", "db", 8), "lock": (["lock"], "waits", "db", 1),
    "workers4": (["workers", "4"], "entry", "GET", 4), "loop": (["loop"], "processor", "", None),
    "cpu": (["cpu"], "processor", "", None), "limiter": (["limiter", "150"], "fails", "429", None),
    "downstream3": (["downstream", "3"], "entry", "POST /stock", 3),
    "retries4": (["retries", "4"], "fails", "503", None),
    "demo3": (3, "waits", "db", 3), "demo5": (5, "waits", "db", 5), "demo8": (8, "waits", "db", 8),
}
SCENARIO = """title: One request
runner: { constant_for_duration: { duration: 4s, concurrency: 48 } }
iteration:
  - { action: get, get: /, expect: { status: 200 } }
sla: { thresholds: ["p95 < 500ms", "rate(errors) <= 1%"] }
"""
DEMO = """title: Look up
runner: { constant_for_duration: { duration: 4s, concurrency: 48 } }
setup:
  - action: log in
    post: /v3/auth/tokens
    json: { auth: { identity: { password: { user: { name: user-1, password: demo } } } } }
    extract: { token: { header: X-Subject-Token } }
iteration:
  - { action: look up, get: /v3/users/user-1, headers: { X-Auth-Token: "{{ token }}" }, expect: { status: 200 } }
sla: { thresholds: ["p95 < 500ms", "rate(errors) <= 1%"] }
"""


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Service:
    """The service in Python, until its standard input ends."""

    def __init__(self, python, words, folder):
        self.port, receiver = free_port(), free_port()
        self.process = subprocess.Popen(
            [python, REPOSITORY / "tests/perf/limited.py", *words, str(self.port), f"http://127.0.0.1:{receiver}"],
            stdin=subprocess.PIPE, stderr=(folder / "service.log").open("w"))
        deployment = (f"name: limited\ntargets: {{ default: 'http://127.0.0.1:{self.port}' }}\n"
                      f"profiler: {{ headers: [w3c], receive: '127.0.0.1:{receiver}' }}\n")
        (folder / "d.yaml").write_text(deployment)
        for _ in range(200):
            with socket.socket() as one:
                if one.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise SystemExit("the service does not listen")

    def end(self):
        self.process.stdin.close()
        self.process.wait(10)


def run(bench, folder, *words):
    made = subprocess.run([bench, *words], cwd=folder, capture_output=True, text=True, timeout=900)
    if made.returncode not in (0, 2, 3, 4):
        raise SystemExit(f"{words}: {made.returncode}\n{made.stdout}\n{made.stderr}")
    return made


def newest(folder, name):
    found = max(pathlib.Path(folder).glob(f"runs/*/{name}"), key=lambda path: path.stat().st_mtime)
    return json.loads(found.read_text())


def is_named(found, kind, called):
    if kind == "processor":
        return "processor" in found
    if kind == "fails":
        return called in (found.get("fails") or {}).get("message", "")
    limit = found.get("limit") or {}
    return limit.get("kind") == kind and limit.get("name", "").startswith(called)


def recovers(seen, is_kept_overloaded):
    """Whether that is right; None if nothing is said."""
    if seen is None:
        return None
    return (len(seen["tries"]) > 1) == is_kept_overloaded


def one(bench, python, name, keep):
    words, kind, called, count = LIMITS[name]
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"capacity-{name}-", dir=keep))
    service = None
    if isinstance(words, int):
        (folder / "s.yaml").write_text(DEMO)
        (folder / "d.yaml").write_text(f"name: demo\ndemo: {{ slow_percent: 100, slow_query: 20ms, pool: {words} }}\n")
    else:
        (folder / "s.yaml").write_text(SCENARIO)
        service = Service(python, words, folder)
    try:
        if name == "limiter":
            truth = float(words[1])
        elif name.startswith("retries"):
            truth = int(words[1]) / 0.0102
        else:
            run(bench, folder, "run", "s.yaml", "-d", "d.yaml", "--no-profile", "--quiet")
            truth = newest(folder, "results.json")["workloads"][0]["rate_per_s"]
        began = time.monotonic()
        searched = run(bench, folder, "capacity", "s.yaml", "-d", "d.yaml", "--max-rate", "5000", "--level", "5s")
        took_s = time.monotonic() - began
    finally:
        if service:
            service.end()
    found = newest(folder, "capacity.json")
    bounds, limit = found["bounds"], found.get("limit") or {}
    holds, breaks = bounds.get("holds_per_s"), bounds.get("breaks_per_s")
    middle = (holds * breaks) ** 0.5 if holds and breaks else holds or 0
    servers = (limit.get("servers") or {}).get("count")
    row = {
        "limit": name, "truth": round(truth, 1), "holds": holds, "breaks": breaks, "ratio": round(middle / truth, 3),
        "rate": abs(middle / truth - 1) <= 0.05,
        "named": is_named(found, kind, called),
        "servers": None if count is None else servers == count, "said": f"{limit.get('kind')} {limit.get('name')} {servers}",
        "processor": ("processor" in found) == (kind == "processor"),
        "recovers": recovers(found.get("recovery"), name.startswith("retries")),
        "why": found.get("no_limit"), "levels": len(found["levels"]), "took_s": round(took_s), "folder": str(folder),
    }
    print(json.dumps(row), flush=True)
    if "Traceback" in searched.stderr:
        raise SystemExit(searched.stderr)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int)
    parser.add_argument("limits", nargs="*", help=", ".join(LIMITS))
    parser.add_argument("--bench", type=pathlib.Path, default=REPOSITORY / "target/release/bench")
    parser.add_argument("--python", type=pathlib.Path, help="an interpreter that has OpenTelemetry's SDK")
    parser.add_argument("--keep", type=pathlib.Path, help="the folder for the searches' directories")
    arguments = parser.parse_args()
    keep = arguments.keep or pathlib.Path(tempfile.mkdtemp(prefix="capacity-"))
    keep.mkdir(parents=True, exist_ok=True)
    python = arguments.python
    names = arguments.limits or list(LIMITS)
    if python is None and any(not isinstance(LIMITS[name][0], int) for name in names):
        subprocess.run([sys.executable, "-m", "venv", keep / "venv"], check=True)
        python = keep / "venv/bin/python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
    rows = [one(arguments.bench.resolve(), python, name, keep) for _ in range(arguments.runs) for name in names]
    print("\n| limit | truth | answer / truth | rate within 5 % | named | servers | processor | recovers | took |\n"
          "|---|---|---|---|---|---|---|---|---|")
    for name in names:
        of = [row for row in rows if row["limit"] == name]

        def share(key, of=of):
            judged = [row[key] for row in of if row[key] is not None]
            return f"{sum(judged)} of {len(judged)}" if judged else "–"

        ratios = sorted(row["ratio"] for row in of)
        print(f"| {name} | {statistics.median(row['truth'] for row in of):.1f}/s | {ratios[0]:.3f}–{ratios[-1]:.3f} "
              f"| {share('rate')} | {share('named')} | {share('servers')} "
              f"| {share('processor')} | {share('recovers')} | {statistics.median(row['took_s'] for row in of):.0f} s |")
    print(f"\n{os.cpu_count()} processors; the searches are in {keep}")


if __name__ == "__main__":
    main()
