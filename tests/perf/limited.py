#!/usr/bin/env python3
"""A service with one planted limit, traced by OpenTelemetry's SDK: what tests/perf/capacity.py searches.

    tests/perf/limited.py pool 5 PORT RECEIVER_URL

Limits: `pool N` (N connections, a query holds one for 10 ms), `lock` (the same with one), `workers N` (N threads serve, each
connection one request), `loop` (one event loop, 4 ms of processor time a request), `cpu` (threads, 4 ms of processor time a
request), `limiter N` (the N+1st request of a second is answered with 429), `downstream N` (calls a second service of this
process, which has N workers of 10 ms), `retries N` (N workers of 10 ms behind a queue; who waits for 60 ms puts his job there
again, three times, and the workers do all of them), `shop JSON` (the rules of Shop). It listens on 127.0.0.1, and ends when its standard input does.
"""

import asyncio
import contextlib
import json
import os
import queue
import random
import socket
import sys
import threading
import time

from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

HELD_S = 0.010
WORK_S = 0.004


def tracer(service, receiver):
    provider = TracerProvider(resource=Resource.create({"service.name": service, "host.name": socket.gethostname()}))
    exporter = OTLPSpanExporter(endpoint=f"{receiver}/v1/traces", timeout=2)
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=200_000, schedule_delay_millis=500,
                                                   max_export_batch_size=2_000))
    return provider.get_tracer(service)


def spin(seconds):
    """Uses processor time of this thread, whatever else runs."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def read_request(connection):
    """The headers of a request; None at the connection's end."""
    text = b""
    while b"\r\n\r\n" not in text:
        part = connection.recv(65_536)
        if not part:
            return None
        text += part
    lines = text.decode("latin-1").split("\r\n")[1:]
    return dict(line.split(": ", 1) for line in lines if ": " in line)


def lowered(headers):
    return {name.lower(): value for name, value in headers.items()}


def answer(status=200, close=False):
    reason = {200: "OK", 429: "Too Many Requests", 503: "Service Unavailable"}[status]
    end = "Connection: close\r\n" if close else ""
    return f"HTTP/1.1 {status} {reason}\r\nContent-Length: 3\r\n{end}\r\nok\n".encode()


def each_connection(port, serve):
    """Serves every connection with a thread of its own."""
    listener = socket.create_server(("127.0.0.1", port), backlog=4096)
    while True:
        connection, _ = listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=requests_of, args=(connection, serve), daemon=True).start()


def requests_of(connection, serve):
    with contextlib.suppress(OSError), connection:
        while (headers := read_request(connection)) is not None:
            connection.sendall(serve(lowered(headers)))


def pool(tracer, size):
    connections = threading.BoundedSemaphore(size)

    def serve(headers):
        with tracer.start_as_current_span("GET /", context=extract(headers), kind=trace.SpanKind.SERVER):
            with connections, tracer.start_as_current_span("db", attributes={"db.query.text": "SELECT 1"}):
                time.sleep(HELD_S)
        return answer()

    return serve


class Shop:
    """An iteration works by itself, queries some times, and sometimes makes another, long query. All times vary at random."""

    own_ms = 2.0            # the service's own work, twice an iteration
    query_ms = 8.0          # a query
    queries = 1             # how many
    second = (0.0, 0.0)     # how often the long query is made, and its milliseconds
    connections = 64        # so many queries run at a time
    workers = 64            # so many requests are served at a time

    def __init__(self, tracer, rules):
        self.tracer = tracer
        self.__dict__.update(json.loads(rules))
        self.pool, self.entries = threading.BoundedSemaphore(self.connections), threading.BoundedSemaphore(self.workers)

    def sleep(self, milliseconds):
        # With a logarithm's standard deviation of a half, and this mean.
        time.sleep(milliseconds / 1000 * random.lognormvariate(-0.125, 0.5))

    def query(self, statement, milliseconds):
        with self.pool, self.tracer.start_as_current_span("db", attributes={"db.query.text": statement}):
            self.sleep(milliseconds)

    def serve(self, headers):
        span = self.tracer.start_as_current_span("GET /", context=extract(headers), kind=trace.SpanKind.SERVER)
        with self.entries, span:
            self.sleep(self.own_ms)
            for _ in range(self.queries):
                self.query("SELECT * FROM one", self.query_ms)
            if random.random() < self.second[0]:
                self.query("SELECT * FROM two", self.second[1])
            self.sleep(self.own_ms)
        return answer()


