"""Autobahn's cases for WebSocket clients, by `kosoku`: `cases.py [--messages N]`. Prints `listening PORT`; when its standard
input ends, it prints the results as JSON, `{case: [how it went, how it ended, why]}`, and ends. The client must have said
`/updateReports` by then.

With `--messages`, each case of compression (12.* and 13.*) has so many messages instead of a thousand.
"""

import argparse
import asyncio
import json
import sys

from kosoku import FailureError, run_fuzzingserver
from kosoku.cases import CASES

COMPRESSION = ("12.", "13.")


def as_bytes(on_message):
    """kosoku 0.1.0 hands what was not compressed over as `str`, which these cases cannot hash: bytes as Latin-1."""
    coding = lambda binary: "latin-1" if binary else "utf-8"
    return lambda case, content, binary: on_message(
        case, content.encode(coding(binary)) if isinstance(content, str) else content, binary)


async def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int)
    options = parser.parse_args()
    for name, case in CASES.items():
        if name.startswith(COMPRESSION):
            case.onMessage = as_bytes(case.onMessage)
            case.COUNT = options.messages or case.COUNT
    async with run_fuzzingserver(host="127.0.0.1", port=0) as server:
        results = asyncio.ensure_future(server.get_result())
        print(f"listening {server.port}", flush=True)
        await asyncio.to_thread(sys.stdin.read)
        try:
            rows = await asyncio.wait_for(results, 10)
        except FailureError as error:
            rows = error.results
    why = lambda row: f"{row.result} {row.result_close} (our code: {row.remote_close_code})"
    print(json.dumps({row.case_id: [row.behavior.value, row.behavior_close.value, why(row)] for row in rows}), flush=True)


asyncio.run(main())
