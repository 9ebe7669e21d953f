#!/usr/bin/env python3
"""What `bench` was tried with: servers that end connections as they please, and services traced by real SDKs.

    tests/compat/run.py                            # every row, with target/release/bench
    tests/compat/run.py /path/to/bench             # with another build
    tests/compat/run.py nginx celery               # only these rows
    tests/compat/run.py --write                    # writes the table, tests/compat/README.md
    tests/compat/run.py --list                     # the names of the rows

Not for CI: it takes about 15 minutes and both processors, and installs packages from PyPI and npm, with the versions below,
in `~/.cache/bench-compat` (COMPAT_CACHE names another folder). What it cannot install it names, and goes on:

    apt-get install hey nginx apache2 haproxy caddy lighttpd nodejs npm golang-go tomcat10 puma php-cli redis-server openssl

Everything listens on 127.0.0.1. A server gets 20,000 requests of 10 users; then requests of 100 users that pause about as long
as it keeps a connection; then requests of 10 users while it is reloaded three times. hey does the same each time, and `bench`
may not count failures that hey does not, but for connections that end under a request: those are failures here, as in wrk,
and hey does not show them. An SDK's service is slow in every tenth request because of one span, `slow_step`; the first thing
that `bench` names must be that span, in two of three runs at least. The exit code is 1 if a row is wrong.
"""

import argparse
import contextlib
import dataclasses
import datetime
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import traceback

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
TABLE = pathlib.Path(__file__).with_name("README.md")
CACHE = pathlib.Path(os.environ.get("COMPAT_CACHE", "~/.cache/bench-compat")).expanduser()
# Debian puts servers where only root's path leads.
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"

REQUESTS, USERS = 20_000, 10
IDLE_REQUESTS, IDLE_USERS = 400, 100
RELOAD_S, RELOADS = 6, 3
SDK_RUNS, SDK_REQUESTS, SDK_USERS, LATE_PER_S = 3, 420, 3, 25
START_S = 30

SERVER_PINS = [
    "gunicorn==27.0.1", "uvicorn==0.54.0", "httptools==0.9.0", "uvloop==0.23.0", "hypercorn==0.18.0", "h2==4.4.1",
    "granian==2.8.9",
]
# The contributed packages are betas that name the releases they go with.
OTEL_PINS = ["opentelemetry-sdk==1.45.1", "opentelemetry-exporter-otlp-proto-http==1.45.1", "opentelemetry-distro==0.66b1"]
WEB_PINS = ["fastapi==0.165.0", "uvicorn==0.54.0", "opentelemetry-instrumentation-fastapi==0.66b1"]
PYTHON = {
    "servers": SERVER_PINS,
    "python": OTEL_PINS,
    "flask": OTEL_PINS + ["Flask==3.1.3", "opentelemetry-instrumentation-flask==0.66b1"],
    "fastapi": OTEL_PINS + WEB_PINS,
    "logfire": OTEL_PINS + WEB_PINS + ["logfire==5.4.0"],
    "celery": OTEL_PINS + WEB_PINS
    + ["celery==5.7.0", "redis==8.1.0", "opentelemetry-instrumentation-celery==0.66b1"],
}
NODE = {
    "js": ["@opentelemetry/api@1.9.1", "@opentelemetry/sdk-trace-node@2.12.1", "@opentelemetry/exporter-trace-otlp-http@0.223.1"],
    "express": ["@opentelemetry/api@1.9.1", "@opentelemetry/auto-instrumentations-node@0.81.2", "express@5.3.0"],
    "deno": ["@opentelemetry/api@1.9.1", "deno@2.9.6"],
}


class NotRun(Exception):
    """Why a row cannot be run here."""


class Wrong(Exception):
    """What a row found."""


# ------------------------------------------------------------------ servers, as data

NGINX = """
daemon off; user root; worker_processes 2; pid @DIR@/pid; error_log @DIR@/error.log;
events {}
http {
  access_log off; keepalive_timeout 1s;
  client_body_temp_path @DIR@/a; proxy_temp_path @DIR@/b; fastcgi_temp_path @DIR@/c; uwsgi_temp_path @DIR@/d;
  scgi_temp_path @DIR@/e;
  ssl_certificate @DIR@/cert.pem; ssl_certificate_key @DIR@/key.pem;
  server { listen 127.0.0.1:@PORT@ @TLS@; location / { return 200 "ok\\n"; } }
}
"""
APACHE = """
ServerRoot @DIR@
ServerName 127.0.0.1
Listen 127.0.0.1:@PORT@
PidFile @DIR@/pid
ErrorLog @DIR@/error.log
DefaultRuntimeDir @DIR@
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
User nobody
Group nogroup
KeepAliveTimeout 1
DocumentRoot @DIR@/public
DirectoryIndex index.txt
@TLS@
"""
APACHE_TLS = """
LoadModule ssl_module /usr/lib/apache2/modules/mod_ssl.so
LoadModule http2_module /usr/lib/apache2/modules/mod_http2.so
Protocols h2 http/1.1
SSLEngine on
SSLCertificateFile @DIR@/cert.pem
SSLCertificateKeyFile @DIR@/key.pem
"""
HAPROXY = """
global
  maxconn 2000
defaults
  mode http
  timeout client 10s
  timeout connect 5s
  timeout server 10s
  timeout http-request 10s
  timeout http-keep-alive 1s
frontend f
  bind 127.0.0.1:@PORT@ @TLS@
  http-request return status 200 content-type text/plain string "ok"
"""
CADDY = """
{
  admin 127.0.0.1:@PORT2@
  auto_https off
  servers {
    timeouts {
      idle 1s
    }
  }
}
@SCHEME@://127.0.0.1:@PORT@ {
  @TLS@
  respond "ok"
}
"""
LIGHTTPD = """
server.document-root = "@DIR@/public"
server.bind = "127.0.0.1"
server.port = @PORT@
server.errorlog = "@DIR@/error.log"
server.pid-file = "@DIR@/pid"
server.max-keep-alive-idle = 1
index-file.names = ("index.txt")
mimetype.assign = (".txt" => "text/plain")
"""
TOMCAT = """
<Server port="-1"><Service name="Catalina">
  <Connector address="127.0.0.1" port="@PORT@" protocol="HTTP/1.1" keepAliveTimeout="1000" />
  <Engine name="Catalina" defaultHost="localhost">
    <Host name="localhost" appBase="webapps"><Context path="" docBase="@DIR@/public" /></Host>
  </Engine>
</Service></Server>
"""
WSGI_ASGI = """
def wsgi(environ, start):
    start("200 OK", [("content-type", "text/plain"), ("content-length", "3")])
    return [b"ok\\n"]

async def asgi(scope, receive, send):
    if scope["type"] != "http":
        raise NotImplementedError
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"3")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok\\n"})
"""
NODE_SERVER = """
const { readFileSync } = require('node:fs');
const answer = (request, response) => response.end('ok\\n');
const pair = '@TLS@' && { key: readFileSync('key.pem'), cert: readFileSync('cert.pem') };
const server = pair ? require('node:http2').createSecureServer(pair, answer) : require('node:http').createServer(answer);
server.keepAliveTimeout = 1000;
if (pair) server.setTimeout(1000);
server.listen(@PORT@, '127.0.0.1', 511);
"""
GO_SERVER = """
package main

import ("fmt"; "net/http"; "os"; "time")

func main() {
	server := &http.Server{Addr: os.Args[1], IdleTimeout: time.Second}
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "ok") })
	if len(os.Args) > 2 {
		panic(server.ListenAndServeTLS("cert.pem", "key.pem"))
	}
	panic(server.ListenAndServe())
}
"""
PUMA = 'bind "tcp://127.0.0.1:@PORT@"\nworkers 2\nthreads 4, 4\npersistent_timeout 1\n'
RACK = 'run ->(env) { [200, { "content-type" => "text/plain" }, ["ok\\n"]] }\n'


