#!/usr/bin/env python3
"""How often the right cause is named in a real cloud: plants each cause in its services several times.

    tests/perf/openstack_causes.py 10               # each cause 10 times, one after the other
    tests/perf/openstack_causes.py 1 port broker    # only these causes
    tests/perf/openstack_causes.py --again FOLDER   # judges runs of before again, by their stored traces

It starts Keystone, Placement, Glance, Neutron and Nova by tests/real/openstack.sh, in a directory of their own
(REAL_DIR, default .real/causes), with two more nova-computes, and stops these two when it ends; the rest keeps running
until `REAL_DIR=.real/causes tests/real/down.sh`. Each run is a load of 100 iterations with one planted cause, which hits
some of them, or none (`healthy`). Right: the planted cause is the first that the comparison names; nothing: no cause is
named; wrong: another one is; failed: anything else. All runs are kept in a folder that is printed. BENCH names the program,
default target/release/bench, or else target/debug/bench.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
REAL_DIR = pathlib.Path(os.environ.get("REAL_DIR") or REPOSITORY / ".real" / "causes").resolve()
CLOUD = REAL_DIR / "openstack"
PLANT = REAL_DIR / "plant.json"
HOSTS = ("bench-host-2", "bench-host-3")
# Longer than what a busy machine does by itself.
SECONDS = 2.5
# One trace in this many is hit.
EVERY = 4
WORDS = ("right", "nothing", "wrong", "failed")

Named = collections.namedtuple("Named", "service name detail host", defaults=("", None))
Cause = collections.namedtuple("Cause", "named plant scenario networks keep", defaults=({}, "boot", "none", "no"))
# What must be named for each cause, and what the services are told beside it.
CAUSES = {
    "healthy": Cause(None),
    "placement": Cause(Named("placement", "wsgi", "GET /allocation_candidates")),
    "lock": Cause(Named("nova/osapi_compute", "db", "INSERT INTO request_specs"), {"table": "nova_api.request_specs"}),
    "broker": Cause(Named("", "queue of RPC")),
    "filter": Cause(Named("nova/nova-scheduler", "rpc", "select_destinations")),
    "compute": Cause(Named("nova/nova-compute", "rpc", "build_and_run_instance", HOSTS[1]),
                     {"host": HOSTS[1], "every": 1}, keep="yes"),
    "glance": Cause(Named("glance/api", "wsgi", "PUT /v2/images/{id}/file"), {}, "image"),
    "port": Cause(Named("neutron/neutron-server", "wsgi", "PUT /v2.0/ports/{id}"), {}, "boot", "auto"),
    "token": Cause(Named("keystone/public", "", "")),
}

DEPLOYMENT = """
auth:
  keystone:
    auth_url: { env: OS_AUTH_URL }
    username: { env: OS_USERNAME }
    password: { env: OS_PASSWORD }
    project_name: { env: OS_PROJECT_NAME }
    user_domain_name: Default
    project_domain_name: Default
profiler:
  hmac_key: { env: OSPROFILER_HMAC_KEY }
  connection_string: { env: OSPROFILER_CONNECTION_STRING }
