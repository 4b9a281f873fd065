"""Reaching a gateway from a command: the one of the environment, or a sandbox for this command."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Final, TypeVar

import typer

from gateway_sdk._config import with_environment
from gateway_sdk.cli.failure import MISUSED, CommandError, warning_of
from gateway_sdk.cli.output.stdout import say
from gateway_sdk.cli.run import run
from gateway_sdk.errors import ConfigurationError
from gateway_sdk.observer import CallInfo, Observer
from gateway_sdk.outcome import Attempt, Outcome
from gateway_sdk.session import GatewaySession

T = TypeVar("T")

NO_GATEWAY: Final = (
    "GATEWAY_BASE_URL is not set\n"
    "Set it to the gateway's address, or try the command with --sandbox, which needs none."
)
NOBODY: Final = (
    "GATEWAY_ACCESS_TOKEN is not set\n"
    "Set it, or set GATEWAY_AUTH_URL and GATEWAY_CLIENT_ID and run `gateway login`."
)


NO_TENANT: Final = (
    "GATEWAY_TENANT_ID is not set\nSet it to the tenant that the customer belongs to."
)
LONG: Final = 2.0
"""Seconds: who waits longer has to be told what for."""


class Witness(Observer):
    """Knows what became of the call that Ctrl-C interrupted, and tells of long waits.

    Args:
        tells_waits: Whether it tells of them.

    Attributes:
        warning: What has to be known before it is made again; None if that is nothing.
    """

    def __init__(self, *, tells_waits: bool = True) -> None:
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


def ask(
    ctx: typer.Context,
    work: Callable[[GatewaySession], Awaitable[T]],
    *,
    needs_tenant: bool = False,
    tells_waits: bool = True,
) -> T:
    """Open a session, let a coroutine function use it, and return what that returns.

    Args:
        ctx: Of the command: it knows whether --sandbox was given.
        work: What to ask of the gateway.
        needs_tenant: Whether a tenant has to be set.
        tells_waits: Whether to say why a call waits for long; of many calls that is too much.

    Raises:
        CommandError: there are no settings, or no tenant.
        GatewayError: a setting is wrong, or the call failed.
        KeyboardInterrupt: Ctrl-C; its text says what has to be known of the call, if anything.
    """
    witness = Witness(tells_waits=tells_waits)
    sandbox: bool = ctx.find_root().params["sandbox"]

    async def asking() -> T:
        opened = (
            _sandbox(witness) if sandbox else _from_environment(witness, needs_tenant=needs_tenant)
        )
        async with opened as gateway:
            return await work(gateway)

    try:
        return run(asking())
    except KeyboardInterrupt:
        raise KeyboardInterrupt(witness.warning or "") from None


def _from_environment(witness: Witness, *, needs_tenant: bool) -> GatewaySession:
    settings = with_environment({})
    if "base_url" not in settings:
        raise CommandError(NO_GATEWAY, MISUSED)
    if not {"access_token", "auth_url", "client_id"} & settings.keys():
        raise CommandError(NOBODY, MISUSED)
    if needs_tenant and "tenant_id" not in settings:
        raise CommandError(NO_TENANT, MISUSED)
    try:
        return GatewaySession.from_env(parse_float=Decimal, observers=[witness])
    except ConfigurationError as error:
        if isinstance(error.__context__, ModuleNotFoundError):
            # The extra for this store of tokens is missing, and that has a message of its own.
            raise error.__context__ from None
        raise


@asynccontextmanager
async def _sandbox(witness: Witness) -> AsyncGenerator[GatewaySession]:
    """Open a session with a sandbox in this process; settings of the environment do not count."""
    # Imported here, because it needs the extra [sandbox].
    from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Sandbox  # noqa: PLC0415

    async with GatewaySession(
        "http://localhost",
        access_token=SANDBOX_ACCESS_TOKEN,
        tenant_id="demo",
        transport=Sandbox().transport(),
        parse_float=Decimal,
        observers=[witness],
    ) as gateway:
        yield gateway
