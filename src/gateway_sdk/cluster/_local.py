"""A process with the supervisors of workers on this machine; it ends with the program's pipe."""

import asyncio
import sys
from contextlib import AsyncExitStack
from importlib import import_module
from typing import Any


async def main(address: str, workers: int) -> None:
    supervisor: Any = import_module("distributed").Nanny
    if sys.platform != "win32":  # what all import, is imported once
        method = {"distributed.worker.multiprocessing-method": "forkserver"}
        import_module("dask").config.set(method)
    options = {"nthreads": 4, "memory_limit": 0, "dashboard": False, "host": "127.0.0.1"}
    async with AsyncExitStack() as stack:
        nannies = [supervisor(address, **options) for _ in range(workers)]
        await asyncio.gather(*map(stack.enter_async_context, nannies))
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
