"""All that a proxy does wrong, and what is said of a call that was to go over it."""

import asyncio
import traceback

import pytest

from gateway_sdk import (
    Advice,
    ConnectionFailedError,
    DeadlineExceededError,
    Outcome,
    ReplyLostError,
)
from tests.support.calls import CALLS
from tests.support.certificates import Authority
from tests.support.deadlines import pass_deadlines
from tests.support.proxies import ESTABLISHED, HOST, behind_a_proxy
from tests.support.truth import short


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"), "tests")


REFUSALS = {
    "403": b"HTTP/1.1 403 Forbidden\r\nContent-Length: 6\r\n\r\nnot me",
    "429": b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 99\r\nContent-Length: 0\r\n\r\n",
    "502": b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
    "503": b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n",
    "302": b"HTTP/1.1 302 Found\r\nLocation: https://login.test/\r\nContent-Length: 0\r\n\r\n",
    "hangs up in its head": b"HTTP/1.1 200 Conn",
    "garbage": b"\x15\x03\x01\x00\x02\x02F\r\n\r\n",
    "another protocol": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "hangs up behind its head": ESTABLISHED,
    "no TLS behind it": ESTABLISHED + b"HTTP/1.1 400 Bad Request\r\n\r\n",
}
WANTS_CREDENTIALS = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
async def test_a_tunnel_that_is_refused_means_that_nothing_was_sent(
    authority: Authority, answer: bytes
) -> None:
    """However a proxy refuses, even what must happen once is tried again, and reported unsent."""
    async with (
        behind_a_proxy(authority, *[answer] * 3) as place,
        place.session(verify=authority.path) as session,
    ):
        with pytest.raises(ConnectionFailedError) as caught:
            await CALLS["create_customer"](session)
        assert place.gateway.requests == []

        assert await CALLS["create_customer"](session) == {}  # the fourth time it works

    error = caught.value
    assert error.outcome is Outcome.NOT_SENT
    assert error.advice is not Advice.CHECK
    assert [(tried.outcome, tried.status) for tried in error.attempts] == [
        (Outcome.NOT_SENT, None)
    ] * 3
    assert f"no connection to {HOST}" in str(error)
    shown = "".join(traceback.format_exception(error))
    assert "pa:ss" not in shown
    assert "/create" not in shown  # of the address, nothing but the host


async def test_a_proxy_that_wants_credentials_is_not_asked_again(authority: Authority) -> None:
    """The error says what has to change, and that a queue need not come again."""
    async with (
        behind_a_proxy(authority, WANTS_CREDENTIALS) as place,
        place.session(verify=authority.path) as session,
    ):
        with pytest.raises(ConnectionFailedError) as caught:
            await CALLS["create_customer"](session)

    said = f"the proxy {place.address} answered 407: it wants a user name and a password"
    assert f"no connection to {HOST}:443: {said}" in str(caught.value)
    assert "pa:ss" not in "".join(traceback.format_exception(caught.value))
    assert len(caught.value.attempts) == 1
    assert caught.value.advice is not Advice.CHECK
    assert caught.value.advice is not Advice.REPEAT


async def test_a_status_that_a_proxy_refuses_with_is_said(authority: Authority) -> None:
    """It is the number alone, for the words are the proxy's."""
    async with (
        behind_a_proxy(authority, REFUSALS["403"]) as place,
        place.session(verify=authority.path, retry=None) as session,
    ):
        with pytest.raises(ConnectionFailedError) as caught:
            await CALLS["create_customer"](session)

    assert caught.value.reason == "refused a tunnel: it answered 403"
    assert f"{HOST}:443: the proxy {place.address} refused a tunnel" in str(caught.value)
    assert caught.value.advice is Advice.REPEAT


async def test_an_interim_reply_of_a_proxy_is_passed_over(authority: Authority) -> None:
    """The one behind it is the answer."""
    answer = b"HTTP/1.1 103 Early Hints\r\n\r\n" + REFUSALS["403"]
    async with (
        behind_a_proxy(authority, answer) as place,
        place.session(verify=authority.path, retry=None) as session,
    ):
        with pytest.raises(ConnectionFailedError) as caught:
            await CALLS["create_customer"](session)

    assert caught.value.reason == "refused a tunnel: it answered 403"


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
async def test_a_call_survives_a_tunnel_that_fails_once(
    authority: Authority, answer: bytes
) -> None:
    """A customer is created once, by the second attempt."""
    async with (
        behind_a_proxy(authority, answer) as place,
        place.session(verify=authority.path) as session,
    ):
        assert await CALLS["create_customer"](session) == {}

    assert len(place.gateway.requests) == 1
    assert len(place.proxy.heads) == 2


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
        assert "0 of 50 taken" in repr(session._caller.client._transport)


async def test_a_tunnel_that_breaks_behind_the_request(authority: Authority) -> None:
    """What was sent through a tunnel and not answered is unknown, and not sent again."""
    async with (
        behind_a_proxy(authority) as place,
        place.session(verify=authority.path) as session,
    ):
        place.gateway.hangs_up = True
        with pytest.raises(ReplyLostError) as caught:
            await CALLS["create_customer"](session)

    assert caught.value.outcome is Outcome.UNKNOWN
    assert len(place.gateway.requests) == 1
