#!/usr/bin/env python3
"""Whether bench names what TCP repeats: loads against a server on a network that loses packets.

    tests/compat/lossy.py                    # with target/release/bench
    tests/compat/lossy.py /path/to/bench

Needs Linux, root and `nft`: the network is a namespace of its own, in which nftables drops packets at random. The rows say
what is dropped, and what the results have: connections that came late or were given up, requests and answers for which
something was repeated, and how many of the requests that took 200 ms or longer have such a mark (those that never connected
have none). A healthy network must have none.
"""

import http.server
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PORT = 7312
CONNECTS = f"tcp dport {PORT} tcp flags & (syn|ack) == syn"
REQUESTS = f"tcp dport {PORT} tcp flags & psh == psh"
# What is dropped, as a match of nftables; per mille; how long connections live; the action's timeout; which numbers must not
# be 0.
ROWS = [
    ("nothing", None, 0, "iteration", "10s", ()),
    ("requests to connect", CONNECTS, 50, "iteration", "10s", ("late_connections",)),
    ("the same, cut off", CONNECTS, 50, "iteration", "950ms", ("connections_given_up",)),
    ("requests", REQUESTS, 30, "iteration", "10s", ("requests_with_segments_resent",)),
    ("the same, cut off", REQUESTS, 250, "iteration", "800ms", ("requests_with_segments_resent",)),
    ("the same, kept", REQUESTS, 30, "user", "10s", ("requests_with_segments_resent",)),
    ("parts of answers", f"tcp sport {PORT}", 15, "iteration", "10s", ()),
]
NUMBERS = ("late_connections", "connections_given_up", "requests_with_segments_resent", "answers_out_of_order")
ACTION = ("syns_resent", "segments_resent", "segments_out_of_order")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    body = b"x" * 200_000

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client that gives up is no error here."""


def run(bench, folder, match, per_mille, connections, timeout):
    rules = ["add table ip t", "add chain ip t in { type filter hook input priority 0; }", "flush chain ip t in"]
    if match:
        rules.append(f"add rule ip t in {match} numgen random mod 1000 < {per_mille} drop")
    subprocess.run(["nft", "-f", "-"], input="\n".join(rules).encode(), check=True)
    (folder / "s.yaml").write_text(
        "title: t\ndeployment: d.yaml\n"
        f"runner: {{ constant: {{ times: 300, concurrency: 10 }} }}\nhttp: {{ connections: {connections} }}\n"
        f"iteration: [ {{ action: a, post: /, body: hello, timeout: {timeout} }} ]\n"
    )
    (folder / "d.yaml").write_text(f'targets: {{ default: "http://127.0.0.1:{PORT}" }}\n')
    out = folder / "out"
    command = [bench, "run", "s.yaml", "--out", out, "--no-probe"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    found = max(out.glob("*/results.json"), key=os.path.getmtime)
    table = subprocess.run([bench, "export", found.parent, "--csv", "--actions"], capture_output=True, text=True, check=True)
    names, *rows = [line.split(",") for line in table.stdout.splitlines()]
    rows = [dict(zip(names, row)) for row in rows]
    slow = [row for row in rows if int(row["service_time_ns"]) >= 200_000_000]
    marked = [row for row in slow if any(row[name] != "0" for name in ACTION)]
    return json.loads(found.read_text())["workloads"][0].get("network") or {}, len(marked), len(slow), ended.stdout


def main():
    bench = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else REPOSITORY / "target/release/bench")
    if os.environ.get("LOSSY_INSIDE") is None:
        inside = 'ip link set lo up && LOSSY_INSIDE=1 exec "$0" "$@"'
        os.execvp("unshare", ["unshare", "-n", "sh", "-c", inside, sys.executable, __file__, bench])
    server = Server(("127.0.0.1", PORT), Handler)
    server.socket.listen(128)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"{'dropped':22}{'per mille':>10}{'late':>7}{'given up':>10}{'requests':>10}{'answers':>9}   marked of slow ones")
    wrong = []
    for what, match, per_mille, connections, timeout, needed in ROWS:
        with tempfile.TemporaryDirectory() as folder:
            seen, marked, slow, said = run(bench, pathlib.Path(folder), match, per_mille, connections, timeout)
        numbers = [seen.get(name, 0) for name in NUMBERS]
        print(f"{what:22}{per_mille:>10}{numbers[0]:>7}{numbers[1]:>10}{numbers[2]:>10}{numbers[3]:>9}   {marked} of {slow}")
        if any(not seen.get(name) for name in needed) or (not match and any(numbers)):
            wrong.append(what)
            print(said)
    if wrong:
        sys.exit(f"wrong: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
