"""Waiting for what is logged."""

import asyncio
import logging
from collections.abc import Iterator
from contextlib import contextmanager


class _Listener(logging.Handler):
    """Sets an event when a text has been logged so often."""

    def __init__(self, text: str, times: int) -> None:
        super().__init__()
        self._text = text
        self._left = times
        self.event = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self._left -= self._text in record.getMessage()
        if self._left <= 0:
            self.event.set()


@contextmanager
def heard(text: str, times: int = 1) -> Iterator[asyncio.Event]:
    """Provide an event that is set when the SDK has logged a text so often."""
    listener = _Listener(text, times)
    logging.getLogger("gateway_sdk").addHandler(listener)
    try:
        yield listener.event
    finally:
        logging.getLogger("gateway_sdk").removeHandler(listener)
