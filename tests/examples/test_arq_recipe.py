"""The recipe for arq: a job that comes again is not done again, unless the error proves it."""

import sys
from typing import Any

import pytest

from gateway_sdk import GatewaySession
from gateway_sdk.sandbox import Sandbox
from tests.support import documents


class Marks:
    """What the recipe uses of a Redis."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}

    async def set(self, name: str, value: Any, *, nx: bool) -> bool:
        assert nx
        is_new = name not in self.kept
        self.kept.setdefault(name, value)
        return is_new

    async def delete(self, name: str) -> None:
        del self.kept[name]


def recipe(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(str(documents.STAND_INS))
    for name in ("arq", "arq.connections"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (block,) = [it for it in documents.every("python") if it.document.name == "arq.md"]
    names: dict[str, Any] = {}
    exec(block.text, names)  # noqa: S102 - of this project
    return names


REQUEST = {"externalCustomerId": "p-1", "customerName": "Ada"}


@pytest.mark.parametrize(
    ("fault", "first", "again", "made"),
    [
        ("latency=0", "done", "CHECK: it was begun before", 1),
        ("create_customer:drop_after_read,at=1", "CHECK: ", "CHECK: it was begun before", 1),
        ("create_customer:status=403,at=1", "FIX: ", "done", 1),
        ("create_customer:too_many_requests=3600,at=1", "Retry", "done", 1),
    ],
)
async def test_a_job_that_comes_twice(
    monkeypatch: pytest.MonkeyPatch,
    gateway_env: dict[str, str],
    gateway_sandbox: Sandbox,
    fault: str,
    first: str,
    again: str,
    made: int,
) -> None:
    worker, marks = recipe(monkeypatch), Marks()
    gateway_sandbox.faults.add(fault)
    told: list[str] = []
    async with GatewaySession.from_env() as gateway:
        for _ in range(2):
            try:
                told.append(
                    await worker["create_customer"]({"gateway": gateway, "redis": marks}, REQUEST)
                )
            except worker["Retry"] as retry:
                told.append(type(retry).__name__)

    assert told[0].startswith(first)
    assert told[1] == again
    applied = [it for it in gateway_sandbox.received if it.applied]
    assert len(applied) == made
