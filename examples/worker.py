"""A worker that uploads documents from a queue: headless, one session per process.

Run it against the sandbox (`gateway sandbox` prints the variables to set), with a broker of
your own in the place of the one in memory:

    taskiq worker examples.worker:broker
"""

from pathlib import Path
from typing import Any

from taskiq import (
    Context,
    InMemoryBroker,
    SimpleRetryMiddleware,
    TaskiqDepends,
    TaskiqEvents,
    TaskiqState,
)

from gateway_sdk import GatewayError, GatewaySession

broker = InMemoryBroker(await_inplace=True).with_middlewares(SimpleRetryMiddleware())


@broker.on_event(TaskiqEvents.WORKER_STARTUP)
async def open_session(state: TaskiqState) -> None:
    """Open the session in the worker's own event loop, never before it forks."""
    state.gateway = GatewaySession.from_env(deadline=None)


@broker.on_event(TaskiqEvents.WORKER_SHUTDOWN)
async def close_session(state: TaskiqState) -> None:
    """Let the uploads under way end, then close."""
    await state.gateway.aclose()


@broker.task(retry_on_error=True, max_retries=3)
async def upload(path: str, context: Context = TaskiqDepends()) -> dict[str, Any]:
    """Upload a file; have it tried again if that can help, and cannot store it twice."""
    gateway: GatewaySession = context.state.gateway
    try:
        return {"stored": await gateway.aml.upload_document(Path(path))}
    except GatewayError as error:
        if error.retryable:
            raise
        return {"needs_a_look": str(error)}
