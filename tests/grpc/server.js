// The service of shop.proto by @grpc/grpc-js, with server reflection: `node server.js PROTO [URL]`. With a URL, its spans
// go there. Prints `listening PORT`, and ends when its standard input ends.
'use strict';

if (process.argv[3]) {
  const { NodeSDK, tracing } = require('@opentelemetry/sdk-node');
  const { OTLPTraceExporter } = require('@opentelemetry/exporter-trace-otlp-http');
  const { GrpcInstrumentation } = require('@opentelemetry/instrumentation-grpc');
  const exporter = new OTLPTraceExporter({ url: process.argv[3] });
  new NodeSDK({
    serviceName: 'stock',
    spanProcessors: [new tracing.BatchSpanProcessor(exporter, { scheduledDelayMillis: 200 })],
    instrumentations: [new GrpcInstrumentation()],
  }).start();
}

const grpc = require('@grpc/grpc-js');
const loader = require('@grpc/proto-loader');
const { ReflectionService } = require('@grpc/reflection');

const definition = loader.loadSync(process.argv[2], { longs: String, enums: String, oneofs: true });
const { shop } = grpc.loadPackageDefinition(definition);

const order = (id, number) => ({
  id,
  number: '18446744073709551615',
  balance: '-9223372036854775808',
  price: 1.5,
  state: 'PAID',
  items: [{ name: 'tea', amount: number }],
  labels: { a: 'b' },
  card: '4711',
});

const tracer = require('@opentelemetry/api').trace.getTracer('stock');
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function get(call, answer) {
  await tracer.startActiveSpan('count stock', async (span) => {
    await pause(call.request.delayMs || 0);
    span.end();
  });
  if (call.request.id === 'gone') {
    answer({ code: grpc.status.NOT_FOUND, details: 'no such order: äöü' });
    return;
  }
  const last = new grpc.Metadata();
  last.set('x-last', 'tail');
  answer(null, order(call.request.id, 1), last);
}

async function list(call) {
  const { count, gapMs, slowAt, slowMs } = call.request;
  for (let number = 0; number < count; number += 1) {
    await pause(slowMs && number === slowAt ? slowMs : gapMs || 0);
    call.write(order(String(number), number));
  }
  call.end();
}

function add(call, answer) {
  const summary = { orders: 0, price: 0 };
  call.on('data', (one) => {
    summary.orders += 1;
    summary.price += one.price;
  });
  call.on('end', () => answer(null, summary));
}

function chat(call) {
  call.on('data', (one) => call.write(one));
  call.on('end', () => call.end());
}

const server = new grpc.Server();
server.addService(shop.v1.Orders.service, { get, list, add, chat });
new ReflectionService(definition).addToServer(server);
server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(`listening ${port}`);
});
process.stdin.on('end', () => process.exit(0)).resume();
