"""Instructions of a warm call, which valgrind counts: the same on a busy machine, to 1 %.

    python -m benchmarks.measures.instructions KIND ADDRESS CALLERS CALLS

makes so many calls, for valgrind to watch.
"""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from benchmarks.measures.load import Figures
from benchmarks.peers import OURS, PEERS
from benchmarks.peers.request import TOKEN, Call, Open, check
from benchmarks.peers.sdks import gateway_with
from benchmarks.processes import ROOT

_COLLECTED: Final = re.compile(rb"Collected : (\d+)")
_TRIES: Final = 3  # threads of other clients sometimes end in an abort under valgrind


def shared_token() -> Mapping[str, Any]:
    """Return the access token as most sessions get it: a valid one, shared and in a store."""
    # The processes of other peers are without it.
    from gateway_sdk.auth import MemoryStore, SharedTokenSource, Token  # noqa: PLC0415

    async def log_in() -> Token:
        return Token(TOKEN, expires_at=4e9)

    return {"access_token": SharedTokenSource(MemoryStore(), log_in)}


def sampled() -> Mapping[str, Any]:
    """Return an observer that traces each call."""
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

    from gateway_sdk.otel import OpenTelemetry  # noqa: PLC0415

    return {"observers": [OpenTelemetry(TracerProvider())]}


@asynccontextmanager
async def by_hand(url: str, connections: int) -> AsyncIterator[Call]:
    """Call with two spans around each call, which carry their context to the server."""
    from opentelemetry.propagate import inject  # noqa: PLC0415 - as above
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415

    tracer = TracerProvider().get_tracer("by hand")
    async with PEERS[OURS].open(url, connections) as call:

        async def traced() -> Any:
            with tracer.start_as_current_span("call"), tracer.start_as_current_span("attempt"):
                inject({})
                return await call()

        yield traced


SHARED: Final = f"{OURS}, SharedTokenSource"
TRACED: Final = f"{OURS}, OpenTelemetry"
BY_HAND: Final = f"{OURS}, two spans by hand"
KINDS: Final[Mapping[str, Open]] = {
    **{
        name: PEERS[name].open
        for name in ("raw sockets", "pyreqwest", "aiohttp", "engine alone", OURS)
    },
    SHARED: gateway_with(shared_token),
    TRACED: gateway_with(sampled),
    BY_HAND: by_hand,
}


async def measure(kind: str, url: str, given: dict[str, Any]) -> Figures:
    """Count thousands of instructions per call at several numbers of callers."""
    few, many = given["calls"]
    return {
        f"instructions_k {callers}": (
            _counted(kind, url, callers, many) - _counted(kind, url, callers, few)
        )
        / (many - few)
        / 1000
        for callers in given["callers"]
    }


def _counted(kind: str, url: str, callers: int, calls: int) -> int:
    """Count the instructions of a whole process that makes so many calls."""
    module = "benchmarks.measures.instructions"
    return counted("-m", module, kind, url, str(callers), str(calls))


def counted(*arguments: str, **environment: str) -> int:
    """Count the instructions of Python with arguments."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable]
    command += arguments
    # The order of sets must not change the count.
    environment = {**os.environ, **environment, "PYTHONHASHSEED": "0"}
    for _ in range(_TRIES):
        # What is run is ours.
        ran = subprocess.run(  # noqa: S603
            command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, check=False
        )
        if ran.returncode == 0 and (found := _COLLECTED.search(ran.stderr)):
            return int(found[1])
    raise ValueError(f"valgrind failed: {ran.stderr.decode()[-500:]}")


async def call_often(kind: str, url: str, callers: int, calls: int) -> None:
    """Make so many calls."""
    async with KINDS[kind](url, callers) as call, asyncio.TaskGroup() as group:
        for _ in range(callers):
            group.create_task(_repeat(call, calls // callers))


async def _repeat(call: Call, times: int) -> None:
    for _ in range(times):
        check(await call())


if __name__ == "__main__":
    asyncio.run(call_often(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])))
