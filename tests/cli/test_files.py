import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway_sdk.cli.demo.files import make_folder, write_lines, writing_into
from gateway_sdk.cli.demo.findings import Finding, Findings, State
from gateway_sdk.cli.failure import CommandError
from gateway_sdk.errors import NotFoundError, ReplyLostError
from gateway_sdk.models import ErrorPayload


def test_lines_hold_all_currencies(
    tmp_path: Path, finding: Callable[..., Finding], findings: Callable[..., Findings]
) -> None:
    """Each currency has a line: its rates by day, or its error with the gateway's words."""
    not_found = NotFoundError("the gateway answered 404 Not Found", status=404)
    not_found.payload = ErrorPayload.model_validate({"message": "no rates"})
    found = findings(
        finding("AED", state=State.FAILED, error=not_found),
        finding("CHF", state=State.FAILED, error=ReplyLostError("the reply broke off")),
        finding("USD", {1: 1.1, 10: 1.2}),
    )

    write_lines(found, tmp_path / "rates.jsonl")

    lines = (tmp_path / "rates.jsonl").read_text(encoding="utf-8").splitlines()
    shared = {"countries": ["Somewhere"], "base": "EUR"}
    assert [json.loads(line) for line in lines] == [
        {
            "currency": "AED",
            "state": "failed",
            "rates": {},
            "error": {
                "type": "NotFoundError",
                "text": "the gateway answered 404 Not Found",
                "gateway_message": "no rates",
            },
            **shared,
        },
        {
            "currency": "CHF",
            "state": "failed",
            "rates": {},
            "error": {
                "type": "ReplyLostError",
                "text": "the reply broke off",
                "gateway_message": None,
            },
            **shared,
        },
        {
            "currency": "USD",
            "state": "current",
            "rates": {"2026-01-01": 1.1, "2026-01-10": 1.2},
            "error": None,
            **shared,
        },
    ]


def test_folder_is_made_with_those_above_it(tmp_path: Path) -> None:
    """A folder that is not there is made, and nothing is left in it."""
    make_folder(tmp_path / "a" / "b")

    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_refusal_names_the_folder_and_the_way_out(tmp_path: Path) -> None:
    """A folder below a file cannot be made: the message says so, in one line."""
    (tmp_path / "file").touch()

    with pytest.raises(CommandError, match="Not a directory; choose another folder") as caught:
        make_folder(tmp_path / "file" / "out")

    assert caught.value.status == 2
    assert str(tmp_path / "file" / "out") in str(caught.value)


def test_refusal_while_writing_is_explained_too(tmp_path: Path) -> None:
    """A folder in the place of a file is no traceback."""
    with pytest.raises(CommandError, match="Is a directory"), writing_into(tmp_path):
        tmp_path.write_text("")
