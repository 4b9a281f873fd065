"""Who takes the messages of a plan: each is the address of the plan and the number of a chunk."""

import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias, cast

from gateway_sdk.errors import InvalidArgumentError

Send: TypeAlias = Callable[[str, int], Awaitable[Any]]
"""Takes the address of a plan and the number of a chunk, and passes them to a worker."""


def task_name(job: str) -> str:
    return f"gateway_sdk.fleet:{job}"


def trace_fields() -> dict[str, str]:
    """Return what a message carries of the current trace; {} without OpenTelemetry."""
    otel: Any = sys.modules.get("gateway_sdk.otel")
    return {} if otel is None else cast("dict[str, str]", otel.inject())


def continued(labels: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Continue the trace of a message, unless a middleware of the user's has done so."""
    otel: Any = sys.modules.get("gateway_sdk.otel")
    if otel is None or trace_fields():
        return nullcontext()
    return cast("AbstractContextManager[None]", otel.extract(labels))


def sender(broker: Any, job: str) -> Send:
    """Return what sends messages of a job to a broker; a coroutine function is that itself."""
    if hasattr(broker, "find_task"):
        task = broker.find_task(task_name(job))
        if task is None:
            raise InvalidArgumentError(
                f"the broker does not know the job {job!r}: call fleet.on_taskiq(broker, job) first"
            )

        async def send(address: str, chunk: int) -> None:
            await task.kicker().with_labels(**trace_fields()).kiq(address, chunk)

        return send
    if not callable(broker):
        raise InvalidArgumentError(
            "submit takes a broker of taskiq, or a coroutine function of (address, chunk)"
        )
    return cast("Send", broker)
