"""Wait for a store that does not answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from gateway_sdk.errors import PlanStoreError

_logger = logging.getLogger("gateway_sdk")

T = TypeVar("T")

PATIENCE: Final = 60.0
"""Seconds that a store may take to come back: a database is restarted in less."""

_FIRST_WAIT: Final = 0.1
_LONGEST_WAIT: Final = 2.0
"""Seconds between two attempts; they double."""


async def outlast(
    attempt: Callable[[], Awaitable[T]],  # may be called again after any error of an outage
    *,
    is_outage: Callable[[Exception], bool],
    what: str,  # as messages name the store; without credentials
    patience: float = PATIENCE,
) -> T:
    """Call a coroutine function until its error is none of an outage, or for *patience* seconds."""
    clock = asyncio.get_running_loop().time
    end, wait = clock() + patience, _FIRST_WAIT
    while True:
        try:
            value = await attempt()
        except Exception as error:
            if not is_outage(error):
                raise
            if clock() + wait > end:
                raise PlanStoreError(
                    f"{what} has not answered for {patience:g} s ({type(error).__name__}): what is"
                    " stored stays, and the rest is done when the chunk is delivered again"
                ) from None
            if wait == _FIRST_WAIT:
                _logger.warning("%s does not answer (%s): waiting", what, type(error).__name__)
        else:
            if wait > _FIRST_WAIT:
                _logger.warning("%s answers again", what)
            return value
        await asyncio.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)
