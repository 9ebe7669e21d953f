#!/usr/bin/env bash
#
# The server's span of a gRPC call whose deadline passed says that all was well: status code 0, and as long as the work took.
#
# The client gives a call 0.2 s, and gets DEADLINE_EXCEEDED (4); its span is an error. The server is not told to stop: its
# handler runs for the whole second, and what it returns goes nowhere. Its span, which opentelemetry-instrumentation-grpc
# ends then, has `rpc.grpc.status_code` 0 and no error, and ends after its parent. A handler that looks sees that the call
# is over (`context.is_active()` is false); the instrumentation does not look.
#
# So, in a trace: counting errors by the server's spans finds none, and a child that outlives its parent is no asynchronous
# work here, but work whose result is thrown away.
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

cat >deadline.py <<'PYTHON'
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
GrpcInstrumentorServer().instrument()
GrpcInstrumentorClient().instrument()
was_active = []


def charge(_request, context):
    time.sleep(1)
    was_active.append(context.is_active())
    return b"done"


def as_is(message):
    return message


method = grpc.unary_unary_rpc_method_handler(charge, as_is, as_is)
server = grpc.server(futures.ThreadPoolExecutor(4))
server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop.Payments", {"Charge": method}),))
port = server.add_insecure_port("127.0.0.1:0")
server.start()
call = grpc.insecure_channel(f"127.0.0.1:{port}").unary_unary("/shop.Payments/Charge", as_is, as_is)
try:
    call(b"", timeout=0.2)
except grpc.RpcError as error:
    print("the client gets", error.code().name)
for _ in range(500):
    if len(exporter.get_finished_spans()) == 2:
        break
    time.sleep(0.01)
by_kind = {span.kind.name: span for span in exporter.get_finished_spans()}
for kind in ("CLIENT", "SERVER"):
    span = by_kind[kind]
    print(kind, span.status.status_code.name, "code", span.attributes["rpc.grpc.status_code"])
print("the server's ends after its parent:", by_kind["SERVER"].end_time > by_kind["CLIENT"].end_time)
print("the handler could have known:", was_active == [False])
server.stop(0)
PYTHON

expected='the client gets DEADLINE_EXCEEDED
CLIENT ERROR code 4
SERVER UNSET code 0
the server'"'"'s ends after its parent: True
the handler could have known: True'
seen=$(python/bin/python deadline.py)
printf '%s\n' "$seen"
[[ $seen == "$expected" ]]
