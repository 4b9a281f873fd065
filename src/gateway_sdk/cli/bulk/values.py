"""Replies in the journal: numbers as numbers, and none of their digits lost. Pure."""

from decimal import Decimal, InvalidOperation
from typing import Any, cast

from gateway_sdk.bulk import RateRow, rate_rows


def to_journal(value: Any) -> Any:
    """Make a reply fit for the journal: a number that no float can hold becomes a string."""
    match value:
        case Decimal():
            number = float(value)
            return number if Decimal(repr(number)) == value else str(value)
        case dict():
            return {
                name: to_journal(inner) for name, inner in cast("dict[str, Any]", value).items()
            }
        case list():
            return [to_journal(inner) for inner in value]
        case _:
            return value


def rows_of(value: Any, base: str) -> list[RateRow] | None:
    """Make rows of a reply, whether it has just come or stood in the journal.

    Returns:
        The rows by date, their rates as Decimals; None if the reply has another shape.
    """
    return rate_rows(_with_numbers(to_journal(value)), base=base)


def _with_numbers(value: Any) -> Any:
    """Take what stands where rates do as exact numbers."""
    match value:
        case {"rates": dict(days)}:
            by_day = cast("dict[str, Any]", days).items()
            return {**value, "rates": {day: _numbers(found) for day, found in by_day}}
        case _:
            return value


def _numbers(found: Any) -> Any:
    match found:
        case dict():
            rates = cast("dict[str, Any]", found).items()
            return {symbol: _number(rate) for symbol, rate in rates}
        case _:
            return found


def _number(rate: Any) -> Any:
    try:
        number = Decimal(str(rate))
    except InvalidOperation:
        return rate
    return number if number.is_finite() else rate
