// The second service of the shop: what a delivery costs, by Express, and when it is picked up, by gRPC. Traced by
// `node --require @opentelemetry/auto-instrumentations-node/register delivery.js PORT PARCELS_URL GRPC_PORT PROTO`.
// The header `shop-cause` names why some of all requests are slow.
'use strict';

const { setTimeout: sleep } = require('node:timers/promises');
const express = require('express');
const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const { propagation, context, trace } = require('@opentelemetry/api');

const [port, parcels, grpcPort, proto] = process.argv.slice(2);
const LONG_MS = 250;
const BLOCKED_MS = 400;
const app = express();

async function pack(cause, items, attempt, depot) {
  const url = `${parcels}/pack/${items}?depot=${depot}&attempt=${attempt}`;
  const answer = await fetch(url, { headers: { 'shop-cause': cause } });
  const body = await answer.text();
  if (!answer.ok) throw new Error(`parcels answered ${answer.status}`);
  return JSON.parse(body);
}

// Again, with a pause that doubles, when the other side fails.
async function packWithRetries(cause, items, depot) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await pack(cause, items, attempt, depot);
    } catch (error) {
      if (attempt === 3) throw error;
      await sleep(15 * 2 ** attempt);
    }
  }
}

// Stands on the active span, as it came as baggage.
function setTenant() {
  const tenant = propagation.getBaggage(context.active())?.getEntry('tenant')?.value;
  if (tenant) trace.getActiveSpan()?.setAttribute('tenant', tenant);
}

app.get('/quote', async (request, response) => {
  const cause = request.get('shop-cause') ?? 'none';
  const drawn = (name, share) => cause === name && Math.random() < share;
  setTenant();
  // The carrier of one region takes long to answer.
  if (cause === 'downstream' && request.query.region === 'region-3') await sleep(LONG_MS);
  if (drawn('event_loop', 0.03)) {
    // As a regular expression that backtracks does, or JSON of many megabytes.
    const until = performance.now() + BLOCKED_MS;
    while (performance.now() < until);
  }
  const depot = drawn('retry', 0.09) ? 'far' : 'near';
  const { boxes } = await packWithRetries(cause, Number(request.query.items), depot);
  response.json({ boxes, cents: 490 * boxes });
});

async function book(call, answer) {
  setTenant();
  // The carrier of one region takes long to find a free hour.
  const isLate = call.metadata.get('shop-cause')[0] === 'pickup' && call.request.region === 'region-3';
  if (isLate) await sleep(LONG_MS);
  answer(null, { hour: 8 + (call.request.order % 10) });
}

const { shop } = grpc.loadPackageDefinition(loader.loadSync(proto));
const server = new grpc.Server();
server.addService(shop.v1.Pickups.service, { book });
server.bindAsync(`127.0.0.1:${grpcPort}`, grpc.ServerCredentials.createInsecure(), (error) => {
  if (error) throw error;
  app.listen(Number(port), '127.0.0.1');
});

// The handler of OpenTelemetry sends the last spans and keeps the process alive.
process.on('SIGTERM', () => setTimeout(() => process.exit(0), 500));
