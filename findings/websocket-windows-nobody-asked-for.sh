#!/usr/bin/env bash
#
# A WebSocket server by Python's `websockets` that is offered permessage-deflate answers with a parameter that nobody offered,
# `server_max_window_bits=12`: it looks for repetitions in the last 4 KiB only. Node's `ws` agrees to the offer as it is, and
# looks back 32 KiB. A message in which a block of 5,000 characters stands eight times takes eight times as many bytes from the
# one as from the other (22,573 and 2,932), with the same extension in both answers.
#
# RFC 7692 (section 7.1.2.1) lets a server add this parameter, so a client that takes only what it has offered refuses every
# such server; and the bytes on the wire say little about two services with "the same" compression. (bench takes the
# parameter, and counts unpacked bytes.)
#
# Seen with websockets 17.4 on Python 3.11.7 and ws 8.23.0 on Node v20.20.2. Needs python3 with venv, node and npm. Fails if
# this changes.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
cd -- "$folder"

python3 -m venv python
python/bin/pip --quiet --disable-pip-version-check install websockets==17.4
npm install --silent --ignore-scripts --no-audit --no-fund ws@8.23.0

cat >message.py <<'PYTHON'
import random

random.seed(1)
print("".join(random.choice("0123456789abcdef") for _ in range(5000)) * 8, end="")
PYTHON
python/bin/python message.py >message.txt

cat >server.py <<'PYTHON'
import asyncio

from websockets.asyncio.server import serve


async def opened(connection):
    await connection.send(open("message.txt").read())
    await connection.wait_closed()


async def main():
    async with serve(opened, "127.0.0.1", 0) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


asyncio.run(main())
PYTHON

cat >server.js <<'NODE'
const { WebSocketServer } = require('ws');

const message = require('node:fs').readFileSync('message.txt', 'utf8');
const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: true }, () => {
  console.log(server.address().port);
});
server.on('connection', (socket) => socket.send(message));
NODE

cat >asked.py <<'PYTHON'
import socket
import subprocess
import sys


def answer(port):
    """What the server agrees to, and how long the first frame is."""
    lines = ["GET / HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade",
             "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
             "Sec-WebSocket-Extensions: permessage-deflate"]
    with socket.create_connection(("127.0.0.1", port), 10) as peer:
        peer.sendall("\r\n".join(lines + ["", ""]).encode())
        text = b""
        while b"\r\n\r\n" not in text or len(text.split(b"\r\n\r\n", 1)[1]) < 4:
            text += peer.recv(65536)
    head, frame = text.split(b"\r\n\r\n", 1)
    agreed = [line.split(":")[1].strip() for line in head.decode().split("\r\n")
              if line.lower().startswith("sec-websocket-extensions:")]
    # A compressed text in one frame, of a length in two bytes.
    assert frame[0] == 0xC1 and frame[1] == 126, frame[:4]
    return "".join(agreed), int.from_bytes(frame[2:4], "big")


seen = {}
for name, command in [("websockets", [sys.executable, "server.py"]), ("ws", ["node", "server.js"])]:
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        agreed, length = seen[name] = answer(int(server.stdout.readline()))
        print(f"{name} answers `{agreed}`; 40,000 characters take {length:,} bytes")
    finally:
        server.terminate()
        server.wait()

agreed, lengths = [seen[name][0] for name in seen], [seen[name][1] for name in seen]
changed = agreed != ["permessage-deflate; server_max_window_bits=12", "permessage-deflate"] or lengths[0] < 6 * lengths[1]
sys.exit(f"this has changed: {seen}" if changed else 0)
PYTHON

python/bin/python asked.py
