"""The service of shop.proto by grpcio, with server reflection: `server.py PROTO [OPTIONS]`.

Prints `listening PORT`, and ends when its standard input ends. What `Get` does follows the id in the request. With
`--spans URL`, it is traced by OpenTelemetry; with `--next ADDRESS`, it asks the same service there for each order.
"""

import argparse
import base64
import os
import sys
import tempfile
import threading
import time
from concurrent import futures

import grpc
from google.protobuf import any_pb2
from google.rpc import code_pb2, error_details_pb2, status_pb2
from grpc_reflection.v1alpha import reflection
from grpc_status import rpc_status
from grpc_tools import protoc
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.grpc import GrpcInstrumentorClient, GrpcInstrumentorServer
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor


def compiled(proto):
    """The modules of a .proto file."""
    folder = tempfile.mkdtemp()
    proto = os.path.abspath(proto)
    here = os.path.dirname(proto)
    well_known = os.path.join(os.path.dirname(protoc.__file__), "_proto")
    arguments = ["", f"-I{here}", f"-I{well_known}", f"--python_out={folder}", f"--grpc_python_out={folder}", proto]
    if protoc.main(arguments) != 0:
        sys.exit("the .proto file does not compile")
    sys.path.insert(0, folder)
    import shop_pb2
    import shop_pb2_grpc

    return shop_pb2, shop_pb2_grpc


def traced(endpoint):
    """Sets OpenTelemetry up as its documentation tells users of gRPC to."""
    provider = TracerProvider(resource=Resource.create({"service.name": "orders"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint), schedule_delay_millis=200))
    trace.set_tracer_provider(provider)
    GrpcInstrumentorServer().instrument()
    GrpcInstrumentorClient().instrument()


def details():
    """NOT_FOUND with a detail whose type the service's reflection does not have."""
    info = any_pb2.Any()
    info.Pack(error_details_pb2.ErrorInfo(reason="ORDER_GONE", domain="shop.example"))
    return status_pb2.Status(code=code_pb2.NOT_FOUND, message="no such order: äöü", details=[info])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("proto")
    parser.add_argument("--tls", nargs=2)
    parser.add_argument("--client-ca")
    parser.add_argument("--unix")
    parser.add_argument("--no-reflection", action="store_true")
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--spans")
    parser.add_argument("--next")
    given = parser.parse_args()
    if given.spans:
        traced(given.spans)
    tracer = trace.get_tracer("orders")
    shop_pb2, shop_pb2_grpc = compiled(given.proto)

    def order(id, number=1):
        made = shop_pb2.Order(
            id=id,
            number=2**64 - 1,
            balance=-(2**63),
            price=1.5,
            state=shop_pb2.PAID,
            items=[shop_pb2.Item(name="tea", amount=number)],
            labels={"a": "b"},
            card="4711",
            token=b"\x00\xff",
        )
        made.at.FromSeconds(1_700_000_000)
        made.extra.struct_value["deep"] = [1, True, None]
        return made

    following = shop_pb2_grpc.OrdersStub(grpc.insecure_channel(given.next)) if given.next else None

    class Orders(shop_pb2_grpc.OrdersServicer):
        def Get(self, request, context):
            metadata = dict(context.invocation_metadata())
            with tracer.start_as_current_span("load order"):
                time.sleep(request.delay_ms / 1000)
            if following:
                following.Get(shop_pb2.GetRequest(id=request.id, delay_ms=int(metadata.get("x-next-ms", "0"))))
            if request.id == "gone":
                context.abort_with_status(rpc_status.to_status(details()))
            if request.id == "denied":
                context.abort(grpc.StatusCode.PERMISSION_DENIED, "not yours: 100%")
            if request.id == "crash":
                raise ValueError("a fault of the service")
            if request.id == "large":
                return shop_pb2.Order(id="x" * (5 << 20))
            context.send_initial_metadata((("x-first", "head"),))
            context.set_trailing_metadata((("x-last", "tail"), ("x-raw-bin", b"\x01\x02")))
            if request.id == "metadata":
                made = shop_pb2.Order(id="metadata")
                for name, value in metadata.items():
                    text = base64.b64encode(value).decode() if isinstance(value, bytes) else value
                    made.labels[name] = text
                made.labels["deadline"] = str(context.time_remaining())
                return made
            return order(request.id)

        def List(self, request, context):
            for number in range(request.count):
                pause = request.slow_ms if request.slow_ms and number == request.slow_at else request.gap_ms
                with tracer.start_as_current_span("load row"):
                    time.sleep(pause / 1000)
                yield order(str(number), number)

        def Add(self, request_iterator, context):
            summary = shop_pb2.Summary()
            for one in request_iterator:
                summary.orders += 1
                summary.price += one.price
            return summary

        def Chat(self, request_iterator, context):
            for one in request_iterator:
                yield one

    compression = grpc.Compression.Gzip if given.gzip else None
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=16), compression=compression)
    shop_pb2_grpc.add_OrdersServicer_to_server(Orders(), server)
    if not given.no_reflection:
        names = (shop_pb2.DESCRIPTOR.services_by_name["Orders"].full_name, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
    address = f"unix:{given.unix}" if given.unix else "127.0.0.1:0"
    if given.tls:
        certificate, key = (open(path, "rb").read() for path in given.tls)
        roots = open(given.client_ca, "rb").read() if given.client_ca else None
        credentials = grpc.ssl_server_credentials([(key, certificate)], roots, bool(roots))
        port = server.add_secure_port(address, credentials)
    else:
        port = server.add_insecure_port(address)
    server.start()
    print(f"listening {port}", flush=True)
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    server.wait_for_termination()


if __name__ == "__main__":
    main()
