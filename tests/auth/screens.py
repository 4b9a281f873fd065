"""Standard inputs: a terminal as its user sees it, or any file descriptor."""

import asyncio
import os
import pty
import termios

from gateway_sdk.auth import PasteFromTerminal

ADDRESS = "http://127.0.0.1:7/callback#access_token=CANARY&state=xyz"
LONG = f"{ADDRESS}{'x' * 20_000}"


class Input:
    """A standard input that is a file descriptor."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def fileno(self) -> int:
        return self.descriptor


class Screen:
    """A terminal, as its user sees it."""

    def __init__(self) -> None:
        self.ours, self.theirs = pty.openpty()
        self.mode = termios.tcgetattr(self.theirs)

    def is_as_before(self) -> bool:
        """Tell whether the terminal is in its original mode."""
        return termios.tcgetattr(self.theirs) == self.mode

    async def type(self, text: str) -> None:
        """Send keys; a long text waits until it is read."""
        keys = text.encode()
        while keys:
            sent = await asyncio.to_thread(os.write, self.ours, keys)
            keys = keys[sent:]

    def shown(self) -> str:
        os.write(self.theirs, b"<end>")
        seen = b""
        while not seen.endswith(b"<end>"):
            seen += os.read(self.ours, 65536)
        return seen.decode().removesuffix("<end>")

    def close(self) -> None:
        os.close(self.ours)
        os.close(self.theirs)


async def reading(paste: PasteFromTerminal) -> asyncio.Task[str]:
    """Start to read a line, and return when the terminal is ready."""
    task = asyncio.create_task(_line(paste))
    await asyncio.sleep(0)
    return task


async def _line(paste: PasteFromTerminal) -> str:
    return await paste()
