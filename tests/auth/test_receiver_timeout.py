"""How long the receiver waits for a response."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway_sdk.auth import LoopbackReceiver
from gateway_sdk.errors import ConfigurationError, LoginTimeoutError
from tests.auth.traces import no_traces
from tests.auth.visits import RIGHT, WRONG, is_refused, names_of, post, read_answer, waiting


@pytest.fixture(autouse=True)
async def _no_traces(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    async with no_traces(caplog):
        yield


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), True, "300"])
async def test_a_wrong_time_out_is_refused(seconds: Any) -> None:
    """A time-out is a number of seconds or None; after a mistake the receiver is still open."""
    async with LoopbackReceiver() as receiver:
        with pytest.raises(ConfigurationError, match="timeout"):
            await receiver.receive(read_answer, timeout=seconds)
        assert not is_refused(*names_of(receiver)[0])


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (0, "s: no response came. If .* the redirect URI http://127.*/callback may not be reg"),
        (1, "s: a response of other"),
        (2, "s: 2 responses of other"),
    ],
)
async def test_the_time_out_counts_what_was_refused(
    monkeypatch: pytest.MonkeyPatch, wrong: int, told: str
) -> None:
    """Its error has the number of responses of other logins, and no more."""
    scopes = note_scopes(monkeypatch)
    async with waiting(timeout=60) as there:
        await there.send(post(b"[]"))
        for _ in range(wrong):
            assert (await there.hand_in(WRONG)).status == 400
        scopes[0].reschedule(asyncio.get_running_loop().time())

        with pytest.raises(
            LoginTimeoutError, match=f"^the login was not finished within 60 {told}"
        ) as e:
            await there.task

    assert e.value.refused == wrong
    assert e.value.__cause__ is None
    assert e.value.__suppress_context__


def note_scopes(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Timeout]:
    """Return the list of all time-outs from now on: the wait's is the first."""
    scopes: list[asyncio.Timeout] = []
    timeout = asyncio.timeout

    def noted(delay: float | None) -> asyncio.Timeout:
        scopes.append(timeout(delay))
        return scopes[-1]

    monkeypatch.setattr("gateway_sdk.auth._receiver.asyncio.timeout", noted)
    return scopes


async def test_a_response_at_the_last_moment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the page was told that the login succeeded, the wait does not end with a time-out."""
    scopes = note_scopes(monkeypatch)

    def finish(fragment: str, query: str) -> str:
        scopes[0].reschedule(0)
        return fragment

    async with waiting(finish=finish, timeout=60) as there:
        reply = await there.hand_in()

        assert json.loads(reply.body)["good"] is True
        assert await there.task == RIGHT
