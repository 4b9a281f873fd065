"""A login: the browser that is opened, the lines that are shown, the result of each response."""

import logging
import socket
import traceback
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gateway_sdk.auth import LoopbackReceiver, Token, login
from gateway_sdk.auth._login import _first_token
from gateway_sdk.errors import (
    AuthorizationDeniedError,
    ConfigurationError,
    LoginError,
    LoginTimeoutError,
    MalformedResponseError,
    ReceiverUnavailableError,
)
from tests.auth.people import (
    DENIED,
    ELSEWHERE,
    FLOW,
    FOREIGN,
    GOOD,
    MALFORMED,
    TOKEN,
    Reader,
    Surfer,
    asked_in,
)
from tests.auth.traces import join_threads, no_traces


@pytest.fixture(autouse=True)
async def _no_traces(caplog: pytest.LogCaptureFixture) -> AsyncIterator[None]:
    async with no_traces(caplog):
        yield


def must_be_closed(url: str) -> None:
    """Require that no program listens at the redirect URI any more."""
    host, _, port = asked_in(url)[0].split("/")[2].partition(":")
    with socket.socket() as probe, pytest.raises(ConnectionRefusedError):
        probe.connect((host, int(port)))


async def test_a_browser_logs_in() -> None:
    """The token of the response is returned, with its lifetime from now on."""
    surfer, reader = Surfer(GOOD), Reader()

    token = await login(FLOW, browser=surfer, show=reader, clock=lambda: 1000.0)

    assert token.value.get_secret_value() == TOKEN
    assert (token.obtained_at, token.expires_at) == (1000, 4600)
    must_be_closed(surfer.went[0])


async def test_what_is_shown() -> None:
    """A user reads another URL than the browser gets, and never the state."""
    surfer, reader = Surfer(FOREIGN, GOOD), Reader()

    await login(FLOW, browser=surfer, show=reader)

    assert reader.texts == [
        "Log in at this address, if no browser opens by itself:",
        await reader.start_url(),
    ]
    assert not set(reader.texts) & {*surfer.opened, *surfer.went}


async def test_what_is_shown_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    """By default, the shown lines do not mix with the program's output."""
    surfer = Surfer(GOOD)

    await login(FLOW, browser=surfer)

    printed = capsys.readouterr()
    assert printed.out == ""
    place = surfer.opened[0].rpartition("/")[0]
    assert [line.rpartition("/")[0] for line in printed.err.splitlines()[1:]] == [place]


@pytest.mark.parametrize(
    ("answer", "error", "text"),
    [
        (DENIED, AuthorizationDeniedError, "the login was refused (access_denied)"),
        (MALFORMED, MalformedResponseError, "the token_type in the response is not Bearer"),
    ],
)
async def test_a_response_without_a_token_ends_the_login(
    answer: str, error: type[LoginError], text: str
) -> None:
    """A refusal or an invalid response with the login's state has its own error, without texts."""
    surfer, reader = Surfer(answer), Reader()

    with pytest.raises(error) as caught:
        await login(FLOW, browser=surfer, show=reader)

    assert str(caught.value) == text
    assert "CANARY" not in "".join(traceback.format_exception(caught.value))
    assert asked_in(surfer.went[0])[1] not in "".join(traceback.format_exception(caught.value))
    must_be_closed(surfer.went[0])


async def test_a_response_to_another_login_is_refused() -> None:
    """Responses with another state, no state or two are refused until the right one comes."""
    surfer = Surfer(
        FOREIGN, "", "error=access_denied", "state=STATE&state=STATE", "state=\ud800", GOOD
    )

    token = await login(FLOW, browser=surfer, show=Reader())

    join_threads()
    assert token.value.get_secret_value() == TOKEN
    assert surfer.statuses == [400, 400, 400, 400, 400, 200]


async def test_a_login_times_out() -> None:
    """The error says so."""
    reader = Reader()

    with pytest.raises(LoginTimeoutError, match=r"within 0\.01 s: no response came"):
        await login(FLOW, browser=False, show=reader, timeout=0.01)


async def test_a_port_in_use_is_an_error_before_anything_is_shown() -> None:
    """No user logs in if the response would go to another program."""
    reader = Reader()
    async with LoopbackReceiver() as other:
        with pytest.raises(ReceiverUnavailableError):
            await login(FLOW, redirect_uri=other.redirect_uri, browser=Surfer(), show=reader)

    assert reader.texts == []


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"redirect_uri": ELSEWHERE}, "redirect_uri is not http on this machine.* pass paste="),
        ({"redirect_uri": "callback"}, "redirect_uri must start with https://"),
        ({"timeout": 0}, "timeout must be more than 0 seconds"),
        ({"timeout": 0, "redirect_uri": ELSEWHERE}, "timeout must be more than 0 seconds"),
    ],
)
async def test_invalid_arguments_are_refused_at_once(options: dict[str, Any], problem: str) -> None:
    """An invalid argument is a ConfigurationError before a line is shown."""
    reader = Reader()

    with pytest.raises(ConfigurationError, match=problem):
        await login(FLOW, browser=Surfer(), show=reader, **options)

    assert reader.texts == []


async def test_nothing_secret_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Neither the token nor the state is in a log record of any level."""
    surfer, reader = Surfer(FOREIGN, GOOD), Reader()

    token = await login(FLOW, browser=surfer, show=reader)

    _, state = asked_in(surfer.went[0])
    assert logging.getLogger().level == logging.NOTSET
    assert any(record.name == "asyncio" for record in caplog.records)
    assert not any(secret in caplog.text for secret in (state, TOKEN, "CANARY"))
    assert "CANARY" not in repr(token)


@pytest.mark.parametrize("order", [1, -1])
async def test_a_token_counts_more_than_an_error(order: int) -> None:
    """If both ways end in the same turn of the event loop, the one with the token counts."""
    token = Token(TOKEN)

    async def works() -> Token:
        return token

    async def fails() -> Token:
        raise LoginError("nothing was pasted")

    ways = [works(), fails()][::order]
    assert await _first_token("https://gateway.test", lambda url: True, str, ways) is token
