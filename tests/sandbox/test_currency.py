from typing import Any

import httpx
import pytest

from gateway_sdk.sandbox._reference_data import ReferenceRates

PATH = "/currency/1.0.0/exchangeRateSeries"
QUERY = {"base": "EUR", "symbols": "USD,JPY", "startDate": "2026-01-01", "endDate": "2026-01-05"}


async def test_series_has_the_business_days(client: httpx.AsyncClient) -> None:
    """The reply has the arguments and the rates of each business day, ascending."""
    reply = await client.post(PATH, json=QUERY)

    assert reply.status_code == 200
    assert reply.json() == {
        "base": "EUR",
        "symbols": "USD,JPY",
        "startDate": "2026-01-01",
        "endDate": "2026-01-05",
        "rates": {
            "2026-01-02": {"USD": 1.1721, "JPY": 183.94},
            "2026-01-05": {"USD": 1.1664, "JPY": 182.93},
        },
    }
    assert list(reply.json()["rates"]) == ["2026-01-02", "2026-01-05"]


async def test_symbols_may_have_spaces(client: httpx.AsyncClient) -> None:
    """White space around a code is ignored."""
    reply = await client.post(PATH, json=QUERY | {"symbols": " USD , JPY"})

    assert reply.json()["rates"]["2026-01-02"] == {"USD": 1.1721, "JPY": 183.94}


async def test_series_outside_the_data_is_empty(client: httpx.AsyncClient) -> None:
    """A range before the euro has no rates and is no error."""
    reply = await client.post(
        PATH, json=QUERY | {"startDate": "1990-01-01", "endDate": "1990-12-31"}
    )

    assert reply.status_code == 200
    assert reply.json()["rates"] == {}


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"base": "BTC"}, 404, "no reference rates for BTC"),
        ({"symbols": "USD,XAU"}, 404, "no reference rates for XAU"),
        ({"symbols": "usd"}, 404, "no reference rates for usd"),
        ({"symbols": "USD,"}, 400, "$.base and $.symbols must name currencies"),
        ({"base": ""}, 400, "$.base and $.symbols must name currencies"),
        ({"startDate": "2026-02-30"}, 400, "$.startDate must be an ISO 8601 date"),
        ({"endDate": "yesterday"}, 400, "$.endDate must be an ISO 8601 date"),
        ({"startDate": "2026-01-06"}, 400, "$.startDate is after $.endDate"),
        ({"endDate": None}, 400, "$.endDate must be a string"),
        ({"start_date": "2026-01-01"}, 400, "$.start_date is not a field of the interface"),
    ],
)
async def test_impossible_series_is_refused(
    client: httpx.AsyncClient, change: dict[str, Any], status: int, message: str
) -> None:
    """An impossible series is refused, and the message says why."""
    reply = await client.post(PATH, json=QUERY | change)

    assert reply.status_code == status
    assert reply.json()["message"] == message


async def test_repeated_symbol_is_looked_up_once(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A symbol that is given many times costs no more than one."""
    looked_up: list[list[str]] = []

    def series(_: object, __: str, symbols: list[str], *___: object) -> dict[str, Any]:
        looked_up.append(symbols)
        return {}

    monkeypatch.setattr(ReferenceRates, "series", series)
    await client.post(PATH, json=QUERY | {"symbols": "USD,JPY, USD,USD"})

    assert looked_up == [["USD", "JPY"]]
