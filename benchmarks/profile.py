"""Where the CPU time of a call goes: samples of a busy process, by the room of the house.

    python -m benchmarks.profile [PEER] [--callers 50] [--seconds 10]

PEER is one of `benchmarks.peers.PEERS`. A sample is taken after every few milliseconds of CPU time
(POSIX only) and counted for the file whose function was running then; what C code does counts for
the file that called it.
"""

import argparse
import asyncio
import signal
import time
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Final

import gateway_sdk
from benchmarks.measures.load import drive, warm
from benchmarks.peers import OURS, PEERS
from benchmarks.processes import server

PERIOD: Final = 0.001
"""Seconds of CPU time; the system may take more."""
HOME: Final = Path(gateway_sdk.__file__).parent
SHOWN: Final = 0.005
"""Of the whole; what takes less is summed up."""


def room(file: str) -> str:
    """Return the room of a file: one of ours, a library, or the standard library."""
    path = Path(file)
    if path.is_relative_to(HOME):
        return f"gateway_sdk {path.relative_to(HOME).with_suffix('').parts[0]}"
    if "site-packages" in path.parts:
        return path.with_suffix("").parts[path.parts.index("site-packages") + 1]
    if path.is_relative_to(Path(__file__).parent):
        return "the callers"
    return "asyncio" if "asyncio" in path.parts else "standard library"


async def sample(peer: str, url: str, callers: int, seconds: float) -> tuple[float, Counter[str]]:
    """Return the CPU time of a call in µs, measured without samples, and samples by room."""
    samples = Counter[str]()

    def take(_: int, frame: FrameType | None) -> None:
        if frame is not None:
            samples[room(frame.f_code.co_filename)] += 1

    async with PEERS[peer].open(url, callers) as call:
        await warm(call, callers)
        began = time.process_time()
        calls = await drive(call, callers, seconds / 2)
        per_call = (time.process_time() - began) / calls * 1e6
        before = signal.signal(signal.SIGPROF, take)
        signal.setitimer(signal.ITIMER_PROF, PERIOD, PERIOD)
        try:
            await drive(call, callers, seconds / 2)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
    return per_call, samples


def lines(per_call: float, samples: Counter[str]) -> list[str]:
    """Return a table: µs of each room, the dearest first."""
    whole = samples.total()
    shown = {name: n for name, n in samples.most_common() if n >= SHOWN * whole}
    rows = [(name, per_call * number / whole) for name, number in shown.items()]
    if (rest := whole - sum(shown.values())) > 0:
        rows.append(("all others", per_call * rest / whole))
    return [f"{cost:7.1f} us  {name}" for name, cost in rows]


def main(arguments: list[str] | None = None) -> None:
    """Take samples of what the command line says, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=__doc__)
    parser.add_argument("peer", nargs="?", default=OURS, choices=PEERS, metavar="PEER")
    parser.add_argument("--callers", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=10)
    given = parser.parse_args(arguments)
    with server("gateway_server") as url:
        found = asyncio.run(sample(given.peer, url, given.callers, given.seconds))
    print(f"{found[0]:7.1f} us  a call of {given.peer}, {given.callers} callers")
    print(*lines(*found), sep="\n")


if __name__ == "__main__":
    main()
