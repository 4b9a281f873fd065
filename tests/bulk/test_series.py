"""Many series: the typed front of bulk runs, on the sandbox with its faults."""

from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import GatewaySession, InvalidArgumentError, JournalError
from gateway_sdk.bulk import rate_rows
from gateway_sdk.models import ExchangeRateSeriesRequest
from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Sandbox
from tests.bulk.journal.journals import job_of, rows

YEAR = ExchangeRateSeriesRequest(
    base="EUR", symbols="USD,GBP", start_date="2025-01-01", end_date="2025-12-31"
)


def session(
    sandbox: Sandbox, base_url: str = "http://localhost", tenant_id: str | None = None
) -> GatewaySession:
    return GatewaySession(
        base_url,
        access_token=SANDBOX_ACCESS_TOKEN,
        tenant_id=tenant_id,
        transport=sandbox.transport(),
    )


async def test_a_year_in_parts_is_the_year(tmp_path: Path) -> None:
    """The rows of all parts, in order, are those of the whole range, also from the journal."""
    path = tmp_path / "rates.db"
    async with session(Sandbox()) as gateway:
        whole = await gateway.currency.exchange_rate_series(
            "EUR", "USD,GBP", "2025-01-01", "2025-12-31"
        )
        found: list[list[Any]] = []
        for _ in range(2):
            results = gateway.currency.exchange_rate_series_bulk(
                YEAR.split(days=31), ordered=True, journal=path
            )
            found.append([])
            async for result in results:
                found[-1].extend(rate_rows(result.value, base=result.item.base) or [])

    assert found[0] == found[1] == rate_rows(whole, base="EUR")
    assert len(found[0]) > 500
    assert job_of(path) == "exchange_rate_series of http://localhost"
    assert rows(path)[0]["item"]["symbols"] == "USD,GBP"


PLACES: list[dict[str, str]] = [
    {"base_url": "https://localhost"},
    {"base_url": "http://localhost:8080"},
    {"base_url": "http://127.0.0.1"},
    {"base_url": "http://localhost/staging"},
    {"tenant_id": "acme"},
    {"tenant_id": "acme-staging"},
]


@pytest.mark.parametrize("place", PLACES)
async def test_a_journal_belongs_to_one_gateway_and_tenant(
    tmp_path: Path, place: dict[str, str]
) -> None:
    """The job has base URL and tenant, and no other pair can continue the journal."""
    path = tmp_path / "rates.db"
    async with session(Sandbox()) as gateway:
        async for _ in gateway.currency.exchange_rate_series_bulk([YEAR], journal=path):
            pass
    before, job = path.read_bytes(), job_of(path)
    sandbox = Sandbox()

    async with session(sandbox, **place) as gateway:
        with pytest.raises(JournalError, match="belongs to the job") as caught:
            async for _ in gateway.currency.exchange_rate_series_bulk([YEAR], journal=path):
                pass

    assert job in str(caught.value)
    assert place.get("base_url", "for the tenant") in str(caught.value)
    assert path.read_bytes() == before
    assert not sandbox.received


async def test_the_job_is_that_of_the_view_and_shows_no_tenant(tmp_path: Path) -> None:
    """Each tenant has its own job; a slash at the end of the URL makes no difference."""
    path = tmp_path / "rates.db"
    async with session(Sandbox(), "http://LOCALHOST:80/") as gateway:
        view = gateway.with_options(tenant_id="zoe@example.com")
        async for _ in view.currency.exchange_rate_series_bulk([YEAR], journal=path):
            pass
    async with session(Sandbox(), tenant_id="zoe@example.com") as gateway:
        results = gateway.currency.exchange_rate_series_bulk([YEAR], journal=path)
        assert [result.from_journal async for result in results] == [True]

    assert "http://localhost for the tenant " in job_of(path)
    assert b"zoe" not in path.read_bytes()


async def test_an_invalid_query_is_a_result() -> None:
    """It is not sent, and the other queries go on."""
    odd: Any = {"base": "EUR"}
    sandbox = Sandbox()
    async with session(sandbox) as gateway:
        run = gateway.currency.exchange_rate_series_bulk([odd, YEAR], ordered=True)
        results = [result async for result in run]

    assert isinstance(results[0].error, InvalidArgumentError)
    assert results[1].value["base"] == "EUR"
    assert len(sandbox.received) == 1


def test_wrong_options_are_refused_at_once() -> None:
    """The messages are those of `bulk.run`."""
    gateway = session(Sandbox())

    with pytest.raises(InvalidArgumentError, match="concurrency"):
        gateway.currency.exchange_rate_series_bulk([YEAR], concurrency=0)
    with pytest.raises(InvalidArgumentError, match="needs job="):
        gateway.currency.exchange_rate_series_bulk([YEAR], journal="x", job="")
