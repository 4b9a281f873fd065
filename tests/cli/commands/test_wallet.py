import csv
import io
import json
import sys
from collections.abc import Callable
from functools import partial

import pytest

from gateway_sdk.sandbox import Fault, Sandbox
from tests.cli.ended import Ended
from tests.cli.terminal import Terminal

Call = Callable[..., Ended]
Start = Callable[..., Terminal]

ORDER = ("wallet-0004", "order-0056")
COLUMNS = [
    "orderId",
    "customerId",
    "walletId",
    "pair",
    "side",
    "quantity",
    "price",
    "status",
    "createdAt",
]


def test_orders_are_lines(call_gateway: Call) -> None:
    """A page of them, and what stands beside it on standard error."""
    ended = call_gateway("wallet", "orders", "--page", "2", "--take", "3", "--sandbox")

    header, *lines = ended.out.splitlines()
    assert header.split("\t") == COLUMNS
    assert [line.split("\t")[0] for line in lines] == ["order-0054", "order-0053", "order-0052"]
    assert (ended.status, ended.err) == (0, "page 2, take 3, total 57\n")


def test_orders_are_csv_and_json(call_gateway: Call) -> None:
    """Both have the same orders."""
    shown = call_gateway("wallet", "orders", "--csv", "--sandbox")
    told = call_gateway("wallet", "orders", "--json", "--sandbox")

    header, *rows = csv.reader(io.StringIO(shown.out, newline=""))
    orders = json.loads(told.out)["orders"]
    assert header == COLUMNS
    assert rows == [list(order.values()) for order in orders]
    assert told.err == ""


def test_page_behind_the_last_is_empty(call_gateway: Call) -> None:
    """That is no failure, and nobody has to guess."""
    ended = call_gateway("wallet", "orders", "--page", "99", "--sandbox")

    assert ended == (0, "", "The list is empty.\n")


def test_history_is_of_one_customer(call_gateway: Call) -> None:
    """Only their orders are there."""
    ended = call_gateway("wallet", "history", "customer-0001", "--sandbox")

    assert {line.split("\t")[1] for line in ended.out.splitlines()[1:]} == {"customer-0001"}
    assert ended.err == "customerId customer-0001\n"


def test_unknown_customer_is_told(call_gateway: Call) -> None:
    """In the words of the gateway, with status 3."""
    ended = call_gateway("wallet", "history", "nobody", "--sandbox")

    assert (ended.status, ended.out) == (3, "")
    assert "“no such customer”" in ended.err
    assert "nobody" not in ended.err


def test_empty_id_is_refused_before_anything_is_sent(call_gateway: Call, served: Sandbox) -> None:
    """It would be another path."""
    ended = call_gateway("wallet", "history", "")

    assert (ended.status, ended.out) == (2, "")
    assert not served.received


def test_balance_is_shown_exactly(call_gateway: Call) -> None:
    """The amounts are those of the gateway, digit by digit."""
    lines = call_gateway("wallet", "balance", "--sandbox").out.splitlines()
    told = json.loads(call_gateway("wallet", "balance", "--json", "--sandbox").out)

    assert lines == [
        "currency\tavailable",
        *(f"{line['currency']}\t{line['available']}" for line in told["balances"]),
    ]


def test_orders_in_a_terminal_are_whole(run_in_terminal: Callable[..., tuple[int, str]]) -> None:
    """What does not fit into 80 columns goes on below, beside the orders' ids."""
    arguments = ("wallet", "orders", "--take", "2", "--sandbox")

    status, shown = run_in_terminal(*arguments, NO_COLOR="1", TERM="dumb")

    lines = [line.rstrip() for line in shown.splitlines()]
    assert status == 0
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == COLUMNS[:-1]
    assert lines[5].split() == ["orderId", "createdAt"]
    assert lines[-1] == "page 1, take 2, total 57"


def test_order_is_cancelled_if_it_is_said_so(call_gateway: Call, served: Sandbox) -> None:
    """A script says --yes, and gets the order as JSON."""
    ended = call_gateway("wallet", "cancel", *ORDER, "--yes")

    assert json.loads(ended.out)["status"] == "cancelled"
    assert (ended.status, ended.err) == (0, "The order is cancelled.\n")


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


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize(
    ("faults", "status", "advice"),
    [
        ([Fault.drop_after_read] * 3, 5, "running it again does no harm"),
        ([partial(Fault.status, 403)], 3, "does not allow this"),
        ([Fault.cut_body], 6, "do not repeat it"),
    ],
)
def test_status_says_what_became_of_the_order(
    call_gateway: Call,
    served: Sandbox,
    faults: list[Callable[[], Fault]],
    status: int,
    advice: str,
) -> None:
    """A lost reply, a refusal and a reply that broke off are told apart."""
    for place, fault in enumerate(faults, 1):
        served.faults.on("cancel_order", fault(), at=place)

    ended = call_gateway("wallet", "cancel", *ORDER, "-y")

    assert (ended.status, ended.out) == (status, "")
    assert advice in ended.err.splitlines()[1]


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
