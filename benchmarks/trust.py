"""What weak ways cost: calls whose outcome nobody knows, and connections, by scenario.

    PYTHONPATH=/another/checkout/src python -m benchmarks.trust [--tls] [--uvloop] [WORD ...]

runs the scenarios with one of the words in their title, or all, with this package or another one.
"""

import argparse
import asyncio
import random
import ssl
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from benchmarks.tables import head, row
from gateway_sdk import GatewayError, GatewaySession
from tests.support.calls import CALLS
from tests.support.certificates import Authority
from tests.support.raw_server import OK, read_request, serving
from tests.support.relays import Relay

READ: Final = "spot_trading_available_balance"
WRITE: Final = "create_customer"


class Scenario(NamedTuple):
    """Callers that come again and again, and what the way does to them."""

    callers: int
    calls: int  # of each caller
    pause: tuple[float, float] = (0.0, 0.0)  # seconds between two of them, at least and at most
    work: float = 0.01  # seconds of the server for a reply
    writes: float = 1.0  # the share of calls that must not be made twice
    idle: float | None = None  # seconds after which the server ends an idle connection
    relay: Mapping[str, float] = {}
    begin: str = ""  # what the relay does to ten connections that rest at the beginning
    slow: float = 0.0  # the share of replies that come after the time-out
    settings: Mapping[str, Any] = {}


SCENARIOS: Final[Mapping[str, Scenario]] = {
    f"{title}, {kind}": scenario._replace(writes=share)
    for title, scenario in {
        "each connection ends 2 ms after a reply": Scenario(20, 60, relay={"ends_after": 0.002}),
        "each connection ends 20 ms after a reply": Scenario(20, 60, relay={"ends_after": 0.02}),
        "ends after 1 s, pauses of 0.8 to 1.2 s": Scenario(
            40, 12, (0.8, 1.2), idle=1.0, relay={"delay": 0.025}
        ),
        "forgets 10": Scenario(1, 13, begin="forget", settings={"timeout": 1}),
        "resets 10": Scenario(1, 13, begin="reset"),
        "no trouble, 50 at once": Scenario(50, 40),
        "no trouble, one a second": Scenario(1, 15, (1.0, 1.0)),
        "slow server": Scenario(20, 50, (0.0, 0.1), slow=0.1, settings={"timeout": 0.4}),
    }.items()
    for kind, share in (("reads", 0.0), ("writes", 1.0), ("a mix", 0.1))
    if kind != "a mix" or title.startswith("no trouble, 50")
}
COLUMNS: Final = ("scenario", "calls", "ok", "UNKNOWN", "connections", "seconds")


def _server(scenario: Scenario) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(TimeoutError):
            while await asyncio.wait_for(read_request(reader), scenario.idle):
                is_slow = random.random() < scenario.slow  # noqa: S311 - no secret
                await asyncio.sleep(1.0 if is_slow else scenario.work)
                writer.write(OK)

    return handle


async def run(
    scenario: Scenario, authority: Authority | None = None
) -> tuple[Counter[str], int, float]:
    """Return the ends of calls, the connections that they took, and the seconds."""
    random.seed(1)
    ends = Counter[str]()
    given = {"access_token": "t", "tenant_id": "acme", **scenario.settings}
    scheme, context = "http", None
    if authority is not None:
        scheme, context = "https", authority.server("127.0.0.1")
        context.maximum_version = ssl.TLSVersion.TLSv1_2  # of whose records the relay sees the kind
        given["verify"] = authority.path

    async def call(gateway: GatewaySession, name: str) -> None:
        try:
            await CALLS[name](gateway)
            ends["ok"] += 1
        except GatewayError as error:
            ends[error.outcome.name] += 1

    async def come(gateway: GatewaySession) -> None:
        for _ in range(scenario.calls):
            is_write = random.random() < scenario.writes  # noqa: S311 - no secret
            await call(gateway, WRITE if is_write else READ)
            await asyncio.sleep(random.uniform(*scenario.pause))  # noqa: S311 - no secret

    async with (
        serving(_server(scenario), context) as port,
        Relay(port, **scenario.relay) as relay,
        GatewaySession(f"{scheme}://127.0.0.1:{relay.port}", **given) as gateway,
    ):
        if scenario.begin:
            await asyncio.gather(*(call(gateway, READ) for _ in range(10)))
            ends.clear()
            getattr(relay, scenario.begin)()
        before, began = relay.made, time.monotonic()
        await asyncio.gather(*(come(gateway) for _ in range(scenario.callers)))
        return ends, relay.made - before, time.monotonic() - began


def main(arguments: list[str] | None = None) -> None:
    """Run scenarios, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trust", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--uvloop", action="store_true")
    given = parser.parse_args(arguments)
    factory = import_module("uvloop").new_event_loop if given.uvloop else None
    print(head(COLUMNS))
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=factory) as runner:
        authority = Authority(Path(folder), "benchmark") if given.tls else None
        for title, scenario in SCENARIOS.items():
            if not given.words or any(word in title for word in given.words):
                ends, connections, seconds = runner.run(run(scenario, authority))
                cells = ends.total(), ends["ok"], ends["UNKNOWN"], connections, f"{seconds:.1f}"
                print(row((title, *cells)), flush=True)


if __name__ == "__main__":
    main()
