"""What a session and all its views share: the transport, the state, the settings of all calls."""

import asyncio
import os
import sys
import warnings
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from importlib import import_module
from traceback import FrameSummary, extract_stack
from typing import Annotated, Any, ClassVar, Final, Literal, TypedDict
from weakref import WeakSet

import httpx

from gateway_sdk import retry_policy
from gateway_sdk._call import deadline
from gateway_sdk._call.events import ITEMS, LogObserver, Watch, check_observers
from gateway_sdk._call.retry import Bucket, bucket_of
from gateway_sdk._checks import check_count, check_switch, check_wait, checked, declared, is_async
from gateway_sdk._http.reply import ParseFloat
from gateway_sdk._python import INFO, is_logged, with_added
from gateway_sdk._transport.settings import EngineConfig
from gateway_sdk._transport.through_httpx import client_closed
from gateway_sdk._transport.transmission import Transport
from gateway_sdk._url import parse_base_url, port_of
from gateway_sdk._waiting import OwnCancellation, SingleFlight, end_all, in_thread
from gateway_sdk.auth.source import FunctionTokenSource, TokenSource
from gateway_sdk.errors import ConfigurationError, misused
from gateway_sdk.observer import CallInfo, Observer
from gateway_sdk.operations import Operation
from gateway_sdk.outcome import Advice
from gateway_sdk.retry_policy import RetryBudget

_LOG: Final = LogObserver()


def _check_parse_float(name: str, function: object) -> object:
    if function is not None and not callable(function):
        raise ConfigurationError("must be a function of a string, such as Decimal", setting=name)
    return function


def _check_sleep(name: str, function: object) -> object:
    if function is None:
        return retry_policy.default_sleep
    if not is_async(function):
        raise ConfigurationError("must be a coroutine function of seconds", setting=name)
    return function


class SharedSettings(TypedDict, total=False):
    """The settings that all views of a session share."""

    retry_budget: Annotated[RetryBudget | None, RetryBudget(), bucket_of]
    allow_insecure_http: Annotated[bool, False, check_switch]
    # Decompressed: much more than a page of orders, much less than the memory of a worker.
    max_reply_bytes: Annotated[int, 64 * 2**20, check_count]
    parse_float: Annotated[ParseFloat | None, None, _check_parse_float]
    # Seconds that closing waits for calls in flight: Kubernetes gives a process 30 to end.
    drain: Annotated[float, 5.0, check_wait]
    observers: Annotated[Iterable[Observer], (), check_observers]
    sleep: Annotated[Callable[[float], Awaitable[None]] | None, None, _check_sleep]


SHARED: Final = declared(SharedSettings)


def _load_models() -> None:
    """Load what calls need: in the middle of one, a process may have no descriptors left."""
    for name in ("models.records", "models.customer", "_content.body", "_http.exact"):
        import_module(f"gateway_sdk.{name}")


