"""Transports and clients of the user: those of httpx, and of httpx2 under its own name."""

import gzip
import importlib
import importlib.util
import sys
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from gateway_sdk import (
    Advice,
    ConfigurationError,
    ConflictError,
    ConnectionFailedError,
    GatewayError,
    GatewaySession,
    GatewayTransport,
    NotFoundError,
    Outcome,
    RateLimit,
    RedirectError,
    ReplyLostError,
    RetryPolicy,
    SessionStateError,
)
from tests.support.calls import CALLS, Renewing
from tests.support.raw_server import Server, raw_server

BASE_URL = "https://gateway.test"


# The real one is there in the nox session beside_httpx2.
LIBRARIES = [*filter(importlib.util.find_spec, ["httpx", "httpx2"]), "a copy of httpx"]


@pytest.fixture(params=LIBRARIES)
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Provide httpx, httpx2 where it is installed, and something like it everywhere."""
    if request.param != LIBRARIES[-1]:
        yield importlib.import_module(request.param)
        return
    spec = importlib.util.spec_from_file_location(
        "httpx2", httpx.__file__, submodule_search_locations=list(httpx.__path__)
    )
    assert spec is not None
    assert spec.loader is not None
    for name in [name for name in sys.modules if name.partition(".")[0] == "httpx2"]:
        monkeypatch.delitem(sys.modules, name)
    copy = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "httpx2", copy)
    spec.loader.exec_module(copy)
    yield copy
    for name in [name for name in sys.modules if name.startswith("httpx2.")]:
        del sys.modules[name]  # not by monkeypatch, which would put it back at its end


def session(base_url: str = BASE_URL, **settings: Any) -> GatewaySession:
    given = {"access_token": "token-1", "tenant_id": "acme", "retry": None, **settings}
    return GatewaySession(base_url, **given)


def answering(library: Any, seen: list[Any], **reply: Any) -> Any:
    async def answer(request: Any) -> Any:
        await request.aread()
        seen.append(request)
        return library.Response(**{"status_code": 200, "json": [1], **reply})

    return library.MockTransport(answer)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("way", ["transport", "http_client"])
async def test_every_operation_goes_through_it(library: Any, name: str, way: str) -> None:
    seen: list[Any] = []
    theirs, ours = answering(library, seen, json=[]), answering(httpx, seen, json=[])
    if way == "http_client":
        theirs = library.AsyncClient(transport=theirs)

    value = await CALLS[name](session(**{way: theirs}))
    assert value == await CALLS[name](session(transport=ours))

    one, other = seen
    assert (one.method, str(one.url), one.content) == (other.method, str(other.url), other.content)
    assert one.headers.raw == other.headers.raw


async def test_a_client_that_its_owner_closes_between_two_attempts(library: Any) -> None:
    client = library.AsyncClient(transport=answering(library, [], status_code=503))

    async def close(_: float) -> None:
        await client.aclose()

    gateway = session(http_client=client, sleep=close, retry=RetryPolicy())
    with pytest.raises(SessionStateError, match="closed by its owner") as caught:
        await CALLS["cancel_order"](gateway)

    assert [attempt.outcome.name for attempt in caught.value.attempts] == ["UNKNOWN", "NOT_SENT"]


async def test_a_stream_is_sent_piece_by_piece(library: Any) -> None:
    seen: list[Any] = []

    async def content() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    gateway = session(transport=answering(library, seen))
    assert await gateway.aml.upload_document(content(), content_type="text/plain") == [1]

    assert seen[0].content == b"onetwo"
    assert seen[0].headers["transfer-encoding"] == "chunked"
    assert "content-length" not in seen[0].headers


@pytest.mark.parametrize(
    "name",
    ["ConnectError", "ReadTimeout", "PoolTimeout", "TooManyRedirects", "InvalidURL", "OSError"],
)
@pytest.mark.parametrize("limit", [None, RateLimit(9)])
async def test_its_failures_are_failures(library: Any, limit: RateLimit | None, name: str) -> None:
    """Only the transport knows what left: the outcome is unknown, and nothing is repeated."""

    class Own(getattr(library, name, OSError)):  # type: ignore[misc] # as users derive theirs
        pass

    def fail(_: Any) -> Any:
        raise Own("CANARY")

    given = {"transport": library.MockTransport(fail), "rate_limit": limit, "retry": RetryPolicy()}
    with pytest.raises(ReplyLostError) as caught:
        await CALLS["create_customer"](session(**given))

    assert not isinstance(caught.value, ConnectionFailedError)
    assert caught.value.outcome is Outcome.UNKNOWN
    assert len(caught.value.attempts) == 1
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize(
    ("status", "kind", "outcome"),
    [(200, ReplyLostError, Outcome.APPLIED), (404, NotFoundError, Outcome.REFUSED)],
)
@pytest.mark.parametrize("name", ["ReadError", "ConnectionResetError"])
async def test_a_reply_that_is_cut(
    library: Any, name: str, status: int, kind: type[GatewayError], outcome: Outcome
) -> None:
    """A failure within a body is one of the reply, whose head has come."""
    error = getattr(library, name, ConnectionResetError)

    class Cut(library.AsyncByteStream):  # type: ignore[misc] # of a library that is given
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b"["
            raise error("CANARY")

    transport = answering(library, [], json=None, stream=Cut(), status_code=status)
    with pytest.raises(kind) as caught:
        await CALLS["create_customer"](session(transport=transport))

    assert caught.value.outcome is outcome


@pytest.mark.parametrize("reads", [True, False])
async def test_a_hook_that_raises_for_status(library: Any, reads: bool) -> None:
    """What a hook of its client has read before it raised is the body of our error, or nothing."""

    class Body(library.AsyncByteStream):  # type: ignore[misc] # of a library that is given
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield b'{"message": "taken"}'

    async def check(response: Any) -> None:
        if reads:
            await response.aread()
        response.raise_for_status()

    async with library.AsyncClient(
        transport=answering(library, [], status_code=409, json=None, stream=Body()),
        event_hooks={"response": [check]},
    ) as client:
        with pytest.raises(ConflictError) as caught:
            await session(http_client=client).wallet.cancel_order("w", "o")

    payload = caught.value.payload
    assert (payload and payload.message) == ("taken" if reads else None)


@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_a_transport_that_reads_the_reply(library: Any, encoding: str) -> None:
    """What it has read is the reply; its stream has ended, and is not read a second time."""
    body = gzip.compress(b"{}") if encoding else b"{}"
    head = f"HTTP/1.1 200 -\r\nContent-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n"

    class Reading(library.AsyncHTTPTransport):  # type: ignore[misc] # of a library that is given
        async def handle_async_request(self, request: Any) -> Any:
            response = await super().handle_async_request(request)
            await response.aread()
            return response

    async with (
        raw_server(Server(head.encode() + body).handle) as url,
        session(url, transport=Reading(), timeout=2.0) as gateway,
    ):
        values = [await CALLS["spot_trading_available_balance"](gateway) for _ in range(2)]

    assert values == [{}, {}]


async def test_its_client_is_never_closed(library: Any) -> None:
    """Nor used when its owner has closed it, or after the session was."""
    seen: list[Any] = []
    client = library.AsyncClient(transport=answering(library, seen))
    async with session(http_client=client) as gateway:
        await CALLS["order_history"](gateway)
    assert not client.is_closed
    with pytest.raises(SessionStateError):
        await CALLS["order_history"](gateway)

    await client.aclose()
    with pytest.raises(SessionStateError):
        await CALLS["order_history"](session(http_client=client))
    assert len(seen) == 1


async def test_our_transport_is_one_of_httpx(library: Any) -> None:
    """A client of httpx2 takes no reply of it; that is said before anything is sent."""
    server = Server()
    async with (
        raw_server(server.handle) as url,
        library.AsyncClient(transport=GatewayTransport()) as client,
    ):
        calling = CALLS["create_customer"](session(url, http_client=client))
        if library is httpx:
            assert await calling == {}
            return
        with pytest.raises(ConfigurationError, match="clients of httpx alone") as caught:
            await calling

    assert caught.value.outcome is Outcome.NOT_SENT
    assert server.requests == []


@pytest.mark.parametrize("used", [True, False])
async def test_given_transport_is_closed_with_the_session(used: bool) -> None:
    class Closing(httpx.MockTransport):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    transport = Closing(lambda _: httpx.Response(200))
    gateway = session(transport=transport)
    if used:
        await gateway.wallet.order_history(1, 1)
    await gateway.with_options().aclose()
    assert transport.closed == 0

    await gateway.aclose()
    await gateway.aclose()

    assert transport.closed == 1


@pytest.mark.parametrize("status", [302, 401, 404, 429, 500])
@pytest.mark.parametrize("place", ["request", "response", "transport"])
@pytest.mark.parametrize("by_session", [True, False])
async def test_the_error_of_another_call_says_nothing_about_this_one(
    library: Any, status: int, place: str, by_session: bool
) -> None:
    """A hook or transport that calls a server itself: the write is not refused, nor repeated."""
    sent: list[Any] = []
    refusing = library.MockTransport(lambda _: library.Response(status))

    async def report(_: object) -> None:
        if by_session:
            await session(transport=refusing).kyc.send_webhook()
        async with library.AsyncClient(transport=refusing) as other:
            (await other.get(BASE_URL)).raise_for_status()

    async def handle(request: Any) -> Any:
        sent.append(request)
        if place == "transport":
            await report(request)
        return library.Response(200)

    hooks: dict[str, list[Any]] = {"request": [], "response": [], "transport": [], place: [report]}
    async with library.AsyncClient(
        transport=library.MockTransport(handle), event_hooks=hooks
    ) as client:
        retry = RetryPolicy(backoff=0.0)
        gateway = session(access_token=Renewing(), http_client=client, retry=retry)
        with pytest.raises(ReplyLostError) as caught:
            await gateway.aml.upload_document(b"x")

    assert (caught.value.operation, caught.value.outcome) == ("upload_document", Outcome.UNKNOWN)
    assert caught.value.advice is Advice.CHECK
    assert len(sent) == (place != "request")


@pytest.mark.parametrize("name", ["create_customer", "cancel_order", "order_history"])
async def test_a_hook_that_fails_leaves_a_write_with_its_outcome(library: Any, name: str) -> None:
    """Its error reaches the caller as it is, with one note, however often it is raised."""
    failure = LookupError("mine")

    async def fail(_: object) -> None:
        raise failure

    async with library.AsyncClient(
        transport=answering(library, []), event_hooks={"response": [fail]}
    ) as client:
        for _ in range(2):
            with pytest.raises(LookupError) as caught:
                await CALLS[name](session(http_client=client))
            assert caught.value is failure

    note = f"{name}: it is unknown whether the gateway did it"
    assert getattr(failure, "__notes__", []) == [note] * (name != "order_history")


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
async def test_hooks_of_its_client_run(library: Any, encoding: str) -> None:
    """Event hooks see request and reply, may read it, and the session still gets it whole."""
    seen: list[Any] = []
    body = gzip.compress(b"[1]") if encoding == "gzip" else b"[1]"

    async def on_request(request: Any) -> None:
        seen.append((request.method, str(request.url)))

    async def on_response(response: Any) -> None:
        seen.append(await response.aread())

    reply = {"json": None, "content": body, "headers": {"content-encoding": encoding}}
    async with library.AsyncClient(
        transport=answering(library, [], **reply),
        event_hooks={"request": [on_request], "response": [on_response]},
    ) as client:
        value = await session(http_client=client).wallet.spot_trading_available_balance()

    assert value == [1]
    assert seen == [("GET", f"{BASE_URL}/wallet/1.0.0/spot-trading/available-balance"), b"[1]"]


async def test_a_hook_that_meets_a_broken_body(library: Any) -> None:
    """A reply that a hook cannot read is an unexpected reply, not an error of httpx."""

    async def read(response: Any) -> None:
        await response.aread()

    reply = {"json": None, "content": b"garbage", "headers": {"content-encoding": "gzip"}}
    async with library.AsyncClient(
        transport=answering(library, [], **reply), event_hooks={"response": [read]}
    ) as client:
        with pytest.raises(GatewayError) as caught:
            await session(http_client=client).aml.upload_document(b"x")

    assert caught.value.outcome >= Outcome.UNKNOWN


async def test_its_client_adds_nothing_and_follows_no_redirect(library: Any) -> None:
    """Cookies, auth, headers, parameters and base URL of the client stay its own."""
    seen: list[Any] = []
    headers = {"set-cookie": "a=1", "location": "https://evil.test/"}
    async with library.AsyncClient(
        transport=answering(library, seen, status_code=307, headers=headers),
        auth=("user", "password"),
        base_url="https://other.test/base",
        cookies={"session": "cookie"},
        follow_redirects=True,
        headers={"tenantId": "theirs", "token": "theirs", "X-Theirs": "1", "User-Agent": "theirs"},
        params={"theirs": "1"},
    ) as client:
        for name in ("list_countries", "list_countries", "order_history"):
            with pytest.raises(RedirectError, match="never followed"):
                await CALLS[name](session(http_client=client))

    for request in seen:
        assert request.headers["authorization"] == "Bearer token-1"
        assert request.headers["user-agent"].startswith("gateway-sdk/")
        assert request.url.host == "gateway.test"
        assert request.url.query == b""
        assert not {"cookie", "x-theirs", "token"} & set(request.headers)
    assert [request.headers.get("tenantId") for request in seen] == [None, None, "acme"]
