"""A plan on Celery: its queue delivers the chunks, and the database knows what is done.

It needs `pip install '.[fleet]' 'celery[redis]'`, the database and gateway of `fleet_rates`, and
CELERY_BROKER_URL, such as redis://localhost. Start workers, and submit what is missing:

    celery -A examples.fleet_celery worker
    python -m examples.fleet_celery
"""

import asyncio
from typing import Any

from celery import Celery  # type: ignore[import-untyped]
from examples.fleet_rates import PLAN, queries, rates, run_chunk

app: Any = Celery("fleet")
# A chunk is acknowledged when it is done: that of a worker that died is delivered again.
app.conf.update(task_acks_late=True, task_ignore_result=True, worker_prefetch_multiplier=1)


@app.task(name="chunk", bind=True, max_retries=None)  # type: ignore[untyped-decorator]
def chunk(task: Any, plan: str, number: int) -> None:
    """Run one chunk; if another worker has it, look again later."""
    if not asyncio.run(run_chunk(plan, number)):
        raise task.retry(countdown=5)


async def submit() -> None:
    """Plan, and send a message for each chunk in which something is left to do."""
    await rates.init()
    await rates.plan(PLAN, queries(), chunk=10)
    for number in await rates.chunks(PLAN):
        chunk.delay(PLAN, number)


if __name__ == "__main__":
    asyncio.run(submit())
