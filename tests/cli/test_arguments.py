import errno
import io
import os
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import typer
from hypothesis import given, strategies as st

from gateway_sdk.cli.arguments import check_place, content_of, read_json, read_line, writing
from gateway_sdk.cli.process import CommandError
from gateway_sdk.cli.rates import (
    choose_range,
    day_of,
    parse_day,
    parse_span,
    parse_symbols,
    split_codes,
)
from tests.cli.support import Call

Parse = Callable[[Any], Any]

TODAY = date(2026, 3, 31)


ago = partial(day_of, today=TODAY)


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        # Commas and spaces part them; three small letters become capitals, all else stays.
        (split_codes, ["USD"], ["USD"]),
        (split_codes, ["USD", "GBP,JPY", "USD"], ["USD", "GBP", "JPY"]),
        (split_codes, ["USD, GBP ,"], ["USD", "GBP"]),
        (split_codes, ["usd", "Usd", "us"], ["USD", "Usd", "us"]),
        # ALL is Albania's money, and only all is all.
        (parse_symbols, "USD, GBP", ["USD", "GBP"]),
        (parse_symbols, "all", None),
        (parse_symbols, "ALL,USD", ["ALL", "USD"]),
        (parse_span, "30d", 30),
        (parse_span, " 6W ", 42),
        # A date, a word, or so long ago; a month ago is the same day, or the last of a shorter one.
        (ago, " 2026-01-31 ", date(2026, 1, 31)),
        (ago, "today", TODAY),
        (ago, "Yesterday", date(2026, 3, 30)),
        (ago, "0d", TODAY),
        (ago, "10d", date(2026, 3, 21)),
        (ago, "6w", date(2026, 2, 17)),
        (ago, "1m", date(2026, 2, 28)),
        (ago, "2M", date(2026, 1, 31)),
        (ago, "1y", date(2025, 3, 31)),
        (ago, "25m", date(2024, 2, 29)),
    ],
)
def test_arguments_are_read(parse: Parse, text: str | list[str], value: Any) -> None:
    assert parse(text) == value


NO_DAYS = (
    *("", "tomorrow", "31.01.2026", "2026-02-29", "20260131", "-3d", "3", "2026y", "99999m"),
    *("999999d", "2026-01-31T00:00", "3\x00d"),
)


@pytest.mark.parametrize(
    ("parse", "text", "words"),
    [
        *((split_codes, words, "USD,GBP") for words in ([], [""], [" , "])),
        *((parse_span, text, "30d or 6w") for text in ("", "30", "0d", "1m", "-1d", "1.5d", "²d")),
        *((parse_day, text, f"{text!r} is not a day: write 2026-01-31, today") for text in NO_DAYS),
        (parse_symbols, "all,USD", "must stand alone"),
    ],
)
def test_what_is_wrong_is_refused(parse: Parse, text: str | list[str], words: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        parse(text)

    assert words in str(caught.value)


@given(st.dates(min_value=date(1900, 1, 1)), st.integers(0, 1000))
def test_months_ago_keep_the_day_where_there_is_one(today: date, months: int) -> None:
    """Never later in the month than today, and never in another month than was asked for."""
    day = day_of(f"{months}m", today)

    assert day.day <= today.day
    assert (today.year - day.year) * 12 + today.month - day.month == months
    assert day.day == today.day or (day + timedelta(days=1)).day == 1


def test_range_is_filled_in() -> None:
    """What was left out follows from the other end, and from today, which is that of UTC."""
    today = datetime.now(UTC).date()

    assert choose_range(TODAY, TODAY, days=30) == (TODAY, TODAY)
    assert choose_range(None, TODAY, days=30) == (date(2026, 3, 1), TODAY)
    first, last = choose_range(None, None, days=30)
    assert (last - first).days == 30
    assert today <= last <= today + timedelta(days=1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a": 1,\n "b" 2}', "Expecting ':' delimiter: line 2 column 6 (char 14)"),
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b'{"a": 1} canary', "Extra data: line 1 column 10 (char 9)"),
        (b'{"a": "\xff"}', "'utf-8' codec can't decode byte 0xff in position 7"),
        (b"[" * 200_000, " while decoding a JSON array from a unicode string"),
        (b"1" * 5000, "Exceeds the limit (4300 digits) for integer string conversion"),
        (b'{"pin": 1, "pin": 2}', "an object has pin twice"),
        (b'{"\\u001b[2J": 1, "\\u001b[2J": 2}', "an object has \\x1b[2J twice"),
        (b"[NaN]", "NaN is no number of JSON"),
        (b"[-Infinity]", "-Infinity is no number of JSON"),
        (b"[1e999]", "a number has more digits than are kept: write it as a text"),
        (b"[1e-99999999999999999999]", "a number has more digits than are kept"),
        (b"[0.12345678901234567890]", "a number has more digits than are kept"),
        ('{"a" 1}'.encode("utf-16"), "Expecting ':' delimiter: line 1 column 6 (char 5)"),
        (b"\xff\xfe{\0}", "can't decode byte"),
    ],
)
def test_what_is_no_json_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, words: str
) -> None:
    """Line and column, or the name that is there twice; never a value."""
    monkeypatch.chdir(tmp_path)
    Path("x.json").write_bytes(content)

    with pytest.raises(CommandError) as caught:
        read_json("x.json")

    assert words in str(caught.value)
    assert str(caught.value).endswith("\nNothing was sent.")
    assert caught.value.status == 2
    assert "canary" not in str(caught.value)


ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be")
DOCUMENT = '{"name": "Zoë",\n "rates": [1.10, 1e-7, 123456789012345678901234567890]}'


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r\n\r\n"])
def test_json_is_read_in_every_encoding_of_unicode(tmp_path: Path, encoding: str, end: str) -> None:
    """As what `>` of PowerShell 5.1 writes, in UTF-16, or Notepad, with a byte order mark."""
    (tmp_path / "x.json").write_bytes((DOCUMENT.replace("\n", end or "\n") + end).encode(encoding))

    read = read_json(str(tmp_path / "x.json"))

    assert read == {"name": "Zoë", "rates": [1.1, 1e-7, 123456789012345678901234567890]}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\r\nsecond\r\n"])
