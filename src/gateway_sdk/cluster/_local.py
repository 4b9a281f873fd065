"""A process with the supervisors of workers on this machine; it ends with the program's pipe."""

import asyncio
import sys
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Any


async def main(address: str, workers: int) -> None:
    supervisor: Any = import_module("distributed").Nanny
    async with AsyncExitStack() as stack:
        for _ in range(workers):
            await stack.enter_async_context(
                supervisor(address, nthreads=4, memory_limit=0, dashboard=False, host="127.0.0.1")
            )
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
