#!/usr/bin/env python3
"""What bench takes for the traces after a load: 5,000 OSProfiler traces of 140 points, from redis.

    tests/perf/traces.py [--traces 5000] [--points 140] [--rounds 3] [--bench PATH]

Runs a load of a given number of iterations, writes a trace of each to a redis of its own, as OSProfiler's notifier does, and times
`bench collect`, which fetches all of them, finds what made iterations slow, and writes results and the report. One trace in
twenty has a slow statement. Beside it stand the size of the report, and the time in which redis alone gives the same lists
to a client that throws them away. Needs redis-server; everything runs on 127.0.0.1.
"""

import argparse
import calendar
import contextlib
import csv
import http.server
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEY = "perf"


class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        # The twentieth of each twenty takes longer, so that there are slow iterations to explain.
        Answers.count += 1
        time.sleep(0.02 if Answers.count % 20 == 0 else 0.001)
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


Answers.count = 0


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def redis(folder):
    if not shutil.which("redis-server"):
        sys.exit("redis-server is not installed: apt-get install redis-server")
    port = free_port()
    process = subprocess.Popen(["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)],
                               stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
            time.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait()


def command(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts += [b"$%d\r\n" % len(word), word, b"\r\n"]
    return b"".join(parts)


def stamp(unix_us):
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(unix_us // 1_000_000)) + f".{unix_us % 1_000_000:06}"


def records(base, started_us, took_us, points, slow):
    """A trace as OSProfiler writes it: a request that calls others, each with statements."""
    def record(name, trace, parent, at_us, info, service):
        return json.dumps({"name": name, "base_id": base, "trace_id": trace, "parent_id": parent, "timestamp": stamp(at_us),
                           "info": info, "project": "shop", "service": service})
    ids = [str(uuid.uuid4()) for _ in range(points)]
    step_us, made = took_us * 0.8 / points, []
    for n in range(points):
        group = n % 10
        parent = base if n == 0 else ids[0] if group == 0 else ids[n - group]
        name, info = ("wsgi", {"request": {"path": f"/{n // 10}", "method": "GET", "query": "", "scheme": "http"}}) if group == 0 else \
            ("db", {"db": {"statement": f"SELECT item_{group} FROM items WHERE id = %s AND tenant = %s ORDER BY created_at", "params": {"id": n}}})
        begin = started_us + n * step_us
        end = begin + step_us * 0.7
        if group == 0:
            end = started_us + (min(n + 9, points - 1) + 0.9) * step_us if n else started_us + took_us * 0.95
        if slow and n == 77:
            name, info = "db", {"db": {"statement": "SELECT slow FROM archive", "params": {}}}
        service = f"service-{n // 10 % 4}"
        host = {"host": f"node-{n // 10 % 3}", "service": service, "project": "shop"}
        made.append((begin, record(f"{name}-start", ids[n], parent, int(begin), {**host, **info}, service)))
        made.append((end, record(f"{name}-stop", ids[n], parent, int(end), host, service)))
    return [text for _, text in sorted(made, key=lambda one: one[0])]


def fill(port, iterations, points):
    """Writes a trace of each iteration; gives the keys."""
    keys = []
    with socket.create_connection(("127.0.0.1", port)) as to:
        for base, started_us, took_us, slow in iterations:
            key = f"osprofiler_opt:{base}"
            keys.append(key)
            to.sendall(command("LPUSH", key, *records(base, started_us, took_us, points, slow)))
            while not to.recv(100).endswith(b"\r\n"):
                pass
    return keys


def given(port, keys):
    """How long redis takes to give all lists to a client that throws them away, and how many bytes those are."""
    began, total = time.monotonic(), 0
    with socket.create_connection(("127.0.0.1", port)) as to:
        for key in keys:
            to.sendall(command("LRANGE", key, 0, -1) + command("PING"))
            tail = b""
            while not tail.endswith(b"+PONG\r\n"):
                read = to.recv(1 << 20)
                total += len(read)
                tail = (tail + read)[-16:]
    return time.monotonic() - began, total


def run(words):
    """Runs a program; gives seconds by the clock and of the processor, and the peak in kB."""
    began = time.monotonic()
    process = subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    said = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        sys.exit(f"{words} ended with {os.waitstatus_to_exitcode(status)}:\n{said}")
    return time.monotonic() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss, said


def load(options, folder):
    """Runs the load; gives its directory."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    deployment = folder / "deployment.yaml"
    deployment.touch(mode=0o600)
    deployment.write_text(f"name: perf\ntargets: {{ default: 'http://127.0.0.1:{server.server_port}' }}\n"
                          f"profiler: {{ hmac_key: {KEY} }}\n")
    (folder / "scenario.yaml").write_text(
        f"title: traces\ndeployment: deployment.yaml\nprobe: false\nrunner: {{ constant: {{ times: {options.traces}, "
        "concurrency: 4 } }\niteration: [ { action: get, get: / } ]\n")
    run([options.bench, "run", folder / "scenario.yaml", "--out", folder / "runs", "--quiet"])
    server.shutdown()
    return next((folder / "runs").glob("*/results.json")).parent


def iterations(options, directory, folder):
    """Trace id, start in microseconds since 1970, duration and whether it was slow, of each iteration."""
    exported = folder / "iterations.csv"
    run([options.bench, "export", directory, "--csv", "--output", exported])
    began = json.loads((directory / "results.json").read_text())["run"]["started_at"]
    began_us = calendar.timegm(time.strptime(began[:19], "%Y-%m-%dT%H:%M:%S")) * 1_000_000 + int(began[20:23]) * 1_000
    with exported.open() as rows:
        for row in csv.DictReader(rows):
            took_us = int(row["service_time_ns"]) // 1_000
            yield row["trace_id"], began_us + int(row["start_ns"]) // 1_000, took_us, took_us > 15_000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=5_000)
    parser.add_argument("--points", type=int, default=140)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bench", type=Path, default=ROOT / "target/release/bench")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the last run there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, redis(name) as port:
        folder = Path(name)
        directory = load(options, folder)
        keys = fill(port, iterations(options, directory, folder), options.points)
        rounds = []
        for _ in range(options.rounds):
            # Each round is the first time that the traces are collected.
            shutil.rmtree(directory / "traces", ignore_errors=True)
            alone_s, total = given(port, keys)
            whole_s, cpu_s, peak_kb, said = run(
                [options.bench, "collect", directory, "--slowest", options.traces, "--again", "--connection-string",
                 f"redis://127.0.0.1:{port}"])
            rounds.append((whole_s, cpu_s, peak_kb / 1e3, alone_s))
        report = sum(path.stat().st_size for path in [directory / "report.html", *directory.glob("traces/*.html")])
        whole_s, cpu_s, peak_mb, alone_s = map(statistics.median, zip(*rounds))
        print(said)
        print(f"{len(keys)} traces of {options.points} points, {total / 1e6:.0f} MB in redis: {whole_s:.1f} s "
              f"({min(rounds)[0]:.1f}–{max(rounds)[0]:.1f}), {cpu_s:.1f} s of the processor, {peak_mb:.0f} MB at most; redis "
              f"alone {alone_s:.1f} s; pages of {report / 1e6:.1f} MB")
        if options.keep:
            shutil.copytree(directory, options.keep, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
