#!/usr/bin/env bash
#
# What a Node service says of itself by gRPC's server reflection cannot be linked: its files import nothing.
#
# A service whose message has a `google.protobuf.Timestamp` is served with @grpc/reflection, as its README shows. Asked for
# the file of the service, it sends two files, named after packages and not after the .proto files. Neither has a
# dependency, though one uses a type of the other, and types stand by names without the dot that makes them full. So protoc
# refuses them: the type of the field "is not defined". (Python's protobuf looks for types in all files, and takes them.)
# Asked for `google/protobuf/timestamp.proto`,
# the name that every other server has for that file, it answers NOT_FOUND. An `optional` field has lost that it is one.
#
# So a client of reflection must find out by itself which file needs which. (bench adds the imports from the names.)
#
# Seen with @grpc/reflection 1.0.4, @grpc/proto-loader 0.8.1, @grpc/grpc-js 1.14.7; read by grpcio-reflection and
# grpcio-tools 1.85.1. Needs python3 with venv, node 20 and npm. Fails if this changes.
set -euo pipefail

folder=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf -- "$folder"' EXIT
cd -- "$folder"

python3 -m venv python
python/bin/pip --quiet --disable-pip-version-check install grpcio==1.85.3 grpcio-reflection==1.85.1 grpcio-tools==1.85.1
npm install --silent --no-fund --no-audit --ignore-scripts \
  @grpc/grpc-js@1.14.7 @grpc/proto-loader@0.8.1 @grpc/reflection@1.0.4

cat >clock.proto <<'PROTO'
syntax = "proto3";
package clock.v1;
import "google/protobuf/timestamp.proto";
service Clock { rpc Now(Zone) returns (Time); }
message Zone { optional string name = 1; }
message Time { google.protobuf.Timestamp at = 1; }
PROTO

cat >server.js <<'JS'
const grpc = require('@grpc/grpc-js');
const { ReflectionService } = require('@grpc/reflection');
const definition = require('@grpc/proto-loader').loadSync('clock.proto');
const server = new grpc.Server();
const { Clock } = grpc.loadPackageDefinition(definition).clock.v1;
server.addService(Clock.service, { Now: (call, answer) => answer(null, {}) });
new ReflectionService(definition).addToServer(server);
server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => console.log(port));
JS

cat >ask.py <<'PYTHON'
import subprocess
import sys

import grpc
from google.protobuf import descriptor_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

stub = reflection_pb2_grpc.ServerReflectionStub(grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}"))


def ask(**question):
    return next(stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(**question)])))


answer = ask(file_containing_symbol="clock.v1.Clock").file_descriptor_response.file_descriptor_proto
files = [descriptor_pb2.FileDescriptorProto.FromString(file) for file in answer]
for file in sorted(files, key=lambda file: file.package):
    print(file.package, "imports", list(file.dependency))
own = next(file for file in files if file.package == "clock.v1")
fields = {message.name: message.field[0] for message in own.message_type}
print("the type of Time.at:", fields["Time"].type_name)
print("Zone.name is optional:", fields["Zone"].proto3_optional)


with open("set.binpb", "wb") as file:
    ordered = sorted(files, key=lambda file: file.package == "clock.v1")
    file.write(descriptor_pb2.FileDescriptorSet(file=ordered).SerializeToString())
protoc = [sys.executable, "-m", "grpc_tools.protoc", "--descriptor_set_in=set.binpb", "--descriptor_set_out=x", own.name]
ended = subprocess.run(protoc, capture_output=True, text=True)
print("protoc takes them:", ended.returncode == 0, "| not defined:", "is not defined" in ended.stderr)
print("by the usual name:", ask(file_by_filename="google/protobuf/timestamp.proto").error_response.error_code)
PYTHON

node server.js >port &
server=$!
for _ in {1..100}; do [[ -s port ]] && break; sleep 0.1; done
expected='clock.v1 imports []
google.protobuf imports []
the type of Time.at: google.protobuf.Timestamp
Zone.name is optional: False
protoc takes them: False | not defined: True
by the usual name: 5'
seen=$(python/bin/python ask.py "$(<port)")
printf '%s\n' "$seen"
[[ $seen == "$expected" ]]
