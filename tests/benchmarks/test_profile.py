import asyncio.events
from collections import Counter
from pathlib import Path

import httpx
import pytest

from benchmarks import profile
from gateway_sdk._call import call
from gateway_sdk._transport import pool


@pytest.mark.parametrize(
    ("file", "room"),
    [
        (call.__file__, "gateway_sdk _call"),
        (pool.__file__, "gateway_sdk _transport"),
        (httpx.__file__, "httpx"),
        (asyncio.events.__file__, "asyncio"),
        (profile.__file__, "the callers"),
        ("<string>", "standard library"),
    ],
)
def test_files_have_their_rooms(file: str, room: str) -> None:
    """What takes time is named after where it is at home."""
    assert profile.room(str(Path(file))) == room


def test_table_adds_up_to_a_call() -> None:
    """The dearest comes first, what is small is summed up, and nothing is lost."""
    table = profile.lines(200.0, Counter({"a": 100, "b": 300, "c": 1, "d": 1}))

    assert [line.split("us")[1].strip() for line in table] == ["b", "a", "all others"]
    assert sum(float(line.split()[0]) for line in table) == pytest.approx(200, abs=0.2)


def test_calls_are_sampled(capsys: pytest.CaptureFixture[str]) -> None:
    """The command makes calls, and prints what one of them takes and where."""
    profile.main(["gateway_sdk", "--callers", "2", "--seconds", "0.4"])

    first, *rooms = capsys.readouterr().out.splitlines()
    assert "a call of gateway_sdk, 2 callers" in first
    assert float(first.split()[0]) > 0
    assert rooms
    assert all(line.split()[1] == "us" for line in rooms)
