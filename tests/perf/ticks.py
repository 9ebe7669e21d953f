"""Streams of server-sent events without an end, one event a second each: `ticks.py PORT`."""

import asyncio
import sys

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b'data: {"tick": 1, "text": "some words of an event"}\n\n'
CHUNK = b"%x\r\n%s\r\n" % (len(EVENT), EVENT)


async def serve(reader, writer):
    try:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD)
        while True:
            writer.write(CHUNK)
            await writer.drain()
            await asyncio.sleep(1)
    except (ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.close()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", int(sys.argv[1]), backlog=4096)
    await server.serve_forever()


asyncio.run(main())
