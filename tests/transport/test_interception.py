"""Every usual way to intercept requests intercepts ours, and adds nothing to them."""

import gzip
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
import respx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from gateway_sdk import (
    Advice,
    ConnectionFailedError,
    GatewayError,
    GatewaySession,
    NotFoundError,
    Outcome,
    RedirectError,
    ReplyLostError,
    RetryPolicy,
)
from tests.interface_table import COUNTRY
from tests.support.calls import Renewing

BASE_URL = "https://gateway.test"
LIST = f"{BASE_URL}/countrydata/1.0.0/listData"
CANARY_PATH = "canary" + "-path"


def session(base_url: str = BASE_URL, **settings: Any) -> GatewaySession:
    return GatewaySession(base_url, access_token="token-1", retry=None, **settings)


def answering(seen: list[httpx.Request], **reply: Any) -> Callable[[httpx.Request], httpx.Response]:
    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(**{"status_code": 200, "json": [COUNTRY], **reply})

    return answer


# --- transport= -----------------------------------------------------------------------------


async def test_asgi_transport() -> None:
    async def list_data(request: Request) -> JSONResponse:
        assert await request.body() == b""
        return JSONResponse([{**COUNTRY, "currency": request.headers["authorization"]}])

    app = Starlette(routes=[Route("/countrydata/1.0.0/listData", list_data, methods=["POST"])])
    gateway = session(transport=httpx.ASGITransport(app))

    countries = await gateway.country_data.list_countries()

    assert [country.currency for country in countries] == ["Bearer token-1"]
    with pytest.raises(NotFoundError):
        await gateway.kyc.send_webhook()


class Closing(httpx.MockTransport):
    closed = 0

    async def aclose(self) -> None:
        self.closed += 1


@pytest.mark.parametrize("used", [True, False])
async def test_given_transport_is_closed_with_the_session(used: bool) -> None:
    """A transport that was given is the session's to close, once, whether it was used or not."""
    transport = Closing(answering([]))
    gateway = session(transport=transport)
    if used:
        await gateway.country_data.list_countries()
    await gateway.with_options().aclose()
    assert transport.closed == 0

    await gateway.aclose()
    await gateway.aclose()

    assert transport.closed == 1


@pytest.mark.parametrize("status", [302, 401, 404, 429, 500])
@pytest.mark.parametrize("in_hook", [True, False])
async def test_the_error_of_another_call_says_nothing_about_this_one(
    status: int, in_hook: bool
) -> None:
    """A hook or transport that calls a gateway itself: the write is not refused, nor repeated."""
    seen: list[httpx.Request] = []
    answer = answering(seen)
    other = session(transport=httpx.MockTransport(lambda _: httpx.Response(status)))

    async def report(_: object) -> None:
        await other.kyc.send_webhook()

    async def handle(request: httpx.Request) -> httpx.Response:
        reply = answer(request)
        if not in_hook:
            await report(reply)
        return reply

    async with httpx.AsyncClient(
        transport=httpx.MockTransport(handle),
        event_hooks={"response": [report] if in_hook else []},
    ) as client:
        gateway = GatewaySession(
            BASE_URL,
            access_token=Renewing(),
            http_client=client,
            retry=RetryPolicy(backoff=0.0),
        )
        with pytest.raises(ReplyLostError) as caught:
            await gateway.aml.upload_document(b"x")

    assert (caught.value.operation, caught.value.outcome) == ("upload_document", Outcome.UNKNOWN)
    assert caught.value.advice is Advice.CHECK
    assert len(seen) == 1


# --- http_client= ---------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_hooks_of_the_own_client_run(encoding: str) -> None:
    """Event hooks see request and reply, may read it, and the session still gets it whole."""
    seen: list[Any] = []
    body = b"[1]" if not encoding else gzip.compress(b"[1]")
    headers = {"content-type": "application/json"}
    if encoding:
        headers["content-encoding"] = encoding

    async def on_request(request: httpx.Request) -> None:
        seen.append((request.method, str(request.url)))

    async def on_response(response: httpx.Response) -> None:
        seen.append(await response.aread())

    async with httpx.AsyncClient(
        transport=httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, content=body)),
        event_hooks={"request": [on_request], "response": [on_response]},
    ) as client:
        value = await session(http_client=client).wallet.spot_trading_available_balance()

    assert value == [1]
    assert seen == [("GET", f"{BASE_URL}/wallet/1.0.0/spot-trading/available-balance"), b"[1]"]


