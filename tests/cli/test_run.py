import asyncio
import os
import selectors
import signal
import socket
import sys

import pytest

from gateway_sdk.cli.run import run


async def answer() -> int:
    """Return something after a turn of the loop."""
    await asyncio.sleep(0)
    return 42


def test_result_is_returned() -> None:
    """A coroutine's result comes back."""
    assert run(answer()) == 42


def test_interruption_cancels_and_is_raised() -> None:
    """Ctrl-C is CancelledError inside, so that it can tidy up, and KeyboardInterrupt outside."""
    ended = []

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    with pytest.raises(KeyboardInterrupt):
        run(work())

    assert ended == ["cancelled"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows' loop does it by itself")
def test_signal_just_before_the_loop_waits_wakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop waits for something that a signal fills, not only for an interrupted call."""
    woken: list[bool] = []
    done = asyncio.Event()

    class Late(selectors.DefaultSelector):
        def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
            if timeout is not None or woken:
                return super().select(timeout)
            # Python runs the handler at once; what is left for the wait is the socket alone.
            signal.raise_signal(signal.SIGUSR1)
            ready = super().select(10)
            woken.append(bool(ready))
            done.set()
            return ready

    monkeypatch.setattr(selectors, "DefaultSelector", Late)
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        run(done.wait())
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert woken == [True]


def test_signals_are_left_as_they_were(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is woken by signals afterwards, and all sockets are closed."""
    made: list[socket.socket] = []
    make = socket.socketpair

    def kept() -> tuple[socket.socket, socket.socket]:
        made.extend(pair := make())
        return pair

    monkeypatch.setattr(socket, "socketpair", kept)

    run(answer())

    assert signal.set_wakeup_fd(-1) == -1
    assert {end.fileno() for end in made} == {-1}
