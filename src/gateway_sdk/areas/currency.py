"""The currency area: exchange rates."""

from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from datetime import date
from typing import TYPE_CHECKING, Any, Unpack

from gateway_sdk import operations
from gateway_sdk.areas import Area, checked
from gateway_sdk.models.records import ExchangeRateSeriesRequest

if TYPE_CHECKING:
    from gateway_sdk.bulk.results import BulkResult
    from gateway_sdk.bulk.run import RunSettings


class CurrencyArea(Area):
    """Returns series of exchange rates."""

    async def exchange_rate_series(
        self,
        base: str,
        symbols: str | Iterable[str],
        start_date: str | date,
        end_date: str | date,
    ) -> Any:
        """Return the exchange rates of currencies against a base over a range of days.

        The interface defines no formats, so strings are sent unchanged.

        Args:
            base: The currency whose unit the rates are for, such as "EUR".
            symbols: The other currencies: a string, or codes that are joined by commas.
            start_date: The first day: a string, or a date that is sent in ISO 8601.
            end_date: The last day, likewise.

        Returns:
            The decoded body, which the interface leaves open; None if it is empty.

        Raises:
            InvalidArgumentError: an argument is of the wrong type, or there are no symbols.
            GatewayError: the rates did not come; asking again does no harm.
        """
        # Interface: Endpoints 3; Exchange rate series request
        request = {
            "base": base,
            "symbols": symbols,
            "start_date": start_date,
            "end_date": end_date,
        }
        body = checked(operations.EXCHANGE_RATE_SERIES, ExchangeRateSeriesRequest, request)
        return await self._caller.value(operations.EXCHANGE_RATE_SERIES, body=body)

    def exchange_rate_series_bulk(
        self,
        queries: Iterable[ExchangeRateSeriesRequest] | AsyncIterable[ExchangeRateSeriesRequest],
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

        job = settings.get("job")
        if settings.get("journal") is not None and job is None:
            gateway = self._caller.options.gateway_name(self._caller.client.base_url)
            job = f"{operations.EXCHANGE_RATE_SERIES.name} of {gateway}"
        settings["job"] = job

        async def fetch(query: ExchangeRateSeriesRequest) -> Any:
            body = checked(operations.EXCHANGE_RATE_SERIES, ExchangeRateSeriesRequest, query)
            return await self._caller.value(operations.EXCHANGE_RATE_SERIES, body=body)

        return run(fetch, queries, **settings)
