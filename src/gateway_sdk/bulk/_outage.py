"""Tells an outage from a bad item, and lets one call at a time try whether the outage is over."""

import asyncio
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Final

from gateway_sdk._call.retry import TOO_LONG, retry_after
from gateway_sdk._python import Log
from gateway_sdk.bulk.results import Outage
from gateway_sdk.errors import (
    ConnectionFailedError,
    GatewayError,
    OutageError,
    ServerError,
    StatusError,
)
from gateway_sdk.outcome import Advice, Repeatability

_logger = Log("gateway_sdk.bulk")

LATER_ROUNDS: Final = 2
"""How often an item is tried again, later in the run, before its failure is its result."""

_IN_A_ROW: Final = 5
"""Different items that fail one after the other, with no success between them, are an outage."""

_FIRST_PAUSE: Final = 1.0
"""Seconds before the first call that tries; each that fails doubles them."""

_LONGEST_PAUSE: Final = 30.0
"""Seconds at which the doubling stops: then a gateway that is back is seen within them."""

MAY_PASS: Final = frozenset({Advice.REPEAT, Advice.LOG_IN})


def may_pass(error: GatewayError) -> bool:
    """Tell whether the cause may pass, also where the call must not be made again."""
    if error.advice is Advice.CHECK:
        error = copy(error)
        error.repeatability = Repeatability.READ
    return error.advice in MAY_PASS


@dataclass(eq=False)
class Outages:
    patience: float | None
    changed: Callable[[Outage | None], None]
    wake: Callable[[], None]
    end: Callable[[GatewayError], None]
    now: Outage | None = None
    allows_call: bool = True  # any, or the one that tries whether the outage is over
    _failed: int = 0  # items in a row
    _ends: float = inf  # when the patience does, by the loop's clock
    _pause: float = 0.0
    _timers: list[asyncio.TimerHandle] = field(default_factory=list)

    def take_probe(self) -> bool:
        """Note that a call begins; True if it is the one that tries."""
        self.allows_call = self.now is None
        return not self.allows_call

    def works(self, error: BaseException | None) -> bool:
        """Tell whether the end of a call proves that the gateway works."""
        if error is None:
            return True
        if not isinstance(error, StatusError) or isinstance(error, ServerError):
            return False
        return error.advice is not Advice.LOG_IN and not self.asks_too_long(error)

    def asks_too_long(self, error: GatewayError) -> bool:
        """Tell whether the gateway asks for a longer wait than the session, or the run, waits."""
        return error.no_retry == TOO_LONG or retry_after(error) > (self.patience or inf)

    def failed(self, error: GatewayError, failures: int, *, is_first: bool) -> bool:
        """Tell whether the failure of an item is its result; those in outages are not counted."""
        if self.now is not None:
            return False
        # An item that fails again says nothing of the others: it may be a bad one.
        self._failed += is_first
        is_last = failures > LATER_ROUNDS or retry_after(error) > (self.patience or inf)
        # That there is no connection cannot be the item's fault.
        is_away = is_last and isinstance(error, ConnectionFailedError)
        is_told = error.advice is Advice.LOG_IN or (self.asks_too_long(error) and not is_last)
        if self._failed >= _IN_A_ROW or is_away or is_told:
            self._begin(error)
            return False
        return is_last

    def _begin(self, error: GatewayError) -> None:
        self.now, self.allows_call = Outage(error, datetime.now(UTC)), False
        _logger.warning("a bulk run waits, because of: %s", str(error))
        self._pause = _FIRST_PAUSE / 2
        if self.patience is not None:
            self._ends = asyncio.get_running_loop().time() + self.patience
            why = f"there was no success for {self.patience:g} s"
            self._in(self.patience, partial(self._give_up, self.now, why))
        self.changed(self.now)
        self.probe_failed(error)

    def probe_failed(self, error: BaseException) -> None:
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        asked = retry_after(error)
        self._in(max(self._pause, asked), self._let_one_try)
        if asked and self.now and asked >= self._ends - asyncio.get_running_loop().time():
            why = f"the gateway asks for a wait of {asked:g} s, longer than patience allows"
            self._in(0, partial(self._give_up, self.now, why))

    def _in(self, seconds: float, what: Callable[[], None]) -> None:
        self._timers.append(asyncio.get_running_loop().call_later(seconds, what))

    def _let_one_try(self) -> None:
        self.allows_call = True
        self.wake()

    def _give_up(self, outage: Outage, why: str) -> None:
        error = OutageError(
            f"{why}, since {outage.since:%H:%M:%S} UTC: {outage.error.summary}; the other items "
            "were not fetched"
        )
        if outage.error.advice is Advice.LOG_IN:
            error.advice = Advice.LOG_IN
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
        self.now, self.allows_call = None, True
        while self._timers:
            self._timers.pop().cancel()