def cpu(tracer):
    def serve(headers):
        with tracer.start_as_current_span("GET /", context=extract(headers), kind=trace.SpanKind.SERVER):
            with tracer.start_as_current_span("render"):
                spin(WORK_S)
        return answer()

    return serve


def limiter(tracer, most):
    lock, taken = threading.Lock(), [0, 0]

    def serve(headers):
        with tracer.start_as_current_span("GET /", context=extract(headers), kind=trace.SpanKind.SERVER):
            with lock:
                second = int(time.monotonic())
                taken[:] = [second, taken[1] + 1 if taken[0] == second else 1]
                allowed = taken[1] <= most
        return answer(200 if allowed else 429)

    return serve


def downstream(tracer, inner, size):
    calls = queue.SimpleQueue()

    def work():
        while True:
            headers, done = calls.get()
            with inner.start_as_current_span("POST /stock", context=extract(headers), kind=trace.SpanKind.SERVER):
                time.sleep(HELD_S)
            done.set()

    for _ in range(size):
        threading.Thread(target=work, daemon=True).start()

    def serve(headers):
        with tracer.start_as_current_span("GET /", context=extract(headers), kind=trace.SpanKind.SERVER):
            with tracer.start_as_current_span("POST", kind=trace.SpanKind.CLIENT) as span:
                made = span.get_span_context()
                done = threading.Event()
                parent = f"00-{made.trace_id:032x}-{made.span_id:016x}-01"
                calls.put(({"traceparent": parent}, done))
                done.wait()
        return answer()

    return serve


def retries(tracer, size):
    jobs = queue.SimpleQueue()

    def work():
        while True:
            done = jobs.get()
            time.sleep(HELD_S)
            done.set()

    for _ in range(size):
        threading.Thread(target=work, daemon=True).start()

    def serve(headers):
        with tracer.start_as_current_span("GET /", context=extract(headers), kind=trace.SpanKind.SERVER):
            for _ in range(4):
                done = threading.Event()
                jobs.put(done)
                if done.wait(0.060):
                    return answer()
        return answer(503)

    return serve


def workers(tracer, port, size):
    """Each worker takes a connection, answers one request and closes it, as simple servers before a proxy do."""
    listener = socket.create_server(("127.0.0.1", port), backlog=4096)

    def work():
        while True:
            connection, _ = listener.accept()
            with contextlib.suppress(OSError), connection:
                headers = read_request(connection)
                if headers is None:
                    continue
                span = tracer.start_as_current_span("GET /", context=extract(lowered(headers)), kind=trace.SpanKind.SERVER)
                with span:
                    time.sleep(HELD_S)
                connection.sendall(answer(close=True))

    threads = [threading.Thread(target=work, daemon=True) for _ in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def loop(tracer, port):
    async def serve(reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                text = await reader.readuntil(b"\r\n\r\n")
                lines = text.decode("latin-1").split("\r\n")[1:]
                headers = lowered(dict(line.split(": ", 1) for line in lines if ": " in line))
                token = context.attach(extract(headers))
                try:
                    with tracer.start_as_current_span("GET /", kind=trace.SpanKind.SERVER):
                        with tracer.start_as_current_span("render"):
                            spin(WORK_S)
                finally:
                    context.detach(token)
                writer.write(answer())
                await writer.drain()

    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=4096)
    async with server:
        await server.serve_forever()


def main():
    kind, *size, port, receiver = sys.argv[1:]
    port, size = int(port), size[0] if size else 1
    size = size if kind == "shop" else int(size)
    made = tracer("limited", receiver)

    def serve():
        if kind == "loop":
            asyncio.run(loop(made, port))
        elif kind == "workers":
            workers(made, port, size)
        else:
            of = {"pool": lambda: pool(made, size), "lock": lambda: pool(made, 1), "cpu": lambda: cpu(made),
                  "retries": lambda: retries(made, size),
                  "limiter": lambda: limiter(made, size),
                  "shop": lambda: Shop(made, size).serve,
                  "downstream": lambda: downstream(made, tracer("stock", receiver), size)}
            each_connection(port, of[kind]())

    threading.Thread(target=serve, daemon=True).start()
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main()
