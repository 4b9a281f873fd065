"""The engine inside the user's own client: hooks run, and the session knows what was sent."""

import asyncio
import os
import pickle
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any, Final

import httpx
import pytest

from gateway_sdk import (
    Advice,
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    GatewayError,
    GatewaySession,
    GatewayTransport,
    NotFoundError,
    Outcome,
    RateLimit,
    RateLimitedError,
    ReplyLostError,
    RetryPolicy,
    ServerError,
    SessionStateError,
    UploadFailedError,
)
from tests.support.calls import CALLS
from tests.support.ports import free_port
from tests.support.raw_server import OK, Server, raw_server, read_request

AT_ONCE: Final = RetryPolicy(backoff=0.0, connect_wait=0.0)
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


TOO_MANY: Final = OK.replace(b"200", b"429")


async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.close()


def session(url: str, client: httpx.AsyncClient, **options: Any) -> GatewaySession:
    given = {"access_token": "t", "tenant_id": "acme", "retry": AT_ONCE, **options}
    return GatewaySession(url, http_client=client, **given)


@pytest.mark.parametrize("limited", [False, True])
async def test_hooks_run_and_a_refused_connection_was_not_sent(limited: bool) -> None:
    """A write is tried three times, because each time it is proven that nothing left."""
    seen: list[str] = []

    async def hook(request: httpx.Request) -> None:
        seen.append(request.url.path)

    options = {"rate_limit": RateLimit(100)} if limited else {}
    async with httpx.AsyncClient(
        transport=GatewayTransport(), event_hooks={"request": [hook]}
    ) as client:
        gateway = session(f"http://127.0.0.1:{free_port()}", client, **options)
        with pytest.raises(ConnectionFailedError, match="connection refused") as caught:
            await CALLS["create_customer"](gateway)

    assert caught.value.outcome is Outcome.NOT_SENT
    assert len(caught.value.attempts) == len(seen) == 3


async def test_a_header_of_a_hook_that_cannot_be_sent_was_not_sent() -> None:
    """It is not tried again, as the next request would have it too."""
    server = Server()

    async def hook(request: httpx.Request) -> None:
        request.headers["X-Id"] = "CANARY\n"

    transport, hooks = GatewayTransport(), {"request": [hook]}
    async with (
        raw_server(server.handle) as url,
        httpx.AsyncClient(transport=transport, event_hooks=hooks) as client,
    ):
        with pytest.raises(ConnectionFailedError, match="holds a line break") as caught:
            await CALLS["create_customer"](session(url, client))

    assert (caught.value.outcome, caught.value.advice) == (Outcome.NOT_SENT, Advice.FIX)
    assert (len(caught.value.attempts), server.requests) == (1, [])
    # tblib, of Dask, pickles the cause too, on which the client has put its request.
    assert b"CANARY" not in pickle.dumps((caught.value, caught.value.__cause__))


async def test_replies_come_as_they_do_without_a_client() -> None:
    transport, server = GatewayTransport(), Server()
    async with raw_server(server.handle) as url, httpx.AsyncClient(transport=transport) as client:
        gateway = session(url, client)
        for _ in range(3):
            assert await gateway.wallet.order_history(1, 1) == {}
        assert (await client.get(url)).json() == {}
        assert "1 idle" in repr(transport)

    assert len(server.received) == 1
    assert "idle" not in repr(transport)


async def test_the_reply_to_head_has_no_body() -> None:
    server = Server(OK.removesuffix(b"{}"))
    client = httpx.AsyncClient(transport=GatewayTransport(), timeout=5)
    async with raw_server(server.handle) as url, client:
        for _ in range(2):
            assert (await client.head(url)).headers["Content-Length"] == "2"

    assert len(server.received) == 1


async def test_each_origin_has_its_own_connections() -> None:
    servers = Server(), Server()
    async with (
        raw_server(servers[0].handle) as one,
        raw_server(servers[1].handle) as other,
        httpx.AsyncClient(transport=GatewayTransport()) as client,
    ):
        for url in (one, other, one):
            await client.get(url)

    assert [[len(requests) for requests in server.received] for server in servers] == [[2], [1]]


@pytest.mark.parametrize("error", [DeadlineExceededError, UploadFailedError])
async def test_content_that_ends_the_call_before_the_first_byte(error: type[GatewayError]) -> None:
    """Neither its cancellation nor its own error leaves a doubt that nothing was sent."""

    async def content() -> AsyncIterator[bytes]:
        if error is UploadFailedError:
            raise OSError("gone")
        await asyncio.Event().wait()
        yield b""

    async with (
        raw_server(Server().handle) as url,
        httpx.AsyncClient(transport=GatewayTransport()) as client,
    ):
        with pytest.raises(error) as caught:
            await session(url, client, deadline=0.05).aml.upload_document(content())

    assert caught.value.outcome is Outcome.NOT_SENT


