"""A service that speaks OpenAI's chat completions, by Starlette and sse-starlette: `chat.py [--spans URL]`.

Prints `listening PORT`, and ends when its standard input ends. A prompt such as `tool 200` has it call a tool that takes
200 ms; its spans are those of OpenTelemetry's conventions for generative AI.
"""

import argparse
import asyncio
import json
import os
import socket
import sys
import threading

import uvicorn
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from sse_starlette.sse import EventSourceResponse
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

TOKENS = "Hello there, this is an answer of ten small tokens.".split()

given = argparse.ArgumentParser()
given.add_argument("--spans")
given = given.parse_args()
provider = TracerProvider(resource=Resource.create({"service.name": "assistant"}))
if given.spans:
    exporter = OTLPSpanExporter(endpoint=given.spans)
    provider.add_span_processor(BatchSpanProcessor(exporter, schedule_delay_millis=200))
tracer = provider.get_tracer("assistant")


async def search(ms):
    with tracer.start_as_current_span("execute_tool search") as span:
        span.set_attributes({"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search"})
        await asyncio.sleep(ms / 1000)


def event(delta, **more):
    return {"data": json.dumps({"object": "chat.completion.chunk", "choices": [{"delta": delta}], **more})}


async def answer(body, context):
    with tracer.start_as_current_span("POST /v1/chat/completions", context, kind=trace.SpanKind.SERVER):
        prompt = body["messages"][-1]["content"].split()
        await search(float(prompt[1]) if prompt[0] == "tool" else 2)
        with tracer.start_as_current_span(f"chat {body['model']}", kind=trace.SpanKind.CLIENT) as span:
            span.set_attributes({"gen_ai.operation.name": "chat", "gen_ai.request.model": body["model"]})
            yield event({"role": "assistant", "content": ""})
            for token in TOKENS:
                await asyncio.sleep(0.002)
                yield event({"content": token + " "})
        if body.get("stream_options", {}).get("include_usage"):
            yield event({}, usage={"completion_tokens": len(TOKENS)})
    yield {"data": "[DONE]"}


async def completions(request):
    body = await request.json()
    if body["model"] == "none":
        return JSONResponse({"error": {"message": "no such model"}}, 404)
    # Comments keep the connection alive, as sse-starlette sends them.
    return EventSourceResponse(answer(body, extract(request.headers)), ping=1)


async def ticks():
    number = 0
    while True:
        number += 1
        yield {"event": "tick", "id": str(number), "data": f"line one of {number}\nline two"}
        await asyncio.sleep(0.005)


async def endless(_):
    return EventSourceResponse(ticks())


routes = [Route("/v1/chat/completions", completions, methods=["POST"]), Route("/ticks", endless)]
# With another number for the protocol, asyncio leaves Nagle's algorithm on: each first event would wait for 40 ms.
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
listener.listen(128)
server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="error"))
print(f"listening {listener.getsockname()[1]}", flush=True)
threading.Thread(target=lambda: (sys.stdin.read(), provider.shutdown(), os._exit(0)), daemon=True).start()
server.run([listener])
