"""A plan on RabbitMQ and PostgreSQL, with a limit for the whole fleet if there is a Redis.

It needs `pip install '.[fleet]' taskiq-aio-pika`. FLEET_DATABASE, FLEET_BROKER and
FLEET_REDIS are the addresses of PostgreSQL, RabbitMQ and Redis. Run it in the root of the project,
against the sandbox (`gateway sandbox` prints the variables to set). Start workers on each machine:

    taskiq worker examples.fleet_taskiq:broker --max-async-tasks 2

and, from any machine, plan, submit, wait and collect. The same command again does only what is
missing, whatever was killed meanwhile:

    python -m examples.fleet_taskiq rates.parquet
"""

import asyncio
import os
import sys

from examples.fleet_rates import queries
from taskiq_aio_pika import AioPikaBroker

from gateway_sdk import fleet

redis = os.environ.get("FLEET_REDIS")

rates = fleet.Job(
    "rates-2026-01",
    operation="exchange_rate_series",
    store=fleet.PostgresStore(os.environ["FLEET_DATABASE"]),
    rate_limit=fleet.SharedRateLimit(200, redis, burst=20) if redis else None,
)
broker = AioPikaBroker(os.environ["FLEET_BROKER"], qos=2)
fleet.on_taskiq(broker, rates)


async def main(path: str) -> None:
    """Plan, submit, wait, and write one file."""
    await broker.startup()
    try:
        async with rates:
            plan = await rates.plan(queries(), chunk=10)
            await plan.submit(broker)
            while not (status := await plan.status()).is_complete and not status.broken:
                print(f"{status.done} of {status.items} done {status.waiting}", flush=True)
                await asyncio.sleep(1)
            print(f"{await plan.collect(path)} series in {path}")
    finally:
        await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
