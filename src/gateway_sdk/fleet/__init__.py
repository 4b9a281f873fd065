"""Bulk runs on many machines: jobs, plans and workers on one PostgreSQL database."""

from gateway_sdk.errors import needing_extra

with needing_extra("fleet", "gateway_sdk.fleet"):
    from gateway_sdk.fleet._job import Job
    from gateway_sdk.fleet._plans import Status, Waiting
    from gateway_sdk.fleet._worker import Worker

__all__ = ["Job", "Status", "Waiting", "Worker"]
