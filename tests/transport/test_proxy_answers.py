"""What a proxy refuses, does wrong or answers itself, and what is said of a call over it."""

import asyncio
import traceback
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest

from gateway_sdk import (
    Advice,
    ConnectionFailedError,
    DeadlineExceededError,
    GatewayError,
    Outcome,
    StatusError,
    UnauthorizedError,
)
from gateway_sdk._call import call as call_module
from gateway_sdk._http.reply import BodyReader
from tests.support.calls import CALLS, Renewing, pass_deadlines
from tests.support.certificates import Authority
from tests.support.proxies import ESTABLISHED, HOST, Gateway, Place, Proxy, behind_a_proxy
from tests.support.raw_server import read_request, serving
from tests.support.truth import WRITES_AND_READS, short

MADE_NONE = "made no tunnel"
WANTS = "answered 407: it wants a user name and a password"
FORBIDS = "answered 403: its rules forbid the tunnel"
PERMANENT = (WANTS, FORBIDS)


def answered(status: int, more: bytes = b"") -> tuple[bytes, str]:
    """Return a refusal, and its reason: the number alone, for the words are the proxy's."""
    refusal = b"HTTP/1.1 %d -\r\nContent-Length: 6\r\n%b\r\nnot me" % (status, more)
    return refusal, f"refused a tunnel: it answered {status}"


REFUSALS: dict[str, tuple[bytes, str]] = {
    "403": (answered(403)[0], FORBIDS),
    "429": answered(429, b"Retry-After: 99\r\n"),
    "503": answered(503),
    "302": answered(302, b"Location: https://login.test/\r\n"),
    "403 behind a 103": (b"HTTP/1.1 103 -\r\n\r\n" + answered(403)[0], FORBIDS),
    "407": (b"HTTP/1.1 407 -\r\nContent-Length: 0\r\n\r\n", WANTS),
    "hangs up in its head": (b"HTTP/1.1 200 Conn", MADE_NONE),
    "garbage": (b"\x15\x03\x01\x00\x02\x02F\r\n\r\n", MADE_NONE),
    "another protocol": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", MADE_NONE),
    "hangs up behind its head": (ESTABLISHED, "the connection broke off before anything was sent"),
    "no TLS behind it": (ESTABLISHED + b"HTTP/1.1 400 Bad Request\r\n\r\n", MADE_NONE),
}


@pytest.mark.parametrize(("answer", "reason"), REFUSALS.values(), ids=REFUSALS)
async def test_a_tunnel_that_is_refused_means_that_nothing_was_sent(
    authority: Authority, answer: bytes, reason: str
) -> None:
    """However a proxy refuses, even what must happen once is tried again, and reported unsent.

    Unless it wants credentials, which do not come by themselves, or has rules against it.
    """
    async with (
        behind_a_proxy(authority, *[answer] * (1 if reason in PERMANENT else 3)) as place,
        place.session(verify=authority.path) as session,
    ):
        with pytest.raises(ConnectionFailedError) as caught:
            await CALLS["create_customer"](session)
        assert place.gateway.requests == []
        tunnels = len(place.proxy.heads)

        assert await CALLS["create_customer"](session) == {}  # the next time it works

    error = caught.value
    assert error.outcome is Outcome.NOT_SENT
    assert error.advice is (Advice.FIX if reason in PERMANENT else Advice.REPEAT)
    attempts = [(tried.outcome, tried.status) for tried in error.attempts]
    assert attempts == [(Outcome.NOT_SENT, None)] * (1 if reason in PERMANENT else 3)
    assert tunnels == len(attempts)
    assert error.reason == reason
    named = reason if reason.startswith("the ") else f"the proxy {place.address} {reason}"
    way_out = " (" if reason.startswith("the ") else "; proxy= or "
    assert f"no connection to {HOST}:443: {named}{way_out}" in str(error)
    shown = "".join(traceback.format_exception(error))
    assert "pa:ss" not in shown
    assert "/create" not in shown  # of the address, nothing but the host


async def test_a_proxy_that_is_not_there(authority: Authority) -> None:
    async with behind_a_proxy(authority) as place:
        pass
    async with place.session(verify=authority.path) as session:
        with pytest.raises(ConnectionFailedError) as caught:
            await CALLS["create_customer"](session)

    assert caught.value.outcome is Outcome.NOT_SENT
    assert len(caught.value.attempts) == 3
    assert f"no connection to the proxy {place.address}: connection refused" in str(caught.value)


@pytest.mark.parametrize("way", ["time-out", "deadline", "cancel"])
async def test_a_call_that_is_cut_off_in_its_tunnel_was_not_sent(
    authority: Authority, way: str
) -> None:
    """To ask a proxy for a tunnel is not to send a call; its time-out is the one for connecting."""
    times = short(connect=0.05 if way == "time-out" else 30)
    async with (
        behind_a_proxy(authority, b"") as place,
        place.session(verify=authority.path, retry=None, timeout=times) as session,
    ):
        call = asyncio.create_task(CALLS["create_customer"](session))
        if way != "time-out":  # on a busy machine it may come before the proxy is asked
            await place.proxy.asked.wait()
        if way == "deadline":
            pass_deadlines(session)
        elif way == "cancel":
            call.cancel()
        await asyncio.wait([call])
        assert call.cancelled() == (way == "cancel")
        assert "0 of 50 slots taken" in repr(session._caller.shared._transport)

    if not call.cancelled():
        error: Any = call.exception()
        kind = DeadlineExceededError if way == "deadline" else ConnectionFailedError
        assert type(error) is kind
        assert error.outcome is Outcome.NOT_SENT
        assert [tried.outcome for tried in error.attempts] == [Outcome.NOT_SENT]
        late = f"the proxy {place.address}: timed out after 0.05 s while connecting"
        assert (late in str(error)) == (way == "time-out")


