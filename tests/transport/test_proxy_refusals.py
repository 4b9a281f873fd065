"""All that a proxy does wrong, and what is said of a call that was to go over it."""

import asyncio
import traceback

import pytest

from gateway_sdk import (
    Advice,
    ConnectionFailedError,
    DeadlineExceededError,
    Outcome,
)
from tests.support.calls import CALLS
from tests.support.certificates import Authority
from tests.support.deadlines import pass_deadlines
from tests.support.proxies import ESTABLISHED, HOST, behind_a_proxy
from tests.support.truth import short

MADE_NONE = "made no tunnel"
WANTS = "answered 407: it wants a user name and a password"


def answered(status: int, more: bytes = b"") -> tuple[bytes, str]:
    """Return a refusal, and its reason: the number alone, for the words are the proxy's."""
    refusal = b"HTTP/1.1 %d -\r\nContent-Length: 6\r\n%b\r\nnot me" % (status, more)
    return refusal, f"refused a tunnel: it answered {status}"


REFUSALS: dict[str, tuple[bytes, str]] = {
    "403": answered(403),
    "429": answered(429, b"Retry-After: 99\r\n"),
    "503": answered(503),
    "302": answered(302, b"Location: https://login.test/\r\n"),
    "403 behind a 103": (b"HTTP/1.1 103 -\r\n\r\n" + answered(403)[0], answered(403)[1]),
    "407": (b"HTTP/1.1 407 -\r\nContent-Length: 0\r\n\r\n", WANTS),
    "hangs up in its head": (b"HTTP/1.1 200 Conn", MADE_NONE),
    "garbage": (b"\x15\x03\x01\x00\x02\x02F\r\n\r\n", MADE_NONE),
    "another protocol": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", MADE_NONE),
    "hangs up behind its head": (
        ESTABLISHED,
        "the connection broke off before anything was sent",
    ),
    "no TLS behind it": (ESTABLISHED + b"HTTP/1.1 400 Bad Request\r\n\r\n", MADE_NONE),
}


@pytest.mark.parametrize(("answer", "reason"), REFUSALS.values(), ids=REFUSALS)
async def test_a_tunnel_that_is_refused_means_that_nothing_was_sent(
    authority: Authority, answer: bytes, reason: str
) -> None:
    """However a proxy refuses, even what must happen once is tried again, and reported unsent.

    Unless it wants credentials, which do not come by themselves.
    """
    async with (
        behind_a_proxy(authority, *[answer] * (1 if reason == WANTS else 3)) as place,
        place.session(verify=authority.path) as session,
    ):
        with pytest.raises(ConnectionFailedError) as caught:
            await CALLS["create_customer"](session)
        assert place.gateway.requests == []
        tunnels = len(place.proxy.heads)

        assert await CALLS["create_customer"](session) == {}  # the next time it works

    error = caught.value
    assert error.outcome is Outcome.NOT_SENT
    assert error.advice is (Advice.FIX if reason == WANTS else Advice.REPEAT)
    attempts = [(tried.outcome, tried.status) for tried in error.attempts]
    assert attempts == [(Outcome.NOT_SENT, None)] * (1 if reason == WANTS else 3)
    assert tunnels == len(attempts)
    assert error.reason == reason
    named = reason if reason.startswith("the ") else f"the proxy {place.address} {reason}"
    assert f"no connection to {HOST}:443: {named} (" in str(error)
    shown = "".join(traceback.format_exception(error))
    assert "pa:ss" not in shown
    assert "/create" not in shown  # of the address, nothing but the host


async def test_a_proxy_that_is_not_there(authority: Authority) -> None:
    """A proxy that nobody listens at is no connection."""
    async with behind_a_proxy(authority) as place:
        pass
    async with place.session(verify=authority.path) as session:
        with pytest.raises(ConnectionFailedError) as caught:
            await CALLS["create_customer"](session)

    assert caught.value.outcome is Outcome.NOT_SENT
    assert len(caught.value.attempts) == 3
    assert f"no connection to the proxy {place.address}: connection refused" in str(caught.value)


async def test_a_proxy_that_is_silent_for_too_long(authority: Authority) -> None:
    """The time-out of a request for a tunnel is the one for connecting."""
    async with (
        behind_a_proxy(authority, b"") as place,
        place.session(
            verify=authority.path,
            retry=None,
            timeout=short(connect=0.05),
        ) as session,
    ):
        with pytest.raises(ConnectionFailedError) as caught:
            await CALLS["create_customer"](session)

    assert caught.value.outcome is Outcome.NOT_SENT


@pytest.mark.parametrize("way", ["deadline", "cancel"])
async def test_a_call_that_is_cut_off_in_its_tunnel_was_not_sent(
    authority: Authority, way: str
) -> None:
    """To ask a proxy for a tunnel is not to send a call."""
    async with (
        behind_a_proxy(authority, b"") as place,
        place.session(verify=authority.path) as session,
    ):
        call = asyncio.create_task(CALLS["create_customer"](session))
        await place.proxy.asked.wait()
        if way == "deadline":
            pass_deadlines(session)
            with pytest.raises(DeadlineExceededError) as caught:
                await call
            assert caught.value.outcome is Outcome.NOT_SENT
            assert [tried.outcome for tried in caught.value.attempts] == [Outcome.NOT_SENT]
        else:
            call.cancel()
            await asyncio.wait([call])
            assert call.cancelled()
        assert "0 of 50 slots taken" in repr(session._caller.shared._transport)
