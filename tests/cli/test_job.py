from collections.abc import AsyncIterator
from datetime import date

import httpx
import pytest

from gateway_sdk.cli.demo.findings import Plan, State
from gateway_sdk.cli.demo.job import fetch, group_by_currency, make_plan, year_before
from gateway_sdk.cli.failure import CommandError
from gateway_sdk.errors import NotFoundError, ServerError, UnexpectedReplyError
from gateway_sdk.models import Country
from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Fault, Sandbox
from gateway_sdk.session import GatewaySession


@pytest.fixture
def sandbox() -> Sandbox:
    """Provide a sandbox that behaves."""
    return Sandbox()


@pytest.fixture
async def gateway(sandbox: Sandbox) -> AsyncIterator[GatewaySession]:
    """Provide a session on the sandbox that tries once."""
    async with GatewaySession(
        "http://sandbox",
        access_token=SANDBOX_ACCESS_TOKEN,
        transport=sandbox.transport(),
        allow_insecure_http=True,
        retry=None,
    ) as session:
        yield session


def plan_of(*currencies: str, first_day: date = date(2025, 12, 1)) -> Plan:
    """Plan to ask for these currencies."""
    countries = {currency: (f"Land of {currency}",) for currency in currencies}
    return Plan(countries=countries, base="EUR", first_day=first_day, last_day=date(2026, 1, 30))


async def test_plan_comes_from_the_gateway(gateway: GatewaySession) -> None:
    """The gateway says which currencies there are and which day is its last."""
    plan = await make_plan(gateway, date(2026, 11, 21))

    assert (plan.first_day, plan.last_day) == (date(2025, 10, 30), date(2026, 10, 30))
    assert plan.countries["CHF"] == ("Switzerland", "Liechtenstein")
    assert len(plan.asked) == len(plan.countries) - 1


async def test_plan_goes_no_further_than_today(gateway: GatewaySession) -> None:
    """On a Sunday the last day is the Friday before."""
    plan = await make_plan(gateway, date(2026, 1, 4))

    assert plan.last_day == date(2026, 1, 2)


async def test_gateway_without_rates_allows_no_plan(gateway: GatewaySession) -> None:
    """Without any rate there is no last day, which is said."""
    with pytest.raises(CommandError, match="no rates for USD") as caught:
        await make_plan(gateway, date(1999, 1, 3))

    assert caught.value.status == 1


async def test_every_currency_comes_out_in_its_own_way(gateway: GatewaySession) -> None:
    """A series may go on, have ended, be empty or fail, and the base is not asked for."""
    results: list[None] = []

    findings = await fetch(
        gateway,
        plan_of("AED", "BGN", "EUR", "RUB", "USD"),
        concurrency=2,
        on_result=lambda: results.append(None),
    )

    assert {item.currency: item.state for item in findings.items} == {
        "AED": State.FAILED,
        "BGN": State.ENDED,
        "EUR": State.BASE,
        "RUB": State.SILENT,
        "USD": State.CURRENT,
    }
    assert isinstance(findings.items[0].error, NotFoundError)
    assert findings.items[1].days[-1] == date(2025, 12, 31)
    assert findings.items[4].countries == ("Land of USD",)
    assert findings.calls == 6
    assert len(results) == 4


async def test_rates_are_those_of_the_central_bank(gateway: GatewaySession) -> None:
    """The dollars for one euro on two days are what the ECB published."""
    findings = await fetch(gateway, plan_of("USD"), concurrency=1, on_result=lambda: None)

    assert findings.items[0].rates[date(2025, 12, 1)] == 1.1646
    assert len(findings.items) == 1


async def test_failure_of_one_call_loses_no_other(
    sandbox: Sandbox, gateway: GatewaySession
) -> None:
    """A broken gateway's error is kept beside the rates of the others."""
    sandbox.faults.anywhere(Fault.status(500), at=1)

    findings = await fetch(gateway, plan_of("CHF", "USD"), concurrency=1, on_result=lambda: None)

    assert isinstance(findings.items[0].error, ServerError)
    assert findings.items[1].state is State.CURRENT
    assert not findings.worked


async def test_reply_of_another_shape_is_an_error() -> None:
    """A gateway whose rates look different is not misread."""
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json={"rates": {"USD": 1.1}}))
    async with GatewaySession(
        "https://gateway.example.com", access_token="any", transport=transport
    ) as gateway:
        findings = await fetch(gateway, plan_of("USD"), concurrency=1, on_result=lambda: None)

    assert isinstance(findings.items[0].error, UnexpectedReplyError)


def test_country_that_a_currency_is_named_after_comes_first() -> None:
    """The dollar is of the United States before it is of Ecuador."""
    users = [("Guam", "GU"), ("Ecuador", "EC"), ("United States", "US")]
    countries = [
        Country.model_validate(
            {
                "id": number,
                "countryName": name,
                "nationality": "any",
                "three_digit_iso_code": "XXX",
                "two_digit_iso_code": code,
                "currency": "USD",
                "phone_code": "+1",
            }
        )
        for number, (name, code) in enumerate(users)
    ]

    assert group_by_currency(countries) == {"USD": ("United States", "Ecuador", "Guam")}


@pytest.mark.parametrize(
    ("day", "before"),
    [
        (date(2026, 10, 30), date(2025, 10, 30)),
        (date(2024, 2, 29), date(2023, 2, 28)),
        (date(2025, 2, 28), date(2024, 2, 28)),
    ],
)
def test_year_before_has_the_same_day(day: date, before: date) -> None:
    """Twelve months before is the same day, if that year has it."""
    assert year_before(day) == before


async def test_bug_in_the_job_is_no_failed_series() -> None:
    """What is not an error of the SDK goes up as it is."""

    def fail(_: httpx.Request) -> httpx.Response:
        raise ZeroDivisionError

    async with GatewaySession(
        "https://gateway.test", access_token="token", transport=httpx.MockTransport(fail)
    ) as gateway:
        with pytest.raises(ZeroDivisionError):
            await fetch(gateway, plan_of("USD"), concurrency=1, on_result=lambda: None)
