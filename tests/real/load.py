"""Calls of every kind, many at a time, and what may truthfully be said of them."""

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any, Final

from gateway_sdk import GatewaySession, Outcome, RateLimit, Repeatability, RetryPolicy
from tests.interface_table import REPEATABILITY
from tests.real.ledger import Ledger
from tests.real.programs import until
from tests.support.witness import Record, Witness

MIX: Final = (
    "create_customer",
    "cancel_order",
    "order_history",
    "upload_document",
    "change_document_status",
    "spot_trading_available_balance",
)
"""Two operations of each repeatability."""
CALLERS: Final = 12
PATIENT: Final = RetryPolicy(attempts=12, backoff=0.05, backoff_max=0.5)
"""Waits for a server that is started again, about three seconds in all."""
PACE: Final = RateLimit(6, seconds=0.02)
TALLY: Final[Counter[str]] = Counter()
"""What all tests of a run saw, for its summary."""
_AROUND: Final = 30
"""Calls that end before something happens to the server, and after."""


def open_session(url: str, witness: Witness, **options: Any) -> GatewaySession:
    given: dict[str, Any] = {
        "access_token": "t",
        "observers": [witness],
        "retry": PATIENT,
        "retry_budget": None,
        "tenant_id": "acme",
        "timeout": 10.0,
    }
    return GatewaySession(url, **{**given, **options})


async def make_calls(gateway: GatewaySession, witness: Witness, name: str, number: int) -> None:
    await asyncio.gather(
        *(
            witness.call(gateway, MIX[count % len(MIX)], f"{name}-{count}")
            for count in range(number)
        )
    )


async def disturb_under_load(
    gateway: GatewaySession, witness: Witness, *disturbances: Callable[[], Awaitable[None]]
) -> None:
    """Make calls of the mix without a pause, before, while and after each thing that happens."""
    numbers = itertools.count()
    over = False

    async def keep_calling() -> None:
        while not over:
            count = next(numbers)
            await witness.call(gateway, MIX[count % len(MIX)], str(count))

    async def more_calls() -> None:
        enough = ended(witness) + _AROUND
        await until(lambda: ended(witness) >= enough)

    async with asyncio.TaskGroup() as callers:
        for _ in range(CALLERS):
            callers.create_task(keep_calling())
        for disturb in disturbances:
            await more_calls()
            await disturb()
        await more_calls()
        over = True


def ended(witness: Witness) -> int:
    return sum(record.outcome is not None for record in witness.records)


def lost(witness: Witness) -> int:
    return sum(
        attempt.outcome is Outcome.UNKNOWN
        for record in witness.records
        for attempt in record.attempts
    )


def violations(record: Record, ledger: Ledger, *, repeats: bool = False) -> list[str]:
    # *repeats*: something between the two may send again what is idempotent.
    arrived, executed = ledger.arrived[record.call], ledger.executed[record.call]
    kind = REPEATABILITY[record.operation]
    changes = kind is not Repeatability.READ
    wrong = {
        "NOT_SENT, but it arrived": (
            changes and record.outcome is Outcome.NOT_SENT and arrived > 0
        ),
        "REFUSED, but it was executed": (
            changes and record.outcome is Outcome.REFUSED and executed > 0
        ),
        "APPLIED, but it was not executed": record.outcome is Outcome.APPLIED and not executed,
        "executed twice": kind is Repeatability.ONCE and executed > 1,
        "arrived more often than it was sent": (
            arrived > record.sent and not (repeats and kind is Repeatability.IDEMPOTENT)
        ),
        "has another call's reply": record.value not in (None, record.call),
        "no outcome": record.outcome is None,
        "says two things": record.error is not None and record.error.outcome != record.outcome,
    }
    return [f"{record.operation} {record.call}: {text}" for text, found in wrong.items() if found]


def check(witness: Witness, ledger: Ledger, *, repeats: bool = False) -> None:
    """Compare what is said of all calls with what is true; what may be repeated has succeeded."""
    found = [
        text for record in witness.records for text in violations(record, ledger, repeats=repeats)
    ]
    failed = [record for record in witness.records if _should_have_succeeded(record)]
    TALLY.update(_told(record) for record in witness.records)
    assert witness.records
    assert not found, found
    assert not failed, failed


def _should_have_succeeded(record: Record) -> bool:
    """Tell whether a call failed that was worth repeating: not once it is known to be applied."""
    once = REPEATABILITY[record.operation] is Repeatability.ONCE
    return not once and record.error is not None and record.outcome is not Outcome.APPLIED


def _told(record: Record) -> str:
    outcome = record.outcome.name if record.outcome is not None else "no outcome"
    return f"{REPEATABILITY[record.operation].value}: {outcome if record.error else 'succeeded'}"
