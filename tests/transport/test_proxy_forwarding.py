"""Replies that may be a proxy's own: over plain HTTP it reads every request, and can answer it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from gateway_sdk import (
    Advice,
    DeadlineExceededError,
    GatewayError,
    Outcome,
    StatusError,
    UnauthorizedError,
)
from gateway_sdk._call import call as call_module
from gateway_sdk._http.reply import BodyReader
from tests.support.calls import CALLS
from tests.support.certificates import Authority
from tests.support.deadlines import pass_deadlines
from tests.support.proxies import HOST, Gateway, Place, Proxy, behind_a_proxy, serving
from tests.support.raw_server import read_request
from tests.support.truth import WRITES_AND_READS

_, REFUSED, UNKNOWN, _ = Outcome

PAGE = b"<html>ERR_TOO_BIG</html>"
PAYLOAD = b'{"status": 403, "message": "not yours"}'


def answer(status: int, body: bytes = PAGE, more: bytes = b"") -> bytes:
    head = b"HTTP/1.1 %d -\r\nContent-Length: %d\r\n" % (status, len(body))
    return head + more + b"\r\n" + body


def plain(place: Place, **options: Any) -> Any:
    """Make a session with a gateway that is spoken to in clear."""
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


async def test_a_429_is_tried_again_whoever_sent_it() -> None:
    """Too many requests means that this one was not done."""
    async with (
        behind_a_proxy(None, answer(429, b"", b"Retry-After: 0\r\n")) as place,
        plain(place) as session,
    ):
        assert await CALLS["create_customer"](session) == {}

    assert len(place.gateway.requests) == 1


class Renewing:
    """A source that has any number of tokens."""

    rejected = 0

    async def token(self, rejected: object = None) -> str:
        self.rejected += rejected is not None
        return f"token-{self.rejected}"


@pytest.mark.parametrize(("body", "renewed"), [(PAGE, 0), (b"{}", 1)])
async def test_only_the_gateways_401_is_followed_by_another_token(
    body: bytes, renewed: int
) -> None:
    """What may have been done is not sent a second time with a new token."""
    source = Renewing()
    async with (
        behind_a_proxy(None, answer(401, body)) as place,
        plain(place, access_token=source) as session,
    ):
        if renewed:
            assert await CALLS["create_customer"](session) == {}
        else:
            with pytest.raises(UnauthorizedError):
                await CALLS["create_customer"](session)

    assert (source.rejected, len(place.proxy.heads)) == (renewed, renewed + 1)


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
