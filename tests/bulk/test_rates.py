"""Many series: the typed front of bulk runs on the sandbox, its requests, rows and currencies."""

import json
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel, Field

from gateway_sdk import (
    Advice,
    GatewaySession,
    InvalidArgumentError,
    JournalError,
    NotFoundError,
    Outcome,
    UnexpectedReplyError,
    bulk,
)
from gateway_sdk.bulk import RateRow, currencies_of, rate_rows
from gateway_sdk.models import Country, ExchangeRateSeriesRequest
from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Sandbox
from tests.bulk.runs import Memory, content, job_of, rows, session
from tests.interface_table import COUNTRY


def request(start: str, end: str) -> ExchangeRateSeriesRequest:
    return ExchangeRateSeriesRequest(base="EUR", symbols="USD,GBP", start_date=start, end_date=end)


@given(start=st.dates(), length=st.integers(0, 2000), days=st.integers(1, 400))
def test_a_range_is_cut_without_gaps_and_overlaps(start: date, length: int, days: int) -> None:
    length = min(length, (date.max - start).days)
    end = start + timedelta(days=length)

    parts = request(str(start), str(end)).split(days=days)

    firsts = [start + timedelta(days=number) for number in range(0, length + 1, days)]
    lasts = [*(day - timedelta(days=1) for day in firsts[1:]), end]
    bounds = [(str(first), str(last)) for first, last in zip(firsts, lasts, strict=True)]
    assert parts == [request(*days) for days in bounds]


