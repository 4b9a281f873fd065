"""A session that nobody closed says so, with its name and its place."""

import gc
import sys

import pytest

from gateway_sdk import GatewaySession
from gateway_sdk._call.shared_state import _Forks
from tests.support.documents import ROOT, run

PROGRAM = """
import asyncio
from gateway_sdk import GatewaySession

async def main():
    gateway = GatewaySession.from_env()
    await gateway.with_options(tenant_id="acme").country_data.list_countries()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("options", "place"), [(["-W", "default"], ""), (["-X", "dev"], ", made at <string>:6")]
)
async def test_it_is_shown_where_python_shows_such_warnings(
    gateway_env: dict[str, str], options: list[str], place: str
) -> None:
    ended = await run(sys.executable, *options, "-c", PROGRAM, folder=ROOT)

    told = f"the session of {gateway_env['GATEWAY_BASE_URL']}{place} was not closed: use `async wi"
    assert f"ResourceWarning: {told}" in ended.err
    assert gateway_env["GATEWAY_ACCESS_TOKEN"] not in ended.err


@pytest.mark.parametrize("how", ["used", "closed", "not connected", "in a fork"])
async def test_only_open_connections_are_missed(
    gateway_env: dict[str, str], recwarn: pytest.WarningsRecorder,
    monkeypatch: pytest.MonkeyPatch, how: str,
) -> None:  # fmt: skip
    gateway = GatewaySession.from_env()
    view = gateway.with_options(tenant_id="acme")
    if how != "not connected":
        await view.country_data.list_countries()
    if how == "closed":
        await gateway.aclose()
    if how == "in a fork":
        monkeypatch.setattr(_Forks, "count", _Forks.count + 1)
    engine = gateway._caller.shared._transport
    del gateway
    gc.collect()
    before = messages(recwarn)

    del view
    gc.collect()

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
