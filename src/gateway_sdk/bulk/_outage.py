"""Tells an outage from a bad item, and lets one call at a time try whether the outage is over."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Final

from gateway_sdk.bulk.results import Outage
from gateway_sdk.errors import (
    ConnectionFailedError,
    GatewayError,
    OutageError,
    ServerError,
    StatusError,
)
from gateway_sdk.outcome import Advice

_logger = logging.getLogger("gateway_sdk.bulk")

LATER_ROUNDS: Final = 2
"""How often an item is tried again, later in the run, before its failure is its result."""

_IN_A_ROW: Final = 5
"""Different items that fail one after the other, with no success between them, are an outage."""

_FIRST_PAUSE: Final = 1.0
"""Seconds before the first call that tries; each that fails doubles them."""

_LONGEST_PAUSE: Final = 30.0
"""Seconds at which the doubling stops: then a gateway that is back is seen within them."""


def was_answered(error: BaseException) -> bool:
    """Tell whether an error proves that the gateway works."""
    if not isinstance(error, StatusError) or isinstance(error, ServerError):
        return False
    return error.advice is not Advice.LOG_IN


@dataclass(eq=False)
class Outages:
    patience: float | None
    changed: Callable[[Outage | None], None]
    wake: Callable[[], None]
    end: Callable[[GatewayError], None]
    now: Outage | None = None
    _failed: int = 0  # items in a row
    _pause: float = 0.0
    _timers: list[asyncio.TimerHandle] = field(default_factory=list)
    _is_due: bool = False

    @property
    def allows_call(self) -> bool:
        """Whether a call may begin: any, or the one that tries whether the outage is over."""
        return self.now is None or self._is_due

    def take_probe(self) -> bool:
        """Note that a call begins; True if it is the one that tries."""
        is_probe, self._is_due = self._is_due, False
        return is_probe

    def failed(self, error: GatewayError, failures: int, *, is_first: bool) -> bool:
        """Tell whether the failure of an item is its result; those in outages are not counted."""
        if self.now is not None:
            return False
        # An item that fails again says nothing of the others: it may be a bad one.
        self._failed += is_first
        is_last = failures > LATER_ROUNDS
        # That there is no connection cannot be the item's fault.
        is_away = is_last and isinstance(error, ConnectionFailedError)
        if self._failed >= _IN_A_ROW or is_away or error.advice is Advice.LOG_IN:
            self._begin(error)
            return False
        return is_last

    def _begin(self, error: GatewayError) -> None:
        self.now = Outage(error, datetime.now(UTC))
        _logger.warning("a bulk run waits, because of: %s", error)
        self._pause = _FIRST_PAUSE / 2
        self.probe_failed()
        if self.patience is not None:
            self._in(self.patience, partial(self._give_up, self.now))
        self.changed(self.now)

    def probe_failed(self) -> None:
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        self._in(self._pause, self._let_one_try)

    def _in(self, seconds: float, what: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(seconds, what))

    def _let_one_try(self) -> None:
        self._is_due = True
        self.wake()

    def _give_up(self, outage: Outage) -> None:
        error = OutageError(
            f"there was no success for {self.patience:g} s, since {outage.since:%H:%M:%S} UTC: "
            f"{outage.error.summary}; the other items were not fetched"
        )
        error.advice = outage.error.advice
        error.__cause__ = outage.error
        self.end(error)

    def over(self) -> None:
        """Note that a call was answered: all that wait go on."""
        self._failed = 0
        if self.now is not None:
            self.close()
            _logger.warning("a bulk run goes on")
            self.changed(None)
            self.wake()

    def close(self) -> None:
        self.now, self._is_due = None, False
        while self._timers:
            self._timers.pop().cancel()
