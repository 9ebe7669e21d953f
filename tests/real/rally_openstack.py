"""Lets Rally and bench run the same task in a cloud, one after the other, and compares what they report.

    rally_openstack.py RALLY BENCH DIRECTORY [TASK]

RALLY and BENCH are the programs; OS_* and OSPROFILER_* name the cloud, as openstack.sh prints them; what both write goes
to DIRECTORY. TASK is tests/vectors/rally/openstack.yaml unless another is given. Standard output is a table. The exit code
is 1 if names, counts or outcomes differ, or if one of them has left something in the cloud.
"""

import json
import os
import resource
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
LIMIT_S = 3600
# What each may leave: the service, its path, and the key of the list.
KINDS = {
    "project": ("identity", "/projects", "projects"),
    "user": ("identity", "/users", "users"),
    "server": ("compute", "/servers?all_tenants=1", "servers"),
    "image": ("image", "/v2/images", "images"),
    "network": ("network", "/v2.0/networks", "networks"),
    "router": ("network", "/v2.0/routers", "routers"),
    "security group": ("network", "/v2.0/security-groups", "security_groups"),
}
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def deployment():
    """Rally's document, which bench reads, too."""
    domains = {key: os.environ["OS_" + key.upper()] for key in ("user_domain_name", "project_domain_name")}
    admin = {key: os.environ["OS_" + key.upper()] for key in ("username", "password", "project_name")}
    cloud = {"auth_url": os.environ["OS_AUTH_URL"], "region_name": os.environ["OS_REGION_NAME"], "endpoint_type": "public"}
    profiler = {
        "profiler_hmac_key": os.environ["OSPROFILER_HMAC_KEY"],
        "profiler_conn_str": os.environ["OSPROFILER_CONNECTION_STRING"],
    }
    return {"openstack": {**cloud, **profiler, "admin": {**admin, **domains}}}


def ask(url, token=None, body=None):
    headers = {"Content-Type": "application/json", **({"X-Auth-Token": token} if token else {})}
    request = urllib.request.Request(url, json.dumps(body).encode() if body else None, headers)
    with opener.open(request, timeout=60) as answer:
        return answer.headers, json.load(answer)


def listed():
    """The ids of all that is in the cloud, by kind."""
    cloud = deployment()["openstack"]
    user, domain = cloud["admin"], {"name": cloud["admin"]["user_domain_name"]}
    identity = {"methods": ["password"], "password": {
        "user": {"name": user["username"], "password": user["password"], "domain": domain}}}
    scope = {"project": {"name": user["project_name"], "domain": {"name": user["project_domain_name"]}}}
    body = {"auth": {"identity": identity, "scope": scope}}
    headers, answer = ask(cloud["auth_url"] + "/auth/tokens", body=body)
    urls = {
        service["type"]: endpoint["url"]
        for service in answer["token"]["catalog"]
        for endpoint in service["endpoints"]
        if endpoint["interface"] == "public" and endpoint["region_id"] == cloud["region_name"]
    }
    token = headers["X-Subject-Token"]
    return {
        kind: {one["id"] for one in ask(urls[service].rstrip("/") + path, token)[1][key]}
        for kind, (service, path, key) in KINDS.items()
    }


