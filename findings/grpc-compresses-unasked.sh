#!/usr/bin/env bash
#
# A gRPC server in Python that compresses by default also compresses for clients that say that they cannot read it.
#
# `grpc.server(compression=grpc.Compression.Gzip)` is meant for clients that list gzip in `grpc-accept-encoding`: the
# protocol says that a server must not use an encoding that a client has not named. A client without that header (here a
# plain HTTP/2 client) gets its answer with `grpc-encoding: gzip` and the flag for a compressed message all the same, and so
# does one that sends `grpc-accept-encoding: identity`. Server reflection on such a server is compressed, too.
#
# So a client must read gzip whatever it says. (bench does.)
#
# Seen with grpcio 1.85.3 and h2 4.3.0 (Python). Needs python3 with venv. Fails if this changes.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
cd -- "$folder"

python3 -m venv python
python/bin/pip --quiet --disable-pip-version-check install grpcio==1.85.3 h2==4.3.0

cat >asked.py <<'PYTHON'
import socket
from concurrent import futures

import grpc
import h2.connection
import h2.events


def as_is(message):
    return message


method = grpc.unary_unary_rpc_method_handler(lambda request, context: b"a" * 1000, as_is, as_is)
server = grpc.server(futures.ThreadPoolExecutor(2), compression=grpc.Compression.Gzip)
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop.Orders", {"Get": method}),))
port = server.add_insecure_port("127.0.0.1:0")
server.start()


def answer(more):
    """The encoding that the answer names, and the flag of its message."""
    peer = socket.create_connection(("127.0.0.1", port))
    connection = h2.connection.H2Connection()
    connection.initiate_connection()
    headers = [(":method", "POST"), (":scheme", "http"), (":authority", "localhost"), (":path", "/shop.Orders/Get"),
               ("content-type", "application/grpc"), ("te", "trailers"), *more]
    connection.send_headers(1, headers)
    connection.send_data(1, b"\0\0\0\0\0", end_stream=True)
    peer.sendall(connection.data_to_send())
    encoding, body, ended = None, b"", False
    while not ended:
        for event in connection.receive_data(peer.recv(65536)):
            if isinstance(event, h2.events.ResponseReceived):
                encoding = dict(event.headers).get(b"grpc-encoding")
            elif isinstance(event, h2.events.DataReceived):
                body += event.data
            ended = ended or isinstance(event, h2.events.StreamEnded)
        peer.sendall(connection.data_to_send())
    peer.close()
    return encoding, body[0]


print("nothing said:", *answer([]))
print("identity:", *answer([("grpc-accept-encoding", "identity")]))
print("gzip:", *answer([("grpc-accept-encoding", "identity,gzip")]))
server.stop(0)
PYTHON

seen=$(python/bin/python asked.py)
printf '%s\n' "$seen"
expected="nothing said: b'gzip' 1
identity: b'gzip' 1
gzip: b'gzip' 1"
[[ $seen == "$expected" ]]
