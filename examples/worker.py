"""A worker that uploads documents from a queue: without a user, one session per process.

It needs `pip install taskiq taskiq-redis` and a Redis; REDIS_URL is its address if it is not on
this machine. Run the worker in the root of the project, against the sandbox (`gateway sandbox`
prints the variables to set):

    taskiq worker examples.worker:broker

and, from another process, put documents into the queue and see what became of them:

    python -m examples.worker passport.pdf licence.pdf

The queue holds paths: both processes need the same files.
"""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from taskiq import Context, SimpleRetryMiddleware, TaskiqDepends, TaskiqEvents, TaskiqState
from taskiq.serializers import JSONSerializer
from taskiq_redis import ListQueueBroker, RedisAsyncResultBackend

from gateway_sdk import Advice, GatewayError, GatewaySession

PAUSE = 10.0  # seconds
REDIS_URL = os.environ.get("REDIS_URL", "redis://127.0.0.1")

# A list hands out each task once. A queue that delivers a task again, because its worker died or
# was slow, makes an upload twice, which is then stored twice. The price is that a worker that is
# killed loses its uploads, and their callers get no result.
results = RedisAsyncResultBackend[Any](REDIS_URL, serializer=JSONSerializer(), result_ex_time=3600)
broker = (
    ListQueueBroker(REDIS_URL)
    .with_result_backend(results)
    .with_middlewares(SimpleRetryMiddleware())
)


@broker.on_event(TaskiqEvents.WORKER_STARTUP)
async def open_session(state: TaskiqState) -> None:
    """Open the session in the worker's own event loop, never before it forks."""
    state.gateway = GatewaySession.from_env(deadline=None)


@broker.on_event(TaskiqEvents.WORKER_SHUTDOWN)
async def close_session(state: TaskiqState) -> None:
    """Let the uploads under way end, then close."""
    await state.gateway.aclose()


@broker.task(
    "upload",  # a name of its own: this module is `__main__` in the process of the caller
    retry_on_error=True,
    max_retries=3,
)
async def upload(path: str, context: Context = TaskiqDepends()) -> dict[str, Any]:
    """Upload a file; raise what may succeed later and cannot store the file twice."""
    gateway: GatewaySession = context.state.gateway
    while True:
        try:
            return {"stored": await gateway.aml.upload_document(Path(path))}
        except GatewayError as error:
            if error.advice is Advice.REPEAT or error.token_is_static:
                raise  # the middleware puts the task into the queue again
            if error.advice is not Advice.LOG_IN:
                return {error.advice.value: str(error), "outcome": error.outcome.name}
        # Nothing was sent. The task keeps its place, so that the worker takes no more of them
        # before somebody has logged in.
        await asyncio.sleep(PAUSE)


async def main(paths: list[str]) -> None:
    """Put files into the queue, and print one result for each."""
    await broker.startup()
    try:
        tasks = [await upload.kiq(path) for path in paths]
        for path, task in zip(paths, tasks, strict=True):
            result = await task.wait_result(timeout=60)
            print(path, result.error or result.return_value)
    finally:
        await broker.shutdown()


if __name__ == "__main__":
    asyncio.run(main([str(Path(path).resolve()) for path in sys.argv[1:]]))
