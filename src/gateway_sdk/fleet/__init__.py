"""One bulk plan on many machines, over a store that holds the truth and any engine."""

from typing import TYPE_CHECKING

from gateway_sdk._python import lazy

if TYPE_CHECKING:
    from gateway_sdk.fleet._folder_store import FolderStore
    from gateway_sdk.fleet._job import Job
    from gateway_sdk.fleet._plan import Plan, PlanStatus
    from gateway_sdk.fleet._postgres_store import PostgresStore
    from gateway_sdk.fleet._rate_limit import SharedRateLimit
    from gateway_sdk.fleet._taskiq import on_taskiq
    from gateway_sdk.fleet._worker import Worker
else:
    __getattr__, __dir__ = lazy(
        __name__,
        {
            "gateway_sdk.fleet._folder_store": ("FolderStore",),
            "gateway_sdk.fleet._job": ("Job",),
            "gateway_sdk.fleet._plan": ("Plan", "PlanStatus"),
            "gateway_sdk.fleet._postgres_store": ("PostgresStore",),
            "gateway_sdk.fleet._rate_limit": ("SharedRateLimit",),
            "gateway_sdk.fleet._worker": ("Worker",),
            "gateway_sdk.fleet._taskiq": ("on_taskiq",),
        },
    )

__all__ = [
    "FolderStore",
    "Job",
    "Plan",
    "PlanStatus",
    "PostgresStore",
    "SharedRateLimit",
    "Worker",
    "on_taskiq",
]
