"""A chat room by the library `websockets`: `room.py [--spans URL] [--tls CERTIFICATE KEY]`.

Prints `listening PORT`, and ends when its standard input ends. What a message may ask for stands in `answer`. The spans of a
message belong to the trace that its `traceparent` names.
"""

import argparse
import asyncio
import json
import os
import ssl
import sys
import threading
from http import HTTPStatus

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from websockets.asyncio.server import serve

given = argparse.ArgumentParser()
given.add_argument("--spans")
given.add_argument("--tls", nargs=2)
given = given.parse_args()
provider = TracerProvider(resource=Resource.create({"service.name": "room"}))
if given.spans:
    exporter = OTLPSpanExporter(endpoint=given.spans)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=200))
tracer = provider.get_tracer("room")


async def answer(connection, message):
    """Answers a message, after a tick that nobody asked for."""
    kind = message.get("type")
    with tracer.start_as_current_span(f"handle {kind}", extract(message), kind=trace.SpanKind.SERVER):
        await connection.send(json.dumps({"type": "tick"}))
        if kind == "hello":
            headers = connection.request.headers
            told = {"id": connection.id.hex, "subprotocol": connection.subprotocol, "path": connection.request.path}
            await connection.send(json.dumps({"type": "welcome", "trace": headers.get("traceparent"), **told}))
        elif kind == "say":
            with tracer.start_as_current_span("look up room"):
                await asyncio.sleep(message.get("ms", 1) / 1000)
            await connection.send(json.dumps({"type": "said", "text": message.get("text")}))
        elif kind == "count":
            for number in range(message["n"]):
                await asyncio.sleep(message.get("gap_ms", 0) / 1000)
                await connection.send(json.dumps({"type": "item", "number": number}))
        elif kind == "large":
            await connection.send("x" * message["bytes"])
        elif kind == "leave":
            await connection.close(message["code"], message.get("reason", ""))


async def room(connection):
    async for message in connection:
        if isinstance(message, bytes):
            await connection.send(message)
        else:
            await answer(connection, json.loads(message))


def door(connection, request):
    """Lets nobody in at `/closed`."""
    if request.path.startswith("/closed"):
        return connection.respond(HTTPStatus.FORBIDDEN, "members only\n")
    return None


def chosen(_, offered):
    """The subprotocol; none for those who offer none, which the option `subprotocols` would refuse."""
    return next((known for known in ["chat.v2", "chat.v1"] if known in offered), None)


async def main():
    context = None
    if given.tls:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*given.tls)
        context.set_alpn_protocols(["h2", "http/1.1"])
    options = {"ssl": context, "select_subprotocol": chosen, "process_request": door}
    # Whoever does not answer its pings is closed.
    async with serve(room, "127.0.0.1", 0, ping_interval=0.3, ping_timeout=0.3, **options) as server:
        print("listening", server.sockets[0].getsockname()[1], flush=True)
        await server.serve_forever()


def end():
    sys.stdin.read()
    provider.shutdown()
    os._exit(0)


threading.Thread(target=end, daemon=True).start()
asyncio.run(main())
