"""A network that is silent while a call waits: nothing that was sent is acknowledged any more."""

import asyncio
from typing import Any

import pytest

from gateway_sdk import Advice, GatewaySession, Outcome, ReplyTimeoutError
from gateway_sdk._transport import connection as module
from gateway_sdk._transport.connection import Connection
from gateway_sdk._transport.trust import SILENCE
from tests.support.calls import CALLS
from tests.support.network import Network, Server as Gateway
from tests.support.raw_server import OK, raw_server, read_request
from tests.support.truth import open_session, short
from tests.support.virtual_time import now, run
from tests.support.witness import Witness

SILENT = "timed out: the network acknowledges nothing any more"


@pytest.mark.parametrize(
    ("waiting", "seconds", "is_ended"),
    [
        (True, SILENCE, True),
        (True, SILENCE - 0.1, False),  # it may be away for a while
        (False, 119.0, False),  # the server has it, and works; or it pauses reading
    ],
)
async def test_silence_ends_a_call_before_its_time(
    monkeypatch: pytest.MonkeyPatch, waiting: bool, seconds: float, is_ended: bool
) -> None:
    """A call with no time-out waits for ever, as it says."""
    looks = asyncio.Event()

    def known(_: Connection) -> tuple[bool, float]:
        looks.set()
        return waiting, seconds

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await read_request(reader):
            await looks.wait()
            if not is_ended:
                writer.write(OK)

    monkeypatch.setattr(module, "_LOOK", 0.01)
    monkeypatch.setattr(Connection, "_acknowledgements", known)
    async with (
        raw_server(handle) as url,
        open_session(url, Witness(), timeout=short(read=120.0)) as session,
    ):
        call = asyncio.create_task(CALLS["create_customer"](session))
        if is_ended:
            with pytest.raises(ReplyTimeoutError, match=SILENT) as caught:
                await call
            assert caught.value.outcome is Outcome.UNKNOWN
            assert caught.value.advice is Advice.CHECK
        else:
            assert await call == {}


def test_the_system_may_say_it_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody answers its probes, behind a request that has arrived; no rest is learned of it."""
    network, server = Network(monkeypatch), Gateway()
    network.names["gateway.test"], server.work = server, lambda: 100.0

    async def scenario() -> None:
        async with GatewaySession(
            "http://gateway.test", access_token="t", tenant_id="acme", allow_insecure_http=True
        ) as session:
            call = asyncio.create_task(CALLS["create_customer"](session))
            await asyncio.sleep(1.0)
            for flow in [*network.flows]:
                flow.forget(answers=False)
            with pytest.raises(ReplyTimeoutError, match=SILENT):
                await call
            assert now() == pytest.approx(1.0 + SILENCE)
            engine: Any = session._caller.shared._transport
            assert not engine._pool._trust.has_learned

    run(scenario())
