#!/usr/bin/env python3
"""How the time of each command grows with its input.

    tests/perf/sizes.py [--bench PATH] [--rounds 3] [--iterations 1000000] [--only WORD]

For each command and each size of what it reads (iterations, spans, stored runs, steps, rows of data, lines of a task,
recorded requests) it prints the median time, and how much longer a doubling of the input takes: 2 is linear, 4 is the
square. The time of starting the program is taken off. All inputs are made here, in a folder that is removed.
"""

import argparse
import json
import math
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
START_NS = 1_790_000_000_000_000_000


# A verdict, or a file that is refused because of its size.
FINE = (0, 2, 3, 4, 65)


def run(bench, *words, folder):
    began = time.monotonic()
    ended = subprocess.run([bench, *map(str, words)], cwd=folder, capture_output=True, check=False)
    took = time.monotonic() - began
    if ended.returncode not in FINE:
        raise SystemExit(f"{words}: {ended.returncode}\n{ended.stderr.decode()[:2000]}")
    return took, ended.returncode == 65


class Demo:
    """The embedded demo as a target of its own."""

    def __init__(self, bench):
        self.process = subprocess.Popen([bench, "demo"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                self.url = found.group()
                return
        raise SystemExit("the demo did not start")

    def end(self):
        self.process.terminate()
        self.process.wait()


def loads(bench, folder, url, sizes):
    for size in sizes:
        run(bench, "run", url, "-n", size, "-c", 20, "--no-probe", "--quiet", "--out", f"runs-{size}", folder=folder)


def spans(size, shape):
    """A trace: each span has ten children, or the first has all."""
    rows, bounds = [], {}
    for number in range(size):
        parent = None if number == 0 else (number - 1) // 10 if shape == "tree" else 0
        if parent is None:
            begin, end = 0, size * 10_000
        elif shape == "tree":
            low, high = bounds[parent]
            step = (high - low) // 10
            begin = low + (number - 1) % 10 * step
            end = max(begin + 1, begin + step - 1)
        else:
            begin, end = (number - 1) * 10_000, number * 10_000 - 1_000
        bounds[number] = (begin, end)
        rows.append({
            "traceId": "ab" * 16, "spanId": f"{number + 1:016x}",
            "parentSpanId": "" if parent is None else f"{parent + 1:016x}", "name": f"op{number % 37}", "kind": 2,
            "startTimeUnixNano": str(START_NS + begin), "endTimeUnixNano": str(START_NS + end),
            "attributes": [{"key": "db.statement", "value": {"stringValue": f"SELECT {number} FROM t"}}],
        })
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "s"}}]}
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": rows}]}]})


def scenario(steps):
    lines = ["title: t", "runner: { serial: { times: 1 } }", "iteration:"]
    return "\n".join(lines + [f"  - {{ action: a{n}, get: 'http://h/{n}' }}" for n in range(steps)]) + "\n"


def with_rows(rows):
    head = "title: t\nrunner: { serial: { times: 1 } }\ndata: { u: { file: u.csv } }\n"
    return head + "iteration: [ { get: 'http://h/{{ u.id }}' } ]\n", "id,name\n" + "".join(f"{n},n{n}\n" for n in range(rows))


def task(subtasks):
    one = "  - args: {{ url: 'http://h/{n}', method: GET, status_code: 200 }}\n    runner: {{ type: serial, times: 1 }}\n"
    return "HttpRequests.check_request:\n" + "".join(one.format(n=n) for n in range(subtasks))


def archive(entries):
    def entry(n):
        request = {"method": "GET", "url": f"http://h/{n}?a={n}", "headers": [], "httpVersion": "HTTP/1.1"}
        content = {"size": 2, "mimeType": "application/json", "text": json.dumps({"id": f"item-{n}-abcdef"})}
        answer = {"status": 200, "headers": [], "content": content}
        return {"startedDateTime": "2026-01-01T00:00:00Z", "time": 1, "request": request, "response": answer}

    return json.dumps({"log": {"version": "1.2", "creator": {"name": "x", "version": "1"}, "entries": [entry(n) for n in range(entries)]}})


def api(operations):
    paths = {f"/x{n}/{{id}}": {"get": {"operationId": f"op{n}", "responses": {"200": {"description": ""}}}} for n in range(operations)}
    return json.dumps({"openapi": "3.0.3", "info": {"title": "t", "version": "1"}, "servers": [{"url": "http://h"}], "paths": paths})


