#!/usr/bin/env bash
#
# The same server-sent events leave uvicorn one by one with one process, and in clumps, 40 ms late, with several.
#
# asyncio switches Nagle's algorithm off (TCP_NODELAY) only on sockets whose protocol number is IPPROTO_TCP. uvicorn with one
# process lets asyncio make its listening socket, which has that number. With `--workers 2` uvicorn makes the
# socket itself, with the protocol number 0, and so have all connections that it accepts: Nagle's algorithm stays on. The
# head of a streamed answer is sent; the first event then waits until the client acknowledges the head, which Linux delays by
# 40 ms, and the events until then come with it at once. Answers in one piece show nothing of it.
#
# So a load test of a service with one process does not tell the time to the first token of the same service with several, and
# gaps between events of 0 and of 40 ms are no property of the model. (bench shows both: `p95(first)`, `p95(gap)`.)
#
# Seen with uvicorn 0.54.0 on Python 3.11.7, Linux. Needs python3 with venv. Fails if this changes.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
cd -- "$folder"

python3 -m venv python
python/bin/pip --quiet --disable-pip-version-check install uvicorn==0.54.0 h11==0.16.0 click==8.5.1

cat >app.py <<'PYTHON'
import asyncio


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for number in range(5):
        await asyncio.sleep(0.004)
        event = b"data: %d\n\n" % number
        await send({"type": "http.response.body", "body": event, "more_body": number < 4})
PYTHON

cat >asked.py <<'PYTHON'
import socket
import statistics
import subprocess
import sys
import time


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def connected(port):
    for _ in range(200):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.05)
    sys.exit("uvicorn does not listen")


def arrivals(peer):
    """When each event of one answer arrived, in milliseconds."""
    begun = time.monotonic()
    peer.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
    text, times = b"", []
    while b"\r\n0\r\n\r\n" not in text:
        text += peer.recv(65536)
        now = (time.monotonic() - begun) * 1000
        times += [now] * (text.count(b"data: ") - len(times))
    return times


def measured(workers):
    """Medians over 20 answers on a kept connection: the time to the first event, and how many events came with it."""
    port = free_port()
    command = [sys.executable, "-m", "uvicorn", "app:app", "--port", str(port), "--workers", str(workers)]
    server = subprocess.Popen(command + ["--log-level", "error"])
    try:
        with connected(port) as peer:
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            answers = [arrivals(peer) for _ in range(25)][5:]
        first = statistics.median(times[0] for times in answers)
        together = statistics.median(sum(time - times[0] < 1 for time in times) for times in answers)
        return first, together
    finally:
        server.terminate()
        server.wait()


one, several = measured(1), measured(2)
print(f"uvicorn --workers 1: first event after {one[0]:.1f} ms, with {one[1]:.0f} event(s) in it")
print(f"uvicorn --workers 2: first event after {several[0]:.1f} ms, with {several[1]:.0f} event(s) in it")
holds = several[0] > 30 and several[1] >= 4 and one[0] < 25 and one[1] <= 2
sys.exit(0 if holds else "this has changed")
PYTHON

python/bin/python asked.py
