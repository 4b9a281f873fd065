"""What is often made of countries, and of replies with exchange rates."""

from collections.abc import Iterable
from datetime import date
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, PlainValidator, ValidationError

from gateway_sdk.models.country import Country
from gateway_sdk.models.currency import iso_date


def currencies_of(countries: Iterable[Country]) -> list[str]:
    """Return the currencies that countries use, each once.

    Returns:
        The codes as the gateway has them, in alphabetical order; a country without one adds
        nothing. Empty if there are no countries.
    """
    return sorted({country.currency for country in countries if country.currency.strip()})


def _strict_day(text: object) -> date:
    """Read a date that a reply has as the name of its rates."""
    if not isinstance(text, str):
        msg = "no date"
        raise ValueError(msg)  # noqa: TRY004 - what pydantic expects
    return iso_date("date", text)


def _number(value: object) -> object:
    """Leave a number as it is, whichever type `parse_float=` gave it."""
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        msg = "no number"
        raise ValueError(msg)
    return value


class _Reply(BaseModel):
    """The usual shape of a reply."""

    base: str | None = None
    rates: dict[
        Annotated[date, PlainValidator(_strict_day)],
        dict[str, Annotated[Any, PlainValidator(_number)]],
    ]


class RateRow(NamedTuple):
    """One rate of one day: so many units of a symbol for one unit of the base."""

    base: str
    symbol: str
    date: date
    rate: Any


def rate_rows(reply: object, *, base: str) -> list[RateRow] | None:
    """Make rows of the reply to a request for a series, if it has the usual shape.

    The interface leaves the reply open. The usual shape is that of the sandbox: an object whose
    "rates" hold, by ISO 8601 date, an object of numbers by symbol.

    Args:
        reply: What `exchange_rate_series` returned.
        base: The request's base, for a reply that does not name its own.

    Returns:
        The rows by date, and of one date in the reply's order; empty where there are no rates.
        None if the reply has another shape: take it as it is.
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