@dataclasses.dataclass
class Server:
    """A server, how it is started with a limit of 1 s on idle connections, and how it is reloaded."""

    name: str
    command: list  # @DIR@, @PORT@, @PORT2@, @PYTHON@ and @TLS@ stand for what they say
    version: list  # a command, or the name of a package of `servers`
    files: dict = dataclasses.field(default_factory=dict)
    tls: str = ""  # what @TLS@ is; with it, the row is HTTP/2
    environment: dict = dataclasses.field(default_factory=dict)
    # Pauses between requests, in milliseconds: around the limit, as exactly as the server keeps it.
    pauses: tuple = (980, 1020)
    no_idle: str = ""  # why there is nothing to try
    reload: object = None  # a signal for the main process, or a command
    # What shows that it was reloaded: `workers` (other processes serve), or a text in its log, once each time.
    shows: str = "workers"
    needs: tuple = ()  # files without which it cannot start


def h2(server, **different):
    return dataclasses.replace(server, name=f"{server.name}-h2", **different)


NGINX_ROW = Server(
    "nginx", ["nginx", "-c", "@DIR@/nginx.conf"], ["nginx", "-v"], {"nginx.conf": NGINX}, reload=signal.SIGHUP
)
APACHE_ROW = Server(
    "apache", ["apache2", "-D", "FOREGROUND", "-f", "@DIR@/apache.conf"], ["apache2", "-v"], {"apache.conf": APACHE},
    reload=signal.SIGUSR1,
)
HAPROXY_ROW = Server(
    "haproxy", ["haproxy", "-W", "-f", "@DIR@/haproxy.cfg"], ["haproxy", "-v"], {"haproxy.cfg": HAPROXY},
    reload=signal.SIGUSR2,
)
CADDY_ROW = Server(
    "caddy", ["caddy", "run", "--config", "@DIR@/Caddyfile"], ["caddy", "version"], {"Caddyfile": CADDY},
    environment={"HOME": "@DIR@"}, shows="load complete",
    reload=["caddy", "reload", "--force", "--config", "@DIR@/Caddyfile", "--address", "127.0.0.1:@PORT2@"],
)
GUNICORN = ["@PYTHON@", "-m", "gunicorn", "--bind", "127.0.0.1:@PORT@", "--workers", "2", "--keep-alive", "1"]
HYPERCORN_ROW = Server(
    "hypercorn", ["@PYTHON@", "-m", "hypercorn", "app:asgi", "--bind", "127.0.0.1:@PORT@", "--keep-alive", "1"],
    "hypercorn", {"app.py": WSGI_ASGI},
)
# It adds a second to what was set.
NODE_ROW = Server(
    "node", ["node", "server.js"], ["node", "--version"], {"server.js": NODE_SERVER}, pauses=(1960, 2060)
)
GO_ROW = Server("go", ["@DIR@/server", "127.0.0.1:@PORT@"], ["go", "version"], {"server.go": GO_SERVER})

