#!/usr/bin/env python3
"""Does a load generator that is kept from running ever give a wrong PASS or FAIL?

    python3 tests/perf/kept.py target/debug/bench [--only stop,quota,busy] [--runners closed,open] [--seconds 5]

A service on this machine, good or bad, gets a load from a `bench` that is stopped for a part of each period (SIGSTOP),
has a quota of processor time (a control group, where one can be made: root), or shares one processor with busy loops
(taskset). The bad service has a limited number of places in each tenth of a second and refuses the others, more than
half of what an undisturbed load asks for: a load that is made too slowly does not see it. The good one answers after
10 ms; the limit is 60 ms.

It prints a row for each run and exits with 1 if one has a wrong verdict: PASS for the bad service, FAIL for the good
one, or INVALID although nothing kept bench from running (other programs of a busy machine may: then the share of the run
queue is large). It ends only processes that it started.
"""

import argparse
import asyncio
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

DELAY_S, USERS, RATE = 0.010, 4, 300
# In each tenth of a second. An undisturbed load asks for about 30 to 36; a serial one for 8 or 9.
PLACES, PLACES_OF_SERIAL = 14, 4
RUNNERS = {
    "closed": "{ constant_for_duration: { duration: %d, concurrency: 4 } }",
    "serial": "{ serial: { times: %d } }",
    "users": "{ ramping: { start: 4, stages: [ { duration: %d, concurrency: 4 } ] } }",
    "open": "{ rps: { rps: 300, duration: %d } }",
    "ramping": "{ ramping: { start: 300, stages: [ { duration: %d, rps: 300 } ] } }",
}
# The stopped part and the whole of each period, in milliseconds.
STOPS = [(0, 100), (10, 1000), (50, 1000), (10, 70), (20, 80), (35, 70), (50, 70), (18, 20), (180, 200)]
# The quota and its period, in milliseconds.
QUOTAS = [(1.5, 100), (2, 100), (5, 100), (20, 100), (2, 10), (100, 100)]
BUSY = [0, 1, 4, 8]


def serve(places):
    window = [0, 0]

    async def answer(reader, writer):
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                at = int(time.monotonic() * 10)
                if at != window[0]:
                    window[:] = [at, 0]
                window[1] += 1
                full = places and window[1] > places
                await asyncio.sleep(DELAY_S)
                writer.write(b"HTTP/1.1 %s\r\nContent-Length: 2\r\n\r\nok" % (b"503 Full" if full else b"200 OK"))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def main():
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()

    asyncio.run(main())


