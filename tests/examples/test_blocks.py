"""The code in the documents runs as a reader runs it."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from gateway_sdk.sandbox import SANDBOX_ACCESS_TOKEN
from tests.bulk.runs import rows
from tests.support import documents

PYTHON = documents.every("python")
TESTS = [block for block in PYTHON if (block.file or "").startswith("test_")]
PROGRAMS = [block for block in PYTHON if block not in TESTS]
CONSOLES = documents.every("console")


def by_name(block: documents.Block) -> str:
    return block.name


@pytest.fixture(scope="module")
def token_endpoint() -> Iterator[None]:
    """Serve a token of client credentials, as an authorization server does."""

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = self.rfile.read(int(self.headers["Content-Length"]))
            assert asked == b"grant_type=client_credentials"
            self.send_response(200)
            self.end_headers()
            grant = {"access_token": SANDBOX_ACCESS_TOKEN, "expires_in": 300}
            self.wfile.write(json.dumps(grant).encode())

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = Thread(target=server.serve_forever)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TOKEN_URL", f"http://127.0.0.1:{server.server_port}/token")
        patch.setenv("CLIENT_ID", "service")
        patch.setenv("CLIENT_SECRET", "shh")
        yield
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.usefixtures("token_endpoint")
@pytest.mark.parametrize("block", PROGRAMS, ids=by_name)
def test_every_program_of_the_documents_runs(
    gateway_env: dict[str, str], tmp_path: Path, block: documents.Block
) -> None:
    """A Python block is a whole program, beside the files that its document says to save."""
    documents.save_files(block.document, tmp_path)

    ended = documents.run_program(block.text, tmp_path)

    assert ended.status == 0, ended.err
    assert "Error" not in ended.err
    assert ended.out
    assert "404 Not Found" not in ended.out  # what the program asks for exists


@pytest.mark.parametrize("block", [block for block in CONSOLES if not block.serves], ids=by_name)
async def test_every_command_of_the_documents_runs(
    gateway_env: dict[str, str], tmp_path: Path, block: documents.Block
) -> None:
    """The commands of a console block end with status 0 at the sandbox, one after the other."""
    documents.save_files(block.document, tmp_path)

    ended = await documents.run_console(block, tmp_path, gateway_env["GATEWAY_BASE_URL"])

    assert block.commands
    assert ended.status == 0, ended.err
    assert_something_came(tmp_path)


def assert_something_came(folder: Path) -> None:
    """Every table has rows, and every journal has results."""
    for table in folder.glob("*.csv"):
        assert len(table.read_text().splitlines()) > 1, table
    for journal in folder.glob("*.db"):
        assert any(row["state"] == "done" for row in rows(journal)), journal


def test_a_line_of_a_program_is_seen_as_a_whole() -> None:
    """84 columns are seen beside the side bars of the site."""
    long = [
        f"{block.name}: {line}"
        for block in PYTHON
        for line in block.text.splitlines()
        if len(line) > 84
    ]

    assert not long


@pytest.mark.parametrize("block", TESTS, ids=by_name)
def test_every_file_of_tests_is_run_by_a_command(block: documents.Block) -> None:
    commands = [
        command
        for console in CONSOLES
        if console.document == block.document
        for command in console.commands
    ]

    assert f"pytest {block.file}" in commands


@pytest.mark.parametrize("block", [block for block in CONSOLES if block.serves], ids=by_name)
async def test_every_server_of_the_documents_starts(tmp_path: Path, block: documents.Block) -> None:
    """A block that starts the sandbox stands alone, is ready, and ends at Ctrl-C."""
    (command,) = block.commands

    ended = await documents.serve_until_ready(command, tmp_path)

    assert "export GATEWAY_BASE_URL=" in ended.out
    assert ended.status == 0, ended.err


def test_blocks_of_code_are_run_or_are_known_not_to_be() -> None:
    """A language that no test knows, such as a console written as `bash`, is not let through."""
    known = {"python", "console", "sh"}
    others = {"bash", "shell", "py", "pycon", "python3"}

    assert not documents.every(*others)
    assert all(documents.every(language) for language in known)
