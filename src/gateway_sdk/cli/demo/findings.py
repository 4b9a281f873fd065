"""What the demo found out, in the words that the table, the summary and the files share."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from enum import Enum

from gateway_sdk.errors import GatewayError, NotFoundError


class State(Enum):
    """How a currency's series came out."""

    CURRENT = "current"
    """It goes on to the last day that the gateway has."""
    ENDED = "ended"
    """It has rates, but none for the last day."""
    SILENT = "silent"
    """The gateway knows the currency and has no rate of it in the whole range."""
    FAILED = "failed"
    """The call for it failed."""
    BASE = "base"
    """It is what the others are measured in, so it was not asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What to ask for, as the gateway's own data suggest it.

    Attributes:
        countries: The names of those that use a currency, by its ISO 4217 code, in code order.
        base: The currency that the rates are for one unit of.
        first_day: The first day of the range.
        last_day: The last day for which the gateway has rates.
    """

    countries: Mapping[str, tuple[str, ...]]
    base: str
    first_day: date
    last_day: date

    @property
    def asked(self) -> list[str]:
        """The currencies to ask for: a base's rate against itself is 1, and no finding."""
        return [currency for currency in self.countries if currency != self.base]

    @property
    def country_count(self) -> int:
        """The number of countries."""
        return sum(len(names) for names in self.countries.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What came back for one currency.

    Attributes:
        currency: Its ISO 4217 code.
        countries: The names of those that use it.
        state: How its series came out.
        rates: Units of it for one unit of the base, by day, ascending; empty if there are none.
        error: Why the call failed; None if it did not.
    """

    currency: str
    countries: tuple[str, ...]
    state: State
    rates: Mapping[date, float]
    error: GatewayError | None = None

    @property
    def days(self) -> list[date]:
        """The days that have a rate, ascending."""
        return list(self.rates)

    @property
    def first_rate(self) -> float:
        """The rate of the first day; only of a series that has one."""
        return self.rates[self.days[0]]

    @property
    def last_rate(self) -> float:
        """The rate of the last day; only of a series that has one."""
        return self.rates[self.days[-1]]

    @property
    def change(self) -> float:
        """Per cent by which the rate rose, that is by which the base gained on this currency."""
        return 100 * (self.last_rate / self.first_rate - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What came back for all currencies.

    Attributes:
        plan: What was asked for.
        items: One finding per currency of the plan, the base included, in its order.
        calls: Calls of the gateway in all, those for the plan included.
        seconds: What the series took together.
    """

    plan: Plan
    items: tuple[Finding, ...]
    calls: int
    seconds: float

    def of(self, *states: State) -> list[Finding]:
        """Give the findings in these states, in code order."""
        return [item for item in self.items if item.state in states]

    @property
    def quoted(self) -> list[Finding]:
        """Those with rates, the ones that the base gained most on first."""
        return sorted(self.of(State.CURRENT, State.ENDED), key=_change, reverse=True)

    @property
    def rate_count(self) -> int:
        """The number of daily rates."""
        return sum(len(item.rates) for item in self.items)

    @property
    def failures(self) -> dict[str, list[Finding]]:
        """The failed ones by their reason: the class of the error and what it says."""
        groups: defaultdict[str, list[Finding]] = defaultdict(list)
        for item in self.items:
            if item.error is not None:
                groups[f"{type(item.error).__name__}: {item.error.args[0]}"].append(item)
        return dict(groups)

    @property
    def worked(self) -> bool:
        """Whether there are rates, and no call failed but for currencies that are not quoted."""
        return bool(self.quoted) and all(
            isinstance(item.error, NotFoundError) for item in self.of(State.FAILED)
        )


def _change(finding: Finding) -> float:
    return finding.change
