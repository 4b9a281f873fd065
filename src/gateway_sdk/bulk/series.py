"""Helpers for countries, and for replies with exchange rates."""

from collections.abc import Iterable
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, PlainValidator, ValidationError

from gateway_sdk.models.records import Country, iso_date


def currencies_of(countries: Iterable[Country]) -> list[str]:
    """Return the currencies of countries, each once.

    Returns:
        The codes of the gateway, in alphabetical order; a country without a code adds nothing.
        Empty if there are no countries.
    """
    return sorted({it.currency for it in countries if it.currency and it.currency.strip()})


def _day(text: object) -> date:
    return iso_date("date", text if isinstance(text, str) else "")


def _number(value: object) -> object:
    """Read a rate; a text becomes a decimal, with all its digits."""
    try:
        number: Any = Decimal(value) if isinstance(value, str) else value
    except InvalidOperation:
        number = None
    is_number = hasattr(number, "__float__") and not isinstance(number, bool)
    if not is_number or (isinstance(number, Decimal) and not number.is_finite()):
        msg = "no number"
        raise ValueError(msg)
    return number


class _Reply(BaseModel):
    base: str | None = None
    rates: dict[
        Annotated[date, PlainValidator(_day)], dict[str, Annotated[Any, PlainValidator(_number)]]
    ]


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
    try:
        shaped = _Reply.model_validate(reply, strict=True)
    except ValidationError:
        return None
    return [
        RateRow(shaped.base or base, symbol, day, rate)
        for day, quotes in sorted(shaped.rates.items())
        for symbol, rate in quotes.items()
    ]
