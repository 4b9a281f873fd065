"""The files that the demo leaves behind."""

import json
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from gateway_sdk.cli.demo.findings import Finding, Findings
from gateway_sdk.cli.failure import MISUSED, CommandError
from gateway_sdk.errors import GatewayError, StatusError

LINES_NAME: Final = "rates.jsonl"
CHART_NAME: Final = "rates.png"


def make_folder(folder: Path) -> None:
    """Make the folder if it is not there, and try to write into it.

    Raises:
        CommandError: that is not possible; the message says why.
    """
    with writing_into(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass


@contextmanager
def writing_into(folder: Path) -> Generator[None]:
    """Turn the system's refusals into a message with the way out.

    Raises:
        CommandError: the system refused.
    """
    try:
        yield
    except OSError as error:
        raise CommandError(
            f"cannot write into {folder}: {error.strerror}; choose another folder with --out",
            MISUSED,
        ) from error


def write_lines(findings: Findings, path: Path) -> None:
    """Write one JSON object per currency and line, in code order, failed ones included."""
    base = findings.plan.base
    lines = (json.dumps(_line(item, base), ensure_ascii=False) for item in findings.items)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8", newline="\n")


def _line(finding: Finding, base: str) -> dict[str, Any]:
    """Give the object of a currency; rates are units of it for one of the base, by ISO 8601 day."""
    return {
        "currency": finding.currency,
        "countries": finding.countries,
        "base": base,
        "state": finding.state.value,
        "rates": {day.isoformat(): rate for day, rate in finding.rates.items()},
        "error": _error(finding.error) if finding.error else None,
    }


def _error(error: GatewayError) -> dict[str, Any]:
    told = error.payload if isinstance(error, StatusError) else None
    return {
        "type": type(error).__name__,
        "text": str(error),
        "gateway_message": told.message if told else None,
    }
