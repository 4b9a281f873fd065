"""The life of a session: opening, views, deadlines, closing, pickling."""

import asyncio
import shutil
import ssl
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import certifi
import httpx
import pytest

from gateway_sdk import (
    ConfigurationError,
    ConnectionFailedError,
    DeadlineExceededError,
    GatewaySession,
    Outcome,
    SessionStateError,
)
from gateway_sdk._call import deadline, shared_state
from gateway_sdk._transport import tls
from tests.support.calls import CALLS, Call, pass_deadlines
from tests.support.raw_server import OK, raw_server, read_request
from tests.support.scripted import scripted


class Gates:
    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.may_answer = asyncio.Event()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await read_request(reader)
            self.arrived.set()
            await self.may_answer.wait()
            writer.write(OK)


def session(url: str, **options: object) -> GatewaySession:
    return GatewaySession(url, access_token="token", tenant_id="acme", **options)  # type: ignore[arg-type]


async def test_a_view_does_not_close_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway, engine, _ = scripted(monkeypatch, httpx.Response(200, json={}))

    async with gateway.with_options(tenant_id="other") as view:
        await CALLS["order_history"](view)
        assert repr(view) == "<view of GatewaySession https://gateway.test (open)>"
    await CALLS["order_history"](gateway)

    tenants = [request.headers["tenantId"] for request in engine.requests]
    assert tenants == ["other", "acme"]
    assert not engine.closed
    await gateway.aclose()
    with pytest.raises(SessionStateError):
        await CALLS["order_history"](view)


async def test_closing_waits_for_calls_under_way() -> None:
    server = Gates()
    async with raw_server(server.handle) as url:
        gateway = session(url)
        call = asyncio.create_task(gateway.wallet.spot_trading_available_balance())
        await server.arrived.wait()
        closing = asyncio.create_task(gateway.aclose())
        await asyncio.sleep(0)
        assert "closing" in repr(gateway)
        with pytest.raises(SessionStateError):
            await gateway.country_data.list_countries()
        server.may_answer.set()

        assert await call == {}
        await closing


async def test_a_deadline_during_the_closing_is_a_deadline() -> None:
    server = Gates()
    async with raw_server(server.handle) as url:
        gateway = session(url, drain=60)
        call = asyncio.create_task(CALLS["create_customer"](gateway))
        await server.arrived.wait()
        closing = asyncio.create_task(gateway.aclose())
        await asyncio.sleep(0)
        pass_deadlines(gateway)
        await closing

        with pytest.raises(DeadlineExceededError):
            await call


