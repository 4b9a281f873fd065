from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest
from PIL import Image

from gateway_sdk.cli.demo.chart import draw_chart, months_within
from gateway_sdk.cli.demo.findings import Finding, Findings, State


@pytest.mark.parametrize(
    ("first_day", "last_day", "months"),
    [
        (date(2025, 10, 30), date(2026, 2, 2), [date(2025, 11, 1), date(2026, 1, 1)]),
        (date(2025, 11, 1), date(2025, 12, 31), [date(2025, 12, 1)]),
        (date(2025, 11, 2), date(2025, 11, 30), []),
    ],
)
def test_every_other_month_is_marked(first_day: date, last_day: date, months: list[date]) -> None:
    """The marks are first days of months within the range."""
    assert list(months_within(first_day, last_day)) == months


def test_chart_is_drawn_of_whatever_there_is(
    tmp_path: Path, finding: Callable[..., Finding], findings: Callable[..., Findings]
) -> None:
    """Series that rise, fall, stand still or end early make a PNG of 1600 by 1000."""
    found = findings(
        *[finding(f"UP{n}", {1: 1.0, 10: 1.0 + n / 10}) for n in range(6)],
        finding("DWN", {1: 2.0, 10: 1.0}),
        finding("END", {1: 2.0, 4: 1.0}, state=State.ENDED),
        finding("NIL", state=State.SILENT),
    )

    draw_chart(found, tmp_path / "rates.png")

    with Image.open(tmp_path / "rates.png") as image:
        assert (image.format, image.size) == ("PNG", (1600, 1000))


def test_chart_of_nothing_is_drawn(tmp_path: Path, findings: Callable[..., Findings]) -> None:
    """Without any rates there is still a chart, an empty one."""
    draw_chart(findings(), tmp_path / "rates.png")

    assert (tmp_path / "rates.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