"""


def arguments(about=__doc__):
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("times", nargs="?", type=int, default=10, help="how often each cause runs")
    parser.add_argument("causes", nargs="*", help="default: all")
    parser.add_argument("--again", metavar="FOLDER", type=pathlib.Path, help="judge the runs in this folder")
    given = parser.parse_args()
    unknown = sorted(set(given.causes) - set(CAUSES))
    if unknown:
        parser.error(f"no such cause: {', '.join(unknown)}; there are {', '.join(CAUSES)}")
    return given


def plant(cause):
    """Tells the services what to do from now on."""
    found = {"cause": cause, "seconds": SECONDS, "every": EVERY, **CAUSES[cause].plant}
    if cause == "lock":
        found["database"] = {"host": "127.0.0.1", "port": ports()["mariadb"], "user": "bench", "password": "bench"}
    if cause == "broker":
        found["group"] = int((CLOUD / "run" / "rabbitmq.pid").read_text().split()[0])
    new = PLANT.with_suffix(".new")
    new.write_text(json.dumps(found))
    new.rename(PLANT)


def ports():
    return json.loads((CLOUD / "settings.json").read_text())["ports"]


def start():
    """The environment of the cloud, once it runs."""
    REAL_DIR.mkdir(parents=True, exist_ok=True)
    plant_nothing()
    environment = {**os.environ, "REAL_DIR": str(REAL_DIR), "REAL_SERVICES": "nova", "REAL_TOKEN_CACHE": "300",
                   "REAL_PYTHONPATH": str(HERE / "plants"), "BENCH_PLANT_FILE": str(PLANT)}
    started = subprocess.run([REPOSITORY / "tests/real/openstack.sh"], env=environment, stdout=subprocess.PIPE,
                             text=True, check=False)
    if started.returncode != 0:
        sys.exit("the cloud does not start")
    words = [word for line in started.stdout.splitlines() for word in shlex.split(line)]
    exported = dict(word.split("=", 1) for word in words if "=" in word)
    return {**environment, **exported}


def plant_nothing():
    PLANT.write_text(json.dumps({"cause": "healthy", "seconds": 0, "every": 1}))


class Computes:
    """Two more nova-computes, each under a host name and with a state path of its own. The host name is also the kernel's,
    which OSProfiler reports; that needs root."""

    def __init__(self, environment):
        self.processes, self.environment = [], environment

    def __enter__(self):
        settings = json.loads((CLOUD / "settings.json").read_text())
        python = pathlib.Path(settings["venv"]) / "bin" / "python"
        of_first = (CLOUD / "run" / "nova-compute" / "nova.conf").read_text()
        environment = {**self.environment, "PYTHONPATH": str(HERE / "plants"), "PYTHONDONTWRITEBYTECODE": "1",
                       "HOME": str(CLOUD / "home"), "TMPDIR": str(CLOUD / "tmp")}
        for host in HOSTS:
            folder = CLOUD / "run" / host
            state = CLOUD / "state" / host
            folder.mkdir(exist_ok=True)
            state.mkdir(exist_ok=True)
            conf = re.sub(r"(?m)^host = .*$", f"host = {host}", of_first)
            conf = re.sub(r"(?m)^state_path = .*$", f"state_path = {state}", conf)
            conf = re.sub(r"(?m)^log_file = .*$", f"log_file = {CLOUD}/log/{host}.log", conf)
            (folder / "nova.conf").write_text(conf)
            as_host = ["unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"', host]
            command = [*as_host, python, python.with_name("nova-compute"), "--config-file", folder / "nova.conf"]
            with open(CLOUD / "log" / f"{host}.out", "ab") as output:
                self.processes.append(subprocess.Popen(command, cwd=folder, env=environment, stdout=output,
                                                       stderr=output, stdin=subprocess.DEVNULL))
        self.agents(python)
        api = Api(self.environment)
        manage = [python, python.with_name("nova-manage"), "--config-file", CLOUD / "run/nova-api/nova.conf",
                  "cell_v2", "discover_hosts"]
        deadline = time.monotonic() + 300
        while not set(HOSTS) <= api.computes():
            if time.monotonic() > deadline:
                sys.exit(f"the further computes do not come up, see {CLOUD}/log")
            time.sleep(3)
            subprocess.run(manage, env=environment, capture_output=True, check=False)
        return self

    def agents(self, python):
        """What agents of Neutron's would have reported; tests/real/openstack.sh does so for the first host."""
        code = """if True:
            import pymysql, sys
            with pymysql.connect(host="127.0.0.1", port=int(sys.argv[1]), user="bench", password="bench",
                                 database="neutron", autocommit=True) as connection, connection.cursor() as cursor:
                for number, host in enumerate(sys.argv[2:], 2):
                    cursor.execute(
                        "REPLACE INTO agents SELECT CONCAT('00000000-0000-4000-8000-00000000000', %s), agent_type, `binary`, "
                        "topic, %s, admin_state_up, created_at, started_at, heartbeat_timestamp, description, configurations, "
                        "`load`, availability_zone, resource_versions, resources_synced FROM agents WHERE host = 'bench-host'",
                        (number, host))
        """
        subprocess.run([python, "-I", "-c", code, str(ports()["mariadb"]), *HOSTS], check=True)

    def __exit__(self, *_):
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


class Api:
    """The few requests that the series itself sends."""

    def __init__(self, environment):
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self.token = None
        domain = {"id": "default"}
        user = {"name": environment["OS_USERNAME"], "domain": domain, "password": environment["OS_PASSWORD"]}
        headers, body = self.call("POST", environment["OS_AUTH_URL"] + "/auth/tokens", {"auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": environment["OS_PROJECT_NAME"], "domain": domain}},
        }})
        self.token = headers["X-Subject-Token"]
        endpoints = {one["type"]: one["endpoints"][0]["url"] for one in body["token"]["catalog"]}
        self.nova = endpoints["compute"]

    def call(self, method, url, body=None):
        headers = {"Content-Type": "application/json", **({"X-Auth-Token": self.token} if self.token else {})}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, headers, method=method)
        with self.opener.open(request, timeout=60) as answer:
            content = answer.read()
            return answer.headers, json.loads(content) if content else None

    def computes(self):
        """Hosts that can get servers: Nova lists them, and they are up."""
        found = self.call("GET", self.nova + "/os-hypervisors/detail")[1]["hypervisors"]
        return {one["service"]["host"] for one in found if one["state"] == "up"}

    def delete_servers(self):
        def delete(server):
            try:
                self.call("DELETE", f"{self.nova}/servers/{server['id']}")
            except OSError:
                pass

        for _ in range(50):
            servers = self.call("GET", self.nova + "/servers")[1]["servers"]
            if not servers:
                return
            with concurrent.futures.ThreadPoolExecutor(4) as pool:
                list(pool.map(delete, servers))
            time.sleep(1)


