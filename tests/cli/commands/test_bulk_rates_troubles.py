"""What ends a run before its time, what the user reads then, and how it goes on."""

import errno
from pathlib import Path
from typing import NoReturn

import pytest

from gateway_sdk._lock_file import LockFile
from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Fault, Sandbox
from tests.bulk.journal.journals import room_for
from tests.cli.commands.journeys import (
    ALL,
    JOB,
    ONE_BY_ONE,
    SERIES,
    SERIES_OF,
    Call,
    asked,
    lines,
    states,
)

THEN = "The run was ended. Then give the same command again."


def test_file_in_use_is_refused(call_gateway: Call, served: Sandbox, out: Path) -> None:
    """Two runs never write the same file, and the gateway's countries are not asked for either."""
    held = LockFile(out.with_name(f"{out.name}.db-lock"))
    assert held.acquire()

    ended = call_gateway(*ALL, "--out", out)
    held.release()

    assert (ended.status, len(ended.err.splitlines())) == (2, 1)
    assert "is in use by another run: wait for its end" in ended.err
    assert not served.received


@pytest.mark.posix
def test_full_disk_ends_a_run_that_goes_on_with_more_room(
    call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """What stands in the file is whole; the status is that of output that cannot be written."""
    job, series = (*JOB[:-1], "1d"), 60
    with room_for(100_000):
        ended = call_gateway(*job, "--out", out, *ONE_BY_ONE)
    kept = len(lines(out))
    before = asked(served)
    again = call_gateway(*job, "--out", out)

    assert (ended.status, len(ended.err.splitlines())) == (1, 1)
    assert "cannot be written" in ended.err
    assert "its rows are kept: run the same again" in ended.err
    assert 0 < kept < series
    assert again.err.startswith(f"60 of 60 series, {series - kept} of them new\n")
    assert asked(served) - before == series - kept


def test_file_that_cannot_be_written_costs_no_series(
    call_gateway: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal is complete: the status is not that of a command that sent nothing."""
    out, kept = tmp_path / "rates.csv", tmp_path / "kept.db"

    def fail(descriptor: int) -> NoReturn:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("gateway_sdk.bulk._export.os.fsync", fail)
        ended = call_gateway(*JOB, "--out", out, "--journal", kept, "--sandbox")
    again = call_gateway(*JOB, "--out", out, "--journal", kept, "--sandbox")

    assert ended.status == 1
    assert f"cannot write {out}: No space left on device; the journal is complete" in ended.err
    assert again.err.startswith("6 of 6 series, 0 of them new\n")


def test_wrong_token_ends_a_run_at_once(
    call_gateway: Call, served: Sandbox, monkeypatch: pytest.MonkeyPatch, out: Path
) -> None:
    """What is true of one call is true of all: the others are not made."""
    monkeypatch.setenv("GATEWAY_ACCESS_TOKEN", "wrong")
    refused = call_gateway(*JOB, "--out", out, *ONE_BY_ONE)
    monkeypatch.setenv("GATEWAY_ACCESS_TOKEN", SANDBOX_ACCESS_TOKEN)
    tried = asked(served)
    again = call_gateway(*JOB, "--out", out, "--retry-failed")

    assert refused.status == 3
    assert refused.err.splitlines()[1:] == [
        "Is GATEWAY_ACCESS_TOKEN right, and still valid?",
        THEN,
    ]
    assert tried < SERIES
    assert again.status == 0
    assert again.err.startswith("6 of 6 series, 6 of them new\n")


def test_refusal_of_the_first_series_ends_a_run(
    call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """A 403 at first is taken for the token's, later for that of a currency."""
    served.faults.on(SERIES_OF, Fault.status(403), at=1)

    ended = call_gateway(*JOB, "--out", out, *ONE_BY_ONE)

    assert (ended.status, states(out).count("failed")) == (3, 1)
    # One more may be under way when the first is known to have failed.
    assert asked(served) <= 2
    assert THEN in ended.err
