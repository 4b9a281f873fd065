"""Without asyncio, as under trio: the error says what is needed, and nothing is left behind."""

from typing import Any

import httpx
import pytest

from gateway_sdk import GatewaySession, Outcome, SessionStateError
from tests.support.calls import CALLS

trio: Any = pytest.importorskip("trio")
pytestmark = pytest.mark.posix  # wine lacks what trio needs

NEEDS_ASYNCIO = "needs asyncio, and no event loop of asyncio runs here"


def session(requests: list[httpx.Request]) -> GatewaySession:
    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, json={})

    return GatewaySession(
        "https://gateway.test",
        access_token="t",
        tenant_id="acme",
        transport=httpx.MockTransport(answer),
    )


@pytest.mark.parametrize("name", CALLS)
def test_a_call_under_trio_says_that_asyncio_is_needed(name: str) -> None:
    requests: list[httpx.Request] = []

    with pytest.raises(SessionStateError, match=NEEDS_ASYNCIO) as caught:
        trio.run(CALLS[name], session(requests))

    assert caught.value.outcome is Outcome.NOT_SENT
    assert caught.value.operation == name
    assert requests == []


def test_opening_and_closing_under_trio_say_so_too() -> None:
    """A session that was not opened can still be used in an event loop of asyncio."""
    gateway = session([])

    async def use() -> None:
        async with gateway:
            raise AssertionError

    for function in (use, gateway.aclose):
        with pytest.raises(SessionStateError, match=NEEDS_ASYNCIO):
            trio.run(function)

    assert repr(gateway) == "<GatewaySession https://gateway.test (new)>"
