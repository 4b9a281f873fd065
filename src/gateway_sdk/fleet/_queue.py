"""The queue: procrastinate on the same database. Its jobs hold the plan's name and a number."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from itertools import islice
from typing import Any, Final

from procrastinate import App, PsycopgConnector, RetryStrategy
from procrastinate.exceptions import ConnectorException

from gateway_sdk.fleet._database import Connection, Database

Run = Callable[[str, int], Awaitable[bool]]
"""Does a chunk; returns whether it is done, by whomever."""

_logger = logging.getLogger("gateway_sdk.fleet")
_BATCH: Final = 1000

# procrastinate ends its jobs by their id, whoever ends them, and loses them when the database is
# away: chunks that are open, belong to nobody and have no job get a new one. So do, at once, those
# whose worker's connection has left the server.
_LOST: Final = """
select p.name, c.number, c.plan
from gateway_fleet.chunk c join gateway_fleet.plan p on p.id = c.plan
where c.queue = %(queue)s and open and (
  ((lease is null or lease < clock_timestamp()) and not exists (
    select from procrastinate_jobs j where j.queue_name = %(queue)s
    and j.status in ('todo', 'doing')
    and j.args = jsonb_build_object('plan', p.name, 'number', c.number)))
  or (lease > clock_timestamp() and pid is not null and renewed > pg_postmaster_start_time()
    and not exists (select from pg_stat_activity a where a.pid = c.pid)
    and not exists (select from procrastinate_jobs j where j.queue_name = %(queue)s
    and j.status = 'todo' and j.args = jsonb_build_object('plan', p.name, 'number', c.number))))
order by c.plan, c.number limit 100
"""


class _GiveBackError(Exception):
    """The chunk is not done: its job goes back to the queue."""


class Queue:
    def __init__(self, address: str, name: str, *, lease: float) -> None:
        self.address = address  # what libpq takes, or empty for its variables
        self.name = name
        self.lease = lease

    async def put(self, connection: Connection, plan: str, numbers: Iterable[int]) -> None:
        """Put chunks of a plan into the queue, in the transaction of the connection."""
        _, task = self._app(None)
        left = iter(numbers)
        while batch := list(islice(left, _BATCH)):
            await task.configure(connection=connection).batch_defer_async(
                *({"plan": plan, "number": number} for number in batch)
            )

    async def take(
        self, run: Run, database: Database, stopping: asyncio.Event, *, chunks: int
    ) -> None:
        """Take chunks until `stopping`; procrastinate's worker ends when the database restarts."""
        stopped = asyncio.ensure_future(stopping.wait())
        while not stopping.is_set():
            app, task = self._app(run)
            with suppress(ConnectorException):
                async with app.open_async():
                    working = asyncio.create_task(self._work(app, chunks))
                    sweeping = asyncio.create_task(self._sweep(app, task, database))
                    await asyncio.wait(
                        [working, sweeping, stopped], return_when=asyncio.FIRST_COMPLETED
                    )
                    for one in (working, sweeping):
                        one.cancel()
                    ended = await asyncio.gather(working, sweeping, return_exceptions=True)
                if not stopping.is_set():
                    names = ", ".join(type(one).__name__ for one in ended)
                    _logger.warning("the queue's worker ended (%s) and is started again", names)
            await asyncio.wait([stopped], timeout=0.5)

    async def _work(self, app: App, chunks: int) -> None:
        await app.run_worker_async(
            queues=[self.name],
            concurrency=chunks,
            fetch_job_polling_interval=1,
            update_heartbeat_interval=self.lease / 4,
            stalled_worker_timeout=self.lease,
            shutdown_graceful_timeout=self.lease,
            install_signal_handlers=False,
            delete_jobs="successful",
            listen_notify=False,
        )

    async def _sweep(self, app: App, task: Any, database: Database) -> None:
        while True:
            await asyncio.sleep(min(self.lease / 3, 2.0))
            with suppress(ConnectorException):
                stalled = await app.job_manager.get_stalled_jobs(
                    queue=self.name, seconds_since_heartbeat=self.lease
                )
                for job in stalled:
                    with suppress(ConnectorException):  # another worker was faster
                        await app.job_manager.retry_job(job)
                for plan, number, _ in await database.run(_LOST, {"queue": self.name}):
                    await task.defer_async(plan=plan, number=number)

    def _app(self, run: Run | None) -> tuple[App, Any]:
        app = App(
            connector=PsycopgConnector(conninfo=self.address, min_size=1, max_size=3, timeout=5)
        )

        @app.task(name=self.name, queue=self.name, retry=RetryStrategy(wait=1))
        async def chunk(plan: str, number: int) -> None:
            if run is None or not await run(plan, number):
                raise _GiveBackError

        return app, chunk
