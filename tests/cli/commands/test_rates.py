import csv
import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet  # type: ignore[import-untyped]

from gateway_sdk.areas.currency import CurrencyArea
from gateway_sdk.sandbox import Sandbox
from tests.cli.ended import Ended

Call = Callable[..., Ended]

WEEK = ("--start", "2026-10-26", "--end", "2026-10-30", "--sandbox")
USD = ["1.1188", "1.115", "1.1133", "1.113", "1.1172"]


def answer(monkeypatch: pytest.MonkeyPatch, reply: Any) -> None:
    """Let gateways answer this to whoever asks for rates."""

    async def series(*_: object) -> Any:
        return reply

    monkeypatch.setattr(CurrencyArea, "exchange_rate_series", series)


def test_rates_are_piped_as_lines(call_gateway: Call) -> None:
    """A day is a line, and a currency a column, in the order that was asked for."""
    ended = call_gateway("rates", "EUR", "USD,GBP", *WEEK)

    header, *lines = ended.out.splitlines()
    assert (ended.status, ended.err) == (0, "")
    assert header == "date\tUSD\tGBP"
    assert lines[-1] == "2026-10-30\t1.1172\t0.8338"
    assert [line.split("\t")[1] for line in lines] == USD


def test_csv_has_the_same(call_gateway: Call) -> None:
    """The rates are those of the table."""
    ended = call_gateway("rates", "EUR", "USD", "GBP", "--csv", *WEEK)

    header, *rows = csv.reader(io.StringIO(ended.out, newline=""))
    assert header == ["date", "USD", "GBP"]
    assert [row[1] for row in rows] == USD


def test_json_is_the_whole_reply(call_gateway: Call) -> None:
    """All that the gateway said, under its own names."""
    ended = call_gateway("rates", "EUR", "USD", "--json", *WEEK)

    reply = json.loads(ended.out, parse_float=Decimal)
    assert reply["base"] == "EUR"
    assert reply["rates"]["2026-10-30"] == {"USD": Decimal("1.1172")}


def test_json_keeps_every_digit(call_gateway: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A number that no float can hold comes out as it came in."""
    answer(monkeypatch, {"rates": {"2026-10-30": {"USD": Decimal("1.12345678901234567890")}}})

    assert (
        '"USD": 1.12345678901234567890' in call_gateway("rates", "EUR", "USD", "--json", *WEEK).out
    )
    assert "\t1.12345678901234567890\n" in call_gateway("rates", "EUR", "USD", *WEEK).out


def test_days_are_sent_in_iso_8601(call_gateway: Call, served: Sandbox) -> None:
    """However they are written; a range without a single rate is said to be one."""
    assert call_gateway("rates", "EUR", "USD", "--start", "1w").status == 0
    ended = call_gateway("rates", "EUR", "USD", "--start", "1999-01-02", "--end", "1999-01-03")

    assert (ended.status, ended.out) == (0, "date\tUSD\n")
    assert (
        ended.err
        == "There are no rates from 1999-01-02 to 1999-01-03: try an earlier day for --start.\n"
    )


def test_curves_are_text_in_a_pipe_too(call_gateway: Call) -> None:
    """Their width is the usual one."""
    ended = call_gateway("rates", "EUR", "USD", "--plot", *WEEK)

    assert ended.out.startswith("EUR in USD: 1.1188 to 1.1172, -0.1 %\n")
    assert "\x1b" not in ended.out


def test_files_are_written_in_place_of_a_table(call_gateway: Call, tmp_path: Path) -> None:
    """What was written is told on standard error."""
    png, table = tmp_path / "rates.png", tmp_path / "rates.parquet"

    ended = call_gateway("rates", "EUR", "USD", "--png", png, "--parquet", table, *WEEK)

    assert (ended.status, ended.out) == (0, "")
    assert ended.err == f"{table}: 5 days, 1 currency\n{png}: 5 days, 1 currency\n"
    assert png.read_bytes().startswith(b"\x89PNG")
    assert parquet.read_table(table)["USD"].to_pylist() == [Decimal(text) for text in USD]


def test_files_and_output_go_together(call_gateway: Call, tmp_path: Path) -> None:
    """Who asks for a form explicitly gets it as well."""
    table = tmp_path / "rates.parquet"

    ended = call_gateway("rates", "EUR", "USD", "GBP", "--csv", "--parquet", table, *WEEK)

    assert ended.out.startswith("date,USD,GBP\r\n")
    assert ended.err == f"{table}: 5 days, 2 currencies\n"


@pytest.mark.parametrize("option", ["--png", "--parquet"])
def test_place_of_a_file_is_checked_first(
    call_gateway: Call, tmp_path: Path, served: Sandbox, option: str
) -> None:
    """Nothing is asked of the gateway if the answer could not be kept."""
    ended = call_gateway("rates", "EUR", "USD", option, tmp_path / "nowhere" / "file.png")

    assert (ended.status, ended.out) == (2, "")
    assert "there is no folder" in ended.err
    assert not served.received


@pytest.mark.parametrize("option", ["--plot", "--png"])
def test_nothing_is_drawn_of_no_rates(call_gateway: Call, tmp_path: Path, option: str) -> None:
    """No empty chart: it is said, and the status is 1."""
    file = [] if option == "--plot" else [tmp_path / "rates.png"]
    days = ("--start", "1998-01-01", "--end", "1998-02-01", "--sandbox")

    ended = call_gateway("rates", "EUR", "USD", option, *file, *days)

    assert (ended.status, ended.out) == (1, "")
    assert ended.err.endswith("gateway: there is nothing to draw: choose other days\n")
    assert not list(tmp_path.glob("*.png"))


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


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["EUR"], "symbols"),
        (["EUR", ","], "no currency"),
        (["EUR,CHF", "USD"], "one base currency"),
        (["EUR", "USD", "--start", "31.1."], "is not a day"),
        (["EUR", "USD", "--start", "01/02/2026"], "did you mean 2026-01-02 or 2026-02-01?"),
        (["EUR", "USD", "--start", "today", "--end", "1y"], "is after"),
        (["EUR", "USD", "--json", "--plot"], "--json and --plot exclude"),
    ],
)
def test_misuse_is_told_before_anything_is_sent(
    call_gateway: Call, arguments: list[str], words: str
) -> None:
    """A currency that is missing, a day that is none: each is named, with status 2."""
    ended = call_gateway("rates", *arguments)

    assert (ended.status, ended.out) == (2, "")
    assert words.lower() in ended.err.lower()


def test_unknown_currency_is_told_in_the_words_of_the_gateway(call_gateway: Call) -> None:
    """Whoever misspells one reads which it is."""
    ended = call_gateway("rates", "EUR", "XXX", "--sandbox")

    assert ended.status == 3
    assert "“no reference rates for XXX”" in ended.err


def test_small_letters_are_codes_too(call_gateway: Call) -> None:
    """People type what they say."""
    ended = call_gateway("rates", "eur", "usd,gbp", *WEEK)

    assert (ended.status, ended.out.splitlines()[0]) == (0, "date\tUSD\tGBP")


def test_chart_is_a_png_by_name_too(call_gateway: Call) -> None:
    """Another suffix is refused before anything is sent."""
    ended = call_gateway("rates", "EUR", "USD", "--png", "x.gif")

    assert ended.status == 2
    assert "does not end in .png" in ended.err
