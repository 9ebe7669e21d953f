#!/usr/bin/env python3
"""An hour of load at a steady rate: does what bench holds grow, and does it start later and later?

    tests/perf/soak.py [--seconds 3600] [--rate 200] [--out FOLDER] [--bench PATH]
    tests/perf/soak.py --judge RUN-DIRECTORY     # the slopes of a run that is there

The service answers at once, one request in a hundred after 50 ms, and sends its spans to bench's receiver by OTLP. Each
iteration takes a row of a file, makes up a name and gets a cookie; the live metrics are read every five seconds. At the
end, this says how memory, descriptors, threads and the mean queue time changed, by a straight line through the
readings of the second half, with its standard error: in the first half, tables and buffers
grow to their limits. A change within two standard errors, or within 2 % of
the mean, is none; of the queue time, within 50 µs. The run's report draws the same readings, under "All settings".

Everything runs on 127.0.0.1. Needs only Python's standard library.
"""

import argparse
import asyncio
import json
import math
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SLOW_S = 0.05


class Service:
    """Answers each request, and sends spans once a second."""

    def __init__(self, receiver_port):
        self.receiver_port, self.spans, self.sent = receiver_port, [], 0

    async def connection(self, reader, writer):
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                began_ns = time.time_ns()
                parent = re.search(rb"traceparent: 00-(\w{32})-(\w{16})-", head, re.I)
                slow = random.random() < 0.01
                if slow:
                    await asyncio.sleep(SLOW_S)
                body = b'{"ok": true}'
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nSet-Cookie: seen=%d; Path=/\r\n"
                             b"Content-Length: %d\r\n\r\n" % (random.randrange(1000), len(body)) + body)
                if parent:
                    self.add(parent[1].decode(), parent[2].decode(), began_ns, slow)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def add(self, trace, parent, began_ns, slow):
        ended_ns, root, child = time.time_ns(), f"{random.getrandbits(64):016x}", f"{random.getrandbits(64):016x}"
        name = "SELECT slow" if slow else "SELECT quick"
        for span, of, called, kind in [(root, parent, "GET /orders", 2), (child, root, name, 3)]:
            self.spans.append({"traceId": trace, "spanId": span, "parentSpanId": of, "name": called, "kind": kind,
                               "startTimeUnixNano": str(began_ns), "endTimeUnixNano": str(ended_ns)})

    async def send(self):
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(1)
            spans, self.spans = self.spans, []
            if spans:
                await loop.run_in_executor(None, self.post, spans)

    def post(self, spans):
        resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "orders"}}]}
        body = json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": spans}]}]}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.receiver_port}/v1/traces", body,
                                         {"Content-Type": "application/json"})
        try:
            urllib.request.urlopen(request, timeout=10).close()
            self.sent += len(spans)
        except OSError:
            pass   # bench is not there yet, or no more

    def start(self):
        """Serves in a thread; gives the port."""
        loop = asyncio.new_event_loop()
        server = loop.run_until_complete(asyncio.start_server(self.connection, "127.0.0.1", 0))
        loop.create_task(self.send())
        threading.Thread(target=loop.run_forever, daemon=True).start()
        return server.sockets[0].getsockname()[1]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def soak(options, out):
    receiver, metrics = free_port(), free_port()
    service = Service(receiver)
    port = service.start()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "users.csv").write_text("name,plan\n" + "".join(f"user-{n},{'free' if n % 3 else 'paid'}\n" for n in range(5000)))
        (folder / "deployment.yaml").write_text(
            f"name: soak\ntargets: {{ default: 'http://127.0.0.1:{port}' }}\nprofiler: {{ receive: '127.0.0.1:{receiver}' }}\n")
        (folder / "scenario.yaml").write_text(
            "title: Soak\ndeployment: deployment.yaml\nhttp: { cookies: iteration }\ndata: { users: users.csv }\n"
            f"runner: {{ rps: {{ rps: {options.rate}, duration: {options.seconds}, max_concurrency: 200 }} }}\n"
            "iteration:\n"
            "  - action: order\n    get: /orders\n    query: { user: '{{ users.name }}', by: \"{{ fake('name') }}\" }\n"
            "    expect: { status: 200 }\n    extract: { ok: { json: $.ok } }\n")
        bench = subprocess.Popen(
            [options.bench, "run", folder / "scenario.yaml", "--out", out, "--quiet", "--metrics", f"127.0.0.1:{metrics}"])
        scrapes = 0
        while bench.poll() is None:
            time.sleep(5)
            try:
                scrapes += b"# EOF" in urllib.request.urlopen(f"http://127.0.0.1:{metrics}/metrics", timeout=5).read()
            except OSError:
                pass   # before and after the load
    print(f"bench ended with {bench.returncode}; {service.sent} spans were sent, metrics were read {scrapes} times")
    return bench.returncode


def line(xs, ys):
    """The slope of a straight line by least squares, and its standard error."""
    n, mean_x, mean_y = len(xs), sum(xs) / len(xs), sum(ys) / len(ys)
    square = sum((x - mean_x) ** 2 for x in xs)
    slope = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys)) / square
    rest = sum((y - mean_y - slope * (x - mean_x)) ** 2 for x, y in zip(xs, ys))
    return slope, math.sqrt(rest / (n - 2) / square)


def judge(directory):
    results = json.loads((directory / "results.json").read_text())
    held, load = results["generator"]["process"], results["workloads"][0]["offered"]["series"]
    if len(held["threads"]) < 12:
        sys.exit("the load was too short for a slope")
    # The readings before and after the load, and an interval that is not full, say something else. `more` is the change
    # that counts as none, besides noise.
    every = [("memory", "MB", [n / 1e6 for n in held["memory_bytes"]], held, 0), ("descriptors", "", held["descriptors"], held, 0),
             ("threads", "", held["threads"], held, 0), ("mean queue time", "µs", [ms * 1e3 for ms in load["queue_time_mean_ms"]], load, 50)]
    grown = False
    for name, unit, values, grid, more in every:
        first, last = len(values) // 2, len(values) - 2
        values = values[first:last]
        hours = [(grid["start_s"] + (first + n) * grid["step_s"]) / 3600 for n in range(len(values))]
        slope, error = line(hours, values)
        mean = sum(values) / len(values)
        change, doubt = slope * (hours[-1] - hours[0]), error * (hours[-1] - hours[0])
        grows = change > 2 * doubt and change > max(0.02 * mean, more)
        grown |= grows
        print(f"  {name:16} {mean:10.2f} {unit:2} in the mean, {change:+9.3f} ± {doubt:.3f} from begin to end"
              f"   {'GROWS' if grows else 'ok'}")
    print(f"  {results['workloads'][0]['iterations']['total']} iterations, {results['workloads'][0]['iterations']['failed']} failed; "
          f"{directory / 'report.html'}")
    return grown


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=3600)
    parser.add_argument("--rate", type=int, default=200)
    parser.add_argument("--out", type=Path, default=ROOT / "target/soak")
    parser.add_argument("--bench", type=Path, default=ROOT / "target/release/bench")
    parser.add_argument("--judge", type=Path, metavar="RUN-DIRECTORY")
    options = parser.parse_args()
    if options.judge:
        sys.exit(judge(options.judge))
    ended = soak(options, options.out)
    if ended not in (0, 2, 3):
        sys.exit(f"bench ended with {ended}")
    newest = max(options.out.glob("*/results.json"), key=lambda path: path.stat().st_mtime)
    sys.exit(judge(newest.parent))


if __name__ == "__main__":
    main()