def tables(args, folder):
    """Each row: the command's name, what its sizes count, the sizes, and what to run for one."""
    write = lambda name, text: (folder / name).write_text(text)
    iterations = [n for n in (1_000, 10_000, 100_000, 1_000_000) if n <= args.iterations]
    one = lambda size: next((folder / f"runs-{size}").iterdir())
    for name, words in [
        ("report", lambda n: ("report", one(n))), ("check", lambda n: ("check", one(n))),
        ("export --csv", lambda n: ("export", "--csv", one(n), "-o", "/dev/null")),
        ("compare A B", lambda n: ("compare", one(n), one(n))),
    ]:
        yield name, "iterations", iterations, words
    sizes = [1_000, 10_000, 50_000, 100_000]
    for shape in ("tree", "flat"):
        for size in sizes:
            write(f"{shape}-{size}.json", spans(size, shape))
        for name, words in [
            ("trace show", ("show",)), ("trace show --all", ("show", "--all")), ("trace show --json", ("show", "--json")),
            ("trace stats", ("stats",)), ("trace rank", ("rank",)),
        ]:
            yield f"{name} ({shape})", "spans", sizes, lambda n, words=words, shape=shape: ("trace", *words, f"{shape}-{n}.json")
    sizes = [250, 500, 1_000]
    for size in sizes:
        for number in range(size):
            shutil.copytree(one(1_000), folder / f"many-{size}" / f"20260101T{number:06}Z-look-{number}", copy_function=os.link)
    yield "runs", "runs", sizes, lambda n: ("runs", "--out", f"many-{n}", "--limit", n)
    yield "compare NEW DIR", "runs", sizes, lambda n: ("compare", f"many-{n}", one(1_000))
    for size in (sizes := [125, 250, 500, 1_000]):
        write(f"steps-{size}.yaml", scenario(size))
    yield "validate", "steps", sizes, lambda n: ("validate", f"steps-{n}.yaml")
    yield "validate --explain", "steps", sizes, lambda n: ("validate", "--explain", f"steps-{n}.yaml")
    for size in (sizes := [10_000, 20_000, 40_000]):
        write(f"line-{size}.yaml", scenario(5) + f"variables: {{ words: [{'word, ' * size}] }}")  # without a line break at its end
    yield "validate", "values on a line", sizes, lambda n: ("validate", f"line-{n}.yaml")
    for size in (sizes := [1_000, 10_000, 100_000, 1_000_000]):
        (folder / f"rows-{size}").mkdir()
        text, rows = with_rows(size)
        write(f"rows-{size}/s.yaml", text)
        write(f"rows-{size}/u.csv", rows)
    yield "validate", "rows of data", sizes, lambda n: ("validate", f"rows-{n}/s.yaml")
    for size in (sizes := [125, 250, 500, 1_000]):
        write(f"task-{size}.yaml", task(size))
    yield "validate", "workloads of a task", sizes, lambda n: ("validate", f"task-{n}.yaml")
    for size in (sizes := [500, 5_000, 50_000]):
        write(f"a-{size}.har", archive(size))
        write(f"o-{size}.json", api(size))
    yield "import har", "recorded requests", sizes, lambda n: ("import", "har", f"a-{n}.har", "--force", "-o", "i.yaml")
    yield "import openapi", "operations", sizes, lambda n: ("import", "openapi", f"o-{n}.json", "--force", "-o", "i.yaml")
    for size in (sizes := [100, 200, 400]):
        write(f"c-{size}.sh", "".join(f"curl http://h/{n} -H 'X-A: {n}'\n" for n in range(size)))
    yield "import curl", "commands", sizes, lambda n: ("import", "curl", f"c-{n}.sh", "--force", "-o", "i.yaml")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", default=str(ROOT / "target/release/bench"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--iterations", type=int, default=1_000_000)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    bench = str(Path(args.bench).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        demo = Demo(bench)
        try:
            loads(bench, folder, f"{demo.url}/v3/users/1", [n for n in (1_000, 10_000, 100_000, 1_000_000) if n <= args.iterations])
        finally:
            demo.end()
        start_s = statistics.median(run(bench, "--version", folder=folder)[0] for _ in range(5))
        print("| command | by | sizes and seconds | a doubling |\n|---|---|---|---|")
        for command, unit, sizes, words in tables(args, folder):
            if args.only not in f"{command} {unit}":
                continue
            took, refused = [], []
            for size in sizes:
                rounds = [run(bench, *words(size), folder=folder) for _ in range(args.rounds)]
                if any(is_refused for _, is_refused in rounds):
                    refused.append(f"{size:,}: refused")
                else:
                    took.append((size, max(statistics.median(s for s, _ in rounds) - start_s, 1e-3)))
            doubling = [2 ** (math.log(t1 / t0) / math.log(s1 / s0)) for (s0, t0), (s1, t1) in zip(took, took[1:])]
            shown = ", ".join([f"{size:,}: {s:.3f}" for size, s in took] + refused)
            print(f"| `{command}` | {unit} | {shown} | {', '.join(f'{d:.2f}' for d in doubling)} |", flush=True)


if __name__ == "__main__":
    main()