# --- over plain HTTP the proxy reads every request, and can answer it ---------------------

_, REFUSED, UNKNOWN, _ = Outcome

PAGE = b"<html>ERR_TOO_BIG</html>"
PAYLOAD = b'{"status": 403, "message": "not yours"}'


def answer(status: int, body: bytes = PAGE, more: bytes = b"") -> bytes:
    head = b"HTTP/1.1 %d -\r\nContent-Length: %d\r\n" % (status, len(body))
    return head + more + b"\r\n" + body


def plain(place: Place, **options: Any) -> Any:
    given = {"base_url": f"http://{HOST}", "allow_insecure_http": True, **options}
    return place.session(**given)


@pytest.mark.parametrize("operation", WRITES_AND_READS)
@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (answer(403), UNKNOWN),
        (answer(403, b""), UNKNOWN),
        (answer(404), UNKNOWN),
        (answer(413, b'"no object"'), UNKNOWN),
        (answer(401), UNKNOWN),
        (answer(501), UNKNOWN),
        (answer(403, PAYLOAD), REFUSED),
        (answer(404, b"{}"), REFUSED),
        (answer(501, b"{}"), REFUSED),
        (answer(407), REFUSED),
        (answer(403, PAYLOAD)[:-1], UNKNOWN),
    ],
    ids=lambda value: value[9:12].decode() if isinstance(value, bytes) else value.name,
)
async def test_what_may_be_the_proxys_proves_nothing(
    reply: bytes, outcome: Outcome, operation: str
) -> None:
    """A refusal that is no JSON object may be the proxy's, after the gateway did it all."""
    async with behind_a_proxy(None, reply) as place, plain(place) as session:
        with pytest.raises(StatusError) as caught:
            await CALLS[operation](session)

    error = caught.value
    assert error.outcome is outcome
    assert [attempt.outcome for attempt in error.attempts] == [outcome]
    assert (error.advice is not Advice.CHECK) is (
        outcome is REFUSED or operation != "create_customer"
    )
    assert error.advice is not Advice.REPEAT
    assert ("proxy" in str(error)) == (error.payload is None)
    assert ("wants a user name and a password" in str(error)) == (error.status == 407)


@pytest.mark.parametrize(
    ("reply", "again", "renewed"),
    [
        (answer(429, b"", b"Retry-After: 0\r\n"), True, 0),
        (answer(401), False, 0),
        (answer(401, b"{}"), True, 1),
    ],
    ids=["429", "the proxy's 401", "the gateway's 401"],
)
async def test_what_was_not_done_is_sent_a_second_time(
    reply: bytes, again: bool, renewed: int
) -> None:
    """Too many requests means that, whoever says it; a 401 must be the gateway's."""
    source = Renewing()
    async with (
        behind_a_proxy(None, reply) as place,
        plain(place, access_token=source) as session,
    ):
        with nullcontext() if again else pytest.raises(UnauthorizedError):
            assert await CALLS["create_customer"](session) == {}

    assert (source.rejected, len(place.proxy.heads)) == (renewed, again + 1)


async def test_a_deadline_before_the_body_came_proves_nothing_either(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whose 404 it was would have stood in the body."""
    reading = asyncio.Event()

    class Noting(BodyReader):
        def feed(self, chunk: bytes) -> Iterator[None]:
            reading.set()
            return super().feed(chunk)

    async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(answer(404, b"{}")[:-1])
        await reader.read()

    monkeypatch.setattr(call_module, "BodyReader", Noting)
    async with serving(half) as port:
        place = Place(Gateway(), Proxy(port), f"127.0.0.1:{port}")
        async with plain(place) as session:
            call = asyncio.create_task(CALLS["create_customer"](session))
            await reading.wait()
            pass_deadlines(session)
            with pytest.raises(DeadlineExceededError) as caught:
                await call

    assert caught.value.outcome is UNKNOWN
    assert [attempt.status for attempt in caught.value.attempts] == [404]


async def test_inside_of_a_tunnel_nothing_changes(authority: Authority) -> None:
    """There the proxy sees no request, so that a 404 is the gateway's, whatever its body."""
    async with behind_a_proxy(authority) as place:
        place.gateway.answer = answer(404)
        async with place.session(verify=authority.path) as session:
            with pytest.raises(GatewayError, match="the gateway answered 404") as caught:
                await CALLS["create_customer"](session)

    assert place.proxy.heads[0].startswith(b"CONNECT ")
    assert caught.value.outcome is REFUSED
