#!/usr/bin/env bash
#
# A streamed gRPC call that OpenTelemetry instruments in Python is not sent before its answer is read, and its span lasts
# as long as the answer is held.
#
# grpcio sends a call whose answer is a stream at once: the server works while the client does something else. With
# opentelemetry-instrumentation-grpc, the same line gives a generator. Nothing is sent until the first message is asked
# for, so work that ran side by side runs one after the other, and a call that is made and not read never reaches the
# server, without an error. What was a call is no call any more: cancel() and code() are missing.
#
# The span begins with the first read and ends when the generator is read to its end or destroyed. A client that reads one
# message and keeps the generator has no span of it yet, although the server's span of the same call has ended: in the
# trace, that one lacks its parent. When the generator goes, the client's span is as long as it was held.
#
# Seen with grpcio 1.85.3, opentelemetry-sdk 1.45.2 and opentelemetry-instrumentation-grpc 0.66b2. Needs python3 with venv.
# Fails if this changes.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
cd -- "$folder"

python3 -m venv python
python/bin/pip --quiet --disable-pip-version-check install \
  grpcio==1.85.3 opentelemetry-sdk==1.45.2 opentelemetry-instrumentation-grpc==0.66b2

cat >stream.py <<'PYTHON'
import gc
import sys
import threading
import time
from concurrent import futures

import grpc
from opentelemetry import trace
from opentelemetry.instrumentation.grpc import GrpcInstrumentorClient, GrpcInstrumentorServer
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
instrumented = sys.argv[1] == "instrumented"
if instrumented:
    GrpcInstrumentorServer().instrument()
    GrpcInstrumentorClient().instrument()

began = threading.Event()


def watch(_request, _context):
    began.set()
    yield b"first"
    yield b"second"


def as_is(message):
    return message


method = grpc.unary_stream_rpc_method_handler(watch, as_is, as_is)
server = grpc.server(futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop.Prices", {"Watch": method}),))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
call = grpc.insecure_channel(f"127.0.0.1:{port}").unary_stream("/shop.Prices/Watch", as_is, as_is)


def spans(kind, wanted):
    """The ended spans of this kind, once there are so many, or after two seconds."""
    for _ in range(200):
        found = [span for span in exporter.get_finished_spans() if span.kind.name == kind]
        if len(found) >= wanted:
            break
        time.sleep(0.01)
    return found


answer = call(b"")
print("sent before it is read:", began.wait(2))
print("a call:", hasattr(answer, "cancel") and hasattr(answer, "code"))
if instrumented:
    assert next(answer) == b"first"
    print("spans while the answer is held: server", len(spans("SERVER", 1)), "client", len(spans("CLIENT", 1)))
    time.sleep(0.5)
    del answer
    gc.collect()
    [of_client], [of_server] = spans("CLIENT", 1), spans("SERVER", 1)
    assert of_server.parent.span_id == of_client.context.span_id
    times = [(span.end_time - span.start_time) / 1e9 for span in (of_client, of_server)]
    print("the client's span lasts as long as it was held:", times[0] > 2.4 and times[1] < 1)
else:
    answer.cancel()
server.stop(0)
PYTHON

expected='plain
sent before it is read: True
a call: True
instrumented
sent before it is read: False
a call: False
spans while the answer is held: server 1 client 0
the client'"'"'s span lasts as long as it was held: True'
seen=$(for mode in plain instrumented; do echo "$mode"; python/bin/python stream.py "$mode"; done)
printf '%s\n' "$seen"
[[ $seen == "$expected" ]]
