#!/usr/bin/env bash
#
# Celery and BullMQ trace a retry in opposite shapes, and a job of BullMQ that has failed for good is no error in its
# trace.
#
# One task that always fails and may be tried twice, the second time 300 ms later.
#
# Celery (5.7.0, opentelemetry-instrumentation-celery 0.66b2): the first attempt publishes the second one, so the
# second attempt is below the first: PRODUCER, CONSUMER, PRODUCER, CONSUMER, each below the one before. The first
# attempt has no error status, only `celery.state` = RETRY and `celery.retry.reason`; the last one has ERROR and an
# exception. All four have the same `messaging.message.id`, so it does not identify a message. The 300 ms are in the
# text of the reason (`Retry in 0.3s: …`), and the second attempt has `celery.eta`; the producer's span has neither.
#
# BullMQ (6.7.0, bullmq-otel 2.0.1): both attempts are below the one span that added the job, side by side. Neither has
# an error status or an exception, the last one no more than the first: it only has an event `job failed` and a span
# `fail jobs` below it, where the first attempt has `delay jobs`. No attribute has the 300 ms.
#
# So what waits between attempts is a gap within the first attempt's subtree in one, and between siblings in the other,
# and a search for traces with errors finds a failed task of Celery, and none of BullMQ. Neither uses links.
#
# Needs redis-server, python3 with venv, node 20 and npm. Fails if this changes.
set -euo pipefail

