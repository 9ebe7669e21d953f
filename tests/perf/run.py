#!/usr/bin/env python3
"""What bench costs, as ratios against its peers in the same run.

    cargo build --release && tests/perf/run.py [FIGURE…] [--quick] [--write]

Server on the first processor, client on the second, rounds interleaved, medians printed. Peers that
are not installed are named and left out: wrk, nginx, nghttp2-client (h2load) are Debian's packages,
oha is a crate, and goose is built here from crates. Processor time is user + system of the whole
client process; for bench also without what it does after the load (results, report). All traffic stays on 127.0.0.1.

`--quick` takes 3 rounds of a second and leaves out the figures that take minutes or build a peer: it shows the size of a
change, not its proof. `--write` puts the medians with their bounds into the table of tests/perf/README.md, each in the row
of its figure and in the column of its program.
"""
import argparse
import contextlib
import datetime
import json
import math
import os
import re
import resource
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
CONNECTIONS = 50
SERVER_CPU, CLIENT_CPU = "0", "1"
FIGURES = {}
QUICK = (1, 2, 3, 4, 5)
TABLE = HERE / "README.md"
ROWS = []  # (figure, label, measured, goal)


def figure(number, title):
    def add(function):
        FIGURES[number] = (title, function)
        return function
    return add


class Missing(Exception):
    """A peer that is not installed."""


def need(program):
    found = shutil.which(program)
    if not found:
        raise Missing(program)
    return found


