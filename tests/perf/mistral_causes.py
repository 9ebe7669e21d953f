#!/usr/bin/env python3
"""How often the right cause is named in a real Mistral: plants each cause several times.

    tests/perf/mistral_causes.py 10               # each cause 10 times, one after the other
    tests/perf/mistral_causes.py 1 database       # only these causes

    action      one in four executions has an action that takes longer (std.sleep)
    http        one in four asks a slow service (std.http)
    database    one in four waits for the engine's database when its first action is stored
    executor    the executor does not run for a while, again and again; messages for it wait

It starts Keystone and Mistral by tests/real/openstack.sh, in a directory of their own (REAL_DIR, default .real/mistral),
which keep running until `REAL_DIR=.real/mistral tests/real/down.sh`. Otherwise it is as tests/perf/openstack_causes.py.
With REAL_MISTRAL_TRACES=shipped, most of an execution is in other traces than its request's, and no cause can be named.
"""

import contextlib
import http.server
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
os.environ["REAL_DIR"] = os.environ.get("REAL_DIR") or str(HERE.parents[1] / ".real" / "mistral")

import openstack_causes as series

SECONDS = series.SECONDS
# For how long the executor is held back, and then let go: an execution takes less than half a second.
HELD_SECONDS, FREE_SECONDS = 1.5, 2
ACTION = series.Named("mistral/mistral-executor", "default-executor-run-action")
CAUSES = {
    "healthy": series.Cause(None, {}, "workflow"),
    "action": series.Cause(ACTION, {}, "workflow"),
    "http": series.Cause(ACTION, {}, "workflow"),
    "database": series.Cause(series.Named("mistral/mistral-engine", "db", "INSERT INTO action_executions_v2"), {}, "workflow"),
    "executor": series.Cause(series.Named("", "queue of RPC"), {}, "workflow"),
}
TRIGGER = ("CREATE OR REPLACE TRIGGER bench_plant BEFORE INSERT ON action_executions_v2 FOR EACH ROW "
           "IF NEW.input LIKE '%%planted%%' THEN DO SLEEP(%f); END IF")


def start():
    """The environment of the services, once they run."""
    series.REAL_DIR.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "REAL_SERVICES": "mistral", "REAL_TOKEN_CACHE": "300"}
    started = subprocess.run([series.REPOSITORY / "tests/real/openstack.sh"], env=environment, stdout=subprocess.PIPE,
                             text=True, check=False)
    if started.returncode != 0:
        sys.exit("Mistral does not start")
    words = [word for line in started.stdout.splitlines() for word in shlex.split(line)]
    return {**environment, **dict(word.split("=", 1) for word in words if "=" in word)}


class Service(http.server.BaseHTTPRequestHandler):
    """The one that workflows ask."""

    def do_GET(self):
        if self.path == "/slow":
            time.sleep(SECONDS)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


@contextlib.contextmanager
def database():
    """Storing an action's execution takes long if its input says so."""
    execute(TRIGGER % SECONDS)
    try:
        yield
    finally:
        execute("DROP TRIGGER IF EXISTS bench_plant")


def execute(statement):
    python = pathlib.Path(json.loads((series.CLOUD / "settings.json").read_text())["venv"]) / "bin" / "python"
    code = """if True:
        import pymysql, sys
        with pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="bench", password="bench", database="mistral",
                             autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(sys.argv[2])
    """
    subprocess.run([python, "-I", "-c", code, str(series.ports()["mariadb"]), statement], check=True)


@contextlib.contextmanager
def executor():
    """The executor stops for a while, again and again: often enough to hit more executions than the slowest few."""
    process = int((series.CLOUD / "run" / "mistral" / "executor.pid").read_text())
    over = threading.Event()

    def hold():
        while not over.wait(FREE_SECONDS):
            os.kill(process, signal.SIGSTOP)
            over.wait(HELD_SECONDS)
            os.kill(process, signal.SIGCONT)

    thread = threading.Thread(target=hold)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


PLANTS = {"database": database, "executor": executor}


def run(environment, cause, out, *options):
    """Runs a load with a planted cause, and leaves its run in this directory."""
    with serving() as server, PLANTS.get(cause, contextlib.nullcontext)():
        command = [series.program(), "run", HERE / "plants" / "workflow.yaml", "-d", series.REAL_DIR / "deployment.yaml",
                   "--out", out, "--no-probe", "--quiet", "--set", f"cause={cause}", "--set", f"seconds={SECONDS}",
                   "--set", f"every={series.EVERY}", "--set", f"server={server}", *options]
        try:
            ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=1200, check=False)
            (out.parent / f"{out.name}.txt").write_text(ended.stdout + ended.stderr)
        except subprocess.TimeoutExpired as error:
            print(error, file=sys.stderr)


def main():
    series.CAUSES = CAUSES
    given = series.arguments(__doc__)
    if given.again:
        series.judge_again(given.again).print()
        return
    times, causes = max(1, given.times), given.causes or list(CAUSES)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mistral-causes-"))
    environment = start()
    deployment = series.REAL_DIR / "deployment.yaml"
    deployment.write_text(series.DEPLOYMENT)
    deployment.chmod(0o600)
    counts = series.Counts()
    # First requests of a service load what the others find.
    run(environment, "healthy", folder / "warm-up", "-n", "6")
    for number in range(times):
        for cause in causes:
            out = folder / f"{cause}-{number}"
            run(environment, cause, out)
            counts.count(cause, out)
    counts.print()
    print(f"the runs: {folder}")


if __name__ == "__main__":
    main()
