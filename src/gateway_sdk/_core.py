"""What a session and all its views share: the transport, the state, the calls under way."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Any, Final

import httpx

from gateway_sdk._budget import Bucket, RetryBudget
from gateway_sdk._config import DEFAULT_CUT
from gateway_sdk._engine.factory import EngineConfig, make_transport
from gateway_sdk._log import LogObserver
from gateway_sdk._under_way import CallsUnderWay
from gateway_sdk._watch import LOGGER, SCOPED, Watch
from gateway_sdk._wire.content import ParseFloat
from gateway_sdk.errors import SessionStateError
from gateway_sdk.observer import CallInfo, Observer
from gateway_sdk.operations import Operation

_LOG: Final = LogObserver()


class State(Enum):
    """Where a session is in its life."""

    NEW = "new"
    """Nothing was done yet; the first call opens it."""
    OPEN = "open"
    """Calls are taken."""
    CLOSING = "closing"
    """Calls under way may still end; new ones are refused."""
    CLOSED = "closed"
    """Nothing is left, and it stays so."""


class Core:
    """The part of a session that its views share.

    Attributes:
        base_url: The gateway's address.
        max_reply_bytes: Decompressed bytes of one reply at the most.
        parse_float: What makes a number of a fraction in a reply left open; None for floats.
        sleep: How retries wait.
        state: Where it is in its life.
        calls: Those that are under way.
    """

    def __init__(
        self,
        *,
        base_url: httpx.URL,
        engine: EngineConfig,
        max_reply_bytes: int,
        parse_float: ParseFloat | None,
        drain: float,
        usual_deadline: float | None,
        budget: RetryBudget | None,
        observers: Iterable[Observer],
    ) -> None:
        self.base_url = base_url
        self.max_reply_bytes = max_reply_bytes
        self.parse_float = parse_float
        self.sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
        self.state = State.NEW
        self.calls = CallsUnderWay(usual_deadline)
        self._bucket = None if budget is None else Bucket(budget)
        self._observers = tuple(observers)
        self._number = 0
        self._engine = engine
        self._drain = drain
        self._transport: httpx.AsyncBaseTransport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self._closing: asyncio.Task[None] | None = None
        self._addresses: dict[str, httpx.URL] = {}

    @property
    def tells_what_was_sent(self) -> bool:
        """Whether the transport is one of ours, which sets `Progress.sent` in time."""
        return self._engine.is_ours

    def open(self) -> httpx.AsyncBaseTransport:
        """Return the transport; make it if this is the first use.

        Raises:
            SessionStateError: the session is closed, or belongs elsewhere.
        """
        if self.state in (State.CLOSING, State.CLOSED):
            raise SessionStateError("the session is closed: open a new one")
        if self._engine.http_client is not None and self._engine.http_client.is_closed:
            raise SessionStateError("the session's http_client is closed, by whom it belongs to")
        if self._transport is None:
            self._transport = make_transport(self._engine, self.base_url)
            self._loop = asyncio.get_running_loop()
            self._pid = os.getpid()
            self.state = State.OPEN
        self._check_place()
        return self._transport

    def count(self, operation: Operation[Any]) -> Watch | None:
        """Count a call, and return those who watch it, if anybody does."""
        self._number += 1
        if self._bucket is not None:
            self._bucket.add_call()
        observers = self._observers + SCOPED.get()
        if LOGGER.isEnabledFor(logging.INFO):
            observers = (*observers, _LOG)
        return Watch(observers, CallInfo(operation, self._number)) if observers else None

    def take_retry(self) -> bool:
        """Take a retry out of the budget; False if there is none left."""
        return self._bucket is None or self._bucket.take()

    def address(self, operation: Operation[Any], target: str) -> httpx.URL:
        """Return the whole address of an operation's target, which is already percent-encoded."""
        known = self._addresses.get(target)
        if known is not None:
            return known
        prefix = self.base_url.raw_path.rstrip(b"/")
        address = self.base_url.copy_with(raw_path=prefix + target.encode("ascii"))
        if target == operation.path:  # it never differs, and making it takes 25 µs
            self._addresses[target] = address
        return address

    def _check_place(self) -> None:
        """Refuse another event loop and a child process: connections belong to where they began."""
        if os.getpid() != self._pid:
            raise SessionStateError(
                "the session was opened in the parent process: open a new one after the fork"
            )
        if asyncio.get_running_loop() is not self._loop:
            raise SessionStateError(
                "the session was opened in another event loop: use one session per event loop"
            )

    async def aclose(self) -> None:
        """Refuse new calls, wait a while for those under way, cut the rest, close the transport.

        Whoever closes it too waits for the same end. Cancelling the closing shortens it: the
        calls are cut at once, and nothing stays open.

        Raises:
            SessionStateError: the session belongs to another event loop or process.
        """
        if self._transport is not None and self.state is not State.CLOSED:
            self._check_place()
        if self._closing is None:
            self.state = State.CLOSING
            self._closing = asyncio.create_task(self._close())
        try:
            await asyncio.shield(self._closing)
        except asyncio.CancelledError:
            self._closing.cancel()
            await asyncio.wait([self._closing])
            raise

    async def _close(self) -> None:
        transport = self._transport or self._engine.transport
        try:
            await self.calls.wait(self._drain)
        finally:
            self.calls.cut()
            await self.calls.wait(DEFAULT_CUT)
            self.calls.forget()
            if transport is not None:
                await transport.aclose()
            self.state = State.CLOSED

    def __repr__(self) -> str:
        return f"<Core {self.base_url} ({self.state.value}, {len(self.calls)} calls under way)>"
