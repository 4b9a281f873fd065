"""A session that nobody closed says so, with its name and its place."""

import gc
import os
import sys

import pytest

from gateway_sdk import GatewaySession
from tests.support.calls import CALLS
from tests.support.documents import ROOT, run
from tests.support.raw_server import Server, raw_server
from tests.support.secrecy import CANARY

PROGRAM = """
import asyncio
from gateway_sdk import GatewaySession

async def main():
    gateway = GatewaySession.from_env()
    await gateway.with_options(tenant_id="acme").wallet.order_history(1, 1)

asyncio.run(main())
"""


async def test_it_is_shown_where_python_shows_such_warnings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GATEWAY_ACCESS_TOKEN", CANARY)
    async with raw_server(Server().handle) as url:
        monkeypatch.setenv("GATEWAY_BASE_URL", url)
        ended = await run(sys.executable, "-X", "dev", "-c", PROGRAM, folder=ROOT)

    told = f"the session of {url} was not closed: use `async with`, or await its aclose(); "
    assert f"ResourceWarning: {told}those of a view do not close it\n" in ended.err
    assert "made at <string>:6\n" in ended.err
    assert CANARY not in ended.err


@pytest.mark.parametrize("module", ["__main__", "os"])
async def test_the_end_of_the_interpreter_is_quiet(
    monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    monkeypatch.setenv("GATEWAY_ACCESS_TOKEN", CANARY)
    kept = f"    import {module} as module\n    module.gateway = gateway\n\nasyncio.run"
    async with raw_server(Server().handle) as url:
        monkeypatch.setenv("GATEWAY_BASE_URL", url)
        program = PROGRAM.replace("\nasyncio.run", kept)
        ended = await run(sys.executable, "-c", program, folder=ROOT)

    assert ended.err == ""


@pytest.mark.parametrize("how", ["used", "closed", "not connected", "in a fork"])
async def test_only_open_connections_are_missed(
    recwarn: pytest.WarningsRecorder, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    async with raw_server(Server().handle) as url:
        gateway = GatewaySession(url, access_token="t")
        view = gateway.with_options(tenant_id="acme")
        if how != "not connected":
            await CALLS["order_history"](view)
        if how == "closed":
            await gateway.aclose()
        if how == "in a fork":
            monkeypatch.setattr(os, "getpid", lambda: -1)
        engine = gateway._caller.shared._transport
        del gateway
        gc.collect()
        before = messages(recwarn)

        del view  # at once, not when garbage is collected

        assert (before, messages(recwarn)) == (0, how == "used")
        if engine is not None:
            await engine.aclose()


def messages(recwarn: pytest.WarningsRecorder) -> int:
    return sum("the session of" in str(warning.message) for warning in recwarn.list)


def test_a_session_that_could_not_be_made_is_none(recwarn: pytest.WarningsRecorder) -> None:
    with pytest.raises(ValueError, match="base_url"):
        GatewaySession("ftp://x", access_token="t")
    gc.collect()
    assert not messages(recwarn)
