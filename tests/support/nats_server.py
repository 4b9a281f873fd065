"""A real NATS server of a test's own, with its files in a folder."""

import asyncio
import re
import shutil
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

# Debian keeps it where an ordinary user's PATH does not reach.
PROGRAM: Final = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin")
NEEDS_NATS: Final = pytest.mark.skipif(
    PROGRAM is None, reason="not tested, because no nats-server was found"
)
LISTENS: Final = re.compile(rb"Listening for client connections on (127\.0\.0\.1:\d+)")


@asynccontextmanager
async def serve_nats(folder: Path) -> AsyncIterator[str]:
    """Serve queues that survive their workers (JetStream) at a free port; yield the address.

    Raises:
        RuntimeError: it does not start, for the reason that it says.
    """
    process = await asyncio.create_subprocess_exec(
        PROGRAM or "nats-server", "-js", "-sd", str(folder), "-a", "127.0.0.1", "-p", "-1",
        stderr=PIPE,
    )  # fmt: skip
    assert process.stderr
    said = b""
    try:
        while b"Server is ready" not in said:
            line = await process.stderr.readline()
            if not line:
                raise RuntimeError("nats-server did not start: " + said.decode())
            said += line
        address = LISTENS.search(said)
        assert address
        drained = asyncio.create_task(process.stderr.read())
        yield f"nats://{address[1].decode()}"
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
    await drained
