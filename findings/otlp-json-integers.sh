#!/usr/bin/env bash
#
# OpenTelemetry's JavaScript exporter for OTLP/JSON can write an attribute that makes the whole request unreadable, and
# other values than its exporter for OTLP/protobuf does.
#
# One span with three attributes of the type number, serialised by both (@opentelemetry/otlp-transformer 0.223.1, which
# is what the exporters call), and read with protobuf's own parser of JSON and OpenTelemetry's definitions (Python's
# protobuf, opentelemetry-proto 1.45.2):
#   2 ** 64    JSON: intValue 18446744073709552000, which is no int64; the parser refuses the request, with all of its
#              spans (up to 512). Protobuf: doubleValue 1.8446744073709552e19
#   2 ** 62    JSON: intValue 4611686018427388000. Protobuf: intValue 4611686018427387904: one attribute, two values
#   NaN        JSON: doubleValue null, an attribute without a value. Protobuf: doubleValue nan
# JSON's exporter takes every number without a fraction for an integer, and writes it as JSON.stringify does, which
# rounds to what a double needs. Hashes and ids that some library made a number of are such attributes. A receiver that
# is to lose no spans must take such an integer as a double.
#
# Needs python3 with venv, node 20 and npm. Fails if this changes.
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
cd -- "$folder"

python3 -m venv python
python/bin/pip --quiet --disable-pip-version-check install opentelemetry-proto==1.45.2
npm install --silent --no-fund --no-audit --ignore-scripts @opentelemetry/otlp-transformer@0.223.1 \
  @opentelemetry/api@1.9.1 @opentelemetry/sdk-trace-base@2.12.1

cat >spans.mjs <<'JAVASCRIPT'
import { writeFileSync } from 'node:fs';
import { JsonTraceSerializer, ProtobufTraceSerializer } from '@opentelemetry/otlp-transformer';
import { BasicTracerProvider, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base';

const cases = { '2 ** 64': 2 ** 64, '2 ** 62': 2 ** 62, NaN };
for (const [number, [name, value]] of Object.entries(cases).entries()) {
  const spans = [];
  const exporter = { export(ended, done) { spans.push(...ended); done({ code: 0 }); }, async shutdown() {} };
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  provider.getTracer('findings').startSpan(name, { attributes: { value } }).end();
  writeFileSync(`${number}.json`, JsonTraceSerializer.serializeRequest(spans));
  writeFileSync(`${number}.pb`, ProtobufTraceSerializer.serializeRequest(spans));
}
JAVASCRIPT

cat >read.py <<'PYTHON'
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


def value(request):
    span = request.resource_spans[0].scope_spans[0].spans[0]
    kind = span.attributes[0].value.WhichOneof("value")
    return span.name, f"{kind} {getattr(span.attributes[0].value, kind)}" if kind else "no value"


for number in range(3):
    request = ExportTraceServiceRequest()
    with open(f"{number}.pb", "rb") as file:
        request.ParseFromString(file.read())
    name, protobuf = value(request)
    with open(f"{number}.json") as file:
        text = file.read()
    try:
        _, json = value(json_format.Parse(text, ExportTraceServiceRequest()))
    except json_format.ParseError:
        json = "refused"
    print(f"{name}: JSON: {json}; protobuf: {protobuf}")
PYTHON

node spans.mjs
seen=$(python/bin/python read.py)
printf '%s\n' "$seen"
expected='2 ** 64: JSON: refused; protobuf: double_value 1.8446744073709552e+19
2 ** 62: JSON: int_value 4611686018427388000; protobuf: int_value 4611686018427387904
NaN: JSON: no value; protobuf: double_value nan'
if [[ $seen != "$expected" ]]; then
  echo 'this has changed' >&2
  exit 1
fi
