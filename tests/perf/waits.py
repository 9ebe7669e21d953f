#!/usr/bin/env python3
"""How often an ordinary run says rightly what waits for its turn, and for how many servers: tests/perf/limited.py with one
planted limit, an open load of random arrivals at some utilisation, spans received.

    tests/perf/waits.py ROUNDS [LIMIT…] [--bench PATH] [--python PATH]

Limits: pool3, pool5, pool8, lock, workers4, loop, and cpu, at which nothing waits for a number of servers. `--python` has
opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http. A wrong number or name is a failure; a run that says nothing is
counted. It listens and loads on 127.0.0.1 only; a round takes about 10 s.
"""
import argparse
import json
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SECONDS = 6
# The arguments of the service, requests a second that it can serve, and what a run should say: a name and a number.
LIMITS = {
    "pool3": (["pool", "3"], 300, ("db", 3)),
    "pool5": (["pool", "5"], 500, ("db", 5)),
    "pool8": (["pool", "8"], 800, ("db", 8)),
    "lock": (["lock"], 100, ("db", 1)),
    "workers4": (["workers", "4"], 400, ("GET /", 4)),
    "loop": (["loop"], 230, ("GET /", 1)),
    "cpu": (["cpu"], 150, None),
}
UTILISATIONS = [0.7, 0.85, 0.95]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def one_run(limit, utilisation, bench, python):
    """The queues that a run says, and the p50 in milliseconds."""
    arguments, most, _ = LIMITS[limit]
    port, receiver, rate = free_port(), free_port(), int(most * utilisation)
    # A quarter of the iterations are looked at, and they should be hundreds.
    seconds = max(SECONDS, 1_200 // rate)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        (folder / "s.yaml").write_text(f"""title: {limit}
runner: {{ rps: {{ rps: {rate}, duration: {seconds}s, random: poisson }} }}
iteration: [ {{ action: get, get: / }} ]
""")
        (folder / "d.yaml").write_text(f"""targets: {{ default: "http://127.0.0.1:{port}" }}
profiler: {{ receive: "127.0.0.1:{receiver}" }}
""")
        service = subprocess.Popen([python, HERE / "limited.py", *arguments, str(port), f"http://127.0.0.1:{receiver}"],
                                   stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
        try:
            for _ in range(100):
                with socket.socket() as probe:
                    probe.settimeout(0.2)
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.1)
            ran = subprocess.run([bench, "run", folder / "s.yaml", "-d", folder / "d.yaml", "--out", folder / "runs", "--quiet",
                                  "--no-live"], capture_output=True, text=True, timeout=120)
        finally:
            service.stdin.close()
            service.wait(10)
        found = list(folder.glob("runs/*/results.json"))
        if not found:
            sys.exit(f"{limit}: no results\n{ran.stderr}")
        workload = json.loads(found[0].read_text())["workloads"][0]
        return [(one["name"], one["servers"]) for one in workload.get("queues", [])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", type=int)
    parser.add_argument("limits", nargs="*", default=[], metavar="LIMIT")
    parser.add_argument("--bench", default="bench")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    wrong = 0
    print(f"{'limit':10} {'of what it bears':>16}  right  nothing  wrong")
    for limit in options.limits or LIMITS:
        for utilisation in UTILISATIONS:
            counts = {"right": 0, "nothing": 0, "wrong": 0}
            for _ in range(options.rounds):
                said = one_run(limit, utilisation, options.bench, options.python)
                expected = LIMITS[limit][2]
                if not said:
                    counts["right" if expected is None else "nothing"] += 1
                elif said == [expected]:
                    counts["right"] += 1
                else:
                    counts["wrong"] += 1
                    print(f"  {limit} at {utilisation}: {said}", file=sys.stderr)
            wrong += counts["wrong"]
            print(f"{limit:10} {utilisation:16.0%}  {counts['right']:5}  {counts['nothing']:7}  {counts['wrong']:5}", flush=True)
    sys.exit(1 if wrong else 0)


main()
