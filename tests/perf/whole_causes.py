#!/usr/bin/env python3
"""How often slow iterations that are slow as a whole, and calls that are made more often, are said to be what they are.

    cargo build --all-features
    tests/perf/whole_causes.py 20                     # each plant 20 times, one after the other
    tests/perf/whole_causes.py 3 twice.12 stops       # only these plants

A small service in a process of its own, on 127.0.0.1, sends its spans by OTLP. Its work is timers. Each run is a closed
load of some seconds; one request in twelve is slow for a planted reason, or the whole process is stopped now and then
(SIGSTOP), or nothing is planted. Right: the plant is named, or said as what it is; silent: nothing is said; wrong: anything
else is named. The kinds of a repeated call share 60 ms, so that none of them explains half.
"""

import collections
import json
import multiprocessing
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
BENCH = os.environ.get("BENCH", REPOSITORY / "target/debug/bench")
TIMES, CONCURRENCY, SLOW_EVERY = 480, 4, 12
# What is planted, and what must be said: a call's name, or a pattern, or nothing.
PLANTS = {
    "twice.2": "call", "twice.12": "call", "twice.40": "call", "three.6": "call", "grown.5": "call",
    "slower.1.5": "same_factor", "slower.2": "same_factor", "slower.4": "same_factor", "stops": "same_moments",
    "long_alone": "compute", "statement": "lookup", "rows": "select",
    "healthy": None, "heavy_tails": None,
}


def spans_of(plant, number, trace, parent):
    """Does the work of a request, and gives its spans."""
    slow = number % SLOW_EVERY == 3
    kind, _, detail = plant.partition(".")
    factor = float(detail) if kind == "slower" and slow else 1.0
    spans = []

    def spend(ms):
        # More noise than a timer has.
        spread = random.lognormvariate(0, 0.7 if kind == "heavy_tails" else 0.1)
        time.sleep(ms * factor * spread / 1000)

    def span(name, ms, above, inner=()):
        own = random.randbytes(8).hex()
        begin = time.time_ns()
        spend(ms / 2)
        for one in inner:
            one(own)
        spend(ms / 2)
        spans.append({
            "traceId": trace, "spanId": own, "parentSpanId": above, "name": name, "kind": 2 if name == "GET /order" else 1,
            "startTimeUnixNano": str(begin), "endTimeUnixNano": str(time.time_ns()),
        })

    def call(above):
        kinds = int(detail)
        each = 60 / kinds
        steps = [lambda own, at=at: span(f"step {at}", each, own) for at in range(1, kinds)]
        span("call", each, above, steps)

    calls = {"twice": 2, "three": 3, "grown": 4}.get(kind, 0) if slow else int(kind in ("twice", "three", "grown"))
    long = 6 if kind in ("twice", "three", "grown", "heavy_tails") else 60 * (3 if kind == "long_alone" and slow else 1)
    rows = 40 if kind == "rows" and slow else 2
    parts = [
        lambda own: span("check", 5, own),
        lambda own: span("lookup", 150 if kind == "statement" and slow else 5, own),
        *[call] * calls,
        lambda own: span("compute", long, own),
        *[lambda own: span("select", 3, own)] * rows,
        lambda own: span("render", 6, own),
    ]
    span("GET /order", 4, parent, parts)
    return spans


def serve(plant, port, receiver):
    import http.server

    numbers, lock = iter(range(1 << 30)), threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            _, trace, parent, _ = self.headers["traceparent"].split("-")
            with lock:
                number = next(numbers)
            spans = spans_of(plant, number, trace, parent)
            resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]}
            body = {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}
            self.send_response(200)
            self.send_header("content-length", "2")
            self.end_headers()
            self.wfile.write(b"{}")
            self.wfile.flush()
            request = urllib.request.Request(
                f"http://127.0.0.1:{receiver}/v1/traces", json.dumps(body).encode(), {"content-type": "application/json"}
            )
            urllib.request.urlopen(request, timeout=10).read()

        def log_message(self, *_):
            pass

    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def stopped_now_and_then(process, over):
    """Stops the whole process for a moment, again and again, until the load is over."""
    while not over.wait(0.9 + 0.4 * random.random()):
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(0.25)
        os.kill(process.pid, signal.SIGCONT)


def run(plant, folder):
    port, receiver = free_port(), free_port()
    process = multiprocessing.get_context("fork").Process(target=serve, args=(plant, port, receiver), daemon=True)
    process.start()
    over = threading.Event()
    stopper = threading.Thread(target=stopped_now_and_then, args=(process, over))
    (folder / "d.yaml").write_text(
        f"name: shop\ntargets: {{ default: http://127.0.0.1:{port} }}\nprofiler: {{ receive: 127.0.0.1:{receiver} }}\n"
    )
    (folder / "s.yaml").write_text(
        f"title: Orders\ndeployment: d.yaml\nrunner: {{ constant: {{ times: {TIMES}, concurrency: {CONCURRENCY} }} }}\n"
        "iteration: [{ action: buy, get: /order }]\n"
    )
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        if plant == "stops":
            stopper.start()
        ended = subprocess.run(
            [BENCH, "run", "s.yaml", "--out", folder / "out"], cwd=folder, capture_output=True, text=True, timeout=300,
            check=False,
        )
    finally:
        over.set()
        if stopper.is_alive():
            stopper.join()
        process.kill()
        process.join()
    found = list((folder / "out").rglob("results.json"))
    if not found:
        return None, ended.stdout + ended.stderr
    return json.loads(found[0].read_text())["workloads"][0].get("comparison"), ended.stdout + ended.stderr


def said_of(plant, seen):
    """Right, silent or wrong, and what was said."""
    causes = [kind["name"] for kind in seen["kinds"] if kind["guilty"]]
    around = (seen.get("repeated") or {}).get("name")
    whole = (seen.get("overall") or {}).get("pattern")
    told = f"{causes} {around or ''} {whole or ''}"
    expected = PLANTS[plant]
    if expected is None:
        return ("right" if not causes and whole != "same_moments" else "wrong"), told
    if (causes and expected in (causes[0], around)) or (not causes and whole == expected):
        return "right", told
    return ("wrong" if causes or whole else "silent"), told


def main():
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    plants = sys.argv[2:] or list(PLANTS)
    unknown = sorted(set(plants) - set(PLANTS))
    if unknown:
        sys.exit(f"no such plant: {', '.join(unknown)}; there are {', '.join(PLANTS)}")
    counts = collections.defaultdict(collections.Counter)
    for number in range(times):
        for plant in plants:
            with tempfile.TemporaryDirectory() as folder:
                seen, output = run(plant, pathlib.Path(folder))
            said, told = said_of(plant, seen) if seen else ("failed", output[-400:])
            counts[plant][said] += 1
            print(f"{number + 1}/{times} {plant}: {said} {told}", file=sys.stderr, flush=True)
    for plant, count in counts.items():
        print(f"{plant:12}" + "".join(f"   {word} {count[word]:3d}" for word in ("right", "wrong", "silent", "failed")))
    wrong = sum(count["wrong"] for count in counts.values())
    right, all_runs = (sum(count["right"] for count in counts.values()), sum(sum(c.values()) for c in counts.values()))
    print(f"right {right} of {all_runs}; wrong {wrong}, goal 0")


if __name__ == "__main__":
    main()
