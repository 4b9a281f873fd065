"""Random faults, calls, cancellations and deadlines: what is said stays true, nothing is left."""

import asyncio
import itertools
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pytest
from hypothesis import Phase, given, seed, settings, strategies as st

from gateway_sdk import GatewaySession, Outcome, Repeatability
from tests.interface_table import REPEATABILITY
from tests.support.calls import Call, Renewing, pass_deadlines
from tests.support.failing_server import FailingServer, Line, Script
from tests.support.failing_steps import FAULTS, UNSEEN, WELL, be_quiet, turns
from tests.support.truth import open_session
from tests.support.witness import Record, Witness, lies

SWEEPS: Final = [
    (0, 100),
    *(pytest.param(number, 200, marks=pytest.mark.full) for number in range(5)),
]
"""Seeds, and the numbers of runs."""

PATIENCE: Final = 120
"""Turns of the event loop after which the server hangs up on whoever waits, so that it ends."""

SCAN: Final = bytes(150_000)
OPERATIONS: Final[Mapping[str, Call | None]] = {
    "create_customer": None,
    "cancel_order": None,
    "order_history": None,
    "upload_document": lambda gateway: gateway.aml.upload_document(SCAN),
}


@dataclass(frozen=True)
class Planned:
    """A call: which, in which turn it begins, and in which it is cancelled, if at all."""

    operation: str
    begins: int
    cancelled: int | None


@dataclass(frozen=True)
class Plan:
    """What happens in one run."""

    connections: int  # at the most
    calls: tuple[Planned, ...]  # at the same time, or nearly so
    # One for each request or connection, as they come; after them all is well.
    faults: tuple[str, ...]
    deadlines: frozenset[int]  # the turns in which all deadlines pass

    @property
    def all_seen(self) -> bool:
        """Whether the server sees at least a byte of each request that is sent."""
        undisturbed = all(call.cancelled is None for call in self.calls) and not self.deadlines
        return undisturbed and UNSEEN.isdisjoint(self.faults)


def plans(
    cancelled: list[int | None], faults: Iterable[str], deadlines: list[tuple[int, ...]]
) -> st.SearchStrategy[Plan]:
    calls = st.builds(
        Planned,
        operation=st.sampled_from(sorted(OPERATIONS)),
        begins=st.integers(0, 12),
        cancelled=st.sampled_from(cancelled),
    )
    return st.builds(
        Plan,
        connections=st.integers(1, 5),
        calls=st.lists(calls, min_size=4, max_size=10).map(tuple),
        faults=st.lists(st.sampled_from(sorted(faults)), min_size=3, max_size=14).map(tuple),
        deadlines=st.sampled_from(deadlines).map(frozenset),
    )


WILD: Final = plans([*range(4, 34, 3), *[None] * 20], FAULTS, [(15,), (25,), *[()] * 12])
CALM: Final = plans([None], FAULTS.keys() - UNSEEN, [()])


SEEN: Final = (
    (Outcome.APPLIED, None),
    (Outcome.APPLIED, "ReplyLostError"),
    (Outcome.REFUSED, "RateLimitedError"),
    (Outcome.REFUSED, "UnauthorizedError"),
    (Outcome.UNKNOWN, "ReplyLostError"),
    (Outcome.UNKNOWN, "ServerError"),
    (Outcome.UNKNOWN, "CancelledError"),
    (Outcome.NOT_SENT, "CancelledError"),
)
"""What attempts come to in the runs of each seed, or they would prove little."""


def faulty(plan: Plan) -> Script:
    left = list(reversed(plan.faults))

    async def script(line: Line) -> None:
        while line.open:
            await FAULTS[left.pop() if left else WELL](line)

    return script


async def run(plan: Plan, totals: Counter[object]) -> None:
    witness = Witness()
    async with FailingServer(faulty(plan)) as server:
        async with open_session(
            server.url,
            witness,
            access_token=Renewing(),
            max_connections=plan.connections,
            retry_budget=None,
        ) as gateway:
            gateway._caller.shared.sleep = lambda _: turns(1)
            await carry_out(plan, gateway, server, witness)
            await be_quiet(server)
            gate = gateway._caller.shared.open()._slots  # type: ignore[attr-defined]
            assert gate.free == gate.size
        await server.until(lambda: not any(line.open for line in server.lines))
    check(plan, witness.records, server, totals)


async def carry_out(
    plan: Plan, gateway: GatewaySession, server: FailingServer, witness: Witness
) -> None:
    # Other programs may connect to a port that was free a moment ago: no one else has these names.
    run_id = secrets.token_hex(4)
    tasks: list[asyncio.Task[Record] | None] = [None] * len(plan.calls)
    for turn in itertools.count():
        for number, call in enumerate(plan.calls):
            task = tasks[number]
            if turn == call.begins:
                making = witness.call(
                    gateway, call.operation, f"{run_id}-{number}", OPERATIONS[call.operation]
                )
                tasks[number] = asyncio.create_task(making)
            elif task and call.cancelled is not None and turn == call.begins + call.cancelled:
                task.cancel()
        if turn in plan.deadlines:
            pass_deadlines(gateway)
        if turn % PATIENCE == PATIENCE - 1:
            for line in server.lines:
                line.hang_up()
        await asyncio.sleep(0)
        if all(task and task.done() for task in tasks):
            break
    for task in tasks:
        assert task
        assert task.cancelled() or task.result()


def check(
    plan: Plan, records: list[Record], server: FailingServer, totals: Counter[object]
) -> None:
    sent = sum(record.sent for record in records)
    ours = {None, *(record.call for record in records)}
    came = [receipt for receipt in server.receipts if receipt.call in ours]

    assert len(came) <= sent, came
    if plan.all_seen:
        assert len(came) == sent, came
        totals["all seen"] += 1
    for record in records:
        receipts = server.of(record.call)
        assert lies(record, receipts) == []
        if record.outcome in {Outcome.NOT_SENT, Outcome.REFUSED} and not is_read(record):
            assert all(400 <= status < 500 for receipt in receipts for status in receipt.answers)
            assert all(receipt.answers for receipt in receipts)
        totals["calls"] += 1
        totals["attempts"] += len(record.attempts)
        for attempt in record.attempts:
            totals[attempt.outcome, attempt.error] += 1


def is_read(record: Record) -> bool:
    return REPEATABILITY[record.operation] is Repeatability.READ


@pytest.mark.parametrize(("number", "sweep"), SWEEPS)
def test_whatever_happens_the_truth_is_told(number: int, sweep: int) -> None:
    """In random runs nothing is said that is not so, and nothing is left, lost or sent twice.

    The plans are the same each time and are not shrunk, which may take longer than a test may.
    """
    totals: Counter[object] = Counter()

    @seed(number)
    @settings(max_examples=sweep, deadline=None, database=None, phases=[Phase.generate])
    @given(WILD | CALM)
    def runs(plan: Plan) -> None:
        asyncio.run(run(plan, totals))

    runs()

    assert totals["calls"] > 5 * sweep
    assert totals["all seen"] > sweep / 10
    for seen in SEEN:
        assert totals[seen] > 3, seen