class Quota:
    """A control group with a quota, in either version; `None` where none can be made."""

    def __init__(self):
        self.directory = None
        name = f"bench-kept-{os.getpid()}"
        for top, limit in [("/sys/fs/cgroup", "cpu.max"), ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us")]:
            directory = os.path.join(top, name)
            try:
                os.mkdir(directory)
                if os.path.exists(os.path.join(directory, limit)):
                    self.directory, self.first = directory, limit != "cpu.max"
                    return
                os.rmdir(directory)
            except OSError:
                pass

    def write(self, name, text):
        with open(os.path.join(self.directory, name), "w") as file:
            file.write(text)

    def set(self, quota_ms, period_ms):
        quota, period = int(quota_ms * 1000), int(period_ms * 1000)
        if self.first:
            self.write("cpu.cfs_quota_us", "-1")
            self.write("cpu.cfs_period_us", str(period))
            self.write("cpu.cfs_quota_us", str(quota))
        else:
            self.write("cpu.max", f"{quota} {period}")

    def add(self, pid):
        self.write("cgroup.procs", str(pid))

    def close(self):
        if self.directory:
            os.rmdir(self.directory)


def disturbed(process, kind, how, quota):
    """Waits for the end of the run, which is disturbed."""
    if kind == "quota":
        quota.set(*how)
        quota.add(process.pid)
    if kind != "stop" or how[0] == 0:
        return process.communicate()
    stopped, period = how
    # Nothing is stopped before the load.
    time.sleep(0.3)
    while process.poll() is None:
        process.send_signal(signal.SIGSTOP)
        time.sleep(stopped / 1e3)
        process.send_signal(signal.SIGCONT)
        time.sleep((period - stopped) / 1e3)
    return process.communicate()


def runner_of(runner, seconds):
    # A serial run has a number of iterations only.
    return RUNNERS[runner] % (seconds * 80 if runner == "serial" else seconds)


def run(bench, runner, seconds, bad, kind, how, quota):
    places = PLACES_OF_SERIAL if runner == "serial" else PLACES
    service = subprocess.Popen([sys.executable, __file__, "--serve", str(places if bad else 0)],
                               stdout=subprocess.PIPE, text=True)
    hogs = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            port = int(service.stdout.readline())
            with open(f"{folder}/d.yaml", "w") as file:
                file.write(f"targets: {{ default: 'http://127.0.0.1:{port}' }}\n")
            with open(f"{folder}/s.yaml", "w") as file:
                file.write(f"title: t\ndeployment: d.yaml\nprofile: false\nrunner: {runner_of(runner, seconds)}\n"
                           "iteration: [ { get: /x } ]\n"
                           "sla: { failure_rate: { max: 20 }, thresholds: [ p90 < 60ms ] }\n"
                           if not bad else
                           f"title: t\ndeployment: d.yaml\nprofile: false\nrunner: {runner_of(runner, seconds)}\n"
                           "iteration: [ { get: /x } ]\nsla: { failure_rate: { max: 20 } }\n")
            command = [bench, "run", "s.yaml"]
            if kind == "busy":
                command = ["taskset", "-c", "0"] + command
                hogs = [subprocess.Popen(["taskset", "-c", "0", sys.executable, "-c", "while True: pass"])
                        for _ in range(how)]
            process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            out, err = disturbed(process, kind, how, quota)
        finally:
            for one in [service, *hogs]:
                one.kill()
                one.wait()
        found = glob.glob(f"{folder}/**/results.json", recursive=True)
        if not found:
            sys.exit(f"bench made no results:\n{out}{err}")
        with open(found[0]) as file:
            return json.load(file)


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("bench", nargs="?")
    arguments.add_argument("--serve", type=int)
    arguments.add_argument("--only", default="stop,quota,busy")
    arguments.add_argument("--runners", default="closed,open")
    arguments.add_argument("--seconds", type=int, default=5)
    given = arguments.parse_args()
    if given.serve is not None:
        return serve(given.serve)
    bench, quota, wrong, count = os.path.abspath(given.bench), Quota(), 0, 0
    cases = [("stop", how) for how in STOPS] + [("quota", how) for how in QUOTAS] + [("busy", how) for how in BUSY]
    print(f"{'disturbance':24} {'runner':8} {'service':8} {'verdict':13} {'failed':>7} {'p50 ms':>7} "
          f"{'run queue':>9} {'kept':>6}  note")
    try:
        for kind, how in cases:
            if kind not in given.only.split(","):
                continue
            if kind == "quota" and not quota.directory:
                print("no quota can be set here: no control group can be made")
                continue
            name = {"stop": lambda: f"stopped {how[0]} of {how[1]} ms", "quota": lambda: f"quota {how[0]} of {how[1]} ms",
                    "busy": lambda: f"one core, {how} busy"}[kind]()
            for runner in given.runners.split(","):
                for bad in (False, True):
                    results = run(bench, runner, given.seconds, bad, kind, how, quota)
                    workers, workload = results["generator"]["workers"], results["workloads"][0]
                    verdict, counts = results["verdict"]["outcome"], workload["iterations"]
                    share = lambda key: max(one[key] / one["load_s"] for one in workers)
                    p50 = next((p["value_ms"] for p in workload["response_time"]["percentiles"]
                                if p["percentile"] == 50), 0)
                    undisturbed = kind == "stop" and how[0] == 0
                    is_wrong = verdict == ("PASS" if bad else "FAIL") or (undisturbed and verdict == "INVALID" and share("run_queue_s") < 0.2)
                    noted = any("kept from running" in note for note in results["notes"])
                    wrong, count = wrong + is_wrong, count + 1
                    print(f"{name:24} {runner:8} {'bad' if bad else 'good':8} {verdict:13} "
                          f"{counts['failed'] / max(counts['total'], 1):7.1%} {p50:7.1f} {share('run_queue_s'):9.1%} "
                          f"{share('kept_s'):6.1%}  {'noted ' if noted else ''}{'WRONG' if is_wrong else ''}", flush=True)
    finally:
        quota.close()
    print(f"{wrong} of {count} verdicts are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
