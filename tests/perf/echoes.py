"""Messages over WebSocket by the client of `websockets`: `echoes.py URL CONNECTIONS SECONDS` opens them again and again, sends
100 messages over each, and prints how many WebSockets there were."""

import asyncio
import sys
import time

from websockets.asyncio.client import connect

url, connections, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
until = time.monotonic() + seconds


async def user():
    count = 0
    while time.monotonic() < until:
        async with connect(url, compression=None) as socket:
            for _ in range(100):
                await socket.send("a message of a usual length")
                if await socket.recv() != "a message of a usual length":
                    sys.exit("another answer")
        count += 1
    return count


async def main():
    print(sum(await asyncio.gather(*(user() for _ in range(connections)))), "WebSockets")


asyncio.run(main())