async def test_own_client_adds_nothing() -> None:
    """Cookies, auth, default headers, parameters and base URL of the client stay its own."""
    seen: list[httpx.Request] = []
    async with httpx.AsyncClient(
        transport=httpx.MockTransport(answering(seen, headers={"set-cookie": "a=1"})),
        auth=("user", "password"),
        base_url="https://other.test/base",
        cookies={"session": "cookie"},
        follow_redirects=True,
        headers={"tenantId": "theirs", "token": "theirs", "X-Theirs": "1", "User-Agent": "theirs"},
        params={"theirs": "1"},
    ) as client:
        gateway = session(http_client=client, tenant_id="acme")
        for _ in range(2):
            await gateway.country_data.list_countries()
        await gateway.wallet.order_history(1, 1)

    for request in seen:
        assert request.headers["authorization"] == "Bearer token-1"
        assert request.headers["user-agent"].startswith("gateway-sdk/")
        assert request.url.host == "gateway.test"
        assert request.url.query == b""
        assert not {"cookie", "x-theirs", "token"} & set(request.headers)
    assert [request.headers.get("tenantId") for request in seen] == [None, None, "acme"]


async def test_own_client_follows_no_redirect() -> None:
    """A redirect is an error although the client would follow it: credentials stay here."""
    seen: list[httpx.Request] = []
    reply = {"status_code": 307, "headers": {"location": "https://evil.test/"}}
    transport = httpx.MockTransport(answering(seen, **reply))
    async with httpx.AsyncClient(transport=transport, follow_redirects=True) as client:
        with pytest.raises(RedirectError, match=r"pointing to evil\.test"):
            await session(http_client=client).country_data.list_countries()

    assert [request.url.host for request in seen] == ["gateway.test"]


async def test_hook_that_meets_a_broken_body() -> None:
    """A reply that a hook cannot read is an unexpected reply, not an error of httpx."""

    async def read(response: httpx.Response) -> None:
        await response.aread()

    reply = {"json": None, "content": b"garbage", "headers": {"content-encoding": "gzip"}}
    async with httpx.AsyncClient(
        transport=httpx.MockTransport(answering([], **reply)), event_hooks={"response": [read]}
    ) as client:
        with pytest.raises(GatewayError) as caught:
            await session(http_client=client).aml.upload_document(b"x")

    assert caught.value.outcome >= Outcome.UNKNOWN


# --- respx ----------------------------------------------------------------------------------


async def test_respx_as_a_context_manager() -> None:
    """Respx's usual mocker, the one of httpcore, intercepts our engine."""
    async with respx.mock(base_url=BASE_URL, assert_all_called=True) as router:
        route = router.post("/countrydata/1.0.0/listData").respond(json=[COUNTRY])
        async with session() as gateway:
            await gateway.country_data.list_countries()

    (call,) = route.calls
    assert call.request.headers["authorization"] == "Bearer token-1"


async def test_respx_sees_a_stream() -> None:
    """A document in pieces needs no connection."""

    async def pieces() -> AsyncIterator[bytes]:
        yield b"a document "
        yield b"in pieces"

    async with respx.mock(base_url=BASE_URL) as router, session() as gateway:
        route = router.post("/aml/1.0.0/document/upload").respond(json={})
        await gateway.aml.upload_document(pieces())

    assert route.calls.last.request.content == b"a document in pieces"


async def test_respx_mocker_of_httpx_sees_the_own_client_alone() -> None:
    """Respx's other mocker patches httpx.AsyncClient: it sees that, and not our engine."""
    async with respx.mock(using="httpx", assert_all_called=True) as router:
        router.post(LIST).respond(json=[COUNTRY])
        async with httpx.AsyncClient() as client:
            assert len(await session(http_client=client).country_data.list_countries()) == 1
        async with session("http://127.0.0.1:1") as gateway:
            with pytest.raises(ConnectionFailedError):
                await gateway.country_data.list_countries()


async def test_respx_lets_nothing_past() -> None:
    """A request without a route does not reach the network: respx says so."""
    async with respx.mock(), session() as gateway:
        with pytest.raises(AssertionError, match="not mocked"):
            await gateway.country_data.list_countries()
