"""Ways to fail, and what may truthfully be said of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import httpx

from gateway_sdk import (
    Advice,
    ConnectionFailedError,
    GatewaySession,
    Outcome,
    ReplyLostError,
    RetryPolicy,
)
from tests.support.calls import Call
from tests.support.failing_server import Receipt, Script
from tests.support.witness import Record, Witness, lies, may_go_on

NOT_SENT, REFUSED, UNKNOWN, APPLIED = Outcome

End = tuple[str | None, Outcome]
"""The class of an error, None for none, and an outcome."""

PATIENT: Final = httpx.Timeout(30.0)
"""Seconds: nothing that a test waits for takes so long."""

NO_REPLY: Final = ConnectionFailedError, ReplyLostError
UNREACHABLE: Final[End] = "ConnectionFailedError", NOT_SENT
LOST: Final[End] = "ReplyLostError", UNKNOWN
TIMED_OUT: Final[End] = "ReplyTimeoutError", UNKNOWN
CUT: Final[End] = "ReplyLostError", APPLIED
DONE: Final[End] = None, APPLIED

WRITES_AND_READS: Final = ("create_customer", "cancel_order", "order_history")
"""An operation of each repeatability: ONCE, IDEMPOTENT, READ."""

POLICIES: Final[dict[str, RetryPolicy | None]] = {
    "one attempt": None,
    "default": RetryPolicy(connect_wait=0.0),
}


@dataclass(frozen=True)
class Step:
    """A way to fail, and what may be said of an attempt that met it."""

    script: Script
    # What the attempt comes to; several where it is a matter of time.
    ends: tuple[End, ...] = (LOST,)
    # Requests that come per attempt that was sent; None where that is one too.
    received: int | None = 1
    # The phase that is never over has a short one.
    times: httpx.Timeout = field(default_factory=lambda: PATIENT)
    # Whether it may pass by itself, and is tried again; None where that is a matter of time.
    passes: bool | None = True


def short(**phase: float) -> httpx.Timeout:
    return httpx.Timeout(**{**PATIENT.as_dict(), **phase})


def open_session(url: str, witness: Witness, **options: Any) -> GatewaySession:
    """Make a session that waits for nothing between its attempts, and has a witness."""
    gateway = GatewaySession(
        url,
        observers=[witness],
        **{
            "access_token": "t",
            "tenant_id": "acme",
            "timeout": PATIENT,
            "retry": POLICIES["default"],
            **options,
        },
    )

    async def sleep(seconds: float) -> None:
        pass

    gateway._caller.shared.sleep = sleep
    return gateway


async def make(url: str, operation: str, how: Call | None = None, **options: Any) -> Record:
    witness = Witness()
    async with open_session(url, witness, **options) as gateway:
        return await witness.call(gateway, operation, how=how)


def end_of(record: Record) -> End:
    kind = type(record.error).__name__ if record.error else None
    return kind, record.attempts[-1].outcome


def check(
    record: Record, step: Step, receipts: Sequence[Receipt], policy: RetryPolicy | None
) -> None:
    """Compare what is said of a call with what is true, and its attempts with what may be done."""
    *others, last = record.attempts
    passes = not isinstance(record.error, NO_REPLY) or record.error.advice is not Advice.FIX

    assert lies(record, receipts) == []
    assert end_of(record) in step.ends
    assert {(attempt.error, attempt.outcome) for attempt in record.attempts} <= set(step.ends)
    assert all(may_go_on(attempt, record.operation) for attempt in others)
    assert step.passes in (passes, None)
    again = passes and may_go_on(last, record.operation)
    assert len(record.attempts) == (policy.attempts if policy else 1) or not again
    assert len(record.attempts) == 1 or passes
    if step.received is not None:
        assert len(receipts) == step.received * record.sent
