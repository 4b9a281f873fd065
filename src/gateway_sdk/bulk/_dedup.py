"""Equal items: the results that are known already."""

from collections.abc import Callable
from dataclasses import replace
from typing import Generic

from gateway_sdk.bulk._digests import digest_of
from gateway_sdk.bulk._watch import ItemWatch
from gateway_sdk.bulk.results import BulkResult, Item, Value

Key = Callable[[Item], object]


class Dedup(Generic[Item, Value]):
    """Keeps no results: all items are different."""

    async def open(self) -> None:
        """Prepare; called before the first item is taken."""

    async def aclose(self) -> None:
        """Release everything."""

    def digest(self, item: Item) -> bytes | None:
        """Return a digest, which equal items share; None if all items are different."""
        del item
        return None

    def recall(self, item: Item, digest: bytes | None) -> BulkResult[Item, Value] | None:
        """Return the result of an equal item that has ended; None if there is none."""
        del item, digest
        return None

    async def record_intent(self, item: Item, digest: bytes | None) -> bool:
        """Record that a request that must not be sent twice is about to be sent for the item.

        May be called several times for an item. The request is sent after this returns True; it
        is not sent after False, because it may have been sent before.

        Raises:
            JournalError: it cannot be recorded, so the request must not be sent.
        """
        del item, digest
        return True

    def ended(
        self, digest: bytes | None, result: BulkResult[Item, Value], watch: ItemWatch
    ) -> BulkResult[Item, Value]:
        """Take note of a result, and return what is to be said of the item."""
        del digest, watch
        return result

    def interrupted(
        self, digest: bytes | None, result: BulkResult[Item, Value], watch: ItemWatch
    ) -> None:
        """Record an item whose call was ended early, by the deadline or by closing the run."""


class Memory(Dedup[Item, Value]):
    """Keeps the result of each key until the run ends."""

    def __init__(self, key: Key[Item]) -> None:
        self._key = key
        self._results: dict[bytes, BulkResult[Item, Value]] = {}

    def digest(self, item: Item) -> bytes | None:
        """Return the digest of the item's key."""
        return digest_of(self._key(item))

    def recall(self, item: Item, digest: bytes | None) -> BulkResult[Item, Value] | None:
        """Return the result of the first item with this key, as this item's."""
        known = self._results.get(digest or b"")
        return known and replace(known, item=item)

    def ended(
        self, digest: bytes | None, result: BulkResult[Item, Value], watch: ItemWatch
    ) -> BulkResult[Item, Value]:
        """Keep a result."""
        del watch
        self._results[digest or b""] = result
        return result
