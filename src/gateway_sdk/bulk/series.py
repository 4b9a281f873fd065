"""Helpers for countries, and for replies with exchange rates."""

from collections.abc import Iterable
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from gateway_sdk.models.records import Country, iso_date


def currencies_of(countries: Iterable[Country]) -> list[str]:
    """Return the currencies of countries, each once.

    Returns:
        The codes of the gateway, in alphabetical order; a country without a code adds nothing.
        Empty if there are no countries.
    """
    return sorted({it.currency for it in countries if it.currency and it.currency.strip()})


class RateRow(NamedTuple):
    """One rate of one day: the units of *symbol* for one unit of *base*.

    A rate that the reply has as a text is a Decimal.
    """

    base: str
    symbol: str
    date: date
    rate: Any


def rate_rows(reply: object, *, base: str) -> list[RateRow] | None:
    """Make rows of the reply to a request for a series, if it has the usual shape.

    The interface leaves the reply open. The usual shape is that of the sandbox: an object with
    the member "rates", which maps ISO 8601 dates to objects of numbers by symbol. A number may be
    a text, as in a reply that was read from a journal.

    Args:
        reply: The value that `exchange_rate_series` returned.
        base: The base of the request, for a reply that does not name a base.

    Returns:
        The rows, sorted by date; rows of one date are in the order of the reply. Empty without
        rates; None if the reply has another shape.
    """
    given: Any = reply
    try:
        named = given.get("base")
        days = {iso_date("date", day): quotes for day, quotes in given["rates"].items()}
        rows = [
            RateRow(named or base, symbol, day, _rate(rate))
            for day, quotes in sorted(days.items())
            for symbol, rate in quotes.items()
        ]
    except (AttributeError, ArithmeticError, KeyError, TypeError, ValueError):
        return None
    return rows if isinstance(named, str | None) else None


def _rate(value: Any) -> Any:
    """Read a number; a text becomes a decimal, with all its digits."""
    number: Any = Decimal(value) if isinstance(value, str) else value
    is_number = hasattr(number, "__float__") and not isinstance(number, bool)
    if not is_number or (isinstance(number, Decimal) and not number.is_finite()):
        msg = "no number"
        raise ValueError(msg)
    return number
