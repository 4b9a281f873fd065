"""What ends a run before its time, what the user reads then, and how it goes on."""

import errno
import fcntl
import socket
from pathlib import Path
from typing import NoReturn

import pytest
from starlette.responses import Response

from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Fault, Sandbox
from gateway_sdk.sandbox._faults import FaultyCall
from tests.bulk.journal.journals import room_for
from tests.cli.commands.journeys import (
    ALL,
    JOB,
    ONE_BY_ONE,
    SERIES,
    SERIES_OF,
    Call,
    asked,
    journal_of,
    lines,
    states,
)

THEN = "The run was ended. Then give the same command again."


def test_file_of_another_gateway_is_refused(call_gateway: Call, served: Sandbox, out: Path) -> None:
    """Rates of two gateways are never mixed: the file stays as it is."""
    assert call_gateway(*JOB, "--out", out, "--sandbox").status == 0
    before = journal_of(out).read_bytes()

    ended = call_gateway(*JOB, "--out", out)

    assert ended.status == 2
    assert "belongs to the job 'exchange rates of the sandbox'" in ended.err
    assert "give another file" in ended.err
    assert not served.received
    assert journal_of(out).read_bytes() == before


def test_file_in_use_is_refused(call_gateway: Call, served: Sandbox, out: Path) -> None:
    """Two runs never write the same file, and the gateway's countries are not asked for either."""
    with out.with_name(f"{out.name}.db-lock").open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        ended = call_gateway(*ALL, "--out", out)

    assert (ended.status, len(ended.err.splitlines())) == (2, 1)
    assert "is in use by another run: wait for its end" in ended.err
    assert not served.received


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


def test_refusal_of_the_countries_is_that_of_the_command(
    call_gateway: Call, monkeypatch: pytest.MonkeyPatch, served: Sandbox, out: Path
) -> None:
    """Nothing was left out, so there is nothing to be said of it."""
    monkeypatch.setenv("GATEWAY_ACCESS_TOKEN", "wrong")

    ended = call_gateway(*ALL, "--out", out)

    assert ended.status == 3
    assert ended.err.splitlines()[1:] == ["Is GATEWAY_ACCESS_TOKEN right, and still valid?"]
    assert {call.operation for call in served.received} == {"list_countries"}


def test_no_countries_are_no_success(call_gateway: Call, served: Sandbox, out: Path) -> None:
    """An empty list is told, for somebody wanted rates."""

    async def apply(call: FaultyCall) -> None:
        await call.reply(Response("[]", media_type="application/json"))

    served.faults.on("list_countries", Fault("no countries", apply))

    ended = call_gateway(*ALL, "--out", out)

    assert (ended.status, asked(served)) == (1, 0)
    assert "there is nothing to fetch" in ended.err


@pytest.mark.usefixtures("unhurried")
def test_gateway_that_is_not_there_is_waited_for_as_long_as_asked(
    call_gateway: Call, monkeypatch: pytest.MonkeyPatch, out: Path
) -> None:
    """What is waited for is told at once, and the error says what to look at."""
    with socket.socket() as nobody:  # bound, and not listening
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.setenv("GATEWAY_BASE_URL", f"http://127.0.0.1:{nobody.getsockname()[1]}")
        monkeypatch.setenv("GATEWAY_ACCESS_TOKEN", SANDBOX_ACCESS_TOKEN)

        ended = call_gateway(*JOB, "--out", out, *ONE_BY_ONE, "--patience", "0")

    assert ended.status == 4
    assert "is GATEWAY_BASE_URL right?" in ended.err
    assert "The run waits and goes on by itself." in ended.err
    assert "gateway: the run waited 0 s in vain: " in ended.err
    assert not lines(out)


@pytest.mark.parametrize(("at", "asked_for"), [(1, 1), (2, SERIES)])
def test_refusal_that_may_be_of_one_series_ends_no_run_in_which_others_came(
    call_gateway: Call, served: Sandbox, out: Path, at: int, asked_for: int
) -> None:
    """A 403 at first is taken for the token's, later for that of a currency."""
    served.faults.on(SERIES_OF, Fault.status(403), at=at)

    ended = call_gateway(*JOB, "--out", out, *ONE_BY_ONE)

    assert ended.status == 3
    assert states(out).count("failed") == 1
    # One more may be under way when the first is known to have failed.
    assert asked_for <= asked(served) <= asked_for + (at == 1)
    assert (THEN in ended.err) == (at == 1)
