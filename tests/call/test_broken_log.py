"""What of the user's raises when the SDK logs: it changes nothing, and the line is not lost."""

import asyncio
import io
import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from gateway_sdk import GatewaySession, Observer, bulk
from gateway_sdk.errors import ConnectionFailedError
from tests.support import virtual_time
from tests.support.observers import HOOKS
from tests.support.scripted import scripted, status


class NoRequestError(LookupError):
    """A filter that wants the number of a request fails like this outside of one."""


def fail(*_: object) -> Any:
    raise NoRequestError


RAISING: Observer = type("Raising", (Observer,), dict.fromkeys(HOOKS, fail))()


def make_record(name: str, *rest: Any, **more: Any) -> logging.LogRecord:
    return fail() if name.startswith("gateway_sdk") else logging.LogRecord(name, *rest, **more)


@pytest.fixture(params=["filter", "emit", "record"])
def broken(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> Iterator[None]:
    logger, factory = logging.getLogger("gateway_sdk"), logging.getLogRecordFactory()
    caplog.set_level(logging.DEBUG, "gateway_sdk")
    if request.param == "record":
        logging.setLogRecordFactory(make_record)
    else:
        handler = type("Broken", (logging.Handler,), {request.param: fail})()
        monkeypatch.setattr(logger, "handlers", [handler])
    yield
    logging.setLogRecordFactory(factory)


async def write(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is repeated after a 429, and then applied."""
    steps = status(429), status(200)
    gateway, engine, _ = scripted(monkeypatch, *steps, observers=[RAISING])

    assert await gateway.customer.create_customer({"customerName": "Ada"}) == {}
    assert len(engine.requests) == 2


async def cancelled(_: pytest.MonkeyPatch) -> None:
    sent = asyncio.Event()

    async def wait(_: httpx.Request) -> httpx.Response:
        sent.set()
        return await asyncio.Future[httpx.Response]()

    transport = httpx.MockTransport(wait)
    async with GatewaySession("https://g.test", access_token="t", transport=transport) as gateway:
        task = asyncio.create_task(gateway.aml.upload_document(b"x"))
        await sent.wait()
        task.cancel()
        await asyncio.wait([task])

    assert task.cancelled()


async def outage(_: pytest.MonkeyPatch) -> None:
    async def call(item: int) -> int:
        if virtual_time.now() < 50:
            raise ConnectionFailedError("away")
        return item

    assert {result.value async for result in bulk.run(call, [1, 2])} == {1, 2}


TOLD = {
    write: ["('create_customer #1', 429, 'in ", "'an observer failed'"],
    cancelled: ["('upload_document #1', 'it is unknown whether the gateway did it', "],
    outage: ["a bulk run waits", "a bulk run goes on"],
}


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize("is_wanted", [True, False])
@pytest.mark.parametrize("scenario", TOLD)
def test_it_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    scenario: Callable[..., Any],
    *,
    is_wanted: bool,
) -> None:
    """What could not be logged is written to stderr, as `logging` does if a handler fails."""
    monkeypatch.setattr(logging, "raiseExceptions", is_wanted)

    virtual_time.run(scenario(monkeypatch))

    written = capsys.readouterr().err
    assert all((text in written) is is_wanted for text in TOLD[scenario]), written
    assert ("--- Logging error ---" in written) is ("NoRequestError" in written) is is_wanted


@pytest.mark.usefixtures("broken")
def test_also_if_nothing_can_be_written_to_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)

    virtual_time.run(write(monkeypatch))
