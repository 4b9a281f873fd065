from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from gateway_sdk.cli.rates.series import read_series

REPLY = {
    "rates": {
        "2026-01-05": {"USD": Decimal("1.10"), "GBP": 2},
        "2026-01-02": {"USD": Decimal("1.20"), "XAU": Decimal("0.001")},
    }
}


def test_common_shape_is_read() -> None:
    """Days ascend; currencies come as asked for, then what else was sent."""
    series = read_series(REPLY, "EUR", ["GBP", "USD", "SEK"])

    assert series is not None
    assert series.days == [date(2026, 1, 2), date(2026, 1, 5)]
    assert series.symbols == ["GBP", "USD", "SEK", "XAU"]
    assert series.of("GBP") == [None, 2]
    assert series.table().columns == ("date", "GBP", "USD", "SEK", "XAU")
    assert series.table().rows == [
        ["2026-01-02", None, Decimal("1.20"), None, Decimal("0.001")],
        ["2026-01-05", 2, Decimal("1.10"), None, None],
    ]
    assert list(series.columns()) == ["date", "GBP", "USD", "SEK", "XAU"]
    assert series.columns()["USD"] == [Decimal("1.20"), Decimal("1.10")]


def test_series_may_be_empty() -> None:
    """No day is a series too."""
    series = read_series({"rates": {}}, "EUR", ["USD"])

    assert series is not None
    assert series.days == []


@pytest.mark.parametrize(
    "reply",
    [
        None,
        [],
        "rates",
        {},
        {"rates": [1]},
        {"rates": {"Monday": {"USD": 1}}},
        {"rates": {"2026-01-05": 1}},
        {"rates": {"2026-01-05": {"USD": "1.1"}}},
        {"rates": {"2026-01-05": {"USD": True}}},
        {"rates": {"2026-01-05": {"USD": None}}},
        {"rates": {"2026-01-05": {"USD": 0}}},
        {"rates": {"2026-01-05": {"USD": -1}}},
        {"rates": {"2026-01-05": {"USD": Decimal("1E+400000")}}},
        {"rates": {"2026-01-05": {"USD": Decimal("1E-400000")}}},
        {"rates": {"2026-01-05": {"USD": Decimal("1." + "1" * 40)}}},
    ],
)
def test_other_shapes_are_none(reply: Any) -> None:
    """The interface leaves the reply open, so nothing is taken for what it is not."""
    assert read_series(reply, "EUR", ["USD"]) is None
