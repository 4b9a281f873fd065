import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway_sdk.sandbox import Sandbox
from tests.cli.ended import Ended
from tests.cli.terminal import Terminal

Call = Callable[..., Ended]
Start = Callable[..., Terminal]

ORDER = ("wallet-0004", "order-0056")
SHOWN = "orderId customerId walletId pair side quantity price status"


def test_token_header_is_read_from_a_file(
    call_gateway: Call, served: Sandbox, tmp_path: Path
) -> None:
    """It goes before the environment, and is in no list of processes."""
    file = tmp_path / "token"
    file.write_text("from-a-file\nsecond line\n", encoding="utf-8")

    ended = call_gateway(
        "wallet", "orders", "--token-header-file", file, GATEWAY_TOKEN_HEADER="from-the-environment"
    )

    assert ended.status == 0
    assert served.received[-1].headers["token"] == "from-a-file"


def test_orders_in_a_terminal_are_whole(run_in_terminal: Callable[..., tuple[int, str]]) -> None:
    """In 80 columns there is no room for the time, which is told."""
    arguments = ("wallet", "orders", "--take", "2", "--sandbox")

    status, shown = run_in_terminal(*arguments, NO_COLOR="1", TERM="dumb")

    lines = [line.rstrip() for line in shown.splitlines()]
    assert status == 0
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == SHOWN.split()
    assert len(lines) == 7
    assert lines[4] == "No room for: createdAt."
    assert lines[-1] == "page 1, take 2, total 57"


@pytest.mark.parametrize("closed", [True, False])
def test_script_that_does_not_say_so_cancels_nothing(
    call_gateway: Call, served: Sandbox, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    """Where nobody can be asked it is refused, whatever a pipe may hold."""
    monkeypatch.setattr(sys, "stdin", None if closed else io.StringIO("y\n"))

    ended = call_gateway("wallet", "cancel", *ORDER)

    assert (ended.status, ended.out) == (2, "")
    assert ended.err.splitlines() == [
        "gateway: cannot ask, because standard input is not a terminal",
        "Nothing was sent: add --yes.",
    ]
    assert not served.received


@pytest.mark.parametrize(
    ("keys", "status", "received"), [("y\n", 0, 1), ("n\n", 1, 0), ("\n", 1, 0), ("\x04", 1, 0)]
)
def test_person_is_asked(
    start_in_terminal: Start, served: Sandbox, keys: str, status: int, received: int
) -> None:
    """Only a clear yes cancels; Enter alone and Ctrl-D do not."""
    terminal = start_in_terminal("wallet", "cancel", *ORDER, TERM="dumb")
    terminal.read_until("[y/n] (n): ")

    terminal.type(keys)
    ended, shown = terminal.end()

    assert "Cancel order order-0056 of wallet wallet-0004?" in shown
    assert ended == status
    assert ("not cancelled: nothing was sent" in shown) == (not received)
    assert len(served.received) == received


def test_interrupted_question_cancels_nothing(start_in_terminal: Start, served: Sandbox) -> None:
    """Ctrl-C is status 130 there too."""
    terminal = start_in_terminal("wallet", "cancel", *ORDER, TERM="dumb")
    terminal.read_until("(n): ")
    terminal.wait_until_asleep()

    terminal.interrupt()
    status, shown = terminal.end()

    assert status == 130
    assert shown.endswith("gateway: stopped by Ctrl-C\r\n")
    assert not served.received


def test_all_orders_are_those_of_all_pages(call_gateway: Call, served: Sandbox) -> None:
    """One table, however many pages they come in; the pages are asked for up to an empty one."""
    all_of_them = call_gateway("wallet", "orders", "--all", "--take", "30")
    as_json = call_gateway("wallet", "orders", "--all", "--json")

    lines = all_of_them.out.splitlines()
    assert (all_of_them.status, as_json.status) == (0, 0)
    assert len(lines) == 1 + len(json.loads(as_json.out))
    assert len(set(lines)) == len(lines)
    pages = [call.operation for call in served.received].count("order_history")
    assert pages > 2
