"""The session of a command: with the gateway of the settings, or a sandbox for this command."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager, nullcontext
from decimal import Decimal
from typing import Any, Final, TypeVar

import typer

from gateway_sdk.cli.advice import warning_of
from gateway_sdk.cli.config import settings_of
from gateway_sdk.cli.output.stdout import say
from gateway_sdk.observer import CallInfo, Observer
from gateway_sdk.outcome import Attempt, Outcome
from gateway_sdk.session import GatewaySession

T = TypeVar("T")

LONG: Final = 2.0
"""Seconds: the reason of a longer wait is told."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in the main thread; Ctrl-C cancels it and is raised at its end.

    A loop of POSIX that `asyncio.run` made sleeps on if the signal comes just before it begins to
    wait (about 1 in 15 000 where the signal comes at that time): its handler runs only once
    something else happens. Here the signal also writes to a socket that the loop waits for.
    """
    with asyncio.Runner() as runner:
        # Windows' loop does this by itself.
        windows = sys.platform == "win32"
        with nullcontext() if windows else _woken_by_signals(runner.get_loop()):
            return runner.run(work)


@contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Generator[None]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for end in (ours, theirs):
            end.settimeout(0)
        loop.add_reader(ours, ours.recv, 4096)
        before = signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            loop.remove_reader(ours)


class _Witness(Observer):
    """Knows what became of the call that Ctrl-C interrupted, and tells of long waits.

    Attributes:
        warning: What has to be known before it is made again; None if that is nothing.
    """

    def __init__(self, *, tells_waits: bool) -> None:
        self.warning: str | None = None
        self._tells_waits = tells_waits

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:
        """Say why nothing happens for a while."""
        if self._tells_waits and seconds >= LONG:
            reason = attempt.status or attempt.error
            say(f"{call.operation.name}: trying again in {seconds:.0f} s ({reason})")

    def call_finished(
        self,
        call: CallInfo,
        outcome: Outcome,
        error: BaseException | None,
        elapsed: float,  # noqa: ARG002 - not told
    ) -> None:
        """Keep what a cancelled call did."""
        if isinstance(error, asyncio.CancelledError):
            self.warning = warning_of(outcome, call.operation.repeatability)


class _Wire(Observer):
    """Tells what goes over the wire, for --verbose: the interface's templates, and no value."""

    def __init__(self) -> None:
        self._attempts: dict[int, int] = {}

    def call_started(self, call: CallInfo) -> None:
        """Tell of a call."""
        operation = call.operation
        say(f"[{call.number}] {operation.name}: {operation.method} {operation.path}")

    def attempt_finished(self, call: CallInfo, attempt: Attempt) -> None:
        """Tell how an attempt ended, and how long it took."""
        count = self._attempts[call.number] = self._attempts.get(call.number, 0) + 1
        ended = ", ".join(str(word) for word in (attempt.status, attempt.error) if word)
        outcome = attempt.outcome.name.lower()
        say(f"[{call.number}] attempt {count}: {ended}, {outcome}, {attempt.elapsed:.3f} s")

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:  # noqa: ARG002
        """Tell of a wait."""
        say(f"[{call.number}] trying again in {seconds:.2f} s")

    def call_finished(
        self, call: CallInfo, outcome: Outcome, error: BaseException | None, elapsed: float
    ) -> None:
        """Tell how the call ended."""
        count = self._attempts.pop(call.number, 0)
        attempts = "1 attempt" if count == 1 else f"{count} attempts"
        ended = type(error).__name__ if error else "done"
        say(f"[{call.number}] {ended}, {outcome.name.lower()}, {attempts}, {elapsed:.3f} s in all")


def ask(
    ctx: typer.Context,
    work: Callable[[GatewaySession], Awaitable[T]],
    *,
    needs_tenant: bool = False,
    tells_waits: bool = True,
) -> T:
    """Open a session, let a coroutine function use it, and return what that returns.

    Args:
        ctx: Of the command: it knows the options for every command.
        work: What to ask of the gateway.
        needs_tenant: Whether a tenant has to be set.
        tells_waits: Whether to say why a call waits for long; of many calls that is too much.

    Raises:
        KeyboardInterrupt: Ctrl-C; its text says what has to be known of the call, if anything.
    """
    verbose: bool = ctx.find_root().params["verbose"]
    witness = _Witness(tells_waits=tells_waits and not verbose)
    observers = [witness, _Wire()] if verbose else [witness]

    async def asking() -> T:
        if ctx.find_root().params["sandbox"]:
            async with _sandbox(observers) as gateway:
                return await work(gateway)
        settings = settings_of(ctx)
        with settings.in_words():
            arguments = settings.session(needs_tenant=needs_tenant)
            opened = GatewaySession(**arguments, parse_float=Decimal, observers=observers)
        async with opened as gateway:
            return await work(gateway)

    try:
        return run(asking())
    except KeyboardInterrupt:
        raise KeyboardInterrupt(witness.warning or "") from None


@asynccontextmanager
async def _sandbox(observers: Sequence[Observer]) -> AsyncGenerator[GatewaySession]:
    """Open a session with a sandbox in this process; no other settings count."""
    # Imported here, because it needs the extra [sandbox].
    from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Sandbox  # noqa: PLC0415

    async with GatewaySession(
        "http://localhost",
        access_token=SANDBOX_ACCESS_TOKEN,
        tenant_id="demo",
        transport=Sandbox().transport(),
        parse_float=Decimal,
        observers=observers,
    ) as gateway:
        yield gateway
