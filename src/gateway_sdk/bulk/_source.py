"""The source of the items: an iterable or an asynchronous iterable."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable, Sized
from typing import Final, Generic, cast

from gateway_sdk.bulk.results import Item
from gateway_sdk.errors import GatewayError, InvalidArgumentError

_TURNS: Final = 5
"""Turns of the event loop in which an asynchronous iterable that need not wait gives an item."""


class Source(Generic[Item]):
    """An ordinary iterable."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.error: BaseException | None = None  # of the iterable
        self.ended = False
        self.is_asked = False  # an iterable that has an item gives it within a few turns
        self._has_end = isinstance(items, Sized)
        self._iterator = iter(items)

    def next(self) -> tuple[Item] | None:
        if self.ended:
            return None
        try:
            return (next(self._iterator),)
        except StopIteration:
            self.give_up()
        except Exception as error:  # noqa: BLE001 - raised when the calls in flight have ended
            self.give_up(error)
        return None

    def give_up(self, error: BaseException | None = None) -> None:
        self.error = self.error or error
        self.ended = True

    def expire(self) -> None:
        """The deadline has passed, or the run is closed: read no further what may have no end."""
        self.ended = self.ended or not self._has_end

    async def aclose(self) -> None: ...


class AsyncSource(Source[Item]):
    def __init__(self, items: AsyncIterable[Item], wake: Callable[[], None]) -> None:
        super().__init__(())
        self._items = items
        self._wake = wake
        self._wanted = asyncio.Event()
        self._ready: tuple[Item] | None = None
        self._reading: asyncio.Task[None] | None = None

    def next(self) -> tuple[Item] | None:
        if self._reading is None:
            # One task: a generator may use things that belong to a task, such as time-outs.
            self._reading = asyncio.create_task(self._read())
        ready, self._ready = self._ready, None
        if ready is None and not self.ended and not self._wanted.is_set():
            self._wanted.set()
            self.is_asked = True
            self._count_down(_TURNS)
        return ready

    def _count_down(self, turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._count_down, turns - 1)
        elif self.is_asked:
            self.is_asked = False
            self._wake()

    def _offer(self, item: Item) -> None:
        if self.ended:
            raise asyncio.CancelledError  # again, because the iterable has dropped it
        self._wanted.clear()
        self.is_asked = False
        self._ready = (item,)
        self._wake()

    async def _read(self) -> None:
        items: AsyncIterator[Item] | None = None
        try:
            await self._wanted.wait()
            items = aiter(self._items)
            async for item in items:
                self._offer(item)
                await self._wanted.wait()
        except asyncio.CancelledError:
            if self._reading is None or self._reading.cancelling():
                raise
            # Something that the iterable waited for: without an error, items would be missing.
            error = GatewayError("items was cancelled from within, so some may be missing")
            self.error = self.error or error
        except BaseException as error:  # noqa: BLE001 - as for an ordinary iterable
            self.error = self.error or error
        finally:
            self.ended = True
            self._wake()
            if isinstance(items, AsyncGenerator):
                await cast("AsyncGenerator[Item, None]", items).aclose()

    def expire(self) -> None:
        self.ended = True
        if self._reading is not None:
            self._reading.cancel()

    async def aclose(self) -> None:
        if self._reading is not None:
            await asyncio.gather(self._reading, return_exceptions=True)


def make_source(
    items: Iterable[Item] | AsyncIterable[Item], wake: Callable[[], None]
) -> Source[Item]:
    if isinstance(items, str | bytes):
        raise InvalidArgumentError("items is a single string: give a list of items")
    if isinstance(items, AsyncIterable):
        return AsyncSource(items, wake)
    if isinstance(items, Iterable):
        return Source(items)
    raise InvalidArgumentError("items must be an iterable, or an asynchronous one")
