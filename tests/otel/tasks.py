"""A shop that answers first and works later: Flask sends messages to Celery workers over redis, traced as OpenTelemetry's
documentation for Celery says. Flask and the workers are two processes of this module.

The header `shop-cause` of a request names why the work of every tenth request ends late. Settings: SHOP_REDIS (URL), and
those of OpenTelemetry's exporter.
"""

import os
import time

from celery import Celery
from celery.signals import before_task_publish, worker_process_init
from flask import Flask, jsonify, request
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.instrumentation.flask import FlaskInstrumentor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

USUAL_S = 0.02
LATE_S = 0.15

tasks = Celery("tasks", broker=os.environ["SHOP_REDIS"])
tasks.conf.update(task_ignore_result=True, worker_hijack_root_logger=False)
app = Flask(__name__)


def trace_as(service):
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    CeleryInstrumentor().instrument()


def is_late(number):
    return number % 10 == 3


@worker_process_init.connect(weak=False)
def init_worker(**_):
    trace_as("worker")


def front():
    """What gunicorn or `flask run` starts."""
    trace_as("shop")
    FlaskInstrumentor().instrument_app(app)
    before_task_publish.connect(slow_broker, weak=False)
    return app


def slow_broker(body=None, **_):
    arguments = body[0] if body else ()
    if "slow_publish" in arguments and is_late(arguments[0]):
        time.sleep(LATE_S)


@app.get("/orders/<int:number>")
def order(number):
    cause = request.headers.get("shop-cause", "healthy")
    ship.delay(number, cause)
    if cause == "one_of_several":
        bill.delay(number, cause)
        notify.delay(number, cause)
    return jsonify(order=number)


@tasks.task(bind=True, max_retries=3)
def ship(self, number, cause):
    if cause == "retry" and is_late(number) and self.request.retries == 0:
        raise self.retry(countdown=LATE_S, exc=RuntimeError("the carrier does not answer"))
    time.sleep(LATE_S if cause == "slow_task" and is_late(number) else USUAL_S)
    with trace.get_tracer("shop").start_as_current_span("carrier"):
        time.sleep(LATE_S if cause == "slow_call" and is_late(number) else USUAL_S / 4)


@tasks.task
def bill(number, cause):
    time.sleep(LATE_S if is_late(number) else USUAL_S)


@tasks.task
def notify(number, cause):
    time.sleep(USUAL_S)
