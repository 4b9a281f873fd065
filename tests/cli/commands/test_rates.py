import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet  # type: ignore[import-untyped]

from gateway_sdk.areas.currency import CurrencyArea
from tests.cli.ended import Ended

Call = Callable[..., Ended]

WEEK = ("--start", "2026-10-26", "--end", "2026-10-30", "--sandbox")
USD = ["1.1188", "1.115", "1.1133", "1.113", "1.1172"]


def answer(monkeypatch: pytest.MonkeyPatch, reply: Any) -> None:
    """Let gateways answer this to whoever asks for rates."""

    async def series(*_: object) -> Any:
        return reply

    monkeypatch.setattr(CurrencyArea, "exchange_rate_series", series)


def test_json_keeps_every_digit(call_gateway: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that no float can hold comes out as it came in."""
    answer(monkeypatch, {"rates": {"2026-10-30": {"USD": Decimal("1.12345678901234567890")}}})

    assert (
        '"USD": 1.12345678901234567890' in call_gateway("rates", "EUR", "USD", "--json", *WEEK).out
    )
    assert "\t1.12345678901234567890\n" in call_gateway("rates", "EUR", "USD", *WEEK).out


def test_files_are_written_in_place_of_a_table(call_gateway: Call, tmp_path: Path) -> None:
    """What was written is told on standard error."""
    png, table = tmp_path / "rates.png", tmp_path / "rates.parquet"

    ended = call_gateway("rates", "EUR", "USD", "--png", png, "--parquet", table, *WEEK)

    assert (ended.status, ended.out) == (0, "")
    assert ended.err == f"{table}: 5 days, 1 currency\n{png}: 5 days, 1 currency\n"
    assert png.read_bytes().startswith(b"\x89PNG")
    assert parquet.read_table(table)["USD"].to_pylist() == [Decimal(text) for text in USD]


@pytest.mark.parametrize("reply", [{"series": [1.5]}, None, "nothing today"])
def test_other_shape_is_shown_as_it_came(
    call_gateway: Call, monkeypatch: pytest.MonkeyPatch, reply: Any
) -> None:
    """The interface leaves the reply open: it is shown, and said that it is another."""
    answer(monkeypatch, reply)

    shown = call_gateway("rates", "EUR", "USD", *WEEK)
    asked_for = call_gateway("rates", "EUR", "USD", "--json", *WEEK)

    assert json.loads(shown.out) == json.loads(asked_for.out) == reply
    assert shown.err.startswith("the reply has another shape than days with rates")
    assert (shown.status, asked_for.status, asked_for.err) == (0, 0, "")


@pytest.mark.parametrize("form", [["--csv"], ["--plot"], ["--png", "x.png"], ["--parquet", "x"]])
def test_other_shape_is_no_csv(
    call_gateway: Call,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    form: list[str],
) -> None:
    """A program that wants columns gets an error, and not something else."""
    monkeypatch.chdir(tmp_path)
    answer(monkeypatch, {"series": [1.5]})

    ended = call_gateway("rates", "EUR", "USD", *form, *WEEK)

    assert (ended.status, ended.out) == (4, "")
    assert "--json shows it" in ended.err
    assert not list(tmp_path.glob("x*"))
