"""Read a Retry-After. No I/O here."""

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

_SECONDS: Final = re.compile(r"[0-9]{1,10}(\.[0-9]{1,10})?")


def parse_retry_after(value: str, now: datetime) -> float | None:
    """Return the seconds that a Retry-After asks for (RFC 9110, 10.2.3), a date in the past as 0.

    None if the header is absent or makes no sense.
    """
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    try:
        date = parsedate_to_datetime(value)
        return max(0.0, (date.replace(tzinfo=date.tzinfo or UTC) - now).total_seconds())
    except (OverflowError, TypeError, ValueError):
        return None
