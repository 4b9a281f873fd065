"""The job itself, on nothing but the SDK: it runs against any gateway with replies like these."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import aclosing
from datetime import date
from typing import Annotated, Final

from pydantic import BaseModel, Field

from gateway_sdk import GatewayError, operations
from gateway_sdk.bulk.run import BulkResult, run
from gateway_sdk.cli.demo.findings import Finding, Findings, Plan, State
from gateway_sdk.cli.failure import FAILED, CommandError
from gateway_sdk.models import Country, ExchangeRateSeriesRequest
from gateway_sdk.session import GatewaySession

BASE: Final = "EUR"
PROBE: Final = "USD"
"""The currency whose last rate tells how far the gateway's data go."""

EPOCH: Final = date(1999, 1, 1)
"""The first day of the euro: no gateway's data can be older."""

PLANNING_CALLS: Final = 2
"""The list of countries, and the series of the probe."""


class Series(BaseModel):
    """The reply to a request for rates: the interface leaves it open, this is the sandbox's."""

    rates: dict[date, dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]]]


async def make_plan(gateway: GatewaySession, today: date) -> Plan:
    """Learn from the gateway which currencies there are, and which twelve months are its last.

    Raises:
        CommandError: it has no rates at all.
        GatewayError: one of the two calls failed.
    """
    countries = await gateway.country_data.list_countries()
    probe = await _rates_of(gateway, PROBE, EPOCH, today)
    if not probe:
        raise CommandError(f"the gateway has no rates for {PROBE}, so there is no range", FAILED)
    last_day = max(probe)
    return Plan(
        countries=group_by_currency(countries),
        base=BASE,
        first_day=year_before(last_day),
        last_day=last_day,
    )


async def fetch(
    gateway: GatewaySession, plan: Plan, *, concurrency: int, on_result: Callable[[], object]
) -> Findings:
    """Fetch the series of each currency in the plan, so many at once; a failure is a finding too.

    Args:
        on_result: Called after each of them.
    """
    began = time.monotonic()
    items = {BASE: _base_of(plan)} if BASE in plan.countries else {}

    async def rates_of(currency: str) -> Mapping[date, float]:
        return await _rates_of(gateway, currency, plan.first_day, plan.last_day)

    async with aclosing(run(rates_of, plan.asked, concurrency=concurrency)) as results:
        async for result in results:
            items[result.item] = _read(result, plan)
            on_result()
    return Findings(
        plan=plan,
        items=tuple(items[currency] for currency in plan.countries),
        calls=len(plan.asked) + PLANNING_CALLS,
        seconds=time.monotonic() - began,
    )


def group_by_currency(countries: Iterable[Country]) -> dict[str, tuple[str, ...]]:
    """Give the names of the countries that use each currency, by its code, in code order.

    The country that a currency is named after comes first, the others by name: an ISO 4217 code
    begins with its country's ISO 3166 one, as in USD.
    """
    users: defaultdict[str, list[Country]] = defaultdict(list)
    for country in countries:
        users[country.currency].append(country)

    def rank(country: Country) -> tuple[bool, str]:
        return country.two_digit_iso_code != country.currency[:2], country.country_name

    return {
        currency: tuple(country.country_name for country in sorted(users[currency], key=rank))
        for currency in sorted(users)
    }


def year_before(day: date) -> date:
    """Give the same day a year before; for 29 February the 28th."""
    is_leap_day = (day.month, day.day) == (2, 29)
    return day.replace(year=day.year - 1, day=28 if is_leap_day else day.day)


async def _rates_of(
    gateway: GatewaySession, currency: str, first_day: date, last_day: date
) -> dict[date, float]:
    """Fetch one series; `into=` turns the reply, of which the interface says nothing, into ours."""
    body = ExchangeRateSeriesRequest(
        base=BASE,
        symbols=currency,
        start_date=first_day.isoformat(),
        end_date=last_day.isoformat(),
    )
    reply = await gateway.send(operations.EXCHANGE_RATE_SERIES, body=body, into=Series)
    rates = reply.value.rates
    return {day: rates[day][currency] for day in sorted(rates) if currency in rates[day]}


def _read(result: BulkResult[str, Mapping[date, float]], plan: Plan) -> Finding:
    error = result.error
    if error is not None and not isinstance(error, GatewayError):
        raise error  # a bug, and not a series that failed
    rates = {} if error else result.value
    return Finding(
        currency=result.item,
        countries=plan.countries[result.item],
        state=State.FAILED if error else _state_of(rates, plan.last_day),
        rates=rates,
        error=error,
    )


def _state_of(rates: Mapping[date, float], last_day: date) -> State:
    if not rates:
        return State.SILENT
    return State.CURRENT if last_day in rates else State.ENDED


def _base_of(plan: Plan) -> Finding:
    return Finding(currency=BASE, countries=plan.countries[BASE], state=State.BASE, rates={})