@pytest.mark.parametrize("change", ["closed before", "another event loop", "parent process"])
async def test_its_connections_belong_to_one_event_loop(
    monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """In another one, or after a fork, nothing is sent on them; once closed, it begins anew."""
    transport, server = GatewayTransport(), Server()

    async def use() -> None:
        gateway = session(url, httpx.AsyncClient(transport=transport))
        if change == "closed before":
            await CALLS["create_customer"](gateway)
            await transport.aclose()
            return
        with pytest.raises(SessionStateError, match=change) as caught:
            await CALLS["create_customer"](gateway)
        assert (caught.value.outcome, len(caught.value.attempts)) == (Outcome.NOT_SENT, 1)
        with pytest.raises(SessionStateError, match=change):
            await transport.aclose()

    async with raw_server(server.handle) as url:
        await CALLS["create_customer"](session(url, httpx.AsyncClient(transport=transport)))
        if change == "closed before":
            await transport.aclose()
        if change == "parent process":
            with monkeypatch.context() as patch:
                patch.setattr(os, "getpid", lambda: -1)
                await use()
        else:
            await asyncio.to_thread(asyncio.run, use())
        await transport.aclose()

    assert len(server.requests) == 1 + (change == "closed before")


@pytest.mark.parametrize(
    ("status", "error", "outcome", "attempts"),
    [
        (200, ReplyLostError, Outcome.APPLIED, 1),
        (404, NotFoundError, Outcome.REFUSED, 1),
        (429, RateLimitedError, Outcome.REFUSED, 3),
        (503, ServerError, Outcome.UNKNOWN, 1),
    ],
)
@pytest.mark.parametrize("failure", [httpx.ConnectError("x"), httpx.HTTPError("x"), TimeoutError()])
async def test_a_hook_that_fails_after_the_reply_has_come(
    failure: Exception, status: int, error: type[GatewayError], outcome: Outcome, attempts: int
) -> None:
    """What it calls may be away; the status that the gateway answered still counts."""
    server = Server(OK.replace(b"200", b"%d" % status))

    async def report(_: httpx.Response) -> None:
        raise failure

    async with (
        raw_server(server.handle) as url,
        httpx.AsyncClient(
            transport=GatewayTransport(), event_hooks={"response": [report]}
        ) as client,
    ):
        with pytest.raises(error) as caught:
            await CALLS["create_customer"](session(url, client))

    assert (caught.value.outcome, len(server.requests)) == (outcome, attempts)


# --- what must stay unknown -----------------------------------------------------------------


class Repeating(httpx.AsyncBaseTransport):
    """A transport of the user's around ours, which tries again by itself."""

    def __init__(self, *ways: httpx.AsyncBaseTransport) -> None:
        self._ways = ways

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        *others, last = self._ways
        for way in others:
            try:
                return await way.handle_async_request(request)
            except httpx.TransportError:
                pass
        return await last.handle_async_request(request)


def failing(error: Exception) -> httpx.MockTransport:
    def fail(_: httpx.Request) -> httpx.Response:
        raise error

    return httpx.MockTransport(fail)


LOST: Final = failing(httpx.ReadError("lost"))
REFUSED: Final = failing(httpx.ConnectError("refused"))


@pytest.mark.parametrize(
    "ways",
    [
        lambda ours: (ours, ours),
        lambda ours: (LOST, ours),
        lambda ours: (ours, LOST),
        lambda ours: (ours, REFUSED),
    ],
    ids=["ours twice", "another first", "another that loses it", "another that is refused"],
)
@pytest.mark.parametrize("handler", [hang_up, None], ids=["lost", "refused"])
async def test_a_transport_around_ours_proves_nothing(
    ways: Callable[[GatewayTransport], tuple[httpx.AsyncBaseTransport, ...]],
    handler: Handler | None,
) -> None:
    """It may have sent the request in another way before, or after."""
    async with raw_server(handler or hang_up) as url:
        address = url if handler else f"http://127.0.0.1:{free_port()}"
        transport = Repeating(*ways(GatewayTransport()))
        async with httpx.AsyncClient(transport=transport) as client:
            with pytest.raises(GatewayError) as caught:
                await CALLS["create_customer"](session(address, client))

    assert caught.value.outcome is Outcome.UNKNOWN
    assert len(caught.value.attempts) == 1


@pytest.mark.parametrize(
    "ways", ["lost, refused", "refused, refused", "refused, lost", "answered, lost"]
)
@pytest.mark.parametrize("raised", [0, -1], ids=["the first error", "the last error"])
@pytest.mark.parametrize(
    "place",
    ["a subclass", "a subclass, a new request", "an instance, a new request", "the library"],
)
async def test_a_client_that_sends_twice(
    monkeypatch: pytest.MonkeyPatch, place: str, raised: int, ways: str
) -> None:
    """Inside of one attempt, neither sending says anything about the other."""
    send, failures = httpx.AsyncClient.send, list[Exception]()

    async def twice(self: Any, request: httpx.Request, **options: Any) -> httpx.Response:
        for turn, url in enumerate(urls):
            if turn and "new" in place:
                request = httpx.Request("POST", url)
            request.url = httpx.URL(url)
            try:
                await (await send(self, request, **options)).aclose()
            except httpx.TransportError as error:
                failures.append(error)
        raise failures[raised]

    kind = type("Twice", (httpx.AsyncClient,), {"send": twice} if "subclass" in place else {})
    if place == "the library":
        monkeypatch.setattr(httpx.AsyncClient, "send", twice)
    async with (
        raw_server(hang_up) as lost,
        raw_server(Server(TOO_MANY).handle) as answered,
        kind(transport=GatewayTransport()) as client,
    ):
        if "instance" in place:
            client.send = partial(twice, client)
        by_way = {"lost": lost, "answered": answered, "refused": f"http://127.0.0.1:{free_port()}"}
        urls = [by_way[way] for way in ways.split(", ")]
        with pytest.raises(GatewayError) as caught:
            await CALLS["create_customer"](session(urls[0], client))

    assert len(failures) == 2 - ("answered" in ways)
    assert caught.value.outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("name", "value"), [("max_connections", 0), ("verify", False), ("proxy", "ftp://x")]
)
def test_its_settings_are_checked_when_it_is_made(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name} "):
        GatewayTransport(**{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["wss://localhost/x", "ftp://localhost:80/x", "https+unix://a/x"])
async def test_another_scheme_is_refused(url: str) -> None:
    """Else the request would leave in clear, to the port of http."""
    async with httpx.AsyncClient(transport=GatewayTransport()) as client:
        with pytest.raises(httpx.UnsupportedProtocol):
            await client.get(url)
