import os
from collections.abc import Callable

import pytest

from gateway_sdk.cli.process import CommandError
from gateway_sdk.sandbox import Sandbox
from tests.cli.ended import Ended
from tests.cli.interruptions import interrupt

Call = Callable[..., Ended]

UNSURE = "Check before you repeat it: it may have been done already."


def test_debugging_shows_where_a_command_gave_up(call_gateway: Call) -> None:
    """With --debug, behind the command too, its error goes up as it is."""
    with pytest.raises(CommandError, match="GATEWAY_BASE_URL is not set"):
        call_gateway("countries", "--debug")


@pytest.mark.parametrize(
    ("operation", "command", "warning"),
    [
        ("list_countries", "countries", ""),  # nothing has to be known
        ("send_webhook", "kyc webhook", f"{UNSURE}\n"),
        (
            "cancel_order",
            "wallet cancel wallet-0004 order-0056 --yes",
            "It may have been done already; running it again does no harm.\n",
        ),
    ],
)
def test_interrupted_call_may_have_been_done(
    call_gateway: Call, served: Sandbox, operation: str, command: str, warning: str
) -> None:
    """Whoever presses Ctrl-C is told what nobody knows now."""
    ended = interrupt(call_gateway, served, operation, *command.split())

    assert ended == (130, "", f"\ngateway: stopped by Ctrl-C\n{warning}")


def test_gateway_and_tenant_may_be_options(
    call_gateway: Call, served: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ordinary command takes both, before or behind its name."""
    address = os.environ["GATEWAY_BASE_URL"]
    monkeypatch.delenv("GATEWAY_BASE_URL")
    monkeypatch.delenv("GATEWAY_TENANT_ID")

    ended = call_gateway(
        "--base-url", address, "wallet", "orders", "--take", "1", "--tenant", "acme"
    )

    assert ended.status == 0
    assert len(ended.out.splitlines()) == 2
