"""The currency area's model."""

import re
from datetime import date, timedelta
from typing import Final, Self

from gateway_sdk.models._base import RequestModel

_ISO_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


class ExchangeRateSeriesRequest(RequestModel):
    """Which rates are asked for, over which days.

    The interface gives no format for any of the four, so none is enforced.
    """

    # Interface: Exchange rate series request
    base: str
    symbols: str
    start_date: str
    end_date: str

    def split(self, *, days: int) -> list[Self]:
        """Cut a long range of days into consecutive requests of so many days each.

        Args:
            days: Of each request but the last, which may have fewer; at least 1.

        Returns:
            The requests, the earliest first; together they ask for each day once. At least one.

        Raises:
            ValueError: a date is no ISO 8601 date, such as 2026-01-31; the range ends before it
                starts; or *days* is no whole number of at least 1.
        """
        if isinstance(days, bool) or not isinstance(days, int) or days < 1:
            msg = "days must be a whole number of at least 1"
            raise ValueError(msg)
        first, last = iso_date("start_date", self.start_date), iso_date("end_date", self.end_date)
        if last < first:
            msg = f"end_date {last} is before start_date {first}"
            raise ValueError(msg)
        longest = (last - first).days
        return [
            self.model_copy(
                update={
                    "start_date": str(first + timedelta(days=begin)),
                    "end_date": str(first + timedelta(days=min(begin + days - 1, longest))),
                }
            )
            for begin in range(0, longest + 1, days)
        ]


def iso_date(name: str, text: str) -> date:
    """Read a date in ISO 8601, written out with hyphens.

    Raises:
        ValueError: it is none; the message has its name.
    """
    try:
        if _ISO_DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    msg = f"{name} is no date in ISO 8601, such as 2026-01-31"
    raise ValueError(msg)
