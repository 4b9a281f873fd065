"""A plan on Dask: its scheduler hands out the chunks, and the database knows what is done.

It needs `pip install '.[fleet]' distributed`, and the database and gateway of `fleet_rates`:

    python -m examples.fleet_dask rates.csv

If a worker dies, Dask runs its chunk elsewhere. If the scheduler dies, run this again: only what is
missing is done.
"""

import asyncio
import sys

from distributed import Client, LocalCluster
from examples.fleet_rates import PLAN, queries, rates, run_chunk


def step(number: int) -> None:
    """Run one chunk in a worker of Dask."""
    if not asyncio.run(run_chunk(PLAN, number)):
        raise RuntimeError("another worker has the chunk: run it again later")


async def main(path: str) -> None:
    """Plan, run what is missing, and collect."""
    await rates.init()
    await rates.plan(PLAN, queries(), chunk=10)
    if numbers := await rates.chunks(PLAN):
        # With a cluster of several machines: Client("tcp://scheduler:8786").
        with (
            LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=2,
                threads_per_worker=1,
                dashboard_address=None,  # pyright: ignore[reportArgumentType]
            ) as cluster,
            Client(cluster) as client,  # type: ignore[no-untyped-call]
        ):
            client.gather(client.map(step, numbers, retries=5))
    print((await rates.collect(PLAN, path)).rows, "rates in", path)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
