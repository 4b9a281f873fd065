"""The same items with `bulk.run` in one process: `python -m benchmarks.fleet.alone ITEMS [FILE]`.

With the file, it keeps the results in a journal. It prints the CPU seconds that it took.
"""

import asyncio
import sys
import time
from typing import Any

from benchmarks.fleet.jobs import CONCURRENCY, call, items
from gateway_sdk import GatewaySession, bulk


async def main(number: int, journal: dict[str, Any]) -> None:
    """Make all calls."""
    async with GatewaySession.from_env(engine="asyncio") as gateway:
        async for result in bulk.run(
            lambda item: call(gateway, item),
            items(number, 0),
            concurrency=CONCURRENCY,
            **journal,
        ):
            if result.error:
                raise result.error


if __name__ == "__main__":
    number, *file = sys.argv[1:]
    kept = {"journal": file[0], "job": "benchmark"} if file else {}
    began = time.process_time()
    asyncio.run(main(int(number), kept))
    print("cpu", time.process_time() - began, flush=True)
