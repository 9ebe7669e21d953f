"""Unary calls by grpcio's client: `grpcio_calls.py ADDRESS CONNECTIONS SECONDS` prints how many there were."""

import sys
import threading
import time

import grpc

address, connections, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
counts = [0] * connections


def as_is(message):
    return message


def calls(number, until):
    # Each has a connection of its own.
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        get = channel.unary_unary("/shop.v1.Orders/Get", request_serializer=as_is, response_deserializer=as_is)
        while time.monotonic() < until:
            if get(b"\x0a\x03o-1") != b"\x0a\x01a":
                sys.exit("another answer")
            counts[number] += 1


until = time.monotonic() + seconds
users = [threading.Thread(target=calls, args=(number, until)) for number in range(connections)]
for user in users:
    user.start()
for user in users:
    user.join()
print(f"{sum(counts)} calls")
