import io
from collections.abc import Callable

import pytest
from rich.console import Console

from gateway_sdk.cli.demo.findings import Finding, Findings, State
from gateway_sdk.cli.demo.table import format_change, format_rate, make_table, name_countries

Make = Callable[..., Finding]
MakeAll = Callable[..., Findings]


@pytest.mark.parametrize(
    ("countries", "room", "text"),
    [
        (["Japan"], 26, "Japan"),
        (["Switzerland", "Liechtenstein"], 26, "Switzerland, Liechtenstein"),
        (["Switzerland", "Liechtenstein"], 25, "Switzerland and 1 more"),
        (["Norway", "Svalbard", "Bouvet"], 24, "Norway, Svalbard, Bouvet"),
        (["Norway", "Svalbard", "Bouvet"], 23, "Norway and 2 more"),
        (["Norway", "Chad", "Svalbard & Jan Mayen"], 24, "Norway, Chad and 1 more"),
        (["South Georgia"], 12, "South Georg…"),
        (["South Georgia", "Chad"], 18, "South … and 1 more"),
    ],
)
def test_countries_fit_their_room(countries: list[str], room: int, text: str) -> None:
    """As many countries as fit are named, and the others are counted."""
    assert name_countries(countries, room) == text


@pytest.mark.parametrize(
    ("rate", "text"),
    [(0.8338, "0.8338"), (106.084, "106.0840"), (999.99, "999.9900"), (20275.17, "20275.17")],
)
def test_rates_keep_the_digits_of_their_source(rate: float, text: str) -> None:
    """A rate is written in eight columns at most."""
    assert format_rate(rate) == text


@pytest.mark.parametrize(
    ("change", "text"),
    [(15.06, "+15.1 %"), (-9.96, "−10.0 %"), (0.04, "0.0 %"), (-0.04, "0.0 %")],  # noqa: RUF001
)
def test_changes_have_a_sign(change: float, text: str) -> None:
    """A change has its sign, unless it rounds to nothing."""
    assert format_change(change) == text


def _print(findings: Findings, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    console.print(make_table(findings, width))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def test_table_has_the_greatest_rise_first(finding: Make, findings: MakeAll) -> None:
    """Rows go from the greatest rise to the greatest fall, each with its curve."""
    shown = _print(
        findings(
            finding("AAA", {1: 2.0, 10: 1.0}),
            finding("BBB", {1: 1.0, 10: 1.5}),
            finding("CCC", state=State.FAILED),
        ),
        80,
    )

    assert shown == [
        "     Used in                        First      Last   Change",
        "─" * 80,
        "BBB  Somewhere                     1.0000    1.5000  +50.0 %  ▁               █",
        "AAA  Somewhere                     2.0000    1.0000  −50.0 %  █               ▁",  # noqa: RUF001
    ]


def test_series_that_ended_shows_its_last_day(finding: Make, findings: MakeAll) -> None:
    """A series without a rate for the last day is drawn up to its end, which is named."""
    ended = finding("BGN", {1: 1.0, 2: 2.0, 3: 3.0, 4: 4.0}, state=State.ENDED)

    assert _print(findings(ended), 80)[-1].endswith("▁▃▆█ to 2026-01-04")


@pytest.mark.parametrize("width", [66, 80, 110])
def test_table_keeps_to_its_width(width: int, finding: Make, findings: MakeAll) -> None:
    """No line is longer than the terminal is wide, and none is cut."""
    shown = _print(findings(finding("AAA", {1: 2.0, 10: 1.0})), width)

    assert max(len(line) for line in shown) == width
    assert shown[-1].endswith("▁")