def test_first_line_is_read_in_the_encodings_of_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, end: str
) -> None:
    """Of a pipe no more is taken than this line."""
    data = f"canary{end}".encode(encoding)
    (tmp_path / "token").write_bytes(data)
    stdin = io.TextIOWrapper(io.BytesIO(data))
    monkeypatch.setattr(sys, "stdin", stdin)

    assert read_line(str(tmp_path / "token")) == "canary"
    assert read_line("-") == "canary"
    assert stdin.buffer.read().decode(encoding).replace("\ufeff", "") == end.partition("\n")[2]


class Broken(io.RawIOBase):
    def readable(self) -> bool:
        return True

    def readinto(self, _: object) -> int:
        raise OSError(errno.EIO, "Input/output error")


def test_what_breaks_off_while_it_is_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Broken())))

    with pytest.raises(CommandError, match=r"^cannot read standard input: Input/output error"):
        read_json("-")


@pytest.mark.posix
def test_file_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not read until the memory is full."""
    monkeypatch.setattr("gateway_sdk.cli.arguments.LARGEST", 2**20)

    with pytest.raises(CommandError, match=r"^/dev/zero is larger than 1 MiB"):
        read_json("/dev/zero")


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\ufeff[1]".encode())))
    assert read_json("-") == [1]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[1")))
    with pytest.raises(CommandError, match=r"^standard input is no JSON: .* line 1 column 3"):
        read_json("-")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(CommandError, match="no standard input"):
        read_json("-")


@pytest.mark.posix
def test_pipe_can_be_uploaded(tmp_path: Path) -> None:
    """What a shell makes of <(command) is opened, for it can be read only once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, b"data")

    content = content_of(str(pipe))

    assert not isinstance(content, Path | bytes)
    with content:
        os.close(writer)
        assert content.read() == b"data"


@pytest.mark.posix
def test_a_pipe_without_a_writer_is_given_up(call_gateway: Call, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    ended = call_gateway("aml", "upload", pipe, "--deadline", "0.01", "--sandbox")

    problem = f"gateway: nobody wrote to {pipe} before the deadline\nNothing was sent.\n"
    assert ended == (4, "", problem)


@pytest.mark.posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it is Linux's")
def test_full_disk_is_told() -> None:
    words, full = "cannot write /dev/full: No space left on device", Path("/dev/full")
    with pytest.raises(CommandError, match=words), writing(full):
        full.write_bytes(b"data")


@pytest.mark.posix
@pytest.mark.parametrize(
    ("place", "words"),
    [("x" * 1000, r"x+: File name too long"), ("link", r"link: there is no folder .*/nowhere$")],
)
def test_place_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("link").symlink_to("nowhere/file")

    with pytest.raises(CommandError, match=f"^cannot write {words}"):
        check_place(place)
