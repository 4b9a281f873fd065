"""The currency and country data areas: exchange rates, and the countries of the world."""

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable
from datetime import date
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal

from gateway_sdk import operations
from gateway_sdk.areas import Area, checked
from gateway_sdk.models.records import Country, ExchangeRateSeriesRequest

if TYPE_CHECKING:
    from gateway_sdk.bulk._limit import Adaptive
    from gateway_sdk.bulk.results import BulkResult, OnProgress


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
        *,
        concurrency: "int | Literal['adaptive'] | Adaptive" = "adaptive",
        key: Callable[[ExchangeRateSeriesRequest], object] | None = None,
        ordered: bool = False,
        deadline: float | None = None,
        patience: float | None = None,
        on_progress: "OnProgress | None" = None,
        journal: str | PathLike[str] | None = None,
        job: str | None = None,
        retry_failed: bool = False,
        repair: bool = False,
        dump: Callable[[Any], Any] | None = None,
        load: Callable[[Any], Any] | None = None,
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

        if journal is not None and job is None:
            gateway = self._caller.options.gateway_name(self._caller.client.base_url)
            job = f"{operations.EXCHANGE_RATE_SERIES.name} of {gateway}"

        async def fetch(query: ExchangeRateSeriesRequest) -> Any:
            body = checked(operations.EXCHANGE_RATE_SERIES, ExchangeRateSeriesRequest, query)
            return await self._caller.value(operations.EXCHANGE_RATE_SERIES, body=body)

        return run(
            fetch,
            queries,
            concurrency=concurrency,
            key=key,
            ordered=ordered,
            deadline=deadline,
            patience=patience,
            on_progress=on_progress,
            journal=journal,
            job=job,
            retry_failed=retry_failed,
            repair=repair,
            dump=dump,
            load=load,
        )


class CountryDataArea(Area):
    """Lists the countries of the world."""

    async def list_countries(self) -> list[Country]:
        """Return every country that the gateway knows, in its order.

        Raises:
            UnexpectedReplyError: the gateway sent something other than a list of countries.
            GatewayError: the list did not come; asking again does no harm.
        """
        # Interface: Endpoints 12; Country record
        return await self._caller.value(operations.LIST_COUNTRIES)
