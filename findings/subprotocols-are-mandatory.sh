#!/usr/bin/env bash
#
# A WebSocket server by Python's `websockets` that names its subprotocols refuses every client that offers none of them: with
# 400, before any of its own code runs. Node's `ws` in the same place opens the connection without a subprotocol.
#
# RFC 6455 (sections 4.1 and 4.2.2) leaves both sides free: a client need not offer a subprotocol, and a server need not choose
# one. Most tools offer none. So a load test that was written against one server gets nothing but 400 from another one with
# the same list of subprotocols, and the answer to a handshake must be read before the service is blamed. (bench quotes the
# answer; `subprotocols: [chat.v1]` offers one.)
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

cat >server.py <<'PYTHON'
import asyncio

from websockets.asyncio.server import serve


async def opened(connection):
    await connection.wait_closed()


async def main():
    async with serve(opened, "127.0.0.1", 0, subprotocols=["chat.v1"]) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


asyncio.run(main())
PYTHON

cat >server.js <<'NODE'
const { WebSocketServer } = require('ws');

const handleProtocols = (offered) => (offered.has('chat.v1') ? 'chat.v1' : false);
const server = new WebSocketServer({ host: '127.0.0.1', port: 0, handleProtocols }, () => {
  console.log(server.address().port);
});
NODE

cat >asked.py <<'PYTHON'
import socket
import subprocess
import sys


def answer(port, offered):
    """The first line of the answer to a handshake, and the subprotocol in it."""
    lines = ["GET / HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade",
             "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]
    lines += [f"Sec-WebSocket-Protocol: {offered}"] if offered else []
    with socket.create_connection(("127.0.0.1", port)) as peer:
        peer.sendall("\r\n".join(lines + ["", ""]).encode())
        text = b""
        while b"\r\n\r\n" not in text:
            text += peer.recv(65536)
    head = text.split(b"\r\n\r\n")[0].decode().split("\r\n")
    chosen = [line.split(":")[1].strip() for line in head if line.lower().startswith("sec-websocket-protocol:")]
    return head[0].split()[1], "".join(chosen)


seen = {}
for name, command in [("websockets", [sys.executable, "server.py"]), ("ws", ["node", "server.js"])]:
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        port = int(server.stdout.readline())
        for offered in ["chat.v1", "chat.v0", ""]:
            seen[name, offered] = answer(port, offered)
            status, chosen = seen[name, offered]
            print(f"{name}: a client that offers {offered or 'nothing'} gets {status}, and {chosen or 'no subprotocol'}")
    finally:
        server.terminate()
        server.wait()

expected = {
    ("websockets", "chat.v1"): ("101", "chat.v1"), ("websockets", "chat.v0"): ("400", ""), ("websockets", ""): ("400", ""),
    ("ws", "chat.v1"): ("101", "chat.v1"), ("ws", "chat.v0"): ("101", ""), ("ws", ""): ("101", ""),
}
sys.exit(0 if seen == expected else f"this has changed: {seen}")
PYTHON

python/bin/python asked.py
