"""A plan on Dask: its scheduler hands out the chunks, and the store knows what is done.

It needs `pip install '.[fleet]' distributed`. FLEET_DATABASE is the address of a PostgreSQL. Run it
in the root of the project, against the sandbox (`gateway sandbox` prints the variables to set):

    python -m examples.fleet_dask rates.parquet

If a worker dies, Dask runs its chunk elsewhere. If the scheduler dies, run this again: only what
the store lacks is done.
"""

import asyncio
import sys

from distributed import Client, LocalCluster
from examples.fleet_rates import queries, rates, run_chunk


def step(address: str, chunk: int) -> None:
    """Run one chunk in a worker of Dask."""
    asyncio.run(run_chunk(address, chunk))


async def main(path: str) -> None:
    """Plan, run what is missing, and collect."""
    plan = await rates.plan(queries(), chunk=10)
    if chunks := [chunk async for chunk in plan.missing()]:
        # With a cluster of several machines: Client("tcp://scheduler:8786").
        with (
            LocalCluster(  # type: ignore[no-untyped-call]
                n_workers=2,
                threads_per_worker=1,
                dashboard_address=None,  # pyright: ignore[reportArgumentType]
            ) as cluster,
            Client(cluster) as client,  # type: ignore[no-untyped-call]
        ):
            client.gather(client.map(step, [plan.address] * len(chunks), chunks, retries=5))
    print(await plan.collect(path), "series in", path)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