class SharedState:
    has_models: ClassVar = False  # of this process: pydantic takes 30 ms for its first ones

    def __init__(self, base_url: object, settings: Mapping[str, Any]) -> None:
        given = checked(SHARED, settings)
        self.base_url: httpx.URL = parse_base_url(
            base_url, allow_insecure_http=given["allow_insecure_http"]
        )
        self._engine = EngineConfig.of(settings)
        # Whether the transport sets `Transmission.sent`.
        self.tells_what_was_sent: bool = self._engine.is_ours
        self.max_reply_bytes: int = given["max_reply_bytes"]
        self.parse_float: ParseFloat | None = given["parse_float"]
        self.sleep: Callable[[float], Awaitable[None]] = given["sleep"]
        self.calls: deadline.CallsInFlight = deadline.CallsInFlight()
        self._bucket: Bucket | None = given["retry_budget"]
        self.observers: tuple[Observer, ...] = with_added(given["observers"])
        url = self.base_url
        self._place = str(url).rstrip("/"), url.host, port_of(url)
        self._sources = WeakSet[FunctionTokenSource]()  # of all views
        self._number = 0
        self._drain: float = given["drain"]
        self._transport: Transport | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self.is_prepared = False  # what is slow is loaded
        start = partial(in_thread, "gateway_sdk models", _load_models, daemon=False)
        self._models = SingleFlight(start)
        self._closing: SingleFlight[None] | None = None  # made at the end: it is a cycle
        # The first call opens it. While it is closing, calls in flight may end; others are refused.
        self.state: Literal["new", "open", "closing", "closed"] = "new"
        self._closers = 0
        # Without the lines of code, which may hold a token.
        frames: list[FrameSummary] = extract_stack(limit=6) if sys.flags.dev_mode else []
        self._made_at = "".join(f"\n  made at {one.filename}:{one.lineno}" for one in frames)

    # Bound here: when the interpreter ends, the modules lose their names, one after the other.
    def __del__(self, is_ending: Callable[[], bool] = sys.is_finalizing) -> None:
        is_connected = getattr(vars(self).get("_transport"), "is_connected", False)
        if not is_ending() and is_connected and os.getpid() == self._process:
            warnings.warn(
                f"the session of {self.base_url} was not closed: use `async with`, or await its "
                f"aclose(); those of a view do not close it{self._made_at}",
                ResourceWarning,
                source=self,
                stacklevel=1,
            )

    def open(self) -> Transport:
        """Return the transport; the first use creates it."""
        if self.state in ("closing", "closed"):
            closed = misused("the session is closed: open a new one")
            closed.advice = Advice.REPEAT
            raise closed
        if (client := self._engine.http_client) is not None and client.is_closed:
            raise client_closed()
        if self._transport is None:
            # Here: a program that makes no call does not load what opens connections.
            from gateway_sdk._transport.gateway_transport import make_transport  # noqa: PLC0415

            self._loop = _running_loop()
            self._transport = make_transport(self._engine, self.base_url)
            self._process = os.getpid()
            self.state = "open"
        self._check_place()
        return self._transport

    async def prepare(self) -> None:
        """Load what is slow to load, for all calls that wait; the loop goes on."""
        await self.open().prepare()
        if self.tells_what_was_sent and not SharedState.has_models:
            with suppress(RuntimeError):  # no thread can be started
                await self._models.join()
                SharedState.has_models = True
        self.is_prepared = True

    def note_source(self, source: TokenSource) -> None:
        if isinstance(source, FunctionTokenSource):
            self._sources.add(source)  # its question goes on without its caller

    def begin_call(self, operation: Operation[Any]) -> Watch | None:
        self._number += 1
        if self._bucket is not None:
            self._bucket.calls += 1
        observers = self.observers
        if items := ITEMS.get():
            observers = (*observers, *(item for item in items if item.is_open))
        if is_logged(INFO):
            observers = (*observers, _LOG)
        if not observers:
            return None
        return Watch(observers, CallInfo(operation, self._number, *self._place))

    def take_retry(self) -> bool:
        """Take a retry out of the budget, or out of that of a bulk run; False if none is left."""
        if self._bucket is None:
            return True
        runs = [item for item in ITEMS.get() if item.is_open]
        return runs[-1].take_retry() if runs else self._bucket.take()

    def _check_place(self) -> None:
        if os.getpid() != self._process:
            raise misused(
                "the session was opened in the parent process: open a new one after the fork"
            )
        if _running_loop() is not self._loop:
            raise misused(
                "the session was opened in another event loop: use one session per event loop"
            )

    async def aclose(self) -> None:
        # Several tasks may close the session: all wait for the same end, and cancelling one does
        # not affect the others. When the last of them is cancelled, the calls are cut at once,
        # and this task waits until the transport is closed. A second cancellation ends that wait
        # too.
        if self.state == "closed":
            return
        _running_loop()  # without one, asyncio.to_thread would not say what to do
        if self._transport is not None:
            self._check_place()
        self.state = "closing"
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
        # Code that cancels all tasks, as the end of `asyncio.run` does, may cancel the closing
        # before its first step; then a second one does the work.
        self._closing = self._closing or SingleFlight(self._close)
        own = OwnCancellation()  # a task that is cancelled leaves `async with`, too
        while self.state != "closed":
            try:
                await self._closing.join()
            except asyncio.CancelledError:
                if own.is_of_others:
                    raise

    async def _close(self) -> None:
        transport = self._transport or self._engine.transport
        try:
            ends_at = (loop := asyncio.get_running_loop()).time() + self._drain
            await self.calls.end(self._drain)
            questions = [asked for source in self._sources for asked in source.question.open()]
            await end_all(questions, max(0.0, ends_at - loop.time()), deadline.DEFAULT_CUT)
        finally:
            try:
                if transport is not None:
                    await transport.aclose()
            finally:
                self.state = "closed"


def _running_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise misused(
            "gateway_sdk needs asyncio, and no event loop of asyncio runs here: use asyncio.run, "
            "or anyio.run with the backend 'asyncio' in place of trio"
        ) from None