folder=$(mktemp -d)
started=()
# shellcheck disable=SC2329 # the trap calls it
finish() {
  for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${started[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf -- "$folder"
}
trap finish EXIT
cd -- "$folder"

python3 -m venv python
python/bin/pip --quiet --disable-pip-version-check install celery==5.7.0 redis==8.1.0 opentelemetry-sdk==1.45.2 \
  opentelemetry-instrumentation-celery==0.66b2
npm install --silent --no-fund --no-audit --ignore-scripts bullmq@6.7.0 bullmq-otel@2.0.1 ioredis@6.0.0 \
  @opentelemetry/api@1.9.1 @opentelemetry/sdk-trace-base@2.12.1 @opentelemetry/sdk-trace-node@2.12.1
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
export REDIS_PORT=$port
redis-server --port "$port" --bind 127.0.0.1 --save '' >redis.log &
started+=($!)
for _ in {1..100}; do
  ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  sleep 0.1
done

cat >tasks.py <<'PYTHON'
import json
import os
import sys
import time

from celery import Celery
from celery.signals import worker_process_init
from opentelemetry import trace
from opentelemetry.instrumentation.celery import CeleryInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

REDIS = f"redis://127.0.0.1:{os.environ['REDIS_PORT']}"
app = Celery("tasks", broker=f"{REDIS}/0", backend=f"{REDIS}/1")


class Lines(SpanExporter):
    def export(self, spans):
        with open("celery.jsonl", "a") as file:
            for span in spans:
                parent = f"{span.parent.span_id:016x}" if span.parent else None
                line = {
                    "name": span.name, "kind": span.kind.name, "id": f"{span.context.span_id:016x}", "parent": parent,
                    "links": len(span.links), "status": span.status.status_code.name, "start": span.start_time,
                    "events": [event.name for event in span.events], "attributes": dict(span.attributes),
                }
                file.write(json.dumps(line) + "\n")
        return SpanExportResult.SUCCESS


@worker_process_init.connect(weak=False)
def set_up(**_):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(Lines()))
    trace.set_tracer_provider(provider)
    CeleryInstrumentor().instrument()


@app.task(bind=True, name="task", autoretry_for=(ValueError,), default_retry_delay=0.3, max_retries=1)
def task(self):
    raise ValueError("never")


if __name__ == "__main__":
    set_up()
    result = task.delay()
    try:
        result.get(timeout=20)
    except ValueError:
        time.sleep(0.5)
        sys.exit(0)
    sys.exit("the task did not fail")
PYTHON

cat >jobs.js <<'JAVASCRIPT'
const { Queue, QueueEvents, Worker } = require('bullmq');
const { BullMQOtel } = require('bullmq-otel');
const { SpanKind, SpanStatusCode } = require('@opentelemetry/api');
const { SimpleSpanProcessor } = require('@opentelemetry/sdk-trace-base');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');

const lines = [];
const exporter = {
  export(spans, done) {
    for (const span of spans) {
      lines.push(JSON.stringify({
        name: span.name, kind: SpanKind[span.kind], id: span.spanContext().spanId, trace: span.spanContext().traceId,
        parent: span.parentSpanContext?.spanId ?? null, links: span.links.length,
        status: SpanStatusCode[span.status.code], start: span.startTime[0] * 1e9 + span.startTime[1],
        events: span.events.map((event) => event.name), attributes: span.attributes,
      }));
    }
    done({ code: 0 });
  },
  async shutdown() {},
};
new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register();

async function main() {
  const connection = { host: '127.0.0.1', port: Number(process.env.REDIS_PORT), maxRetriesPerRequest: null };
  const queue = new Queue('jobs', { connection, telemetry: new BullMQOtel('producer') });
  const events = new QueueEvents('jobs', { connection });
  await events.waitUntilReady();
  const never = async () => { throw new Error('never'); };
  const worker = new Worker('jobs', never, { connection, telemetry: new BullMQOtel('worker') });
  const job = await queue.add('task', {}, { attempts: 2, backoff: { type: 'fixed', delay: 300 } });
  await job.waitUntilFinished(events, 20_000).catch(() => {});
  await new Promise((resolve) => setTimeout(resolve, 500));
  await Promise.all([worker.close(), queue.close(), events.close()]);
  require('fs').writeFileSync('bullmq.jsonl', `${lines.join('\n')}\n`);
}
main();
JAVASCRIPT

cat >show.py <<'PYTHON'
import json
import sys

spans = [json.loads(line) for line in open(sys.argv[1])]
added = next(span for span in spans if span["kind"] == "PRODUCER" and not span["parent"])


def show(span, depth):
    ends = ("eta", "countdown", "delay", "retries", "attempts.made")
    told = [key for key in span["attributes"] if key.endswith(ends)]
    state = span["attributes"].get("celery.state", "")
    words = [span["name"], span["kind"], span["status"], state, *span["events"], *sorted(told)]
    print("  " * depth + " ".join(word for word in words if word) + f" links={span['links']}")
    for child in sorted((s for s in spans if s["parent"] == span["id"]), key=lambda s: s["start"]):
        show(child, depth + 1)


show(added, 0)
ids = {span["attributes"].get("messaging.message.id") for span in spans} - {None}
if ids:
    print(f"different values of messaging.message.id: {len(ids)}")
PYTHON

python/bin/celery -A tasks worker --concurrency 1 --loglevel error >worker.log 2>&1 &
started+=($!)
python/bin/python tasks.py
node jobs.js
seen=$(echo Celery && python3 show.py celery.jsonl && echo BullMQ && python3 show.py bullmq.jsonl)
printf '%s\n' "$seen"
expected='Celery
apply_async/task PRODUCER UNSET links=0
  run/task CONSUMER UNSET RETRY links=0
    apply_async/task PRODUCER UNSET links=0
      run/task CONSUMER ERROR FAILURE exception celery.eta celery.retries links=0
different values of messaging.message.id: 1
BullMQ
add jobs.task PRODUCER UNSET links=0
  process jobs CONSUMER UNSET job failed bullmq.job.attempts.made links=0
    delay jobs INTERNAL UNSET links=0
  process jobs CONSUMER UNSET job failed bullmq.job.attempts.made links=0
    fail jobs INTERNAL UNSET links=0'
if [[ $seen != "$expected" ]]; then
  echo 'this has changed' >&2
  exit 1
fi
