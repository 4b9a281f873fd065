"""The currency area: exchange rates."""

from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from datetime import date
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack, overload

from gateway_sdk import models, operations
from gateway_sdk._call.call import Unchecked
from gateway_sdk._call.options import IntoAny, shows_options
from gateway_sdk._checks import show_settings
from gateway_sdk.areas import Area, IntoType, T, checked

if TYPE_CHECKING:
    from gateway_sdk.bulk.results import BulkResult
    from gateway_sdk.bulk.run import RunSettings
    from gateway_sdk.models import ExchangeRateSeriesRequest


def _settings_of_runs() -> type:
    from gateway_sdk.bulk.run import RunSettings  # noqa: PLC0415 - most programs make no bulk runs

    return RunSettings


class CurrencyArea(Area):
    """Returns series of exchange rates."""

    @overload
    async def exchange_rate_series(
        self,
        base: str,
        symbols: str | Iterable[str],
        start_date: str | date,
        end_date: str | date,
        **call: Unpack[IntoType[T]],
    ) -> T: ...

    @overload
    async def exchange_rate_series(
        self,
        base: str,
        symbols: str | Iterable[str],
        start_date: str | date,
        end_date: str | date,
        **call: Unpack[IntoAny],
    ) -> Any: ...

    @shows_options
    async def exchange_rate_series(
        self,
        base: str,
        symbols: str | Iterable[str],
        start_date: str | date,
        end_date: str | date,
        **call: Unpack[IntoAny],
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
        body = Unchecked(lambda: checked(models.ExchangeRateSeriesRequest, request))
        return await self._caller.call(operation, call, body=body)

    @show_settings(of=_settings_of_runs)
    def exchange_rate_series_bulk(
        self,
        queries: "Iterable[ExchangeRateSeriesRequest] | AsyncIterable[ExchangeRateSeriesRequest]",
        **settings: Unpack["RunSettings[ExchangeRateSeriesRequest, Any]"],
    ) -> "AsyncGenerator[BulkResult[ExchangeRateSeriesRequest, Any], None]":
        """Fetch many series, a bounded number at a time, and yield the results as they come.

        The options are those of `gateway_sdk.bulk.run`. Without `job`, the job of the journal is
        named by the base URL and a digest of the tenant, so that the journal of another gateway
        or tenant is refused.

        Args:
            queries: The requests; `ExchangeRateSeriesRequest.split` cuts long ranges. An item of
                another type becomes a result with an error.

        Yields:
            One result per query, with the decoded body as its value; `bulk.rate_rows` makes rows
            of it.

        Raises:
            InvalidArgumentError: an argument is wrong, at once.
            JournalError: the journal is another job's, is in use, or cannot be written.
        """
        from gateway_sdk.bulk.run import run  # noqa: PLC0415 - most programs make no bulk runs

        operation = operations.EXCHANGE_RATE_SERIES
        job = settings.get("job")
        if isinstance(settings.get("journal"), str | PathLike) and job is None:
            gateway = self._caller.options.gateway_name(self._caller.shared.base_url)
            job = f"{operation.name} of {gateway}"
            if self._caller.shared.parse_float is not None:
                job += ", parse_float"  # which decides on the values
        settings["job"] = job

        async def fetch(query: "ExchangeRateSeriesRequest") -> Any:
            body = Unchecked(lambda: checked(models.ExchangeRateSeriesRequest, query))
            return await self._caller.call(operation, {}, body=body)

        return run(fetch, queries, **settings)
