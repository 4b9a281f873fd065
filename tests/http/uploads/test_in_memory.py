"""Large files of which the system has a part in memory: that is read in the event loop."""

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from gateway_sdk import GatewaySession, UploadFailedError
from gateway_sdk._content import files as body_file
from tests.http.uploads.servers import taking

SIZE = 3 * 2**20 + 5
CONTENT = os.urandom(SIZE)

pytestmark = pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="it is Linux's")


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """Write a document that is larger than what is always read in a thread."""
    path = tmp_path / "scan.pdf"
    path.write_bytes(CONTENT)
    return path


class System:
    """Has the beginning of a file in memory, and notes who reads.

    Attributes:
        here: Bytes that were read in the event loop.
        elsewhere: Bytes that were read in threads.
    """

    def __init__(self, patch: pytest.MonkeyPatch, in_memory: int) -> None:
        self.here = self.elsewhere = 0
        self._in_memory = in_memory
        self._read_into = body_file._read_into
        patch.setattr(os, "preadv", self._preadv)
        patch.setattr(body_file, "_read_into", self._note)

    def _preadv(self, descriptor: int, buffers: list[Any], at: int, flags: int) -> int:
        assert flags == os.RWF_NOWAIT
        assert threading.current_thread() is threading.main_thread()
        if at >= self._in_memory:
            raise BlockingIOError
        found = os.pread(descriptor, min(len(buffers[0]), self._in_memory - at), at)
        buffers[0][: len(found)] = found
        self.here += len(found)
        return len(found)

    def _note(self, file: Any, buffer: memoryview) -> memoryview:
        piece = self._read_into(file, buffer)
        self.elsewhere += len(piece)
        return piece


@pytest.mark.parametrize("in_memory", [None, 0, 1, 2**16, 2**20 + 7, SIZE])
async def test_a_file_arrives_whole_wherever_the_memory_ends(
    monkeypatch: pytest.MonkeyPatch, document: Path, in_memory: int | None
) -> None:
    """What is in memory is read at once, the rest in a thread: each byte once.

    All of it where the system cannot tell: None.
    """
    system = System(monkeypatch, SIZE if in_memory is None else in_memory)
    if in_memory is None:
        monkeypatch.setattr(body_file, "_WITHOUT_WAIT", 0)

    async with taking() as (url, taker), GatewaySession(url, access_token="t") as gateway:
        await gateway.aml.update_document("d", document)

    assert taker.uploads[0].body == CONTENT
    assert system.here + system.elsewhere == SIZE
    in_memory = in_memory or 0
    assert system.here == (in_memory if in_memory < SIZE else SIZE // 2**16 * 2**16)


async def test_a_file_that_is_replaced_is_not_continued_with_another(
    monkeypatch: pytest.MonkeyPatch, document: Path, tmp_path: Path
) -> None:
    """The thread opens the file again; half of one and half of another would be no document."""
    System(monkeypatch, 2**20)
    other = tmp_path / "other"
    other.write_bytes(bytes(SIZE))

    def replace(sent: int, _: object) -> None:
        if sent == body_file._READ:
            other.replace(document)

    async with taking() as (url, taker), GatewaySession(url, access_token="t") as gateway:
        with pytest.raises(UploadFailedError, match="was replaced"):
            await gateway.aml.upload_document(document, on_progress=replace)
        await taker.ended.wait()

    assert not taker.uploads[0].whole
