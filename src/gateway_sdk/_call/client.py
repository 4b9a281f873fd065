"""What a session and all its views share: the transport, the state, the calls in flight."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, suppress
from enum import Enum
from typing import Any, Final

import httpx

from gateway_sdk._call.events import CONTEXT_OBSERVERS, LogObserver, Watch, check_observers
from gateway_sdk._call.in_flight import CallsInFlight
from gateway_sdk._call.retry import Bucket, RetryBudget
from gateway_sdk._config import DEFAULT_CUT, LOGGER
from gateway_sdk._http.content import ParseFloat
from gateway_sdk._repr import safe_repr
from gateway_sdk._transport.factory import EngineConfig, make_transport
from gateway_sdk._transport.httpx_engine import HttpxEngine
from gateway_sdk.errors import ConfigurationError, SessionStateError
from gateway_sdk.observer import CallInfo, Observer
from gateway_sdk.operations import Operation

_LOG: Final = LogObserver()


class SessionState(Enum):
    """Where a session is in its life."""

    NEW = "new"
    """Not used yet; the first call opens it."""
    OPEN = "open"
    """Calls are accepted."""
    CLOSING = "closing"
    """Calls in flight may still end; new calls are refused."""
    CLOSED = "closed"
    """Closed for good."""


class Client:
    """The part of a session that its views share.

    Attributes:
        base_url: The gateway's address.
        max_reply_bytes: The largest reply, in decompressed bytes.
        parse_float: Converts fractions in replies that the interface leaves open; None for
            floats.
        sleep: Waits before a retry.
        state: Where the session is in its life.
        calls: The calls in flight.
    """

    def __init__(
        self,
        *,
        base_url: httpx.URL,
        engine: EngineConfig,
        max_reply_bytes: int,
        parse_float: ParseFloat | None,
        drain: float,
        budget: RetryBudget | None,
        observers: Iterable[Observer],
    ) -> None:
        self.base_url = base_url
        self.max_reply_bytes = max_reply_bytes
        self.parse_float = parse_float
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self.state = SessionState.NEW
        self.calls = CallsInFlight()
        self._bucket = None if (checked := _checked_budget(budget)) is None else Bucket(checked)
        self._observers = check_observers(observers)
        self._place = _place_of(base_url)
        self._number = 0
        self._engine = engine
        self._drain = drain
        self._transport: httpx.AsyncBaseTransport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._closing: asyncio.Task[None] | None = None
        self._closers = 0
        self._addresses: dict[str, httpx.URL] = {}

    @property
    def tells_what_was_sent(self) -> bool:
        """Whether the transport is one of ours, which sets `Progress.sent` at the right moment."""
        return self._engine.is_ours

    def open(self) -> httpx.AsyncBaseTransport:
        """Return the transport; the first use creates it.

        Raises:
            SessionStateError: the session is closed, or belongs to another event loop or process.
        """
        if self.state in (SessionState.CLOSING, SessionState.CLOSED):
            raise SessionStateError("the session is closed: open a new one")
        if self._engine.http_client is not None and self._engine.http_client.is_closed:
            raise SessionStateError("the http_client of the session was closed by its owner")
        if self._transport is None:
            self._loop = _running_loop()
            self._transport = make_transport(self._engine, self.base_url)
            self._pid = os.getpid()
            self.state = SessionState.OPEN
        self._check_place()
        return self._transport

    async def prepare(self) -> None:
        """Open, and load what the first call would have to wait for.

        Raises:
            SessionStateError: the session is closed, or belongs elsewhere.
        """
        transport = self.open()
        if isinstance(transport, HttpxEngine):
            await transport.prepare()

    def count(self, operation: Operation[Any]) -> Watch | None:
        """Count a call, and return its observers; None if there are none."""
        self._number += 1
        if self._bucket is not None:
            self._bucket.add_call()
        observers = self._observers + CONTEXT_OBSERVERS.get()
        if LOGGER.isEnabledFor(logging.INFO):
            observers = (*observers, _LOG)
        if not observers:
            return None
        return Watch(observers, CallInfo(operation, self._number, *self._place))

    def take_retry(self) -> bool:
        """Take a retry out of the budget; False if none is left."""
        return self._bucket is None or self._bucket.take()

    def address(self, operation: Operation[Any], target: str) -> httpx.URL:
        """Return the whole address of an operation's target, which is already percent-encoded."""
        known = self._addresses.get(target)
        if known is not None:
            return known
        prefix = self.base_url.raw_path.rstrip(b"/")
        address = self.base_url.copy_with(raw_path=prefix + target.encode("ascii"))
        if target == operation.path:  # always the same address, and building it takes 25 µs
            self._addresses[target] = address
        return address

    def _check_place(self) -> None:
        """Refuse another event loop and a child process, which cannot use these connections."""
        if os.getpid() != self._pid:
            raise SessionStateError(
                "the session was opened in the parent process: open a new one after the fork"
            )
        if _running_loop() is not self._loop:
            raise SessionStateError(
                "the session was opened in another event loop: use one session per event loop"
            )

    async def aclose(self) -> None:
        """Refuse new calls, wait for the calls in flight, cut the rest, close the transport.

        Several tasks may close the session: all wait for the same end, and cancelling one does
        not affect the others. When the last of them is cancelled, the calls are cut at once, and
        this task waits until the transport is closed. A second cancellation ends that wait too.

        Raises:
            SessionStateError: the session belongs to another event loop or process.
        """
        if self.state is SessionState.CLOSED:
            return
        _running_loop()
        if self._transport is not None:
            self._check_place()
        self.state = SessionState.CLOSING
        self._closers += 1
        try:
            await self._wait_closed()
        except asyncio.CancelledError:
            if self._closers == 1:
                self.calls.cut()
                with suppress(Exception):  # of the user's transport; the cancellation matters more
                    await self._wait_closed()
            raise
        finally:
            self._closers -= 1

    async def _wait_closed(self) -> None:
        """Wait until the session is closed, in a task of its own that no caller cancels.

        The end of `asyncio.run` may cancel this task before its first step; then a second task
        does the work.
        """
        while self.state is not SessionState.CLOSED:
            if self._closing is None or self._closing.done():
                self._closing = asyncio.create_task(self._close())
                self._closing.add_done_callback(_take_error)
            await asyncio.wait([self._closing])
            if not self._closing.cancelled():
                self._closing.result()

    async def _close(self) -> None:
        """Close the session; each step runs even if the step before it failed."""
        transport = self._transport or self._engine.transport
        async with AsyncExitStack() as steps:
            steps.callback(setattr, self, "state", SessionState.CLOSED)
            if transport is not None:
                steps.push_async_callback(transport.aclose)
            steps.push_async_callback(self.calls.wait, DEFAULT_CUT)
            steps.callback(self.calls.cut)
            await self.calls.drain(self._drain)

    @safe_repr
    def __repr__(self) -> str:
        return f"<Client {self.base_url} ({self.state.value}, {len(self.calls)} calls in flight)>"


def _place_of(base_url: httpx.URL) -> tuple[str, str, int]:
    """Return what observers learn of the gateway: its address, host and port."""
    port = base_url.port or (443 if base_url.scheme == "https" else 80)
    return str(base_url).rstrip("/"), base_url.host, port


def _running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this thread.

    Raises:
        SessionStateError: no event loop of asyncio runs, for example under trio.
    """
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise SessionStateError(
            "gateway_sdk needs asyncio, and no event loop of asyncio runs here: use asyncio.run, "
            "or anyio.run with the backend 'asyncio' in place of trio"
        ) from None


def _take_error(closing: asyncio.Task[None]) -> None:
    """Mark an error as seen: asyncio would report it because no task awaits it."""
    if not closing.cancelled():
        closing.exception()


def _checked_budget(budget: object) -> RetryBudget | None:
    if budget is not None and not isinstance(budget, RetryBudget):
        raise ConfigurationError("retry_budget must be a RetryBudget, or None for no limit")
    return budget
