"""The records of the areas currency and wallet, and of errors."""

import re
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, Self

from pydantic import (
    BeforeValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    field_validator,
)

from gateway_sdk.models._base import ReplyModel, RequestModel, problem, type_of

__all__ = ["Country", "ErrorPayload", "ExchangeRateSeriesRequest", "OrderHistoryPage"]

_ISO_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def _joined(symbols: Any) -> Any:
    """Join codes by commas; a string stays as it is. A set has no order, so it is sorted."""
    if isinstance(symbols, str):
        return symbols
    if not isinstance(symbols, Iterable):
        raise problem(f"must be a string or an iterable of codes, not {type_of(symbols)}")
    codes = list(symbols)
    if not codes:
        raise problem("is empty")
    for code in codes:
        if not isinstance(code, str) or not code or "," in code:
            raise problem("must hold strings without commas, such as 'USD'")
    return ",".join(sorted(codes) if isinstance(symbols, set | frozenset) else codes)


def _day(day: Any) -> Any:
    """Write a date in ISO 8601; a string stays as it is."""
    if isinstance(day, str):
        return day
    if isinstance(day, datetime):
        raise problem("is a datetime, whose day depends on the time zone: give its date()")
    if not isinstance(day, date):
        raise problem(f"must be a string or a date, not {type_of(day)}")
    return day.isoformat()


_Symbols = Annotated[str, BeforeValidator(_joined)]
_Day = Annotated[str, BeforeValidator(_day)]


class ExchangeRateSeriesRequest(RequestModel):
    """The currencies and the days of a request for exchange rates.

    The interface defines no format for these fields, so none is checked, and strings stay as they
    are.

    Attributes:
        base: The currency whose unit the rates are for, such as "EUR".
        symbols: The other currencies. Codes may be given as any iterable: they are joined by
            commas.
        start_date: The first day. A `datetime.date` is written in ISO 8601.
        end_date: The last day, likewise.
    """

    # Interface: Exchange rate series request
    base: str
    symbols: _Symbols
    start_date: _Day
    end_date: _Day

    if TYPE_CHECKING:  # the attributes are strings; the arguments may have other types

        def __init__(
            self,
            *,
            base: str,
            symbols: str | Iterable[str],
            start_date: str | date,
            end_date: str | date,
        ) -> None: ...

    def split(self, *, days: int) -> list[Self]:
        """Cut a long range of days into consecutive requests.

        Args:
            days: The days of each request, at least 1; the last request may have fewer.

        Returns:
            The requests, the earliest first; together they ask for each day once. At least one.

        Raises:
            ValueError: a date is not in ISO 8601, such as 2026-01-31; the range ends before it
                starts; or *days* is not a whole number of at least 1.
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


class OrderHistoryPage(RequestModel):
    """A page of the order history; the interface gives no bounds."""

    # Interface: Order history page request
    page: int
    take: int


def _as_it_is(name: str) -> Any:
    return Field(None, validation_alias=name, serialization_alias=name)


class Country(ReplyModel):
    """A country of the world with its codes; a text that is missing or null reads as None."""

    # Interface: Country record. It does not say which fields are required, and one country that
    # lacks one must not lose the others.
    id: int
    country_name: str | None = None
    nationality: str | None = None
    three_digit_iso_code: str | None = _as_it_is("three_digit_iso_code")
    two_digit_iso_code: str | None = _as_it_is("two_digit_iso_code")
    currency: str | None = None
    phone_code: str | None = _as_it_is("phone_code")


class ErrorPayload(ReplyModel):
    """The gateway's description of an error; every field may be missing.

    The reason, path and message are texts of the gateway. They may hold personal data, so the
    repr does not show them.
    """

    # Interface: Error payload (ErrorPayload)
    reason: str | None = None
    path: str | None = None
    method: str | None = None
    message: str | None = None
    timestamp: str | None = None
    status: int | None = None

    @field_validator("reason", "path", "method", "message", "timestamp", "status", mode="wrap")
    @classmethod
    def _none_if_wrong(cls, value: Any, check: ValidatorFunctionWrapHandler) -> Any:
        """Read a field of the wrong type as absent, so that a bad record can still be read."""
        try:
            return check(value)
        except ValidationError:
            return None

    def __repr_args__(self) -> Iterator[tuple[str, object]]:
        yield "status", self.status


def iso_date(name: str, text: str) -> date:
    """Read a date in ISO 8601, written out with hyphens.

    Raises:
        ValueError: the text is not such a date; the message has the name.
    """
    try:
        if _ISO_DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    msg = f"{name} is not a date in ISO 8601, such as 2026-01-31"
    raise ValueError(msg)