@pytest.mark.parametrize(
    ("start", "end", "days", "named"),
    [
        ("01.02.2026", "2026-03-01", 7, "start_date is not a date"),
        ("2026-02-01", "today", 7, "end_date is not a date"),
        ("20260201", "2026-03-01", 7, "start_date is not a date"),
        ("2026-02-30", "2026-03-01", 7, "start_date is not a date"),
        ("2026-03-02", "2026-03-01", 7, "end_date 2026-03-01 is before start_date 2026-03-02"),
        ("2026-02-01", "2026-03-01", 0, "days must be"),
        ("2026-02-01", "2026-03-01", True, "days must be"),
        ("2026-02-01", "2026-03-01", 1.5, "days must be"),
    ],
)
def test_an_invalid_range_is_refused(start: str, end: str, days: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        request(start, end).split(days=days)


DAY = date(2026, 1, 2)


@pytest.mark.parametrize(
    ("rates", "rows"),
    [
        (  # by date, and in the order of the reply
            {"2026-01-05": {"USD": 1.17, "GBP": 0.87}, "2026-01-02": {"USD": 1}},
            [("USD", DAY, 1), ("USD", date(2026, 1, 5), 1.17), ("GBP", date(2026, 1, 5), 0.87)],
        ),
        # A text keeps its digits: gateways write amounts so, and a journal such numbers.
        ({"2026-01-02": {"USD": "1.10"}}, [("USD", DAY, Decimal("1.10"))]),
        ({"2026-01-02": {"USD": Decimal("1.10")}}, [("USD", DAY, Decimal("1.10"))]),
        ({}, []),
    ],
)
@pytest.mark.parametrize(("named", "base"), [({"base": "EUR"}, "EUR"), ({}, "CHF")])
def test_a_reply_of_the_usual_shape_has_a_row_per_rate(
    named: dict[str, str], base: str, rates: object, rows: list[tuple[Any, ...]]
) -> None:
    """With the numbers as they came; a reply without a base has that of its request."""
    found = rate_rows({**named, "rates": rates}, base="CHF")

    assert repr(found) == repr([RateRow(base, *row) for row in rows])


@pytest.mark.parametrize(
    "reply",
    [
        None,
        [],
        "text",
        {},
        {"rates": []},
        {"rates": {"2026-01-02": 1.1}},
        {"rates": {"2026-1-2": {"USD": 1.1}}},
        {"rates": {"2026-02-30": {"USD": 1.1}}},
        {"rates": {1: {"USD": 1.1}}},
        {"rates": {"2026-01-02": {"USD": "much"}}},
        {"rates": {"2026-01-02": {"USD": "NaN"}}},
        {"rates": {"2026-01-02": {"USD": None}}},
        {"rates": {"2026-01-02": {"USD": True}}},
        {"rates": {}, "base": 7},
    ],
)
def test_another_shape_has_no_rows(reply: object) -> None:
    assert rate_rows(reply, base="EUR") is None


@pytest.mark.parametrize(
    ("used", "expected"),
    [([], []), (["USD", "EUR", "USD"], ["EUR", "USD"]), (["", " ", "CHF"], ["CHF"])],
)
def test_currencies_are_distinct_and_in_order(used: list[str], expected: list[str]) -> None:
    countries = [Country.model_validate({**COUNTRY, "currency": code}) for code in used]

    assert currencies_of(countries) == expected


YEAR = request("2025-01-01", "2025-12-31")


def at(sandbox: Sandbox, **place: Any) -> GatewaySession:
    given: dict[str, Any] = {"access_token": SANDBOX_ACCESS_TOKEN, "tenant_id": None, **place}
    return session(sandbox.transport(), **given)


async def fetched(
    gateway: GatewaySession, queries: list[Any], **options: Any
) -> list[bulk.BulkResult[Any, Any]]:
    run = gateway.currency.exchange_rate_series_bulk(queries, **options)
    return [result async for result in run]


async def test_a_year_in_parts_is_the_year(path: Path) -> None:
    found: list[list[Any]] = []
    async with at(Sandbox()) as gateway:
        whole = await gateway.currency.exchange_rate_series(
            "EUR", "USD,GBP", "2025-01-01", "2025-12-31"
        )
        for _ in range(2):
            found.append([])
            for result in await fetched(gateway, YEAR.split(days=31), ordered=True, journal=path):
                found[-1] += rate_rows(result.value, base=result.item.base) or []

    assert found[0] == found[1] == rate_rows(whole, base="EUR")
    assert len(found[0]) > 500
    assert job_of(path) == "exchange_rate_series of http://localhost"
    assert rows(path)[0]["item"]["symbols"] == "USD,GBP"


@pytest.mark.parametrize(
    "place",
    [
        {"base_url": "https://localhost"},
        {"base_url": "http://localhost:8080"},
        {"base_url": "http://127.0.0.1"},
        {"base_url": "http://localhost/staging"},
        {"tenant_id": "acme"},
        {"tenant_id": "acme-staging"},
    ],
)
async def test_a_journal_belongs_to_one_gateway_and_tenant(
    path: Path, place: dict[str, str]
) -> None:
    async with at(Sandbox()) as gateway:
        await fetched(gateway, [YEAR], journal=path)
    before, job, sandbox = content(path), job_of(path), Sandbox()

    async with at(sandbox, **place) as gateway:
        with pytest.raises(JournalError, match="belongs to the job") as caught:
            await fetched(gateway, [YEAR], journal=path)

    assert job in str(caught.value)
    assert place.get("base_url", "for the tenant") in str(caught.value)
    assert content(path) == before
    assert not sandbox.received


async def test_the_job_is_that_of_the_view_and_shows_no_tenant(path: Path) -> None:
    async with at(Sandbox(), base_url="http://LOCALHOST:80/") as gateway:
        await fetched(gateway.with_options(tenant_id="zoe@example.com"), [YEAR], journal=path)
    async with at(Sandbox(), tenant_id="zoe@example.com") as gateway:
        (result,) = await fetched(gateway, [YEAR], journal=path)

    assert result.from_journal
    assert "http://localhost for the tenant " in job_of(path)
    assert b"zoe" not in content(path)
    async with at(Sandbox(), tenant_id="zoe@example.com", parse_float=Decimal) as gateway:
        with pytest.raises(JournalError, match="belongs to the job"):  # its values are others
            await fetched(gateway, [YEAR], journal=path)


@pytest.mark.parametrize("is_journal", [False, True])
async def test_a_subject_that_the_gateway_does_not_know_is_asked_for_once(
    path: Path, *, is_journal: bool
) -> None:
    """The rest of it fails without calls, and a run that goes on makes none."""
    parts = request("2025-01-01", "2025-12-31").split(days=73)
    queries = [part.model_copy(update={"symbols": it}) for part in parts for it in ("XAF", "USD")]
    options: dict[str, Any] = {"journal": path} if is_journal else {}
    sandbox, count = Sandbox(), len(parts)

    for _ in range(2):
        async with at(sandbox) as gateway:
            results = await fetched(
                gateway, queries, subject=lambda it: it.symbols, concurrency=1, **options
            )
        unknown = [it for it in results if isinstance(it.error, NotFoundError)]
        assert {it.item for it in results if it.error is None} == {*queries[1::2]}
        assert sorted(it.attempts for it in unknown) == [0] * (count - 1) + [1]
        assert {(it.outcome, it.advice) for it in unknown} == {(Outcome.REFUSED, Advice.FIX)}
    assert len(sandbox.received) == (1 if is_journal else 2) * (count + 1)
    if is_journal:
        assert [row["state"] for row in rows(path)].count("failed") == count


async def test_an_invalid_query_is_a_result() -> None:
    sandbox = Sandbox()
    async with at(sandbox) as gateway:
        odd, fine = await fetched(gateway, [{"base": "EUR"}, YEAR], ordered=True)

    assert isinstance(odd.error, InvalidArgumentError)
    assert fine.value["base"] == "EUR"
    assert len(sandbox.received) == 1


def test_wrong_options_are_refused_at_once() -> None:
    gateway = at(Sandbox())

    with pytest.raises(InvalidArgumentError, match="concurrency"):
        gateway.currency.exchange_rate_series_bulk([YEAR], concurrency=0)
    with pytest.raises(InvalidArgumentError, match="job must name the work"):
        gateway.currency.exchange_rate_series_bulk([YEAR], journal="x", job="")
    with pytest.raises(InvalidArgumentError, match="into must be a type"):
        gateway.currency.exchange_rate_series_bulk([YEAR], into=5)
    with pytest.raises(InvalidArgumentError, match="Authorization"):
        gateway.currency.exchange_rate_series_bulk([YEAR], headers={"Authorization": "x"})
    for name in ("dump", "load"):
        options: Any = {name: dict, "journal": "x"}
        with pytest.raises(InvalidArgumentError, match="give into=, or dump= and load="):
            gateway.currency.exchange_rate_series_bulk([YEAR], into=Series, **options)


async def test_a_ledger_of_the_user_needs_no_job() -> None:
    ledger = Memory()
    async with at(Sandbox()) as gateway:
        (result,) = await fetched(gateway, [YEAR], journal=ledger)

    assert result.value["base"] == "EUR"
    assert [entry.state for entry in ledger.entries.values()] == ["done"]


class Series(BaseModel):
    base: str
    start: date = Field(validation_alias="startDate", strict=True)  # from JSON a text is a date


async def test_a_series_is_read_into_a_type_and_its_journal_keeps_the_reply(path: Path) -> None:
    sandbox = Sandbox()
    async with at(sandbox, parse_float=Decimal) as gateway:
        (plain,) = await fetched(gateway, [YEAR], into=Series, headers={"X-Trace": "1"})
        (new,) = await fetched(gateway, [YEAR], into=Series, journal=path)
        (stored,) = await fetched(gateway, [YEAR], into=Series, journal=path)
        (as_it_came,) = await fetched(gateway, [YEAR], journal=path)
        (odd,) = await fetched(gateway, [YEAR], into=list[Series], journal=path)

    values = [result.value for result in (plain, new, stored)]
    assert values == [Series.model_validate({"base": "EUR", "startDate": date(2025, 1, 1)})] * 3
    assert [call.headers.get("X-Trace") for call in sandbox.received] == ["1", None]
    assert len(rate_rows(as_it_came.value, base="EUR") or []) > 500
    assert (type(odd.error), odd.outcome) == (UnexpectedReplyError, Outcome.APPLIED)
    assert getattr(odd.error, "problems", "") == "it: Input should be a valid array"


BODY = b'{"rate":1.50,"text":"1.50\\n","all":[12345678901234567890.12,{"a":1e2}]}'


@pytest.mark.parametrize(
    "body",
    [BODY, BODY.replace(b",", b",\r\n\t").replace(b":", b"\r:\n")],
    ids=["short", "indented"],
)
@pytest.mark.parametrize(
    ("into", "load"),
    [(None, None), (dict[str, Any], None), (dict[str, str | list[Any]], None), (None, repr)],
)
async def test_exact_numbers_of_a_journal_are_those_of_the_reply(
    path: Path, into: Any, load: Any, body: bytes
) -> None:
    """A number is no text, also for a type that would take one; an exported row is one line."""

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=body, headers={"content-type": "application/json"})

    async with session(answer, parse_float=Decimal) as gateway:
        (plain,) = await fetched(gateway, [YEAR], into=into)
        options = {"journal": path} if load is None else {"journal": path, "load": load}
        found = [(await fetched(gateway, [YEAR], into=into, **options))[0] for _ in range(2)]

    for result in found:
        if plain.error:
            assert str(result.error).endswith("does not fit: see error.problems")
        else:
            assert repr(result.value) == repr(load(plain.value) if load else plain.value)
    assert body in content(path)
    bulk.export(path, out := path.with_suffix(".ndjson"))
    (line,) = content(out).splitlines()
    exported = json.loads(line, parse_float=Decimal)["value"]
    assert exported == json.loads(body, parse_float=Decimal)


@pytest.mark.parametrize("into", [None, Series | None, Series])
async def test_an_empty_reply_is_the_same_with_a_journal(path: Path, into: Any) -> None:
    async with session(lambda _: httpx.Response(204)) as gateway:
        (plain,) = await fetched(gateway, [YEAR], into=into)
        kept = [(await fetched(gateway, [YEAR], into=into, journal=path))[0] for _ in range(2)]

    for one in (plain, *kept):
        if into is Series:
            assert isinstance(one.error, UnexpectedReplyError)
        else:
            assert one.value is None


async def test_a_reply_that_does_not_fit_is_kept_in_the_journal(path: Path) -> None:
    async with at(Sandbox()) as gateway:
        (odd,) = await fetched(gateway, [YEAR], into=int, journal=path)

    assert (odd.outcome, odd.advice) == (Outcome.APPLIED, Advice.FIX)
    assert [(row["state"], row["value"]["base"]) for row in rows(path)] == [("done", "EUR")]
