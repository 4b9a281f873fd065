"""What ends a run before its time, what the user reads then, and how it goes on."""

import fcntl
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from starlette.responses import Response

from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Fault, Sandbox
from gateway_sdk.sandbox._faults import FaultyCall
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

EUR = ("bulk", "rates", "--base", "EUR")
THEN = "The run was ended. Then give the same command again, with --retry-failed."


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Have the system refuse what goes beyond so many bytes of a file, as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((*EUR, "--symbols", "USD", "--out", "x.jsonl"), "--start"),
        ((*EUR, "--symbols", "USD", "--start", "1y"), "--out"),
        ((*EUR, "--start", "1y", "--out", "x.jsonl"), "--symbols"),
        ((*JOB, "--out", "x.jsonl", "--start", "31.1."), "is not a day"),
        ((*JOB, "--out", "x.jsonl", "--end", "2025-01-01"), "is after"),
        ((*JOB, "--out", "x.jsonl", "--split", "30"), "not a number of days"),
        ((*JOB, "--out", "x.jsonl", "--deadline", "0"), "--deadline"),
        ((*JOB, "--out", "x.jsonl", "--deadline", "inf"), "deadline must be"),
        ((*JOB, "--out", "x.jsonl", "--deadline", "nan"), "deadline"),
        ((*JOB, "--out", "x.jsonl", "--concurrency", "many"), "--concurrency"),
        ((*JOB, "--out", "x.jsonl", "--symbols", "all,USD"), "must stand alone"),
        ((*JOB, "--out", "x.jsonl", "--symbols", "EUR"), "nothing to fetch"),
        ((*JOB, "--out", "nowhere/x.jsonl"), "there is no folder nowhere"),
        ((*JOB, "--out", "."), "it is a folder"),
        ((*JOB, "--out", "x.jsonl", "--rows", "nowhere/x.csv"), "there is no folder nowhere"),
        ((*JOB, "--out", "x.jsonl", "--rows", "./x.jsonl"), "are the same file"),
        ((*JOB, "--out", "/dev/null"), "is not an ordinary file"),
    ],
)
def test_misuse_is_told_before_anything_is_sent(
    call_gateway: Call,
    served: Sandbox,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    words: str,
) -> None:
    """Each mistake is named, the status is 2, and no file is made."""
    monkeypatch.chdir(tmp_path)

    ended = call_gateway(*arguments)

    assert (ended.status, ended.out) == (2, "")
    assert words in ended.err
    assert not served.received
    assert not list(tmp_path.iterdir())


def test_file_of_another_gateway_is_refused(call_gateway: Call, served: Sandbox, out: Path) -> None:
    """Rates of two gateways are never mixed: the file stays as it is."""
    assert call_gateway(*JOB, "--out", out, "--sandbox").status == 0
    before = out.read_bytes()

    ended = call_gateway(*JOB, "--out", out)

    assert ended.status == 2
    assert "belongs to the job 'exchange rates of the sandbox'" in ended.err
    assert "give another file" in ended.err
    assert not served.received
    assert out.read_bytes() == before


def test_file_that_is_no_journal_is_refused(call_gateway: Call, out: Path) -> None:
    """Nobody's other file is overwritten, or added to."""
    out.write_text("dear diary\n", encoding="utf-8")

    ended = call_gateway(*JOB, "--out", out, "--sandbox")

    assert (ended.status, len(ended.err.splitlines())) == (2, 1)
    assert f"the journal {out} is not a journal: see its line 1; give another file" in ended.err
    assert out.read_text(encoding="utf-8") == "dear diary\n"


def test_damaged_file_is_repaired_if_asked(call_gateway: Call, out: Path) -> None:
    """The error says how; then only what was damaged is fetched."""
    assert call_gateway(*JOB, "--out", out, "--sandbox").status == 0
    whole = out.read_bytes()
    damaged = whole.replace(b'"value":{', b'"value":[', 1)
    out.write_bytes(damaged)

    ended = call_gateway(*JOB, "--out", out, "--sandbox")

    assert (ended.status, len(ended.err.splitlines())) == (2, 1)
    assert "is damaged: see its line 1; a repair leaves" in ended.err
    assert ended.err.endswith(" (--repair)\n")
    assert out.read_bytes() == damaged
    assert call_gateway(*JOB, "--out", out, "--sandbox", "--repair").status == 0
    assert set(states(out)) == {"done"}
    assert out.with_name(f"{out.name}.damaged").read_bytes() in damaged


def test_file_in_use_is_refused(call_gateway: Call, served: Sandbox, out: Path) -> None:
    """Two runs never write the same file, and the gateway's countries are not asked for either."""
    with out.open("wb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)

        ended = call_gateway(*ALL, "--out", out)

    assert (ended.status, len(ended.err.splitlines())) == (2, 1)
    assert "is in use by another run: wait for its end" in ended.err
    assert not served.received


def test_full_disk_ends_a_run_that_goes_on_with_more_room(
    call_gateway: Call, served: Sandbox, out: Path
) -> None:
    """What stands in the file is whole; the status is that of output that cannot be written."""
    with room_for(2000):
        ended = call_gateway(*JOB, "--out", out, *ONE_BY_ONE)
    kept = len(lines(out))
    before = asked(served)
    again = call_gateway(*JOB, "--out", out)

    assert (ended.status, len(ended.err.splitlines())) == (1, 1)
    assert "cannot be written" in ended.err
    assert "so run the same again" in ended.err
    assert 0 < kept < SERIES
    assert again.err == f"{out}: 6 of 6 series, {SERIES - kept} of them new\n"
    assert asked(served) - before == SERIES - kept


def test_rows_that_cannot_be_written_cost_no_series(call_gateway: Call, out: Path) -> None:
    """The file of replies is complete, and rows are made of it without asking again."""
    ended = call_gateway(*JOB, "--out", out, "--rows", "/dev/full", "--sandbox")

    assert ended.status == 2
    assert "cannot write /dev/full: No space left on device" in ended.err
    assert states(out) == ["done"] * SERIES


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
    assert (again.status, again.err) == (0, f"{out}: 6 of 6 series, 6 of them new\n")


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
def test_gateway_that_is_not_there_ends_a_run_at_once(
    call_gateway: Call, monkeypatch: pytest.MonkeyPatch, out: Path
) -> None:
    """Nobody waits for a thousand calls to an address that is wrong."""
    with socket.socket() as nobody:  # bound, and not listening
        nobody.bind(("127.0.0.1", 0))
        monkeypatch.setenv("GATEWAY_BASE_URL", f"http://127.0.0.1:{nobody.getsockname()[1]}")
        monkeypatch.setenv("GATEWAY_ACCESS_TOKEN", SANDBOX_ACCESS_TOKEN)

        ended = call_gateway(*JOB, "--out", out, *ONE_BY_ONE)

    assert ended.status == 4
    assert "is GATEWAY_BASE_URL right?" in ended.err
    assert ended.err.splitlines()[-1] == THEN
    assert len(lines(out)) < SERIES


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
