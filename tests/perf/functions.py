#!/usr/bin/env python3
"""Whether bench names the function that makes iterations slow, and what sampling functions costs.

    cargo build && cargo build -p traced-service --example traced-service --features functions
    tests/perf/functions.py loads 20     # 20 loads with a slow function, and 20 that are slow because they wait
    tests/perf/functions.py cost 7       # 7 pairs of a service without and with the sampler: none, one, or every request sampled

For the cost in an optimised build, with all that a service is made of:

    export CARGO_PROFILE_DEV_OPT_LEVEL=3 CARGO_TARGET_DIR=target/optimised
    cargo build -p traced-service --example traced-service --features functions
    tests/perf/functions.py cost 7

Everything runs on 127.0.0.1; a load has 300 requests. Needs only Python's standard library.
"""

import contextlib
import hashlib
import hmac
import http.client
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from base64 import urlsafe_b64encode

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DEBUG = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", REPOSITORY / "target")) / "debug"
KEY = "KEY"
PLANTED = "escape_cells"


@contextlib.contextmanager
def service(folder, *arguments):
    """The example service: its port, and its process id."""
    command = [DEBUG / "examples" / "traced-service", "--hmac-keys", KEY, "--connection-string",
               f"sqlite://{folder}/traces.db", *arguments]
    with open(folder / "service.log", "ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
    try:
        yield int(process.stdout.readline()), process.pid
    finally:
        process.stdin.close()
        process.wait(timeout=30)


def load(kind, requests):
    """The sentence of a load, and what its results say of functions."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "scenario.yaml").write_text(
            f"title: {kind} reports\ndeployment: deployment.yaml\n"
            f"runner:\n  constant: {{ times: {requests}, concurrency: 1 }}\n"
            "iteration:\n  - get: /reports/" + kind + "/{{ iteration }}\n")
        with service(folder, "--functions") as (port, _):
            (folder / "deployment.yaml").write_text(
                f"name: example\ntargets: {{ default: http://127.0.0.1:{port} }}\n"
                f"profiler:\n  hmac_key: {KEY}\n  connection_string: sqlite://{folder}/traces.db\n")
            run = subprocess.run([DEBUG / "bench", "run", "scenario.yaml", "--out", "out"], cwd=folder,
                                 capture_output=True, text=True, timeout=300,
                                 env={**os.environ, "NO_COLOR": "1"})
        found = list(folder.glob("out/*/results.json")) + list(folder.glob("out/results.json"))
        if not found:
            sys.exit(run.stdout + run.stderr)
        results = json.loads(found[0].read_text())
        comparison = results["workloads"][0].get("comparison") or {}
        sentence = re.search(r"p9\d iterations take.*?\.(?=\n\n|\n[A-Z ]|$)", run.stdout, re.S)
        return " ".join((sentence.group(0) if sentence else run.stdout).split()), comparison


def loads(number):
    right = accused = 0
    for at in range(number):
        for kind in ("busy", "idle"):
            sentence, comparison = load(kind, 300)
            functions = comparison.get("functions") or {}
            cause = functions.get("cause")
            named = cause["name"].rsplit("::", 1)[-1] if cause else None
            right += kind == "busy" and named == PLANTED
            accused += kind == "idle" and named is not None
            print(f"{at + 1:3} {kind}: {named}, {functions.get('slow_samples')} samples; {sentence}", flush=True)
    print(f"named right in {right} of {number} loads, accused in {accused} of {number} controls")


def headers(base_id):
    info = urlsafe_b64encode(json.dumps({"base_id": base_id, "parent_id": base_id}).encode())
    return {"X-Trace-Info": info.decode(), "X-Trace-HMAC": hmac.new(KEY.encode(), info, hashlib.sha1).hexdigest()}


def cpu_seconds(pid):
    """Of a process by its own clock, which counts nanoseconds: /proc counts hundredths of a second."""
    return time.clock_gettime(~pid << 3 | 2)  # as clock_getcpuclockid(3) makes it


def resident_mb(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) // 1024


def burst(port, pid, requests, signed):
    """Processor seconds of the service for a request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    before = cpu_seconds(pid)
    for number in range(requests):
        connection.request("GET", f"/reports/busy/{10 * number + 1}", headers=headers(str(uuid.uuid4())) if signed else {})
        connection.getresponse().read()
    time.sleep(1.5)  # a reading of the sampler belongs to the cost
    return (cpu_seconds(pid) - before) / requests


@contextlib.contextmanager
def traced_beside(port):
    """One traced operation after the other, each waiting for 100 ms; so one nearly always lives."""
    over = threading.Event()

    def ask():
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        while not over.is_set():
            connection.request("GET", "/reports/idle/10", headers=headers(str(uuid.uuid4())))
            connection.getresponse().read()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def cost(pairs):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        with service(folder) as (plain, plain_pid), service(folder, "--functions") as (sampling, sampling_pid):
            nothing = lambda _: contextlib.nullcontext()  # noqa: E731
            sides = [("none is traced, sampler there", False, nothing),
                     ("one operation at a time is traced and sampled, beside these", False, traced_beside),
                     ("every request is traced and sampled", True, nothing)]
            for signed in (False, True):  # warm
                burst(plain, plain_pid, 50, signed)
                burst(sampling, sampling_pid, 50, signed)
            for what, signed, beside in sides:
                ratios = []
                for pair in range(pairs):
                    of = {}
                    for port, pid in [(plain, plain_pid), (sampling, sampling_pid)][::1 if pair % 2 else -1]:
                        with beside(port):
                            of[port] = burst(port, pid, 1000, signed)
                    ratios.append(of[sampling] / of[plain])
                middle = statistics.median(ratios)
                spread = statistics.stdev(ratios) / len(ratios) ** 0.5 if pairs > 1 else 0
                print(f"{what}: {(middle - 1) * 100:+.2f} % processor time (median of {pairs} pairs, standard error of "
                      f"the mean {spread * 100:.2f} %); {[round((r - 1) * 100, 2) for r in ratios]}", flush=True)
            print(f"resident memory: {resident_mb(plain_pid)} MB without, {resident_mb(sampling_pid)} MB with the sampler")


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("loads", "cost"):
        sys.exit(__doc__)
    {"loads": loads, "cost": cost}[sys.argv[1]](int(sys.argv[2]))
