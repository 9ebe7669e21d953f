#!/usr/bin/env bash
#
# A Node service that OpenTelemetry instruments from outside no longer ends at SIGTERM: it goes on serving, without tracing.
#
# `node --require @opentelemetry/auto-instrumentations-node/register` (0.81.2) listens for SIGTERM to send the last spans. In
# Node, a listener replaces what the signal does otherwise, and this one does not end the process. So a service without a
# listener of its own ends at once when it is started plainly. With tracing it does not end: it still answers 3 s later, but
# its SDK is shut down, so requests from then on have no spans, although `traceparent` came with them as sampled. Who starts
# services for a test must follow SIGTERM with SIGKILL, and must not load a service that has had the signal.
#
# Needs node 20 and npm. Fails if this changes.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
cd -- "$folder"

npm install --silent --no-fund --no-audit --ignore-scripts @opentelemetry/api@1.9.1 \
  @opentelemetry/auto-instrumentations-node@0.81.2

cat >service.js <<'JAVASCRIPT'
const server = require('http').createServer((request, response) => response.end('answer'));
server.listen(0, '127.0.0.1', () => process.send(server.address().port));
JAVASCRIPT

cat >stop.js <<'JAVASCRIPT'
const { fork } = require('child_process');
const http = require('http');

const after = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
let spans = 0;
const receiver = http.createServer((request, response) => {
  const chunks = [];
  request.on('data', (chunk) => chunks.push(chunk));
  request.on('end', () => {
    const { resourceSpans } = JSON.parse(Buffer.concat(chunks));
    spans += resourceSpans.flatMap((resource) => resource.scopeSpans).flatMap((scope) => scope.spans).length;
    response.setHeader('content-type', 'application/json');
    response.end('{}');
  });
});

async function stop(name, execArgv) {
  const env = {
    ...process.env, OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${receiver.address().port}`,
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json', OTEL_BSP_SCHEDULE_DELAY: '100', OTEL_METRICS_EXPORTER: 'none',
    OTEL_LOGS_EXPORTER: 'none', OTEL_NODE_RESOURCE_DETECTORS: 'none', OTEL_NODE_ENABLED_INSTRUMENTATIONS: 'http',
  };
  const service = fork('service.js', { execArgv, env });
  let end = null;
  service.on('exit', (code, signal) => { end = signal ?? code; });
  const port = await new Promise((resolve) => service.once('message', resolve));
  service.disconnect();
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const load = async () => {
    spans = 0;
    const answer = await fetch(`http://127.0.0.1:${port}/`, { headers: { traceparent, connection: 'close' } })
      .then((response) => response.text(), () => 'no answer');
    await after(1500);
    return `${answer} and ${spans} spans`;
  };
  const before = await load();
  service.kill('SIGTERM');
  await after(3000);
  console.log(`${name}: ${before}; 3 s after SIGTERM ${end ? `ended by ${end}` : 'it runs'}, ${await load()}`);
  service.kill('SIGKILL');
}

receiver.listen(0, '127.0.0.1', async () => {
  await stop('plain', []);
  await stop('traced', ['--require', '@opentelemetry/auto-instrumentations-node/register']);
  receiver.close();
});
JAVASCRIPT

seen=$(node stop.js)
printf '%s\n' "$seen"
expected='plain: answer and 0 spans; 3 s after SIGTERM ended by SIGTERM, no answer and 0 spans
traced: answer and 1 spans; 3 s after SIGTERM it runs, answer and 0 spans'
if [[ $seen != "$expected" ]]; then
  echo 'this has changed' >&2
  exit 1
fi
