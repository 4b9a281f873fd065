"""What workers do for the tests; they import it from here."""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from types import ModuleType
from typing import Any

from gateway_sdk import GatewaySession
from gateway_sdk.rate_limit import RateLimiter

Path(os.environ.get("JOBS_READ", os.devnull)).read_bytes()  # as a module does that has a file
SYMBOLS = ("USD", "GBP", "JPY", "CHF", "SEK")


class OwnError(Exception):
    """An error of a user, which cannot be made again of its arguments alone."""

    def __init__(self, name: str, *, code: int) -> None:
        super().__init__(name)
        self.code = code


class Panic(BaseException):
    """An error that is no Exception, as those of modules in Rust."""


class Own:
    """An item that only the process can load that has made it."""

    def __init__(self, kind: type[Exception] = ValueError) -> None:
        self.kind = kind

    def __reduce__(self) -> Any:
        return _load, (os.getpid(), self.kind)


def _load(process: int, kind: type[Exception]) -> Own:
    if os.getpid() != process:
        raise kind("canary")
    return Own(kind)


async def rates(gateway: GatewaySession, number: int) -> Any:
    base, symbol = divmod(number, len(SYMBOLS))
    return await gateway.currency.exchange_rate_series(
        f"B{base:05}", SYMBOLS[symbol], "2026-01-01", "2026-01-31"
    )


async def same(gateway: GatewaySession, item: Any) -> Any:
    del gateway
    return item


async def customer(gateway: GatewaySession, number: int) -> Any:
    if number % 2:
        return await rates(gateway, number)
    request: Any = {"person": {"firstName": {"name": f"c{number}"}}}
    return await gateway.customer.create_customer(request)


async def no_token() -> Any:
    return None


async def large(gateway: GatewaySession, number: int) -> str:
    del gateway
    return str(number) * 9_000_000


def _foreign() -> BaseException:
    """Return an error of a module that the program lacks."""
    module: Any = ModuleType("only_there")
    sys.modules["only_there"] = module
    exec("class ThereError(Exception): pass", vars(module))  # noqa: S102 - ours
    error: BaseException = module.ThereError("canary")
    return error


ERRORS: dict[Any, Callable[[], BaseException]] = {
    "value": lambda: ValueError("zero"),
    "key": lambda: KeyError("canary"),
    "own": lambda: OwnError("canary", code=1),
    "lock": lambda: ValueError(threading.Lock()),
    "foreign": _foreign,
    "panic": lambda: Panic("one"),
}


async def failing(gateway: GatewaySession, item: Any) -> Any:
    """Return the item, or raise an error of this name."""
    if item in ERRORS:
        error = ERRORS[item]()
        raise error
    return await same(gateway, item)


async def killing(gateway: GatewaySession, number: int) -> Any:
    if number == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return await timed(gateway, number)


async def endless(gateway: GatewaySession, number: int) -> Any:
    await rates(gateway, number)
    await asyncio.Event().wait()


async def some(gateway: GatewaySession, number: int) -> Any:
    """Never end from the 400th item on."""
    return await (rates if number < 400 else endless)(gateway, number)


async def timed(gateway: GatewaySession, number: int) -> float:
    """Return when the request began to leave, on the clock of this machine."""
    if RateLimiter.begin is _begin:
        RateLimiter.begin = _noted  # type: ignore[method-assign, assignment]
    _begun.set([])
    await rates(gateway, number)
    return _begun.get()[-1]


_begin = RateLimiter.begin
_begun: ContextVar[list[float]] = ContextVar("_begun")


def _noted(limiter: RateLimiter) -> None:
    _begun.get().append(time.monotonic())
    _begin(limiter)


def left() -> int:
    """Return how many sessions a worker has, with their chunks."""
    from gateway_sdk.cluster import _worker  # noqa: PLC0415 - it is called in a worker

    return len(_worker._LANES)
