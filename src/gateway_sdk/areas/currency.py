"""The currency area with its exchange rates, and the area of country data."""

from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from datetime import date
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack, cast, overload

from gateway_sdk import models, operations
from gateway_sdk._call.call import Call, Caller
from gateway_sdk._call.options import PerCall, Unchecked
from gateway_sdk._checks import shown
from gateway_sdk._http.reply import RawReply, check_type, json_of
from gateway_sdk.areas import Area, IntoAny, IntoType, Late, T, as_model
from gateway_sdk.errors import InvalidArgumentError

if TYPE_CHECKING:
    from gateway_sdk.bulk._start import FrontSettings
    from gateway_sdk.bulk.results import BulkResult, LoadText
else:
    BulkResult = Late("gateway_sdk.bulk.results", "BulkResult")
    FrontSettings = Late("gateway_sdk.bulk._start", "FrontSettings")

Query: TypeAlias = "models.ExchangeRateSeriesRequest"
Queries: TypeAlias = "Iterable[Query] | AsyncIterable[Query]"
Settings: TypeAlias = "FrontSettings[Query, Any]"
Codes: TypeAlias = str | Iterable[str]
Day: TypeAlias = str | date


class CurrencyArea(Area):
    """Returns series of exchange rates."""

    @overload
    async def exchange_rate_series(
        self, base: str, symbols: Codes, start_date: Day, end_date: Day, **call: Unpack[IntoType[T]]
    ) -> T: ...

    @overload
    async def exchange_rate_series(
        self, base: str, symbols: Codes, start_date: Day, end_date: Day, **call: Unpack[IntoAny]
    ) -> Any: ...

    async def exchange_rate_series(
        self, base: str, symbols: Codes, start_date: Day, end_date: Day, **call: Unpack[IntoAny]
    ) -> Any:
        """Return the exchange rates of currencies against a base over a range of days.

        The interface defines no formats, so strings are sent unchanged.

        The interface leaves the reply open (see `Area`); the sandbox replies:

        ```json
        {"base": "EUR", "symbols": "USD,GBP", "startDate": "2026-01-05",
         "endDate": "2026-01-06", "rates": {
            "2026-01-05": {"USD": 1.1664, "GBP": 0.8676},
            "2026-01-06": {"USD": 1.1707, "GBP": 0.8663}}}
        ```

        Args:
            base: The currency whose unit the rates are for, such as "EUR".
            symbols: The other currencies: a string, or codes that are joined by commas.
            start_date: The first day: a string, or a date that is sent in ISO 8601.
            end_date: The last day, likewise.

        Raises:
            InvalidArgumentError: an argument is of the wrong type, or there are no symbols.
            NotFoundError: the gateway has no rates of such a currency.
            GatewayError: the rates did not come; asking again does no harm.
        """
        # Interface: Endpoints 3; Exchange rate series request
        operation = operations.EXCHANGE_RATE_SERIES
        request = {"base": base, "symbols": symbols, "start_date": start_date, "end_date": end_date}
        body = Unchecked(lambda: as_model(models.ExchangeRateSeriesRequest, request))
        return await self._caller.call(operation, call, body=body)

    @overload
    def exchange_rate_series_bulk(
        self, queries: "Queries", *, into: type[T], **settings: Unpack["FrontSettings[Query, T]"]
    ) -> "AsyncGenerator[BulkResult[Query, T], None]": ...

    @overload
    def exchange_rate_series_bulk(
        self, queries: "Queries", *, into: Any = None, **settings: Unpack["Settings"]
    ) -> "AsyncGenerator[BulkResult[Query, Any], None]": ...

    @shown(inherited={"headers"})
    def exchange_rate_series_bulk(
        self, queries: "Queries", *, into: Any = None, **settings: Unpack["Settings"]
    ) -> "AsyncGenerator[BulkResult[Query, Any], None]":
        """Fetch many series, a bounded number at a time, and yield the results as they come.

        The other options are those of `gateway_sdk.bulk.run`: `deadline` is the run's, and that of
        each call is the session's. Without `job`, the job of the journal is named by the base URL
        and a digest of the tenant, so that the journal of another gateway or tenant is refused.

        Args:
            queries: The requests; `ExchangeRateSeriesRequest.split` cuts long ranges. An item of
                another type becomes a result with an error.
            into: The type of the values. A journal keeps the JSON of the gateway, and this is the
                `load` then: a reply that does not fit is in the journal all the same.
            headers: More headers of each request.

        Yields:
            One result per query, with the decoded body as its value; `bulk.rate_rows` makes rows
            of it.

        Raises:
            InvalidArgumentError: an argument is wrong, at once.
            JournalError: the journal is another job's, is in use, or cannot be written.
        """
        # Most programs make no bulk runs.
        from gateway_sdk.bulk._start import run  # noqa: PLC0415
        from gateway_sdk.bulk.results import StoredValue  # noqa: PLC0415

        operation = operations.EXCHANGE_RATE_SERIES
        given = cast("dict[str, Any]", settings)
        caller = self._caller
        own: PerCall = {"headers": given.pop("headers")} if "headers" in given else {}
        caller.options.of_one_call(own)  # what is wrong, at once
        if into is not None:
            check_type(into)
        exact = False  # whether the journal has the reply itself, with all digits
        if given.get("journal") is not None:
            exact = caller.shared.parse_float is not None and given.get("dump") is None
            if into is not None or exact:
                given["load"], into = _loader(caller, into, given), None
        if isinstance(given.get("journal"), str | PathLike) and given.get("job") is None:
            job = f"{operation.name} of {caller.options.gateway_name(caller.shared.base_url)}"
            decides = caller.shared.parse_float is not None  # on the values
            given["job"] = job + (", parse_float" if decides else "")

        async def fetch(query: "Query") -> Any:
            body = Unchecked(lambda: as_model(models.ExchangeRateSeriesRequest, query))
            call = Call(caller.shared, caller.options, operation, into)
            value = await call.run(own, body=body)
            is_json = exact and isinstance(value, list | dict)
            return StoredValue(json_of(cast("RawReply", call.reply))) if is_json else value

        return run(fetch, queries, **given)


def _loader(caller: Caller, into: Any, settings: Mapping[str, Any]) -> "LoadText":
    """Return what reads the JSON of a journal like a reply."""
    from gateway_sdk.bulk.results import LoadText  # noqa: PLC0415 - most programs make no bulk runs

    if into is not None and (settings.get("dump") or settings.get("load")) is not None:
        raise InvalidArgumentError("give into=, or dump= and load=", field="into")
    load = settings.get("load")

    def read(text: str) -> Any:
        call = Call(caller.shared, caller.options, operations.EXCHANGE_RATE_SERIES)
        value = call.read_into(into, RawReply(200, [], {}, body=text.encode()))
        return value if load is None else load(value)

    return LoadText(read)


class CountryDataArea(Area):
    """Lists the countries of the world."""

    async def list_countries(self, **call: Unpack[PerCall]) -> "list[models.Country]":
        """Return every country that the gateway knows, in its order.

        Returns:
            The countries; the list may be empty.

        Raises:
            GatewayError: the list did not come; asking again does no harm.
        """
        # Interface: Endpoints 12; Country record
        return await self._caller.call(operations.LIST_COUNTRIES, call)
