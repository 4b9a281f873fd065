import io
import os
import shutil
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pyarrow import parquet  # type: ignore[import-untyped]

from gateway_sdk.cli.failure import CommandError
from gateway_sdk.cli.output.files import check_place, to_parquet, write_file, writing
from tests.cli.drawn import FIRST, series_of


def test_new_file_is_readable_as_usual_here(tmp_path: Path) -> None:
    """It gets the mode that this user's other files get, and nothing else is left."""
    usual = tmp_path / "usual"
    usual.touch()

    write_file(tmp_path / "new", b"data")

    assert (tmp_path / "new").read_bytes() == b"data"
    assert (tmp_path / "new").stat().st_mode == usual.stat().st_mode
    assert len(list(tmp_path.iterdir())) == 2


def test_file_is_replaced_and_keeps_its_mode(tmp_path: Path) -> None:
    """What was private stays private."""
    path = tmp_path / "old"
    path.write_bytes(b"longer than the new one")
    path.chmod(0o600)

    write_file(path, b"data")

    assert path.read_bytes() == b"data"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_private_file_is_private_from_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody can open the new one while its mode is not set yet."""
    path = tmp_path / "private"
    path.touch(mode=0o600)
    seen: list[int] = []

    def look(_: Path, part: Path) -> None:
        seen.append(part.stat().st_mode & 0o777)

    monkeypatch.setattr(shutil, "copymode", look)
    with writing(path) as file:
        file.write(b"data")

    assert seen == [0o600]


def test_failure_keeps_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is full half way costs nobody the old file, and leaves no part of a new one."""
    path = tmp_path / "old"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(CommandError) as caught:
        write_file(path, b"data")

    assert str(caught.value) == f"cannot write {path}: No space left on device"
    assert caught.value.status == 2
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"old"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="it is Linux's")
def test_device_is_written_to_and_not_replaced() -> None:
    """A full disk is an error, and the device is still one."""
    with pytest.raises(CommandError, match="cannot write /dev/full: No space left on device"):
        write_file(Path("/dev/full"), b"data")

    assert not Path("/dev/full").is_file()


def test_pipe_is_written_to(tmp_path: Path) -> None:
    """Another program may take the file as it is made."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    write_file(pipe, b"data")

    assert os.read(reader, 100) == b"data"
    os.close(reader)


def test_error_without_words_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the system without a text is told by its kind."""

    def fail(*_: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(CommandError, match="TimeoutError"):
        write_file(tmp_path / "new", b"data")


def test_place_is_checked_before_anything_is_asked(tmp_path: Path) -> None:
    """A folder, or one that is not there, is told at once."""
    check_place(tmp_path / "new")
    with pytest.raises(CommandError, match="it is a folder"):
        check_place(tmp_path)
    with pytest.raises(CommandError, match=r"there is no folder .*nowhere"):
        check_place(tmp_path / "nowhere" / "new")


def test_parquet_keeps_days_decimals_and_gaps() -> None:
    """What is read back is what was written, digit by digit."""
    series = series_of({"USD": ["1.10", None], "XAU": ["0.00024", "12345.6"], "SEK": [None, None]})

    table = parquet.read_table(io.BytesIO(to_parquet(series.columns())))

    assert table.to_pydict() == {
        "date": [FIRST, FIRST + timedelta(days=1)],
        "USD": [Decimal("1.10"), None],
        "XAU": [Decimal("0.00024"), Decimal("12345.6")],
        "SEK": [None, None],
    }
    assert str(table.schema.field("date").type) == "date32[day]"
