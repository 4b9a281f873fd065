"""The table of rates."""

from collections.abc import Sequence
from typing import Final

from rich import box
from rich.table import Table
from rich.text import Text

from gateway_sdk.cli.demo.findings import Finding, Findings, Plan, State
from gateway_sdk.cli.sparkline import resample, sparkline

CURVE: Final = 18
"""Columns of a curve: three weeks each."""

OTHER_COLUMNS: Final = 3 + 8 + 8 + 7 + CURVE + 5 * 2
"""What the column of countries leaves to the others and to the gaps between the six."""

ROSE: Final = "cyan"
FELL: Final = "yellow"

PRECISE_BELOW: Final = 1000
"""From here on two decimals are as many digits as the ECB publishes."""


def make_table(findings: Findings, width: int) -> Table:
    """Make the table of those with rates, *width* columns wide, which must be 66 at least."""
    room = width - OTHER_COLUMNS
    # The box adds a column to the padding between two columns.
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("", style="bold", no_wrap=True, width=3)
    table.add_column("Used in", no_wrap=True, width=room)
    table.add_column("First", justify="right", no_wrap=True, width=8)
    table.add_column("Last", justify="right", no_wrap=True, width=8)
    table.add_column("Change", justify="right", no_wrap=True, width=7)
    table.add_column("", no_wrap=True, width=CURVE)
    for finding in findings.quoted:
        table.add_row(*_row(finding, findings.plan, room))
    return table


def name_countries(countries: Sequence[str], room: int) -> str:
    """Name as many countries as fit into *room* columns, and count the rest; the first is cut."""
    for shown in range(len(countries), 1, -1):
        text = _naming(countries, shown)
        if len(text) <= room:
            return text
    rest = _rest(len(countries) - 1)
    return _cut(countries[0], room - len(rest)) + rest


def format_rate(rate: float) -> str:
    """Write a rate with four decimals, or two when it is large."""
    return f"{rate:.4f}" if rate < PRECISE_BELOW else f"{rate:.2f}"


def format_change(change: float) -> str:
    """Write a change in per cent with its sign; what rounds to nothing has none."""
    text = f"{change:+.1f}"
    return "0.0 %" if text in ("+0.0", "-0.0") else f"{text} %".replace("-", "−")  # noqa: RUF001


def _row(finding: Finding, plan: Plan, room: int) -> tuple[str | Text, ...]:
    style = ROSE if finding.change > 0 else FELL
    return (
        finding.currency,
        name_countries(finding.countries, room),
        format_rate(finding.first_rate),
        format_rate(finding.last_rate),
        Text(format_change(finding.change), style=style),
        Text(_curve(finding, plan), style=style),
    )


def _curve(finding: Finding, plan: Plan) -> str:
    """Draw a series over the whole range, or up to its end if that comes before."""
    if finding.state is State.ENDED:
        end = f" to {finding.days[-1]}"
        blocks = resample(finding.rates, plan.first_day, finding.days[-1], CURVE - len(end))
        return sparkline(blocks) + end
    return sparkline(resample(finding.rates, plan.first_day, plan.last_day, CURVE))


def _naming(countries: Sequence[str], shown: int) -> str:
    return ", ".join(countries[:shown]) + _rest(len(countries) - shown)


def _rest(count: int) -> str:
    return f" and {count} more" if count else ""


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: room - 1]}…"
