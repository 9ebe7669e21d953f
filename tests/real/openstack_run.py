"""Runs scenarios for OpenStack with bench and prints a row for each.

    openstack_run.py PROGRAM DIRECTORY [NAME...]

PROGRAM is bench; runs go to DIRECTORY. Without names, all files of scenarios/openstack run, otherwise those whose names
begin with one of them. The exit code is 1 if one of them failed.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SCENARIOS = ROOT / "scenarios" / "openstack"
ITERATIONS, CONCURRENCY, LIMIT_S = 6, 2, 600

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


def run(program, directory, name):
    """The row of a scenario: ok, failed, p50 in ms, trace points of an iteration, what went wrong."""
    out = directory / name
    shutil.rmtree(out, ignore_errors=True)
    command = [program, "run", SCENARIOS / f"{name}.yaml", "-d", directory / "deployment.yaml", "--out", out]
    command += ["-n", str(ITERATIONS), "-c", str(CONCURRENCY), "--no-probe", "--quiet"]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return 0, ITERATIONS, None, None, f"not over after {LIMIT_S} s"
    found = sorted(out.glob("*/results.json"))
    if not found:
        return 0, ITERATIONS, None, None, (ended.stderr or ended.stdout).strip()[:2000]
    results = json.loads(found[0].read_text())
    workload = results["workloads"][0]
    counts = workload["iterations"]
    wrong = [
        " ".join(filter(None, [f"{error.get('action')}: {error['message']}", error.get("body")]))[:500]
        for error in workload.get("errors", [])
    ]
    wrong += [note for note in results.get("notes", []) if "failed" in note]
    if ended.returncode != 0 and not wrong:
        wrong.append((ended.stderr or ended.stdout).strip()[-500:])
    return counts["ok"], counts["failed"], median_ms(results), points(found[0].parent), "; ".join(wrong)


def median_ms(results):
    """The median of the successful iterations."""
    times = sorted(row["duration_ms"] for row in results["iterations"] if row["outcome"] == "ok")
    return times[(len(times) - 1) // 2] if times else None


def points(directory):
    """The median number of trace points of the stored traces; a point has two records."""
    counts = sorted(len(json.loads(path.read_text())["records"]) // 2 for path in directory.glob("traces/*.json"))
    return counts[len(counts) // 2] if counts else None


def main():
    program, directory, wanted = sys.argv[1], Path(sys.argv[2]), sys.argv[3:]
    names = sorted(path.stem for path in SCENARIOS.glob("*.yaml"))
    names = [name for name in names if not wanted or name.startswith(tuple(wanted))]
    if not names:
        sys.exit("no scenario begins so")
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "deployment.yaml").write_text(DEPLOYMENT)
    os.chmod(directory / "deployment.yaml", 0o600)
    width = max(map(len, names))
    print(f"{'scenario':<{width}}     ok  failed       p50  points", flush=True)
    failed = 0
    for name in names:
        ok, bad, median, number, wrong = run(program, directory, name)
        failed += bool(bad or wrong or not ok)
        shown = f"{median:6.0f} ms" if median is not None else "        -"
        print(f"{name:<{width}}  {ok:5}  {bad:6} {shown}  {'-' if number is None else number:>6}", flush=True)
        if wrong:
            print("    " + wrong.replace("\n", "\n    "), flush=True)
    print(f"{len(names) - failed} of {len(names)} scenarios ran without a failure")
    sys.exit(1 if failed else 0)


main()
