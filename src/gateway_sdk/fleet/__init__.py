"""Bulk runs on many machines: jobs, plans and workers on one PostgreSQL database."""

from gateway_sdk.errors import MissingExtraError

try:
    from gateway_sdk.fleet._job import Job
    from gateway_sdk.fleet._plans import Status, Waiting
    from gateway_sdk.fleet._worker import Worker
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in {"procrastinate", "psycopg", "psycopg_pool"}:
        raise
    message = "a fleet needs the extra [fleet]: pip install 'gateway-sdk[fleet]'"
    raise MissingExtraError(message, extra="fleet") from None

__all__ = ["Job", "Status", "Waiting", "Worker"]
