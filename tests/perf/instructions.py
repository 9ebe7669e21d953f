#!/usr/bin/env python3
"""How many instructions bench takes for an iteration of one signed and recorded request, over HTTP/1.1 and over HTTP/2,
counted by valgrind.

    tests/perf/instructions.py [--bench PATH] [--check]

What a busy neighbour takes from the processor does not change the number of instructions. Runs of two lengths are
counted, and their difference is shown, so that what a run costs once is left out: for the threads that make the load,
and for everything else (the log, results.json, the report). valgrind knows no SHA instructions, so that a signature
counts as about 5,600 instructions instead of 600. --check fails if a load's figure is over 5 % above the one recorded
beside this file, which holds for x86-64 and the release profile; --record writes it anew. The other figure varies by a
fifth with what the run's own analysis finds, so it is only shown.
"""
import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDED = Path(__file__).with_suffix(".json")
SHORT, LONG = 10_000, 30_000
TOLERANCE = 1.05
ANSWER = (b"HTTP/1.1 200 OK\r\nServer: instructions\r\nDate: Tue, 24 Nov 2026 22:46:38 GMT\r\nContent-Type: application/json\r\n"
          b"Content-Length: 560\r\nConnection: keep-alive\r\nETag: \"6745b1aa-230\"\r\n\r\n" + b"x" * 560)


async def connection(reader, writer):
    try:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(ANSWER)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


DATA, HEADERS, SETTINGS = 0, 1, 4
END_STREAM = END_OF_SETTINGS = 1
END_HEADERS = 4
# The first answer puts its fields into the table of both ends, and the others refer to them, as servers do (RFC 7541).
FIELDS = [(b"server", b"instructions"), (b"date", b"Tue, 24 Nov 2026 22:46:38 GMT"), (b"content-type", b"application/json"),
          (b"etag", b'"6745b1aa-230"')]
FIRST_BLOCK = b"\x88" + b"".join(
    b"\x40" + bytes([len(name)]) + name + bytes([len(value)]) + value for name, value in FIELDS)
BLOCK = b"\x88" + bytes(0x80 | 62 + index for index in reversed(range(len(FIELDS))))


async def connection_of_http2(reader, writer):
    try:
        await reader.readexactly(24)
        writer.write(frame(SETTINGS, 0, 0))
        block = FIRST_BLOCK
        while True:
            head = await reader.readexactly(9)
            await reader.readexactly(int.from_bytes(head[:3], "big"))
            stream = int.from_bytes(head[5:], "big")
            if head[3] == SETTINGS and not head[4]:
                writer.write(frame(SETTINGS, END_OF_SETTINGS, 0))
            if head[3] == HEADERS:
                writer.write(frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, END_STREAM, stream, b"x" * 560))
                block = BLOCK
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def serve(connection):
    """Starts a server that always gives the same answer; gives its port."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(connection, "127.0.0.1", 0))
    threading.Thread(target=loop.run_forever, daemon=True).start()
    return server.sockets[0].getsockname()[1]


def count(program, folder, port, version, iterations):
    """Instructions of the threads that make the load, and of all others."""
    (folder / "scenario.yaml").write_text(
        f"title: instructions\nrunner: {{ constant: {{ times: {iterations}, concurrency: 10 }} }}\n"
        "iteration: [{ action: get, get: / }]\n")
    deployment = folder / "deployment.yaml"
    deployment.touch(mode=0o600)
    deployment.write_text(
        f"name: d\ntargets: {{ default: 'http://127.0.0.1:{port}' }}\nprofiler: {{ hmac_key: k }}\n"
        f"http: {{ version: {version} }}\n")
    out = tempfile.mkdtemp(dir=folder)
    subprocess.run(
        ["valgrind", "--tool=callgrind", "--separate-threads=yes", f"--callgrind-out-file={out}/counts", program, "run",
         folder / "scenario.yaml", "-d", deployment, "--out", f"{out}/runs", "--workers", "1", "--quiet"],
        check=True, capture_output=True)
    of_threads = [
        int(re.search(r"^summary: (\d+)", path.read_text(), re.M)[1]) for path in sorted(Path(out).glob("counts-*"))]
    shutil.rmtree(out)
    # The first thread is the coordinator; it also writes results and reports. The load's has most of the others.
    return max(of_threads[1:]), of_threads[0]


def figures(program, port, version):
    """Instructions of an iteration: of the load, and of the rest."""
    with tempfile.TemporaryDirectory() as folder:
        counts = [count(program, Path(folder), port, version, iterations) for iterations in (SHORT, LONG)]
    return [(long - short) // (LONG - SHORT) for short, long in zip(*counts)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser.add_argument("--bench", type=Path, default=target / "release/bench")
    parser.add_argument("--check", action="store_true", help="fail if a figure is too high")
    parser.add_argument("--record", action="store_true", help="write what was counted beside this file")
    options = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("valgrind is not installed: apt-get install valgrind")
    program = options.bench.resolve()
    load, rest = figures(program, serve(connection), "1.1")
    load_http2, _ = figures(program, serve(connection_of_http2), "2")
    found = {"load": load, "load, HTTP/2": load_http2, "rest": rest}
    if options.record:
        RECORDED.write_text(json.dumps(found) + "\n")
    recorded = json.loads(RECORDED.read_text())
    failed = [name for name in found if name != "rest" and found[name] > recorded[name] * TOLERANCE]
    for name, instructions in found.items():
        print(f"  {name:12} {instructions:8,} instructions an iteration   recorded {recorded[name]:8,}")
    if options.check and failed:
        sys.exit("an iteration takes more instructions than before; find out why, or record that: --record")


if __name__ == "__main__":
    main()
