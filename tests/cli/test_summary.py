from collections.abc import Callable
from pathlib import Path

from gateway_sdk.cli.demo.findings import Finding, Findings, State
from gateway_sdk.cli.demo.summary import summary_facts
from gateway_sdk.errors import NotFoundError, ReplyLostError
from gateway_sdk.models import ErrorPayload

Make = Callable[..., Finding]
MakeAll = Callable[..., Findings]


def not_found(message: str | None) -> NotFoundError:
    """Make the error for a currency that is not quoted."""
    error = NotFoundError("the gateway answered 404 Not Found", status=404)
    error.payload = ErrorPayload.model_validate({"message": message} if message else {})
    return error


def test_summary_hides_nothing(finding: Make, findings: MakeAll) -> None:
    """Every currency that has no whole series is named under its reason."""
    found = findings(
        finding("AED", state=State.FAILED, error=not_found("no rates for AED")),
        finding("AFN", state=State.FAILED, error=not_found("no rates for AFN")),
        finding("BGN", {2: 1.9558}, state=State.ENDED),
        finding("CHF", state=State.FAILED, error=ReplyLostError("the reply broke off")),
        finding("EUR", state=State.BASE),
        finding("RUB", state=State.SILENT),
        finding("USD", {1: 1.1, 10: 1.2}),
    )

    assert list(summary_facts(found, Path("out"), 3.21)) == [
        ("Calls", "9 in all: 6 succeeded, 3 failed"),
        ("Rates", "3 daily rates of 2 currencies, out of 3"),
        ("Ended", "BGN: its last rate is of 2026-01-02"),
        ("No rates", "RUB: known to the gateway, but not quoted in this range"),
        ("Base", "EUR, of 1 countries: the measure of the others, not asked"),
        ("Failed", "2 × NotFoundError: the gateway answered 404 Not Found"),  # noqa: RUF001
        ("", "In the gateway's words: “no rates for AED” and so on"),
        ("", "AED AFN"),
        ("Failed", "1 × ReplyLostError: the reply broke off"),  # noqa: RUF001
        ("", "CHF"),
        ("Files", str(Path("out/rates.jsonl"))),
        ("", str(Path("out/rates.png"))),
        ("Took", "3.2 s in all, of which the series 1.2 s"),
    ]


def test_summary_of_a_job_without_trouble_is_short(finding: Make, findings: MakeAll) -> None:
    """What did not happen is not mentioned."""
    facts = summary_facts(findings(finding("USD", {1: 1.1})), Path("out"), 1.0)

    assert [name for name, _ in facts] == ["Calls", "Rates", "Files", "", "Took"]


def test_single_failure_is_quoted_alone(finding: Make, findings: MakeAll) -> None:
    """One failure has its own words, and nothing if the gateway said nothing."""
    said = findings(finding("AED", state=State.FAILED, error=not_found("no rates for AED")))
    silent = findings(finding("AED", state=State.FAILED, error=not_found(None)))

    words = ("", "In the gateway's words: “no rates for AED”")
    assert words in list(summary_facts(said, Path("out"), 1.0))
    assert not any("words" in text for _, text in summary_facts(silent, Path("out"), 1.0))
