#!/usr/bin/env python3
"""Whether `bench what-if` predicts what a service then does: plant, predict, change the service, measure.

    tests/perf/what_if.py 1                                   # each plant once: 51 predictions, about 25 minutes
    tests/perf/what_if.py 1 pool:second workers:half --bench target/release/bench --python v/bin/python

The service is `shop` of tests/perf/limited.py, in Python with OpenTelemetry's SDK: a pool of 4 connections, 4 workers, or
neither. Its load is open, with random arrivals, at 0.3, 0.6 and 0.85 of what it bears (without a pool, at the same rates). What
counts: the 90 % interval of p99 holds the p99 of the changed service's own run, and how far the prediction is from that.
`--python` has opentelemetry-sdk and opentelemetry-exporter-otlp-proto-http. It listens and loads on 127.0.0.1 only.
"""

import argparse
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ITERATIONS = 2_600
UTILISATIONS = [0.3, 0.6, 0.85]
SERVICES = {
    "pool": {"own_ms": 2, "query_ms": 8, "second": [0.03, 60], "connections": 4},
    "workers": {"own_ms": 3, "query_ms": 4, "second": [0.03, 60], "workers": 4},
    "alone": {"own_ms": 3, "query_ms": 8, "second": [0.03, 60]},
    "calls": {"own_ms": 1, "query_ms": 2, "queries": 6, "connections": 4},
}
# For each service: what is changed in it, and how that is asked.
FIXES = {
    "second": ({"second": [0, 0]}, ["--kind", "SELECT * FROM two", "--times", "0"]),
    "half": ({"query_ms": 0.5}, ["--kind", "SELECT * FROM one", "--times", "0.5"]),
    "own": ({"own_ms": 0.25}, ["--kind", "GET /", "--times", "0.25"]),
    "more": ({"connections": 2, "workers": 2}, ["--servers", "2x"]),
    "once": ({"queries": 1}, ["--kind", "SELECT * FROM one", "--calls", "1"]),
}
PLANTS = {
    "pool": ["second", "half", "own", "more"], "workers": ["second", "half", "own", "more"],
    "alone": ["second", "half", "own"], "calls": ["once", "half", "own", "more"],
}
# Milliseconds that a thread of the service takes longer than it sleeps.
OVERHEAD_MS = 0.25


def changed(service, fix):
    rules = dict(service)
    for name, value in FIXES[fix][0].items():
        if name in ("second", "queries"):
            rules[name] = value
        elif name in rules:
            rules[name] = type(rules[name])(rules[name] * value) if name != "own_ms" else rules[name] * value
    return rules


def capacity_per_s(service):
    """Requests a second at which its servers are always busy; of a service without, that of four workers."""
    queries = service.get("queries", 1) * (service["query_ms"] + OVERHEAD_MS)
    share, length = service.get("second", (0, 0))
    queries += share * (length + OVERHEAD_MS)
    own = 2 * (service["own_ms"] + OVERHEAD_MS)
    return 4_000 / (queries if "connections" in service else queries + own)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def measured(options, rules, rate, folder):
    """Runs the load against a service with these rules; returns the run's directory and its results."""
    port, receiver = free_port(), free_port()
    (folder / "s.yaml").write_text(f"""title: shop
runner: {{ rps: {{ rps: {rate:.1f}, duration: {ITERATIONS / rate:.1f}s, random: poisson }} }}
warm_up: 1s
iteration: [ {{ action: get, get: / }} ]
""")
    (folder / "d.yaml").write_text(f"""targets: {{ default: "http://127.0.0.1:{port}" }}
profiler: {{ receive: "127.0.0.1:{receiver}" }}
""")
    words = [options.python, HERE / "limited.py", "shop", json.dumps(rules), str(port), f"http://127.0.0.1:{receiver}"]
    service = subprocess.Popen(words, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        ran = subprocess.run([options.bench, "run", "s.yaml", "-d", "d.yaml", "--out", "runs", "--quiet", "--no-live"],
                             cwd=folder, capture_output=True, text=True, timeout=300)
    finally:
        service.stdin.close()
        service.wait(10)
    found = sorted(folder.glob("runs/*/results.json"))
    if not found:
        sys.exit(ran.stderr)
    results = json.loads(found[-1].read_text())
    times = results["workloads"][0]["response_time"]["percentiles"]
    return found[-1].parent, {float(one["percentile"]): one["value_ms"] for one in times}


def one(options, service, fix, utilisation, keep):
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{service}-{fix}-{utilisation}-", dir=keep))
    rate = capacity_per_s(SERVICES[service]) * utilisation
    directory, today = measured(options, SERVICES[service], rate, folder)
    asked = subprocess.run([options.bench, "what-if", directory, *FIXES[fix][1], "--json"], capture_output=True, text=True)
    row = {"service": service, "fix": fix, "utilisation": utilisation, "today": today[99.0], "folder": str(folder)}
    answer = json.loads(asked.stdout) if asked.returncode in (0, 4) else {"none_because": asked.stderr.strip()}
    if "prediction" not in answer:
        row["none"] = answer["none_because"]
    else:
        prediction = answer["prediction"]
        (p99,) = [one for one in prediction["percentiles"] if one["percentile"] == 99]
        _, then = measured(options, changed(SERVICES[service], fix), rate, folder)
        row.update(then=then[99.0], predicted=p99["then_ms"], low=p99["low_ms"], high=p99["high_ms"],
                   bound=prediction.get("upper_bound"), pools=[pool["servers"] for pool in answer["pools"]],
                   held=p99["low_ms"] <= then[99.0] <= p99["high_ms"] if "upper_bound" not in prediction
                   else then[99.0] <= p99["high_ms"])
    print(json.dumps(row), flush=True)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rounds", type=int)
    parser.add_argument("plants", nargs="*", metavar="SERVICE:FIX")
    parser.add_argument("--bench", type=pathlib.Path, default=HERE.parents[1] / "target/release/bench")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--utilisation", type=float, action="append", help="of what the service bears (default: all three)")
    parser.add_argument("--keep", type=pathlib.Path, help="the folder for the runs")
    options = parser.parse_args()
    options.bench = options.bench.resolve()
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
    plants = options.plants or [f"{service}:{fix}" for service, fixes in PLANTS.items() for fix in fixes]
    rows = []
    for _ in range(options.rounds):
        for utilisation in options.utilisation or UTILISATIONS:
            for plant in plants:
                rows.append(one(options, *plant.split(":"), utilisation, options.keep))
    print("\n| utilisation | predictions | within the interval | upper bounds | that hold | median error of p99 | none |")
    print("|---|---|---|---|---|---|---|")
    for utilisation in [*(options.utilisation or UTILISATIONS), None]:
        of = [row for row in rows if utilisation in (None, row["utilisation"])]
        exact = [row for row in of if "none" not in row and not row["bound"]]
        bounds = [row for row in of if "none" not in row and row["bound"]]
        errors = [abs(row["predicted"] / row["then"] - 1) for row in exact]
        print(f"| {utilisation or 'all'} | {len(exact)} | {sum(row['held'] for row in exact)} | {len(bounds)} "
              f"| {sum(row['held'] for row in bounds)} | {statistics.median(errors) if errors else 0:.1%} "
              f"| {sum('none' in row for row in of)} |")


main()