def run(command, cpu=CLIENT_CPU, **options):
    """Runs a command to its end; gives (seconds of processor time, peak kB, output)."""
    pinned = ["taskset", "-c", cpu, *map(str, command)] if cpu else [*map(str, command)]
    process = subprocess.Popen(pinned, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **options)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3):
        raise RuntimeError(f"{' '.join(pinned)} ended with {process.returncode}:\n{output[-2000:]}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss, output


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def summary(path):
    """The results without their iterations. Read by another process: what this one ever held in memory
    would count as its children's peak."""
    program = "import json, sys; r = json.load(open(sys.argv[1])); r.pop('iterations'); json.dump(r, sys.stdout)"
    return json.loads(subprocess.check_output([sys.executable, "-c", program, path]))


class Bench:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def files(self, runner, url, iteration=None, top=""):
        """Writes a scenario and its deployment."""
        deployment, scenario = self.folder / "deployment.yaml", self.folder / "scenario.yaml"
        deployment.touch(mode=0o600)
        deployment.write_text(
            f"name: perf\ntargets: {{ default: '{url}' }}\n"
            "tls: { verify: false }\nprofiler: { hmac_key: perf-key }\n" + top)
        scenario.write_text(
            f"title: perf\nrunner: {{ {runner} }}\niteration:\n"
            + (iteration or "  - { action: get, get: / }\n"))
        return scenario, deployment

    def shards(self, runner, url, count):
        """One load by this many processes, merged; processor time is that of the shards."""
        scenario, deployment = self.files(runner, url)
        out = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            job = f"perf-{out.name}"
            shards = [subprocess.Popen(
                ["taskset", "-c", CLIENT_CPU, self.program, "run", scenario, "-d", deployment, "--out", out / "shards",
                 "--quiet", "--shard", f"{index}/{count}", "--job", job, "--together", out / "meet", "--workers", "1"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for index in range(count)]
            cpu_s = 0.0
            for shard in shards:
                _, status, usage = os.wait4(shard.pid, 0)
                shard.returncode = os.waitstatus_to_exitcode(status)
                if shard.returncode != 0:
                    raise RuntimeError(f"a shard ended with {shard.returncode}")
                cpu_s += usage.ru_utime + usage.ru_stime
            run([self.program, "merge", out / "shards", "--out", out / "merged"])
            results = summary(next((out / "merged").glob("*/results.json")))
        finally:
            shutil.rmtree(out)
        workload = results["workloads"][0]
        return {"cpu_us": cpu_s / workload["iterations"]["total"] * 1e6, "workload": workload}

    def load(self, runner, url, *flags, iteration=None, top="", cpu=CLIENT_CPU, dropped_ok=False):
        """One run; gives its figures."""
        scenario, deployment = self.files(runner, url, iteration, top)
        out = tempfile.mkdtemp(dir=self.folder)
        try:
            cpu_s, peak_kb, _ = run(
                [self.program, "run", scenario, "-d", deployment, "--out", out, "--quiet", *flags], cpu)
            results = summary(next(Path(out).glob("*/results.json")))
        finally:
            shutil.rmtree(out)
        workload = results["workloads"][0]
        counts = workload["iterations"]
        if counts["failed"] or (counts.get("dropped") and not dropped_ok):
            raise RuntimeError(f"failed or dropped iterations: {counts}, {workload['errors'][:1]}")
        load_s = results["generator"]["cpu_s"]
        return {"n": counts["total"], "cpu_us": cpu_s / counts["total"] * 1e6,
                "load_us": load_s / counts["total"] * 1e6, "peak_kb": peak_kb,
                "workload": workload, "results": results}


@contextlib.contextmanager
def nginx(folder):
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    if not Path(program).exists():
        raise Missing("nginx")
    home = Path(tempfile.mkdtemp(dir=folder))
    ports = {name: free_port() for name in ("http", "https", "h2", "h2c")}
    (home / "www").mkdir()
    # nginx reads them as another user when it is started by root.
    for shared in (folder, home):
        os.chmod(shared, 0o755)
    (home / "www/index.html").write_text(
        json.dumps({"user": {"id": "u-1", "name": "a"}, "filler": "x" * 512}))
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", home / "k.pem", "-out",
         home / "c.pem", "-days", "2", "-subj", "/CN=127.0.0.1"], check=True, capture_output=True)
    tls = f"ssl_certificate {home}/c.pem; ssl_certificate_key {home}/k.pem;"
    (home / "nginx.conf").write_text(f"""
daemon off; worker_processes 1; pid {home}/pid; error_log {home}/errors;
events {{ worker_connections 20000; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 600s; default_type application/json;
  client_body_temp_path {home}/a; proxy_temp_path {home}/b; fastcgi_temp_path {home}/c;
  uwsgi_temp_path {home}/d; scgi_temp_path {home}/e;
  root {home}/www; index index.html;
  server {{ listen 127.0.0.1:{ports['http']} backlog=16384; }}
  server {{ listen 127.0.0.1:{ports['https']} ssl; {tls} }}
  server {{ listen 127.0.0.1:{ports['h2']} ssl http2; {tls} }}
  server {{ listen 127.0.0.1:{ports['h2c']} http2; }}
}}""")
    process = subprocess.Popen(["taskset", "-c", SERVER_CPU, program, "-c", home / "nginx.conf"])
    try:
        wait_for(ports["h2c"])
        scheme = {"http": "http", "https": "https", "h2": "https", "h2c": "http"}
        yield {name: f"{scheme[name]}://127.0.0.1:{port}" for name, port in ports.items()}
    finally:
        process.terminate()
        process.wait()


def wait_for(port):
    for _ in range(100):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError(f"nothing listens on port {port}")


@contextlib.contextmanager
def perf_server(options, *arguments):
    process = subprocess.Popen(
        ["taskset", "-c", SERVER_CPU, options.server, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.wait()


def wrk(url, seconds, connections=CONNECTIONS, threads=1, cpu=CLIENT_CPU):
    cpu_s, peak_kb, output = run(
        [need("wrk"), f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", url + "/"], cpu)
    return {"cpu_us": cpu_s / int(re.search(r"(\d+) requests in", output)[1]) * 1e6, "peak_kb": peak_kb}


def oha(url, seconds):
    cpu_s, peak_kb, output = run(
        [need("oha"), "--no-tui", "-z", f"{seconds}s", "-c", CONNECTIONS, "--output-format", "json", url + "/"])
    report = json.loads(output[output.index("{"):])
    return {"cpu_us": cpu_s / sum(report["statusCodeDistribution"].values()) * 1e6, "peak_kb": peak_kb}


def goose(options):
    """goose is a library: the load that uses it is built here, once."""
    def load(url, seconds):
        cpu_s, peak_kb, output = run(
            [options.goose, "--host", url, "--users", CONNECTIONS, "--hatch-rate", CONNECTIONS * 10, "--run-time", f"{seconds}s",
             "--no-reset-metrics", "--no-print-metrics", "--no-telnet", "--no-websocket", "--quiet"])
        return {"cpu_us": cpu_s / int(re.search(r"(\d+) succeeded", output)[1]) * 1e6, "peak_kb": peak_kb}
    target = options.target / "goose"
    options.goose = target / "release/goose-load"
    if not options.no_build:
        subprocess.run(["cargo", "build", "--release", "--target-dir", target], cwd=HERE / "goose")
    if not options.goose.exists():
        raise Missing("goose")
    return load


def h2load(url, seconds, *flags):
    requests = 20_000 * seconds
    cpu_s, peak_kb, output = run(
        [need("h2load"), "-t1", f"-c{CONNECTIONS}", "-m1", f"-n{requests}", *flags, url])
    done = int(re.search(r"(\d+) succeeded", output)[1])
    return {"cpu_us": cpu_s / done * 1e6, "peak_kb": peak_kb}


def closed(seconds):
    return f"constant_for_duration: {{ duration: {seconds}, concurrency: {CONNECTIONS} }}"


def pairs(options, ours, peer, key="load_us", peer_key=None):
    """Interleaved rounds; gives medians of ours, the peer's and the ratio, and the ratios."""
    mine, theirs = [], []
    for round_number in range(options.rounds):
        order = [(ours, mine), (peer, theirs)]
        for measure, into in order if round_number % 2 == 0 else reversed(order):
            into.append(measure())
    a = [one[key] for one in mine]
    b = [one[peer_key or key] for one in theirs]
    ratios = [x / y for x, y in zip(a, b)]
    return statistics.median(a), statistics.median(b), statistics.median(ratios), ratios, mine


def bounds(ratios):
    """Bounds of the median of these pairs: order statistics, at least 95 % (from six pairs on; else the extremes)."""
    ordered, n = sorted(ratios), len(ratios)
    outside = 0.0
    for rank in range(n // 2):
        outside += 2 * math.comb(n, rank) / 2**n
        if outside > 0.05:
            return ordered[max(rank - 1, 0)], ordered[min(n - rank, n - 1)]
    return ordered[0], ordered[-1]


def show(label, ours, peer_name, peer, ratio, ratios, goal, unit="µs"):
    low, high = bounds(ratios)
    verdict = "ok" if ratio <= goal else "MISSED"
    spread = f"{low:.2f}–{high:.2f} of {min(ratios):.2f}–{max(ratios):.2f}"
    print(f"  {label:44} {ours:8.2f} {unit}   {peer_name} {peer:8.2f} {unit}   "
          f"ratio {ratio:5.2f} ({spread})  goal {goal:.2f}  {verdict}", flush=True)
    keep(f"{label}, against {peer_name}", f"{ratio:.2f} ({low:.2f}–{high:.2f})", f"{goal:.2f}")


def keep(label, measured, goal):
    """A row of the table that `--write` writes."""
    ROWS.append((figure.now, label, measured, goal))


def against(options, bench, url, peer_name, peer, goal, label, top="", iteration=None):
    seconds = options.seconds
    ours, theirs, ratio, ratios, mine = pairs(
        options, lambda: bench.load(closed(seconds), url, iteration=iteration, top=top), lambda: peer(url + "/", seconds),
        "load_us", "cpu_us")
    show(label, ours, peer_name, theirs, ratio, ratios, goal)
    whole = statistics.median(one["cpu_us"] for one in mine)
    print(f"  {'  with results and report':44} {whole:8.2f} µs   {'':{len(peer_name)}} {'':11}   "
          f"ratio {whole / theirs:5.2f}")
    keep(f"{label}, against {peer_name}, with results and report", f"{whole / theirs:.2f}", "1.00" if peer_name == "wrk" else "")


@figure(1, "processor time a request against wrk, HTTP/1.1; ours signed and recorded")
def figure_1(options, bench, urls):
    need("wrk")
    against(options, bench, urls["http"], "wrk", wrk, 0.95, "50 connections")


@figure(2, "processor time a request against oha, HTTP/1.1; ours signed and recorded")
def figure_2(options, bench, urls):
    need("oha")
    against(options, bench, urls["http"], "oha", oha, 0.70, "50 connections")


@figure(3, "TLS against wrk, HTTP/2 against h2load; ours signed and recorded")
def figure_3(options, bench, urls):
    for name, peer_name, peer, goal, label, top in [
        ("https", "wrk", wrk, 1.00, "HTTPS, HTTP/1.1", "http: { version: '1.1' }\n"),
        ("h2", "h2load", h2load, 1.00, "HTTPS, HTTP/2", ""),
        ("h2c", "h2load", h2load, 1.00, "HTTP/2 in clear", "http: { version: '2' }\n"),
    ]:
        try:
            need(peer_name)
            against(options, bench, urls[name], peer_name, peer, goal, label, top)
        except Missing as missing:
            print(f"  skipped: {missing} is not installed")


@figure(4, "profiling on against off")
def figure_4(options, bench, urls):
    seconds, url = options.seconds, urls["http"]
    on, off, ratio, ratios, _ = pairs(
        options, lambda: bench.load(closed(seconds), url), lambda: bench.load(closed(seconds), url, "--no-profile"))
    show("whole load", on, "off", off, ratio, ratios, 1.03)


SCENARIO = """\
  - action: first
    get: /
    expect: { status: 200, json: { $.user.name: a } }
    extract: { id: { json: $.user.id } }
  - action: second
    get: "/?user={{ id }}"
    expect: { status: 200 }
    extract: { name: { json: $.user.name } }
  - action: third
    get: "/?user={{ id }}&name={{ name }}"
    headers: { X-User: "{{ id }}" }
    expect: { status: 200, body: { contains: filler } }
"""


@figure(5, "3 actions with extraction, templates and checks against the bare request, an action")
def figure_5(options, bench, urls):
    seconds, url = options.seconds, urls["http"]

    def scenario():
        seen = bench.load(closed(seconds), url, iteration=SCENARIO)
        return {"load_us": seen["load_us"] / 3}
    ours, bare, ratio, ratios, _ = pairs(options, scenario, lambda: bench.load(closed(seconds), url))
    show("an action", ours, "bare", bare, ratio, ratios, 1.25)


@figure(9, "figure 5 where each iteration is one of six users of a cloud")
def figure_9(options, bench, urls):
    if not os.environ.get("OS_AUTH_URL"):
        print('  skipped: it needs a Keystone: eval "$(REAL_WORKERS=1 tests/real/up.sh)"')
        return
    auth = ("auth: { keystone: { auth_url: {env: OS_AUTH_URL}, username: {env: OS_USERNAME}, password: {env: OS_PASSWORD}, "
            "project_name: {env: OS_PROJECT_NAME} } }\n")
    users = "contexts: { users: { tenants: 3, users_per_tenant: 2, user_choice_method: round_robin } }\n"

    def load(steps, actions, contexts=users):
        return lambda: {"load_us": bench.load(
            closed(options.seconds), urls["http"], iteration=steps + contexts, top=auth)["load_us"] / actions}
    three, bare = load(SCENARIO, 3), load("  - { action: get, get: / }\n", 1)
    for label, peer_name, peer in [("an action", "bare", bare), ("the same", "no users", load(SCENARIO, 3, ""))]:
        ours, theirs, ratio, ratios, _ = pairs(options, three, peer)
        show(label, ours, peer_name, theirs, ratio, ratios, 1.25)


@figure(6, "queue time at 10,000/s against a bare loop over a timer, in turn; deviation as the server sees it")
def figure_6(options, bench, urls):
    rate, seconds = 10_000, max(options.seconds, 3)
    for pacing, spin in [("", ()), (", pacing: precise", ("spin",))]:
        ours, bare, seen = [], [], []

        def measure_ours():
            with perf_server(options, "clock", rate) as url:
                ran = bench.load(f"rps: {{ rps: {rate}, duration: {seconds}{pacing} }}", url, "--workers", "1")
                with urllib.request.urlopen(url + "/deviation") as answer:
                    seen.append(json.load(answer))
            queue_time = ran["workload"]["start_lag"]
            ours.append({f"p{at}_us": percentile(queue_time, at) * 1e3 for at in (50, 99)})

        def measure_bare():
            bare.append(json.loads(run([options.timer, rate, seconds, *spin])[2]))
        for round_number in range(options.rounds):
            for measure in (measure_ours, measure_bare)[::1 if round_number % 2 == 0 else -1]:
                measure()
        for key in ("p50_us", "p99_us"):
            ratios = [one[key] / other[key] for one, other in zip(ours, bare)]
            label = f"{'pacing: precise' if pacing else 'default'}, {key[:3]}"
            show(label, middle(ours, key), "timer", middle(bare, key), statistics.median(ratios), ratios, 1.10)
        print(f"  {'':20} at the server p50 {middle(seen, 'p50_us'):.0f} p99 {middle(seen, 'p99_us'):.0f} µs", flush=True)
    with contextlib.suppress(Missing):
        seen = []
        for _ in range(options.rounds):
            with perf_server(options, "clock", rate) as url:
                run([need("oha"), "--no-tui", "-z", f"{seconds}s", "-c", 50, "-q", rate, url + "/"])
                with urllib.request.urlopen(url + "/deviation") as answer:
                    seen.append(json.load(answer)["p99_us"])
        print(f"  {'oha':20} at the server p99 {statistics.median(seen):.0f} µs")


def middle(measured, key):
    return statistics.median(one[key] for one in measured)


def percentile(distribution, wanted):
    for entry in distribution["percentiles"]:
        if entry["percentile"] == wanted:
            return entry["value_ms"]
    raise KeyError(wanted)


def errors(options, bench, label, server, rate, truth_of, goal):
    """How far the response times that bench and oha see are from the truth, in turn."""
    seen = {"bench": [], "oha": []}
    dropped = 0

    def ours():
        nonlocal dropped
        with perf_server(options, *server) as url:
            ran = bench.load(f"rps: {{ rps: {rate}, duration: 10, max_concurrency: 50 }}", url, dropped_ok=True)
            truth = truth_of(url)
        response = ran["workload"]["response_time"]
        dropped += ran["workload"]["iterations"]["dropped"]
        found = {"mean": response["mean_ms"], **{f"p{at}": percentile(response, at) for at in (95, 99)}}
        seen["bench"].append({name: found[name] / true - 1 for name, true in truth.items()})

    def theirs():
        with perf_server(options, *server) as url:
            report = json.loads(run([need("oha"), "--no-tui", "-z", "10s", "-q", rate, "-c", 50, "--latency-correction",
                                     "--output-format", "json", url + "/"])[2])
            truth = truth_of(url)
        found = {"mean": report["summary"]["average"] * 1e3,
                 **{f"p{at}": report["latencyPercentiles"][f"p{at}"] * 1e3 for at in (95, 99)}}
        seen["oha"].append({name: found[name] / true - 1 for name, true in truth.items()})
    for number in range(options.rounds):
        for measure in (ours, theirs)[::1 if number % 2 == 0 else -1]:
            with contextlib.suppress(Missing):
                measure()
    for name in seen["bench"][0]:
        off = {of: [one[name] for one in rounds] for of, rounds in seen.items() if rounds}
        text = "   ".join(f"{of} {statistics.median(all_):+.1%} ({min(all_):+.1%} to {max(all_):+.1%})"
                          for of, all_ in off.items())
        good = abs(statistics.median(off["bench"])) <= max([goal] + [abs(statistics.median(off.get("oha", [0.0])))])
        print(f"  {label + ', ' + name:44} {text}   goal {goal:.0%}, or no worse than oha  {'ok' if good else 'MISSED'}",
              flush=True)
        keep(f"{label}, {name}", text, f"{goal:.0%} or oha's")
    print(f"  dropped {dropped}   goal 0  {'ok' if dropped == 0 else 'MISSED'}", flush=True)


@figure(7, "response times against the truth, beside oha")
def figure_7(options, bench, urls):
    # A tenth of the arrivals falls into a stall and waits for the rest of it: 0 to 200 ms, evenly.
    errors(options, bench, "200 ms without answers every 2 s", ("stall", 2000, 200), 2000,
           lambda _: {"mean": 10.0, "p95": 100.0, "p99": 180.0}, 0.05)

    def served(url):
        with urllib.request.urlopen(url + "/took") as answer:
            return {name: took for name, took in json.load(answer).items() if name != "p50"}
    # What the server takes; the way to it and back comes on top.
    errors(options, bench, "every tenth answer takes 50 ms", ("tenth", 50), 2000, served, 0.05)


@figure(8, "memory at 8,000 connections")
def figure_8(options, bench, urls):
    need("wrk")
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if limit < 10_000:
        print(f"  skipped: this shell may open {limit} descriptors, 10,000 are needed (ulimit -n)")
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    seconds, many = options.seconds, 8_000

    def ours(users):
        return bench.load(f"constant: {{ times: 40000, concurrency: {users} }}", urls["http"])
    theirs = statistics.median(wrk(urls["http"], seconds, many)["peak_kb"] for _ in range(options.rounds))
    large = statistics.median(ours(many)["peak_kb"] for _ in range(options.rounds))
    small = statistics.median(ours(10)["peak_kb"] for _ in range(options.rounds))
    ratio, each = large / theirs, (large - small) / (many - 10)
    print(f"  peak {large / 1024:.0f} MB   wrk {theirs / 1024:.0f} MB   ratio {ratio:.2f}  goal 1.50  "
          f"{'ok' if ratio <= 1.5 else 'MISSED'}")
    keep("peak at 8,000 connections, against wrk", f"{ratio:.2f} ({large / 1024:.0f} MB)", "1.50")
    keep("a virtual user with a connection", f"{each:.1f} kB", "6 kB")
    print(f"  {each:.1f} kB a virtual user   goal 6  {'ok' if each <= 6 else 'MISSED'}", flush=True)

    # They think and never send, so they have no connections, but bench wants a descriptor for each.
    def idle(users):
        steps = "  - think: 8s\n  - { if: \"{{ iteration < 0 }}\", then: [ { action: get, get: / } ] }\n"
        return bench.load(f"constant: {{ times: {users}, concurrency: {users} }}", urls["http"], iteration=steps)["peak_kb"]
    users = min(100_000, limit - 1_000)
    large, small = (statistics.median(idle(count) for _ in range(options.rounds)) for count in (users, 10))
    whole = (small + (large - small) / (users - 10) * 100_000) / 1024
    print(f"  {users} idle users {large / 1024:.0f} MB; 100,000 take {whole:.0f} MB   goal 400  "
          f"{'ok' if whole <= 400 else 'MISSED'}", flush=True)
    keep("100,000 idle users", f"{whole:.0f} MB", "400 MB")


@figure(10, "two workers against one, and two threads of wrk against one, all beside the server on two processors")
def figure_10(options, bench, urls):
    # The server needs a processor too, so the rate itself cannot double here; but processor time an iteration grows with
    # all that two workers have to share or to wait for. What wrk's threads, which share nothing, cost more is the machine's.
    def ours(workers):
        return lambda: bench.load(closed(options.seconds), urls["http"], "--workers", str(workers), cpu=None)
    two, one, ratio, ratios, _ = pairs(options, ours(2), ours(1))
    show("two workers", two, "one worker", one, ratio, ratios, 1.05)

    def theirs(threads):
        return lambda: wrk(urls["http"], options.seconds, threads=threads, cpu=None)
    with contextlib.suppress(Missing):
        two, one, theirs_ratio, ratios, _ = pairs(options, theirs(2), theirs(1), "cpu_us")
        show("wrk, two threads", two, "one thread", one, theirs_ratio, ratios, 1.05)
        print(f"  {'':44} the two ratios' ratio {ratio / theirs_ratio:.2f}", flush=True)


@figure(11, "2 and 4 shards, merged, against one process with as many workers; all clients on one processor")
def figure_11(options, bench, urls):
    for count in (2, 4):
        load = closed(options.seconds)
        shards, whole, ratio, ratios, mine = pairs(
            options, lambda: bench.shards(load, urls["http"], count),
            lambda: bench.load(load, urls["http"], "--workers", str(count)), key="cpu_us")
        show(f"{count} shards, with results", shards, f"{count} workers", whole, ratio, ratios, 1.10)
        of = {at: statistics.median(percentile(one["workload"]["response_time"], at) for one in mine) for at in (50, 99)}
        print(f"  {'':44} p50 {of[50]:.2f} ms, p99 {of[99]:.2f} ms", flush=True)


@figure(12, "processor time a request against goose, HTTP/1.1; ours signed and recorded")
def figure_12(options, bench, urls):
    against(options, bench, urls["http"], "goose", goose(options), 0.70, "50 connections")


@contextlib.contextmanager
def grpc_service(folder):
    """A server whose answer to any call is an order with the id `a`; and a file with the body of a call."""
    home = Path(tempfile.mkdtemp(dir=folder))
    (home / "www/shop.v1.Orders").mkdir(parents=True)
    (home / "www/shop.v1.Orders/Get").write_bytes(b"\0\0\0\0\x03\x0a\x01a")
    (home / "call").write_bytes(b"\0\0\0\0\x05\x0a\x03o-1")
    port = free_port()
    process = subprocess.Popen(
        ["taskset", "-c", SERVER_CPU, need("nghttpd"), "--no-tls", "--address=127.0.0.1", f"--htdocs={home}/www",
         "--trailer=grpc-status: 0", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        yield f"http://127.0.0.1:{port}", home / "call"
    finally:
        process.terminate()
        process.wait()


@figure(13, "processor time of a unary gRPC call against h2load, which sends the same bytes; ours signed and recorded")
def figure_13(options, bench, urls):
    need("h2load")
    with grpc_service(bench.folder) as (url, body):
        def peer(_, seconds):
            flags = [f"--data={body}", "--header=content-type: application/grpc", "--header=te: trailers"]
            return h2load(f"{url}/shop.v1.Orders/Get", seconds, *flags)

        call = "  - { action: get, grpc: shop.v1.Orders/Get, message: { id: o-1 } }\n"
        types = f"grpc: {{ protos: ['{ROOT}/tests/grpc/shop.proto'] }}\n"
        against(options, bench, url, "h2load", peer, 1.00, "unary gRPC in clear", iteration=call + types)
        for name, made, goal in [("tonic", lambda: tonic(options), 0.25), ("grpcio", grpcio, 0.05)]:
            command = made()

            def client(_, seconds, command=command):
                cpu_s, peak_kb, output = run([*command(url), CONNECTIONS, seconds])
                return {"cpu_us": cpu_s / int(re.search(r"(\d+) calls", output)[1]) * 1e6, "peak_kb": peak_kb}
            against(options, bench, url, name, client, goal, "unary gRPC in clear", iteration=call + types)


def tonic(options):
    """tonic is a library: the client that uses it is built here, once."""
    target = options.target / "tonic"
    program = target / "release/tonic-load"
    if not options.no_build:
        subprocess.run(["cargo", "build", "--release", "--target-dir", target], cwd=HERE / "tonic")
    if not program.exists():
        raise Missing("tonic")
    return lambda url: [program, url]


def grpcio():
    python = os.environ.get("BENCH_TEST_GRPC_PYTHON")
    if not python:
        raise Missing("grpcio (tests/real/grpc.sh)")
    return lambda url: [python, HERE / "grpcio_calls.py", url.removeprefix("http://")]


@figure(14, "memory of 10,000 open streams of events, one event a second each")
def figure_14(options, bench, urls):
    streams, port = 10_000, free_port()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most != resource.RLIM_INFINITY and most < 2 * streams:
        raise Missing(f"a limit of {2 * streams} descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * streams, most))
    server = subprocess.Popen([sys.executable, ROOT / "tests/perf/ticks.py", str(port)])
    try:
        wait_for(port)
        home = Path(tempfile.mkdtemp(dir=bench.folder))
        (home / "deployment.yaml").write_text(f"targets: {{ default: 'http://127.0.0.1:{port}' }}\n")
        (home / "scenario.yaml").write_text(
            f"title: streams\ndeployment: deployment.yaml\n"
            f"runner: {{ constant: {{ times: {streams}, concurrency: {streams} }} }}\n"
            f"iteration:\n  - {{ action: ticks, get: /, stream: {{ as: events, for: 25s }}, timeout: 60s }}\n")
        load = subprocess.Popen([options.bench, "run", "scenario.yaml", "--quiet"], cwd=home, stdout=subprocess.DEVNULL)
        time.sleep(20)
        open_kb = int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{load.pid}/status").read_text())[1])
        _, status, usage = os.wait4(load.pid, 0)
        load.returncode = os.waitstatus_to_exitcode(status)
        (results,) = home.glob("runs/*/results.json")
        action = summary(results)["workloads"][0]["actions"][0]
        seen = action["streams"]
        if seen["streams"] != streams or seen["messages"] < 20 * streams:
            raise RuntimeError(f"not all streams were open: {seen['streams']} with {seen['messages']} events")
        print(f"  {streams:,} streams, {seen['messages']:,} events   {open_kb * 1024 / 1e6:.0f} MB while they are open, "
              f"{usage.ru_maxrss * 1024 / 1e6:.0f} MB with results and report   goal 100 MB")
        keep("10,000 open streams of events", f"{open_kb * 1024 / 1e6:.0f} MB", "100 MB")
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def echo_service():
    """A WebSocket that sends back what it gets."""
    modules = os.environ.get("BENCH_TEST_WEBSOCKET_NODE")
    if not modules:
        raise Missing("ws (tests/real/websocket.sh)")
    process = subprocess.Popen(
        ["taskset", "-c", SERVER_CPU, "node", ROOT / "tests/websocket/echo.js"], stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, env={**os.environ, "NODE_PATH": modules})
    try:
        yield process.stdout.readline().split()[1].decode()
    finally:
        process.stdin.close()
        process.wait()


@figure(15, "processor time of a WebSocket with 100 messages and their answers, against clients of Node and Python")
def figure_15(options, bench, urls):
    with echo_service() as port:
        steps = "[{ repeat: 100, steps: [{ send: a message of a usual length, receive: { text: usual } }] }]"
        iteration = f"  - {{ action: open, websocket: /, steps: {steps} }}\n"
        python = os.environ["BENCH_TEST_WEBSOCKET_PYTHON"]
        peers = [("ws", ["node", HERE / "echoes.js"], 1.0), ("websockets", [python, HERE / "echoes.py"], 0.5)]
        for name, command, goal in peers:
            def client(_, seconds, command=command):
                os.environ["NODE_PATH"] = os.environ["BENCH_TEST_WEBSOCKET_NODE"]
                cpu_s, peak_kb, output = run([*command, f"ws://127.0.0.1:{port}/", CONNECTIONS, seconds])
                return {"cpu_us": cpu_s / int(re.search(r"(\d+) WebSockets", output)[1]) * 1e6, "peak_kb": peak_kb}
            url = f"http://127.0.0.1:{port}"
            against(options, bench, url, name, client, goal, "WebSocket in clear", iteration=iteration)


def build(options):
    """Builds the peers' servers, which need nothing of bench; the program is there already."""
    target = options.target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    options.server, options.timer = target / "release/perf-server", target / "release/perf-timer"
    options.bench = options.bench or target / options.column / "bench"
    if not options.bench.exists():
        how = "--release" if options.column == "release" else f"--profile {options.column}"
        sys.exit(f"{options.bench} does not exist: build it by `cargo build {how}`, or name a program by --bench")
    if not options.no_build:
        subprocess.run(["cargo", "build", "--locked", "--release", "--package", "perf-peers"], check=True, cwd=ROOT)


def write(column):
    """Puts what was measured into the table: a row that is there is changed, a new one added, all others stay."""
    begin, end = "<!-- run.py writes what follows -->\n", "<!-- until here -->\n"
    before, rest = TABLE.read_text().split(begin)
    old, after = rest.split(end, 1)
    columns = ["figure", "", "release", "dist", "goal"]
    rows = {}
    for line in old.splitlines()[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        rows[cells[0], cells[1]] = cells
    for number, label, measured, goal in ROWS:
        row = rows.setdefault((str(number), label), [str(number), label, "", "", goal])
        row[columns.index(column)] = f"{measured}, {datetime.date.today()}"
        row[-1] = goal
    lines = [columns, ["---"] * len(columns), *sorted(rows.values(), key=lambda row: int(row[0]))]
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    TABLE.write_text(before + begin + table + end + after)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", type=int, metavar="FIGURE")
    parser.add_argument("--quick", action="store_true", help="3 rounds of a second, and only the figures " + " ".join(map(str, QUICK)))
    parser.add_argument("--rounds", type=int, help="default 7")
    parser.add_argument("--seconds", type=int, help="of each load, default 4")
    parser.add_argument("--bench", type=Path, help="a program to measure instead of the one in target")
    parser.add_argument("--column", choices=["release", "dist"], default="release", help="the build profile of the program")
    parser.add_argument("--write", action="store_true", help=f"write the medians into {TABLE.relative_to(ROOT)}")
    parser.add_argument("--no-build", action="store_true", help="take the peers that were built before")
    options = parser.parse_args()
    if unknown := set(options.figures) - set(FIGURES):
        parser.error(f"no figure {min(unknown)}; there are {', '.join(map(str, sorted(FIGURES)))}")
    if options.quick and options.write:
        parser.error("--quick proves nothing that should be written down: leave out one of --quick and --write")
    options.rounds = options.rounds or (3 if options.quick else 7)
    options.seconds = options.seconds or (1 if options.quick else 4)
    build(options)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory() as folder, nginx(folder) as urls:
        bench = Bench(options.bench, Path(folder))
        for number in options.figures or (QUICK if options.quick else sorted(FIGURES)):
            figure.now = number
            title, function = FIGURES[number]
            print(f"{number}  {title}", flush=True)
            try:
                function(options, bench, urls)
            except Missing as missing:
                print(f"  skipped: {missing} is not installed", flush=True)
    if options.write:
        write(options.column)


if __name__ == "__main__":
    main()