def program():
    if os.environ.get("BENCH"):
        return pathlib.Path(os.environ["BENCH"]).resolve()
    built = [REPOSITORY / "target" / kind / "bench" for kind in ("release", "debug")]
    found = next((one for one in built if one.is_file()), None)
    return found or sys.exit(f"no program at {built[0]}: build it, or name it in BENCH")


def is_it(kind, named):
    fits = (not named.service or kind["service"] == named.service) and (not named.name or kind["name"] == named.name)
    hosts = [one["value"] for one in kind.get("contrasts", []) if one["attribute"] == "host"]
    return fits and named.detail in kind["detail"] and (named.host is None or named.host in hosts)


def judge(cause, results):
    """What was said, and of what."""
    comparison = results["workloads"][0].get("comparison")
    if comparison is None or comparison["no_finding"] in ("few_traces", "incomplete"):
        return "failed", str(comparison and comparison["no_finding"])
    causes = [kind for kind in comparison["kinds"] if kind["guilty"]]
    first = causes[0] if causes else comparison["kinds"][0] if comparison["kinds"] else None
    said = first and f"{first['service']} {first['name']} {first['detail'][:80]} {first['share']:.0%}"
    named = CAUSES[cause].named
    if not causes:
        return ("right" if named is None else "nothing"), said
    return ("right" if named and is_it(causes[0], named) else "wrong"), said


def run(environment, cause, out):
    """Runs a load with a planted cause, and leaves its run in this directory."""
    planted = CAUSES[cause]
    command = [program(), "run", HERE / "plants" / f"{planted.scenario}.yaml", "-d", REAL_DIR / "deployment.yaml",
               "--out", out, "--no-probe", "--quiet"]
    if planted.scenario == "boot":
        command += ["--set", f"networks={planted.networks}", "--set", f"keep={planted.keep}"]
    plant(cause)
    try:
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
        out.with_suffix(".txt").write_text(ended.stdout + ended.stderr)
    except subprocess.TimeoutExpired as error:
        print(error, file=sys.stderr)
    finally:
        plant_nothing()


def said_of(cause, out):
    found = sorted(out.glob("*/results.json"))
    if not found:
        return "failed", "no results"
    results = json.loads(found[0].read_text())
    if results["workloads"][0]["iterations"]["failed"]:
        return "failed", results["reason"]["sentence"]
    return judge(cause, results)


class Counts:
    """What was said of each cause."""

    def __init__(self):
        self.of_cause = collections.defaultdict(collections.Counter)

    def count(self, cause, out):
        said, what = said_of(cause, out)
        self.of_cause[cause][said] += 1
        print(f"{out.name}: {said} ({what})", file=sys.stderr, flush=True)

    def print(self):
        for cause, count in self.of_cause.items():
            figures = "   ".join(f"{word} {count[word]:3d}" for word in WORDS)
            print(f"{cause:12}  {figures}   of {sum(count.values())}")
        missed = [cause for cause, count in self.of_cause.items() if count["right"] < 0.9 * sum(count.values())]
        healthy = self.of_cause["healthy"]
        print(f"\neach named in 9 of 10: {'MISSED by ' + ', '.join(missed) if missed else 'ok'};   "
              f"healthy runs with an accusation: {healthy['wrong']} of {sum(healthy.values())}")


def judge_again(folder):
    """Analyses runs again with the present program."""
    counts = Counts()
    for out in sorted(one for one in folder.iterdir() if one.is_dir()):
        cause = out.name.rsplit("-", 1)[0]
        for results in out.glob("*/results.json"):
            subprocess.run([program(), "report", results.parent, "--quiet"], capture_output=True, check=False)
        if cause in CAUSES:
            counts.count(cause, out)
    return counts


def main():
    given = arguments()
    if given.again:
        judge_again(given.again).print()
        return
    times, causes = max(1, given.times), given.causes or list(CAUSES)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="openstack-causes-"))
    began = time.monotonic()
    environment = start()
    deployment = REAL_DIR / "deployment.yaml"
    deployment.write_text(DEPLOYMENT)
    deployment.chmod(0o600)
    counts = Counts()
    with Computes(environment):
        for number in range(times):
            for cause in causes:
                out = folder / f"{cause}-{number}"
                run(environment, cause, out)
                counts.count(cause, out)
                if CAUSES[cause].scenario == "boot":
                    Api(environment).delete_servers()
    counts.print()
    print(f"in {time.monotonic() - began:.0f} s on {os.cpu_count()} processors; the runs: {folder}")


if __name__ == "__main__":
    main()
