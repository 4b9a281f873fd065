from collections.abc import Callable

from gateway_sdk.cli.demo.findings import Finding, Findings, Plan, State
from gateway_sdk.errors import NotFoundError, ReplyLostError

Make = Callable[..., Finding]
MakeAll = Callable[..., Findings]


def not_found() -> NotFoundError:
    """Make the error for a currency that is not quoted."""
    return NotFoundError("the gateway answered 404 Not Found", status=404)


def test_base_is_not_asked_for(plan: Plan) -> None:
    """Every currency is asked for but the one that they are measured in."""
    assert plan.asked == ["AED", "BGN"]
    assert plan.country_count == 4


def test_change_is_that_of_the_rate(finding: Make) -> None:
    """A rate that goes from 4 to 5 has risen by a quarter."""
    assert finding("AAA", {1: 4.0, 3: 9.0, 7: 5.0}).change == 25.0


def test_failures_are_grouped_by_reason(finding: Make, findings: MakeAll) -> None:
    """Failures of one class that say the same stand together."""
    lost = ReplyLostError("the reply broke off")
    found = findings(
        finding("AAA", state=State.FAILED, error=not_found()),
        finding("BBB", state=State.FAILED, error=lost),
        finding("CCC", state=State.FAILED, error=not_found()),
        finding("DDD", {1: 1.0}),
    )

    assert {
        reason: [item.currency for item in items] for reason, items in found.failures.items()
    } == {
        "NotFoundError: the gateway answered 404 Not Found": ["AAA", "CCC"],
        "ReplyLostError: the reply broke off": ["BBB"],
    }


def test_job_worked_if_only_unquoted_currencies_failed(finding: Make, findings: MakeAll) -> None:
    """A currency that is not quoted is a finding; a reply that was lost is a failure."""
    rates = finding("DDD", {1: 1.0})
    unquoted = finding("AAA", state=State.FAILED, error=not_found())
    lost = finding("BBB", state=State.FAILED, error=ReplyLostError("the reply broke off"))

    assert findings(rates, unquoted).worked
    assert not findings(rates, lost).worked
    assert not findings(unquoted).worked
