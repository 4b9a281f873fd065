"""Where items come from: an iterable, or an asynchronous one."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from typing import Generic, cast

from gateway_sdk.bulk.results import Item
from gateway_sdk.errors import InvalidArgumentError


class Source(ABC, Generic[Item]):
    """The items, until there are no more or taking one fails.

    Attributes:
        error: What taking an item raised; None as long as all is well.
        ended: Whether there are no more.
    """

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.ended = False

    @abstractmethod
    def next(self) -> tuple[Item] | None:
        """Return the next item in a tuple of its own, or None if there is none at hand."""

    def give_up(self, error: Exception | None = None) -> None:
        """Take no more items."""
        self.error = self.error or error
        self.ended = True

    def expire(self) -> None:
        """Wait for no more items; those that are there are still to be had."""

    async def aclose(self) -> None:
        """Leave nothing running."""


class PlainSource(Source[Item]):
    """An ordinary iterable."""

    def __init__(self, items: Iterable[Item]) -> None:
        super().__init__()
        self._iterator = iter(items)

    def next(self) -> tuple[Item] | None:
        """Take the next item, unless there is none."""
        if self.ended:
            return None
        try:
            return (next(self._iterator),)
        except StopIteration:
            self.give_up()
        except Exception as error:  # noqa: BLE001 - raised when the calls under way have ended
            self.give_up(error)
        return None


class AsyncSource(Source[Item]):
    """An asynchronous iterable, read an item at a time by one task of its own.

    One task, because an asynchronous generator may hold what belongs to its task, as time-outs do.
    """

    def __init__(self, items: AsyncIterable[Item], wake: Callable[[], None]) -> None:
        super().__init__()
        self._items = items
        self._wake = wake
        self._wanted = asyncio.Event()
        self._ready: tuple[Item] | None = None
        self._reading: asyncio.Task[None] | None = None

    def next(self) -> tuple[Item] | None:
        """Return the item that has come, or ask for one."""
        if self._reading is None:
            self._reading = asyncio.create_task(self._read())
        ready, self._ready = self._ready, None
        if ready is None and not self.ended:
            self._wanted.set()
        return ready

    async def _read(self) -> None:
        try:
            await self._wanted.wait()
            async for item in self._items:
                self._wanted.clear()
                self._ready = (item,)
                self._wake()
                await self._wanted.wait()
        except Exception as error:  # noqa: BLE001 - as for an ordinary iterable
            self.give_up(error)
        finally:
            self.ended = True
            self._wake()
            if isinstance(items := self._items, AsyncGenerator):
                await cast("AsyncGenerator[Item, None]", items).aclose()

    def give_up(self, error: Exception | None = None) -> None:
        """Take no more items, also not the one that has come."""
        super().give_up(error)
        self._ready = None
        self.expire()

    def expire(self) -> None:
        """Stop waiting for the next item: when it comes is up to others."""
        self.ended = True
        if self._reading is not None and self._reading is not asyncio.current_task():
            self._reading.cancel()

    async def aclose(self) -> None:
        """End the task that reads."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)


def make_source(
    items: Iterable[Item] | AsyncIterable[Item], wake: Callable[[], None]
) -> Source[Item]:
    """Choose how items are read.

    Raises:
        InvalidArgumentError: they cannot be, or are a string, whose letters nobody means.
    """
    if isinstance(items, str | bytes):
        raise InvalidArgumentError("items is a single string: give a list of items")
    if isinstance(items, AsyncIterable):
        return AsyncSource(items, wake)
    if isinstance(items, Iterable):
        return PlainSource(items)
    raise InvalidArgumentError("items must be an iterable, or an asynchronous one")
