"""What a call waited for at its deadline; when a source of tokens counts as without a login."""

import asyncio
import pickle
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import nullcontext, suppress
from copy import copy
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from gateway_sdk import (
    Advice,
    AuthError,
    DeadlineExceededError,
    GatewaySession,
    LoginRequiredError,
    RateLimit,
    RetryPolicy,
    ServerError,
    Token,
)
from gateway_sdk._call import call, deadline
from gateway_sdk.auth import MemoryStore, SharedTokenSource
from tests.support import virtual_time
from tests.support.ports import full_port
from tests.support.raw_server import OK, raw_server


async def forever(*_: object) -> Any:
    await asyncio.get_running_loop().create_future()


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    await forever()


async def deaf(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.pause_reading()  # type: ignore[attr-defined]
    await forever()


async def busy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n")
    await forever()


async def half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(OK[:-1])
    await forever()


async def unauthorized(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n")


async def balance(gateway: GatewaySession) -> object:
    return await gateway.wallet.spot_trading_available_balance()


async def pieces(size: int = 1, count: int = 1, *, ends: bool = True) -> AsyncIterator[bytes]:
    for _ in range(count):
        yield bytes(size)
    if not ends:
        await forever()


class Later:
    """A source that has one token, and no other."""

    async def token(self, rejected: Any = None) -> str:
        return await forever() if rejected else "t"


def upload(content: Any) -> Callable[[GatewaySession], Awaitable[object]]:
    return lambda gateway: gateway.aml.upload_document(content())


async def connect(gateway: GatewaySession) -> object:
    return await second(gateway, GatewaySession.connect)


async def second(gateway: GatewaySession, work: Any = balance) -> object:
    asyncio.ensure_future(balance(gateway)).add_done_callback(lambda done: done.exception())
    await asyncio.sleep(0)
    return await work(gateway.with_options(deadline=0.05))


class Closed(httpx.AsyncBaseTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        raise AssertionError(await forever(request))


BLOCKED = RateLimit(1, 3600)
PHASES: dict[str, tuple[str, Any, Any, dict[str, Any]]] = {
    "the first token": ("token", silent, balance, {"access_token": forever}),
    "another token": ("token", unauthorized, balance, {"access_token": Later()}),
    "a token to connect": ("token", silent, GatewaySession.connect, {"access_token": forever}),
    "no request": ("connection", None, GatewaySession.connect, {}),
    "a slot to connect": ("slot", silent, connect, {"max_connections": 1, "deadline": 1}),
    "a slot": ("slot", silent, second, {"max_connections": 1, "deadline": 1}),
    "its turn": ("rate_limit", silent, second, {"rate_limit": BLOCKED, "deadline": 1}),
    "its turn, transport": (
        *("rate_limit", silent, second),
        {"rate_limit": BLOCKED, "deadline": 1, "transport": Closed()},
    ),
    "a connection": ("connection", None, balance, {}),
    "bytes that nobody reads": ("request", deaf, upload(lambda: b"x" * 2**25), {}),
    "chunks that nobody reads": (
        *("request", deaf, upload(lambda: pieces(2**24, 4))),
        {},
    ),
    "content that does not come": ("request", silent, upload(lambda: pieces(ends=False)), {}),
    "a reply": ("reply", silent, balance, {}),
    "a reply to content": ("reply", silent, upload(lambda: b"x"), {}),
    "a reply to chunks": ("reply", silent, upload(pieces), {}),
    "the rest of a reply": ("reply", half, balance, {}),
    "a transport": ("reply", silent, balance, {"transport": Closed()}),
    "another attempt": (
        *("backoff", busy, balance),
        {"retry": RetryPolicy(backoff=0.001), "sleep": forever},
    ),
}


@pytest.mark.parametrize("name", PHASES)
async def test_a_deadline_says_what_it_ended(name: str) -> None:
    phase, server, work, options = PHASES[name]
    # What has not come by then would not come in an hour; a busy machine may not be there yet.
    for seconds in (0.05, 0.5, 5.0, 50.0):
        given = {
            "access_token": "t",
            "tenant_id": "acme",
            "deadline": seconds,
            "retry": None,
            **options,
        }
        with full_port() as nowhere:
            async with (
                raw_server(server) if server else nullcontext(nowhere) as url,
                GatewaySession(url, drain=0, **given) as gateway,
            ):
                # Another error if it took so long that no other attempt would end in time.
                with pytest.raises((DeadlineExceededError, ServerError)) as caught:
                    await work(gateway)
        error: Any = caught.value
        if getattr(error, "phase", None) == phase:
            break
    assert error.phase == phase
    assert f"the deadline of {seconds} s passed {deadline._WAITS[error.phase]}" in str(error)
    assert copy(error).phase == phase
    assert pickle.loads(pickle.dumps(error)).phase == phase  # noqa: S301 - it is ours


async def test_a_loop_that_was_busy_had_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real clock is asked right before the first byte."""
    async with (
        raw_server(silent) as url,
        GatewaySession(url, access_token="t", deadline=60, drain=0) as gateway,
    ):
        clock = SimpleNamespace(monotonic=lambda: time.monotonic() + 61 * bool(began))
        began: list[bool] = []
        take = gateway._caller.shared.open()._slots.take  # type: ignore[attr-defined]

        def taking() -> bool:
            began.append(True)
            return bool(take())

        monkeypatch.setattr(deadline, "time", clock)
        monkeypatch.setattr(gateway._caller.shared.open()._slots, "take", taking)  # type: ignore[attr-defined]
        with pytest.raises(DeadlineExceededError) as caught:
            await balance(gateway)
    assert caught.value.phase == "connection"


@pytest.fixture
def _loop_time(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (call, deadline):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=virtual_time.now))


class Vault:
    """A source of tokens that answers when it is told to."""

    def __init__(self) -> None:
        self.answer: Any = None
        self.answers = asyncio.Event()

    async def __call__(self) -> Token:
        await self.answers.wait()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return Token(self.answer)


async def advice_of(gateway: GatewaySession, seconds: float) -> Advice:
    with pytest.raises(DeadlineExceededError, match="it waited for an access token") as caught:
        await gateway.wallet.order_history(0, 1, deadline=seconds)
    return caught.value.advice


LOGIN = LoginRequiredError("log in with `gateway login`")


@pytest.mark.parametrize(
    "steps",
    [
        # Deadlines of 0.3 s, one after the other: for 30 s it may be a slow vault.
        "99*0.3 REPEAT, 1*0.3 LOG_IN, 5*0.3 LOG_IN",
        # A thousand at once wait no longer than one.
        "+99*0.3 REPEAT, +5*29 REPEAT, +5*1 LOG_IN",
        "1*29.9 REPEAT, 1*0.2 LOG_IN",
        "1*30 LOG_IN",
        # An answer ends the silence; if it is that a login is missing, that counts.
        "1*29 REPEAT, token, 1*29 REPEAT, 1*2 LOG_IN, token, 1*2 REPEAT",
        "login, 1*0.3 LOG_IN, token, 1*0.3 REPEAT",
        "login, 1*0.3 LOG_IN, pause 601, 1*0.3 REPEAT",
        # What was long ago does not count; the time between calls does not, either.
        "1*29 REPEAT, pause 500, 1*0.9 REPEAT, pause 500, 1*0.2 LOG_IN",
        "1*29 REPEAT, pause 601, 1*29 REPEAT",
        # A view with another token has another source.
        "1*30 LOG_IN, view, 1*1 REPEAT",
    ],
)
@pytest.mark.usefixtures("_loop_time")
def test_a_source_that_stays_silent_lacks_a_login(steps: str) -> None:
    async def day() -> None:
        vault = Vault()
        gateway = GatewaySession("https://gateway.test", access_token=vault, transport=Closed())
        for step in steps.split(", "):
            kind, _, rest = step.partition(" ")
            if kind == "pause":
                await asyncio.sleep(float(rest))
            elif kind == "view":
                gateway = gateway.with_options(access_token=Vault())
            elif kind in ("token", "login"):
                vault.answer = "t" if kind == "token" else LOGIN
                vault.answers.set()
                with suppress(AuthError, TimeoutError):
                    async with asyncio.timeout(0.001):
                        await gateway.wallet.order_history(0, 1)
                vault.answers.clear()
            else:
                count, _, seconds = kind.partition("*")
                for _ in range(1 if "+" in kind else int(count)):
                    at_once = int(count) if "+" in kind else 1
                    calls = [advice_of(gateway, float(seconds)) for _ in range(at_once)]
                    assert {*await asyncio.gather(*calls)} == {Advice[rest]}, step

    virtual_time.run(day())


@pytest.mark.usefixtures("_loop_time")
def test_a_success_with_an_earlier_token_ends_no_silence() -> None:
    """An upload, say, that has got its token before."""

    async def reply(_: httpx.Request) -> httpx.Response:
        await asyncio.sleep(30)
        return httpx.Response(200, json={})

    async def day() -> None:
        tokens, transport = iter([Token("t")]), httpx.MockTransport(reply)

        async def function() -> Token:
            return next(tokens, None) or await forever()

        gateway = GatewaySession("https://gateway.test", access_token=function, transport=transport)
        upload = asyncio.create_task(gateway.aml.upload_document(b"x", "text/plain"))
        await asyncio.sleep(0.5)
        assert await advice_of(gateway, 31) is Advice.LOG_IN
        await upload

    virtual_time.run(day())


@pytest.mark.usefixtures("_loop_time")
def test_a_keyring_that_is_locked_is_no_slow_gateway() -> None:
    """All views of a session count together."""

    class Locked(MemoryStore):
        load = forever

    async def day() -> None:
        source = SharedTokenSource(Locked())
        gateway = GatewaySession("https://gateway.test", access_token=source, transport=Closed())
        views = [gateway, gateway.with_options(tenant_id="acme")]
        told = [await advice_of(views[number % 2], 0.3) for number in range(120)]
        assert told == [Advice.REPEAT] * 99 + [Advice.LOG_IN] * 21
        await source.aclose()

    virtual_time.run(day())


@pytest.mark.usefixtures("_loop_time")
def test_a_call_that_works_ends_the_lack_of_a_login() -> None:
    """Another session has got the token that this one uses."""

    async def day() -> None:
        store = MemoryStore()
        source = SharedTokenSource(store)
        answer = httpx.MockTransport(lambda _: httpx.Response(200, json={}))
        first, second = (
            GatewaySession("https://gateway.test", access_token=source, transport=answer)
            for _ in range(2)
        )
        with pytest.raises(LoginRequiredError):
            await first.kyc.send_webhook()
        await store.save(token := Token("t"))
        for gateway in (second, first):
            await gateway.kyc.send_webhook()
        store.load = forever  # type: ignore[method-assign]
        source.reject(token)
        assert await advice_of(first, 0.3) is Advice.REPEAT
        await source.aclose()

    virtual_time.run(day())