SERVERS = [
    NGINX_ROW,
    h2(NGINX_ROW, tls="ssl http2"),
    APACHE_ROW,
    h2(APACHE_ROW, tls=APACHE_TLS),
    HAPROXY_ROW,
    h2(HAPROXY_ROW, tls="ssl crt @DIR@/both.pem alpn h2"),
    CADDY_ROW,
    h2(CADDY_ROW, tls="tls @DIR@/cert.pem @DIR@/key.pem"),
    # It looks at idle connections once a second.
    Server(
        "lighttpd", ["lighttpd", "-D", "-f", "@DIR@/lighttpd.conf"], ["lighttpd", "-v"], {"lighttpd.conf": LIGHTTPD},
        pauses=(900, 2100), reload=signal.SIGUSR1, shows="graceful shutdown started",
    ),
    Server(
        "gunicorn-sync", GUNICORN + ["--worker-class", "sync", "app:wsgi"], "gunicorn", {"app.py": WSGI_ASGI},
        no_idle="it closes after each answer", reload=signal.SIGHUP,
    ),
    Server(
        "gunicorn-gthread", GUNICORN + ["--worker-class", "gthread", "--threads", "4", "app:wsgi"], "gunicorn",
        {"app.py": WSGI_ASGI}, pauses=(900, 1500), reload=signal.SIGHUP,
    ),
    Server(
        "uvicorn",
        ["@PYTHON@", "-m", "uvicorn", "app:asgi", "--port", "@PORT@", "--workers", "2", "--timeout-keep-alive", "1",
         "--no-access-log"],
        "uvicorn", {"app.py": WSGI_ASGI}, reload=signal.SIGHUP,
    ),
    HYPERCORN_ROW,
    h2(HYPERCORN_ROW, command=HYPERCORN_ROW.command + ["--certfile", "cert.pem", "--keyfile", "key.pem"], tls="h2"),
    Server(
        "granian",
        ["@PYTHON@", "-m", "granian", "--interface", "asgi", "--port", "@PORT@", "--workers", "2",
         "--http1-header-read-timeout", "1000", "app:asgi"],
        "granian", {"app.py": WSGI_ASGI}, reload=signal.SIGHUP,
    ),
    NODE_ROW,
    h2(NODE_ROW, tls="h2", pauses=(960, 1010)),
    GO_ROW,
    h2(GO_ROW, command=GO_ROW.command + ["h2"], tls="h2"),
    Server(
        "tomcat", ["/usr/share/tomcat10/bin/catalina.sh", "run"], ["/usr/share/tomcat10/bin/version.sh"],
        {"conf/server.xml": TOMCAT}, environment={"CATALINA_BASE": "@DIR@", "CATALINA_HOME": "/usr/share/tomcat10"},
        pauses=(900, 2100), needs=("/usr/share/tomcat10/bin/catalina.sh",),
    ),
    Server(
        "puma", ["puma", "-C", "@DIR@/puma.rb", "@DIR@/config.ru"], ["puma", "--version"],
        {"puma.rb": PUMA, "config.ru": RACK}, pauses=(900, 2100), reload=signal.SIGUSR1,
    ),
    Server(
        "php", ["php", "-S", "127.0.0.1:@PORT@", "router.php"], ["php", "--version"],
        {"router.php": "<?php echo \"ok\\n\";\n"}, environment={"PHP_CLI_SERVER_WORKERS": "2"},
        no_idle="it closes after each answer",
    ),
]

# ------------------------------------------------------------------ services of SDKs, as data

# Every tenth request takes 40 ms instead of 2 in this one place.
PYTHON_STEP = """
import time
from opentelemetry import trace

def slow_step(number):
    with trace.get_tracer("shop").start_as_current_span("slow_step"):
        time.sleep(0.04 if number % 10 == 3 else 0.002)
"""
PYTHON_PROVIDER = """
import os
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

def trace_as(service):
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
"""
PYTHON_SERVICE = PYTHON_PROVIDER + """
import http.server, sys
from opentelemetry.propagate import extract
from step import slow_step

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        context = extract({name.lower(): value for name, value in self.headers.items()})
        with trace.get_tracer("shop").start_as_current_span("GET /orders", context, kind=trace.SpanKind.SERVER):
            slow_step(int(self.path.rsplit("/", 1)[1]))
        self.send_response(200)
        self.send_header("content-length", "3")
        self.end_headers()
        self.wfile.write(b"ok\\n")

    def log_message(self, *_):
        pass

trace_as("python")
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""
FLASK_SERVICE = """
from flask import Flask
from step import slow_step

app = Flask(__name__)

@app.get("/orders/<int:number>")
def order(number):
    slow_step(number)
    return "ok"
"""
FASTAPI_SERVICE = """
from fastapi import FastAPI
from step import slow_step

app = FastAPI()

@app.get("/orders/{number}")
def order(number: int):
    slow_step(number)
    return "ok"
"""
LOGFIRE_SERVICE = """
import time
import logfire
from fastapi import FastAPI

logfire.configure(send_to_logfire=False, service_name="logfire", console=False)
app = FastAPI()
logfire.instrument_fastapi(app)

@app.get("/orders/{number}")
def order(number: int):
    with logfire.span("slow_step"):
        time.sleep(0.04 if number % 10 == 3 else 0.002)
    return "ok"
"""
CELERY_SERVICE = PYTHON_PROVIDER + """
from celery import Celery
from celery.signals import worker_process_init
from fastapi import FastAPI
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.instrumentation.fastapi import FastAPIInstrumentor
from step import slow_step

tasks = Celery("service", broker=os.environ["BROKER"])
tasks.conf.update(task_ignore_result=True, worker_hijack_root_logger=False)

@tasks.task
def ship(number):
    slow_step(number)

@worker_process_init.connect(weak=False)
def traced_worker(**_):
    trace_as("worker")
    CeleryInstrumentor().instrument()

def front():
    trace_as("front")
    CeleryInstrumentor().instrument()
    app = FastAPI()

    @app.get("/orders/{number}")
    def order(number: int):
        ship.delay(number)
        return "ok"

    FastAPIInstrumentor.instrument_app(app)
    return app
