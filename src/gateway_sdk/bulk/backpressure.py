"""A gateway that has too much to do: how long an item waits before it is tried again."""

import random
from typing import Final

from gateway_sdk.bulk.watch import ItemWatch
from gateway_sdk.errors import RateLimitedError

_FIRST_WAIT: Final = 0.5
"""Seconds, where the gateway does not say how long to wait: those of `RetryPolicy.backoff`. It
doubles with each refusal of the item."""

_LONGEST_WAIT: Final = 30.0
"""Seconds that the doubling stops at: an item is then tried twice a minute."""

_SPREAD: Final = 1.0
"""Seconds at the most that are added at random, so that items do not come back together."""


class Waits:
    """The waits of one item after refusals with 429.

    Args:
        watch: What the item's calls did.
        patience: Seconds that the item may wait in all; None for no bound.
    """

    def __init__(self, watch: ItemWatch, patience: float | None) -> None:
        self._watch = watch
        self._patience = patience
        self._backoff = _FIRST_WAIT
        self._waited = 0.0

    def after(self, error: RateLimitedError) -> float | None:
        """Return the seconds to wait before the item is tried again; None if it must not be.

        Never less than the gateway asked for.
        """
        if not self._watch.may_begin_again(error):
            return None
        asked = self._backoff if error.retry_after is None else error.retry_after
        self._backoff = min(2 * self._backoff, _LONGEST_WAIT)
        # Not for secrets: it only spreads the items out.
        wait = asked + random.random() * min(max(asked, _FIRST_WAIT), _SPREAD)  # noqa: S311
        self._waited += wait
        if self._patience is not None and self._waited > self._patience:
            return None
        return wait
