"""Who takes the messages of a plan: each is the address of the plan and the number of a chunk."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

from gateway_sdk.errors import InvalidArgumentError

Send: TypeAlias = Callable[[str, int], Awaitable[Any]]
"""Takes the address of a plan and the number of a chunk, and passes them to a worker."""


def task_name(job: str) -> str:
    """Return the name under which workers have registered a job."""
    return f"gateway_sdk.fleet:{job}"


def sender(broker: Any, job: str) -> Send:
    """Return what sends messages of a job to a broker.

    Args:
        broker: A broker of taskiq to which `on_taskiq` added the job; or, for other engines, a
            coroutine function of an address and a number.
        job: The name of the job.

    Raises:
        InvalidArgumentError: it is neither.
    """
    if hasattr(broker, "find_task"):
        task = broker.find_task(task_name(job))
        if task is None:
            raise InvalidArgumentError(
                f"the broker does not know the job {job!r}: call fleet.on_taskiq(broker, job) first"
            )
        return cast("Send", task.kiq)
    if not callable(broker):
        raise InvalidArgumentError(
            "submit takes a broker of taskiq, or a coroutine function of (address, chunk)"
        )
    return cast("Send", broker)