"""
JS_STEP = """
const { setTimeout: sleep } = require('node:timers/promises');
const { trace } = require('@opentelemetry/api');
exports.slowStep = (number) => trace.getTracer('shop').startActiveSpan('slow_step', async (span) => {
  await sleep(number % 10 === 3 ? 40 : 2);
  span.end();
});
"""
JS_SERVICE = """
const http = require('node:http');
const { context, propagation, trace, SpanKind } = require('@opentelemetry/api');
const { BatchSpanProcessor, NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');
const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-http');
const { resourceFromAttributes } = require('@opentelemetry/resources');
const { slowStep } = require('./step.js');

new NodeTracerProvider({
  resource: resourceFromAttributes({ 'service.name': 'js' }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter())],
}).register();
http.createServer((request, response) => {
  const parent = propagation.extract(context.active(), request.headers);
  trace.getTracer('shop').startActiveSpan('GET /orders', { kind: SpanKind.SERVER }, parent, async (span) => {
    await slowStep(Number(request.url.split('/').pop()));
    span.end();
    response.end('ok\\n');
  });
}).listen(Number(process.argv[2]), '127.0.0.1');
"""
EXPRESS_SERVICE = """
const express = require('express');
const { slowStep } = require('./step.js');
const app = express();
app.get('/orders/:number', async (request, response) => {
  await slowStep(Number(request.params.number));
  response.send('ok');
});
app.listen(Number(process.argv[2]), '127.0.0.1');
"""
DENO_SERVICE = """
import { trace } from '@opentelemetry/api';
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
Deno.serve({ hostname: '127.0.0.1', port: Number(Deno.args[0]) }, (request) => {
  const number = Number(new URL(request.url).pathname.split('/').pop());
  return trace.getTracer('shop').startActiveSpan('slow_step', async (span) => {
    await sleep(number % 10 === 3 ? 40 : 2);
    span.end();
    return new Response('ok');
  });
});
"""
AUTO = ["@BIN@/opentelemetry-instrument", "@PYTHON@", "-m"]
UVICORN = ["uvicorn", "--port", "@PORT@", "--no-access-log", "--log-level", "warning"]
PARCELS = REPOSITORY / "target/debug/otel-parcels"


@dataclasses.dataclass
class Sdk:
    """A service of an SDK, what it is made of, and which span of which service must be named."""

    name: str
    says: str  # how it is traced
    commands: list  # the first is the service that is asked
    files: dict = dataclasses.field(default_factory=dict)
    service: str = ""  # of the span; the row's name without one
    span: str = "slow_step"
    folder: str = ""  # a key of PYTHON or NODE; the row's name without one
    path: str = "/orders/{{ iteration }}"
    headers: str = ""
    environment: dict = dataclasses.field(default_factory=dict)
    is_late: bool = False  # the work goes on after the answer, which then does not hold the load back
    needs: tuple = ()


STEP = {"step.py": PYTHON_STEP}
SDKS = [
    Sdk("python", "by hand, http.server", [["@PYTHON@", "service.py", "@PORT@"]], {"service.py": PYTHON_SERVICE, **STEP}),
    Sdk(
        "flask", "opentelemetry-instrument", [AUTO + ["flask", "--app", "service", "run", "--port", "@PORT@"]],
        {"service.py": FLASK_SERVICE, **STEP},
    ),
    Sdk(
        "fastapi", "opentelemetry-instrument", [AUTO + UVICORN + ["service:app"]],
        {"service.py": FASTAPI_SERVICE, **STEP},
    ),
    Sdk("logfire", "logfire, FastAPI", [["@PYTHON@", "-m"] + UVICORN + ["service:app"]], {"service.py": LOGFIRE_SERVICE}),
    Sdk(
        "celery", "Celery, redis, FastAPI; `end: asynchronous`",
        [["@PYTHON@", "-m"] + UVICORN + ["--factory", "service:front"],
         ["redis-server", "--bind", "127.0.0.1", "--port", "@PORT2@", "--save", "", "--dir", "@DIR@"],
         ["@PYTHON@", "-m", "celery", "-A", "service:tasks", "worker", "--concurrency", "4", "--loglevel", "warning"]],
        {"service.py": CELERY_SERVICE, **STEP}, service="worker", is_late=True,
        environment={"BROKER": "redis://127.0.0.1:@PORT2@"},
    ),
    Sdk("js", "by hand, node:http", [["node", "service.js", "@PORT@"]], {"service.js": JS_SERVICE, "step.js": JS_STEP}),
    Sdk(
        "express", "auto-instrumentations-node",
        [["node", "--require", "@opentelemetry/auto-instrumentations-node/register", "service.js", "@PORT@"]],
        {"service.js": EXPRESS_SERVICE, "step.js": JS_STEP},
    ),
    Sdk(
        "deno", "built in, OTEL_DENO=true",
        [["@BIN@/deno", "run", "--allow-net", "--allow-env", "--allow-read", "service.mjs", "@PORT@"]],
        {"service.mjs": DENO_SERVICE}, environment={"OTEL_DENO": "true"},
    ),
    # The shop's third service, which works longer for one tenant.
    Sdk(
        "axum", "tracing-opentelemetry (tests/otel/parcels)", [[str(PARCELS), "127.0.0.1:@PORT@"]], span="fill_boxes",
        path="/pack/5", headers="{ baggage: 'tenant=tenant-{{ iteration % 10 }}', shop-cause: cpu }", needs=(str(PARCELS),),
    ),
]

# ------------------------------------------------------------------ processes and packages


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def call(command, folder=None, timeout=600, **options):
    ended = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL, **options
    )
    if ended.returncode != 0:
        raise NotRun(f"`{' '.join(map(str, command))}` failed: {(ended.stderr or ended.stdout).strip()[-300:]}")
    return ended.stdout + ended.stderr


def command_of(name):
    found = shutil.which(name, path=PATH)
    if not found:
        raise NotRun(f"{name} is not installed")
    return found


def installed(folder, pins, install):
    """A folder of the cache with these packages, made anew if the pins have changed."""
    stamp = folder / "pins.txt"
    if not stamp.exists() or stamp.read_text() != "\n".join(pins):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        install()
        stamp.write_text("\n".join(pins))
    return folder


def python_of(name):
    folder = CACHE / f"python-{name}"

    def install():
        call([sys.executable, "-m", "venv", folder])
        call([folder / "bin/python", "-m", "pip", "install", "--quiet", "--only-binary", ":all:", *PYTHON[name]])

    return installed(folder, PYTHON[name], install)


def node_of(name):
    folder = CACHE / f"node-{name}"

    def install():
        (folder / "package.json").write_text('{ "private": true }\n')
        # No package's code runs.
        call([command_of("npm"), "install", "--ignore-scripts", "--no-audit", "--no-fund", "--save-exact", *NODE[name]], folder)

    return installed(folder, NODE[name], install)


class Processes:
    """What a row has started, each as a process group of its own; `stop` ends them all."""

    def __init__(self, folder, words, environment):
        self.folder, self.words, self.started = folder, words, []
        clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "PYTHON"))}
        self.environment = {**clean, "PATH": PATH, **{name: self.say(value) for name, value in environment.items()}}

    def say(self, text):
        for _ in range(2):
            for word, value in self.words.items():
                text = text.replace(f"@{word}@", str(value))
        return text

    def start(self, command):
        command = [self.say(part) for part in command]
        command[0] = command_of(command[0])
        log = self.folder / f"log-{len(self.started)}.txt"
        process = subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=log.open("wb"),
            stderr=subprocess.STDOUT, start_new_session=True,
        )
        self.started.append(process)
        return process

    def logs(self):
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("*log*")) if path.is_file())

    def stop(self):
        for how, wait_s in ((signal.SIGTERM, 5), (signal.SIGKILL, 5)):
            for process in self.started:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, how)
            end = time.monotonic() + wait_s
            for process in self.started:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.1, end - time.monotonic()))


def wait_until_it_answers(processes, url, path):
    scheme, address = url.split("://")
    end, trouble = time.monotonic() + START_S, None
    while time.monotonic() < end:
        if any(process.poll() is not None for process in processes.started):
            break
        try:
            if scheme == "https":
                connection = http.client.HTTPSConnection(address, timeout=2, context=ssl._create_unverified_context())
                connection.connect()
                connection.close()
                return
            connection = http.client.HTTPConnection(address, timeout=2)
            connection.request("GET", path)
            if connection.getresponse().status == 200:
                return
        except (OSError, http.client.HTTPException) as error:
            trouble = error
        time.sleep(0.1)
    raise NotRun(f"it does not answer ({trouble}): {processes.logs().strip()[-400:]}")


def children_of(pid):
    found = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return set(found.stdout.split())


# ------------------------------------------------------------------ loads


def run_bench(bench, folder, scenario, deployment, *options):
    """The results of a run, as `bench` wrote them."""
    (folder / "s.yaml").write_text(scenario)
    (folder / "d.yaml").write_text(deployment)
    out = pathlib.Path(tempfile.mkdtemp(prefix="out-", dir=folder))
    command = [bench, "run", "s.yaml", "--out", out, "--quiet", *options]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
    found = list(out.glob("*/results.json"))
    if ended.returncode != 0 or not found:
        raise Wrong(f"bench ended with {ended.returncode}: {(ended.stderr or ended.stdout).strip()[-400:]}")
    return json.loads(found[0].read_text())


def classes_of(errors):
    """`12 closed, 1 timeout`: what `bench` calls them, without their messages."""
    counts = {}
    for one in errors:
        counts[one["class"]] = counts.get(one["class"], 0) + one["count"]
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def bench_load(bench, folder, url, runner, pause="", http_version=1):
    seen = run_bench(
        bench, folder,
        f"title: t\ndeployment: d.yaml\nrunner: {runner}\niteration:\n"
        f"  - {{ action: a, get: /, expect: {{ status: 200 }} }}\n{pause}",
        f'targets: {{ default: "{url}" }}\n'
        + ("http: { version: 2 }\ntls: { ca: cert.pem }\n" if http_version == 2 else ""),
        "--no-profile", "--no-probe",
    )["workloads"][0]
    action, counts = seen["actions"][0], seen["iterations"]
    if http_version == 2 and action["http2"] != action["requests"]["total"]:
        raise Wrong(f"{action['http2']} of {action['requests']['total']} requests went over HTTP/2")
    times = {one["percentile"]: one["value_ms"] for one in action["service_time"]["percentiles"]}
    return {
        "kept_alive": sum(one["count"] for one in seen["errors"] if one["class"] == "kept_alive_closed"),
        "ok": counts["ok"], "failed": counts["failed"], "resent": counts.get("resent", 0), "errors": classes_of(seen["errors"]),
        "p50": times.get(50.0, 0.0), "p99": times.get(99.0, 0.0), "max": action["service_time"]["max_ms"],
        "opened": action["connections_opened"],
    }


def hey_load(folder, url, *options, is_h2=False):
    # Without -host, it asks for a certificate of `127.0.0.1:PORT`, which Caddy does not have.
    tls = ["-h2", "-host", "127.0.0.1"] if is_h2 else []
    command = [command_of("hey"), *tls, *map(str, options), f"{url}/"]
    said = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180, check=False).stdout
    statuses = {int(code): int(count) for code, count in re.findall(r"\[(\d{3})\]\s+(\d+) responses", said)}
    errors = re.findall(r"^\s+\[(\d+)\]\s+(\D.*)$", said.partition("Error distribution:")[2], re.M)
    ok = statuses.get(200, 0)

    def ms(pattern):
        found = re.search(pattern, said)
        return float(found[1]) * 1000 if found else 0.0

    return {
        "ok": ok, "failed": sum(statuses.values()) - ok + sum(int(count) for count, _ in errors),
        "errors": "; ".join(f"{count} {text.strip()}" for count, text in errors),
        "p50": ms(r"50% in ([\d.]+)"), "p99": ms(r"99% in ([\d.]+)"), "max": ms(r"Slowest:\s+([\d.]+)"),
    }


def reasons(mine, peer):
    return "; ".join(filter(None, (mine["errors"], peer["errors"] and f"hey: {peer['errors']}"))) or "too few requests"


def times(one):
    return f"{one['p50']:.2g} / {one['p99']:.2g} / {one['max']:.3g} ms"


# ------------------------------------------------------------------ rows of servers


@dataclasses.dataclass
class Outcome:
    """A row of the table: cells as they are printed, and `right`, `WRONG: …` or `not run: …`."""

    name: str
    version: str
    cells: list
    verdict: str


def version_of(server):
    if isinstance(server.version, str):
        return next(pin for pin in SERVER_PINS if pin.startswith(server.version)).partition("==")[2]
    said = call([command_of(server.version[0]), *server.version[1:]])
    return re.search(r"(?<![\w.])(?:v|go)?(\d+\.\d+(?:\.\d+)*)", said)[1]


class ServerRow:
    """A server that runs, and what is tried with it."""

    def __init__(self, server, bench, folder, certificate):
        self.server, self.bench, self.folder = server, bench, folder
        self.is_h2 = bool(server.tls)
        self.version_number = 2 if self.is_h2 else 1
        words = {
            "DIR": folder, "PORT": free_port(), "PORT2": free_port(), "TLS": server.tls,
            "SCHEME": "https" if self.is_h2 else "http",
        }
        if any("@PYTHON@" in part for part in server.command):
            words["PYTHON"] = python_of("servers") / "bin/python"
        self.url = f"{words['SCHEME']}://127.0.0.1:{words['PORT']}"
        self.processes = Processes(folder, words, server.environment)
        for path in certificate.glob("*.pem"):
            shutil.copy(path, folder)
        (folder / "public").mkdir()
        (folder / "public/index.txt").write_text("ok\n")
        (folder / "public/index.html").write_text("ok\n")
        for name, text in server.files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(self.processes.say(text))

    def prepare(self):
        """What two of them need besides their files."""
        if self.server.files.get("server.go"):
            environment = {**os.environ, "GOCACHE": str(CACHE / "go"), "GO111MODULE": "off"}
            call([command_of("go"), "build", "-o", "server", "server.go"], self.folder, env=environment)
        if self.server.name == "tomcat":
            shutil.copy("/usr/share/tomcat10/etc/web.xml", self.folder / "conf/web.xml")
            for name in ("logs", "temp", "work", "webapps"):
                (self.folder / name).mkdir(exist_ok=True)

    def hey(self, *options):
        return hey_load(self.folder, self.url, *options, is_h2=self.is_h2)

    def bench_load(self, runner, pause=""):
        return bench_load(self.bench, self.folder, self.url, runner, pause, self.version_number)

    def load(self):
        peer = self.hey("-n", REQUESTS, "-c", USERS)
        mine = self.bench_load(f"{{ constant: {{ times: {REQUESTS}, concurrency: {USERS} }} }}")
        cell = f"{mine['failed']} failed, {times(mine)}; hey {peer['failed']}, {times(peer)}"
        if mine["failed"] or mine["ok"] != REQUESTS or not peer["ok"]:
            raise Wrong(f"{cell} ({reasons(mine, peer)})")
        if not peer["p50"] / 2 - 0.5 <= mine["p50"] <= 2 * peer["p50"] + 0.5:
            raise Wrong(f"{cell} (the medians differ)")
        return cell

    def idle(self):
        if self.server.no_idle:
            return f"none: {self.server.no_idle}"
        low, high = self.server.pauses
        peer = self.hey("-n", IDLE_REQUESTS, "-c", IDLE_USERS, "-q", 1)
        mine = self.bench_load(
            f"{{ constant: {{ times: {IDLE_REQUESTS}, concurrency: {IDLE_USERS} }} }}",
            f"  - think: {{ min: {low}ms, max: {high}ms }}\n",
        )
        cell = (
            f"{mine['failed']} of {IDLE_REQUESTS} failed, {mine['resent']} resent, {mine['opened']} connections; "
            f"hey {peer['failed']}"
        )
        if mine["failed"] or mine["ok"] != IDLE_REQUESTS:
            raise Wrong(f"{cell} ({reasons(mine, peer)})")
        if not IDLE_USERS + 10 <= mine["opened"] <= IDLE_REQUESTS - 10:
            raise Wrong(f"{cell}: the pauses are not around its limit")
        return cell

    def reload_some(self):
        """Reloads it at even distances while a load runs."""
        main = self.processes.started[0]
        for _ in range(RELOADS):
            time.sleep(RELOAD_S / (RELOADS + 1))
            if isinstance(self.server.reload, list):
                call([self.processes.say(part) for part in self.server.reload], self.folder, env=self.processes.environment)
            else:
                os.kill(main.pid, self.server.reload)

    def under_reload(self, load):
        """What the load gave, if the server shows that it was reloaded."""
        main = self.processes.started[0].pid
        before, seen = children_of(main), self.processes.logs().count(self.server.shows)
        thread = threading.Thread(target=self.reload_some)
        thread.start()
        try:
            result = load()
        finally:
            thread.join()
        time.sleep(0.5)
        if self.server.shows == "workers":
            is_done = bool(children_of(main) - before)
        else:
            is_done = self.processes.logs().count(self.server.shows) - seen >= RELOADS
        if not is_done:
            raise Wrong("it was not reloaded")
        return result

    def reload(self):
        if self.server.reload is None:
            return "–"
        peer = self.under_reload(lambda: self.hey("-z", f"{RELOAD_S}s", "-c", USERS))
        mine = self.under_reload(
            lambda: self.bench_load(f"{{ constant_for_duration: {{ duration: {RELOAD_S}, concurrency: {USERS} }} }}")
        )
        cell = (
            f"{mine['failed']} of {mine['ok'] + mine['failed']:,} failed, {mine['resent']} resent; "
            f"hey {peer['failed']} of {peer['ok'] + peer['failed']:,}"
        )
        # A request on a connection that ends under it, without a word and while it is in use, is a failure, which hey does not show.
        if mine["failed"] - mine["kept_alive"] > peer["failed"] or not mine["ok"] or not peer["ok"]:
            raise Wrong(f"{cell} ({reasons(mine, peer)})")
        return f"{cell} ({mine['errors']})" if mine["errors"] else cell


def try_server(server, bench, folder, certificate):
    cells, wrong, version = [], [], "–"
    try:
        for path in server.needs:
            if not os.path.exists(path):
                raise NotRun(f"{path} is missing")
        version = version_of(server)
        row = ServerRow(server, bench, folder, certificate)
        row.prepare()
    except NotRun as why:
        return Outcome(server.name, version, ["–"] * 3, f"not run: {why}")
    try:
        row.processes.start(server.command)
        wait_until_it_answers(row.processes, row.url, "/")
        for step in (row.load, row.idle, row.reload):
            try:
                cells.append(step())
            except Wrong as what:
                cells.append(f"**{what}**")
                wrong.append(step.__name__)
    except NotRun as why:
        return Outcome(server.name, version, ["–"] * 3, f"not run: {why}")
    finally:
        row.processes.stop()
    return Outcome(server.name, version, cells, f"WRONG: {', '.join(wrong)}" if wrong else "right")


# ------------------------------------------------------------------ rows of SDKs


def sdk_environment(sdk, receiver):
    return {
        "OTEL_SERVICE_NAME": sdk.name, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{receiver}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf", "OTEL_BSP_SCHEDULE_DELAY": "500",
        "OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "none", "OTEL_LOGS_EXPORTER": "none",
        "OTEL_NODE_RESOURCE_DETECTORS": "env,host,os,process", **sdk.environment,
    }


def start_sdk(sdk, folder, receiver):
    words = {"DIR": folder, "PORT": free_port(), "PORT2": free_port()}
    name = sdk.folder or sdk.name
    if name in PYTHON:
        words["BIN"] = python_of(name) / "bin"
        words["PYTHON"] = words["BIN"] / "python"
    elif name in NODE:
        modules = node_of(name)
        words["BIN"] = modules / "node_modules/.bin"
        (folder / "node_modules").symlink_to(modules / "node_modules")
        shutil.copy(modules / "package.json", folder)
    for path, text in sdk.files.items():
        (folder / path).write_text(text)
    processes = Processes(folder, words, sdk_environment(sdk, receiver))
    try:
        for command in sdk.commands:
            processes.start(command)
        # Any request will do: none is traced yet.
        wait_until_it_answers(processes, f"http://127.0.0.1:{words['PORT']}", sdk.path.replace("{{ iteration }}", "0"))
    except BaseException:
        processes.stop()
        raise
    return processes, words["PORT"]


def load_sdk(sdk, bench, folder, port, receiver):
    headers = f"    headers: {sdk.headers}\n" if sdk.headers else ""
    runner = f"constant: {{ times: {SDK_REQUESTS}, concurrency: {SDK_USERS} }}"
    end = ""
    if sdk.is_late:
        runner, end = f"rps: {{ rps: {LATE_PER_S}, times: {SDK_REQUESTS} }}", "end: { asynchronous: { deadline: 4s } }\n"
    return run_bench(
        bench, folder,
        f"title: t\ndeployment: d.yaml\nwarm_up: {{ times: 30 }}\n"
        f"runner: {{ {runner} }}\n{end}"
        f"iteration:\n  - action: order\n    get: {sdk.path}\n{headers}    expect: {{ status: 200 }}\n",
        f'targets: {{ default: "http://127.0.0.1:{port}" }}\nprofiler: {{ receive: "{receiver}" }}\n',
    )


def judge_sdk(sdk, seen):
    """What a run named, of which traces, and what is wrong; a cause that it calls unclear is not wrong by itself."""
    workload, profiling = seen["workloads"][0], seen["profiling"]
    compared = (workload.get("asynchronous") or {}).get("late") or {} if sdk.is_late else workload
    comparison = compared.get("comparison") or {"kinds": [], "no_finding": "no comparison", "slow": 0, "left_out": 0}
    complete, total = profiling["fetched"].get("complete", 0), sum(profiling["fetched"].values())
    cause = next((kind for kind in comparison["kinds"] if kind["guilty"]), None)
    named = cause and (cause["name"], cause["service"])
    if cause and cause["outside"]:
        named = (f"time outside, in {cause['name']}", cause["service"])
    wrong = []
    if named and named != (sdk.span, sdk.service or sdk.name):
        wrong.append("another cause")
    if complete != total or comparison["left_out"]:
        wrong.append("traces are incomplete")
    for kind in ("lost_spans", "invalid_spans", "refused_requests"):
        if profiling["received"][kind]:
            wrong.append(f"{profiling['received'][kind]} {kind}")
    if workload["iterations"]["failed"]:
        wrong.append(f"{workload['iterations']['failed']} failed")
    return {
        "named": f"`{named[0]}` of {named[1]}" if named else f"nothing ({comparison['no_finding']})",
        "share": cause["share"] if cause else None, "slow": comparison["slow"], "complete": complete, "total": total,
        "wrong": wrong,
    }


def judge_runs(runs):
    """Cells of the table, and what is wrong. A busy machine may hide the cause from one run, but not from two of three."""
    counts = {}
    for run in runs:
        counts[run["named"]] = counts.get(run["named"], 0) + 1
    shares = [run["share"] for run in runs if run["share"] is not None]
    named = ", ".join(f"{name}: {count} of {len(runs)}" for name, count in counts.items())
    if shares:
        named += f"; {min(shares):.0%} to {max(shares):.0%}"
    sums = {key: sum(run[key] for run in runs) for key in ("slow", "complete", "total")}
    wrong = sorted({what for run in runs for what in run["wrong"]})
    if len(shares) < 2:
        wrong.append("the cause is not named")
    return [named, f"{sums['complete']} of {sums['total']} complete, {sums['slow']} of them slow"], ", ".join(wrong)


def sdk_version(sdk):
    """The packages that are pinned, and what runs them; for axum, those of the lock file."""
    if pins := PYTHON.get(sdk.name) or NODE.get(sdk.name):
        parts = [re.sub(r"==|(?<=.)@(?=\d)", " ", pin) for pin in pins]
        if sdk.name in PYTHON:
            parts.append(f"Python {sys.version.split()[0]}")
        elif sdk.name != "deno":
            parts.append(f"Node {call([command_of('node'), '--version']).strip().removeprefix('v')}")
        return ", ".join(parts)
    lock = (REPOSITORY / "Cargo.lock").read_text()
    names = ("axum", "opentelemetry_sdk", "tracing-opentelemetry")
    versions = {name: re.search(rf'name = "{name}"\nversion = "(.*)"', lock) for name in names}
    return ", ".join(f"{name} {found[1]}" for name, found in versions.items() if found)


def try_sdk(sdk, bench, folder, _certificate):
    version, receiver = "–", f"127.0.0.1:{free_port()}"
    try:
        if not all(os.path.exists(path) for path in sdk.needs):
            raise NotRun("not built")
        version = sdk_version(sdk)
        processes, port = start_sdk(sdk, folder, receiver)
    except NotRun as why:
        return Outcome(sdk.name, version, [sdk.says, "–", "–"], f"not run: {why}")
    try:
        runs = [judge_sdk(sdk, load_sdk(sdk, bench, folder, port, receiver)) for _ in range(SDK_RUNS)]
        cells, wrong = judge_runs(runs)
    except Wrong as what:
        cells, wrong = ["–", "–"], str(what)
    finally:
        processes.stop()
    return Outcome(sdk.name, version, [sdk.says, *cells], f"WRONG: {wrong}" if wrong else "right")


# ------------------------------------------------------------------ all of them


def make_certificate(folder):
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    call([command_of("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
          "-days", "2", "-keyout", "key.pem", "-out", "cert.pem", *subject], folder)
    (folder / "both.pem").write_text((folder / "cert.pem").read_text() + (folder / "key.pem").read_text())


def try_row(row, bench, base, certificate):
    folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{row.name}-", dir=base))
    folder.chmod(0o755)
    attempt = try_server if isinstance(row, Server) else try_sdk
    try:
        found = attempt(row, bench, folder, certificate)
        found.verdict = found.verdict.replace(f"{folder}/", "")
        return found
    except (OSError, subprocess.SubprocessError, LookupError, TypeError) as error:
        traceback.print_exc()
        return Outcome(row.name, "–", ["–"] * 3, f"WRONG: the script: {error}")


def show(outcome):
    print(f"{outcome.name} {outcome.version}")
    for cell in outcome.cells:
        print(f"    {cell}")
    print(f"    {outcome.verdict}", flush=True)


def lines_of(head, outcomes):
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for one in outcomes:
        cells = [one.name, one.version, *one.cells, one.verdict]
        lines.append("| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in cells) + " |")
    return lines


def write_table(bench, servers, sdks):
    version = call([bench, "--version"]).strip()
    system = f"{os.uname().sysname} {os.uname().release.split('-')[0]}, {os.cpu_count()} processors"
    made = (
        f"Made by `tests/compat/run.py --write` on {datetime.date.today()} with {version} ({system}), which starts each "
        "program on 127.0.0.1 and says what came out. Versions are those that ran. In a row that is wrong, the reason is in bold "
        "or stands in the last column."
    )
    of_servers = (
        f"{REQUESTS:,} requests of {USERS} users: failures, and p50 / p99 / longest, of `bench` and of hey directly before. Idle "
        f"limit: {IDLE_USERS} users send {IDLE_REQUESTS} requests with pauses about as long as the server keeps a connection "
        "(it is set to 1 s); `resent` are requests that `bench` sent once more, because the connection had ended. Reload: "
        f"{RELOADS} reloads in {RELOAD_S} s of load by {USERS} users, first for hey, then for `bench`. `-h2` is HTTP/2 over TLS. A "
        "dash is a server that was not reloaded. `kept_alive_closed` are requests on connections that the server closed without "
        "a word while they were in use: `bench` counts them, as wrk does; hey does not show them."
    )
    of_sdks = (
        f"{SDK_RUNS} runs of {SDK_REQUESTS} requests of {SDK_USERS} users, with spans sent to `bench` by OTLP over HTTP. In every "
        "tenth request, the span `slow_step` takes 40 ms instead of 2; it must be the first thing that `bench` names, in two runs "
        "at least, and nothing else in any. The share is that of the difference between slow and typical requests. In axum, "
        f"the cause is a computation of 250 ms for one tenant of ten. Celery's work begins after the answer, at {LATE_PER_S} "
        "requests a second."
    )
    lines = [
        "# Tried with", "", textwrap.fill(made, 120), "", "## Servers", "", textwrap.fill(of_servers, 120), "",
        *lines_of(("server", "version", f"{REQUESTS:,} requests", "idle limit", "reload", "came out"), servers),
        "", "## SDKs", "", textwrap.fill(of_sdks, 120), "",
        *lines_of(("service", "versions", "traced by", "named first, its share", "traces", "came out"), sdks),
        "",
    ]
    TABLE.write_text("\n".join(lines))
    print(f"wrote {TABLE.relative_to(REPOSITORY)}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="[BENCH] NAME", help="a program with a slash in its path, then rows")
    parser.add_argument("--write", action="store_true", help="write the table")
    parser.add_argument("--list", action="store_true", help="list the rows")
    return parser.parse_args()


def main():
    given = arguments()
    rows = [*SERVERS, *SDKS]
    if given.list:
        print("\n".join(row.name for row in rows))
        return
    names = list(given.names)
    bench = os.path.abspath(names.pop(0)) if names and "/" in names[0] else str(REPOSITORY / "target/release/bench")
    if not os.access(bench, os.X_OK):
        sys.exit(f"{bench} is no program; build it, or name another")
    if unknown := set(names) - {row.name for row in rows}:
        sys.exit(f"no such row: {', '.join(sorted(unknown))} (--list names them)")
    if given.write and names:
        sys.exit("--write needs all rows")
    # So that `finally` runs.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    outcomes = {}
    with tempfile.TemporaryDirectory(prefix="bench-compat-") as base:
        base = pathlib.Path(base)
        base.chmod(0o755)
        certificate = base / "certificate"
        certificate.mkdir()
        make_certificate(certificate)
        for row in rows:
            if not names or row.name in names:
                outcomes[row.name] = try_row(row, bench, base, certificate)
                show(outcomes[row.name])
    of = {verdict: [] for verdict in ("right", "WRONG", "not run")}
    for one in outcomes.values():
        of[one.verdict.partition(":")[0]].append(one.name)
    print(", ".join(f"{len(found)} {verdict}" for verdict, found in of.items()))
    if given.write:
        write_table(bench, *([outcomes[row.name] for row in group] for group in (SERVERS, SDKS)))
    if of["WRONG"]:
        sys.exit(f"wrong: {', '.join(of['WRONG'])}")


if __name__ == "__main__":
    main()
