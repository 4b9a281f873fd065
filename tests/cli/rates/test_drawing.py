import io
from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal

import pytest
from PIL import Image
from pyarrow import parquet  # type: ignore[import-untyped]

from gateway_sdk.cli.output.as_parquet import to_parquet
from gateway_sdk.cli.rates.curves import draw_curves
from gateway_sdk.cli.rates.picture import COLOURS, draw_picture
from gateway_sdk.cli.rates.series import Series

FIRST = date(2026, 1, 1)


def series_of(rates: Mapping[str, list[str | None]]) -> Series:
    """Make a series of rates on days in a row."""
    count = max(map(len, rates.values()))
    days = [FIRST + timedelta(days=number) for number in range(count)]
    by_day = {
        day: {symbol: Decimal(text) for symbol, found in rates.items() if (text := found[number])}
        for number, day in enumerate(days)
    }
    return Series("EUR", list(rates), by_day)


@pytest.fixture(autouse=True)
def eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw in a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")


def test_curve_has_its_scale_and_its_days() -> None:
    """The heading tells the change, the side the highest and lowest rate, the foot the days."""
    drawn = draw_curves(series_of({"USD": ["1.10", "1.30", "1.21"]})).splitlines()

    assert drawn[0] == "EUR in USD: 1.10 to 1.21, +10.0 %"
    assert drawn[1] == "      1.30  " + " " * 22 + "█" * 22
    assert drawn[6] == "      1.10  " + "▁" * 22 + "█" * 44
    assert drawn[7] == " " * 12 + "2026-01-01" + " " * 46 + "2026-01-03"
    assert max(map(len, drawn)) <= 80


def test_long_series_is_averaged_to_the_width() -> None:
    """Ten years fit, from their first day to their last."""
    rates = [str(1 + number % 700) for number in range(3650)]

    drawn = draw_curves(series_of({"USD": list(rates)})).splitlines()

    assert {len(line) for line in drawn[6:]} == {80}
    assert drawn[7].split() == ["2026-01-01", "2035-12-29"]


@pytest.mark.parametrize(
    ("rates", "heading"),
    [
        (["1.5"], "EUR in USD: 1.5 to 1.5"),
        ([None, "1.5", None], "EUR in USD: 1.5 to 1.5"),
        ([None], "EUR in USD: no rates"),
        (["2", "1"], "EUR in USD: 2 to 1, -50.0 %"),
    ],
)
def test_gaps_and_single_rates_are_drawn(rates: list[str | None], heading: str) -> None:
    """A day without a rate is left out, and one day is a curve."""
    drawn = draw_curves(series_of({"USD": rates})).splitlines()

    assert drawn[0] == heading
    assert len(drawn) == (1 if "no rates" in heading else 8)


def test_each_currency_has_a_curve() -> None:
    """They stand one below another, parted by a line."""
    drawn = draw_curves(series_of({"USD": ["1", "2"], "GBP": ["3", "4"]}))

    assert [block.split(":")[0] for block in drawn.split("\n\n")] == ["EUR in USD", "EUR in GBP"]


def colours_of(png: bytes) -> set[str]:
    """Return the colours of a picture, in which there is enough of them."""
    image = Image.open(io.BytesIO(png)).convert("RGB")
    assert image.size == (1600, 880)
    found = image.getcolors(1_000_000) or []
    return {f"#{r:02x}{g:02x}{b:02x}" for count, (r, g, b) in found if count > 50}  # type: ignore[misc]


@pytest.mark.parametrize(
    ("rates", "lines"),
    [
        ({"USD": ["1", "2", "3"]}, 1),
        ({"USD": ["1.5"]}, 1),
        ({"USD": ["1", "2"], "GBP": ["3", "1"]}, 2),
        ({"USD": ["1", "2"], "$x^$": ["3", "1"], "SEK": [None, None]}, 2),
    ],
)
def test_picture_has_a_line_for_each_currency(
    rates: dict[str, list[str | None]], lines: int
) -> None:
    """Each is drawn in a colour of its own, and one without rates is not."""
    assert colours_of(draw_picture(series_of(rates))) >= set(COLOURS[:lines])
    assert COLOURS[lines] not in colours_of(draw_picture(series_of(rates)))


def test_parquet_keeps_days_decimals_and_gaps() -> None:
    """What is read back is what was written, digit by digit."""
    series = series_of({"USD": ["1.10", None], "XAU": ["0.00024", "12345.6"], "SEK": [None, None]})

    table = parquet.read_table(io.BytesIO(to_parquet(series.columns())))

    assert table.to_pydict() == {
        "date": [FIRST, FIRST + timedelta(days=1)],
        "USD": [Decimal("1.10"), None],
        "XAU": [Decimal("0.00024"), Decimal("12345.6")],
        "SEK": [None, None],
    }
    assert str(table.schema.field("date").type) == "date32[day]"
