"""A canary in all that is secret or personal, and every way to fail: no text may show it."""

import asyncio
import base64
import json
import logging
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from unittest.mock import AsyncMock

import httpx
import pytest
from pydantic import SecretStr

from gateway_sdk import (
    ConfigurationError,
    ConnectionFailedError,
    ForbiddenError,
    GatewayError,
    GatewaySession,
    GatewayTransport,
    InvalidArgumentError,
    Multipart,
    Observer,
    RateLimit,
    Reply,
    ReplyLostError,
    RetryPolicy,
    UploadFailedError,
    errors,
    operations,
)
from gateway_sdk.models import CreateRequest, Name, PersonData, SecretQuestionItem
from tests.support.calls import CALLS, Renewing, pass_deadlines
from tests.support.observers import HOOKS
from tests.support.proxies import Proxy
from tests.support.raw_server import OK, Handler, body_of, raw_server, read_request, serving
from tests.support.secrecy import CANARY, logged, texts_of

THEIRS: Final = "canary-0815"
"""Stands in all that the gateway says."""


def listener(heard: list[str]) -> Observer:
    """Make an observer that keeps the texts of all that it is told."""

    def hear(_: Observer, *told: object) -> None:
        heard.extend(f"{thing} {thing!r}" for thing in told)

    made: Observer = type("Listener", (Observer,), dict.fromkeys(HOOKS, hear))()
    return made


def session(url: str, **options: Any) -> GatewaySession:
    given = {
        "access_token": Renewing(f"{CANARY}-token"),
        "tenant_id": f"{CANARY}-tenant",
        "token_header": f"{CANARY}-header",
        "headers": {"X-Key": f"{CANARY}-key"},
        "retry": RetryPolicy(attempts=2, connect_wait=0.0),
        "sleep": AsyncMock(),
        "rate_limit": RateLimit(1000),
        "proxy": None,
    }
    return GatewaySession(url, **{**given, **options})


Call = Callable[[GatewaySession, Path], Coroutine[Any, Any, Any]]

CUSTOMER: Final = CreateRequest(
    person=PersonData(
        first_name=Name(name=CANARY),
        email=CANARY,
        password=SecretStr(CANARY),
        pin_code=SecretStr(CANARY),
        secret_question=[SecretQuestionItem(question=CANARY, answer=SecretStr(CANARY))],
    )
)
SECRET_CALLS: dict[str, Call] = {
    "create": lambda gateway, _: gateway.customer.create_customer(CUSTOMER),
    "revise": lambda gateway, _: gateway.customer.revise_customer(CANARY, {CANARY: CANARY}),
    "cancel": lambda gateway, _: gateway.wallet.cancel_order(CANARY, CANARY),
    "file": lambda gateway, path: gateway.aml.upload_document(path),
    "form": lambda gateway, path: gateway.aml.upload_document(
        Multipart({CANARY: CANARY}, {CANARY: (CANARY, path, f"text/{CANARY}")})
    ),
    "JSON": lambda gateway, _: gateway.aml.update_document(CANARY, {CANARY: CANARY}),
    "typed": lambda gateway, _: gateway.aml.update_document(CANARY, b"x", f"text/{CANARY}"),
    "rates": lambda gateway, _: gateway.currency.exchange_rate_series(
        CANARY, [CANARY], CANARY, CANARY
    ),
    "into": lambda gateway, _: gateway.send(
        operations.TRADING_ORDER_HISTORY, path={"customerId": CANARY}, into=dict[str, str]
    ),
}


@asynccontextmanager
async def everything_logged(
    caplog: pytest.LogCaptureFixture,
) -> AsyncIterator[list[logging.LogRecord]]:
    caplog.set_level(logging.DEBUG)
    loop = asyncio.get_running_loop()
    loop.set_debug(True)
    loop.slow_callback_duration = 0.0
    try:
        yield caplog.records
    finally:
        loop.set_debug(False)


def parts_of(gateway: GatewaySession) -> list[object]:
    core = gateway._caller.shared
    return [gateway, gateway.with_options(), core, core._engine, core._transport, core._bucket]


