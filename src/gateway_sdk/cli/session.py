"""The session of a command, with the gateway of the settings or with a sandbox."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from decimal import Decimal
from typing import Any, Final, TypeVar

import typer

from gateway_sdk._config import LOGGER
from gateway_sdk.cli.advice import warning_of
from gateway_sdk.cli.config import settings_of
from gateway_sdk.cli.output.stdout import say
from gateway_sdk.observer import CallInfo, Observer
from gateway_sdk.outcome import Attempt, Outcome
from gateway_sdk.session import GatewaySession

T = TypeVar("T")

LONG: Final = 2.0
"""Seconds: the reason for a longer wait is shown."""


class _Witness(Observer):
    """Keeps what happened to the call that Ctrl-C interrupted, and reports long waits."""

    def __init__(self, *, tells_waits: bool) -> None:
        self.warning: str | None = None  # what matters before the call is repeated
        self._tells_waits = tells_waits

    def retry_scheduled(self, call: CallInfo, attempt: Attempt, seconds: float) -> None:
        """Report the reason for a long wait."""
        if self._tells_waits and seconds >= LONG:
            reason = attempt.status or attempt.error
            say(f"{call.operation.name}: trying again in {seconds:.0f} s ({reason})")

    def call_finished(
        self,
        call: CallInfo,
        outcome: Outcome,
        error: BaseException | None,
        elapsed: float,  # noqa: ARG002 - not used
    ) -> None:
        """Keep what happened to a cancelled call."""
        if isinstance(error, asyncio.CancelledError):
            self.warning = warning_of(outcome, call.operation.repeatability)


def ask(
    ctx: typer.Context,
    work: Callable[[GatewaySession], Awaitable[T]],
    *,
    needs_tenant: bool = False,
    tells_waits: bool = True,
    parse_float: Callable[[str], Any] = Decimal,
) -> T:
    """Open a session for a coroutine function, and return its result.

    Long waits are reported, unless the command says otherwise.

    Raises:
        KeyboardInterrupt: Ctrl-C; its text says what matters before the call is repeated.
    """
    verbose: bool = ctx.find_root().params["verbose"]
    witness = _Witness(tells_waits=tells_waits and not verbose)
    if verbose:
        # The SDK's log has no values and no secrets. It ends with the process.
        LOGGER.addHandler(logging.StreamHandler())
        LOGGER.setLevel(logging.DEBUG)

    async def asking() -> T:
        more = {"parse_float": parse_float, "observers": [witness]}
        async with _session(ctx, needs_tenant=needs_tenant, **more) as gateway:
            return await work(gateway)

    try:
        return asyncio.run(asking())
    except KeyboardInterrupt:
        raise KeyboardInterrupt(witness.warning or "") from None


def _session(ctx: typer.Context, *, needs_tenant: bool, **more: Any) -> GatewaySession:
    """Make a session; one with a sandbox in this process ignores the settings."""
    if ctx.find_root().params["sandbox"]:
        # Imported here, because it needs the extra [sandbox].
        from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Sandbox  # noqa: PLC0415

        more |= {"access_token": SANDBOX_ACCESS_TOKEN, "tenant_id": "demo"}
        return GatewaySession("http://localhost", transport=Sandbox().transport(), **more)
    settings = settings_of(ctx)
    with settings.in_words():
        return GatewaySession(**settings.session(needs_tenant=needs_tenant), **more)