async def test_closing_is_bounded_even_if_a_call_does_not_listen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A token source that swallows its cancellation cannot keep a session from closing."""
    asked, enough = asyncio.Event(), asyncio.Event()

    async def stubborn() -> str:
        asked.set()
        while not enough.is_set():
            with suppress(asyncio.CancelledError):
                await enough.wait()
        return "token"

    monkeypatch.setattr(deadline, "DEFAULT_CUT", 0.01)
    gateway, engine, _ = scripted(
        monkeypatch, httpx.Response(200, json={}), access_token=stubborn, drain=0
    )
    call = asyncio.create_task(CALLS["order_history"](gateway))
    await asked.wait()
    await gateway.aclose()

    assert engine.closed
    assert "closed" in repr(gateway)
    enough.set()
    await asyncio.wait([call])


@pytest.mark.parametrize("entered", [True, False])
async def test_authorities_are_loaded_once_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, entered: bool
) -> None:
    """Also without `async with`, by the first calls; one that is cancelled has sent nothing."""
    threads = list[threading.Thread]()
    load = tls.authorities

    def noting(*given: Any) -> ssl.SSLContext:
        threads.append(threading.current_thread())
        return load(*given)

    monkeypatch.setattr(tls, "authorities", noting)
    gateway = session("https://127.0.0.1:1", retry=None)
    if entered:
        await gateway.__aenter__()
        assert len(threads) == 1
    calls = [asyncio.create_task(CALLS["create_customer"](gateway)) for _ in range(20)]
    await asyncio.sleep(0)
    calls[0].cancel()
    ends = await asyncio.gather(*calls, return_exceptions=True)
    await gateway.aclose()

    assert isinstance(ends[0], asyncio.CancelledError)
    assert {type(end) for end in ends[1:]} == {ConnectionFailedError}
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


@pytest.mark.parametrize("can_start", [True, False])
async def test_models_are_loaded_once_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, can_start: bool
) -> None:
    """If no thread can be started, the first reply loads them."""
    threads = list[threading.Thread]()
    go_on = threading.Event()

    def load() -> None:
        threads.append(threading.current_thread())
        assert go_on.wait(20)

    monkeypatch.setattr(shared_state.SharedState, "has_models", False)
    monkeypatch.setattr(shared_state, "_load_models", load)
    if not can_start:
        monkeypatch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("no thread")))
    gateway = session("http://127.0.0.1:1", retry=None)
    calls = [asyncio.create_task(CALLS["list_countries"](gateway)) for _ in range(3)]
    await asyncio.sleep(0)  # each of them has begun
    go_on.set()
    ends = await asyncio.gather(*calls, return_exceptions=True)
    await gateway.aclose()
    async with session("http://127.0.0.1:1"):  # a later session needs no thread
        assert shared_state.SharedState.has_models is can_start

    assert {type(end) for end in ends} == {ConnectionFailedError}
    assert [thread is threading.main_thread() for thread in threads] == [False] * can_start


@pytest.mark.parametrize(
    ("scheme", "call"),
    [
        ("http", CALLS["order_history"]),
        ("https", CALLS["order_history"]),
        ("http", lambda gateway: gateway.aml.upload_document(Path(__file__))),
    ],
)
async def test_a_first_call_needs_no_thread_of_the_loop(scheme: str, call: Call) -> None:
    """All of them may wait for it: they are where a service runs what blocks."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    gateway = session(f"{scheme}://127.0.0.1:1", retry=None)

    def wait_for_call() -> object:
        return asyncio.run_coroutine_threadsafe(call(gateway), loop).exception(60)

    assert type(await asyncio.to_thread(wait_for_call)) is ConnectionFailedError
    await gateway.aclose()


async def test_a_deadline_holds_while_authorities_are_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All threads may be busy."""
    may_go_on = threading.Event()
    load = tls.authorities

    def waiting(*given: Any) -> ssl.SSLContext:
        may_go_on.wait(20)
        return load(*given)

    monkeypatch.setattr(tls, "authorities", waiting)
    gateway = session("https://gateway.test")
    call = asyncio.create_task(CALLS["create_customer"](gateway))
    await asyncio.sleep(0)
    pass_deadlines(gateway)
    with pytest.raises(DeadlineExceededError) as caught:
        await call
    assert caught.value.outcome is Outcome.NOT_SENT
    may_go_on.set()
    await gateway.aclose()


async def test_each_first_call_gets_its_own_error_of_the_authorities(tmp_path: Path) -> None:
    """A call writes what became of it into its error; and the next call looks again."""
    file = tmp_path / "authorities.pem"
    gateway = session("https://gateway.test", verify=file)
    calls = (CALLS[name](gateway) for name in ("create_customer", "send_webhook"))
    errors = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(error) for error in errors] == [ConfigurationError] * 2
    names = [getattr(error, "operation", None) for error in errors]
    assert names == ["create_customer", "send_webhook"]
    shutil.copy(certifi.where(), file)
    async with gateway:
        pass


async def test_authorities_from_a_folder_a_file_or_a_context(tmp_path: Path) -> None:
    for verify in (True, tmp_path, certifi.where(), ssl.create_default_context()):
        async with session("https://gateway.test", verify=verify) as gateway:
            assert "open" in repr(gateway)
