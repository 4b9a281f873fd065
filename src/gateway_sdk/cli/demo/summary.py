"""What the demo says before and after its table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway_sdk.cli.demo.files import CHART_NAME, LINES_NAME
from gateway_sdk.cli.demo.findings import Finding, Findings, Plan, State
from gateway_sdk.cli.facts import Fact
from gateway_sdk.errors import StatusError

HEADING: Final = "Gateway demo: a year of exchange rates, asked from a gateway"


def plan_facts(plan: Plan, address: str, login: str) -> Iterator[Fact]:
    """Tell where the gateway is, how its token came, and what it is about to be asked."""
    yield "Gateway", f"{address}, a sandbox on this machine"
    yield "Login", login
    yield "Countries", f"{plan.country_count}, which use {len(plan.countries)} currencies"
    yield "Range", f"{plan.first_day} to {plan.last_day}, the last twelve months that it has"


def caption(plan: Plan) -> str:
    """Say how the table is read."""
    return (
        f"Units for one {plan.base}: a rise means that {plan.base} gained."
        " Each curve has its own scale."
    )


def summary_facts(findings: Findings, folder: Path, seconds: float) -> Iterator[Fact]:
    """Tell what was done, what failed and why, how long it took, and where the files are."""
    yield "Calls", _calls(findings)
    yield "Rates", _rates(findings)
    for item in findings.of(State.ENDED):
        yield "Ended", f"{item.currency}: its last rate is of {item.days[-1]}"
    if silent := findings.of(State.SILENT):
        yield "No rates", f"{_codes(silent)}: known to the gateway, but not quoted in this range"
    for item in findings.of(State.BASE):
        users = len(item.countries)
        yield "Base", f"{item.currency}, of {users} countries: the measure of the others, not asked"
    for reason, failed in findings.failures.items():
        yield "Failed", f"{len(failed)} × {reason}"  # noqa: RUF001
        yield from _words(failed)
        yield "", _codes(failed)
    yield "Files", str(folder / LINES_NAME)
    yield "", str(folder / CHART_NAME)
    yield "Took", f"{seconds:.1f} s in all, of which the series {findings.seconds:.1f} s"


def _calls(findings: Findings) -> str:
    failed = len(findings.of(State.FAILED))
    succeeded = findings.calls - failed
    return f"{findings.calls} in all: {succeeded} succeeded, {failed} failed"


def _rates(findings: Findings) -> str:
    return (
        f"{findings.rate_count} daily rates of {len(findings.quoted)} currencies,"
        f" out of {len(findings.plan.countries)}"
    )


def _words(failed: list[Finding]) -> Iterator[Fact]:
    """Quote the gateway on the first of them, if it said anything."""
    error = failed[0].error
    if isinstance(error, StatusError) and error.payload and error.payload.message:
        more = " and so on" if len(failed) > 1 else ""
        yield "", f"In the gateway's words: “{error.payload.message}”{more}"


def _codes(findings: list[Finding]) -> str:
    return " ".join(finding.currency for finding in findings)