def run(command, directory, said, codes=(0,)):
    """Ends the test if it fails; seconds of processor time and of wall time."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = {**os.environ, "HOME": str(directory), "PYTHONWARNINGS": "ignore"}
    with open(directory / said, "w", encoding="utf-8") as output:
        ended = subprocess.run(command, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                               stderr=subprocess.STDOUT, timeout=LIMIT_S, check=False)
    if ended.returncode not in codes:
        sys.exit(f"{' '.join(map(str, command))} ended with {ended.returncode}:\n{(directory / said).read_text()[-4000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.monotonic() - began


def both(rally, bench, directory, task):
    """The reports of both, and what each has cost and left."""
    (directory / "deployment.json").write_text(json.dumps(deployment()))
    os.chmod(directory / "deployment.json", 0o600)
    (directory / "rally.conf").write_text(f"[database]\nconnection = sqlite:///{directory}/rally.db\n")
    call = [rally, "--config-file", "rally.conf"]
    run([*call, "db", "create"], directory, "rally-db.out")
    run([*call, "env", "create", "--name", "cloud", "--spec", "deployment.json"], directory, "rally-env.out")
    costs, left = {}, {}
    for name, command in (
        ("Rally", [*call, "task", "start", task]),
        ("bench", [bench, "run", task, "-d", "deployment.json", "--no-probe", "--rally-json", "bench.json"]),
    ):
        before = listed()
        costs[name] = run(command, directory, f"{name}.out", codes=(0, 1, 2))
        left[name] = {kind: len(ids - before[kind]) for kind, ids in listed().items() if ids - before[kind]}
    run([*call, "task", "report", "--json", "--out", "rally.json"], directory, "rally-report.out")
    reports = {name: json.loads((directory / file).read_text())
               for name, file in (("Rally", "rally.json"), ("bench", "bench.json"))}
    return reports, costs, left


def workloads(report):
    return [workload for subtask in report["tasks"][0]["subtasks"] for workload in subtask["workloads"]]


def rows(durations):
    """Each atomic action with those within it, by its path."""
    found = {}

    def walk(atomics, path):
        for atomic in atomics:
            found[(*path, atomic["name"])] = atomic["data"]
            walk(atomic["children"], (*path, atomic["name"]))

    walk(durations["atomics"], ())
    return found


def keys(value, path=""):
    """The paths of all keys of the first workload, without those of what varies."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield f"{path}.{key}"
            if key not in ("scenario", "runner", "contexts", "contexts_results", "sla", "data", "hooks", "env"):
                yield from keys(inner, f"{path}.{key}")
    elif isinstance(value, list) and value:
        yield from keys(value[0], path + "[]")


def compare(reports):
    """Prints a row for each scenario and atomic action; what differs."""
    theirs, ours = (workloads(reports[name]) for name in ("Rally", "bench"))
    wrong = [f"only {who} has the key {key}" for who, one, other in (("Rally", "Rally", "bench"), ("bench", "bench", "Rally"))
             for key in sorted(set(keys(reports[one])) - set(keys(reports[other])))]
    if len(theirs) != len(ours):
        return [*wrong, f"Rally has {len(theirs)} workloads, bench {len(ours)}"]
    print("| scenario, atomic action | count | median, Rally | median, bench |\n|---|---|---|---|")
    for rally, bench in zip(theirs, ours):
        name = next(iter(rally["scenario"]))
        wrong += [f"{name}: {key} is {rally[key]} in Rally and {bench[key]} in bench"
                  for key in ("scenario", "runner", "sla", "total_iteration_count", "failed_iteration_count", "pass_sla")
                  if rally[key] != bench[key]]
        durations = [one["statistics"]["durations"] for one in (rally, bench)]
        totals = [one["total"]["data"] for one in durations]
        row(f"`{name}`", *totals)
        their_rows, our_rows = map(rows, durations)
        for path, data in their_rows.items():
            own = our_rows.get(path)
            if own is None:
                wrong.append(f"{name}: bench has no {' > '.join(path)}, but {sorted(our_rows)}")
                continue
            if own["iteration_count"] != data["iteration_count"]:
                counts = f"{data['iteration_count']} times in Rally, {own['iteration_count']} in bench"
                wrong.append(f"{name}: {path[-1]} ran {counts}")
            row("– " * len(path) + f"`{path[-1]}`", data, own)
    return wrong


def row(name, theirs, ours):
    print(f"| {name} | {ours['iteration_count']} | {theirs['median']} s | {ours['median']} s |")


def main():
    rally, bench, directory = (Path(path).absolute() for path in sys.argv[1:4])
    task = Path(sys.argv[4]).absolute() if len(sys.argv) > 4 else ROOT / "tests/vectors/rally/openstack.yaml"
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    reports, costs, left = both(rally, bench, directory, task)
    wrong = compare(reports)
    wrong += [f"{name} has left {number} of: {kind}" for name, kinds in left.items() for kind, number in kinds.items()]
    count = sum(workload["total_iteration_count"] for workload in workloads(reports["Rally"]))
    print(f"\n| {count} iterations with contexts | processor time | an iteration | wall time |\n|---|---|---|---|")
    for name, (processor, wall) in costs.items():
        print(f"| {name} | {processor:.1f} s | {processor / count * 1000:.0f} ms | {wall:.0f} s |")
    print("\n" + ("\n".join(wrong) or "names, counts and outcomes are the same, and nothing was left"))
    sys.exit(1 if wrong else 0)


main()
