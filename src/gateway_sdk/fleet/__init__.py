"""One bulk plan on many machines, over a store that holds the truth and any engine."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway_sdk.fleet._job import Job as Job
    from gateway_sdk.fleet._plan import Plan as Plan, PlanStatus as PlanStatus
    from gateway_sdk.fleet._postgres_store import PostgresStore as PostgresStore
    from gateway_sdk.fleet._rate_limit import SharedRateLimit as SharedRateLimit
    from gateway_sdk.fleet._taskiq import on_taskiq as on_taskiq
    from gateway_sdk.fleet._worker import Worker as Worker
else:
    from gateway_sdk._python import lazy

    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "gateway_sdk.fleet._job": "Job",
            "gateway_sdk.fleet._plan": "Plan PlanStatus",
            "gateway_sdk.fleet._postgres_store": "PostgresStore",
            "gateway_sdk.fleet._rate_limit": "SharedRateLimit",
            "gateway_sdk.fleet._taskiq": "on_taskiq",
            "gateway_sdk.fleet._worker": "Worker",
        },
    )
