#!/usr/bin/env bash
#
# The jobs of a BullMQ flow lose their trace if they have no options.
#
# A flow of a parent and a child (bullmq 6.7.0, bullmq-otel 2.0.1), added within a request's span: each job is
# processed in a trace of its own, without a parent and without a link, so the trace of the request ends with `addFlow`
# and `addNode`, and looks whole. With `opts: {}` on a job of the same flow, even empty, it is processed in the
# request's trace, below its own `addNode`: the trace's context is written into the job's options only if there are any
# (`if (srcPropagationMetadata && opts)` in flow-producer.js). `Queue.add` without options keeps its trace.
#
# Needs redis-server, node 20 and npm. Fails if this changes.
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

npm install --silent --no-fund --no-audit --ignore-scripts bullmq@6.7.0 bullmq-otel@2.0.1 ioredis@6.0.0 \
  @opentelemetry/api@1.9.1 @opentelemetry/sdk-trace-base@2.12.1 @opentelemetry/sdk-trace-node@2.12.1
port=$(node -e '
  const server = require("net").createServer();
  server.listen(0, "127.0.0.1", () => { console.log(server.address().port); server.close(); });
')
export REDIS_PORT=$port
redis-server --port "$port" --bind 127.0.0.1 --save '' >redis.log &
started+=($!)
for _ in {1..100}; do
  ! (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  sleep 0.1
done

cat >flow.js <<'JAVASCRIPT'
const { FlowProducer, Queue, QueueEvents, Worker } = require('bullmq');
const { BullMQOtel } = require('bullmq-otel');
const { trace } = require('@opentelemetry/api');
const { SimpleSpanProcessor } = require('@opentelemetry/sdk-trace-base');
const { NodeTracerProvider } = require('@opentelemetry/sdk-trace-node');

const spans = [];
const exporter = { export(ended, done) { spans.push(...ended); done({ code: 0 }); }, async shutdown() {} };
new NodeTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] }).register();

async function main() {
  const connection = { host: '127.0.0.1', port: Number(process.env.REDIS_PORT), maxRetriesPerRequest: null };
  const telemetry = new BullMQOtel('findings');
  const queue = new Queue('jobs', { connection, telemetry });
  const events = new QueueEvents('jobs', { connection });
  const flows = new FlowProducer({ connection, telemetry });
  await events.waitUntilReady();
  const worker = new Worker('jobs', async () => 1, { connection, telemetry });
  const tree = (rest) => ({ name: 'parent', queueName: 'jobs', ...rest,
    children: [{ name: 'child', queueName: 'jobs', ...rest }] });
  const cases = {
    'a job of Queue.add without options': () => queue.add('job', {}),
    'a flow without options': async () => (await flows.add(tree({}))).job,
    'a flow with empty options': async () => (await flows.add(tree({ opts: {} }))).job,
  };
  for (const [name, add] of Object.entries(cases)) {
    spans.length = 0;
    const root = await trace.getTracer('findings').startActiveSpan('request', async (span) => {
      const job = await add();
      span.end();
      await job.waitUntilFinished(events, 20_000);
      return span;
    });
    await new Promise((resolve) => setTimeout(resolve, 300));
    const of = (span) => spans.find((other) => other.spanContext().spanId === span.parentSpanContext?.spanId);
    const isHere = (span) => span.spanContext().traceId === root.spanContext().traceId;
    const processed = spans.filter((span) => span.name === 'process jobs').map((span) => {
      const where = isHere(span) ? `below ${of(span).name}` : 'in another trace';
      return `${span.attributes['bullmq.job.name']} ${where}, ${span.links.length} links`;
    });
    console.log(`${name}: ${processed.join('; ')}`);
  }
  await Promise.all([worker.close(), queue.close(), events.close(), flows.close()]);
}
main();
JAVASCRIPT

seen=$(node flow.js)
printf '%s\n' "$seen"
expected='a job of Queue.add without options: job below add jobs.job, 0 links
a flow without options: child in another trace, 0 links; parent in another trace, 0 links
a flow with empty options: child below addNode jobs, 0 links; parent below addNode jobs, 0 links'
if [[ $seen != "$expected" ]]; then
  echo 'this has changed' >&2
  exit 1
fi
