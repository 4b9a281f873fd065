"""Instructions of a warm call, which valgrind counts: the same on a busy machine, to 1 %.

    python -m benchmarks.measures.instructions KIND ADDRESS CALLERS CALLS

makes so many calls, for valgrind to watch.
"""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Mapping
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


SHARED: Final = f"{OURS}, SharedTokenSource"
TRACED: Final = f"{OURS}, OpenTelemetry"
KINDS: Final[Mapping[str, Open]] = {
    **{
        name: PEERS[name].open
        for name in ("raw sockets", "pyreqwest", "aiohttp", "engine alone", OURS)
    },
    SHARED: gateway_with(shared_token),
    TRACED: gateway_with(sampled),
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
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable]
    command += ["-m", "benchmarks.measures.instructions", kind, url, str(callers), str(calls)]
    # The order of sets must not change the count.
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
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