def reply(status: int, body: str = f'{{"{THEIRS}":"{THEIRS}"}}', **headers: str) -> Handler:
    given = {"Content-Type": "application/json", "X-Echo": THEIRS, **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    text = f"HTTP/1.1 {status} {THEIRS}\r\nContent-Length: {len(body)}\r\n{head}\r\n{body}"
    return saying(text.encode())


def saying(text: bytes) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(text)
        await writer.drain()

    return handle


class Silence:
    def __init__(self) -> None:
        self.arrived = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        while await reader.read(65536):
            self.arrived.set()


PAYLOAD: Final = json.dumps(
    dict.fromkeys(("timestamp", "status", "error", "message", "path", "trace"), THEIRS)
)

WAYS: dict[str, tuple[Handler | None, set[str]]] = {
    "done": (saying(OK), {"dict"}),
    "done, with canaries": (reply(200), {"dict", "UnexpectedReplyError"}),
    "cut JSON": (reply(200, f'{{"{THEIRS}'), {"UnexpectedReplyError"}),
    "web page": (
        reply(200, f"<p>{THEIRS}", **{"Content-Type": "text/html"}),
        {"UnexpectedReplyError"},
    ),
    "redirect": (reply(302, Location=f"https://evil.test/{THEIRS}"), {"RedirectError"}),
    "400": (reply(400, PAYLOAD), {"InvalidRequestError"}),
    "401": (reply(401, PAYLOAD), {"TokenRejectedError"}),
    "403": (reply(403, PAYLOAD), {"ForbiddenError"}),
    "404": (reply(404, PAYLOAD), {"NotFoundError"}),
    "409": (reply(409, PAYLOAD), {"ConflictError"}),
    "418": (reply(418, PAYLOAD), {"StatusError"}),
    "429": (reply(429, PAYLOAD, **{"Retry-After": THEIRS}), {"RateLimitedError"}),
    "500": (reply(500, PAYLOAD), {"ServerError"}),
    "no status": (saying(f"{THEIRS}\r\n\r\n".encode()), {"ReplyLostError"}),
    "no header": (saying(f"HTTP/1.1 200 OK\r\n{THEIRS}\r\n\r\n".encode()), {"ReplyLostError"}),
    "cut": (
        saying(f"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{THEIRS}".encode()),
        {"ReplyLostError"},
    ),
    "hung up": (saying(b""), {"ReplyLostError"}),
    "read time-out": (None, {"ReplyTimeoutError"}),
    "deadline": (None, {"DeadlineExceededError"}),
    "closed": (None, {"SessionStateError"}),
    "cancelled": (None, {"CancelledError"}),
    "nobody there": (None, {"ConnectionFailedError"}),
}


@pytest.fixture
def document(tmp_path: Path) -> Path:
    path = tmp_path / CANARY
    path.write_text(CANARY)
    return path


async def result_of(
    way: str, call: Coroutine[Any, Any, Any], gateway: GatewaySession, silence: Silence
) -> Any:
    task = asyncio.create_task(call)
    if way in ("deadline", "closed", "cancelled"):
        await silence.arrived.wait()
        if way == "deadline":
            pass_deadlines(gateway)
        elif way == "closed":
            await gateway.aclose()
        else:
            task.cancel()
    await asyncio.wait([task])
    return asyncio.CancelledError() if task.cancelled() else task.exception() or task.result()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", SECRET_CALLS.values(), ids=SECRET_CALLS)
async def test_no_text_shows_a_secret(
    caplog: pytest.LogCaptureFixture, document: Path, call: Call, way: str
) -> None:
    heard, silence = list[str](), Silence()
    handler, kinds = WAYS[way]
    async with everything_logged(caplog) as records, raw_server(handler or silence.handle) as url:
        gateway = session(
            "http://127.0.0.1:1" if way == "nobody there" else url,
            observers=[listener(heard)],
            timeout=httpx.Timeout(30, read=0.01 if way == "read time-out" else 30),
            drain=0,
        )
        result = await result_of(way, call(gateway, document), gateway, silence)
        reprs = [repr(part) for part in parts_of(gateway)]
        await gateway.aclose()

    assert type(result).__name__ in kinds | {"Reply"}
    if isinstance(result, BaseException):
        reprs.append(texts_of(result))
    elif isinstance(result, Reply):
        reprs.append(repr(result))
    for text in (*reprs, *heard):
        assert CANARY not in text
        assert THEIRS not in text
    ours = [record for record in records if record.name.startswith("gateway_sdk")]
    assert ours
    assert CANARY not in logged(records)
    assert THEIRS not in logged(ours)


ELSEWHERE: Final = {  # the tests of bad input, of bulk runs, uploads and logins
    "ConfigurationError",
    "InvalidArgumentError",
    "JournalError",
    "MissingExtraError",
    "OutageError",
    "UnauthorizedError",
    "UploadFailedError",
}


def test_the_table_has_every_error_of_a_call() -> None:
    kinds = {name for name, kind in vars(errors).items() if _is_of_a_call(kind) and name[0] != "_"}

    assert kinds <= ELSEWHERE | {name for _, names in WAYS.values() for name in names}


def _is_of_a_call(kind: object) -> bool:
    if not isinstance(kind, type) or not issubclass(kind, GatewayError) or kind is GatewayError:
        return False
    return kind is errors.TokenRejectedError or not issubclass(kind, errors.AuthError)


PLAIN: Final = "plain-token-4711"
"""A token that is a plain str, sent as it is."""

ENDS: Final[dict[str, tuple[type[Exception], type[Exception]]]] = {  # of a session, of a client
    "refused": (ForbiddenError, httpx.HTTPStatusError),
    "nobody there": (ConnectionFailedError, httpx.ConnectError),
    "hung up": (ReplyLostError, httpx.RemoteProtocolError),
    "time-out in the upload": (TimeoutError, TimeoutError),
    "time-out after it": (TimeoutError, TimeoutError),
    "content that fails": (UploadFailedError, LookupError),
    "token with a line break": (ConfigurationError, httpx.LocalProtocolError),
}


class Ending:
    """A request that ends in one way, and what a traceback with variables shows then."""

    def __init__(self, way: str) -> None:
        self.token = PLAIN + "\n" * (way == "token with a line break")
        self.sent: list[bytes] = []
        self._way = way
        self._waiting = asyncio.timeout(None)
        self._came = asyncio.Event()

    async def content(self) -> AsyncIterator[bytes]:
        yield CANARY.encode()
        if self._way == "content that fails":
            await self._came.wait()
            raise LookupError
        if self._way == "time-out in the upload":
            await asyncio.Event().wait()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.sent.append(await reader.readuntil(b"\r\n\r\n"))
        self._came.set()
        if self._way == "time-out in the upload":
            self._waiting.reschedule(0)
        async for _ in body_of(self.sent[0], reader):
            pass
        if self._way == "time-out after it":
            self._waiting.reschedule(0)
        elif self._way == "refused":
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        if self._way != "hung up":
            await reader.read()

    async def texts(self, call: Coroutine[Any, Any, Any], kind: type[Exception]) -> str:
        shown = await _shown(call, self._waiting, kind)
        assert len(self.sent) == (self._way not in ("nobody there", "token with a line break"))
        assert all(f"Authorization: Bearer {PLAIN}\r\n".encode() in head for head in self.sent)
        return shown


async def _shown(
    call: Coroutine[Any, Any, Any], waiting: asyncio.Timeout, kind: type[Exception]
) -> str:
    with pytest.raises(kind) as caught:
        async with waiting:
            await call
    shown = traceback.TracebackException.from_exception(caught.value, capture_locals=True)
    return "".join(shown.format())


@pytest.mark.parametrize("way", ENDS)
async def test_no_token_in_the_variables_of_a_traceback(way: str) -> None:
    """A traceback that also shows variables holds nothing of a request, sent or not."""
    ending = Ending(way)

    async def token() -> str:
        return ending.token

    async with raw_server(ending.handle) as url:
        address = "http://127.0.0.1:1" if way == "nobody there" else url
        async with session(address, access_token=token, retry=None, drain=0) as gateway:
            call = gateway.aml.upload_document(ending.content())
            shown = await ending.texts(call, ENDS[way][0])

    assert PLAIN not in shown
    assert CANARY not in shown


@pytest.mark.parametrize("way", ENDS)
async def test_no_header_of_a_client_in_the_variables_of_a_traceback(way: str) -> None:
    ending = Ending(way)

    async def call(client: httpx.AsyncClient, url: str) -> None:
        (await client.post(url, content=ending.content())).raise_for_status()

    async with raw_server(ending.handle) as url:
        address = "http://127.0.0.1:1" if way == "nobody there" else url
        headers = {"Authorization": f"Bearer {ending.token}"}
        async with httpx.AsyncClient(transport=GatewayTransport(), headers=headers) as client:
            shown = await ending.texts(call(client, address), ENDS[way][1])

    assert PLAIN not in shown


async def test_no_static_token_in_the_variables_of_a_refused_request() -> None:
    """The fields of all requests are made of it, once and for all."""
    async with GatewaySession("http://127.0.0.1:1", access_token=CANARY) as gateway:
        with pytest.raises(InvalidArgumentError, match="tenant_id is missing") as caught:
            await gateway.customer.create_customer({})
    sdk = caught.value.with_traceback(caught.tb.tb_next)

    shown = traceback.TracebackException.from_exception(sdk, capture_locals=True)
    assert CANARY not in "".join(shown.format())


REFUSALS = {
    "407": b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n",
    "502": b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
    "no tunnel": b"HTTP/1.1 200 OK\r\n\r\n",
    "nonsense": b"nonsense\r\n\r\n",
}


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("base_url", ["https://gateway.test", "http://gateway.test"])
async def test_no_text_shows_the_password_of_a_proxy(
    caplog: pytest.LogCaptureFixture, answer: bytes, base_url: str
) -> None:
    proxy = Proxy(1, answer)
    async with everything_logged(caplog) as records, serving(proxy.handle) as port:
        gateway = session(
            base_url,
            proxy=f"http://user:{CANARY}@127.0.0.1:{port}",
            allow_insecure_http=True,
            retry=None,
        )
        results = await asyncio.gather(CALLS["cancel_order"](gateway), return_exceptions=True)
        shown = repr(parts_of(gateway))
        await gateway.aclose()

    secret = base64.b64encode(f"user:{CANARY}".encode())
    assert secret in proxy.heads[0]
    texts = [shown, logged(records), *(texts_of(error) for error in results if error)]
    for text in texts:
        assert CANARY not in text
        assert secret.decode() not in text
    if answer is REFUSALS["407"]:  # somebody can do something about it
        assert "407" in texts[-1]


@pytest.mark.parametrize("call", [CALLS["order_history"], GatewaySession.connect])
async def test_no_password_of_a_proxy_in_the_variables_of_a_traceback(
    call: Callable[[GatewaySession], Coroutine[Any, Any, Any]],
) -> None:
    heads, waiting = list[bytes](), asyncio.timeout(None)

    async def take(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        heads.append(await read_request(reader))
        waiting.reschedule(0)
        await reader.read()

    async with serving(take) as port:
        proxy = f"http://user:{CANARY}@127.0.0.1:{port}"
        async with session("https://gateway.test", proxy=proxy, drain=0) as gateway:
            shown = await _shown(call(gateway), waiting, TimeoutError)

    secret = base64.b64encode(f"user:{CANARY}".encode())
    assert secret in heads[0]
    assert secret.decode() not in shown


def test_no_text_of_options_names_the_tenant() -> None:
    gateway = session("https://gateway.test")

    for shown in (gateway._caller.options, gateway.with_options(timeout=1.0)._caller.options):
        assert CANARY not in repr(shown)
