"""A network that loses everything, in a namespace of its own: nothing fits into its queue."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.real.programs import find
from tests.real.servers import ROOT

PROGRAM: Final = """
import asyncio, subprocess, sys, time
from gateway_sdk import GatewayError, GatewaySession
from tests.support.calls import CALLS
from tests.support.raw_server import Server, raw_server

async def main():
    async with raw_server(Server().handle) as url:
        async with GatewaySession(
            url, access_token="t", tenant_id="acme", retry=None, timeout={timeout}
        ) as session:
            await CALLS["create_customer"](session)
            # No packet fits into this queue.
            queue = "qdisc add dev lo root tbf rate 1kbit burst 1 latency 1ms"
            subprocess.run([{tc!r}, *queue.split()], check=True, stderr=subprocess.DEVNULL)
            await asyncio.sleep({idle})
            began = time.monotonic()
            try:
                await CALLS["create_customer"](session)
            except GatewayError as error:
                print(error.outcome.name, round(time.monotonic() - began, 1))

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("idle", "outcome", "least", "most"),
    [
        (0.0, "UNKNOWN", 5.5, 8.5),  # two thirds of the time-out, and a look
        (14.0, "NOT_SENT", 0.0, 9.5),  # the probes have ended the connection
    ],
)
def test_what_is_sent_into_it(
    idle: float, outcome: str, least: float, most: float, tmp_path: Path
) -> None:
    place = [find("unshare"), "--user", "--map-root-user", "--net"]
    up = f"{find('ip')} link set lo up"
    if subprocess.run([*place, "sh", "-c", up], capture_output=True, check=False).returncode:
        pytest.skip("not tested, because no network of its own can be made")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(timeout=9.0, tc=find("tc"), idle=idle))
    done = subprocess.run(
        [*place, "sh", "-c", f"{up} && exec {sys.executable} {program}"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )

    assert not done.stderr
    told, seconds = done.stdout.split()
    assert told == outcome
    assert least <= float(seconds) <= most
