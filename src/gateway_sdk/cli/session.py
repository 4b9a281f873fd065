"""The session of a command: with the gateway of the settings, or a sandbox for this command."""

import asyncio
import logging
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
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
    something else happens. A loop that handles any signal by itself is woken by all of them.
    """
    with asyncio.Runner() as runner:
        # Windows' loop is always woken.
        for number in () if sys.platform == "win32" else (signal.SIGWINCH,):
            runner.get_loop().add_signal_handler(number, int)
        return runner.run(work)


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


@contextmanager
def _logging(wanted: bool) -> Generator[None]:  # noqa: FBT001 - reads as a sentence
    """Show the SDK's log, which has neither a value nor a secret, on standard error."""
    logger, handler = logging.getLogger("gateway_sdk"), logging.StreamHandler()
    before = logger.level
    if wanted:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


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

    async def asking() -> T:
        async with _session(ctx, witness, needs_tenant=needs_tenant) as gateway:
            return await work(gateway)

    try:
        with _logging(verbose):
            return run(asking())
    except KeyboardInterrupt:
        raise KeyboardInterrupt(witness.warning or "") from None


def _session(ctx: typer.Context, witness: Observer, *, needs_tenant: bool) -> GatewaySession:
    """Make a session; with a sandbox in this process no settings count."""
    more: dict[str, Any] = {"parse_float": Decimal, "observers": [witness]}
    if ctx.find_root().params["sandbox"]:
        # Imported here, because it needs the extra [sandbox].
        from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Sandbox  # noqa: PLC0415

        more |= {"access_token": SANDBOX_ACCESS_TOKEN, "tenant_id": "demo"}
        return GatewaySession("http://localhost", transport=Sandbox().transport(), **more)
    settings = settings_of(ctx)
    with settings.in_words():
        return GatewaySession(**settings.session(needs_tenant=needs_tenant), **more)
