import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway_sdk.cli.operations import COLUMNS, matches
from gateway_sdk.models import Address, Country, CreateRequest, PersonData
from gateway_sdk.sandbox import Sandbox
from tests.cli.support import Call, Start, StartInTerminal
from tests.support.raw_server import OK, raw_server

ORDER = ("wallet-0004", "order-0056")
ORDER_COLUMNS = "orderId customerId walletId pair side quantity price status"


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("são", True),
        ("SAO T", True),
        (" tome ", True),
        ("ivorian", True),
        ("ci", True),
        ("CIV", True),
        ("xof", True),
        ("+225", True),
        ("225", True),
        ("", True),
        ("xo", False),
        ("c i v", False),
        ("43", False),
        ("22", False),
    ],
)
def test_search_is_in_names_and_whole_codes(search: str, found: bool) -> None:
    """Case, accents and white space around do not count; a part of a code is no match."""
    country = Country(
        id=43,
        country_name="São Tomé",
        nationality="Ivorian",
        three_digit_iso_code="CIV",
        two_digit_iso_code="CI",
        currency="XOF",
        phone_code="+225",
    )

    assert matches(country, search) == found


@pytest.mark.parametrize(
    ("command", "columns", "count"),
    [
        ("countries", " ".join(COLUMNS.values()), 236),  # some names take two lines
        # There is no room for the time, which is told.
        ("wallet orders --take 2", ORDER_COLUMNS, 7),
    ],
)
def test_tables_in_a_terminal_fit_80_columns(
    start_in_terminal: StartInTerminal, command: str, columns: str, count: int
) -> None:
    status, shown = start_in_terminal(
        *command.split(), "--sandbox", NO_COLOR="1", TERM="dumb"
    ).end()

    lines = [line.rstrip() for line in shown.splitlines()]
    assert status == 0
    assert lines[0].split() == columns.split()
    assert max(map(len, lines)) <= 80
    assert len(lines) in range(count, count + 40)
    if command.startswith("wallet"):
        assert lines[4:] == [
            "No room for: createdAt.",
            "A wider terminal shows all, and so does `| cat`.",
            "page 1, take 2, total 57",
        ]


def test_word_that_no_json_can_hold_is_refused(call_gateway: Call, served: Sandbox) -> None:
    ended = call_gateway("customer", "revise", "customer-0001", "key=\udcff")

    assert (ended.status, ended.out) == (2, "")
    assert ended.err.endswith("\nIs each argument in the encoding of the terminal?\n")
    assert not served.received


def test_example_is_what_create_takes(call_gateway: Call, tmp_path: Path) -> None:
    example = call_gateway("customer", "example")
    file = tmp_path / "ada.json"
    file.write_text(example.out, encoding="utf-8")

    ended = call_gateway("customer", "create", file, "--sandbox")

    assert (example.status, example.err, ended.status) == (0, "", 0)
    fields = json.loads(example.out)
    person = fields["person"]
    assert len(fields) == len(CreateRequest.model_fields)
    assert len(person) == len(PersonData.model_fields)
    assert len(person["addresses"][0]["address"]) == len(Address.model_fields)
    secrets = (person["pinCode"], person["password"], person["SecretQuestion"][0]["answer"])
    assert all(secret.startswith("EXAMPLE-") for secret in secrets)


def test_token_header_is_read_from_a_file(
    call_gateway: Call, served: Sandbox, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("from-a-file\nsecond line\n", encoding="utf-8")

    ended = call_gateway(
        "wallet", "orders", "--token-header-file", file, GATEWAY_TOKEN_HEADER="from-the-environment"
    )

    assert ended.status == 0
    assert served.received[-1].headers["token"] == "from-a-file"


@pytest.mark.parametrize(
    ("keys", "status", "received"), [("y\n", 0, 1), ("\n", 1, 0), ("\x04", 1, 0)]
)
def test_person_is_asked(
    start_in_terminal: StartInTerminal, served: Sandbox, keys: str, status: int, received: int
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


def test_interrupted_question_cancels_nothing(
    start_in_terminal: StartInTerminal, served: Sandbox
) -> None:
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


def test_upload_in_a_terminal_has_a_bar(
    start_in_terminal: StartInTerminal, served: Sandbox, tmp_path: Path
) -> None:
    path = tmp_path / "scan.bin"
    path.write_bytes(bytes(3_000_000))

    status, shown = start_in_terminal("aml", "upload", path).end()

    assert status == 0
    assert "/3.0 MB" in shown
    assert "\x1b[2K" in shown
    assert shown.index("The document is uploaded.") > shown.rindex("Uploading")


def test_typing_a_document_is_announced(
    start_in_terminal: StartInTerminal, served: Sandbox
) -> None:
    """Whoever reads from the terminal is told how to end it."""
    terminal = start_in_terminal("aml", "upload", "-")
    terminal.read_until("until Ctrl-D at the start of a line.")

    terminal.type("scan\n\x04")
    status, shown = terminal.end()

    assert status == 0
    assert '"size": 5' in shown


@pytest.mark.posix
async def test_status_is_kept_while_standard_input_stalls(
    gateway_env: Mapping[str, str], start_gateway: Start
) -> None:
    """The gateway may answer before the pipe ends, and the end of the process waits for none."""

    async def answer_early(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.readuntil(b"x")
        writer.write(OK.replace(b"200", b"503"))
        await reader.read()

    async with raw_server(answer_early) as base_url:
        process = start_gateway(
            "kyc", "webhook", "-", **{**gateway_env, "GATEWAY_BASE_URL": base_url}
        )
        batch = "x" * 2**16  # which is sent
        await asyncio.to_thread(print, batch, end="", file=process.stdin, flush=True)

        assert await asyncio.to_thread(process.wait) == 5
