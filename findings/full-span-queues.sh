#!/usr/bin/env bash
#
# When the queue of spans is full, OpenTelemetry's Python SDK loses the oldest spans and its JavaScript SDK the newest.
#
# One request: a root with five calls of three statements each, 21 spans, which end from the inside out. The queue has
# room for 8, and the exporter is busy meanwhile. Both follow the specification, which says only that spans are dropped.
#
# Python (opentelemetry-sdk 1.45.2) keeps the root and the last two calls. No span that came lacks its parent, so the
# trace looks whole: completeness cannot be judged by links between spans. The time of the calls that were lost looks
# like the root's own.
# JavaScript (@opentelemetry/sdk-trace-base 2.12.1) keeps the first two calls and loses the root, so each of them is an
# orphan, and the length of the request is not known.
#
# Needs python3 with venv, node 20 and npm. Fails if this changes.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
cd -- "$folder"

python3 -m venv python
python/bin/pip --quiet --disable-pip-version-check install opentelemetry-sdk==1.45.2
npm install --silent --no-fund --no-audit @opentelemetry/sdk-trace-base@2.12.1 @opentelemetry/api@1.9.1

cat >spans.py <<'PYTHON'
import threading
import time

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult


class Busy(SpanExporter):
    """Takes the first batch, and ends with it when it is told."""

    def __init__(self):
        self.go, self.came = threading.Event(), []

    def export(self, spans):
        self.go.wait(20)
        self.came.extend(spans)
        return SpanExportResult.SUCCESS


exporter = Busy()
processor = BatchSpanProcessor(exporter, max_queue_size=8, max_export_batch_size=4, schedule_delay_millis=60_000)
provider = TracerProvider()
provider.add_span_processor(processor)
tracer = provider.get_tracer("findings")
for number in range(4):
    tracer.start_span(f"before {number}").end()
time.sleep(1)
with tracer.start_as_current_span("root"):
    for call in range(5):
        with tracer.start_as_current_span(f"call {call}"):
            for statement in range(3):
                tracer.start_span(f"statement {call}.{statement}").end()
exporter.go.set()
processor.force_flush()
came = [span for span in exporter.came if not span.name.startswith("before")]
ids = {span.context.span_id for span in came}
orphans = [span.name for span in came if span.parent and span.parent.span_id not in ids]
print("Python:", ", ".join(span.name for span in came), "| orphans:", ", ".join(orphans) or "none")
PYTHON

cat >spans.mjs <<'JAVASCRIPT'
import { ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { BasicTracerProvider, BatchSpanProcessor } from '@opentelemetry/sdk-trace-base';

const came = [];
const waiting = [];
let isBusy = true;
const exporter = {
  export(spans, done) {
    const end = () => { came.push(...spans); done({ code: 0 }); };
    if (isBusy) waiting.push(end); else end();
  },
  async shutdown() {},
  async forceFlush() {},
};
const options = { maxQueueSize: 8, maxExportBatchSize: 4, scheduledDelayMillis: 60_000 };
const processor = new BatchSpanProcessor(exporter, options);
const tracer = new BasicTracerProvider({ spanProcessors: [processor] }).getTracer('findings');
const start = (name, parent) =>
  tracer.startSpan(name, {}, parent ? trace.setSpan(ROOT_CONTEXT, parent) : ROOT_CONTEXT);
for (let number = 0; number < 4; number++) start(`before ${number}`).end();
await new Promise((resolve) => setTimeout(resolve, 1000));
const root = start('root');
for (let number = 0; number < 5; number++) {
  const call = start(`call ${number}`, root);
  for (let statement = 0; statement < 3; statement++) start(`statement ${number}.${statement}`, call).end();
  call.end();
}
root.end();
isBusy = false;
waiting.forEach((end) => end());
await processor.forceFlush();
const ours = came.filter((span) => !span.name.startsWith('before'));
const ids = new Set(ours.map((span) => span.spanContext().spanId));
const isOrphan = (span) => span.parentSpanContext && !ids.has(span.parentSpanContext.spanId);
const names = (spans) => spans.map((span) => span.name).join(', ');
console.log(`JavaScript: ${names(ours)} | orphans: ${names(ours.filter(isOrphan)) || 'none'}`);
JAVASCRIPT

seen=$(python/bin/python spans.py 2>/dev/null && node spans.mjs)
printf '%s\n' "$seen"
expected='Python: statement 3.1, statement 3.2, call 3, statement 4.0, statement 4.1, statement 4.2, call 4, root | orphans: none
JavaScript: statement 0.0, statement 0.1, statement 0.2, call 0, statement 1.0, statement 1.1, statement 1.2, call 1 | orphans: call 0, call 1'
if [[ $seen != "$expected" ]]; then
  echo 'this has changed' >&2
  exit 1
fi
