import os
import re
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from gateway_sdk.cli import main
from gateway_sdk.cli.process import CommandError
from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN, Fault, Sandbox
from tests.cli.ended import Ended
from tests.cli.interruptions import interrupt

Call = Callable[..., Ended]


def test_token_of_a_login_is_missing(call_gateway: Call, settings: dict[str, str]) -> None:
    """Nothing is sent, and the next step is to log in."""
    ended = call_gateway("countries")

    assert (ended.status, ended.out) == (4, "")
    assert ended.err.splitlines()[1] == "Get a token with `gateway login`."


def test_missing_extra_of_a_store_is_named(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    settings: dict[str, str],
) -> None:
    """A token that is kept where a library is needed for says in one line how to get it."""
    monkeypatch.setenv("GATEWAY_TOKEN_STORE", "keyring")
    monkeypatch.setitem(sys.modules, "keyring", None)
    monkeypatch.setattr(sys, "argv", ["gateway", "countries"])

    with pytest.raises(SystemExit) as caught:
        main()

    assert caught.value.code == 2
    assert capsys.readouterr() == (
        "",
        ("gateway: the keyring needs the extra [keyring]: pip install 'gateway-sdk[keyring]'\n"),
    )


def test_debugging_shows_where_a_command_gave_up(call_gateway: Call) -> None:
    """With --debug, behind the command too, its error goes up as it is."""
    with pytest.raises(CommandError, match="GATEWAY_BASE_URL is not set"):
        call_gateway("countries", "--debug")


def test_long_wait_is_announced(
    call_gateway: Call, served: Sandbox, unhurried: list[float]
) -> None:
    """Whoever waits for a gateway that is busy is told how long; short waits are not worth it."""
    busy = Fault.too_many_requests(retry_after=7)
    served.faults.on("list_countries", busy, at=1).on("list_countries", Fault.status(503), at=2)

    ended = call_gateway("countries", "austria")

    assert ended.status == 0
    assert len(unhurried) == 2
    assert ended.err == f"list_countries: trying again in {unhurried[0]:.0f} s (429)\n"


def test_interrupted_read_has_no_warning(call_gateway: Call, served: Sandbox) -> None:
    """Ctrl-C while it waits for a reply ends it with status 130; nothing has to be known."""
    ended = interrupt(call_gateway, served, "list_countries", "countries")

    assert ended == (130, "", "\ngateway: stopped by Ctrl-C\n")


@pytest.mark.parametrize(
    ("operation", "arguments", "warning"),
    [
        (
            "send_webhook",
            ["kyc", "webhook"],
            "Check before you repeat it: it may have been done already.",
        ),
        (
            "cancel_order",
            ["wallet", "cancel", "wallet-0004", "order-0056", "--yes"],
            "It may have been done already; running it again does no harm.",
        ),
    ],
)
def test_interrupted_write_may_have_been_done(
    call_gateway: Call, served: Sandbox, operation: str, arguments: list[str], warning: str
) -> None:
    """Whoever presses Ctrl-C is told what nobody knows now."""
    ended = interrupt(call_gateway, served, operation, *arguments)

    assert ended == (130, "", f"\ngateway: stopped by Ctrl-C\n{warning}\n")


@contextmanager
def answering(media_type: str, body: bytes) -> Generator[str]:
    """Answer everybody alike, and give the address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", media_type)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


def test_numbers_of_a_reply_are_exact(call_gateway: Call) -> None:
    """What comes over the wire comes out digit by digit, though no float could hold it."""
    reply = b'{"rates": {"2026-10-30": {"USD": 1.12345678901234567890}}}'
    with answering("application/json", reply) as address:
        ended = call_gateway(
            *("rates", "EUR", "USD", "--json"), GATEWAY_BASE_URL=address, GATEWAY_ACCESS_TOKEN="t"
        )

    assert ended.status == 0
    assert '"USD": 1.12345678901234567890\n' in ended.out


@pytest.mark.parametrize(
    ("arguments", "status", "advice"),
    [
        (["countries"], 4, "Is GATEWAY_BASE_URL the address of a gateway?"),
        (
            ["kyc", "webhook"],
            5,
            "Check before you repeat it: it may have been done already.",
        ),
        (
            ["customer", "revise", "customer-0001", "a=b"],
            5,
            "Check before you repeat it: it may have been done already.",
        ),
    ],
)
def test_page_in_place_of_a_reply_is_told(
    call_gateway: Call, arguments: list[str], status: int, advice: str
) -> None:
    """What a portal answers is no reply, and is not shown; a write may have been done."""
    with answering("text/html", b"<h1>canary: log in first</h1>") as address:
        ended = call_gateway(*arguments, GATEWAY_BASE_URL=address, GATEWAY_ACCESS_TOKEN="t")

    assert (ended.status, ended.out) == (status, "")
    assert "canary" not in ended.err
    assert ended.err.splitlines()[1:] == [advice]


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize(
    ("options", "variables"), [(["-v"], {}), (["--verbose"], {}), ([], {"GATEWAY_LOG": "1"})]
)
def test_what_goes_over_the_wire_is_told(
    call_gateway: Call, served: Sandbox, options: list[str], variables: dict[str, str]
) -> None:
    """Method, template, statuses, attempts and waits, and neither a value nor a secret."""
    served.faults.on("trading_order_history", Fault.status(503), at=1)

    ended = call_gateway("wallet", "history", "customer-0001", *options, **variables)

    told = re.sub(r"\d+\.\d+ s", "0 s", ended.err).splitlines()
    template = "GET /wallet/1.0.0/{customerId}/trading-order-history"
    assert ended.status == 0
    assert told[:4] == [
        "trading_order_history #1: 503, UNKNOWN, 0 s",
        "trading_order_history #1: 503; again in 0 s",
        "trading_order_history #1: 200, APPLIED, 0 s",
        f"trading_order_history #1 ({template}): done, APPLIED, 0 s in all",
    ]
    assert "customer-0001" not in "".join(told[:4])
    assert SANDBOX_ACCESS_TOKEN not in ended.err


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
