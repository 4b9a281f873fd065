"""The worker of the examples, in a process of its own, behind a real queue."""

import asyncio
import os
import signal
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis

from gateway_sdk.sandbox import Sandbox
from tests.support.documents import ROOT, Ended, run
from tests.support.redis_server import NEEDS_REDIS, running

pytestmark = NEEDS_REDIS


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with running(tmp_path) as server:
        monkeypatch.setenv("REDIS_URL", server.url)
        yield server.url


@asynccontextmanager
async def worker() -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "taskiq", "worker", "examples.worker:broker", "--workers", "1",
        cwd=ROOT, stderr=PIPE, start_new_session=True,
    )  # fmt: skip
    assert process.stderr
    log = asyncio.create_task(process.stderr.read())
    try:
        yield process
    finally:
        asked = process.returncode is None
        if asked:
            process.terminate()
        await process.wait()
    assert asked == ("Stopped process worker-0" in (await log).decode())


async def upload(*documents: Path) -> Ended:
    """Put documents into the queue as its docstring says, and wait for the results."""
    command = (sys.executable, "-W", "error", "-m", "examples.worker")
    return await run(*command, *map(str, documents), folder=ROOT)


@pytest.mark.gateway_fault("upload_document", "drop_after_read", at=1)
@pytest.mark.gateway_fault("upload_document", "too_many_requests", retry_after=3600, at=2)
async def test_the_worker_uploads_once(
    gateway_env: dict[str, str], queue: str, gateway_sandbox: Sandbox, tmp_path: Path
) -> None:
    """A lost reply is not tried again, a busy gateway is, and a missing file is told."""
    document = tmp_path / "passport.pdf"
    document.write_bytes(b"scan")

    async with worker():
        lost = await upload(document)
        stored = await upload(document, tmp_path / "none.pdf")

    assert "'outcome': 'UNKNOWN'" in lost.out, lost.err
    first, second = stored.out.splitlines()
    assert first.startswith(f"{document} {{'stored'")
    assert "unreadable file" in second
    assert [call.applied for call in gateway_sandbox.received] == [True, False, True]


@pytest.mark.full
async def test_an_upload_that_has_begun_is_no_longer_in_the_queue(
    gateway_env: dict[str, str], queue: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If the worker is killed now, no other worker makes the upload a second time."""
    document = tmp_path / "passport.pdf"
    document.write_bytes(b"scan")
    arrived = asyncio.Event()

    async def never_reply(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        await reader.read()
        writer.close()

    async with await asyncio.start_server(never_reply, "127.0.0.1", 0) as gateway:
        port = gateway.sockets[0].getsockname()[1]
        monkeypatch.setenv("GATEWAY_BASE_URL", f"http://127.0.0.1:{port}")
        async with worker() as process:
            caller = asyncio.create_task(upload(document))
            await arrived.wait()
            async with Redis.from_url(queue) as redis:
                waiting = await redis.keys()
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        caller.cancel()
        await asyncio.wait([caller])

    assert waiting == []
