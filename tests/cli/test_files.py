import errno
import io
import os
import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from gateway_sdk.cli.arguments import check_place, open_content, read_json, write_file
from gateway_sdk.cli.process import CommandError
from gateway_sdk.cli.series import to_parquet
from tests.cli.support import FIRST, series_of


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"a": 1,\n "b" 2}', "Expecting ':' delimiter: line 2 column 6 (char 14)"),
        (b"", "Expecting value: line 1 column 1 (char 0)"),
        (b'{"a": 1} canary', "Extra data: line 1 column 10 (char 9)"),
        (b'{"a": "\xff"}', "'utf-8' codec can't decode byte 0xff in position 7"),
        (b"[" * 200_000, "maximum recursion depth exceeded"),
        (b"1" * 5000, "Exceeds the limit (4300 digits) for integer string conversion"),
        (b'{"pin": 1, "pin": 2}', "the file has pin twice in one object"),
        (b'{"\\u001b[2J": 1, "\\u001b[2J": 2}', "the file has \\x1b[2J twice in one object"),
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


class Broken(io.RawIOBase):
    def readable(self) -> bool:
        return True

    def readinto(self, _: object) -> int:
        raise OSError(errno.EIO, "Input/output error")


def test_what_breaks_off_while_it_is_read_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(Broken())))

    with pytest.raises(CommandError, match=r"^cannot read standard input: Input/output error"):
        read_json("-")


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\ufeff[1]".encode())))
    assert read_json("-") == [1]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"[1")))
    with pytest.raises(CommandError, match=r"^standard input is no JSON .* line 1 column 3"):
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

    content = open_content(str(pipe))

    assert not isinstance(content, Path | bytes)
    with content:
        os.close(writer)
        assert content.read() == b"data"


@pytest.mark.posix
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it is Linux's")
def test_full_disk_is_told() -> None:
    with pytest.raises(CommandError, match="cannot write /dev/full: No space left on device"):
        write_file(Path("/dev/full"), b"data")


@pytest.mark.posix
def test_name_that_is_too_long_is_told() -> None:
    with pytest.raises(CommandError, match=r"^cannot write x+: File name too long"):
        check_place("x" * 1000)


def test_parquet_keeps_days_decimals_and_gaps() -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    series = series_of({"USD": ["1.10", None], "XAU": ["0.00024", "12345.6"], "SEK": [None, None]})

    table = parquet.read_table(io.BytesIO(to_parquet(series)))

    assert table.to_pydict() == {
        "date": [FIRST, FIRST + timedelta(days=1)],
        "USD": [Decimal("1.10"), None],
        "XAU": [Decimal("0.00024"), Decimal("12345.6")],
        "SEK": [None, None],
    }
    assert str(table.schema.field("date").type) == "date32[day]"
