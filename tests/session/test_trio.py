"""Without asyncio, as under trio: the error says what is needed, and nothing is left behind."""

from typing import Any

import pytest

from gateway_sdk import Outcome, SessionStateError
from tests.support.calls import CALLS
from tests.support.recorder import Recorder

trio: Any = pytest.importorskip("trio")
pytestmark = pytest.mark.posix  # wine lacks what trio needs

NEEDS_ASYNCIO = "needs asyncio, and no event loop of asyncio runs here"


@pytest.mark.parametrize("name", CALLS)
def test_a_call_under_trio_says_that_asyncio_is_needed(name: str) -> None:
    recorder = Recorder()

    with pytest.raises(SessionStateError, match=NEEDS_ASYNCIO) as caught:
        trio.run(CALLS[name], recorder.session(tenant_id="acme"))

    assert caught.value.outcome is Outcome.NOT_SENT
    assert caught.value.operation == name
    assert recorder.sent == []


def test_opening_and_closing_under_trio_say_so_too() -> None:
    """A session that was not opened can still be used in an event loop of asyncio."""
    gateway = Recorder().session()

    async def use() -> None:
        async with gateway:
            raise AssertionError

    for function in (use, gateway.aclose):
        with pytest.raises(SessionStateError, match=NEEDS_ASYNCIO):
            trio.run(function)

    assert repr(gateway) == "<GatewaySession https://gateway.test (new)>"
