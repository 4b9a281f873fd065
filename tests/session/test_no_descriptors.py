"""A process that has no descriptors left: nothing has to be loaded in the middle of a call."""

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

PROGRAM: Final = """
import asyncio, errno, sys
from gateway_sdk import GatewayError, GatewaySession
from tests.support.calls import CALLS
from tests.support.raw_server import OK, Server, raw_server

class Full:
    def find_spec(self, name, path=None, target=None):
        print("loads", name)
        raise OSError(errno.EMFILE, name)

async def main(status):
    server = Server(OK.replace(b"200", status))
    async with raw_server(server.handle) as url:
        async with GatewaySession(url, access_token="t", tenant_id="acme", retry=None) as gateway:
            sys.meta_path.insert(0, Full())
            for name, call in CALLS.items():
                try:
                    await call(gateway)
                except GatewayError as error:
                    assert f"answered {status.decode()}" in str(error), (name, error)
                except OSError as error:
                    print(name, error)
            del sys.meta_path[0]

asyncio.run(main(sys.argv[1].encode()))
"""


@pytest.mark.parametrize("status", ["200", "401", "422", "503"])
def test_an_open_session_loads_nothing(status: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, status],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (done.stdout, done.stderr) == ("", "")
