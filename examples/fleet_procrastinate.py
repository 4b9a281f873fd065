"""A plan on procrastinate: PostgreSQL is the queue, and nothing else is needed.

It needs `pip install procrastinate`. FLEET_DATABASE is the address of the database. Run it in the
root of the project, against the sandbox (`gateway sandbox` prints the variables to set). First
plan and submit, which may be said again at any time and submits what the store lacks:

    procrastinate --app examples.fleet_procrastinate.app schema --apply
    python -m examples.fleet_procrastinate submit

then, on each machine, as many workers as there are processors:

    python -m examples.fleet_procrastinate worker

A worker that dies leaves its chunks behind as "stalled". procrastinate does not start them again by
itself: the task `revive` does, which one of the workers runs every few seconds.
"""

import asyncio
import os
import sys

from examples.fleet_rates import queries, rates
from procrastinate import App, PsycopgConnector, RetryStrategy

from gateway_sdk import PlanStoreError, fleet

LEASE = float(os.environ.get("FLEET_LEASE", "30"))
"""Seconds without a heartbeat after which a worker counts as dead."""

app = App(connector=PsycopgConnector(conninfo=os.environ.get("FLEET_DATABASE", "")))
workers: list[fleet.Worker] = []


# A chunk that is broken (`PoisonChunkError`) stays in the table as failed: these are the dead
# letters. `gateway bulk status` names it too.
@app.task(
    name="chunk", queue="rates", retry=RetryStrategy(wait=5, retry_exceptions=[PlanStoreError])
)
async def chunk(address: str, number: int) -> None:
    """Run one chunk, with the session of this process."""
    await workers[0].run(address, number)


# With six fields, the first are the seconds.
@app.periodic(cron="* * * * * */5")
@app.task(name="revive", queue="rates", queueing_lock="revive", pass_context=False)
async def revive(timestamp: int) -> None:  # noqa: ARG001 - when it was due
    """Start again what dead workers left."""
    for job in await app.job_manager.get_stalled_jobs(seconds_since_heartbeat=LEASE):
        await app.job_manager.retry_job(job)


async def submit() -> None:
    """Plan, and submit what the store lacks."""
    plan = await rates.plan(queries(), chunk=10)
    async with app.open_async():

        async def send(address: str, number: int) -> None:
            await chunk.defer_async(address=address, number=number)

        print(await plan.submit(send), "chunks submitted")


async def work() -> None:
    """Run chunks, two at a time, until the process is asked to end."""
    async with app.open_async(), rates.worker() as worker:
        workers.append(worker)
        await app.run_worker_async(
            queues=["rates"],
            concurrency=2,
            update_heartbeat_interval=LEASE / 3,
            stalled_worker_timeout=LEASE,
            shutdown_graceful_timeout=0.1,  # then chunks are cancelled, and have their grace time
        )


if __name__ == "__main__":
    asyncio.run({"submit": submit, "worker": work}[sys.argv[1]]())
